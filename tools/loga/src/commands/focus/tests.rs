// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Which processes are raised, and what a real X server and window manager say.

use super::*;
use crate::fake::FakeKernel;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{AtomEnum, ClientMessageEvent, ConnectionExt, EventMask, Window};
use x11rb::rust_connection::RustConnection;

const USER: u32 = 1000;

fn arguments(line: &str) -> cli::Focus {
    let line = format!("loga agent focus {line}");
    let arguments = <cli::Arguments as clap::Parser>::try_parse_from(line.split_whitespace());
    match arguments.expect("arguments").command {
        cli::Command::Agent(cli::Agent {
            what: cli::AgentKind::Focus(focus),
        }) => focus,
        other => panic!("{other:?}"),
    }
}

/// Process 101 has the child 102, which has the child 103.
fn family(pid: i32) -> Option<i32> {
    match pid {
        102 | 103 => Some(pid - 1),
        _ => Some(1),
    }
}

/// A GPU with a client of each of these processes.
fn gpu(pids: &[i32]) -> FakeKernel {
    let fake = FakeKernel::new(1);
    for pid in pids {
        fake.processes.borrow_mut().push(*pid);
        fake.add_client(0, pid.unsigned_abs().into(), USER);
        let gpu = &mut fake.gpus.borrow_mut()[0];
        let client = gpu.clients.last_mut().expect("a client");
        (client.pid, client.spec) = (*pid, uapi::NO_SPEC);
    }
    fake
}

/// Follows, and returns what was said and the processes with a spec.
fn follow(focus: &mut Focus<'_>, fake: &FakeKernel, window: Option<i32>) -> (String, Vec<u64>) {
    let mut out = Vec::new();
    let control = Control::over(fake);
    focus
        .follow(&control, window, family, &mut out)
        .expect("follows");
    let gpu = &mut fake.gpus.borrow_mut()[0];
    for client in &mut gpu.clients {
        let same = |one: &&uapi::ListedSpec| one.spec.id == u64::from(client.pid.unsigned_abs());
        match gpu.specs.iter().find(same) {
            Some(one) => {
                (client.spec, client.prio) = (one.spec.subject, one.spec.prio);
                (client.mode, client.reserve) = (one.spec.mode, one.spec.kind);
            }
            None if client.spec == uapi::SUBJECT_PROCESS => client.spec = uapi::NO_SPEC,
            None => {}
        }
    }
    let mut ids: Vec<u64> = gpu.specs.iter().map(|one| one.spec.id).collect();
    ids.sort_unstable();
    (String::from_utf8(out).expect("text"), ids)
}

#[test]
fn clients_of_the_window_and_its_descendants_are_raised_and_no_others() {
    let fake = gpu(&[101, 103, 200]);
    let arguments = arguments("");
    let mut focus = Focus::new(&arguments, USER);
    let (said, ids) = follow(&mut focus, &fake, Some(101));
    assert_eq!(ids, [101, 103]);
    assert_eq!(
        said,
        "GPU 0: 101 \"\": priority 20\nGPU 0: 103 \"\": priority 20\n"
    );
    let spec = fake.gpus.borrow()[0].specs[0].spec;
    assert_eq!(
        (spec.prio, spec.mode, spec.lease_ms),
        (20, uapi::MODE_PRT, 5_000)
    );
    // It is renewed without a word.
    assert_eq!(
        follow(&mut focus, &fake, Some(101)),
        (String::new(), vec![101, 103])
    );
    let (said, ids) = follow(&mut focus, &fake, Some(102));
    assert_eq!(
        (said.as_str(), ids),
        ("GPU 0: 101 \"\": no longer raised\n", vec![103])
    );
    let (_, ids) = follow(&mut focus, &fake, None);
    assert!(ids.is_empty());
}

#[test]
fn clients_of_other_users_and_those_with_a_spec_stay_as_they_are() {
    let fake = gpu(&[101, 102, 103]);
    {
        let clients = &mut fake.gpus.borrow_mut()[0].clients;
        clients[0].uid = 7;
        clients[1].spec = uapi::SUBJECT_CGROUP;
    }
    let arguments = arguments("--prio 30 --mode protected");
    let mut focus = Focus::new(&arguments, USER);
    let (_, ids) = follow(&mut focus, &fake, Some(101));
    assert_eq!(ids, [103]);
    let spec = fake.gpus.borrow()[0].specs[0].spec;
    assert_eq!((spec.prio, spec.mode), (30, uapi::MODE_PROTECTED));
    // An administrator sets something else for it, of the same priority: that stays.
    {
        let gpu = &mut fake.gpus.borrow_mut()[0];
        gpu.specs[0].spec.kind = uapi::RESERVE_PE;
        gpu.clients[2].reserve = uapi::RESERVE_PE;
    }
    for window in [Some(101), Some(101), None] {
        follow(&mut focus, &fake, window);
        let specs = &fake.gpus.borrow()[0].specs;
        assert!(specs.len() == 1, "{specs:?}");
        assert!(specs[0].spec.kind == uapi::RESERVE_PE, "{specs:?}");
    }
}

#[test]
fn spec_on_another_gpu_stays() {
    let fake = FakeKernel::new(2);
    fake.processes.borrow_mut().push(101);
    for gpu in 0..2 {
        fake.add_client(gpu, 1, USER);
        let client = &mut fake.gpus.borrow_mut()[gpu].clients[0];
        (client.pid, client.spec) = (101, uapi::NO_SPEC);
    }
    fake.gpus.borrow_mut()[1].clients[0].spec = uapi::SUBJECT_USER;
    let arguments = arguments("");
    let mut focus = Focus::new(&arguments, USER);
    let (said, ids) = follow(&mut focus, &fake, Some(101));
    assert_eq!(
        (said.as_str(), ids),
        ("GPU 0: 101 \"\": priority 20\n", vec![101])
    );
    assert!(fake.gpus.borrow()[1].specs.is_empty());
}

#[test]
fn window_with_many_processes_takes_few_specs() {
    let pids: Vec<i32> = (300..340).collect();
    let fake = gpu(&pids);
    let arguments = arguments("");
    let mut focus = Focus::new(&arguments, USER);
    let mut out = Vec::new();
    let control = Control::over(&fake);
    let all = |pid| (pid != 101).then_some(101);
    focus
        .follow(&control, Some(101), all, &mut out)
        .expect("follows");
    assert_eq!(fake.gpus.borrow()[0].specs.len(), MOST_RAISED);
}

#[test]
fn process_that_has_ended_is_told_and_not_kept() {
    let fake = gpu(&[101]);
    fake.processes.borrow_mut().clear();
    let arguments = arguments("");
    let mut focus = Focus::new(&arguments, USER);
    let (said, ids) = follow(&mut focus, &fake, Some(101));
    assert!(said.contains("there is no process 101"), "{said}");
    assert!(ids.is_empty(), "{said}");
    assert!(focus.raised.is_empty());
    assert_eq!(follow(&mut focus, &fake, Some(101)).0, "");
}

#[test]
fn server_that_is_not_there_is_named() {
    let said = Display::open(Some(":4711")).err().expect("no server");
    assert!(
        said.starts_with("no connection to the X server :4711: "),
        "{said}"
    );
}

/// A program that ends with the test.
struct Program(Child);

impl Program {
    fn start(line: &str, display: &str) -> Self {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().expect("a program"));
        command.args(words).env("DISPLAY", display);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap_or_else(|error| {
            panic!("{line}: {error}: `tests/vm/setup --tests` installs it")
        }))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a number of a process")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A list of windows that the window manager keeps on the root window.
fn windows(connection: &RustConnection, root: Window, name: &str) -> Vec<Window> {
    let atom = connection
        .intern_atom(false, name.as_bytes())
        .expect("a request");
    let atom = atom.reply().expect("an atom").atom;
    let asked = connection.get_property(false, root, atom, AtomEnum::WINDOW, 0, 64);
    let reply = asked.expect("a request").reply().expect("a property");
    reply.value32().map(Iterator::collect).unwrap_or_default()
}

/// Asks the window manager for the focus, as a task bar does.
fn give_focus(connection: &RustConnection, root: Window, window: Window) {
    let atom = connection
        .intern_atom(false, b"_NET_ACTIVE_WINDOW")
        .expect("a request");
    let atom = atom.reply().expect("an atom").atom;
    let message = ClientMessageEvent::new(32, window, atom, [2, x11rb::CURRENT_TIME, 0, 0, 0]);
    let mask = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
    connection
        .send_event(false, root, mask, message)
        .expect("a request");
    connection.flush().expect("sent");
}

#[test]
fn process_of_the_focused_window_is_found_with_a_real_window_manager() {
    // TIMEOUT: of each wait below; ends a test that hangs.
    let most = Duration::from_secs(300);
    let mut server = Program::start("Xvfb -displayfd 1 -screen 0 640x480x24 -nolisten tcp", "");
    let mut number = [0; 16];
    let count = server
        .0
        .stdout
        .as_mut()
        .expect("a pipe")
        .read(&mut number)
        .expect("a display");
    let name = format!(":{}", String::from_utf8_lossy(&number[..count]).trim());
    let display = Display::open(Some(&name)).expect("a server");
    assert_eq!(display.focused_process().expect("an answer"), None);
    let _manager = Program::start("openbox --sm-disable", &name);
    let programs = ["xlogo", "xlogo"].map(|line| Program::start(line, &name));
    let (connection, screen) = RustConnection::connect(Some(&name)).expect("a server");
    let root = connection.setup().roots[screen].root;
    let end = Instant::now() + most;
    while windows(&connection, root, "_NET_CLIENT_LIST").len() < 2 {
        assert!(Instant::now() < end, "no windows");
        display.wait(Duration::from_millis(100)).expect("a server");
    }
    let mut seen = Vec::new();
    for window in windows(&connection, root, "_NET_CLIENT_LIST") {
        let is_active = || windows(&connection, root, "_NET_ACTIVE_WINDOW") == [window];
        let end = Instant::now() + most;
        // The window manager gives the focus to a window that it has just mapped, maybe after this.
        let process = loop {
            give_focus(&connection, root, window);
            display.wait(Duration::from_millis(100)).expect("a server");
            let process = is_active().then(|| display.focused_process().expect("an answer"));
            if let Some(process) = process.filter(|_| is_active()) {
                break process;
            }
            assert!(Instant::now() < end, "no focus");
        };
        seen.push(process);
    }
    let [one, other] = &seen[..] else {
        panic!("{seen:?}");
    };
    let (focused, rest) = match programs {
        [a, b] if Some(a.pid()) == *other => (a, b),
        [a, b] => (b, a),
    };
    assert_eq!((Some(rest.pid()), Some(focused.pid())), (*one, *other));
    // A wait ends when the focus changes.
    drop(focused);
    assert!(display.wait(most).expect("a server"), "no change");
    // The window manager may have taken it from the one long before it gives it to the other.
    let end = Instant::now() + most;
    while display.focused_process().expect("an answer") != *one {
        assert!(Instant::now() < end, "no focus");
        display.wait(Duration::from_millis(100)).expect("a server");
    }
    drop(rest);
    // The server may notice the end of its connection a little later.
    let end = Instant::now() + most;
    while display.focused_process().expect("an answer").is_some() {
        assert!(Instant::now() < end, "a window of a program that has ended");
        display.wait(Duration::from_millis(100)).expect("a server");
    }
    drop(server);
    assert!(display.focused_process().is_err());
}
