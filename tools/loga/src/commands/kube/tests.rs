// SPDX-License-Identifier: GPL-2.0

//! `[tool]` From the exporters to closed GPUs, and the nodes that are followed.

use super::*;
use crate::cluster::reading::tests::ENDLESS;
use std::fs;
use std::net::TcpListener;
use std::path::Path;

fn exporter(path: &Path, waited: f64) {
    let mut text = "loga_up 1\nloga_snapshot_age_seconds 0\n".to_string();
    for gpu in 0..2 {
        let device = format!("nvidia{}", gpu + 4);
        text += &format!("loga_gpu_place_score{{gpu=\"{gpu}\",policy=\"wait\"}} 1\n");
        text += &format!("loga_gpu_want_ratio{{gpu=\"{gpu}\",window=\"30s\"}} 0.701\n");
        text += &format!(
            "loga_gpu_waited_ratio{{gpu=\"{gpu}\",device=\"{device}\",window=\"30s\"}} {waited}\n"
        );
    }
    fs::write(path, text).expect("written");
}

/// A follower that waits for its exporters, however rarely they get the processor.
fn patient(nodes: Vec<Node>, board: Arc<Board>) -> Follower {
    Follower {
        reader: Reader::within(nodes, ENDLESS),
        ..Follower::new(Vec::new(), board)
    }
}

#[test]
fn exporters_are_followed_to_scores_and_closed_gpus() {
    let folder = tempfile::tempdir().expect("a folder");
    let (list, text) = (folder.path().join("nodes"), folder.path().join("n1"));
    fs::write(&list, format!("n1={}\n", text.display())).expect("written");
    exporter(&text, 0.31);
    let list = list.to_str().expect("text");
    let board = Arc::new(Board::default());
    let mut follower = patient(checked(list).expect("nodes"), board.clone());
    let waits = |gpu| (Why::Waiting, ("n1".to_string(), gpu));
    let should = follower.round();
    assert_eq!(should.rules, BTreeSet::from([waits(4)]));
    assert_eq!(should.free["n1"], Free::from([(4, 30), (5, 30)]));
    let best = |name: &str| board.best(&[name.to_string()], Instant::now())[0];
    assert_eq!([best("n1"), best("n2")], [Some(500_000), None]);
    // Another node in place of the first one; then a file that is wrong.
    fs::write(list, format!("n2={}\n", text.display())).expect("written");
    follower.refresh(list);
    follower.round();
    assert_eq!([best("n1"), best("n2")], [None, Some(500_000)]);
    fs::write(list, "N 2\n").expect("written");
    follower.refresh(list);
    follower.round();
    assert_eq!(best("n2"), Some(500_000));
}

#[test]
fn lost_gpu_gets_a_rule_and_is_not_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("n1");
    let nodes = checked(&format!("n1={}", text.display())).expect("nodes");
    let mut follower = patient(nodes, Arc::default());
    exporter(&text, 0.0);
    assert!(follower.round().rules.is_empty());
    let whole = fs::read_to_string(&text).expect("read");
    fs::write(&text, whole + "loga_gpu_lost{gpu=\"1\"} 1\n").expect("written");
    let should = follower.round();
    let lost = (Why::Lost, ("n1".to_string(), 5));
    assert_eq!(should.rules, BTreeSet::from([lost]));
    assert_eq!(should.free["n1"], Free::from([(4, 30)]));
    exporter(&text, 0.0);
    assert!(follower.round().rules.is_empty());
}

#[test]
fn scores_are_there_while_an_exporter_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let node = format!("n1=http://{}/", silent.local_addr().expect("an address"));
    let board = Arc::new(Board::default());
    let mut follower = patient(checked(&node).expect("nodes"), board.clone());
    let reading = thread::spawn(move || follower.round());
    let (asked, _) = silent.accept().expect("a reader");
    let names = ["n1".to_string()];
    for _ in 0..100 {
        assert_eq!(board.best(&names, Instant::now()), [None]);
    }
    // It waits for the exporter still, which hangs up now.
    assert!(!reading.is_finished());
    drop((asked, silent));
    reading.join().expect("ends");
}

#[test]
fn names_that_kubernetes_refuses_are_named() {
    let said = checked("n1,GPU-Node_2").expect_err("refused");
    assert!(said.contains("'GPU-Node_2'"), "{said}");
    assert!(said.contains("lower-case"), "{said}");
    assert!(checked("gpu-1.cluster.example").is_ok());
}
