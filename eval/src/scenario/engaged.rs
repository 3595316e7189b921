// SPDX-License-Identifier: GPL-2.0

//! What a scenario says for engaged scheduling, checked.

use super::file::{self, File, ReserveKind, Sched, WrittenTerms};
use super::plain::{Client, Error};
use super::promise::{Engagement, Promise, Shared};
use super::text::Text;
use loga::engaged::{Kind, Mode, Prio, Terms};
use toml::Spanned;

/// All shared reserves of a file.
pub(super) fn shared(source: &Text, file: &File) -> Result<Vec<Shared>, Error> {
    let mut all: Vec<Shared> = Vec::new();
    for one in &file.reserves {
        let name = one.name.get_ref();
        if all.iter().any(|other| other.name == *name) {
            let reason = format!("a second reserve {name:?}, want another name");
            return Err(source.error(one.name.span(), reason));
        }
        all.push(Shared {
            name: name.clone(),
            terms: terms(source, &one.terms)?,
        });
    }
    Ok(all)
}

/// What a client says.
pub(super) fn engagement(
    source: &Text,
    one: &file::Client,
    shared: &[Shared],
) -> Result<Engagement, Error> {
    let prio = match &one.prio {
        None => Prio::LOWEST,
        Some(prio) => {
            let number = source.number("prio", prio, 0, Prio::HIGHEST.get().into())?;
            // CAST: checked to be in range.
            Prio::new(number as u32).unwrap_or_default()
        }
    };
    let promise = match (&one.reserve, &one.shares) {
        (Some(_), Some(shares)) => {
            let reason = "reserve and shares, want one of them";
            return Err(source.error(shares.span(), reason));
        }
        (Some(own), None) => Some(Promise::Own(terms(source, own)?)),
        (None, Some(name)) => {
            let wanted = name.get_ref();
            let Some(at) = shared.iter().position(|one| one.name == *wanted) else {
                let names: Vec<_> = shared.iter().map(|one| one.name.as_str()).collect();
                let reason = format!("no reserve {wanted:?}, want one of: {}", names.join(", "));
                return Err(source.error(name.span(), reason));
            };
            Some(Promise::Shared(at))
        }
        (None, None) => None,
    };
    Ok(Engagement {
        prio,
        mode: match one.sched {
            Sched::Prt => Mode::Prt,
            Sched::Ht => Mode::Ht,
            Sched::Protected => Mode::Protected,
        },
        promise,
    })
}

/// Checks that the clients of a reserve agree on their mode, which the module sets for the reserve.
pub(super) fn modes(
    source: &Text,
    file: &File,
    clients: &[Client],
    shared: &[Shared],
) -> Result<(), Error> {
    for (at, reserve) in shared.iter().enumerate() {
        let joins = |one: &&Client| one.engaged.promise == Some(Promise::Shared(at));
        let mut joined = clients.iter().filter(joins);
        let Some(first) = joined.next() else {
            continue;
        };
        if let Some(other) = joined.find(|one| one.engaged.mode != first.engaged.mode) {
            let reason = format!(
                "clients {:?} and {:?} of reserve {:?} have two sched, want one: it is that of the \
                 reserve",
                first.name, other.name, reserve.name
            );
            return Err(source.error(file.clients.span(), reason));
        }
    }
    Ok(())
}

fn terms(source: &Text, written: &Spanned<WrittenTerms>) -> Result<Terms, Error> {
    let one = written.get_ref();
    let kind = match one.kind {
        ReserveKind::Pe => Kind::Pe,
        ReserveKind::Ae => Kind::Ae,
        ReserveKind::Cbs => Kind::Cbs,
    };
    let wrong = |error: loga::error::Error| source.error(written.span(), error.to_string());
    let terms = Terms::new(kind, one.capacity_us.0, one.period_us.0).map_err(wrong)?;
    let terms = Terms {
        hard: !one.soft,
        longest: one.longest_us.map(|longest| longest.0),
        ..terms
    };
    match one.deadline_us {
        Some(deadline) => terms.due(deadline.0).map_err(wrong),
        None => Ok(terms),
    }
}
