// SPDX-License-Identifier: GPL-2.0

//! What the module's decider does with threads, pages and a completion thread around it.

use super::Engaged;
use crate::scenario::{
    Client, Costs, Engagement, Kind, Micros, Phase, Policy, Promise, Scenario, Shared, Span, Wait,
};
use crate::world::{Host, World};
use loga::engaged::{self, Mode, Prio, Terms, SHARED_QUEUE};
use loga::policies::dispatch::DispatcherKind;
use loga::units::Ns;
use std::collections::BTreeSet;

const SECOND: u64 = 1_000_000_000;
const US: u64 = 1_000;
/// From the read that shows an end until the next command runs, at most.
const NEXT_US: u64 = 60;
/// From an interrupt until a client that sleeps for it runs: as long as after a grant.
const WAKEUP_NS: u64 = 20_000;
/// How late the end is read of a command that takes as long as expected.
const SEEN_US: u64 = 30;

/// Kernels of one length, so many at once, that are waited for together.
fn kernels(us: u64, at_once: u32) -> Phase {
    Phase {
        depth: at_once,
        repeat: at_once.into(),
        ..Phase::new(Span::us(0), Span::us(us))
    }
}

fn client(name: &str, phases: Vec<Phase>) -> Client {
    Client::new(name, phases)
}

fn engaged(prio: Prio, mode: Mode, client: Client) -> Client {
    Client {
        engaged: Engagement {
            prio,
            mode,
            ..client.engaged
        },
        ..client
    }
}

/// What these clients do in some seconds.
fn run(clients: &[Client], cpus: &[Ns], shared: &[Shared], seconds: u64) -> World<Engaged> {
    let policy = Policy::of(Kind::Engaged(DispatcherKind::Prio));
    run_with(&policy, clients, cpus, shared, seconds)
}

fn run_with(
    policy: &Policy,
    clients: &[Client],
    cpus: &[Ns],
    shared: &[Shared],
    seconds: u64,
) -> World<Engaged> {
    let scenario = Scenario::new(Ns::ZERO, Costs::default());
    let clients: Vec<&Client> = clients.iter().collect();
    let control = Engaged::new(DispatcherKind::Prio, policy, &clients, shared).unwrap();
    let host = Host {
        cpus,
        ..Host::of(&scenario.gpus[0])
    };
    let mut world = World::new(&host, &clients, None, WAKEUP_NS, 1, control);
    world.machine.board.intervals = Some(Vec::new());
    assert!(!world.run(seconds * SECOND, &mut None));
    world
}

/// Commands on the engine: start, end, client.
fn intervals(world: &World<Engaged>) -> &[(u64, u64, usize)] {
    world.machine.board.intervals.as_deref().unwrap()
}

/// How many commands of one client ran in a row, but for the last ones.
fn rows(world: &World<Engaged>) -> Vec<usize> {
    let all = intervals(world).chunk_by(|one, next| one.2 == next.2);
    let mut rows: Vec<_> = all.map(<[_]>::len).collect();
    rows.pop();
    rows
}

fn commands(world: &World<Engaged>, client: usize) -> usize {
    let own = intervals(world).iter().filter(|one| one.2 == client);
    own.count()
}

#[test]
fn stores_through_one_window_are_one_submission() {
    let four = |name| client(name, vec![kernels(500, 4)]);
    let world = run(&[four("a"), four("b")], &[], &[], 1);
    let rows = rows(&world);
    assert!(rows.len() > 400, "{rows:?}");
    assert!(rows.iter().all(|row| *row == 4), "{rows:?}");
    let grants = world.control.counters().grants;
    assert!(grants.abs_diff(rows.len() as u64) <= 2, "{grants}");
}

#[test]
fn store_after_the_window_is_another_submission() {
    let four = |name| {
        let mut phase = kernels(500, 4);
        phase.cpu = Span::us(100);
        client(name, vec![phase])
    };
    let world = run(&[four("a"), four("b")], &[], &[], 1);
    let rows = rows(&world);
    assert!(rows.len() > 1_500, "{rows:?}");
    assert!(rows.iter().all(|row| *row == 1), "{rows:?}");
}

#[test]
fn store_through_an_open_page_costs_its_client_nothing() {
    let alone = |at_once: u32| {
        let mut phase = kernels(500, at_once);
        phase.cpu = Span::us(0);
        let world = run(&[client("a", vec![phase])], &[], &[], 1);
        let counters = world.control.counters();
        (counters.grants, commands(&world, 0))
    };
    let ((grants, one), (windows, many)) = (alone(1), alone(8));
    assert!(
        grants.abs_diff(one as u64) <= 1,
        "{grants} grants, {one} commands"
    );
    assert!(
        (windows * 8).abs_diff(many as u64) <= 8,
        "{windows} windows, {many} commands"
    );
    assert!(many > one);
}

#[test]
fn end_of_a_command_that_lasts_longer_than_expected_is_seen_late_by_200_us_at_most() {
    // Fifty commands of 1 ms come before each of 30 ms.
    let short = Phase {
        repeat: 50,
        ..kernels(1_000, 1)
    };
    let a = client("a", vec![short, kernels(30_000, 1)]);
    let world = run(&[a, client("b", vec![kernels(1_000, 1)])], &[], &[], 3);
    let all = intervals(&world);
    // Those that begin are not known yet.
    let late = all.windows(2).filter_map(|pair| {
        let ((start, end, _), (next, ..)) = (pair[0], pair[1]);
        (end - start > 20_000 * US).then_some((next - end) / US)
    });
    let late: Vec<_> = late.collect();
    let latest = *late.iter().max().unwrap();
    assert!(late.len() > 10);
    assert!((150..=200 + NEXT_US).contains(&latest), "{late:?}");
}

#[test]
fn grant_of_a_client_without_its_processor_comes_back_after_200_us() {
    let computes = Phase {
        kernel: None,
        ..Phase::new(Span::us(50_000), Span::us(0))
    };
    let on = |cpu, client| Client { cpu, ..client };
    let clients = [
        on(Some(0), client("a", vec![kernels(500, 1)])),
        on(Some(0), client("computes", vec![computes])),
        on(None, client("b", vec![kernels(500, 1)])),
    ];
    let slice = Ns::from_us(3_000);
    let world = run(&clients, &[slice], &[], 1);
    let unused = world.control.counters().unused;
    assert!(unused > 50, "{unused}");
    // The engine is idle for no longer than that, or 260 us if it lost its processor at its store.
    let all = intervals(&world);
    let gaps = all
        .windows(2)
        .skip(20)
        .map(|pair| (pair[1].0 - pair[0].1) / US);
    let longest = gaps.max().unwrap();
    assert!(
        (200..=200 + SEEN_US + 2 * NEXT_US).contains(&longest),
        "{longest}"
    );
    let [a, b] = [0, 2].map(|client| commands(&world, client));
    assert!(a > 100, "{a} {b}");
    assert!(b > 1_000, "{a} {b}");
}

#[test]
fn clients_of_one_user_share_twelve_places() {
    let of = |user: &str, number: u32| Client {
        user: Some(user.to_owned()),
        ..client(&format!("{user}-{number}"), vec![kernels(200, 1)])
    };
    let clients: Vec<_> = (0..20).map(|number| of("many", number)).collect();
    let world = run(&[clients, vec![of("one", 0)]].concat(), &[], &[], 2);
    let places: Vec<_> = world
        .control
        .members
        .iter()
        .map(|one| one.at.unwrap())
        .collect();
    let distinct = |places: &[usize]| places.iter().collect::<BTreeSet<_>>().len();
    assert_eq!((distinct(&places[..20]), distinct(&places)), (12, 13));
    let all: Vec<_> = (0..21).map(|client| commands(&world, client)).collect();
    // Turns are divided between places: eight of them have two clients.
    assert!(all.iter().all(|commands| *commands > 150), "{all:?}");
    let most = all.iter().max();
    assert_eq!(most, Some(&all[20]).max(most), "{all:?}");
    assert!(all[16] < all[20] * 2 / 3, "{all:?}");
}

#[test]
fn clients_without_a_place_share_one_whose_priority_is_that_of_nice_0() {
    let low = |number| {
        let one = client(&format!("low-{number}"), vec![kernels(100, 1)]);
        engaged(Prio::NORMAL, Mode::Prt, one)
    };
    let mut clients: Vec<_> = (0..47).map(low).collect();
    clients.push(engaged(
        Prio::HIGHEST,
        Mode::Prt,
        client("late", vec![kernels(100, 1)]),
    ));
    let world = run(&clients, &[], &[], 2);
    assert_eq!(world.control.members[47].at, Some(SHARED_QUEUE));
    let all: Vec<_> = (0..48).map(|client| commands(&world, client)).collect();
    // It has no more turns than each of the others.
    assert!(all[47].abs_diff(all[0]) <= 2, "{all:?}");
}

#[test]
fn seventeenth_page_of_protected_clients_is_decided_on() {
    let protected = |number| {
        let phase = Phase::new(Span::us(5_000), Span::us(10));
        let one = client(&format!("protected-{number}"), vec![phase]);
        engaged(Prio::NORMAL, Mode::Protected, one)
    };
    let faults = |count| {
        let clients: Vec<_> = (0..count).map(protected).collect();
        let world = run(&clients, &[], &[], 1);
        let passing = world.control.members.iter().filter(|one| one.passes);
        (passing.count(), world.control.ledger.faults)
    };
    assert_eq!(faults(16), (16, 0));
    let (passing, faults) = faults(17);
    assert_eq!(passing, 16);
    assert!(faults > 100, "{faults}");
}

#[test]
fn work_of_a_protected_client_is_read_and_waited_for() {
    let protected = client(
        "protected",
        vec![Phase::new(Span::us(4_000), Span::us(6_000))],
    );
    let clients = [
        engaged(Prio::NORMAL, Mode::Protected, protected),
        client("other", vec![kernels(500, 1)]),
    ];
    let world = run(&clients, &[], &[], 1);
    // The other has the pauses, and one command that was there when they ended.
    let all = intervals(&world);
    let ends = all.iter().filter(|one| one.2 == 0).map(|one| one.1);
    let beside = |end: &u64| {
        let next = all.iter().find(|one| one.0 >= *end && one.2 == 1);
        next.map(|one| (one.0 - end) / US)
    };
    let waits: Vec<_> = ends.filter_map(|end| beside(&end)).collect();
    // Its end is read late by a sixteenth of its length.
    let most = 6_000 / 16 + NEXT_US + SEEN_US;
    assert!(waits.len() > 80, "{waits:?}");
    assert!(waits.iter().all(|us| *us <= most), "{waits:?}");
    assert!(waits.iter().any(|us| *us > NEXT_US + SEEN_US), "{waits:?}");
    assert_eq!(world.blocked(0), 0);
}

#[test]
fn client_of_the_lowest_priority_passes_once_a_second() {
    let clients = [
        engaged(
            Prio::HIGHEST,
            Mode::Ht,
            client("first", vec![kernels(5_000, 4)]),
        ),
        engaged(
            Prio::LOWEST,
            Mode::Prt,
            client("last", vec![kernels(5_000, 1)]),
        ),
    ];
    let world = run(&clients, &[], &[], 6);
    let (last, starved) = (commands(&world, 1), world.control.counters().starved);
    assert!((5..=6).contains(&last), "{last}");
    assert!(starved >= 4, "{starved}");
}

#[test]
fn submission_is_charged_to_its_reserve_from_its_window_to_the_read_of_its_end() {
    let terms = Terms::new(engaged::Kind::Pe, Ns::from_us(2_500), Ns::from_us(25_000)).unwrap();
    let promised = |us| {
        let mut one = client("promised", vec![kernels(us, 1)]);
        one.engaged.promise = Some(Promise::Own(terms));
        let world = run(&[one], &[], &[], 10);
        let used = world.machine.board.usage(0, loga_model::gpu::GR).run;
        let charged = world.control.members[0].charged.unwrap();
        // CAST: seconds.
        (used as f64 / 1e8, charged as f64 / 1e8)
    };
    let (used, charged) = promised(100);
    assert!((9.8..=10.2).contains(&charged), "{used} {charged}");
    assert!(used < 0.95 * charged, "{used} {charged}");
    let (used, charged) = promised(2_000);
    assert!((9.8..=10.2).contains(&charged), "{used} {charged}");
    assert!(used > 0.97 * charged, "{used} {charged}");
}

#[test]
fn submission_costs_what_it_does_in_the_module() {
    // `tests/bench/run dispatch` at 8d61101, see docs/engaged-figures.md: kernels of so many us, and
    // how long each takes without a dispatcher and under `prio`.
    let measured = [
        (33, 47.0, 109.9),
        (100, 116.8, 175.9),
        (1_000, 1_014.0, 1_069.5),
        (5_000, 5_019.1, 5_069.8),
    ];
    let mut off = Vec::<u64>::new();
    for (us, none, prio) in measured {
        let one = |name| Client {
            wait: Wait::Block,
            ..client(name, vec![kernels(us, 1)])
        };
        let world = run(&[one("a"), one("b")], &[], &[], 4);
        // Lengths are known after a second. CAST: thousands.
        let known = intervals(&world).iter().filter(|one| one.0 >= SECOND);
        let cycle = 3e6 / known.count() as f64;
        // The model of the GPU in the virtual machine takes time for a switch, which is in both.
        let (costs, module) = (cycle - us as f64, prio - none);
        println!("{us} us: {costs:.1} us, in the module {module:.1}");
        off.extend(((costs - module).abs() > 10.0).then_some(us));
    }
    assert_eq!(off, [0; 0]);
}

#[test]
fn ends_at_a_tick_are_read_at_ticks_only() {
    let policy = Policy {
        tick: Micros(Ns::from_ms(1)),
        ..Policy::of(Kind::Engaged(DispatcherKind::Prio))
    };
    let world = run_with(&policy, &[client("a", vec![kernels(100, 1)])], &[], &[], 1);
    let count = commands(&world, 0);
    assert!((990..=1_000).contains(&count), "{count}");
}
