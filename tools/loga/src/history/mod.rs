// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What programs did in earlier runs: `loga agent serve` keeps it, `loga run` and `loga place`
//! ask for it.
//!
//! | file | contents |
//! |---|---|
//! | [`record`] | means over the runs of one program |
//! | [`table`] | the records of all programs, a bounded number of each user |
//! | [`mod@file`] | the same in a file |
//! | [`runs`] | runs, from snapshots and events of the kernel module |
//! | [`keeper`] | all of it together, as the agent holds it |
//! | [`ask`] | question and answer of a program that starts |
//! | [`server`] | the socket on which the agent answers |
//!
//! One file has the records of all users, and its owner alone, the agent, reads it. A user learns
//! its own records from the agent's socket: the kernel tells the agent which user is at the other
//! end. Files of each user would have to change owner, for which the agent has no capability, and
//! the agent would still need the socket: with it a command that starts tells the agent what it is,
//! since `/proc/PID/exe` of another user's process is closed to the agent.

pub mod ask;
pub mod file;
pub mod keeper;
pub mod record;
pub mod runs;
pub mod server;
pub mod table;

#[cfg(test)]
mod tests;

/// Where the agent answers unless told otherwise.
pub const SOCKET: &str = "/run/loga/history.sock";

/// Longest name that `--as` gives.
pub const NAME_MAX: usize = 64;

/// Checks a name of a program.
///
/// # Errors
///
/// What would be right.
pub fn checked_name(text: &str) -> Result<String, String> {
    let fits = (1..=NAME_MAX).contains(&text.len());
    if !fits || text.chars().any(char::is_control) {
        return Err(format!(
            "want 1 to {NAME_MAX} bytes without control characters"
        ));
    }
    Ok(text.to_string())
}
