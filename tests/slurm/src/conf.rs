// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The files of the cluster: configuration, scripts, and the programs that stand in for
//! others. Both Slurm 22.05 (Debian 12) and 24.11 (Debian 13) should take them.

use crate::backup;
use crate::database;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};

/// The nodes.
pub(crate) const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// GPUs of each.
pub(crate) const GPUS: usize = 2;
/// Shards of each GPU.
pub(crate) const SHARDS: usize = 4;

/// What stands behind the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// Exporters that are files, and a program that answers for the kernel module. Each node has
    /// GPUs 0 and 1, and all of it runs as one user.
    StandIns,
    /// The kernel module with GPUs of the model, which the nodes divide among them, users of jobs,
    /// and Slurm's cgroups.
    Module,
}

impl Behind {
    /// Numbers of a node's GPUs, by LoGA and in the names of their device nodes.
    pub(crate) fn gpus(self, node: usize) -> [usize; GPUS] {
        let first = match self {
            Behind::StandIns => 0,
            Behind::Module => node * GPUS,
        };
        std::array::from_fn(|gpu| first + gpu)
    }
}

/// How daemons believe each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    /// They believe all.
    None,
    /// By a munged of this test.
    Munge,
}

impl Auth {
    /// What the plugins of this Slurm allow.
    pub(crate) fn of_this_slurm() -> Self {
        let folders = [
            "/usr/lib/x86_64-linux-gnu/slurm-wlm",
            "/usr/lib/x86_64-linux-gnu/slurm",
        ];
        let has = |plugin: &str| folders.iter().any(|at| Path::new(at).join(plugin).exists());
        let munge = std::env::var_os("LOGA_SLURM_MUNGE").is_some();
        if has("auth_none.so") && has("cred_none.so") && !munge {
            Auth::None
        } else {
            Auth::Munge
        }
    }
}

/// What the configuration depends on.
#[derive(Debug)]
pub(crate) struct Setting<'a> {
    /// The temporary folder.
    pub(crate) folder: &'a Path,
    /// The program `loga`.
    pub(crate) loga: &'a Path,
    /// The user that all runs as.
    pub(crate) user: &'a str,
    /// The ports of the controller, of slurmdbd and of its database, and one for each node.
    pub(crate) ports: [u16; 3 + NODES.len()],
    /// How daemons believe each other.
    pub(crate) auth: Auth,
    /// Version of Slurm.
    pub(crate) version: (u32, u32),
    /// What stands behind it.
    pub(crate) behind: Behind,
    /// Whether there is a second controller, which takes over.
    pub(crate) pair: bool,
}

impl Setting<'_> {
    /// Writes all files.
    ///
    /// # Errors
    ///
    /// The one that cannot be written.
    pub(crate) fn write(&self) -> Result<(), String> {
        let folder = self.folder;
        for name in [
            "state",
            "spool",
            "dev",
            "bin",
            "jobs",
            "exporters",
            "munge",
            "pid",
        ] {
            fs::create_dir(folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
        }
        let log = folder.join("log");
        let made = match self.behind {
            Behind::StandIns => fs::create_dir(log),
            // The virtual machine sends what is there to the host.
            Behind::Module => symlink("/out", log),
        };
        made.map_err(|error| format!("log: {error}"))?;
        // munged wants a folder that only its user writes, and a key of its user alone.
        mode(&folder.join("munge"), 0o755)?;
        self.file("slurm.conf", &self.slurm_conf())?;
        self.file("gres.conf", &self.gres_conf()?)?;
        let more = match self.behind {
            // There is no systemd in the virtual machine.
            Behind::Module => "IgnoreSystemd=yes\n",
            Behind::StandIns if self.version >= (24, 5) => "CgroupPlugin=disabled\n",
            Behind::StandIns => "",
        };
        let cgroup = shipped(
            "cgroup.conf",
            "ConstrainDevices=yes\n",
            "ConstrainDevices=yes\n",
        )?;
        self.file("cgroup.conf", &(cgroup + more))?;
        self.lua()?;
        self.programs()?;
        match self.behind {
            Behind::StandIns => {
                database::write(self)?;
                self.stand_ins()
            }
            Behind::Module => self.open_to_users(),
        }
    }

    /// Lets users of jobs write what their jobs and TaskEpilogs write.
    fn open_to_users(&self) -> Result<(), String> {
        // A database of jobs would need a server of its own.
        self.program("bin/sacctmgr", "#!/bin/sh\nexit 1\n")?;
        mode(self.folder, 0o755)?;
        mode(&self.folder.join("jobs"), 0o1777)?;
        self.file("logged", "")?;
        mode(&self.folder.join("logged"), 0o666)
    }

    fn slurm_conf(&self) -> String {
        let at = self.folder.display();
        let auth = match self.auth {
            Auth::None => "AuthType=auth/none\nCredType=cred/none".to_string(),
            Auth::Munge => {
                format!(
                    "AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket={at}/munge/socket"
                )
            }
        };
        let (user, controller) = (self.user, self.ports[0]);
        let hosts = match self.pair {
            true => backup::HOSTS,
            false => "SlurmctldHost=localhost(127.0.0.1)\n",
        };
        let (track, task) = match self.behind {
            Behind::StandIns => ("linuxproc", "none"),
            Behind::Module => ("cgroup", "cgroup"),
        };
        let mut text = format!(
            "ClusterName=loga\n{hosts}SlurmctldPort={controller}\n\
             SlurmUser={user}\nSlurmdUser={user}\n{auth}\nMpiDefault=none\nMailProg=/bin/true\n\
             ProctrackType=proctrack/{track}\nTaskPlugin=task/{task}\nReturnToService=2\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\n\
             SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1\n\
             StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool/%n\n\
             SlurmctldPidFile={at}/pid/slurmctld\nSlurmdPidFile={at}/%n.pid\n\
             SlurmctldLogFile={at}/log/slurmctld\nSlurmdLogFile={at}/log/%n\n\
             SlurmdParameters=config_overrides\nJobSubmitPlugins=lua\nGresTypes=gpu,shard\n\
             Prolog={at}/prolog.sh\nEpilog={at}/epilog.sh\nTaskEpilog={at}/task_epilog.sh\nPrologFlags=Alloc\n"
        );
        // In the virtual machine jobs run where Slurm's own figures say.
        if self.behind == Behind::StandIns {
            // Writing to a string does not fail.
            let _ = writeln!(text, "TaskProlog={at}/task_prolog.sh");
            text += &database::of_slurm_conf(self);
        }
        let gres = |node: usize, kind: &str, count: usize| {
            let each = self.behind.gpus(node);
            let each = each.map(|gpu| format!("{kind}:g{gpu}:{count}"));
            each.join(",")
        };
        for (node, (name, port)) in NODES.iter().zip(&self.ports[3..]).enumerate() {
            let gres = [gres(node, "gpu", 1), gres(node, "shard", SHARDS)].join(",");
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=16 \
                 RealMemory=1000 Gres={gres} State=UNKNOWN"
            );
        }
        let _ = writeln!(text, "PartitionName=main Nodes=n[1-3] Default=YES State=UP");
        let _ = writeln!(text, "PartitionName=other Nodes=n3 Default=NO State=UP");
        text
    }

    /// The example of a node's file, which is that of all of them; in the virtual machine each has GPUs
    /// of its own.
    fn gres_conf(&self) -> Result<String, String> {
        if self.behind == Behind::StandIns {
            let nodes = format!("{}/dev/nvidia", self.folder.display());
            return shipped("gres.conf", "/dev/nvidia", &nodes);
        }
        let lines = |(name, gpu)| {
            let file = format!("/dev/nvidia{gpu}");
            format!(
                "NodeName={name} Name=gpu Type=g{gpu} File={file} Flags=nvidia_gpu_env\n\
                 NodeName={name} Name=shard Type=g{gpu} Count={SHARDS} File={file}\n"
            )
        };
        let nodes = NODES.iter().enumerate();
        let all = nodes.flat_map(|(node, name)| self.behind.gpus(node).map(|gpu| (name, gpu)));
        Ok(all.map(lines).collect())
    }

    /// The example of a site's script, and between it and ours one that forgets claims when asked, and that
    /// can be told how long they count. Beside stand-ins, tables and claims become old as if the clock
    /// were that much slower: how long a job takes to be submitted there depends on what else the
    /// machine does.
    fn lua(&self) -> Result<(), String> {
        let at = self.folder.display();
        let slower = match self.behind {
            Behind::StandIns => format!(
                "\tfor _, age in ipairs({{ \"max_age\", \"claim\", \"confirm\" }}) do\n\
                 \t\tloga[age] = {SLOWER} * loga[age]\n\tend\n"
            ),
            Behind::Module => String::new(),
        };
        let ours = absolute("packaging/slurm/loga.lua")?;
        let between = format!(
            "local function fresh()\n\
             \tlocal loga = dofile(\"{}\")\n\tloga.path = \"{at}/table\"\n{slower}\
             \tlocal file = io.open(\"{at}/claim\")\n\
             \tif file then loga.claim = tonumber(file:read()); file:close() end\n\
             \treturn loga\nend\n\
             local loga = fresh()\n\
             return {{ place = function(...)\n\
             \tif os.remove(\"{at}/forget\") then loga = fresh() end\n\
             \treturn loga.place(...)\nend }}\n",
            ours.display()
        );
        self.file("between.lua", &between)?;
        let site = shipped(
            "job_submit.lua",
            "/etc/slurm/loga.lua",
            &format!("{at}/between.lua"),
        )?;
        self.file("job_submit.lua", &site)
    }

    /// Prolog, Epilog, and on their PATH a `logger`.
    fn programs(&self) -> Result<(), String> {
        let at = self.folder.display();
        for name in ["prolog.sh", "task_prolog.sh", "task_epilog.sh", "epilog.sh"] {
            let text = shipped(
                name,
                "PATH=/usr/local/sbin",
                &format!("PATH={at}/bin:/usr/local/sbin"),
            )?;
            self.program(name, &text)?;
        }
        let logger = format!("#!/bin/sh\nexec sed \"s/^/$2: /\" >> {at}/logged\n");
        self.program("bin/logger", &logger)
    }

    /// Device nodes, a cgroup, and a `loga` that answers for the kernel module, as the real one
    /// prints it.
    fn stand_ins(&self) -> Result<(), String> {
        let at = self.folder.display();
        let cgroups = self.folder.join("cgroups/system.slice/slurmstepd.scope");
        fs::create_dir_all(&cgroups).map_err(|error| error.to_string())?;
        for gpu in 0..GPUS {
            // Slurm takes GPUs that are device nodes of this name for NVIDIA's. Making nodes would
            // need a privilege.
            let name = self.folder.join(format!("dev/nvidia{gpu}"));
            symlink(["/dev/null", "/dev/zero"][gpu], name).map_err(|error| error.to_string())?;
        }
        let totals = absolute("tests/slurm/totals.json")?;
        let loga = format!(
            "#!/bin/sh\n\
             [ \"$2\" = task-prolog ] && [ -e {at}/told ] && exec cat {at}/told\n\
             [ \"$2\" = task-prolog ] && exec {0} \"$@\" --notes {at}/notes\n\
             [ \"$2\" = prolog ] && set -- \"$@\" --max-weight 400\n\
             [ \"$1\" = slurm ] && exec {0} \"$@\" --notes {at}/notes --cgroups {at}/cgroups\n\
             [ -e {at}/dead ] && exit 1\n\
             case $1 in\n\
             totals) sed \"s/4242/$(id -u)/; s/123456789/$(cat {at}/used)/\" {1} ;;\n\
             set) echo \"$*\" >> {at}/set ;;\n\
             esac\n",
            self.loga.display(),
            totals.display()
        );
        self.program("bin/loga", &loga)?;
        self.file("used", "0\n")
    }

    fn program(&self, name: &str, text: &str) -> Result<(), String> {
        self.file(name, text)?;
        mode(&self.folder.join(name), 0o755)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> Result<(), String> {
        fs::write(self.folder.join(name), text).map_err(|error| format!("{name}: {error}"))
    }
}

pub(crate) fn mode(path: &Path, mode: u32) -> Result<(), String> {
    let set = fs::set_permissions(path, fs::Permissions::from_mode(mode));
    set.map_err(|error| format!("{}: {error}", path.display()))
}

fn absolute(path: &str) -> Result<PathBuf, String> {
    Path::new(path)
        .canonicalize()
        .map_err(|error| format!("{path}: {error}"))
}

/// A file of packaging/slurm with something replaced.
fn shipped(name: &str, from: &str, to: &str) -> Result<String, String> {
    let path = absolute(&format!("packaging/slurm/{name}"))?;
    let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    if !text.contains(from) {
        return Err(format!("{name} has no {from}"));
    }
    Ok(text.replace(from, to))
}

/// By how much the ages are longer than those that are shipped.
const SLOWER: u32 = 20;

/// The ends of all logs.
pub(crate) fn last_words(folder: &Path) -> String {
    let mut text = String::new();
    let logs = fs::read_dir(folder.join("log"))
        .into_iter()
        .flatten()
        .flatten();
    let more = ["logged", "table"].map(|name| folder.join(name));
    for path in logs.map(|entry| entry.path()).chain(more) {
        let log = fs::read(&path).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        for line in &lines[lines.len().saturating_sub(15)..] {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Writing to a string does not fail.
            let _ = writeln!(text, "     {name}: {line}");
        }
    }
    text
}
