// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga top`: what it shows and how it answers keys, without a terminal.
//!
//! | file | contents |
//! |---|---|
//! | [`app`] | the state: figures, and what keys do to it |
//! | `layout` | how the lines of a screen are divided |
//! | `summary` | the lines about GPUs |
//! | `help` | the help |
//! | `plain` | what is left on terminals without colours or UTF-8 |
//! | `figures` | one GPU's figures and their history |
//! | `rows` | the lines of the table, and their order |
//! | [`view`] | the screen |

pub mod app;
mod figures;
mod help;
mod layout;
mod plain;
mod rows;
mod summary;
pub mod view;
