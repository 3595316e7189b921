// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What is applied again, and when.

use super::*;
use crate::fake::FakeKernel;
use loga::uapi;
use loga::uapi::Refusal;
use tempfile::TempDir;

/// A machine with one file of settings.
struct Machine {
    folder: TempDir,
    fake: FakeKernel,
    file: [PathBuf; 1],
    begin: Instant,
}

impl Machine {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = [folder.path().join("loga.toml")];
        let machine = Self {
            folder,
            fake: FakeKernel::new(2),
            file,
            begin: Instant::now(),
        };
        fs::create_dir_all(machine.path("cgroup/jobs")).expect("a folder");
        machine.load();
        machine.write(text);
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, text: &str) {
        fs::write(&self.file[0], text).expect("a file");
    }

    /// The module is loaded, or loaded anew: nothing is set.
    fn load(&self) {
        self.unload();
        for gpu in 0..2 {
            fs::create_dir_all(self.path(&format!("sysfs/gpu{gpu}"))).expect("a folder");
        }
    }

    fn unload(&self) {
        // It is kept, so that its number does not come again at once: those of sysfs do not.
        let old = self.path("old");
        let _ = fs::remove_dir_all(&old);
        let _ = fs::rename(self.path("sysfs"), &old);
        for gpu in self.fake.gpus.borrow_mut().iter_mut() {
            gpu.shares.clear();
        }
    }

    fn cgroup(&self, path: &str) -> u64 {
        let path = self.path("cgroup").join(path);
        fs::create_dir_all(&path).expect("a folder");
        fs::metadata(&path).expect("a folder").ino()
    }

    fn follower<'a>(&'a self, sysfs: &'a Path) -> Follower<'a> {
        let mut follower = Follower::new(&self.file, sysfs);
        follower.first().expect("right files");
        follower
    }

    /// What is said at this second.
    fn tick(&self, follower: &mut Follower<'_>, second: u64) -> String {
        let directory = Directory::of("ann:x:1000:\n", Some(&self.path("cgroup")));
        let now = self.begin + Duration::from_secs(second);
        let lines = follower.tick(&directory, || Ok(Control::over(&self.fake)), now);
        lines
            .join("\n")
            .replace(&format!("{}/", self.folder.path().display()), "")
    }

    /// Weights that are set on GPU 0, by subject.
    fn weights(&self) -> Vec<(u64, u32)> {
        let shares = self.fake.gpus.borrow()[0].shares.clone();
        shares
            .iter()
            .map(|share| (share.id, share.weight))
            .collect()
    }
}

const ANN: &str = "[[share]]\nuser = 'ann'\nweight = 300\n";
const JOBS: &str = "[[share]]\ncgroup = '/jobs/job_*'\nweight = 50\n";

#[test]
fn files_that_change_are_applied_once_they_are_whole() {
    let machine = Machine::new(ANN);
    let sysfs = machine.path("sysfs");
    let mut follower = machine.follower(&sysfs);
    assert_eq!(
        machine.tick(&mut follower, 0),
        "user ann: set, from loga.toml:1"
    );
    assert_eq!(machine.weights(), [(1000, 300)]);
    assert_eq!(machine.tick(&mut follower, 2), "");
    machine.write(&ANN.replace("300", "7"));
    // It may still be written.
    assert_eq!(machine.tick(&mut follower, 4), "");
    assert_eq!(machine.weights(), [(1000, 300)]);
    assert_eq!(
        machine.tick(&mut follower, 6),
        "user ann: set, from loga.toml:1"
    );
    assert_eq!(machine.weights(), [(1000, 7)]);
}

#[test]
fn file_that_is_wrong_or_gone_leaves_what_was_applied() {
    let machine = Machine::new(ANN);
    let sysfs = machine.path("sysfs");
    let mut follower = machine.follower(&sysfs);
    machine.tick(&mut follower, 0);
    machine.write("[[share]]\nuser = 'ann'\nweight = 0\n");
    machine.tick(&mut follower, 2);
    let said = machine.tick(&mut follower, 4);
    assert_eq!(
        said,
        "loga.toml:3: weight = 0: want a whole number, 1 to 10000; what was applied before stays in force"
    );
    // Not again and again.
    assert_eq!(machine.tick(&mut follower, 6), "");
    fs::remove_file(&machine.file[0]).expect("removed");
    assert!(machine
        .tick(&mut follower, 8)
        .starts_with("loga.toml: No such file"));
    // A module that is loaded anew gets what was good.
    machine.load();
    assert_eq!(
        machine.tick(&mut follower, 10),
        "user ann: set, from loga.toml:1"
    );
    assert_eq!(machine.weights(), [(1000, 300)]);
    machine.write(&ANN.replace("300", "9"));
    machine.tick(&mut follower, 12);
    machine.tick(&mut follower, 14);
    assert_eq!(machine.weights(), [(1000, 9)]);
}

#[test]
fn settings_wait_for_the_module_and_come_back_with_it() {
    let machine = Machine::new(ANN);
    machine.unload();
    let sysfs = machine.path("sysfs");
    let mut follower = machine.follower(&sysfs);
    let wait = "the kernel module manages no GPU: the settings wait for it";
    assert_eq!(machine.tick(&mut follower, 0), wait);
    assert_eq!(machine.tick(&mut follower, 2), "");
    machine.load();
    assert_eq!(
        machine.tick(&mut follower, 4),
        "user ann: set, from loga.toml:1"
    );
    machine.load();
    assert_eq!(machine.weights(), []);
    assert_eq!(
        machine.tick(&mut follower, 6),
        "user ann: set, from loga.toml:1"
    );
    assert_eq!(machine.weights(), [(1000, 300)]);
}

#[test]
fn cgroups_that_fit_a_pattern_are_set_when_they_appear() {
    let machine = Machine::new(JOBS);
    let first = machine.cgroup("jobs/job_1");
    machine.cgroup("jobs/other");
    let sysfs = machine.path("sysfs");
    let mut follower = machine.follower(&sysfs);
    assert_eq!(
        machine.tick(&mut follower, 0),
        "cgroup /jobs/job_1: set, from loga.toml:1"
    );
    let second = machine.cgroup("jobs/job_2");
    // What somebody set by hand stays.
    machine.fake.gpus.borrow_mut()[0].shares[0].weight = 80;
    assert_eq!(
        machine.tick(&mut follower, 2),
        "cgroup /jobs/job_2: set, from loga.toml:1"
    );
    assert_eq!(machine.weights(), [(first, 80), (second, 50)]);
    assert_eq!(machine.tick(&mut follower, 4), "");
}

#[test]
fn refusal_for_one_new_cgroup_is_none_for_the_others() {
    let machine = Machine::new(JOBS);
    let sysfs = machine.path("sysfs");
    let mut follower = machine.follower(&sysfs);
    machine.tick(&mut follower, 0);
    let (first, second) = (machine.cgroup("jobs/job_1"), machine.cgroup("jobs/job_2"));
    let full = Refusal {
        code: uapi::REFUSED_FULL,
        max: 512,
        ..Default::default()
    };
    machine.fake.refuse_share(first, full, u32::MAX);
    let said = machine.tick(&mut follower, 2);
    assert!(
        said.contains("loga.toml:1: cgroup /jobs/job_1: no room"),
        "{said}"
    );
    assert!(said.contains("cgroup /jobs/job_2: set"), "{said}");
    assert_eq!(machine.weights(), [(second, 50)]);
    assert_eq!(machine.tick(&mut follower, 4), "");
}

#[test]
fn files_that_the_module_refuses_are_tried_again_ever_later() {
    let machine = Machine::new(ANN);
    let sysfs = machine.path("sysfs");
    let mut follower = machine.follower(&sysfs);
    machine.tick(&mut follower, 0);
    let below = Refusal {
        code: uapi::REFUSED_FULL,
        max: 512,
        ..Default::default()
    };
    let jobs = machine.cgroup("jobs");
    machine.fake.refuse_share(jobs, below, 3);
    machine.write(&format!(
        "{}[[share]]\ncgroup = '/jobs'\nweight = 1\n",
        ANN.replace("300", "4")
    ));
    machine.tick(&mut follower, 2);
    let said = machine.tick(&mut follower, 4);
    assert!(said.contains("cgroup /jobs: no room"), "{said}");
    assert!(said.ends_with("; nothing has been applied"), "{said}");
    assert_eq!(machine.weights(), [(1000, 300)]);
    // After 2 s, then 4 s, then 8 s.
    for (second, expected) in [(5, 300), (6, 300), (9, 300), (10, 300), (17, 300), (18, 4)] {
        machine.tick(&mut follower, second);
        assert_eq!(machine.weights()[0], (1000, expected), "at {second} s");
    }
}

#[test]
fn what_a_file_no_longer_has_is_taken_back() {
    let machine = Machine::new(&format!("{ANN}limit = 40\n{JOBS}gpu = 1\n"));
    let job = machine.cgroup("jobs/job_1");
    let sysfs = machine.path("sysfs");
    let mut follower = machine.follower(&sysfs);
    machine.tick(&mut follower, 0);
    let set = |gpu: usize| {
        let shares = machine.fake.gpus.borrow()[gpu].shares.clone();
        let rows = shares.iter().map(|one| (one.id, one.mask, one.weight));
        rows.collect::<Vec<_>>()
    };
    let both = uapi::SHARE_WEIGHT | uapi::SHARE_LIMIT;
    assert_eq!(set(0), [(1000, both, 300)]);
    assert_eq!(set(1), [(1000, both, 300), (job, uapi::SHARE_WEIGHT, 50)]);
    machine.write(ANN);
    machine.tick(&mut follower, 2);
    let said = machine.tick(&mut follower, 4);
    assert!(said.contains("GPU 1: cgroup"), "{said}");
    for gpu in [0, 1] {
        assert_eq!(set(gpu), [(1000, uapi::SHARE_WEIGHT, 300)]);
    }
    // A file that has nothing.
    machine.write("");
    machine.tick(&mut follower, 6);
    machine.tick(&mut follower, 8);
    assert_eq!((set(0), set(1)), (vec![], vec![]));
}

#[test]
fn thousand_changes_are_applied_whole_whatever_is_read_of_them() {
    let machine = Machine::new(ANN);
    let sysfs = machine.path("sysfs");
    let mut follower = machine.follower(&sysfs);
    machine.tick(&mut follower, 0);
    // Both shares of a file have the same weight.
    let text = |weight: u32| {
        let jobs = "[[share]]\ncgroup = '/jobs'\nweight = ";
        format!(
            "{}{jobs}{weight}\n",
            ANN.replace("300", &weight.to_string())
        )
    };
    let mut random = loga::random::XorShift::new(1);
    let mut last = 300;
    for change in 1..=1000u32 {
        let whole = text(change);
        // What a reader finds of a file that is being written.
        let cut = random.bits16() as usize % whole.len();
        machine.write(&whole[..cut]);
        let second = u64::from(change) * 10;
        machine.tick(&mut follower, second);
        let weights: Vec<u32> = machine
            .weights()
            .iter()
            .map(|(_, weight)| *weight)
            .collect();
        assert!(
            weights.iter().all(|weight| *weight == last),
            "{weights:?} at {change}, cut at {cut}"
        );
        machine.write(&whole);
        machine.tick(&mut follower, second + 2);
        machine.tick(&mut follower, second + 4);
        let weights: Vec<u32> = machine
            .weights()
            .iter()
            .map(|(_, weight)| *weight)
            .collect();
        assert_eq!(weights, [change, change], "cut at {cut}");
        last = change;
    }
}
