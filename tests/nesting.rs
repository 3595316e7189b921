// SPDX-License-Identifier: GPL-2.0

//! Property: what holds for a process in any tree of cgroups, with anything set at any of them, is
//! what a plain walk from the process to the root gives; and no user raises anything by lowering.

use loga::share::{
    Change, Class, Entry, GroupBy, Identity, Limit, Settings, Subject, MAX_LEVELS, NO_USER,
};
use loga::Vectors;
use proptest::prelude::*;

/// Cgroups of a tree; each but the first is below an earlier one.
const CGROUPS: usize = 24;
/// The number of the root; the numbers of the others follow.
const ROOT: u64 = 1;
const USER: u32 = 1000;
const PROCESS: u64 = 77;

/// Position of the parent of each cgroup.
type Tree = Vec<usize>;

fn trees() -> impl Strategy<Value = Tree> {
    // Mostly deep ones.
    let parent = |at: usize| prop_oneof![Just(at), 0..=at];
    (0..CGROUPS - 1).map(parent).collect::<Vec<_>>()
}

/// The path from the cgroup at `at` to the root.
fn path(tree: &Tree, mut at: usize) -> Vec<u64> {
    let mut path = vec![ROOT + at as u64];
    while at > 0 {
        at = tree[at - 1];
        path.push(ROOT + at as u64);
    }
    path
}

/// What the kernel reports of a process, or a cgroup, that is in the cgroup at `at`.
fn identity(tree: &Tree, at: usize, process: u64, user: u32) -> Identity {
    let path = path(tree, at);
    let mut identity = Identity {
        process,
        cgroup: path[0],
        user,
        ..Identity::default()
    };
    let above = path[1..].iter().rev().take(MAX_LEVELS);
    for (slot, id) in identity.above.iter_mut().zip(above) {
        *slot = *id;
    }
    identity
}

fn changes() -> impl Strategy<Value = Change> {
    let weight = proptest::option::of(1..=300u32);
    let limit = proptest::option::of(1..=100u32);
    let class = proptest::option::of(prop_oneof![Just(Class::Normal), Just(Class::Idle)]);
    (weight, limit, class).prop_map(|(weight, limit, class)| Change {
        weight,
        limit,
        class,
        target: None,
        denied: None,
    })
}

/// For the process, a cgroup by its position, or the user.
#[derive(Clone, Copy, Debug)]
enum Whom {
    Process,
    Cgroup(usize),
    User,
}

fn whom() -> impl Strategy<Value = Whom> {
    prop_oneof![
        1 => Just(Whom::Process),
        6 => (0..CGROUPS).prop_map(Whom::Cgroup),
        1 => Just(Whom::User),
    ]
}

fn subject(target: Whom) -> Subject {
    match target {
        Whom::Process => Subject::Process(PROCESS),
        Whom::Cgroup(at) => Subject::Cgroup(ROOT + at as u64),
        Whom::User => Subject::User(USER),
    }
}

fn within(tree: &Tree, at: usize, target: Whom) -> Option<Identity> {
    match target {
        Whom::Process => Some(identity(tree, at, PROCESS, USER)),
        Whom::Cgroup(at) => Some(identity(tree, at, 0, NO_USER)),
        Whom::User => None,
    }
}

proptest! {
    #[test]
    fn what_holds_is_what_a_walk_to_the_root_says(
        tree in trees(),
        at in 0..CGROUPS,
        wishes in proptest::collection::vec((whom(), changes()), 0..20),
        own in changes(),
        depth in 0..MAX_LEVELS as u32,
    ) {
        let mut settings = Settings::<Vectors>::new(vec![Entry::default(); 64]);
        for (target, change) in &wishes {
            let place = within(&tree, at, *target);
            let deep = matches!(target, Whom::Cgroup(at) if path(&tree, *at).len() > MAX_LEVELS);
            let taken = settings.set(subject(*target), place, change);
            prop_assert!(taken.is_err() || !deep, "set where no process would find it");
        }
        let process = identity(&tree, at, PROCESS, USER);
        let around = path(&tree, at);
        // The most specific first.
        let mut subjects = vec![Subject::Process(PROCESS)];
        subjects.extend(around.iter().map(|id| Subject::Cgroup(*id)));
        subjects.push(Subject::User(USER));
        let found = || subjects.iter().filter_map(|subject| settings.get(*subject));
        let weight = found().find_map(|set| set.weight).map_or(100, |weight| weight.get());
        let class = found().find_map(|set| set.class).unwrap_or_default();
        let limit = found().filter_map(|set| set.limit).min();
        let before = settings.resolve(&process);
        prop_assert_eq!(before.weight.get(), weight);
        prop_assert_eq!(before.class, class);
        prop_assert_eq!(before.limit, limit);

        // Groups: whichever leaf a tenant makes below, the group is the same.
        let group = settings.group_of(&process, GroupBy::Cgroup, depth);
        let mut leaf = process;
        if let Some(slot) = leaf.above.iter_mut().find(|id| **id == 0) {
            *slot = leaf.cgroup;
        }
        leaf.cgroup = 999;
        let level = around.len() - 1;
        if level >= depth.max(1) as usize {
            prop_assert_eq!(settings.group_of(&leaf, GroupBy::Cgroup, depth), group);
        }
        prop_assert_eq!(settings.resolve(&leaf).limit, limit);

        // What a user lowers only lowers, whatever an administrator does later.
        let lowered = settings.lower(&process, &own);
        let after = settings.resolve(&process);
        if lowered.is_err() {
            prop_assert_eq!(after, before);
        }
        for (target, change) in wishes.iter().rev() {
            let _ = settings.set(subject(*target), within(&tree, at, *target), change);
            let most = settings.inherited(&process);
            let is = settings.resolve(&process);
            prop_assert!(is.weight <= most.weight && is.class >= most.class);
            let percent = |limit: Option<Limit>| limit.map_or(100, Limit::get);
            prop_assert!(percent(is.limit) <= percent(most.limit));
        }
        if lowered.is_ok() {
            prop_assert_eq!(settings.clear_lowered(&process), Ok(()));
        }
        prop_assert_eq!(settings.resolve(&process), settings.inherited(&process));
    }
}
