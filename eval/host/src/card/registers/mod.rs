// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The registers that LoGA reads, asked for in two ways; nothing is ever written.
//!
//! | file | contents |
//! |---|---|
//! | [`decode`] | what the words mean |
//! | [`bar0`] | reads words of BAR0, page by page |
//! | [`survey`] | the words that are read, in order |
//! | [`controls`] | what RM tells or reads on behalf of a client |
//! | [`sampler`] | time per channel group, by samples of the status word |

pub(crate) mod bar0;
pub(crate) mod controls;
pub(crate) mod decode;
pub(crate) mod sampler;
pub(crate) mod survey;
