// SPDX-License-Identifier: GPL-2.0

//! `[tool]` DeviceTaintRule objects, as far as they are written and read here.
//!
//! Source: API group resource.k8s.io of Kubernetes 1.37 (v1) and 1.36 (v1beta2), which have the same
//! fields. The crate `k8s-openapi` has all types, under a licence that may not be linked with this
//! program's; the tests compare with it.

use super::hysteresis::Key;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Label of the rules that are ours.
pub const OWNER_LABEL: &str = "app.kubernetes.io/managed-by";
/// Its value.
pub const OWNER: &str = "loga-kube";

/// Why a GPU has a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Its programs wait much.
    Waiting,
    /// It does not answer.
    Lost,
}

impl Why {
    /// Key of the taint, which a claim may tolerate.
    pub const fn taint(self) -> &'static str {
        match self {
            Why::Waiting => "loga/waiting",
            Why::Lost => "loga/lost",
        }
    }
}

/// A rule that should be there.
pub type Wanted = (Why, Key);

/// Names that rules are made of.
#[derive(Clone, Debug)]
pub struct Naming {
    /// Version of the API group.
    pub version: String,
    /// The DRA driver.
    pub driver: String,
    /// What its names of devices begin with.
    pub prefix: String,
}

/// A DeviceTaintRule to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    api_version: String,
    kind: &'static str,
    /// Its name and labels.
    pub metadata: Metadata,
    spec: Spec,
}

/// Name and labels of an object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Metadata {
    /// Unique among rules.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    device_selector: Selector,
    taint: Taint,
}

/// All of it must match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Selector {
    driver: String,
    pool: String,
    device: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Taint {
    key: &'static str,
    effect: &'static str,
}

/// A page of a list of rules.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct List {
    /// Where the next page begins.
    pub metadata: ListMetadata,
    /// The rules.
    pub items: Vec<Listed>,
}

/// Where the next page of a list begins.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct ListMetadata {
    /// Empty on the last page.
    #[serde(rename = "continue")]
    pub next: String,
}

/// A rule that is there.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Listed {
    /// Its name and labels.
    pub metadata: Metadata,
}

impl Listed {
    /// Whether it is ours to remove.
    pub fn is_ours(&self) -> bool {
        self.metadata
            .labels
            .get(OWNER_LABEL)
            .is_some_and(|owner| owner == OWNER)
    }
}

/// Name of the rule for a GPU. One that ends in a number is of a GPU whose programs wait.
pub fn name((why, (node, gpu)): &Wanted) -> String {
    match why {
        Why::Waiting => format!("loga-{node}-{gpu}"),
        Why::Lost => format!("loga-{node}-{gpu}-lost"),
    }
}

impl Rule {
    /// The rule for a GPU. NVIDIA's DRA driver gives each node a pool of the node's name.
    pub fn new(naming: &Naming, wanted: &Wanted) -> Self {
        let (why, key) = wanted;
        Self {
            api_version: format!("resource.k8s.io/{}", naming.version),
            kind: "DeviceTaintRule",
            metadata: Metadata {
                name: name(wanted),
                labels: BTreeMap::from([(OWNER_LABEL.to_string(), OWNER.to_string())]),
            },
            spec: Spec {
                device_selector: Selector {
                    driver: naming.driver.clone(),
                    pool: key.0.clone(),
                    device: format!("{}{}", naming.prefix, key.1),
                },
                taint: Taint {
                    key: why.taint(),
                    effect: "NoSchedule",
                },
            },
        }
    }
}

/// What has to change: GPUs whose rules are to be made, and names of rules to be removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// To be made.
    pub make: Vec<Wanted>,
    /// To be removed.
    pub remove: Vec<String>,
}

/// What makes the rules that are there those that should be. Rules of others stay.
pub fn changes(closed: &BTreeSet<Wanted>, there: &[Listed]) -> Changes {
    let ours = there.iter().filter(|rule| rule.is_ours());
    let ours: BTreeSet<&str> = ours.map(|rule| rule.metadata.name.as_str()).collect();
    let wanted: BTreeMap<String, &Wanted> = closed.iter().map(|key| (name(key), key)).collect();
    let missing = wanted
        .iter()
        .filter(|(name, _)| !ours.contains(name.as_str()));
    let extra = ours.iter().filter(|name| !wanted.contains_key(**name));
    Changes {
        make: missing.map(|(_, key)| (*key).clone()).collect(),
        remove: extra.map(|name| (*name).to_string()).collect(),
    }
}

#[cfg(test)]
mod tests;
