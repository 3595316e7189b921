// SPDX-License-Identifier: GPL-2.0

//! One run of the virtual machine: command line, output, time limit, verdict.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result};

use crate::clock::Time;
use crate::transfer::{Message, Receiver};
use crate::trouble;

/// How often the files that QEMU writes are read.
const READ_EVERY: Duration = Duration::from_millis(20);

/// The part of the console that goes to standard output while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Echo {
    /// The whole console, unbuffered.
    All,
    /// Test results, line by line, so that a long run shows its progress.
    Results,
    /// The console is the terminal of the caller, which the emulator reads and writes itself.
    Terminal,
}

/// The machine itself.
#[derive(Debug, clap::Args)]
pub(crate) struct Machine {
    /// Kernel image to boot
    #[arg(long, env = "LOGA_KIMAGE", value_name = "FILE")]
    kernel: PathBuf,
    /// Emulator; `exact` needs the one that tests/vm/setup builds
    #[arg(long, env = "LOGA_QEMU", default_value = "qemu-system-x86_64")]
    qemu: PathBuf,
    /// Clock of the guest
    #[arg(long, value_enum, default_value = "exact")]
    pub(crate) time: Time,
    /// Seed of the guest's random numbers, and of the start times in it
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u32,
    /// Virtual processors
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    smp: u32,
    /// Memory in MiB
    #[arg(long, default_value_t = 1536, value_parser = clap::value_parser!(u32).range(1280..=8192))]
    mem: u32,
    /// Folder for the files that the guest sends
    #[arg(long, default_value = "out")]
    pub(crate) out: PathBuf,
    /// End the machine when no test has ended for this many seconds of host time, since its start or
    /// since the last one
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    timeout: u64,
    /// More words for the kernel's command line
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Show the kernel's messages too
    #[arg(long, short)]
    verbose: bool,
}

/// Status of a machine whose timers are coarse; it has done nothing else yet. Only where its clock
/// follows the host.
const COARSE: i32 = 117;
/// How often such a machine is started.
const BOOTS: u32 = 8;

/// The results of one run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Exit status of the guest's line; none if the guest never sent it.
    pub(crate) status: Option<i32>,
    /// Everything on the console, lines ended by `\n`.
    pub(crate) console: String,
    /// The kernel log at the end.
    pub(crate) dmesg: String,
    /// The kernel's complaints, and why the run ended early if it did.
    pub(crate) trouble: Vec<String>,
    /// Whether its limit ended it: that may be the host's fault.
    pub(crate) is_killed: bool,
}

impl Run {
    /// Tests that the guest meant to run, if it has said so.
    fn planned(&self) -> usize {
        let mut lines = self.console.lines();
        let plan = lines.find_map(|line| line.strip_prefix("1.."));
        plan.and_then(|number| number.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Tests whose end is on the console.
    pub(crate) fn results(&self) -> usize {
        results(&self.console).0.lines().count()
    }

    /// The exit status to return: the guest's, unless the kernel complained.
    pub(crate) fn exit_code(&self) -> u8 {
        match (self.status, self.trouble.is_empty()) {
            (Some(status), true) => u8::try_from(status).unwrap_or(1),
            (Some(status), false) if status != 0 => u8::try_from(status).unwrap_or(1),
            _ => 124,
        }
    }
}

impl Machine {
    /// Boots `image`, passes on the part of its console that `echo` selects, and
    /// waits for the end.
    ///
    /// # Errors
    /// The machine could not be started or its output not be stored. Failures
    /// inside the guest are part of the returned `Run`.
    pub(crate) fn run(&self, image: &[u8], echo: Echo) -> Result<Run> {
        for _ in 1..BOOTS {
            let run = self.run_once(image, echo)?;
            if run.status != Some(COARSE) {
                return Ok(run);
            }
            eprintln!("loga-vm: the machine starts again, for timers that are exact");
        }
        self.run_once(image, echo)
    }

    fn run_once(&self, image: &[u8], echo: Echo) -> Result<Run> {
        fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot create {}", self.out.display()))?;
        let work = self.out.join(format!(".vm-{}", std::process::id()));
        fs::create_dir_all(&work)?;
        fs::write(work.join("initramfs"), image)?;
        let result = self.run_in(&work, echo);
        fs::remove_dir_all(&work)?;
        result
    }

    fn run_in(&self, work: &Path, echo: Echo) -> Result<Run> {
        let console = Tail::create(work.join("console"))?;
        let files = Tail::create(work.join("files"))?;
        let mut command = self.command(work, echo);
        if echo != Echo::Terminal {
            command.stdin(Stdio::null()).stdout(Stdio::null());
        }
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {}", self.qemu.display()))?;
        let mut session = Session {
            child,
            console,
            files,
            receiver: Receiver::default(),
            shown: 0,
            echo,
            run: Run {
                status: None,
                console: String::new(),
                dmesg: String::new(),
                trouble: Vec::new(),
                is_killed: false,
            },
        };
        let result = session.follow(Duration::from_secs(self.timeout), &self.out);
        // The guest has sent its status or never will: nothing is lost.
        session.child.kill().ok();
        session.child.wait()?;
        result?;
        session.judge();
        Ok(session.run)
    }

    fn command(&self, work: &Path, echo: Echo) -> Command {
        // Whatever ends this program ends the machine too.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]);
        command.arg(&self.qemu);
        command.args([
            "-M",
            "pc,acpi=off",
            "-nodefaults",
            "-display",
            "none",
            "-no-reboot",
        ]);
        // The firmware's processor table, which a kernel without ACPI reads,
        // lists one processor a socket.
        let processors = format!("{0},sockets={0}", self.smp);
        command.args(["-m", &self.mem.to_string(), "-smp", &processors]);
        match self.time {
            // Both the seed and the clock are needed: either one missing makes
            // two boots differ.
            Time::Exact => {
                // A full buffer of translated code makes the emulator turn to the next
                // processor; left alone, its size follows from the host's memory.
                command.args(["-accel", "tcg,thread=single,tb-size=512"]);
                command.args(["-icount", "shift=0,sleep=off"]);
                command.args(["-seed", &self.seed.to_string()]);
                command.args(["-rtc", "base=2020-01-01T00:00:00,clock=vm"]);
            }
            Time::Fast => {
                command.args(["-accel", "tcg,thread=multi"]);
            }
        }
        // Files, not pipes: a late reader must not block the guest.
        for name in ["console", "files"] {
            let path = work.join(name);
            let path = path.display();
            let device = match (name, echo) {
                ("console", Echo::Terminal) => {
                    format!("stdio,id={name},signal=off,logfile={path}")
                }
                _ => format!("file,id={name},path={path}"),
            };
            command.arg("-chardev").arg(device);
            command.arg("-serial").arg(format!("chardev:{name}"));
        }
        command.arg("-kernel").arg(&self.kernel);
        command.arg("-initrd").arg(work.join("initramfs"));
        command.arg("-append").arg(self.kernel_line());
        command
    }

    fn kernel_line(&self) -> String {
        let level = if self.verbose {
            "loglevel=7"
        } else {
            "quiet loglevel=4"
        };
        // The reserved memory is where the registers of the model's six cards live.
        let mut line = format!(
            "console=ttyS0 {level} panic=-1 oops=panic tsc=reliable no_timer_check \
             memmap=448M$0x20000000 log_buf_len=4M tsc_early_khz={} LOGA_SEED={}",
            self.time.tsc_khz(),
            self.seed
        );
        if !self.append.is_empty() {
            line.push(' ');
            line.push_str(&self.append);
        }
        line
    }
}

/// The test results among the complete lines of `text`, and how many bytes
/// those lines are.
fn results(text: &str) -> (String, usize) {
    let complete = text.rfind('\n').map_or(0, |end| end + 1);
    let lines = text[..complete].lines();
    let chosen = lines.filter(|line| line.starts_with("ok ") || line.starts_with("not ok "));
    (
        chosen
            .map(|line| format!("     {line}\n"))
            .collect::<Vec<_>>()
            .concat(),
        complete,
    )
}

/// A file that another process appends to.
#[derive(Debug)]
struct Tail {
    file: File,
}

impl Tail {
    fn create(path: PathBuf) -> Result<Self> {
        File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self {
            file: File::open(&path)?,
        })
    }

    fn more(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

struct Session {
    child: Child,
    console: Tail,
    files: Tail,
    receiver: Receiver,
    shown: usize,
    echo: Echo,
    run: Run,
}

impl Session {
    /// Reads until the guest sends its status, dies, or runs out of time.
    fn follow(&mut self, limit: Duration, out: &Path) -> Result<()> {
        let (mut since, mut seen, mut read) = (Instant::now(), 0, 0);
        loop {
            let ended = self.child.try_wait()?;
            self.read_console()?;
            if self.run.console.len() > read {
                read = self.run.console.len();
                let results = self.run.results();
                if results > seen {
                    (since, seen) = (Instant::now(), results);
                }
            }
            let bytes = self.files.more()?;
            self.receiver.push(&bytes);
            while let Some(message) = self.receiver.next()? {
                match message {
                    Message::Exit(status) => {
                        self.run.status = Some(status);
                        return self.read_console();
                    }
                    Message::File { name, data } if name == ".dmesg" => {
                        self.run.dmesg = String::from_utf8_lossy(&data).into_owned();
                        fs::write(out.join("dmesg.txt"), data)?;
                    }
                    Message::File { name, data } => {
                        let path = out.join(&name);
                        fs::write(&path, data)
                            .with_context(|| format!("cannot write {}", path.display()))?;
                    }
                }
            }
            if let Some(status) = ended {
                self.run.trouble.push(format!(
                    "the machine ended ({status}) before the guest sent its exit status"
                ));
                return Ok(());
            }
            // TIMEOUT: the guest may hang in any way; host time always passes.
            if since.elapsed() > limit {
                let seconds = limit.as_secs();
                let left = self.run.planned().saturating_sub(seen);
                self.run.trouble.push(format!(
                    "killed: no test ended for {seconds} s, {seen} had before, {left} were left"
                ));
                self.run.is_killed = true;
                return Ok(());
            }
            thread::sleep(READ_EVERY);
        }
    }

    fn read_console(&mut self) -> Result<()> {
        let bytes = self.console.more()?;
        let text = String::from_utf8_lossy(&bytes).replace('\r', "");
        self.run.console.push_str(&text);
        let new = &self.run.console[self.shown..];
        let (text, shown) = match self.echo {
            Echo::All => (new.to_owned(), new.len()),
            Echo::Results => results(new),
            Echo::Terminal => (String::new(), new.len()),
        };
        let mut output = std::io::stdout().lock();
        // A closed pipe on our side is no reason to leave a machine behind.
        output.write_all(text.as_bytes()).ok();
        output.flush().ok();
        self.shown += shown;
        Ok(())
    }

    /// Searches the text for the kernel's complaints.
    fn judge(&mut self) {
        let mut found: Vec<String> = Vec::new();
        for line in self.run.console.lines().chain(self.run.dmesg.lines()) {
            if let Some(body) = trouble::complaint(line) {
                if found.len() < trouble::MAX_LINES && !found.iter().any(|seen| seen == body) {
                    found.push(body.to_owned());
                }
            }
        }
        self.run.trouble.extend(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(status: Option<i32>, trouble: &[&str]) -> Run {
        let trouble = trouble.iter().map(|line| (*line).to_owned()).collect();
        Run {
            status,
            console: String::new(),
            dmesg: String::new(),
            trouble,
            is_killed: false,
        }
    }

    #[test]
    fn exit_code_is_the_guests_unless_the_kernel_complained() {
        assert_eq!(run(Some(0), &[]).exit_code(), 0);
        assert_eq!(run(Some(7), &[]).exit_code(), 7);
        assert_eq!(run(Some(7), &["WARNING: x"]).exit_code(), 7);
        assert_eq!(run(Some(0), &["WARNING: x"]).exit_code(), 124);
        assert_eq!(run(None, &["killed"]).exit_code(), 124);
        assert_eq!(run(None, &[]).exit_code(), 124);
    }

    #[test]
    fn results_are_the_tests_that_have_ended() {
        let mut run = run(None, &[]);
        assert_eq!((run.results(), run.planned()), (0, 0));
        run.console = "1..3\nok 1 a\n# ok 2\nnot ok 2 b\nok 3".to_owned();
        assert_eq!((run.results(), run.planned()), (2, 3));
    }

    #[test]
    fn results_wait_for_the_end_of_the_line() {
        let text = "KTAP version 1\nok 1 a\nnoise\nnot ok 2 b\nok 3";
        let (shown, length) = results(text);
        assert_eq!(shown, "     ok 1 a\n     not ok 2 b\n");
        assert_eq!(&text[length..], "ok 3");
        assert_eq!(results("ok 3"), (String::new(), 0));
    }
}
