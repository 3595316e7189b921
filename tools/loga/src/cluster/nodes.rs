// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Which nodes there are, and where their exporters' texts are.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// Most nodes.
pub const MAX_NODES: usize = 2048;
/// Longest name of a node.
const MAX_NAME: usize = 64;
/// The exporters' port.
const PORT: u16 = 9466;

/// Where the text of an exporter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A URL.
    Http(String),
    /// A file.
    File(PathBuf),
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, as the scheduler of the cluster knows it.
    pub name: String,
    /// Where its exporter's text is.
    pub source: Source,
}

/// The nodes of an argument: a list, or the path of a file with one per line.
///
/// # Errors
///
/// What is wrong, in one line.
pub fn nodes(argument: &str) -> Result<Vec<Node>, String> {
    let of_file = argument.starts_with(['/', '.']);
    let text = if of_file {
        fs::read_to_string(argument).map_err(|error| format!("{argument}: {error}"))?
    } else {
        argument.replace(',', "\n")
    };
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let nodes: Vec<Node> = lines.map(node).collect::<Result<_, _>>()?;
    let names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    if names.len() != nodes.len() {
        return Err("a node is named twice".to_string());
    }
    match nodes.len() {
        0 => Err(format!("no node in '{argument}'")),
        1..=MAX_NODES => Ok(nodes),
        count => Err(format!("{count} nodes, want at most {MAX_NODES}")),
    }
}

fn node(line: &str) -> Result<Node, String> {
    let (name, source) = match line.split_once('=') {
        Some((name, source)) => (name, Some(source)),
        None => (line, None),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !begins || name.len() > MAX_NAME || !name.chars().all(legal) {
        return Err(format!(
            "'{name}' is no name of a node; for names as n[1-3], use `scontrol show hostnames`"
        ));
    }
    let source = match source {
        None => Source::Http(format!("http://{name}:{PORT}/metrics")),
        Some(url) if url.starts_with("http://") => Source::Http(url.to_string()),
        Some(path) => {
            let path = path.strip_prefix("file://").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(format!("{line}: want http://.. or an absolute path"));
            }
            Source::File(path.into())
        }
    };
    Ok(Node {
        name: name.to_string(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_names_nodes_and_where_they_are_read() {
        let found = nodes("n1,n2=http://h:1/m,n3=/run/x,n4=file:///run/y").expect("nodes");
        let source = |at: usize| found[at].source.clone();
        assert_eq!(source(0), Source::Http("http://n1:9466/metrics".into()));
        assert_eq!(source(1), Source::Http("http://h:1/m".into()));
        assert_eq!(source(2), Source::File("/run/x".into()));
        assert_eq!(source(3), Source::File("/run/y".into()));
    }

    #[test]
    fn file_has_one_node_per_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("nodes");
        fs::write(&path, "# GPUs\n\nn1\n n2=/x \n").expect("written");
        let found = nodes(path.to_str().expect("text")).expect("nodes");
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].source, Source::File("/x".into()));
        assert!(nodes("/no/such").expect_err("none").contains("/no/such"));
    }

    #[test]
    fn names_that_could_be_something_else_are_refused() {
        let long = "n".repeat(65);
        for text in [
            "", ",", "n[1-3]", "-n1", "n 1", "n1;x", "n1,n1", "n1=x", "=/x", &long,
        ] {
            assert!(nodes(text).is_err(), "{text}");
        }
        let many: Vec<String> = (0..=MAX_NODES).map(|at| format!("n{at}")).collect();
        assert!(nodes(&many.join(",")).is_err());
        assert!(nodes(&many[1..].join(",")).is_ok());
    }
}
