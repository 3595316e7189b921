// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Loading a library at run time and finding its calls.

use crate::error::Error;
use libloading::Library;

/// Loads a library by name, where the system's loader finds it.
pub(super) fn load(name: &'static str) -> Result<Library, Error> {
    // SAFETY: the initialisers of CUDA's and OpenCL's libraries are made to be run by dlopen; a
    // library installed under this name is trusted as by any program linked with it.
    unsafe { Library::new(name) }.map_err(|error| Error::Library {
        name,
        reason: error.to_string(),
    })
}

/// The address of a call, typed by the caller.
///
/// # Safety
///
/// `T` must be the call's `extern "C"` function pointer type, and it must not be used after the
/// library is dropped.
pub(super) unsafe fn find<T: Copy>(
    library: &Library,
    name: &'static str,
    symbol: &'static str,
) -> Result<T, Error> {
    // SAFETY: the caller vouches for the type.
    let found = unsafe { library.get::<T>(symbol.as_bytes()) };
    found.map(|found| *found).map_err(|error| Error::Library {
        name,
        reason: format!("it lacks {symbol}: {error}"),
    })
}

/// Declares a structure of calls with `fn load()`, which finds all of them in a library.
macro_rules! calls {
    (
        $(#[$doc:meta])*
        $name:ident in $library:literal {
            $($call:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)+
        }
    ) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the library's own names")]
        #[derive(Debug)]
        pub(super) struct $name {
            $(pub(super) $call: unsafe extern "C" fn($($argument),*) $(-> $result)?,)+
            /// Kept loaded as long as the calls are there.
            #[allow(dead_code, reason = "some load more calls from it, some only keep it")]
            pub(super) library: libloading::Library,
        }

        #[allow(non_snake_case, reason = "the library's own names")]
        impl $name {
            /// Loads the library and finds the calls.
            pub(super) fn load() -> Result<Self, $crate::error::Error> {
                let library = $crate::gpu::library::load($library)?;
                $(
                    // SAFETY: the type is that of the library's header, and the pointer is dropped
                    // together with the library.
                    let $call = unsafe {
                        $crate::gpu::library::find(&library, $library, stringify!($call))
                    }?;
                )+
                Ok($name { $($call,)+ library })
            }
        }
    };
}

pub(super) use calls;
