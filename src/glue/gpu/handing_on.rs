// SPDX-License-Identifier: GPL-2.0

//! `[glue]` A page that goes from one owner to another: only once what was measured of it is booked.

use super::books::Books;
use super::Gpu;
use crate::glue::kernel::ffi;
use crate::track::pages::PageClaim;
use crate::units::Ns;
use kernel::prelude::*;

/// TIMEOUT: for this long a page waits for the decision before which it does not move. One is due in
/// some 50 ms, see `Engine::decide_soon`; without it the page moves, and what was measured of it is its
/// new owner's.
const BOOKED_WITHIN: Ns = Ns::from_ms(500);

impl Gpu {
    /// Waits until the period is booked that is being measured. It ends soon.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller is killed.
    pub(super) fn wait_until_booked(&self) -> Result {
        let (since, mut asked) = (ffi::now(), None);
        while ffi::now().saturating_sub(since) < BOOKED_WITHIN {
            let mut books = self.brief_books();
            let engine = &mut books.state.engine;
            let decisions = engine.stats().decisions;
            if engine.is_parked() || *asked.get_or_insert(decisions) != decisions {
                break;
            }
            let wakes = engine.decide_soon(ffi::now());
            drop(books);
            if wakes {
                self.wake();
            }
            // SAFETY: Process context, and no lock is held that a thread of LoGA's waits for.
            if unsafe { ffi::loga_sleep_killable(2) } {
                return Err(EINTR);
            }
        }
        Ok(())
    }
}

impl Books {
    /// Whether a mapping by the client at `at` would move a page of which something may have been
    /// measured.
    pub(super) fn is_measured_of_another(&self, number: u16, at: usize, proven: bool) -> bool {
        let members = self.state.shares.members();
        let claim = members.get(at).map(|member| PageClaim {
            owner: member.id(),
            at,
            proven,
        });
        let moves = claim.is_some_and(|claim| self.pages.would_move(number, &claim));
        moves && !self.state.engine.is_parked()
    }
}
