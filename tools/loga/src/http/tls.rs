// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A connection over TLS. The time that is left for a request or an answer holds for the
//! handshake and for each record, however few bytes come at a time.

use super::connection::{left, Connection};
use crate::names::Name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a server shows of itself: the chain of certificates of one PEM file and the key of another.
///
/// # Errors
///
/// Which file is wrong, in one line.
pub fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let told = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", Name::from(path));
    let wrong = |error| told(certificate, &error);
    let chain = CertificateDer::pem_file_iter(certificate).map_err(wrong)?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(wrong)?;
    if chain.is_empty() {
        return Err(told(certificate, &"no certificate in PEM form"));
    }
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| told(key, &error))?;
    let provider = Arc::new(rustls_graviola::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            let builder = builder.with_no_client_auth();
            builder.with_single_cert(chain, key_der)
        });
    config.map(Arc::new).map_err(|error| told(key, &error))
}

/// A connection of a client.
pub(super) struct Secured {
    tls: ServerConnection,
    socket: TcpStream,
    /// When what is done now has to be done.
    end: Instant,
}

impl Secured {
    pub(super) fn new(config: &Arc<ServerConfig>, socket: TcpStream) -> io::Result<Self> {
        let tls = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        Ok(Self {
            tls,
            socket,
            end: Instant::now(),
        })
    }

    fn send(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.socket.set_write_timeout(Some(left(self.end)?))?;
            self.tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl Connection for Secured {
    fn wait_at_most(&mut self, time: Duration) -> io::Result<()> {
        self.end = Instant::now() + time;
        Ok(())
    }
}

impl Read for Secured {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.send()?;
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            self.socket.set_read_timeout(Some(left(self.end)?))?;
            if self.tls.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            if let Err(error) = self.tls.process_new_packets() {
                // The client is told why, if it still listens.
                let _ = self.send();
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
    }
}

impl Write for Secured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.tls.writer().write(bytes)?;
        self.send()?;
        Ok(count)
    }

    /// The last thing on a connection.
    fn flush(&mut self) -> io::Result<()> {
        self.tls.send_close_notify();
        self.send()
    }
}

#[cfg(test)]
mod tests;
