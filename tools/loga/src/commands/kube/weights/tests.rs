// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Weights of pods, from an API server that is a double to a double of the kernel module.

use super::super::double::FakeApi;
use super::*;
use crate::fake::FakeKernel;
use k8s_openapi::api::core::v1::Pod as KubePod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use serde_json::{json, Value};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const PODS: &str = "/api/v1/pods";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/lab/resourceclaims";

/// The uid of the pod of this number.
fn uid(at: u32) -> String {
    format!("0b9c5d8e-6d0c-4f6d-9a53-0c8a1f9f2c{at:02x}")
}

/// A pod as an API server sends it.
fn pod(at: u32, annotation: Option<&str>, claim: Option<&str>) -> Value {
    let mut annotations = json!({"kubernetes.io/config.source": "api"});
    if let Some(weight) = annotation {
        annotations["loga/weight"] = json!(weight);
    }
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("train-{at}"), "namespace": "lab", "uid": uid(at),
            "resourceVersion": "48213", "creationTimestamp": "2026-11-20T10:15:00Z",
            "labels": {"app": "train"}, "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "train:1",
            "resources": {"claims": [{"name": "gpu"}]}}], "restartPolicy": "Never"},
        "status": {"phase": "Running", "qosClass": "BestEffort"}});
    if let Some(claim) = claim {
        // Made from a template: the status has its name.
        pod["spec"]["resourceClaims"] =
            json!([{"name": "gpu", "resourceClaimTemplateName": "part"}]);
        let status = json!([{"name": "gpu", "resourceClaimName": claim}]);
        pod["status"]["resourceClaimStatuses"] = status;
    }
    let typed: KubePod = serde_json::from_value(pod.clone()).expect("a pod");
    assert_eq!(typed.metadata.uid, Some(uid(at)));
    pod
}

/// A claim that was allocated, with what it took of each device.
fn claim(name: &str, compute: &[&str], pods: &[u32]) -> Value {
    let result = |(at, taken): (usize, &&str)| {
        json!({"request": "gpu", "driver": "gpu.nvidia.com", "pool": "n1",
            "device": format!("gpu-{at}"), "shareID": uid(99),
            "consumedCapacity": {"compute": taken, "memory": "4Gi"}})
    };
    let results: Vec<Value> = compute.iter().enumerate().map(result).collect();
    let reserved =
        |at: &u32| json!({"resource": "pods", "name": format!("train-{at}"), "uid": uid(*at)});
    let reserved: Vec<Value> = pods.iter().map(reserved).collect();
    let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "lab", "uid": uid(98)},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly":
            {"deviceClassName": "gpu.nvidia.com", "capacity": {"requests": {"compute": "20"}}}}]}},
        "status": {"allocation": {"devices": {"results": results}},
            "reservedFor": reserved}});
    let typed: ResourceClaim = serde_json::from_value(claim.clone()).expect("a claim");
    let status = typed.status.and_then(|status| status.allocation);
    let devices = status
        .and_then(|one| one.devices)
        .and_then(|one| one.results);
    let consumed = devices.expect("results")[0].consumed_capacity.clone();
    assert!(consumed.expect("capacities").contains_key("compute"));
    claim
}

struct Node {
    api: FakeApi,
    kernel: FakeKernel,
    cgroups: tempfile::TempDir,
    weigher: Weigher,
}

fn arguments(folder: &Path) -> cli::Pods {
    cli::Pods {
        node: "n1".to_string(),
        capacity: Some("compute".to_string()),
        driver: "gpu.nvidia.com".to_string(),
        max_weight: 1000,
        every: 10,
        once: true,
        server: cli::Server {
            api: None,
            api_version: "v1".to_string(),
            credentials: folder.to_path_buf(),
        },
        cgroups: folder.to_path_buf(),
    }
}

impl Node {
    fn new() -> Self {
        let cgroups = tempfile::tempdir().expect("a folder");
        let weigher = Weigher::new(&arguments(cgroups.path()));
        Self {
            api: FakeApi::start(),
            kernel: FakeKernel::new(2),
            cgroups,
            weigher,
        }
    }

    /// Makes the cgroups of a pod and of a container in it.
    fn make(&self, at: u32) -> u64 {
        let slice = format!("kubepods-burstable-pod{}.slice", uid(at).replace('-', "_"));
        let path = self
            .cgroups
            .path()
            .join("kubepods.slice/kubepods-burstable.slice");
        let pod = path.join(slice);
        let container = format!("cri-containerd-{}.scope", "4f".repeat(32));
        fs::create_dir_all(pod.join(container)).expect("made");
        fs::metadata(pod).expect("there").ino()
    }

    fn put(&self, path: &str, value: Value) {
        let mut state = self.api.state.lock().expect("whole");
        state.others.insert(path.to_string(), value);
    }

    fn pods(&self, pods: &[Value]) {
        let list = json!({"kind": "PodList", "apiVersion": "v1",
            "metadata": {"resourceVersion": "48300"}, "items": pods});
        self.put(PODS, list);
    }

    fn round(&mut self) -> Vec<String> {
        let directory = Directory::below(self.cgroups.path());
        let kernel = &self.kernel;
        let open = || Ok(Control::over(kernel));
        self.weigher.round(&self.api.api(), &directory, &open)
    }

    /// Weights of cgroups on the second GPU.
    fn weights(&self) -> BTreeMap<u64, u32> {
        let gpus = self.kernel.gpus.borrow();
        let shares = gpus[1].shares.iter();
        shares.map(|share| (share.id, share.weight)).collect()
    }
}

#[test]
fn weight_is_what_the_claim_took_else_the_annotation() {
    let mut node = Node::new();
    let ids: Vec<u64> = (0..6).map(|at| node.make(at)).collect();
    node.pods(&[
        pod(0, Some("200"), None),
        pod(1, Some("200"), Some("train-1-gpu")),
        pod(2, None, Some("train-2-gpu")),
        pod(3, None, None),
        // Of no node's cgroups.
        pod(7, Some("300"), None),
        // More than the site allows.
        pod(4, Some("9999"), Some("absent")),
    ]);
    node.put(
        &format!("{CLAIMS}/train-1-gpu"),
        claim("train-1-gpu", &["20", "35"], &[1]),
    );
    node.put(
        &format!("{CLAIMS}/train-2-gpu"),
        claim("train-2-gpu", &["50"], &[2]),
    );
    let wanted = BTreeMap::from([(ids[0], 200), (ids[1], 35), (ids[2], 50), (ids[4], 1000)]);
    assert_eq!(node.round().len(), 4);
    assert_eq!(node.weights(), wanted);
    // What it asked.
    let heard: Vec<String> = node.api.heard().into_iter().map(|one| one.1).collect();
    let asked = [
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=200",
        "/apis/resource.k8s.io/v1/namespaces/lab/resourceclaims/train-1-gpu",
        "/apis/resource.k8s.io/v1/namespaces/lab/resourceclaims/train-2-gpu",
        "/apis/resource.k8s.io/v1/namespaces/lab/resourceclaims/absent",
    ];
    assert_eq!(heard, asked);
    // Nothing is new; what was lost with the kernel module comes back.
    node.kernel.gpus.borrow_mut()[1].shares.clear();
    assert_eq!(node.round(), [""; 0]);
    assert_eq!(node.weights(), wanted);
}

#[test]
fn claim_that_several_pods_reserve_gives_its_weight_once() {
    let mut node = Node::new();
    let (first, second) = (node.make(1), node.make(2));
    let path = format!("{CLAIMS}/one");
    let named = |at| pod(at, None, Some("one"));
    node.pods(&[named(1), named(2)]);
    node.put(&path, claim("one", &["20"], &[1, 2]));
    node.round();
    assert_eq!(node.weights(), BTreeMap::from([(first, 10), (second, 10)]));
    // Rounded down, and only the pods of this node count.
    node.put(&path, claim("one", &["21"], &[1, 2, 2, 3]));
    node.round();
    assert_eq!(node.weights(), BTreeMap::from([(first, 10), (second, 10)]));
    // The second has ended.
    let mut ended = named(2);
    ended["status"]["phase"] = json!("Succeeded");
    node.pods(&[named(1), ended]);
    node.round();
    assert_eq!(node.weights(), BTreeMap::from([(first, 21)]));
    // The claim is not reserved for the first.
    node.pods(&[named(1), named(2)]);
    node.put(&path, claim("one", &["20"], &[2]));
    node.round();
    assert_eq!(node.weights(), BTreeMap::from([(second, 20)]));
    // Most that may reserve one: each has the least weight.
    let all: Vec<u32> = (0..256).collect();
    node.pods(&all.iter().map(|at| named(*at)).collect::<Vec<_>>());
    node.put(&path, claim("one", &["20"], &all));
    node.round();
    assert_eq!(node.weights(), BTreeMap::from([(first, 1), (second, 1)]));
    node.put(&path, claim("one", &["1000"], &all));
    node.round();
    assert_eq!(node.weights(), BTreeMap::from([(first, 3), (second, 3)]));
}

#[test]
fn weight_follows_the_annotation_and_goes_with_the_pod() {
    let mut node = Node::new();
    let (first, second) = (node.make(1), node.make(2));
    node.pods(&[pod(1, Some("200"), None), pod(2, Some("50"), None)]);
    node.round();
    node.pods(&[pod(1, Some("300"), None), pod(2, None, None)]);
    let said = node.round();
    let wanted = [
        format!("cgroup {second}: no weight"),
        format!("cgroup {first}: weight 300"),
    ];
    assert_eq!(said, wanted);
    assert_eq!(node.weights(), BTreeMap::from([(first, 300)]));
    let mut ended = pod(1, Some("300"), None);
    ended["status"]["phase"] = json!("Succeeded");
    let mut elsewhere = pod(2, Some("300"), None);
    elsewhere["spec"]["nodeName"] = json!("n2");
    node.pods(&[ended, elsewhere]);
    node.round();
    assert!(node.weights().is_empty());
}

#[test]
fn senseless_weights_are_told_once_and_change_nothing() {
    let mut node = Node::new();
    let id = node.make(1);
    node.pods(&[pod(1, Some("200"), None)]);
    node.round();
    for wrong in ["0", "10001", "-1", "1e3", "200m", "", "many"] {
        node.pods(&[pod(1, Some(wrong), None)]);
        node.weigher.told.clear();
        let said = node.round();
        let line = "pod lab/train-1: loga/weight is no weight: want a whole number from 1 to 10000";
        assert_eq!(said, [line], "{wrong}");
        assert_eq!(node.round(), [""; 0]);
        assert_eq!(node.weights(), BTreeMap::from([(id, 200)]));
    }
    node.pods(&[pod(1, None, Some("odd"))]);
    node.put(&format!("{CLAIMS}/odd"), claim("odd", &["20m"], &[1]));
    assert!(node.round()[0].contains("compute is no weight"));
    // A claim's name is a part of a path.
    let mut evil = pod(1, None, Some("odd"));
    evil["status"]["resourceClaimStatuses"][0]["resourceClaimName"] = json!("../../secrets/x");
    node.pods(&[evil]);
    node.api.heard();
    node.round();
    assert_eq!(node.api.heard().len(), 1);
}

#[test]
fn weights_stay_while_the_server_or_the_module_do_not_answer() {
    let mut node = Node::new();
    let id = node.make(1);
    node.pods(&[pod(1, Some("200"), None)]);
    node.round();
    node.api.state.lock().expect("whole").refuses = Some((403, "forbidden"));
    let said = node.round();
    let line = "API server: list pods: status 403 forbidden; weights stay as they are";
    assert_eq!(said, [line]);
    assert_eq!(node.round(), [""; 0]);
    node.api.state.lock().expect("whole").refuses = None;
    node.put(PODS, json!("what is this?"));
    assert!(node.round()[0].contains("no PodList"));
    assert_eq!(node.weights(), BTreeMap::from([(id, 200)]));
    node.pods(&[pod(1, Some("400"), None)]);
    node.kernel.fail(libc::ENODEV);
    assert!(node.round()[0].contains("attached to no driver"));
}

#[test]
fn nodes_of_a_list_come_by_pages_and_a_name_that_is_none_is_refused() {
    let mut node = Node::new();
    let id = node.make(2);
    let first = json!({"metadata": {"continue": "next/1"}, "items": [pod(1, Some("200"), None)]});
    node.put(PODS, first);
    node.put(
        "/api/v1/pods?continue=next%2F1",
        json!({"items": [pod(2, Some("50"), None)]}),
    );
    node.round();
    assert_eq!(node.weights(), BTreeMap::from([(id, 50)]));
    let mut arguments = arguments(node.cgroups.path());
    arguments.node = "n1,metadata.name=x".to_string();
    arguments.server.api = Some("https://h".to_string());
    let kernel = &node.kernel;
    let said = run(&arguments, || Ok(Control::over(kernel)), &mut Vec::new());
    assert!(said.expect_err("refused").to_string().contains("--node"));
}
