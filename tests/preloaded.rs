// SPDX-License-Identifier: GPL-2.0

//! The libraries of `tests/card` that are loaded into programs of others: the recorder and the hold.
//! No GPU: ordinary files stand in for nodes, and the programs are ours (`tests/preloaded`).

#[path = "preloaded/hold.rs"]
mod hold;
#[path = "preloaded/recorder.rs"]
mod recorder;
#[path = "preloaded/stage.rs"]
mod stage;
