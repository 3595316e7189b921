// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What LoGA on a node says about its GPUs: a score each, or nothing.
//!
//! The score of a GPU is `S / (1 + S)`, where a program of which nothing is known is expected to
//! take `1 + S` times as long there as alone: the part of its speed that it would lose.

use super::metrics::{samples, Sample};
use loga::placement::{expected, Bound, Demand, Gpu, Newcomer, PPM};
use std::collections::BTreeMap;

/// A snapshot that is older says nothing, in seconds.
pub const MAX_AGE_S: u64 = 30;
/// GPUs of a node, at most; their numbers are below.
pub const MAX_GPUS: u32 = 64;
/// Most programs on a GPU of which the score takes notice.
const MAX_CLIENTS: usize = 64;
/// The window over which a GPU's load is judged.
const WINDOW: &str = "30s";

/// What is read of a text.
const WANTED: [&str; 11] = [
    "loga_up",
    "loga_snapshot_age_seconds",
    "loga_snapshot_timestamp_seconds",
    "node_time_seconds",
    "loga_gpu_want_ratio",
    "loga_gpu_waited_ratio",
    "loga_gpu_place_score",
    "loga_gpu_clients",
    "loga_gpu_lost",
    "loga_gpu_enforcing",
    "loga_fallbacks_total",
];

/// A GPU of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scored {
    /// Its number.
    pub gpu: u32,
    /// 0 (free) to a million (full).
    pub ppm: u64,
    /// How often LoGA let all programs run against a decision, so far.
    pub fallbacks: u64,
    /// The number in the name of its device node, `/dev/nvidia<N>`; that of LoGA if it is not told.
    pub minor: u32,
    /// What its programs together waited in the window, in millionths of it; may be above a million.
    pub waited: Option<u64>,
    /// What they want together, in millionths of the GPU; may be above a million.
    pub want: Option<u64>,
}

/// What a node's exporter says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opinion {
    /// Age of the snapshot in seconds, when it was read.
    pub age_s: u64,
    /// GPUs of which it says something, those that may not be chosen included.
    pub exported: usize,
    /// GPUs that may be chosen.
    pub gpus: Vec<Scored>,
    /// GPUs that are lost, by the numbers of their device nodes.
    pub lost: Vec<u32>,
}

/// What is read about one GPU.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    want: Option<u64>,
    slowdown: Option<u64>,
    clients: usize,
    lost: bool,
    enforces_nothing: bool,
    fallbacks: u64,
    waited: Option<u64>,
    minor: Option<u32>,
}

/// When a text was read, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// By the clock of this machine.
    pub now_s: Option<f64>,
    /// When it was written, if it is a file.
    pub written_s: Option<f64>,
}

/// What the text of an exporter says.
///
/// # Errors
///
/// Why it says nothing: it is malformed, or too old, or LoGA is not there.
pub fn opinion(text: &[u8], times: &Times) -> Result<Opinion, String> {
    let samples = samples(text, |name| WANTED.contains(&name))?;
    let single = |name: &str| {
        let found = samples.iter().find(|sample| sample.name == name);
        found.map(|sample| sample.value)
    };
    if single("loga_up") != Some(1.0) {
        return Err("LoGA does not answer there (loga_up)".to_string());
    }
    let age = single("loga_snapshot_age_seconds").ok_or("no loga_snapshot_age_seconds")?;
    let age = ppm(age).ok_or("loga_snapshot_age_seconds is no time")?;
    // In a file that nobody writes any more, the age stays what it was. A node exporter that hands out
    // the file says what the clock of its node is: that is then the one which made the timestamp.
    let clock = single("node_time_seconds").or(times.now_s);
    let written = single("loga_snapshot_timestamp_seconds").or(times.written_s);
    let by_clock = match clock.zip(written) {
        Some((clock, written)) => by_clock(clock - written)?,
        None => 0,
    };
    let age_s = age.max(by_clock).div_ceil(PPM);
    if age_s > MAX_AGE_S {
        return Err(format!("its figures are {age_s} s old"));
    }
    let mut gpus: BTreeMap<u32, Figures> = BTreeMap::new();
    for sample in &samples {
        note(sample, &mut gpus)?;
    }
    let scored = gpus.iter().filter_map(|(gpu, figures)| figures.score(*gpu));
    let lost = gpus.iter().filter(|(_, figures)| figures.lost);
    Ok(Opinion {
        age_s,
        exported: gpus.len(),
        gpus: scored.collect(),
        lost: lost
            .map(|(gpu, figures)| figures.minor.unwrap_or(*gpu))
            .collect(),
    })
}

/// Adds what a sample says about a GPU.
fn note(sample: &Sample<'_>, gpus: &mut BTreeMap<u32, Figures>) -> Result<(), String> {
    let matters = match sample.name {
        "loga_gpu_want_ratio" | "loga_gpu_waited_ratio" => sample.label("window") == Some(WINDOW),
        "loga_gpu_place_score" => sample.label("policy") == Some("wait"),
        "loga_gpu_clients" | "loga_gpu_lost" | "loga_gpu_enforcing" | "loga_fallbacks_total" => {
            true
        }
        _ => false,
    };
    if !matters {
        return Ok(());
    }
    let wrong = |what: &str| format!("{} has {what}", sample.name);
    let gpu = sample.label("gpu").and_then(|gpu| gpu.parse::<u32>().ok());
    let gpu = gpu.filter(|gpu| *gpu < MAX_GPUS);
    let gpu = gpu.ok_or_else(|| wrong("no GPU of a valid number"))?;
    let value = ppm(sample.value).ok_or_else(|| wrong("a senseless value"))?;
    let figures = gpus.entry(gpu).or_default();
    let minor = sample
        .label("device")
        .and_then(|name| name.strip_prefix("nvidia")?.parse().ok());
    figures.minor = figures.minor.or(minor);
    match sample.name {
        "loga_gpu_want_ratio" => figures.want = Some(value),
        "loga_gpu_waited_ratio" => figures.waited = Some(value),
        "loga_gpu_place_score" => figures.slowdown = Some(value),
        "loga_gpu_clients" => {
            figures.clients = usize::try_from(value / PPM).unwrap_or(MAX_CLIENTS);
        }
        "loga_gpu_lost" => figures.lost |= value != 0,
        "loga_gpu_enforcing" => figures.enforces_nothing |= value == 0,
        _ => figures.fallbacks = value / PPM,
    }
    Ok(())
}

impl Figures {
    fn score(&self, gpu: u32) -> Option<Scored> {
        if self.lost || self.enforces_nothing {
            return None;
        }
        let slowdown = match (self.slowdown, self.want) {
            (Some(slowdown), _) => slowdown,
            (None, Some(want)) => slowdown(want, self.clients),
            (None, None) => return None,
        };
        // Rounded down; both are far from the largest number.
        let ppm = slowdown.saturating_mul(PPM) / slowdown.saturating_add(PPM);
        Some(Scored {
            gpu,
            ppm,
            fallbacks: self.fallbacks,
            minor: self.minor.unwrap_or(gpu),
            waited: self.waited,
            want: self.want,
        })
    }
}

/// What an unknown program loses beside `clients` that together want `want`, in millionths: as if
/// each wanted the same part, in runs of the usual length.
fn slowdown(want: u64, clients: usize) -> u64 {
    let count = clients.clamp(1, MAX_CLIENTS);
    // CAST: at most 64.
    let each = (want / count as u64).min(PPM);
    let one = Bound {
        demand: Demand {
            want: each,
            ..Demand::UNKNOWN
        },
        left: None,
    };
    let gpu = Gpu {
        open: true,
        local: true,
        speed: PPM,
        bound: &vec![one; count],
    };
    expected(&gpu, &Newcomer::UNKNOWN).saturating_sub(PPM)
}

/// The age of figures by the clock, in millionths of a second.
///
/// # Errors
///
/// It is senseless, or the clock that made them is far ahead: then nobody can tell how old they are.
fn by_clock(age: f64) -> Result<u64, String> {
    // CAST: exact for such a small number.
    if age < -(MAX_AGE_S as f64) {
        return Err(format!("its clock is {:.0} s ahead of the one here", -age));
    }
    let age = if age < 0.0 { 0.0 } else { age };
    ppm(age).ok_or_else(|| "loga_snapshot_timestamp_seconds is no time".to_string())
}

/// A value in millionths, if it is a number from 0 to a million million.
fn ppm(value: f64) -> Option<u64> {
    // CAST: at most 1e18, and not negative.
    (0.0..=1e12)
        .contains(&value)
        .then_some((value * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "loga_up 1\nloga_snapshot_age_seconds 1.2\n";

    fn read(lines: &str) -> Result<Opinion, String> {
        opinion(format!("{HEAD}{lines}").as_bytes(), &Times::default())
    }

    fn scores(lines: &str) -> Vec<(u32, u64)> {
        let gpus = read(lines).expect(lines).gpus;
        gpus.iter().map(|one| (one.gpu, one.ppm)).collect()
    }

    #[test]
    fn score_is_the_part_of_its_speed_that_a_newcomer_loses() {
        let line = |score| format!("loga_gpu_place_score{{gpu=\"3\",policy=\"wait\"}} {score}\n");
        assert_eq!(scores(&line("0")), [(3, 0)]);
        assert_eq!(scores(&line("1")), [(3, 500_000)]);
        assert_eq!(scores(&line("3")), [(3, 750_000)]);
        assert!(scores(&line("1e11"))[0].1 <= PPM);
        assert_eq!(read(&line("1")).expect("reads").age_s, 2);
    }

    #[test]
    fn score_that_is_missing_follows_the_want_and_the_clients() {
        let at = |want: &str, clients: &str| {
            let text = format!(
                "loga_gpu_want_ratio{{gpu=\"0\",window=\"2s\"}} 0.1\n\
                 loga_gpu_want_ratio{{gpu=\"0\",window=\"30s\"}} {want}\n\
                 loga_gpu_clients{{gpu=\"0\"}} {clients}\n"
            );
            scores(&text)[0].1
        };
        assert_eq!(at("0", "5"), 0);
        // One half wanted, runs of equal length: half a run for a quarter of the time.
        assert_eq!(at("0.5", "1"), 111_111);
        assert!(at("0.9", "1") > at("0.5", "1"));
        // Three that want all of it: a quarter of the GPU for one that wants half of it.
        let full = at("3", "3");
        assert!(full > at("1", "1"), "{full}");
        assert!(full.abs_diff(500_000) < 120_000, "{full}");
    }

    #[test]
    fn waiting_is_that_of_half_a_minute() {
        let waited = |window| {
            let text = format!(
                "loga_gpu_place_score{{gpu=\"0\",policy=\"wait\"}} 0\n\
                 loga_gpu_waited_ratio{{gpu=\"0\",window=\"{window}\"}} 1.25\n"
            );
            read(&text).expect("reads").gpus[0].waited
        };
        assert_eq!(waited("30s"), Some(1_250_000));
        assert_eq!(waited("2s"), None);
    }

    #[test]
    fn minor_is_that_of_the_device_node() {
        let minor = |labels: &str| {
            let line = format!("loga_gpu_place_score{{gpu=\"1\",policy=\"wait\"{labels}}} 0\n");
            read(&line).expect("reads").gpus[0].minor
        };
        assert_eq!(minor(",device=\"nvidia3\""), 3);
        assert_eq!([minor(""), minor(",device=\"card0\"")], [1, 1]);
    }

    #[test]
    fn node_without_an_answer_has_no_opinion() {
        let place = "loga_gpu_place_score{gpu=\"0\",policy=\"wait\"} 0\n";
        for head in [
            "",
            "loga_up 0\nloga_snapshot_age_seconds 1\n",
            "loga_up 1\n",
            "loga_up 1\nloga_snapshot_age_seconds 31\n",
            "loga_up 1\nloga_snapshot_age_seconds NaN\n",
            "loga_up 1\nloga_snapshot_age_seconds -1\n",
        ] {
            assert!(
                opinion(format!("{head}{place}").as_bytes(), &Times::default()).is_err(),
                "{head}"
            );
        }
    }

    #[test]
    fn age_in_a_file_that_nobody_writes_any_more_grows() {
        let at = |lines: &str, now_s, written_s| {
            let text = format!("{HEAD}{lines}");
            let times = Times { now_s, written_s };
            opinion(text.as_bytes(), &times).map(|opinion| opinion.age_s)
        };
        let stamp = "loga_snapshot_timestamp_seconds 1700000000.5\n";
        assert_eq!(at(stamp, Some(1_700_000_020.0), None), Ok(20));
        // What the exporter says itself, if that is more.
        assert_eq!(at(stamp, Some(1_700_000_001.0), None), Ok(2));
        let old = at(stamp, Some(1_700_000_040.0), None).expect_err("old");
        assert_eq!(old, "its figures are 40 s old");
        // The clock of its node, by the node exporter that hands the file out.
        let with = |clock: f64| format!("{stamp}node_time_seconds {clock}\n");
        assert_eq!(at(&with(1.700_000_004e9), Some(1.8e9), None), Ok(4));
        assert!(at(&with(1.700_003_6e9), Some(1.700_000_001e9), None).is_err());
        // A file of an exporter that writes no timestamp: when it was written.
        assert_eq!(at("", Some(1_000.0), Some(990.0)), Ok(10));
        assert!(at("", Some(1_000.0), Some(960.0)).is_err());
        assert_eq!(at("", Some(1_000.0), None), Ok(2));
        let ahead = at(stamp, Some(1_699_999_000.0), None).expect_err("ahead");
        assert!(ahead.contains("its clock is 1000 s ahead"), "{ahead}");
        for value in ["NaN", "+Inf", "-Inf", "1e300"] {
            let stamp = format!("loga_snapshot_timestamp_seconds {value}\n");
            assert!(at(&stamp, Some(1_000.0), None).is_err(), "{value}");
        }
    }

    #[test]
    fn gpu_that_is_lost_or_not_enforcing_is_left_out() {
        let place = |gpu| format!("loga_gpu_place_score{{gpu=\"{gpu}\",policy=\"wait\"}} 0\n");
        let both = format!("{}{}", place(0), place(1));
        assert_eq!(scores(&both).len(), 2);
        let lost = format!("{both}loga_gpu_lost{{gpu=\"0\"}} 1\nloga_gpu_lost{{gpu=\"1\"}} 0\n");
        assert_eq!(scores(&lost), [(1, 0)]);
        assert_eq!(read(&lost).expect("reads").exported, 2);
        assert_eq!(read(&lost).expect("reads").lost, [0]);
        let free =
            format!("{both}loga_gpu_enforcing{{gpu=\"1\"}} 0\nloga_gpu_enforcing{{gpu=\"0\"}} 1\n");
        assert_eq!(scores(&free), [(0, 0)]);
    }

    #[test]
    fn senseless_values_refuse_the_node() {
        for line in [
            "loga_gpu_place_score{policy=\"wait\"} 1",
            "loga_gpu_place_score{gpu=\"-1\",policy=\"wait\"} 1",
            "loga_gpu_place_score{gpu=\"64\",policy=\"wait\"} 1",
            "loga_gpu_place_score{gpu=\"0\",policy=\"wait\"} NaN",
            "loga_gpu_place_score{gpu=\"0\",policy=\"wait\"} -0.5",
            "loga_gpu_want_ratio{gpu=\"0\",window=\"30s\"} +Inf",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
        // Of no concern.
        assert!(read("loga_gpu_place_score{gpu=\"x\",policy=\"guf\"} NaN").is_ok());
    }
}
