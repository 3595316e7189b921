// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Kernels on an OpenCL library. OpenCL has no timer that a kernel could read: they loop.

use super::opencl_calls::{Event, Program};
use super::queue::Device;
use crate::error::Error;
use crate::lengths::Timer;
use crate::log::Span;
use crate::plan::{Plan, DEPTH_MAX};
use std::ffi::CString;

const SOURCE: &str = include_str!("spin.cl");

/// A device and its kernel.
#[derive(Debug)]
pub(super) struct OpenCl {
    program: Program,
}

impl OpenCl {
    /// Opens the device and builds the kernel.
    pub(super) fn open(plan: &Plan) -> Result<Self, Error> {
        // PANIC: the text is a constant without a zero byte.
        let source = CString::new(SOURCE).expect("no zero byte");
        Ok(OpenCl {
            program: Program::open(plan.gpu(), &source, c"spin")?,
        })
    }
}

impl Device for OpenCl {
    type Kernel = Event;

    fn timer(&self) -> Timer {
        Timer::Loop
    }

    fn name(&self) -> String {
        self.program.name.clone()
    }

    fn library(&self) -> String {
        self.program.platform.clone()
    }

    fn depth_max(&self) -> u32 {
        DEPTH_MAX
    }

    fn launch(&mut self, units: u64) -> Result<Event, Error> {
        self.program.launch(units)
    }

    fn ended(&mut self, kernel: &Event) -> Result<bool, Error> {
        self.program.ended(kernel)
    }

    fn wait(&mut self, kernel: &Event) -> Result<(), Error> {
        self.program.wait(kernel)
    }

    fn length_ns(&mut self, kernel: Event) -> Result<u64, Error> {
        self.program.span(kernel).map(|span| span.length_ns)
    }

    fn span(&mut self, kernel: Event) -> Result<Span, Error> {
        self.program.span(kernel)
    }

    fn moment_ns(&mut self) -> Result<u64, Error> {
        let kernel = self.program.launch(1)?;
        self.program.wait(&kernel)?;
        let span = self.program.span(kernel)?;
        Ok(span.started_ns.saturating_add(span.length_ns))
    }
}
