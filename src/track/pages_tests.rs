// SPDX-License-Identifier: GPL-2.0

//! Tests of owners of pages.

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_track_pages))]
mod tests {
    use crate::account::{EngineKind, Slot};
    use crate::ids::{Chid, ClientId, TsgId};
    use crate::storage::Borrowed;
    use crate::track::pages::{Change, Page, PageClaim, Pages};
    use crate::units::Ns;

    type Few<'a> = Pages<Borrowed<'a>, u8>;

    fn claim(client: u64, proven: bool) -> PageClaim {
        PageClaim {
            owner: ClientId::new(client),
            // CAST: small numbers.
            at: client as usize,
            proven,
        }
    }

    fn owner(pages: &Few<'_>, number: u16) -> Option<u64> {
        pages.get(number).map(|page| page.owner().get())
    }

    const RAN: Slot = Slot {
        ran: Ns::from_us(10),
        runs: 1,
        context: 0,
    };

    #[test]
    fn page_that_is_mapped_stays_with_its_owner() {
        let mut store = [Page::default(), Page::default()];
        let mut pages = Few::new(&mut store[..]);
        assert!(pages.map(5, &claim(1, false), 7).is_some());
        let second = pages.map(5, &claim(2, false), 8);
        assert!(second.is_some_and(|second| second.owner == ClientId::new(1) && !second.moved));
        // A third page does not fit.
        assert!(pages.map(6, &claim(2, false), 8).is_some());
        assert!(pages.map(7, &claim(2, false), 9).is_none());
        assert_eq!(pages.get(5).and_then(|page| page.gate().copied()), Some(7));
    }

    #[test]
    fn proven_claim_moves_the_page_and_keeps_its_gate() {
        let mut store = [Page::default(), Page::default()];
        let mut pages = Few::new(&mut store[..]);
        assert!(pages.map(5, &claim(1, true), 7).is_some());
        let moved = pages.map(5, &claim(2, true), 8);
        assert!(moved.is_some_and(|moved| moved.moved));
        assert_eq!(owner(&pages, 5), Some(2));
        assert_eq!(pages.get(5).and_then(|page| page.gate().copied()), Some(7));
        assert_eq!(pages.get(5).map(Page::mappings), Some(2));
    }

    // Regression: time of a channel was charged to no client if its slot lies in a mapped page but
    // was never mapped itself.
    #[test]
    fn channel_beside_a_mapped_one_is_its_owners() {
        let mut store = [Page::default(), Page::default()];
        let mut pages = Few::new(&mut store[..]);
        assert!(pages.map(5, &claim(3, true), 7).is_some());
        assert_eq!(
            pages.charge(EngineKind::Compute, Chid::from_bits(47), &RAN, true),
            Some(3)
        );
        assert_eq!(
            pages.charge(EngineKind::Compute, Chid::from_bits(48), &RAN, true),
            None
        );
        let seen = pages
            .channels()
            .map(|(chid, _, seen)| (chid.get(), seen.runs));
        assert!(seen.eq([(47, 1)]));
        assert_eq!(pages.channel_count(), 1);
    }

    // Regression: a queue that was submitted before the page was unmapped was charged to no client.
    #[test]
    fn page_without_mappings_stays_while_a_channel_exists() {
        let mut store = [Page::default(), Page::default()];
        let mut pages = Few::new(&mut store[..]);
        assert!(pages.map(5, &claim(1, true), 7).is_some());
        pages.set_live(5, 0b11, |_, _, _, _| ());
        assert_eq!((pages.allocated(), pages.channel_count()), (2, 2));
        assert!(pages.unmap(5));
        assert_eq!(pages.doubtful(), Some(5));
        let mut gone = 0;
        pages.set_live(5, 0b01, |_, _, change, _| {
            gone += u32::from(change == Change::Destroyed);
        });
        assert_eq!((gone, owner(&pages, 5)), (1, Some(1)));
        pages.set_live(5, 0, |_, _, _, _| ());
        assert_eq!(owner(&pages, 5), None);
        assert_eq!((pages.allocated(), pages.doubtful()), (0, None));
    }

    // Regression: time of a channel that was freed before its page was unmapped was charged to no
    // client, if that happened while the GPU was polled.
    #[test]
    fn page_that_has_ended_keeps_its_owner_until_it_is_booked() {
        let mut store = [Page::default(), Page::default()];
        let mut pages = Few::new(&mut store[..]);
        assert!(pages.map(5, &claim(1, true), 7).is_some());
        pages.set_live(5, 0b1, |_, _, _, _| ());
        // Mapped still.
        pages.end(5);
        assert!(pages.ended().is_none());
        assert!(pages.allocated() == 1);
        assert!(pages.unmap(5));
        pages.end(5);
        assert_eq!(pages.ended().map(Page::number), Some(5));
        assert_eq!((pages.allocated(), owner(&pages, 5)), (0, Some(1)));
        let ran = pages.charge(EngineKind::Compute, Chid::from_bits(40), &RAN, true);
        assert_eq!(ran, Some(1));
        assert_eq!(pages.allocated(), 0);
        // Mapped anew, it goes on.
        assert!(pages.map(5, &claim(1, true), 7).is_some());
        assert!(pages.ended().is_none());
        assert!(pages.allocated() == 1);
        assert!(pages.unmap(5));
        pages.end(5);
        pages.set_live(5, 0, |_, _, _, _| ());
        assert!(owner(&pages, 5).is_none());
        assert!(pages.ended().is_none());
    }

    // Regression: time of a TSG was charged to no client.
    #[test]
    fn tsg_is_that_of_the_page_with_its_channel() {
        let mut store = [Page::default(), Page::default()];
        let mut pages = Few::new(&mut store[..]);
        let id = TsgId::from_bits(5);
        for (number, client) in [(5, 1), (6, 2)] {
            assert!(pages.map(number, &claim(client, true), 7).is_some());
            pages.set_live(number, 0b11, |_, _, _, _| ());
        }
        pages.set_contexts(6, &[0x200, 0x201, 0, 0, 0, 0, 0, 0]);
        // The second channel of page 6.
        let found = Chid::new(49);
        assert_eq!(pages.channel_of_tsg(id, 0x201), found);
        assert_eq!(pages.channel_of_tsg(id, 0x202), None);
        // During a switch the context is not known.
        assert_eq!(pages.channel_of_tsg(id, 0), None);
        pages.note_tsg(Chid::from_bits(49), id);
        assert_eq!(pages.channel_of_tsg(id, 0), found);
        // It is freed, and another one is allocated.
        pages.set_live(6, 0b01, |_, _, _, _| ());
        pages.set_live(6, 0b11, |_, _, _, _| ());
        assert_eq!(pages.channel_of_tsg(id, 0), None);
        assert_eq!(pages.channel_of_tsg(id, 0x201), None);
    }

    #[test]
    fn positions_follow_when_a_client_is_forgotten() {
        let mut store = [Page::default(), Page::default()];
        let mut pages = Few::new(&mut store[..]);
        assert!(pages.map(5, &claim(3, true), 7).is_some());
        pages.forget_position(1);
        assert_eq!(pages.get(5).map(Page::at), Some(2));
        assert!(pages.has_owner(ClientId::new(3)));
        assert!(!pages.has_owner(ClientId::new(2)));
    }
}
