// SPDX-License-Identifier: GPL-2.0

//! [tool] Boots the virtual machine with what is to be tested inside, runs one
//! shell line in it and judges the result.
//!
//! `boot` hands on the guest's exit status; `test` runs the tests that live in
//! the guest and in the kernel (KUnit) and counts them. In both a complaint of
//! the kernel (a warning, a bug, a lock rule broken) is a failure, whatever the
//! line returned.
//!
//! KTAP is the kernel's plain-text format for test results, KUnit its unit
//! test framework; dmesg is the kernel's log.

mod cpio;
mod image;
mod ktap;
mod machine;
mod transfer;
mod trouble;

use std::fs;
use std::process::ExitCode;

use anyhow::Context;
use anyhow::Result;
use clap::Parser;

use crate::image::Contents;
use crate::ktap::Outcome;
use crate::ktap::Report;
use crate::ktap::Test;
use crate::machine::Machine;
use crate::machine::Run;

#[derive(Debug, Parser)]
#[command(name = "loga-vm", version, about = "Runs LoGA in a virtual machine")]
enum Command {
    /// Boot and run one shell line; exits with its status (124: kernel trouble or time over)
    Boot(BootArgs),
    /// Boot, run KUnit and the guest's tests, count them
    Test(TestArgs),
}

#[derive(Debug, clap::Args)]
struct BootArgs {
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    contents: Contents,
    /// The shell line
    #[arg(required = true, last = true)]
    line: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct TestArgs {
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    contents: Contents,
    /// Modules whose KUnit suites run when they are loaded, in this order
    #[arg(long = "kunit", value_name = "MODULE")]
    kunit: Vec<String>,
    /// Program that prints KTAP
    #[arg(long, default_value = "loga-guest run")]
    guest: String,
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Boot(args) => boot(&args),
        Command::Test(args) => test(&args),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("loga-vm: {error:#}");
            ExitCode::from(125)
        }
    }
}

fn boot(args: &BootArgs) -> Result<u8> {
    let image = args.contents.build(&args.line.join(" "))?;
    let run = args.machine.run(&image, true)?;
    print_trouble(&run);
    Ok(run.exit_code())
}

fn print_trouble(run: &Run) {
    for line in &run.trouble {
        eprintln!("loga-vm: trouble: {line}");
    }
    if !run.trouble.is_empty() && run.dmesg.is_empty() {
        // The log could not be sent: the console is all there is.
        let lines: Vec<&str> = run.console.lines().collect();
        let tail = lines.len().saturating_sub(40);
        eprintln!("loga-vm: end of the console:");
        for line in &lines[tail..] {
            eprintln!("  {line}");
        }
    }
}

/// The guest's line: each module once for its KUnit suites, then the tests.
fn test_line(args: &TestArgs) -> String {
    let mut line = String::from("dmesg -n 1\n");
    for module in &args.kunit {
        let name = module.split_whitespace().next().unwrap_or(module);
        line.push_str(&format!(
            "insmod /lib/loga/{name}.ko{} || exit 125\n",
            &module[name.len()..]
        ));
    }
    for module in args.kunit.iter().rev() {
        let name = module.split_whitespace().next().unwrap_or(module);
        line.push_str(&format!("rmmod {name} || exit 125\n"));
    }
    line.push_str(&args.guest);
    line
}

fn test(args: &TestArgs) -> Result<u8> {
    let image = args.contents.build(&test_line(args))?;
    let run = args.machine.run(&image, false)?;
    let mut report = guest_report(&run);
    if !args.kunit.is_empty() {
        let log: Vec<&str> = run
            .dmesg
            .lines()
            .map(|line| ktap::strip_stamp(line).1)
            .collect();
        report
            .tests
            .extend(ktap::parse("kunit", &log.join("\n")).tests);
    }
    for line in &run.trouble {
        report.complain("kernel", line.clone());
    }
    match run.status {
        Some(0) => {}
        Some(status) if report.count(&Outcome::Fail) == 0 => {
            report.complain(
                "guest",
                format!("exit status {status} although no test failed"),
            );
        }
        Some(_) => {}
        None => report.complain("guest", "told no exit status".to_owned()),
    }
    let path = args.machine.out.join("console.txt");
    fs::write(&path, &run.console).with_context(|| format!("cannot write {}", path.display()))?;
    for test in &report.tests {
        print_test(test);
    }
    let failed = report.count(&Outcome::Fail);
    if failed > 0 {
        print_trouble(&run);
        eprintln!(
            "loga-vm: console and kernel log are in {}",
            args.machine.out.display()
        );
    }
    let skipped = report.count(&Outcome::Skip);
    if skipped > 0 {
        println!("{skipped} skipped");
    }
    println!("{} passed, {failed} failed", report.count(&Outcome::Pass));
    Ok(u8::from(failed > 0))
}

/// KTAP of the guest's own tests: console lines that are not the kernel's.
fn guest_report(run: &Run) -> Report {
    let lines: Vec<&str> = run
        .console
        .lines()
        .filter(|line| !ktap::strip_stamp(line).0)
        .collect();
    ktap::parse("guest", &lines.join("\n"))
}

fn print_test(test: &Test) {
    let word = match test.outcome {
        Outcome::Pass => "ok  ",
        Outcome::Fail => "FAIL",
        Outcome::Skip => "skip",
    };
    if test.note.is_empty() {
        println!("{word} {}", test.name);
    } else {
        println!("{word} {}  ({})", test.name, test.note);
    }
}
