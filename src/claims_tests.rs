// SPDX-License-Identifier: GPL-2.0

//! Tests of claims.

use crate::claims::*;
use crate::error::Error;
use crate::units::Ns;

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_claims))]
mod tests {
    use super::*;

    const END: Ns = Ns::from_ms(1_000);

    fn claim(gpu: u32, process: u64, want: u32) -> Claim {
        Claim {
            process,
            until: END,
            gpu,
            user: 30,
            cgroup: 0,
            want,
        }
    }

    fn of_user(user: u32, claim: Claim) -> Claim {
        Claim { user, ..claim }
    }

    /// What they count without clients.
    fn pct(claims: &[Claim]) -> u32 {
        let mut copy = [Claim::default(); 4];
        let copy = &mut copy[..claims.len()];
        for (to, from) in copy.iter_mut().zip(claims) {
            *to = *from;
        }
        let clients = core::iter::empty::<(u64, fn() -> u32)>();
        OnGpu::new(copy, 0).claimed(clients).pct
    }

    #[test]
    fn claim_of_the_same_process_and_gpu_replaces_the_one_before() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 7);
        for (claim, seen) in [
            (claim(0, 5, 40), 8),
            (claim(1, 5, 40), 9),
            (claim(0, 5, 60), 10),
        ] {
            assert_eq!(claims.make(claim, None, Ns::ZERO, |_| true), Ok(seen));
        }
        assert_eq!(claims.seen(), 10);
        assert!(claims.on(0, Ns::ZERO, |_| true) == [claim(0, 5, 60)]);
        assert!(claims.on(1, Ns::ZERO, |_| true) == [claim(1, 5, 40)]);
        assert!(claims.on(2, Ns::ZERO, |_| true).is_empty());
    }

    #[test]
    fn claim_based_on_an_earlier_number_is_refused_and_changes_nothing() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 7);
        let (one, other) = (claim(0, 5, 40), claim(1, 6, 40));
        assert_eq!(claims.make(one, Some(7), Ns::ZERO, |_| true), Ok(8));
        // Also of another GPU: the choice was between all of them.
        let stale = claims.make(other, Some(7), Ns::ZERO, |_| true);
        assert_eq!(stale, Err(Error::Changed));
        assert_eq!(claims.seen(), 8);
        assert!(claims.on(1, Ns::ZERO, |_| true).is_empty());
        assert_eq!(claims.make(other, Some(8), Ns::ZERO, |_| true), Ok(9));
    }

    #[test]
    fn process_on_none_of_the_gpus_that_it_has_claimed_is_elsewhere() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 0);
        let none = core::iter::empty;
        assert_eq!(claims.appeared(5, 30, none(), 0, Ns::ZERO), None);
        for gpu in [1, 2] {
            let made = claims.make(claim(gpu, 5, 40), None, Ns::ZERO, |_| true);
            assert!(made.is_ok());
        }
        let mut elsewhere = |process, gpu, now| claims.appeared(process, 30, none(), gpu, now);
        assert_eq!(elsewhere(5, 0, Ns::ZERO), Some(1));
        assert_eq!([1, 2].map(|gpu| elsewhere(5, gpu, Ns::ZERO)), [None; 2]);
        // Without a claim of its own, and when its claims have ended.
        assert_eq!(elsewhere(6, 0, Ns::ZERO), None);
        assert_eq!(elsewhere(5, 0, END), None);
    }

    #[test]
    fn program_inherits_the_claim_of_the_script_that_started_it() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 0);
        for gpu in [1, 2] {
            let made = claims.make(claim(gpu, 5, 40), None, Ns::ZERO, |_| true);
            assert!(made.is_ok());
        }
        let line = || [6u64, 5, 4].into_iter();
        // Not of another user, not on another GPU, not when it has ended.
        assert_eq!(claims.appeared(7, 31, line(), 1, Ns::ZERO), None);
        assert_eq!(claims.appeared(7, 30, line(), 0, Ns::ZERO), Some(1));
        assert_eq!(claims.appeared(7, 30, line(), 1, END), None);
        assert!(claims.on(1, Ns::ZERO, |_| true) == [claim(1, 5, 40)]);
        assert_eq!(claims.appeared(7, 30, line(), 1, Ns::ZERO), None);
        assert!(claims.on(1, Ns::ZERO, |_| true) == [claim(1, 7, 40)]);
        // A second program of the script has no claim on that GPU.
        assert_eq!(claims.appeared(8, 30, line(), 1, Ns::ZERO), Some(2));
        assert_eq!(claims.seen(), 2);
        // Its own claims count before those of others.
        assert_eq!(claims.appeared(7, 30, line(), 2, Ns::ZERO), Some(1));
        assert!(claims.on(2, Ns::ZERO, |_| true) == [claim(2, 5, 40)]);
    }

    #[test]
    fn claim_ends_with_its_time_its_process_or_its_gpu() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 0);
        let before = END.saturating_sub(Ns::new(1));
        for process in [5, 6] {
            assert!(claims
                .make(claim(0, process, 40), None, Ns::ZERO, |_| true)
                .is_ok());
        }
        assert!(claims
            .make(claim(1, 5, 40), None, Ns::ZERO, |_| true)
            .is_ok());
        assert_eq!(claims.on(0, before, |_| true).len(), 2);
        assert!(claims.on(0, before, |process| process == 5) == [claim(0, 5, 40)]);
        assert!(claims.on(0, END, |_| true).is_empty());
        assert_eq!(claims.on(1, before, |_| true).len(), 1);
        claims.forget_gpu(1);
        assert!(claims.on(1, before, |_| true).is_empty());
    }

    #[test]
    fn clear_takes_back_own_claims_and_refuses_where_there_is_none() {
        let mut store = [Claim::default(); 4];
        let mut claims = Claims::new(&mut store[..], 0);
        for claim in [claim(0, 5, 40), claim(1, 5, 40), claim(1, 6, 40)] {
            assert!(claims.make(claim, None, Ns::ZERO, |_| true).is_ok());
        }
        assert_eq!(claims.clear(5, Some(0), Ns::ZERO), Ok(()));
        assert_eq!(claims.clear(5, Some(0), Ns::ZERO), Err(Error::NotSet));
        assert_eq!(claims.clear(5, None, END), Err(Error::NotSet));
        assert!(claims.on(1, Ns::ZERO, |_| true) == [claim(1, 6, 40)]);
        assert_eq!(claims.seen(), 3);
    }

    #[test]
    fn claims_of_one_user_count_one_gpu_at_most() {
        let own = [claim(0, 5, 70), claim(0, 6, 70)];
        assert_eq!(pct(&own), 100);
        let [one, two] = own;
        assert_eq!(pct(&[one, of_user(31, claim(0, 7, 20)), two]), 120);
        assert_eq!(pct(&[claim(0, 5, 30), claim(0, 6, 20)]), 50);
        assert_eq!(pct(&[]), 0);
    }

    #[test]
    fn claim_of_a_client_counts_what_the_client_does_not_want_yet() {
        let claims = || {
            [
                claim(0, 5, 70),
                claim(0, 6, 20),
                of_user(31, claim(0, 7, 10)),
            ]
        };
        let counted = |wants: &[(u64, u32)]| {
            let mut claims = claims();
            let clients = wants.iter().map(|(process, want)| (*process, || *want));
            OnGpu::new(&mut claims[..], 9).claimed(clients)
        };
        let claimed = |count, pct| Claimed {
            count,
            pct,
            seen: 9,
        };
        assert_eq!(counted(&[]), claimed(3, 100));
        // A client is one program, and no second one by its claim.
        assert_eq!(counted(&[(4, 50), (5, 30)]), claimed(2, 70));
        // One that wants more than it claimed takes nothing from the others.
        assert_eq!(counted(&[(5, 90), (7, 10), (8, 50)]), claimed(1, 20));
    }
}
