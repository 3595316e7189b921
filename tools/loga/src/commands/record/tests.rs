// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Recordings of a double of the kernel module.

use super::*;
use crate::fake::FakeKernel;
use crate::processes::cut;
use crate::recording::layout::{Amounts, Line, Sample};
use clap::Parser;
use loga::uapi;
use loga::uapi::Event;
use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

const S: u64 = 1_000_000_000;

/// What opens a double.
type Open<'a> = Box<dyn Fn() -> Result<Control<&'a FakeKernel>, Error> + 'a>;

/// A recording of a double, and the folder that it is in.
struct Made<'a> {
    fake: &'a FakeKernel,
    folder: tempfile::TempDir,
}

impl<'a> Made<'a> {
    fn of(fake: &'a FakeKernel) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { fake, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("recording")
    }

    fn begin(&self, gpu: Option<u32>) -> Result<Recorder<&'a FakeKernel, Open<'a>>, Failure> {
        let subject = Subject {
            gpu,
            interval: Duration::from_secs(1),
            owners: Owners::new(|| Directory::of("ann:x:1000:1000::/:/bin/sh\n", None)),
            processes: Processes::below(Path::new("/nowhere")),
        };
        let fake = self.fake;
        let open: Open<'a> = Box::new(move || Ok(Control::over(fake)));
        Recorder::begin(&self.path(), subject, open)
    }

    fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(self.path()).expect("a file");
        assert!(text.ends_with('\n'), "{text}");
        let line = |line| serde_json::from_str(line).expect("a line");
        text.lines().map(line).collect()
    }

    fn samples(&self) -> Vec<Sample> {
        let sample = |line| match line {
            Line::Sample(sample) => Some(sample),
            _ => None,
        };
        self.lines().into_iter().filter_map(sample).collect()
    }
}

/// Lets time pass, and gives all clients and totals so much.
fn pass(fake: &FakeKernel, time_ns: u64, got_ns: u64) {
    for gpu in fake.gpus.borrow_mut().iter_mut() {
        gpu.info.now_ns += time_ns;
        gpu.info.polled_ns += time_ns / 4;
        gpu.info.unpolled_ns += time_ns - time_ns / 4;
        gpu.info.idle_ns += time_ns / 8;
        for client in &mut gpu.clients {
            client.gpu_time_ns += got_ns;
            client.waited_ns += got_ns / 2;
            client.throttled_ns += got_ns / 4;
        }
        let count = gpu.clients.len() as u64;
        for (_, total) in &mut gpu.totals {
            total.gpu_time_ns += got_ns * count;
        }
    }
    quiet(fake, 1);
}

/// So many looks for events find none.
fn quiet(fake: &FakeKernel, times: usize) {
    for _ in 0..times {
        fake.events.borrow_mut().push_back(Vec::new());
    }
}

fn event(kind: u32, client: u64, time_ns: u64, value: u64) -> Event {
    Event {
        time_ns,
        client,
        kind,
        value,
        pid: 7,
        uid: 1000,
        name: cut(&"prog".into()),
        ..Event::default()
    }
}

fn kinds(lines: &[Line]) -> Vec<&'static str> {
    let kind = |line: &Line| match line {
        Line::Start(_) => "start",
        Line::Sample(_) => "sample",
        Line::Event(_) => "event",
        Line::Gap(_) => "gap",
        Line::Resume(_) => "resume",
        Line::End(_) => "end",
    };
    lines.iter().map(kind).collect()
}

#[test]
fn lines_are_a_header_differences_and_an_end() {
    let fake = FakeKernel::new(2);
    fake.add_client(1, 5, 1000);
    fake.add_total(1, uapi::SUBJECT_USER, 1000, 0);
    pass(&fake, 100 * S, 7 * S);
    fake.events.borrow_mut().clear();
    let made = Made::of(&fake);
    let mut recorder = made.begin(None).expect("begun");
    pass(&fake, S, S / 2);
    recorder.sample().expect("written");
    pass(&fake, 2 * S, S);
    quiet(&fake, 1);
    let count = recorder.end("interrupted").expect("written");
    assert_eq!((count.samples, count.events, count.gaps), (4, 0, 0));
    let lines = made.lines();
    let all = ["start", "sample", "sample", "sample", "sample", "end"];
    assert_eq!(kinds(&lines), all);
    let Line::Start(start) = &lines[0] else {
        panic!("no header: {lines:?}");
    };
    assert_eq!((start.version, start.abi), (1, uapi::VERSION));
    assert_eq!((start.interval_ms, start.time_ns), (1000, 100 * S));
    assert!(start.unix_ns > start.time_ns);
    assert_eq!((start.gpus.len(), &*start.gpus[1].policy), (2, "event"));
    let samples = made.samples();
    let second = &samples[3];
    assert_eq!(
        (second.gpu, second.from_ns, second.time_ns),
        (1, 101 * S, 103 * S)
    );
    let client = &second.clients[0];
    assert_eq!((client.id, client.uid), (5, 1000));
    let got = Amounts {
        gpu_time_ns: S,
        waited_ns: S / 2,
        throttled_ns: S / 4,
    };
    assert_eq!(client.got, got);
    let user = &second.users[0];
    assert_eq!((user.id, user.got.gpu_time_ns), (Some(1000), S));
    assert_eq!(user.name.as_ref().expect("a name"), "ann");
    let whole = second.whole.as_ref().expect("figures");
    assert_eq!(
        (whole.span_ns, whole.polled_ns, whole.idle_ns),
        (2 * S, S / 2, S / 4)
    );
    assert_eq!((whole.busy_ns, second.span_ns()), (S / 4, 2 * S));
    assert!(samples[2].clients.is_empty());
    assert!(samples[2].users.is_empty());
}

#[test]
fn client_between_two_samples_is_in_its_events_and_sums_are_those_of_the_end() {
    let fake = FakeKernel::new(1);
    fake.add_client(0, 1, 1000);
    fake.add_client(0, 2, 1000);
    pass(&fake, 50 * S, 9 * S);
    fake.events.borrow_mut().clear();
    let made = Made::of(&fake);
    let mut recorder = made.begin(None).expect("begun");
    // Of before the recording.
    fake.events
        .borrow_mut()
        .push_back(vec![event(uapi::EVENT_EXITED, 9, 49 * S, S)]);
    recorder.hear(Duration::ZERO).expect("heard");
    pass(&fake, S, S / 4);
    recorder.sample().expect("written");
    // One comes and goes, and one that was sampled goes.
    fake.gpus.borrow_mut()[0].clients.remove(1);
    let events = vec![
        event(uapi::EVENT_APPEARED, 3, 51 * S, 0),
        event(uapi::EVENT_EXITED, 3, 51 * S, 77),
        event(uapi::EVENT_EXITED, 2, 51 * S, 9 * S + S / 4 + 99),
    ];
    fake.events.borrow_mut().push_back(events);
    recorder.sample().expect("written");
    quiet(&fake, 2);
    recorder.end("duration").expect("written");
    let rests: Vec<(u64, Option<u64>)> = made
        .lines()
        .into_iter()
        .filter_map(|line| match line {
            Line::Event(event) => Some((event.what.client.expect("one").client, event.rest_ns)),
            _ => None,
        })
        .collect();
    assert_eq!(rests, [(3, None), (3, Some(77)), (2, Some(99))]);
    assert_eq!(made.samples()[1].clients.len(), 1);
}

#[test]
fn client_whose_event_comes_after_the_sample_that_lacks_it_loses_nothing() {
    let fake = FakeKernel::new(1);
    fake.add_client(0, 2, 1000);
    let made = Made::of(&fake);
    let mut recorder = made.begin(None).expect("begun");
    pass(&fake, S, S / 4);
    recorder.sample().expect("written");
    fake.gpus.borrow_mut()[0].clients.clear();
    quiet(&fake, 1);
    recorder.sample().expect("written");
    let late = vec![event(uapi::EVENT_EXITED, 2, 2 * S, S / 4 + 5)];
    fake.events.borrow_mut().push_back(late);
    recorder.hear(Duration::ZERO).expect("heard");
    let lines = made.lines();
    let Some(Line::Event(event)) = lines.last() else {
        panic!("no event: {lines:?}");
    };
    assert_eq!(event.rest_ns, Some(5));
}

#[test]
fn module_that_goes_and_comes_leaves_a_gap() {
    let fake = FakeKernel::new(1);
    fake.add_client(0, 1, 1000);
    let made = Made::of(&fake);
    let mut recorder = made.begin(None).expect("begun");
    pass(&fake, S, S);
    recorder.sample().expect("written");
    fake.fail(libc::ENODEV);
    // Without events there is the end of the file.
    recorder.hear(Duration::ZERO).expect("a gap");
    recorder.sample().expect("still a gap");
    fake.fail(None);
    {
        let gpu = &mut fake.gpus.borrow_mut()[0];
        // Loaded anew, counters too.
        gpu.clients[0].gpu_time_ns = 5;
    }
    recorder.sample().expect("back");
    pass(&fake, S, 30);
    recorder.sample().expect("written");
    quiet(&fake, 2);
    let count = recorder.end("interrupted").expect("written");
    assert_eq!(count.gaps, 1);
    let lines = made.lines();
    let all = [
        "start", "sample", "gap", "resume", "sample", "sample", "end",
    ];
    assert_eq!(kinds(&lines), all);
    let Line::Gap(gap) = &lines[2] else {
        panic!("no gap: {lines:?}");
    };
    assert!(gap.why.contains("attached to no driver"), "{}", gap.why);
    assert_eq!(made.samples()[1].clients[0].got.gpu_time_ns, 30);
}

#[test]
fn module_of_another_version_ends_it() {
    let fake = FakeKernel::new(1);
    let made = Made::of(&fake);
    let mut recorder = made.begin(None).expect("begun");
    fake.fail(libc::ENODEV);
    recorder.sample().expect("a gap");
    fake.fail(None);
    fake.speak(uapi::VERSION + 1);
    let failure = recorder.sample().expect_err("another version");
    assert!(failure.to_string().contains("this program speaks version"));
    assert_eq!(kinds(&made.lines()), ["start", "gap"]);
}

#[test]
fn names_of_any_bytes_are_on_one_harmless_line() {
    let fake = FakeKernel::new(1);
    fake.add_client(0, 1, 1000);
    fake.gpus.borrow_mut()[0].clients[0].comm = cut(&(&b"a\"\n\x1b,\xff"[..]).into());
    let made = Made::of(&fake);
    let mut recorder = made.begin(None).expect("begun");
    pass(&fake, S, S);
    recorder.sample().expect("written");
    let text = fs::read_to_string(made.path()).expect("a file");
    assert!(!text.contains('\x1b'), "{text}");
    assert!(text.lines().count() == 2, "{text}");
    let client = &made.samples()[0].clients[0];
    assert_eq!(client.comm_hex.as_deref(), Some("61220a1b2cff"));
}

#[test]
fn gpu_that_does_not_exist_is_refused_before_a_file_is_made() {
    let fake = FakeKernel::new(2);
    let made = Made::of(&fake);
    let failure = made.begin(Some(2)).err().expect("refused");
    assert_eq!(failure.to_string(), "there is no GPU 2: want 0 to 1");
    assert!(!made.path().exists());
    made.begin(Some(1)).expect("begun");
    let Line::Start(start) = &made.lines()[0] else {
        panic!("no header");
    };
    assert_eq!((start.gpus.len(), start.gpus[0].gpu), (1, 1));
}

#[test]
fn command_ends_by_a_signal_or_when_the_time_is_over_and_says_what_it_wrote() {
    let fake = FakeKernel::new(1);
    for (stopped, why) in [(true, "interrupted"), (false, "duration")] {
        let made = Made::of(&fake);
        let file = made.path();
        let words = ["loga", "record", "--interval", "100", "--duration", "0.25"];
        let words = words
            .map(Into::into)
            .into_iter()
            .chain([file.into_os_string()]);
        let arguments = cli::Arguments::try_parse_from(words).expect("right");
        let cli::Command::Record(arguments) = arguments.command else {
            panic!("not record");
        };
        let (opened, mut out) = (Cell::new(0), Vec::new());
        let open = || {
            opened.set(opened.get() + 1);
            quiet(&fake, 1);
            Ok(Control::over(&fake))
        };
        let stop = AtomicBool::new(stopped);
        quiet(&fake, 1);
        run(&arguments, open, Directory::default, &stop, &mut out).expect("recorded");
        let lines = made.lines();
        let Some(Line::End(end)) = lines.last() else {
            panic!("no end: {lines:?}");
        };
        assert_eq!(end.why, why);
        let said = String::from_utf8(out).expect("text");
        assert!(said.contains(" samples and 0 events in "), "{said}");
        fake.events.borrow_mut().clear();
    }
}

#[test]
fn disk_that_is_full_ends_it_with_the_name_of_the_file() {
    let fake = FakeKernel::new(1);
    let subject = Subject {
        gpu: None,
        interval: Duration::from_secs(1),
        owners: Owners::new(Directory::default),
        processes: Processes::default(),
    };
    let open = || Ok(Control::over(&fake));
    let begun = Recorder::begin(Path::new("/dev/full"), subject, open);
    let failure = begun.err().expect("full");
    assert!(failure.to_string().starts_with("cannot write /dev/full: "));
}
