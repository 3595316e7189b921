// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Events: records of fixed size that a subscriber reads from `/dev/loga`.
//!
//! `read` gives whole records only, `EINVAL` if there is no room for one, `EAGAIN` without any if
//! the file is opened with `O_NONBLOCK`; `poll` says whether there is one. A reader that is too
//! slow loses the oldest: the gap shows in [`Event::sequence`].

use super::refusal::Refusal;
use super::snapshot::COMM_LEN;
use core::mem::size_of;
use core::ops::DerefMut;

/// Something that happened on a GPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub time_ns: u64,
    /// Number of this record for its reader, from 0: missing numbers are lost records.
    pub sequence: u64,
    /// The client; 0 for events of the whole GPU.
    pub client: u64,
    /// One of `EVENT_*`.
    pub kind: u32,
    /// Index of the GPU.
    pub gpu: u32,
    /// Process id of the client, in the namespace of the reader; 0 if not visible.
    pub pid: i32,
    /// User id of the client, in the namespace of the reader.
    pub uid: u32,
    /// Its meaning depends on the kind.
    pub value: u64,
    /// Command name of the client, or name of the policy; zero-terminated.
    pub name: [u8; COMM_LEN],
}

/// A client appeared.
pub const EVENT_APPEARED: u32 = 0;
/// A client is throttled; `value` is one of `THROTTLED_BY_*`.
pub const EVENT_THROTTLED: u32 = 1;
/// A client is released; `value` is for how long it was throttled, in nanoseconds.
pub const EVENT_RELEASED: u32 = 2;
/// A client is gone; `value` is the GPU time that it got, in nanoseconds.
pub const EVENT_EXITED: u32 = 3;
/// All clients run against the decision; `value` is one of `FALLBACK_*`.
pub const EVENT_FALLBACK: u32 = 4;
/// The GPU stopped answering.
pub const EVENT_GPU_LOST: u32 = 5;
/// Another policy decides from now on; `name` is its name.
pub const EVENT_POLICY: u32 = 6;
/// The GPU answers again.
pub const EVENT_GPU_BACK: u32 = 7;
/// A channel that no client owns was on the engine; `value` is its number, TSGs from 4096.
/// At most one a second.
pub const EVENT_UNKNOWN: u32 = 8;
/// A client was found on the engine outside of polling phases for longer than within them, beyond
/// the errors of both and over many periods; `value` is by how much, in nanoseconds.
pub const EVENT_EVASION: u32 = 9;
/// A client appeared whose process has claimed other GPUs and not this one; `value` is the index of
/// one of those.
pub const EVENT_ELSEWHERE: u32 = 10;
/// Submissions of a client ended after deadlines that were promised; `value` is how many since the
/// last event of this kind. This and the three kinds below come at most once in a polling period,
/// and count all clients of a user that share a wait queue: the first of them is named, and none where
/// clients of several users share one.
pub const EVENT_MISSED: u32 = 11;
/// The same for deadlines that were not promised any more, since their conditions had been broken.
pub const EVENT_VOID: u32 = 12;
/// Submissions of a client were longer than a deadline of another client bears, and were not
/// declared; `value` is how many.
pub const EVENT_EXCEEDED: u32 = 13;
/// Submissions of a client were longer than its reserve declares; `value` is how many.
pub const EVENT_BREACHED: u32 = 14;
/// Another group has the turn, under a policy with turns: it has the GPU alone. The client is one of
/// the group's that the reader may see; 0 if there is none, as when all run. Which clients are in
/// it says [`Group::turn`](super::Group::turn). There is one each time that the turn is passed on,
/// some 30 a second on a GPU, so that readers have to ask for this kind by its bit.
pub const EVENT_TURN: u32 = 15;
/// Submissions are decided on again after [`FALLBACK_SILENT`]; `value` is for how long all passed, in
/// nanoseconds.
pub const EVENT_ENGAGED: u32 = 16;
/// A submission page of a client is open although it was to be closed, for more than a millisecond: its
/// entries cannot be removed before a thread that has mapped it, or maps or unmaps a part of it, has
/// gone on. `value` is the number of the page. The client is not held back meanwhile, others are.
pub const EVENT_STUCK: u32 = 17;
/// One past the last kind.
pub const EVENT_KINDS: u32 = 18;
/// The kinds that tell what happens now and then; not [`EVENT_TURN`], which comes all the time.
pub const EVENTS_RARE: u64 = ((1 << EVENT_KINDS) - 1) & !(1 << EVENT_TURN);

/// The policy broke its contract.
pub const FALLBACK_CONTRACT: u64 = 0;
/// The main thread missed a deadline.
pub const FALLBACK_LATE: u64 = 1;
/// A client was throttled on an idle GPU.
pub const FALLBACK_IDLE_THROTTLE: u64 = 2;
/// A client was throttled for longer than its gate allows.
pub const FALLBACK_OVERRUN: u64 = 3;
/// A submission that was decided on did not end in time: the others pass until it has.
pub const FALLBACK_SUBMISSION: u64 = 4;
/// The thread that passes turns on did not run for 3 s while a client waited: all pass until it does.
pub const FALLBACK_SILENT: u64 = 5;

/// Argument of [`super::IOC_SUBSCRIBE`]: replaces what the file subscribed to before.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Subscribe {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<Subscribe>()`.
    pub size: u32,
    /// In: index of the GPU, or [`super::ALL_GPUS`].
    pub gpu: u32,
    /// In: zero.
    pub flags: u32,
    /// In: bits `1 << EVENT_*`; 0 ends the subscription.
    pub mask: u64,
    /// Out: why it was refused.
    pub refusal: Refusal,
}

impl Subscribe {
    /// Whether an event is among those subscribed to.
    pub const fn wants(&self, event: &Event) -> bool {
        let this_gpu = self.gpu == super::ALL_GPUS || self.gpu == event.gpu;
        this_gpu && event.kind < EVENT_KINDS && (self.mask >> event.kind) & 1 == 1
    }
}

/// For each GPU, whether the last [`EVENT_TURN`] told a reader of a client: then it is told once
/// that this client has the turn no more, and nothing of others that pass the turn among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisibleHolders(u64);

impl VisibleHolders {
    /// Nothing was told yet: a client of the reader may have the turn.
    pub const NOTHING: Self = Self(u64::MAX);

    /// Whether to tell that the turn on a GPU was passed on, to a client that the reader may see or
    /// to none.
    pub fn tells(&mut self, gpu: u32, visible: bool) -> bool {
        let bit = 1u64.checked_shl(gpu).unwrap_or(0);
        let before = self.0 & bit != 0;
        self.0 = if visible { self.0 | bit } else { self.0 & !bit };
        visible || before
    }
}

/// Puts the first client of each user into `found`, which has only `None` before, until it is full.
pub fn one_of_each_user<T>(
    found: &mut [Option<T>],
    clients: impl Iterator<Item = T>,
    user_of: impl Fn(&T) -> u32,
) {
    let mut filled = 0;
    for client in clients {
        let user = user_of(&client);
        if found.iter().flatten().any(|known| user_of(known) == user) {
            continue;
        }
        let Some(free) = found.get_mut(filled) else {
            return;
        };
        *free = Some(client);
        filled += 1;
    }
}

/// Records that one reader gets room for.
pub const QUEUE_ROOM: usize = 256;

/// The records that wait for one reader, in storage that the caller owns, usually of
/// [`QUEUE_ROOM`].
///
/// # Invariants
///
/// `waiting` is not larger than the storage.
pub struct EventQueue<S> {
    store: S,
    /// Position of the oldest.
    first: usize,
    waiting: usize,
    /// Number of the next record.
    next: u64,
}

impl<S: DerefMut<Target = [Event]>> EventQueue<S> {
    /// No records.
    pub const fn new(store: S) -> Self {
        Self {
            store,
            first: 0,
            waiting: 0,
            next: 0,
        }
    }

    /// Records that wait.
    pub const fn len(&self) -> usize {
        self.waiting
    }

    /// Whether none waits.
    pub const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Adds a record and gives it its number. Without room, the oldest is lost.
    pub fn push(&mut self, event: &Event) {
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        let room = self.store.len();
        if self.waiting == room {
            self.pop();
        }
        let at = self.first.saturating_add(self.waiting).checked_rem(room);
        if let Some(slot) = at.and_then(|at| self.store.get_mut(at)) {
            *slot = Event { sequence, ..*event };
            self.waiting = self.waiting.saturating_add(1);
        }
    }

    /// Takes the oldest record out.
    pub fn pop(&mut self) -> Option<Event> {
        self.waiting = self.waiting.checked_sub(1)?;
        let event = self.store.get(self.first).copied();
        self.first = self.first.saturating_add(1).checked_rem(self.store.len())?;
        event
    }
}

const _: () = assert!(size_of::<Event>() == 64);
const _: () = assert!(size_of::<Subscribe>() == 24 + 32);

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_uapi_event))]
mod tests {
    use super::*;

    fn event(value: u64) -> Event {
        Event {
            value,
            ..Event::default()
        }
    }

    #[test]
    fn slow_reader_loses_the_oldest_and_can_see_it() {
        let mut store = [Event::default(); 2];
        let mut queue = EventQueue::new(&mut store[..]);
        for value in 10..13 {
            queue.push(&event(value));
        }
        assert_eq!(queue.len(), 2);
        let first = queue.pop().unwrap_or_default();
        assert_eq!((first.value, first.sequence), (11, 1));
        let second = queue.pop().unwrap_or_default();
        assert_eq!((second.value, second.sequence), (12, 2));
        assert!(queue.pop().is_none());
    }

    #[test]
    fn queue_without_room_loses_everything() {
        let mut store = [];
        let mut queue = EventQueue::new(&mut store[..]);
        queue.push(&event(1));
        assert!(queue.pop().is_none());
    }

    #[test]
    fn reader_is_told_once_that_its_client_has_the_turn_no_more() {
        let mut told = VisibleHolders::NOTHING;
        // Its client may have had it before.
        assert!(told.tells(1, false));
        assert!(!told.tells(1, false));
        assert!(told.tells(1, true));
        assert!(told.tells(1, true));
        // Of another GPU nothing was told.
        assert!(told.tells(0, false));
        assert!(told.tells(1, false));
        assert!(!told.tells(1, false));
    }

    #[test]
    fn first_client_of_each_user_is_found() {
        let clients = [(1, 1000), (2, 1000), (3, 7), (4, 1000), (5, 0), (6, 9)];
        let mut found = [None; 3];
        one_of_each_user(&mut found, clients.into_iter(), |client| client.1);
        assert_eq!(found, [Some((1, 1000)), Some((3, 7)), Some((5, 0))]);
        let mut found = [None; 5];
        one_of_each_user(&mut found, clients.into_iter(), |client| client.1);
        assert_eq!(found[3..], [Some((6, 9)), None]);
    }

    #[test]
    fn turns_are_not_among_the_rare_kinds() {
        assert_eq!(EVENTS_RARE, 0x3_7fff);
    }

    #[test]
    fn subscription_is_to_some_kinds_on_some_gpus() {
        let subscribe = Subscribe {
            gpu: 1,
            mask: 1 << EVENT_THROTTLED,
            ..Subscribe::default()
        };
        let on = |gpu, kind| {
            let event = Event {
                gpu,
                kind,
                ..Event::default()
            };
            subscribe.wants(&event)
        };
        assert!(on(1, EVENT_THROTTLED));
        assert!(!on(0, EVENT_THROTTLED));
        assert!(!on(1, EVENT_RELEASED));
        assert!(!on(1, 77));
    }
}
