// SPDX-License-Identifier: GPL-2.0

//! Policy `las`: the clients that were served the least lately run first.
//!
//! Rule: each epoch of 100 ms or one period, whichever is longer, `cgs = (4 gs + cgs) / 5`, with
//! `gs` the GPU time of a client in the epoch over its weight, with what it ran while it was
//! throttled; among the clients that used the GPU, waited for it or were kept from it `least = min
//! cgs`; `throttled = cgs > least + epoch * 100 / weights`, `weights` being the sum of theirs,
//! unless throttling has idled the GPU for more than a tenth of the time. Where those that are not
//! leave an eighth of the GPU unused, the least served of the others runs too. A client that has wanted
//! the GPU in vain for 2 s more than eight times what it was served comes first until it has been
//! served a tenth of a second: those that have not are throttled. A new client begins at the
//! greatest `cgs` there is, but not above what it would have if it had always had the GPU, and one
//! loses little by others of small weight. A restart gains nothing: a group whose processes
//! have ended has its `gs` and `cgs` when it comes back, `cgs` faded by all epochs in between, and
//! where processes are groups a new one begins with those of its user's process that has most.
//!
//! With k = 0.8 an epoch without service leaves a fifth of `cgs`: two clients that always want the
//! GPU alternate, epoch by epoch, and a client that wants little is before both.
//!
//! Good for: mean completion times where short episodes on the GPU meet long ones.
//! Bad for: shares: weights count for the order only, and clients that always want the GPU get it by
//! whole epochs. A client is not held before it is an epoch's part ahead: a user with two processes
//! beside one with one process, all with the same commands, keeps two thirds.
//! Bound, starvation: a client that wants the GPU comes first after it has waited in vain for 2 s
//! more than eight times what it was served, while throttling is allowed at all.
//! Bound, work: GPU time lost to throttling is at most a tenth of the time and what is lost in one
//! period. Proof: `Loss` grows by all idle time of periods with throttled clients and falls by a
//! tenth of the span; no client is throttled while it is not zero.
//! Source: Strings (Sengupta and others, SC 2014), section IV, LAS; its quantum, ties and
//! starvation are open there.

use super::service::{competes, for_weight, served, Attained, Loss, Patience, NORMAL};
use super::{event, ClientState, Inputs, Phase, Policy, Rule};
use crate::fair::mul_div;
use crate::units::{Ns, VTime};

/// Clients use the GPU if they leave less than this part of it.
const UNUSED: u64 = 8;
/// Shortest epoch.
const EPOCH: Ns = Ns::from_ms(100);

/// What was served to a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Whether the client has wanted the GPU before.
    known: bool,
    /// Whether it does now.
    competes: bool,
    /// `gs` and `cgs`.
    attained: Attained,
    patience: Patience,
}

impl Service {
    /// Books what a client was served in a period.
    fn book(&mut self, phase: &Phase, client: &ClientState) {
        let served = for_weight(served(phase, client), client.weight);
        self.attained.now = self.attained.now.saturating_add(served);
        if competes(client) {
            self.patience.book(phase, client);
        }
    }
}

/// The epoch and what throttling has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    number: u64,
    /// How long it has lasted.
    lasted: Ns,
    loss: Loss,
}

/// The least served first.
pub struct LeastServed;

impl Policy for LeastServed {
    const NAME: &'static str = "las";
    const RULE: Rule<Self> = Rule::Phases(Self::decide);
    const NEEDS: Inputs = Inputs::Waits;
    type OfClient = Service;
    type OfGpu = Epoch;

    fn attained(kept: &Service) -> Attained {
        kept.attained
    }

    fn beginning_with(attained: Attained) -> Service {
        Service {
            known: true,
            attained,
            ..Service::default()
        }
    }
}

impl LeastServed {
    fn decide(phase: &Phase, epoch: &mut Epoch, clients: &mut [ClientState]) -> VTime {
        let may_throttle = epoch.loss.book(phase, clients);
        epoch.lasted = epoch.lasted.saturating_add(phase.span());
        let (lasted, number) = (epoch.lasted, epoch.number);
        if lasted >= EPOCH {
            epoch.lasted = Ns::ZERO;
            epoch.number = number.wrapping_add(1);
        }
        let past = |client: &ClientState| client.kept.of::<Self>().map(|own| own.attained.past);
        let greatest = clients.iter().filter_map(past).max().unwrap_or_default();
        let (mut least, mut weights, mut first) = (Ns::new(u64::MAX), 0u64, false);
        for client in clients.iter_mut() {
            let competes = competes(client);
            let mut own = client.kept.of::<Self>().copied().unwrap_or_default();
            // It may have been away for epochs.
            own.attained = own.attained.faded(number);
            if competes && !own.known {
                let most = for_weight(lasted.max(EPOCH), client.weight);
                (own.known, own.attained.past) = (true, greatest.min(most));
            }
            own.book(phase, client);
            own.attained = own.attained.faded(epoch.number);
            own.competes = competes;
            *client.kept.of_mut::<Self>() = own;
            if competes {
                least = least.min(own.attained.past);
                first |= own.patience.comes_first();
                weights = weights.saturating_add(client.weight.get().into());
            }
        }
        let (used, t_sys) = event::advance(phase, clients, |client| client.busy);
        // What each of them is entitled to in an epoch, for the default weight.
        let entitled = mul_div(lasted.max(EPOCH).get(), NORMAL, weights);
        let limit = least.saturating_add(Ns::new(entitled));
        let also = Self::runs_too(phase, clients, limit);
        for client in clients.iter_mut() {
            let own = client.kept.of::<Self>().copied().unwrap_or_default();
            let later = if first {
                !own.patience.comes_first()
            } else {
                own.attained.past > limit.max(also)
            };
            client.throttled = own.competes && later && may_throttle && !used.is_zero();
        }
        t_sys
    }

    /// Up to which `cgs` clients run, if those up to `limit` leave the GPU idle: that of the least
    /// served of the others. Zero if they use it.
    fn runs_too(phase: &Phase, clients: &[ClientState], limit: Ns) -> Ns {
        let (mut wanted, mut least) = (Ns::ZERO, Ns::new(u64::MAX));
        for client in clients {
            let own = client.kept.of::<Self>().copied().unwrap_or_default();
            if !own.competes {
                continue;
            }
            if own.attained.past > limit {
                least = least.min(own.attained.past);
            } else if client.throttled {
                // It may want all of it.
                wanted = phase.poll;
            } else {
                wanted = wanted.saturating_add(client.busy.saturating_add(client.waited));
            }
        }
        let all = phase
            .poll
            .saturating_sub(Ns::new(phase.poll.get() / UNUSED));
        if wanted < all {
            least
        } else {
            Ns::ZERO
        }
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policy_las_rules))]
mod tests {
    use super::*;
    use crate::ids::GroupId;
    use crate::policies::{KeptOfGpu, PolicyKind};
    use crate::units::Weight;

    /// One client on the GPU in each period of 100 ms.
    struct Gpu<const N: usize> {
        kept: KeptOfGpu,
        t_sys: VTime,
        clients: [ClientState; N],
    }

    impl<const N: usize> Gpu<N> {
        fn new() -> Self {
            let client = ClientState::new(GroupId::default(), Weight::DEFAULT, VTime::ZERO);
            Self {
                kept: KeptOfGpu::default(),
                t_sys: VTime::ZERO,
                clients: [client; N],
            }
        }

        /// A period in which each client was on the engine and waited for these parts, in percent.
        fn period(&mut self, parts: [(u64, u64); N]) {
            let poll = Ns::from_ms(10);
            let mut idle = poll;
            for (client, (busy, waited)) in self.clients.iter_mut().zip(parts) {
                client.busy = Ns::from_us(100 * busy);
                client.waited = Ns::from_us(100 * waited);
                // What it ran while it was throttled is of the whole period.
                let ran = Ns::new(client.paid.get() / 10);
                idle = idle.saturating_sub(client.busy).saturating_sub(ran);
            }
            let phase = Phase {
                poll,
                nonpoll: Ns::from_ms(90),
                direct: Ns::ZERO,
                lead: Ns::from_ms(100),
                idle,
                t_sys: self.t_sys,
            };
            self.t_sys = PolicyKind::Las.decide(&phase, &mut self.kept, &mut self.clients);
        }

        /// Periods in which all clients always want the GPU: those that are not throttled share it.
        /// Returns how often each had it.
        fn saturated(&mut self, periods: u32) -> [u64; N] {
            let mut served = [0; N];
            for _ in 0..periods {
                let running = self.clients.iter().filter(|client| !client.throttled);
                // CAST: a few clients.
                let part = 100u64.checked_div(running.count() as u64).unwrap_or(0);
                let mut parts = [(0, 100); N];
                for (at, client) in self.clients.iter().enumerate() {
                    if !client.throttled {
                        parts[at] = (part, 100 - part);
                        served[at] += part;
                    }
                }
                self.period(parts);
            }
            served
        }
    }

    #[test]
    fn two_clients_that_always_want_the_gpu_alternate() {
        let mut gpu = Gpu::<2>::new();
        gpu.period([(100, 0), (0, 100)]);
        let held = (0..8).map(|_| {
            gpu.saturated(1);
            gpu.clients[0].throttled
        });
        assert!(held.eq([false, true, false, true, false, true, false, true]));
    }

    #[test]
    fn client_that_wants_little_is_never_throttled() {
        let mut gpu = Gpu::<2>::new();
        for _ in 0..100 {
            let left = if gpu.clients[0].throttled { 0 } else { 90 };
            gpu.period([(left, 100 - left), (10, 0)]);
            assert!(!gpu.clients[1].throttled);
        }
    }

    #[test]
    fn service_counts_over_weight() {
        let mut gpu = Gpu::<2>::new();
        gpu.clients[0].weight = Weight::new(300).unwrap_or_default();
        let served = gpu.saturated(400);
        assert!(served[0] > served[1]);
    }

    // Its commands are nine times as long, and it has submitted 180 ms of them when it is throttled:
    // for two periods more it has nine tenths of the GPU.
    #[test]
    fn client_that_runs_on_while_it_is_throttled_is_charged_for_it() {
        let mut gpu = Gpu::<2>::new();
        let (mut served, mut queued) = ([0; 2], 2);
        for _ in 0..400 {
            let [held, other_held] = gpu.clients.map(|client| client.throttled);
            queued = if held { queued } else { 2 };
            gpu.clients[0].paid = Ns::ZERO;
            let parts = if other_held {
                [(100, 0), (0, 0)]
            } else if held && queued == 0 {
                [(0, 0), (100, 0)]
            } else if held {
                queued -= 1;
                gpu.clients[0].paid = Ns::from_ms(90);
                [(0, 0), (10, 90)]
            } else {
                [(90, 10), (10, 90)]
            };
            served[0] += parts[0].0 + gpu.clients[0].paid.get() / 1_000_000;
            served[1] += parts[1].0;
            gpu.period(parts);
        }
        assert!(served[0] <= 30_000);
    }

    // Both are ahead of the third by more than a third of an epoch.
    #[test]
    fn clients_are_not_all_throttled_for_one_that_wants_little() {
        let mut gpu = Gpu::<3>::new();
        let mut served = [0; 2];
        for _ in 0..100 {
            let [one, other, light] = gpu.clients.map(|client| client.throttled);
            assert!(!light);
            assert!(!one || !other);
            let part = if one || other { 95 } else { 47 };
            let of = |held: bool| if held { (0, 100) } else { (part, 100 - part) };
            served[0] += of(one).0;
            served[1] += of(other).0;
            gpu.period([of(one), of(other), (5, 0)]);
        }
        // Half each, but for the first epochs.
        assert!(served[0].abs_diff(served[1]) <= 200);
    }

    // Row 3 of the abuse cases: a client that starts anew is not the least served.
    #[test]
    fn new_client_begins_where_the_most_served_is() {
        let mut gpu = Gpu::<3>::new();
        gpu.saturated(1);
        gpu.period([(100, 0), (0, 100), (0, 0)]);
        gpu.period([(100, 0), (0, 100), (0, 0)]);
        gpu.clients[2].kept = crate::policies::KeptOfClient::Nothing;
        gpu.period([(100, 0), (0, 100), (0, 100)]);
        let past = |at: usize| gpu.clients[at].kept.attained().past;
        assert!(past(2) > past(1));
    }

    #[test]
    fn client_that_comes_back_has_what_it_was_served_faded_by_its_absence() {
        let attained = |away: u32| {
            let mut gpu = Gpu::<2>::new();
            gpu.period([(100, 0), (0, 100)]);
            gpu.period([(0, 0), (100, 0)]);
            // The group is not seen while none of its processes lives.
            let gone = gpu.clients[0];
            for _ in 0..away {
                gpu.period([(0, 0), (100, 0)]);
            }
            gpu.clients[0] = gone;
            gpu.period([(0, 100), (100, 0)]);
            gpu.clients[0].kept.attained().past
        };
        // 80 ms after its epoch.
        assert_eq!(attained(0), Ns::from_us(3_200));
        assert_eq!(attained(2), Ns::from_us(128));
        assert_eq!(attained(50), Ns::ZERO);
    }

    #[test]
    fn client_that_begins_with_what_another_attained_is_as_late() {
        let mut gpu = Gpu::<3>::new();
        gpu.period([(100, 0), (0, 100), (0, 0)]);
        let kept = gpu.clients[0].kept;
        gpu.clients[2].kept = kept.beginning_with(kept.attained());
        gpu.period([(0, 100), (100, 0), (0, 100)]);
        let past = gpu.clients.map(|client| client.kept.attained().past);
        assert_eq!(past[0], past[2]);
        assert!(past[0] > Ns::ZERO);
    }

    // Any user can lower its weight, to a hundredth of that of others.
    #[test]
    fn new_client_does_not_wait_for_what_a_client_of_least_weight_was_served() {
        let mut gpu = Gpu::<3>::new();
        gpu.clients[0].weight = Weight::new(Weight::MIN).unwrap_or_default();
        gpu.clients[1].weight = Weight::new(1000).unwrap_or_default();
        for _ in 0..20 {
            gpu.period([(99, 1), (1, 0), (0, 0)]);
        }
        let waits = (0..10).take_while(|_| {
            gpu.period([(0, 0), (100, 0), (0, 100)]);
            gpu.clients[2].throttled
        });
        assert!(waits.count() <= 1);
    }

    // The hardware serves ten others, none of them more than it is entitled to.
    #[test]
    fn client_that_waits_for_two_seconds_has_the_gpu_for_an_epoch() {
        let mut gpu = Gpu::<11>::new();
        let alone = |gpu: &Gpu<11>| gpu.clients.iter().skip(1).all(|client| client.throttled);
        let mut waits = [(9, 50); 11];
        waits[0] = (0, 100);
        let rounds = (1..100).find(|_| {
            gpu.period(waits);
            alone(&gpu)
        });
        assert!(rounds.is_some_and(|rounds| (19..=21).contains(&rounds)));
        let mut has = [(0, 0); 11];
        has[0] = (99, 1);
        gpu.period(has);
        assert!(alone(&gpu));
        gpu.period(has);
        assert!(!gpu.clients.iter().skip(1).any(|client| client.throttled));
    }

    #[test]
    fn no_client_is_throttled_while_throttling_idles_the_gpu() {
        let mut gpu = Gpu::<2>::new();
        let mut held = 0;
        for _ in 0..1000 {
            // The second leaves the GPU idle whenever the first is throttled.
            let alone = gpu.clients[0].throttled;
            held += u32::from(alone);
            gpu.period(if alone {
                [(0, 0), (1, 99)]
            } else {
                [(99, 1), (1, 99)]
            });
        }
        // A tenth of the time, and a period.
        assert!((1..=102).contains(&held));
    }
}
