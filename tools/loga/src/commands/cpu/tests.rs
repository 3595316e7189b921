// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Which weights are raised and put back, in a tree of files.

use super::*;
use crate::fake::FakeKernel;
use crate::names::Name;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Folders that stand for /proc, /sys/fs/cgroup and /run.
struct Machine(TempDir);

impl Machine {
    /// Process 101 in the cgroup /a, 102 in /b, and 100 in the root.
    fn new() -> Self {
        let machine = Machine(tempfile::tempdir().expect("a folder"));
        for folder in ["proc", "cgroup", "run"] {
            fs::create_dir(machine.at(folder)).expect("a folder");
        }
        fs::write(machine.at("cgroup/cpu.weight"), "100\n").expect("a file");
        machine.add("a", Some("100\n"));
        machine.add("b", Some("100\n"));
        machine.put(100, "");
        machine.put(101, "a");
        machine.put(102, "b");
        machine
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(path)
    }

    /// A cgroup, without the controller if it has no weight.
    fn add(&self, cgroup: &str, weight: Option<&str>) {
        fs::create_dir_all(self.at("cgroup").join(cgroup)).expect("a folder");
        if let Some(weight) = weight {
            self.set(cgroup, weight);
        }
    }

    /// Moves a process to a cgroup.
    fn put(&self, pid: i32, cgroup: &str) {
        let folder = self.at(format!("proc/{pid}"));
        fs::create_dir_all(&folder).expect("a folder");
        let text = format!("1:name=systemd:/elsewhere\n0::/{cgroup}\n");
        fs::write(folder.join("cgroup"), text).expect("a file");
    }

    fn set(&self, cgroup: &str, weight: &str) {
        fs::write(self.at("cgroup").join(cgroup).join("cpu.weight"), weight).expect("a file");
    }

    fn weight(&self, cgroup: &str) -> String {
        let file = self.at("cgroup").join(cgroup).join("cpu.weight");
        fs::read_to_string(file)
            .expect("a weight")
            .trim()
            .to_string()
    }

    fn weights(&self) -> [String; 2] {
        [self.weight("a"), self.weight("b")]
    }

    fn cgroups(&self) -> Cgroups {
        Cgroups::below(&self.at("proc"), &self.at("cgroup"))
    }

    fn noted(&self) -> Noted {
        Noted::open(&self.at("run/loga-cpu")).expect("opened")
    }

    /// What stands in the file of what is raised.
    fn file(&self) -> Option<String> {
        fs::read_to_string(self.at("run/loga-cpu/raised")).ok()
    }

    fn arguments(&self, line: &str) -> cli::Cpu {
        let state = self.at("run/loga-cpu");
        let line = format!("loga agent cpu --state {} {line}", state.display());
        let arguments = <cli::Arguments as clap::Parser>::try_parse_from(line.split_whitespace());
        match arguments.expect("arguments").command {
            cli::Command::Agent(cli::Agent {
                what: cli::AgentKind::Cpu(cpu),
            }) => cpu,
            other => panic!("{other:?}"),
        }
    }
}

/// These processes have the turn of a GPU; returns what is said.
fn turn(raised: &mut Raised<'_>, gpu: u32, pids: &[i32]) -> String {
    let mut out = Vec::new();
    let followed = raised.follow(gpu, pids.iter().copied(), &mut out);
    followed.expect("followed");
    String::from_utf8(out).expect("text")
}

#[test]
fn weight_is_raised_for_the_turn_and_put_back_after_it() {
    let machine = Machine::new();
    machine.set("b", "37");
    let cgroups = machine.cgroups();
    let mut raised = Raised::new(&cgroups, machine.noted(), None);
    assert_eq!(turn(&mut raised, 0, &[101]), "");
    assert_eq!(machine.weights(), ["1000", "37"]);
    assert_eq!(turn(&mut raised, 0, &[102]), "");
    assert_eq!(machine.weights(), ["100", "370"]);
    assert_eq!(turn(&mut raised, 0, &[]), "");
    assert_eq!(machine.weights(), ["100", "37"]);
    assert_eq!(turn(&mut raised, 0, &[101, 102]), "");
    assert_eq!(machine.weights(), ["1000", "370"]);
    let mut out = Vec::new();
    raised.end(&mut out).expect("ended");
    assert_eq!(machine.weights(), ["100", "37"]);
    assert_eq!((out.len(), machine.file()), (0, None));
}

#[test]
fn weight_is_ten_times_what_it_was_at_most_the_largest_or_the_one_asked_for() {
    let machine = Machine::new();
    machine.set("a", "4000");
    let cgroups = machine.cgroups();
    let mut raised = Raised::new(&cgroups, machine.noted(), None);
    turn(&mut raised, 0, &[101]);
    assert_eq!(machine.weight("a"), "10000");
    raised.end(&mut Vec::new()).expect("ended");
    let mut raised = Raised::new(&cgroups, machine.noted(), Some(600));
    turn(&mut raised, 0, &[101, 102]);
    // None is lowered.
    assert_eq!(machine.weights(), ["4000", "600"]);
    turn(&mut raised, 0, &[]);
    assert_eq!(machine.weights(), ["4000", "100"]);
}

#[test]
fn cgroup_with_the_turns_of_two_gpus_is_raised_until_both_are_over() {
    let machine = Machine::new();
    let cgroups = machine.cgroups();
    let mut raised = Raised::new(&cgroups, machine.noted(), None);
    machine.put(103, "a");
    turn(&mut raised, 0, &[101]);
    turn(&mut raised, 1, &[103]);
    assert_eq!(machine.weights(), ["1000", "100"]);
    turn(&mut raised, 0, &[102]);
    assert_eq!(machine.weights(), ["1000", "1000"]);
    turn(&mut raised, 1, &[]);
    assert_eq!(machine.weights(), ["100", "1000"]);
}

#[test]
fn weight_that_somebody_else_has_set_stays() {
    let machine = Machine::new();
    let cgroups = machine.cgroups();
    let mut raised = Raised::new(&cgroups, machine.noted(), None);
    turn(&mut raised, 0, &[101]);
    machine.set("a", "55");
    let said = turn(&mut raised, 0, &[102]);
    assert_eq!(
        said,
        "the cgroup /a has cpu.weight 55, which somebody else has set: it stays so\n"
    );
    assert_eq!(machine.weights(), ["55", "1000"]);
    // It is what is put back from then on.
    turn(&mut raised, 0, &[101]);
    assert_eq!(machine.weight("a"), "550");
    machine.set("a", "56");
    raised.end(&mut Vec::new()).expect("ended");
    assert_eq!(machine.weights(), ["56", "100"]);
}

#[test]
fn process_without_a_weight_is_left_alone_and_said_once() {
    let machine = Machine::new();
    let cgroups = machine.cgroups();
    machine.add("idle", Some("0\n"));
    machine.add("out/of", None);
    machine.put(104, "idle");
    machine.put(105, "out/of");
    machine.put(106, "../above");
    fs::create_dir(machine.at("proc/107")).expect("a folder");
    fs::write(machine.at("proc/107/cgroup"), "4:cpu:/old\n").expect("a file");
    let mut raised = Raised::new(&cgroups, machine.noted(), None);
    let root = Name::from(machine.at("cgroup").as_path());
    let said = [
        (100, "process 100 is in the cgroup /, which has no weight: want it in one of its own, such as by `systemd-run --scope`".to_string()),
        (104, "the cgroup /idle runs when no other does (cpu.idle): want 0 there".to_string()),
        (105, "the cgroup /out/of has no cpu.weight: want +cpu in cgroup.subtree_control of /out, and a kernel with CONFIG_FAIR_GROUP_SCHED".to_string()),
        (106, format!("the cgroup ../above is not below {root}: want the agent in the namespace of the host")),
        (107, "process 107 is in no cgroup of version 2: want that hierarchy alone, as systemd mounts it".to_string()),
        // It has ended.
        (108, String::new()),
    ];
    for (pid, line) in &said {
        let wanted = if line.is_empty() {
            String::new()
        } else {
            format!("{line}\n")
        };
        assert_eq!(turn(&mut raised, 0, &[*pid, 101]), wanted);
        assert_eq!(turn(&mut raised, 0, &[]), "");
    }
    for (pid, _) in said {
        assert_eq!(turn(&mut raised, 0, &[pid]), "");
    }
    assert_eq!(machine.weight("idle"), "0");
    assert_eq!(machine.weight(""), "100");
}

#[test]
fn cgroup_that_is_gone_or_made_anew_is_not_put_back() {
    let machine = Machine::new();
    let cgroups = machine.cgroups();
    let mut raised = Raised::new(&cgroups, machine.noted(), None);
    turn(&mut raised, 0, &[101, 102]);
    // The number of its folder is taken by another one meanwhile.
    fs::rename(machine.at("cgroup/a"), machine.at("cgroup/c")).expect("renamed");
    machine.add("a", Some("1000"));
    fs::remove_dir_all(machine.at("cgroup/b")).expect("removed");
    assert_eq!(turn(&mut raised, 0, &[]), "");
    assert_eq!(machine.weight("a"), "1000");
}

#[test]
fn weight_that_may_not_be_written_is_said_once() {
    let machine = Machine::new();
    let cgroups = machine.cgroups();
    // A folder in its place, which nobody can write.
    fs::remove_file(machine.at("cgroup/a/cpu.weight")).expect("removed");
    fs::create_dir(machine.at("cgroup/a/cpu.weight")).expect("a folder");
    let mut raised = Raised::new(&cgroups, machine.noted(), None);
    let said = turn(&mut raised, 0, &[101, 102]);
    assert!(said.starts_with("cpu.weight of the cgroup /a: "), "{said}");
    assert_eq!(
        turn(&mut raised, 0, &[]) + &turn(&mut raised, 0, &[101]),
        ""
    );
}

#[test]
fn what_is_raised_is_noted_before_and_a_killed_agent_leaves_it() {
    let machine = Machine::new();
    let cgroups = machine.cgroups();
    let mut raised = Raised::new(&cgroups, machine.noted(), None);
    turn(&mut raised, 0, &[101]);
    turn(&mut raised, 0, &[102]);
    let file = machine.file().expect("a file");
    // The one before is put back after the note.
    let entries: Vec<&str> = file
        .lines()
        .filter_map(|line| line.split_once(' ')?.1.into())
        .collect();
    assert_eq!(entries, ["100 1000 a", "100 1000 b"]);
    // Killed: nothing is put back.
    drop(raised);
    assert_eq!(machine.weights(), ["100", "1000"]);
    let mut out = Vec::new();
    let mut next = Raised::new(&cgroups, machine.noted(), None);
    next.put_back_of_killed(&mut out).expect("put back");
    assert_eq!(machine.weights(), ["100", "100"]);
    assert_eq!(machine.file(), None);
    assert_eq!(
        String::from_utf8(out).expect("text"),
        "cgroup /b: cpu.weight 100 again, as before the last agent\n"
    );
}

#[test]
fn weight_that_was_set_since_the_agent_was_killed_stays() {
    let machine = Machine::new();
    let cgroups = machine.cgroups();
    let mut raised = Raised::new(&cgroups, machine.noted(), None);
    turn(&mut raised, 0, &[101]);
    drop(raised);
    machine.set("a", "70");
    let mut next = Raised::new(&cgroups, machine.noted(), None);
    next.put_back_of_killed(&mut Vec::new()).expect("put back");
    assert_eq!(machine.weight("a"), "70");
    assert_eq!(machine.file(), None);
}

/// A GPU where the process has the turn.
fn gpu_of(fake: &FakeKernel, gpu: usize, pid: i32) {
    let mut gpus = fake.gpus.borrow_mut();
    let one = &mut gpus[gpu];
    one.info.note(&loga::knobs::Config {
        policy: PolicyKind::Credit,
        enforce: true,
        ..Default::default()
    });
    for number in [101, 102] {
        one.clients.push(uapi::Client {
            pid: number,
            group: number as u64,
            ..Default::default()
        });
        one.groups.push(uapi::Group {
            id: number as u64,
            turn: (number == pid).into(),
            ..Default::default()
        });
    }
}

fn turn_event(gpu: u32) -> Event {
    Event {
        gpu,
        kind: uapi::EVENT_TURN,
        ..Event::default()
    }
}

/// Runs the agent; returns how it ended and what it said.
fn agent(
    machine: &Machine,
    fake: &FakeKernel,
    line: &str,
    stop: bool,
) -> (Result<(), Failure>, String) {
    let mut out = Vec::new();
    let (arguments, cgroups) = (machine.arguments(line), machine.cgroups());
    let control = Control::over(fake);
    let ended = run(
        &arguments,
        &control,
        &cgroups,
        &AtomicBool::new(stop),
        &mut out,
    );
    (ended, String::from_utf8(out).expect("text"))
}

#[test]
fn weights_are_put_back_when_the_module_goes_away() {
    let machine = Machine::new();
    let fake = FakeKernel::new(2);
    gpu_of(&fake, 0, 101);
    gpu_of(&fake, 1, 102);
    fake.events.borrow_mut().push_back(vec![turn_event(1)]);
    // Weights while it runs are those of the last turn that it saw: each was noted before.
    let (ended, said) = agent(&machine, &fake, "", false);
    assert!(matches!(ended, Err(Failure::Device(_))), "{ended:?}");
    assert_eq!(
        (said.as_str(), machine.weights()),
        ("", ["100".to_string(), "100".to_string()])
    );
    assert_eq!(machine.file(), None);
    let turns = (uapi::ALL_GPUS, 1 << uapi::EVENT_TURN);
    assert_eq!(fake.subscribed.get(), Some(turns));
}

#[test]
fn agent_that_is_to_stop_raises_nothing_and_puts_back_what_was_left() {
    let machine = Machine::new();
    let cgroups = machine.cgroups();
    let mut killed = Raised::new(&cgroups, machine.noted(), None);
    turn(&mut killed, 0, &[101]);
    drop(killed);
    let fake = FakeKernel::new(1);
    gpu_of(&fake, 0, 102);
    let (ended, said) = agent(&machine, &fake, "--gpu 0", true);
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(machine.weights(), ["100", "100"]);
    assert!(said.contains("/a: cpu.weight 100 again"), "{said}");
    assert_eq!(fake.subscribed.get(), Some((0, 1 << uapi::EVENT_TURN)));
}

#[test]
fn gpu_without_turns_is_said() {
    let machine = Machine::new();
    let fake = FakeKernel::new(1);
    let (_, said) = agent(&machine, &fake, "", false);
    assert_eq!(
        said,
        "GPU 0: clients take no turns: want `loga policy set --policy credit --enforce on`, or another of timeslice-eng, timeslice, credit, augc, cosched, credit-slo\n"
    );
}

#[test]
fn holders_are_the_clients_of_the_group_that_has_the_turn() {
    let client = |group, pid, ended| uapi::Client {
        group,
        pid,
        ended,
        ..Default::default()
    };
    let group = |id, turn| uapi::Group {
        id,
        turn,
        ..Default::default()
    };
    let snapshot = Snapshot {
        // Of one its number is not seen, and one has ended.
        clients: vec![
            client(1, 11, 0),
            client(2, 12, 0),
            client(2, 0, 0),
            client(2, 13, 1),
            client(2, 14, 0),
        ],
        groups: vec![group(1, 0), group(2, 1)],
        ..Default::default()
    };
    assert_eq!(holders(&snapshot).collect::<Vec<_>>(), [12, 14]);
}
