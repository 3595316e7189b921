// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The calls of an OpenCL library, safe to use.
//!
//! Source: The OpenCL Specification 1.2, chapters 4 and 5; later versions have the same calls.

use super::library::calls;
use crate::error::Error;
use crate::log::Span;
use std::ffi::{c_char, c_void, CStr};
use std::ptr::{null, null_mut};

pub(super) const LIBRARY: &str = "libOpenCL.so.1";

const SUCCESS: i32 = 0;
const DEVICE_NOT_FOUND: i32 = -1;
/// What the loader library says when no implementation is installed.
const PLATFORM_NOT_FOUND: i32 = -1001;
const DEVICE_TYPE_ALL: u64 = 0xffff_ffff;
const DEVICE_TYPE_GPU: u64 = 1 << 2;
const DEVICE_TYPE: u32 = 0x1000;
const DEVICE_NAME: u32 = 0x102b;
const DEVICE_VERSION: u32 = 0x102f;
const PLATFORM_NAME: u32 = 0x0902;
const QUEUE_PROFILING: u64 = 1 << 1;
const PROGRAM_BUILD_LOG: u32 = 0x1183;
const EVENT_STATUS: u32 = 0x11d3;
const COMPLETE: i32 = 0;
const PROFILING_START: u32 = 0x1282;
const PROFILING_END: u32 = 0x1283;
const MEM_WRITE_ONLY: u64 = 1 << 1;

/// Most platforms, and most devices of one, that are listed.
const LIST_MAX: usize = 64;
const NAME_BYTES: usize = 256;
const LOG_BYTES: usize = 4096;

/// What the library calls cl_platform_id, cl_device_id, cl_context, ..
type Handle = *mut c_void;

calls! {
    /// Calls by their exported names.
    Calls in "libOpenCL.so.1" {
        clGetPlatformIDs(u32, *mut Handle, *mut u32) -> i32;
        clGetPlatformInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
        clGetDeviceIDs(Handle, u64, u32, *mut Handle, *mut u32) -> i32;
        clGetDeviceInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
        clCreateContext(
            *const isize, u32, *const Handle, *const c_void, *mut c_void, *mut i32,
        ) -> Handle;
        clCreateCommandQueue(Handle, Handle, u64, *mut i32) -> Handle;
        clCreateProgramWithSource(
            Handle, u32, *const *const c_char, *const usize, *mut i32,
        ) -> Handle;
        clBuildProgram(
            Handle, u32, *const Handle, *const c_char, *const c_void, *mut c_void,
        ) -> i32;
        clGetProgramBuildInfo(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> i32;
        clCreateKernel(Handle, *const c_char, *mut i32) -> Handle;
        clCreateBuffer(Handle, u64, usize, *mut c_void, *mut i32) -> Handle;
        clSetKernelArg(Handle, u32, usize, *const c_void) -> i32;
        clEnqueueNDRangeKernel(
            Handle, Handle, u32, *const usize, *const usize, *const usize,
            u32, *const Handle, *mut Handle,
        ) -> i32;
        clFlush(Handle) -> i32;
        clFinish(Handle) -> i32;
        clGetEventInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
        clGetEventProfilingInfo(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
        clWaitForEvents(u32, *const Handle) -> i32;
        clReleaseEvent(Handle) -> i32;
        clReleaseMemObject(Handle) -> i32;
        clReleaseKernel(Handle) -> i32;
        clReleaseProgram(Handle) -> i32;
        clReleaseCommandQueue(Handle) -> i32;
        clReleaseContext(Handle) -> i32;
    }
}

/// The library and one kernel with the arguments (64-bit number, buffer) on one device.
#[derive(Debug)]
pub(super) struct Program {
    calls: Calls,
    context: Handle,
    queue: Handle,
    program: Handle,
    kernel: Handle,
    buffer: Handle,
    /// Name of the device.
    pub(super) name: String,
    /// Name and version of its platform.
    pub(super) platform: String,
}

/// A launched kernel. Ends with [`Program::span`].
#[derive(Debug)]
pub(super) struct Event(Handle);

impl Program {
    /// Loads the library and builds `source` for the device with this number, GPUs first.
    pub(super) fn open(number: u32, source: &CStr, kernel: &CStr) -> Result<Self, Error> {
        let calls = Calls::load()?;
        let (platform, device) = find_device(&calls, number)?;
        let name = device_text(&calls, device, DEVICE_NAME)?;
        let version = device_text(&calls, device, DEVICE_VERSION)?;
        let platform = format!("{}, {version}", platform_name(&calls, platform)?);
        let mut code = SUCCESS;
        // SAFETY: one device that the library named; no properties, no callback.
        let context =
            unsafe { (calls.clCreateContext)(null(), 1, &device, null(), null_mut(), &mut code) };
        check("clCreateContext", code)?;
        // From here on Drop releases what is not null.
        let mut made = Program {
            calls,
            context,
            queue: null_mut(),
            program: null_mut(),
            kernel: null_mut(),
            buffer: null_mut(),
            name,
            platform,
        };
        // SAFETY: context and device belong together.
        made.queue = unsafe {
            (made.calls.clCreateCommandQueue)(context, device, QUEUE_PROFILING, &mut code)
        };
        check("clCreateCommandQueue", code)?;
        made.build(device, source)?;
        // SAFETY: the name ends with a zero byte; the program is built.
        made.kernel =
            unsafe { (made.calls.clCreateKernel)(made.program, kernel.as_ptr(), &mut code) };
        check("clCreateKernel", code)?;
        // SAFETY: no host memory is handed over.
        made.buffer = unsafe {
            (made.calls.clCreateBuffer)(context, MEM_WRITE_ONLY, 8, null_mut(), &mut code)
        };
        check("clCreateBuffer", code)?;
        let buffer: *const Handle = &made.buffer;
        // SAFETY: the argument is a buffer; the library copies its handle.
        let code = unsafe {
            (made.calls.clSetKernelArg)(made.kernel, 1, size_of::<Handle>(), buffer.cast())
        };
        check("clSetKernelArg", code)?;
        Ok(made)
    }

    fn build(&mut self, device: Handle, source: &CStr) -> Result<(), Error> {
        let mut code = SUCCESS;
        // SAFETY: one text that ends with a zero byte, so no lengths are needed.
        self.program = unsafe {
            (self.calls.clCreateProgramWithSource)(
                self.context,
                1,
                &source.as_ptr(),
                null(),
                &mut code,
            )
        };
        check("clCreateProgramWithSource", code)?;
        // SAFETY: one device of the program's context; no options, no callback.
        let code = unsafe {
            (self.calls.clBuildProgram)(self.program, 1, &device, null(), null(), null_mut())
        };
        check("clBuildProgram", code).map_err(|error| match error {
            Error::Gpu { call, reason } => Error::Gpu {
                call,
                reason: format!("{reason}: {}", self.build_log(device).trim()),
            },
            error => error,
        })
    }

    fn build_log(&self, device: Handle) -> String {
        let mut log = [0u8; LOG_BYTES];
        // SAFETY: stores at most the length given. Without a log the bytes stay zero.
        let _ = unsafe {
            (self.calls.clGetProgramBuildInfo)(
                self.program,
                device,
                PROGRAM_BUILD_LOG,
                LOG_BYTES,
                log.as_mut_ptr().cast(),
                null_mut(),
            )
        };
        text(&log)
    }

    /// Starts one work item with this number as first argument.
    pub(super) fn launch(&self, number: u64) -> Result<Event, Error> {
        let argument: *const u64 = &number;
        // SAFETY: the argument is 64-bit as the source declares it; the library copies it.
        let code = unsafe { (self.calls.clSetKernelArg)(self.kernel, 0, 8, argument.cast()) };
        check("clSetKernelArg", code)?;
        let (one, mut event) = (1usize, null_mut());
        // SAFETY: one dimension of one work item; waits for no event; stores one handle.
        let code = unsafe {
            (self.calls.clEnqueueNDRangeKernel)(
                self.queue,
                self.kernel,
                1,
                null(),
                &one,
                &one,
                0,
                null(),
                &mut event,
            )
        };
        check("clEnqueueNDRangeKernel", code)?;
        // SAFETY: the queue is this program's.
        let code = unsafe { (self.calls.clFlush)(self.queue) };
        check("clFlush", code)?;
        Ok(Event(event))
    }

    /// Whether the kernel has ended.
    pub(super) fn ended(&self, event: &Event) -> Result<bool, Error> {
        let mut status = 0i32;
        // SAFETY: stores one 32-bit number; the event has not been released.
        let code = unsafe {
            (self.calls.clGetEventInfo)(
                event.0,
                EVENT_STATUS,
                size_of::<i32>(),
                (&raw mut status).cast(),
                null_mut(),
            )
        };
        check("clGetEventInfo", code)?;
        if status < 0 {
            check("the kernel", status)?;
        }
        Ok(status == COMPLETE)
    }

    /// Waits until the kernel has ended.
    pub(super) fn wait(&self, event: &Event) -> Result<(), Error> {
        // SAFETY: one event that has not been released.
        let code = unsafe { (self.calls.clWaitForEvents)(1, &event.0) };
        check("clWaitForEvents", code)
    }

    /// When and how long the kernel ran by the device's clock, and releases it.
    pub(super) fn span(&self, event: Event) -> Result<Span, Error> {
        let start = self.moment(&event, PROFILING_START);
        let end = self.moment(&event, PROFILING_END);
        // SAFETY: the event is consumed here and not used afterwards.
        let code = unsafe { (self.calls.clReleaseEvent)(event.0) };
        check("clReleaseEvent", code)?;
        let (started_ns, ended_ns) = (start?, end?);
        Ok(Span {
            started_ns,
            length_ns: ended_ns.saturating_sub(started_ns),
        })
    }

    fn moment(&self, event: &Event, which: u32) -> Result<u64, Error> {
        let mut ns = 0u64;
        // SAFETY: stores one 64-bit number; the event has not been released.
        let code = unsafe {
            (self.calls.clGetEventProfilingInfo)(
                event.0,
                which,
                size_of::<u64>(),
                (&raw mut ns).cast(),
                null_mut(),
            )
        };
        check("clGetEventProfilingInfo", code)?;
        Ok(ns)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Failures leave things to the end of the process.
        if !self.queue.is_null() {
            // SAFETY: made by `open`; after this nothing of it is in use by the device.
            unsafe { (self.calls.clFinish)(self.queue) };
        }
        let releases = [
            (self.buffer, self.calls.clReleaseMemObject),
            (self.kernel, self.calls.clReleaseKernel),
            (self.program, self.calls.clReleaseProgram),
            (self.queue, self.calls.clReleaseCommandQueue),
            (self.context, self.calls.clReleaseContext),
        ];
        for (handle, release) in releases {
            if !handle.is_null() {
                // SAFETY: made by `open`, each released once.
                unsafe { release(handle) };
            }
        }
    }
}

/// The device with this number among all platforms' devices, GPUs first, and its platform.
fn find_device(calls: &Calls, number: u32) -> Result<(Handle, Handle), Error> {
    let none = |reason| Error::NoDevice {
        name: LIBRARY,
        reason,
    };
    let mut platforms = [null_mut(); LIST_MAX];
    let mut count = 0;
    // CAST: a small constant.
    // SAFETY: stores at most the number of handles given.
    let code =
        unsafe { (calls.clGetPlatformIDs)(LIST_MAX as u32, platforms.as_mut_ptr(), &mut count) };
    if code == PLATFORM_NOT_FOUND || (code == SUCCESS && count == 0) {
        return Err(none("no OpenCL implementation is installed".to_owned()));
    }
    check("clGetPlatformIDs", code)?;
    let mut devices = Vec::new();
    // CAST: bounded by take().
    for platform in platforms.into_iter().take(count as usize) {
        for device in platform_devices(calls, platform)? {
            let kind = device_kind(calls, device)?;
            devices.push((kind & DEVICE_TYPE_GPU == 0, platform, device));
        }
    }
    // Stable: otherwise the order of the library.
    devices.sort_by_key(|(other, _, _)| *other);
    match devices.get(number as usize) {
        Some((_, platform, device)) => Ok((*platform, *device)),
        None => Err(none(format!(
            "--gpu {number}, but it has {}",
            devices.len()
        ))),
    }
}

fn platform_devices(calls: &Calls, platform: Handle) -> Result<Vec<Handle>, Error> {
    let mut devices = [null_mut(); LIST_MAX];
    let mut count = 0;
    // CAST: a small constant.
    // SAFETY: stores at most the number of handles given; the platform is one that the library named.
    let code = unsafe {
        (calls.clGetDeviceIDs)(
            platform,
            DEVICE_TYPE_ALL,
            LIST_MAX as u32,
            devices.as_mut_ptr(),
            &mut count,
        )
    };
    if code == DEVICE_NOT_FOUND {
        return Ok(Vec::new());
    }
    check("clGetDeviceIDs", code)?;
    Ok(devices.into_iter().take(count as usize).collect())
}

fn device_kind(calls: &Calls, device: Handle) -> Result<u64, Error> {
    let mut kind = 0u64;
    // SAFETY: stores one 64-bit number; the device is one that the library named.
    let code = unsafe {
        (calls.clGetDeviceInfo)(
            device,
            DEVICE_TYPE,
            size_of::<u64>(),
            (&raw mut kind).cast(),
            null_mut(),
        )
    };
    check("clGetDeviceInfo", code)?;
    Ok(kind)
}

fn device_text(calls: &Calls, device: Handle, what: u32) -> Result<String, Error> {
    let mut bytes = [0u8; NAME_BYTES];
    // SAFETY: stores at most the length given; the device is one that the library named.
    let code = unsafe {
        (calls.clGetDeviceInfo)(
            device,
            what,
            NAME_BYTES,
            bytes.as_mut_ptr().cast(),
            null_mut(),
        )
    };
    check("clGetDeviceInfo", code)?;
    Ok(text(&bytes))
}

fn platform_name(calls: &Calls, platform: Handle) -> Result<String, Error> {
    let mut bytes = [0u8; NAME_BYTES];
    // SAFETY: stores at most the length given; the platform is one that the library named.
    let code = unsafe {
        (calls.clGetPlatformInfo)(
            platform,
            PLATFORM_NAME,
            NAME_BYTES,
            bytes.as_mut_ptr().cast(),
            null_mut(),
        )
    };
    check("clGetPlatformInfo", code)?;
    Ok(text(&bytes))
}

/// Bytes up to the first zero.
fn text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..length.unwrap_or(bytes.len())])
        .trim()
        .to_owned()
}

fn check(call: &'static str, code: i32) -> Result<(), Error> {
    if code == SUCCESS {
        return Ok(());
    }
    Err(Error::Gpu {
        call,
        reason: format!("OpenCL error {code}"),
    })
}
