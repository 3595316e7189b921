// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga run`: a command with a setting of its own.

use super::{set, Failure};
use crate::cli;
use crate::control::{Calls, Control};
use loga::uapi;
use std::io;
use std::process::Command;

/// Exit status if the command was not started, as of `env` and `timeout`.
pub const NOT_STARTED: u8 = 125;

/// Sets for this process, then lets `start` put the command in its place, which only returns if
/// that failed. Returns the exit status and why.
pub fn run(
    arguments: &cli::Run,
    control: &Control<impl Calls>,
    start: impl FnOnce(&mut Command) -> io::Error,
) -> (u8, Failure) {
    let [program, rest @ ..] = arguments.command.as_slice() else {
        let line = "want a command to run".to_string();
        return (NOT_STARTED, Failure::Said(line));
    };
    let wanted = set::change(&arguments.change).map(|change| uapi::SetShare {
        gpu: arguments.gpu.unwrap_or(uapi::ALL_GPUS),
        subject: uapi::SUBJECT_PROCESS,
        // The caller itself: the command inherits the process, and with it the setting.
        id: 0,
        ..change
    });
    let done = wanted.and_then(|wanted| Ok(control.set_share(&wanted)?));
    if let Err(failure) = done {
        return (NOT_STARTED, failure);
    }
    let error = start(Command::new(program).args(rest));
    let status = match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    let line = format!("cannot run {}: {error}", program.to_string_lossy());
    (status, Failure::Said(line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;

    fn arguments(line: &str) -> cli::Run {
        let line = format!("loga run {line}");
        let arguments = <cli::Arguments as clap::Parser>::parse_from(line.split(' '));
        match arguments.command {
            cli::Command::Run(run) => run,
            other => panic!("not run: {other:?}"),
        }
    }

    #[test]
    fn setting_is_in_place_when_the_command_starts() {
        let fake = FakeKernel::new(1);
        let wanted = arguments("--weight 300 --limit 50 -- throttle --seconds 3");
        let mut started = String::new();
        run(&wanted, &Control::over(&fake), |command| {
            let share = fake.gpus.borrow()[0].shares[0];
            assert_eq!((share.weight, share.limit_pct), (300, 50));
            assert_eq!((share.subject, share.id), (uapi::SUBJECT_PROCESS, 0));
            started = format!("{command:?}");
            io::ErrorKind::NotFound.into()
        });
        assert_eq!(started, r#""throttle" "--seconds" "3""#);
    }

    #[test]
    fn command_that_cannot_run_has_the_status_of_env() {
        let fake = FakeKernel::new(1);
        let wanted = arguments("--weight 300 no-such-program");
        let (status, failure) = run(&wanted, &Control::over(&fake), |_| {
            io::ErrorKind::NotFound.into()
        });
        assert_eq!(status, 127);
        assert!(failure
            .to_string()
            .starts_with("cannot run no-such-program: "));
        let (status, _) = run(&wanted, &Control::over(&fake), |_| {
            io::ErrorKind::PermissionDenied.into()
        });
        assert_eq!(status, 126);
    }

    #[test]
    fn command_is_not_started_if_the_setting_is_refused() {
        let fake = FakeKernel::new(1);
        fake.drop_privileges();
        let never = |_: &mut Command| -> io::Error { panic!("started") };
        let (status, failure) = run(&arguments("--weight 3 true"), &Control::over(&fake), never);
        assert_eq!(status, NOT_STARTED);
        assert!(failure.to_string().contains("is for root"));
        let (status, failure) = run(&arguments("true"), &Control::over(&fake), never);
        assert_eq!(status, NOT_STARTED);
        assert!(failure.to_string().starts_with("nothing to set"));
    }
}
