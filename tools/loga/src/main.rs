// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga`: shows the clients of the kernel module and changes their settings.

use clap::error::ErrorKind;
use clap::Parser;
use loga_cli::cli;
use loga_cli::cli::{Agent, AgentKind, Arguments, Command};
use loga_cli::commands::{
    events, focus, generate, policy, reserve, run, set, spec, stat, top, totals, Failure,
};
use loga_cli::device::Device;
use loga_cli::directory::Directory;
use std::io;
use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

/// Exit status for arguments that are wrong.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // Help and version were asked for.
        Err(error) if !error.use_stderr() => error.exit(),
        // So was everything that there is.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.exit()
        }
        Err(error) => {
            eprintln!("loga: {}", cli::one_line(&error));
            return ExitCode::from(USAGE);
        }
    };
    match act(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output closed the pipe.
        Err((_, Failure::Print(error))) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err((status, failure)) => {
            eprintln!("loga: {failure}");
            ExitCode::from(status)
        }
    }
}

/// Runs a command; says its exit status if it failed.
fn act(command: &Command) -> Result<(), (u8, Failure)> {
    if let Command::Run(arguments) = command {
        let device = Device::open().map_err(|error| (run::NOT_STARTED, error.into()))?;
        return Err(run::run(arguments, &device, |command| command.exec()));
    }
    ask(command).map_err(|failure| (1, failure))
}

fn ask(command: &Command) -> Result<(), Failure> {
    let terminal = io::stdout().is_terminal();
    let mut out = io::stdout().lock();
    if let Command::Generate(arguments) = command {
        return generate::run(arguments);
    }
    let device = Device::open()?;
    match command {
        Command::Top(arguments) => {
            let keys = terminal && io::stdin().is_terminal();
            top::run(arguments, &device, Directory::of_system(), keys, &mut out)
        }
        Command::Stat(arguments) => stat::run(arguments, &device, terminal, &mut out),
        Command::Set(arguments) => set::run(arguments, &device, &Directory::of_system(), &mut out),
        Command::Reserve(arguments) => {
            reserve::run(arguments, &device, &Directory::of_system(), &mut out)
        }
        Command::Spec(arguments) => {
            spec::run(arguments, &device, &Directory::of_system(), &mut out)
        }
        Command::Agent(Agent {
            what: AgentKind::Focus(arguments),
        }) => focus::run(arguments, &device, &Directory::of_system(), &mut out),
        Command::Policy(arguments) => policy::run(arguments, &device, &mut out),
        Command::Events(arguments) => events::run(arguments, &device, &mut out),
        Command::Totals(arguments) => {
            totals::run(arguments, &device, &Directory::of_system(), &mut out)
        }
        // Done before.
        Command::Run(_) | Command::Generate(_) => Ok(()),
    }
}
