// SPDX-License-Identifier: GPL-2.0

//! Tests of samples of the channel table.

use super::waits::*;
use crate::ids::{Chid, ClientId};
use crate::regs::{ChannelState, Occupant, Work};
use crate::storage::Borrowed;
use crate::units::Ns;

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_account_waits))]
mod tests {
    use super::*;

    fn chid(id: u32) -> Chid {
        Chid::from_bits(id)
    }

    fn on(id: u32) -> Occupant {
        Occupant::Channel(chid(id))
    }

    /// Channels 0 and 1 are of client 5, 2 and 4 of client 7, 3 of a client that is not watched.
    /// Client 6 has none.
    const CHANNELS: [(u64, u32); 5] = [(5, 0), (5, 1), (7, 2), (9, 3), (7, 4)];

    fn channels() -> impl Iterator<Item = (ClientId, Chid)> + Clone {
        CHANNELS
            .into_iter()
            .map(|(id, channel)| (ClientId::new(id), chid(channel)))
    }

    type OnSlices<'a> = Waits<Borrowed<'a>>;
    type Store = ([SampledClient; 3], [Chid; 4]);

    fn store() -> Store {
        ([SampledClient::default(); 3], [chid(0); 4])
    }

    fn waits(store: &mut Store) -> OnSlices<'_> {
        let mut waits = Waits::<Borrowed<'_>>::new(&mut store.0[..], &mut store.1[..], 1);
        waits.sample([5, 6, 7].into_iter().map(ClientId::new), channels());
        waits
    }

    /// Takes a sample of the next client; returns which channels were read, and what was found.
    fn sample(
        waits: &mut OnSlices<'_>,
        occupant: Occupant,
        work: impl Fn(u16) -> Work,
    ) -> (usize, bool) {
        let before = waits.found().iter().map(|c| c.waiting()).sum::<u32>();
        waits.begin();
        let mut reads = 0;
        while let Some(chid) = waits.ask(occupant) {
            reads += 1;
            waits.note(work(chid.get()));
        }
        let after = waits.found().iter().map(|c| c.waiting()).sum::<u32>();
        (reads, after > before)
    }

    #[test]
    fn watch_keeps_clients_with_channels_only() {
        let mut store = store();
        let waits = waits(&mut store);
        assert_eq!(waits.found().len(), 2);
        assert_eq!(waits.found()[0].id(), ClientId::new(5));
        assert_eq!(waits.found()[1].id(), ClientId::new(7));
    }

    #[test]
    fn watch_without_room_watches_no_client() {
        let ids = || [5, 6, 7].into_iter().map(ClientId::new);
        let (mut clients, mut list) = store();
        let mut waits = Waits::<Borrowed<'_>>::new(&mut clients[..], &mut list[..3], 1);
        assert!(!waits.sample(ids(), channels()));
        assert!(!waits.samples_any());
        let (mut clients, mut list) = store();
        let mut waits = Waits::<Borrowed<'_>>::new(&mut clients[..2], &mut list[..], 1);
        assert!(!waits.sample(ids(), channels()));
        assert!(!waits.samples_any());
        assert!(waits.sample([5, 7].into_iter().map(ClientId::new), channels()));
        assert!(waits.samples_any());
    }

    #[test]
    fn client_on_the_engine_does_not_wait_and_is_not_read() {
        let mut store = store();
        let mut waits = waits(&mut store);
        // The second of them goes first.
        assert_eq!(sample(&mut waits, on(4), |_| Work::Waits), (0, false));
        assert_eq!(waits.found()[1].samples(), 1);
    }

    #[test]
    fn client_with_work_behind_another_waits() {
        let mut store = store();
        let mut waits = waits(&mut store);
        assert_eq!(sample(&mut waits, on(0), |_| Work::Waits), (1, true));
        assert_eq!(sample(&mut waits, on(2), |_| Work::Waits), (1, true));
        assert_eq!(waits.found()[0].waited(Ns::new(100)).compute, Ns::new(100));
    }

    #[test]
    fn client_without_work_is_read_to_the_end() {
        let mut store = store();
        let mut waits = waits(&mut store);
        assert_eq!(sample(&mut waits, on(0), |_| Work::None), (2, false));
        assert_eq!(sample(&mut waits, on(2), |_| Work::Acquires), (2, false));
    }

    #[test]
    fn sample_stops_at_the_first_channel_with_work_and_begins_there_next_time() {
        let mut store = store();
        let mut waits = waits(&mut store);
        let only_4 = |id| if id == 4 { Work::Waits } else { Work::None };
        assert_eq!(sample(&mut waits, on(0), only_4), (2, true));
        sample(&mut waits, Occupant::Idle, |_| Work::None);
        assert_eq!(sample(&mut waits, on(0), only_4), (1, true));
        sample(&mut waits, Occupant::Idle, |_| Work::None);
        let only_2 = |id| if id == 2 { Work::Waits } else { Work::None };
        assert_eq!(sample(&mut waits, on(0), only_2), (2, true));
    }

    #[test]
    fn client_that_comes_on_the_engine_in_a_sample_does_not_wait() {
        let mut store = store();
        let mut waits = waits(&mut store);
        waits.begin();
        assert_eq!(waits.ask(on(0)), Some(chid(2)));
        waits.note(Work::None);
        assert_eq!(waits.ask(on(2)), None);
        assert_eq!(waits.found()[1].waited(Ns::new(100)).compute, Ns::ZERO);
        // Its table entry may say so before the next poll does.
        waits.begin();
        waits.begin();
        assert_eq!(waits.ask(on(0)), Some(chid(2)));
        waits.note(Work::Runs);
        assert_eq!(waits.ask(on(0)), None);
        assert_eq!(waits.found()[1].samples(), 2);
        assert_eq!(waits.found()[1].waited(Ns::new(100)).compute, Ns::ZERO);
    }

    #[test]
    fn estimate_is_the_part_of_the_samples() {
        let mut store = store();
        let mut waits = waits(&mut store);
        for found in [true, false, false, false] {
            let work = if found { Work::Waits } else { Work::None };
            sample(&mut waits, Occupant::Idle, |_| work);
            sample(&mut waits, Occupant::Idle, |_| Work::None);
        }
        assert_eq!(
            waits.found()[1].waited(Ns::from_ms(12)).compute,
            Ns::from_ms(3)
        );
        assert_eq!(waits.found()[0].waited(Ns::from_ms(12)).compute, Ns::ZERO);
    }

    // Client 7 has two channels, of which the first is of a copy engine.
    #[test]
    fn client_waits_to_copy_while_a_copy_waits_and_none_runs() {
        const IDLE: u32 = 0x0001_0001;
        const WAITS: u32 = 0x1101_0001;
        const RUNS: u32 = 0x1701_0001;
        const COMPUTE_WAITS: u32 = 0x1100_0001;
        let mut store = store();
        let mut waits = waits(&mut store);
        let mut sample = |words: [u32; 2]| {
            waits.begin();
            let mut words = words.into_iter();
            while waits.ask(Occupant::Idle).is_some() {
                let word = words.next().unwrap_or(IDLE);
                waits.note_state(ChannelState::from_bits(word));
            }
            // The other client's turn.
            waits.begin();
            while waits.ask(Occupant::Idle).is_some() {
                waits.note(Work::None);
            }
            let waited = waits.found()[1].waited(Ns::new(400));
            (waited.compute.get(), waited.copy.get())
        };
        assert_eq!(sample([WAITS, IDLE]), (0, 400));
        assert_eq!(sample([WAITS, RUNS]), (0, 200));
        assert_eq!(sample([RUNS, WAITS]), (0, 133));
        // For both engines at a time.
        assert_eq!(sample([WAITS, COMPUTE_WAITS]), (100, 200));
    }

    #[test]
    fn estimate_without_samples_is_nothing() {
        let mut store = store();
        let mut waits = waits(&mut store);
        assert_eq!(waits.found()[0].waited(Ns::from_ms(12)).compute, Ns::ZERO);
        waits.begin();
        // The phase ends in the middle of a sample.
        assert_eq!(waits.ask(on(0)), Some(chid(2)));
        assert_eq!(waits.found()[1].waited(Ns::from_ms(12)).compute, Ns::ZERO);
    }

    #[test]
    fn answer_without_a_question_counts_nothing() {
        let mut store = store();
        let mut waits = waits(&mut store);
        waits.note(Work::Waits);
        assert_eq!(waits.ask(on(0)), None);
        assert_eq!(waits.found()[0].samples() + waits.found()[1].samples(), 0);
    }

    #[test]
    fn gap_has_the_mean_that_it_is_said_to_have() {
        let mut store = store();
        let mut waits = waits(&mut store);
        let mut sum = 0;
        for _ in 0..4096 {
            let gap = waits.begin();
            assert!((32..=96).contains(&gap));
            sum += gap;
        }
        assert!((sum / 4096).abs_diff(READS_PER_SAMPLE) <= 1);
    }

    #[test]
    fn client_with_more_channels_than_a_sample_reads_is_found_in_the_next() {
        let (mut clients, mut list) = ([SampledClient::default(); 1], [chid(0); 20]);
        let mut waits = Waits::<Borrowed<'_>>::new(&mut clients[..], &mut list[..], 1);
        let channels = (0..20).map(|id| (ClientId::new(1), chid(id)));
        assert!(waits.sample([ClientId::new(1)].into_iter(), channels));
        let only_17 = |id| if id == 17 { Work::Waits } else { Work::None };
        assert_eq!(sample(&mut waits, Occupant::Idle, only_17), (15, false));
        assert_eq!(sample(&mut waits, Occupant::Idle, only_17), (3, true));
        assert_eq!(sample(&mut waits, Occupant::Idle, only_17), (1, true));
    }

    #[test]
    fn turn_goes_on_over_the_end_of_a_phase() {
        let mut store = store();
        let mut waits = waits(&mut store);
        waits.begin();
        assert_eq!(waits.ask(on(0)), Some(chid(2)));
        waits.sample([5, 7].into_iter().map(ClientId::new), channels());
        waits.begin();
        assert_eq!(waits.ask(on(2)), Some(chid(0)));
    }
}
