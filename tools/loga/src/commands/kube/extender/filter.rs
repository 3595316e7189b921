// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Nodes that a pod can use: not those whose GPUs are all lost, and not those on whose best GPU
//! it would lose more than its annotation allows. A node of which nothing is known can be used.

use super::bounded::{Bounded, Name};
use super::{parsed, senseless, written, Extender, NEITHER};
use crate::http::Answer;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The most that a pod may lose of its speed, in percent.
pub(super) const MAX_LOSS: &str = "loga/max-loss";
/// A percent in millionths.
const PERCENT: u64 = 10_000;

/// What the scheduler sends. Nodes go back as they came.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Arguments<'a> {
    #[serde(borrow)]
    pod: Option<Pod<'a>>,
    /// With `nodeCacheCapable: true`.
    #[serde(borrow)]
    node_names: Option<Bounded<Name<'a>>>,
    /// Without it.
    #[serde(borrow)]
    nodes: Option<NodeList<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod<'a> {
    #[serde(borrow)]
    metadata: OfPod<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OfPod<'a> {
    #[serde(borrow)]
    annotations: Option<Annotations<'a>>,
}

/// Of all annotations, of which a pod may have many, the one that matters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations<'a> {
    #[serde(rename = "loga/max-loss", borrow)]
    max_loss: Option<Cow<'a, str>>,
}

#[derive(Debug, Deserialize)]
struct NodeList<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    items: Option<Bounded<&'a RawValue>>,
}

#[derive(Debug, Serialize)]
struct KeptNodes<'a> {
    metadata: Option<&'a RawValue>,
    items: Vec<&'a RawValue>,
}

/// What is answered.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct FilterResult<'a> {
    nodes: Option<KeptNodes<'a>>,
    node_names: Option<Vec<&'a Name<'a>>>,
    /// Removing other pods might help.
    failed_nodes: BTreeMap<&'a str, String>,
    /// It would not.
    failed_and_unresolvable_nodes: BTreeMap<&'a str, &'static str>,
    error: String,
}

/// Why a pod cannot use a node.
enum Refused {
    Lost,
    /// In percent, rounded up.
    Loses(u64),
}

impl Extender {
    pub(super) fn filter(&self, body: &[u8]) -> Result<String, Answer> {
        let arguments: Arguments<'_> = parsed(body)?;
        let most = match most(arguments.pod.unwrap_or_default()) {
            Ok(most) => most,
            Err(error) => {
                return written(&FilterResult {
                    error,
                    ..FilterResult::default()
                })
            }
        };
        match (arguments.node_names, arguments.nodes) {
            (Some(names), _) => {
                let names = names.all()?;
                let mut result = FilterResult::default();
                let kept = result.split(&names, names.iter(), self.refused(&names, most), most);
                result.node_names = Some(kept);
                written(&result)
            }
            (None, Some(list)) => {
                let items = list.items.map_or(Ok(Vec::new()), Bounded::all)?;
                let names: Vec<Name<'_>> = items
                    .iter()
                    .map(|node| name(node))
                    .collect::<Result<_, _>>()?;
                let mut result = FilterResult::default();
                let refused = self.refused(&names, most);
                let items = result.split(&names, items.into_iter(), refused, most);
                result.nodes = Some(KeptNodes {
                    metadata: list.metadata,
                    items,
                });
                written(&result)
            }
            (None, None) => Err(senseless(NEITHER)),
        }
    }

    /// Why each of these nodes cannot be used, if it cannot.
    fn refused(&self, names: &[Name<'_>], most: Option<u64>) -> Vec<Option<Refused>> {
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

/// The name of a node that was sent as a whole.
fn name(node: &RawValue) -> Result<Name<'_>, Answer> {
    let node: super::Node<'_> = serde_json::from_str(node.get())
        .map_err(|error| senseless(&format!("a node has no name: {error}")))?;
    Ok(node.metadata.name)
}

impl<'a> FilterResult<'a> {
    /// The ones that can be used; the others are noted with what is to be said.
    fn split<T>(
        &mut self,
        names: &'a [Name<'a>],
        all: impl Iterator<Item = T>,
        refused: Vec<Option<Refused>>,
        most: Option<u64>,
    ) -> Vec<T> {
        let mut kept = Vec::new();
        for ((name, one), refused) in names.iter().zip(all).zip(refused) {
            match refused {
                None => kept.push(one),
                Some(Refused::Lost) => {
                    let said = "all GPUs of the node are lost";
                    self.failed_and_unresolvable_nodes
                        .insert(name.as_ref(), said);
                }
                Some(Refused::Loses(loss)) => {
                    let most = most.unwrap_or(0);
                    let said = format!(
                        "a program loses {loss} % of its speed on the best GPU, {MAX_LOSS} allows {most}"
                    );
                    self.failed_nodes.insert(name.as_ref(), said);
                }
            }
        }
        kept
    }
}

/// What a pod allows, in percent.
fn most(pod: Pod<'_>) -> Result<Option<u64>, String> {
    let annotations = pod.metadata.annotations.unwrap_or_default();
    let Some(text) = annotations.max_loss else {
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
