// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which clients have which wait queue.
//!
//! There are [`WAIT_QUEUES`], divided by a [`Quota`]. A wait queue has clients of one tenant that
//! follow one [spec](crate::engaged::parameters): a user, and in it a cgroup, as of when the client came. Further
//! clients of a tenant that may have no more share those with their spec, as one client each. Clients
//! without a spec leave the last [`KEPT`] to others. Without a wait queue to have or to share, they
//! share the last, as if they had none; its priority is that of nice 0, whoever stores.
//!
//! What clients of a user owe is found by the wait queues that it has or had: a vacant wait queue
//! remembers its last user, who gets it back before one that others had.

use crate::engaged::limits::{SHARED_QUEUE, WAIT_QUEUES};
use crate::quota::{Held, Quota, Tenant};

/// Most of them that one user has, in all its cgroups.
const OF_USER: usize = 32;
/// Wait queues for clients with a spec.
const KEPT: usize = 16;

/// How they are divided: by clients with a spec, and by those without.
const WITH_SPEC: Quota = Quota::new(SHARED_QUEUE, OF_USER);
const WITHOUT_SPEC: Quota = Quota::new(SHARED_QUEUE - KEPT, OF_USER);

/// The clients at one wait queue.
#[derive(Clone, Copy, Debug, Default)]
struct Assigned {
    /// The tenant of all of them, and their spec.
    tenant: Tenant,
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
    /// All are vacant, and no user had one.
    pub(crate) fn clear(&mut self) {
        self.0.fill(Assigned::default());
    }

    /// Gives a client of a tenant that follows a spec its wait queue, and returns it.
    pub fn join(&mut self, tenant: Tenant, spec: Option<usize>) -> usize {
        let (quota, most) = match spec {
            Some(_) => (WITH_SPEC, SHARED_QUEUE),
            None => (WITHOUT_SPEC, SHARED_QUEUE - KEPT),
        };
        let own = |wait_queue: &&Assigned| wait_queue.clients != 0 && wait_queue.tenant == tenant;
        let common = self.0.iter().take(SHARED_QUEUE);
        let is_vacant = |wait_queue: &&Assigned| wait_queue.clients == 0;
        let taken = common.clone().filter(|wait_queue| !is_vacant(wait_queue));
        let held = Held {
            // Of those that such clients have; a tenant's own count wherever they are.
            all: most.saturating_sub(common.clone().take(most).filter(is_vacant).count()),
            ..Held::count(tenant, taken.map(|wait_queue| wait_queue.tenant))
        };
        let may_have = quota.check(&held).is_ok();
        let vacant = common.clone().enumerate().take(most).filter(|_| may_have);
        let vacant = vacant.filter(|(_, wait_queue)| is_vacant(wait_queue));
        // Its own before, one that nobody had, one of another user.
        let rank = |(at, wait_queue): &(usize, &Assigned)| match wait_queue.had {
            true if wait_queue.tenant.user == tenant.user => (0, *at),
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
                (wait_queue.tenant, wait_queue.had) = (tenant, true);
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
        let own =
            all.filter(move |(_, wait_queue)| wait_queue.had && wait_queue.tenant.user == user);
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
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_assigned))]
mod tests {
    use super::*;

    /// Wait queues that one user has whose clients are in one cgroup, and follow no spec or one.
    const ALONE: usize = 12;
    const ALONE_WITH_SPEC: usize = 16;

    fn join(wait_queues: &mut WaitQueues, user: u32, spec: Option<usize>) -> usize {
        wait_queues.join(user.into(), spec)
    }

    #[test]
    fn client_gets_a_wait_queue_of_its_own() {
        let mut wait_queues = WaitQueues::default();
        let mut come = |user| join(&mut wait_queues, user, None);
        assert_eq!((come(7), come(7), come(8)), (0, 1, 2));
        assert!(wait_queues.leave(1));
        assert_eq!(
            (
                join(&mut wait_queues, 8, None),
                join(&mut wait_queues, 7, None)
            ),
            (3, 1)
        );
    }

    #[test]
    fn user_gets_back_the_wait_queue_that_it_had() {
        let mut wait_queues = WaitQueues::default();
        let mut come = |user| join(&mut wait_queues, user, None);
        assert_eq!((come(7), come(8), come(9)), (0, 1, 2));
        assert!(wait_queues.leave(1));
        assert!(wait_queues.leave(0));
        let of = |wait_queues: &WaitQueues, user| wait_queues.of_user(user).last();
        assert_eq!((of(&wait_queues, 8), of(&wait_queues, 10)), (Some(1), None));
        assert_eq!(join(&mut wait_queues, 8, None), 1);
        // One that nobody had, before one of another user.
        assert_eq!(
            (join(&mut wait_queues, 10, None), of(&wait_queues, 7)),
            (3, Some(0))
        );
    }

    #[test]
    fn user_with_many_clients_leaves_wait_queues_to_others() {
        let mut wait_queues = WaitQueues::default();
        (0..1000).for_each(|_| assert!(join(&mut wait_queues, 7, None) < ALONE));
        assert_eq!(join(&mut wait_queues, 8, None), ALONE);
        assert_eq!(join(&mut wait_queues, 9, None), ALONE + 1);
    }

    #[test]
    fn few_users_with_many_clients_leave_wait_queues_to_others() {
        let mut wait_queues = WaitQueues::default();
        for user in 0..3 {
            (0..1000).for_each(|_| assert!(join(&mut wait_queues, user, None) < SHARED_QUEUE));
        }
        // 12, 9 and 7 of 47 wait queues.
        assert_eq!(join(&mut wait_queues, 8, None), 28);
        assert_eq!(join(&mut wait_queues, 9, None), 29);
    }

    #[test]
    fn cgroups_of_one_user_leave_wait_queues_to_each_other_and_share_none() {
        let mut wait_queues = WaitQueues::default();
        let of = |cgroup| Tenant { user: 0, cgroup };
        (0..1000).for_each(|_| assert!(wait_queues.join(of(1), None) < ALONE));
        let second = wait_queues.join(of(2), None);
        assert_eq!(second, ALONE);
        (0..1000).for_each(|_| assert!(wait_queues.join(of(2), None) > second - 1));
        assert!(wait_queues.join(of(1), None) < ALONE);
        let third = wait_queues.join(of(3), None);
        assert!(third > second);
        assert!(third < SHARED_QUEUE);
        // What the user owes is found wherever its clients are.
        assert_eq!(wait_queues.of_user(0).last(), Some(third));
    }

    #[test]
    fn shared_wait_queue_is_vacant_when_the_last_client_has_left() {
        let mut wait_queues = WaitQueues::default();
        (0..ALONE).for_each(|_| assert!(join(&mut wait_queues, 7, None) < ALONE));
        let shared = join(&mut wait_queues, 7, None);
        assert!(!wait_queues.leave(shared));
        assert!(wait_queues.leave(shared));
    }

    #[test]
    fn clients_without_a_wait_queue_share_the_last_and_others_with_a_spec_have_one() {
        let mut wait_queues = WaitQueues::default();
        for client in 0..SHARED_QUEUE - KEPT {
            // CAST: as many users as clients.
            assert_eq!(join(&mut wait_queues, 1 + client as u32, None), client);
        }
        assert_eq!(join(&mut wait_queues, 100, None), SHARED_QUEUE);
        assert_eq!(join(&mut wait_queues, 1, None), 0);
        assert_eq!(join(&mut wait_queues, 100, Some(3)), SHARED_QUEUE - KEPT);
        assert_eq!(wait_queues.spec(SHARED_QUEUE - KEPT), Some(3));
        // A client of the crowd follows no spec, and none becomes that of the crowd.
        (0..KEPT - 1).for_each(|user| {
            assert!(join(&mut wait_queues, 200 + user as u32, Some(3)) < SHARED_QUEUE)
        });
        assert_eq!(join(&mut wait_queues, 300, Some(3)), SHARED_QUEUE);
        assert_eq!(wait_queues.spec(SHARED_QUEUE), None);
        assert!(!wait_queues.follow(SHARED_QUEUE, Some(3)));
        assert!(!wait_queues.follow(SHARED_QUEUE, None));
    }

    #[test]
    fn clients_of_two_specs_share_no_wait_queue() {
        let mut wait_queues = WaitQueues::default();
        (1..ALONE).for_each(|_| assert!(join(&mut wait_queues, 7, None) < ALONE - 1));
        let own = join(&mut wait_queues, 7, Some(1));
        assert_eq!(own, ALONE - 1);
        (ALONE..ALONE_WITH_SPEC).for_each(|at| assert_eq!(join(&mut wait_queues, 7, Some(1)), at));
        assert_eq!(join(&mut wait_queues, 7, Some(1)), own);
        assert!(join(&mut wait_queues, 7, None) < own);
        // No wait queue of this spec is there, and the user may have no more.
        assert_eq!(join(&mut wait_queues, 7, Some(2)), SHARED_QUEUE);
    }

    #[test]
    fn wait_queue_of_one_client_follows_its_spec_and_a_shared_one_does_not() {
        let mut wait_queues = WaitQueues::default();
        let at = join(&mut wait_queues, 7, None);
        assert!(wait_queues.follow(at, Some(4)));
        assert_eq!(wait_queues.spec(at), Some(4));
        (1..ALONE_WITH_SPEC).for_each(|at| assert_eq!(join(&mut wait_queues, 7, Some(4)), at));
        let shared = join(&mut wait_queues, 7, Some(4));
        assert!(wait_queues.follow(shared, Some(4)));
        assert!(!wait_queues.follow(shared, None));
        assert_eq!(wait_queues.spec(shared), Some(4));
    }
}
