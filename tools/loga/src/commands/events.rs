// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga events`: what happens.

use super::{print_json, Failure, JSON_VERSION};
use crate::control::{Calls, Control};
use crate::names::Name;
use crate::processes::Processes;
use crate::{cli, names};
use loga::uapi;
use loga::uapi::Event;
use nix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};
use std::io;
use std::io::Write;
use std::time::{Duration, Instant};

/// Events read at once.
const BATCH: usize = 64;

/// TIMEOUT: longest wait between two checks of the time left; waiting costs nothing.
const WAIT: Duration = Duration::from_secs(60);

/// Kinds of events about submissions that are decided on, and what their count is of.
const OF_SUBMISSIONS: [(u32, &str); 4] = [
    (uapi::EVENT_MISSED, "deadlines that were promised"),
    (
        uapi::EVENT_VOID,
        "deadlines whose conditions had been broken",
    ),
    (
        uapi::EVENT_EXCEEDED,
        "submissions longer than a deadline of another client bears",
    ),
    (uapi::EVENT_BREACHED, "submissions longer than declared"),
];

/// One event; an object of `loga events --json`. Which of the last nine members there are depends
/// on the kind.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Line {
    pub(crate) version: u32,
    pub(crate) time_ns: u64,
    pub(crate) sequence: u64,
    /// Events that were lost just before this one.
    pub(crate) lost: u64,
    pub(crate) event: String,
    pub(crate) gpu: u32,
    #[serde(flatten)]
    pub(crate) client: Option<Client>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) throttled_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) throttled_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gpu_time_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fallback: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gained_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) claimed_gpu: Option<u64>,
    /// Number of the page that stays open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) page: Option<u64>,
    /// For how long submissions were not decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) passed_ns: Option<u64>,
    /// How many submissions it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) submissions: Option<u64>,
}

/// The client that an event is about.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Client {
    pub(crate) client: u64,
    pub(crate) pid: i32,
    pub(crate) uid: u32,
    pub(crate) comm: Name,
    /// Its bytes in hexadecimal digits, if they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) comm_hex: Option<String>,
}

impl Line {
    /// `now_ns` is the time of the reading.
    pub(crate) fn new(event: &Event, lost: u64, processes: &Processes, now_ns: u64) -> Self {
        let client = || {
            let comm = processes.present(event.pid, &event.name, event.time_ns, now_ns);
            Client {
                client: event.client,
                pid: event.pid,
                uid: event.uid,
                comm_hex: comm.hex(),
                comm,
            }
        };
        let value = |kind: u32| (event.kind == kind).then_some(event.value);
        Line {
            version: JSON_VERSION,
            time_ns: event.time_ns,
            sequence: event.sequence,
            lost,
            event: names::event(event.kind),
            gpu: event.gpu,
            client: (event.client != 0).then(client),
            throttled_by: value(uapi::EVENT_THROTTLED).map(names::throttled_by),
            throttled_ns: value(uapi::EVENT_RELEASED),
            gpu_time_ns: value(uapi::EVENT_EXITED),
            fallback: value(uapi::EVENT_FALLBACK).map(names::fallback),
            policy: (event.kind == uapi::EVENT_POLICY).then(|| names::text(&event.name)),
            gained_ns: value(uapi::EVENT_EVASION),
            claimed_gpu: value(uapi::EVENT_ELSEWHERE),
            page: value(uapi::EVENT_STUCK),
            passed_ns: value(uapi::EVENT_ENGAGED),
            submissions: OF_SUBMISSIONS.iter().find_map(|(kind, _)| value(*kind)),
        }
    }

    /// The same for a person; times as in the kernel's log.
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        if self.lost > 0 {
            writeln!(
                out,
                "{} events were lost: this reader was too slow",
                self.lost
            )?;
        }
        let (seconds, ns) = (self.time_ns / 1_000_000_000, self.time_ns % 1_000_000_000);
        write!(out, "[{seconds:>5}.{:06}] GPU {}: ", ns / 1000, self.gpu)?;
        if let Some(Client { pid, comm, .. }) = &self.client {
            write!(out, "{pid} {comm}: ")?;
        }
        write!(out, "{}", self.event)?;
        let ms = |ns: u64| ns as f64 / 1e6;
        if let Some(by) = &self.throttled_by {
            write!(out, " by {by}")?;
        }
        if let Some(throttled_ns) = self.throttled_ns {
            write!(out, " after {:.1} ms", ms(throttled_ns))?;
        }
        if let Some(gpu_time_ns) = self.gpu_time_ns {
            write!(out, " with {:.1} ms of GPU time", ms(gpu_time_ns))?;
        }
        if let Some(cause) = &self.fallback {
            write!(out, ", all clients run: {cause}")?;
        }
        if let Some(policy) = &self.policy {
            write!(out, " {policy} decides")?;
        }
        if let Some(gained_ns) = self.gained_ns {
            write!(
                out,
                ", it ran more between polling phases than in them: {:.1} ms that were not charged are",
                ms(gained_ns)
            )?;
        }
        if let Some(claimed_gpu) = self.claimed_gpu {
            write!(out, ", it has claimed GPU {claimed_gpu}")?;
        }
        if let Some(page) = self.page {
            write!(out, ", page {page} stays open until a lock is free")?;
        }
        if let Some(passed_ns) = self.passed_ns {
            write!(out, " again, all passed for {:.1} ms", ms(passed_ns))?;
        }
        if let Some(count) = self.submissions {
            let of_kind = |(kind, _): &&(u32, _)| names::event(*kind) == self.event;
            let what = OF_SUBMISSIONS.iter().find(of_kind);
            write!(out, ", {count} {}", what.map_or("", |(_, what)| what))?;
        }
        if self.event == names::EVENTS[uapi::EVENT_TURN as usize] && self.client.is_none() {
            write!(out, ", none has it")?;
        }
        writeln!(out)
    }
}

/// Prints events until there were enough, the time is over, or the caller is interrupted.
///
/// # Errors
///
/// Any [`Failure`].
pub fn run(
    arguments: &cli::Events,
    control: &Control<impl Calls>,
    processes: &Processes,
    out: &mut impl Write,
) -> Result<(), Failure> {
    if let Some(gpu) = arguments.gpu {
        // A subscription is not refused for a GPU that does not exist (yet).
        control.snapshot(gpu)?;
    }
    control.subscribe(arguments.gpu.unwrap_or(uapi::ALL_GPUS), mask(arguments))?;
    let end = arguments.duration.map(|duration| Instant::now() + duration);
    let mut left = arguments.times.unwrap_or(u64::MAX);
    let mut expected = None;
    let mut events = [Event::default(); BATCH];
    while left > 0 {
        let wait = match end {
            None => WAIT,
            Some(end) => end.saturating_duration_since(Instant::now()).min(WAIT),
        };
        if end.is_some() && wait.is_zero() {
            break;
        }
        let count = control.events(&mut events, wait)?;
        let now_ns = monotonic_ns();
        for event in events.iter().take(count) {
            if left == 0 {
                break;
            }
            left -= 1;
            let lost = event
                .sequence
                .saturating_sub(expected.unwrap_or(event.sequence));
            expected = Some(event.sequence.saturating_add(1));
            let line = Line::new(event, lost, processes, now_ns);
            if arguments.json {
                print_json(out, &line)?;
            } else {
                line.print(out)?;
            }
        }
        out.flush()?;
    }
    Ok(())
}

/// CLOCK_MONOTONIC, as of the events.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn mask(arguments: &cli::Events) -> u64 {
    let bit = |kind: &String| names::number(&names::EVENTS, kind).map_or(0, |number| 1 << number);
    match arguments
        .kinds
        .iter()
        .map(bit)
        .fold(0, |mask, bit| mask | bit)
    {
        0 => uapi::EVENTS_RARE,
        mask => mask,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;

    fn event(sequence: u64, kind: u32, value: u64) -> Event {
        let mut event = Event {
            time_ns: 12_345_678_901,
            sequence,
            client: 3,
            kind,
            pid: 432,
            uid: 1000,
            value,
            ..Default::default()
        };
        event.name[..8].copy_from_slice(b"throttle");
        event
    }

    fn of_gpu(kind: u32, value: u64, name: &[u8]) -> Event {
        let mut event = Event {
            client: 0,
            pid: 0,
            name: [0; uapi::COMM_LEN],
            ..event(0, kind, value)
        };
        event.name[..name.len()].copy_from_slice(name);
        event
    }

    fn events(fake: &FakeKernel, line: &str) -> String {
        let line = format!("loga events {line}");
        let words = line.split_whitespace();
        let arguments = <cli::Arguments as clap::Parser>::parse_from(words);
        let cli::Command::Events(arguments) = arguments.command else {
            panic!("not events: {line}");
        };
        let mut out = Vec::new();
        let none = Processes::below(std::path::Path::new("/nowhere"));
        run(&arguments, &Control::over(fake), &none, &mut out).expect("prints");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn every_kind_says_what_its_value_means() {
        let fake = FakeKernel::new(1);
        fake.events.borrow_mut().push_back(vec![
            event(0, uapi::EVENT_APPEARED, 0),
            event(1, uapi::EVENT_THROTTLED, uapi::THROTTLED_BY_LIMIT.into()),
            event(2, uapi::EVENT_RELEASED, 12_300_000),
            event(3, uapi::EVENT_EXITED, 45_600_000),
            event(4, uapi::EVENT_ELSEWHERE, 1),
            event(5, uapi::EVENT_MISSED, 3),
            event(6, uapi::EVENT_BREACHED, 2),
            event(7, uapi::EVENT_TURN, 0),
            event(8, uapi::EVENT_STUCK, 3),
        ]);
        let text = events(&fake, "--times 9");
        let at = "[   12.345678] GPU 0: 432 throttle:";
        let said = [
            "appeared",
            "throttled by limit",
            "released after 12.3 ms",
            "exited with 45.6 ms of GPU time",
            "elsewhere, it has claimed GPU 1",
            "missed, 3 deadlines that were promised",
            "breached, 2 submissions longer than declared",
            "turn",
            "stuck, page 3 stays open until a lock is free",
        ];
        let lines: Vec<String> = said.iter().map(|said| format!("{at} {said}\n")).collect();
        let expected = lines.concat();
        assert_eq!(text, expected);
    }

    #[test]
    fn events_of_a_whole_gpu_name_no_client() {
        let fake = FakeKernel::new(1);
        fake.events.borrow_mut().push_back(vec![
            of_gpu(uapi::EVENT_FALLBACK, uapi::FALLBACK_LATE, b""),
            of_gpu(uapi::EVENT_POLICY, 0, b"maxmin"),
            of_gpu(uapi::EVENT_GPU_LOST, 0, b""),
            of_gpu(uapi::EVENT_TURN, 0, b""),
            of_gpu(uapi::EVENT_FALLBACK, uapi::FALLBACK_SILENT, b""),
            of_gpu(uapi::EVENT_ENGAGED, 3_200_000_000, b""),
        ]);
        let text = events(&fake, "--times 6");
        let said: Vec<&str> = text.lines().filter_map(|line| line.get(14..)).collect();
        let expected = [
            " GPU 0: fallback, all clients run: late",
            " GPU 0: policy maxmin decides",
            " GPU 0: gpu-lost",
            " GPU 0: turn, none has it",
            " GPU 0: fallback, all clients run: silent",
            " GPU 0: engaged again, all passed for 3200.0 ms",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn json_has_a_line_per_event_with_what_was_lost_before() {
        let fake = FakeKernel::new(1);
        let mut queue = fake.events.borrow_mut();
        queue.push_back(vec![event(
            0,
            uapi::EVENT_THROTTLED,
            uapi::THROTTLED_BY_POLICY.into(),
        )]);
        queue.push_back(vec![event(5, uapi::EVENT_RELEASED, 7)]);
        drop(queue);
        let text = events(&fake, "--times 2 --json");
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines[0]["throttled_by"], "policy");
        assert_eq!(lines[0]["lost"], 0);
        assert_eq!(lines[1]["lost"], 4);
        assert_eq!(lines[1]["throttled_ns"], 7);
        assert_eq!(lines[1]["comm"], "throttle");
        assert!(lines[1].get("throttled_by").is_none());
    }

    #[test]
    fn subscription_is_to_the_kinds_and_the_gpu_asked_for() {
        let fake = FakeKernel::new(2);
        events(&fake, "--times 0");
        let all = (uapi::ALL_GPUS, uapi::EVENTS_RARE);
        assert_eq!(fake.subscribed.get(), Some(all));
        events(&fake, "--times 0 --kinds turn");
        let turns = (uapi::ALL_GPUS, 1 << uapi::EVENT_TURN);
        assert_eq!(fake.subscribed.get(), Some(turns));
        events(&fake, "--times 0 --gpu 1 --kinds throttled,released");
        let two = (1 << uapi::EVENT_THROTTLED) | (1 << uapi::EVENT_RELEASED);
        assert_eq!(fake.subscribed.get(), Some((1, two)));
    }

    #[test]
    fn device_that_goes_away_ends_it_with_an_error() {
        let fake = FakeKernel::new(1);
        let mut out = Vec::new();
        let failure = run(
            &cli::Events::default(),
            &Control::over(&fake),
            &Processes::default(),
            &mut out,
        );
        assert!(failure.is_err());
    }
}
