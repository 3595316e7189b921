// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Pods and resource claims, as far as their weights are read here.
//!
//! Source: core/v1, and API group resource.k8s.io of Kubernetes 1.36 and 1.37: `consumedCapacity` is
//! what an allocation took of a device that several may have (KEP-5075). The tests compare with the
//! types of the crate `k8s-openapi`.

use loga::units::Weight;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The annotation with the weight of a pod.
pub const ANNOTATION: &str = "loga/weight";
/// Most claims of a pod that are looked at.
const MAX_CLAIMS: usize = 8;

/// A page of pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pods {
    /// Where the next page begins.
    pub metadata: Page,
    /// The pods.
    pub items: Vec<Pod>,
}

/// Where the next page of a list begins.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Page {
    /// What to ask with; empty at the end.
    #[serde(rename = "continue")]
    pub next: String,
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Its names and annotations.
    pub metadata: Named,
    spec: PodSpec,
    status: PodStatus,
}

/// Names and annotations.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    /// Unique in its namespace.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Unique at all times.
    pub uid: String,
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: String,
    resource_claims: Vec<ClaimOfPod>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodStatus {
    phase: String,
    resource_claim_statuses: Vec<ClaimOfPod>,
}

/// A claim under the pod's name for it; the object's own name is in the status if a template made it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimOfPod {
    resource_claim_name: Option<String>,
}

/// A resource claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    status: ClaimStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClaimStatus {
    allocation: Allocation,
    #[serde(rename = "reservedFor")]
    reserved_for: Vec<Consumer>,
}

/// An object that may use a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Consumer {
    api_group: String,
    resource: String,
    uid: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Allocation {
    devices: Devices,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Devices {
    results: Vec<Allocated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Allocated {
    driver: String,
    consumed_capacity: BTreeMap<String, String>,
}

/// Which capacities of which driver are weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The driver.
    pub driver: String,
    /// The capacity's name.
    pub name: String,
}

impl Pod {
    /// Whether it is on a node, and has not ended.
    pub fn is_on(&self, node: &str) -> bool {
        let ended = ["Succeeded", "Failed"].contains(&self.status.phase.as_str());
        self.spec.node_name == node && !ended && !self.metadata.uid.is_empty()
    }

    /// Names of its claims.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        let of_status = self.status.resource_claim_statuses.iter();
        let all = self.spec.resource_claims.iter().chain(of_status);
        all.filter_map(|claim| claim.resource_claim_name.as_deref())
            .filter(|name| is_name(name))
            .take(MAX_CLAIMS)
    }

    /// What its annotation says.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn annotated(&self) -> Result<Option<u32>, String> {
        let text = self.metadata.annotations.get(ANNOTATION);
        text.map(|text| weight(text).ok_or_else(|| wrong(ANNOTATION)))
            .transpose()
    }
}

impl Claim {
    /// Uids of the pods that may use it, each once.
    pub fn pods(&self) -> BTreeSet<&str> {
        let all = self.status.reserved_for.iter();
        all.filter(|one| one.api_group.is_empty() && one.resource == "pods")
            .map(|one| one.uid.as_str())
            .collect()
    }

    /// What it took of a capacity, of the device of which it took most.
    ///
    /// # Errors
    ///
    /// What would be right.
    pub fn consumed(&self, capacity: &Capacity) -> Result<Option<u32>, String> {
        let devices = self.status.allocation.devices.results.iter();
        let of_driver = devices.filter(|one| one.driver == capacity.driver);
        let mut most = None;
        for text in of_driver.filter_map(|one| one.consumed_capacity.get(&capacity.name)) {
            let found = weight(text).ok_or_else(|| wrong(&capacity.name))?;
            most = most.max(Some(found));
        }
        Ok(most)
    }
}

/// A name that may stand in the path of a request.
pub fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
    !name.is_empty() && name.len() <= 253 && !name.starts_with('.') && name.chars().all(legal)
}

/// A whole number that is a weight.
fn weight(text: &str) -> Option<u32> {
    let number = text.parse::<u32>().ok()?;
    Weight::new(number).ok().map(Weight::get)
}

fn wrong(what: &str) -> String {
    let (least, most) = (Weight::MIN, Weight::MAX);
    format!("{what} is no weight: want a whole number from {least} to {most}")
}
