// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Calls on the driver's nodes, by the recorder of `tests/card`: of one CUDA process, of two,
//! of one beside a program that uses EGL or Vulkan.

use super::load::{library, Load, Running};
use super::site::Site;
use loga_card::{recording, Outcome};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The recorder's source, kept in this program.
const RECORDER: [(&str, &str); 1] = [("record.c", include_str!("../../../../tests/card/record.c"))];

/// Kernels of a process: all objects are made before the first.
const WORDS: &str = "--kernel-us 1000 --count 20";
/// Kernels beside a program that uses another library.
const BESIDE: &str = "--kernel-us 1000 --seconds 3";

/// Programs that list what EGL and Vulkan offer, with the words that make them short.
const LISTS: [(&str, &[&str]); 2] = [("eglinfo", &["-B"]), ("vulkaninfo", &["--summary"])];
/// TIMEOUT: for each of them.
const LIST: Duration = Duration::from_secs(10);
/// Time between two looks at one.
const INTERVAL: Duration = Duration::from_millis(10);

/// The step.
pub(super) fn record(site: &Site) -> Outcome {
    all(site).unwrap_or_else(|outcome| outcome)
}

fn all(site: &Site) -> Result<Outcome, Outcome> {
    site.nodes()?;
    let recorder = library(site, "record", &RECORDER)?;
    let recorded = |name: &str, words: &str| {
        Load::new(site, name, words)
            .set("LD_PRELOAD", &recorder)
            .set("RECORD", site.scratch.join(name))
            .set("RECORD_NODES", site.nodes_begin())
    };
    recorded("one", WORDS)
        .run()?
        .report::<serde_json::Value>()?;
    let mut kept = vec![keep(site, "one")?];
    let pair = [recorded("two-a", WORDS), recorded("two-b", WORDS)];
    let running = [pair[0].start()?, pair[1].start()?];
    for one in running {
        one.finish(site.left())?.report::<serde_json::Value>()?;
    }
    kept.extend([keep(site, "two-a")?, keep(site, "two-b")?]);
    let mut load = recorded("beside", BESIDE).with_announcement().start()?;
    // It has made its objects by then.
    load.wait_for_start(site.left())?;
    let mut lists = Vec::new();
    for (program, words) in LISTS {
        lists.push(list(site, &recorder, program, words, &mut load));
    }
    // What it recorded is there however it ended; the mappings that are left it notes at its end.
    load.finish(site.left())?;
    kept.push(keep(site, "beside")?);
    Ok(Outcome::Done {
        found: format!("{}; {}", kept.join(", "), lists.join(", ")),
    })
}

/// Keeps the recordings of a run; how many lines they have.
fn keep(site: &Site, name: &str) -> Result<String, Outcome> {
    let entries = fs::read_dir(&site.scratch).into_iter().flatten().flatten();
    let begins = format!("{name}.");
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        // The process id is the end of the name.
        file.strip_prefix(&begins)
            .is_some_and(|end| end.bytes().all(|byte| byte.is_ascii_digit()))
    });
    paths.sort_unstable();
    let mut lines = 0;
    for (number, path) in paths.iter().enumerate() {
        lines += count(path)?;
        site.keep_file(&format!("{name}-{number}.calls"), path)?;
    }
    match lines {
        0 => Err(Outcome::refused(
            "CUDA's library",
            "it made no call on a node of the driver",
        )),
        _ => Ok(format!("{name}: {lines} lines")),
    }
}

fn count(path: &Path) -> Result<usize, Outcome> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| Outcome::refused("the file system", error))?;
    let lines = recording::lines(&text);
    let lines = lines.map_err(|wrong| Outcome::refused("the recording", wrong))?;
    Ok(lines.len())
}

/// Runs a program under the recorder while the load runs; says how that went.
fn list(site: &Site, recorder: &Path, program: &str, words: &[&str], load: &mut Running) -> String {
    if load.has_ended() {
        return format!("{program}: the load had ended");
    }
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.env("LD_PRELOAD", recorder);
    command.env("RECORD", site.scratch.join(program));
    command.env("RECORD_NODES", site.nodes_begin());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return format!("{program}: {error}"),
    };
    let since = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if since.elapsed() >= LIST.min(site.left()) {
            // What it recorded is kept.
            let _ = child.kill();
            let _ = child.wait();
            break;
        }
        std::thread::sleep(INTERVAL);
    }
    keep(site, program).unwrap_or_else(|outcome| format!("{program}: {outcome}"))
}
