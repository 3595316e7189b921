// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What is said about arguments that are wrong: one line, with what would be right.

use super::Arguments;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::CommandFactory;
use std::error::Error;
use std::ffi::OsString;
use std::num::ParseIntError;

/// What is wrong with the arguments in one line, and where to read what would be right.
pub fn refusal(error: &clap::Error, words: &[OsString]) -> String {
    format!("{}; see `{} --help`", one_line(error), named(words))
}

/// The command that these words begin with, such as `loga policy set`.
fn named(words: &[OsString]) -> String {
    let whole = Arguments::command();
    let mut command = &whole;
    let mut name = command.get_name().to_owned();
    for word in words.iter().skip(1).take_while(|word| *word != "--") {
        if let Some(below) = command.find_subcommand(word) {
            command = below;
            name = format!("{name} {}", below.get_name());
        }
    }
    name
}

/// What is wrong with the arguments in one line.
pub fn one_line(error: &clap::Error) -> String {
    let value = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    };
    let wrong = value(ContextKind::InvalidArg).zip(value(ContextKind::InvalidValue));
    if let (ErrorKind::ValueValidation, Some((arg, value)), Some(why)) =
        (error.kind(), wrong, error.source())
    {
        let option = arg.split_whitespace().next().unwrap_or(arg);
        return words(&format!("{option} {value}: {}", wanted(why)));
    }
    let text = error.render().to_string();
    let mut parts = text.split("\n\n");
    let first = parts.next().unwrap_or_default();
    let tips = parts.filter(|part| part.trim_start().starts_with("tip:"));
    let lines: Vec<String> = std::iter::once(first).chain(tips).map(words).collect();
    let line = lines.join("; ");
    line.strip_prefix("error: ").unwrap_or(&line).to_string()
}

/// On one line, with one space between two words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// What would be right, where clap's own parser of a number says only that this is none.
fn wanted(why: &(dyn Error + 'static)) -> String {
    if why.is::<ParseIntError>() {
        return "want a whole number".to_string();
    }
    let why = why.to_string();
    let range = why.split_once(" is not in ");
    match range.and_then(|(_, range)| range.split_once("..=")) {
        Some((least, most)) => format!("want a whole number from {least} to {most}"),
        None => why,
    }
}
