// SPDX-License-Identifier: GPL-2.0

//! `[double]` GPUs whose clients share processors: their worlds advance together, event by event.
//!
//! What is due at the same time happens world by world, and again, until nothing is left to do.

use crate::scenario::Client;
use crate::world::{Control, Cpus, World, STEPS_MAX};
use loga::units::Ns;
use std::ops::Range;

/// Worlds that share processors.
pub struct Together<C> {
    /// The worlds.
    pub worlds: Vec<World<C>>,
    cpus: Cpus,
    /// The threads of each world.
    threads: Vec<Range<usize>>,
}

impl<C: Control> Together<C> {
    /// Worlds at time zero that have no processors of their own, with the clients of each, and
    /// processors with these slices.
    pub fn new(worlds: Vec<World<C>>, clients: &[Vec<&Client>], slices: &[Ns]) -> Self {
        let mut first = 0;
        let threads = clients.iter().map(|clients| {
            let own = first..first + clients.len();
            first = own.end;
            own
        });
        let all = clients.iter().flatten();
        Self {
            worlds,
            threads: threads.collect(),
            cpus: Cpus::new(slices, all.map(|one| (one.cpu, one.cpu_weight))),
        }
    }

    /// Runs up to `end`. True if it stood still.
    pub fn run(&mut self, end: u64) -> bool {
        let (mut last, mut steps) = (0, 0);
        while let Some(next) = self.next().filter(|next| *next < end) {
            steps = if next > last { 0 } else { steps + 1 };
            last = next.max(last);
            for at in 0..self.worlds.len() {
                self.with(at, |world| world.do_due(last));
            }
            if steps > STEPS_MAX || self.worlds.iter().any(|world| world.stuck) {
                return true;
            }
        }
        for at in 0..self.worlds.len() {
            self.with(at, |world| world.end(end));
        }
        false
    }

    /// When something happens next.
    fn next(&mut self) -> Option<u64> {
        let all = 0..self.worlds.len();
        all.filter_map(|at| self.with(at, |world| world.next()))
            .min()
    }

    /// Lets one world have the processors.
    fn with<R>(&mut self, at: usize, act: impl FnOnce(&mut World<C>) -> R) -> R {
        self.cpus.give(self.threads[at].clone());
        std::mem::swap(&mut self.worlds[at].machine.cpus, &mut self.cpus);
        let done = act(&mut self.worlds[at]);
        std::mem::swap(&mut self.worlds[at].machine.cpus, &mut self.cpus);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::exclusive::Exclusive;
    use crate::control::hardware::Hardware;
    use crate::scenario::{Costs, Kind, Millis, Phase, Policy, Scenario, Span, Wait};
    use crate::world::Host;

    const SLICE: Ns = Ns::from_us(3_000);
    const END: u64 = 3_000_000_000;

    fn client(cpu: Option<usize>, wait: Wait) -> Client {
        let phase = Phase::new(Span::us(400), Span::us(600));
        Client {
            cpu,
            wait,
            ..Client::new("one", vec![phase])
        }
    }

    /// Rounds of each client, by world.
    fn rounds(clients: &[Vec<Client>]) -> Vec<Vec<u64>> {
        rounds_under(clients, |_| Hardware)
    }

    /// The same under this scheduler.
    fn rounds_under<C: Control>(
        clients: &[Vec<Client>],
        control: impl Fn(&[&Client]) -> C,
    ) -> Vec<Vec<u64>> {
        let scenario = Scenario::new(Ns::ZERO, Costs::default());
        let clients: Vec<Vec<&Client>> = clients.iter().map(|all| all.iter().collect()).collect();
        let world = |clients: &Vec<&Client>| {
            let host = Host {
                throttled_spins: true,
                ..Host::of(&scenario.gpus[0])
            };
            World::new(&host, clients, None, 5_000, 1, control(clients))
        };
        let worlds = clients.iter().map(world).collect();
        let mut together = Together::new(worlds, &clients, &[SLICE; 2]);
        assert!(!together.run(END));
        let got = |world: &World<C>| {
            let got = world.got();
            got.iter().map(|one| one.rounds.count).collect()
        };
        together.worlds.iter().map(got).collect()
    }

    #[test]
    fn clients_of_two_gpus_on_one_processor_share_it() {
        let spins = || client(Some(0), Wait::Spin);
        // Each has the processor for half of the time, and needs it for all of a round.
        let shared = rounds(&[vec![spins()], vec![spins()]]);
        for count in [shared[0][0], shared[1][0]] {
            assert!((1_450..=1_550).contains(&count), "{shared:?}");
        }
        let apart = rounds(&[vec![spins()], vec![client(Some(1), Wait::Spin)]]);
        assert!(apart[0][0] > 2_900, "{apart:?}");
        assert!(apart[1][0] > 2_900, "{apart:?}");
    }

    #[test]
    fn processor_that_is_not_kept_is_not_missed_much() {
        let blocks = || client(Some(0), Wait::Block);
        // 800 of 1000 us of the processor for both.
        let shared = rounds(&[vec![blocks()], vec![blocks()]]);
        assert!(
            shared.iter().flatten().all(|count| *count > 2_400),
            "{shared:?}"
        );
    }

    #[test]
    fn worlds_without_a_shared_processor_run_as_if_apart() {
        let (one, other) = (client(Some(0), Wait::Spin), client(Some(1), Wait::Block));
        let both = rounds(&[vec![one.clone()], vec![other.clone()]]);
        let alone = [rounds(&[vec![one]]), rounds(&[vec![other]])];
        assert_eq!(both, alone.map(|of| of[0].clone()));
    }

    #[test]
    fn two_pairs_that_spin_for_their_turns_each_run_as_if_apart() {
        let policy = Policy {
            quantum: Millis(Ns::from_ms(30)),
            idle_release: Millis(Ns::from_ms(30)),
            cpu_boost: 100,
            ..Policy::paper(Kind::Exclusive)
        };
        let turns = |clients: &[&Client]| Exclusive::new(clients, &policy, 5_000);
        let pair = |cpu| vec![client(Some(cpu), Wait::Spin), client(Some(cpu), Wait::Spin)];
        let both = rounds_under(&[pair(0), pair(1)], turns);
        let alone = [0, 1].map(|cpu| rounds_under(&[pair(cpu)], turns).remove(0));
        assert_eq!(both, alone);
    }
}
