// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Reads the exporters of all nodes at the same time. One that does not answer delays the
//! others by no more than two seconds, and is not asked again before it has given up.

use super::metrics::MAX_TEXT;
use super::nodes::{Node, Source};
use super::opinion::{opinion, Opinion, Times};
use crate::names::Name;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use ureq::Agent;

/// Of every round of the agents.
const PATIENCE: Patience = Patience {
    answer: Duration::from_millis(1_500),
    round: Duration::from_secs(2),
};
/// Stack of a thread that reads one node.
const STACK: usize = 512 << 10;

/// How long nodes are waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// TIMEOUT: an exporter answers from memory; one that takes longer is as good as dead.
    pub(crate) answer: Duration,
    /// TIMEOUT: longest wait for all nodes together.
    pub(crate) round: Duration,
}

/// What was read from a node.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The opinion, or why there is none.
    pub said: Result<Opinion, String>,
    /// When it was read.
    pub read: Instant,
}

/// Reads nodes.
#[derive(Debug)]
pub struct Reader {
    nodes: Vec<Node>,
    /// Nodes that are being read.
    busy: Vec<bool>,
    agent: Agent,
    sender: Sender<(usize, Answer)>,
    receiver: Receiver<(usize, Answer)>,
    patience: Patience,
}

impl Reader {
    /// For these nodes.
    pub fn new(nodes: Vec<Node>) -> Self {
        Self::within(nodes, PATIENCE)
    }

    /// For others, as patient as this one.
    #[must_use]
    pub fn of_others(&self, nodes: Vec<Node>) -> Self {
        Self::within(nodes, self.patience)
    }

    /// For these nodes, which are waited for so long.
    pub(crate) fn within(nodes: Vec<Node>, patience: Patience) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(patience.answer))
            .max_redirects(0)
            .proxy(None)
            .build();
        let (sender, receiver) = mpsc::channel();
        Self {
            busy: vec![false; nodes.len()],
            nodes,
            agent: Agent::new_with_config(config),
            sender,
            receiver,
            patience,
        }
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Reads every node once. Nothing for a node that did not answer in time; its answer may come
    /// with the next round.
    pub fn round(&mut self) -> Vec<Option<Answer>> {
        let deadline = Instant::now() + self.patience.round;
        let mut answers = vec![None; self.nodes.len()];
        for (at, (node, busy)) in self.nodes.iter().zip(&mut self.busy).enumerate() {
            if !*busy {
                *busy = read_beside(at, node.source.clone(), &self.agent, &self.sender);
            }
        }
        while self.busy.contains(&true) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((at, answer)) = self.receiver.recv_timeout(left) else {
                break;
            };
            if let (Some(busy), Some(slot)) = (self.busy.get_mut(at), answers.get_mut(at)) {
                *busy = false;
                *slot = Some(answer);
            }
        }
        answers
    }
}

/// Begins to read a node in a thread of its own. Whether that began.
fn read_beside(at: usize, source: Source, agent: &Agent, sender: &Sender<(usize, Answer)>) -> bool {
    let (agent, sender) = (agent.clone(), sender.clone());
    let work = move || {
        let text = match &source {
            Source::Http(url) => over_http(&agent, url).map(|text| (text, None)),
            Source::File(path) => of_file(path),
        };
        let said = text.and_then(|(text, written)| {
            let times = Times {
                now_s: since_1970(SystemTime::now()),
                written_s: written.and_then(since_1970),
            };
            opinion(&text, &times)
        });
        let read = Instant::now();
        // The receiver is gone when the agent ends.
        let _ = sender.send((at, Answer { said, read }));
    };
    thread::Builder::new().stack_size(STACK).spawn(work).is_ok()
}

fn over_http(agent: &Agent, url: &str) -> Result<Vec<u8>, String> {
    let told = |error: ureq::Error| format!("{url}: {error}");
    let mut response = agent.get(url).call().map_err(told)?;
    // CAST: four megabytes.
    let body = response.body_mut().with_config().limit(MAX_TEXT as u64);
    body.read_to_vec().map_err(told)
}

fn since_1970(time: SystemTime) -> Option<f64> {
    let since = time.duration_since(UNIX_EPOCH);
    since.ok().map(|since| since.as_secs_f64())
}

/// The text of a file, and when it was written.
fn of_file(path: &Path) -> Result<(Vec<u8>, Option<SystemTime>), String> {
    let told = |error| format!("{}: {error}", Name::from(path));
    let mut text = Vec::new();
    // CAST: four megabytes.
    let mut file = File::open(path).map_err(told)?.take(MAX_TEXT as u64 + 1);
    file.read_to_end(&mut text).map_err(told)?;
    let data = file.get_ref().metadata().map_err(told)?;
    Ok((text, data.modified().ok()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    /// TIMEOUT: ends a test that hangs; nothing takes as long, however busy the machine is.
    pub(crate) const ENDLESS: Patience = Patience {
        answer: Duration::from_secs(300),
        round: Duration::from_secs(300),
    };
    /// For exporters that never answer.
    const SHORT: Duration = Duration::from_millis(200);

    const TEXT: &str = "loga_up 1\nloga_snapshot_age_seconds 0\n\
        loga_gpu_place_score{gpu=\"0\",policy=\"wait\"} 1\n";

    /// A server that gives the same answer to each caller, and its address.
    fn server(answer: Vec<u8>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a caller");
                let mut request = [0; 1024];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(&answer);
            }
        });
        format!("http://{address}/metrics")
    }

    fn ok(body: &str) -> Vec<u8> {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    fn node(name: &str, source: Source) -> Node {
        Node {
            name: name.to_string(),
            source,
        }
    }

    #[test]
    fn exporter_is_read_over_http_and_from_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("n2");
        std::fs::write(&path, TEXT).expect("written");
        let nodes = vec![
            node("n1", Source::Http(server(ok(TEXT)))),
            node("n2", Source::File(path)),
        ];
        let answers = Reader::within(nodes, ENDLESS).round();
        for answer in answers {
            let said = answer.expect("answers").said.expect("an opinion");
            assert_eq!(said.gpus[0].ppm, 500_000);
        }
    }

    #[test]
    fn file_whose_writer_died_says_nothing_after_half_a_minute() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("n1");
        std::fs::write(&path, TEXT).expect("written");
        let age = |seconds| {
            let file = File::options().append(true).open(&path).expect("there");
            let then = SystemTime::now() - Duration::from_secs(seconds);
            file.set_modified(then).expect("set");
            let source = Source::File(path.clone());
            let mut reader = Reader::within(vec![node("n1", source)], ENDLESS);
            let answer = reader.round().remove(0).expect("answers");
            answer.said.map(|opinion| opinion.age_s)
        };
        assert!(age(20).is_ok_and(|age| age >= 20));
        assert!(age(40).expect_err("old").contains("s old"));
    }

    #[test]
    fn answer_that_is_no_text_of_an_exporter_is_refused() {
        let moved = b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n";
        let long = "x".repeat(MAX_TEXT + 1);
        for answer in [
            b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".to_vec(),
            moved.to_vec(),
            b"\x00\xff garbage".to_vec(),
            ok("loga_up 1\nloga_snapshot_age_seconds 0\n%%%\n"),
            ok(&long),
        ] {
            let shown = String::from_utf8_lossy(&answer[..answer.len().min(40)]).into_owned();
            let nodes = vec![node("n1", Source::Http(server(answer)))];
            let mut reader = Reader::within(nodes, ENDLESS);
            let answer = reader.round().remove(0).expect("answers");
            assert!(answer.said.is_err(), "{shown}");
        }
    }

    #[test]
    fn dead_exporter_delays_the_others_by_no_more_than_the_bound() {
        // Accepts, and says nothing.
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", silent.local_addr().expect("an address"));
        let nodes = vec![
            node("n1", Source::Http(url)),
            node("n2", Source::Http(server(ok(TEXT)))),
            node("n3", Source::Http("http://127.0.0.1:1/".to_string())),
        ];
        let is_fine = |answer: &Answer| answer.said.is_ok();
        let mut reader = Reader::within(
            nodes,
            Patience {
                round: SHORT,
                ..ENDLESS
            },
        );
        let (mut fine, begin) = ([None; 3], Instant::now());
        // The others may get no processor for as long as a round takes.
        while fine[1].is_none() || fine[2].is_none() {
            assert!(begin.elapsed() < ENDLESS.round, "{fine:?}");
            for (known, answer) in fine.iter_mut().zip(reader.round()) {
                *known = answer.as_ref().map(is_fine).or(*known);
            }
        }
        assert_eq!(fine, [None, Some(true), Some(false)]);
    }

    #[test]
    fn exporter_that_says_nothing_is_given_up() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", silent.local_addr().expect("an address"));
        let patience = Patience {
            answer: SHORT,
            ..ENDLESS
        };
        let begin = Instant::now();
        let mut reader = Reader::within(vec![node("n1", Source::Http(url))], patience);
        let answer = reader.round().remove(0).expect("given up");
        assert!(answer.said.expect_err("silent").contains("timeout"));
        assert!(begin.elapsed() >= SHORT, "{:?}", begin.elapsed());
        // It is given up before its round ends.
        assert!(PATIENCE.answer < PATIENCE.round);
    }
}
