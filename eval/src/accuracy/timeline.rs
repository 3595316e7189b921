// SPDX-License-Identifier: GPL-2.0

//! What a load does on the ideal GPU, unscheduled.

use crate::ideal::{IdealGpu, Process};
use loga::engine::Config;
use loga::error::Error;
use loga::policies::PolicyKind;
use loga::share::GroupBy;
use loga::units::Ns;

/// Which client had the GPU when.
pub struct Timeline {
    /// Beginnings, and the client of each.
    spans: Vec<(Ns, Option<usize>)>,
    pub(super) clients: usize,
    end: Ns,
}

impl Timeline {
    /// What these processes do, alone on the GPU, until `end`.
    ///
    /// # Errors
    ///
    /// Too many processes.
    pub fn of(processes: &[Process], end: Ns) -> Result<Self, Error> {
        let config = Config {
            policy: PolicyKind::None,
            ..Config::paper()
        };
        let mut machine = IdealGpu::new(processes, config, GroupBy::Process)?;
        machine.record();
        machine.run_until(end);
        Ok(Self {
            spans: machine.recorded(),
            clients: processes.len(),
            end,
        })
    }

    /// Which client has the GPU at an instant.
    pub(super) fn at(&self, now: Ns) -> Option<usize> {
        let next = self.spans.partition_point(|span| span.0 <= now);
        next.checked_sub(1).and_then(|at| self.spans[at].1)
    }

    /// Time of each client in a window.
    pub(super) fn truth(&self, from: Ns, to: Ns) -> Vec<u64> {
        let mut time = vec![0; self.clients];
        let first = self.spans.partition_point(|span| span.0 <= from);
        for at in first.saturating_sub(1)..self.spans.len() {
            let (begin, client) = self.spans[at];
            if begin >= to {
                break;
            }
            let end = self.spans.get(at + 1).map_or(self.end, |next| next.0);
            if let Some(client) = client {
                time[client] += end.min(to).saturating_sub(begin.max(from)).get();
            }
        }
        time
    }

    /// Changes in a window, for an accountant that sees all of them.
    pub(super) fn changes(&self, from: Ns, to: Ns) -> &[(Ns, Option<usize>)] {
        let first = self.spans.partition_point(|span| span.0 <= from);
        let last = self.spans.partition_point(|span| span.0 < to);
        &self.spans[first..last.max(first)]
    }
}
