// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A folder for one test, with nodes, libraries and a program; and what a run of it left.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;

/// Length of a doorbell mapping.
pub(crate) const DOORBELL_BYTES: u64 = 0x1_0000;

/// A line of a report or a recording: its kind and values.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) kind: String,
    values: BTreeMap<String, String>,
}

impl Line {
    fn parse(text: &str) -> Self {
        let mut words = text.split(' ');
        let kind = words.next().unwrap_or_default().to_owned();
        let pairs = words.filter_map(|word| word.split_once('='));
        let values = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            kind,
            values: values.collect(),
        }
    }

    /// A value as it stands there.
    pub(crate) fn text(&self, name: &str) -> &str {
        let value = self.values.get(name);
        value.unwrap_or_else(|| panic!("{self:?} has no {name}"))
    }

    /// A decimal value.
    pub(crate) fn number(&self, name: &str) -> u64 {
        let value = self.text(name).parse();
        value.unwrap_or_else(|_| panic!("{self:?}: {name} is no number"))
    }

    /// Bytes; none if the line does not have them.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let text = self.values.get(name).map_or("", String::as_str);
        let pairs = text.as_bytes().chunks_exact(2);
        pairs
            .map(|pair| std::str::from_utf8(pair).expect("digits"))
            .map(|pair| u8::from_str_radix(pair, 16).expect("two digits"))
            .collect()
    }
}

/// All lines of a text.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    text.lines().map(Line::parse).collect()
}

/// The lines of one kind.
pub(crate) fn of_kind<'a>(lines: &'a [Line], kind: &str) -> Vec<&'a Line> {
    lines.iter().filter(|line| line.kind == kind).collect()
}

/// What a program left.
pub(crate) struct Left {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) error: String,
    pub(crate) process: u32,
}

/// The folder of a test.
pub(crate) struct Stage {
    folder: PathBuf,
}

impl Stage {
    /// An empty folder with a node of a card and the controlling node.
    pub(crate) fn new(test: &str) -> Self {
        let folder = preloaded().join(test);
        // There is none before the first run.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        for node in ["nvidia0", "nvidiactl"] {
            let file = fs::File::create(folder.join(node)).expect("a node");
            file.set_len(DOORBELL_BYTES).expect("its length");
        }
        Self { folder }
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A command in the folder; [`Stage::run`] runs it.
    pub(crate) fn command(&self, program: &str, libraries: &[&str]) -> Command {
        let mut command = Command::new(compiled(program));
        self.prepare(&mut command, libraries);
        command
    }

    /// A shell that runs a command of its own, and then is the program with its libraries.
    pub(crate) fn after(&self, prepared: &str, program: &[&str], libraries: &[&str]) -> Command {
        let mut shell = Command::new("sh");
        let then = "export LD_PRELOAD=\"$LIBRARIES\"; exec \"$@\"";
        shell
            .args(["-c", &format!("{prepared}; {then}"), "sh"])
            .arg(compiled(program[0]))
            .args(&program[1..]);
        self.prepare(&mut shell, &[]);
        shell.env("LIBRARIES", list(libraries));
        shell
    }

    /// Lets a command load libraries, and take the files here for nodes.
    pub(crate) fn prepare(&self, command: &mut Command, libraries: &[&str]) {
        command
            .current_dir(&self.folder)
            .env("LD_PRELOAD", list(libraries))
            .env("RECORD", self.path("record"))
            .env("RECORD_NODES", self.path("nvidia"))
            .env("HOLD_LOG", self.path("log"))
            .env("HOLD_NODES", self.path("nvidia"));
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, command: &mut Command) -> Left {
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = piped.spawn().expect("a program");
        let process = child.id();
        let output = child.wait_with_output().expect("its end");
        Left {
            status: output.status,
            out: String::from_utf8(output.stdout).expect("text"),
            error: String::from_utf8(output.stderr).expect("text"),
            process,
        }
    }

    /// The lines of `NAME.PROCESS`.
    pub(crate) fn lines(&self, name: &str, process: u32) -> Vec<Line> {
        lines(&self.text(name, process))
    }

    /// The text of `NAME.PROCESS`.
    pub(crate) fn text(&self, name: &str, process: u32) -> String {
        let path = self.path(&format!("{name}.{process}"));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The word at an offset of a doorbell.
    pub(crate) fn word(&self, offset: usize) -> u32 {
        let node = fs::read(self.path("nvidia0")).expect("the node");
        let word = node[offset..offset + 4].try_into();
        u32::from_le_bytes(word.expect("four bytes"))
    }
}

/// Libraries as LD_PRELOAD wants them.
fn list(libraries: &[&str]) -> String {
    let paths = libraries.iter().map(|name| compiled(name));
    let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
    paths.join(" ")
}

fn preloaded() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("preloaded")
}

/// A library (`NAME.so`) or program, compiled anew by the first test that wants it; the others wait.
fn compiled(name: &str) -> PathBuf {
    static DONE: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let to = preloaded().join(name);
    let mut done = DONE.lock().expect("no compiler panicked");
    if !done.iter().any(|known| known == name) {
        compile(name, &to);
        done.push(name.to_owned());
    }
    to
}

/// The compiler of the host as the documents say, with all warnings.
fn compile(name: &str, to: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let stem = name.trim_end_matches(".so");
    let folders = ["card", "preloaded"].map(|folder| root.join(folder).join(format!("{stem}.c")));
    let source = folders.iter().find(|path| path.exists());
    let library = ["-shared", "-fPIC"];
    let kind = if stem == name {
        &library[..0]
    } else {
        &library
    };
    fs::create_dir_all(preloaded()).expect("a folder");
    let compiled = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror"])
        .args(kind)
        .arg("-o")
        .args([to, source.expect("a source")])
        .args(["-ldl", "-lpthread"])
        .output()
        .expect("a C compiler");
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
}
