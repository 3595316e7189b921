// SPDX-License-Identifier: GPL-2.0

use super::known::{newcomer, History, Record, Signals};
use super::*;
use crate::scenario::{Client, Footprint, Phase, Scenario, Span};
use crate::world::{Host, World};
use loga::placement::{Demand, Placement, PPM};
use loga::policies::PolicyKind;
use loga::units::{Ns, Weight};
use loga_model::gpu::GR;

/// One GPU of this speed in each of the nodes.
fn places(speeds_pct: &[u64]) -> Vec<PoolGpu> {
    let place = |(node, pct): (usize, &u64)| PoolGpu {
        node,
        speed: pct * PPM / 100,
        packed: false,
    };
    speeds_pct.iter().enumerate().map(place).collect()
}

/// A program that computes, copies and waits for a kernel, 100 times, for 1 ms each time.
fn program(at_ms: u64) -> Arrival {
    let phase = Phase {
        copy: Some(Span::us(200)),
        ..Phase::new(Span::us(500), Span::us(300))
    };
    Arrival {
        application: 0,
        node: 0,
        gpu: None,
        known: false,
        client: Client {
            arrive: Ns::from_ms(at_ms),
            channels: 2,
            repeat: Some(100),
            ..Client::new("program", vec![phase])
        },
    }
}

/// Programs of random times that arrive every 10 ms.
fn stream() -> Vec<Arrival> {
    let phase = Phase::new(Span::Exponential(500e3), Span::Exponential(400e3));
    let one = |number: u64| {
        let arrival = program(10 * number);
        let client = Client {
            phases: vec![phase],
            ..arrival.client
        };
        Arrival { client, ..arrival }
    };
    (0..100).map(one).collect()
}

fn ends(places: &[PoolGpu], arrivals: &[Arrival], rule: Rule, seed: u64) -> Vec<Placed> {
    run(places, arrivals, rule, seed).unwrap()
}

/// GPUs without a scheduler.
fn pool<'a>(places: &'a [PoolGpu], arrivals: &'a [Arrival], rule: Rule) -> Pool<'a, Hardware> {
    Pool::new((places, arrivals, rule, 1), |_, _| Ok(Hardware)).unwrap()
}

/// The GPUs that were chosen.
fn chosen(places: &[PoolGpu], arrivals: &[Arrival], rule: Rule) -> Vec<usize> {
    let placed = ends(places, arrivals, rule, 1);
    placed.iter().map(|one| one.gpu).collect()
}

#[test]
fn program_alone_takes_its_time_on_the_fastest_gpu_and_longer_on_a_slow_one() {
    let one = [program(3)];
    let rule = Rule::of(Placement::Gmin);
    assert_eq!(
        ends(&places(&[100]), &one, rule, 1)[0].completion,
        100_000_000
    );
    assert_eq!(
        ends(&places(&[50]), &one, rule, 1)[0].completion,
        150_000_000
    );
    assert_eq!(
        chosen(
            &places(&[50, 100]),
            &[Arrival {
                node: 1,
                ..program(3)
            }],
            rule
        ),
        [1]
    );
}

#[test]
fn every_program_ends_and_none_before_its_time_alone() {
    let (places, arrivals) = (places(&[47, 100]), stream());
    for policy in Placement::ALL {
        let placed = ends(&places, &arrivals, Rule::of(*policy), 1);
        assert_eq!(placed.len(), arrivals.len());
        for number in [0, 10, 50, 99] {
            let one = placed[number];
            let least = alone(&places[one.gpu..=one.gpu], &arrivals, number);
            assert!(one.completion >= least, "{policy:?}: {number}");
        }
        let waited = placed.iter().map(|one| one.completion).max();
        assert!(waited > placed.iter().map(|one| one.completion).min());
    }
}

/// The time of a program on a GPU of its own, with the random numbers that it has among others.
fn alone(places: &[PoolGpu], arrivals: &[Arrival], number: usize) -> u64 {
    let mut pool = pool(places, arrivals, Rule::of(Placement::Gmin));
    let world = &mut pool.worlds[0];
    world.admit(number);
    world.run(50_000_000_000, &mut None);
    world.gone(number).unwrap() - arrivals[number].client.arrive.get()
}

#[test]
fn run_with_the_same_seed_gives_the_same_and_another_seed_does_not() {
    let (places, arrivals, rule) = (places(&[47, 100]), stream(), Rule::of(Placement::Wait));
    let first = ends(&places, &arrivals, rule, 1);
    assert_eq!(first, ends(&places, &arrivals, rule, 1));
    assert_ne!(first, ends(&places, &arrivals, rule, 2));
}

#[test]
fn world_with_a_client_that_is_admitted_late_equals_one_that_knew_it_would_come() {
    let arrivals = stream();
    let clients: Vec<_> = arrivals[..3].iter().map(|one| &one.client).collect();
    let scenario = Scenario::new(Ns::ZERO, Costs::default());
    let host = Host::of(&scenario.gpus[0]);
    let mut whole = World::new(&host, &clients, None, 0, 1, Hardware);
    let mut late = World::awaiting(&host, &clients, 0, 1, Hardware);
    for (number, client) in clients.iter().enumerate() {
        late.run(client.arrive.get(), &mut None);
        late.admit(number);
    }
    for world in [&mut whole, &mut late] {
        world.run(10_000_000_000, &mut None);
    }
    let result = |world: &World<Hardware>| {
        let clients = (0..3).map(|at| (world.gone(at), world.machine.board.usage(at, GR)));
        let clients: Vec<_> = clients.collect();
        (clients, world.machine.now(), world.machine.board.events())
    };
    assert_eq!(result(&whole), result(&late));
    assert!(whole.gone(2).is_some());
}

#[test]
fn program_that_starts_with_another_is_seen_with_claims_only() {
    let (places, arrivals) = (places(&[100, 100]), [program(3), program(3)]);
    for policy in [Placement::Wait, Placement::Gmin, Placement::Guf] {
        let rule = Rule::of(policy);
        assert_eq!(chosen(&places, &arrivals, rule), [0, 1]);
        let blind = Rule {
            claims: false,
            ..rule
        };
        assert_eq!(chosen(&places, &arrivals, blind), [0, 0]);
    }
}

#[test]
fn policy_that_needs_history_chooses_as_gwtmin_without() {
    let (places, mut arrivals) = (places(&[47, 100]), stream());
    let choices = |arrivals: &[Arrival], policy| chosen(&places, arrivals, Rule::of(policy));
    for policy in [Placement::Rtf, Placement::Guf, Placement::Dtf] {
        for (number, one) in arrivals.iter_mut().enumerate() {
            one.application = number % 2;
            let kernel = [Span::us(900), Span::us(20)][number % 2];
            one.client.phases[0].kernel = Some(kernel);
        }
        let learns = choices(&arrivals, policy);
        assert_ne!(learns, choices(&arrivals, Placement::Gwtmin), "{policy:?}");
        let numbered = arrivals.iter_mut().enumerate();
        numbered.for_each(|(number, one)| one.application = number);
        let first = choices(&arrivals, policy);
        assert_eq!(first, choices(&arrivals, Placement::Gwtmin), "{policy:?}");
    }
}

#[test]
fn program_that_has_ended_is_no_longer_counted() {
    let (places, rule) = (places(&[100, 100]), Rule::of(Placement::Gmin));
    let at = |last: u64| [3, 4, 5, last].map(program);
    assert_eq!(chosen(&places, &at(50), rule), [0, 1, 0, 1]);
    assert_eq!(chosen(&places, &at(500), rule), [0, 1, 0, 0]);
}

#[test]
fn each_node_has_its_own_turn_if_programs_stay_in_it() {
    let mut places = places(&[100, 100, 100, 100]);
    (0..4).for_each(|gpu| places[gpu].node = gpu / 2);
    let starts = [0, 1, 0, 1, 1, 0].map(|node| Arrival { node, ..program(3) });
    let rule = Rule::of(Placement::Grr);
    assert_eq!(chosen(&places, &starts, rule), [0, 1, 2, 3, 0, 1]);
    let within = Rule {
        within: true,
        ..rule
    };
    assert_eq!(chosen(&places, &starts, within), [0, 2, 1, 3, 2, 0]);
}

#[test]
fn use_of_a_program_that_waits_is_what_it_would_use_alone() {
    let hog = Client {
        repeat: Some(100_000),
        ..Client::new("hog", vec![Phase::new(Span::us(0), Span::us(300))])
    };
    let mut arrivals = vec![program(0); 3];
    arrivals[1].client = hog;
    (0..3).for_each(|at| arrivals[at].client.repeat = Some(10_000));
    let rule = Rule::of(Placement::Wait);
    let speeds = places(&[50]);
    let mut pool = pool(&speeds, &arrivals, rule);
    (0..3).for_each(|number| pool.place(number));
    pool.advance(5_000_000_000);
    let demand = |pool: &Pool<'_, Hardware>, number: usize| {
        let gpu = Signals {
            open: true,
            local: true,
            speed: PPM / 2,
            bound: Vec::new(),
        };
        pool.bound(number, &gpu).unwrap().demand
    };
    // 600 us of 1500 us on a GPU of half the speed.
    let waits = demand(&pool, 0);
    assert!(waits.want.abs_diff(400_000) < 5_000, "{waits:?}");
    assert!(waits.copy.abs_diff(266_666) < 5_000, "{waits:?}");
    assert!(waits.run.get().abs_diff(600_000) < 500, "{waits:?}");
    assert!(demand(&pool, 1).want.abs_diff(PPM) < 5_000);
}

#[test]
fn what_was_assumed_counts_until_use_is_known() {
    let arrivals = [program(0)];
    let speeds = places(&[100]);
    let rule = Rule::of(Placement::Wait).shortened(100);
    let mut pool = pool(&speeds, &arrivals, rule);
    pool.place(0);
    let gpu = Signals {
        open: true,
        local: true,
        speed: PPM,
        bound: Vec::new(),
    };
    let want = |pool: &Pool<'_, Hardware>| pool.bound(0, &gpu).unwrap().demand.want;
    pool.advance(19_000_000);
    assert_eq!(want(&pool), Demand::UNKNOWN.want);
    pool.advance(20_000_000);
    assert_eq!(want(&pool), 300_000);
}

#[test]
fn history_counts_after_three_runs_and_is_of_the_fastest_gpu() {
    let whole = Record::of(&program(0).client);
    let mut history = History::default();
    // What it takes and uses on a GPU of half the speed.
    let slow = Record {
        time: 150e6,
        compute: 60e6,
        copy: 40e6,
        kernels: 100.0,
    };
    for runs in 0..3 {
        assert_eq!(history.mean(0), None, "after {runs}");
        history.learn(0, slow.at(0.5));
    }
    assert_eq!(history.mean(0), Some(whole));
    assert_eq!(history.mean(1), None);
    let known = newcomer(history.mean(0), Weight::DEFAULT);
    assert_eq!(known.time, Some(Ns::from_ms(100)));
    assert_eq!(known.demand.want, 300_000);
    assert_eq!(known.demand.run, Ns::from_us(300));
    assert!(!newcomer(None, Weight::DEFAULT).known);
}

#[test]
fn runs_beside_others_teach_what_a_program_takes_alone() {
    let arrivals = [program(0), program(0), program(0), program(0)];
    let (speeds, rule) = (places(&[50]), Rule::of(Placement::Gmin));
    let mut pool = pool(&speeds, &arrivals, rule);
    (0..4).for_each(|number| pool.place(number));
    pool.advance(10_000_000_000);
    let mean = pool.history.mean(0).unwrap();
    assert!((mean.time - 100e6).abs() < 1e3, "{mean:?}");
    assert!((mean.compute - 30e6).abs() < 1e3, "{mean:?}");
    assert!(pool
        .placed
        .iter()
        .all(|one| one.placed.completion > 160_000_000));
}

#[test]
fn program_without_an_end_is_refused() {
    let mut arrival = program(0);
    arrival.client.repeat = None;
    arrival.client.phases = vec![Phase::new(Span::us(1_000_000), Span::us(1_000))];
    let result = run(&places(&[100]), &[arrival], Rule::of(Placement::Gmin), 1);
    assert!(matches!(result, Err(Error::Unfinished(name)) if name == "program"));
}

/// Two programs that always want the GPU, for 400 ms of kernels of 1 ms each, of these weights.
fn hogs(weights: [u32; 2]) -> Vec<Arrival> {
    let hog = |weight| Client {
        repeat: Some(400),
        weight: Weight::new(weight).unwrap(),
        ..Client::new("hog", vec![Phase::new(Span::us(0), Span::us(1_000))])
    };
    let one = |weight| Arrival {
        client: hog(weight),
        ..program(0)
    };
    weights.map(one).into()
}

#[test]
fn scheduler_on_the_gpu_gives_the_heavier_program_more_and_it_ends_first() {
    let (place, rule) = (places(&[100]), Rule::of(Placement::Gmin));
    let under = |kind, weights| {
        let policy = Policy::paper(kind);
        let ended = run_under(&place, &hogs(weights), rule, &policy, 1).unwrap();
        // CAST: times in a run are exact in a double.
        [0, 1].map(|at: usize| ended[at].completion as f64 / 1e6)
    };
    // Both have had the half of 800 ms, but for the last kernel and the switches.
    let none = under(Kind::Hardware, [300, 100]);
    assert!((none[0] - none[1]).abs() < 2.0, "{none:?}");
    // Three quarters of the time, 400 ms of it its own.
    let turns = under(Kind::Loga(PolicyKind::TimesliceEngaged), [300, 100]);
    assert!((turns[0] - 400.0 * 4.0 / 3.0).abs() < 45.0, "{turns:?}");
    assert!(turns[1] > 790.0, "{turns:?}");
}

#[test]
fn longest_time_held_is_that_of_a_turn_of_the_other() {
    let (place, rule) = (places(&[100]), Rule::of(Placement::Gmin));
    let held = |kind| {
        let ended = run_under(&place, &hogs([100, 100]), rule, &Policy::paper(kind), 1).unwrap();
        // CAST: times in a run are exact in a double.
        ended.iter().map(|one| one.held).max().unwrap() as f64 / 1e6
    };
    assert_eq!(held(Kind::Hardware), 0.0);
    // A slice is 30 ms; the kernel that runs at its end, and the gates, add 2 ms at most.
    let turn = held(Kind::Loga(PolicyKind::TimesliceEngaged));
    assert!((29.0..33.0).contains(&turn), "{turn}");
    let turn = held(Kind::Exclusive);
    assert!((400.0..402.0).contains(&turn), "{turn}");
}

#[test]
fn what_a_program_used_is_of_the_time_for_which_it_was_not_held() {
    // Held for half of the time, it wants the whole GPU all the same.
    let asked = (
        &places(&[100])[..],
        &hogs([100, 100])[..],
        Rule::of(Placement::Gmin),
        1,
    );
    let mut pool = Pool::new(asked, |_, clients| {
        let policy = Policy::paper(Kind::Exclusive);
        Ok(Exclusive::new(clients, &policy, 0))
    })
    .unwrap();
    pool.place(0);
    pool.place(1);
    pool.advance(200_000_000);
    let used = pool.used(0, 200_000_000);
    assert!((used.compute / used.time - 1.0).abs() < 1e-3, "{used:?}");
    let waits = pool.used(1, 200_000_000);
    assert!(waits.time < 1e6, "{waits:?}");
}

/// The completion times of these programs on one packed GPU, in ms.
fn packed_ms(arrivals: &[Arrival], speed_pct: u64) -> Vec<f64> {
    let place = PoolGpu {
        packed: true,
        ..places(&[speed_pct])[0]
    };
    let ended = ends(&[place], arrivals, Rule::of(Placement::Gmin), 1);
    // CAST: times in a run are exact in a double.
    let ms = |one: &Placed| one.completion as f64 / 1e6;
    ended.iter().map(ms).collect()
}

#[test]
fn kernels_of_a_packed_gpu_share_it_and_small_ones_do_not_wait() {
    let hogs = |fill, bandwidth| {
        let mut hogs = hogs([100, 100]);
        for one in &mut hogs {
            one.client.footprint = Footprint { fill, bandwidth };
        }
        hogs
    };
    assert_eq!(packed_ms(&hogs(1.0, 0.0), 100), [800.0, 800.0]);
    assert_eq!(packed_ms(&hogs(0.5, 0.0), 100), [400.0, 400.0]);
    assert_eq!(packed_ms(&hogs(0.5, 0.0), 50), [800.0, 800.0]);
    // Each uses three quarters of the bandwidth alone, and has a half.
    let bound = packed_ms(&hogs(0.5, 0.75), 100);
    assert!((bound[0] - 600.0).abs() < 0.1, "{bound:?}");
}

#[test]
fn program_alone_takes_as_long_on_a_packed_gpu() {
    assert_eq!(packed_ms(&[program(3)], 100), [100.0]);
    assert_eq!(packed_ms(&[program(3)], 50), [150.0]);
}

#[test]
fn mbf_keeps_programs_apart_that_use_the_memory_once_they_are_known() {
    let mut arrivals: Vec<_> = (0..6).map(|number| program(1_000 * number)).collect();
    // Two that use all of the memory come first, and at the end one more of each kind.
    for (number, one) in arrivals.iter_mut().enumerate() {
        let uses = [0, 2, 3].contains(&number);
        one.known = true;
        one.application = usize::from(uses);
        one.client.arrive = Ns::from_ms(3);
        one.client.footprint = Footprint {
            fill: 0.5,
            bandwidth: f64::from(u8::from(uses)),
        };
    }
    let rule = Rule::by(Chooser::Mbf);
    let chosen = chosen(&places(&[100, 100]), &arrivals, rule);
    // After one of each, the second that uses the memory goes to the GPU of the other.
    assert_eq!(chosen[..3], [0, 1, 1]);
    let on = |gpu| {
        let uses = [0, 2, 3].iter().filter(|at| chosen[**at] == gpu);
        uses.count()
    };
    assert!(on(0).abs_diff(on(1)) == 1, "{chosen:?}");
}
