// SPDX-License-Identifier: GPL-2.0

//! From a phase as it is written to one that makes sense.

use super::file::{self, Launch};
use super::plain::{Error, Phase};
use super::text::Text;
use super::time::Span;
use loga::units::Ns;
use toml::Spanned;

/// Most times that something is done; in practice for ever.
pub(super) const REPEAT_MAX: u64 = 1_000_000_000_000;
/// Longest queue: the ring of a channel holds that many commands.
const DEPTH_MAX: u64 = 1000;

/// Checks a phase.
pub(super) fn phase(source: &Text, written: &Spanned<file::Phase>) -> Result<Phase, Error> {
    let phase = written.get_ref();
    let nothing = phase.cpu_us.is_none() && phase.copy_us.is_none() && phase.kernel_us.is_none();
    if nothing {
        let reason = "a phase without work, want at least one of cpu_us, copy_us, kernel_us";
        return Err(source.error(written.span(), reason));
    }
    let depth = match (phase.launch, &phase.depth) {
        (Launch::Synchronous, None) => 1,
        (Launch::Queued, Some(depth)) => source.number("depth", depth, 1, DEPTH_MAX)?,
        (Launch::Queued, None) => {
            let reason = format!("launch = \"queued\" wants depth, 1 to {DEPTH_MAX}");
            return Err(source.error(written.span(), reason));
        }
        (Launch::Synchronous, Some(depth)) => {
            let reason = "depth is only for launch = \"queued\"";
            return Err(source.error(depth.span(), reason));
        }
    };
    Ok(Phase {
        cpu: phase.cpu_us.unwrap_or(Span::Constant(Ns::ZERO)),
        copy: phase.copy_us,
        kernel: phase.kernel_us,
        // CAST: at most DEPTH_MAX.
        depth: depth as u32,
        repeat: source.number("repeat", &phase.repeat, 1, REPEAT_MAX)?,
    })
}
