// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga-guest`: runs as root in the virtual machine, drives the GPU model and the kernel
//! module with real processes, and reports in KTAP.
//!
//! | file | contents |
//! |---|---|
//! | [`ktap`] | the report |
//! | [`stage`] | loads and removes the modules, looks at both sides' figures |
//! | [`modules`], [`kernel_log`], [`truth`] | insmod and rmmod, `/dev/kmsg`, the model's own log |
//! | [`puppet`], [`strings`] | a process that does what a test tells it, and the test's end of it |
//! | [`calls`], [`sysfs`] | the control device and the knobs as they are |
//! | [`load`] | throttles in the background |
//! | [`tracefs`] | the kernel's trace of events |
//! | [`accounting`], [`sparse`], [`holding`], [`attaching`], [`driver`], [`fdinfo`], [`tracing`] | the tests |
//! | [`sharing`], [`cgroups`], [`refusing`], [`telling`] | tests of who gets how much, and of saying so |
//! | [`tools`] | tests of the `loga` command |
//! | [`policies`] | tests of each policy |
//! | [`many`] | tests with several GPUs |
//! | [`demo`] | the demonstration |

mod accounting;
mod attaching;
mod calls;
mod cgroups;
mod demo;
mod driver;
mod fdinfo;
mod holding;
mod kernel_log;
mod ktap;
mod load;
mod many;
mod modules;
mod policies;
mod puppet;
mod refusing;
mod sharing;
mod sparse;
mod stage;
mod strings;
mod sysfs;
mod telling;
mod tools;
mod tracefs;
mod tracing;
mod truth;

use clap::Parser;
use clap::Subcommand;
use ktap::Test;
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
        /// Names, or beginnings of names, of tests.
        names: Vec<String>,
        /// Run one of so many parts, such as 1/2: every second test, from the first.
        #[arg(long, default_value = "1/1")]
        part: ktap::Part,
    },
    /// Show accounting, then fair sharing, and compare with the reference shares.
    Demo(demo::Arguments),
    /// Do what standard input says; used by the tests.
    #[command(hide = true)]
    Puppet,
    /// Run a program as another user; used by the tests.
    #[command(hide = true)]
    As {
        uid: u32,
        #[arg(last = true)]
        command: Vec<String>,
    },
}

/// Every test, in the order they run.
fn tests() -> Vec<Test> {
    [
        accounting::TESTS,
        sparse::TESTS,
        holding::TESTS,
        attaching::TESTS,
        driver::TESTS,
        sharing::TESTS,
        cgroups::TESTS,
        policies::TESTS,
        refusing::TESTS,
        telling::TESTS,
        fdinfo::TESTS,
        tracing::TESTS,
        many::TESTS,
        tools::TESTS,
    ]
    .concat()
}

fn main() -> ExitCode {
    let succeeded = match Arguments::parse().command {
        Command::List => {
            for test in tests() {
                println!("{}", test.name);
            }
            true
        }
        Command::Run { names, part } => ktap::run(&tests(), &names, part),
        Command::Demo(arguments) => match demo::run(&arguments) {
            Ok(as_expected) => as_expected,
            Err(reason) => {
                eprintln!("loga-guest: {reason}");
                false
            }
        },
        Command::Puppet => puppet::run(),
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
