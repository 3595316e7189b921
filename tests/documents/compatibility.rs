// SPDX-License-Identifier: GPL-2.0

//! What goes with what is said once, in `src/compatibility/table.rs`: the tables of docs/nvidia.md are
//! printed from it, README.md names the same families, branches and kernel, `packaging/module` wants the
//! same kernel, and `tests/vm/lib/nvidia.sh` applies the same patches, each of which says what it is.

use super::document;
use loga::compatibility::table::{
    BRANCHES, BUILDS, DISTRIBUTIONS, FAMILIES, IDS, KERNELS, MIN_KERNEL,
};
use loga::compatibility::{
    build, followed, known, remark, Branch, Build, Flavour, Follows, Listed, Tested,
};
use std::fs;
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    let path = path(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The table of docs/nvidia.md below this line has these rows.
fn has_table(title: &str, rows: &[String]) {
    let text = document("nvidia.md");
    let start = text.find(title).unwrap_or_else(|| panic!("no {title}"));
    let found: Vec<&str> = text[start..]
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert_eq!(
        found,
        rows,
        "docs/nvidia.md should have:\n{}",
        rows.join("\n")
    );
}

fn heading(columns: &[&str]) -> [String; 2] {
    let line = |cells: Vec<&str>| format!("| {} |", cells.join(" | "));
    [
        line(columns.to_vec()),
        format!("|{}", "---|".repeat(columns.len())),
    ]
}

#[test]
fn table_of_cards_is_that_of_the_code() {
    let mut rows = heading(&[
        "family",
        "for example",
        "PCI device ids",
        "last branch",
        "LoGA",
    ])
    .to_vec();
    for row in FAMILIES {
        let examples: Vec<&str> = row.examples.iter().map(|card| card.name).collect();
        let ids = IDS.iter().filter(|ids| ids.family == row.family);
        let ids: Vec<String> = ids
            .map(|ids| {
                let range = match ids.from == ids.to {
                    true => format!("{:04x}", ids.from),
                    false => format!("{:04x}-{:04x}", ids.from, ids.to),
                };
                match ids.unknown_chip {
                    Some(chip) => {
                        format!("{range} ({chip}: not followed, a chip that LoGA does not know)")
                    }
                    None => range,
                }
            })
            .collect();
        let last = row
            .last
            .map_or("none yet".to_string(), |last| last.to_string());
        let loga = match row.follows {
            Follows::Yes => "follows them; none has been tried".to_string(),
            Follows::No(why) => format!("no: {why}"),
        };
        rows.push(format!(
            "| {} | {} | {} | {last} | {loga} |",
            row.family,
            examples.join(", "),
            ids.join(", ")
        ));
    }
    has_table("### Cards", &rows);
}

/// How a source of the driver builds, as the table says it.
fn builds(branch: u16, flavour: Flavour, at: usize) -> String {
    match build(branch, flavour, KERNELS[at].kernel) {
        Build::AsItComes => "builds as it comes".to_string(),
        Build::Patched(names) => format!("builds with {}", names.join(", ")),
        Build::No(why) => format!("no: {why}"),
        Build::NotTried => "not tried".to_string(),
    }
}

#[test]
fn table_of_branches_is_that_of_the_code() {
    let kernels: Vec<String> = KERNELS
        .iter()
        .map(|row| format!("Linux {}", row.kernel))
        .collect();
    let mut columns = vec!["branch", "modules", "takes", "tested"];
    columns.extend(kernels.iter().map(String::as_str));
    let mut rows = heading(&columns).to_vec();
    let mut add = |branch: &Branch, flavour: Flavour| {
        let takes = match flavour {
            Flavour::Proprietary => Listed(branch.takes.iter()).to_string(),
            Flavour::Open => "Turing and later".to_string(),
        };
        let cells: Vec<String> = (0..KERNELS.len())
            .map(|at| builds(branch.number, flavour, at))
            .collect();
        rows.push(format!(
            "| {} | {flavour} | {takes} | {} | {} |",
            branch.version,
            branch.tested,
            cells.join(" | ")
        ));
    };
    for branch in BRANCHES {
        add(branch, Flavour::Proprietary);
        let is_open = |pair: &&loga::compatibility::Pair| {
            pair.branch == branch.number && pair.flavour == Flavour::Open
        };
        if BUILDS.iter().any(|pair| is_open(&pair)) {
            add(branch, Flavour::Open);
        }
    }
    has_table("### Driver branches", &rows);
}

#[test]
fn table_of_distributions_is_that_of_the_code() {
    let mut rows = heading(&[
        "distribution",
        "its kernel",
        "a kernel for LoGA",
        "what a module in Rust is built with",
        "driver",
        "LoGA",
    ])
    .to_vec();
    for row in DISTRIBUTIONS {
        let rust = if row.rust { "with" } else { "without" };
        let code = |text: &str| match text.split_once(" (") {
            _ if text.is_empty() => "none known".to_string(),
            Some((command, rest)) => format!("`{command}` ({rest}"),
            None => format!("`{text}`"),
        };
        let fitting = match row.fitting {
            _ if row.kernel.is_new_enough() && row.rust => "its own".to_string(),
            Some(text) => match text.split_once(", ") {
                Some((command, rest)) => format!("`{command}`, {rest}"),
                None => code(text),
            },
            None => "none known".to_string(),
        };
        let drivers: Vec<String> = row
            .drivers
            .iter()
            .map(|one| format!("{}: {}", one.branch, code(one.install)))
            .collect();
        let drivers = match drivers.is_empty() {
            true => "none known".to_string(),
            false => drivers.join("; "),
        };
        rows.push(format!(
            "| {} | {}, {rust} Rust | {fitting} | {} | {drivers} | {} |",
            row.name,
            row.kernel,
            code(row.metadata),
            if row.tried { "tried" } else { "not tried" }
        ));
    }
    has_table("### Distributions", &rows);
}

#[test]
fn readme_names_the_families_branches_and_kernel_of_the_code() {
    let readme = read("README.md");
    let families = Listed(followed().map(|row| row.family)).to_string();
    let branches = Listed(known().map(|branch| branch.number)).to_string();
    let real: Vec<&str> = BRANCHES
        .iter()
        .filter(|branch| branch.tested == Tested::RealDriver)
        .map(|branch| branch.version)
        .collect();
    for words in [
        format!("the families {families} under the driver's branches {branches}"),
        format!("({MIN_KERNEL} or later, with Rust)"),
        real.join(" and "),
    ] {
        assert!(readme.contains(&words), "README.md should have: {words}");
    }
}

#[test]
fn every_document_wants_the_same_kernel() {
    let module = read("packaging/module");
    let line = format!("\nmin_kernel={MIN_KERNEL}\n");
    assert!(
        module.contains(&line),
        "packaging/module should have {line}"
    );
    for (name, words) in [
        (
            "install.md",
            format!(
                "fits Linux {MIN_KERNEL} to {}",
                KERNELS[KERNELS.len() - 1].kernel
            ),
        ),
        ("nvidia.md", format!("wants Linux {MIN_KERNEL} or later")),
    ] {
        assert!(
            document(name).contains(&words),
            "docs/{name} should have: {words}"
        );
    }
}

#[test]
fn no_document_calls_a_patched_driver_unmodified() {
    let documents = fs::read_dir(path("docs")).expect("a folder").flatten();
    let documents = documents
        .map(|entry| entry.path())
        .filter(|path| path.is_file());
    let others = ["README.md", "tests/vm/nvidia", "tests/vm/lib/nvidia.sh"].map(path);
    for path in documents.chain(others) {
        let text = fs::read_to_string(&path).expect("text");
        assert!(!text.contains("unmodified driver"), "{}", path.display());
    }
}

/// The patches that `tests/vm/lib/nvidia.sh` applies to a branch on every kernel.
fn patches_of_the_script(branch: &str) -> Vec<String> {
    let script = read("tests/vm/lib/nvidia.sh");
    let (_, rest) = script
        .split_once(&format!("\n\t{branch})\n"))
        .expect("a branch");
    let (_, rest) = rest.split_once("patches=(").expect("patches");
    let (names, _) = rest.split_once(')').expect("an end");
    names.split_whitespace().map(str::to_string).collect()
}

#[test]
fn script_applies_the_patches_of_the_code() {
    for (name, branch, flavour) in [
        ("470", 470, Flavour::Proprietary),
        ("550", 550, Flavour::Proprietary),
        ("550-open", 550, Flavour::Open),
    ] {
        let newest = KERNELS.last().expect("a kernel").kernel;
        let wanted = match build(branch, flavour, newest) {
            Build::Patched(names) => names.to_vec(),
            _ => Vec::new(),
        };
        assert_eq!(patches_of_the_script(name), wanted, "{name}");
    }
}

#[test]
fn every_patch_says_what_it_is_and_is_used() {
    let used: Vec<&str> = BUILDS
        .iter()
        .flat_map(|pair| match pair.build {
            Build::Patched(names) => names,
            _ => &[],
        })
        .copied()
        .collect();
    let folder = fs::read_dir(path("packaging/nvidia")).expect("a folder");
    let mut count = 0;
    for file in folder.flatten().map(|entry| entry.path()) {
        if file.extension().is_none_or(|kind| kind != "patch") {
            continue;
        }
        count += 1;
        let text = fs::read_to_string(&file).expect("text");
        let (header, _) = text.split_once("\n---").expect("a header before the patch");
        for word in ["What:", "Why:", "Since:", "License:"] {
            let says = header.lines().any(|line| line.starts_with(word));
            assert!(says, "{} should say {word}", file.display());
        }
        let name = file
            .file_stem()
            .and_then(|name| name.to_str())
            .expect("a name");
        let is_for_tests = header.contains("Test kernel only");
        assert!(
            used.contains(&name) || is_for_tests,
            "{name} is used by no row"
        );
    }
    assert!(count >= used.len().min(4), "{count} patches");
    for name in used {
        assert!(
            path(&format!("packaging/nvidia/{name}.patch")).is_file(),
            "{name}"
        );
    }
}

#[test]
fn unknown_branch_is_said_in_one_line_that_names_the_known_ones() {
    let line = remark("580.95.05").expect("unknown").to_string();
    assert_eq!(
        line,
        "driver 580.95.05 is of a branch that LoGA was not tested with (known: 340, 470 and 550): it follows the calls that it understands"
    );
}
