// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The period of a GPU: its threads read the status word, and decide.
//!
//! | file | contents |
//! |---|---|
//! | `phase` | state of the poller, and results of a polling phase |
//! | `poller`, `shared_poller` | the poll loop: a thread for each GPU, or one for all |
//! | `sampler` | the status word at random instants: a timer |
//! | `main_thread` | sleeps until the engine's next deadline, and carries out its actions |
//! | `main_state` | what only that thread uses |
//! | `decisions` | the end of a phase, and what was decided |
//! | `policy_inputs` | inputs of policies other than GPU time |
//! | `latencies` | durations of operations |

mod decisions;
pub(crate) mod latencies;
mod main_state;
pub(in crate::glue::gpu) mod main_thread;
pub(in crate::glue::gpu) mod phase;
mod policy_inputs;
pub(in crate::glue::gpu) mod poller;
mod sampler;
pub(crate) mod shared_poller;
