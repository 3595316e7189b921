// SPDX-License-Identifier: GPL-2.0

//! Changes to a scenario from the command line: `policy.poll_ms=2`, `client.hog.weight=300`.

use super::plain::Error;
use toml::{Table, Value};

/// Applies changes to the text of a file; the result is a text with a name of its own.
pub(super) fn apply(name: &str, text: &str, changes: &[String]) -> Result<(String, String), Error> {
    let failed = |place: String, reason: String| Error { place, reason };
    let mut root: Table = toml::from_str(text)
        .map_err(|error| failed(name.to_owned(), error.message().to_owned()))?;
    for change in changes {
        let place = || format!("--set {change}");
        let (path, value) = change.split_once('=').ok_or_else(|| {
            failed(
                place(),
                "want key=value, such as policy.poll_ms=2".to_owned(),
            )
        })?;
        let steps: Vec<_> = path.trim().split('.').collect();
        set(&mut root, &steps, &read(value)).map_err(|reason| failed(place(), reason))?;
    }
    let text =
        toml::to_string(&root).map_err(|error| failed(name.to_owned(), error.to_string()))?;
    let all: Vec<_> = changes
        .iter()
        .map(|change| format!("--set {change}"))
        .collect();
    Ok((format!("{name} with {}", all.join(" ")), text))
}

/// A TOML value; what is none is a string.
fn read(text: &str) -> Value {
    let parsed: Result<Table, _> = toml::from_str(&format!("value = {text}"));
    parsed
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.trim().to_owned()))
}

/// Sets the value at a path. A step into an array is a position, or the `name` of an element;
/// `*` means all of them.
fn set(table: &mut Table, steps: &[&str], value: &Value) -> Result<(), String> {
    let (step, rest) = match steps {
        [] | [""] => return Err("want a key before the =".to_owned()),
        [last] => {
            table.insert((*last).to_owned(), value.clone());
            return Ok(());
        }
        [step, rest @ ..] => (*step, rest),
    };
    let inner = table
        .entry(step)
        .or_insert_with(|| Value::Table(Table::new()));
    match inner {
        Value::Table(table) => set(table, rest, value),
        Value::Array(elements) => set_element(elements, step, rest, value),
        _ => Err(format!("{step} is a value, not a table")),
    }
}

fn set_element(
    elements: &mut [Value],
    array: &str,
    steps: &[&str],
    value: &Value,
) -> Result<(), String> {
    let Some((which, rest)) = steps.split_first() else {
        return Err(format!("{array} wants an element and a key"));
    };
    let mut found = false;
    let mut names = Vec::new();
    for (position, element) in elements.iter_mut().enumerate() {
        let Value::Table(table) = element else {
            continue;
        };
        let name = table
            .get("name")
            .and_then(Value::as_str)
            .map_or_else(|| position.to_string(), str::to_owned);
        if *which == "*" || *which == name || *which == position.to_string() {
            set(table, rest, value)?;
            found = true;
        }
        names.push(name);
    }
    if found {
        return Ok(());
    }
    Err(format!(
        "no {array} {which:?}, want one of {}, *",
        names.join(", ")
    ))
}
