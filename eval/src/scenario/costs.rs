// SPDX-License-Identifier: GPL-2.0

//! What things cost: `[costs]` of a scenario file.

use super::time::Micros;
use loga::units::Ns;
use serde::Deserialize;

/// What things cost, apart from the work itself.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Costs {
    /// One read of a GPU register: the poller polls this often.
    #[serde(rename = "read_us")]
    pub read: Micros,
    /// The scan of one channel, for policies that work in stages.
    #[serde(rename = "scan_us")]
    pub scan: Micros,
    /// Taking the submission mappings of one client away, or giving them back.
    #[serde(rename = "revoke_us")]
    pub revoke: Micros,
    /// The page fault by which a client's mapping comes back.
    #[serde(rename = "fault_us")]
    pub fault: Micros,
    /// From the moment a thread is woken until it runs.
    #[serde(rename = "wakeup_us")]
    pub wakeup: Micros,
    /// A switch of contexts on the GPU.
    #[serde(rename = "switch_us")]
    pub switch: Micros,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            read: Micros(Ns::from_us(1)),
            scan: Micros(Ns::from_us(3)),
            revoke: Micros(Ns::from_us(5)),
            fault: Micros(Ns::from_us(2)),
            wakeup: Micros(Ns::from_us(5)),
            switch: Micros(Ns::ZERO),
        }
    }
}

impl Costs {
    /// The cost of this name in a file, such as `switch_us`.
    pub fn by_name(&mut self, name: &str) -> Option<&mut Micros> {
        match name {
            "read_us" => Some(&mut self.read),
            "scan_us" => Some(&mut self.scan),
            "revoke_us" => Some(&mut self.revoke),
            "fault_us" => Some(&mut self.fault),
            "wakeup_us" => Some(&mut self.wakeup),
            "switch_us" => Some(&mut self.switch),
            _ => None,
        }
    }
}
