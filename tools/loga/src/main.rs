// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga`: shows the clients of the kernel module and changes their settings.

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
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

/// Exit status for arguments that are wrong.
const USAGE: u8 = 2;

/// Exit status as that of a shell whose command ended by SIGPIPE.
const PIPE_CLOSED: u8 = 141;

/// Exit status for settings that were applied but for cgroups that do not exist.
const SKIPPED: u8 = 3;

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
        Err((_, Failure::Print(error))) if error.kind() == io::ErrorKind::BrokenPipe => {
            let _ = emulate_default_handler(SIGPIPE);
            ExitCode::from(PIPE_CLOSED)
        }
        Err((status, failure)) => {
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

/// Runs a command; says its exit status if it failed.
fn act(command: &Command) -> Result<(), (u8, Failure)> {
    if let Command::Run(arguments) = command {
        let device = Device::open().map_err(|error| (run::NOT_STARTED, error.into()))?;
        let environment = Environment::of_process();
        return Err(run::run(arguments, &device, &environment, |command| {
            command.exec()
        }));
    }
    if let Command::Apply(arguments) = command {
        return set_from_files(arguments);
    }
    if let Command::Config(Config {
        what: ConfigKind::Check(ConfigCheck { files }),
    }) = command
    {
        return set_from_files(&cli::Apply {
            files: files.clone(),
            check: true,
            ..cli::Apply::default()
        });
    }
    ask(command).map_err(|failure| (1, failure))
}

/// Applies or checks files of settings.
fn set_from_files(arguments: &cli::Apply) -> Result<(), (u8, Failure)> {
    let mut out = io::stdout().lock();
    if arguments.follow {
        let ready = || {
            // Without a manager that waits there is nobody to tell.
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        };
        let (files, directory) = (&arguments.files, Directory::of_system());
        let followed = follow::run(files, Device::open, directory, ready, &mut out);
        return followed.map_err(|failure| (1, failure));
    }
    let directory = Directory::of_system();
    let outcome = apply::run(arguments, Device::open, &directory, &mut out);
    match outcome.map_err(|failure| (1, failure))? {
        Outcome::Whole => Ok(()),
        Outcome::Skipped(count) => {
            let line = format!(
                "{count} entries or cgroups were skipped: they do not exist, or were refused"
            );
            Err((SKIPPED, Failure::Text(line)))
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

fn ask(command: &Command) -> Result<(), Failure> {
    let terminal = Terminal::of_stdout();
    let mut out = io::stdout().lock();
    if let Command::Generate(arguments) = command {
        return generate::run(arguments);
    }
    if let Command::Agent(Agent {
        what: AgentKind::Serve(arguments),
    }) = command
    {
        return serve::run(arguments, Device::open, &mut out);
    }
    if let Command::Agent(Agent {
        what: AgentKind::Pods(arguments),
    }) = command
    {
        return weights::run(arguments, Device::open, &mut out);
    }
    if let Command::Record(arguments) = command {
        let stop = stop()?;
        return record::run(
            arguments,
            Device::open,
            Directory::of_system,
            &stop,
            &mut out,
        );
    }
    if let Command::Export(arguments) = command {
        return export::run(arguments, &mut out).map(say_all);
    }
    if let Command::Report(arguments) = command {
        return report::run(arguments).map(say_all);
    }
    if let Command::Doctor(arguments) = command {
        return doctor::run(arguments, &Machine::this(), &snapshots(), &mut out);
    }
    // A controller has no GPU.
    if let Command::Slurm(arguments) = command {
        return slurm::run(arguments, &mut out);
    }
    if let Command::Kube(arguments) = command {
        return kube::run(arguments, &mut out);
    }
    let device = Device::open()?;
    match command {
        Command::Top(arguments) => {
            let with_keys = terminal.filter(|_| io::stdin().is_terminal());
            top::run(
                arguments,
                &device,
                Directory::of_system(),
                with_keys,
                &mut out,
            )
        }
        Command::Stat(arguments) => stat::run(
            arguments,
            &device,
            &Processes::default(),
            terminal,
            &mut out,
        ),
        Command::Set(arguments) => set::run(arguments, &device, &Directory::of_system(), &mut out),
        Command::Reserve(arguments) => {
            reserve::run(arguments, &device, &Directory::of_system(), &mut out)
        }
        Command::Spec(arguments) => {
            let (directory, processes) = (Directory::of_system(), Processes::default());
            spec::run(arguments, &device, &directory, &processes, &mut out)
        }
        Command::Agent(Agent {
            what: AgentKind::Focus(arguments),
        }) => focus::run(arguments, &device, &Directory::of_system(), &mut out),
        Command::Agent(Agent {
            what: AgentKind::Cpu(arguments),
        }) => {
            let cgroups = cpu::Cgroups::of_system().map_err(Failure::Text)?;
            cpu::run(arguments, &device, &cgroups, &*stop()?, &mut out)
        }
        Command::Place(arguments) => {
            place::run(arguments, &device, &Environment::of_process(), &mut out)
        }
        Command::Config(Config {
            what: ConfigKind::Show(arguments),
        }) => show::run(arguments, &device, &Directory::of_system(), &mut out),
        Command::Policy(arguments) => policy::run(arguments, &device, &mut out),
        Command::Events(arguments) => {
            events::run(arguments, &device, &Processes::default(), &mut out)
        }
        Command::Totals(arguments) => {
            totals::run(arguments, &device, &Directory::of_system(), &mut out)
        }
        // Done before.
        Command::Run(_)
        | Command::Apply(_)
        | Command::Config(_)
        | Command::Doctor(_)
        | Command::Generate(_)
        | Command::Slurm(_)
        | Command::Record(_)
        | Command::Export(_)
        | Command::Report(_)
        | Command::Kube(_)
        | Command::Agent(Agent {
            what: AgentKind::Serve(_) | AgentKind::Pods(_),
        }) => Ok(()),
    }
}
