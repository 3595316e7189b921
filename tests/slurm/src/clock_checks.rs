// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Checks of nodes whose clocks are ahead of the controller's or behind it.

use crate::checks::same;
use crate::cluster::Cluster;
use crate::table::exporter;
use std::time::{SystemTime, UNIX_EPOCH};

/// Figures of a node whose clock is up to half a minute off are used; of one that is further off they
/// are not, unless its node exporter says what its clock is.
pub(crate) fn skewed(cluster: &Cluster) -> Result<(), String> {
    for (off_s, told, rows) in [
        // What passes until the table is made is subtracted: room for half a minute of a busy machine.
        (-5.0, false, 2),
        (20.0, false, 2),
        (-40.0, false, 0),
        (70.0, false, 0),
        (-3600.0, true, 2),
        (3600.0, true, 2),
    ] {
        cluster.scores([[0.9, 0.9], [0.0, 0.9], [0.5, 0.9]])?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let clock = now.map_err(|error| error.to_string())?.as_secs_f64() + off_s;
        let mut text = exporter(&[0.0, 0.9]).replace("# EOF\n", "");
        text += &format!("loga_snapshot_timestamp_seconds {clock}\n");
        if told {
            text += &format!("node_time_seconds {}\n", clock + 1.0);
        }
        cluster.exporter("n2", &text)?;
        cluster.write_table(&[])?;
        let what = format!("rows of a node whose clock is {off_s} s ahead");
        let table = cluster.table()?;
        let found = table.lines().filter(|line| line.starts_with("n2 "));
        same(&what, found.count(), rows)?;
        cluster.forget()?;
        let job = cluster.run(&["--gres=shard:1"])?;
        let wanted = if rows == 0 { "n3" } else { "n2" };
        same(&what, job.nodes.as_str(), wanted)?;
    }
    Ok(())
}
