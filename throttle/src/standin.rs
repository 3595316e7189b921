// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The backend for the driver stand-in: the sequence CUDA 6 uses on Kepler.

use crate::backend::Backend;
use crate::channel::{Channel, Layout, Share};
use crate::error::Error;
use crate::plan::{Engine, Plan, Wait};
use crate::rm;
use crate::rm::{Client, Handle};
use nix::poll::{poll, PollFd, PollFlags};
use std::fs::File;
use std::os::fd::AsFd;
use std::rc::Rc;

/// Events consumed in one go; the rest stay for the next wait.
const EVENTS_MAX: u32 = 4096;

/// A client with all its channels; the first one runs the kernels.
#[derive(Debug)]
pub struct Standin {
    channels: Vec<Channel>,
    event: Option<File>,
    client: Client,
}

impl Standin {
    /// Opens the nodes and allocates what the plan asks for.
    ///
    /// # Errors
    ///
    /// A node missing, a call refused, a mapping failed.
    pub fn open(plan: &Plan) -> Result<Self, Error> {
        let mut client = Client::open(plan.gpu())?;
        let event = match plan.wait {
            Wait::Block => Some(client.alloc_event()?),
            Wait::Spin => None,
        };
        let channels = open_channels(&mut client, plan.channels, plan.depth, plan.engine)?;
        Ok(Standin {
            channels,
            event,
            client,
        })
    }

    /// The client.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Its channels.
    pub fn channels(&mut self) -> &mut Vec<Channel> {
        &mut self.channels
    }

    fn first(&mut self) -> &mut Channel {
        // PANIC: a plan has at least one channel, and only tests of other programs remove them.
        self.channels.first_mut().expect("a channel")
    }
}

/// Allocates channels that share one memory object.
///
/// # Errors
///
/// A call refused or a mapping failed.
pub fn open_channels(
    client: &mut Client,
    count: u32,
    depth: u32,
    engine: Engine,
) -> Result<Vec<Channel>, Error> {
    let device = client.device();
    open_channels_in(client, device, count, depth, engine)
}

/// As [`open_channels`], in a group of channels or in none: under the device.
///
/// # Errors
///
/// A call refused or a mapping failed.
pub fn open_channels_in(
    client: &mut Client,
    parent: Handle,
    count: u32,
    depth: u32,
    engine: Engine,
) -> Result<Vec<Channel>, Error> {
    let layout = Layout::for_depth(depth);
    let memory = Rc::new(client.alloc_memory(layout.length * u64::from(count))?);
    (0..count)
        .map(|i| {
            let share = Share {
                memory: memory.clone(),
                start: layout.length * u64::from(i),
            };
            Channel::open(client, parent, share, layout, engine)
        })
        .collect()
}

impl Backend for Standin {
    fn depth_max(&self) -> u32 {
        self.channels.first().map_or(0, Channel::depth_max)
    }

    fn prepare(&mut self, length_ns: u64, notify: bool) -> u32 {
        self.first().prepare(length_ns, notify)
    }

    fn submit(&mut self) -> Result<(), Error> {
        self.first().submit();
        Ok(())
    }

    fn completed(&mut self) -> Result<u32, Error> {
        Ok(self.first().completed())
    }

    fn wait(&mut self, limit_ms: u16) -> Result<(), Error> {
        let Some(event) = &self.event else {
            return Ok(());
        };
        let mut files = [PollFd::new(event.as_fd(), PollFlags::POLLIN)];
        match poll(&mut files, limit_ms) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => return Ok(()),
            Ok(_) => {}
            Err(errno) => {
                return Err(Error::Call {
                    call: "poll",
                    source: errno.into(),
                })
            }
        }
        for _ in 0..EVENTS_MAX {
            if !rm::take_event(event)? {
                break;
            }
        }
        Ok(())
    }
}
