// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Boots the virtual machine with the programs and modules under test,
//! runs one shell line in it and judges the result.
//!
//! `boot` returns the guest's exit status; `shell` gives the terminal to the
//! guest; `test` runs the tests of the guest and of the kernel (KUnit) and
//! counts them. In both a complaint of the kernel (a warning, a bug, a lock
//! rule broken) is a failure, whatever the line returned.
//!
//! KTAP is the kernel's plain-text format for test results, KUnit its unit
//! test framework; dmesg is the kernel's log.

mod clock;
mod cpio;
mod flakes;
mod image;
mod machine;
mod printed;
mod terminal;
mod transfer;
mod trouble;

use std::fs;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use clap::Parser;
use loga_ktap::{Outcome, Report, Test};

use crate::clock::Time;
use crate::image::Contents;
use crate::machine::{Echo, Machine, Run};
use crate::printed::printed;
use crate::terminal::Terminal;

#[derive(Debug, Parser)]
#[command(name = "loga-vm", version, about = "Runs LoGA in a virtual machine")]
enum Command {
    /// Boot and run one shell line; exits with its status (124: kernel trouble or time over)
    Boot(BootArgs),
    /// Boot, run KUnit and the guest's tests, count them
    Test(TestArgs),
    /// Boot and give the caller's terminal to a shell in the machine, until it ends
    Shell(ShellArgs),
    /// Read consoles of several runs, and print a table of failures and figures
    Flakes(FlakesArgs),
}

#[derive(Debug, clap::Args)]
struct FlakesArgs {
    /// `console.txt` of runs of the guest's tests with different seeds
    #[arg(required = true)]
    consoles: Vec<std::path::PathBuf>,
}

#[derive(Debug, clap::Args)]
struct ShellArgs {
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    contents: Contents,
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
    /// Modules with KUnit suites, which run when they are loaded, in this order
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
        Command::Shell(args) => shell(&args),
        Command::Flakes(args) => count_flakes(&args),
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
    let run = args.machine.run(&image, Echo::All)?;
    print_trouble(&run);
    Ok(run.exit_code())
}

fn shell(args: &ShellArgs) -> Result<u8> {
    let terminal = Terminal::of_caller()?;
    if args.machine.time == Time::Exact {
        bail!("--time exact: the clock of a machine that waits for a key would run ahead, give --time fast");
    }
    let image = args.contents.build(&terminal.shell_line())?;
    let run = args.machine.run(&image, Echo::Terminal)?;
    drop(terminal);
    print_trouble(&run);
    Ok(run.exit_code())
}

fn count_flakes(args: &FlakesArgs) -> Result<u8> {
    let mut flakes = flakes::Flakes::default();
    for path in &args.consoles {
        let console =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        flakes.add(&console);
    }
    if flakes.tests() == 0 {
        bail!("no test ran in these consoles");
    }
    print!("{}", flakes.table());
    println!(
        "{} tests, {} runs, {} failures",
        flakes.tests(),
        args.consoles.len(),
        flakes.failures()
    );
    Ok(u8::from(flakes.failures() > 0))
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
    let suites =
        |which: &str| format!("printf '{which}' > /sys/module/kunit/parameters/filter_glob\n");
    let mut line = String::from("dmesg -n 1\n");
    if !args.kunit.is_empty() {
        line.push_str(&suites("*"));
    }
    for module in &args.kunit {
        let name = module_name(module);
        line.push_str(&format!(
            "insmod /lib/loga/{name}.ko{} || exit 125\n",
            &module[name.len()..]
        ));
    }
    for module in args.kunit.iter().rev() {
        let name = module_name(module);
        line.push_str(&format!("rmmod {name} || exit 125\n"));
    }
    if !args.kunit.is_empty() {
        line.push_str(&suites("none"));
    }
    line.push_str(&args.guest);
    line
}

fn test(args: &TestArgs) -> Result<u8> {
    let image = args.contents.build(&test_line(args))?;
    let mut run = args.machine.run(&image, Echo::Results)?;
    if let (true, [only]) = (run.is_killed, &run.trouble[..]) {
        // The host may have been too busy; a machine that hangs does so again. A complaint of the kernel
        // is never forgiven.
        println!("{only}; all of them run once more");
        run = args.machine.run(&image, Echo::Results)?;
    }
    let report = whole_report(args, &run);
    keep_console(&args.machine, &run)?;
    // Passes of the guest were shown during the run.
    let own = guest_report(&run).tests;
    let is_shown = |test: &&Test| own.contains(test) && test.outcome == Outcome::Pass;
    let printed = printed(&run.console);
    for test in report.tests.iter().filter(|test| !is_shown(test)) {
        print_test(test);
        let own = printed.iter().find(|one| one.name == test.name);
        if let (Outcome::Fail, Some(own)) = (&test.outcome, own) {
            own.lines
                .iter()
                .for_each(|line| println!("         {line}"));
        }
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

/// Everything that one run says: the guest's tests, KUnit's, complaints of the kernel, how the
/// guest ended.
fn whole_report(args: &TestArgs, run: &Run) -> Report {
    let mut report = guest_report(run);
    report.tests.extend(kunit_report(args, &run.dmesg).tests);
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
        None => report.complain("guest", "sent no exit status".to_owned()),
    }
    report
}

fn keep_console(machine: &Machine, run: &Run) -> Result<()> {
    let path = machine.out.join("console.txt");
    fs::write(&path, &run.console).with_context(|| format!("cannot write {}", path.display()))
}

/// KTAP of the guest's own tests: console lines that are not the kernel's.
fn guest_report(run: &Run) -> Report {
    let lines: Vec<&str> = run
        .console
        .lines()
        .filter(|line| !loga_ktap::strip_stamp(line).0)
        .collect();
    loga_ktap::parse("guest", &lines.join("\n"))
}

/// KTAP of the unit tests that ran when the modules were loaded. A module
/// without any is a failure: it was built for another kernel.
fn kunit_report(args: &TestArgs, dmesg: &str) -> Report {
    if args.kunit.is_empty() {
        return Report::default();
    }
    let lines: Vec<&str> = dmesg
        .lines()
        .map(|line| loga_ktap::strip_stamp(line).1)
        .collect();
    let mut report = loga_ktap::parse("kunit", &lines.join("\n"));
    let names: Vec<&str> = args
        .kunit
        .iter()
        .map(|module| module_name(module))
        .collect();
    for name in modules_without_suites(&names, &lines) {
        report.complain(name, "has no unit tests in the kernel log".to_owned());
    }
    report
}

/// The modules that no suite is named after: `loga_model_truth` is one of
/// `loga_model`, not of `loga`.
fn modules_without_suites<'a>(names: &[&'a str], lines: &[&str]) -> Vec<&'a str> {
    let suites = lines
        .iter()
        .filter_map(|line| line.trim().strip_prefix("# Subtest: "));
    let owners: Vec<&str> = suites
        .filter_map(|suite| {
            let belongs = |name: &&&str| suite.starts_with(&format!("{name}_"));
            names
                .iter()
                .filter(belongs)
                .max_by_key(|name| name.len())
                .copied()
        })
        .collect();
    names
        .iter()
        .filter(|name| !owners.contains(name))
        .copied()
        .collect()
}

/// The name in `NAME [PARAMETER=VALUE ..]`.
fn module_name(module: &str) -> &str {
    module.split_whitespace().next().unwrap_or(module)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_without_a_suite_of_its_own_is_named() {
        let names = ["loga_model", "loga"];
        let both = ["# Subtest: loga_model_truth", "    # Subtest: loga_units"];
        assert!(modules_without_suites(&names, &both).is_empty());
        assert_eq!(modules_without_suites(&names, &both[..1]), ["loga"]);
        assert_eq!(
            modules_without_suites(&names, &["# Subtest: rust_kernel_fmt"]),
            names
        );
    }
}
