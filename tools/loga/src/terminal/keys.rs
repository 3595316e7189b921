// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Keys, from the bytes that a terminal sends.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Escape: alone a key, else the beginning of a sequence.
const ESCAPE: u8 = 0x1b;

/// Longest sequence that is waited for; longer ones are dropped.
const LONGEST: usize = 16;

/// What the first bytes are.
#[derive(Debug, PartialEq, Eq)]
enum Parsed {
    /// So many bytes, and the key that they are, if it is one that is known.
    Whole(usize, Option<KeyEvent>),
    /// Not all of a sequence.
    Part,
}

/// Bytes that were read, as far as they are no keys yet.
#[derive(Debug, Default)]
pub struct Keys(Vec<u8>);

impl Keys {
    /// Takes bytes from the terminal.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next key.
    pub fn next_key(&mut self) -> Option<KeyEvent> {
        while !self.0.is_empty() {
            let Parsed::Whole(count, key) = parse(&self.0) else {
                return None;
            };
            self.0.drain(..count);
            if key.is_some() {
                return key;
            }
        }
        None
    }

    /// Whether a sequence has begun: the rest of it comes soon, or it is the key Escape.
    pub fn is_in_a_sequence(&self) -> bool {
        !self.0.is_empty()
    }

    /// The key that a sequence is of which nothing more comes.
    pub fn end_of_sequence(&mut self) -> Option<KeyEvent> {
        let begun = std::mem::take(&mut self.0);
        (begun == [ESCAPE]).then(|| KeyCode::Esc.into())
    }
}

fn parse(bytes: &[u8]) -> Parsed {
    let whole = |code: KeyCode| Parsed::Whole(1, Some(code.into()));
    match bytes {
        [] => Parsed::Part,
        [ESCAPE, rest @ ..] => sequence(rest),
        [b'\r' | b'\n', ..] => whole(KeyCode::Enter),
        [byte @ 0x01..=0x1a, ..] => {
            let letter = char::from(byte.saturating_sub(1).saturating_add(b'a'));
            let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
            Parsed::Whole(1, Some(key))
        }
        [byte @ b' '..=b'~', ..] => whole(KeyCode::Char(char::from(*byte))),
        // No key that anything is done for.
        _ => Parsed::Whole(1, None),
    }
}

/// What follows on an escape: `[` or `O`, numbers, and a last letter or `~`.
fn sequence(rest: &[u8]) -> Parsed {
    let (Some(introducer), Some(body)) = (rest.first(), rest.get(1..)) else {
        return Parsed::Part;
    };
    match introducer {
        b'[' | b'O' => {}
        &ESCAPE => return Parsed::Whole(1, Some(KeyCode::Esc.into())),
        // A key together with Alt.
        _ => return Parsed::Whole(2, None),
    }
    let Some(at) = body.iter().position(|byte| matches!(byte, b'@'..=b'~')) else {
        return match body.len() < LONGEST {
            true => Parsed::Part,
            false => Parsed::Whole(rest.len() + 1, None),
        };
    };
    let number = body[..at].split(|byte| *byte == b';').next();
    let key = match (body[at], number.unwrap_or_default()) {
        (b'A', _) => Some(KeyCode::Up),
        (b'B', _) => Some(KeyCode::Down),
        (b'C', _) => Some(KeyCode::Right),
        (b'D', _) => Some(KeyCode::Left),
        (b'H', _) | (b'~', b"1" | b"7") => Some(KeyCode::Home),
        (b'F', _) | (b'~', b"4" | b"8") => Some(KeyCode::End),
        (b'~', b"5") => Some(KeyCode::PageUp),
        (b'~', b"6") => Some(KeyCode::PageDown),
        _ => None,
    };
    // Escape, the introducer, and the body up to its last byte.
    Parsed::Whole(at + 3, key.map(KeyEvent::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(keys: &mut Keys) -> Vec<KeyCode> {
        std::iter::from_fn(|| keys.next_key())
            .map(|key| key.code)
            .collect()
    }

    #[test]
    fn letters_and_sequences_are_keys_and_others_are_dropped() {
        let mut keys = Keys::default();
        keys.push(b"q\x1b[A\x1bOB\x1b[5~\x1b[1;5C\x1b[200~\xc3\xa4?\r");
        let wanted = [
            KeyCode::Char('q'),
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::PageUp,
            KeyCode::Right,
            KeyCode::Char('?'),
            KeyCode::Enter,
        ];
        assert_eq!(codes(&mut keys), wanted);
        assert!(!keys.is_in_a_sequence());
        keys.push(b"\x03");
        let key = keys.next_key().expect("a key");
        let stop = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(key, stop);
    }

    #[test]
    fn escape_alone_is_a_key_only_once_nothing_follows() {
        let mut keys = Keys::default();
        keys.push(b"\x1b");
        assert_eq!(codes(&mut keys), []);
        assert!(keys.is_in_a_sequence());
        keys.push(b"[6");
        assert_eq!(codes(&mut keys), []);
        keys.push(b"~");
        assert_eq!(codes(&mut keys), [KeyCode::PageDown]);
        keys.push(b"\x1b");
        assert_eq!(keys.end_of_sequence(), Some(KeyCode::Esc.into()));
        assert!(!keys.is_in_a_sequence());
        // Alt and q, which is not q.
        keys.push(b"\x1bq");
        assert_eq!(codes(&mut keys), []);
        assert!(!keys.is_in_a_sequence());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(parts in proptest::collection::vec(proptest::collection::vec(0u8.., 0..40), 0..8)) {
            let mut keys = Keys::default();
            for part in &parts {
                keys.push(part);
                codes(&mut keys);
            }
            keys.end_of_sequence();
            assert!(!keys.is_in_a_sequence());
        }
    }
}
