// SPDX-License-Identifier: GPL-2.0

//! `[pure]` When the completion thread of an engaged GPU has to do something, and what.
//!
//! One client at a time has the turn. It goes through three stages, and under
//! [`Mode::Ht`](crate::engaged::Mode::Ht) comes back to the first ones while it is in the last:
//!
//! | stage | the client | the completion thread |
//! |---|---|---|
//! | granted | its thread wakes, and returns to its store | takes the grant back after [`RETURN`] |
//! | window | stores: its page has an entry | takes the entry away when it sees a store, or [`WINDOW`] after it was made |
//! | running | its commands run | sleeps until they should end, then reads |
//!
//! *All that was stored while the entry was there is one submission.* Its commands have ended when
//! no channel of it has work, or only work that has rested for [`REST`] or, where only the indices of a
//! ring tell of it, for [`UNSEEN`]. A command that is expected
//! to last longer is read when the time since it began has grown by half, so that a length is known
//! at least to that: without these reads none would ever be found shorter than expected. From the
//! expected end on, less a margin, reads are a sixteenth of the time since then apart,
//! [`MOST_STEP`] at most: so late is an end seen, and so much more is its client charged. Once all
//! work rests, each read comes after twice the time, so that the turn goes on as soon as the engine
//! has seen what was submitted.
//!
//! Reads and checks come less and less often: the completion thread has priority over the client,
//! which may need its processor. It expects a client that was granted to come back soon, so that
//! the client need not wake it.

use super::book::Grant;
use super::leftovers::{REST, UNSEEN};
use crate::engaged::limits::{RETURN, WINDOW};
use crate::units::Ns;

/// Least margin before an expected end.
const LEAST_MARGIN: Ns = Ns::from_us(20);
/// Least and most time between two reads.
const LEAST_STEP: Ns = Ns::from_us(2);
const MOST_STEP: Ns = Ns::from_us(200);
/// Part of the time since the first read that passes until the next one.
const PART: u64 = 16;

/// Time to the first check for a store; later ones come after twice the time.
const FIRST_CHECK: Ns = Ns::from_us(5);
/// When a client that was granted is expected back; then after twice the time.
const BACK: Ns = Ns::from_us(20);
const NS_PER_US: u64 = 1_000;
/// Time to the first read of commands.
const FIRST_READ: Ns = Ns::from_us(10);

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The grant was not used: [`Detection::take_back`].
    Return,
    /// The rings have to be read for a store: [`Detection::checked`].
    CheckRings,
    /// The entries have to go: [`Detection::begin_close`], then [`Detection::close`].
    Close,
    /// The channels have to be read: [`Detection::read`].
    Read,
}

/// What the channels of a turn have left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing.
    Nothing,
    /// Only work that cannot go on by itself: see [`Leftovers`](crate::engaged::Leftovers).
    Rest,
    /// The same, but that of one only its indices say so: the engine may not have seen it yet.
    Unseen,
    /// Work for the engine.
    Work,
}

/// Commands that have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Submissions.
    pub count: u32,
    /// How long each of them used the engine.
    pub each: Ns,
    /// Whether others were on the engine meanwhile: that time is not in `each`.
    pub beside: bool,
}

/// A grant that has not been used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Granted {
    grant: Grant,
    since: Ns,
    /// When the client is expected back.
    back: Ns,
}

/// The window through which a client stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    opened: Ns,
    /// When its entries have to go, and when its rings are checked before.
    closes: Ns,
    check: Ns,
    /// Its entries are being taken away.
    closing: bool,
}

/// Commands under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Submissions.
    count: u32,
    /// When they could first use the engine.
    since: Ns,
    /// When they should have ended, and from when on they may have.
    end: Ns,
    first: Ns,
    /// By how much the sum of what was expected may be off.
    margin: Ns,
    /// The next read.
    next: Ns,
    /// Since when they only wait for a semaphore.
    rests: Option<Ns>,
    /// For how long others were on the engine.
    beside: Ns,
}

/// The turn of one client, as the completion thread sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Detection {
    granted: Option<Granted>,
    window: Option<(Window, Grant)>,
    run: Option<Run>,
}

impl Detection {
    /// A client may pass.
    pub fn grant(&mut self, now: Ns, grant: Grant) {
        self.granted = Some(Granted {
            grant,
            since: now,
            back: now.saturating_add(BACK),
        });
    }

    /// The completion thread sleeps again: a client that is not back yet is expected later.
    pub fn expect(&mut self, now: Ns) {
        if let Some(granted) = self.granted.as_mut().filter(|granted| granted.back <= now) {
            let away = now.saturating_sub(granted.since);
            granted.back = now.saturating_add(away);
        }
    }

    /// The client that may pass, and has not opened its window.
    pub fn granted(&self) -> Option<usize> {
        self.granted.map(|granted| granted.grant.client)
    }

    /// Its window is opened. False if it may not pass.
    pub fn open(&mut self, now: Ns, client: usize) -> bool {
        let Some(Granted { grant, .. }) = self.granted else {
            return false;
        };
        if grant.client != client || self.window.is_some() {
            return false;
        }
        self.granted = None;
        let window = Window {
            opened: now,
            closes: now.saturating_add(WINDOW),
            check: now.saturating_add(FIRST_CHECK),
            closing: false,
        };
        self.window = Some((window, grant));
        true
    }

    /// An entry is made for a client whose window is open: it is there for [`WINDOW`] from now on,
    /// however long the caller has taken to make it.
    pub fn entered(&mut self, now: Ns, client: usize) {
        if self.open_for() == Some(client) {
            if let Some((window, _)) = self.window.as_mut() {
                window.closes = now.saturating_add(WINDOW);
                window.check = now.saturating_add(FIRST_CHECK);
            }
        }
    }

    /// The client whose window is open.
    pub fn open_for(&self) -> Option<usize> {
        let (window, grant) = self.window?;
        (!window.closing).then_some(grant.client)
    }

    /// The client whose window is open, or being closed.
    pub fn window_of(&self) -> Option<usize> {
        self.window.map(|(_, grant)| grant.client)
    }

    /// Takes a grant back that was not used.
    pub fn take_back(&mut self) -> Option<usize> {
        self.granted.take().map(|granted| granted.grant.client)
    }

    /// The rings were read; `stored`: the client has submitted something. More that it stores
    /// before the entries are gone is part of the same submission.
    pub fn checked(&mut self, now: Ns, stored: bool) {
        if let Some((window, _)) = self.window.as_mut() {
            let open = now.saturating_sub(window.opened);
            window.check = now.saturating_add(open.max(FIRST_CHECK));
            window.closes = if stored { now } else { window.closes };
        }
    }

    /// The window is being closed: no entry is made any more.
    pub fn begin_close(&mut self) {
        if let Some((window, _)) = self.window.as_mut() {
            window.closing = true;
        }
    }

    /// Whether its entries are being taken away.
    pub fn is_closing(&self) -> bool {
        self.window.is_some_and(|(window, _)| window.closing)
    }

    /// The entries are gone. `stored`: the client has submitted something. Returns the client; nothing
    /// if the turn was forgotten since [`begin_close`](Self::begin_close).
    pub fn close(&mut self, now: Ns, stored: bool) -> Option<usize> {
        let (window, grant) = self.window.take_if(|(window, _)| window.closing)?;
        if stored {
            self.add(now, window.opened, &grant);
        }
        Some(grant.client)
    }

    /// Adds a submission to those under way.
    fn add(&mut self, now: Ns, opened: Ns, grant: &Grant) {
        let (count, since, begin) = match &self.run {
            Some(run) => (run.count.saturating_add(1), run.since, run.end.max(opened)),
            None => (1, opened, opened),
        };
        let beside = self.run.map_or(Ns::ZERO, |run| run.beside);
        let end = begin.saturating_add(grant.expected);
        let before = self.run.map_or(Ns::ZERO, |run| run.margin);
        let margin = of_both(before, grant.margin);
        let first = end.saturating_sub(margin.max(LEAST_MARGIN));
        self.run = Some(Run {
            count,
            since,
            end,
            first,
            margin,
            next: now.saturating_add(FIRST_READ),
            rests: None,
            beside,
        });
    }

    /// Another client was on the engine for this time, until now.
    pub fn beside(&mut self, now: Ns, ran: Ns) {
        if let Some(run) = self.run.as_mut() {
            // Not before the first of them could use it.
            let ran = ran.min(now.saturating_sub(run.since));
            run.beside = run.beside.saturating_add(ran);
        }
    }

    /// The channels were read; what is left of them to do. Returns what has ended.
    pub fn read(&mut self, now: Ns, left: Left) -> Option<Ended> {
        let run = self.run.as_mut()?;
        let rests = match left {
            Left::Nothing => Some((Ns::ZERO, Ns::ZERO)),
            Left::Rest => Some((*run.rests.get_or_insert(now), REST)),
            Left::Unseen => Some((*run.rests.get_or_insert(now), UNSEEN)),
            Left::Work => {
                run.rests = None;
                None
            }
        };
        if rests.is_some_and(|(since, long)| since.saturating_add(long) <= now) {
            let used = now.saturating_sub(run.since).saturating_sub(run.beside);
            let each = used.get().checked_div(run.count.into());
            let ended = Ended {
                count: run.count,
                each: Ns::new(each.unwrap_or(0)),
                beside: !run.beside.is_zero(),
            };
            self.run = None;
            return Some(ended);
        }
        if let Some((since, long)) = rests {
            let rested = now.saturating_sub(since).max(FIRST_READ);
            run.next = now.saturating_add(rested).min(since.saturating_add(long));
            return None;
        }
        run.next = if now < run.first {
            let lasts = now.saturating_sub(run.since).get() / 2;
            let step = Ns::new(lasts).max(FIRST_READ);
            now.saturating_add(step).min(run.first)
        } else {
            let late = now.saturating_sub(run.first).get() / PART;
            let step = Ns::new(late).min(MOST_STEP).max(LEAST_STEP);
            now.saturating_add(step)
        };
        None
    }

    /// What is due now.
    pub fn due(&self, now: Ns) -> Option<Due> {
        let is_due = |at: Option<Ns>| at.is_some_and(|at| at <= now);
        if is_due(self.open_window().map(|window| window.closes)) {
            Some(Due::Close)
        } else if is_due(self.open_window().map(|window| window.check)) {
            Some(Due::CheckRings)
        } else if is_due(self.returns()) {
            Some(Due::Return)
        } else if is_due(self.run.map(|run| run.next)) {
            Some(Due::Read)
        } else {
            None
        }
    }

    /// When something is due, if nothing else happens before.
    pub fn next(&self) -> Option<Ns> {
        let back = self.granted.map(|granted| granted.back);
        let check = |window: Window| window.check.min(window.closes);
        let times = [
            self.open_window().map(check),
            self.returns().and_then(|until| Some(until.min(back?))),
            self.run.map(|run| run.next),
        ];
        times.into_iter().flatten().min()
    }

    /// When a grant is taken back. Not while the window before it is there.
    fn returns(&self) -> Option<Ns> {
        let granted = self.granted.filter(|_| self.window.is_none())?;
        Some(granted.since.saturating_add(RETURN))
    }

    fn open_window(&self) -> Option<Window> {
        let (window, _) = self.window?;
        (!window.closing).then_some(window)
    }
}

/// By how much a sum may be off whose parts may be off by so much: the root of the squares.
fn of_both(one: Ns, other: Ns) -> Ns {
    let square = |margin: Ns| {
        let us = margin.get() / NS_PER_US;
        us.saturating_mul(us)
    };
    Ns::from_us(square(one).saturating_add(square(other)).isqrt())
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_detection))]
mod tests {
    use super::*;

    const CLIENT: usize = 3;

    fn us(us: u64) -> Ns {
        Ns::from_us(us)
    }

    fn grant(expected: Ns) -> Grant {
        Grant {
            client: CLIENT,
            expected,
            margin: Ns::ZERO,
        }
    }

    #[test]
    fn grant_that_is_not_used_is_taken_back() {
        let mut one = Detection::default();
        one.grant(us(100), grant(us(500)));
        assert_eq!((one.due(us(120)), one.next()), (None, Some(us(120))));
        one.expect(us(121));
        assert_eq!((one.due(us(121)), one.next()), (None, Some(us(142))));
        one.expect(us(290));
        assert_eq!((one.due(us(299)), one.next()), (None, Some(us(300))));
        assert_eq!(one.due(us(300)), Some(Due::Return));
        assert_eq!(one.take_back(), Some(CLIENT));
        assert_eq!((one.next(), one.granted()), (None, None));
    }

    #[test]
    fn only_the_client_that_was_granted_opens_a_window() {
        let mut one = Detection::default();
        assert!(!one.open(us(1), CLIENT));
        one.grant(us(1), grant(us(500)));
        assert!(!one.open(us(2), CLIENT + 1));
        assert!(one.open(us(2), CLIENT));
        assert_eq!(one.open_for(), Some(CLIENT));
        assert!(!one.open(us(3), CLIENT));
    }

    #[test]
    fn window_closes_once_and_counts_what_was_stored() {
        let mut one = Detection::default();
        one.grant(us(90), grant(us(500)));
        assert!(one.open(us(100), CLIENT));
        assert_eq!((one.due(us(100)), one.next()), (None, Some(us(105))));
        assert_eq!(one.due(us(105)), Some(Due::CheckRings));
        one.checked(us(106), false);
        assert_eq!((one.due(us(106)), one.next()), (None, Some(us(112))));
        one.checked(us(120), false);
        assert_eq!(one.next(), Some(us(140)));
        assert_eq!(one.due(us(159)), Some(Due::CheckRings));
        assert_eq!(one.due(us(160)), Some(Due::Close));
        one.begin_close();
        assert_eq!((one.due(us(130)), one.open_for()), (None, None));
        assert_eq!(one.close(us(130), false), Some(CLIENT));
        assert_eq!((one.next(), one.read(us(131), Left::Nothing)), (None, None));
    }

    #[test]
    fn window_lasts_from_when_its_entry_is_made() {
        let mut one = Detection::default();
        one.grant(us(90), grant(us(500)));
        assert!(one.open(us(100), CLIENT));
        one.entered(us(150), CLIENT + 1);
        assert_eq!(one.next(), Some(us(105)));
        one.entered(us(150), CLIENT);
        assert_eq!((one.due(us(154)), one.next()), (None, Some(us(155))));
        one.checked(us(156), false);
        assert_eq!((one.due(us(209)), one.next()), (None, Some(us(210))));
        assert_eq!(one.due(us(210)), Some(Due::Close));
    }

    #[test]
    fn window_closes_at_the_first_store_that_is_seen() {
        let mut one = Detection::default();
        one.grant(us(90), grant(us(500)));
        assert!(one.open(us(100), CLIENT));
        one.checked(us(104), true);
        assert_eq!(one.due(us(104)), Some(Due::Close));
        one.begin_close();
        assert_eq!(one.close(us(110), true), Some(CLIENT));
        assert_eq!(one.next(), Some(us(120)));
    }
}
