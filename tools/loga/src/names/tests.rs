// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Names of any bytes: what is printed is harmless, and is read as it was.

use super::*;
use proptest::prelude::*;

/// Names that were seen in reports, and kinds that were not, with what is printed.
const NAMES: &[(&[u8], &str)] = &[
    (b"throttle", "throttle"),
    (b"VLLM::EngineCor", "VLLM::EngineCor"),
    (b"/a.slice:cri-containerd:1", "/a.slice:cri-containerd:1"),
    (b"/dev-disk-by\\x2duuid.swap", "/dev-disk-by\\x2duuid.swap"),
    (b"a b", "a b"),
    (b"say \"hi\"", "say \"hi\""),
    (
        b"\xc3\xa4rger \xe4\xb8\xad\xe6\x96\x87",
        "\u{e4}rger \u{4e2d}\u{6587}",
    ),
    (b"", "\"\""),
    (b"\"", "\"\\\"\""),
    (b"\"a\\", "\"\\\"a\\\\\""),
    (b" a", "\" a\""),
    (b"a\x1b[2J b", "\"a\\x1b[2J b\""),
    (b"a\nb\tc\rd", "\"a\\nb\\tc\\rd\""),
    (b"\x7f", "\"\\x7f\""),
    // A control of eight bits, alone and as UTF-8.
    (b"\x9b2J", "\"\\x9b2J\""),
    (b"\xc2\x9b2J", "\"\\u{9b}2J\""),
    // A character that was cut, and half of a pair of UTF-16.
    (b"caf\xc3", "\"caf\\xc3\""),
    (b"\xed\xa0\x80", "\"\\xed\\xa0\\x80\""),
    (b"\xe2\x80\xaegpj.exe", "\"\\u{202e}gpj.exe\""),
    (b"ro\xe2\x80\x8bot", "\"ro\\u{200b}ot\""),
    (b"root\xe3\x85\xa4", "\"root\\u{3164}\""),
    (b"\xf3\xa0\x81\x81", "\"\\u{e0041}\""),
    // A space that is none of ASCII, at the end.
    (b"a\xe3\x80\x80", "\"a\u{3000}\""),
];

#[test]
fn names_are_printed_as_documented_and_read_again() {
    for (bytes, printed) in NAMES {
        let name = Name::from(*bytes);
        assert_eq!(name.to_string(), *printed);
        assert_eq!(Name::read(printed), Ok(name));
    }
    let document = include_str!("../../../../docs/names.md");
    for printed in ["VLLM::EngineCor", "\"a\\x1b[2J b\"", "\"\\u{202e}gpj.exe\""] {
        assert!(document.contains(&format!("`{printed}`")), "{printed}");
    }
}

#[test]
fn name_that_is_no_text_has_its_bytes_beside_it() {
    assert_eq!(Name::from(&b"a\xff"[..]).hex(), Some("61ff".to_string()));
    assert_eq!(Name::from("a\u{1b}\u{202e}").hex(), None);
}

#[test]
fn width_counts_what_is_printed() {
    assert_eq!(format!("{:>7}|", Name::from("a\n")), "  \"a\\n\"|");
    assert_eq!(format!("{:<6}|", Name::from("ab")), "ab    |");
}

#[test]
fn wrong_quotes_are_refused_where_they_are() {
    for (text, at) in [
        ("\"a", 0),
        ("\"", 0),
        ("\"a\\\"", 0),
        ("\"a\\q\"", 2),
        ("\"\\x4\"", 1),
        ("\"\\xg0\"", 1),
        ("\"\\x+1\"", 1),
        ("\"ab\\u{}\"", 3),
        ("\"\\u{d800}\"", 1),
        ("\"\\u{0000041}\"", 1),
        ("\"\\u{+41}\"", 1),
        ("\"\\u41\"", 1),
        ("\"\\", 1),
        ("\"\\x\u{e4}\"", 1),
        ("\"a\"b", 3),
    ] {
        let wrong = Name::read(text).expect_err(text);
        assert_eq!(wrong.at, at, "{text}: {}", wrong.why);
        assert!(wrong.why.starts_with("want "), "{}", wrong.why);
    }
    assert_eq!(Name::read("\"\\u{41}\\x42\""), Ok("AB".into()));
}

#[test]
fn argument_in_quotes_is_found_out() {
    assert_eq!(Name::from("\"a\\n\"").unquoted(), Some("a\n".into()));
    for text in ["a", "\"a", "\"a\"b"] {
        assert_eq!(Name::from(text).unquoted(), None, "{text}");
    }
}

#[test]
fn line_for_people_is_harmless_and_stays_as_it_is_if_it_was() {
    let plain = "there is no user 'a\\b': want \u{e4}";
    assert_eq!(harmless(plain), plain);
    assert_eq!(harmless("a\u{1b}[2J\nb\u{202e}"), "a\\x1b[2J\\nb\\u{202e}");
}

fn written(text: &str) -> String {
    let mut out = Vec::new();
    json::write(&mut out, &text).expect("text");
    String::from_utf8(out).expect("text")
}

#[test]
fn json_is_escaped_and_exact() {
    assert_eq!(written("a\u{1b}\u{7f}"), "\"a\\u001b\\u007f\"");
    assert_eq!(written("\u{9b}x\u{202e}"), "\"\\u009bx\\u202e\"");
    assert_eq!(written("\u{e0041}"), "\"\\udb40\\udc41\"");
    assert_eq!(written("\u{e4}\"\\:"), "\"\u{e4}\\\"\\\\:\"");
}

fn is_harmless(text: &str) -> bool {
    text.chars().all(is_plain)
}

proptest! {
    #[test]
    fn name_of_any_bytes_is_harmless_and_read_again(
        bytes in proptest::collection::vec(any::<u8>(), 0..=255),
    ) {
        let name = Name::from(bytes);
        let printed = name.to_string();
        prop_assert!(is_harmless(&printed), "{printed:?}");
        prop_assert_eq!(Name::read(&printed), Ok(name));
    }

    #[test]
    fn name_of_any_characters_is_harmless_and_read_again(text in any::<String>()) {
        let name = Name::from(text.as_str());
        let printed = name.to_string();
        prop_assert!(is_harmless(&printed), "{printed:?}");
        prop_assert_eq!(Name::read(&printed), Ok(name));
        prop_assert!(is_harmless(&harmless(&text)));
        let json = written(&text);
        prop_assert!(is_harmless(&json), "{json:?}");
        prop_assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
    }

    #[test]
    fn any_text_is_read_or_refused_inside_of_it(text in any::<String>()) {
        let text = format!("\"{text}");
        match Name::read(&text) {
            Ok(name) => prop_assert!(name.as_bytes().len() < text.len()),
            Err(wrong) => prop_assert!(text.get(wrong.at..).is_some()),
        }
    }
}
