// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The database of jobs, which `sacct` shows: slurmdbd, and MariaDB in an empty folder of its
//! own, with no users and nothing but a port of this machine.

use crate::cluster::{daemon, until, Cluster, LIMIT};
use crate::conf::{mode, Auth, Setting};
use std::net::TcpStream;

/// The ports of slurmdbd and of MariaDB.
fn ports(setting: &Setting<'_>) -> [u16; 2] {
    [setting.ports[1], setting.ports[2]]
}

/// What the controller has to know of it.
pub(crate) fn of_slurm_conf(setting: &Setting<'_>) -> String {
    let [port, _] = ports(setting);
    format!(
        "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n\
         AccountingStoragePort={port}\nAccountingStoreFlags=job_comment\n"
    )
}

/// Writes its configuration.
///
/// # Errors
///
/// A file that cannot be written.
pub(crate) fn write(setting: &Setting<'_>) -> Result<(), String> {
    let (at, user) = (setting.folder.display(), setting.user);
    let [port, stored] = ports(setting);
    let auth = match setting.auth {
        Auth::None => "AuthType=auth/none".to_string(),
        Auth::Munge => format!("AuthType=auth/munge\nAuthInfo=socket={at}/munge/socket"),
    };
    let text = format!(
        "DbdHost=localhost\nDbdAddr=127.0.0.1\nDbdPort={port}\nSlurmUser={user}\n{auth}\n\
         StorageType=accounting_storage/mysql\nStorageHost=127.0.0.1\nStoragePort={stored}\n\
         StorageUser=root\nLogFile={at}/log/slurmdbd\nPidFile={at}/slurmdbd.pid\n"
    );
    setting.file("slurmdbd.conf", &text)?;
    mode(&setting.folder.join("slurmdbd.conf"), 0o600)?;
    let data = setting.folder.join("data");
    std::fs::create_dir(data).map_err(|error| format!("data: {error}"))
}

/// Starts both, and waits for them.
///
/// # Errors
///
/// The one that does not start.
pub(crate) fn start(setting: &Setting<'_>) -> Result<(), String> {
    let (folder, at) = (setting.folder, setting.folder.display());
    let [port, stored] = ports(setting);
    let options = [
        "--no-defaults".to_string(),
        format!("--user={}", setting.user),
        format!("--datadir={at}/data"),
        format!("--socket={at}/database"),
        format!("--pid-file={at}/mariadbd.pid"),
        "--bind-address=127.0.0.1".to_string(),
        format!("--port={stored}"),
        // Else it would need tables of users.
        "--skip-grant-tables".to_string(),
        "--innodb-buffer-pool-size=32M".to_string(),
        "--innodb-log-file-size=4M".to_string(),
        "--innodb-flush-log-at-trx-commit=0".to_string(),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    daemon(folder, "mariadbd", &options)?;
    answers("mariadbd", stored)?;
    daemon(folder, "slurmdbd", &["-D"])?;
    answers("slurmdbd", port)
}

fn answers(program: &str, port: u16) -> Result<(), String> {
    let answers = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    until(LIMIT, answers).map_err(|()| format!("{program} does not start"))
}

impl Cluster {
    /// What `sacct` shows of a job in these columns, without its steps.
    ///
    /// # Errors
    ///
    /// What it says if it fails.
    pub(crate) fn stored(&self, id: &str, columns: &str) -> Result<String, String> {
        let text = self.ask("sacct", &["-X", "-n", "-P", "-j", id, "-o", columns])?;
        Ok(text.trim().to_string())
    }
}
