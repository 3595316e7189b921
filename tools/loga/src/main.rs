// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga`: shows the clients of the kernel module and changes their settings.

use clap::error::ErrorKind;
use clap::Parser;
use loga_cli::cli;
use loga_cli::cli::{Agent, AgentKind, Arguments, Command, Config, ConfigCheck, ConfigKind};
use loga_cli::commands::apply::{follow, show, Outcome};
use loga_cli::commands::kube::weights;
use loga_cli::commands::{
    apply, cpu, doctor, events, export, focus, generate, kube, place, policy, record, report,
    reserve, run, serve, set, slurm, spec, stat, top, totals, Failure,
};
use loga_cli::device::Device;
use loga_cli::directory::Directory;
use loga_cli::doctor::machine::Machine;
use loga_cli::doctor::Answer;
use loga_cli::names::harmless;
use loga_cli::placing::visible::Environment;
use loga_cli::processes::Processes;
use loga_cli::terminal::Terminal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;
use std::ffi::OsString;
use std::io;
use std::io::{IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::process;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// Exit status for arguments that are wrong.
const USAGE: u8 = 2;

/// Exit status as that of a shell whose command ended by SIGPIPE.
const PIPE_CLOSED: u8 = 141;

/// Exit status for settings that were applied but for cgroups that do not exist.
const SKIPPED: u8 = 3;

/// Why a command failed, and its exit status.
struct Failed {
    status: u8,
    failure: Failure,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self { status: 1, failure }
    }
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        // Help and version were asked for.
        Err(error) if !error.use_stderr() => error.exit(),
        // So was everything that there is.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            if std::env::args_os().len() == 1 {
                let _ = writeln!(io::stderr(), "{}\n", doctor::in_short(&snapshots()));
            }
            error.exit()
        }
        Err(error) => {
            say(&cli::refusal(&error, &words));
            return ExitCode::from(USAGE);
        }
    };
    match act(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output closed the pipe: others end by this signal then, which the
        // runtime ignores.
        Err(Failed {
            failure: Failure::Print(error),
            ..
        }) if error.kind() == io::ErrorKind::BrokenPipe => {
            let _ = emulate_default_handler(SIGPIPE);
            ExitCode::from(PIPE_CLOSED)
        }
        Err(Failed { status, failure }) => {
            say(&failure.to_string());
            ExitCode::from(status)
        }
    }
}

/// A line for whoever reads the errors, if there still is anyone.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "loga: {}", harmless(line));
}

/// What is to be said of something that was done, if anything is.
fn say_all(note: Option<String>) {
    note.iter().for_each(|line| say(line));
}

/// Runs a command.
fn act(command: &Command) -> Result<(), Failed> {
    let terminal = Terminal::of_stdout();
    let mut out = io::stdout().lock();
    let out = &mut out;
    let device = || Device::open().map_err(|error| Failed::from(Failure::from(error)));
    let done = match command {
        Command::Run(arguments) => {
            let device = Device::open().map_err(|error| Failed {
                status: run::NOT_STARTED,
                failure: error.into(),
            })?;
            let environment = Environment::of_process();
            let exec = |command: &mut process::Command| command.exec();
            let (status, failure) = run::run(arguments, &device, &environment, exec);
            return Err(Failed { status, failure });
        }
        Command::Apply(arguments) => return set_from_files(arguments, out),
        Command::Config(Config { what }) => match what {
            ConfigKind::Check(ConfigCheck { files }) => {
                let arguments = cli::Apply {
                    files: files.clone(),
                    check: true,
                    ..cli::Apply::default()
                };
                return set_from_files(&arguments, out);
            }
            ConfigKind::Show(arguments) => {
                show::run(arguments, &device()?, &Directory::of_system(), out)
            }
        },
        Command::Agent(Agent { what }) => match what {
            AgentKind::Serve(arguments) => serve::run(arguments, Device::open, out),
            AgentKind::Pods(arguments) => weights::run(arguments, Device::open, out),
            AgentKind::Focus(arguments) => {
                focus::run(arguments, &device()?, &Directory::of_system(), out)
            }
            AgentKind::Cpu(arguments) => {
                let device = device()?;
                let cgroups = cpu::Cgroups::of_system().map_err(Failure::Text)?;
                cpu::run(arguments, &device, &cgroups, &*stop()?, out)
            }
        },
        Command::Generate(arguments) => generate::run(arguments),
        Command::Record(arguments) => record::run(
            arguments,
            Device::open,
            Directory::of_system,
            &*stop()?,
            out,
        ),
        Command::Export(arguments) => export::run(arguments, out).map(say_all),
        Command::Report(arguments) => report::run(arguments).map(say_all),
        Command::Doctor(arguments) => doctor::run(arguments, &Machine::this(), &snapshots(), out),
        // A controller has no GPU.
        Command::Slurm(arguments) => slurm::run(arguments, out),
        Command::Kube(arguments) => kube::run(arguments, out),
        Command::Top(arguments) => {
            let with_keys = terminal.filter(|_| io::stdin().is_terminal());
            top::run(
                arguments,
                &device()?,
                Directory::of_system(),
                with_keys,
                out,
            )
        }
        Command::Stat(arguments) => {
            stat::run(arguments, &device()?, &Processes::default(), terminal, out)
        }
        Command::Set(arguments) => set::run(arguments, &device()?, &Directory::of_system(), out),
        Command::Reserve(arguments) => {
            reserve::run(arguments, &device()?, &Directory::of_system(), out)
        }
        Command::Spec(arguments) => {
            let (directory, processes) = (Directory::of_system(), Processes::default());
            spec::run(arguments, &device()?, &directory, &processes, out)
        }
        Command::Place(arguments) => {
            place::run(arguments, &device()?, &Environment::of_process(), out)
        }
        Command::Policy(arguments) => policy::run(arguments, &device()?, out),
        Command::Events(arguments) => {
            events::run(arguments, &device()?, &Processes::default(), out)
        }
        Command::Totals(arguments) => {
            totals::run(arguments, &device()?, &Directory::of_system(), out)
        }
    };
    Ok(done?)
}

/// Applies or checks files of settings.
fn set_from_files(arguments: &cli::Apply, out: &mut impl Write) -> Result<(), Failed> {
    if arguments.follow {
        let ready = || {
            // Without a manager that waits there is nobody to tell.
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        };
        let (files, directory) = (&arguments.files, Directory::of_system());
        return Ok(follow::run(files, Device::open, directory, ready, out)?);
    }
    let directory = Directory::of_system();
    match apply::run(arguments, Device::open, &directory, out)? {
        Outcome::Whole => Ok(()),
        Outcome::Skipped(count) => {
            let line = format!(
                "{count} entries or cgroups were skipped: they do not exist, or were refused"
            );
            Err(Failed {
                status: SKIPPED,
                failure: Failure::Text(line),
            })
        }
    }
}

/// What the kernel module says of all GPUs.
fn snapshots() -> Answer {
    Device::open().and_then(|device| device.chosen(None))
}

/// Becomes true when the caller, the system or the closed terminal wants an end.
fn stop() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let registered = flag::register(signal, Arc::clone(&stop));
        registered.map_err(|error| Failure::Text(format!("cannot wait for signals: {error}")))?;
    }
    Ok(stop)
}
