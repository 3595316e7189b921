// SPDX-License-Identifier: GPL-2.0

//! [pure] Which clients have which place in [`Turns`](super::Turns).
//!
//! There are [`PLACES`], and a user has [`OF_USER`] of them at most, so that no user takes all of
//! them. Further clients of the user share its places, as one client each. If all places are taken,
//! the clients of a user without one share the last.

/// Clients that are told apart.
pub const PLACES: usize = 64;
/// Most of them that one user has.
const OF_USER: usize = 16;

/// The clients at one place.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// The user of the first of them.
    user: u32,
    clients: u32,
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
    /// Gives a client of a user its place, and returns it.
    pub fn join(&mut self, user: u32) -> usize {
        let taken = |place: &Place| place.clients != 0;
        let own = |place: &Place| taken(place) && place.user == user;
        let vacant = self.0.iter().position(|place| !taken(place));
        let may_have = self.0.iter().filter(|place| own(place)).count() < OF_USER;
        let shared = self.0.iter().enumerate().filter(|(_, place)| own(place));
        let shared = shared.min_by_key(|(_, place)| place.clients);
        let at = vacant
            .filter(|_| may_have)
            .or(shared.map(|(at, _)| at))
            .unwrap_or(PLACES - 1);
        if let Some(place) = self.0.get_mut(at) {
            if place.clients == 0 {
                place.user = user;
            }
            place.clients = place.clients.saturating_add(1);
        }
        at
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
        assert_eq!((places.join(7), places.join(7), places.join(8)), (0, 1, 2));
        assert!(places.leave(1));
        assert_eq!(places.join(8), 1);
    }

    #[test]
    fn user_with_many_clients_leaves_places_to_others() {
        let mut places = Places::default();
        (0..1000).for_each(|_| assert!(places.join(7) < OF_USER));
        assert_eq!(places.join(8), OF_USER);
        assert_eq!(places.join(9), OF_USER + 1);
    }

    #[test]
    fn shared_place_is_vacant_when_the_last_client_has_left() {
        let mut places = Places::default();
        (0..OF_USER).for_each(|_| assert!(places.join(7) < OF_USER));
        let shared = places.join(7);
        assert!(!places.leave(shared));
        assert!(places.leave(shared));
    }

    #[test]
    fn clients_of_a_user_without_a_place_share_the_last() {
        let mut places = Places::default();
        for client in 0..PLACES {
            // CAST: a few.
            assert_eq!(places.join((client / OF_USER) as u32), client);
        }
        assert_eq!(places.join(100), PLACES - 1);
        assert_eq!(places.join(0), 0);
    }
}
