// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga kube`: what LoGA measures, for Kubernetes ([docs/kube.md](../../../../../docs/kube.md)).
//!
//! | file | contents |
//! |---|---|
//! | [`annotation`] | free parts of GPUs, as annotations of nodes |
//! | [`board`] | what was heard of all nodes |
//! | [`pod`] | pods and claims of a node |
//! | [`weights`] | weights of the pods of a node |
//! | [`extender`] | scores of nodes for kube-scheduler |
//! | [`hysteresis`] | which GPUs get no new pods, since their programs wait |
//! | [`lost`] | and which, since they are lost |
//! | [`rule`] | DeviceTaintRule objects |
//! | [`writer`] | makes those in the API server what they should be |
//! | [`api`] | the API server, over HTTPS |
//! | `double` | an API server for tests |
//!
//! [`cluster`](crate::cluster) reads the nodes.

pub mod annotation;
pub mod api;
pub mod board;
#[cfg(test)]
mod double;
pub mod extender;
pub mod hysteresis;
pub mod lost;
pub mod pod;
pub mod rule;
pub mod weights;
pub mod writer;

use super::Failure;
use crate::cli;
use crate::cluster::nodes::{nodes, Node};
use crate::cluster::reading::Reader;
use crate::http::tls;
use crate::http::Server;
use crate::names::harmless;
use annotation::Annotations;
use api::Api;
use board::{Board, Free};
use extender::{Extender, PRIORITIZE};
use hysteresis::Gates;
use lost::Lost;
use rule::{Naming, Wanted, Why};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use writer::Writer;

/// Time between two looks at the file of nodes.
const LOOK: Duration = Duration::from_secs(60);

/// What should be in the API server.
#[derive(Clone, Debug, Default)]
struct Should {
    rules: BTreeSet<Wanted>,
    free: BTreeMap<String, Free>,
}

/// Serves until interrupted.
///
/// # Errors
///
/// Wrong arguments, or an address at which it cannot listen.
pub fn run(arguments: &cli::Kube, out: &mut impl Write) -> Result<(), Failure> {
    let known = checked(&arguments.nodes).map_err(Failure::Text)?;
    let board = Arc::new(Board::default());
    let should = Arc::new(Mutex::new(Should::default()));
    let every = Duration::from_secs(arguments.every);
    let writer = match arguments.taints || arguments.annotate {
        true => Some(writing(arguments, every, &should)?),
        false => None,
    };
    if let Some(address) = &arguments.extender {
        let failed = |error| Failure::Text(format!("cannot listen on {address}: {error}"));
        let mut server = Server::bind(address).map_err(failed)?;
        if let Some((certificate, key)) = arguments.certificate.as_ref().zip(arguments.key.as_ref())
        {
            server = server.over_tls(tls::config(certificate, key).map_err(Failure::Text)?);
        }
        server
            .start(&Arc::new(Extender::new(board.clone())))
            .map_err(failed)?;
        writeln!(out, "{}{PRIORITIZE}", server.url())?;
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
        let now_should = follower.round();
        *should.lock().unwrap_or_else(PoisonError::into_inner) = now_should;
        if writer.as_ref().is_some_and(JoinHandle::is_finished) {
            return Err(Failure::Text(
                "the thread that writes to the API server ended".to_string(),
            ));
        }
        thread::sleep(every.saturating_sub(start.elapsed()));
    }
}

/// Starts the thread that writes to the API server.
fn writing(
    arguments: &cli::Kube,
    every: Duration,
    should: &Arc<Mutex<Should>>,
) -> Result<JoinHandle<()>, Failure> {
    let api = Api::of(&arguments.server).map_err(Failure::Text)?;
    let naming = Naming {
        version: api.version.clone(),
        driver: arguments.driver.clone(),
        prefix: arguments.device_prefix.clone(),
    };
    let mut writer = arguments.taints.then(|| Writer::new(api.clone(), naming));
    let mut annotations = arguments.annotate.then(Annotations::default);
    let (should, start) = (should.clone(), Instant::now());
    let mut told = None;
    let work = move || loop {
        let now_should = should
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(writer) = &mut writer {
            for line in writer.round(&now_should.rules, Instant::now()) {
                eprintln!("loga: {}", harmless(&line));
            }
        }
        if let Some(annotations) = &mut annotations {
            let session = api.session();
            let done = session
                .and_then(|session| annotations.round(&session, &now_should.free, start.elapsed()));
            // The same error once.
            if let Some(error) = done
                .as_ref()
                .err()
                .filter(|error| told.as_ref() != Some(*error))
            {
                eprintln!("loga: API server: {}", harmless(error));
            }
            told = done.err();
        }
        thread::sleep(every);
    };
    let named = thread::Builder::new().name("api".into());
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
    lost: Lost,
    start: Instant,
}

impl Follower {
    fn new(nodes: Vec<Node>, board: Arc<Board>) -> Self {
        Self {
            reader: Reader::new(nodes),
            board,
            gates: Gates::default(),
            lost: Lost::default(),
            start: Instant::now(),
        }
    }

    /// Reads all nodes once. Returns what should be in the API server.
    fn round(&mut self) -> Should {
        let answers = self.reader.round();
        let names = self.reader.nodes().iter().map(|node| node.name.as_str());
        for line in self.board.take(names.zip(answers).collect()) {
            eprintln!("loga: {}", harmless(&line));
        }
        let (now, since) = (Instant::now(), self.start.elapsed());
        let closed = self.gates.step(&self.board.waited(now), since);
        let lost = self.lost.step(&self.board.lost(now), since);
        let rules = closed.into_iter().map(|key| (Why::Waiting, key));
        Should {
            rules: rules
                .chain(lost.into_iter().map(|key| (Why::Lost, key)))
                .collect(),
            free: self.board.free(now),
        }
    }

    /// Takes on the nodes of the file, if they are others now. A file that is wrong changes nothing.
    fn refresh(&mut self, argument: &str) {
        match checked(argument) {
            Ok(nodes) if nodes != self.reader.nodes() => {
                eprintln!("loga: {} nodes now", nodes.len());
                self.reader = self.reader.of_others(nodes);
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
