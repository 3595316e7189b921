// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga`: asks the kernel module who uses the GPUs.

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use loga_cli::device::Device;
use loga_cli::device::Error;
use loga_cli::device::Snapshot;
use loga_cli::stat::Stat;
use loga_cli::table;
use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Longest interval of --watch, in seconds: a day.
const WATCH_MAX: f64 = 86_400.0;

/// Who uses the GPUs, and how much of them.
#[derive(Debug, Parser)]
#[command(version, name = "loga")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print what every client got.
    ///
    /// SHARE is the part of the time polled that the engine was the client's, ENTITLED what an equal
    /// division among the active clients would have given, VTIME the virtual time ahead of the
    /// system's.
    Stat(StatArguments),
}

#[derive(Args, Debug)]
struct StatArguments {
    /// Only this GPU [default: all]
    #[arg(long, value_name = "N")]
    gpu: Option<u32>,
    /// Print one JSON object per GPU and line; its members are named in docs/loga-stat-json.md
    #[arg(long)]
    json: bool,
    /// Every so many seconds, print what happened since the last time
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    watch: Option<Duration>,
    /// With --watch: stop after so many times
    #[arg(long, value_name = "N", requires = "watch")]
    times: Option<u64>,
}

fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= WATCH_MAX => {
            Ok(Duration::from_secs_f64(seconds))
        }
        Ok(_) => Err(format!("must be above 0 and at most {WATCH_MAX}")),
        Err(error) => Err(error.to_string()),
    }
}

fn main() -> ExitCode {
    let Command::Stat(arguments) = Arguments::parse().command;
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(Failure::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("loga: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Why the command ended early.
enum Failure {
    Device(Error),
    Print(io::Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Device(error) => error.fmt(f),
            Failure::Print(error) => write!(f, "cannot print: {error}"),
        }
    }
}

fn run(arguments: &StatArguments) -> Result<(), Failure> {
    let device = Device::open().map_err(Failure::Device)?;
    let take = || match arguments.gpu {
        Some(gpu) => device.snapshot(gpu).map(|one| vec![one]),
        None => device.all(),
    };
    let mut before = take().map_err(Failure::Device)?;
    let Some(interval) = arguments.watch else {
        return print(arguments, &before, &[]).map_err(Failure::Print);
    };
    let mut left = arguments.times.unwrap_or(u64::MAX);
    while left > 0 {
        std::thread::sleep(interval);
        let now = take().map_err(Failure::Device)?;
        print(arguments, &now, &before).map_err(Failure::Print)?;
        before = now;
        left = left.saturating_sub(1);
    }
    Ok(())
}

fn print(arguments: &StatArguments, now: &[Snapshot], before: &[Snapshot]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.watch.is_some() && !arguments.json && out.is_terminal() {
        // To the top left corner, and clear the screen.
        out.write_all(b"\x1b[H\x1b[2J")?;
    }
    for (i, snapshot) in now.iter().enumerate() {
        let stat = Stat::new(snapshot, before.get(i));
        if arguments.json {
            serde_json::to_writer(&mut out, &stat)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{}", table::render(&stat))?;
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_takes_fractions_and_refuses_nonsense() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "NaN", "inf", "1e9", "soon"] {
            assert!(interval(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_needs_watch() {
        assert!(Arguments::try_parse_from(["loga", "stat", "--times", "2"]).is_err());
        assert!(
            Arguments::try_parse_from(["loga", "stat", "--watch", "1", "--times", "2"]).is_ok()
        );
    }
}
