// SPDX-License-Identifier: GPL-2.0

//! `loga-host` from end to end, with fakes of the host, the compiler, the module's tools, the load
//! generator and the benchmarks. The wrapper, make and the C compiler are real.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A benchmark that needs fresh arguments each time and keeps a count in static memory.
const RETURNS: &str = r#"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int times;
int main(int argc, char **argv)
{
	int rounds = 0, option;
	while ((option = getopt(argc, argv, "r:")) != -1)
		rounds = option == 'r';
	if (!rounds || argc != 4 || strcmp(argv[3], "in.txt") != 0)
		return 9;
	argv[3][0] = 'x';
	usleep(20000);
	printf("time %d\n", ++times);
	return 0;
}
"#;

/// A benchmark that ends in exit(), and with a failure if the folder says so.
const EXITS: &str = r#"
#include <stdlib.h>
#include <unistd.h>
static void work(void)
{
	usleep(10000);
	exit(access("fail", F_OK) == 0 ? 3 : 0);
}
int main(void)
{
	work();
	return 1;
}
"#;

/// Words of every run that works.
const RUN: &str = "run --root root --rodinia tree --work work --module loga.ko";

struct Workspace {
    folder: TempDir,
}

impl Workspace {
    fn new() -> Self {
        let workspace = Workspace {
            folder: tempfile::tempdir().expect("a folder"),
        };
        workspace.host();
        workspace.tree();
        workspace.programs();
        workspace
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    fn script(&self, name: &str, text: &str) {
        self.file(name, &format!("#!/bin/bash\n{text}\n"));
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    fn host(&self) {
        let card = "root/sys/bus/pci/devices/0000:02:00.0";
        self.file(&format!("{card}/vendor"), "0x10de\n");
        self.file(&format!("{card}/class"), "0x030000\n");
        self.file(&format!("{card}/device"), "0x100c\n");
        self.file(
            "root/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2\n",
        );
        self.file("root/proc/sys/kernel/osrelease", "7.3.4\n");
        self.file("root/boot/config-7.3.4", "CONFIG_RUST=y\n");
        self.file("loga.ko", "");
    }

    fn tree(&self) {
        let make = |program: &str| format!("{program}: main.cu\n\tnvcc main.cu -o {program}\n");
        self.file("tree/cuda/bfs/Makefile", &make("bfs"));
        self.file("tree/cuda/bfs/main.cu", RETURNS);
        // What the module says may come late; a benchmark waits for its first line, if it is written down.
        let log = self.path("work/stat.log");
        let log = log.display();
        let wait = format!("while [ -e {log} ] && ! [ -s {log} ]; do sleep 0.01; done");
        let run = format!("{wait}\nls > /dev/null\n./bfs -r 1 in.txt");
        self.script("tree/cuda/bfs/run", &run);
        self.file("tree/cuda/srad/srad_v1/makefile", &make("srad"));
        self.file("tree/cuda/srad/srad_v1/main.cu", EXITS);
        self.script(
            "tree/cuda/srad/srad_v1/run",
            &format!("{wait}\n./srad\n./srad"),
        );
    }

    fn programs(&self) {
        let log = self.path("calls");
        let log = log.display();
        self.script("bin/nvcc", "cc -x c \"$1\" -o \"$3\"");
        self.script(
            "bin/insmod",
            &format!("echo \"insmod ${{*:2}}\" >> {log}\n[ ! -e {log}.refuse ]"),
        );
        self.script("bin/rmmod", &format!("echo \"rmmod $*\" >> {log}"));
        self.script(
            "bin/loga",
            "while :; do echo '{\"gpu\":0}'; printf '{\"cut'; sleep 0.05; printf '\":1}\\n'; done",
        );
        self.script(
            "bin/throttle",
            &format!(
                "echo \"throttle $*\" >> {log}\n\
                 trap 'echo \"{{\\\"version\\\":1}}\"; exit 0' TERM\n\
                 echo started >&2\nwhile :; do sleep 0.02; done"
            ),
        );
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }

    /// Runs `loga-host` with these words.
    fn host_with(&self, words: &str) -> Output {
        let path = format!("{}:{}", self.path("bin").display(), env!("PATH"));
        Command::new(env!("CARGO_BIN_EXE_loga-host"))
            .args(words.split(' '))
            .env("PATH", path)
            .current_dir(self.folder.path())
            .output()
            .expect("loga-host starts")
    }

    /// Two repetitions of two benchmarks, unless these words say otherwise.
    fn run(&self, words: &str) -> Output {
        let both = "--applications bfs,srad_v1 --repetitions 2";
        self.host_with(format!("{RUN} {both} {words}").trim_end())
    }

    fn results(&self) -> Value {
        let text = fs::read_to_string(self.path("work/host.json")).expect("host.json");
        serde_json::from_str(&text).expect("JSON")
    }
}

fn text(output: &Output) -> String {
    let both = [&*output.stdout, &*output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn whole_matrix_runs_and_gives_every_figure() {
    let workspace = Workspace::new();
    let output = workspace.run("--seconds 0.2");
    assert!(output.status.success(), "{}", text(&output));
    let results = workspace.results();
    // Four experiments, two policies, two benchmarks, two repetitions.
    let runs = results["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 32);
    for figure in ["7a", "7b", "11"] {
        let path = workspace.path(&format!("work/host-paper-{figure}.json"));
        let one = loga_results::Experiment::read(&path).expect("a figure");
        assert!(
            one.series.iter().any(|series| series.name == "event"),
            "{one:?}"
        );
    }
    for run in runs {
        let throttled = run["experiment"] != "alone";
        assert_eq!(run["throttle"].is_array(), throttled, "{run}");
        let watched = run["stat"].as_array().map_or(0, Vec::len);
        assert_eq!(watched > 0, run["policy"] != "off", "{run}");
        // 20 ms, or twice 10 ms; sleeping is never shorter. 200 ms of it at most.
        assert!(
            run["turnaround_ms"].as_f64().expect("a time") >= 20.0,
            "{run}"
        );
        let iterations = run["iterations"].as_u64().expect("a number");
        assert!((1..=10).contains(&iterations), "{run}");
    }
    assert_eq!(results["summary"].as_array().expect("summary").len(), 16);
    assert_eq!(results["summary"][0]["repetitions"], 2);
    let calls = workspace.calls();
    let phases = "poll_ms=1 ratio=5 scale=channels randomize=0 accounting=burst";
    for enforce in ["enforce=0", "enforce=1"] {
        let insmod = format!("insmod policy=event {enforce} {phases}");
        assert_eq!(count(&calls, &insmod), 1, "{calls}");
    }
    assert_eq!(count(&calls, "rmmod loga"), 2);
    for throttles in [
        "--instances 10 --kernel-us 10 --sleep-us 1000",
        "--instances 10 --kernel-us 100 --sleep-us 1000",
        "--instances 4 --kernel-us 200 --sleep-us 800",
    ] {
        assert_eq!(count(&calls, throttles), 8, "{throttles}");
    }
}

#[test]
fn wrapper_repeats_main_in_one_process() {
    let workspace = Workspace::new();
    // Found by an earlier run.
    workspace.file("work/iterations.json", "{\"bfs\": 15}");
    let words = "--applications bfs --experiments alone --policies off --repetitions 1";
    let output = workspace.host_with(&format!("{RUN} {words}"));
    assert!(output.status.success(), "{}", text(&output));
    let log = fs::read_to_string(workspace.path("work/application.log")).expect("output");
    let iterations = workspace.results()["runs"][0]["iterations"]
        .as_u64()
        .expect("a number");
    assert_eq!(iterations, 15);
    let last = format!("time {iterations}");
    assert_eq!(log.lines().last(), Some(last.as_str()));
    assert_eq!(log.lines().count() as u64, iterations);
}

#[test]
fn interrupted_run_goes_on_where_it_stopped() {
    let workspace = Workspace::new();
    workspace.file("calls.refuse", "");
    let experiment = "--experiments overhead-10 --seconds 0.1";
    let output = workspace.run(experiment);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("insmod"), "{}", text(&output));
    // The runs without the module are there, whole; the others are not.
    let runs = fs::read_dir(workspace.path("work/runs"))
        .expect("runs")
        .count();
    assert_eq!(runs, 4);
    let before = fs::read_to_string(workspace.path("work/runs/overhead-10-off-bfs-0.json"));
    fs::remove_file(workspace.path("calls.refuse")).expect("allowed now");
    // A file that was cut off does not count.
    workspace.file(
        "work/runs/overhead-10-off-srad_v1-1.json",
        "{\"experiment\": \"over",
    );
    let output = workspace.run(experiment);
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(count(&text(&output), "there already"), 3);
    assert_eq!(
        workspace.results()["runs"].as_array().expect("runs").len(),
        8
    );
    let after = fs::read_to_string(workspace.path("work/runs/overhead-10-off-bfs-0.json"));
    assert_eq!(before.expect("before"), after.expect("after"));
}

#[test]
fn failing_benchmark_stops_the_run_and_unloads_the_module() {
    let workspace = Workspace::new();
    workspace.file("tree/cuda/srad/srad_v1/fail", "");
    let output = workspace.run("--experiments quality --policies event --seconds 0.1");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("application.log"),
        "{}",
        text(&output)
    );
    assert!(
        workspace.calls().ends_with("rmmod loga\n"),
        "{}",
        workspace.calls()
    );
    assert!(!workspace.path("work/host.json").exists());
    assert_eq!(
        fs::read_dir(workspace.path("work/runs"))
            .expect("runs")
            .count(),
        2
    );
}

#[test]
fn dry_run_prints_every_step_and_does_nothing() {
    let workspace = Workspace::new();
    let output = workspace.run("--dry-run");
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("cc -O2 -shared -fPIC -o "), "{text}");
    assert_eq!(count(&text, " && make > "), 2);
    assert_eq!(count(&text, "insmod loga.ko policy=event"), 2);
    assert_eq!(count(&text, "LOGA_ITERATE_COUNT="), 32 + 32);
    assert_eq!(workspace.calls(), "");
    assert!(!workspace.path("work").exists());
    assert!(!workspace.path("tree/cuda/bfs/bfs").exists());
}

#[test]
fn check_names_what_is_missing() {
    let workspace = Workspace::new();
    let check = |root: &str| workspace.host_with(&format!("check --root {root} --module loga.ko"));
    let good = check("root");
    assert!(good.status.success(), "{}", text(&good));
    assert!(text(&good).contains("0000:02:00.0 device 0x100c, a Kepler by its id"));
    assert!(text(&good).contains("NVIDIA 470.256.02"));
    workspace.file("root/boot/config-7.3.4", "# CONFIG_RUST is not set\n");
    let bad = check("root");
    assert_eq!(bad.status.code(), Some(1));
    assert!(
        text(&bad).contains("MISSING  kernel   7.3.4, built without Rust"),
        "{}",
        text(&bad)
    );
    workspace.file("root/proc/sys/kernel/osrelease", "6.1.0\n");
    let old = text(&check("root"));
    assert!(
        old.contains("MISSING  kernel   6.1.0; LoGA wants Linux"),
        "{old}"
    );
    let version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05\n";
    workspace.file("root/proc/driver/nvidia/version", version);
    let late = text(&check("root"));
    let says = "MISSING  driver   NVIDIA 580.95.05; for a Kepler LoGA was tested with the branches 470 and 340; 470 is the last";
    assert!(late.contains(says), "{late}");
    let none = text(&check("nowhere"));
    assert!(none.contains("MISSING  card     no NVIDIA card"), "{none}");
    assert!(none.contains("MISSING  driver"), "{none}");
    fs::remove_file(workspace.path("loga.ko")).expect("removed");
    let refused = workspace.run("");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused).contains("this host cannot do it"),
        "{}",
        text(&refused)
    );
    assert!(!workspace.path("work").exists());
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let workspace = Workspace::new();
    let output = workspace.run("--experiments figure-12");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("overhead-10, overhead-100, alone, quality"));
    let output = workspace.host_with("run --root root --rodinia tree --applications doom");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("there are b+tree, backprop"));
    assert!(!Path::new(&workspace.path("work")).exists());
}
