// SPDX-License-Identifier: GPL-2.0

//! Tests of processes whose channels come or go between two polling phases.

use super::share_tests::{identity, period, shares, store, use_us, Few, T_SYS};
use super::*;
use crate::ids::ClientId;
use crate::storage::Borrowed;
use crate::units::{Ns, VTime};

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_shares_found))]
mod tests {
    use super::*;

    // It came, or went, between two polling phases: what the polling phase shows of it is not what it
    // did before.
    #[test]
    fn process_whose_channels_changed_is_charged_what_was_found() {
        let mut store = store();
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::Process);
        for id in 1..=2 {
            let joined = shares.join(ClientId::new(id), identity(id, 0), &settings, T_SYS);
            assert!(joined.is_ok());
        }
        let received = |shares: &Few<'_>| [0, 1].map(|at| shares.members()[at].account().received);
        for compares in [true, false] {
            let before = received(&shares);
            // The first went: it ran for 2 of 5 ms, and for nothing of the millisecond that was
            // polled. The second has come, and was not found.
            let found = [(ClientId::new(1), Ns::from_ms(2))];
            shares.note_changed(0);
            shares.note_changed(1);
            shares.note_residue(found.into_iter(), core::iter::empty(), compares);
            use_us(&mut shares, 1, 1000);
            shares.gather(&settings, Ns::from_ms(1), Ns::from_ms(6));
            // A policy sees a third of the phase, and a sixth.
            assert_eq!(shares.states()[0].busy, Ns::new(333_333));
            assert_eq!(shares.states()[1].busy, Ns::new(166_666));
            shares.book(&mut settings, &period(6));
            let now = received(&shares);
            assert_eq!(now[0].saturating_sub(before[0]), Ns::from_ms(2));
            assert_eq!(now[1].saturating_sub(before[1]), Ns::from_ms(1));
            // From now on both are charged as any other.
            shares.note_residue(core::iter::empty(), core::iter::empty(), compares);
            use_us(&mut shares, 1, 1000);
            shares.gather(&settings, Ns::from_ms(1), Ns::from_ms(6));
            shares.book(&mut settings, &period(12));
            let later = received(&shares);
            assert_eq!(later[0], now[0]);
            assert_eq!(later[1].saturating_sub(now[1]), Ns::from_ms(6));
        }
    }

    #[test]
    fn process_of_which_nothing_is_polled_pays_what_was_found() {
        let mut store = store();
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::Process);
        let joined = shares.join(ClientId::new(1), identity(1, 0), &settings, T_SYS);
        assert!(joined.is_ok());
        let found = [(ClientId::new(1), Ns::from_ms(2))];
        shares.note_changed(0);
        shares.note_residue(found.into_iter(), core::iter::empty(), true);
        shares.gather(&settings, Ns::ZERO, Ns::from_ms(5));
        let paid = VTime::new(Ns::from_ms(2).get());
        assert_eq!(shares.states()[0].vtime, T_SYS.saturating_add(paid));
        let parked = Period {
            poll: Ns::ZERO,
            span: Ns::from_ms(5),
            ..period(5)
        };
        shares.book(&mut settings, &parked);
        assert_eq!(shares.members()[0].account().received, Ns::from_ms(2));
        shares.gather(&settings, Ns::ZERO, Ns::from_ms(5));
        shares.book(&mut settings, &parked);
        assert_eq!(shares.members()[0].account().received, Ns::from_ms(2));
    }
}
