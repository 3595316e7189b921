// SPDX-License-Identifier: GPL-2.0

//! [glue] Tables in vectors of the kernel.

use crate::storage::Storage;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
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
    let mut store = KVVec::new();
    store.extend_with(count, T::default(), GFP_KERNEL_ACCOUNT)?;
    Ok(store)
}
