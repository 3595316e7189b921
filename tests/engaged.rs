// SPDX-License-Identifier: GPL-2.0

//! Properties of reserves of engaged clients, whatever the commands are.

use loga::engaged::{Kind, Reserve, Terms};
use loga::units::Ns;
use proptest::prelude::*;

/// Commands of a client.
#[derive(Clone, Debug)]
struct Load {
    terms: Terms,
    /// Of each command: what it takes, what is expected of it, and the time until the client comes
    /// back after it, in microseconds.
    commands: Vec<(u64, u64, u64)>,
}

/// When commands ran, from and to.
type Runs = Vec<(u64, u64)>;

impl Load {
    /// Runs all commands on an engine that no other client uses.
    fn run(&self) -> Runs {
        let mut reserve = Reserve::new(self.terms, Ns::ZERO);
        let (mut now, mut runs) = (Ns::ZERO, Runs::new());
        for (used, expected, pause) in &self.commands {
            let (used, expected) = (Ns::from_us(*used), Ns::from_us(*expected));
            reserve.wait(now, expected);
            let from = reserve.offer(now, expected).from;
            assert!(from >= now);
            now = from;
            assert_eq!(reserve.offer(now, expected).from, now, "an offer holds");
            reserve.stop_waiting(now);
            reserve.start(now, expected);
            let begin = now.get();
            now = now.saturating_add(used);
            reserve.end(now, expected, used);
            runs.push((begin, now.get()));
            now = now.saturating_add(Ns::from_us(*pause));
        }
        runs
    }

    fn longest(&self) -> u64 {
        let longest = self.commands.iter().map(|(used, ..)| used * 1000).max();
        longest.unwrap_or(0)
    }
}

/// What is used in each window from the begin of a run to the end of one, with its length. No other
/// window of that length has more.
fn windows(runs: &Runs) -> impl Iterator<Item = (u64, u64)> + '_ {
    (0..runs.len()).flat_map(move |first| {
        let mut used = 0;
        runs[first..].iter().map(move |(begin, end)| {
            used += end - begin;
            (end - runs[first].0, used)
        })
    })
}

fn terms(kind: Kind) -> impl Strategy<Value = Terms> {
    (10..5_000_u64, 1_000..50_000_u64).prop_map(move |(capacity, period)| {
        let capacity = Ns::from_us(capacity.min(period));
        Terms::new(kind, capacity, Ns::from_us(period)).unwrap()
    })
}

/// Commands of which exactly what they take is expected, with pauses of up to `pause`.
fn exact(kind: Kind, pause: u64) -> impl Strategy<Value = Load> {
    let command = (1..8_000_u64, 0..=pause).prop_map(|(used, pause)| (used, used, pause));
    (terms(kind), prop::collection::vec(command, 1..80))
        .prop_map(|(terms, commands)| Load { terms, commands })
}

/// Commands of which anything is expected.
fn guessed(kind: Kind) -> impl Strategy<Value = Load> {
    let command = (1..8_000_u64, 1..8_000_u64, 0..20_000_u64);
    (terms(kind), prop::collection::vec(command, 1..80))
        .prop_map(|(terms, commands)| Load { terms, commands })
}

/// A part of a time, rounded up.
fn part(time: u64, terms: &Terms) -> u64 {
    let (c, t) = (
        u128::from(terms.capacity.get()),
        u128::from(terms.period.get()),
    );
    u64::try_from((u128::from(time) * c).div_ceil(t)).unwrap()
}

/// The bound in the header of `posterior`.
fn is_below_the_bound_of_posterior(load: &Load) -> Result<(), TestCaseError> {
    let (c, t) = (load.terms.capacity.get(), load.terms.period.get());
    for (window, used) in windows(&load.run()) {
        let bound = (window / t + 2) * c + load.longest();
        prop_assert!(used <= bound, "{used} in {window}, more than {bound}");
    }
    Ok(())
}

/// A command that began with a whole capacity left and ran over the end of a period left its client
/// almost two.
#[test]
fn command_over_the_end_of_a_period_leaves_one_capacity_at_most() {
    let (capacity, period) = (Ns::from_us(4051), Ns::from_us(25_891));
    let used = [753, 941, 40, 1404, 451, 2776, 218, 7305, 7305];
    let pauses = [10_530, 13_627, 7926, 0, 0, 0, 0, 0, 0];
    let load = Load {
        terms: Terms::new(Kind::Pe, capacity, period).unwrap(),
        commands: used
            .into_iter()
            .zip(pauses)
            .map(|(used, pause)| (used, 1, pause))
            .collect(),
    };
    is_below_the_bound_of_posterior(&load).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn posterior_uses_no_more_than_its_bound_in_any_window(load in guessed(Kind::Pe)) {
        is_below_the_bound_of_posterior(&load)?;
    }

    /// PE pays every overrun: in the long run a client that always wants more gets its part.
    #[test]
    fn posterior_gives_a_client_that_always_wants_more_its_part(load in exact(Kind::Pe, 0)) {
        let runs = load.run();
        let (_, end) = runs[runs.len() - 1];
        let used: u64 = runs.iter().map(|(begin, end)| end - begin).sum();
        let (c, promised) = (load.terms.capacity.get(), part(end, &load.terms));
        prop_assert!(used + 2 * c + load.longest() >= promised);
        prop_assert!(used <= promised + 2 * c + load.longest());
    }

    /// The upper bound in the header of `bandwidth`.
    #[test]
    fn bandwidth_uses_no_more_than_its_bound_in_any_window(load in exact(Kind::Cbs, 20_000)) {
        let c = load.terms.capacity.get();
        for (window, used) in windows(&load.run()) {
            // A nanosecond is lost for each command at most.
            let bound = part(window, &load.terms) + c + load.longest() + 80;
            prop_assert!(used <= bound, "{used} in {window}, more than {bound}");
        }
    }

    /// The lower one: nothing is wasted, and commands longer than the capacity do not starve.
    #[test]
    fn bandwidth_gives_a_client_that_always_wants_more_its_part(load in exact(Kind::Cbs, 0)) {
        let runs = load.run();
        let (_, end) = runs[runs.len() - 1];
        let used: u64 = runs.iter().map(|(begin, end)| end - begin).sum();
        let c = load.terms.capacity.get();
        prop_assert!(used + c + load.longest() >= part(end, &load.terms));
    }

    /// Debts are paid, also those of commands of which too little was expected.
    #[test]
    fn bandwidth_forgives_no_debt(load in guessed(Kind::Cbs)) {
        let c = load.terms.capacity.get();
        for (window, used) in windows(&load.run()) {
            // Too much that was expected costs at most that much once.
            let bound = part(window, &load.terms) + 2 * c + 2 * 8_000_000;
            prop_assert!(used <= bound, "{used} in {window}, more than {bound}");
        }
    }

    /// AE never starts what is expected not to fit, so it stays below its bound.
    #[test]
    fn apriori_uses_no_more_than_its_bound_in_any_window(load in exact(Kind::Ae, 20_000)) {
        let (c, t) = (load.terms.capacity.get(), load.terms.period.get());
        for (window, used) in windows(&load.run()) {
            prop_assert!(used <= (window / t + 2) * c + load.longest());
        }
    }

    /// No command waits for ever, however long it is.
    #[test]
    fn every_command_starts_within_the_time_it_takes_to_pay(
        kind in prop::sample::select(vec![Kind::Pe, Kind::Ae, Kind::Cbs]),
        load in guessed(Kind::Pe),
    ) {
        let terms = Terms { kind, ..load.terms };
        let runs = Load { terms, ..load.clone() }.run();
        let mut owed = 0;
        let mut before = 0;
        for ((begin, end), (used, expected, pause)) in runs.iter().zip(&load.commands) {
            let most = (owed + used.max(expected) * 1000).div_ceil(terms.capacity.get()) + 2;
            prop_assert!(begin - before <= most * terms.period.get());
            owed += used * 1000;
            before = end + pause * 1000;
        }
    }
}
