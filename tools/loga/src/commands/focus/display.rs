// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Which process the window with the focus belongs to, under X11.

use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::{Duration, Instant};
use x11rb::connection::{Connection, RequestConnection};
use x11rb::errors::{ConnectionError, ReplyError};
use x11rb::protocol::res::{self, ClientIdMask, ClientIdSpec, ConnectionExt as _};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, Window,
};
use x11rb::protocol::Event;
use x11rb::rust_connection::RustConnection;

/// A user that looks for a window passes others: the focus counts when it has stayed for so long.
const SETTLES: Duration = Duration::from_millis(100);

/// A connection to an X server.
pub(super) struct Display {
    connection: RustConnection,
    root: Window,
    /// `_NET_ACTIVE_WINDOW`, which the window manager sets on the root window.
    active: Atom,
}

impl Display {
    /// Connects to a server, by default to that of `DISPLAY`.
    ///
    /// # Errors
    ///
    /// A line that says why that failed.
    pub(super) fn open(name: Option<&str>) -> Result<Self, String> {
        let shown = name.map_or_else(
            || std::env::var("DISPLAY").unwrap_or("(DISPLAY is not set)".to_string()),
            ToString::to_string,
        );
        let (connection, screen) = RustConnection::connect(name).map_err(|error| {
            format!("no connection to the X server {shown}: {error}; want --display and XAUTHORITY of the session")
        })?;
        let root = connection
            .setup()
            .roots
            .get(screen)
            .map(|screen| screen.root);
        let root = root.ok_or_else(|| format!("the X server {shown} has no screen {screen}"))?;
        Self::prepare(connection, root).map_err(|error| format!("the X server {shown}: {error}"))
    }

    fn prepare(connection: RustConnection, root: Window) -> Result<Self, String> {
        let said = |error: ReplyError| error.to_string();
        if connection
            .extension_information(res::X11_EXTENSION_NAME)
            .map_err(|error| error.to_string())?
            .is_none()
        {
            return Err(
                "it does not tell which process a window belongs to (X-Resource)".to_string(),
            );
        }
        let version = connection.res_query_version(1, 2).map_err(ReplyError::from);
        version.and_then(|cookie| cookie.reply()).map_err(said)?;
        let active = connection.intern_atom(false, b"_NET_ACTIVE_WINDOW");
        let active = active
            .map_err(ReplyError::from)
            .and_then(|cookie| cookie.reply());
        let active = active.map_err(said)?.atom;
        let wanted = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        let changed = connection.change_window_attributes(root, &wanted);
        let checked = changed
            .map_err(ReplyError::from)
            .and_then(|cookie| cookie.check());
        checked.map_err(said)?;
        Ok(Self {
            connection,
            root,
            active,
        })
    }

    /// The process of the window with the focus, as the server knows it; nothing if no window has
    /// the focus, or the program runs elsewhere.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub(super) fn focused_process(&self) -> Result<Option<i32>, ConnectionError> {
        let Some(window) = self.focused_window()? else {
            return Ok(None);
        };
        let asked = ClientIdSpec {
            client: window,
            mask: ClientIdMask::LOCAL_CLIENT_PID,
        };
        let reply = self.connection.res_query_client_ids(&[asked])?.reply();
        let Some(reply) = known(reply)? else {
            return Ok(None);
        };
        let of_process = |id: &&res::ClientIdValue| id.spec.mask == ClientIdMask::LOCAL_CLIENT_PID;
        let pid = reply
            .ids
            .iter()
            .find(of_process)
            .and_then(|id| id.value.first());
        Ok(pid
            .and_then(|pid| i32::try_from(*pid).ok())
            .filter(|pid| *pid > 0))
    }

    fn focused_window(&self) -> Result<Option<Window>, ConnectionError> {
        let asked =
            self.connection
                .get_property(false, self.root, self.active, AtomEnum::WINDOW, 0, 1);
        let reply = known(asked?.reply())?;
        let window = reply.and_then(|reply| reply.value32()?.next());
        Ok(window.filter(|window| *window != x11rb::NONE))
    }

    /// Waits until the focus has changed and stays, at most for `most`. True if it has changed.
    ///
    /// # Errors
    ///
    /// The connection is lost.
    pub(super) fn wait(&self, most: Duration) -> Result<bool, ConnectionError> {
        let end = Instant::now() + most;
        while !self.has_changed()? {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.connection.flush()?;
            // Longer than the longest that `poll` takes is not asked for.
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let mut wanted = [PollFd::new(
                self.connection.stream().as_fd(),
                PollFlags::POLLIN,
            )];
            // A signal, as an event, leads to another look.
            let _ = poll(&mut wanted, timeout);
        }
        // TIMEOUT: a user may go on switching windows.
        let end = Instant::now() + 10 * SETTLES;
        loop {
            sleep(SETTLES);
            if !self.has_changed()? || Instant::now() > end {
                return Ok(true);
            }
        }
    }

    /// Takes the events that are there. True if one says that another window has the focus.
    fn has_changed(&self) -> Result<bool, ConnectionError> {
        let mut changed = false;
        while let Some(event) = self.connection.poll_for_event()? {
            changed |= matches!(&event, Event::PropertyNotify(event) if event.atom == self.active);
        }
        Ok(changed)
    }
}

/// An answer; nothing if the window has gone meanwhile.
fn known<T>(reply: Result<T, ReplyError>) -> Result<Option<T>, ConnectionError> {
    match reply {
        Ok(reply) => Ok(Some(reply)),
        Err(ReplyError::X11Error(_)) => Ok(None),
        Err(ReplyError::ConnectionError(error)) => Err(error),
    }
}
