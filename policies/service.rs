// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What the policies that go by attained service share: who competes, what a client was
//! served, what throttling has cost, and which client has waited for long enough.

use super::{ClientState, Phase};
use crate::fair;
use crate::units::{Ns, Weight};

/// Service attained by a client, which outlives its processes: see [`super::Policy::attained`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attained {
    /// GPU time over the client's weight, up to the present epoch.
    pub past: Ns,
    /// The same in the present epoch.
    pub now: Ns,
    /// Number of that epoch; always the same where service does not fade.
    pub epoch: u64,
}

/// The part of `past` that the last epoch is, of [`PARTS`].
const NEW: u64 = 4;
const PARTS: u64 = 5;
/// After so many epochs nothing is left: 5^28 is more than 64 bits hold.
const ALL_FADED: u64 = 28;

impl Attained {
    /// Whether there is none.
    pub const fn is_zero(&self) -> bool {
        self.past.is_zero() && self.now.is_zero()
    }

    /// The same later: an epoch that ends is four parts of five, those before it are one.
    pub fn faded(mut self, epoch: u64) -> Self {
        let ended = epoch.saturating_sub(self.epoch);
        if ended == 0 {
            return self;
        }
        for _ in 0..ended.min(ALL_FADED) {
            let sum = self.now.saturating_mul(NEW).saturating_add(self.past);
            self.past = Ns::new(sum.get() / PARTS);
            self.now = Ns::ZERO;
        }
        self.epoch = epoch;
        self
    }

    /// The same GPU time over another weight.
    pub fn over(self, from: Weight, to: Weight) -> Self {
        let over = |time: Ns| {
            Ns::new(fair::mul_div(
                time.get(),
                from.get().into(),
                to.get().into(),
            ))
        };
        Self {
            past: over(self.past),
            now: over(self.now),
            epoch: self.epoch,
        }
    }

    /// Not more than this time in each.
    pub fn at_most(self, time: Ns) -> Self {
        Self {
            past: self.past.min(time),
            now: self.now.min(time),
            epoch: self.epoch,
        }
    }

    /// The greater of two of the same weight, once both have faded alike.
    pub fn or_greater(self, other: Self) -> Self {
        let epoch = self.epoch.max(other.epoch);
        let (one, other) = (self.faded(epoch), other.faded(epoch));
        let left = |attained: &Self| attained.faded(epoch.saturating_add(1)).past;
        if left(&other) > left(&one) {
            other
        } else {
            one
        }
    }
}

/// Part of the time that may be lost to throttling.
const LOSS: u64 = 10;
/// A client's wait counts as far as it is more than this many times what it was served.
const PATIENCE: u64 = 8;
/// The default weight.
// CAST: widening.
pub(super) const NORMAL: u64 = Weight::DEFAULT.get() as u64;
/// After so much of it, the client comes first.
const LONGEST_WAIT: Ns = Ns::from_ms(2_000);
/// What a client is served before it stops coming first.
const TURN: Ns = Ns::from_ms(100);

/// GPU time lost to throttling beyond what is allowed. All idle time counts as lost while a client
/// is throttled, which is too much rather than too little.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss(Ns);

impl Loss {
    /// Books a period, and returns whether clients may be throttled after it.
    pub(super) fn book(&mut self, phase: &Phase, clients: &[ClientState]) -> bool {
        let any = clients.iter().any(|client| client.throttled);
        let idle = if any { phase.idle } else { Ns::ZERO };
        let lost = fair::estimate(idle, phase.poll, phase.span());
        let allowed = Ns::new(phase.span().get() / LOSS);
        self.0 = self.0.saturating_add(lost).saturating_sub(allowed);
        self.0.is_zero()
    }
}

/// Bound on starvation: a client that has wanted the GPU in vain for 2 s more than eight times what
/// it was served comes first until it has been served for a tenth of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Patience {
    vain: Ns,
    first: Ns,
}

impl Patience {
    /// Whether the clients that have not waited for long make way for it.
    pub(super) fn comes_first(&self) -> bool {
        !self.first.is_zero()
    }

    /// Books a period.
    pub(super) fn book(&mut self, phase: &Phase, client: &ClientState) {
        let served = served(phase, client);
        self.first = self.first.saturating_sub(served);
        let waited = if client.throttled {
            phase.span()
        } else {
            let left = phase.poll.saturating_sub(client.busy);
            fair::estimate(client.waited.min(left), phase.poll, phase.span())
        };
        let paid = served.saturating_mul(PATIENCE);
        let vain = self.vain.saturating_add(waited).saturating_sub(paid);
        self.vain = vain.min(LONGEST_WAIT);
        if self.vain == LONGEST_WAIT {
            self.first = TURN;
        }
    }
}

/// Whether a client used the GPU, waited for it, or was kept from it.
pub(super) fn competes(client: &ClientState) -> bool {
    client.active() || !client.waited.is_zero() || client.throttled
}

/// GPU time of a client in the period, with what it ran while it was throttled: who submits ahead
/// gains nothing.
pub(super) fn served(phase: &Phase, client: &ClientState) -> Ns {
    let (poll, span) = phase.divided();
    fair::estimate(client.busy, poll, span).saturating_add(client.paid)
}

/// `time` for the default weight, less for more weight.
pub(super) fn for_weight(time: Ns, weight: Weight) -> Ns {
    Ns::new(fair::mul_div(time.get(), NORMAL, weight.get().into()))
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policy_service))]
mod tests {
    use super::*;
    use crate::ids::GroupId;
    use crate::units::VTime;

    /// 10 ms polled of 100 ms.
    const PHASE: Phase = Phase {
        poll: Ns::from_ms(10),
        nonpoll: Ns::from_ms(90),
        direct: Ns::ZERO,
        lead: Ns::from_ms(100),
        idle: Ns::from_ms(5),
        t_sys: VTime::ZERO,
    };

    fn client(busy_ms: u64, waited_ms: u64, throttled: bool) -> ClientState {
        let new = ClientState::new(GroupId::default(), Weight::DEFAULT, VTime::ZERO);
        ClientState {
            busy: Ns::from_ms(busy_ms),
            waited: Ns::from_ms(waited_ms),
            throttled,
            ..new
        }
    }

    fn attained(past: u64, now: u64, epoch: u64) -> Attained {
        let (past, now) = (Ns::from_ms(past), Ns::from_ms(now));
        Attained { past, now, epoch }
    }

    #[test]
    fn attained_service_fades_to_a_fifth_in_an_epoch() {
        assert_eq!(attained(100, 50, 3).faded(3), attained(100, 50, 3));
        assert_eq!(attained(100, 50, 3).faded(4), attained(60, 0, 4));
        assert_eq!(attained(100, 50, 3).faded(5), attained(12, 0, 5));
        assert!(attained(u64::MAX, 0, 3).faded(u64::MAX).is_zero());
        // Another number of the present epoch is no epoch that has ended.
        assert_eq!(attained(100, 50, 3).faded(2), attained(100, 50, 3));
    }

    #[test]
    fn greater_of_two_services_is_that_of_which_more_is_left() {
        let (old, new) = (attained(100, 0, 3), attained(30, 0, 4));
        assert_eq!(old.or_greater(new), new);
        assert_eq!(new.or_greater(old), new);
        // Of the present epoch four fifths will count.
        let (past, now) = (attained(30, 0, 4), attained(0, 10, 4));
        assert_eq!(past.or_greater(now), now);
    }

    #[test]
    fn attained_service_is_the_same_gpu_time_over_any_weight() {
        let triple = Weight::new(300).unwrap_or_default();
        let over = attained(10, 5, 1).over(triple, Weight::DEFAULT);
        assert_eq!(over, attained(30, 15, 1));
        assert_eq!(over.over(Weight::DEFAULT, triple), attained(10, 5, 1));
    }

    #[test]
    fn loss_of_a_half_idle_gpu_is_paid_off_by_tenths() {
        let mut loss = Loss::default();
        // 50 ms lost, 10 allowed: 40 are left, paid in four periods.
        assert!(!loss.book(&PHASE, &[client(5, 0, false), client(0, 0, true)]));
        let paid = (0..4).map(|_| loss.book(&PHASE, &[client(5, 0, false)]));
        assert!(paid.eq([false, false, false, true]));
    }

    #[test]
    fn idle_time_without_a_throttled_client_is_no_loss() {
        let mut loss = Loss::default();
        assert!(loss.book(&PHASE, &[client(5, 0, false)]));
    }

    /// Periods until a client comes first.
    fn periods_until_first(client: &ClientState) -> Option<u32> {
        let mut patience = Patience::default();
        (1..1000).find(|_| {
            patience.book(&PHASE, client);
            patience.comes_first()
        })
    }

    #[test]
    fn throttled_client_comes_first_after_two_seconds() {
        assert_eq!(periods_until_first(&client(0, 0, true)), Some(20));
    }

    #[test]
    fn client_that_gets_an_eighth_of_its_wait_never_does() {
        assert_eq!(periods_until_first(&client(1, 8, false)), None);
        assert_eq!(periods_until_first(&client(1, 9, false)), Some(200));
    }

    #[test]
    fn client_comes_first_until_it_was_served_a_turn() {
        let mut patience = Patience {
            first: TURN,
            ..Patience::default()
        };
        patience.book(&PHASE, &client(9, 0, false));
        assert!(patience.comes_first());
        patience.book(&PHASE, &client(1, 0, false));
        assert!(!patience.comes_first());
    }
}
