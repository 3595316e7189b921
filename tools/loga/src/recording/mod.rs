// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Recordings: files of JSON lines that say what every client, user and cgroup got over time.
//!
//! | file | contents |
//! |---|---|
//! | [`layout`] | the lines |
//! | [`columns`] | who had what when, for pictures |
//! | [`convert`] | the same in the layouts of other programs: line by line |
//! | [`day`] | the calendar |
//! | [`difference`] | what each got between two readings |
//! | [`known`] | which lines are about the same client |
//! | [`recorder`] | follows the kernel module and writes lines |
//! | [`reader`] | reads lines |
//! | [`sink`] | the file that is written: it always ends with a whole line |
//! | [`summary`], [`page`] | who got how much, and a page of it |
//! | [`table`] | CSV |
//! | [`trace`] | traces for Perfetto |

pub mod columns;
pub mod convert;
pub mod day;
pub mod difference;
pub mod known;
pub mod layout;
pub mod page;
pub mod reader;
pub mod recorder;
pub mod sink;
pub mod summary;
pub mod table;
pub mod trace;
