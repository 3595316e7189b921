// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The table of subjects for which something is set.
//!
//! It is in ascending order of subject, each subject once. Each entry has a number that no other one has,
//! and keeps it when others come and go: that of a place in memory, which has its position in the
//! table. An administrator's setting is told apart from what the user of a process lowered: functions say
//! whether the former has changed, which may concern all processes.

use super::budget::{Budget, Spent};
use super::setting::{Class, Identity, Limit, Setting, Subject};
use crate::error::Error;
use crate::quota::Tenant;
use crate::storage::{Bounded, Storage};
use crate::units::{Ns, Weight};
use core::cell::Cell;

/// Settings of one GPU. A table of them takes less than 200 KiB.
pub const MAX_SETTINGS: usize = 512;
/// As [`Identity::user`] of a cgroup: no user has this number.
pub const NO_USER: u32 = u32::MAX;

/// What is set for one subject, and the budget of its limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    subject: Subject,
    setting: Setting,
    /// What its user lowered, for a process.
    lowered: Setting,
    /// Cgroups and user of a process; the place of a cgroup.
    within: Option<Identity>,
    budget: Budget,
    spent: Spent,
    /// Its number, by which others know it.
    number: u16,
    /// Of the place in memory where this entry is: one more than the position of the entry that has
    /// the number of that place; 0 if none has.
    place: u16,
}

impl Entry {
    /// The process, cgroup or user.
    pub const fn subject(&self) -> Subject {
        self.subject
    }

    /// What an administrator set.
    pub const fn setting(&self) -> &Setting {
        &self.setting
    }

    /// What the user of a process lowered.
    pub const fn lowered(&self) -> &Setting {
        &self.lowered
    }

    /// For a process: the user it belonged to when something was set for it.
    pub fn user(&self) -> Option<u32> {
        let within = self.within.filter(|_| self.subject.is_process());
        within.map(|identity| identity.user)
    }

    /// The tenant of that process, with cgroups at this level.
    pub(super) fn tenant(&self, depth: u32) -> Tenant {
        let within = self.within.map(|identity| identity.tenant(depth));
        within.unwrap_or(Tenant::from(NO_USER))
    }

    /// The weight that is set for it.
    pub fn weight(&self) -> Option<Weight> {
        self.setting
            .weight
            .into_iter()
            .chain(self.lowered.weight)
            .min()
    }

    /// The class that is set for it.
    pub fn class(&self) -> Option<Class> {
        self.setting
            .class
            .into_iter()
            .chain(self.lowered.class)
            .max()
    }

    /// The limit that holds for its processes together.
    pub fn limit(&self) -> Option<Limit> {
        self.setting
            .limit
            .into_iter()
            .chain(self.lowered.limit)
            .min()
    }

    /// Whether its limit throttles its processes.
    pub const fn exhausted(&self) -> bool {
        self.budget.throttled()
    }

    /// Whether only its user made it.
    pub(super) fn is_of_user(&self) -> bool {
        self.setting.is_empty() && !self.lowered.is_empty()
    }

    /// The same entry with what an administrator sets for a subject. `within` has the cgroups and user of
    /// a process, and the place of a cgroup.
    pub(super) fn with_setting(
        self,
        subject: Subject,
        within: Option<Identity>,
        setting: Setting,
    ) -> Self {
        let mut entry = Self {
            subject,
            setting,
            within,
            ..self
        };
        // What is owed stays owed under another limit, and ends with the limit.
        let holds = |limit: Option<Limit>| limit.is_some_and(|limit| limit != Limit::NONE);
        let (before, after) = (self.setting.limit, setting.limit);
        if before != after && !(holds(before) && holds(after)) {
            entry.budget.restart();
        }
        entry
    }

    /// The same entry with what the user of a process lowers. The budget stays: a debt under an
    /// administrator's limit is not shaken off.
    pub(super) fn with_lowered(self, identity: &Identity, lowered: Setting) -> Self {
        Self {
            subject: Subject::Process(identity.process),
            lowered,
            within: Some(*identity),
            ..self
        }
    }

    /// The same entry without what its user lowered.
    pub(super) fn without_lowered(self) -> Self {
        let lowered = Setting::default();
        Self { lowered, ..self }
    }

    /// Whether it is a part of another subject.
    pub(super) fn is_inside(&self, subject: Subject) -> bool {
        let inside = |identity: Identity| match subject {
            Subject::Process(_) => false,
            Subject::User(user) => identity.user == user,
            Subject::Cgroup(id) => identity.is_in(id),
        };
        self.subject != subject && self.within.is_some_and(inside)
    }

    /// Its number, by which [`Entries::numbered`] finds it.
    pub(super) const fn number(&self) -> u16 {
        self.number
    }

    /// Adds what a process used to its limit.
    pub(super) fn spend(&mut self, spent: &Spent) {
        self.spent.used = self.spent.used.saturating_add(spent.used);
        self.spent.allowed |= spent.allowed;
    }

    /// Books what was spent since the last call, and decides whether its limit throttles.
    pub(super) fn settle(&mut self, now: Ns, span: Ns, next: Ns) {
        let spent = core::mem::take(&mut self.spent);
        if let Some(limit) = self.limit() {
            self.budget.settle(limit.rate(), now, span, next, &spent);
        }
    }

    /// Starts its budget anew.
    pub(super) fn restart(&mut self) {
        self.budget.restart();
        self.spent = Spent::default();
    }
}

/// The subjects for which something is set.
pub(super) struct Entries<S: Storage> {
    table: Bounded<S::Of<Entry>>,
}

impl<S: Storage> Entries<S> {
    /// None.
    pub(super) const fn new(store: S::Of<Entry>) -> Self {
        Self {
            table: Bounded::new(store),
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Entry] {
        self.table.all()
    }

    /// All of them, to charge their limits.
    pub(super) fn all_mut(&mut self) -> &mut [Entry] {
        self.table.all_mut()
    }

    /// The entry of a subject.
    pub(super) fn get(&self, subject: Subject) -> Option<&Entry> {
        self.all().get(self.find(subject).ok()?)
    }

    /// The entry with this number.
    pub(super) fn numbered(&self, number: u16) -> Option<&Entry> {
        self.all().get(self.place(number)?)
    }

    /// The entry with this number, to charge its limit.
    pub(super) fn numbered_mut(&mut self, number: u16) -> Option<&mut Entry> {
        let at = self.place(number)?;
        self.table.all_mut().get_mut(at)
    }

    /// Removes the entry of a subject. Returns it, if there was one.
    pub(super) fn remove(&mut self, subject: Subject) -> Option<Entry> {
        let at = self.find(subject).ok()?;
        let gone = self.table.remove(at);
        self.note_places();
        gone
    }

    /// Adds an entry, or replaces that of the same subject. True if an administrator's setting is
    /// another one then.
    ///
    /// # Errors
    ///
    /// [`Error::Full`]; then nothing has changed.
    pub(super) fn put(&mut self, entry: Entry) -> Result<bool, Error> {
        let full = Error::Full {
            name: "settings",
            max: self.table.room(),
        };
        let before = match self.find(entry.subject) {
            Ok(at) => {
                let Some(slot) = self.table.all_mut().get_mut(at) else {
                    return Ok(false);
                };
                let (number, place) = (slot.number, slot.place);
                let entry = Entry {
                    number,
                    place,
                    ..entry
                };
                core::mem::replace(slot, entry).setting
            }
            Err(at) => {
                let number = self.free_number().ok_or(full)?;
                if !self.table.insert(at, Entry { number, ..entry }) {
                    return Err(full);
                }
                self.note_places();
                Setting::default()
            }
        };
        Ok(before != entry.setting)
    }

    /// Removes the entries of subjects that are gone. True if an administrator had set something for one.
    pub(super) fn retain(&mut self, stays: impl Fn(Subject) -> bool) -> bool {
        let before = self.all().len();
        let changed = Cell::new(false);
        self.table.retain(|entry| {
            let stays = stays(entry.subject);
            changed.set(changed.get() || (!stays && !entry.setting.is_empty()));
            stays
        });
        if self.all().len() != before {
            self.note_places();
        }
        changed.get()
    }

    /// Notes where the entries are, after some have moved.
    fn note_places(&mut self) {
        for slot in self.table.memory_mut() {
            slot.place = 0;
        }
        for at in 0..self.all().len() {
            let number = self.all().get(at).map_or(0, |entry| entry.number);
            let slot = self.table.memory_mut().get_mut(usize::from(number));
            if let (Some(slot), Ok(place)) = (slot, u16::try_from(at.saturating_add(1))) {
                slot.place = place;
            }
        }
    }

    /// A number that no entry has.
    fn free_number(&self) -> Option<u16> {
        let mut slots = self.table.memory().iter();
        let free = slots.position(|slot| slot.place == 0)?;
        u16::try_from(free).ok()
    }

    /// Position of the entry with this number.
    fn place(&self, number: u16) -> Option<usize> {
        let slot = self.table.memory().get(usize::from(number))?;
        usize::from(slot.place).checked_sub(1)
    }

    /// Position of a subject, or where it would be.
    fn find(&self, subject: Subject) -> Result<usize, usize> {
        self.all()
            .binary_search_by_key(&subject, |entry| entry.subject)
    }
}
