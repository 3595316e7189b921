// SPDX-License-Identifier: GPL-2.0

//! [tool] What LoGA's rules give: on an ideal GPU, and on the model's GPU with costs.
//!
//! The reference: [`sim`] is a discrete-event calculation that drives the accounting, the engine
//! and the policies of the kernel module; [`mixes`] are the loads it is asked about;
//! [`reference`] is the table that a bench on the model is compared with.
//!
//! The simulator `loga-sim`: [`scenario`] is what is asked, [`world`] the GPU and its clients,
//! [`control`] who schedules, [`run`] one run, [`oracle`] what has to be so, [`report`] what is
//! printed; [`compare`] puts policies side by side;
//! [`replay`] gives recorded observations to a policy; [`paper`] are experiments of the LoGA
//! paper, [`results`] the file that each is kept in, [`session`] runs them all, [`findings`] says
//! which of the paper's are the same here, [`draw`] and [`page`] show them.
//!
//! [`sharing`] is about weights, limits, classes and groups; [`accuracy`] about what accounting
//! costs and how wrong it is; [`convergence`] about how soon who comes has its share. [`output`]
//! prints.

pub mod accuracy;
pub mod compare;
pub mod control;
pub mod convergence;
pub mod draw;
pub mod findings;
pub mod mixes;
pub mod oracle;
pub mod output;
pub mod page;
pub mod paper;
pub mod reference;
pub mod replay;
pub mod report;
pub mod run;
pub mod scenario;
pub mod session;
pub mod sharing;
pub mod sim;
pub mod world;

pub use loga_results as results;
pub use loga_results::whole;
