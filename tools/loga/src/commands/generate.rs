// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga generate`: manual pages and completions from the definitions of the arguments.

use super::Failure;
use crate::cli;
use crate::names::Name;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;
use std::{fs, io};

/// Shells that completions are written for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes the files.
///
/// # Errors
///
/// [`Failure::Text`] if a file cannot be written.
pub fn run(arguments: &cli::Generate) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let written = fs::create_dir_all(folder).and_then(|()| match arguments.what.as_str() {
        "man" => manuals(folder),
        _ => completions(folder),
    });
    let line = |error| format!("cannot write to {}: {error}", Name::from(folder));
    written.map_err(|error| Failure::Text(line(error)))
}

fn manuals(folder: &Path) -> io::Result<()> {
    clap_mangen::generate_to(cli::Arguments::command(), folder)
}

fn completions(folder: &Path) -> io::Result<()> {
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut cli::Arguments::command(), "loga", folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generated(what: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let arguments = cli::Generate {
            what: what.to_string(),
            folder: folder.path().join("new"),
        };
        run(&arguments).expect("writes");
        folder
    }

    #[test]
    fn every_command_has_a_manual_page_that_names_its_arguments() {
        let folder = generated("man");
        let page =
            |name: &str| fs::read_to_string(folder.path().join("new").join(name)).expect(name);
        for command in cli::Arguments::command().get_subcommands() {
            if !command.is_hide_set() {
                let name = command.get_name();
                assert!(page(&format!("loga-{name}.1")).contains(".TH"), "{name}");
            }
        }
        assert!(page("loga-set.1").contains("weight"));
        assert!(page("loga-policy-switch.1").contains("NAME"));
    }

    #[test]
    fn every_shell_has_completions() {
        let folder = generated("completions");
        for name in ["loga.bash", "_loga", "loga.fish"] {
            let path = folder.path().join("new").join(name);
            let text = fs::read_to_string(path).expect(name);
            assert!(text.contains("totals"), "{name}");
        }
    }

    #[test]
    fn folder_that_cannot_be_made_is_named() {
        let arguments = cli::Generate {
            what: "man".to_string(),
            folder: "/proc/no/such".into(),
        };
        let failure = run(&arguments).expect_err("refused");
        assert!(failure.to_string().contains("/proc/no/such"), "{failure}");
    }
}
