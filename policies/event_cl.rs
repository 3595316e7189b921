// SPDX-License-Identifier: GPL-2.0

//! Policy `event-cl`: as `event`, on the average time between context switches.
//!
//! Rule: `used = busy / max(runs, 1)` in the formula of `event`; the rest is the same.
//!
//! Good for: comparison with schedulers that judge clients by the average length of
//! their commands, which is what the metric stands for.
//! Bad for: clients that use the GPU rarely or in batches: one that runs a command of
//! 1 ms every second counts as much as one that runs them back to back.
//! Bound: as `event`, on the sum of average run lengths instead of on GPU time; none
//! on GPU time.
//! Source: LoGA paper, section 5.5 (LoGA-CL).

use super::event::fair_queue;
use super::{ClientState, Policy, Rule};
use crate::units::Ns;

/// Virtual-time fair queuing on the average time between context switches.
pub struct EventCl;

impl Policy for EventCl {
    const NAME: &'static str = "event-cl";
    const RULE: Rule<Self> =
        Rule::Phases(|phase, (), clients| fair_queue(phase, clients, average_run));
    const COUNTS_RUNS: bool = true;
    type OfClient = ();
    type OfGpu = ();
}

/// The average length of a run. A run that was under way when the phase began is not in `runs`, but
/// its time is in `busy`: it is one run too.
fn average_run(client: &ClientState) -> Ns {
    Ns::new(client.busy.get() / u64::from(client.runs.max(1)))
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policy_event_cl_rules))]
mod tests {
    use super::*;
    use crate::ids::GroupId;
    use crate::policies::{KeptOfGpu, Phase, PolicyKind};
    use crate::units::{VTime, Weight};

    fn client(busy_ms: u64, runs: u32) -> ClientState {
        let mut client = ClientState::new(GroupId::default(), Weight::DEFAULT, VTime::ZERO);
        client.busy = Ns::from_ms(busy_ms);
        client.runs = runs;
        client
    }

    fn decide(clients: &mut [ClientState]) -> VTime {
        let phase = Phase {
            poll: Ns::from_ms(12),
            nonpoll: Ns::from_ms(60),
            lead: Ns::from_ms(72),
            ..Phase::default()
        };
        PolicyKind::EventCl.decide(&phase, &mut KeptOfGpu::default(), clients)
    }

    #[test]
    fn two_runs_count_as_much_as_one_of_the_same_length() {
        let mut clients = [client(8, 2), client(4, 1)];
        decide(&mut clients);
        assert_eq!(clients[0].vtime, VTime::new(36_000_000));
        assert_eq!(clients[1].vtime, VTime::new(36_000_000));
    }

    // Regression: the prototype charged nothing to a command longer than the phase.
    #[test]
    fn command_longer_than_the_phase_is_one_run() {
        let mut clients = [client(9, 0), client(3, 1)];
        decide(&mut clients);
        assert_eq!(clients[0].vtime, VTime::new(54_000_000));
        assert_eq!(clients[1].vtime, VTime::new(18_000_000));
    }
}
