// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga kube`: what LoGA measures, for Kubernetes ([docs/kube.md](../../../../../docs/kube.md)).
//!
//! | file | contents |
//! |---|---|
//! | [`board`] | what was heard of all nodes |
//! | [`pod`] | pods and claims of a node |
//! | [`weights`] | weights of the pods of a node |
//! | [`extender`] | scores of nodes for kube-scheduler |
//! | [`hysteresis`] | which GPUs get no new pods |
//! | [`rule`] | DeviceTaintRule objects |
//! | [`writer`] | makes those in the API server what they should be |
//! | [`api`] | the API server, over HTTPS |
//! | `double` | an API server for tests |
//!
//! [`exporters`](crate::exporters) reads the nodes.

pub mod api;
pub mod board;
#[cfg(test)]
mod double;
pub mod extender;
pub mod hysteresis;
pub mod pod;
pub mod rule;
pub mod weights;
pub mod writer;

use super::Failure;
use crate::cli;
use crate::exporters::nodes::{nodes, Node};
use crate::exporters::reading::Reader;
use crate::http::Server;
use crate::names::harmless;
use api::Api;
use board::Board;
use extender::{Extender, PRIORITIZE};
use hysteresis::{Gates, Key};
use rule::Naming;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use writer::Writer;

/// Time between two looks at the file of nodes.
const LOOK: Duration = Duration::from_secs(60);

/// Serves until interrupted.
///
/// # Errors
///
/// Wrong arguments, or an address at which it cannot listen.
pub fn run(arguments: &cli::Kube, out: &mut impl Write) -> Result<(), Failure> {
    let known = checked(&arguments.nodes).map_err(Failure::Text)?;
    let board = Arc::new(Board::default());
    let closed = Arc::new(Mutex::new(BTreeSet::new()));
    let every = Duration::from_secs(arguments.every);
    let writer = match arguments.taints {
        true => Some(writing(arguments, every, &closed)?),
        false => None,
    };
    if let Some(address) = &arguments.extender {
        let failed = |error| Failure::Text(format!("cannot listen on {address}: {error}"));
        let server = Server::bind(address).map_err(failed)?;
        server
            .start(&Arc::new(Extender(board.clone())))
            .map_err(failed)?;
        writeln!(out, "{}{PRIORITIZE}", server.address)?;
        out.flush()?;
    }
    let mut follower = Follower::new(known, board);
    let mut looked = Instant::now();
    loop {
        let start = Instant::now();
        if start.saturating_duration_since(looked) >= LOOK {
            looked = start;
            follower.refresh(&arguments.nodes);
        }
        let now_closed = follower.round();
        *closed.lock().unwrap_or_else(PoisonError::into_inner) = now_closed;
        if writer.as_ref().is_some_and(JoinHandle::is_finished) {
            return Err(Failure::Text(
                "the thread that writes rules ended".to_string(),
            ));
        }
        thread::sleep(every.saturating_sub(start.elapsed()));
    }
}

/// Starts the thread that writes rules.
fn writing(
    arguments: &cli::Kube,
    every: Duration,
    closed: &Arc<Mutex<BTreeSet<Key>>>,
) -> Result<JoinHandle<()>, Failure> {
    let api = Api::of(&arguments.server).map_err(Failure::Text)?;
    let naming = Naming {
        version: api.version.clone(),
        driver: arguments.driver.clone(),
        prefix: arguments.device_prefix.clone(),
    };
    let mut writer = Writer::new(api, naming);
    let closed = closed.clone();
    let work = move || loop {
        let now_closed = closed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        for line in writer.round(&now_closed, Instant::now()) {
            eprintln!("loga: {}", harmless(&line));
        }
        thread::sleep(every);
    };
    let named = thread::Builder::new().name("rules".into());
    named
        .spawn(work)
        .map_err(|error| Failure::Text(format!("no thread: {error}")))
}

/// The nodes of an argument, under names that Kubernetes takes.
fn checked(argument: &str) -> Result<Vec<Node>, String> {
    let nodes = nodes(argument)?;
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
    match nodes.iter().find(|node| !node.name.chars().all(legal)) {
        Some(node) => Err(format!(
            "'{}' is no name of a node in Kubernetes, want lower-case letters, digits, - and .",
            node.name
        )),
        None => Ok(nodes),
    }
}

/// Follows the exporters.
struct Follower {
    reader: Reader,
    board: Arc<Board>,
    gates: Gates,
    start: Instant,
}

impl Follower {
    fn new(nodes: Vec<Node>, board: Arc<Board>) -> Self {
        Self {
            reader: Reader::new(nodes),
            board,
            gates: Gates::default(),
            start: Instant::now(),
        }
    }

    /// Reads all nodes once. Returns the GPUs that get no new pods.
    fn round(&mut self) -> BTreeSet<Key> {
        let answers = self.reader.round();
        let names = self.reader.nodes().iter().map(|node| node.name.as_str());
        for line in self.board.take(names.zip(answers).collect()) {
            eprintln!("loga: {}", harmless(&line));
        }
        let now = Instant::now();
        self.gates
            .step(&self.board.waited(now), self.start.elapsed())
    }

    /// Takes on the nodes of the file, if they are others now. A file that is wrong changes nothing.
    fn refresh(&mut self, argument: &str) {
        match checked(argument) {
            Ok(nodes) if nodes != self.reader.nodes() => {
                eprintln!("loga: {} nodes now", nodes.len());
                self.reader = Reader::new(nodes);
            }
            Ok(_) => {}
            Err(error) => {
                let line = format!("the nodes stay as they are: {error}");
                eprintln!("loga: {}", harmless(&line));
            }
        }
    }
}

#[cfg(test)]
mod tests;
