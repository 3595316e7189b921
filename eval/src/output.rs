// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Standard output of the programs: a table, or the same as JSON.

use serde::Serialize;
use std::io::{self, Write};

/// A value as its table, or as JSON if that is asked for; ends in a new line.
pub fn table_or_json<T: Serialize + ?Sized>(
    value: &T,
    json: bool,
    table: impl FnOnce(&T) -> String,
) -> io::Result<String> {
    if json {
        Ok(serde_json::to_string_pretty(value)? + "\n")
    } else {
        Ok(table(value))
    }
}

/// Prints to stdout; a closed pipe is not an error.
///
/// # Errors
///
/// What the system says of standard output.
pub fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("standard output: {error}"),
        )),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_a_table_or_json() {
        let text = |json| table_or_json(&[1, 2], json, |all| format!("{}\n", all.len())).unwrap();
        assert_eq!(text(false), "2\n");
        assert_eq!(
            serde_json::from_str::<Vec<u32>>(&text(true)).unwrap(),
            [1, 2]
        );
        assert!(text(true).ends_with("]\n"));
    }
}
