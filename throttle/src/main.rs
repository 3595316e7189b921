// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `throttle`: the load generator's command.

use clap::Parser;
use nix::sys::prctl;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use throttle::backend::Backend;
use throttle::clock::Monotonic;
use throttle::error::Error;
use throttle::load::Stop;
use throttle::log::LogFile;
use throttle::plan::{BackendKind, Plan, GPU_VARIABLE};
use throttle::report::{Instance, Report};
use throttle::standin::Standin;
use throttle::{gpu, instances, load};

fn main() -> ExitCode {
    let mut plan = Plan::parse();
    let given = std::env::var_os(GPU_VARIABLE);
    let done = plan.settle(given.as_deref()).and_then(|()| work(&plan));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("throttle: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn work(plan: &Plan) -> Result<(), Error> {
    plan.check()?;
    let stop = Arc::new(Stop::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, stop.clone()).map_err(|source| Error::Call {
            call: "sigaction",
            source,
        })?;
    }
    match (plan.instance, plan.instances) {
        (Some(_), _) => {
            let one = run_here(plan, &stop)?;
            println!("{}", json(&one)?);
        }
        (None, 1) => print(&Report::new(plan, vec![run_here(plan, &stop)?]))?,
        (None, _) => print(&Report::new(plan, instances::run(plan, &stop)?))?,
    }
    Ok(())
}

/// Runs the plan in this process.
fn run_here(plan: &Plan, stop: &Stop) -> Result<Instance, Error> {
    // Pauses end when they should, not up to 50 us later; without it the load is only less exact.
    let _ = prctl::set_timerslack(1);
    if plan.residency {
        let mut device = gpu::open_resident(plan)?;
        start(plan)?;
        return gpu::resident::run(plan, device.as_mut(), &Monotonic, stop);
    }
    let path = plan.log.as_deref();
    let log = path.map(|path| LogFile::create(path, plan.instance));
    let log = log.transpose()?;
    let mut backend: Box<dyn Backend> = match plan.backend {
        BackendKind::Standin => Box::new(Standin::open(plan)?),
        BackendKind::Cuda => gpu::open_cuda(plan)?,
        BackendKind::Opencl => gpu::open_opencl(plan)?,
    };
    start(plan)?;
    let outcome = load::run(plan, backend.as_mut(), &Monotonic, stop)?;
    if let (Some(file), Some(kernels)) = (log, backend.log()?) {
        file.finish(kernels)?;
    }
    Ok(Instance::of(
        &outcome,
        plan.instance.unwrap_or(0),
        backend.device(),
    ))
}

/// In one of several instances waits for the others, else says that the run begins.
fn start(plan: &Plan) -> Result<(), Error> {
    if plan.instance.is_some() {
        return instances::wait_for_start();
    }
    instances::announce(plan);
    Ok(())
}

fn print(report: &Report) -> Result<(), Error> {
    if report.plan.json {
        println!("{}", json(report)?);
    } else {
        print!("{}", report.text());
    }
    Ok(())
}

fn json<T: serde::Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::Argument(format!("no JSON: {error}")))
}
