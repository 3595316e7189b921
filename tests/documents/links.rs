// SPDX-License-Identifier: GPL-2.0

//! What a newcomer meets first: a short README, links that lead somewhere, and the answer of each
//! question in the index.

use super::pages::{pages, root, Page};

/// Longest README, in bytes.
const README_MAX: usize = 8_000;

/// Questions of the index, where each leads, and what has to stand there.
const QUESTIONS: &[(&str, &str, &str)] = &[
    (
        "Is my card supported?",
        "nvidia.md#which-cards-loga-follows",
        "Kepler, Maxwell and Pascal",
    ),
    (
        "How do I install LoGA, and load the module by hand?",
        "install.md#loading-the-module-by-hand",
        "insmod out/loga.ko enforce=1",
    ),
    (
        "What does the demonstration print?",
        "demo.md#what-it-prints",
        "MODEL'S LOG %",
    ),
    (
        "Which policy do I choose?",
        "policies.md#which-one-do-i-choose",
        "Take `maxmin`",
    ),
    (
        "How do I limit a process, a user or a cgroup?",
        "commands.md#weights-limits-and-classes",
        "--limit 40",
    ),
    (
        "How do I keep settings across reboots?",
        "settings.md#settings-kept-across-reboots",
        "/etc/loga/loga.toml",
    ),
    (
        "What do I set on a machine with tenants that do not trust each other?",
        "security.md#what-to-set",
        "--group-by user",
    ),
    (
        "How does a program that has the turn of a GPU get the processor too?",
        "policies.md#the-processor-follows-the-gpu",
        "sudo loga agent cpu",
    ),
    (
        "What does a reserve promise, and under which conditions?",
        "engaged.md#what-is-promised",
        "**deadlines**",
    ),
    (
        "How do I reserve GPU time, or put one program before others?",
        "engaged.md#how-to-use-it",
        "loga reserve --pid 432 --capacity-us",
    ),
    (
        "On which GPU does a program start, and how do I choose?",
        "placement.md#placement-the-gpu-of-a-program-that-starts",
        "loga run --gpu auto -- COMMAND",
    ),
    (
        "How do I keep a program off a GPU?",
        "placement.md#what-the-program-is-told",
        "--access denied",
    ),
    ("How do I set up Slurm?", "slurm.md#set-up", "gres.conf"),
    (
        "How do I set up Kubernetes?",
        "kube.md#set-up",
        "loga-agent.service",
    ),
    (
        "What does a column of `loga stat` mean?",
        "columns.md#loga-stat",
        "| ENTITLED |",
    ),
    (
        "How do I get figures into Prometheus and Grafana?",
        "monitoring.md#monitoring",
        "scrape_configs:",
    ),
    (
        "What does a metric mean?",
        "monitoring.md#metrics",
        "| `loga_gpu_busy_ratio` |",
    ),
    (
        "Why does `loga` find no module?",
        "troubleshooting.md#it-does-not-start",
        "the kernel module loga is not loaded",
    ),
    (
        "Why can the module not be unloaded?",
        "troubleshooting.md#it-cannot-be-unloaded",
        "programs have submission pages mapped",
    ),
    (
        "Why does a limit hold nobody back?",
        "troubleshooting.md#settings",
        "--enforce on",
    ),
    (
        "How is GPU time measured, and how wrong may it be?",
        "accounting.md#what-it-costs-and-how-wrong-it-is",
        "stated bound",
    ),
    (
        "How does a store to a submission page become a decision?",
        "architecture.md#the-way-of-one-submission",
        "Decider::store",
    ),
    (
        "Which attacks can a kernel module not stop?",
        "security.md#what-cannot-be-closed-here",
        "| way to GPU work |",
    ),
    (
        "How do I add a policy, a knob or a register family?",
        "architecture.md#how-to-add",
        "`policies!`",
    ),
    (
        "How do I run one test?",
        "testing.md#one-test",
        "make test ONLY=",
    ),
    (
        "Where are the figures of the LoGA paper?",
        "eval.md#the-papers-experiments",
        "make eval",
    ),
];

fn index() -> Page {
    Page::read("docs/index.md".to_owned())
}

#[test]
fn readme_is_short() {
    let length = Page::read("README.md".to_owned()).text.len();
    assert!(length <= README_MAX, "README.md has {length} bytes");
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut broken = Vec::new();
    let mut seen = 0;
    for page in pages() {
        for link in page.links() {
            seen += 1;
            let (file, anchor) = page.resolve(&link.target);
            let found = root().join(&file).exists();
            let path = file.display().to_string();
            let known = |anchor: &str| {
                let headings = Page::read(path.clone()).anchors();
                headings.iter().any(|one| one == anchor)
            };
            if !found || !anchor.is_none_or(known) {
                broken.push(format!("{}: {}", page.path, link.target));
            }
        }
    }
    assert!(seen > 100, "{seen} links");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn index_leads_to_each_page() {
    let index = index();
    let linked: Vec<String> = index
        .links()
        .iter()
        .map(|link| index.resolve(&link.target).0.display().to_string())
        .collect();
    let missing: Vec<String> = pages()
        .into_iter()
        .map(|page| page.path)
        .filter(|path| *path != index.path && !linked.contains(path))
        .collect();
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn questions_of_the_index_lead_to_their_answers() {
    let index = index();
    let links = index.links();
    assert!(QUESTIONS.len() >= 20);
    for (question, target, phrase) in QUESTIONS {
        let link = links.iter().find(|link| link.label == *question);
        let link = link.unwrap_or_else(|| panic!("docs/index.md does not ask: {question}"));
        assert_eq!(link.target, *target, "{question}");
        let (file, anchor) = index.resolve(target);
        let page = Page::read(file.display().to_string());
        let answer = page.below(anchor.expect("a heading"));
        let answer = answer.unwrap_or_else(|| panic!("{target} is no heading"));
        assert!(answer.contains(phrase), "{target} has no: {phrase}");
    }
}
