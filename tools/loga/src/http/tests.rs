// SPDX-License-Identifier: GPL-2.0

//! [tool] Bodies of requests, and sites that panic.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

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

fn start() -> SocketAddr {
    let any = Address::Tcp(([127, 0, 0, 1], 0).into());
    let server = Server::bind(&any).expect("a port");
    server.start(&Arc::new(Counting)).expect("threads");
    match server.address {
        Address::Tcp(address) => address,
        other => panic!("{other}"),
    }
}

fn ask(address: SocketAddr, parts: &[&[u8]]) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    for part in parts {
        // A server that refuses the head may have hung up.
        let _ = stream.write_all(part);
        thread::sleep(Duration::from_millis(10));
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn body_is_read_in_any_parts_up_to_its_length() {
    let address = start();
    let head = b"POST / HTTP/1.1\r\nContent-Length: 70000\r\n\r\n";
    let body = vec![1; 70_000];
    let (first, second) = body.split_at(33_333);
    for parts in [
        vec![&head[..], first, second],
        vec![&[&head[..], &body].concat(), b"and more"],
        vec![&head[..20], &[&head[20..], first].concat(), second],
    ] {
        let answer = ask(address, &parts);
        assert!(answer.ends_with("\r\n\r\n70000 70000\n"), "{answer}");
    }
    let answer = ask(address, &[b"POST / HTTP/1.1\r\n\r\n"]);
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
        let answer = ask(address, &[request.as_bytes()]);
        let begin = format!("HTTP/1.1 {status} ");
        assert!(
            answer.starts_with(&begin) && answer.contains(said),
            "{header}: {answer}"
        );
    }
}

#[test]
fn site_that_panics_is_answered_for_and_goes_on() {
    let address = start();
    // More often than there are threads.
    for _ in 0..2 * WORKERS {
        let answer = ask(address, &[b"GET /panic HTTP/1.1\r\n\r\n"]);
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    }
    let answer = ask(address, &[b"GET / HTTP/1.1\r\n\r\n"]);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn body_that_does_not_come_keeps_a_thread_for_seconds_only() {
    let address = start();
    let begin = Instant::now();
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream
        .write_all(b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n1234")
        .expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() && begin.elapsed() >= CALM.request);
    assert!(begin.elapsed() < 5 * CALM.request, "{:?}", begin.elapsed());
}

#[test]
fn idle_connections_of_others_keep_no_scraper_from_its_answer() {
    let address = start();
    let connect = |_| TcpStream::connect(address).expect("a connection");
    // A queue of eight for each thread. Of two seconds each, it would take sixteen.
    let idle: Vec<TcpStream> = (0..8 * WORKERS).map(connect).collect();
    let begin = Instant::now();
    let answer = ask(address, &[b"GET / HTTP/1.1\r\n\r\n"]);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(begin.elapsed() < 5 * CALM.request, "{:?}", begin.elapsed());
    drop(idle);
}
