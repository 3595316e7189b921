// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga-guest`: runs as root in the virtual machine, drives the GPU model and the kernel
//! module with real processes, and reports in KTAP.
//!
//! | file | contents |
//! |---|---|
//! | [`ktap`] | the report |
//! | [`stage`], [`modules`] | loads and removes the modules, reads LoGA's figures |
//! | [`truth`] | the model's figures |
//! | [`kernel_log`] | `/dev/kmsg` |
//! | [`caller`], [`caller_process`] | a GPU client driven by a test: the test's side, the process |
//! | [`calls`], [`sysfs`] | raw calls of the control device, the knobs in sysfs |
//! | [`load`] | throttles in the background |
//! | [`accounting`], [`sparse`], [`fading`], [`throttling`], [`attaching`], [`driver`], [`fdinfo`], [`tracing`] | the tests |
//! | [`sharing`], [`cgroups`], [`access`], [`validation`], [`event_stream`] | tests of shares, and of the control device |
//! | [`tools`], [`settings`], [`recording`] | tests of the `loga` command |
//! | [`specs`], [`reserves`], [`deadlines`], [`reserve_sets`], [`protected`], [`timegraph`] | tests of priorities, modes and reserves that are set |
//! | [`copies`] | tests of time on the copy engine |
//! | [`claims`] | tests of claims of programs that are about to start |
//! | [`policies`], [`attained`], [`dispatch`], [`submissions`] | tests of each policy, and of engaged scheduling |
//! | [`processors`] | tests of turns as they are told, and of `loga agent cpu` |
//! | [`multi_gpu`], [`placing`] | tests with several GPUs, and of the one that a program is started on |
//! | [`hostile`] | programs of an unprivileged user that try to get more than their share |
//! | [`faults`] | tests of failures: the card, the driver, memory, processors |
//! | [`leaks`] | lost memory, on kernels with kmemleak |
//! | [`demo`] | the demonstration |

mod access;
mod accounting;
mod attaching;
mod attained;
mod caller;
mod caller_process;
mod calls;
mod cgroups;
mod claims;
mod coarse_reserves;
mod copies;
mod deadlines;
mod demo;
mod dispatch;
mod driver;
mod event_stream;
mod fading;
mod faults;
mod fdinfo;
mod host;
mod hostile;
mod kernel_log;
mod ktap;
mod leaks;
mod multi_gpu;
mod placing;
mod policies;
mod processors;
mod protected;
mod recording;
mod reserve_sets;
mod reserves;
mod screen;
mod settings;
mod sharing;
mod sparse;
mod specs;
mod submissions;
mod sysfs;
mod threads;
mod throttling;
mod timegraph;
mod tools;
mod tracing;
mod validation;

use clap::{Parser, Subcommand};
use hostile::storms;
use ktap::Test;
use loga_support::{busy, limits, load, modules, stage, tracefs, truth};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the names of all tests.
    List,
    /// Run all tests, or those named; prints KTAP and fails if one fails.
    Run {
        #[command(flatten)]
        names: ktap::Names,
        /// Run one part of several, such as 1/2: every second test, from the first.
        #[arg(long, default_value = "1/1")]
        part: ktap::Part,
        /// Run all hostile programs instead, on the model of this driver branch.
        #[arg(long, value_name = "BRANCH")]
        hostile: Option<u32>,
        /// With this dispatcher, of tests that choose none themselves.
        #[arg(long, requires = "hostile")]
        dispatch: Option<hostile::Dispatcher>,
        /// Do not judge times and shares, for kernels that are several times slower; scan for lost
        /// memory at the end if the kernel has kmemleak.
        #[arg(long)]
        functional: bool,
    },
    /// Load, attach, detach and unload LoGA COUNT times while clients come and go.
    Cycles {
        count: u64,
        #[arg(long, default_value = "1")]
        seed: u64,
        /// With this dispatcher.
        #[arg(long)]
        dispatch: Option<hostile::Dispatcher>,
    },
    /// Mixed load for SECONDS; all memory that the kernel gave out for it must come back.
    Soak {
        seconds: u64,
        #[arg(long, default_value = "1")]
        seed: u64,
        /// With this dispatcher.
        #[arg(long)]
        dispatch: Option<hostile::Dispatcher>,
    },
    /// Show accounting, then fair sharing, and compare with the reference shares.
    Demo(demo::Arguments),
    /// Carry out the lines of standard input; used by the tests.
    #[command(hide = true)]
    Caller,
    /// Run a hostile program; used by the tests.
    #[command(hide = true)]
    Hostile {
        name: String,
        arguments: Vec<String>,
    },
    /// Run a program in namespaces of its own; used by the tests.
    #[command(hide = true)]
    Unshared {
        /// Which, as clone(2) numbers them.
        flags: i32,
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Run a program as another user; used by the tests.
    #[command(hide = true)]
    As {
        uid: u32,
        #[arg(last = true)]
        command: Vec<String>,
    },
}

/// Clients that come and go in one turn of a round of `soak`.
const SOAK_CLIENTS: u64 = 100;
/// Seconds of one round.
const SOAK_ROUND_S: u64 = 60;

/// Every test, in the order they run.
fn tests() -> Vec<Test> {
    let mut tests = [
        accounting::TESTS,
        sparse::TESTS,
        fading::TESTS,
        throttling::TESTS,
        attaching::TESTS,
        driver::TESTS,
        sharing::TESTS,
        cgroups::TESTS,
        access::TESTS,
        policies::TESTS,
        attained::TESTS,
        processors::TESTS,
        dispatch::TESTS,
        submissions::TESTS,
        specs::TESTS,
        claims::TESTS,
        coarse_reserves::TESTS,
        copies::TESTS,
        reserves::TESTS,
        deadlines::TESTS,
        reserve_sets::TESTS,
        protected::TESTS,
        timegraph::TESTS,
        validation::TESTS,
        event_stream::TESTS,
        fdinfo::TESTS,
        tracing::TESTS,
        multi_gpu::TESTS,
        placing::TESTS,
        tools::TESTS,
        screen::TESTS,
        settings::TESTS,
        recording::TESTS,
        faults::TESTS,
    ]
    .concat();
    tests.extend(hostile::quick());
    tests
}

/// Runs `tests` on a kernel too slow for times, then scans for lost memory.
fn functional(tests: &[Test], names: &ktap::Names, part: ktap::Part) -> bool {
    ktap::set_functional(true);
    let mut chosen = ktap::choose(tests, names, part);
    if leaks::can_tell() {
        if let Err(error) = leaks::begin() {
            eprintln!("loga-guest: kmemleak: {error}");
            return false;
        }
        chosen.extend(leaks::TESTS);
    }
    ktap::run_chosen(&chosen)
}

fn main() -> ExitCode {
    let succeeded = match Arguments::parse().command {
        Command::List => {
            for test in tests() {
                println!("{}", test.name);
            }
            true
        }
        Command::Run {
            names,
            part,
            hostile,
            dispatch,
            functional,
        } => match (hostile, functional) {
            (None, true) => {
                let mut tests = tests();
                if faults::injection::can_inject() {
                    tests.extend(faults::injection::TESTS);
                }
                self::functional(&tests, &names, part)
            }
            (None, false) => {
                let mut tests = tests();
                if processors::can_weigh() {
                    tests.extend(processors::WITH_WEIGHTS);
                }
                ktap::run(&tests, &names, part)
            }
            (Some(branch), functional) => {
                hostile::set_branch(branch);
                hostile::set_dispatcher(dispatch);
                let (tests, names) = (hostile::all(), names.with_slow());
                if functional {
                    self::functional(&tests, &names, part)
                } else {
                    ktap::run(&tests, &names, part)
                }
            }
        },
        Command::Cycles {
            count,
            seed,
            dispatch,
        } => {
            hostile::set_dispatcher(dispatch);
            ktap::one("cycles", || storms::cycles(seed, count))
        }
        Command::Soak {
            seconds,
            seed,
            dispatch,
        } => {
            hostile::set_dispatcher(dispatch);
            ktap::one("soak", || {
                let length = std::time::Duration::from_secs(seconds);
                storms::soak(seed, length, SOAK_CLIENTS, seconds / SOAK_ROUND_S + 1)
            })
        }
        Command::Hostile { name, arguments } => hostile::program(&name, &arguments),
        Command::Demo(arguments) => match demo::run(&arguments) {
            Ok(as_expected) => as_expected,
            Err(reason) => {
                eprintln!("loga-guest: {reason}");
                false
            }
        },
        Command::Caller => caller_process::run(),
        Command::Unshared { flags, command } => match tools::run_unshared(flags, &command) {
            Ok(status) => return ExitCode::from(status),
            Err(reason) => {
                eprintln!("loga-guest: {reason}");
                false
            }
        },
        Command::As { uid, command } => {
            eprintln!("loga-guest: {}", calls::run_as(uid, &command));
            false
        }
    };
    if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
