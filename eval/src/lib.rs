// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What LoGA's rules give on the model's GPU: with costs, and on an ideal one.
//!
//! The simulator: [`scenario`] is what is asked, [`world`] the GPU and its clients,
//! [`control`] the schedulers, [`run`] one run, [`outcome`] its result, [`oracle`] checks of it,
//! [`report`] the printed report; [`compare`] puts policies side by side; [`arrivals`] places
//! programs on several GPUs as they arrive, [`placing`] those of a scenario;
//! [`recorded`] makes a choice of `loga place` again; [`replay`] gives recorded observations to a
//! policy; [`paper`] are experiments of the LoGA
//! paper, [`results`] the file that each is kept in, [`session`] runs them all, [`findings`] says
//! which of the paper's are the same here, [`draw`] and [`page`] show them. [`systems`] has
//! experiments of papers on other systems.
//!
//! [`ideal`] is the same simulator without costs. On it, [`mod@reference`] is the table of shares that
//! a bench on the model is compared with, for the loads of [`mixes`]; [`accuracy`] says what
//! accounting costs and how wrong it is; [`convergence`] how soon a client that comes has its
//! share. [`output`] prints.

pub mod accuracy;
pub mod arrivals;
pub mod compare;
pub mod control;
pub mod convergence;
pub mod findings;
pub mod ideal;
pub mod mixes;
pub mod oracle;
pub mod outcome;
pub mod output;
pub mod page;
pub mod paper;
pub mod placing;
pub mod recorded;
pub mod reference;
pub mod replay;
pub mod report;
pub mod run;
pub mod scale;
pub mod scenario;
pub mod session;
pub mod systems;
pub mod together;
pub mod world;

pub use loga_draw as draw;
pub use loga_results as results;
pub use loga_results::whole;
