// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga-figures ROOT BENCH`: takes over what the documents below ROOT cite of the report BENCH,
//! if there is one, and writes their tables.

use loga_figures::{all, blocks, fill, Measured, Report, Table, FILE};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [root, bench] = &arguments[..] else {
        eprintln!("usage: loga-figures ROOT BENCH");
        return ExitCode::from(2);
    };
    match run(Path::new(root), Path::new(bench)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loga-figures: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Nothing is written if anything is wrong.
fn run(root: &Path, bench: &Path) -> Result<(), String> {
    let tables = all();
    let file = root.join(FILE);
    let mut measured = match file.exists() {
        true => Measured::read(&read(&file)?).map_err(|error| format!("{FILE}: {error}"))?,
        false => Measured::default(),
    };
    if bench.exists() {
        let refused = |error| format!("{}: {error}", bench.display());
        let report = Report::read(&read(bench)?).map_err(refused)?;
        for line in measured.take(&report, &tables).map_err(refused)? {
            println!("    {line}");
        }
    } else {
        println!(
            "    no {}, which make bench writes: {FILE} stays",
            bench.display()
        );
    }
    measured.prune(&tables);
    let mut there = BTreeSet::new();
    let mut written = vec![(file, measured.print())];
    for path in pages(root)? {
        let text = read(&path)?;
        let names = blocks(&text);
        if names.is_empty() {
            continue;
        }
        there.extend(names.into_iter().map(str::to_owned));
        let filled = fill(&text, &tables, &measured);
        let filled = filled.map_err(|error| format!("{}: {error}", path.display()))?;
        written.push((path, filled));
    }
    for (path, text) in written {
        write(&path, &text)?;
    }
    let missing = |table: &&Table| table.is_measured(&measured) && !there.contains(table.name);
    for table in tables.iter().filter(missing) {
        println!("    no document has a place for {}", table.name);
    }
    Ok(())
}

/// The pages of the documents, in the order of their names.
fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let folder = root.join("docs");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|suffix| suffix == "md");
    let mut paths: Vec<PathBuf> = paths.filter(is_page).collect();
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file that differs, and says so.
fn write(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, text).map_err(failed)?;
    println!("    {} is written", path.display());
    Ok(())
}
