// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Annotations of nodes in an API server that is a double.

use super::super::double::FakeApi;
use super::*;
use k8s_openapi::api::core::v1::Node;
use serde_json::{json, Value};

const PATH: &str = "/api/v1/nodes/";

fn free(nodes: &[(&str, &[(u32, u64)])]) -> BTreeMap<String, Free> {
    let one =
        |(name, gpus): &(&str, &[(u32, u64)])| (name.to_string(), gpus.iter().copied().collect());
    nodes.iter().map(one).collect()
}

/// A server that has these nodes.
fn server(names: &[&str]) -> FakeApi {
    let fake = FakeApi::start();
    for name in names {
        let node = json!({"metadata": {"name": name, "annotations": {"volumes": "true"}}});
        let mut state = fake.state.lock().expect("whole");
        state.others.insert(format!("{PATH}{name}"), node);
    }
    fake
}

/// The annotation of a node, as Kubernetes' types have it.
fn annotation(fake: &FakeApi, name: &str) -> Option<String> {
    let state = fake.state.lock().expect("whole");
    let node: Value = state.others[&format!("{PATH}{name}")].clone();
    let node: Node = serde_json::from_value(node).expect("a node");
    let annotations = node.metadata.annotations.expect("annotations");
    assert_eq!(annotations.get("volumes").map(String::as_str), Some("true"));
    annotations.get(ANNOTATION).cloned()
}

#[test]
fn nodes_say_what_is_free_and_nothing_when_nothing_is_known() {
    let fake = server(&["n1", "n2"]);
    let session = fake.api().session().expect("a session");
    let mut annotations = Annotations::default();
    let mut round = |nodes, now| {
        let done = annotations.round(&session, &free(nodes), Duration::from_secs(now));
        done.expect("written");
        fake.heard().len()
    };
    assert_eq!(round(&[("n1", &[(0, 63), (4, 5)]), ("n2", &[])], 0), 2);
    assert_eq!(
        annotation(&fake, "n1").as_deref(),
        Some("{\"0\":63,\"4\":5}")
    );
    assert_eq!(annotation(&fake, "n2"), None);
    // Too little, and then too soon.
    assert_eq!(round(&[("n1", &[(0, 67), (4, 1)]), ("n2", &[])], 60), 0);
    assert_eq!(
        round(&[("n1", &[(0, 68), (4, 5)]), ("n2", &[(1, 100)])], 60),
        2
    );
    assert_eq!(round(&[("n1", &[(0, 10)]), ("n2", &[(1, 100)])], 89), 0);
    assert_eq!(round(&[("n1", &[(0, 10)]), ("n2", &[(1, 100)])], 90), 1);
    assert_eq!(annotation(&fake, "n1").as_deref(), Some("{\"0\":10}"));
    assert_eq!(round(&[("n1", &[]), ("n2", &[(1, 100)])], 120), 1);
    assert_eq!(annotation(&fake, "n1"), None);
}

#[test]
fn server_that_refuses_is_asked_again() {
    let fake = server(&["n1"]);
    let session = fake.api().session().expect("a session");
    let mut annotations = Annotations::default();
    let nodes = free(&[("n1", &[(0, 50)])]);
    fake.state.lock().expect("whole").refuses = Some((403, "nodes is forbidden"));
    let said = annotations.round(&session, &nodes, Duration::ZERO);
    assert_eq!(
        said,
        Err("annotate n1: status 403 nodes is forbidden".to_string())
    );
    fake.state.lock().expect("whole").refuses = None;
    assert_eq!(annotations.round(&session, &nodes, Duration::ZERO), Ok(()));
    assert_eq!(annotation(&fake, "n1").as_deref(), Some("{\"0\":50}"));
    // A node that the server does not know is no reason to stop.
    let nodes = free(&[("n0", &[(0, 50)]), ("n1", &[(0, 80)])]);
    let later = Duration::from_secs(30);
    assert_eq!(annotations.round(&session, &nodes, later), Ok(()));
    assert_eq!(annotation(&fake, "n1").as_deref(), Some("{\"0\":80}"));
}

#[test]
fn node_that_is_refused_keeps_no_other_waiting() {
    let fake = server(&["n1", "n2"]);
    let session = fake.api().session().expect("a session");
    let mut annotations = Annotations::default();
    let nodes = free(&[("n1", &[(0, 50)]), ("n2", &[(0, 60)])]);
    fake.state.lock().expect("whole").refuses = Some((403, "n1 is held"));
    for now in 1..=2 {
        let said = annotations.round(&session, &nodes, Duration::from_secs(now));
        assert_eq!(said, Err(format!("annotate n{now}: status 403 n1 is held")));
    }
    fake.state.lock().expect("whole").refuses = None;
    let later = Duration::from_secs(3);
    assert_eq!(annotations.round(&session, &nodes, later), Ok(()));
    assert_eq!(annotation(&fake, "n1").as_deref(), Some("{\"0\":50}"));
    assert_eq!(annotation(&fake, "n2").as_deref(), Some("{\"0\":60}"));
}

#[test]
fn rights_are_those_of_the_manifest() {
    let manifest = include_str!("../../../../../../packaging/kube/loga-annotate.yaml");
    let at = manifest
        .find("resources: [nodes]")
        .expect("a rule for nodes");
    let verbs = manifest[at..].lines().nth(1).expect("verbs");
    assert_eq!(verbs.trim(), "verbs: [patch]");
}
