// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Calls that need no client, and what all calls have in common.

use crate::error::Error;
use crate::sys::{self, Plain};
use loga::rm::class::status;
use loga::rm::{self, class, nr};
use std::fs::File;
use std::os::fd::AsFd;

/// Version of the user library this client pretends to be.
const LIBRARY_VERSION: &str = "470.256.02";

/// Consumes one event of a file; `true` if another one waits.
///
/// # Errors
///
/// [`Error::Call`] or [`Error::Refused`], naming GET_EVENT_DATA.
pub fn take_event(file: &File) -> Result<bool, Error> {
    const CALL: &str = "GET_EVENT_DATA";
    let mut event = rm::UnixEvent::default();
    let mut arg = rm::GetEventData::default();
    sys::call(
        file.as_fd(),
        nr::GET_EVENT_DATA,
        &mut arg,
        &mut event,
        |arg, at| arg.event = at,
    )
    .map_err(|source| Error::Call { call: CALL, source })?;
    granted(CALL, arg.status)?;
    Ok(arg.more != 0)
}

/// Asks whether the driver knows this library's version; the answer is not acted on.
///
/// # Errors
///
/// [`Error::Call`], naming CHECK_VERSION_STR.
pub fn check_version(ctl: &File) -> Result<rm::ApiVersion, Error> {
    let mut arg = rm::ApiVersion {
        cmd: u32::from(b'1'),
        ..Default::default()
    };
    arg.version[..LIBRARY_VERSION.len()].copy_from_slice(LIBRARY_VERSION.as_bytes());
    call("CHECK_VERSION_STR", ctl, nr::CHECK_VERSION_STR, &mut arg)?;
    Ok(arg)
}

/// The cards the driver knows.
///
/// # Errors
///
/// [`Error::Call`], naming CARD_INFO.
pub fn card_info(ctl: &File) -> Result<Vec<rm::CardInfo>, Error> {
    let mut cards = [rm::CardInfo::default(); rm::CARDS_MAX];
    call("CARD_INFO", ctl, nr::CARD_INFO, &mut cards)?;
    Ok(cards.into_iter().filter(|card| card.valid != 0).collect())
}

pub(super) fn call<T: Plain>(
    name: &'static str,
    file: &File,
    nr: u32,
    arg: &mut T,
) -> Result<(), Error> {
    sys::call(file.as_fd(), nr, arg, &mut (), |_, _| ())
        .map_err(|source| Error::Call { call: name, source })
}

pub(super) fn granted(call: &'static str, value: u32) -> Result<(), Error> {
    if value == status::OK {
        Ok(())
    } else {
        Err(Error::Refused {
            call,
            status: value,
        })
    }
}

/// What an RM_ALLOC of a class is called in messages.
pub(super) fn alloc_name(value: u32) -> &'static str {
    match value {
        class::ROOT | class::ROOT_CLIENT => "RM_ALLOC(client)",
        class::DEVICE => "RM_ALLOC(device)",
        class::SUBDEVICE => "RM_ALLOC(subdevice)",
        class::CHANNEL_GPFIFO_A | class::CHANNEL_GPFIFO_B => "RM_ALLOC(channel)",
        class::EVENT_OS_EVENT => "RM_ALLOC(event)",
        _ => "RM_ALLOC",
    }
}
