// SPDX-License-Identifier: GPL-2.0

//! `[double]` An API server that knows DeviceTaintRule objects, and others by their paths, over HTTPS. It can refuse, and it can
//! fall silent.
//!
//! `double/` has a certificate for 127.0.0.1 with its key, the authority that signed it, and another
//! authority; `openssl` made them, and they expire in 2126.

use super::api::Api;
use super::rule::{OWNER, OWNER_LABEL};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The token that it takes.
pub(super) const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl";
/// TIMEOUT: ends a test that hangs; nothing takes as long, however busy the machine is.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);
/// Rules on a page of its lists, at most.
const PAGE: usize = 3;
const PATH: &str = "/apis/resource.k8s.io/v1/devicetaintrules";

/// What it knows and heard.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Rules by name.
    pub(super) rules: BTreeMap<String, Value>,
    /// What is at other paths; a further page of a list has its query too.
    pub(super) others: BTreeMap<String, Value>,
    /// Verbs, as RBAC names them, of requests that were allowed, with the name of the object.
    pub(super) heard: Vec<(&'static str, String)>,
    /// Status of all answers, with a sentence, instead of what they should be.
    pub(super) refuses: Option<(u16, &'static str)>,
    /// Whether it answers nothing at all, not even who it is.
    pub(super) silent: bool,
}

/// A server.
#[derive(Debug)]
pub(super) struct FakeApi {
    address: SocketAddr,
    credentials: TempDir,
    pub(super) state: Arc<Mutex<State>>,
}

fn pem(name: &str) -> &'static [u8] {
    match name {
        "test-ca" => include_bytes!("double/test-ca.crt"),
        "other-ca" => include_bytes!("double/other-ca.crt"),
        "server" => include_bytes!("double/server.crt"),
        other => panic!("{other}"),
    }
}

impl FakeApi {
    pub(super) fn start() -> Self {
        let provider = Arc::new(rustls_graviola::default_provider());
        let chain = vec![CertificateDer::from_pem_slice(pem("server")).expect("a certificate")];
        let key =
            PrivateKeyDer::from_pem_slice(include_bytes!("double/server.key")).expect("a key");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a pair");
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(config.clone()).expect("a connection");
                serve(
                    StreamOwned::new(connection, stream.expect("a caller")),
                    &shared,
                );
            }
        });
        let fake = Self {
            address,
            credentials: tempfile::tempdir().expect("a folder"),
            state,
        };
        fake.token(TOKEN);
        fake.authority("test-ca");
        fake
    }

    /// Writes the token that callers read.
    pub(super) fn token(&self, token: &str) {
        fs::write(self.credentials.path().join("token"), token).expect("written");
    }

    /// Writes the authority that callers trust.
    pub(super) fn authority(&self, name: &str) {
        fs::write(self.credentials.path().join("ca.crt"), pem(name)).expect("written");
    }

    pub(super) fn api(&self) -> Api {
        Api {
            url: format!("https://{}", self.address),
            version: "v1".to_string(),
            credentials: self.credentials.path().to_path_buf(),
            patience: PATIENCE,
        }
    }

    /// Puts a rule there, with or without our label.
    pub(super) fn put(&self, name: &str, is_ours: bool) {
        let owner = if is_ours { OWNER } else { "someone-else" };
        let rule = json!({"metadata": {"name": name, "labels": {OWNER_LABEL: owner}}});
        self.state
            .lock()
            .expect("whole")
            .rules
            .insert(name.to_string(), rule);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.state
            .lock()
            .expect("whole")
            .rules
            .keys()
            .cloned()
            .collect()
    }

    /// Verbs and names since the last time.
    pub(super) fn heard(&self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.state.lock().expect("whole").heard)
    }
}

/// Reads one request and answers it; callers that hang up are none of its concern.
fn serve(mut stream: StreamOwned<ServerConnection, TcpStream>, state: &Mutex<State>) {
    if state.lock().expect("whole").silent {
        thread::sleep(PATIENCE);
        return;
    }
    let mut reader = BufReader::new(&mut stream);
    let (mut head, mut line) = (Vec::new(), String::new());
    while reader.read_line(&mut line).is_ok_and(|length| length > 2) {
        head.push(std::mem::take(&mut line).trim_end().to_string());
    }
    let value = |name: &str| {
        let lines = head.iter().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.to_string())
    };
    let length = value("content-length").and_then(|text| text.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    if head.is_empty() || reader.read_exact(&mut body).is_err() {
        return;
    }
    let (status, answer) = state.lock().expect("whole").answer(
        &head[0],
        value("authorization").as_deref(),
        value("content-type").as_deref(),
        &body,
    );
    let body = answer.to_string();
    let answer = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes());
    stream.conn.send_close_notify();
    let _ = stream.flush();
}

/// As RFC 7396 has it.
fn merge(object: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *object = patch;
        return;
    };
    for (name, value) in patch {
        match value {
            Value::Null => drop(object.as_object_mut().map(|all| all.remove(&name))),
            value => merge(&mut object[name], value),
        }
    }
}

/// What an API server says when it refuses.
fn failure(status: u16, message: &str) -> (u16, Value) {
    let said = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "code": status});
    (status, said)
}

impl State {
    fn answer(
        &mut self,
        request: &str,
        authorization: Option<&str>,
        kind: Option<&str>,
        body: &[u8],
    ) -> (u16, Value) {
        if authorization != Some(&format!("Bearer {TOKEN}")) {
            return failure(401, "Unauthorized");
        }
        if let Some((status, message)) = self.refuses {
            return failure(status, message);
        }
        let mut words = request.split(' ');
        let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let name = path
            .strip_prefix(PATH)
            .map(|rest| rest.trim_start_matches('/').to_string());
        match (method, name) {
            ("GET", Some(name)) if name.is_empty() => {
                self.heard.push(("list", query.to_string()));
                self.list(query)
            }
            ("POST", Some(name)) if name.is_empty() && kind == Some("application/json") => {
                let rule: Value = serde_json::from_slice(body).expect("JSON");
                let name = rule["metadata"]["name"]
                    .as_str()
                    .expect("a name")
                    .to_string();
                self.heard.push(("create", name.clone()));
                if self.rules.contains_key(&name) {
                    return failure(409, &format!("devicetaintrules \"{name}\" already exists"));
                }
                self.rules.insert(name, rule.clone());
                (201, rule)
            }
            ("DELETE", Some(name)) if !name.is_empty() => {
                self.heard.push(("delete", name.clone()));
                match self.rules.remove(&name) {
                    Some(_) => (200, json!({"kind": "Status", "status": "Success"})),
                    None => failure(404, &format!("devicetaintrules \"{name}\" not found")),
                }
            }
            ("PATCH", None) if kind == Some("application/merge-patch+json") => {
                self.heard.push(("patch", path.to_string()));
                let Some(object) = self.others.get_mut(path) else {
                    return failure(404, "not found");
                };
                merge(object, serde_json::from_slice(body).expect("JSON"));
                (200, object.clone())
            }
            ("GET", None) => {
                self.heard.push(("get", target.to_string()));
                let page = query.split('&').find(|one| one.starts_with("continue="));
                let key = page.map_or(path.to_string(), |page| format!("{path}?{page}"));
                match self.others.get(&key) {
                    Some(value) => (200, value.clone()),
                    None => failure(404, "not found"),
                }
            }
            _ => failure(404, "the server could not find the requested resource"),
        }
    }

    /// A page of rules with the label that is asked for.
    fn list(&self, query: &str) -> (u16, Value) {
        let fields: BTreeMap<&str, &str> = query
            .split('&')
            .filter_map(|field| field.split_once('='))
            .collect();
        let selector = fields["labelSelector"]
            .replace("%2F", "/")
            .replace("%3D", "=");
        let (label, value) = selector.split_once('=').expect("a selector");
        let from = fields
            .get("continue")
            .map_or(0, |text| text.parse().expect("a number"));
        let matching = self
            .rules
            .values()
            .filter(|rule| rule["metadata"]["labels"][label] == value);
        let matching: Vec<&Value> = matching.collect();
        let page: Vec<&&Value> = matching.iter().skip(from).take(PAGE).collect();
        let mut list = json!({"kind": "DeviceTaintRuleList", "apiVersion": "resource.k8s.io/v1",
            "metadata": {"resourceVersion": "77"}, "items": page});
        if from + PAGE < matching.len() {
            list["metadata"]["continue"] = json!((from + PAGE).to_string());
        }
        (200, list)
    }
}
