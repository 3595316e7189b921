// SPDX-License-Identifier: GPL-2.0

//! `[tool]` An HTTP server. A fixed number of threads answers one request per connection each, within
//! fixed times: a slow client keeps one of them for seconds, and none for ever; for less while all
//! threads are busy, so that many idle connections do not keep a scraper waiting. A request that
//! makes a site panic gets status 500, and the thread answers the next one.

mod connection;
pub mod tls;

use crate::names::Name;
use connection::{left, Connection};
use rustls::ServerConfig;
use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::panic;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Connections at a time; others wait in the system's queue.
const WORKERS: usize = 8;
/// Stack of a thread.
const STACK: usize = 512 << 10;
/// What clients are given.
const PATIENCE: Patience = Patience {
    calm: Times {
        request: Duration::from_secs(2),
        answer: Duration::from_secs(5),
    },
    hurried: Times {
        request: Duration::from_millis(250),
        answer: Duration::from_millis(500),
    },
};
/// TIMEOUT: until connections are accepted again after that failed, for want of files or memory.
const REST: Duration = Duration::from_millis(100);
/// Longest request without its body.
const HEAD_MAX: usize = 8 << 10;
/// Most headers of a request.
const HEADERS_MAX: usize = 64;
/// Status for a head that is longer, or has more headers.
const TOO_LARGE_HEAD: &str = "431 Request Header Fields Too Large";
/// Mode of a socket in the file system: for its user and group.
const SOCKET_MODE: u32 = 0o660;

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// TIMEOUT: for a request to be there as a whole; clients send it at once.
    request: Duration,
    /// TIMEOUT: for the answer to be taken as a whole; scrapers give up after ten seconds by default.
    answer: Duration,
}

/// The times of a server.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// While a thread is free.
    calm: Times,
    /// Those of the last thread that was free: others may wait.
    hurried: Times,
}

/// A thread that is busy, among all of them.
struct Busy<'a>(&'a AtomicUsize);

impl<'a> Busy<'a> {
    /// Also the times that its client has.
    fn new(count: &'a AtomicUsize, patience: &Patience) -> (Self, Times) {
        let before = count.fetch_add(1, Ordering::Relaxed);
        let times = if before + 1 < WORKERS {
            patience.calm
        } else {
            patience.hurried
        };
        (Self(count), times)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A port.
    Tcp(SocketAddr),
    /// A socket in the file system, for a reverse proxy.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) if path.starts_with('/') => Ok(Address::Unix(path.into())),
            Some(_) => Err("want an absolute path after unix:".to_string()),
            None => text.parse().map(Address::Tcp).map_err(|_| {
                "want an address and a port such as 127.0.0.1:9466 or [::1]:9466, or unix:PATH"
                    .to_string()
            }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "http://{address}"),
            Address::Unix(path) => write!(f, "unix:{}", Name::from(path)),
        }
    }
}

/// What a server answers.
pub trait Site: Send + Sync + 'static {
    /// Longest body of a request, in bytes.
    const BODY_MAX: usize;

    /// The answer to a request.
    fn answer(&self, request: &Request) -> Answer;
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: Arc<Listener>,
    /// Where.
    pub address: Address,
    tls: Option<Arc<ServerConfig>>,
    patience: Patience,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn bind(address: &Address) -> io::Result<Self> {
        let (listener, address) = match address {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                let address = Address::Tcp(listener.local_addr()?);
                (Listener::Tcp(listener), address)
            }
            Address::Unix(path) => {
                remove_old(path)?;
                let listener = UnixListener::bind(path)?;
                fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
                (Listener::Unix(listener), address.clone())
            }
        };
        Ok(Self {
            listener: Arc::new(listener),
            address,
            tls: None,
            patience: PATIENCE,
        })
    }

    /// The same over TLS, if it is a port.
    #[must_use]
    pub fn over_tls(self, config: Arc<ServerConfig>) -> Self {
        Self {
            tls: Some(config),
            ..self
        }
    }

    /// The same with other times.
    #[cfg(test)]
    fn with(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// The same for clients that get the processor rarely: what they do in time does not depend on it.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn patient(self) -> Self {
        self.with(tests::ENDLESS)
    }

    /// Where, for a client.
    pub fn url(&self) -> String {
        match (&self.address, &self.tls) {
            (Address::Tcp(address), Some(_)) => format!("https://{address}"),
            (address, _) => address.to_string(),
        }
    }

    /// Answers from now on, in threads of its own.
    ///
    /// # Errors
    ///
    /// Those of the system: a thread could not be made.
    pub fn start<S: Site>(&self, site: &Arc<S>) -> io::Result<()> {
        let count = Arc::new(AtomicUsize::new(0));
        for _ in 0..WORKERS {
            let (listener, site, count) = (self.listener.clone(), site.clone(), count.clone());
            let (tls, patience) = (self.tls.clone(), self.patience);
            let named = thread::Builder::new().name("http".into()).stack_size(STACK);
            named.spawn(move || loop {
                // A client that hangs up concerns that client only.
                let answered = match &*listener {
                    Listener::Tcp(listener) => {
                        listener.accept().map(|(one, _)| {
                            // Without it, the body waits 40 ms for the client to confirm the head.
                            one.set_nodelay(true)?;
                            match &tls {
                                Some(tls) => {
                                    let one = tls::Secured::new(tls, one)?;
                                    answer(one, &*site, &count, &patience)
                                }
                                None => answer(one, &*site, &count, &patience),
                            }
                        })
                    }
                    Listener::Unix(listener) => listener
                        .accept()
                        .map(|(one, _)| answer(one, &*site, &count, &patience)),
                };
                if answered.is_err() {
                    thread::sleep(REST);
                }
            })?;
        }
        Ok(())
    }
}

/// A socket of an earlier run, and nothing else, is removed.
pub(crate) fn remove_old(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.file_type().is_socket() => fs::remove_file(path),
        _ => Ok(()),
    }
}

fn answer<S: Site>(
    mut connection: impl Connection,
    site: &S,
    count: &AtomicUsize,
    patience: &Patience,
) -> io::Result<()> {
    let (_busy, times) = Busy::new(count, patience);
    let end = Instant::now() + times.request;
    let answer = match request(&mut connection, S::BODY_MAX, end)? {
        // The site changes nothing that a panic could leave half done.
        Ok(request) => panic::catch_unwind(AssertUnwindSafe(|| site.answer(&request)))
            .unwrap_or_else(|_| Answer::refused("500 Internal Server Error")),
        Err(refused) => refused,
    };
    let (head, body) = answer.bytes();
    let end = Instant::now() + times.answer;
    for part in [head.as_bytes(), body.as_bytes()] {
        let mut rest = part;
        while !rest.is_empty() {
            connection.wait_at_most(left(end)?)?;
            match connection.write(rest)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => rest = rest.get(count..).unwrap_or_default(),
            }
        }
    }
    connection.flush()
}

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Such as GET.
    pub method: String,
    /// Without what follows a question mark.
    pub path: String,
    /// The formats that the client takes.
    pub accept: String,
    /// What was sent.
    pub body: Vec<u8>,
}

/// The head of a request.
#[derive(Debug)]
struct Head {
    request: Request,
    /// Bytes that it takes.
    length: usize,
    /// Bytes that follow it.
    body: usize,
}

/// Reads a request, or says how it is refused.
fn request(
    connection: &mut impl Connection,
    most: usize,
    end: Instant,
) -> io::Result<Result<Request, Answer>> {
    let mut bytes = vec![0; HEAD_MAX];
    let mut filled = 0;
    let mut head = loop {
        let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) else {
            return Ok(Err(Answer::refused(TOO_LARGE_HEAD)));
        };
        connection.wait_at_most(left(end)?)?;
        filled += match connection.read(room)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => count,
        };
        match parsed(bytes.get(..filled).unwrap_or_default(), most) {
            Some(Ok(head)) => break head,
            Some(Err(refused)) => return Ok(Err(refused)),
            None => continue,
        }
    };
    bytes.truncate(filled);
    let mut body = bytes.split_off(head.length.min(filled));
    // It grows with what comes, not with what is announced.
    let mut part = [0; 16 << 10];
    while body.len() < head.body {
        connection.wait_at_most(left(end)?)?;
        match connection.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => body.extend_from_slice(part.get(..count).unwrap_or_default()),
        }
    }
    body.truncate(head.body);
    head.request.body = body;
    Ok(Ok(head.request))
}

/// Nothing while a part of the head is missing.
fn parsed(bytes: &[u8], most: usize) -> Option<Result<Head, Answer>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let length = match head.parse(bytes) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(length)) => length,
        Err(httparse::Error::TooManyHeaders) => return Some(Err(Answer::refused(TOO_LARGE_HEAD))),
        Err(_) => return Some(Err(Answer::refused("400 Bad Request"))),
    };
    let values = |name: &str| -> Vec<String> {
        let of_name = head
            .headers
            .iter()
            .filter(|header| header.name.eq_ignore_ascii_case(name));
        of_name
            .map(|header| String::from_utf8_lossy(header.value).into_owned())
            .collect()
    };
    let body = match body_length(
        &values("content-length"),
        &values("transfer-encoding"),
        most,
    ) {
        Ok(body) => body,
        Err(refused) => return Some(Err(refused)),
    };
    let target = head.path.unwrap_or_default();
    let request = Request {
        method: head.method.unwrap_or_default().to_string(),
        path: target.split('?').next().unwrap_or_default().to_string(),
        accept: values("accept").join(","),
        body: Vec::new(),
    };
    Some(Ok(Head {
        request,
        length,
        body,
    }))
}

/// How many bytes follow the head.
fn body_length(lengths: &[String], encodings: &[String], most: usize) -> Result<usize, Answer> {
    if !encodings.is_empty() {
        let said = "Transfer-Encoding is not taken here; send a Content-Length";
        return Err(Answer::said("411 Length Required", said));
    }
    let length = match lengths {
        [] => Some(0),
        [one] => one.trim().parse::<usize>().ok(),
        _ => None,
    };
    match length {
        Some(length) if length <= most => Ok(length),
        Some(length) => {
            let said = format!("a body of {length} bytes, want at most {most}");
            Err(Answer::said("413 Content Too Large", &said))
        }
        None => {
            let said = format!(
                "Content-Length: {}, want one number of bytes",
                lengths.join(", ")
            );
            Err(Answer::said("400 Bad Request", &said))
        }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number and words of the status.
    pub status: &'static str,
    /// What the body is.
    pub content_type: &'static str,
    /// Further headers, each with its end of line.
    pub headers: &'static str,
    /// The body.
    pub body: String,
    /// Whether only the length of the body is sent.
    pub head_only: bool,
}

impl Answer {
    /// A status without an explanation.
    pub fn refused(status: &'static str) -> Self {
        Self::said(status, status)
    }

    /// A status and a line for people.
    pub fn said(status: &'static str, line: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            headers: "",
            body: format!("{line}\n"),
            head_only: false,
        }
    }

    fn bytes(self) -> (String, String) {
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
            self.status,
            self.content_type,
            self.body.len(),
            self.headers
        );
        (
            head,
            if self.head_only {
                String::new()
            } else {
                self.body
            },
        )
    }
}

#[cfg(test)]
pub(crate) mod tests;
