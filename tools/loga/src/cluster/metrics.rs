// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The text of an exporter, which another machine wrote: any bytes, checked line by line.

/// Longest text, in bytes: that of a node of eight GPUs with 64 programs each is about half of it.
pub const MAX_TEXT: usize = 4 << 20;
/// Most labels of a sample.
const MAX_LABELS: usize = 32;

/// A sample of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Name of the metric.
    pub name: &'a str,
    /// Labels and their values, with escapes as written.
    labels: Vec<(&'a str, &'a str)>,
    /// The value; may be infinite or not a number.
    pub value: f64,
}

impl Sample<'_> {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let mut labels = self.labels.iter();
        labels.find(|label| label.0 == name).map(|label| label.1)
    }
}

/// The samples of a text whose names are wanted. All of its lines are looked at; what is not wanted
/// takes no memory, since a controller reads the texts of a thousand nodes at the same time.
///
/// # Errors
///
/// What is wrong with the first line that is no comment and no sample, or with the whole.
pub fn samples(text: &[u8], is_wanted: impl Fn(&str) -> bool) -> Result<Vec<Sample<'_>>, String> {
    if text.len() > MAX_TEXT {
        return Err(format!("more than {MAX_TEXT} bytes"));
    }
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8".to_string())?;
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let read = lines
        .map(|(number, line)| sample(line).ok_or_else(|| format!("line {number} is no sample")));
    read.filter(|read| read.as_ref().map_or(true, |sample| is_wanted(sample.name)))
        .collect()
}

/// `name{label="value",..} value [timestamp] [# exemplar]`.
fn sample(line: &str) -> Option<Sample<'_>> {
    let (name, mut rest) = name(line)?;
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside.trim_start();
        loop {
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            if labels.len() == MAX_LABELS {
                return None;
            }
            let (label, after) = self::name(rest)?;
            let after = after.trim_start().strip_prefix('=')?.trim_start();
            let (value, after) = quoted(after)?;
            labels.push((label, value));
            let after = after.trim_start();
            rest = match after.strip_prefix(',') {
                Some(after) => after.trim_start(),
                None if after.starts_with('}') => after,
                None => return None,
            };
        }
    }
    if !rest.starts_with([' ', '\t']) && labels.is_empty() {
        return None;
    }
    let mut words = rest.split_whitespace();
    let value = number(words.next()?)?;
    // A timestamp, or an exemplar.
    match words.next() {
        Some(word) if word != "#" && word.parse::<f64>().is_err() => None,
        _ => Some(Sample {
            name,
            labels,
            value,
        }),
    }
}

/// A name at the beginning, and what follows it.
fn name(text: &str) -> Option<(&str, &str)> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = text.find(|c| !legal(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end)?;
    let first = name.chars().next()?;
    (!first.is_ascii_digit()).then_some((name, rest))
}

/// What stands between quotation marks, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, letter) in inside.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                let (value, rest) = inside.split_at_checked(at)?;
                return Some((value, rest.strip_prefix('"')?));
            }
            _ => {}
        }
    }
    None
}

/// Prometheus writes `+Inf` and `NaN`, which Rust reads too.
fn number(word: &str) -> Option<f64> {
    word.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Option<(String, f64)> {
        sample(line).map(|sample| (sample.name.to_string(), sample.value))
    }

    #[test]
    fn samples_of_every_form_are_read() {
        assert_eq!(one("loga_up 1"), Some(("loga_up".into(), 1.0)));
        assert_eq!(one("a:b{} 1e3 1700000000000"), Some(("a:b".into(), 1000.0)));
        let line = r#"x{gpu="0", user="a \"b\" } c",} 0.5 # {trace="1"} 0.3"#;
        let read = sample(line).expect("a sample");
        assert_eq!(read.label("gpu"), Some("0"));
        assert_eq!(read.label("user"), Some(r#"a \"b\" } c"#));
        assert_eq!(read.value, 0.5);
        assert!(one("x +Inf").is_some_and(|x| x.1.is_infinite()));
        assert!(one("x NaN").is_some_and(|x| x.1.is_nan()));
    }

    #[test]
    fn line_that_is_no_sample_refuses_the_text() {
        for line in [
            "x",
            "x y",
            "1x 1",
            "x{ 1",
            "x{a} 1",
            "x{a=b} 1",
            "x{a=\"b} 1",
            "x{a=\"b\"",
            "{} 1",
            "x{a=\"b\"c=\"d\"} 1",
            "x1",
            "x 1 soon",
            "-",
            "x{a=\"b\"}",
            "x {a=\"b\"} 1",
        ] {
            assert_eq!(one(line), None, "{line}");
        }
        // Also where it would not be wanted.
        for wanted in [true, false] {
            let read = |text: &'static [u8]| samples(text, |_| wanted);
            let said = read(b"# HELP x\n\nx 1\nx oops\n").expect_err("refused");
            assert_eq!(said, "line 4 is no sample");
            assert_eq!(read(b"x 1\n\xff 2"), Err("not UTF-8".to_string()));
        }
        let read = samples(b"x 1\ny 2\nx 3\n", |name| name == "x").expect("samples");
        assert_eq!(
            read.iter().map(|one| one.value).collect::<Vec<_>>(),
            [1.0, 3.0]
        );
    }

    #[test]
    fn long_texts_and_many_labels_are_refused() {
        assert!(samples(&vec![b'\n'; MAX_TEXT + 1], |_| true).is_err());
        assert!(samples(&vec![b'\n'; MAX_TEXT], |_| true).is_ok());
        // Eight GPUs with 64 programs each.
        let page = "loga_client_gpu_seconds_total{gpu=\"0\",user=\"1000\"} 1.5\n".repeat(40_000);
        assert!(page.len() > 2 << 20);
        assert!(samples(page.as_bytes(), |_| true).is_ok());
        let labels = |count| format!("x{{{}}} 1", "a=\"b\",".repeat(count));
        assert!(one(&labels(MAX_LABELS)).is_some());
        assert_eq!(one(&labels(MAX_LABELS + 1)), None);
    }
}
