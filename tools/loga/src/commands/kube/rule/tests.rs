// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Rules against the types of Kubernetes, and what is changed.

use super::*;
use k8s_openapi::api::resource::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use k8s_openapi::List as KubeList;

fn naming() -> Naming {
    Naming {
        version: "v1".to_string(),
        driver: "gpu.nvidia.com".to_string(),
        prefix: "gpu-".to_string(),
    }
}

fn key(node: &str, gpu: u32) -> Wanted {
    (Why::Waiting, (node.to_string(), gpu))
}

/// A rule as the types of Kubernetes have it.
fn kube_rule(name: &str, owner: Option<&str>) -> v1::DeviceTaintRule {
    let labels = owner.map(|owner| BTreeMap::from([(OWNER_LABEL.to_string(), owner.to_string())]));
    v1::DeviceTaintRule {
        metadata: ObjectMeta {
            name: Some(name.to_string()),
            labels,
            ..Default::default()
        },
        ..Default::default()
    }
}

#[test]
fn rule_is_what_kubernetes_reads_in_full() {
    let written = serde_json::to_value(Rule::new(&naming(), &key("n1", 3))).expect("JSON");
    let read: v1::DeviceTaintRule = serde_json::from_value(written.clone()).expect("a rule");
    let selector = read.spec.device_selector.as_ref().expect("a selector");
    assert_eq!(selector.driver.as_deref(), Some("gpu.nvidia.com"));
    assert_eq!(selector.pool.as_deref(), Some("n1"));
    assert_eq!(selector.device.as_deref(), Some("gpu-3"));
    assert_eq!(read.spec.taint.effect, "NoSchedule");
    assert_eq!(read.spec.taint.key, "loga/waiting");
    // Nothing is lost on the way, so each field has a name that Kubernetes knows.
    assert_eq!(serde_json::to_value(&read).expect("JSON"), written);
}

#[test]
fn list_that_kubernetes_writes_is_read() {
    let list = KubeList {
        items: vec![
            kube_rule("loga-n1-3", Some(OWNER)),
            kube_rule("other", None),
        ],
        metadata: ListMeta {
            continue_: Some("page 2".to_string()),
            ..Default::default()
        },
    };
    let text = serde_json::to_vec(&list).expect("JSON");
    let read: List = serde_json::from_slice(&text).expect("a list");
    assert_eq!(read.metadata.next, "page 2");
    assert_eq!(read.items[0].metadata.name, "loga-n1-3");
    assert!(read.items[0].is_ours());
    assert!(!read.items[1].is_ours());
}

#[test]
fn only_rules_that_differ_and_are_ours_change() {
    let there: Vec<Listed> = [
        ("loga-n1-0", OWNER),
        ("loga-n1-1", OWNER),
        ("loga-n9-9", "someone-else"),
    ]
    .map(|(name, owner)| Listed {
        metadata: Metadata {
            name: name.to_string(),
            labels: BTreeMap::from([(OWNER_LABEL.to_string(), owner.to_string())]),
        },
    })
    .to_vec();
    let closed = BTreeSet::from([key("n1", 1), key("n2", 0)]);
    let wanted = Changes {
        make: vec![key("n2", 0)],
        remove: vec!["loga-n1-0".to_string()],
    };
    assert_eq!(changes(&closed, &there), wanted);
    assert_eq!(changes(&BTreeSet::new(), &there).remove.len(), 2);
    assert_eq!(changes(&closed, &[]).make, [key("n1", 1), key("n2", 0)]);
}

#[test]
fn lost_gpu_has_a_rule_of_its_own() {
    let lost = (Why::Lost, ("n1".to_string(), 3));
    let written = serde_json::to_value(Rule::new(&naming(), &lost)).expect("JSON");
    let read: v1::DeviceTaintRule = serde_json::from_value(written.clone()).expect("a rule");
    assert_eq!(read.metadata.name.as_deref(), Some("loga-n1-3-lost"));
    assert_eq!(read.spec.taint.key, "loga/lost");
    assert_eq!(serde_json::to_value(&read).expect("JSON"), written);
    // Both at a time, and neither stands for the other.
    let both = BTreeSet::from([lost.clone(), key("n1", 3)]);
    assert_eq!(changes(&both, &[]).make.len(), 2);
    let there = Listed {
        metadata: Rule::new(&naming(), &lost).metadata,
    };
    assert_eq!(changes(&both, &[there]).make, [key("n1", 3)]);
}
