// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Records of the context switches of the graphics and compute engine.
//!
//! The engine's firmware (FECS) notes each switch with the GPU's time; RM copies the notes every 33
//! ms into the buffers of those who asked, with the process of the context. A caller outside the
//! kernel gets the beginning of each piece and its end.
//!
//! | file | contents |
//! |---|---|
//! | [`buffer`] | reads what is new in a buffer, and finds what was dropped |
//! | [`summary`] | from records to time per process, pieces and switches |
//! | [`spread`] | how lengths are distributed |
//! | [`live`] | gets a buffer from RM and empties it while something runs |

pub(crate) mod buffer;
pub(crate) mod live;
pub(crate) mod spread;
pub(crate) mod summary;
