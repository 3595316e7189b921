// SPDX-License-Identifier: GPL-2.0

//! A cell of a table: text with places for figures, `{FORM NAME}`.
//!
//! A form is the number of decimals, after `+` for a sign, after `,` for commas between thousands, and
//! before `/1000` for what is shown in thousands of its unit. A name is that of a figure; `#` stands for
//! any number, and `[123]` for one of these characters. Several figures are shown as the span of their
//! values; one figure with several seeds as its value with each, between strokes.

use crate::measured::Scenario;

/// How values are written.
#[derive(Debug, Default, PartialEq)]
struct Form {
    sign: bool,
    commas: bool,
    decimals: usize,
    divisor: f64,
}

/// A piece of a cell.
#[derive(Debug, PartialEq)]
pub(crate) enum Piece<'a> {
    /// As it stands.
    Text(&'a str),
    /// A place for figures.
    Placeholder(Placeholder<'a>),
}

/// A place for figures.
#[derive(Debug, PartialEq)]
pub(crate) struct Placeholder<'a> {
    form: Form,
    name: &'a str,
}

/// The pieces of a cell; nothing if it is malformed.
pub(crate) fn pieces(cell: &str) -> Option<Vec<Piece<'_>>> {
    let mut pieces = Vec::new();
    let mut rest = cell;
    while let Some((text, after)) = rest.split_once('{') {
        let (place, after) = after.split_once('}')?;
        let (form, name) = place.split_once(' ')?;
        let form = Form::read(form)?;
        pieces.extend([
            Piece::Text(text),
            Piece::Placeholder(Placeholder { form, name }),
        ]);
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    Some(pieces)
}

impl Placeholder<'_> {
    /// Whether a figure of this name stands here.
    pub(crate) fn cites(&self, figure: &str) -> bool {
        matches(self.name, figure)
    }

    /// The values of each figure that stands here, with each seed.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(crate) fn values<'a>(&self, scenario: &'a Scenario) -> Result<Vec<&'a [f64]>, String> {
        let figures = scenario.figures.iter();
        let values: Vec<&[f64]> = figures
            .filter(|(name, _)| self.cites(name))
            .map(|(_, figure)| figure.values.as_slice())
            .collect();
        match values.is_empty() {
            true => Err(format!("no figure {:?}", self.name)),
            false => Ok(values),
        }
    }

    /// What is shown of these values.
    pub(crate) fn show(&self, values: &[&[f64]]) -> String {
        let write = |value: f64| self.form.write(value);
        if let [seeds] = values {
            let seeds: Vec<String> = seeds.iter().map(|value| write(*value)).collect();
            return seeds.join(" / ");
        }
        let all = || values.iter().flat_map(|seeds| seeds.iter().copied());
        let least = write(all().fold(f64::INFINITY, f64::min));
        let most = write(all().fold(f64::NEG_INFINITY, f64::max));
        match least == most {
            true => least,
            false => format!("{least} to {most}"),
        }
    }
}

impl Form {
    fn read(text: &str) -> Option<Self> {
        let (text, divisor) = match text.strip_suffix("/1000") {
            Some(text) => (text, 1000.0),
            None => (text, 1.0),
        };
        let digits = text.trim_start_matches(['+', ',']);
        Some(Self {
            sign: text.contains('+'),
            commas: text.contains(','),
            decimals: digits.parse().ok()?,
            divisor,
        })
    }

    fn write(&self, value: f64) -> String {
        let size = format!("{:.*}", self.decimals, (value / self.divisor).abs());
        let zero = size.bytes().all(|c| matches!(c, b'0' | b'.'));
        let sign = match (zero, value < 0.0) {
            (true, _) => "",
            (false, true) => "-",
            (false, false) if self.sign => "+",
            (false, false) => "",
        };
        let (whole, part) = size.split_at(size.find('.').unwrap_or(size.len()));
        if !self.commas {
            return format!("{sign}{whole}{part}");
        }
        let mut grouped = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at) % 3 == 0 {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        format!("{sign}{grouped}{part}")
    }
}

/// Whether a pattern stands for a name.
fn matches(pattern: &str, name: &str) -> bool {
    let mut chars = pattern.chars();
    match chars.next() {
        None => name.is_empty(),
        Some('#') => {
            let rest = name.trim_start_matches(|c: char| c.is_ascii_digit());
            rest.len() < name.len() && matches(chars.as_str(), rest)
        }
        Some('[') => {
            let Some((class, after)) = chars.as_str().split_once(']') else {
                return false;
            };
            let mut name = name.chars();
            name.next().is_some_and(|c| class.contains(c)) && matches(after, name.as_str())
        }
        Some(c) => name
            .strip_prefix(c)
            .is_some_and(|rest| matches(chars.as_str(), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(cell: &str, values: &[&[f64]]) -> String {
        let pieces = pieces(cell).expect("well formed");
        let [Piece::Text(""), Piece::Placeholder(place), Piece::Text("")] = &pieces[..] else {
            panic!("{pieces:?}");
        };
        place.show(values)
    }

    #[test]
    fn numbers_are_written_as_the_form_says() {
        assert_eq!(shown("{+2 x}", &[&[0.004]]), "0.00");
        assert_eq!(shown("{+2 x}", &[&[-0.004]]), "0.00");
        assert_eq!(shown("{+2 x}", &[&[0.226]]), "+0.23");
        assert_eq!(shown("{+2 x}", &[&[-0.226]]), "-0.23");
        assert_eq!(shown("{1 x}", &[&[25.06]]), "25.1");
        assert_eq!(shown("{,0 x}", &[&[1_234_567.0]]), "1,234,567");
        assert_eq!(shown("{,0 x}", &[&[912.0]]), "912");
        assert_eq!(shown("{1/1000 x}", &[&[11_640.0]]), "11.6");
    }

    #[test]
    fn figures_are_shown_as_a_span_and_seeds_one_by_one() {
        assert_eq!(shown("{1 x}", &[&[2.0], &[1.0], &[3.0]]), "1.0 to 3.0");
        assert_eq!(shown("{1 x}", &[&[2.0], &[2.01]]), "2.0");
        assert_eq!(
            shown("{+2 x}", &[&[0.0, -0.06, 0.56]]),
            "0.00 / -0.06 / +0.56"
        );
        assert_eq!(shown("{1 x}", &[&[2.0, 1.0], &[3.0, 0.5]]), "0.5 to 3.0");
    }

    #[test]
    fn patterns_stand_for_numbers_and_for_one_of_some_characters() {
        assert!(matches("share of client #", "share of client 12"));
        assert!(!matches(
            "share of client #",
            "share of client 1, without switches"
        ));
        assert!(!matches("client #", "client "));
        assert!(matches("client [123]", "client 3"));
        assert!(!matches("client [123]", "client 0"));
        assert!(!matches("client", "client 0"));
    }

    #[test]
    fn malformed_cells_are_refused() {
        for cell in ["{1 x", "{x}", "{+ x}", "{a x}"] {
            assert_eq!(pieces(cell), None, "{cell}");
        }
        assert_eq!(pieces("plain"), Some(vec![Piece::Text("plain")]));
    }
}
