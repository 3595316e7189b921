// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What `/proc` says of processes: their present names, and what they run.

use crate::control::Snapshot;
use crate::names;
use crate::names::Name;
use loga::uapi;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the kernel adds to the path of a file that was removed or replaced.
const DELETED: &[u8] = b" (deleted)";
/// Position of the time of the start in `/proc/PID/stat`, after the name in brackets.
const STARTTIME: usize = 19;
/// Nanoseconds in its unit, and in that of `/proc/uptime`: both count hundredths of a second.
const TICK_NS: u64 = 10_000_000;

/// The processes of the machine.
#[derive(Clone, Debug)]
pub struct Processes {
    proc: PathBuf,
}

impl Default for Processes {
    fn default() -> Self {
        Self::below(Path::new("/proc"))
    }
}

impl Processes {
    /// Those in this folder.
    pub fn below(proc: &Path) -> Self {
        Self {
            proc: proc.to_path_buf(),
        }
    }

    /// Numbers of all of them.
    pub fn all(&self) -> Vec<i32> {
        let entries = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut all: Vec<i32> = numbers.filter(|pid| *pid > 0).collect();
        all.sort_unstable();
        all
    }

    /// The name of a process, if it is there.
    pub fn name(&self, pid: i32) -> Option<Name> {
        let text = fs::read(self.of(pid).join("comm")).ok()?;
        Some(text.strip_suffix(b"\n").unwrap_or(&text).into())
    }

    /// The path of the file that a process runs: where it was, if it was removed or replaced since.
    ///
    /// # Errors
    ///
    /// It may not be read.
    pub fn executable(&self, pid: i32) -> io::Result<PathBuf> {
        let link = self.of(pid).join("exe");
        let path = fs::read_link(&link)?;
        let Some(before) = path.as_os_str().as_bytes().strip_suffix(DELETED) else {
            return Ok(path);
        };
        // A file may have such a name.
        match (fs::metadata(&link), fs::metadata(&path)) {
            (Ok(runs), Ok(there)) if (runs.dev(), runs.ino()) == (there.dev(), there.ino()) => {
                Ok(path)
            }
            _ => Ok(OsStr::from_bytes(before).into()),
        }
    }

    /// The present name of the process that a kernel's name `kept` was taken from at `since_ns`. A
    /// process without a visible number, one that has ended, and a later one of its number leave the
    /// kernel's. Both times are of CLOCK_MONOTONIC.
    pub fn present(&self, pid: i32, kept: &[u8], since_ns: u64, now_ns: u64) -> Name {
        let kept = names::text(kept);
        let name = self.name(pid).filter(|name| pid > 0 && *name != kept);
        // Asked after its name: a later process is younger.
        let is_same = || {
            let age_ns = self.age_ns(pid)?;
            let least_ns = now_ns.saturating_sub(since_ns);
            // Both times that the age is of are cut.
            Some(age_ns.saturating_add(2 * TICK_NS) >= least_ns)
        };
        match name {
            Some(name) if is_same() == Some(true) => name,
            _ => kept,
        }
    }

    /// Gives clients the present names of their processes.
    pub fn rename(&self, snapshots: &mut [Snapshot]) {
        for snapshot in snapshots {
            let now_ns = snapshot.info.now_ns;
            for client in &mut snapshot.clients {
                let name = self.present(client.pid, &client.comm, client.since_ns, now_ns);
                client.comm = cut(&name);
            }
        }
    }

    /// For how long a process has been there, also while the machine slept.
    fn age_ns(&self, pid: i32) -> Option<u64> {
        let stat = fs::read(self.of(pid).join("stat")).ok()?;
        let uptime = fs::read_to_string(self.proc.join("uptime")).ok()?;
        // The name may have brackets of its own.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
        let start: u64 = rest.split_whitespace().nth(STARTTIME)?.parse().ok()?;
        let (seconds, hundredths) = uptime.split_whitespace().next()?.split_once('.')?;
        let seconds: u64 = seconds.parse().ok()?;
        let up = seconds
            .checked_mul(100)?
            .checked_add(hundredths.parse().ok()?)?;
        up.saturating_sub(start).checked_mul(TICK_NS)
    }

    fn of(&self, pid: i32) -> PathBuf {
        self.proc.join(pid.to_string())
    }
}

/// A name as the kernel has it: at most 15 bytes, and zeros.
pub(crate) fn cut(name: &Name) -> [u8; uapi::COMM_LEN] {
    let mut comm = [0; uapi::COMM_LEN];
    let room = comm.iter_mut().take(uapi::COMM_LEN - 1);
    for (to, from) in room.zip(name.as_bytes()) {
        *to = *from;
    }
    comm
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A double of `/proc`, 1000 s after the start of the machine.
    pub(crate) fn proc() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("uptime"), "1000.00 900.00\n").expect("a file");
        folder
    }

    /// A process in it that started then, in seconds.
    pub(crate) fn process(proc: &Path, pid: i32, name: &[u8], start_s: u64) {
        let folder = proc.join(pid.to_string());
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("comm"), [name, b"\n"].concat()).expect("a file");
        let begin = [format!("{pid} (").as_bytes(), name].concat();
        let zeros = "0 ".repeat(STARTTIME - 1);
        let rest = format!(") S {zeros}{} 0 0\n", start_s * 100);
        fs::write(folder.join("stat"), [&begin, rest.as_bytes()].concat()).expect("a file");
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn name_is_the_present_one_of_the_same_process_and_else_the_kernels() {
        let proc = proc();
        let processes = Processes::below(proc.path());
        let present = |pid| processes.present(pid, b"first\0", 500 * S, 600 * S);
        assert_eq!(present(7), "first");
        for name in [
            &b"second"[..],
            b"ray::IDLE",
            b") S 1 (",
            b"a\nb\n",
            b"\xff\x1b",
            b"",
        ] {
            process(proc.path(), 7, name, 899);
            assert_eq!(present(7), Name::from(name));
        }
        // A client of 100 s: a process of 90 s is a later one of this number.
        process(proc.path(), 7, b"later", 910);
        assert_eq!(present(7), "first");
        // Without its time of start.
        fs::write(proc.path().join("7/stat"), "7 (later").expect("a file");
        assert_eq!(present(7), "first");
        process(proc.path(), 0, b"hidden", 1);
        assert_eq!(present(0), "first");
        process(proc.path(), 7, b"second", 1);
        fs::remove_file(proc.path().join("uptime")).expect("a file");
        assert_eq!(present(7), "first");
    }

    #[test]
    fn clients_get_present_names_of_at_most_15_bytes() {
        let proc = proc();
        process(proc.path(), 7, b"second", 1);
        process(proc.path(), 8, b"kworker/u16:1-events", 1);
        let client = |pid| uapi::Client {
            pid,
            comm: cut(&"first".into()),
            ..Default::default()
        };
        let mut snapshot = Snapshot {
            clients: vec![client(7), client(8), client(9)],
            ..Default::default()
        };
        Processes::below(proc.path()).rename(std::slice::from_mut(&mut snapshot));
        let names: Vec<Name> = snapshot
            .clients
            .iter()
            .map(|one| names::text(&one.comm))
            .collect();
        assert_eq!(
            names,
            ["second", "kworker/u16:1-e", "first"].map(Name::from)
        );
    }

    #[test]
    fn own_process_has_the_name_that_it_gave_itself() {
        let (processes, pid) = (Processes::default(), std::process::id());
        let pid = i32::try_from(pid).expect("a number of a process");
        let now = || {
            let text = fs::read_to_string("/proc/uptime").expect("a file");
            let seconds: f64 = text
                .split(' ')
                .next()
                .expect("a time")
                .parse()
                .expect("a time");
            (seconds * 1e9) as u64
        };
        let now_ns = now();
        let name = processes.name(pid).expect("a name");
        assert_eq!(processes.present(pid, b"first", now_ns, now_ns), name);
        assert!(processes.all().contains(&pid));
        // A client that is older than this process.
        assert_eq!(processes.present(pid, b"first", 0, u64::MAX), "first");
    }

    #[test]
    fn executable_that_was_removed_or_replaced_keeps_its_path() {
        let proc = proc();
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let runs = |pid: i32, target: &Path| {
            process(proc.path(), pid, b"x", 1);
            symlink(target, proc.path().join(pid.to_string()).join("exe")).expect("a link");
        };
        let executable = |pid| Processes::below(proc.path()).executable(pid).ok();
        runs(1, &path("prog"));
        runs(2, &path("prog (deleted)"));
        runs(3, &path("named (deleted)"));
        fs::write(path("named (deleted)"), "").expect("a file");
        runs(4, &path("twice (deleted) (deleted)"));
        assert_eq!(executable(1), Some(path("prog")));
        assert_eq!(executable(2), Some(path("prog")));
        // Another file in its place makes no difference.
        fs::write(path("prog"), "").expect("a file");
        assert_eq!(executable(2), Some(path("prog")));
        assert_eq!(executable(3), Some(path("named (deleted)")));
        assert_eq!(executable(4), Some(path("twice (deleted)")));
        assert_eq!(executable(5), None);
    }

    #[test]
    fn executable_of_a_real_process_is_known_after_its_file_was_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a: \u{202e}b");
        // By another process: one of a test beside this one would inherit the open file, and a file
        // that is open for writing cannot be run.
        let copied = std::process::Command::new("cp")
            .arg("/bin/sh")
            .arg(&path)
            .status();
        assert!(copied.expect("cp").success());
        let mut child = std::process::Command::new(&path)
            .args(["-c", "read line"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("a process");
        let pid = i32::try_from(child.id()).expect("a number of a process");
        let processes = Processes::default();
        let there = processes.executable(pid);
        fs::remove_file(&path).expect("removed");
        let gone = processes.executable(pid);
        child.kill().expect("a process");
        child.wait().expect("a process");
        assert_eq!(there.expect("a path"), path);
        assert_eq!(gone.expect("a path"), path);
    }
}
