// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The terminal of the caller: what it can show, and the whole of it for a while.
//!
//! | file | contents |
//! |---|---|
//! | here | what the terminal can show, by its size and the environment |
//! | [`screen`] | the terminal, taken over until it is given back, whatever ends the program |
//! | [`keys`] | keys, from the bytes that a terminal sends |

pub mod keys;
pub mod screen;

use ratatui::crossterm::terminal;
use std::io;
use std::io::{IsTerminal, StdoutLock, Write};

/// Size of a terminal that does not say its own, as some serial lines do not.
pub const USUAL: (u16, u16) = (80, 24);

/// What a terminal shows besides ASCII in one colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether it shows what is not ASCII, in UTF-8.
    pub unicode: bool,
    /// Whether colours are welcome.
    pub colours: bool,
}

/// A terminal.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    /// What it shows.
    pub capabilities: Capabilities,
    /// Whether it obeys control sequences: clears, and writes anywhere.
    pub addressable: bool,
    /// How many columns and rows it has now.
    pub size: fn() -> (u16, u16),
}

impl Terminal {
    /// The terminal that the standard output is, if it is one.
    pub fn of_stdout() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        io::stdout()
            .is_terminal()
            .then(|| Self::in_environment(variable))
    }

    /// A terminal as the environment describes it.
    pub(crate) fn in_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(given);
        let kind = given("TERM");
        let addressable = kind.is_some_and(|kind| kind != "dumb");
        Terminal {
            capabilities: Capabilities {
                unicode: addressable && locale.is_some_and(|locale| is_utf8(&locale)),
                colours: addressable && given("NO_COLOR").is_none(),
            },
            addressable,
            size,
        }
    }

    /// How many columns it has now.
    pub fn columns(&self) -> u16 {
        (self.size)().0
    }
}

/// What a command prints on: as wide as its lines, or a terminal.
pub trait Sheet: Write {
    /// Columns that there are on it; no limit for what is no terminal.
    fn columns(&self) -> Option<usize>;
}

impl Sheet for Vec<u8> {
    fn columns(&self) -> Option<usize> {
        None
    }
}

impl Sheet for StdoutLock<'_> {
    fn columns(&self) -> Option<usize> {
        Terminal::of_stdout().map(|terminal| terminal.columns().into())
    }
}

/// Whether the codeset of a locale such as `de_DE.UTF-8@euro` is UTF-8.
fn is_utf8(locale: &str) -> bool {
    let codeset = locale.split_once('.').map_or("", |(_, codeset)| codeset);
    let codeset = codeset.split('@').next().unwrap_or_default();
    codeset.replace('-', "").eq_ignore_ascii_case("utf8")
}

/// Columns and rows of the terminal, those that are usual if it does not know.
fn size() -> (u16, u16) {
    or_usual(terminal::size().unwrap_or_default())
}

fn or_usual(size: (u16, u16)) -> (u16, u16) {
    match size {
        (0, _) | (_, 0) => USUAL,
        size => size,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A sheet of so many columns.
    #[derive(Debug, Default)]
    pub(crate) struct Narrow {
        pub(crate) text: Vec<u8>,
        pub(crate) columns: usize,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.text.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sheet for Narrow {
        fn columns(&self) -> Option<usize> {
            Some(self.columns)
        }
    }

    /// A terminal of 80 columns that shows everything.
    pub(crate) const WHOLE: Terminal = Terminal {
        capabilities: Capabilities {
            unicode: true,
            colours: true,
        },
        addressable: true,
        size: || USUAL,
    };

    fn terminal(environment: &[(&str, &str)]) -> Terminal {
        Terminal::in_environment(|wanted| {
            let value = environment.iter().find(|(name, _)| *name == wanted);
            value.map(|(_, value)| (*value).to_string())
        })
    }

    #[test]
    fn first_locale_that_is_set_decides_on_utf8() {
        let unicode = |locales: &[(&str, &str)]| {
            let all: Vec<_> = [("TERM", "xterm")].iter().chain(locales).copied().collect();
            terminal(&all).capabilities.unicode
        };
        for locale in ["en_US.UTF-8", "C.utf8", "de_DE.UTF-8@euro"] {
            assert!(unicode(&[("LANG", locale)]), "{locale}");
        }
        for locale in ["C", "POSIX", "en_US", "en_US.ISO-8859-1", ""] {
            assert!(!unicode(&[("LANG", locale)]), "{locale}");
        }
        assert!(!unicode(&[]));
        let lang = ("LANG", "C.UTF-8");
        assert!(!unicode(&[("LC_ALL", "C"), ("LC_CTYPE", "C.UTF-8"), lang]));
        assert!(!unicode(&[("LC_CTYPE", "C"), lang]));
        assert!(unicode(&[("LC_ALL", ""), ("LC_CTYPE", ""), lang]));
        assert!(unicode(&[("LC_ALL", "C.UTF-8"), ("LC_CTYPE", "C")]));
    }

    #[test]
    fn colours_are_left_out_where_they_are_not_wanted() {
        let colours = |more| terminal(&[("TERM", "xterm"), more]).capabilities.colours;
        assert!(colours(("LANG", "C")));
        assert!(colours(("NO_COLOR", "")));
        assert!(!colours(("NO_COLOR", "0")));
    }

    #[test]
    fn terminal_that_is_dumb_or_unknown_obeys_nothing() {
        let utf8 = ("LANG", "C.UTF-8");
        for kind in [("TERM", "dumb"), ("TERM", ""), utf8] {
            let terminal = terminal(&[kind, utf8]);
            assert!(!terminal.addressable, "{kind:?}");
            assert!(!terminal.capabilities.unicode, "{kind:?}");
        }
        assert!(terminal(&[("TERM", "vt100"), utf8]).addressable);
    }

    #[test]
    fn terminal_without_a_size_has_the_usual_one() {
        assert_eq!(or_usual((0, 0)), USUAL);
        assert_eq!(or_usual((0, 50)), USUAL);
        assert_eq!(or_usual((20, 5)), (20, 5));
    }
}
