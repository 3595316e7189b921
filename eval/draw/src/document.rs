// SPDX-License-Identifier: GPL-2.0

//! `[tool]` HTML pages that need nothing else.

use maud::{html, Markup, PreEscaped, DOCTYPE};

/// A whole page.
pub fn document(title: &str, body: &Markup) -> String {
    let style = PreEscaped(include_str!("style.css"));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (style) }
            }
            body {
                h1 { (title) }
                (body)
            }
        }
    };
    // A number stays with its sign.
    page.into_string().replace(" %", "\u{a0}%")
}
