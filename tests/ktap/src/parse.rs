// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Reading KTAP.
//!
//! The parser is strict on purpose: output that stops half way, a plan that
//! does not match, a number out of order or no output at all are failures, so
//! that a crash never passes.

use crate::{Outcome, Report, Test};

/// Deepest nesting that is followed; KUnit uses three levels.
const MAX_DEPTH: usize = 8;

/// One `KTAP version` line and what has been seen below it.
#[derive(Debug)]
struct Frame {
    indent: usize,
    name: Option<String>,
    plan: Option<usize>,
    seen: usize,
    first_child: usize,
}

/// Reads all KTAP documents in `text`; `source` names it in complaints.
///
/// Lines that are not KTAP (diagnostics, program output) are passed over.
pub fn parse(source: &str, text: &str) -> Report {
    let mut parser = Parser {
        source,
        frames: Vec::new(),
        report: Report::default(),
    };
    let mut documents = 0usize;
    for line in text.lines() {
        let line = line.trim_end();
        let body = line.trim_start();
        let indent = line.len() - body.len();
        if body.starts_with("KTAP version ") || body.starts_with("TAP version ") {
            documents += usize::from(indent == 0);
            parser.open(indent);
        } else if let Some(plan) = body.strip_prefix("1..") {
            parser.plan(indent, plan);
        } else if let Some(name) = body.strip_prefix("# Subtest: ") {
            parser.name(indent, name);
        } else if let Some(rest) = body.strip_prefix("ok ") {
            parser.result(indent, rest, true);
        } else if let Some(rest) = body.strip_prefix("not ok ") {
            parser.result(indent, rest, false);
        } else if body.starts_with("Bail out!") {
            parser.report.complain(source, body.to_owned());
        }
    }
    parser.close_to(0, true);
    if documents == 0 {
        parser.report.complain(source, "no KTAP output".to_owned());
    }
    parser.report
}

struct Parser<'a> {
    source: &'a str,
    frames: Vec<Frame>,
    report: Report,
}

impl Parser<'_> {
    fn open(&mut self, indent: usize) {
        // A second document at the same depth ends the first one.
        let keep = self.frames.iter().take_while(|f| f.indent < indent).count();
        self.close_to(keep, true);
        if self.frames.len() >= MAX_DEPTH {
            self.report
                .complain(self.source, format!("nested deeper than {MAX_DEPTH}"));
            return;
        }
        let first_child = self.report.tests.len();
        self.frames.push(Frame {
            indent,
            name: None,
            plan: None,
            seen: 0,
            first_child,
        });
    }

    fn plan(&mut self, indent: usize, plan: &str) {
        let count = plan.split_whitespace().next().and_then(|n| n.parse().ok());
        if let (Some(frame), Some(count)) = (self.frame_at(indent), count) {
            frame.plan = Some(count);
        }
    }

    fn name(&mut self, indent: usize, name: &str) {
        if let Some(frame) = self.frame_at(indent) {
            frame.name = Some(name.to_owned());
        }
    }

    fn result(&mut self, indent: usize, rest: &str, passed: bool) {
        let Some((number, name, directive)) = split_result(rest) else {
            return;
        };
        let Some(position) = self.frames.iter().position(|f| f.indent == indent) else {
            return;
        };
        let children = self.frames.get(position + 1).map(|f| f.first_child);
        self.close_to(position + 1, false);
        // PANIC: close_to() left exactly position + 1 frames.
        let frame = &mut self.frames[position];
        frame.seen += 1;
        let expected = frame.seen;
        let full_name = self.full_name(&name);
        if number != expected {
            let note = format!("is number {number}, expected {expected}");
            self.report.complain(&full_name, note);
        }
        let children_failed = children.is_some_and(|first| {
            self.report.tests[first..]
                .iter()
                .any(|t| t.outcome == Outcome::Fail)
        });
        let skipped = directive.to_ascii_uppercase().starts_with("SKIP");
        let outcome = match (passed, skipped) {
            (false, _) => Outcome::Fail,
            (true, true) => Outcome::Skip,
            (true, false) => Outcome::Pass,
        };
        // A suite repeats the verdict of its tests: it counts only where it
        // differs from them.
        let repeats = match outcome {
            Outcome::Fail => children_failed,
            _ => children.is_some(),
        };
        if !repeats {
            self.report.tests.push(Test {
                name: full_name,
                outcome,
                note: directive,
            });
        }
    }

    fn frame_at(&mut self, indent: usize) -> Option<&mut Frame> {
        self.frames.iter_mut().find(|f| f.indent == indent)
    }

    /// The suite's name is known from `# Subtest`, which comes before its tests.
    fn full_name(&self, name: &str) -> String {
        let mut parts: Vec<&str> = self
            .frames
            .iter()
            .filter_map(|f| f.name.as_deref())
            .collect();
        parts.push(name);
        parts.join("/")
    }

    /// Ends all frames from index `keep` on and checks their plans.
    /// `cut` says that no result line for the suite followed them.
    fn close_to(&mut self, keep: usize, cut: bool) {
        while self.frames.len() > keep {
            let Some(frame) = self.frames.pop() else {
                return;
            };
            let name = frame.name.clone().unwrap_or_else(|| self.source.to_owned());
            match frame.plan {
                Some(plan) if plan != frame.seen => self
                    .report
                    .complain(&name, format!("planned {plan} tests, saw {}", frame.seen)),
                None => self.report.complain(&name, "has no plan line".to_owned()),
                Some(_) if cut && frame.indent > 0 => {
                    self.report
                        .complain(&name, "ends without its own result".to_owned());
                }
                Some(_) => {}
            }
        }
    }
}

/// `3 - name # SKIP why` into number, name and directive.
fn split_result(rest: &str) -> Option<(usize, String, String)> {
    let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let number = number.parse().ok()?;
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = rest.split_once(" # ").unwrap_or((rest, ""));
    Some((number, name.trim().to_owned(), directive.trim().to_owned()))
}

/// Removes the time stamp that the kernel puts before each message, and says
/// whether there was one.
pub fn strip_stamp(line: &str) -> (bool, &str) {
    let Some(rest) = line.strip_prefix('[') else {
        return (false, line);
    };
    let Some((stamp, body)) = rest.split_once(']') else {
        return (false, line);
    };
    let number = stamp.trim();
    let is_stamp = number.contains('.') && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    if is_stamp {
        (true, body.strip_prefix(' ').unwrap_or(body))
    } else {
        (false, line)
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
