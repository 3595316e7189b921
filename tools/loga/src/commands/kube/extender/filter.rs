// SPDX-License-Identifier: GPL-2.0

//! [tool] Nodes that a pod can use: not those whose GPUs are all lost, and not those on whose best GPU
//! it would lose more than its annotation allows. A node of which nothing is known can be used.

use super::Extender;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The most that a pod may lose of its speed, in percent.
pub(super) const MAX_LOSS: &str = "loga/max-loss";
/// A percent in millionths.
const PERCENT: u64 = 10_000;

/// What the scheduler sends. Nodes go back as they came.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Arguments {
    pod: Option<Pod>,
    /// With `nodeCacheCapable: true`.
    node_names: Option<Vec<String>>,
    /// Without it.
    nodes: Option<NodeList>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Metadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize, Serialize)]
struct NodeList {
    #[serde(default)]
    metadata: Value,
    items: Option<Vec<Value>>,
}

/// What is answered.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct FilterResult {
    nodes: Option<NodeList>,
    node_names: Option<Vec<String>>,
    /// Removing other pods might help.
    failed_nodes: BTreeMap<String, String>,
    /// It would not.
    failed_and_unresolvable_nodes: BTreeMap<String, String>,
    error: String,
}

/// Why a pod cannot use a node.
enum Refused {
    Lost,
    /// In percent, rounded up.
    Loses(u64),
}

impl Extender {
    pub(super) fn filter(&self, body: &[u8]) -> Result<String, String> {
        let arguments: Arguments = serde_json::from_slice(body)
            .map_err(|error| format!("the body is no ExtenderArgs in JSON: {error}"))?;
        let mut result = FilterResult::default();
        match most(arguments.pod.unwrap_or_default()) {
            Err(error) => result.error = error,
            Ok(most) => match (arguments.node_names, arguments.nodes) {
                (Some(names), _) => {
                    let refused = self.refused(&names, most);
                    let all = names.into_iter().zip(refused);
                    let all = all.map(|(name, why)| (name.clone(), name, why));
                    result.node_names = Some(result.split(all, most));
                }
                (None, Some(list)) => {
                    let items = list.items.unwrap_or_default();
                    let name = |node: &Value| {
                        let name = node["metadata"]["name"].as_str();
                        let name = name.ok_or("a node has no name")?;
                        Ok::<_, String>(name.to_string())
                    };
                    let names: Vec<String> = items.iter().map(name).collect::<Result<_, _>>()?;
                    let refused = self.refused(&names, most);
                    let items = items.into_iter().zip(refused);
                    let named = names.into_iter().zip(items);
                    let kept = result.split(named.map(|(name, (one, why))| (name, one, why)), most);
                    result.nodes = Some(NodeList {
                        metadata: list.metadata,
                        items: Some(kept),
                    });
                }
                (None, None) => {
                    return Err("ExtenderArgs has neither NodeNames nor Nodes".to_string())
                }
            },
        }
        serde_json::to_string(&result).map_err(|error| error.to_string())
    }

    /// Why each of these nodes cannot be used, if it cannot.
    fn refused(&self, names: &[String], most: Option<u64>) -> Vec<Option<Refused>> {
        let now = (self.now)();
        let (lost, best) = (self.board.is_lost(names, now), self.board.best(names, now));
        let refused = |(is_lost, loss): (bool, Option<u64>)| match (is_lost, loss.zip(most)) {
            (true, _) => Some(Refused::Lost),
            (false, Some((loss, most))) if loss > most * PERCENT => {
                Some(Refused::Loses(loss.div_ceil(PERCENT)))
            }
            _ => None,
        };
        lost.into_iter().zip(best).map(refused).collect()
    }
}

impl FilterResult {
    /// The ones that can be used; the others are noted with what is to be said.
    fn split<T>(
        &mut self,
        all: impl Iterator<Item = (String, T, Option<Refused>)>,
        most: Option<u64>,
    ) -> Vec<T> {
        let mut kept = Vec::new();
        for (name, one, refused) in all {
            match refused {
                None => kept.push(one),
                Some(Refused::Lost) => {
                    let said = "all GPUs of the node are lost".to_string();
                    self.failed_and_unresolvable_nodes.insert(name, said);
                }
                Some(Refused::Loses(loss)) => {
                    let most = most.unwrap_or(0);
                    let said = format!(
                        "a program loses {loss} % of its speed on the best GPU, {MAX_LOSS} allows {most}"
                    );
                    self.failed_nodes.insert(name, said);
                }
            }
        }
        kept
    }
}

/// What a pod allows, in percent.
fn most(pod: Pod) -> Result<Option<u64>, String> {
    let annotations = pod.metadata.annotations.unwrap_or_default();
    let Some(text) = annotations.get(MAX_LOSS) else {
        return Ok(None);
    };
    let number = text.parse::<u64>().ok().filter(|number| *number <= 100);
    match number {
        Some(number) => Ok(Some(number)),
        None => {
            let shown: String = text.chars().take(20).collect();
            Err(format!(
                "annotation {MAX_LOSS} of the pod: {shown:?}, want a whole number of percent from 0 to 100"
            ))
        }
    }
}
