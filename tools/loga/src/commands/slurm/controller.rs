// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the controller says about nodes (`scontrol -o show nodes`).

use std::collections::HashMap;

/// A node, as far as a placement needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Whether jobs can start there: idle, or partly or wholly in use, and nothing else.
    pub usable: bool,
    /// Its weight.
    pub weight: u32,
    /// CPUs that are not allocated.
    pub cpus: u64,
    /// Memory that is not allocated, in MiB.
    pub memory_mib: u64,
    /// GPUs of type `g<N>` by number, and how many shards each has in all.
    pub shards: Vec<(u32, u32)>,
    /// Shards of all its GPUs, of whatever type, if that is clear.
    pub all_shards: Option<u64>,
    /// The GPUs that Slurm hands out there.
    pub gpus: Managed,
}

/// The GPUs of a node that Slurm hands out, as far as the controller says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Managed {
    /// Those of the types `g<N>`, by number.
    Numbered(Vec<u32>),
    /// So many, of no type of ours: which ones is not known.
    Counted(usize),
}

impl Managed {
    /// Whether a GPU is one of them, on a node whose exporter has `exported` GPUs in all. If it has
    /// more than Slurm counts, none is known to be.
    pub fn has(&self, gpu: u32, exported: usize) -> bool {
        match self {
            Managed::Numbered(gpus) => gpus.contains(&gpu),
            Managed::Counted(count) => *count >= exported,
        }
    }
}

impl Known {
    /// Shards of a GPU that Slurm hands out, by its number; none if it is handed out as a whole only.
    pub fn shards_of(&self, gpu: u32) -> Option<u32> {
        let shards = self.shards.iter().find(|one| one.0 == gpu);
        let is_whole = matches!(&self.gpus, Managed::Numbered(gpus) if gpus.contains(&gpu));
        shards.map(|one| one.1).or(is_whole.then_some(0))
    }
}

/// States of nodes on which jobs can start.
const USABLE: [&str; 3] = ["IDLE", "MIXED", "ALLOCATED"];

/// All nodes that are described completely, by name.
pub fn known(text: &str) -> HashMap<String, Known> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<(String, Known)> {
    // Fields that administrators fill, such as Reason, come later.
    let field = |name: &str| {
        let mut words = line.split_ascii_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    let number = |name: &str| field(name)?.parse::<u64>().ok();
    let cpus = number("CPUEfctv").or_else(|| number("CPUTot"))?;
    let gres = plain(field("Gres")?);
    let known = Known {
        usable: USABLE.contains(&field("State")?),
        weight: field("Weight")?.parse().ok()?,
        cpus: cpus.saturating_sub(number("CPUAlloc")?),
        memory_mib: number("RealMemory")?.saturating_sub(number("AllocMem").unwrap_or(0)),
        shards: shards(&gres),
        all_shards: shards_in(&gres),
        gpus: managed(&gres),
    };
    Some((field("NodeName")?.to_string(), known))
}

/// `gpu:g0:1(S:0),shard:g0:4(S:0),..` without what is in parentheses.
fn plain(gres: &str) -> String {
    let mut depth = 0u32;
    let plain = gres.chars().filter(|letter| match letter {
        '(' => {
            depth = depth.saturating_add(1);
            false
        }
        ')' => {
            depth = depth.saturating_sub(1);
            false
        }
        _ => depth == 0,
    });
    plain.collect()
}

/// `gpu:g0:1(S:0),shard:g0:4(S:0),shard:2`: shards of all types; nothing if a count is no number.
pub fn shards_in(gres: &str) -> Option<u64> {
    let gres = plain(gres);
    let mut shards = gres.split(',').filter_map(|one| {
        // Later versions may begin with `gres/`, as they do for what a job asks for.
        let one = one.strip_prefix("gres").unwrap_or(one);
        let of_shards = one.trim_start_matches([':', '/']).strip_prefix("shard")?;
        of_shards.strip_prefix(':')
    });
    shards.try_fold(0u64, |sum, rest| {
        let count = rest.rsplit(':').next()?;
        let digits = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
        let count = count.parse().ok().filter(|_: &u64| digits)?;
        sum.checked_add(count)
    })
}

/// `gpu:g0:1,shard:g0:4,..`: shards of typed GPUs.
fn shards(gres: &str) -> Vec<(u32, u32)> {
    let shard = |one: &str| {
        let (gpu, count) = one.strip_prefix("shard:g")?.split_once(':')?;
        Some((gpu.parse().ok()?, count.parse().ok()?))
    };
    gres.split(',').filter_map(shard).collect()
}

/// The GPUs among them, of which there may be shards only.
fn managed(gres: &str) -> Managed {
    let (mut numbered, mut counted) = (Vec::new(), 0usize);
    for one in gres.split(',') {
        let mut parts = one.split(':');
        let kind = parts.next();
        let rest: Vec<&str> = parts.collect();
        let (of_type, count) = match rest.as_slice() {
            [of_type, count] => (Some(*of_type), *count),
            [count] => (None, *count),
            _ => continue,
        };
        let count = count.parse::<usize>().unwrap_or(0);
        let number = of_type.and_then(|name| name.strip_prefix('g')?.parse::<u32>().ok());
        match (kind, number) {
            (Some("gpu" | "shard"), Some(gpu)) if count > 0 => numbered.push(gpu),
            (Some("gpu"), None) => counted = counted.saturating_add(count),
            _ => {}
        }
    }
    if numbered.is_empty() {
        return Managed::Counted(counted);
    }
    numbered.sort_unstable();
    numbered.dedup();
    Managed::Numbered(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "NodeName=n1 Arch=x86_64 CPUAlloc=3 CPUEfctv=8 CPUTot=8 CPULoad=0.25 \
        Gres=gpu:g0:1(S:0),gpu:g1:1(S:1),shard:g0:4(S:0,1),shard:g1:2(S:1) NodeAddr=n1 \
        RealMemory=1000 AllocMem=200 State=MIXED ThreadsPerCore=1 Weight=20 Owner=N/A \
        Reason=State=DOWN Weight=7 [root@now]";

    #[test]
    fn line_of_a_node_says_what_is_free() {
        let nodes = known(&format!("{LINE}\nnonsense\n\n"));
        assert_eq!(nodes.len(), 1);
        let wanted = Known {
            usable: true,
            weight: 20,
            cpus: 5,
            memory_mib: 800,
            shards: vec![(0, 4), (1, 2)],
            all_shards: Some(6),
            gpus: Managed::Numbered(vec![0, 1]),
        };
        assert_eq!(nodes["n1"], wanted);
    }

    #[test]
    fn node_in_another_state_is_not_usable() {
        for state in [
            "IDLE+DRAIN",
            "DOWN*",
            "IDLE*",
            "ALLOCATED+RESERVED",
            "UNKNOWN",
        ] {
            let line = LINE.replace("State=MIXED", &format!("State={state}"));
            assert!(!known(&line)["n1"].usable, "{state}");
        }
    }

    #[test]
    fn gpus_that_slurm_hands_out_are_those_of_our_types_else_a_number() {
        let of = |gres: &str| managed(&plain(gres));
        let numbered = |gpus: &[u32]| Managed::Numbered(gpus.to_vec());
        assert_eq!(of("gpu:g2:1(S:0),gpu:g0:1(S:0,1)"), numbered(&[0, 2]));
        assert_eq!(of("shard:g3:4,gpu:a100:2,gpu:g4:0"), numbered(&[3]));
        assert_eq!(of("gpu:a100:2(S:0),gpu:1,shard:8"), Managed::Counted(3));
        for none in [
            "(null)",
            "",
            "craynetwork:4",
            "gpu",
            "gpu:x:y:z",
            "gpu:g1:-1",
        ] {
            assert_eq!(of(none), Managed::Counted(0), "{none}");
        }
        assert!(numbered(&[1]).has(1, 9));
        assert!(!numbered(&[1]).has(0, 1));
        assert!(Managed::Counted(2).has(7, 2));
        assert!(!Managed::Counted(2).has(0, 3));
    }

    #[test]
    fn gpu_that_is_handed_out_as_a_whole_has_no_shards() {
        let gres = LINE.replace("shard:g1:2(S:1)", "gpu:a100:1");
        let node = &known(&gres)["n1"];
        assert_eq!(
            [0, 1, 2].map(|gpu| node.shards_of(gpu)),
            [Some(4), Some(0), None]
        );
        let counted = LINE.replace(
            "gpu:g0:1(S:0),gpu:g1:1(S:1),shard:g0:4(S:0,1),shard:g1:2(S:1)",
            "gpu:2",
        );
        assert_eq!(known(&counted)["n1"].shards_of(0), None);
    }

    #[test]
    fn shards_without_a_type_of_ours_are_not_counted() {
        assert_eq!(shards("(null)"), []);
        assert_eq!(shards("shard:4,shard:a100:8,gpu:g0:1,shard:g3:x"), []);
    }

    #[test]
    fn shards_of_all_types_are_added_up() {
        assert_eq!(
            shards_in("gpu:g0:1(S:0),shard:g0:4(S:0),shard:g1:2(S:1)"),
            Some(6)
        );
        assert_eq!(shards_in("shard:3(2/4,1/4)"), Some(3));
        assert_eq!(shards_in("gres/shard:a100:3,gres:shard:1"), Some(4));
        for none in [
            "",
            "(null)",
            "gpu:2",
            "craynetwork:4",
            "shards:7",
            "sharded:x:7",
        ] {
            assert_eq!(shards_in(none), Some(0), "{none}");
        }
        for unclear in [
            "shard:g0:x",
            "shard:",
            "shard:g0:1K",
            "shard:g0:-1",
            "shard:18446744073709551615,shard:1",
        ] {
            assert_eq!(shards_in(unclear), None, "{unclear}");
        }
    }
}
