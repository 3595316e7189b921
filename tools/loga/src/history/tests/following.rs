// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Runs that the agent follows on a double of the kernel, and the socket.

use super::key;
use crate::control::Control;
use crate::error::Error;
use crate::export::reading::Reading;
use crate::fake::FakeKernel;
use crate::history::ask::{ask, connect, exe, Answer, Heard};
use crate::history::keeper::{Answers, Keeper, Peer};
use crate::history::record::{OnModel, Run};
use crate::history::runs::EVENTS;
use crate::history::server;
use crate::history::table::{Exe, Key};
use loga::knobs::Config;
use loga::policies::PolicyKind;
use loga::uapi;
use loga::uapi::Event;
use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use tempfile::TempDir;

pub(super) const MS: u64 = 1_000_000;

/// An agent with a double of the kernel that has one GPU, and a double of /proc with one process of
/// the caller.
pub(super) struct Agent<'a> {
    pub(super) keeper: Keeper<&'a FakeKernel>,
    fake: &'a FakeKernel,
    folder: TempDir,
    sequence: u64,
}

/// The process of the double of /proc.
const PID: i32 = 4242;

/// The user that runs the tests.
pub(super) fn uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

impl<'a> Agent<'a> {
    pub(super) fn new(fake: &'a FakeKernel) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let process = folder.path().join("proc").join(PID.to_string());
        fs::create_dir_all(&process).expect("a folder");
        symlink("/bin/sh", process.join("exe")).expect("a link");
        let (keeper, said) = Keeper::new(folder.path(), &folder.path().join("proc"));
        assert_eq!(said, None);
        let mut agent = Self {
            keeper,
            fake,
            folder,
            sequence: 0,
        };
        agent.see();
        agent
    }

    /// A socket on which it answers.
    pub(super) fn socket(&self) -> PathBuf {
        let path = self.folder.path().join("socket");
        if !path.exists() {
            server::start(&path, self.keeper.answers()).expect("a socket");
        }
        path
    }

    /// Gives events to the double, then hears them and reads snapshots.
    pub(super) fn tick(&mut self, events: Vec<Event>) {
        self.fake.events.borrow_mut().push_back(events);
        self.keeper.hear();
        self.see();
    }

    fn see(&mut self) {
        let fake = self.fake;
        let readings = Reading::of_all(&Control::over(fake)).expect("readings");
        self.keeper.see(Some(&readings));
        self.keeper.listen(&|| Ok(Control::over(fake)));
    }

    pub(super) fn event(&mut self, kind: u32, at_ms: u64, client: u64, value: u64) -> Event {
        self.sequence += 1;
        Event {
            time_ns: at_ms * MS,
            sequence: self.sequence - 1,
            client,
            kind,
            pid: PID,
            uid: uid(),
            value,
            ..Event::default()
        }
    }

    /// A client as of a time.
    pub(super) fn client(&self, id: u64, at_ms: u64, gpu_ms: u64, waited_ms: u64) {
        let gpu = &mut self.fake.gpus.borrow_mut()[0];
        gpu.info.now_ns = at_ms * MS;
        gpu.clients.retain(|client| client.id != id);
        gpu.clients.push(uapi::Client {
            id,
            pid: PID,
            uid: uid(),
            since_ns: 1000 * MS,
            gpu_time_ns: gpu_ms * MS,
            waited_ns: waited_ms * MS,
            limit_pct: 100,
            ..Default::default()
        });
    }

    pub(super) fn gone(&self) {
        self.fake.gpus.borrow_mut()[0].clients.clear();
    }

    /// The only record.
    pub(super) fn model(&self) -> OnModel {
        let history = self.keeper.history();
        let records: Vec<_> = history.all().collect();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].1.models.len(), 1);
        records[0].1.models[0].clone()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keeper.history().all().count() == 0
    }
}

fn shell() -> Exe {
    exe("/bin/sh".as_ref()).expect("a shell")
}

pub(super) fn kernel() -> FakeKernel {
    let fake = FakeKernel::new(1);
    {
        let gpu = &mut fake.gpus.borrow_mut()[0].info;
        gpu.chipset = 0xf1;
        gpu.note(&Config {
            policy: PolicyKind::MaxMin,
            enforce: true,
            ..Config::default()
        });
    }
    fake
}

#[test]
fn run_has_the_gpu_time_of_its_exit_and_waited_as_the_last_snapshot_goes_on() {
    let fake = kernel();
    let mut agent = Agent::new(&fake);
    agent.client(7, 2000, 300, 400);
    fake.gpus.borrow_mut()[0].clients[0].waited_2s_ppm = 500_000;
    agent.tick(Vec::new());
    assert_eq!(fake.subscribed.get(), Some((uapi::ALL_GPUS, EVENTS)));
    agent.gone();
    let exit = agent.event(uapi::EVENT_EXITED, 2400, 7, 500 * MS);
    agent.tick(vec![exit]);
    let model = agent.model();
    assert_eq!(model.chip, 0xf1);
    assert_eq!(model.gpu.mean, 500 * MS);
    // 400 ms at the snapshot, and half of the 400 ms since.
    assert_eq!(model.waited.mean, 600 * MS);
    assert_eq!(model.time.mean, 800 * MS);
    assert_eq!(
        (model.under.policy.as_str(), model.under.limit_pct),
        ("maxmin", 100)
    );
    let key = agent
        .keeper
        .history()
        .all()
        .next()
        .map(|(key, _)| key.clone());
    let (exe, name) = (shell(), String::new());
    assert_eq!(
        key,
        Some(Key {
            uid: uid(),
            exe,
            name
        })
    );
}

#[test]
fn run_between_two_snapshots_has_what_events_tell() {
    let fake = kernel();
    let mut agent = Agent::new(&fake);
    agent.tick(Vec::new());
    let both = |agent: &mut Agent<'_>, throttled: bool| {
        let mut events = vec![agent.event(uapi::EVENT_APPEARED, 1000, 7, 0)];
        if throttled {
            events.push(agent.event(uapi::EVENT_THROTTLED, 1100, 7, 0));
        }
        events.push(agent.event(uapi::EVENT_EXITED, 1300, 7, 60 * MS));
        events
    };
    let events = both(&mut agent, false);
    agent.tick(events);
    let model = agent.model();
    assert_eq!((model.gpu.mean, model.time.mean), (60 * MS, 300 * MS));
    assert_eq!(model.want.mean, 200_000);
    // Throttled, or beside another client: nothing tells for how long it waited.
    let events = both(&mut agent, true);
    agent.tick(events);
    assert_eq!((agent.model().gpu.runs, agent.model().time.runs), (2, 1));
    let mut other = crate::placing::tests::client(99, 40);
    other.uid = uid() + 1;
    fake.gpus.borrow_mut()[0].hidden.push(other);
    agent.see();
    let events = both(&mut agent, false);
    agent.tick(events);
    assert_eq!((agent.model().gpu.runs, agent.model().time.runs), (3, 1));
}

#[test]
fn run_during_which_policy_or_limit_changed_has_no_time() {
    for change in ["policy", "limit"] {
        let fake = kernel();
        let mut agent = Agent::new(&fake);
        agent.client(7, 2000, 300, 0);
        agent.tick(Vec::new());
        agent.client(7, 3000, 300, 0);
        {
            let gpu = &mut fake.gpus.borrow_mut()[0];
            match change {
                "limit" => gpu.clients[0].limit_pct = 40,
                _ => gpu.info.note(&Config::default()),
            }
        }
        agent.tick(Vec::new());
        let exit = agent.event(uapi::EVENT_EXITED, 3400, 7, 500 * MS);
        agent.tick(vec![exit]);
        let model = agent.model();
        assert_eq!((model.time.runs, model.want.runs), (0, 1), "{change}");
    }
}

#[test]
fn lost_exit_counts_with_the_figures_of_the_last_snapshot() {
    let fake = kernel();
    let mut agent = Agent::new(&fake);
    agent.client(7, 2000, 300, 400);
    let some = agent.event(uapi::EVENT_THROTTLED, 1100, 7, 0);
    agent.tick(vec![some]);
    agent.gone();
    // Its event may still come.
    agent.see();
    assert!(agent.is_empty());
    agent.sequence += 3;
    let other = agent.event(uapi::EVENT_THROTTLED, 2500, 8, 0);
    agent.tick(vec![other]);
    let model = agent.model();
    assert_eq!((model.gpu.mean, model.time.mean), (300 * MS, 600 * MS));
}

#[test]
fn client_that_is_gone_while_no_event_was_lost_was_not_seen_to_exit() {
    let fake = kernel();
    let mut agent = Agent::new(&fake);
    agent.client(7, 2000, 300, 400);
    agent.tick(Vec::new());
    agent.gone();
    agent.see();
    agent.see();
    let exit = agent.event(uapi::EVENT_EXITED, 2400, 7, 500 * MS);
    agent.tick(vec![exit]);
    assert!(agent.is_empty());
}

#[test]
fn kernel_module_that_goes_away_ends_no_run_and_is_not_kept_open() {
    let fake = kernel();
    let mut agent = Agent::new(&fake);
    agent.client(7, 2000, 300, 400);
    agent.tick(Vec::new());
    agent.keeper.see(None);
    fake.subscribed.set(None);
    // As long as it does not answer, nothing opens it.
    agent
        .keeper
        .listen(&|| -> Result<Control<&FakeKernel>, Error> { panic!("opened") });
    let exit = agent.event(uapi::EVENT_EXITED, 2400, 7, 500 * MS);
    fake.events.borrow_mut().push_back(vec![exit]);
    agent.keeper.hear();
    assert_eq!(fake.events.borrow().len(), 1);
    agent.gone();
    agent.see();
    assert!(fake.subscribed.get().is_some());
    agent.keeper.hear();
    assert!(fake.events.borrow().is_empty());
    assert!(agent.is_empty());
}

#[test]
fn program_that_never_ran_or_is_not_known_is_not_kept() {
    let fake = kernel();
    let mut agent = Agent::new(&fake);
    agent.client(7, 2000, 0, 0);
    agent.client(8, 2000, 300, 0);
    fake.gpus.borrow_mut()[0].clients[1].uid = uid() + 1;
    agent.client(9, 2000, 300, 0);
    fake.gpus.borrow_mut()[0].clients[2].pid = 4243;
    agent.tick(Vec::new());
    let exits = [(7, 0), (8, 300), (9, 300)];
    let exits = exits.map(|(id, ms)| agent.event(uapi::EVENT_EXITED, 2400, id, ms * MS));
    agent.tick(exits.to_vec());
    assert!(agent.is_empty());
}

#[test]
fn process_that_says_what_it_becomes_is_that_program() {
    let fake = kernel();
    let mut agent = Agent::new(&fake);
    let heard = ask(&agent.socket(), Some(key(0, 5).exe), "train", true);
    assert!(matches!(heard, Heard::Answer(_)), "{heard:?}");
    agent.client(7, 2000, 300, 0);
    fake.gpus.borrow_mut()[0].clients[0].pid = std::process::id() as i32;
    agent.tick(Vec::new());
    let exit = agent.event(uapi::EVENT_EXITED, 2400, 7, 300 * MS);
    agent.tick(vec![exit]);
    let history = agent.keeper.history();
    assert!(history
        .record(uid(), Some(key(0, 5).exe), "train")
        .is_some());
    // What another user says of a process does not count: the number was that user's before.
    let peer = Peer {
        pid: i32::try_from(std::process::id()).expect("a number"),
        uid: uid() + 1,
    };
    let line =
        br#"{"version":1,"exe":{"device":1,"inode":66,"mtime_ns":0},"name":"","starts":true}"#;
    assert_eq!(agent.keeper.answers().to(peer, line).error, None);
    agent.gone();
    agent.client(8, 3000, 300, 0);
    fake.gpus.borrow_mut()[0].clients[0].pid = peer.pid;
    agent.tick(Vec::new());
    let exit = agent.event(uapi::EVENT_EXITED, 3400, 8, 300 * MS);
    agent.tick(vec![exit]);
    assert_eq!(agent.keeper.history(), history);
}

#[test]
fn user_gets_its_own_records_only() {
    let fake = kernel();
    let agent = Agent::new(&fake);
    let run: Run = super::run(0xf1, 300, 1000, 0);
    let of = |uid: u32| (0..3).map(move |_| key(uid, 5));
    let two = of(uid()).chain(of(uid() + 1));
    agent.keeper.teach(two.map(|key| (key, run.clone())));
    let line =
        br#"{"version":1,"exe":{"device":1,"inode":5,"mtime_ns":-5},"name":"","starts":false}"#;
    let answers = agent.keeper.answers();
    let to = |uid: u32| answers.to(Peer { pid: 1, uid }, line);
    assert_eq!(to(uid()).record.map(|record| record.runs()), Some(3));
    assert_eq!(to(uid()).typical_ns, Some(1000 * MS));
    let stranger = to(uid() + 2);
    assert_eq!(
        (stranger.record, stranger.typical_ns, stranger.error),
        (None, None, None)
    );
    // The kernel says which user asks.
    let Heard::Answer(answer) = ask(&agent.socket(), Some(key(0, 5).exe), "", false) else {
        panic!("no answer");
    };
    assert_eq!(answer.record.map(|record| record.runs()), Some(3));
}

#[test]
fn question_that_is_none_is_refused_with_the_reason() {
    let answers = Answers::default();
    let to = |line: &[u8]| -> String {
        let Answer { error, .. } = answers.to(Peer { pid: 1, uid: 1 }, line);
        error.expect("refused")
    };
    assert!(to(b"").starts_with("not a question: "));
    assert!(to(b"\xff").starts_with("not a question: "));
    let said = to(br#"{"version":9,"exe":null,"name":"","starts":false}"#);
    assert_eq!(said, "a question of version 9: want 1");
    let said = to(br#"{"version":1,"exe":null,"name":"a\u0000","starts":false}"#);
    assert_eq!(said, "name: want 1 to 64 bytes without control characters");
}

#[test]
fn client_that_sends_nothing_delays_the_others_of_its_user_for_a_moment() {
    let fake = kernel();
    let agent = Agent::new(&fake);
    let socket = agent.socket();
    let mut slow = UnixStream::connect(&socket).expect("connected");
    slow.write_all(b"{").expect("sent");
    let heard = ask(&socket, None, "x", false);
    assert!(matches!(heard, Heard::Answer(_)), "{heard:?}");
    let silent = ask("/nonexistent".as_ref(), None, "x", false);
    let Heard::Silent(why) = silent else {
        panic!("{silent:?}");
    };
    assert!(
        why.starts_with("no agent answers at /nonexistent: "),
        "{why}"
    );
}

#[test]
fn agent_that_is_stopped_holds_up_no_command() {
    use nix::sys::socket::{bind, listen, socket, AddressFamily, SockFlag, SockType, UnixAddr};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let none = SockFlag::empty();
    let file = socket(AddressFamily::Unix, SockType::Stream, none, None).expect("a socket");
    let address = UnixAddr::new(&path).expect("an address");
    bind(file.as_raw_fd(), &address).expect("bound");
    listen(&file, nix::sys::socket::Backlog::new(1).expect("one")).expect("listens");
    let mut waiting = Vec::new();
    let full = (0..8).find_map(|_| match connect(&path) {
        Ok(stream) => {
            waiting.push(stream);
            None
        }
        Err(error) => Some(error.kind()),
    });
    assert_eq!(full, Some(std::io::ErrorKind::WouldBlock));
    assert!(!waiting.is_empty());
    assert!(matches!(ask(&path, None, "x", false), Heard::Silent(_)));
}

#[test]
fn history_outlives_the_agent() {
    let fake = kernel();
    let mut agent = Agent::new(&fake);
    assert_eq!(agent.keeper.save(), None);
    assert!(!agent.folder.path().join("history.json").exists());
    agent.keeper.teach([(key(1, 1), super::run(0xf1, 1, 2, 0))]);
    assert_eq!(agent.keeper.save(), None);
    let again = Keeper::<&FakeKernel>::new(agent.folder.path(), "/proc".as_ref()).0;
    assert_eq!(again.history(), agent.keeper.history());
    // A folder that is gone is said once.
    fs::remove_dir_all(agent.folder.path()).expect("removed");
    agent.keeper.teach([(key(1, 2), super::run(0xf1, 1, 2, 0))]);
    let said = agent.keeper.save().expect("a line");
    assert!(said.starts_with("history: cannot write in "), "{said}");
    assert_eq!(agent.keeper.save(), None);
}
