// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The calls of `/dev/loga` as this program uses them, over anything that answers them: the
//! device itself, or a double in tests.

mod calls;

pub use calls::{Calls, Tables};

use crate::error::Error;
use loga::uapi;
use loga::uapi::{Call, Header, Refusal};
use std::io;
use std::time::Duration;

/// Room for this many elements of each table at first.
const ROOM: usize = 256;

/// Most elements of a table accepted from the kernel; more than any chip has channels.
const ROOM_MAX: usize = 65_536;

/// Most GPUs in one machine.
const GPUS_MAX: u32 = 256;

/// TIMEOUT: calls repeated until the tables fit; they grow between two calls only by what starts
/// meanwhile.
const TRIES: u32 = 8;

/// Everything the kernel says about one GPU at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Index of the GPU.
    pub gpu: u32,
    /// The GPU itself.
    pub info: uapi::Gpu,
    /// Its clients.
    pub clients: Vec<uapi::Client>,
    /// What it is divided between.
    pub groups: Vec<uapi::Group>,
    /// Channels with a known submission page.
    pub channels: Vec<uapi::Channel>,
}

/// The calls, with what their failures mean.
#[derive(Debug)]
pub struct Control<C>(C);

impl<C: Calls> Control<C> {
    /// Over something that answers calls.
    pub const fn over(calls: C) -> Self {
        Control(calls)
    }

    /// A snapshot of one GPU.
    ///
    /// # Errors
    ///
    /// Those of a call; for a GPU that does not exist, one that says which do.
    pub fn snapshot(&self, gpu: u32) -> Result<Snapshot, Error> {
        self.take(gpu).map_err(|error| self.which_gpus(error))
    }

    /// Snapshots of all GPUs.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub fn all(&self) -> Result<Vec<Snapshot>, Error> {
        let mut all = Vec::new();
        for gpu in 0..GPUS_MAX {
            match self.take(gpu) {
                Ok(snapshot) => all.push(snapshot),
                Err(Error::NoGpu { .. }) if gpu > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Snapshots of one GPU, or of all.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub fn chosen(&self, gpu: Option<u32>) -> Result<Vec<Snapshot>, Error> {
        match gpu {
            Some(gpu) => self.snapshot(gpu).map(|one| vec![one]),
            None => self.all(),
        }
    }

    /// Sets or clears a weight, limit or class; the header of the argument is filled in.
    ///
    /// # Errors
    ///
    /// Those of a call.
    pub fn set_share(&self, wanted: &uapi::SetShare) -> Result<(), Error> {
        let Header { version, size } = Call::SetShare.header();
        let mut argument = uapi::SetShare {
            version,
            size,
            ..*wanted
        };
        let result = self.0.set_share(&mut argument);
        let answer = (argument.version, argument.size);
        let refusal = Some(argument.refusal);
        self.meaning(Call::SetShare, result, wanted.gpu, answer, refusal)
    }

    /// Sets the policy and knobs; the header of the argument is filled in.
    ///
    /// # Errors
    ///
    /// Those of a call.
    pub fn configure(&self, wanted: &uapi::Configure) -> Result<(), Error> {
        let Header { version, size } = Call::Configure.header();
        let mut argument = uapi::Configure {
            version,
            size,
            ..*wanted
        };
        let result = self.0.configure(&mut argument);
        let answer = (argument.version, argument.size);
        let refusal = Some(argument.refusal);
        self.meaning(Call::Configure, result, wanted.gpu, answer, refusal)
    }

    /// Sets or clears priority, mode and reserve; the header of the argument is filled in.
    ///
    /// # Errors
    ///
    /// Those of a call.
    pub fn set_spec(&self, wanted: &uapi::SetSpec) -> Result<(), Error> {
        let Header { version, size } = Call::SetSpec.header();
        let mut argument = uapi::SetSpec {
            version,
            size,
            ..*wanted
        };
        let result = self.0.set_spec(&mut argument);
        let answer = (argument.version, argument.size);
        let refusal = Some(argument.refusal);
        self.meaning(Call::SetSpec, result, wanted.gpu, answer, refusal)
    }

    /// Claims a GPU for this process, or takes its claims back; the header of the argument is filled
    /// in. Returns the number of the claims after it.
    ///
    /// # Errors
    ///
    /// Those of a call; [`Error::Refused`] with [`uapi::REFUSED_CHANGED`] if claims were made since
    /// the snapshots were taken.
    pub fn claim(&self, wanted: &uapi::Claim) -> Result<u64, Error> {
        let Header { version, size } = Call::Claim.header();
        let mut argument = uapi::Claim {
            version,
            size,
            ..*wanted
        };
        let result = self.0.claim(&mut argument);
        let answer = (argument.version, argument.size);
        let refusal = Some(argument.refusal);
        self.meaning(Call::Claim, result, wanted.gpu, answer, refusal)?;
        Ok(argument.seen)
    }

    /// Weights, limits and classes that are set on one GPU.
    ///
    /// # Errors
    ///
    /// Those of a call.
    pub fn shares(&self, gpu: u32) -> Result<Vec<uapi::Share>, Error> {
        self.list(Call::ListShares, gpu, |Header { version, size }, shares| {
            let mut argument = uapi::ListShares {
                version,
                size,
                gpu,
                count: length(shares),
                shares: 0,
            };
            let result = self.0.list_shares(&mut argument, shares);
            let answer = (argument.version, argument.size);
            (result, answer, argument.count)
        })
    }

    /// Priorities, modes and reserves that are set on one GPU.
    ///
    /// # Errors
    ///
    /// Those of a call.
    pub fn specs(&self, gpu: u32) -> Result<Vec<uapi::ListedSpec>, Error> {
        self.list(Call::ListSpecs, gpu, |Header { version, size }, specs| {
            let mut argument = uapi::ListSpecs {
                version,
                size,
                gpu,
                count: length(specs),
                specs: 0,
            };
            let result = self.0.list_specs(&mut argument, specs);
            let answer = (argument.version, argument.size);
            (result, answer, argument.count)
        })
    }

    /// A whole table. `ask` calls with a header and room, and returns the result, the header of the
    /// answer, and how many elements there are.
    fn list<T: Clone + Default>(
        &self,
        call: Call,
        gpu: u32,
        ask: impl Fn(Header, &mut Vec<T>) -> (io::Result<()>, (u32, u32), u32),
    ) -> Result<Vec<T>, Error> {
        let mut table = vec![T::default(); ROOM];
        for _ in 0..TRIES {
            let (result, answer, count) = ask(call.header(), &mut table);
            self.meaning(call, result, gpu, answer, None)?;
            if grow(&mut table, count)? {
                table.truncate(count as usize);
                return Ok(table);
            }
        }
        Err(Error::Failed(call, io::ErrorKind::WouldBlock.into()))
    }

    /// The totals of one kind on one GPU; with `reset` they begin anew.
    ///
    /// What the kernel had no room for it did not reset: those totals come with a further call.
    ///
    /// # Errors
    ///
    /// Those of a call.
    pub fn totals(&self, gpu: u32, kind: u32, reset: bool) -> Result<Vec<uapi::Total>, Error> {
        let Header { version, size } = Call::ReadTotals.header();
        let mut kept = Vec::new();
        let mut totals = vec![uapi::Total::default(); ROOM];
        for _ in 0..TRIES {
            let room = length(&totals);
            let mut argument = uapi::ReadTotals {
                version,
                size,
                gpu,
                flags: if reset { uapi::TOTALS_RESET } else { 0 },
                kind,
                count: room,
                ..Default::default()
            };
            let result = self.0.read_totals(&mut argument, &mut totals);
            let answer = (argument.version, argument.size);
            let refusal = Some(argument.refusal);
            self.meaning(Call::ReadTotals, result, gpu, answer, refusal)?;
            let count = argument.count;
            if reset || count <= room {
                kept.extend_from_slice(&totals[..count.min(room) as usize]);
            }
            if grow(&mut totals, count)? {
                return Ok(kept);
            }
        }
        Err(Error::Failed(
            Call::ReadTotals,
            io::ErrorKind::WouldBlock.into(),
        ))
    }

    /// Subscribes to the kinds of events in `mask` on one GPU or [`uapi::ALL_GPUS`].
    ///
    /// # Errors
    ///
    /// Those of a call.
    pub fn subscribe(&self, gpu: u32, mask: u64) -> Result<(), Error> {
        let Header { version, size } = Call::Subscribe.header();
        let mut argument = uapi::Subscribe {
            version,
            size,
            gpu,
            mask,
            ..Default::default()
        };
        let result = self.0.subscribe(&mut argument);
        let answer = (argument.version, argument.size);
        let refusal = Some(argument.refusal);
        self.meaning(Call::Subscribe, result, gpu, answer, refusal)
    }

    /// Waits for events at most for `timeout`; returns how many of `events` were filled.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`].
    pub fn events(&self, events: &mut [uapi::Event], timeout: Duration) -> Result<usize, Error> {
        match self.0.read_events(events, timeout) {
            Ok(count) => Ok(count.min(events.len())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            // Another reader of the file was faster.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(Error::Failed(Call::Subscribe, error)),
        }
    }

    fn take(&self, gpu: u32) -> Result<Snapshot, Error> {
        let Header { version, size } = Call::Snapshot.header();
        let mut tables = Tables {
            clients: vec![uapi::Client::default(); ROOM],
            groups: vec![uapi::Group::default(); ROOM],
            channels: vec![uapi::Channel::default(); ROOM],
        };
        for _ in 0..TRIES {
            let mut argument = uapi::Snapshot {
                version,
                size,
                gpu,
                client_count: length(&tables.clients),
                group_count: length(&tables.groups),
                channel_count: length(&tables.channels),
                ..Default::default()
            };
            if let Err(error) = self.0.snapshot(&mut argument, &mut tables) {
                let (version, size) = (argument.version, argument.size);
                let answer = Header { version, size };
                return Err(Error::of(Call::Snapshot, error, gpu, answer, None));
            }
            let fits = grow(&mut tables.clients, argument.client_count)?
                & grow(&mut tables.groups, argument.group_count)?
                & grow(&mut tables.channels, argument.channel_count)?;
            if fits {
                tables.clients.truncate(argument.client_count as usize);
                tables.groups.truncate(argument.group_count as usize);
                tables.channels.truncate(argument.channel_count as usize);
                return Ok(Snapshot {
                    gpu,
                    info: argument.info,
                    clients: tables.clients,
                    groups: tables.groups,
                    channels: tables.channels,
                });
            }
        }
        Err(Error::Failed(
            Call::Snapshot,
            io::ErrorKind::WouldBlock.into(),
        ))
    }

    fn meaning(
        &self,
        call: Call,
        result: io::Result<()>,
        gpu: u32,
        (version, size): (u32, u32),
        refusal: Option<Refusal>,
    ) -> Result<(), Error> {
        result.map_err(|error| {
            let answer = Header { version, size };
            self.which_gpus(Error::of(call, error, gpu, answer, refusal))
        })
    }

    /// Completes the error about a missing GPU.
    fn which_gpus(&self, error: Error) -> Error {
        match error {
            Error::NoGpu { gpu, .. } => {
                let there = (0..GPUS_MAX).take_while(|gpu| self.take(*gpu).is_ok());
                let known = u32::try_from(there.count()).ok();
                Error::NoGpu { gpu, known }
            }
            other => other,
        }
    }
}

/// Elements of a table, for the kernel.
fn length<T>(table: &[T]) -> u32 {
    u32::try_from(table.len()).unwrap_or(u32::MAX)
}

/// Makes room for `count` elements; `true` if there was enough.
fn grow<T: Clone + Default>(table: &mut Vec<T>, count: u32) -> Result<bool, Error> {
    let wanted = count as usize;
    if wanted <= table.len() {
        return Ok(true);
    }
    if wanted > ROOM_MAX {
        return Err(Error::Absurd(count));
    }
    // Some more than now, for those that start before the next try.
    table.resize(wanted + wanted / 4, T::default());
    Ok(false)
}

#[cfg(test)]
mod tests;
