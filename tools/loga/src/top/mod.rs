// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga top`: what it shows and how it answers keys, without a terminal.
//!
//! | file | contents |
//! |---|---|
//! | [`app`] | the state: figures, and what keys do to it |
//! | `figures` | one GPU's figures and their history |
//! | `rows` | the lines of the table, and their order |
//! | [`view`] | the screen |

pub mod app;
mod figures;
mod rows;
pub mod view;
