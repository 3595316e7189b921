// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Rules in an API server that is a double, also one that is dead.

use super::super::double::FakeApi;
use super::super::rule::Why;
use super::*;

fn writer(fake: &FakeApi) -> Writer {
    let naming = Naming {
        version: "v1".to_string(),
        driver: "gpu.nvidia.com".to_string(),
        prefix: "gpu-".to_string(),
    };
    Writer::new(fake.api(), naming)
}

fn closed(keys: &[(&str, u32)]) -> BTreeSet<Wanted> {
    let wanted = |(node, gpu): &(&str, u32)| (Why::Waiting, (node.to_string(), *gpu));
    keys.iter().map(wanted).collect()
}

/// `later` seconds after `start`.
fn at(start: Instant, later: u64) -> Instant {
    start + Duration::from_secs(later)
}

#[test]
fn rules_of_an_earlier_run_are_removed_at_the_start() {
    let fake = FakeApi::start();
    for gpu in 0..5 {
        fake.put(&format!("loga-n1-{gpu}"), true);
    }
    fake.put("other", false);
    let told = writer(&fake).round(&BTreeSet::new(), Instant::now());
    assert_eq!(fake.names(), ["other"]);
    assert_eq!(told.len(), 5, "{told:?}");
}

#[test]
fn rules_follow_the_closed_gpus_and_nothing_is_asked_while_nothing_changes() {
    let fake = FakeApi::start();
    let (mut writer, start) = (writer(&fake), Instant::now());
    let told = writer.round(&closed(&[("n1", 0), ("n2", 3)]), start);
    assert_eq!(fake.names(), ["loga-n1-0", "loga-n2-3"], "{told:?}");
    fake.heard();
    writer.round(&closed(&[("n1", 0), ("n2", 3)]), at(start, 59));
    assert!(fake.heard().is_empty());
    let told = writer.round(&closed(&[("n2", 3), ("n3", 1)]), at(start, 59));
    assert_eq!(told, ["removed rule loga-n1-0", "made rule loga-n3-1"]);
    assert_eq!(fake.names(), ["loga-n2-3", "loga-n3-1"]);
    // What was changed by hand is put right after a minute.
    fake.state.lock().expect("whole").rules.remove("loga-n2-3");
    writer.round(&closed(&[("n2", 3), ("n3", 1)]), at(start, 118));
    assert_eq!(fake.names(), ["loga-n3-1"]);
    writer.round(&closed(&[("n2", 3), ("n3", 1)]), at(start, 119));
    assert_eq!(fake.names(), ["loga-n2-3", "loga-n3-1"]);
}

#[test]
fn dead_server_changes_nothing_and_is_told_once_a_minute() {
    let fake = FakeApi::start();
    let (mut writer, start) = (writer(&fake), Instant::now());
    writer.round(&closed(&[("n1", 0)]), start);
    fake.state.lock().expect("whole").refuses = Some((503, "etcd is gone"));
    let told = |writer: &mut Writer, later| writer.round(&BTreeSet::new(), at(start, later));
    assert_eq!(
        told(&mut writer, 5),
        ["API server: list: status 503 etcd is gone; its rules stay as they are"]
    );
    for later in [10, 30, 64] {
        assert!(told(&mut writer, later).is_empty());
    }
    assert!(told(&mut writer, 65)[0].ends_with("(3 errors before were not told)"));
    assert_eq!(fake.names(), ["loga-n1-0"]);
    fake.state.lock().expect("whole").refuses = None;
    assert_eq!(told(&mut writer, 70), ["removed rule loga-n1-0"]);
    assert!(fake.names().is_empty());
}

#[test]
fn silent_server_delays_a_round_by_its_bound_only() {
    let fake = FakeApi::start();
    fake.state.lock().expect("whole").silent = true;
    let asks = |api| Writer {
        api,
        ..writer(&fake)
    };
    let api = Api {
        patience: Duration::from_millis(500),
        ..fake.api()
    };
    let start = Instant::now();
    // The server is silent for far longer than that.
    let told = asks(api).round(&closed(&[("n1", 0), ("n1", 1)]), start);
    assert!(told[0].contains("timeout"), "{told:?}");
    assert_eq!(told.len(), 1, "{told:?}");
    // Nothing listens there.
    let mut writer = asks(Api {
        url: "https://127.0.0.1:1".to_string(),
        ..fake.api()
    });
    let told = writer.round(&closed(&[("n1", 0)]), start);
    assert!(told[0].contains("refused"), "{told:?}");
}

#[test]
fn rule_of_another_owner_under_our_name_is_left_alone() {
    let fake = FakeApi::start();
    fake.put("loga-n1-0", false);
    let (mut writer, start) = (writer(&fake), Instant::now());
    let told = writer.round(&closed(&[("n1", 0)]), start);
    assert!(told[0].contains("409"), "{told:?}");
    writer.round(&BTreeSet::new(), at(start, 5));
    assert_eq!(fake.names(), ["loga-n1-0"]);
}

#[test]
fn many_changes_take_several_rounds() {
    let fake = FakeApi::start();
    let all: Vec<(&str, u32)> = (0..70).map(|gpu| ("n1", gpu)).collect();
    let all = closed(&all);
    let (mut writer, start) = (writer(&fake), Instant::now());
    assert_eq!(writer.round(&all, start).len(), MAX_CHANGES);
    assert_eq!(writer.round(&all, start).len(), 70 - MAX_CHANGES);
    assert!(writer.round(&all, start).is_empty());
    assert_eq!(fake.names().len(), 70);
}

#[test]
fn verbs_are_those_of_the_role_in_the_manifest() {
    let fake = FakeApi::start();
    let (mut writer, start) = (writer(&fake), Instant::now());
    writer.round(&closed(&[("n1", 0)]), start);
    writer.round(&BTreeSet::new(), start);
    let used: BTreeSet<&str> = fake.heard().into_iter().map(|one| one.0).collect();
    let manifest = include_str!("../../../../../../packaging/kube/loga-kube.yaml");
    let role = manifest
        .split("---")
        .find(|part| part.contains("kind: ClusterRole\n"));
    let line = role
        .expect("a role")
        .lines()
        .find(|line| line.contains("verbs:"));
    let verbs = line
        .expect("verbs")
        .split(['[', ']'])
        .nth(1)
        .expect("a list");
    let allowed: BTreeSet<&str> = verbs.split(", ").collect();
    assert_eq!(used, allowed);
}
