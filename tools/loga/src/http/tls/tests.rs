// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A server over TLS, with clients that are right, wrong and slow. The certificates are those of
//! the API server that is a double.

use super::*;
use crate::http::tests::{connect, until_end, ENDLESS, HANGS};
use crate::http::{Address, Answer, Patience, Request, Server, Site, Times};
use std::net::SocketAddr;
use std::sync::Arc;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::Agent;

const AUTHORITY: &[u8] = include_bytes!("../../commands/kube/double/test-ca.crt");
const OTHER: &[u8] = include_bytes!("../../commands/kube/double/other-ca.crt");
const CERTIFICATE: &[u8] = include_bytes!("../../commands/kube/double/server.crt");
const KEY: &[u8] = include_bytes!("../../commands/kube/double/server.key");

struct Echo;

impl Site for Echo {
    const BODY_MAX: usize = 1 << 20;

    fn answer(&self, request: &Request) -> Answer {
        Answer::said("200 OK", &String::from_utf8_lossy(&request.body))
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("crt"), CERTIFICATE).expect("written");
    std::fs::write(folder.path().join("key"), KEY).expect("written");
    folder
}

fn start(patience: Patience) -> SocketAddr {
    let folder = folder();
    let config = config(&folder.path().join("crt"), &folder.path().join("key"));
    let any = Address::Tcp(([127, 0, 0, 1], 0).into());
    let server = Server::bind(&any).expect("a port");
    let server = server.over_tls(config.expect("a pair")).with(patience);
    server.start(&Arc::new(Echo)).expect("threads");
    assert!(
        server.url().starts_with("https://127.0.0.1:"),
        "{}",
        server.url()
    );
    match server.address {
        Address::Tcp(address) => address,
        other => panic!("{other}"),
    }
}

/// A client that trusts this authority.
fn client(authority: &[u8]) -> Agent {
    let roots = [Certificate::from_pem(authority).expect("a certificate")];
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls_graviola::default_provider()))
        .build();
    Agent::config_builder()
        .proxy(None)
        .tls_config(tls)
        .build()
        .into()
}

fn post(authority: &[u8], address: SocketAddr, body: &str) -> Result<String, String> {
    let request = client(authority).post(format!("https://{address}/"));
    let mut response = request.send(body).map_err(|error| error.to_string())?;
    let body = response.body_mut().read_to_string();
    body.map_err(|error| error.to_string())
}

#[test]
fn request_and_answer_of_many_records_go_over_tls() {
    let address = start(ENDLESS);
    let body = "0123456789".repeat(50_000);
    let answer = post(AUTHORITY, address, &body).expect("an answer");
    assert_eq!(answer.trim_end(), body);
    let said = post(OTHER, address, "x").expect_err("another authority");
    assert!(
        said.contains("certificate") || said.contains("UnknownIssuer"),
        "{said}"
    );
    // The server goes on.
    assert_eq!(post(AUTHORITY, address, "x").as_deref(), Ok("x\n"));
}

#[test]
fn client_without_tls_gets_no_answer() {
    let address = start(ENDLESS);
    let mut stream = connect(address);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    let answer = until_end(&stream);
    assert!(!answer.contains("HTTP"), "{answer:?}");
}

#[test]
fn handshake_in_drips_ends_within_its_time() {
    let never = ENDLESS.calm;
    let address = start(Patience {
        calm: Times {
            request: Duration::from_millis(250),
            ..never
        },
        ..ENDLESS
    });
    let begin = Instant::now();
    let mut stream = connect(address);
    // The head of a record of 16384 bytes, and then a byte at a time: fewer than a record has.
    stream.write_all(&[22, 3, 1, 64, 0]).expect("sent");
    while stream.write_all(&[0]).is_ok() {
        assert!(begin.elapsed() < HANGS, "{:?}", begin.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begin.elapsed() >= Duration::from_millis(250));
}

#[test]
fn files_that_are_wrong_are_named() {
    let folder = folder();
    let (certificate, key) = (folder.path().join("crt"), folder.path().join("key"));
    let said = |certificate, key| config(certificate, key).expect_err("wrong");
    let none = folder.path().join("none");
    assert!(said(&none, &key).contains("none"));
    assert!(said(&key, &key).contains("no certificate"));
    assert!(said(&certificate, &certificate).contains("crt"));
    assert!(config(&certificate, &key).is_ok());
}
