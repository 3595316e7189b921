// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of the table and of the weights together.

use super::*;
use crate::cluster::opinion::{Opinion, Scored};
use std::sync::OnceLock;

const KNOWN: &str = "NodeName=n1 CPUAlloc=2 CPUTot=8 Gres=shard:g0:4 RealMemory=1000 AllocMem=0 State=IDLE Weight=1\n\
    NodeName=n2 CPUAlloc=0 CPUTot=8 Gres=shard:g0:4 RealMemory=1000 AllocMem=0 State=IDLE+DRAIN Weight=1\n";

fn gpu(gpu: u32, ppm: u64, fallbacks: u64) -> Scored {
    Scored {
        gpu,
        ppm,
        fallbacks,
        minor: gpu,
        waited: None,
        want: None,
    }
}

fn agent(names: &str) -> Agent {
    let nodes = nodes(names).expect("nodes");
    Agent::new(Reader::new(nodes))
}

/// The time of all tests. It is later than they run: a time before it is known also on a machine that
/// has just started.
fn now() -> Instant {
    static NOW: OnceLock<Instant> = OnceLock::new();
    *NOW.get_or_init(|| Instant::now() + Duration::from_secs(1000))
}

fn said(gpus: Vec<Scored>, ago: u64) -> Option<Answer> {
    Some(Answer {
        said: Ok(Opinion {
            age_s: 1,
            exported: gpus.len(),
            gpus,
            lost: Vec::new(),
        }),
        read: now() - Duration::from_secs(ago),
    })
}

fn silent() -> Option<Answer> {
    Some(Answer {
        said: Err("down".to_string()),
        read: now(),
    })
}

#[test]
fn table_has_a_line_for_each_gpu_that_may_be_chosen() {
    let mut agent = agent("n1,n2,n3,n4");
    agent.take(vec![
        said(vec![gpu(0, 250_000, 0), gpu(1, 0, 0)], 0),
        said(vec![gpu(0, 0, 0)], 0),
        silent(),
        said(vec![gpu(0, 999_999, 0)], 0),
    ]);
    let table = agent.table(&known(KNOWN), 77, now()).text;
    // Type g1 is not in the node's Gres; n2 is drained; n4 is not known.
    let wanted =
        "# loga-slurm-table 2 77\nn1 1 0.000 1 - - -\nn1 0 0.250 1 4 6 1000\nn4 0 1.000 1 - - -\n";
    assert_eq!(table, wanted);
}

#[test]
fn answer_ages_until_it_says_nothing() {
    let mut agent = agent("n1");
    let rows = |agent: &Agent| agent.table(&HashMap::new(), 0, now()).text.lines().count() - 1;
    agent.take(vec![said(vec![gpu(0, 0, 0)], 29)]);
    assert_eq!(rows(&agent), 1);
    // Not answered in time: the last answer counts.
    agent.take(vec![None]);
    assert_eq!(rows(&agent), 1);
    agent.take(vec![said(vec![gpu(0, 0, 0)], 30)]);
    assert_eq!(rows(&agent), 0);
    agent.take(vec![said(vec![gpu(0, 0, 0)], 0)]);
    agent.take(vec![silent()]);
    assert_eq!(rows(&agent), 0);
}

#[test]
fn gpu_that_fell_back_says_nothing_for_a_while() {
    let mut agent = agent("n1");
    let rows = |agent: &Agent| agent.table(&HashMap::new(), 0, now()).text.lines().count() - 1;
    let both = |first, ago| vec![said(vec![gpu(0, 0, first), gpu(1, 0, 9)], ago)];
    agent.take(both(5, 25));
    assert_eq!(rows(&agent), 2);
    agent.take(both(6, 20));
    assert_eq!(rows(&agent), 1);
    agent.take(both(6, 0));
    assert_eq!(rows(&agent), 1);
    // Over 30 s later.
    let later = now() + Duration::from_secs(11);
    let seen = agent.heard[0].gpus(later).map(|(gpu, _)| gpu.gpu);
    assert_eq!(seen.collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn weight_follows_the_best_gpu_of_a_known_node() {
    let mut agent = agent("n1,n2,n9");
    let two = vec![gpu(0, 0, 0), gpu(1, 900_000, 0)];
    let full = vec![gpu(0, 1_000_000, 0)];
    agent.take(vec![said(two, 0), said(full.clone(), 0), said(full, 0)]);
    let changes = agent.changes(&known(KNOWN), now());
    let wanted = BTreeMap::from([(10, vec!["n1".to_string()]), (100, vec!["n2".to_string()])]);
    assert_eq!(changes, wanted);
    assert!(
        agent.changes(&known(KNOWN), now()).is_empty(),
        "within the dwell"
    );
}

#[test]
fn gpu_that_slurm_does_not_hand_out_gives_its_node_no_weight() {
    let decided = |gres: &str, gpus: Vec<Scored>| -> Vec<u32> {
        let mut agent = agent("n1");
        agent.take(vec![said(gpus, 0)]);
        let text = KNOWN.replace("shard:g0:4", gres);
        agent.changes(&known(&text), now()).into_keys().collect()
    };
    // GPU 1 is free, and not Slurm's.
    let free = vec![gpu(0, 500_000, 0), gpu(1, 0, 0)];
    assert_eq!(decided("gpu:g0:1,shard:g0:4", free.clone()), [60]);
    assert_eq!(decided("gpu:g1:1", free.clone()), [10]);
    // All of them, of types that are not ours.
    assert_eq!(decided("gpu:a100:2(S:0-1)", free.clone()), [10]);
    // One of them, and not known which; none.
    for gres in ["gpu:a100:1", "(null)"] {
        assert_eq!(decided(gres, free.clone()), [0u32; 0], "{gres}");
    }
}

#[test]
fn table_is_replaced_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("new/table");
    write(&path, "one\n").expect("written");
    let mut old = fs::File::open(&path).expect("there");
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("new/table.new")).expect("made");
    write(&path, "two\n").expect("written");
    let mut text = String::new();
    io::Read::read_to_string(&mut old, &mut text).expect("read");
    assert_eq!(text, "one\n");
    assert_eq!(fs::read_to_string(&path).expect("read"), "two\n");
    assert!(!fs::symlink_metadata(&path).expect("there").is_symlink());
    assert_eq!(
        fs::read_dir(folder.path().join("new"))
            .expect("read")
            .count(),
        1
    );
}

#[test]
fn table_of_a_large_cluster_is_whole_and_the_best_come_first() {
    let names: Vec<String> = (0..1250).map(|at| format!("n{at}")).collect();
    let mut agent = agent(&names.join(","));
    let answer = |at: u64| said((0..8).map(|of| gpu(of, 999_999 - at * 8, 0)).collect(), 0);
    agent.take((0..1250).map(answer).collect());
    let table = agent.table(&HashMap::new(), 0, now());
    assert_eq!((table.text.lines().count(), table.left_out), (10_001, 0));
    assert!(table
        .text
        .lines()
        .nth(1)
        .is_some_and(|line| line.starts_with("n1249 0 ")));
    assert_eq!(agent.complaint(&table), None);
}

#[test]
fn largest_table_is_not_larger_than_what_the_script_reads_and_the_rest_is_said_once() {
    let long = "n".repeat(60);
    let names: Vec<String> = (0..1024).map(|at| format!("{long}{at:04}")).collect();
    let mut agent = agent(&names.join(","));
    let gpus: Vec<Scored> = (0..64).map(|at| gpu(at, 999_999, 0)).collect();
    agent.take(names.iter().map(|_| said(gpus.clone(), 0)).collect());
    let of = |name: &String| {
        let shards: Vec<String> = (0..64).map(|at| format!("shard:g{at}:1000")).collect();
        format!("NodeName={name} CPUAlloc=0 CPUTot=1024 Gres={} RealMemory=16000000 State=IDLE Weight=1\n", shards.join(","))
    };
    let text: String = names.iter().map(of).collect();
    let table = agent.table(&known(&text), u64::MAX, now());
    assert_eq!(table.text.lines().count(), 1 + MAX_ROWS);
    assert!(table.text.len() < 2 << 20, "{}", table.text.len());
    let said = agent.complaint(&table).expect("said");
    assert!(said.contains("the busiest 49152 are left out"), "{said}");
    assert_eq!(agent.complaint(&table), None);
    let small = Table {
        text: String::new(),
        left_out: 0,
    };
    assert_eq!(agent.complaint(&small), None);
    assert!(agent.complaint(&table).is_some(), "again after it had room");
}

/// Answers with the text of an exporter of eight GPUs.
struct Exporter(String);

impl crate::http::Site for Exporter {
    const BODY_MAX: usize = 0;

    fn answer(&self, _: &crate::http::Request) -> crate::http::Answer {
        crate::http::Answer::said("200 OK", &self.0)
    }
}

/// The most memory that this process had so far, in MiB.
fn peak_mib() -> u64 {
    let status = procfs::process::Process::myself().and_then(|process| process.status());
    status.ok().and_then(|status| status.vmhwm).unwrap_or(0) / 1024
}

/// `cargo test --release -p loga-cli --lib -- --ignored --nocapture round_of_many_nodes`
#[test]
#[ignore = "a measurement"]
fn round_of_many_nodes_is_measured() {
    let mut text = "loga_up 1\nloga_snapshot_age_seconds 0\n".to_string();
    for gpu in 0..8 {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "loga_gpu_enforcing{{gpu=\"{gpu}\"}} 1\nloga_gpu_lost{{gpu=\"{gpu}\"}} 0\n\
             loga_gpu_want_ratio{{gpu=\"{gpu}\",window=\"30s\"}} 0.5\n\
             loga_gpu_place_score{{gpu=\"{gpu}\",policy=\"wait\"}} 0.4{gpu}\n"
        );
    }
    // As long as that of a node with users on it.
    text += &"loga_gpu_user_gpu_seconds_total{gpu=\"0\",user=\"1000\"} 12345.678\n".repeat(500);
    let any = crate::http::Address::Tcp(([127, 0, 0, 1], 0).into());
    let server = crate::http::Server::bind(&any).expect("a port");
    server
        .start(&std::sync::Arc::new(Exporter(text.clone())))
        .expect("threads");
    println!(
        "nodes; answered; ms of a round, of a table; bytes of the table; left out; MiB at most"
    );
    for count in [3, 1250, 2048, 10_000] {
        let node = |at| crate::cluster::nodes::Node {
            name: format!("node{at:05}"),
            source: crate::cluster::nodes::Source::Http(server.url()),
        };
        let mut agent = Agent::new(Reader::new((0..count).map(node).collect()));
        let start = Instant::now();
        let answers = agent.reader.round();
        let round = start.elapsed();
        let heard = answers.iter().flatten();
        let answered = heard.filter(|answer| answer.said.is_ok()).count();
        agent.take(answers);
        let of = |at| {
            format!(
                "NodeName=node{at:05} CPUAlloc=0 CPUTot=64 Gres=shard:g0:4,shard:g1:4,shard:g2:4,\
                 shard:g3:4,shard:g4:4,shard:g5:4,shard:g6:4,shard:g7:4 RealMemory=512000 \
                 State=IDLE Weight=1\n"
            )
        };
        let said: String = (0..count).map(of).collect();
        let start = Instant::now();
        let table = agent.table(&known(&said), u64::from(u32::MAX), Instant::now());
        let written = start.elapsed();
        println!(
            "{count}; {answered}; {}, {}; {}; {}; {}",
            round.as_millis(),
            written.as_millis(),
            table.text.len(),
            table.left_out,
            peak_mib()
        );
    }
    println!("{} bytes of each exporter", text.len());
}
