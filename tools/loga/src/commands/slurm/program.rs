// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Programs that are asked: an argument vector, never a shell, and a bound on the time and
//! the answer.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longest answer, in bytes.
const MAX_ANSWER: u64 = 16 << 20;
/// TIMEOUT: Slurm's commands wait this long for a controller that is gone, by default.
const LIMIT: Duration = Duration::from_secs(10);
/// Between two looks at a program that ends.
const LOOK: Duration = Duration::from_millis(5);

/// What a program prints.
///
/// # Errors
///
/// Why there is no answer, in one line.
pub fn ask(program: &str, arguments: &[&str]) -> Result<String, String> {
    within(LIMIT, program, arguments)
}

fn within(limit: Duration, program: &str, arguments: &[&str]) -> Result<String, String> {
    let start = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let spawned = command.stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| format!("{program}: {error}"))?;
    let answer = answer(&mut child, limit);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if answer.is_some() && start.elapsed() < limit => thread::sleep(LOOK),
            _ => break None,
        }
    };
    let (Some(answer), Some(status)) = (answer, status) else {
        // It may have ended meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("{program} gave no answer in {} s", limit.as_secs()));
    };
    if !status.success() {
        return Err(format!("{program}: {status}"));
    }
    Ok(text(&answer))
}

/// The bytes as a text of the same length, in which columns of fixed widths stay where they are.
fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    text
}

/// All that a program prints, if it comes to an end in time and is not too long.
fn answer(child: &mut Child, limit: Duration) -> Option<Vec<u8>> {
    let mut output = child.stdout.take()?.take(MAX_ANSWER + 1);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut answer = Vec::new();
        let read = output.read_to_end(&mut answer);
        // The reader may have given up.
        let _ = sender.send(read.ok().map(|_| answer));
    });
    let answer = receiver.recv_timeout(limit).ok()??;
    // CAST: fits in any usize of a machine with 64 bits.
    (answer.len() <= MAX_ANSWER as usize).then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_what_the_program_printed() {
        assert_eq!(ask("printf", &["%s|", "a b", "$x"]), Ok("a b|$x|".into()));
    }

    #[test]
    fn letters_that_are_cut_keep_their_length() {
        let said = ask("printf", &["%b", "1 \\303\\251\\303 1\\n\\377\\360\\237"]);
        assert_eq!(said, Ok("1 é? 1\n???".to_string()));
    }

    #[test]
    fn program_that_fails_or_is_absent_is_named() {
        assert!(ask("false", &[])
            .expect_err("fails")
            .starts_with("false: exit"));
        assert!(ask("/no/such", &[])
            .expect_err("absent")
            .starts_with("/no/such: "));
    }

    #[test]
    fn program_that_hangs_is_stopped() {
        let said = within(Duration::from_millis(100), "sleep", &["1000"]);
        assert!(said.expect_err("hangs").contains("no answer"));
    }

    #[test]
    fn answer_without_end_is_refused() {
        assert!(ask("yes", &[]).is_err());
    }
}
