// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The API server: six requests over HTTPS, as the service account.

use super::pod::{Claim, Pod, Pods};
use super::rule::{List, Listed, Rule, OWNER, OWNER_LABEL};
use crate::cli;
use crate::names::Name;
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::http::Response;
use ureq::tls::{parse_pem, Certificate, PemItem, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// TIMEOUT: of one request as a whole; an API server that is in order answers within a second.
pub const ANSWER: Duration = Duration::from_secs(3);
/// Longest answer, in bytes.
const MAX_ANSWER: u64 = 4 << 20;
/// Longest token or certificates, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Rules of a page of the list.
const PAGE: usize = 200;
/// Most pages.
const MAX_PAGES: usize = 32;
/// Longest part of what the server says that is repeated, in letters.
const MAX_SAID: usize = 200;

/// Where the API server is, and who asks.
#[derive(Clone, Debug)]
pub struct Api {
    /// `https://HOST[:PORT]`.
    pub url: String,
    /// Version of the API group.
    pub version: String,
    /// The folder with `token` and `ca.crt`.
    pub credentials: PathBuf,
    /// How long a request may take.
    pub patience: Duration,
}

impl Api {
    /// The server that the arguments name.
    ///
    /// # Errors
    ///
    /// Why they name none, in one line.
    pub fn of(server: &cli::Server) -> Result<Self, String> {
        Ok(Self {
            url: url(server.api.as_deref(), |name| std::env::var(name).ok())?,
            version: server.api_version.clone(),
            credentials: server.credentials.clone(),
            patience: ANSWER,
        })
    }
}

/// The server of an argument, else that of the environment of a pod.
///
/// # Errors
///
/// Why it is none, in one line.
pub fn url(
    argument: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    if let Some(url) = argument {
        let url = url.trim_end_matches('/');
        let host = url.strip_prefix("https://").unwrap_or_default();
        if host.is_empty() || host.contains(['/', '?', '#', '@', ' ']) {
            return Err(format!(
                "--api {url}: want https://HOST or https://HOST:PORT"
            ));
        }
        return Ok(url.to_string());
    }
    let (host, port) = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT");
    let (Some(host), Some(port)) = (variable(host), variable(port)) else {
        return Err(format!(
            "{host} and {port} are not set, so this is no pod: want --api https://HOST:PORT"
        ));
    };
    match host.contains(':') {
        true => Ok(format!("https://[{host}]:{port}")),
        false => Ok(format!("https://{host}:{port}")),
    }
}

/// Something that was answered: a status of the API server's, and its words.
#[derive(Debug, Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Status {
    message: String,
}

/// Requests with one token. Tokens change within an hour, so it lives for a few requests only.
#[derive(Debug)]
pub struct Session {
    agent: Agent,
    url: String,
    claims: String,
    rules: String,
    authorization: String,
}

impl Api {
    /// Reads token and certificates.
    ///
    /// # Errors
    ///
    /// Which file is absent or wrong.
    pub fn session(&self) -> Result<Session, String> {
        let path = self.credentials.join("token");
        let token = String::from_utf8(read(&path)?).unwrap_or_default();
        let token = token.trim();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("{}: want one token", Name::from(&path)));
        }
        let path = self.credentials.join("ca.crt");
        let roots = certificates(&read(&path)?);
        let roots = roots.map_err(|error| format!("{}: {error}", Name::from(&path)))?;
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&roots))
            .unversioned_rustls_crypto_provider(Arc::new(rustls_graviola::default_provider()))
            .build();
        let config = Agent::config_builder()
            .timeout_global(Some(self.patience))
            .https_only(true)
            .max_redirects(0)
            .proxy(None)
            .http_status_as_error(false)
            .user_agent("loga-kube")
            .tls_config(tls)
            .build();
        Ok(Session {
            agent: Agent::new_with_config(config),
            url: self.url.clone(),
            claims: format!(
                "{}/apis/resource.k8s.io/{}/namespaces",
                self.url, self.version
            ),
            rules: format!(
                "{}/apis/resource.k8s.io/{}/devicetaintrules",
                self.url, self.version
            ),
            authorization: format!("Bearer {token}"),
        })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let told = |error| format!("{}: {error}", Name::from(path));
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(told)?.take(MAX_FILE);
    file.read_to_end(&mut bytes).map_err(told)?;
    Ok(bytes)
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
            found.push(certificate);
        }
    }
    match found.is_empty() {
        true => Err("no certificate in PEM form".to_string()),
        false => Ok(found),
    }
}

impl Session {
    /// All rules that are ours.
    ///
    /// # Errors
    ///
    /// What the server or the network said.
    pub fn list(&self) -> Result<Vec<Listed>, String> {
        let mut rules = Vec::new();
        let mut next = String::new();
        for _ in 0..MAX_PAGES {
            let mut request = self
                .agent
                .get(&self.rules)
                .header("Authorization", &self.authorization)
                .header("Accept", "application/json")
                .query("labelSelector", format!("{OWNER_LABEL}={OWNER}"))
                .query("limit", PAGE.to_string());
            if !next.is_empty() {
                request = request.query("continue", &next);
            }
            let (status, body) = answered(request.call())?;
            if status != 200 {
                return Err(refused("list", status, &body));
            }
            let list: List = serde_json::from_slice(&body)
                .map_err(|error| format!("list: no DeviceTaintRuleList: {error}"))?;
            rules.extend(list.items.into_iter().filter(Listed::is_ours));
            next = list.metadata.next;
            if next.is_empty() {
                return Ok(rules);
            }
        }
        Err(format!("list: more than {MAX_PAGES} pages"))
    }

    /// The pods of a node.
    ///
    /// # Errors
    ///
    /// What the server or the network said.
    pub fn pods(&self, node: &str) -> Result<Vec<Pod>, String> {
        let mut pods = Vec::new();
        let mut next = String::new();
        for _ in 0..MAX_PAGES {
            let mut request = self
                .agent
                .get(format!("{}/api/v1/pods", self.url))
                .header("Authorization", &self.authorization)
                .header("Accept", "application/json")
                .query("fieldSelector", format!("spec.nodeName={node}"))
                .query("limit", PAGE.to_string());
            if !next.is_empty() {
                request = request.query("continue", &next);
            }
            let (status, body) = answered(request.call())?;
            if status != 200 {
                return Err(refused("list pods", status, &body));
            }
            let list: Pods = serde_json::from_slice(&body)
                .map_err(|error| format!("list pods: no PodList: {error}"))?;
            pods.extend(list.items);
            next = list.metadata.next;
            if next.is_empty() {
                return Ok(pods);
            }
        }
        Err(format!("list pods: more than {MAX_PAGES} pages"))
    }

    /// A resource claim, if there is one of this name. Both names are those of objects.
    ///
    /// # Errors
    ///
    /// What the server or the network said.
    pub fn claim(&self, namespace: &str, name: &str) -> Result<Option<Claim>, String> {
        let request = self
            .agent
            .get(format!("{}/{namespace}/resourceclaims/{name}", self.claims))
            .header("Authorization", &self.authorization)
            .header("Accept", "application/json");
        let what = format!("get {name}");
        match answered(request.call())? {
            (200, body) => serde_json::from_slice(&body)
                .map(Some)
                .map_err(|error| format!("{what}: no ResourceClaim: {error}")),
            (404, _) => Ok(None),
            (status, body) => Err(refused(&what, status, &body)),
        }
    }

    /// Makes a rule.
    ///
    /// # Errors
    ///
    /// What the server or the network said.
    pub fn make(&self, rule: &Rule) -> Result<(), String> {
        let what = format!("create {}", rule.metadata.name);
        let body = serde_json::to_vec(rule).map_err(|error| format!("{what}: {error}"))?;
        let request = self
            .agent
            .post(&self.rules)
            .header("Authorization", &self.authorization)
            .header("Accept", "application/json")
            .content_type("application/json");
        match answered(request.send(&body))? {
            (200..=202, _) => Ok(()),
            (status, body) => Err(refused(&what, status, &body)),
        }
    }

    /// Gives a node an annotation, or takes it away. A node that is not there has none.
    ///
    /// # Errors
    ///
    /// What the server or the network said.
    pub fn annotate(&self, node: &str, name: &str, value: Option<&str>) -> Result<(), String> {
        let patch = serde_json::json!({"metadata": {"annotations": {name: value}}});
        let request = self
            .agent
            .patch(format!("{}/api/v1/nodes/{node}", self.url))
            .header("Authorization", &self.authorization)
            .header("Accept", "application/json")
            .content_type("application/merge-patch+json");
        match answered(request.send(patch.to_string().as_bytes()))? {
            (200 | 404, _) => Ok(()),
            (status, body) => Err(refused(&format!("annotate {node}"), status, &body)),
        }
    }

    /// Removes a rule. One that is gone already is removed.
    ///
    /// # Errors
    ///
    /// What the server or the network said.
    pub fn remove(&self, name: &str) -> Result<(), String> {
        let request = self
            .agent
            .delete(format!("{}/{name}", self.rules))
            .header("Authorization", &self.authorization)
            .header("Accept", "application/json");
        match answered(request.call())? {
            (200..=202 | 404, _) => Ok(()),
            (status, body) => Err(refused(&format!("delete {name}"), status, &body)),
        }
    }
}

/// Status and body of an answer.
fn answered(response: Result<Response<Body>, ureq::Error>) -> Result<(u16, Vec<u8>), String> {
    let mut response = response.map_err(|error| error.to_string())?;
    let status = response.status().as_u16();
    let body = response.body_mut().with_config().limit(MAX_ANSWER);
    let body = body.read_to_vec().map_err(|error| error.to_string())?;
    Ok((status, body))
}

/// What the server refused, in one line.
fn refused(what: &str, status: u16, body: &[u8]) -> String {
    let said: Status = serde_json::from_slice(body).unwrap_or_default();
    let letters = said.message.chars().filter(|letter| !letter.is_control());
    let said: String = letters.take(MAX_SAID).collect();
    format!("{what}: status {status} {said}")
        .trim_end()
        .to_string()
}

#[cfg(test)]
mod tests;
