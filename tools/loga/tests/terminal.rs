// SPDX-License-Identifier: GPL-2.0

//! `loga top` on a pseudo-terminal, below a shell that controls jobs: what it leaves of the terminal
//! however it ends, and what it draws on small and simple ones. It runs in a process of this program,
//! over a double of the kernel module. Pipes that are closed are here too.

#[path = "terminal/double.rs"]
mod double;
#[path = "terminal/pty.rs"]
mod pty;

use double::{OneGpu, PANIC};
use loga_cli::cli;
use loga_cli::commands::top;
use loga_cli::control::Control;
use loga_cli::directory::Directory;
use loga_cli::terminal::Terminal;
use nix::fcntl::OFlag;
use nix::sys::signal::{killpg, Signal};
use nix::unistd::pipe2;
use pty::Pty;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

const LOGA: &str = env!("CARGO_BIN_EXE_loga");

/// Set for the process that is `loga top`.
const IS_TOP: &str = "LOGA_TEST_IS_TOP";

/// `loga top` in a process of its own.
#[test]
#[ignore = "the others run it, on terminals of their own"]
fn loga_top() {
    if std::env::var_os(IS_TOP).is_none() {
        return;
    }
    let arguments = cli::Top {
        gpu: None,
        interval: Duration::from_millis(50),
        json: false,
        times: None,
    };
    let control = Control::over(OneGpu::default());
    let terminal = Terminal::of_stdout();
    let mut out = std::io::stdout();
    let ended = top::run(
        &arguments,
        &control,
        Directory::default(),
        terminal,
        &mut out,
    );
    if let Err(failure) = ended {
        let _ = writeln!(std::io::stderr(), "loga: {failure}");
        std::process::exit(1);
    }
}

/// The words that run [`loga_top`].
fn words() -> Vec<String> {
    let program = std::env::current_exe().expect("a path");
    let program = program.to_str().expect("text").to_string();
    let options = [
        "--exact",
        "loga_top",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ];
    std::iter::once(program)
        .chain(options.map(str::to_string))
        .collect()
}

/// A command without a locale, on a terminal of this kind.
fn on(program: &str, kind: &str) -> Command {
    let mut command = Command::new(program);
    for name in ["LC_ALL", "LC_CTYPE", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
        .env(IS_TOP, "1")
        .env("TERM", kind)
        .env("LANG", "C.UTF-8")
        .env("RUST_BACKTRACE", "0");
    command
}

/// `loga top` as `"$@"` in a script of a shell that controls jobs.
fn below_a_shell(script: &str) -> Command {
    let mut command = on("setsid", "xterm");
    command
        .args(["-c", "bash", "-m", "-c", script, "bash"])
        .args(words());
    command
}

/// `loga top` alone on its terminal.
fn alone(kind: &str) -> Command {
    let mut command = on("setsid", kind);
    command.arg("-c").args(words());
    command
}

const USUAL: (u16, u16) = (80, 24);

#[test]
fn signals_end_top_as_ever_and_give_the_terminal_back() {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ] {
        let mut pty = Pty::start(alone("xterm"), USUAL);
        pty.wait_for("throttle");
        assert!(pty.is_taken_over());
        killpg(pty.job(), signal).expect("sent");
        assert_eq!(pty.end().signal(), Some(signal as i32), "{signal}");
        pty.assert_as_before(signal.as_str());
    }
}

#[test]
fn top_that_is_stopped_gives_the_terminal_back_and_draws_all_of_it_once_continued() {
    let script = r#""$@"; echo "status $?"; read line; fg; echo "then $?"; read line"#;
    for key in [None, Some("\x1a")] {
        let mut pty = Pty::start(below_a_shell(script), USUAL);
        pty.wait_for("throttle");
        match key {
            Some(key) => pty.press(key),
            None => killpg(pty.job(), Signal::SIGTSTP).expect("sent"),
        }
        pty.wait_for("status 147");
        pty.assert_as_before("stopped");
        pty.press("\n");
        pty.wait_for("loga top: clients");
        pty.wait_for("throttle");
        assert!(pty.is_taken_over());
        pty.press("q");
        pty.wait_for("then 0");
        pty.assert_as_before("quit");
        pty.press("\n");
        pty.end();
    }
}

#[test]
fn top_that_was_stopped_from_outside_takes_the_terminal_over_again() {
    let script = r#""$@"; stty sane; printf '\033[?1049l'; echo stopped; read line; fg; echo "then $?"; read line"#;
    let mut pty = Pty::start(below_a_shell(script), USUAL);
    pty.wait_for("throttle");
    killpg(pty.job(), Signal::SIGSTOP).expect("sent");
    pty.wait_for("stopped");
    pty.press("\n");
    pty.wait_for("throttle");
    assert!(pty.is_taken_over());
    pty.press("q");
    pty.wait_for("then 0");
    pty.press("\n");
    pty.end();
}

#[test]
fn panic_is_told_on_a_terminal_that_is_as_before() {
    let script = r#""$@"; echo "status $?"; read line"#;
    let mut command = below_a_shell(script);
    command.env(PANIC, "3");
    let mut pty = Pty::start(command, USUAL);
    pty.wait_for("status 101");
    pty.assert_as_before("panicked");
    let contents = pty.contents();
    assert!(contents.contains("snapshot too many"), "{contents}");
    pty.press("\n");
    pty.end();
}

#[test]
fn top_that_is_alone_on_its_terminal_is_not_stopped_for_good() {
    let mut pty = Pty::start(alone("xterm"), USUAL);
    pty.wait_for("throttle");
    pty.press("\x1a v");
    pty.wait_for("loga top: groups");
    pty.press("q");
    assert!(pty.end().success());
    pty.assert_as_before("quit");
}

#[test]
fn terminal_that_goes_away_ends_top() {
    let mut pty = Pty::start(alone("xterm"), USUAL);
    pty.wait_for("throttle");
    let status = pty.close();
    assert_eq!(status.signal(), Some(Signal::SIGHUP as i32), "{status}");
}

#[test]
fn terminal_without_a_size_is_drawn_on_as_the_usual_one() {
    let mut pty = Pty::start(alone("xterm"), (0, 0));
    pty.wait_for("throttle");
    pty.wait_for("h help");
    pty.press("q");
    assert!(pty.end().success());
}

#[test]
fn terminal_without_utf8_gets_ascii_and_no_colour_where_none_is_wanted() {
    let mut command = alone("vt100");
    command.env("LC_ALL", "C").env("NO_COLOR", "1");
    let mut pty = Pty::start(command, USUAL);
    pty.wait_for("throttle");
    pty.wait_for("SHAREv");
    pty.press("q");
    assert!(pty.end().success());
    assert!(pty.written.is_ascii());
    let written = String::from_utf8_lossy(&pty.written).into_owned();
    // Numbers of what selects a way to draw: none is that of a colour but the usual one.
    for selected in written
        .split("\x1b[")
        .skip(1)
        .filter_map(|rest| rest.split_once('m'))
    {
        let numbers = selected
            .0
            .split(';')
            .filter_map(|number| number.parse::<u8>().ok());
        let colours = numbers.filter(|number| matches!(number, 30..=38 | 40..=48 | 90..));
        assert_eq!(colours.count(), 0, "{:?}", selected.0);
    }
}

#[test]
fn terminal_that_obeys_nothing_gets_a_line_that_says_what_to_use() {
    for kind in ["dumb", ""] {
        let mut pty = Pty::start(alone(kind), USUAL);
        let status = pty.end();
        assert_eq!(status.code(), Some(1));
        let contents = pty.contents();
        assert!(contents.contains(&format!("(TERM={kind})")), "{contents}");
        assert!(contents.contains("loga stat --watch 1"), "{contents}");
        assert!(!pty.written.contains(&0x1b), "{contents}");
    }
}

#[test]
fn pipe_that_is_closed_ends_a_command_quietly_by_its_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("loga.toml");
    std::fs::write(&file, "").expect("a file");
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    drop(reader);
    let mut command = Command::new(LOGA);
    command.args(["apply", "--check"]).arg(&file);
    let output = command
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .expect("runs");
    assert_eq!(output.status.signal(), Some(Signal::SIGPIPE as i32));
    assert!(output.stderr.is_empty(), "{output:?}");
    // Nobody reads what is wrong with the arguments.
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
    drop(reader);
    let status = Command::new(LOGA).arg("wrong").stderr(writer).status();
    assert_eq!(status.expect("runs").code(), Some(2));
}
