// SPDX-License-Identifier: GPL-2.0

//! Completion notices: the card counts completions, an interrupt work wakes the waiting processes.
//!
//! Waking takes locks that sleep under PREEMPT_RT, so it happens neither with the card's lock held
//! nor in the timer's callback.

use super::machine::Machine;
use super::space::Listener;
use kernel::sync::Arc;

impl Machine {
    /// Wakes the listeners of all address spaces with new completions.
    pub(super) fn notify_listeners(&self) {
        loop {
            let taken = self.with(|core| core.board.take_completed());
            let Some((slot, completed)) = taken else {
                break;
            };
            if let Some(listeners) = self.listeners.lock().get(slot) {
                listeners.signal(completed.last, completed.commands);
            }
        }
    }

    /// Adds a listener for a client's completions; false if it has too many.
    pub fn add_listener(&self, space: usize, listener: Arc<Listener>) -> bool {
        let refused = match self.listeners.lock().get_mut(space) {
            Some(listeners) => listeners.add(listener),
            None => Some(listener),
        };
        // A refused listener is dropped here, where the lock is not held.
        refused.is_none()
    }

    /// Takes a listener away.
    pub fn remove_listener(&self, space: usize, listener: &Arc<Listener>) {
        let mut listeners = self.listeners.lock();
        let taken = listeners
            .get_mut(space)
            .and_then(|listeners| listeners.remove(listener));
        drop(listeners);
        drop(taken);
    }
}
