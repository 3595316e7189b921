// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A GPU client that carries out the lines of its standard input.
//!
//! | line | does | answers |
//! |---|---|---|
//! | `open N` | opens a client with N channels | |
//! | `run US MS` | kernels of US back to back for MS | kernels, us blocked, longest store in us |
//! | `store US` | one kernel of US, waits for its end | us that the store took |
//! | `read` | reads GP_GET of the first channel | us that it took |
//! | `launch US` | one kernel of US, does not wait for its end (but for room in the channel) | |
//! | `fork US MS` | as `run`, in a forked child | as `run`; the child's process id |
//! | `unmap`, `map` | the submission page of the first channel | |
//! | `ready` | opens a file and has the driver prepare it for mapping the submission page | |
//! | `map-ready` | maps that file and submits through it from now on | |
//! | `destroy N` | frees a channel, keeps its mapping | |
//! | `cow` | maps a submission page privately | the errno, 0 if it worked |
//! | `busy` | another thread computes for 1 ms of every 10 from now on | |
//! | `node GPU` | opens the node of a GPU | the errno, 0 if it worked |
//! | `end-first` | its first thread ends; another one goes on | |
//! | `end-traced N` | N threads end, which a child traces and leaves as zombies | |
//! | `become UID` | is another user from now on | |
//! | `claim GPU PCT SECONDS SEEN` | claims a GPU | errno and reason, 0 if it worked; most that would be right; the number after it |
//! | `unclaim GPU` | takes its claims back | as `claim` |
//! | `quit` | ends without cleaning up | |
//!
//! An answer is `ok` and numbers, or `error` and a reason.

use crate::calls::{become_user, Calls};
use loga::uapi;
use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use throttle::channel::Channel;
use throttle::clock::{Clock, Monotonic};
use throttle::error::Error;
use throttle::plan::Engine;
use throttle::rm::{Client, ReadyToMap};
use throttle::standin::open_channels;
use throttle::statistics::BLOCKED_ABOVE_NS;
use throttle::sys::Visibility;
use throttle::{rm, sys};

/// Commands in flight in a channel.
const DEPTH: u32 = 3;

/// TIMEOUT: longest wait for one kernel.
const KERNEL_LIMIT: Duration = Duration::from_secs(60);

/// A client and its channels, once opened. The channels go first when dropped.
#[derive(Default)]
struct CallerProcess {
    channels: Vec<Channel>,
    ready: Option<ReadyToMap>,
    client: Option<Client>,
    /// A child that traces threads of this process ends with it.
    traced: Option<File>,
}

/// Traces a thread of another process.
fn seize(thread: Pid) -> Result<(), Errno> {
    // SAFETY: concerns another process; the kernel checks that this one may trace it.
    let rc = unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread.as_raw(), 0, 0) };
    Errno::result(rc).map(drop)
}

/// Carries out the lines of standard input until it ends; `true`.
pub(crate) fn run() -> bool {
    let mut caller = CallerProcess::default();
    let mut line = String::new();
    // Not locked between two lines: another thread may go on.
    while matches!(io::stdin().read_line(&mut line), Ok(1..)) {
        let order = std::mem::take(&mut line);
        let words: Vec<&str> = order.split_whitespace().collect();
        match caller.execute(&words) {
            Ok(numbers) => answer("ok", &numbers),
            Err(reason) => {
                println!("error {reason}");
                let _ = io::stdout().flush();
            }
        }
    }
    true
}

fn answer(word: &str, numbers: &[u64]) {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    // One write per answer: a forked child shares this output.
    println!("{word} {}", numbers.join(" "));
    let _ = io::stdout().flush();
}

impl CallerProcess {
    fn execute(&mut self, words: &[&str]) -> Result<Vec<u64>, String> {
        let number = |at: usize| -> Result<u64, String> {
            let word = words.get(at).ok_or("a number is missing")?;
            word.parse().map_err(|_| format!("{word}: not a number"))
        };
        match words.first().copied() {
            Some("open") => self.open(number(1)?),
            Some("run") => self.back_to_back(number(1)?, number(2)?),
            Some("store") => self.store(number(1)?),
            Some("read") => self.read(),
            Some("launch") => {
                let channel = self.first()?;
                let oldest = channel.sequence().wrapping_sub(channel.depth_max() - 1);
                wait_for(channel, oldest)?;
                channel.prepare(number(1)?.saturating_mul(1000), false);
                channel.submit();
                Ok(Vec::new())
            }
            Some("fork") => self.fork(number(1)?, number(2)?),
            Some("unmap") => {
                self.first()?.unmap_userd();
                Ok(Vec::new())
            }
            Some("map") => self.map(),
            Some("ready") => {
                self.ready = Some(self.prepare_map()?);
                Ok(Vec::new())
            }
            Some("map-ready") => {
                let ready = self.ready.take().ok_or("nothing ready")?;
                let map = ready.map(Visibility::Shared).map_err(text)?;
                self.first()?.use_userd(map, ready.linear);
                Ok(Vec::new())
            }
            Some("destroy") => self.destroy(number(1)?),
            Some("cow") => self.cow(),
            Some("busy") => {
                std::thread::spawn(|| loop {
                    let since = Instant::now();
                    while since.elapsed() < Duration::from_millis(1) {
                        std::hint::spin_loop();
                    }
                    std::thread::sleep(Duration::from_millis(9));
                });
                Ok(Vec::new())
            }
            Some("node") => {
                let opened = File::open(format!("/dev/nvidia{}", number(1)?));
                let errno = opened.err().and_then(|error| error.raw_os_error());
                // CAST: errnos are positive.
                Ok(vec![errno.unwrap_or(0) as u64])
            }
            Some("end-first") => {
                std::thread::spawn(|| {
                    // The leader of a process stays as a zombie until all threads have ended.
                    let ended = |stat: String| stat.contains(") Z ");
                    while !fs::read_to_string("/proc/self/stat").is_ok_and(ended) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    answer("ok", &[]);
                    run();
                    sys::exit_now(0)
                });
                sys::end_thread()
            }
            Some("end-traced") => self.end_traced(number(1)?),
            Some("become") => {
                let uid = u32::try_from(number(1)?).map_err(|error| error.to_string())?;
                become_user(uid).map(|()| Vec::new())
            }
            Some("claim") => {
                let small = |at| u32::try_from(number(at)?).map_err(|error| error.to_string());
                claim(&uapi::Claim {
                    gpu: small(1)?,
                    want_pct: small(2)?,
                    seconds: small(3)?,
                    seen: number(4)?,
                    ..Default::default()
                })
            }
            Some("unclaim") => claim(&uapi::Claim {
                gpu: u32::try_from(number(1)?).map_err(|error| error.to_string())?,
                action: uapi::ACTION_CLEAR,
                ..Default::default()
            }),
            Some("quit") => sys::exit_now(0),
            other => Err(format!("{other:?}: not a command")),
        }
    }

    fn first(&mut self) -> Result<&mut Channel, String> {
        self.channels
            .first_mut()
            .ok_or_else(|| "no channel".to_string())
    }

    fn open(&mut self, channels: u64) -> Result<Vec<u64>, String> {
        let channels = u32::try_from(channels).map_err(|error| error.to_string())?;
        let mut client = Client::open(0).map_err(text)?;
        self.channels =
            open_channels(&mut client, channels, DEPTH, Engine::Compute).map_err(text)?;
        self.client = Some(client);
        Ok(Vec::new())
    }

    fn back_to_back(&mut self, kernel_us: u64, ms: u64) -> Result<Vec<u64>, String> {
        let channel = self.first()?;
        let since = Instant::now();
        let (mut kernels, mut blocked_ns, mut longest_ns) = (0, 0, 0);
        while since.elapsed() < Duration::from_millis(ms) {
            let store_ns = one_kernel(channel, kernel_us)?;
            kernels += 1;
            longest_ns = store_ns.max(longest_ns);
            if store_ns > BLOCKED_ABOVE_NS {
                blocked_ns += store_ns;
            }
        }
        Ok(vec![kernels, blocked_ns / 1000, longest_ns / 1000])
    }

    fn store(&mut self, kernel_us: u64) -> Result<Vec<u64>, String> {
        Ok(vec![one_kernel(self.first()?, kernel_us)? / 1000])
    }

    fn read(&mut self) -> Result<Vec<u64>, String> {
        let since = Instant::now();
        let channel = self.first()?;
        channel.get().ok_or("the page is not mapped")?;
        // CAST: some seconds.
        Ok(vec![since.elapsed().as_micros() as u64])
    }

    fn fork(&mut self, kernel_us: u64, ms: u64) -> Result<Vec<u64>, String> {
        match sys::fork().map_err(|error| error.to_string())? {
            Some(pid) => {
                let pid = nix::unistd::Pid::from_raw(pid);
                nix::sys::wait::waitpid(pid, None).map_err(|errno| errno.to_string())?;
                // CAST: process ids are positive.
                Ok(vec![pid.as_raw() as u64])
            }
            None => {
                match self.back_to_back(kernel_us, ms) {
                    Ok(numbers) => answer("ok", &numbers),
                    Err(reason) => println!("error {reason}"),
                }
                let _ = io::stdout().flush();
                sys::exit_now(0)
            }
        }
    }

    /// The child ends with this process, and then lets its threads go.
    fn end_traced(&mut self, count: u64) -> Result<Vec<u64>, String> {
        let (ids, their) = mpsc::channel();
        let mut threads = Vec::new();
        for _ in 0..count {
            let ids = ids.clone();
            let (go_on, wait) = mpsc::channel::<()>();
            std::thread::spawn(move || {
                let _ = ids.send(nix::unistd::gettid());
                let _ = wait.recv();
                sys::end_thread()
            });
            threads.push((their.recv().map_err(|error| error.to_string())?, go_on));
        }
        let pipe = || {
            let ends = nix::unistd::pipe().map_err(|errno| errno.to_string());
            ends.map(|(read, write)| (File::from(read), File::from(write)))
        };
        let (alive, held) = pipe()?;
        let (mut done, tells) = pipe()?;
        if sys::fork().map_err(|error| error.to_string())?.is_none() {
            drop((held, done));
            let traced = threads.iter().all(|(thread, _)| seize(*thread).is_ok());
            let _ = (&tells).write(&[u8::from(traced)]);
            // It ends with the other end.
            let _ = (&alive).read(&mut [0]);
            sys::exit_now(0)
        }
        drop((alive, tells));
        let mut traced = [0];
        done.read_exact(&mut traced)
            .map_err(|error| error.to_string())?;
        if traced != [1] {
            return Err("its threads cannot be traced".to_string());
        }
        self.traced = Some(held);
        for (thread, go_on) in threads {
            let _ = go_on.send(());
            let stat = format!("/proc/self/task/{thread}/stat");
            while !fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z ")) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(Vec::new())
    }

    fn map(&mut self) -> Result<Vec<u64>, String> {
        let client = self.client.as_ref().ok_or("no client")?;
        let channel = self.channels.first_mut().ok_or("no channel")?;
        channel.map_userd(client).map_err(text)?;
        Ok(Vec::new())
    }

    fn destroy(&mut self, index: u64) -> Result<Vec<u64>, String> {
        let client = self.client.as_ref().ok_or("no client")?;
        let channel = usize::try_from(index)
            .ok()
            .and_then(|index| self.channels.get(index))
            .ok_or("no such channel")?;
        client
            .free(client.device(), channel.handle())
            .map_err(text)?;
        Ok(Vec::new())
    }

    fn prepare_map(&self) -> Result<ReadyToMap, String> {
        let client = self.client.as_ref().ok_or("no client")?;
        let channel = self.channels.first().ok_or("no channel")?;
        let path = rm::gpu_path(client.gpu());
        client
            .prepare_map(channel.handle(), loga::rm::PAGE_SIZE, &path)
            .map_err(text)
    }

    fn cow(&mut self) -> Result<Vec<u64>, String> {
        match self.prepare_map()?.map(Visibility::Private) {
            Ok(_) => Ok(vec![0]),
            Err(Error::Call { source, .. }) => {
                let errno = source.raw_os_error().unwrap_or(0);
                Ok(vec![u64::try_from(errno).unwrap_or(0)])
            }
            Err(error) => Err(text(error)),
        }
    }
}

/// Makes a claim of this process, or takes one back.
fn claim(wanted: &uapi::Claim) -> Result<Vec<u64>, String> {
    let (result, claim) = Calls::open()?.claim(wanted);
    // CAST: errnos are positive.
    let errno = result.map_or_else(|errno| errno as u64, |()| 0);
    let refusal = claim.refusal;
    Ok(vec![errno, refusal.code.into(), refusal.max, claim.seen])
}

/// Runs one kernel to its end; returns how long the store took, in ns.
fn one_kernel(channel: &mut Channel, kernel_us: u64) -> Result<u64, String> {
    let sequence = channel.prepare(kernel_us.saturating_mul(1000), false);
    let before_ns = Monotonic.now_ns();
    channel.submit();
    let store_ns = Monotonic.now_ns().saturating_sub(before_ns);
    // The kernel does not end earlier; polling for its end would keep the processor busy.
    std::thread::sleep(Duration::from_micros(kernel_us));
    wait_for(channel, sequence)?;
    Ok(store_ns)
}

/// Waits for the end of a kernel.
fn wait_for(channel: &Channel, sequence: u32) -> Result<(), String> {
    let since = Instant::now();
    while channel.completed().wrapping_sub(sequence) >= 1 << 31 {
        if since.elapsed() > KERNEL_LIMIT {
            return Err(format!("kernel {sequence} did not end"));
        }
        // A short sleep leaves the processor to others and delays the next kernel little.
        std::thread::sleep(Duration::from_micros(20));
    }
    Ok(())
}

fn text(error: Error) -> String {
    error.to_string()
}
