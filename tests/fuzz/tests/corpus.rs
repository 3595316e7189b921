// SPDX-License-Identifier: GPL-2.0

//! Every input of the corpus, in the order of their names: inputs that the fuzzer kept for the code
//! they reach, and inputs that found a mistake.

use loga_fuzz::TARGETS;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn names(folder: &PathBuf) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder of the corpus");
    entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .collect()
}

fn replay(name: &str) {
    let folder = corpus().join(name);
    let run = loga_fuzz::target(name).expect("a target");
    let inputs = names(&folder);
    assert!(inputs.len() >= 3, "{name} has {} inputs", inputs.len());
    for input in inputs {
        let bytes = fs::read(folder.join(&input)).expect("an input");
        // Shown by the test that fails.
        println!("corpus/{name}/{input}");
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
            assert_eq!(names(&corpus()), targets);
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
    corpus_of_words_holds: "words",
];
