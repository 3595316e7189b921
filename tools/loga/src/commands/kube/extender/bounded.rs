// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Lists of nodes in a request, of which a bounded number is kept, and names that stay in the
//! request where they can: whoever reaches the address can send anything, and several requests are
//! answered at a time.

use crate::http::Answer;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Most nodes of a request. Kubernetes supports as many in a cluster.
///
/// Source: "Considerations for large clusters" of its documentation.
pub const NODES_MAX: usize = 5000;

/// The name of a node, copied only if it is written with escapes.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl AsRef<str> for Name<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// A list of which [`NODES_MAX`] entries at most are kept.
#[derive(Debug)]
pub(super) struct Bounded<T> {
    kept: Vec<T>,
    is_longer: bool,
}

impl<T> Bounded<T> {
    /// All entries.
    ///
    /// # Errors
    ///
    /// A refusal if there were more than were kept.
    pub(super) fn all(self) -> Result<Vec<T>, Answer> {
        if self.is_longer {
            let said = format!("a list of more than {NODES_MAX} nodes, want fewer");
            return Err(Answer::said("413 Content Too Large", &said));
        }
        Ok(self.kept)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Each(PhantomData))
    }
}

struct Each<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Each<T> {
    type Value = Bounded<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Bounded<T>, A::Error> {
        let mut all = Bounded {
            kept: Vec::new(),
            is_longer: false,
        };
        while all.kept.len() < NODES_MAX {
            let Some(one) = list.next_element()? else {
                return Ok(all);
            };
            all.kept.push(one);
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            all.is_longer = true;
        }
        Ok(all)
    }
}
