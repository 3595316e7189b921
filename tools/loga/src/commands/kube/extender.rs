// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The scheduler extender: scores of nodes for kube-scheduler, and which of them a pod cannot
//! use, over HTTP and from memory.
//!
//! Source: `ExtenderArgs`, `HostPriorityList` and `ExtenderFilterResult` of
//! k8s.io/kube-scheduler/extender/v1, whose fields have their Go names in JSON.

mod bounded;
mod filter;

use super::board::Board;
use crate::http::{Answer, Request, Site};
use bounded::{Bounded, Name};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;

pub use bounded::NODES_MAX;

/// Best score of a node.
const MAX_SCORE: u64 = 10;
/// Score of a node of which nothing is known: neither first nor last.
const NO_OPINION: u64 = 5;
/// A million: all of a program's speed.
const WHOLE: u64 = 1_000_000;
/// The scheduler's verb for scores.
pub const PRIORITIZE: &str = "/prioritize";
/// The scheduler's verb for nodes that a pod can use.
pub const FILTER: &str = "/filter";
/// For probes.
pub const HEALTH: &str = "/healthz";

/// What the scheduler sends: a pod, which does not matter here, and either kind of nodes.
#[derive(Debug, Deserialize)]
struct Arguments<'a> {
    /// With `nodeCacheCapable: true`.
    #[serde(rename = "NodeNames", borrow)]
    names: Option<Bounded<Name<'a>>>,
    /// Without it.
    #[serde(rename = "Nodes", borrow)]
    nodes: Option<NodeList<'a>>,
}

#[derive(Debug, Deserialize)]
struct NodeList<'a> {
    #[serde(borrow)]
    items: Option<Bounded<Node<'a>>>,
}

#[derive(Debug, Deserialize)]
struct Node<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Debug, Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Name<'a>,
}

/// A node and its score.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostPriority<'a> {
    host: &'a Name<'a>,
    score: u64,
}

/// Answers the scheduler.
#[derive(Debug)]
pub struct Extender {
    board: Arc<Board>,
    /// Its clock.
    now: fn() -> Instant,
}

impl Site for Extender {
    /// The names of [`NODES_MAX`] nodes, each as long as Kubernetes takes them, and a large pod. Of whole
    /// nodes of 8 KiB each it has room for 250.
    const BODY_MAX: usize = 2 << 20;

    fn answer(&self, request: &Request) -> Answer {
        match (request.path.as_str(), request.method.as_str()) {
            (PRIORITIZE, "POST") => of(self.prioritize(&request.body)),
            (FILTER, "POST") => of(self.filter(&request.body)),
            (path @ (PRIORITIZE | FILTER), _) => Answer {
                headers: "Allow: POST\r\n",
                ..Answer::said("405 Method Not Allowed", &format!("want POST {path}"))
            },
            (HEALTH, "GET" | "HEAD") => Answer {
                head_only: request.method == "HEAD",
                ..Answer::said("200 OK", "ok")
            },
            (HEALTH, _) => Answer {
                headers: "Allow: GET, HEAD\r\n",
                ..Answer::said("405 Method Not Allowed", "want GET /healthz")
            },
            (path, _) => {
                let said = format!(
                    "nothing at {path}, want POST /prioritize, POST /filter or GET /healthz"
                );
                Answer::said("404 Not Found", &said)
            }
        }
    }
}

/// An answer in JSON, or why there is none.
fn of(said: Result<String, Answer>) -> Answer {
    match said {
        Ok(body) => Answer {
            content_type: "application/json",
            body,
            ..Answer::refused("200 OK")
        },
        Err(refused) => refused,
    }
}

/// A request that makes no sense.
fn senseless(said: &str) -> Answer {
    Answer::said("400 Bad Request", said)
}

/// What was sent, or why it is refused.
fn parsed<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Answer> {
    serde_json::from_slice(body)
        .map_err(|error| senseless(&format!("the body is no ExtenderArgs in JSON: {error}")))
}

/// The answer's text.
fn written<T: Serialize>(answer: &T) -> Result<String, Answer> {
    serde_json::to_string(answer)
        .map_err(|error| Answer::said("500 Internal Server Error", &error.to_string()))
}

/// What is said of a request without nodes.
const NEITHER: &str = "ExtenderArgs has neither NodeNames nor Nodes";

impl Extender {
    /// For what is heard of the nodes.
    pub fn new(board: Arc<Board>) -> Self {
        Self {
            board,
            now: Instant::now,
        }
    }

    fn prioritize(&self, body: &[u8]) -> Result<String, Answer> {
        let arguments: Arguments<'_> = parsed(body)?;
        let names = match (arguments.names, arguments.nodes) {
            (Some(names), _) => names.all()?,
            (None, Some(NodeList { items: Some(items) })) => {
                let items = items.all()?.into_iter();
                items.map(|node| node.metadata.name).collect()
            }
            (None, Some(NodeList { items: None })) => Vec::new(),
            (None, None) => return Err(senseless(NEITHER)),
        };
        let best = self.board.best(&names, (self.now)());
        let scored = names.iter().zip(best).map(|(host, best)| HostPriority {
            host,
            score: score(best),
        });
        let list: Vec<HostPriority<'_>> = scored.collect();
        written(&list)
    }
}

/// `10 x (1 - loss)` of the best GPU, rounded.
fn score(loss: Option<u64>) -> u64 {
    loss.map_or(NO_OPINION, |loss| {
        let kept = WHOLE.saturating_sub(loss);
        kept.saturating_mul(MAX_SCORE).saturating_add(WHOLE / 2) / WHOLE
    })
}

#[cfg(test)]
mod tests;
