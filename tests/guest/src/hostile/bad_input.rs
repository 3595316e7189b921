// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Calls of the driver in orders that make no sense, with handles of others or of clients that
//! are gone; rings with wrong indices; semaphores that nobody releases.
//!
//! [`fuzz`](super::fuzz) makes such calls at random. Here each order of a few calls is tried.

use super::ownership::{check, open, ready, LIFE};
use super::{model, Program};
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::stage::{Stage, FINE, LAZY};
use crate::truth::shares;
use loga::rm as abi;
use loga::rm::submit::{USERD_GP_GET, USERD_SLOT};
use loga::rm::{class, nr};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};
use throttle::channel::Channel;
use throttle::random::Random;
use throttle::rm::Client;
use throttle::sys::Visibility;
use throttle::{rm, sys};

crate::ktap::tests![
    two_calls_of_a_channel_in_any_order_get_the_drivers_own_answers,
    ring_with_wrong_indices_gains_nothing: timed,
    semaphores_that_are_never_released_stop_nobody: timed,
    three_calls_of_a_channel_in_any_order_get_the_drivers_own_answers,
];

/// The tests of `make test`.
pub(super) const QUICK: &[crate::ktap::Test] = &[TESTS[0]];

/// The programs of this file.
pub(super) const PROGRAMS: &[(&str, super::Act)] = &[
    ("orders", orders),
    ("wrong-indices", |_| wrong_indices()),
    ("never-released", |_| never_released()),
];

/// Length of a hog's kernels, and how many it keeps queued: those of the plain hog.
const KERNEL_NS: u64 = 1_000_000;
const DEPTH: u32 = 4;
/// Between two looks at a channel.
const PAUSE: Duration = Duration::from_micros(200);
/// TIMEOUT: for all orders of three calls.
const ALL_ORDERS: Duration = Duration::from_secs(300);

/// Whose handles a call has.
#[derive(Clone, Copy, Debug)]
struct Handles {
    root: u32,
    device: u32,
    channel: u32,
}

/// A client of a driver, which may be gone, and the control file that its calls are made on.
struct Subject {
    own: Handles,
    /// Of a client of another process.
    foreign: Handles,
    ctl: File,
    /// Both, until the control file is closed.
    alive: Option<(Client, Vec<Channel>)>,
    mapping: Option<sys::Mapping>,
    /// Handle of the next object.
    next: u32,
}

/// What a call answered: an RM status, or an errno.
type Answer = Result<u32, i32>;

impl Subject {
    fn open(foreign: Handles) -> Result<Self, String> {
        let (client, channels) = open(1, DEPTH)?;
        let own = handles(&client, &channels)?;
        let ctl = client
            .ctl()
            .try_clone()
            .map_err(|error| error.to_string())?;
        Ok(Subject {
            own,
            foreign,
            ctl,
            alive: Some((client, channels)),
            mapping: None,
            next: 0x7000_0000,
        })
    }

    /// A call of a structure on the control file.
    fn call<T: sys::Plain, P: sys::Plain>(
        &self,
        number: u32,
        argument: &mut T,
        parameters: &mut P,
        point: impl FnOnce(&mut T, u64),
        status: impl FnOnce(&T) -> u32,
    ) -> Answer {
        sys::call(self.ctl.as_fd(), number, argument, parameters, point)
            .map(|()| status(argument))
            .map_err(|error| error.raw_os_error().unwrap_or(0))
    }

    fn schedule(&self, of: Handles, enable: bool) -> Answer {
        let mut parameters = abi::ScheduleParams {
            enable: enable.into(),
            skip_submit: 0,
        };
        let mut control = abi::Control {
            client: of.root,
            object: of.channel,
            cmd: class::CTRL_GPFIFO_SCHEDULE,
            params_size: 2,
            ..Default::default()
        };
        let point = |control: &mut abi::Control, at| control.params = at;
        let status = |control: &abi::Control| control.status;
        self.call(nr::CONTROL, &mut control, &mut parameters, point, status)
    }

    fn free(&self, of: Handles, parent: u32, object: u32) -> Answer {
        let mut free = abi::Free {
            root: of.root,
            parent,
            object,
            status: 0,
        };
        self.call(nr::FREE, &mut free, &mut (), |_, _| (), |free| free.status)
    }

    fn alloc(&mut self, of: Handles) -> Answer {
        self.next += 1;
        let mut parameters = abi::ChannelParams {
            gpfifo_offset: 0x1_0000_0000,
            gpfifo_entries: 64,
            engine_type: class::ENGINE_TYPE_GRAPHICS,
            ..Default::default()
        };
        let mut alloc = abi::Alloc {
            root: of.root,
            parent: of.device,
            handle: self.next,
            class: class::CHANNEL_GPFIFO_B,
            ..Default::default()
        };
        let point = |alloc: &mut abi::Alloc, at| alloc.params = at;
        let status = |alloc: &abi::Alloc| alloc.status;
        self.call(nr::ALLOC, &mut alloc, &mut parameters, point, status)
    }

    /// Has a page prepared, and maps it in place of the one before.
    fn map(&mut self, of: Handles) -> Answer {
        let file = rm::open_node(&rm::gpu_path(0)).map_err(|_| -1)?;
        let version = rm::check_version(&self.ctl).map_err(|_| -1)?;
        let map = abi::MapMemory {
            client: of.root,
            device: of.device,
            memory: of.channel,
            length: abi::PAGE_SIZE,
            ..Default::default()
        };
        let (prepared, offset) = if version.version.starts_with(b"340.") {
            let mut map = map;
            let status = |map: &abi::MapMemory| map.status;
            let prepared = self.call(nr::MAP_MEMORY, &mut map, &mut (), |_, _| (), status);
            (prepared, map.linear / abi::PAGE_SIZE * abi::PAGE_SIZE)
        } else {
            let fd = file.as_raw_fd();
            let mut map = abi::MapMemoryFd { map, fd, pad: 0 };
            let status = |map: &abi::MapMemoryFd| map.map.status;
            let prepared = self.call(nr::MAP_MEMORY, &mut map, &mut (), |_, _| (), status);
            (prepared, 0)
        };
        if prepared != Ok(0) {
            return prepared;
        }
        // CAST: a page.
        let length = abi::PAGE_SIZE as usize;
        let mapped = sys::Mapping::new(file.as_fd(), length, offset, Visibility::Shared);
        self.mapping = Some(mapped.map_err(|error| error.raw_os_error().unwrap_or(0))?);
        Ok(0)
    }

    /// Queues a kernel, if the channel is still there for this process.
    fn submit(&mut self) -> Answer {
        if let Some((_, channels)) = &mut self.alive {
            for channel in channels {
                channel.prepare(100_000, false);
                channel.submit();
            }
        }
        Ok(0)
    }

    /// Closes the control file, and opens another one for the next calls.
    fn close(&mut self) -> Answer {
        self.ctl = rm::open_node(rm::CTL_PATH).map_err(|_| -1)?;
        self.alive = None;
        Ok(0)
    }

    fn unmap(&mut self) -> Answer {
        self.mapping = None;
        if let Some((_, channels)) = &mut self.alive {
            channels.iter_mut().for_each(Channel::unmap_userd);
        }
        Ok(0)
    }
}

/// A call, and what it is called.
type Step = (&'static str, fn(&mut Subject) -> Answer);

const STEPS: &[Step] = &[
    ("enable", |on| on.schedule(on.own, true)),
    ("disable", |on| on.schedule(on.own, false)),
    ("free channel", |on| {
        on.free(on.own, on.own.device, on.own.channel)
    }),
    ("free device", |on| {
        on.free(on.own, on.own.root, on.own.device)
    }),
    ("free client", |on| {
        on.free(on.own, on.own.root, on.own.root)
    }),
    ("alloc", |on| on.alloc(on.own)),
    ("map", |on| on.map(on.own)),
    ("unmap", Subject::unmap),
    ("submit", Subject::submit),
    ("close", Subject::close),
    ("enable another's", |on| on.schedule(on.foreign, true)),
    ("disable another's", |on| on.schedule(on.foreign, false)),
    ("free another's channel", |on| {
        on.free(on.foreign, on.foreign.device, on.foreign.channel)
    }),
    ("free another's client", |on| {
        on.free(on.foreign, on.foreign.root, on.foreign.root)
    }),
    ("alloc for another", |on| on.alloc(on.foreign)),
    ("map another's", |on| on.map(on.foreign)),
];

fn handles(client: &Client, channels: &[Channel]) -> Result<Handles, String> {
    Ok(Handles {
        root: client.root(),
        device: client.device(),
        channel: channels.first().ok_or("no channel")?.handle(),
    })
}

/// A child with a client of its own, which ends when the other end of a pipe does. It runs a kernel
/// then: it exits with 0 if that ended.
fn other() -> Result<(nix::unistd::Pid, Handles, File), String> {
    let pipe = || nix::unistd::pipe().map_err(|errno| errno.to_string());
    let ((told, tells), (ends, end)) = (pipe()?, pipe()?);
    let Some(pid) = sys::fork().map_err(|error| error.to_string())? else {
        drop((told, end));
        let lived = open(1, DEPTH).and_then(|(client, mut channels)| {
            let of = handles(&client, &channels)?;
            let words = [of.root, of.device, of.channel].map(u32::to_le_bytes);
            let sent = File::from(tells).write_all(&words.concat());
            sent.map_err(|error| error.to_string())?;
            let waited = File::from(ends).read(&mut [0]);
            waited.map_err(|error| error.to_string())?;
            let channel = channels.first_mut().ok_or("no channel")?;
            let sequence = channel.prepare(100_000, false);
            channel.submit();
            let since = Instant::now();
            while channel.completed() != sequence {
                ensure!(since.elapsed() < LIFE, "its kernel did not end");
                std::thread::sleep(PAUSE);
            }
            Ok(())
        });
        sys::exit_now(lived.is_err().into());
    };
    drop((tells, ends));
    let mut bytes = [0; 12];
    let heard = File::from(told).read_exact(&mut bytes);
    heard.map_err(|error| error.to_string())?;
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let of = Handles {
        root: word(0),
        device: word(4),
        channel: word(8),
    };
    Ok((nix::unistd::Pid::from_raw(pid), of, end.into()))
}

/// `orders LENGTH`: makes so many calls in each order, each time with a fresh client; prints what each
/// answered.
fn orders(words: &[String]) -> Result<(), String> {
    use nix::sys::wait::{waitpid, WaitStatus};
    let length = super::fuzz::number(words, 0)?;
    let (pid, foreign, end) = other()?;
    let count = STEPS.len().pow(length as u32);
    let mut text = String::new();
    for order in 0..count {
        let mut subject = Subject::open(foreign)?;
        let mut rest = order;
        for _ in 0..length {
            let (name, step) = STEPS[rest % STEPS.len()];
            rest /= STEPS.len();
            let answer = step(&mut subject);
            text.push_str(&format!("{name} {answer:?}, "));
        }
        text.push('\n');
    }
    print!("{text}");
    drop(end);
    let ended = waitpid(pid, None).map_err(|errno| errno.to_string())?;
    println!("the other: {:?}", matches!(ended, WaitStatus::Exited(_, 0)));
    Ok(())
}

/// What all orders of so many calls answer.
fn answers(length: u32) -> Result<Vec<String>, String> {
    let text = Program::start(&format!("orders {length}"))?.finish()?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Checks that all orders of so many calls have the same answers with LoGA, that a client of another
/// process lives on, and that nothing is left.
fn check_orders(length: u32) -> Verdict {
    let stage = Stage::without_loga(&model(LAZY))?;
    let since = Instant::now();
    let without = answers(length)?;
    stage.add_loga("enforce=1")?;
    let load = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    let with = answers(length)?;
    ensure!(
        since.elapsed() < ALL_ORDERS,
        "it took {:?}",
        since.elapsed()
    );
    ensure!(load.stop()?.summary.kernels > 0, "a load did nothing");
    let orders = STEPS.len().pow(length);
    let accepted = without.iter().flat_map(|line| line.split(", "));
    let accepted = accepted.filter(|answer| answer.ends_with("Ok(0)")).count();
    println!("# {orders} orders of {length} calls, {accepted} calls accepted");
    ensure!(with.len() == orders + 1, "{} lines", with.len());
    for (one, other) in without.iter().zip(&with) {
        ensure!(one == other, "without LoGA {one}, with LoGA {other}");
    }
    let last = with.last().map_or("", String::as_str);
    ensure!(last == "the other: true", "{last}");
    super::fuzz::wait_until_empty(&stage)?;
    let stat = stage.stat()?;
    let left = stat.unmanaged_mappings + stat.unmanaged_files;
    ensure!(left == 0, "{left} mappings or files were not managed");
    stage.check_no_fallback()?;
    stage.teardown()
}

fn two_calls_of_a_channel_in_any_order_get_the_drivers_own_answers() -> Verdict {
    check_orders(2)
}

fn three_calls_of_a_channel_in_any_order_get_the_drivers_own_answers() -> Verdict {
    check_orders(3)
}

/// A hog that stores random numbers in its slot, where the GPU tells how far it is, and every 50 ms
/// an index beyond its ring, after which it needs another channel.
fn wrong_indices() -> Result<(), String> {
    const TURN: Duration = Duration::from_millis(50);
    let mut random = Random::new(1);
    let since = Instant::now();
    while since.elapsed() < LIFE {
        let (client, mut channels) = open(1, DEPTH)?;
        let channel = channels.first_mut().ok_or("no channel")?;
        let ready = ready(&client, channel)?;
        let page = ready
            .map(Visibility::Shared)
            .map_err(|error| error.to_string())?;
        // CAST (both): less than a page.
        let get = (ready.linear % abi::PAGE_SIZE + USERD_GP_GET) as usize;
        let slots = abi::PAGE_SIZE / USERD_SLOT;
        let turn = Instant::now();
        while turn.elapsed() < TURN {
            // CAST: any bits.
            page.write(get, random.next_u64() as u32);
            // The word before it, in all slots of the page.
            for slot in 0..slots {
                let at = (slot * USERD_SLOT + USERD_GP_GET - 4) as usize;
                page.write(at, random.next_u64() as u32);
            }
            if channel.sequence().wrapping_sub(channel.completed()) < DEPTH {
                channel.prepare(KERNEL_NS, false);
                channel.submit();
            } else {
                std::thread::sleep(PAUSE);
            }
        }
        let entries = channel.depth_max() + 1;
        let beyond = [entries, entries + 1, 2 * entries, 0x8000_0000, u32::MAX];
        // CAST: five.
        channel.store_put(beyond[random.next_u64() as usize % beyond.len()]);
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn ring_with_wrong_indices_gains_nothing() -> Verdict {
    check("wrong-indices")
}

/// Commands in many channels that wait for semaphores that nobody releases, with more behind them.
fn never_released() -> Result<(), String> {
    const CHANNELS: u32 = 16;
    let (_client, mut channels) = open(CHANNELS, DEPTH)?;
    for channel in &mut channels {
        channel.prepare_held(KERNEL_NS);
        channel.prepare(KERNEL_NS, false);
        channel.submit();
    }
    println!("waiting");
    std::thread::sleep(LIFE);
    Ok(())
}

fn semaphores_that_are_never_released_stop_nobody() -> Verdict {
    for parameters in ["enforce=1", "policy=none dispatch=prio"] {
        let stage = Stage::set(&model(&format!("{LAZY} {FINE}")), parameters)?;
        let load = Load::start("--kernel-us 500 --depth 2 --wait block --channels 1")?;
        stage.wait_until_measured(load.pid())?;
        let [alone] = shares([load.pid()], 500, 2000)?;
        let mut program = Program::start("never-released")?;
        program.line(super::storms::ROOM_LIMIT)?;
        let [beside] = shares([load.pid()], 500, 2000)?;
        println!("# {parameters}: {alone:.1} % alone, {beside:.1} % beside it");
        // The GPU looks at each of these channels once a round, and saves no context for them.
        within("points lost", alone - beside, ..=1.0)?;
        let unknown = stage.stat()?.unknown.unwrap_or(0.0);
        ensure!(unknown == 0.0, "{unknown} of the time is of nobody");
        drop((program, load));
        super::fuzz::wait_until_empty(&stage)?;
        stage.check_no_fallback()?;
        stage.teardown()?;
    }
    Ok(())
}
