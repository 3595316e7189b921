// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The records of all programs.

use super::record::{Record, Run};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most records.
pub const KEYS_MAX: usize = 4096;
/// Most records of one user.
pub const KEYS_OF_USER_MAX: usize = 256;
/// A record of a program that did not run for so long leaves room for others.
pub const STALE_S: u64 = 90 * 86_400;

/// A file that can be run: which one, and which version of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exe {
    /// The number of its device.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
    /// When its contents changed last, in nanoseconds.
    pub mtime_ns: i64,
}

/// Which program of which user.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The user.
    pub uid: u32,
    /// Its executable.
    pub exe: Exe,
    /// The name that `--as` gave it; empty without one.
    pub name: String,
}

/// The records of all programs. A user has a bounded number of them: a further one takes the place
/// of its own least recent one, never of another user's, and is left out if the table is full and
/// the user has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History(BTreeMap<Key, Record>);

impl History {
    /// Adds a run that has ended now.
    pub fn add(&mut self, key: Key, run: &Run, now_s: u64) {
        if let Some(record) = self.0.get_mut(&key) {
            return record.add(run, now_s);
        }
        if self.0.len() >= KEYS_MAX {
            let fresh = |seen_s: u64| now_s.saturating_sub(seen_s) < STALE_S;
            self.0.retain(|_, record| fresh(record.seen_s));
        }
        let (mut own, mut oldest) = (0, None);
        for (key, record) in self.of(key.uid) {
            own += 1;
            if oldest.is_none_or(|(_, seen_s)| record.seen_s < seen_s) {
                oldest = Some((key, record.seen_s));
            }
        }
        if own >= KEYS_OF_USER_MAX || self.0.len() >= KEYS_MAX {
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            self.0.remove(&oldest);
        }
        let mut record = Record::default();
        record.add(run, now_s);
        self.0.insert(key, record);
    }

    /// Takes a record that was made before.
    ///
    /// # Errors
    ///
    /// Why it cannot be.
    pub(super) fn put(&mut self, key: Key, record: Record) -> Result<(), String> {
        if self.0.len() >= KEYS_MAX {
            return Err(format!("has more than {KEYS_MAX} records"));
        }
        if self.of(key.uid).count() >= KEYS_OF_USER_MAX {
            let uid = key.uid;
            return Err(format!(
                "has more than {KEYS_OF_USER_MAX} records of user {uid}"
            ));
        }
        let uid = key.uid;
        match self.0.insert(key, record) {
            None => Ok(()),
            Some(_) => Err(format!("has a record of user {uid} twice")),
        }
    }

    /// The record of a program. Without an executable, the most recent one of this name.
    pub fn record(&self, uid: u32, exe: Option<Exe>, name: &str) -> Option<&Record> {
        if let Some(exe) = exe {
            let name = name.to_string();
            return self.0.get(&Key { uid, exe, name });
        }
        let named = self.of(uid).filter(|(key, _)| key.name == name);
        let named = named.filter(|_| !name.is_empty());
        let latest = named.max_by_key(|(_, record)| record.seen_s);
        latest.map(|(_, record)| record)
    }

    /// The mean time alone of what a user runs, in nanoseconds, if that is known of any.
    pub fn typical_ns(&self, uid: u32) -> Option<u64> {
        let models = self.of(uid).flat_map(|(_, record)| &record.models);
        let times = models.filter_map(|model| model.time.known());
        let (mut sum, mut count) = (0u64, 0);
        for time in times {
            sum = sum.saturating_add(time);
            count += 1;
        }
        sum.checked_div(count)
    }

    /// The records of a user.
    pub fn of(&self, uid: u32) -> impl Iterator<Item = (&Key, &Record)> {
        let first = Key {
            uid,
            exe: Exe {
                mtime_ns: i64::MIN,
                ..Exe::default()
            },
            name: String::new(),
        };
        let from = self.0.range(first..);
        from.take_while(move |(key, _)| key.uid == uid)
    }

    /// All records.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Record)> {
        self.0.iter()
    }
}
