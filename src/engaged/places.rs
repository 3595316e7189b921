// SPDX-License-Identifier: GPL-2.0

//! [pure] Which clients have which place in [`Turns`](super::Turns).
//!
//! There are [`PLACES`]. A place has clients of one user that follow one [spec](super::specs). A user
//! has [`OF_USER`] of them at most, and no more than it leaves to others, so that no few users take all
//! of them: further clients of the user share those with their spec, as one client each. Clients
//! without a spec leave the last [`KEPT`] to others. Without a place to have or to share, they share
//! the last, as if they had none; its priority is that of nice 0, whoever stores.
//!
//! What clients of a user owe is found by the places that it has or had: a vacant place remembers its
//! last user, who gets it back before one that others had.

/// Clients that are told apart.
pub const PLACES: usize = 64;
/// Most of them that one user has.
const OF_USER: usize = 16;
/// Places for clients with a spec.
const KEPT: usize = 16;
/// The place that is shared by clients of all users.
pub const CROWD: usize = PLACES - 1;

/// The clients at one place.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The user of all of them, and their spec.
    user: u32,
    spec: Option<usize>,
    clients: u32,
    /// Somebody has or had it.
    had: bool,
}

/// Which clients have which place.
#[derive(Clone, Copy, Debug)]
pub struct Places([Place; PLACES]);

impl Default for Places {
    fn default() -> Self {
        Self([Place::default(); PLACES])
    }
}

impl Places {
    /// Gives a client of a user that follows a spec its place, and returns it.
    pub fn join(&mut self, user: u32, spec: Option<usize>) -> usize {
        let most = if spec.is_some() { CROWD } else { CROWD - KEPT };
        let own = |place: &&Place| place.clients != 0 && place.user == user;
        let given = self.0.iter().take(CROWD);
        let is_vacant = |place: &&Place| place.clients == 0;
        let left = given.clone().take(most).filter(is_vacant).count();
        let owns = given.clone().filter(own).count();
        let may_have = owns < OF_USER && owns < left;
        let vacant = given.clone().enumerate().take(most).filter(|_| may_have);
        let vacant = vacant.filter(|(_, place)| is_vacant(place));
        // Its own before, one that nobody had, one of another user.
        let rank = |(at, place): &(usize, &Place)| match place.had {
            true if place.user == user => (0, *at),
            true => (2, *at),
            false => (1, *at),
        };
        let vacant = vacant.min_by_key(rank).map(|(at, _)| at);
        let shared = given.enumerate();
        let shared = shared.filter(|(_, place)| own(place) && place.spec == spec);
        let shared = shared.min_by_key(|(_, place)| place.clients);
        let at = vacant.or(shared.map(|(at, _)| at)).unwrap_or(CROWD);
        if let Some(place) = self.0.get_mut(at) {
            if place.clients == 0 {
                (place.user, place.had) = (user, true);
                place.spec = spec.filter(|_| at != CROWD);
            }
            place.clients = place.clients.saturating_add(1);
        }
        at
    }

    /// A client at this place follows another spec. True if the place is its own and goes along;
    /// else it has to leave it and join anew.
    pub fn follow(&mut self, at: usize, spec: Option<usize>) -> bool {
        match self.0.get_mut(at) {
            Some(place) if place.spec == spec && at != CROWD => true,
            Some(place) if place.clients == 1 && at != CROWD => {
                place.spec = spec;
                true
            }
            _ => false,
        }
    }

    /// The places that a user has, and those that it had last. Not the one that all users share.
    pub fn of_user(&self, user: u32) -> impl Iterator<Item = usize> + '_ {
        let all = self.0.iter().take(CROWD).enumerate();
        let own = all.filter(move |(_, place)| place.had && place.user == user);
        own.map(|(at, _)| at)
    }

    /// The spec of the clients at a place.
    pub fn spec(&self, at: usize) -> Option<usize> {
        self.0.get(at)?.spec
    }

    /// A client leaves its place. True if the place is vacant now.
    pub fn leave(&mut self, at: usize) -> bool {
        self.0.get_mut(at).is_some_and(|place| {
            place.clients = place.clients.saturating_sub(1);
            place.clients == 0
        })
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_places))]
mod tests {
    use super::*;

    #[test]
    fn client_gets_a_place_of_its_own() {
        let mut places = Places::default();
        let mut join = |user| places.join(user, None);
        assert_eq!((join(7), join(7), join(8)), (0, 1, 2));
        assert!(places.leave(1));
        assert_eq!((places.join(8, None), places.join(7, None)), (3, 1));
    }

    #[test]
    fn user_gets_back_the_place_that_it_had() {
        let mut places = Places::default();
        let mut join = |user| places.join(user, None);
        assert_eq!((join(7), join(8), join(9)), (0, 1, 2));
        assert!(places.leave(1) && places.leave(0));
        let of = |places: &Places, user| places.of_user(user).last();
        assert_eq!((of(&places, 8), of(&places, 10)), (Some(1), None));
        assert_eq!(places.join(8, None), 1);
        // One that nobody had, before one of another user.
        assert_eq!((places.join(10, None), of(&places, 7)), (3, Some(0)));
    }

    #[test]
    fn user_with_many_clients_leaves_places_to_others() {
        let mut places = Places::default();
        (0..1000).for_each(|_| assert!(places.join(7, None) < OF_USER));
        assert_eq!(places.join(8, None), OF_USER);
        assert_eq!(places.join(9, None), OF_USER + 1);
    }

    #[test]
    fn few_users_with_many_clients_leave_places_to_others() {
        let mut places = Places::default();
        for user in 0..3 {
            (0..1000).for_each(|_| assert!(places.join(user, None) < CROWD));
        }
        // 16, 16 and 8 of 47 places.
        assert_eq!(places.join(8, None), 40);
        assert_eq!(places.join(9, None), 41);
    }

    #[test]
    fn shared_place_is_vacant_when_the_last_client_has_left() {
        let mut places = Places::default();
        (0..OF_USER).for_each(|_| assert!(places.join(7, None) < OF_USER));
        let shared = places.join(7, None);
        assert!(!places.leave(shared));
        assert!(places.leave(shared));
    }

    #[test]
    fn clients_without_a_place_share_the_last_and_others_with_a_spec_have_one() {
        let mut places = Places::default();
        for client in 0..CROWD - KEPT {
            // CAST: as many users as clients.
            assert_eq!(places.join(1 + client as u32, None), client);
        }
        assert_eq!(places.join(100, None), CROWD);
        assert_eq!(places.join(1, None), 0);
        assert_eq!(places.join(100, Some(3)), CROWD - KEPT);
        assert_eq!(places.spec(CROWD - KEPT), Some(3));
        // A client of the crowd follows no spec, and none becomes that of the crowd.
        (0..KEPT - 1).for_each(|user| assert!(places.join(200 + user as u32, Some(3)) < CROWD));
        assert_eq!(places.join(300, Some(3)), CROWD);
        assert_eq!(places.spec(CROWD), None);
        assert!(!places.follow(CROWD, Some(3)) && !places.follow(CROWD, None));
    }

    #[test]
    fn clients_of_two_specs_share_no_place() {
        let mut places = Places::default();
        (0..OF_USER - 1).for_each(|_| assert!(places.join(7, None) < OF_USER));
        let own = places.join(7, Some(1));
        assert_eq!(own, OF_USER - 1);
        assert_eq!(places.join(7, Some(1)), own);
        assert_ne!(places.join(7, None), own);
        // No place of this spec is there, and the user may have no more.
        assert_eq!(places.join(7, Some(2)), CROWD);
    }

    #[test]
    fn place_of_one_client_follows_its_spec_and_a_shared_one_does_not() {
        let mut places = Places::default();
        let at = places.join(7, None);
        assert!(places.follow(at, Some(4)));
        assert_eq!(places.spec(at), Some(4));
        (1..OF_USER).for_each(|_| assert!(places.join(7, Some(4)) < OF_USER));
        let shared = places.join(7, Some(4));
        assert!(places.follow(shared, Some(4)));
        assert!(!places.follow(shared, None));
        assert_eq!(places.spec(shared), Some(4));
    }
}
