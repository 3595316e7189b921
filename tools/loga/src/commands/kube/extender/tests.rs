// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Recorded requests of a scheduler, wrong ones, and the time that answers take.

use super::*;
use crate::cluster::opinion::{Opinion, Scored};
use crate::cluster::reading::Answer as Reading;
use crate::http::{Address, Server};
use serde_json::{json, Value};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

/// A pod as the scheduler sends it: much that does not matter here.
const POD: &str = include_str!("pod.json");

/// The time of all tests. It is later than they run: a time before it is known also on a machine that
/// has just started.
fn now() -> Instant {
    static NOW: OnceLock<Instant> = OnceLock::new();
    *NOW.get_or_init(|| Instant::now() + Duration::from_secs(1000))
}

/// At that time, for what is heard of the nodes.
fn at_that_time(board: Arc<Board>) -> Extender {
    Extender { board, now }
}

fn said(gpus: &[(u32, u64)], ago: u64) -> Option<Reading> {
    let gpus = gpus.iter().map(|(gpu, ppm)| Scored {
        gpu: *gpu,
        ppm: *ppm,
        fallbacks: 0,
        minor: *gpu,
        waited: None,
        want: None,
    });
    Some(Reading {
        said: Ok(Opinion {
            age_s: 1,
            exported: 2,
            gpus: gpus.collect(),
            lost: Vec::new(),
        }),
        read: now() - Duration::from_secs(ago),
    })
}

/// A node whose two GPUs are lost.
fn lost() -> Option<Reading> {
    let mut answer = said(&[], 0)?;
    answer.said = answer.said.map(|opinion| Opinion {
        lost: vec![0, 1],
        ..opinion
    });
    Some(answer)
}

fn extender() -> Extender {
    let board = Board::default();
    board.take(vec![
        ("free", said(&[(0, 900_000), (1, 0)], 0)),
        ("half", said(&[(0, 500_000)], 28)),
        ("full", said(&[(0, 1_000_000)], 0)),
        ("old", said(&[(0, 0)], 30)),
        ("lost", lost()),
        ("silent", None),
    ]);
    at_that_time(Arc::new(board))
}

fn ask(extender: &Extender, body: &str) -> Answer {
    ask_for(PRIORITIZE, extender, body)
}

fn ask_for(path: &str, extender: &Extender, body: &str) -> Answer {
    extender.answer(&Request {
        method: "POST".to_string(),
        path: path.to_string(),
        body: body.as_bytes().to_vec(),
        ..Request::default()
    })
}

/// Names and scores of an answer.
fn scores(answer: &Answer) -> Vec<(String, i64)> {
    assert_eq!(answer.status, "200 OK", "{}", answer.body);
    assert_eq!(answer.content_type, "application/json");
    let list: Vec<Value> = serde_json::from_str(&answer.body).expect("JSON");
    let one = |one: &Value| {
        let members = one.as_object().expect("an object");
        assert_eq!(members.len(), 2, "{one}");
        let host = members["Host"].as_str().expect("a name").to_string();
        (host, members["Score"].as_i64().expect("an integer"))
    };
    list.iter().map(one).collect()
}

fn wanted(list: &[(&str, i64)]) -> Vec<(String, i64)> {
    list.iter()
        .map(|(name, score)| (name.to_string(), *score))
        .collect()
}

const ALL: [(&str, i64); 7] = [
    ("free", 10),
    ("half", 5),
    ("full", 0),
    ("old", 5),
    ("lost", 5),
    ("silent", 5),
    ("unknown", 5),
];

/// The body for these names, as a scheduler with `nodeCacheCapable: true` sends it.
fn by_names(names: &[&str]) -> String {
    let names = serde_json::to_string(names).expect("JSON");
    format!("{{\"Pod\":{POD},\"Nodes\":null,\"NodeNames\":{names}}}")
}

#[test]
fn names_get_scores_in_their_order() {
    let names = ALL.map(|one| one.0);
    let answer = ask(&extender(), &by_names(&names));
    assert_eq!(scores(&answer), wanted(&ALL));
    assert_eq!(scores(&ask(&extender(), &by_names(&[]))), []);
}

#[test]
fn whole_nodes_get_the_same_scores() {
    // As a scheduler with `nodeCacheCapable: false` sends them.
    let node = |name: &str| {
        json!({
            "metadata": {"name": name, "uid": "6a0e", "labels": {"kubernetes.io/hostname": name}},
            "spec": {"podCIDR": "10.244.1.0/24"},
            "status": {"capacity": {"cpu": "8", "memory": "32Gi"}, "conditions": [{"type": "Ready"}]},
        })
    };
    let nodes: Vec<Value> = ALL.iter().map(|one| node(one.0)).collect();
    let nodes = json!({"metadata": {}, "items": nodes});
    let body = format!("{{\"Pod\":{POD},\"Nodes\":{nodes},\"NodeNames\":null}}");
    assert_eq!(scores(&ask(&extender(), &body)), wanted(&ALL));
    // Go writes an empty list as null.
    let none = "{\"Pod\":null,\"Nodes\":{\"metadata\":{},\"items\":null},\"NodeNames\":null}";
    assert_eq!(scores(&ask(&extender(), none)), []);
}

#[test]
fn score_falls_with_the_loss_of_the_best_gpu() {
    let at = |loss| score(Some(loss));
    assert_eq!(
        [at(0), at(49_999), at(50_001), at(949_999), at(950_001)],
        [10, 10, 9, 1, 0]
    );
    assert_eq!([score(None), at(u64::MAX)], [5, 0]);
}

#[test]
fn wrong_requests_get_a_sentence() {
    let extender = extender();
    let deep = format!("{{\"Pod\":{}", "[".repeat(100_000));
    for (body, said) in [
        ("", "no ExtenderArgs in JSON: EOF"),
        ("[]", "no ExtenderArgs"),
        ("{\"NodeNames\":[1]}", "expected a string"),
        ("{\"NodeNames\":\"n1\"}", "expected a sequence"),
        (
            "{\"Nodes\":{\"items\":[{\"metadata\":{}}]}}",
            "missing field `name`",
        ),
        ("{\"Pod\":{}}", "neither NodeNames nor Nodes"),
        ("{\"NodeNames\":[]} x", "trailing characters"),
        (deep.as_str(), "EOF while parsing a list"),
    ] {
        let answer = ask(&extender, body);
        let shown = body.get(..40).unwrap_or(body);
        assert_eq!(answer.status, "400 Bad Request", "{shown}");
        assert!(answer.body.contains(said), "{shown}: {}", answer.body);
    }
    let status = |method: &str, path: &str| {
        extender
            .answer(&Request {
                method: method.to_string(),
                path: path.to_string(),
                ..Request::default()
            })
            .status
    };
    assert_eq!(status("GET", PRIORITIZE), "405 Method Not Allowed");
    assert_eq!(status("GET", FILTER), "405 Method Not Allowed");
    assert_eq!(status("POST", "/bind"), "404 Not Found");
    assert_eq!(status("POST", HEALTH), "405 Method Not Allowed");
    assert_eq!(status("GET", HEALTH), "200 OK");
}

/// What is answered for a pod with this annotation, as JSON.
fn filtered(annotation: &str, nodes: &str) -> Value {
    let pod = POD.replace("\"loga/weight\":\"200\"", annotation);
    assert!(pod.contains(annotation));
    let answer = ask_for(FILTER, &extender(), &format!("{{\"Pod\":{pod},{nodes}}}"));
    assert_eq!(answer.status, "200 OK", "{}", answer.body);
    serde_json::from_str(&answer.body).expect("JSON")
}

#[test]
fn node_whose_gpus_are_all_lost_is_filtered_out_and_one_that_is_unknown_is_not() {
    let names = serde_json::to_string(&ALL.map(|one| one.0)).expect("JSON");
    let nodes = format!("\"Nodes\":null,\"NodeNames\":{names}");
    let wanted = json!({
        "Nodes": null,
        "NodeNames": ["free", "half", "full", "old", "silent", "unknown"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"lost": "all GPUs of the node are lost"},
        "Error": "",
    });
    assert_eq!(filtered("\"loga/weight\":\"200\"", &nodes), wanted);
    // Go writes absent annotations as none, and an absent pod as null.
    for pod in ["{\"metadata\":{\"name\":\"a\"}}", "null"] {
        let answer = ask_for(FILTER, &extender(), &format!("{{\"Pod\":{pod},{nodes}}}"));
        let said: Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!(said, wanted, "{pod}");
    }
}

#[test]
fn pod_is_kept_off_nodes_where_it_loses_more_than_it_allows() {
    let names = serde_json::to_string(&ALL.map(|one| one.0)).expect("JSON");
    let nodes = format!("\"Nodes\":null,\"NodeNames\":{names}");
    let kept = |most: &str| {
        let said = filtered(&format!("\"{}\":\"{most}\"", filter::MAX_LOSS), &nodes);
        (said["NodeNames"].clone(), said["FailedNodes"].clone())
    };
    let (names, failed) = kept("49");
    assert_eq!(names, json!(["free", "old", "silent", "unknown"]));
    let said = "a program loses 50 % of its speed on the best GPU, loga/max-loss allows 49";
    assert_eq!(failed["half"], said);
    assert_eq!(
        kept("50").0,
        json!(["free", "half", "old", "silent", "unknown"])
    );
    assert_eq!(kept("100").1, json!({}));
    for wrong in ["101", "-1", "x", ""] {
        let said = filtered(&format!("\"{}\":\"{wrong}\"", filter::MAX_LOSS), &nodes);
        let error = said["Error"].as_str().expect("a sentence");
        assert!(error.contains("want a whole number of percent"), "{error}");
        assert_eq!(said["NodeNames"], Value::Null);
    }
}

#[test]
fn whole_nodes_go_back_as_they_came() {
    let node = |name: &str| {
        json!({"metadata": {"name": name, "uid": "6a0e"}, "spec": {"podCIDR": "10.244.1.0/24"},
            "status": {"capacity": {"cpu": "8"}, "unknown": [1.5, null]}})
    };
    let items: Vec<Value> = ["lost", "free"].map(node).to_vec();
    let list = json!({"metadata": {"resourceVersion": "7"}, "items": items});
    let said = filtered(
        "\"a\":\"b\"",
        &format!("\"Nodes\":{list},\"NodeNames\":null"),
    );
    let kept = json!({"metadata": {"resourceVersion": "7"}, "items": [node("free")]});
    assert_eq!((&said["Nodes"], &said["NodeNames"]), (&kept, &Value::Null));
    let list: k8s_openapi::List<k8s_openapi::api::core::v1::Node> =
        serde_json::from_value(said["Nodes"].clone()).expect("a list of nodes");
    assert_eq!(list.items.len(), 1);
    // Go writes an empty list as null.
    let said = filtered("\"a\":\"b\"", "\"Nodes\":{\"metadata\":{},\"items\":null}");
    assert_eq!(said["Nodes"]["items"], json!([]));
}

/// The answer of a server, head and body.
fn over_http(address: SocketAddr, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    // As Go's client does.
    stream.set_nodelay(true).expect("set");
    let length = body.len();
    let head = format!(
        "POST {PRIORITIZE} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: Go-http-client/1.1\r\n\
         Content-Length: {length}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(body.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn serving(board: Board) -> (SocketAddr, Arc<Board>) {
    let board = Arc::new(board);
    let any = Address::Tcp(([127, 0, 0, 1], 0).into());
    let server = Server::bind(&any).expect("a port").patient();
    server
        .start(&Arc::new(at_that_time(board.clone())))
        .expect("threads");
    match server.address {
        Address::Tcp(address) => (address, board),
        other => panic!("{other}"),
    }
}

/// A server of 1024 nodes with 8 GPUs each, and the request of a scheduler for all of them.
fn thousand_nodes() -> (SocketAddr, Extender, String) {
    let names: Vec<String> = (0..1024)
        .map(|at| format!("gpu-node-{at:04}.cluster.example"))
        .collect();
    let board = Board::default();
    let gpus: Vec<(u32, u64)> = (0..8).map(|gpu| (gpu, 700_000)).collect();
    let answers = names.iter().map(|name| (name.as_str(), said(&gpus, 0)));
    board.take(answers.collect());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let body = by_names(&names);
    let (address, board) = serving(board);
    (address, at_that_time(board), body)
}

#[test]
fn thousand_nodes_are_answered_at_once() {
    let (address, extender, body) = thousand_nodes();
    assert_eq!(scores(&ask(&extender, &body)).len(), 1024);
    let answer = over_http(address, &body);
    assert_eq!(answer.matches("\"Score\":3}").count(), 1024);
}

/// `cargo test --release -p loga-cli --lib -- --ignored --nocapture thousand_nodes`
#[test]
#[ignore = "a measurement"]
fn answer_for_thousand_nodes_is_measured() {
    let (address, _extender, body) = thousand_nodes();
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..21 {
        let start = Instant::now();
        over_http(address, &body);
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let (least, median, most) = (times[0], times[10], times[20]);
    println!("over HTTP: {least:?} to {most:?}, median {median:?}");
}

#[test]
fn body_beyond_the_bound_is_refused() {
    let (address, _) = serving(Board::default());
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head = format!(
        "POST {PRIORITIZE} HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
        (2 << 20) + 1
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("want at most 2097152"), "{answer}");
}

#[test]
fn nodes_beyond_the_bound_are_refused_and_that_many_are_not() {
    let names = |count: usize| by_names(&vec!["free"; count]);
    let node = "{\"metadata\":{\"name\":\"free\"}}";
    let nodes = |count: usize| {
        let items = vec![node; count].join(",");
        format!("{{\"Pod\":null,\"Nodes\":{{\"metadata\":{{}},\"items\":[{items}]}}}}")
    };
    for path in [PRIORITIZE, FILTER] {
        for body in [names(NODES_MAX), nodes(NODES_MAX)] {
            let answer = ask_for(path, &extender(), &body);
            assert_eq!(answer.status, "200 OK", "{path}: {}", answer.body);
            assert_eq!(answer.body.matches("\"free\"").count(), NODES_MAX, "{path}");
        }
        for body in [names(NODES_MAX + 1), nodes(NODES_MAX + 1)] {
            let answer = ask_for(path, &extender(), &body);
            assert_eq!(answer.status, "413 Content Too Large", "{path}");
            assert_eq!(
                answer.body, "a list of more than 5000 nodes, want fewer\n",
                "{path}"
            );
        }
    }
}

#[test]
fn name_with_newlines_goes_back_as_it_came_in_one_line() {
    let odd = "n1\nHTTP/1.1 200 OK\r\n\"\\\u{1}\u{2028}";
    let body = by_names(&[odd, "free"]);
    let answer = ask(&extender(), &body);
    assert!(
        !answer.body.contains(['\n', '\r', '\u{1}']),
        "{:?}",
        answer.body
    );
    assert_eq!(scores(&answer), wanted(&[(odd, 5), ("free", 10)]));
    let answer = ask_for(FILTER, &extender(), &body);
    assert!(
        !answer.body.contains(['\n', '\r', '\u{1}']),
        "{:?}",
        answer.body
    );
    let said: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(said["NodeNames"], json!([odd, "free"]));
}
