// SPDX-License-Identifier: GPL-2.0

//! The terminal of the caller, handed to a shell in the virtual machine.

use std::io::IsTerminal;
use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};

/// The caller's terminal. Dropping it restores the settings: the emulator takes over each key, and
/// is killed before it can clean up.
#[derive(Debug)]
pub(crate) struct Terminal {
    modes: String,
    rows: u16,
    columns: u16,
    /// `TERM` of the caller.
    kind: String,
}

impl Terminal {
    /// # Errors
    /// Standard input or output is no terminal.
    pub(crate) fn of_caller() -> Result<Self> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            bail!("a shell needs a terminal; for a line of commands there is `boot`");
        }
        let (rows, columns) = parse_size(&stty(&["size"])?)?;
        Ok(Self {
            modes: stty(&["-g"])?.trim().to_owned(),
            rows,
            columns,
            kind: std::env::var("TERM").unwrap_or_else(|_| "linux".to_owned()),
        })
    }

    /// The guest's line: a shell with job control and the console as its terminal.
    pub(crate) fn shell_line(&self) -> String {
        let Self { rows, columns, .. } = self;
        let kind = self.kind.replace('\'', "");
        format!(
            "stty -F /dev/ttyS0 sane rows {rows} cols {columns}\n\
             export TERM='{kind}' PS1='loga \\w # '\n\
             echo 'loga stat, loga top, throttle --kernel-us 500 &; exit ends the machine' > /dev/ttyS0\n\
             setsid -c sh -i < /dev/ttyS0 > /dev/ttyS0 2>&1"
        )
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _ = stty(&[&self.modes]);
    }
}

/// Runs stty on the caller's terminal.
fn stty(words: &[&str]) -> Result<String> {
    let output = Command::new("stty")
        .args(words)
        .stdin(Stdio::inherit())
        .output()
        .context("cannot run stty")?;
    if !output.status.success() {
        bail!("stty {}: {}", words.join(" "), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Rows and columns, as `stty size` prints them; 24 and 80 for a terminal without a size.
fn parse_size(text: &str) -> Result<(u16, u16)> {
    let numbers: Vec<u16> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("stty size printed {text:?}"))?;
    match numbers[..] {
        [0, _] | [_, 0] => Ok((24, 80)),
        [rows, columns] => Ok((rows, columns)),
        _ => bail!("stty size printed {text:?}, not two numbers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_is_two_numbers() {
        assert_eq!(parse_size("40 132\n").expect("a size"), (40, 132));
        assert_eq!(parse_size("0 0\n").expect("a size"), (24, 80));
        assert!(parse_size("40\n").is_err());
        assert!(parse_size("forty 132\n").is_err());
    }

    #[test]
    fn line_names_size_and_kind_of_the_terminal() {
        let terminal = Terminal {
            modes: String::new(),
            rows: 40,
            columns: 132,
            kind: "xterm".to_owned(),
        };
        let line = terminal.shell_line();
        assert!(line.contains("rows 40 cols 132"), "{line}");
        assert!(line.contains("TERM='xterm'"), "{line}");
        std::mem::forget(terminal);
    }
}
