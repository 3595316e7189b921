// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Tables in vectors of the kernel.

use crate::storage::Storage;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::alloc::Flags;
use kernel::prelude::*;

/// Tables in vectors of the kernel.
pub(crate) struct Vectors;

impl Storage for Vectors {
    type Of<T: 'static> = KVVec<T>;
}

/// Storage for `count` elements, charged to the caller.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn storage<T: Clone + Default>(count: usize) -> Result<KVVec<T>> {
    filled(count, GFP_KERNEL_ACCOUNT)
}

/// As [`storage`], charged to nobody: for tables with a bound that serve all users. The user who
/// happens to let one grow has no part in whether that works.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn common_storage<T: Clone + Default>(count: usize) -> Result<KVVec<T>> {
    filled(count, GFP_KERNEL)
}

fn filled<T: Clone + Default>(count: usize, flags: Flags) -> Result<KVVec<T>> {
    let mut store = KVVec::new();
    store.extend_with(count, T::default(), flags)?;
    Ok(store)
}
