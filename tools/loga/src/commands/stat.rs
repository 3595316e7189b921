// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga stat`: what every client got.

use super::{print_json, Failure};
use crate::control::{Calls, Control, Snapshot};
use crate::processes::Processes;
use crate::stat::Stat;
use crate::terminal::Terminal;
use crate::{cli, table};
use std::io;
use std::io::Write;
use std::time::Duration;

/// To the top left corner, and clear the screen.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// What a table without `--watch` shows beside the sums.
const RECENT: Duration = Duration::from_secs(1);

/// Prints once, or at intervals; on a terminal the screen is cleared each time, and columns for which
/// it is too narrow are left out.
///
/// # Errors
///
/// [`Failure::Device`] or [`Failure::Print`].
pub fn run(
    arguments: &cli::Stat,
    control: &Control<impl Calls>,
    processes: &Processes,
    terminal: Option<Terminal>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let chosen = || -> Result<Vec<Snapshot>, Failure> {
        let mut chosen = control.chosen(arguments.gpu)?;
        processes.rename(&mut chosen);
        Ok(chosen)
    };
    let mut before = chosen()?;
    let Some(interval) = arguments.watch else {
        if arguments.json || arguments.sums {
            return Ok(print(
                arguments.json,
                &before,
                &[],
                processes,
                terminal,
                out,
            )?);
        }
        std::thread::sleep(RECENT);
        let now = chosen()?;
        for (at, snapshot) in now.iter().enumerate() {
            let recent = Stat::new(snapshot, before.get(at));
            let stat = Stat::new(snapshot, None).seen_with(processes, snapshot);
            let shown = table::render_with(&stat, Some(&recent), width(terminal));
            writeln!(out, "{shown}")?;
        }
        return Ok(out.flush()?);
    };
    let mut left = arguments.times.unwrap_or(u64::MAX);
    while left > 0 {
        std::thread::sleep(interval);
        let now = chosen()?;
        if terminal.is_some_and(|one| one.addressable) && !arguments.json {
            out.write_all(CLEAR)?;
        }
        print(arguments.json, &now, &before, processes, terminal, out)?;
        before = now;
        left = left.saturating_sub(1);
    }
    Ok(())
}

/// Columns that there are; no limit for what is no terminal.
fn width(terminal: Option<Terminal>) -> Option<usize> {
    terminal.map(|terminal| terminal.columns().into())
}

fn print(
    json: bool,
    now: &[Snapshot],
    before: &[Snapshot],
    processes: &Processes,
    terminal: Option<Terminal>,
    out: &mut impl Write,
) -> io::Result<()> {
    for (i, snapshot) in now.iter().enumerate() {
        let stat = Stat::new(snapshot, before.get(i)).seen_with(processes, snapshot);
        if json {
            print_json(out, &stat.to_json()?)?;
        } else {
            let shown = table::render_with(&stat, None, width(terminal));
            writeln!(out, "{shown}")?;
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeKernel;
    use crate::terminal::tests::WHOLE;

    fn processes() -> Processes {
        Processes::below(std::path::Path::new("/nowhere"))
    }

    #[test]
    fn gpu_with_a_server_of_mps_says_so() {
        let fake = FakeKernel::new(2);
        fake.add_client(1, 5, 1000);
        {
            let client = &mut fake.gpus.borrow_mut()[1].clients[0];
            client.pid = 77;
            crate::mps::tests::command(client, "nvidia-cuda-mps-server");
        }
        for sums in [true, false] {
            let arguments = cli::Stat {
                sums,
                ..Default::default()
            };
            let text = printed(&arguments, &fake);
            let line = "MPS: all programs of server 77 are one client: they share its GPU time";
            assert_eq!(text.matches(line).count(), 1, "{text}");
        }
        let arguments = cli::Stat {
            json: true,
            ..Default::default()
        };
        let text = printed(&arguments, &fake);
        let servers = |line: &str| {
            let stat: Stat = serde_json::from_str(line).expect("JSON");
            stat.mps_servers
        };
        let all: Vec<Vec<i32>> = text.lines().map(servers).collect();
        assert_eq!(all, [vec![], vec![77]]);
    }

    fn printed(arguments: &cli::Stat, fake: &FakeKernel) -> String {
        let mut out = Vec::new();
        run(
            arguments,
            &Control::over(fake),
            &processes(),
            None,
            &mut out,
        )
        .expect("prints");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn json_is_one_object_per_gpu_and_line() {
        let fake = FakeKernel::new(2);
        fake.add_client(1, 5, 1000);
        fake.gpus.borrow_mut()[1].clients[0].busy_30s_ppm = 304_000;
        let arguments = cli::Stat {
            json: true,
            ..Default::default()
        };
        let text = printed(&arguments, &fake);
        let stats: Vec<Stat> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(stats.len(), 2);
        assert_eq!((stats[1].gpu, stats[1].clients[0].uid), (1, 1000));
        assert_eq!((stats[1].wanting, stats[1].want_30s), (1, 0.3));
    }

    #[test]
    fn table_has_the_last_second_beside_the_sums_unless_only_those_are_wanted() {
        let fake = FakeKernel::new(1);
        fake.add_client(0, 5, 1000);
        let text = printed(&cli::Stat::default(), &fake);
        assert!(text.contains("LAST 1 s"), "{text}");
        assert!(text.contains("THERE"), "{text}");
        let sums = cli::Stat {
            sums: true,
            ..Default::default()
        };
        let text = printed(&sums, &fake);
        assert!(text.contains("SHARE"), "{text}");
        assert!(!text.contains("LAST 1 s"), "{text}");
    }

    #[test]
    fn terminal_gets_what_fits_and_is_cleared_only_if_it_obeys() {
        let fake = FakeKernel::new(1);
        fake.add_client(0, 5, 1000);
        let arguments = cli::Stat {
            watch: Some(Duration::from_millis(1)),
            times: Some(2),
            ..Default::default()
        };
        let printed = |terminal: Terminal| {
            let (control, mut out) = (Control::over(&fake), Vec::new());
            let done = run(&arguments, &control, &processes(), Some(terminal), &mut out);
            done.expect("prints");
            String::from_utf8(out).expect("text")
        };
        let dumb = Terminal {
            addressable: false,
            ..WHOLE
        };
        let text = printed(dumb);
        assert!(!text.contains('\x1b'), "{text}");
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert_eq!(text.matches("not shown: ").count(), 2, "{text}");
        assert_eq!(printed(WHOLE).matches("\x1b[2J").count(), 2);
    }

    #[test]
    fn watch_prints_differences_so_many_times() {
        let fake = FakeKernel::new(1);
        let arguments = cli::Stat {
            watch: Some(Duration::from_millis(1)),
            times: Some(3),
            ..Default::default()
        };
        let text = printed(&arguments, &fake);
        assert_eq!(text.matches("no clients").count(), 3);
        assert_eq!(text.matches("last 0.0 ms").count(), 3, "{text}");
    }
}
