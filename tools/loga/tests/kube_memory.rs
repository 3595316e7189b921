// SPDX-License-Identifier: GPL-2.0

//! What the scheduler extender needs for a request, whatever somebody sends: the bytes that it has
//! allocated at a time are counted. The container of `packaging/kube/loga-kube.yaml` has room for as
//! many requests as are answered at a time.

use loga_cli::commands::kube::board::Board;
use loga_cli::commands::kube::extender::{Extender, FILTER, NODES_MAX, PRIORITIZE};
use loga_cli::http::{Request, Site};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Bytes that this thread has, and the most that it had.
    static HELD: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Counts what a thread has.
struct Counting;

fn note(change: impl FnOnce(usize) -> usize) {
    // A thread that ends has none any more.
    let _ = HELD.try_with(|held| {
        let now = change(held.get().0);
        held.set((now, held.get().1.max(now)));
    });
}

// SAFETY: All is left to the system's allocator, whose conditions are those of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(|held| held.wrapping_add(layout.size()));
        // SAFETY: As above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(|held| held.saturating_sub(layout.size()));
        // SAFETY: As above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most bytes that the program has at a time for a request, its body included.
const MOST: usize = 12 << 20;
/// Requests that are answered at a time.
const CONNECTIONS: usize = 8;
/// `limits.memory` of the container.
const CONTAINER: usize = 128 << 20;

const BODY_MAX: usize = <Extender as Site>::BODY_MAX;

/// `begin`, then `one` as often as there is room before `end`, and `end`.
fn filled(begin: &str, one: &str, end: &str) -> Vec<u8> {
    let count = (BODY_MAX - begin.len() - end.len()) / one.len();
    let body = format!("{begin}{}{end}", one.repeat(count));
    assert!(body.len() <= BODY_MAX);
    assert!(body.len() + one.len() > BODY_MAX);
    body.into_bytes()
}

/// The largest list of names.
fn names(escaped: &str) -> Vec<u8> {
    let each = BODY_MAX / NODES_MAX - 4;
    let name = escaped.repeat(each / escaped.len());
    let list = vec![format!("\"{name}\""); NODES_MAX].join(",");
    format!("{{\"NodeNames\":[{list}]}}").into_bytes()
}

/// The largest list of whole nodes, of which each has another name.
fn nodes() -> Vec<u8> {
    let fill = "[],".repeat((BODY_MAX / NODES_MAX - 64) / 3);
    let node = |at: usize| format!("{{\"metadata\":{{\"name\":\"{at}\"}},\"x\":[{fill}0]}}");
    let list: Vec<String> = (0..NODES_MAX).map(node).collect();
    format!("{{\"Nodes\":{{\"items\":[{}]}}}}", list.join(",")).into_bytes()
}

/// Annotations of a pod, each with another name.
fn annotations() -> Vec<u8> {
    let list: Vec<String> = (0..BODY_MAX / 14)
        .map(|at| format!("\"{at:07}\":\"\""))
        .collect();
    let list = list.join(",");
    format!("{{\"Pod\":{{\"metadata\":{{\"annotations\":{{{list}}}}}}},\"NodeNames\":[]}}")
        .into_bytes()
}

#[test]
fn request_needs_a_bounded_part_of_what_the_container_has() {
    let extender = Extender::new(Arc::new(Board::default()));
    for (what, wanted, body) in [
        ("names", "200", names("n")),
        ("names with escapes", "200", names("\\n")),
        ("whole nodes", "200", nodes()),
        ("annotations", "200", annotations()),
        (
            "empty names",
            "413",
            filled("{\"NodeNames\":[", "\"\",", "\"\"]}"),
        ),
        (
            "empty nodes",
            "413",
            filled(
                "{\"Nodes\":{\"items\":[",
                "{\"metadata\":{\"name\":\"\"}},",
                "{}]}}",
            ),
        ),
        (
            "names without an end",
            "400",
            filled("{\"NodeNames\":[", "\"\",", ""),
        ),
        (
            "names within names",
            "400",
            filled("{\"NodeNames\":", "[", ""),
        ),
        (
            "lists of no node",
            "400",
            filled("{\"Pod\":{},\"x\":[", "[],", ""),
        ),
        ("braces", "400", filled("{\"Pod\":", "{\"a\":", "")),
        (
            "one name without an end",
            "400",
            filled("{\"NodeNames\":[\"", "n", ""),
        ),
    ] {
        assert!(body.len() <= BODY_MAX, "{what}: {}", body.len());
        for path in [PRIORITIZE, FILTER] {
            let request = Request {
                method: "POST".to_string(),
                path: path.to_string(),
                body: body.clone(),
                ..Request::default()
            };
            let before = HELD.get().0 - request.body.len();
            HELD.set((HELD.get().0, 0));
            let answer = extender.answer(&request);
            // What was read grows by doubling.
            let most = HELD.get().1 - before + request.body.len();
            println!(
                "{what}, {path}: {} bytes, {most} at a time",
                answer.body.len()
            );
            assert!(answer.status.starts_with(wanted), "{what}: {}", answer.body);
            assert!(most <= MOST, "{what}, {path}: {most} bytes at a time");
        }
    }
    const { assert!(MOST * CONNECTIONS <= CONTAINER * 3 / 4) };
}
