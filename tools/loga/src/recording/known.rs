// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Which lines of a recording are about the same client.

use std::collections::BTreeMap;

/// A client: how often numbers began anew before it, and its number.
pub type Who = (u32, u64);

/// Who the clients of lines are: a process that is there before and after a gap is one.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// How often numbers began anew.
    epoch: u32,
    /// By GPU and number.
    numbers: BTreeMap<(u32, u64), Who>,
    /// By GPU, process and user.
    processes: BTreeMap<(u32, i32, u32), Who>,
}

impl Known {
    /// Who that is.
    pub fn who(&mut self, gpu: u32, id: u64, pid: i32, uid: u32) -> Who {
        if let Some(who) = self.numbers.get(&(gpu, id)) {
            return *who;
        }
        let before = self.processes.get(&(gpu, pid, uid));
        let before = before.filter(|who| pid > 0 && who.0 < self.epoch);
        let who = before.copied().unwrap_or((self.epoch, id));
        self.numbers.insert((gpu, id), who);
        self.processes.insert((gpu, pid, uid), who);
        who
    }

    /// Numbers begin anew.
    pub fn begin_anew(&mut self) {
        self.epoch += 1;
        self.numbers.clear();
    }
}
