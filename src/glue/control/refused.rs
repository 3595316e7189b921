// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Refusals of `/dev/loga` as an errno: the only place that maps them.

use crate::error;
use crate::uapi::{self, Refusal};
use kernel::prelude::*;

/// Why a call is refused: an errno, and for most causes the valid values.
pub(crate) struct Refused {
    pub(crate) errno: Error,
    pub(crate) why: Refusal,
}

impl From<Error> for Refused {
    fn from(errno: Error) -> Self {
        let why = Refusal::default();
        Self { errno, why }
    }
}

impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Self {
        let errno = match why.code {
            uapi::REFUSED_UNKNOWN_SUBJECT => ESRCH,
            uapi::REFUSED_FULL => ENOSPC,
            uapi::REFUSED_NOT_SET => ENOENT,
            uapi::REFUSED_CHANGED => EAGAIN,
            uapi::REFUSED_NOT_LOWER
            | uapi::REFUSED_NOT_IDLE
            | uapi::REFUSED_NOT_OWN
            | uapi::REFUSED_CHANGE
            | uapi::REFUSED_READ => EPERM,
            _ => EINVAL,
        };
        Self { errno, why }
    }
}

impl From<error::Error> for Refused {
    fn from(cause: error::Error) -> Self {
        Refusal::from(cause).into()
    }
}
