// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Shards that a job was given on a node, in the words of `scontrol -d -o show job`.
//!
//! slurmd gives its Prolog the GPUs of the job and, up to Slurm 25, not how many shards of them. The
//! controller says it by node: `Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=shard:g0:2(IDX:0)`. A user can write
//! such words into the job's name and comments, and cannot take away those of the controller: a
//! record in which a node stands twice is refused.

use super::super::controller::shards_in;

/// Shards of a job on a node, by the record of this job.
///
/// # Errors
///
/// The record is of another job, or does not say it once.
pub(super) fn granted(record: &str, id: u32, node: &str) -> Result<u64, String> {
    let mut words = record.split_ascii_whitespace();
    if words.next() != Some(format!("JobId={id}").as_str()) {
        return Err(format!("scontrol says nothing of job {id}"));
    }
    let words: Vec<&str> = words.collect();
    let on_node = words.windows(4).filter_map(|four| match four {
        [nodes, cpus, memory, gres] => {
            let nodes = nodes.strip_prefix("Nodes=")?;
            let of_node = cpus.starts_with("CPU_IDs=") && memory.starts_with("Mem=");
            let gres = gres.strip_prefix("GRES=")?;
            (of_node && has(nodes, node)).then_some(gres)
        }
        _ => None,
    });
    let on_node: Vec<&str> = on_node.collect();
    match on_node.as_slice() {
        [gres] => {
            shards_in(gres).ok_or_else(|| format!("what it was given on {node} is not clear"))
        }
        [] => Err(format!("scontrol does not say what it was given on {node}")),
        _ => Err(format!(
            "scontrol says {} times what it was given on {node}: want once",
            on_node.len()
        )),
    }
}

/// Whether a list of Slurm's, such as `n[1-3,07],m1`, has a node.
fn has(list: &str, node: &str) -> bool {
    let mut depth = 0u32;
    let mut names = list.split(|letter| {
        match letter {
            '[' => depth = depth.saturating_add(1),
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    names.any(|pattern| is(pattern, node))
}

/// Whether a name is one of a pattern, such as `r[1-2]n[01-16]`.
fn is(pattern: &str, name: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('[') else {
        return pattern == name;
    };
    let (Some((ranges, rest)), Some(name)) = (rest.split_once(']'), name.strip_prefix(begin))
    else {
        return false;
    };
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    // The name has 64 bytes at most: Slurm's own bound.
    (1..=digits.min(20)).any(|count| {
        let (number, after) = name.split_at(count);
        ranges.split(',').any(|range| is_within(range, number)) && is(rest, after)
    })
}

/// Whether a number, written as it is, is one of `7` or `01-16`.
fn is_within(range: &str, number: &str) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let bounds = (
        first.parse::<u64>(),
        last.parse::<u64>(),
        number.parse::<u64>(),
    );
    let (Ok(low), Ok(high), Ok(value)) = bounds else {
        return false;
    };
    let written = format!("{value:0width$}", width = first.len());
    (low..=high).contains(&value) && written == number
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_22_05: &str = "JobId=4 ArrayJobId=4 ArrayTaskId=1 JobName=wrap UserId=root(0) \
        NodeList=n[1-2] TRES=cpu=2,node=2 JOB_GRES=shard:g0:0,shard:g1:3   Nodes=n1 CPU_IDs=4 Mem=0 \
        GRES=shard:g0:0(IDX:),shard:g1:1(IDX:1)   Nodes=n[2-3] CPU_IDs=1-2 Mem=0 \
        GRES=gpu:g0:1(IDX:0),shard:g1:2(IDX:1) MinCPUsNode=1 TresPerNode=gres:shard:100 \n";

    #[test]
    fn shards_are_those_of_the_node() {
        let of = |node| granted(OF_22_05, 4, node);
        assert_eq!((of("n1"), of("n2"), of("n3")), (Ok(1), Ok(2), Ok(2)));
        assert!(of("n4").expect_err("none").contains("does not say"));
        let none = OF_22_05.replace("GRES=gpu:g0:1(IDX:0),shard:g1:2(IDX:1)", "GRES=");
        assert_eq!(granted(&none, 4, "n2"), Ok(0));
    }

    #[test]
    fn record_of_another_job_is_refused() {
        for record in [
            "",
            "JobId=40 JobName=x",
            "slurm_load_jobs error",
            "JobName=x JobId=4",
        ] {
            let said = granted(record, 4, "n1").expect_err(record);
            assert_eq!(said, "scontrol says nothing of job 4");
        }
    }

    #[test]
    fn words_of_a_user_make_no_shards() {
        let forged = "x\nJobId=4 Nodes=n1 CPU_IDs=0 Mem=0 GRES=shard:g0:100(IDX:0)";
        let name = OF_22_05.replace("=wrap", &format!("={forged}"));
        let comment = format!("{OF_22_05} Comment={forged}");
        for record in [name, comment] {
            let said = granted(&record, 4, "n1").expect_err("twice");
            assert_eq!(
                said,
                "scontrol says 2 times what it was given on n1: want once"
            );
            assert_eq!(granted(&record, 4, "n2"), Ok(2));
        }
        let unclear = OF_22_05.replace("shard:g1:1(", "shard:g1:1K(");
        assert!(granted(&unclear, 4, "n1")
            .expect_err("1K")
            .contains("not clear"));
    }

    #[test]
    fn node_is_found_in_lists_as_slurm_writes_them() {
        for (list, node, wanted) in [
            ("n1", "n1", true),
            ("n1", "n10", false),
            ("n[1-3]", "n2", true),
            ("n[1-3]", "n02", false),
            ("n[01-16]", "n02", true),
            ("n[01-16]", "n2", false),
            ("n[8-11]", "n10", true),
            ("n[1,3]", "n2", false),
            ("m1,n[1,3],o", "n3", true),
            ("m1,n[1,3],o", "o", true),
            ("r[1-2]n[1-3]", "r2n3", true),
            ("r[1-2]n[1-3]", "r3n3", false),
            ("n[1-3]-ib", "n2-ib", true),
            ("n[1-3]-ib", "n2", false),
            ("n[1", "n1", false),
            ("n[]", "n1", false),
            ("", "n1", false),
        ] {
            assert_eq!(has(list, node), wanted, "{node} in {list}");
        }
    }
}
