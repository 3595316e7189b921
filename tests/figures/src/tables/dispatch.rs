// SPDX-License-Identifier: GPL-2.0

//! Engaged scheduling.

use super::{at_least, checked, plain, CHECKED};
use crate::table::Table;

/// Costs of engaged scheduling.
pub(super) fn dispatch() -> Table {
    let row = |length: u32| {
        let of = |how: &str, form: &str, what: &str| {
            format!("{{{form} two of {length} us, {how}: {what}}}")
        };
        let cost = |what: &str| {
            let mean = of("prio", "1/1000", &format!("{what}, mean"));
            format!(
                "{mean}, {} us",
                of("prio", "1/1000", &format!("{what}, p99"))
            )
        };
        plain(
            "dispatch",
            vec![
                format!("{length} us"),
                of("none", "1", "time per kernel") + " us",
                of("prio", "1", "time per kernel") + " us",
                of("none", "1", "utilisation") + " %",
                of("prio", "1", "utilisation") + " %",
                of("prio", "1", "threads of LoGA, of a core") + " %",
                cost("enter"),
                cost("close"),
            ],
        )
    };
    Table {
        name: "dispatch",
        head: &[
            "kernels of",
            "time per kernel, `none`",
            "`prio`",
            "utilisation, `none`",
            "`prio`",
            "the completion thread, of a core",
            "the decision in the fault: mean, 99 %",
            "closing a window: mean, 99 %",
        ],
        rows: [33, 100, 1000, 5000].map(row).into(),
    }
}

/// Kernels that are seen as soon as they end.
pub(super) fn looks() -> Table {
    Table {
        name: "looks",
        head: CHECKED,
        rows: vec![checked(
            "dispatch",
            "kernels of 33 us in a millisecond, in which a thread that looks each millisecond sees one",
            "{1 kernels of 33 us, prio, over a look each ms}",
            "at least 10",
            &[at_least(10.0)],
        )],
    }
}

/// Frames beside long kernels.
pub(super) fn frames() -> Table {
    let row = |(about, name, beside): (&str, &str, bool)| {
        let part = |of: &str| format!("{{0 {name}: {of}}} us");
        let kernels = match beside {
            true => format!("{{0 {name}: kernels of 3 ms}}"),
            false => String::new(),
        };
        plain(
            "dispatch",
            vec![
                about.to_owned(),
                part("mean"),
                part("95 %"),
                part("longest"),
                kernels,
            ],
        )
    };
    let beside = "frames beside kernels of 3 ms";
    Table {
        name: "frames",
        head: &[
            "",
            "mean",
            "95 % within",
            "longest",
            "kernels of 3 ms in 4 s",
        ],
        rows: vec![
            row(("alone", "frames alone", false)),
            row((
                "`none`: the GPU serves both in turn",
                &format!("{beside}, none"),
                true,
            )),
            row(("`prio`", &format!("{beside}, prio"), true)),
        ],
    }
}
