// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What a job asks for, in the words of `squeue` and of its Comment.

use crate::cli;
use loga::share::Limit;
use loga::units::Weight;

/// Beginning of a word of the Comment that is meant for LoGA.
const OURS: &str = "loga:";
/// Longest part of a comment that is read, in bytes.
pub(super) const MAX_READ: usize = 1024;

/// What a job wants for its cgroup, by its Comment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) weight: Option<u32>,
    pub(super) limit: Option<u32>,
}

impl Wish {
    /// `loga:weight=300 loga:limit=40`, among other words. The job's user wrote it: any text.
    ///
    /// # Errors
    ///
    /// What is wrong, in one line.
    pub(super) fn of_comment(comment: &str) -> Result<Self, String> {
        if comment.len() >= MAX_READ {
            return Err(format!("it has {MAX_READ} bytes or more"));
        }
        let words = comment.split([' ', ',', ';']);
        let mut wish = Self::default();
        // `loga: 2.500 GPU s on n1` is what we wrote ourselves.
        for asked in
            words.filter_map(|word| word.strip_prefix(OURS).filter(|rest| !rest.is_empty()))
        {
            let (name, value) = asked.split_once('=').unwrap_or((asked, ""));
            let (slot, least, most) = match name {
                "weight" => (&mut wish.weight, Weight::MIN, Weight::MAX),
                "limit" => (&mut wish.limit, Limit::MIN, Limit::MAX),
                _ => {
                    return Err(format!(
                        "'{OURS}{asked}': want {OURS}weight=N or {OURS}limit=PERCENT"
                    ))
                }
            };
            let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let number = value
                .parse::<u32>()
                .ok()
                .filter(|number| digits && (least..=most).contains(number));
            let number = number.ok_or_else(|| {
                format!("'{OURS}{asked}': want {OURS}{name}=N with {least} to {most}")
            })?;
            if slot.replace(number).is_some() {
                return Err(format!("{OURS}{name} stands there twice"));
            }
        }
        Ok(wish)
    }

    /// The same, if the options of the Prolog allow it.
    ///
    /// # Errors
    ///
    /// What they do not allow, in one line.
    pub(super) fn allowed(self, arguments: &cli::SlurmProlog) -> Result<Self, String> {
        match (self.weight, arguments.max_weight) {
            (Some(_), None) => {
                return Err(format!("{OURS}weight is not allowed here (--max-weight)"))
            }
            (Some(weight), Some(most)) if weight > most => {
                return Err(format!(
                    "{OURS}weight={weight}: at most {most} is allowed here (--max-weight)"
                ));
            }
            _ => {}
        }
        if self.limit.is_some() && !arguments.limits {
            return Err(format!("{OURS}limit is not allowed here (--limits)"));
        }
        Ok(self)
    }
}

/// `gres:shard:g1:2`, as Slurm 22.05 says it, or `gres/shard:g1:2`: `:g1:2`.
fn of_shards(text: &str) -> Option<&str> {
    text.trim().split(',').find_map(|part| {
        let part = part.strip_prefix("gres").unwrap_or(part);
        part.trim_start_matches([':', '/']).strip_prefix("shard")
    })
}

/// Whether it asks for shards of no type, as `shard` and `shard:2` do, and for nothing else.
pub(super) fn is_loose(text: &str) -> bool {
    let digits = |count: &str| count.bytes().all(|byte| byte.is_ascii_digit());
    let of_no_type = |part: &str| part.strip_prefix(':').is_none_or(digits);
    !text.contains(',') && of_shards(text).is_some_and(of_no_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_that_is_forged_or_senseless_changes_nothing() {
        let of = |comment: &str| Wish::of_comment(comment);
        assert_eq!(of(""), Ok(Wish::default()));
        assert_eq!(
            of("loga: 2.500 GPU s on n1; from a user"),
            Ok(Wish::default())
        );
        assert_eq!(of("loga:weight=7").map(|wish| wish.weight), Ok(Some(7)));
        let long = format!("loga:weight=3{}", "0".repeat(2000));
        for comment in [
            "loga:weight",
            "loga:weight=",
            "loga:weight=-1",
            "loga:weight=+7",
            "loga:weight=1e2",
            "loga:weight=10001",
            "loga:weight=99999999999999999999",
            "loga:limit=0",
            "loga:limit=101",
            "loga:limit=40%",
            "loga:weight=1 loga:weight=2",
            "loga:class=idle",
            "loga:$(reboot)",
            &long,
        ] {
            assert!(of(comment).is_err(), "{comment}");
        }
    }

    #[test]
    fn shards_of_no_type_are_loose() {
        for (text, loose) in [
            ("gres:shard:2  ", true),
            ("gres/shard", true),
            ("gres:shard:g1:2", false),
            ("gres:shard:g1", false),
            ("gres:gpu:1", false),
            ("gres:shard:1,gres:gpu:1", false),
            ("(null)", false),
        ] {
            assert_eq!(is_loose(text), loose, "{text}");
        }
    }
}
