// SPDX-License-Identifier: GPL-2.0

//! Policy `las-levels`: the clients that were served the least since they came run first, in levels.
//!
//! Rule: `level` is how many of 1, 4, 16, .. 4096 s of GPU time a client has been served since it
//! came first, over its weight; among the clients that used the GPU, waited for it or were kept from it,
//! those of the least level run, with equal shares among them by `event`'s rule, and the others are
//! throttled, unless throttling has idled the GPU for more than a tenth of the time. A client that
//! has wanted the GPU in vain for 2 s more than eight times what it was served comes first until it
//! has been served a tenth of a second.
//!
//! Good for: mean completion times of jobs whose lengths differ much and are not known; few changes
//! of mind: a client changes its level seven times at most.
//! Bad for: clients that stay and always want the GPU: a stream of new ones leaves them a ninth of
//! it. Short programs beside long ones of the same user, where processes are groups: a new process
//! begins at the level of its user's process that was served most, or else a program that begins
//! anew again and again would be the least served. A user or a cgroup has its level when it comes
//! back, however long its processes were gone, as long as there is room for its group.
//! Bound, starvation: a client that wants the GPU comes first after it has waited in vain for 2 s
//! more than eight times what it was served, while throttling is allowed at all.
//! Bound, work: as `las`.
//! Source: Gu and others, Tiresias (NSDI 2019), discretised two-dimensional LAS, on one GPU; in place
//! of its promotion, which starts a job at the lowest level anew, the starvation bound of `las`.

use super::service::{competes, for_weight, served, Attained, Loss, Patience};
use super::{event, ClientState, Inputs, Phase, Policy, Rule};
use crate::fair;
use crate::units::{Ns, VTime, Weight};

/// Service at which the second level begins.
const FIRST: Ns = Ns::from_ms(1_000);
/// The next levels begin at this many times the one before.
const FACTOR: u64 = 4;
/// Number of levels.
const LEVELS: u32 = 8;

/// What was served to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Since it came first, over its weight; it does not fade.
    attained: Attained,
    /// Whether it wants the GPU now.
    competes: bool,
    patience: Patience,
}

impl Served {
    fn level(&self) -> u32 {
        let begins = core::iter::successors(Some(FIRST), |one| Some(one.saturating_mul(FACTOR)));
        // CAST: not more than the levels.
        begins
            .take(LEVELS.saturating_sub(1) as usize)
            .map(|begin| u32::from(self.attained.past >= begin))
            .fold(0, u32::saturating_add)
    }

    /// The less, the earlier.
    fn rank(&self) -> u32 {
        if self.patience.comes_first() {
            return 0;
        }
        self.level().saturating_add(1)
    }
}

/// Levels of attained service.
pub struct Levels;

impl Policy for Levels {
    const NAME: &'static str = "las-levels";
    const RULE: Rule<Self> = Rule::Phases(Self::decide);
    const NEEDS: Inputs = Inputs::Waits;
    type OfClient = Served;
    type OfGpu = Loss;

    fn attained(kept: &Served) -> Attained {
        kept.attained
    }

    fn beginning_with(attained: Attained) -> Served {
        Served {
            attained,
            ..Served::default()
        }
    }
}

impl Levels {
    fn decide(phase: &Phase, loss: &mut Loss, clients: &mut [ClientState]) -> VTime {
        let may_throttle = loss.book(phase, clients);
        for client in clients.iter_mut() {
            let competes = competes(client);
            let served = for_weight(served(phase, client), client.weight);
            let mut own = client.kept.of::<Self>().copied().unwrap_or_default();
            own.attained.past = own.attained.past.saturating_add(served);
            own.competes = competes;
            if competes {
                own.patience.book(phase, client);
            }
            *client.kept.of_mut::<Self>() = own;
        }
        let (used, t_sys) = event::advance(phase, clients, |client| client.busy);
        let rank = |client: &ClientState| {
            let own = client.kept.of::<Self>().filter(|own| own.competes)?;
            Some(own.rank())
        };
        let least = clients.iter().filter_map(rank).min();
        let level = || clients.iter().filter(|client| rank(client) == least);
        let behind = level().map(|client| client.vtime).min();
        let lightest: Weight = level()
            .map(|client| client.weight)
            .min()
            .unwrap_or_default();
        let limit = fair::threshold(behind.unwrap_or_default(), phase.lead, lightest);
        for client in clients.iter_mut() {
            let rank = rank(client);
            let later = rank.is_some() && (rank > least || client.vtime > limit);
            client.throttled = later && may_throttle && !used.is_zero();
        }
        t_sys
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policy_las_levels_rules))]
mod tests {
    use super::*;
    use crate::ids::GroupId;
    use crate::policies::{KeptOfGpu, PolicyKind};

    const N: usize = 3;

    /// Sets what a client was served.
    fn serve(client: &mut ClientState, ms: u64) {
        client.kept.of_mut::<Levels>().attained.past = Ns::from_ms(ms);
    }

    struct Gpu {
        kept: KeptOfGpu,
        t_sys: VTime,
        clients: [ClientState; N],
    }

    impl Gpu {
        /// A GPU whose clients have been served these times, in seconds.
        fn served(seconds: [u64; N]) -> Self {
            let client = ClientState::new(GroupId::default(), Weight::DEFAULT, VTime::ZERO);
            let mut clients = [client; N];
            for (client, seconds) in clients.iter_mut().zip(seconds) {
                serve(client, seconds.saturating_mul(1000));
            }
            Self {
                kept: KeptOfGpu::default(),
                t_sys: VTime::ZERO,
                clients,
            }
        }

        /// A period of 100 ms: clients that want the GPU share it, unless they are throttled.
        fn period(&mut self, wants: [bool; N]) {
            let poll = Ns::from_ms(10);
            let runs = |(client, wants): (&ClientState, &bool)| *wants && !client.throttled;
            let running = self.clients.iter().zip(&wants).filter(|one| runs(*one));
            // CAST: a few clients.
            let part = Ns::new(poll.get() / running.count().max(1) as u64);
            let mut idle = poll;
            for (client, wants) in self.clients.iter_mut().zip(wants) {
                let runs = wants && !client.throttled;
                client.busy = if runs { part } else { Ns::ZERO };
                client.waited = if wants {
                    poll.saturating_sub(client.busy)
                } else {
                    Ns::ZERO
                };
                idle = idle.saturating_sub(client.busy);
            }
            let phase = Phase {
                poll,
                nonpoll: Ns::from_ms(90),
                direct: Ns::ZERO,
                lead: Ns::from_ms(100),
                idle,
                t_sys: self.t_sys,
            };
            self.t_sys = PolicyKind::LasLevels.decide(&phase, &mut self.kept, &mut self.clients);
        }

        fn throttled(&self) -> [bool; N] {
            self.clients.map(|client| client.throttled)
        }
    }

    #[test]
    fn level_grows_with_four_times_the_service() {
        let level = |ms| {
            let past = Ns::from_ms(ms);
            Levels::beginning_with(Attained {
                past,
                ..Attained::default()
            })
            .level()
        };
        assert_eq!(
            [999, 1_000, 3_999, 4_000, 16_000].map(level),
            [0, 1, 1, 2, 3]
        );
        assert_eq!([4_096_000, u64::MAX].map(level), [7, 7]);
    }

    #[test]
    fn clients_of_the_least_level_run() {
        let mut gpu = Gpu::served([0, 0, 20]);
        gpu.period([true; N]);
        assert_eq!(gpu.throttled(), [false, false, true]);
    }

    #[test]
    fn client_of_a_higher_level_runs_when_no_other_wants_the_gpu() {
        let mut gpu = Gpu::served([0, 0, 20]);
        gpu.period([false, false, true]);
        assert_eq!(gpu.throttled(), [false; N]);
    }

    #[test]
    fn clients_of_one_level_get_equal_shares() {
        let mut gpu = Gpu::served([20, 20, 2000]);
        gpu.clients[0].vtime = VTime::new(Ns::from_ms(500).get());
        gpu.period([true, true, false]);
        assert_eq!(gpu.throttled(), [true, false, false]);
    }

    #[test]
    fn client_of_a_higher_level_has_a_ninth_of_the_gpu() {
        let mut gpu = Gpu::served([0, 0, 2000]);
        let mut served = 0;
        for _ in 0..1000 {
            gpu.period([true; N]);
            served += gpu.clients[2].busy.get();
            // The first two start anew all the time.
            serve(&mut gpu.clients[0], 0);
            serve(&mut gpu.clients[1], 0);
        }
        // Of 10 s polled, in percent.
        let percent = served / 100_000_000;
        assert!((9..=12).contains(&percent));
    }
}
