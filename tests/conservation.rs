// SPDX-License-Identifier: GPL-2.0

//! Property: no time is lost or made up, whatever the engine shows and whenever it is polled.

use loga::account::{settle, Accountant, PhaseTotals, Slot, MAX_SLOTS};
use loga::ids::{Chid, GroupId, TsgId};
use loga::policies::ClientState;
use loga::regs::Occupant;
use loga::units::{Ns, VTime, Weight};
use proptest::prelude::*;

/// Clients among which the channels are divided; every fifth channel has no owner.
const CLIENTS: usize = 4;

fn occupant() -> impl Strategy<Value = Occupant> {
    prop_oneof![
        Just(Occupant::Idle),
        Just(Occupant::Unknown),
        (0u32..4096).prop_map(|id| Occupant::Channel(Chid::from_bits(id))),
        (0u32..24).prop_map(|id| Occupant::Channel(Chid::from_bits(id))),
        (0u32..4096).prop_map(|id| Occupant::Tsg(TsgId::from_bits(id))),
    ]
}

/// Polls of an engine: time since the last poll, which may be negative, and the occupant.
fn polls() -> impl Strategy<Value = Vec<(i64, Occupant)>> {
    prop::collection::vec((-1000i64..2_000_000, occupant()), 1..200)
}

fn owner(slot: usize) -> Option<usize> {
    (slot % 5 != 4).then_some(slot % CLIENTS)
}

fn clients() -> Vec<ClientState> {
    let state = |id| ClientState::new(GroupId::new(id), Weight::DEFAULT, VTime::ZERO);
    (0..CLIENTS as u64).map(state).collect()
}

/// Runs one phase and returns its totals and the latest time seen in it.
fn phase(
    accountant: &mut Accountant,
    slots: &mut [Slot],
    start: u64,
    polls: &[(i64, Occupant)],
) -> (PhaseTotals, u64) {
    let (mut now, mut latest) = (start, start);
    accountant.begin(slots, Ns::new(start), polls[0].1);
    for (step, occupant) in polls {
        now = now.saturating_add_signed(*step);
        latest = latest.max(now);
        accountant.observe(slots, Ns::new(now), *occupant);
    }
    (accountant.end(slots, Ns::new(latest)), latest)
}

proptest! {
    #[test]
    fn totals_of_any_phase_add_up_to_its_length(
        phases in prop::collection::vec(polls(), 1..4),
        room in prop_oneof![Just(16usize), Just(4096), Just(MAX_SLOTS)],
    ) {
        let mut accountant = Accountant::new();
        let mut slots = vec![Slot::default(); room];
        let mut start = 1_000_000;
        for polls in phases {
            let (mut totals, end) = phase(&mut accountant, &mut slots, start, &polls);
            prop_assert_eq!(totals.length.get(), end - start);
            prop_assert_eq!(
                totals.length.get(),
                totals.idle.get() + totals.unknown.get() + totals.ran.get()
            );
            // Also over the whole table: the phase before has left nothing.
            let ran: u64 = slots.iter().map(|slot| slot.ran.get()).sum();
            prop_assert_eq!(ran, totals.ran.get());

            let mut clients = clients();
            settle(&mut totals, &slots, accountant.used(), &mut owner, clients.as_mut_slice());
            let busy: u64 = clients.iter().map(|client| client.busy.get()).sum();
            prop_assert_eq!(busy, totals.ran.get());
            prop_assert_eq!(
                totals.length.get(),
                totals.idle.get() + totals.unknown.get() + busy
            );
            start = end;
        }
    }

    #[test]
    fn polling_more_often_changes_nothing(polls in polls()) {
        let twice: Vec<_> = polls
            .iter()
            .flat_map(|poll| [*poll, (0, poll.1), (0, poll.1)])
            .collect();
        let run = |polls: &[(i64, Occupant)]| {
            let mut slots = vec![Slot::default(); MAX_SLOTS];
            let totals = phase(&mut Accountant::new(), &mut slots, 0, polls).0;
            (totals, slots)
        };
        prop_assert_eq!(run(&polls), run(&twice));
    }
}
