// SPDX-License-Identifier: GPL-2.0

//! The manifests for Kubernetes: objects of its types, arguments that the program takes, and rights
//! no wider than what it asks for. And the program itself, with a scheduler's request.

use clap::Parser;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PodSpec, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use loga_cli::cli::{Agent, AgentKind, Arguments, Command, Kube};
use loga_cli::cluster::nodes::nodes;
use loga_cli::http::Address;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command as Program, Stdio};
use std::time::{Duration, Instant};

const LOGA: &str = env!("CARGO_BIN_EXE_loga");

fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/kube")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The objects of a file.
fn documents(name: &str) -> Vec<Value> {
    let text = text(name);
    let parts = serde_yaml_ng::Deserializer::from_str(&text);
    parts
        .map(|part| Value::deserialize(part).expect(name))
        .collect()
}

/// What of `part` is not in `whole`, as paths.
fn missing(part: &Value, whole: &Value, path: &str) -> Vec<String> {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            let each = part.iter().flat_map(|(name, value)| {
                let none = Value::Null;
                missing(
                    value,
                    whole.get(name).unwrap_or(&none),
                    &format!("{path}.{name}"),
                )
            });
            each.collect()
        }
        (Value::Array(part), Value::Array(whole)) if part.len() == whole.len() => {
            let pairs = part.iter().zip(whole).enumerate();
            let each =
                pairs.flat_map(|(at, (one, other))| missing(one, other, &format!("{path}[{at}]")));
            each.collect()
        }
        _ if part == whole => Vec::new(),
        _ => vec![format!("{path}: {part} became {whole}")],
    }
}

/// The object of a kind. Kubernetes knows all that it says.
fn object<T: DeserializeOwned + Serialize>(kind: &str) -> T {
    object_of("loga-kube.yaml", kind)
}

fn object_of<T: DeserializeOwned + Serialize>(file: &str, kind: &str) -> T {
    let all = documents(file);
    let found: Vec<&Value> = all.iter().filter(|one| one["kind"] == kind).collect();
    assert_eq!(found.len(), 1, "{kind}");
    read(found[0], kind)
}

/// The object of a kind and a name in the file of `loga kube`.
fn object_named<T: DeserializeOwned + Serialize>(kind: &str, name: &str) -> T {
    let all = documents("loga-kube.yaml");
    let is_it = |one: &&Value| one["kind"] == kind && one["metadata"]["name"] == name;
    let found: Vec<&Value> = all.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{kind} {name}");
    read(found[0], kind)
}

fn read<T: DeserializeOwned + Serialize>(object: &Value, kind: &str) -> T {
    let read: T = serde_json::from_value(object.clone()).expect(kind);
    let back = serde_json::to_value(&read).expect(kind);
    assert_eq!(missing(object, &back, kind), Vec::<String>::new());
    read
}

/// The deployment that answers the scheduler.
const EXTENDER: &str = "loga-kube";
/// The deployment that writes rules.
const TAINTS: &str = "loga-taints";

fn pod(name: &str) -> PodSpec {
    let deployment: Deployment = object_named("Deployment", name);
    let spec = deployment.spec;
    assert_eq!(spec.replicas, Some(1));
    // The new one removes the rules of the old one: they must not run side by side.
    assert_eq!(
        spec.strategy.expect("a strategy").type_.as_deref(),
        Some("Recreate")
    );
    spec.template.spec.expect("a pod")
}

fn arguments(words: Vec<String>) -> Kube {
    let words = std::iter::once("loga".to_string()).chain(words);
    match Arguments::try_parse_from(words).expect("arguments").command {
        Command::Kube(arguments) => arguments,
        other => panic!("{other:?}"),
    }
}

#[test]
fn objects_are_those_that_kubernetes_knows() {
    let all = documents("loga-kube.yaml");
    let _: Namespace = object("Namespace");
    let _: ServiceAccount = object("ServiceAccount");
    let _: ClusterRole = object("ClusterRole");
    let _: ClusterRoleBinding = object("ClusterRoleBinding");
    let _: ConfigMap = object("ConfigMap");
    let _: Service = object("Service");
    for name in [EXTENDER, TAINTS] {
        let _: Deployment = object_named("Deployment", name);
        let _: NetworkPolicy = object_named("NetworkPolicy", name);
    }
    assert_eq!(all.len(), 10);
}

#[test]
fn field_that_kubernetes_does_not_know_is_found() {
    let wrong = json!({"spec": {"replica": 1, "selector": {}, "template": {}}});
    let read: Deployment = serde_json::from_value(wrong.clone()).expect("reads");
    let back = serde_json::to_value(&read).expect("writes");
    assert_eq!(
        missing(&wrong, &back, "x"),
        ["x.spec.replica: 1 became null"]
    );
}

#[test]
fn role_allows_three_verbs_on_one_resource_and_is_bound_to_the_account_of_the_pod() {
    let role: ClusterRole = object("ClusterRole");
    let rules = serde_json::to_value(role.rules.expect("rules")).expect("JSON");
    let wanted = json!([{
        "apiGroups": ["resource.k8s.io"],
        "resources": ["devicetaintrules"],
        "verbs": ["list", "create", "delete"],
    }]);
    assert_eq!(rules, wanted);
    let binding: ClusterRoleBinding = object("ClusterRoleBinding");
    let subjects = binding.subjects.expect("subjects");
    assert_eq!(
        (subjects.len(), binding.role_ref.name.as_str()),
        (1, "loga-kube")
    );
    let account: ServiceAccount = object("ServiceAccount");
    assert_eq!(Some(&subjects[0].name), account.metadata.name.as_ref());
    assert_eq!(subjects[0].namespace, account.metadata.namespace);
    assert_eq!(pod(TAINTS).service_account_name, account.metadata.name);
    // What others can connect to has no rights.
    let extender = pod(EXTENDER);
    assert_eq!(extender.service_account_name, None);
    assert_eq!(extender.automount_service_account_token, Some(false));
}

#[test]
fn role_for_annotations_is_bound_to_the_same_account() {
    const FILE: &str = "loga-annotate.yaml";
    assert_eq!(documents(FILE).len(), 2);
    let role: ClusterRole = object_of(FILE, "ClusterRole");
    let rules = serde_json::to_value(role.rules.expect("rules")).expect("JSON");
    let wanted = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}]);
    assert_eq!(rules, wanted);
    let binding: ClusterRoleBinding = object_of(FILE, "ClusterRoleBinding");
    let account: ServiceAccount = object("ServiceAccount");
    let subject = &binding.subjects.expect("subjects")[0];
    assert_eq!(Some(&subject.name), account.metadata.name.as_ref());
    assert_eq!(subject.namespace, account.metadata.namespace);
    assert_eq!(Some(binding.role_ref.name), role.metadata.name);
}

#[test]
fn pods_may_do_nothing_but_what_they_need() {
    for name in [EXTENDER, TAINTS] {
        check_rights(&pod(name));
    }
}

fn check_rights(pod: &PodSpec) {
    assert_eq!(pod.containers.len(), 1);
    let context = pod.containers[0]
        .security_context
        .clone()
        .expect("a context");
    assert_eq!(context.allow_privilege_escalation, Some(false));
    assert_eq!(context.read_only_root_filesystem, Some(true));
    assert_eq!(
        context.capabilities.expect("capabilities").drop,
        Some(vec!["ALL".to_string()])
    );
    assert_eq!(
        pod.security_context
            .as_ref()
            .expect("a context")
            .run_as_non_root,
        Some(true)
    );
    assert_eq!((pod.host_network, pod.host_pid), (None, None));
    for volume in pod.volumes.as_ref().expect("volumes") {
        assert!(volume.config_map.is_some());
        assert!(volume.host_path.is_none());
    }
}

#[test]
fn weights_of_pods_are_set_on_each_node_with_rights_to_read_alone() {
    const FILE: &str = "loga-pods.yaml";
    assert_eq!(documents(FILE).len(), 4);
    let role: ClusterRole = object_of(FILE, "ClusterRole");
    let rules = serde_json::to_value(role.rules.expect("rules")).expect("JSON");
    let wanted = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    ]);
    assert_eq!(rules, wanted);
    let account: ServiceAccount = object_of(FILE, "ServiceAccount");
    let binding: ClusterRoleBinding = object_of(FILE, "ClusterRoleBinding");
    let subject = &binding.subjects.expect("subjects")[0];
    assert_eq!(Some(&subject.name), account.metadata.name.as_ref());
    assert_eq!(subject.namespace, account.metadata.namespace);
    assert_eq!(Some(binding.role_ref.name), role.metadata.name);
    let set: DaemonSet = object_of(FILE, "DaemonSet");
    let pod = set.spec.template.spec.expect("a pod");
    assert_eq!(pod.service_account_name, account.metadata.name);
    let container = &pod.containers[0];
    let words = container.args.clone().expect("arguments");
    let words = std::iter::once("loga".to_string()).chain(words);
    let parsed = Arguments::try_parse_from(words).expect("arguments");
    let Command::Agent(Agent {
        what: AgentKind::Pods(arguments),
    }) = parsed.command
    else {
        panic!("not agent pods");
    };
    let variable = &container.env.as_ref().expect("variables")[0];
    assert_eq!(arguments.node, format!("$({})", variable.name));
    // Each path of the node is where the program looks for it.
    let mounts = container.volume_mounts.as_ref().expect("mounts");
    let of = |path: &str| {
        let mount = mounts
            .iter()
            .find(|one| one.mount_path == path)
            .expect(path);
        let volumes = pod.volumes.as_ref().expect("volumes");
        let volume = volumes.iter().find(|one| one.name == mount.name);
        volume
            .and_then(|one| one.host_path.as_ref())
            .expect(path)
            .path
            .clone()
    };
    assert_eq!(
        of(arguments.cgroups.to_str().expect("text")),
        "/sys/fs/cgroup"
    );
    assert_eq!(of("/dev/loga"), "/dev/loga");
}

#[test]
fn arguments_ports_and_addresses_fit_together() {
    let pod = pod(EXTENDER);
    let container = &pod.containers[0];
    let arguments = arguments(container.args.clone().expect("arguments"));
    let port = match arguments.extender.as_ref().expect("an address") {
        Address::Tcp(address) => i32::from(address.port()),
        other => panic!("{other}"),
    };
    let ports = container.ports.as_ref().expect("ports");
    assert_eq!((ports.len(), ports[0].container_port), (1, port));
    let service: Service = object("Service");
    let service = service.spec.expect("a spec");
    assert_eq!(service.ports.expect("ports")[0].port, port);
    let scheduler = documents("scheduler.yaml").remove(0);
    let address = format!("http://{}:{port}", service.cluster_ip.expect("an address"));
    assert_eq!(scheduler["extenders"][0]["urlPrefix"], address);
    // The file of nodes is where the volume is, and is one.
    let map: ConfigMap = object("ConfigMap");
    let mount = &container.volume_mounts.as_ref().expect("volumes")[0].mount_path;
    let (name, list) = map.data.expect("data").into_iter().next().expect("a file");
    assert_eq!(arguments.nodes, format!("{mount}/{name}"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, list).expect("written");
    assert_eq!(nodes(path.to_str().expect("text")).expect("nodes").len(), 2);
}

#[test]
fn rules_are_written_by_a_process_that_nobody_can_connect_to() {
    let of = |name: &str| arguments(pod(name).containers[0].args.clone().expect("arguments"));
    let (extender, taints) = (of(EXTENDER), of(TAINTS));
    assert!(extender.extender.is_some());
    assert!(!extender.taints);
    assert!(!extender.annotate);
    assert!(taints.extender.is_none());
    assert!(taints.taints);
    assert_eq!(extender.nodes, taints.nodes);
    assert_eq!(pod(TAINTS).containers[0].ports, None);
    let service: Service = object("Service");
    let selected = service.spec.expect("a spec").selector.expect("a selector");
    for (name, rules) in [(EXTENDER, 1), (TAINTS, 0)] {
        let deployment: Deployment = object_named("Deployment", name);
        let labels = deployment.spec.template.metadata.expect("data").labels;
        let labels = labels.expect("labels");
        assert_eq!(labels == selected, name == EXTENDER);
        let policy: NetworkPolicy = object_named("NetworkPolicy", name);
        let policy = policy.spec.expect("a spec");
        let chosen = policy.pod_selector.expect("a selector").match_labels;
        assert_eq!(chosen.as_ref(), Some(&labels));
        assert_eq!(policy.policy_types, Some(vec!["Ingress".to_string()]));
        let ingress = policy.ingress.unwrap_or_default();
        assert_eq!(ingress.len(), rules, "{name}");
        for rule in ingress {
            let from = rule.from.expect("sources");
            assert!(from.iter().all(|one| one.ip_block.is_some()), "{from:?}");
            let port = &rule.ports.expect("ports")[0].port;
            let named = &pod(name).containers[0].ports.clone().expect("ports")[0].name;
            assert_eq!(port, &named.clone().map(IntOrString::String));
        }
    }
}

#[test]
fn scheduler_goes_on_without_an_answer() {
    let all = documents("scheduler.yaml");
    let one = &all[0];
    assert_eq!(one["apiVersion"], "kubescheduler.config.k8s.io/v1");
    assert_eq!(one["kind"], "KubeSchedulerConfiguration");
    let extender: BTreeMap<String, Value> =
        serde_json::from_value(one["extenders"][0].clone()).expect("an extender");
    // The fields of Extender in kube-scheduler/config/v1, but those for other verbs and for TLS.
    for name in extender.keys() {
        assert!(
            [
                "urlPrefix",
                "prioritizeVerb",
                "filterVerb",
                "weight",
                "enableHTTPS",
                "httpTimeout",
                "nodeCacheCapable",
                "managedResources",
                "ignorable"
            ]
            .contains(&name.as_str()),
            "{name}"
        );
    }
    assert_eq!(extender["ignorable"], true);
    assert_eq!(extender["nodeCacheCapable"], true);
    assert_eq!(extender["httpTimeout"], "200ms");
    assert_eq!(extender["prioritizeVerb"], "prioritize");
    assert_eq!(extender["filterVerb"], "filter");
    assert!(extender["weight"].as_i64().is_some_and(|weight| weight > 0));
}

#[test]
fn arguments_that_are_wrong_are_refused_with_what_would_be_right() {
    for (line, said) in [
        ("--nodes n1", "<--extender <ADDRESS>|--taints|--annotate>"),
        ("--extender 9467 --nodes n1", "want an address and a port"),
        ("--taints", "--nodes <NODES>"),
        (
            "--extender 127.0.0.1:0 --nodes N1",
            "'N1' is no name of a node in Kubernetes",
        ),
        (
            "--extender 127.0.0.1:0 --nodes n1 --api https://h",
            "--taints",
        ),
        (
            "--extender 127.0.0.1:0 --nodes n1 --certificate c",
            "--key <FILE>",
        ),
        (
            "--extender 127.0.0.1:0 --nodes n1 --certificate /no/c --key /no/k",
            "/no/c: ",
        ),
        (
            "--taints --nodes n1 --api http://h",
            "want https://HOST or https://HOST:PORT",
        ),
        ("--taints --nodes n1", "KUBERNETES_SERVICE_HOST"),
        (
            "--taints --nodes n1 --api-version v2",
            "[possible values: v1, v1beta2]",
        ),
        (
            "--taints --nodes n1 --every 0",
            "want whole seconds from 1 to 20",
        ),
    ] {
        let run = Program::new(LOGA)
            .arg("kube")
            .args(line.split(' '))
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output()
            .expect("runs");
        let error = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(!run.status.success(), "{line}: {error}");
        assert!(error.contains(said), "{line}: {error}");
    }
}

/// TIMEOUT: until the first reading is there; ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn program_answers_a_scheduler_from_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut list = String::new();
    for (node, slowdown) in [("n1", "0"), ("n2", "1"), ("n3", "99")] {
        let path = folder.path().join(node);
        let text = format!(
            "loga_up 1\nloga_snapshot_age_seconds 0\n\
             loga_gpu_place_score{{gpu=\"0\",policy=\"wait\"}} {slowdown}\n"
        );
        fs::write(&path, text).expect("written");
        list += &format!("{node}={}\n", path.display());
    }
    let nodes = folder.path().join("nodes");
    fs::write(&nodes, list).expect("written");
    let mut run = Program::new(LOGA)
        .args([
            "kube",
            "--extender",
            "127.0.0.1:0",
            "--every",
            "1",
            "--nodes",
        ])
        .arg(&nodes)
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let mut line = String::new();
    let mut out = BufReader::new(run.stdout.take().expect("output"));
    out.read_line(&mut line).expect("a line");
    let address = line
        .trim()
        .strip_prefix("http://")
        .and_then(|rest| rest.strip_suffix("/prioritize"));
    let address = address.expect("an address").to_string();
    let body = "{\"Pod\":{},\"Nodes\":null,\"NodeNames\":[\"n3\",\"n1\",\"n2\",\"n4\"]}";
    let wanted = "[{\"Host\":\"n3\",\"Score\":0},{\"Host\":\"n1\",\"Score\":10},\
        {\"Host\":\"n2\",\"Score\":5},{\"Host\":\"n4\",\"Score\":5}]";
    let start = Instant::now();
    let answer = loop {
        let head = format!(
            "POST /prioritize HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let ask = || {
            let mut stream = TcpStream::connect(&address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(format!("{head}{body}").as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        // It hangs up on a caller that gets no processor for seconds.
        let answer = ask().unwrap_or_else(|error| error.to_string());
        if answer.ends_with(wanted) || start.elapsed() > PATIENCE {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    run.kill().expect("ends");
    run.wait().expect("ended");
    assert!(answer.ends_with(wanted), "{answer}");
}
