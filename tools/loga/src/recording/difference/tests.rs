// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Differences sum up to what the kernel module says at the end.

use super::*;
use crate::directory::Directory;
use proptest::prelude::*;

/// When recording begins.
const BASE_NS: u64 = 1000;
const UID: u64 = 7;

/// A GPU with clients that come, get something, and go.
#[derive(Default)]
struct World {
    now: Reading,
    /// Events that were not read yet.
    events: Vec<uapi::Event>,
    /// Number of the last client.
    last: u64,
    /// What each had when recording began, and has at last.
    base: BTreeMap<u64, u64>,
    end: BTreeMap<u64, u64>,
}

impl World {
    fn new() -> Self {
        let mut world = Self::default();
        world.now.snapshot.info.now_ns = BASE_NS - 10;
        world.now.users = vec![uapi::Total {
            id: UID,
            ..uapi::Total::default()
        }];
        world.act(0, 0);
        world.act(1, 50);
        world.act(0, 0);
        world.now.snapshot.info.now_ns = BASE_NS;
        world.base = world.end.clone();
        world
    }

    fn act(&mut self, action: u8, amount: u64) {
        let snapshot = &mut self.now.snapshot;
        snapshot.info.now_ns += 1;
        let since_ns = snapshot.info.now_ns;
        match (action, snapshot.clients.len()) {
            (0, _) => {
                self.last += 1;
                self.end.insert(self.last, 0);
                snapshot.clients.push(uapi::Client {
                    id: self.last,
                    since_ns,
                    ..uapi::Client::default()
                });
            }
            (_, 0) => {}
            // CAST: a few clients.
            (1, count) => {
                let client = &mut snapshot.clients[amount as usize % count];
                client.gpu_time_ns += amount;
                client.waited_ns += 2 * amount;
                self.end.insert(client.id, client.gpu_time_ns);
                self.now.users[0].gpu_time_ns += amount;
            }
            (_, count) => {
                let client = snapshot.clients.remove(amount as usize % count);
                self.events.push(uapi::Event {
                    time_ns: since_ns,
                    client: client.id,
                    kind: uapi::EVENT_EXITED,
                    value: client.gpu_time_ns,
                    ..uapi::Event::default()
                });
            }
        }
    }
}

/// What was recorded of each client, and of the user.
#[derive(Default)]
struct Recorded {
    clients: BTreeMap<u64, u64>,
    user: u64,
}

impl Recorded {
    fn hear(&mut self, world: &mut World, differences: &mut Differences) {
        for event in world.events.drain(..) {
            *self.clients.entry(event.client).or_default() += differences.exited(&event);
        }
    }

    fn sample(&mut self, world: &World, differences: &mut Differences, owners: &Owners) {
        let sample = differences.sample(&world.now, owners, 5).expect("known");
        assert_eq!(sample.unix_ns, sample.time_ns + 5);
        for client in sample.clients {
            *self.clients.entry(client.id).or_default() += client.got.gpu_time_ns;
            assert_eq!(client.got.waited_ns, 2 * client.got.gpu_time_ns);
        }
        let got = sample.users.iter().map(|user| user.got.gpu_time_ns);
        self.user += got.sum::<u64>();
    }
}

proptest! {
    #[test]
    fn differences_and_rests_sum_up_to_the_last_totals(
        steps in proptest::collection::vec((0u8..6, 0u64..1000, any::<bool>()), 0..60)
    ) {
        let mut world = World::new();
        let owners = Owners::new(Directory::default);
        let mut differences = Differences::from(std::slice::from_ref(&world.now));
        let (mut recorded, user_base) = (Recorded::default(), world.now.users[0].gpu_time_ns);
        for (action, amount, late) in steps {
            if action < 3 {
                world.act(action, amount);
                continue;
            }
            // An exit is heard before the sample that lacks its client, or just after it.
            if !late {
                recorded.hear(&mut world, &mut differences);
            }
            recorded.sample(&world, &mut differences, &owners);
            recorded.hear(&mut world, &mut differences);
        }
        recorded.sample(&world, &mut differences, &owners);
        recorded.hear(&mut world, &mut differences);
        for (id, end) in &world.end {
            let base = world.base.get(id).copied().unwrap_or(0);
            let sum = recorded.clients.get(id).copied().unwrap_or(0);
            prop_assert_eq!(sum, end - base, "client {}", id);
        }
        prop_assert_eq!(recorded.user, world.now.users[0].gpu_time_ns - user_base);
    }
}

#[test]
fn client_that_is_older_than_the_recording_and_seen_later_does_not_count_whole() {
    let mut world = World::new();
    let hidden = world.now.snapshot.clients.remove(0);
    let owners = Owners::new(Directory::default);
    let mut differences = Differences::from(std::slice::from_ref(&world.now));
    world.now.snapshot.clients.push(hidden);
    let sample = differences.sample(&world.now, &owners, 0).expect("known");
    assert_eq!(sample.clients[1].got, Amounts::default());
}

#[test]
fn gpu_that_is_new_begins_with_its_first_reading_and_a_gone_one_is_forgotten() {
    let world = World::new();
    let owners = Owners::new(Directory::default);
    let mut differences = Differences::default();
    assert_eq!(differences.sample(&world.now, &owners, 0), None);
    assert!(differences.sample(&world.now, &owners, 0).is_some());
    differences.keep(&[]);
    assert_eq!(differences.sample(&world.now, &owners, 0), None);
}
