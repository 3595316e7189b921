// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Pages of recordings: whole, empty, cut, and with many clients.

use super::*;
use crate::commands::export::tests::{file, lines, text};
use serde_json::json;

/// The page, and what is said.
fn report(text: &str) -> (String, Result<Option<String>, String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = cli::Report {
        file: file(&folder, text),
        out: folder.path().join("page.html"),
    };
    let done = run(&arguments).map_err(|failure| failure.to_string());
    (fs::read_to_string(&arguments.out).unwrap_or_default(), done)
}

#[test]
fn page_has_a_picture_totals_and_events_and_needs_nothing_else() {
    let (page, done) = report(&text(&lines()));
    assert_eq!(done, Ok(None));
    assert_eq!(page.matches("<svg").count(), 1);
    // Half of a second, a quarter, the rest at the exit, and a second after the gap: one process.
    for there in [
        "1.875",
        "ann",
        "/a,b",
        "no driver",
        "2026-11-26T14:05:43.000Z",
        "exited 1",
    ] {
        assert!(page.contains(there), "{there}");
    }
    let own = page.replace("http://www.w3.org/2000/svg", "");
    for bad in ["http://", "https://", "src=", "<link", "url(", "<script"] {
        assert!(!own.contains(bad), "{bad}");
    }
}

#[test]
fn name_that_is_markup_is_text() {
    let hostile = text(&lines()).replace("=a\\\",\\n", "<script>x");
    let (page, done) = report(&hostile);
    assert_eq!(done, Ok(None));
    assert!(page.contains("&lt;script&gt;x"));
    assert!(!page.contains("<script"));
}

#[test]
fn recording_without_samples_has_a_page() {
    let (page, done) = report(&text(&lines()[..1]));
    assert_eq!(done, Ok(None));
    assert!(page.contains("There is no sample in it."), "{page}");
    assert!(page.contains("No client was there."));
    assert!(!page.contains("NaN"));
}

#[test]
fn cut_and_damaged_recordings_have_a_page_that_says_so() {
    let whole = text(&lines());
    let (page, done) = report(&whole[..whole.len() - 9]);
    assert!(done.expect("a page").is_some());
    assert!(page.contains("the last line is cut"));
    let (page, done) = report(&format!("{}what\n", text(&lines()[..4])));
    let said = done.expect_err("damaged");
    assert!(
        said.ends_with("; the page shows only what is before it"),
        "{said}"
    );
    assert!(page.contains("line 5: not a line"));
}

#[test]
fn many_clients_share_the_colour_of_all_others() {
    let mut many = lines();
    let clients: Vec<_> = (1..=1000u64)
        .map(|id| {
            json!({"id": id, "pid": id, "uid": 1, "comm": "c", "cgroup": null, "cgroup_path": null,
                "state": "idle", "gpu_time_ns": id, "waited_ns": 0, "throttled_ns": 0})
        })
        .collect();
    many[1]["sample"]["clients"] = json!(clients);
    let (page, done) = report(&text(&many));
    assert_eq!(done, Ok(None));
    assert_eq!(page.matches("all others").count(), 1);
    // Number 7 is another process after the gap.
    assert!(page.contains("901 clients with less GPU time are not shown."));
}
