// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which processes take part in decisions: a process that does nothing for a while sleeps.
//!
//! A decision goes over the processes that are awake, and over their groups, so its cost does not
//! depend on the others. A process falls asleep when in [`QUIET`] decisions in a row it has neither
//! used the GPU nor waited for it nor been throttled. A process under a limit or of the idle class
//! never sleeps: its budget and its gate change while it does nothing. A process wakes up as soon
//! as time is charged to it.
//!
//! A group sleeps with the last of its processes, which stays awake while the group is ahead of the
//! system: a policy may throttle it for that, and then all of its processes are awake. A policy
//! lifts idle groups to the system virtual time; a group that wakes up is lifted then, once for all
//! decisions in between. What the policy keeps of it does not change.

/// A position that no table has: the end of the list.
pub(super) const END: usize = usize::MAX;

/// Decisions after which a process that does nothing sleeps. What a policy keeps of it has faded by
/// then.
pub const QUIET: u32 = 32;

/// Whether a process is awake.
#[derive(Clone, Copy, Debug)]
pub(super) struct Activity {
    pub(super) awake: bool,
    /// The last phase in which it did anything.
    pub(super) last: u32,
    /// Position of the next process that is awake.
    pub(super) next: usize,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            awake: false,
            last: 0,
            next: END,
        }
    }
}
