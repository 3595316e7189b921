// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga run`: a command with a setting of its own, and on a GPU of its own.

mod auto;
mod confine;
#[cfg(test)]
mod tests;

use super::{set, Failure};
use crate::cli;
use crate::cli::OnGpu;
use crate::control::{Calls, Control};
use crate::history::ask;
use crate::history::ask::Heard;
use crate::names::{Class, Name};
use crate::placing::visible::{Devices, Environment};
use crate::placing::Wish;
use loga::uapi;
use loga::units::Weight;
use std::io;
use std::process::Command;

/// Exit status if the command was not started, as of `env` and `timeout`.
pub const NOT_STARTED: u8 = 125;

/// Variables for the command, with their values.
type Variables = Vec<(&'static str, String)>;

/// Chooses a GPU if that is wanted, sets for this process, then lets `start` put the command in its
/// place, which only returns if that failed. Returns the exit status and why.
pub fn run(
    arguments: &cli::Run,
    control: &Control<impl Calls>,
    environment: &Environment,
    start: impl FnOnce(&mut Command) -> io::Error,
) -> (u8, Failure) {
    let [program, rest @ ..] = arguments.command.as_slice() else {
        let line = "want a command to run".to_string();
        return (NOT_STARTED, Failure::Text(line));
    };
    // The agent learns which program this process becomes, also if no GPU is chosen.
    let exe = ask::executable(program, environment.path.as_deref());
    let name = arguments.name.as_deref().unwrap_or_default();
    let heard = ask::ask(&environment.history, exe, name, true);
    let told = match prepare(arguments, control, environment, heard) {
        Ok(told) => told,
        Err(failure) => return (NOT_STARTED, failure),
    };
    let error = start(Command::new(program).args(rest).envs(told));
    let status = match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    let line = format!("cannot run {}: {error}", Name::from(program.as_os_str()));
    (status, Failure::Text(line))
}

/// What comes before the command. Returns what to tell it.
fn prepare(
    arguments: &cli::Run,
    control: &Control<impl Calls>,
    environment: &Environment,
    heard: Heard,
) -> Result<Variables, Failure> {
    let chooses = matches!(arguments.gpu, Some(OnGpu::Auto(_)));
    if !chooses && (arguments.place.is_some() || arguments.asked.is_set()) {
        let line =
            "--place, --among, --speeds, --want, --command-us and --memory are for --gpu auto";
        return Err(Failure::Text(line.to_string()));
    }
    match &arguments.gpu {
        None if arguments.confine => {
            let line = "--confine wants --gpu N or --gpu auto: the GPUs that it leaves";
            Err(Failure::Text(line.to_string()))
        }
        None => {
            set_on(control, &set::change(&arguments.change)?, uapi::ALL_GPUS)?;
            Ok(Vec::new())
        }
        Some(OnGpu::Named(name)) => {
            let devices = Devices::new(&control.all()?, &environment.proc);
            let gpu = devices.index(name).map_err(Failure::Text)?;
            // For the error that says which GPUs there are.
            control.snapshot(gpu)?;
            let allowed = devices.allowed(environment).map_err(Failure::Text)?;
            if allowed.is_some_and(|allowed| !allowed.contains(&gpu)) {
                let line = format!("CUDA_VISIBLE_DEVICES does not allow GPU {gpu}");
                return Err(Failure::Text(line));
            }
            settle(arguments, control, &[gpu])?;
            Ok(tell(arguments, devices, &[gpu]))
        }
        Some(OnGpu::Auto(count)) => {
            let mut wish = wish(arguments, *count).map_err(Failure::Text)?;
            wish.heard = heard;
            let read = || Ok(control.all()?);
            let call = |wanted: &uapi::Claim| control.claim(wanted);
            let asked = &arguments.asked;
            let claimed = auto::claim(read, call, asked, &wish, environment, auto::pause)?;
            let done = settle(arguments, control, &claimed.gpus);
            if let Err(failure) = done {
                auto::clear(call, &claimed.gpus);
                return Err(failure);
            }
            Ok(tell(arguments, claimed.devices, &claimed.gpus))
        }
    }
}

fn wish(arguments: &cli::Run, count: u32) -> Result<Wish, String> {
    let is_idle = arguments.change.class == Some(Class::Idle);
    let weight = match arguments.change.weight {
        // As a client of this class counts.
        _ if is_idle => Weight::new(Weight::MIN),
        Some(weight) => Weight::new(weight),
        None => Ok(Weight::DEFAULT),
    };
    let weight = weight.map_err(|error| error.to_string())?;
    Wish::new(arguments.place.as_deref(), count, &arguments.asked, weight)
}

/// What tells the program its GPUs: CUDA does not count those that `--confine` keeps from it.
fn tell(arguments: &cli::Run, devices: Devices, gpus: &[u32]) -> Variables {
    match arguments.confine {
        true => devices.only(gpus).variables(gpus),
        false => devices.variables(gpus),
    }
}

/// Sets what is given for this process on these GPUs, and denies it the others if that is wanted.
fn settle(
    arguments: &cli::Run,
    control: &Control<impl Calls>,
    gpus: &[u32],
) -> Result<(), Failure> {
    set_requested(&arguments.change, control, gpus)?;
    if arguments.confine {
        confine::enter(control, gpus, &confine::own()?)?;
    }
    Ok(())
}

/// Sets for this process what is given, on each of these GPUs.
fn set_requested(
    change: &cli::Change,
    control: &Control<impl Calls>,
    gpus: &[u32],
) -> Result<(), Failure> {
    if let Some(change) = set::requested(change) {
        for gpu in gpus {
            set_on(control, &change, *gpu)?;
        }
    }
    Ok(())
}

fn set_on(control: &Control<impl Calls>, change: &uapi::SetShare, gpu: u32) -> Result<(), Failure> {
    let wanted = uapi::SetShare {
        gpu,
        subject: uapi::SUBJECT_PROCESS,
        // The caller itself: the command inherits the process, and with it the setting.
        id: 0,
        ..*change
    };
    Ok(control.set_share(&wanted)?)
}
