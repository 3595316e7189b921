// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The calls of CUDA's driver library, safe to use.
//!
//! Source: CUDA Driver API reference, modules "Initialization" to "Event Management". All of them
//! exist since CUDA 5.0 except `cuGetErrorName` (6.0), which is optional.

use super::library::calls;
use crate::error::Error;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString};
use std::ptr::null_mut;

pub(super) const LIBRARY: &str = "libcuda.so.1";

const SUCCESS: c_int = 0;
const ERROR_NO_DEVICE: c_int = 100;
const ERROR_NOT_READY: c_int = 600;
/// CU_CTX_SCHED_SPIN, CU_CTX_SCHED_BLOCKING_SYNC.
const CONTEXT_FLAGS: [c_uint; 2] = [1, 4];
/// CU_EVENT_DEFAULT, CU_EVENT_BLOCKING_SYNC.
const EVENT_FLAGS: [c_uint; 2] = [0, 1];
const STREAM_NON_BLOCKING: c_uint = 1;
/// CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT.
const MULTIPROCESSOR_COUNT: c_int = 16;
/// CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED.
const COMPUTE_PREEMPTION_SUPPORTED: c_int = 90;
const JIT_ERROR_LOG_BUFFER: c_int = 5;
const JIT_ERROR_LOG_BUFFER_SIZE_BYTES: c_int = 6;
const LOG_BYTES: usize = 4096;
const NAME_BYTES: usize = 256;
const WORD_BYTES: usize = size_of::<u64>();

/// What the library calls CUcontext, CUmodule, CUfunction, CUstream, CUevent.
type Handle = *mut c_void;

calls! {
    /// Calls by their exported names.
    Calls in "libcuda.so.1" {
        cuInit(c_uint) -> c_int;
        cuDriverGetVersion(*mut c_int) -> c_int;
        cuDeviceGetCount(*mut c_int) -> c_int;
        cuDeviceGet(*mut c_int, c_int) -> c_int;
        cuDeviceGetName(*mut c_char, c_int, c_int) -> c_int;
        cuDeviceGetAttribute(*mut c_int, c_int, c_int) -> c_int;
        cuCtxCreate_v2(*mut Handle, c_uint, c_int) -> c_int;
        cuCtxDestroy_v2(Handle) -> c_int;
        cuModuleLoadDataEx(*mut Handle, *const c_void, c_uint, *mut c_int, *mut Handle) -> c_int;
        cuModuleGetFunction(*mut Handle, Handle, *const c_char) -> c_int;
        cuLaunchKernel(
            Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle,
            *mut *mut c_void, *mut *mut c_void,
        ) -> c_int;
        cuStreamCreate(*mut Handle, c_uint) -> c_int;
        cuEventCreate(*mut Handle, c_uint) -> c_int;
        cuEventRecord(Handle, Handle) -> c_int;
        cuEventQuery(Handle) -> c_int;
        cuEventSynchronize(Handle) -> c_int;
        cuEventElapsedTime(*mut f32, Handle, Handle) -> c_int;
        cuMemAlloc_v2(*mut u64, usize) -> c_int;
        cuMemcpyDtoH_v2(*mut c_void, u64, usize) -> c_int;
    }
}

/// A function of the loaded module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function(Handle);

/// An event of the context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event(Handle);

/// Memory on the device that holds one 64-bit word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word(u64);

/// Memory on the device that holds a number of 64-bit words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    address: u64,
    count: usize,
}

/// Most arguments of a function.
const ARGUMENTS_MAX: usize = 5;

/// The library and a context on one device, current on this thread, with one stream.
#[derive(Debug)]
pub(super) struct Context {
    calls: Calls,
    context: Handle,
    stream: Handle,
    blocking: bool,
    device: c_int,
    /// Name of the device.
    pub(super) name: String,
    /// CUDA version of the driver, 1000 * major + 10 * minor.
    pub(super) version: i32,
    /// Whether the device can switch to another client within a kernel.
    pub(super) preempts: bool,
}

impl Context {
    /// Loads the library and makes a context on the device with this number.
    pub(super) fn open(device: u32, blocking: bool) -> Result<Self, Error> {
        let calls = Calls::load()?;
        let none = |reason| Error::NoDevice {
            name: LIBRARY,
            reason,
        };
        // SAFETY: takes flags only, which must be 0.
        let code = unsafe { (calls.cuInit)(0) };
        if code == ERROR_NO_DEVICE {
            return Err(none("it finds none at all".to_owned()));
        }
        check(&calls, "cuInit", code)?;
        let (mut version, mut count, mut ordinal) = (0, 0, 0);
        // SAFETY: stores one int.
        let code = unsafe { (calls.cuDriverGetVersion)(&mut version) };
        check(&calls, "cuDriverGetVersion", code)?;
        // SAFETY: stores one int.
        let code = unsafe { (calls.cuDeviceGetCount)(&mut count) };
        check(&calls, "cuDeviceGetCount", code)?;
        let wanted = c_int::try_from(device).unwrap_or(c_int::MAX);
        if wanted >= count {
            return Err(none(format!("--gpu {device}, but it has {count}")));
        }
        // SAFETY: stores one int.
        let code = unsafe { (calls.cuDeviceGet)(&mut ordinal, wanted) };
        check(&calls, "cuDeviceGet", code)?;
        let name = device_name(&calls, ordinal)?;
        let mut preempts = 0;
        // A driver from before CUDA 8 does not know the attribute, nor such a device.
        // SAFETY: stores one int, or refuses.
        let code = unsafe {
            (calls.cuDeviceGetAttribute)(&mut preempts, COMPUTE_PREEMPTION_SUPPORTED, ordinal)
        };
        let preempts = code == SUCCESS && preempts != 0;
        let mut context = null_mut();
        let flags = CONTEXT_FLAGS[usize::from(blocking)];
        // SAFETY: stores one handle; the device is one that the library named.
        let code = unsafe { (calls.cuCtxCreate_v2)(&mut context, flags, ordinal) };
        check(&calls, "cuCtxCreate", code)?;
        let mut context = Context {
            calls,
            context,
            stream: null_mut(),
            blocking,
            device: ordinal,
            name,
            version,
            preempts,
        };
        // SAFETY: stores one handle; a context is current.
        let code =
            unsafe { (context.calls.cuStreamCreate)(&mut context.stream, STREAM_NON_BLOCKING) };
        context.check("cuStreamCreate", code)?;
        Ok(context)
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), Error> {
        check(&self.calls, call, code)
    }

    /// Lets the driver compile PTX; the module stays until the context ends.
    pub(super) fn compile(&self, ptx: &CStr) -> Result<Module, Error> {
        let mut module = null_mut();
        let mut log = [0u8; LOG_BYTES];
        let mut options = [JIT_ERROR_LOG_BUFFER, JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
        // CAST: the library takes numbers in place of pointers here.
        let mut values = [log.as_mut_ptr().cast(), LOG_BYTES as Handle];
        // SAFETY: the text ends with a zero byte; both arrays have the length given, and the log the
        // length that they say; nothing is kept after the call.
        let code = unsafe {
            (self.calls.cuModuleLoadDataEx)(
                &mut module,
                ptx.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        self.check("cuModuleLoadDataEx", code).map_err(|error| {
            let log = text(&log);
            match error {
                Error::Gpu { call, reason } if !log.is_empty() => Error::Gpu {
                    call,
                    reason: format!("{reason}: {}", log.trim()),
                },
                error => error,
            }
        })?;
        Ok(Module(module))
    }

    /// Finds a function of a module.
    pub(super) fn function(&self, module: &Module, name: &CStr) -> Result<Function, Error> {
        let mut function = null_mut();
        // SAFETY: stores one handle; the module is this context's.
        let code =
            unsafe { (self.calls.cuModuleGetFunction)(&mut function, module.0, name.as_ptr()) };
        self.check("cuModuleGetFunction", code)?;
        Ok(Function(function))
    }

    /// Multiprocessors of the device, at least one.
    pub(super) fn multiprocessors(&self) -> Result<u32, Error> {
        let mut count = 0;
        // SAFETY: stores one int; the device is one that the library named.
        let code = unsafe {
            (self.calls.cuDeviceGetAttribute)(&mut count, MULTIPROCESSOR_COUNT, self.device)
        };
        self.check("cuDeviceGetAttribute", code)?;
        let some = u32::try_from(count).ok().filter(|count| *count > 0);
        some.ok_or_else(|| Error::Gpu {
            call: "cuDeviceGetAttribute",
            reason: format!("the device says that it has {count} multiprocessors"),
        })
    }

    /// Starts one thread of a function that takes a number, and a word that it may write to.
    pub(super) fn launch(&self, function: Function, units: u64, word: Word) -> Result<(), Error> {
        self.launch_blocks(function, 1, &[units, word.0])
    }

    /// Starts a thread in each of several blocks of a function that takes these numbers, and behind
    /// them words that it may write to.
    pub(super) fn launch_on(
        &self,
        function: Function,
        blocks: u32,
        numbers: [u64; ARGUMENTS_MAX - 1],
        words: Words,
    ) -> Result<(), Error> {
        let [a, b, c, d] = numbers;
        self.launch_blocks(function, blocks, &[a, b, c, d, words.address])
    }

    /// The function has at most as many arguments as there are here.
    fn launch_blocks(
        &self,
        function: Function,
        blocks: u32,
        arguments: &[u64],
    ) -> Result<(), Error> {
        let mut places = [null_mut(); ARGUMENTS_MAX];
        for (place, argument) in places.iter_mut().zip(arguments) {
            *place = (&raw const *argument).cast_mut().cast();
        }
        // SAFETY: the arguments are 64-bit as the PTX declares them; the library only reads them, and
        // copies as many as the function has before it returns.
        let code = unsafe {
            (self.calls.cuLaunchKernel)(
                function.0,
                blocks,
                1,
                1,
                1,
                1,
                1,
                0,
                self.stream,
                places.as_mut_ptr(),
                null_mut(),
            )
        };
        self.check("cuLaunchKernel", code)
    }

    /// A new event that keeps time.
    pub(super) fn event(&self) -> Result<Event, Error> {
        let mut event = null_mut();
        let flags = EVENT_FLAGS[usize::from(self.blocking)];
        // SAFETY: stores one handle; a context is current.
        let code = unsafe { (self.calls.cuEventCreate)(&mut event, flags) };
        self.check("cuEventCreate", code)?;
        Ok(Event(event))
    }

    /// Lets the event happen when the device gets there.
    pub(super) fn record(&self, event: Event) -> Result<(), Error> {
        // SAFETY: event and stream are this context's.
        let code = unsafe { (self.calls.cuEventRecord)(event.0, self.stream) };
        self.check("cuEventRecord", code)
    }

    /// Whether the event has happened.
    pub(super) fn happened(&self, event: Event) -> Result<bool, Error> {
        // SAFETY: the event is this context's.
        match unsafe { (self.calls.cuEventQuery)(event.0) } {
            ERROR_NOT_READY => Ok(false),
            code => self.check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Waits until the event has happened.
    pub(super) fn wait(&self, event: Event) -> Result<(), Error> {
        // SAFETY: the event is this context's.
        let code = unsafe { (self.calls.cuEventSynchronize)(event.0) };
        self.check("cuEventSynchronize", code)
    }

    /// Time between two events that have happened, in ns.
    pub(super) fn between_ns(&self, from: Event, to: Event) -> Result<u64, Error> {
        let mut ms = 0f32;
        // SAFETY: stores one float; the events are this context's.
        let code = unsafe { (self.calls.cuEventElapsedTime)(&mut ms, from.0, to.0) };
        self.check("cuEventElapsedTime", code)?;
        // CAST: saturates at 0.
        Ok((f64::from(ms) * 1e6).round() as u64)
    }

    /// A new word on the device; it stays until the context ends.
    pub(super) fn word(&self) -> Result<Word, Error> {
        Ok(Word(self.words(1)?.address))
    }

    /// New words on the device; they stay until the context ends.
    pub(super) fn words(&self, count: usize) -> Result<Words, Error> {
        let mut address = 0;
        // SAFETY: stores one address; a context is current.
        let code =
            unsafe { (self.calls.cuMemAlloc_v2)(&mut address, count.saturating_mul(WORD_BYTES)) };
        self.check("cuMemAlloc", code)?;
        Ok(Words { address, count })
    }

    /// Reads a word. The kernel that writes it must have ended.
    pub(super) fn read(&self, word: Word) -> Result<u64, Error> {
        let words = Words {
            address: word.0,
            count: 1,
        };
        Ok(self.read_all(words)?.first().copied().unwrap_or_default())
    }

    /// Reads words. The kernel that writes them must have ended.
    pub(super) fn read_all(&self, words: Words) -> Result<Vec<u64>, Error> {
        let mut values = vec![0u64; words.count];
        let bytes = size_of_val(values.as_slice());
        // SAFETY: both sides have this many bytes.
        let code = unsafe {
            (self.calls.cuMemcpyDtoH_v2)(values.as_mut_ptr().cast(), words.address, bytes)
        };
        self.check("cuMemcpyDtoH", code)?;
        Ok(values)
    }
}

/// A loaded module.
#[derive(Debug)]
pub(super) struct Module(Handle);

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context was made by `open` and is destroyed once; what belongs to it is
        // not used afterwards. A failure leaves it to the end of the process.
        unsafe { (self.calls.cuCtxDestroy_v2)(self.context) };
    }
}

fn device_name(calls: &Calls, device: c_int) -> Result<String, Error> {
    let mut name = [0u8; NAME_BYTES];
    // CAST: a small constant.
    // SAFETY: stores at most the length given, with a zero byte at the end.
    let code =
        unsafe { (calls.cuDeviceGetName)(name.as_mut_ptr().cast(), NAME_BYTES as c_int, device) };
    check(calls, "cuDeviceGetName", code)?;
    Ok(text(&name))
}

/// Bytes up to the first zero.
fn text(bytes: &[u8]) -> String {
    let length = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..length.unwrap_or(bytes.len())]).into_owned()
}

fn check(calls: &Calls, call: &'static str, code: c_int) -> Result<(), Error> {
    if code == SUCCESS {
        return Ok(());
    }
    Err(Error::Gpu {
        call,
        reason: match error_name(calls, code) {
            Some(name) => format!("CUDA error {code} ({name})"),
            None => format!("CUDA error {code}"),
        },
    })
}

/// The library's name for an error, if it is new enough to have names.
fn error_name(calls: &Calls, code: c_int) -> Option<String> {
    type GetErrorName = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
    // SAFETY: the type is that of the library's header; used while the library is loaded.
    let call = unsafe { calls.library.get::<GetErrorName>(b"cuGetErrorName") }.ok()?;
    let mut name = std::ptr::null();
    // SAFETY: stores a pointer to a constant of the library, or null.
    let found = unsafe { call(code, &mut name) };
    if found != SUCCESS || name.is_null() {
        return None;
    }
    // SAFETY: a constant of the library with a zero byte at the end.
    let name: CString = unsafe { CStr::from_ptr(name) }.into();
    name.into_string().ok()
}
