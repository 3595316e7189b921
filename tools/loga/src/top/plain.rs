// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A picture without what the terminal does not show: colours, and all that is not ASCII.

use crate::terminal::Capabilities;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

/// Characters of pictures, and those that stand for them in ASCII: bars from the lowest on.
const SYMBOLS: [(&str, &str); 14] = [
    ("▁", "_"),
    ("▂", "."),
    ("▃", ":"),
    ("▄", "-"),
    ("▅", "="),
    ("▆", "+"),
    ("▇", "*"),
    ("█", "#"),
    ("▲", "^"),
    ("▼", "v"),
    ("←", "<"),
    ("→", ">"),
    ("↑", "^"),
    ("↓", "v"),
];

/// Leaves in a picture what can be shown.
pub(super) fn simplify(picture: &mut Buffer, capabilities: Capabilities) {
    for cell in &mut picture.content {
        if !capabilities.colours {
            without_colours(cell);
        }
        if !capabilities.unicode && !cell.symbol().is_ascii() {
            let same = SYMBOLS.iter().find(|(symbol, _)| *symbol == cell.symbol());
            cell.set_symbol(same.map_or("?", |(_, ascii)| ascii));
        }
    }
}

/// Bold instead of red, the only colour that says what must not be missed.
fn without_colours(cell: &mut Cell) {
    if cell.fg == Color::Red {
        cell.modifier |= Modifier::BOLD;
    }
    (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    #[test]
    fn names_and_bars_become_ascii_of_the_same_width() {
        let mut picture = Buffer::empty(Rect::new(0, 0, 8, 1));
        picture.set_string(0, 0, "aä▼█日▁", Style::from(Color::Red));
        let capabilities = Capabilities {
            unicode: false,
            colours: false,
        };
        simplify(&mut picture, capabilities);
        let row: String = picture.content.iter().map(Cell::symbol).collect();
        assert_eq!(row, "a?v#? _ ");
        let cell = &picture[(0, 0)];
        assert_eq!((cell.fg, cell.modifier), (Color::Reset, Modifier::BOLD));
    }
}
