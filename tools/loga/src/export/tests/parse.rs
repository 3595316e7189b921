// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A strict reader of OpenMetrics, written from its specification.

use std::collections::{BTreeMap, BTreeSet};

/// A series: its name and its labels.
pub(crate) type Series = (String, BTreeMap<String, String>);

/// What a page says.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) values: BTreeMap<Series, f64>,
    /// Type and unit of each family.
    pub(crate) families: BTreeMap<String, (String, Option<String>)>,
}

impl Page {
    /// The value of the only series of this name with these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |series: &&Series| {
            let has =
                |(key, value): &(&str, &str)| series.1.get(*key).map(String::as_str) == Some(value);
            series.0 == name && labels.iter().all(has)
        };
        let found: Vec<&Series> = self.values.keys().filter(fits).collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
        self.values[found[0]]
    }

    /// Whether there is a series of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.keys().any(|series| series.0 == name)
    }
}

/// Reads a page; panics at what is wrong with it.
pub(crate) fn parse(text: &str) -> Page {
    let body = text.strip_suffix("# EOF\n").expect("ends with # EOF");
    let mut page = Page::default();
    let (mut family, mut seen) = (String::new(), BTreeSet::new());
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (word, rest) = comment.split_once(' ').expect(line);
            let (name, rest) = rest.split_once(' ').expect(line);
            match word {
                "HELP" => {
                    assert!(seen.insert(name.to_string()), "twice: {line}");
                    family = name.to_string();
                }
                "TYPE" => {
                    assert_eq!(name, family, "{line}");
                    page.families
                        .insert(family.clone(), (rest.to_string(), None));
                }
                "UNIT" => {
                    assert!(name == family, "{line}");
                    assert!(name.ends_with(&format!("_{rest}")), "{line}");
                    page.families.get_mut(&family).expect(line).1 = Some(rest.to_string());
                }
                other => panic!("{other}: {line}"),
            }
            continue;
        }
        let (series, value) = sample(line);
        let wanted = match page.families[&family].0.as_str() {
            "counter" => format!("{family}_total"),
            "gauge" => family.clone(),
            other => panic!("{other}: {line}"),
        };
        assert_eq!(series.0, wanted, "{line}");
        assert!(page.values.insert(series, value).is_none(), "twice: {line}");
    }
    page
}

fn sample(line: &str) -> (Series, f64) {
    let end = line.find(['{', ' ']).expect(line);
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (key, after) = rest.split_once("=\"").expect(line);
            let legal = |c: char| c.is_ascii_alphanumeric() || c == '_';
            assert!(!key.is_empty(), "{line}");
            assert!(key.chars().all(legal), "{line}");
            let (value, after) = quoted(after, line);
            assert!(labels.insert(key.to_string(), value).is_none(), "{line}");
            match after.strip_prefix(',') {
                Some(next) => rest = next,
                None => {
                    rest = after.strip_prefix('}').expect(line);
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').expect(line);
    assert!(!value.contains(' '), "{line}");
    ((name.to_string(), labels), value.parse().expect(line))
}

/// A label's value, and what follows its quote.
fn quoted<'a>(text: &'a str, line: &str) -> (String, &'a str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => match letters.next().expect(line).1 {
                'n' => value.push('\n'),
                escaped @ ('\\' | '"') => value.push(escaped),
                other => panic!("\\{other}: {line}"),
            },
            other => value.push(other),
        }
    }
    panic!("no end: {line}");
}
