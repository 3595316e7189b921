// SPDX-License-Identifier: GPL-2.0

//! Every input of the corpus, in the order of their names: inputs that the fuzzer kept for the code
//! they reach, and inputs that found a mistake. Those of a target are one archive.

use loga_fuzz::TARGETS;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The targets that have an archive.
fn archives() -> BTreeSet<String> {
    let entries = fs::read_dir(corpus()).expect("the folder of the corpus");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("a name"));
    names
        .map(|name| name.strip_suffix(".tar").expect("an archive").to_owned())
        .collect()
}

/// The inputs of a target, by name.
fn inputs(target: &str) -> BTreeMap<String, Vec<u8>> {
    let file = File::open(corpus().join(format!("{target}.tar"))).expect("an archive");
    let mut archive = tar::Archive::new(file);
    let entries = archive.entries().expect("entries");
    entries
        .map(|entry| {
            let mut entry = entry.expect("an entry");
            let name = entry.path().expect("a name").display().to_string();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("an input");
            (name, bytes)
        })
        .collect()
}

fn replay(name: &str) {
    let run = loga_fuzz::target(name).expect("a target");
    let inputs = inputs(name);
    assert!(inputs.len() >= 3, "{name} has {} inputs", inputs.len());
    for (input, bytes) in inputs {
        // Shown by the test that fails.
        println!("corpus/{name}.tar: {input}");
        run(&bytes);
    }
}

macro_rules! replays {
    ($($test:ident: $name:literal),* $(,)?) => {
        $(#[test]
        fn $test() {
            replay($name);
        })*

        #[test]
        fn every_target_has_a_corpus_and_a_test() {
            let tested = BTreeSet::from([$($name.to_owned()),*]);
            let targets: BTreeSet<String> =
                TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
            assert_eq!(tested, targets);
            assert_eq!(archives(), targets);
        }
    };
}

replays![
    corpus_of_rm_holds: "rm",
    corpus_of_slots_holds: "slots",
    corpus_of_registers_holds: "registers",
    corpus_of_calls_holds: "calls",
    corpus_of_events_holds: "events",
    corpus_of_scenario_holds: "scenario",
    corpus_of_profile_holds: "profile",
    corpus_of_replay_holds: "replay",
    corpus_of_exporter_holds: "exporter",
    corpus_of_history_holds: "history",
    corpus_of_names_holds: "names",
    corpus_of_words_holds: "words",
];
