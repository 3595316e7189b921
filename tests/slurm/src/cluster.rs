// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A controller and its nodes.

use crate::backup;
use crate::conf::{Auth, Behind, Setting, NODES};
use crate::database;
use nix::unistd::{geteuid, User};
use std::cell::RefCell;
use std::fs;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// TIMEOUT: daemons are up, jobs end and nodes are idle in a second or two on a machine with nothing else
/// to do. Nothing is judged by how long it takes: this is what a machine that is ten times slower, with
/// ten other programs on each processor, may need.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Programs that have to be there.
const NEEDED: [&str; 4] = ["slurmctld", "slurmd", "sbatch", "setpriv"];
/// And these, where there is a database of jobs.
const OF_DATABASE: [&str; 3] = ["slurmdbd", "mariadbd", "sacct"];

/// The daemons, which end with this process.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// The program `loga`.
    pub(crate) loga: PathBuf,
    pub(crate) controller: RefCell<Child>,
}

/// What became of a job.
#[derive(Debug)]
pub(crate) struct Job {
    /// `NODE GPUS CUDA_VISIBLE_DEVICES`, as its script saw them.
    pub(crate) saw: String,
    /// Shards that it asked for, after job_submit.
    pub(crate) shards: String,
    /// Nodes that it asked for, after job_submit.
    pub(crate) nodes: String,
    /// How it ended.
    pub(crate) state: String,
    /// What was noted.
    pub(crate) comment: String,
}

impl Cluster {
    /// Starts the daemons and waits for them.
    ///
    /// # Errors
    ///
    /// What is missing, or does not start.
    pub(crate) fn start(
        folder: &Path,
        loga: &Path,
        behind: Behind,
        pair: bool,
    ) -> Result<Self, String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path)
            .chain(["/usr/sbin".into()])
            .collect();
        let absent = |name: &&&str| !folders.iter().any(|folder| folder.join(name).exists());
        let stored = match behind {
            Behind::StandIns => &OF_DATABASE[..],
            Behind::Module => &[],
        };
        if let Some(name) = NEEDED.iter().chain(stored).find(absent) {
            return Err(format!("{name} is missing: run tests/vm/setup --tests"));
        }
        let user = User::from_uid(geteuid()).ok().flatten();
        let user = user.ok_or("this user has no name")?.name;
        let setting = Setting {
            folder,
            loga,
            user: &user,
            ports: ports()?,
            auth: Auth::of_this_slurm(),
            version: version()?,
            behind,
            pair,
        };
        setting.write()?;
        if setting.auth == Auth::Munge {
            munged(folder)?;
        }
        if behind == Behind::StandIns {
            database::start(&setting)?;
        }
        let conf = folder.join("slurm.conf");
        let conf = conf.display().to_string();
        let controller = match pair {
            true => backup::controllers(folder)?,
            false => daemon(folder, "slurmctld", &["-c", "-D", "-f", &conf])?,
        };
        for node in NODES {
            daemon(folder, "slurmd", &["-D", "-N", node, "-f", &conf])?;
        }
        let cluster = Self {
            folder: folder.to_path_buf(),
            loga: loga.to_path_buf(),
            controller: RefCell::new(controller),
        };
        let idle = || {
            let states = cluster.ask("sinfo", &["-h", "-N", "-p", "main", "-o", "%t"]);
            states.is_ok_and(|states| states == "idle\n".repeat(NODES.len()))
        };
        until(LIMIT, idle).map_err(|()| "the nodes do not come up".to_string())?;
        Ok(cluster)
    }

    /// Whether the controller is still the one that was started.
    pub(crate) fn controller_lives(&self) -> bool {
        let pid = i32::try_from(self.controller.borrow().id()).unwrap_or(0);
        let stat = procfs::process::Process::new(pid);
        let stat = stat.and_then(|process| process.stat());
        stat.is_ok_and(|stat| stat.comm == "slurmctld" && stat.state != 'Z')
    }

    /// A command that sees this cluster.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.folder.join("slurm.conf"));
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// What a command of Slurm prints.
    ///
    /// # Errors
    ///
    /// What it says if it fails.
    pub(crate) fn ask(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let output = self.command(program).args(arguments).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(format!("{program}: {}", text(&output.stderr).trim()))
        }
    }

    /// A submission of a job that says what it sees and then runs `then`; with further options.
    fn sbatch(&self, options: &[&str], then: &str) -> Command {
        let mut command = self.command("sbatch");
        let script = format!("echo $SLURMD_NODENAME $SLURM_JOB_GPUS $CUDA_VISIBLE_DEVICES; {then}");
        command
            .args(["--parsable", "-o"])
            .arg(self.folder.join("jobs/%j"));
        command.args(options).args(["--wrap", &script]);
        command
    }

    /// Submits a job: its number.
    ///
    /// # Errors
    ///
    /// Why it was refused.
    pub(crate) fn submit(&self, options: &[&str], then: &str) -> Result<String, String> {
        let output = self.sbatch(options, then).output();
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    }

    /// Submits many at the same time, each with its options.
    ///
    /// # Errors
    ///
    /// Why one was refused.
    pub(crate) fn submit_at_once(
        &self,
        jobs: &[&[&str]],
        then: &str,
    ) -> Result<Vec<String>, String> {
        let begin = |options: &&[&str]| {
            let spawned = self.sbatch(options, then).stdout(Stdio::piped()).spawn();
            spawned.map_err(|error| error.to_string())
        };
        let all: Vec<Child> = jobs.iter().map(begin).collect::<Result<_, _>>()?;
        all.into_iter()
            .map(|child| {
                let output = child
                    .wait_with_output()
                    .map_err(|error| error.to_string())?;
                let id = String::from_utf8_lossy(&output.stdout).trim().to_string();
                output
                    .status
                    .success()
                    .then_some(id)
                    .ok_or("sbatch failed".to_string())
            })
            .collect()
    }

    /// Waits for the end of jobs and of their Epilogs.
    ///
    /// # Errors
    ///
    /// Those that do not end.
    pub(crate) fn wait(&self, ids: &[String]) -> Result<(), String> {
        let ids = ids.join(",");
        let left = || {
            self.ask(
                "squeue",
                &["-h", "-t", "PD,CF,R,CG", "-j", &ids, "-o", "%i %T %r"],
            )
        };
        let ended = || left().is_ok_and(|left| left.is_empty());
        until(LIMIT, ended).map_err(|()| format!("not ended: {:?}", left()))
    }

    /// Ends what a check has begun, so that the next one starts from nothing: jobs and their Epilogs,
    /// nodes that are drained, what job_submit remembers, files that tell the stand-ins what to do.
    ///
    /// # Errors
    ///
    /// What does not end.
    pub(crate) fn settle(&self) -> Result<(), String> {
        let user = geteuid().to_string();
        self.ask("scancel", &["-u", &user])?;
        let left = || self.ask("squeue", &["-h", "-t", "PD,CF,R,CG,S,RQ", "-o", "%i %T %r"]);
        let ended = || left().is_ok_and(|left| left.is_empty());
        until(LIMIT, ended).map_err(|()| format!("left behind: {:?}", left()))?;
        for node in NODES {
            let state = self.ask("scontrol", &["-o", "show", "node", node])?;
            if state.contains("+DRAIN") {
                let name = format!("NodeName={node}");
                self.ask("scontrol", &["update", &name, "State=RESUME"])?;
            }
            self.idle(node)?;
        }
        for file in ["claim", "told", "go"] {
            // Most checks make none.
            let _ = fs::remove_file(self.folder.join(file));
        }
        self.forget()
    }

    /// What jobs run that are to be there until [`release`](Self::release) or their end by others.
    pub(crate) fn until_released(&self) -> String {
        let go = self.folder.join("go");
        format!("while [ ! -e {} ]; do sleep 0.1; done", go.display())
    }

    /// Lets the jobs end that wait for it.
    ///
    /// # Errors
    ///
    /// The file that tells them cannot be written.
    pub(crate) fn release(&self) -> Result<(), String> {
        fs::write(self.folder.join("go"), "").map_err(|error| error.to_string())
    }

    /// Waits until a node is idle.
    ///
    /// # Errors
    ///
    /// It does not become so.
    pub(crate) fn idle(&self, node: &str) -> Result<(), String> {
        let state = || self.ask("scontrol", &["-o", "show", "node", node]);
        let idle = || state().is_ok_and(|state| state.contains(" State=IDLE "));
        until(LIMIT, idle).map_err(|()| format!("{node} is not idle: {:?}", state()))
    }

    /// Waits for the end of a job, and says what became of it.
    ///
    /// # Errors
    ///
    /// It does not end, or is not known.
    pub(crate) fn ended(&self, id: &str) -> Result<Job, String> {
        self.wait(&[id.to_string()])?;
        let text = self.ask("scontrol", &["-o", "show", "job", id])?;
        let field = |name: &str| {
            let found = text
                .split_ascii_whitespace()
                .find_map(|word| word.strip_prefix(name));
            found.unwrap_or_default().to_string()
        };
        let comment = ["-h", "--states=all", "-j", id, "-O", "comment:512"];
        let saw = fs::read_to_string(self.folder.join("jobs").join(id)).unwrap_or_default();
        Ok(Job {
            saw: saw.trim().to_string(),
            shards: field("TresPerNode="),
            nodes: field("ReqNodeList="),
            state: field("JobState="),
            comment: self.ask("squeue", &comment)?.trim().to_string(),
        })
    }

    /// Submits a job and waits for its end.
    ///
    /// # Errors
    ///
    /// Those of [`Self::submit`] and [`Self::ended`].
    pub(crate) fn run(&self, options: &[&str]) -> Result<Job, String> {
        self.ended(&self.submit(options, "true")?)
    }
}

/// Waits until something holds.
pub(crate) fn until(limit: Duration, mut holds: impl FnMut() -> bool) -> Result<(), ()> {
    let start = Instant::now();
    while !holds() {
        if start.elapsed() > limit {
            return Err(());
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Ports that are free now, and that the kernel gives to no connection: it does so from 32768 on. A
/// process that runs beside this one begins elsewhere.
fn ports<const N: usize>() -> Result<[u16; N], String> {
    // CAST: below 300 * 64.
    let first = 10_000 + (std::process::id() % 300 * 64) as u16;
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut free = (first..first + 1_000).filter(is_free);
    let mut ports = [0; N];
    for port in &mut ports {
        *port = free.next().ok_or("no port is free")?;
    }
    Ok(ports)
}

/// The version of Slurm: year and month.
fn version() -> Result<(u32, u32), String> {
    let output = Command::new("/usr/sbin/slurmctld").arg("-V").output();
    let output = output.map_err(|error| format!("slurmctld: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().nth(1).unwrap_or_default();
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(year), Some(month)) => Ok((year, month)),
        _ => Err(format!("slurmctld is of no known version: {text}")),
    }
}

/// Starts a daemon that ends with this process, even if that is killed. Its process has the name of
/// the program: Slurm looks at it.
pub(crate) fn daemon(folder: &Path, program: &str, arguments: &[&str]) -> Result<Child, String> {
    let path = ["/usr/sbin", "/usr/bin"].map(|at| Path::new(at).join(program));
    let path = path.iter().find(|path| path.exists());
    let path = path.ok_or_else(|| format!("{program} is missing: run tests/vm/setup --tests"))?;
    let mut options = File::options();
    let log = options
        .create(true)
        .append(true)
        .open(folder.join("log/output"));
    let log = log.map_err(|error| error.to_string())?;
    let also = log.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL"])
        .arg(path)
        .args(arguments);
    command
        .env("SLURM_CONF", folder.join("slurm.conf"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(also);
    command
        .spawn()
        .map_err(|error| format!("{program}: {error}"))
}

/// Starts a munged of our own.
fn munged(folder: &Path) -> Result<(), String> {
    let at = folder.join("munge");
    let key = at.join("key");
    let random = File::open("/dev/urandom").and_then(|source| {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::Read::take(source, 1024), &mut bytes)?;
        fs::write(&key, bytes)?;
        fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600))
    });
    random.map_err(|error| format!("munge's key: {error}"))?;
    let of = |option: &str, name: &str| format!("--{option}={}", at.join(name).display());
    let arguments = [
        "--force".to_string(),
        "--foreground".to_string(),
        of("key-file", "key"),
        of("socket", "socket"),
        of("log-file", "log"),
        of("pid-file", "pid"),
        of("seed-file", "seed"),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    daemon(folder, "munged", &arguments)?;
    let socket = at.join("socket");
    until(LIMIT, || socket.exists()).map_err(|()| "munged does not start".to_string())
}
