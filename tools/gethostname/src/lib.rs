// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The host's name, in place of the crate `gethostname`, which x11rb uses to find the entry of
//! this host in the X server's list of cookies.

use std::ffi::OsString;

/// The name of this host; empty if the kernel does not tell it.
pub fn gethostname() -> OsString {
    nix::unistd::gethostname().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn name_is_that_of_the_kernel() {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
        assert_eq!(super::gethostname(), kernel.trim_end());
    }
}
