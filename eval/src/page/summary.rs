// SPDX-License-Identifier: GPL-2.0

//! All findings in one table.

use super::{chip, figure, ResultSet};
use crate::findings::{all, Judged, Verdict};
use maud::{html, Markup};

/// The table of the findings, with a column for each place.
pub(super) fn section(places: &[ResultSet]) -> Markup {
    let tested = |place: &ResultSet, index: usize| judged(place, index).is_some();
    let rows = all().enumerate();
    let rows = rows.filter(|(index, _)| places.iter().any(|place| tested(place, *index)));
    html! {
        h2 id="findings" { "Findings" }
        ul {
            @for place in places {
                li {
                    strong { (place.name) } ": "
                    (count(place, Verdict::Holds)) " hold, "
                    (count(place, Verdict::Differs)) " differ, "
                    (count(place, Verdict::Untested)) " not tested"
                }
            }
        }
        div class="wide" { table {
            thead { tr {
                th { "Figure" } th { "The paper says" } th { "Its number" } th { "Holds if" }
                @for place in places { th { (place.name) } }
            } }
            tbody {
                @for (index, finding) in rows {
                    tr {
                        td { a href={ "#" (figure::anchor(finding.figure)) } { (finding.figure) } }
                        td { (finding.claim) }
                        td class="number" { (finding.paper) }
                        td class="rule" { (finding.rule) }
                        @for place in places {
                            td {
                                @match judged(place, index) {
                                    Some(one) => { (chip(one.verdict)) br; (one.ours) },
                                    None => "–",
                                }
                            }
                        }
                    }
                }
            }
        } }
    }
}

/// What became of a finding in a place; nothing if its figure was not run there.
fn judged<'a>(place: &'a ResultSet, index: usize) -> Option<&'a Judged> {
    let finding = all().nth(index)?;
    let same =
        |one: &&Judged| (one.finding.figure, one.finding.claim) == (finding.figure, finding.claim);
    place.judged.iter().find(same)
}

fn count(place: &ResultSet, verdict: Verdict) -> usize {
    place
        .judged
        .iter()
        .filter(|one| one.verdict == verdict)
        .count()
}
