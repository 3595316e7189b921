// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The processes of one GPU, and the list of those that are awake: see `activity`.

use super::activity::{Activity, END};
use super::member::Member;
use crate::ids::ClientId;
use crate::storage::{find_near, Bounded, Storage};

/// The processes of one GPU, in storage that the caller owns.
///
/// # Invariants
///
/// They are in ascending order of id. The list has each that is awake, once. The number of the phase is
/// the one that is charged next.
pub(super) struct Members<S: Storage> {
    table: Bounded<S::Of<Member>>,
    /// Position of a process that is awake: the first of the list.
    first: usize,
    /// Number of the phase that is charged next; the first is 1.
    phase: u32,
}

impl<S: Storage> Members<S> {
    /// None.
    pub(super) const fn new(table: S::Of<Member>) -> Self {
        Self {
            table: Bounded::new(table),
            first: END,
            phase: 1,
        }
    }

    /// Moves to larger storage.
    pub(super) fn grow(&mut self, table: S::Of<Member>) {
        self.table.grow(table);
    }

    /// Whether there is room for no further one.
    pub(super) fn is_full(&self) -> bool {
        self.table.is_full()
    }

    /// Most of them.
    pub(super) fn room(&self) -> usize {
        self.table.room()
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Member] {
        self.table.all()
    }

    /// All of them, to change them.
    pub(super) fn all_mut(&mut self) -> &mut [Member] {
        self.table.all_mut()
    }

    /// A process.
    pub(super) fn get(&self, at: usize) -> Option<&Member> {
        self.table.all().get(at)
    }

    /// A process, to change it.
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Member> {
        self.table.all_mut().get_mut(at)
    }

    /// Position of a process.
    pub(super) fn find(&self, id: ClientId) -> Option<usize> {
        self.all().binary_search_by_key(&id, Member::id).ok()
    }

    /// As [`find`](Self::find), for a process that is probably at `guess`.
    pub(super) fn find_near(&self, id: ClientId, guess: usize) -> Option<usize> {
        find_near(self.all(), guess, &id, Member::id)
    }

    /// Number of the phase that is charged next.
    pub(super) const fn phase(&self) -> u32 {
        self.phase
    }

    /// The phase is booked.
    pub(super) fn begin_phase(&mut self) {
        self.phase = self.phase.wrapping_add(1);
    }

    /// Adds a process, which sleeps. Its id is larger than all before.
    pub(super) fn push(&mut self, member: Member) -> Option<usize> {
        self.table.push(member)
    }

    /// Removes a process that is awake; the later ones move up.
    pub(super) fn remove(&mut self, gone: usize) -> Option<Member> {
        let after = self.get(gone).map_or(END, Member::next_awake);
        let moved = |at: usize| match if at == gone { after } else { at } {
            END => END,
            at if at > gone => at.saturating_sub(1),
            at => at,
        };
        let here = |moved: usize| moved.saturating_add(usize::from(moved >= gone));
        let mut at = moved(self.first);
        self.first = at;
        // The table has not moved yet.
        while let Some(member) = self.get_mut(here(at)) {
            at = moved(member.activity.next);
            member.activity.next = at;
        }
        self.table.remove(gone)
    }

    /// A group is no more: those after it have moved up.
    pub(super) fn forget_group(&mut self, gone: usize) {
        for member in self.table.all_mut() {
            if member.group > gone {
                member.group = member.group.saturating_sub(1);
            }
        }
    }

    /// All sleep, and their groups are formed anew.
    pub(super) fn forget_awake(&mut self) {
        self.first = END;
    }

    /// Positions of the processes that are awake, in no order.
    pub(super) fn awake(&self) -> impl Iterator<Item = usize> + '_ {
        let known = |at: usize| self.get(at).map(|_| at);
        core::iter::successors(known(self.first), move |at| {
            known(self.get(*at)?.next_awake())
        })
    }

    /// Position of the first process that is awake, or [`END`]; [`Member::next_awake`] leads on.
    pub(super) const fn first_awake(&self) -> usize {
        self.first
    }

    /// Changes every process that is awake.
    pub(super) fn each_awake(&mut self, mut change: impl FnMut(&mut Member)) {
        let mut at = self.first;
        let members = self.table.all_mut();
        while let Some(member) = members.get_mut(at) {
            change(member);
            at = member.next_awake();
        }
    }

    /// Has a process take part in the next decisions. Returns its group, if it slept.
    pub(super) fn wake(&mut self, at: usize) -> Option<usize> {
        let (phase, first) = (self.phase, self.first);
        let member = self.get_mut(at)?;
        member.activity.last = phase.wrapping_sub(1);
        if member.activity.awake {
            return None;
        }
        member.activity.awake = true;
        member.activity.next = first;
        let group = member.group;
        self.first = at;
        Some(group)
    }

    /// A process that is awake falls asleep; `before` is before it in the list.
    pub(super) fn let_sleep(&mut self, at: usize, before: usize) {
        let Some(member) = self.get_mut(at) else {
            return;
        };
        let next = member.activity.next;
        member.activity = Activity::default();
        match self.get_mut(before) {
            Some(before) => before.activity.next = next,
            None => self.first = next,
        }
    }
}
