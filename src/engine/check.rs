// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Runs a policy and checks what it did.

use crate::policies::{ClientState, Next, Phase, Scan};
use crate::units::{Ns, VTime};

/// How a policy broke its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It changed an identity, a weight or a measurement.
    Inputs,
    /// It set back the virtual time of a client; after a polling phase, behind that of the system.
    VirtualTime,
    /// It set back the system virtual time.
    SystemTime,
    /// It throttled a client although none used the GPU.
    IdleThrottle,
    /// It throttled all clients.
    AllThrottled,
    /// It wants the next scan in the past, or too late.
    Deadline,
}

/// Runs `rule` and returns the new system virtual time, and how many clients are throttled. After a
/// violation, virtual times are as before and no client is throttled.
pub(super) fn run(
    phase: &Phase,
    clients: &mut [ClientState],
    rule: &mut dyn FnMut(&Phase, &mut [ClientState]) -> VTime,
) -> Result<(VTime, usize), Violation> {
    let before = remember(clients, inputs);
    let t_sys = rule(phase, clients);
    let checked = touched(clients, inputs, before, [t_sys, phase.t_sys], t_sys)
        .and_then(|throttled| bad_throttle(clients, throttled).map_or(Ok(throttled), Err));
    match checked {
        Ok(throttled) => Ok((t_sys, throttled)),
        Err(violation) => Err(undo(clients, violation)),
    }
}

/// As [`run`], for a scan. `longest` is how far ahead the next scan may be.
pub(super) fn run_scan(
    scan: &Scan,
    clients: &mut [ClientState],
    longest: Ns,
    rule: &mut dyn FnMut(&Scan, &mut [ClientState]) -> Next,
) -> Result<Next, Violation> {
    let inputs = |client: &ClientState| inputs(client) ^ scan_inputs(client);
    let before = remember(clients, inputs);
    let next = rule(scan, clients);
    let late = scan.now.saturating_add(longest);
    let deadline = (next.at <= scan.now || next.at > late).then_some(Violation::Deadline);
    // After a scan nothing is forgiven.
    let times = [next.t_sys, scan.t_sys];
    let touched = touched(clients, inputs, before, times, VTime::new(u64::MAX)).err();
    match touched.or(deadline) {
        None => Ok(next),
        Some(violation) => Err(undo(clients, violation)),
    }
}

/// Keeps what a policy may not set back, and returns a number that stands for the inputs.
fn remember(clients: &mut [ClientState], inputs: impl Fn(&ClientState) -> u64) -> u64 {
    clients.iter_mut().fold(BASIS, |sum, client| {
        client.prior = client.vtime;
        add(sum, inputs(client))
    })
}

/// Lets all clients run, with virtual times as they were.
fn undo(clients: &mut [ClientState], violation: Violation) -> Violation {
    for client in clients.iter_mut() {
        client.vtime = client.prior;
        client.throttled = false;
    }
    violation
}

/// How many clients are throttled, or what was touched that may not be. Virtual times beyond
/// `forgives_to` may be set back to it.
fn touched(
    clients: &[ClientState],
    inputs: impl Fn(&ClientState) -> u64,
    before: u64,
    [t_sys, t_sys_before]: [VTime; 2],
    forgives_to: VTime,
) -> Result<usize, Violation> {
    let (mut sum, mut set_back, mut throttled) = (BASIS, false, 0usize);
    for client in clients {
        sum = add(sum, inputs(client));
        set_back |= client.vtime < client.prior.min(forgives_to);
        // Not more than there are clients.
        throttled = throttled.wrapping_add(client.throttled.into());
    }
    if sum != before {
        return Err(Violation::Inputs);
    }
    if set_back {
        return Err(Violation::VirtualTime);
    }
    if t_sys < t_sys_before {
        return Err(Violation::SystemTime);
    }
    Ok(throttled)
}

/// Whether the policy throttled clients that it may not throttle; `throttled` is their number.
fn bad_throttle(clients: &[ClientState], throttled: usize) -> Option<Violation> {
    if throttled == 0 {
        return None;
    }
    let uses = |client: &ClientState| client.active() || !client.copied.is_zero();
    if !clients.iter().any(uses) {
        return Some(Violation::IdleThrottle);
    }
    (throttled == clients.len()).then_some(Violation::AllThrottled)
}

/// Where [`add`] begins.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Adds a word to a number that changes with any of them (FNV-1a, by words instead of bytes; this
/// is against mistakes, not malice).
const fn add(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3)
}

/// The inputs of a client that a policy may not change: the fields in one word, pairs of them
/// rotated by different amounts. A change of one of them is never missed.
fn inputs(client: &ClientState) -> u64 {
    (client.id.get() ^ client.prior.get())
        ^ (client.busy.get() ^ u64::from(client.weight.get())).rotate_left(13)
        ^ (client.waited.get() ^ u64::from(client.runs)).rotate_left(29)
        ^ (client.paid.get() ^ client.copied.get()).rotate_left(51)
        ^ client.waited_to_copy.get().rotate_left(37)
}

/// What scans add to it.
fn scan_inputs(client: &ClientState) -> u64 {
    client.seen.bits().rotate_left(53) ^ u64::from(client.channels).rotate_left(59)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_check))]
mod tests {
    use super::*;
    use crate::ids::GroupId;
    use crate::units::Weight;

    type Touch = fn(&mut ClientState);

    /// All inputs of a policy about a client.
    const INPUTS: [Touch; 9] = [
        |client| client.id = GroupId::new(9),
        |client| client.weight = Weight::new(101).unwrap_or_default(),
        |client| client.busy = Ns::new(1),
        |client| client.waited = Ns::new(1),
        |client| client.copied = Ns::new(1),
        |client| client.waited_to_copy = Ns::new(1),
        |client| client.runs += 1,
        |client| client.paid = Ns::new(1),
        |client| client.prior = VTime::new(1),
    ];

    /// What scans add to it.
    const SCAN_INPUTS: [Touch; 5] = [
        |client| client.channels += 1,
        |client| client.seen.pending = true,
        |client| client.seen.blocked = true,
        |client| client.seen.submitted += 1,
        |client| client.seen.completed += 1,
    ];

    fn two() -> [ClientState; 2] {
        let client = |id| ClientState::new(GroupId::new(id), Weight::DEFAULT, VTime::new(5));
        [client(1), client(2)]
    }

    #[test]
    fn decision_that_changes_any_one_input_is_found() {
        for touch in INPUTS {
            for at in 0..2 {
                let answer = run(&Phase::default(), &mut two(), &mut |_, clients| {
                    touch(&mut clients[at]);
                    VTime::ZERO
                });
                assert_eq!(answer, Err(Violation::Inputs));
            }
        }
    }

    #[test]
    fn scan_that_changes_any_one_input_is_found() {
        let longest = Ns::from_ms(1);
        for touch in INPUTS.into_iter().chain(SCAN_INPUTS) {
            let answer = run_scan(&Scan::default(), &mut two(), longest, &mut |_, clients| {
                touch(&mut clients[1]);
                Next {
                    at: longest,
                    ..Next::default()
                }
            });
            assert_eq!(answer, Err(Violation::Inputs));
        }
    }

    #[test]
    fn decision_that_changes_nothing_is_accepted() {
        let answer = run(&Phase::default(), &mut two(), &mut |_, _| VTime::ZERO);
        assert_eq!(answer, Ok((VTime::ZERO, 0)));
    }
}
