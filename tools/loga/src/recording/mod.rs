// SPDX-License-Identifier: GPL-2.0

//! [tool] Recordings: files of JSON lines that say what every client, user and cgroup got over time.
//!
//! | file | contents |
//! |---|---|
//! | [`layout`] | the lines |
//! | [`difference`] | what each got between two readings |
//! | [`recorder`] | follows the kernel module and writes lines |
//! | [`sink`] | the file that is written: it always ends with a whole line |

pub mod difference;
pub mod layout;
pub mod recorder;
pub mod sink;
