// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Jobs that wait for the node that `loga.lua` chose for them, and need not.
//!
//! The script binds a job to a node by its list of nodes. Slurm keeps that list when it puts a job
//! back into the queue, asks no script again, and waits for the node even if it is down. So the agent
//! takes the list away from a job that was started before, whose node takes no jobs, or that has waited
//! for longer than the choice is good for. It does so only for a job whose AdminComment, which users
//! cannot change, has the mark of the script with the same node.
//!
//! The type of its shards stays: Slurm 22.05 refuses to change shards of a type into shards of none,
//! and slurmctld was seen to end after an attempt to take them away first.

use super::controller::Known;
use std::collections::HashMap;

/// A choice that is older is stale, in seconds: `patience` of `loga.lua`.
const PATIENCE_S: u64 = 60;
/// Most jobs that are freed at a time: each is a question of some milliseconds.
const MAX_FREED: usize = 50;
/// What the script writes into the AdminComment before the node.
const MARK: &str = "loga: chose ";
/// What `squeue` is asked for, and how wide each column is.
const COLUMNS: [(&str, usize); 5] = [
    ("JobID", 12),
    ("PendingTime", 12),
    ("RestartCnt", 12),
    ("ReqNodes", 80),
    ("admin_comment", 400),
];

/// Takes the nodes away from jobs that need not wait for them. What to say of it, in lines.
pub fn free(
    known: &HashMap<String, Known>,
    ask: impl Fn(&str, &[&str]) -> Result<String, String>,
) -> Vec<String> {
    let columns = COLUMNS.map(|(name, width)| format!("{name}:{width}"));
    let asked = ask(
        "squeue",
        &["-h", "--local", "-t", "PD", "-O", &columns.join(",")],
    );
    let text = match asked {
        Ok(text) => text,
        Err(error) => return vec![error],
    };
    let jobs = text.lines().filter_map(|line| stuck(line, known));
    let freed = jobs.take(MAX_FREED).map(|job| {
        let id = format!("JobId={job}");
        match ask("scontrol", &["update", &id, "ReqNodeList="]) {
            Ok(_) => format!("job {job} is no longer bound to a node"),
            // It may have started meanwhile.
            Err(error) => format!("job {job}: {error}"),
        }
    });
    freed.collect()
}

/// The number of a job that need not wait for its node.
fn stuck<'a>(line: &'a str, known: &HashMap<String, Known>) -> Option<&'a str> {
    let mut start = 0;
    let [id, waits, restarts, node, comment] = COLUMNS.map(|(_, width)| {
        let end = start + width;
        // The last column may be cut off within a letter.
        let column = line.get(start..end).or_else(|| line.get(start..));
        start = end;
        column.map(str::trim)
    });
    let (id, node) = (id?, node?);
    let chosen = comment?.split(MARK).skip(1);
    let mut chosen = chosen.filter_map(|rest| rest.split(' ').next());
    let is_number = !id.is_empty() && id.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number || node.is_empty() || !chosen.any(|name| name == node) {
        return None;
    }
    let was_started = restarts?.parse::<u32>().ok()? > 0;
    let is_stale = waits?.parse::<u64>().ok()? > PATIENCE_S;
    let is_out = known.get(node).is_some_and(|node| !node.usable);
    (was_started || is_stale || is_out).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::slurm::controller::known;
    use std::cell::RefCell;

    const NODES: &str =
        "NodeName=n1 CPUAlloc=0 CPUTot=8 Gres=(null) RealMemory=9 State=IDLE Weight=1\n\
        NodeName=n2 CPUAlloc=0 CPUTot=8 Gres=(null) RealMemory=9 State=IDLE+DRAIN Weight=1\n";

    /// A line of `squeue`.
    fn line(id: &str, waits: &str, restarts: &str, node: &str, comment: &str) -> String {
        format!("{id:<12}{waits:<12}{restarts:<12}{node:<80}{comment:<400}\n")
    }

    /// What `scontrol` is asked when these wait, and what is said.
    fn asked(lines: &str, answer: Result<String, String>) -> (Vec<String>, Vec<String>) {
        let asked = RefCell::new(Vec::new());
        let said = free(&known(NODES), |program, arguments| {
            if program == "squeue" {
                return Ok(lines.to_string());
            }
            asked.borrow_mut().push(arguments.join(" "));
            answer.clone()
        });
        (asked.into_inner(), said)
    }

    const N1: &str = "loga: chose n1 g0 (17-1)";

    #[test]
    fn job_that_was_requeued_or_waits_long_or_for_a_node_that_is_down_is_freed() {
        let lines = [
            line("1", "5", "1", "n1", N1),
            line("2", "61", "0", "n1", &format!("from the site; {N1}")),
            line("3", "5", "0", "n2", "loga: chose n2 g0 (17-2)"),
        ]
        .concat();
        let (asked, said) = asked(&lines, Ok(String::new()));
        let wanted = [1, 2, 3].map(|id| format!("update JobId={id} ReqNodeList="));
        assert_eq!(asked, wanted);
        assert_eq!(said[2], "job 3 is no longer bound to a node");
    }

    #[test]
    fn job_whose_choice_is_good_or_that_the_script_did_not_place_stays() {
        let lines = [
            line("1", "60", "0", "n1", N1),
            line("2", "600", "3", "n1", ""),
            line("3", "600", "3", "n2", N1),
            line("4", "600", "3", "n[1-2]", N1),
            line("5", "600", "3", "", N1),
            line("6_[1-3]", "600", "3", "n1", N1),
            line("7", "soon", "3", "n1", N1),
            "\n9\nslurm_load_jobs error\n".to_string(),
            "ä".repeat(300),
        ]
        .concat();
        assert_eq!(asked(&lines, Ok(String::new())), (vec![], vec![]));
    }

    #[test]
    fn controller_that_refuses_is_said() {
        let (_, said) = asked(&line("1", "5", "1", "n1", N1), Err("scontrol: no".into()));
        assert_eq!(said, ["job 1: scontrol: no"]);
        let said = free(&HashMap::new(), |_, _| Err("squeue: no".to_string()));
        assert_eq!(said, ["squeue: no"]);
    }
}
