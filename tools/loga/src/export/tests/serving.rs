// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What clients of the HTTP server see, good and bad ones.

use super::parse::parse;
use super::{kernel, sampler};
use crate::control::Control;
use crate::export::sampler::Latest;
use crate::http::tests::{connect, until_end, HANGS};
use crate::http::{Address, Server};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

fn latest() -> Latest {
    let mut sampler = sampler(None);
    let fake = kernel();
    sampler.tick(&|| Ok(Control::over(&fake)));
    sampler.latest()
}

fn bound() -> (Server, SocketAddr) {
    let any = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind(&any).expect("a port");
    match server.address {
        Address::Tcp(address) => (server, address),
        ref other => panic!("{other}"),
    }
}

fn start() -> SocketAddr {
    let (server, address) = bound();
    let server = server.patient();
    server.start(&Arc::new(latest())).expect("threads");
    address
}

/// Head and body of the answer to a request.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_string(), body.to_string())
}

const OPEN: &str = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";

#[test]
fn scrape_gets_the_format_that_it_accepts() {
    let address = start();
    let (head, body) = ask(
        address,
        &format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{OPEN}\r\n"),
    );
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let wanted = "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(head.contains(wanted), "{head}");
    assert!(
        head.contains(&format!("Content-Length: {}\r\n", body.len())),
        "{head}"
    );
    assert_eq!(parse(&body).value("loga_up", &[]), 1.0);
    let (head, body) = ask(address, "GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{head}"
    );
    assert!(body.contains("loga_up 1\n"), "{body}");
    assert!(!body.contains("# EOF"), "{body}");
    let (head, body) = ask(address, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(body.is_empty(), "{head}");
}

#[test]
fn other_requests_are_refused_with_their_status() {
    let address = start();
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(8192));
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(65));
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("GET /metrics/../etc HTTP/1.1\r\n\r\n", "404"),
        ("POST / HTTP/1.1\r\n\r\n", "404"),
        (
            "POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\nx",
            "405",
        ),
        ("DELETE /metrics HTTP/1.1\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
        ("GET /metrics HTTP/9.9\r\n\r\n", "400"),
        (long.get(..8192).expect("long"), "431"),
        (many.as_str(), "431"),
    ] {
        let (head, _) = ask(address, request);
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {head}"
        );
    }
    let (head, _) = ask(address, "PUT /metrics HTTP/1.1\r\n\r\n");
    assert!(head.contains("\r\nAllow: GET, HEAD"), "{head}");
}

#[test]
fn slow_clients_stop_others_for_seconds_at_most() {
    let (server, address) = bound();
    // More than there are threads; each sends a byte now and then.
    let slow: Vec<TcpStream> = (0..12).map(|_| connect(address)).collect();
    for mut stream in &slow {
        stream.write_all(b"GET /metr").expect("sent");
    }
    let request = "GET /metrics HTTP/1.1\r\n\r\n";
    let mut behind = connect(address);
    behind.write_all(request.as_bytes()).expect("sent");
    server.start(&Arc::new(latest())).expect("threads");
    let dripping = slow
        .iter()
        .map(|stream| stream.try_clone().expect("a file"));
    let mut dripping: Vec<TcpStream> = dripping.collect();
    let drip = thread::spawn(move || {
        let begin = Instant::now();
        // Until the server has hung up on each.
        while !dripping.is_empty() && begin.elapsed() < HANGS {
            dripping.retain_mut(|stream| stream.write_all(b"i").is_ok());
            thread::sleep(Duration::from_millis(50));
        }
        dripping.len()
    });
    let mut answer = until_end(&behind);
    let begin = Instant::now();
    // A thread that gets no processor for as long hangs up on others too, who ask again.
    while answer.is_empty() && begin.elapsed() < HANGS {
        let mut again = connect(address);
        again.write_all(request.as_bytes()).expect("sent");
        answer = until_end(&again);
    }
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    for stream in &slow {
        assert_eq!(until_end(stream), "");
    }
    assert_eq!(drip.join().expect("ends"), 0);
}

#[test]
fn scrapes_at_a_time_are_all_answered() {
    let address = start();
    // One that has asked and does not read stops none of them.
    let mut idle = connect(address);
    idle.write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
        .expect("sent");
    let scrape = move || ask(address, &format!("GET /metrics HTTP/1.1\r\n{OPEN}\r\n")).1;
    let scrapes: Vec<_> = (0..16).map(|_| thread::spawn(scrape)).collect();
    for scrape in scrapes {
        let body = scrape.join().expect("an answer");
        assert_eq!(parse(&body).value("loga_up", &[]), 1.0);
    }
}

#[test]
fn socket_in_the_file_system_is_for_its_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("metrics.sock");
    let address: Address = format!("unix:{}", path.display())
        .parse()
        .expect("an address");
    // That of a run before is in the way.
    drop(Server::bind(&address).expect("a socket"));
    let server = Server::bind(&address).expect("a socket").patient();
    server.start(&Arc::new(latest())).expect("threads");
    assert_eq!(fs::metadata(&path).expect("a socket").mode() & 0o777, 0o660);
    let mut stream = UnixStream::connect(&path).expect("a connection");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("\nloga_up 1\n"), "{answer}");
    // A file that is no socket stays.
    let file = folder.path().join("file");
    fs::write(&file, "x").expect("a file");
    assert!(Server::bind(&Address::Unix(file.clone())).is_err());
    assert!(file.exists());
}

#[test]
fn address_is_a_port_or_a_path() {
    for wrong in ["", "9466", "localhost:9466", "unix:metrics", "127.0.0.1"] {
        assert!(wrong.parse::<Address>().is_err(), "{wrong}");
    }
    assert_eq!(
        "[::1]:9466".parse::<Address>().expect("right").to_string(),
        "http://[::1]:9466"
    );
}
