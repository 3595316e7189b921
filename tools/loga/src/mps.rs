// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Which clients are servers of NVIDIA's Multi-Process Service (MPS).
//!
//! Programs under MPS submit through channels of one server, and their kernels share its context. To
//! the kernel module the server is the client: its GPU time, weight and throttling are those of all
//! programs behind it together, and they cannot be told apart.
//!
//! The server is known by its executable where that may be read: by root, or of processes of the
//! caller. Else by its command, which any program may give itself; nothing depends on it but what is
//! told.
//! Source: NVIDIA, Multi-Process Service, "Architecture": the control daemon starts one
//! `nvidia-cuda-mps-server` for each user, and clients connect to it.

use crate::control::Snapshot;
use crate::names;
use crate::processes::Processes;
use loga::uapi;
use std::ffi::OsStr;

/// The name of the executable.
const SERVER: &str = "nvidia-cuda-mps-server";
/// What fits of it into a command.
const COMMAND: &str = "nvidia-cuda-mps";

impl Processes {
    /// Process numbers of the servers on a GPU, of those that the caller sees.
    pub fn servers(&self, snapshot: &Snapshot) -> Vec<i32> {
        let clients = snapshot.clients.iter();
        let mut pids: Vec<i32> = clients
            .filter(|client| self.is_server(client))
            .map(|client| client.pid)
            .collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    fn is_server(&self, client: &uapi::Client) -> bool {
        if names::text(&client.comm) != COMMAND {
            return false;
        }
        match self.executable(client.pid) {
            Ok(path) => path.file_name() == Some(OsStr::new(SERVER)),
            // It may not be read, or the process is in another namespace: its command has to do.
            Err(_) => true,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A double of `/proc` in which these processes run these executables.
    pub(crate) fn proc(processes: &[(i32, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (pid, exe) in processes {
            let of = folder.path().join(pid.to_string());
            fs::create_dir(&of).expect("a folder");
            symlink(exe, of.join("exe")).expect("a link");
        }
        folder
    }

    /// Lets a client have this command.
    pub(crate) fn command(client: &mut uapi::Client, text: &str) {
        client.comm = crate::processes::cut(&text.into());
    }

    #[test]
    fn server_is_known_by_its_executable_else_by_its_command() {
        let folder = proc(&[
            (1, "/usr/bin/nvidia-cuda-mps-server"),
            (2, "/opt/nvidia-cuda-mps-server (deleted)"),
            (3, "/home/eve/nvidia-cuda-mps-server-not"),
            (4, "/usr/bin/nvidia-cuda-mps-control"),
            (5, "/usr/bin/nvidia-cuda-mps-server"),
        ]);
        let client = |pid: i32, text: &str| {
            let mut client = uapi::Client {
                pid,
                ..Default::default()
            };
            command(&mut client, text);
            client
        };
        let snapshot = Snapshot {
            clients: vec![
                client(6, SERVER),
                client(2, SERVER),
                client(1, SERVER),
                client(1, SERVER),
                client(3, SERVER),
                client(4, SERVER),
                client(5, "train"),
                client(7, "nvidia-cuda-mp"),
            ],
            ..Default::default()
        };
        let found = Processes::below(folder.path()).servers(&snapshot);
        // What process 6 runs cannot be read.
        assert_eq!(found, [1, 2, 6]);
    }
}
