// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Bodies of requests, and sites that panic.

use super::*;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// TIMEOUT: ends a test that hangs; nothing takes as long, however busy the machine is.
pub(crate) const HANGS: Duration = Duration::from_secs(300);

const NEVER: Times = Times {
    request: HANGS,
    answer: HANGS,
};

/// No client is too slow for it.
pub(super) const ENDLESS: Patience = Patience {
    calm: NEVER,
    hurried: NEVER,
};

/// Of clients that send nothing.
const SHORT: Duration = Duration::from_millis(250);

/// Answers with the length of the body, or panics.
struct Counting;

impl Site for Counting {
    const BODY_MAX: usize = 100_000;

    fn answer(&self, request: &Request) -> Answer {
        assert_ne!(request.path, "/panic", "asked for");
        let sum: usize = request.body.iter().map(|byte| usize::from(*byte)).sum();
        Answer::said("200 OK", &format!("{} {sum}", request.body.len()))
    }
}

fn bound(patience: Patience) -> (Server, SocketAddr) {
    let any = Address::Tcp(([127, 0, 0, 1], 0).into());
    let server = Server::bind(&any).expect("a port").with(patience);
    match server.address {
        Address::Tcp(address) => (server, address),
        ref other => panic!("{other}"),
    }
}

fn start() -> SocketAddr {
    let (server, address) = bound(ENDLESS);
    server.start(&Arc::new(Counting)).expect("threads");
    address
}

/// A connection on which a client that hangs ends in time.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(HANGS)).expect("a time");
    stream
}

/// What comes until the server hangs up. It resets a connection on which it has not read all.
pub(crate) fn until_end(mut stream: &TcpStream) -> String {
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    // A server that refuses the head may have hung up.
    let _ = stream.write_all(request);
    until_end(&stream)
}

/// A connection on which these parts come, one with each reading, and what is answered on it.
struct Parts<'a> {
    come: VecDeque<&'a [u8]>,
    answer: &'a mut Vec<u8>,
}

impl Connection for Parts<'_> {
    fn wait_at_most(&mut self, _: Duration) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Parts<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let part = self.come.pop_front().unwrap_or_default();
        let (now, rest) = part.split_at(part.len().min(buffer.len()));
        buffer[..now.len()].copy_from_slice(now);
        if !rest.is_empty() {
            self.come.push_front(rest);
        }
        Ok(now.len())
    }
}

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The answer to a request that comes in these parts.
fn in_parts(parts: &[&[u8]]) -> String {
    let mut text = Vec::new();
    let connection = Parts {
        come: parts.iter().copied().collect(),
        answer: &mut text,
    };
    answer(connection, &Counting, &AtomicUsize::new(0), &ENDLESS).expect("an answer");
    String::from_utf8(text).expect("text")
}

#[test]
fn body_is_read_in_any_parts_up_to_its_length() {
    let head = b"POST / HTTP/1.1\r\nContent-Length: 70000\r\n\r\n";
    let body = vec![1; 70_000];
    let (first, second) = body.split_at(33_333);
    for parts in [
        vec![&head[..], first, second],
        vec![&[&head[..], &body].concat(), b"and more"],
        vec![&head[..20], &[&head[20..], first].concat(), second],
    ] {
        let answer = in_parts(&parts);
        assert!(answer.ends_with("\r\n\r\n70000 70000\n"), "{answer}");
    }
    let address = start();
    let answer = ask(address, &[&head[..], &body].concat());
    assert!(answer.ends_with("\r\n\r\n70000 70000\n"), "{answer}");
    let answer = ask(address, b"POST / HTTP/1.1\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\n0 0\n"), "{answer}");
}

#[test]
fn length_that_is_wrong_is_refused_with_a_sentence() {
    let address = start();
    for (header, status, said) in [
        (
            "Content-Length: 100001",
            "413",
            "100001 bytes, want at most 100000",
        ),
        (
            "Content-Length: -1",
            "400",
            "Content-Length: -1, want one number",
        ),
        (
            "Content-Length: 9999999999999999999999",
            "400",
            "want one number",
        ),
        (
            "Content-Length: 1\r\nContent-Length: 2",
            "400",
            "1, 2, want one",
        ),
        ("Transfer-Encoding: chunked", "411", "send a Content-Length"),
    ] {
        let request = format!("POST / HTTP/1.1\r\n{header}\r\n\r\n");
        let answer = ask(address, request.as_bytes());
        let begin = format!("HTTP/1.1 {status} ");
        assert!(answer.starts_with(&begin), "{header}: {answer}");
        assert!(answer.contains(said), "{header}: {answer}");
    }
}

#[test]
fn site_that_panics_is_answered_for_and_goes_on() {
    let address = start();
    // More often than there are threads.
    for _ in 0..2 * WORKERS {
        let answer = ask(address, b"GET /panic HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    }
    let answer = ask(address, b"GET / HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn body_that_does_not_come_keeps_a_thread_for_seconds_only() {
    let short = Times {
        request: SHORT,
        ..NEVER
    };
    let (server, address) = bound(Patience {
        calm: short,
        ..ENDLESS
    });
    server.start(&Arc::new(Counting)).expect("threads");
    let begin = Instant::now();
    let answer = ask(address, b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1234");
    assert_eq!(answer, "");
    assert!(begin.elapsed() >= SHORT, "{:?}", begin.elapsed());
    // Scrapers give up after ten seconds by default.
    for times in [PATIENCE.calm, PATIENCE.hurried] {
        assert!(times.request + times.answer < Duration::from_secs(10));
    }
}

#[test]
fn idle_connections_of_others_keep_no_scraper_from_its_answer() {
    let hurried = Times {
        request: SHORT,
        ..NEVER
    };
    let (server, address) = bound(Patience { hurried, ..ENDLESS });
    // All but one thread get a connection that stays for ever; one has the others, which come first.
    let idle: Vec<TcpStream> = (0..WORKERS + 4).map(|_| connect(address)).collect();
    let mut scraper = connect(address);
    scraper.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    server.start(&Arc::new(Counting)).expect("threads");
    let mut answer = until_end(&scraper);
    let begin = Instant::now();
    // A thread that gets no processor for as long hangs up: a scraper asks again.
    while answer.is_empty() && begin.elapsed() < HANGS {
        answer = ask(address, b"GET / HTTP/1.1\r\n\r\n");
    }
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(idle);
}
