// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The arguments of `loga kube`.

use super::numbers::{whole, whole_seconds};
use crate::http::Address;
use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args};
use std::path::PathBuf;

/// Versions of the API group resource.k8s.io that have DeviceTaintRule objects of this form.
const VERSIONS: [&str; 2] = ["v1", "v1beta2"];

/// The API server, and the service account that asks it.
#[derive(Args, Clone, Debug)]
pub struct Server {
    /// The address of the API server.
    #[arg(
        long,
        value_name = "URL",
        help = "The API server, https://HOST[:PORT] [default: that of the pod's environment]"
    )]
    pub api: Option<String>,
    /// Version of resource.k8s.io: v1 from Kubernetes 1.37 on, v1beta2 in 1.36
    #[arg(long, value_name = "VERSION", default_value = VERSIONS[0], value_parser = PossibleValuesParser::new(VERSIONS))]
    pub api_version: String,
    /// Where the service account's token and ca.crt are
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "/var/run/secrets/kubernetes.io/serviceaccount"
    )]
    pub credentials: PathBuf,
}

/// Arguments of `loga agent pods`.
#[derive(Args, Clone, Debug)]
pub struct Pods {
    /// The node's name in Kubernetes
    #[arg(long, value_name = "NAME")]
    pub node: String,
    /// The capacity of a device that is a weight, such as compute: what a pod's claim took of it
    /// comes before its annotation
    #[arg(long, value_name = "NAME")]
    pub capacity: Option<String>,
    /// The DRA driver whose devices have it
    #[arg(long, value_name = "NAME", default_value = "gpu.nvidia.com")]
    pub driver: String,
    /// Largest weight that a pod gets, whatever it asks for
    #[arg(long, value_name = "WEIGHT", default_value = "1000", value_parser = whole(1..=10_000u32))]
    pub max_weight: u32,
    /// Seconds between two looks at the pods
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = whole_seconds(1..=300))]
    pub every: u64,
    /// Look once, set weights, and stop
    #[arg(long)]
    pub once: bool,
    /// The API server
    #[command(flatten)]
    pub server: Server,
    /// Where the node's cgroup v2 hierarchy is mounted
    #[arg(long, value_name = "FOLDER", default_value = "/sys/fs/cgroup")]
    pub cgroups: PathBuf,
}

/// Arguments of `loga kube`.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("task").required(true).multiple(true).args(["extender", "taints", "annotate"]))]
#[command(group = ArgGroup::new("written").multiple(true).args(["taints", "annotate"]))]
#[command(mut_arg("api", |api| api.requires("written")))]
pub struct Kube {
    /// Answer kube-scheduler's requests for scores of nodes here, such as 0.0.0.0:9467 or unix:PATH
    ///
    /// POST /prioritize takes ExtenderArgs and returns a HostPriorityList: 10 for a node with a free
    /// GPU, 0 for one whose GPUs are all full, 5 for a node of which nothing is known. GET /healthz
    /// answers while the server runs. POST /filter takes ExtenderArgs and returns an
    /// ExtenderFilterResult without the nodes whose GPUs are all lost, and without those on whose best
    /// GPU the pod would lose more than its annotation loga/max-loss allows, in percent.
    #[arg(long, value_name = "ADDRESS")]
    pub extender: Option<Address>,
    /// Answer over TLS, with the chain of certificates in this file (PEM)
    #[arg(long, value_name = "FILE", requires = "key", requires = "extender")]
    pub certificate: Option<PathBuf>,
    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Keep new pods off GPUs whose programs wait much or that are lost, by DeviceTaintRule objects
    ///
    /// A GPU gets a rule of effect NoSchedule when its programs together waited for more than 30 % of
    /// the last 30 s, and loses it when that was below 15 % for a minute, or longer if the GPU got
    /// another rule soon after it had lost one. At most half of a node's GPUs have one. Rules that an
    /// earlier run left are removed at the start. A lost GPU has a rule of its own while its node calls
    /// it so.
    #[arg(long)]
    pub taints: bool,
    /// Write the free part of each GPU into the annotation loga/free-percent of its node
    ///
    /// At most every 30 s for a node, and if a GPU's part changed by 5 points or more. The annotation
    /// goes when nothing is known of the node.
    #[arg(long)]
    pub annotate: bool,
    /// The nodes, separated by commas, or a file (a path that begins with / or .) with one per line
    ///
    /// A node is its name in Kubernetes, or NAME=URL or NAME=/PATH where its exporter's text is
    /// elsewhere than at http://NAME:9466/metrics. A file is read again every minute.
    #[arg(long, value_name = "NODES")]
    pub nodes: String,
    /// Seconds between two readings of the exporters
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = whole_seconds(1..=20))]
    pub every: u64,
    /// The API server
    #[command(flatten)]
    pub server: Server,
    /// The DRA driver whose devices get rules
    #[arg(long, value_name = "NAME", default_value = "gpu.nvidia.com")]
    pub driver: String,
    /// What the driver's names of devices begin with, before the number that `loga stat` prints
    #[arg(long, value_name = "TEXT", default_value = "gpu-")]
    pub device_prefix: String,
}
