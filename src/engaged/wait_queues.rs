// SPDX-License-Identifier: GPL-2.0

//! [pure] Which clients have which wait queue in [`Submissions`](super::Submissions).
//!
//! There are [`WAIT_QUEUES`]. A wait queue has clients of one user that follow one
//! [spec](super::specs). A user has [`OF_USER`] of them at most, and no more than it leaves to
//! others, so that no few users take all of them: further clients of the user share those with
//! their spec, as one client each. Clients without a spec leave the last [`KEPT`] to others.
//! Without a wait queue to have or to share, they share the last, as if they had none; its priority
//! is that of nice 0, whoever stores.
//!
//! What clients of a user owe is found by the wait queues that it has or had: a vacant wait queue
//! remembers its last user, who gets it back before one that others had.

/// Clients that are told apart.
pub const WAIT_QUEUES: usize = 64;
/// Most of them that one user has.
const OF_USER: usize = 16;
/// Wait queues for clients with a spec.
const KEPT: usize = 16;
/// The wait queue that is shared by clients of all users.
pub const SHARED_QUEUE: usize = WAIT_QUEUES - 1;

/// Whether a user that owns so many of what is divided may have one more while so many are left: no
/// user has more than it leaves to others.
pub(super) const fn may_have(owns: usize, left: usize) -> bool {
    owns < left
}

/// The clients at one wait queue.
#[derive(Clone, Copy, Debug, Default)]
struct Assigned {
    /// The user of all of them, and their spec.
    user: u32,
    spec: Option<usize>,
    clients: u32,
    /// Somebody has or had it.
    had: bool,
}

/// Which clients have which wait queue.
#[derive(Clone, Copy, Debug)]
pub struct WaitQueues([Assigned; WAIT_QUEUES]);

impl Default for WaitQueues {
    fn default() -> Self {
        Self([Assigned::default(); WAIT_QUEUES])
    }
}

impl WaitQueues {
    /// Gives a client of a user that follows a spec its wait queue, and returns it.
    pub fn join(&mut self, user: u32, spec: Option<usize>) -> usize {
        let most = if spec.is_some() {
            SHARED_QUEUE
        } else {
            SHARED_QUEUE - KEPT
        };
        let own = |wait_queue: &&Assigned| wait_queue.clients != 0 && wait_queue.user == user;
        let common = self.0.iter().take(SHARED_QUEUE);
        let is_vacant = |wait_queue: &&Assigned| wait_queue.clients == 0;
        let left = common.clone().take(most).filter(is_vacant).count();
        let owns = common.clone().filter(own).count();
        let may_have = owns < OF_USER && may_have(owns, left);
        let vacant = common.clone().enumerate().take(most).filter(|_| may_have);
        let vacant = vacant.filter(|(_, wait_queue)| is_vacant(wait_queue));
        // Its own before, one that nobody had, one of another user.
        let rank = |(at, wait_queue): &(usize, &Assigned)| match wait_queue.had {
            true if wait_queue.user == user => (0, *at),
            true => (2, *at),
            false => (1, *at),
        };
        let vacant = vacant.min_by_key(rank).map(|(at, _)| at);
        let shared = common.enumerate();
        let shared = shared.filter(|(_, wait_queue)| own(wait_queue) && wait_queue.spec == spec);
        let shared = shared.min_by_key(|(_, wait_queue)| wait_queue.clients);
        let at = vacant.or(shared.map(|(at, _)| at)).unwrap_or(SHARED_QUEUE);
        if let Some(wait_queue) = self.0.get_mut(at) {
            if wait_queue.clients == 0 {
                (wait_queue.user, wait_queue.had) = (user, true);
                wait_queue.spec = spec.filter(|_| at != SHARED_QUEUE);
            }
            wait_queue.clients = wait_queue.clients.saturating_add(1);
        }
        at
    }

    /// A client at this wait queue follows another spec. True if the wait queue is its own and goes
    /// along; else it has to leave it and join anew.
    pub fn follow(&mut self, at: usize, spec: Option<usize>) -> bool {
        match self.0.get_mut(at) {
            Some(wait_queue) if wait_queue.spec == spec && at != SHARED_QUEUE => true,
            Some(wait_queue) if wait_queue.clients == 1 && at != SHARED_QUEUE => {
                wait_queue.spec = spec;
                true
            }
            _ => false,
        }
    }

    /// The wait queues that a user has, and those that it had last. Not the one that all users
    /// share.
    pub fn of_user(&self, user: u32) -> impl Iterator<Item = usize> + '_ {
        let all = self.0.iter().take(SHARED_QUEUE).enumerate();
        let own = all.filter(move |(_, wait_queue)| wait_queue.had && wait_queue.user == user);
        own.map(|(at, _)| at)
    }

    /// The spec of the clients at a wait queue.
    pub fn spec(&self, at: usize) -> Option<usize> {
        self.0.get(at)?.spec
    }

    /// A client leaves its wait queue. True if the wait queue is vacant now.
    pub fn leave(&mut self, at: usize) -> bool {
        self.0.get_mut(at).is_some_and(|wait_queue| {
            wait_queue.clients = wait_queue.clients.saturating_sub(1);
            wait_queue.clients == 0
        })
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_places))]
mod tests {
    use super::*;

    #[test]
    fn client_gets_a_place_of_its_own() {
        let mut wait_queues = WaitQueues::default();
        let mut join = |user| wait_queues.join(user, None);
        assert_eq!((join(7), join(7), join(8)), (0, 1, 2));
        assert!(wait_queues.leave(1));
        assert_eq!(
            (wait_queues.join(8, None), wait_queues.join(7, None)),
            (3, 1)
        );
    }

    #[test]
    fn user_gets_back_the_place_that_it_had() {
        let mut wait_queues = WaitQueues::default();
        let mut join = |user| wait_queues.join(user, None);
        assert_eq!((join(7), join(8), join(9)), (0, 1, 2));
        assert!(wait_queues.leave(1) && wait_queues.leave(0));
        let of = |wait_queues: &WaitQueues, user| wait_queues.of_user(user).last();
        assert_eq!((of(&wait_queues, 8), of(&wait_queues, 10)), (Some(1), None));
        assert_eq!(wait_queues.join(8, None), 1);
        // One that nobody had, before one of another user.
        assert_eq!(
            (wait_queues.join(10, None), of(&wait_queues, 7)),
            (3, Some(0))
        );
    }

    #[test]
    fn user_with_many_clients_leaves_places_to_others() {
        let mut wait_queues = WaitQueues::default();
        (0..1000).for_each(|_| assert!(wait_queues.join(7, None) < OF_USER));
        assert_eq!(wait_queues.join(8, None), OF_USER);
        assert_eq!(wait_queues.join(9, None), OF_USER + 1);
    }

    #[test]
    fn few_users_with_many_clients_leave_places_to_others() {
        let mut wait_queues = WaitQueues::default();
        for user in 0..3 {
            (0..1000).for_each(|_| assert!(wait_queues.join(user, None) < SHARED_QUEUE));
        }
        // 16, 16 and 8 of 47 wait queues.
        assert_eq!(wait_queues.join(8, None), 40);
        assert_eq!(wait_queues.join(9, None), 41);
    }

    #[test]
    fn shared_place_is_vacant_when_the_last_client_has_left() {
        let mut wait_queues = WaitQueues::default();
        (0..OF_USER).for_each(|_| assert!(wait_queues.join(7, None) < OF_USER));
        let shared = wait_queues.join(7, None);
        assert!(!wait_queues.leave(shared));
        assert!(wait_queues.leave(shared));
    }

    #[test]
    fn clients_without_a_place_share_the_last_and_others_with_a_spec_have_one() {
        let mut wait_queues = WaitQueues::default();
        for client in 0..SHARED_QUEUE - KEPT {
            // CAST: as many users as clients.
            assert_eq!(wait_queues.join(1 + client as u32, None), client);
        }
        assert_eq!(wait_queues.join(100, None), SHARED_QUEUE);
        assert_eq!(wait_queues.join(1, None), 0);
        assert_eq!(wait_queues.join(100, Some(3)), SHARED_QUEUE - KEPT);
        assert_eq!(wait_queues.spec(SHARED_QUEUE - KEPT), Some(3));
        // A client of the crowd follows no spec, and none becomes that of the crowd.
        (0..KEPT - 1)
            .for_each(|user| assert!(wait_queues.join(200 + user as u32, Some(3)) < SHARED_QUEUE));
        assert_eq!(wait_queues.join(300, Some(3)), SHARED_QUEUE);
        assert_eq!(wait_queues.spec(SHARED_QUEUE), None);
        assert!(
            !wait_queues.follow(SHARED_QUEUE, Some(3)) && !wait_queues.follow(SHARED_QUEUE, None)
        );
    }

    #[test]
    fn clients_of_two_specs_share_no_place() {
        let mut wait_queues = WaitQueues::default();
        (0..OF_USER - 1).for_each(|_| assert!(wait_queues.join(7, None) < OF_USER));
        let own = wait_queues.join(7, Some(1));
        assert_eq!(own, OF_USER - 1);
        assert_eq!(wait_queues.join(7, Some(1)), own);
        assert_ne!(wait_queues.join(7, None), own);
        // No wait queue of this spec is there, and the user may have no more.
        assert_eq!(wait_queues.join(7, Some(2)), SHARED_QUEUE);
    }

    #[test]
    fn place_of_one_client_follows_its_spec_and_a_shared_one_does_not() {
        let mut wait_queues = WaitQueues::default();
        let at = wait_queues.join(7, None);
        assert!(wait_queues.follow(at, Some(4)));
        assert_eq!(wait_queues.spec(at), Some(4));
        (1..OF_USER).for_each(|_| assert!(wait_queues.join(7, Some(4)) < OF_USER));
        let shared = wait_queues.join(7, Some(4));
        assert!(wait_queues.follow(shared, Some(4)));
        assert!(!wait_queues.follow(shared, None));
        assert_eq!(wait_queues.spec(shared), Some(4));
    }
}
