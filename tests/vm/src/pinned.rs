// SPDX-License-Identifier: GPL-2.0

//! Where the emulator's threads run, so that equal runs give equal results.
//!
//! One thread executes the virtual processors, another expires timers while all of them are idle.
//! On two processors of the host either of them can be the first to see that a timer has expired,
//! and the virtual processor that goes on is then another. On one processor, with the second thread
//! always ahead of the first, there is one order only.

use std::fs;
use std::process::{Command, Stdio};

/// Puts the main thread first; threads that it creates are ordinary again.
const FIRST: [&str; 4] = ["chrt", "-R", "-f", "1"];

/// What goes before the command of an emulator whose clock counts instructions.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pinned {
    /// The processor of the host.
    processor: u32,
    /// Whether the main thread may be put first.
    first: bool,
}

impl Pinned {
    /// On the processor of this place among those that this process may use, counted around; else
    /// on the one that this process runs on. None where `/proc` does not tell.
    pub(crate) fn choose(place: Option<u32>) -> Option<Self> {
        let processor = match place {
            Some(place) => {
                let status = fs::read_to_string("/proc/self/status").ok()?;
                nth(&allowed(&status)?, place)?
            }
            None => current(&fs::read_to_string("/proc/self/stat").ok()?)?,
        };
        Some(Self {
            processor,
            first: may_be_first(),
        })
    }

    /// Whether two equal runs give one result.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.first
    }

    /// The words before the emulator's.
    pub(crate) fn words(&self) -> Vec<String> {
        let first = if self.first { &FIRST[..] } else { &[] };
        let mut words: Vec<String> = first.iter().map(|word| (*word).to_owned()).collect();
        words.extend(["taskset".to_owned(), "-c".to_owned()]);
        words.push(self.processor.to_string());
        words
    }
}

/// Whether this process may start another that comes before ordinary ones.
fn may_be_first() -> bool {
    Command::new(FIRST[0])
        .args(&FIRST[1..])
        .arg("true")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The processors in `/proc/self/status` that the process may use.
fn allowed(status: &str) -> Option<Vec<u32>> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut processors = Vec::new();
    for part in list.trim().split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        processors.extend(from.parse::<u32>().ok()?..=to.parse::<u32>().ok()?);
    }
    Some(processors)
}

fn nth(processors: &[u32], place: u32) -> Option<u32> {
    let place = usize::try_from(place).ok()?;
    processors
        .get(place.checked_rem(processors.len())?)
        .copied()
}

/// The processor in `/proc/self/stat`: field 39; the second is a name in parentheses.
fn current(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_around() {
        let allowed = allowed("Name:\tx\nCpus_allowed_list:\t0-2,8,10-11\nx:\t1\n").unwrap();
        assert_eq!(allowed, [0, 1, 2, 8, 10, 11]);
        assert_eq!(nth(&allowed, 3), Some(8));
        assert_eq!(nth(&allowed, 7), Some(1));
        assert_eq!(nth(&[], 0), None);
        assert_eq!(super::allowed("Cpus_allowed_list:\tall\n"), None);
        assert_eq!(super::allowed("Name:\tx\n"), None);
    }

    #[test]
    fn processor_is_read_behind_a_name_with_spaces() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("1 (a b) c) {}\n", fields.join(" "));
        assert_eq!(current(&stat), Some(39));
        assert_eq!(current("1 (x) S 2"), None);
    }

    #[test]
    fn process_of_its_own_is_found() {
        assert!(Pinned::choose(None).is_some());
        assert!(Pinned::choose(Some(5)).is_some());
    }

    #[test]
    fn main_thread_is_put_first_where_that_is_allowed() {
        let words = |first| {
            let processor = 1;
            Pinned { processor, first }.words().join(" ")
        };
        assert_eq!(words(false), "taskset -c 1");
        assert_eq!(words(true), "chrt -R -f 1 taskset -c 1");
    }
}
