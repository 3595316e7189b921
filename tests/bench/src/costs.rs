// SPDX-License-Identifier: GPL-2.0

//! Revoke and restore latencies, and memory, as LoGA's debugfs file gives them.

use crate::figure::Findings;
use loga_results::stats::{mean, quantile};
use std::fs;

/// LoGA's file with the costs of its gates.
const COSTS: &str = "/sys/kernel/debug/loga/costs";

/// Reads the file and notes its figures.
pub(crate) fn note(findings: &mut Findings) -> Result<(), String> {
    let text = fs::read_to_string(COSTS).map_err(|error| format!("{COSTS}: {error}"))?;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [name @ ("client_bytes" | "channel_bytes"), bytes] => {
                let bytes = bytes.parse().map_err(|_| format!("{COSTS}: {line}"))?;
                let what = name.trim_end_matches("_bytes");
                findings.record(&format!("memory per {what}"), bytes, "bytes");
            }
            // `gpu0 revoke_ns 1 2 3`
            [_, name @ ("revoke_ns" | "restore_ns"), ref samples @ ..] => {
                let samples: Vec<f64> = samples
                    .iter()
                    .map(|sample| sample.parse().map_err(|_| format!("{COSTS}: {line}")))
                    .collect::<Result<_, _>>()?;
                latency(findings, name.trim_end_matches("_ns"), samples)?;
            }
            [_, "samples" | "grants" | "decide_ns" | "start_ns" | "enter_ns" | "close_ns", ..] => {}
            _ => return Err(format!("{COSTS}: unreadable: {line}")),
        }
    }
    Ok(())
}

/// Mean time of revoking a client's mappings, in ns; nothing if no client was throttled.
pub(crate) fn revoke_ns() -> Option<f64> {
    let text = fs::read_to_string(COSTS).ok()?;
    let line = text.lines().find(|line| line.contains(" revoke_ns "))?;
    let samples = line.split_whitespace().skip(2);
    let samples: Vec<f64> = samples.filter_map(|sample| sample.parse().ok()).collect();
    // CAST: a few hundred samples.
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// Notes mean and 99th percentile of the last samples of a figure, such as `close_ns`.
pub(crate) fn note_last(findings: &mut Findings, what: &str, name: &str) -> Result<(), String> {
    let samples = samples(name)?;
    let values = || samples.iter().copied();
    let p99 = quantile(values(), 99).ok_or_else(|| format!("{COSTS}: {name} without samples"))?;
    findings.record(&format!("{what}, mean"), mean(values()), "ns");
    findings.record(&format!("{what}, p99"), p99, "ns");
    Ok(())
}

/// Median and largest of the last `count` samples of a figure, in ns.
pub(crate) fn recent(what: &str, count: usize) -> Result<[f64; 2], String> {
    let samples = samples(what)?;
    let mut samples = samples[samples.len().saturating_sub(count)..].to_vec();
    samples.sort_by(f64::total_cmp);
    match (samples.get(samples.len() / 2), samples.last()) {
        (Some(median), Some(most)) => Ok([*median, *most]),
        _ => Err(format!("{COSTS}: {what} without samples")),
    }
}

/// The samples of a figure of the first GPU, the oldest first.
fn samples(name: &str) -> Result<Vec<f64>, String> {
    let text = fs::read_to_string(COSTS).map_err(|error| format!("{COSTS}: {error}"))?;
    let mut lines = text.lines().map(|line| line.split_whitespace().skip(1));
    let words = lines.find_map(|mut words| (words.next() == Some(name)).then_some(words));
    let words = words.ok_or_else(|| format!("{COSTS}: no {name}"))?;
    Ok(words.filter_map(|word| word.parse().ok()).collect())
}

fn latency(findings: &mut Findings, what: &str, samples: Vec<f64>) -> Result<(), String> {
    let values = || samples.iter().copied();
    let p99 = quantile(values(), 99);
    let p99 = p99.ok_or_else(|| format!("{what}: no client was throttled"))?;
    findings.record(&format!("{what}, 12 channels: mean"), mean(values()), "ns");
    findings.record(&format!("{what}, 12 channels: p99"), p99, "ns");
    // CAST: a few hundred samples.
    let count = samples.len() as f64;
    findings.record(&format!("{what}, 12 channels: samples"), count, "");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_without_samples_is_an_error() {
        let mut findings = Findings::new("test");
        assert!(latency(&mut findings, "revoke", Vec::new()).is_err());
        latency(&mut findings, "revoke", vec![3.0, 1.0]).expect("two samples");
        let values: Vec<_> = findings.figures.iter().map(|one| one.value).collect();
        assert_eq!(values, [Some(2.0), Some(3.0), Some(2.0)]);
    }
}
