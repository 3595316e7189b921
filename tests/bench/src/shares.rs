// SPDX-License-Identifier: GPL-2.0

//! Weights and limits: shares of two clients that both want the whole GPU, and of one alone.

use crate::figure::Findings;
use crate::load::Pattern;
use crate::stage::Stage;
use crate::window::Window;

/// Phases of the paper, of random lengths: two clients that run in step repeat the same round,
/// and phases of equal lengths would poll the same part of it.
const PAPER: &str = "policy=event enforce=1 randomize=1 scale=channels";
/// Phases that grow with active clients.
const OURS: &str = "policy=event enforce=1 randomize=1 scale=active";
/// Kernels of 200 us back to back, the next one in the queue when one ends: alone it keeps the
/// GPU busy too.
const BUSY: Pattern = Pattern::new(200, 0).deep(2);

/// Shares at weights of 1:1, 1:3 and 1:9 over 10 s with the paper's phase lengths and over 2 s
/// with ours, and the share of a lone client under a limit.
pub(crate) fn shares(findings: &mut Findings) -> Result<(), String> {
    for (phases, parameters, seconds) in [("the paper's", PAPER, 10.0), ("our", OURS, 2.0)] {
        for (share, times) in [
            ("--weight 100", 1.0),
            ("--weight 300", 3.0),
            ("--weight 900", 9.0),
        ] {
            let _stage = Stage::measured("", parameters)?;
            let window = Window::of(&[BUSY, BUSY.with(share)], seconds)?;
            // Of the sum of both: switching between them is part of it, idle time is not.
            let both = window.ran_share(0) + window.ran_share(1);
            let part = 100.0 * window.ran_share(0) / both;
            let label = format!("weights of 1:{times}, {phases} phases, {seconds} s");
            let error = part - 100.0 / (1.0 + times);
            findings.check(&format!("{label}: error"), error, "points", -1.0..=1.0);
            findings.record(&format!("{label}: both together"), both, "%");
            findings.observations.push(window.observation(&label));
        }
    }
    for (share, limit) in [("--limit 20", 20.0), ("--limit 50", 50.0)] {
        for load in [BUSY, Pattern::new(1000, 0).deep(2)] {
            let _stage = Stage::measured("", OURS)?;
            let window = Window::of(&[load.with(share)], 5.0)?;
            let label = format!("limit of {limit} %, kernels of {} us", load.kernel_us);
            let got = window.ran_share(0);
            findings.check(&label, got, "%", 0.0..=1.05 * limit);
            findings.observations.push(window.observation(&label));
        }
    }
    Ok(())
}
