// SPDX-License-Identifier: GPL-2.0

//! `[double]` `FakeCuda`: the calls of CUDA's driver library that `throttle` uses, without a GPU.
//!
//! One stream on a device with the host's clock: a kernel starts when it is launched or when the
//! one before it ends, and takes its argument in ns plus [`FIXED_NS`]; by %clock64 in cycles of
//! [`CYCLES_PER_US`]. Events that are recorded just before and after it are as far apart, however
//! long the host takes for the calls. It checks what the real library would: handles, order of calls, a PTX text
//! with the kernels asked for.
//!
//! The environment makes it fail, or share its device while the residency kernel runs:
//!
//! | variable | effect |
//! |---|---|
//! | `FAKE_CUDA_REFUSE=CALL=CODE` | that call returns that error |
//! | `FAKE_CUDA_DEVICES=N` | number of devices (1) |
//! | `FAKE_CUDA_STEP_NS=N` | resolution of %globaltimer (32) |
//! | `FAKE_CUDA_TIMER=FACTOR` | %globaltimer advances by this factor per ns (1) |
//! | `FAKE_CUDA_CLOCK=FACTOR` | events count this many ns for each ns of the host (1) |
//! | `FAKE_CUDA_STRETCH=PERCENT` | kernels that wait for another one take longer by this |
//! | `FAKE_CUDA_TARGET=sm_NN` | the only `.target` that compiles |
//! | `FAKE_CUDA_PREEMPTS=1` | the device says that it switches between clients within a kernel |
//! | `FAKE_CUDA_SLICE_US=N` | a second process has every other slice of this length |
//! | `FAKE_CUDA_SWITCH_US=N` | nobody is on the engine for this long between slices |
//! | `FAKE_CUDA_PHASE_US=N` | how far the first slice is over when the first round begins |
//! | `FAKE_CUDA_JITTER_US=N` | switches come up to this much earlier or later, the same in every run |

mod kernels;
mod slices;
mod state;

pub use kernels::MULTIPROCESSORS;

use kernels::FUNCTIONS;
use state::{setting, Last, State};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Length of a kernel that does not spin, in ns.
pub const FIXED_NS: u64 = 3000;
/// Cycles of %clock64 in a microsecond.
pub const CYCLES_PER_US: u64 = 837;
/// Rounds of the loop in a microsecond.
pub const ROUNDS_PER_US: u64 = 91;
/// Name of the devices.
pub const NAME: &str = "FakeCuda device";
/// CUDA version that the library claims.
pub const VERSION: c_int = 6000;

const INVALID_VALUE: c_int = 1;
const NOT_INITIALIZED: c_int = 3;
const NO_DEVICE: c_int = 100;
const INVALID_DEVICE: c_int = 101;
const INVALID_CONTEXT: c_int = 201;
const INVALID_PTX: c_int = 218;
const INVALID_HANDLE: c_int = 400;
const NOT_FOUND: c_int = 500;
const NOT_READY: c_int = 600;

/// CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT.
const MULTIPROCESSOR_COUNT: c_int = 16;
/// CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED.
const PREEMPTS: c_int = 90;

const CONTEXT: usize = 0x10;
const MODULE: usize = 0x20;
const STREAM: usize = 0x30;
/// Address of the first memory, and how far apart they are at least.
const MEMORY: u64 = 0x5000;
const EVENTS: usize = 0x1000;

type Handle = *mut c_void;

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn state() -> MutexGuard<'static, Option<State>> {
    STATE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Does one call on the state, unless the environment refuses it.
fn call(name: &str, act: impl FnOnce(&mut State) -> c_int) -> c_int {
    let refused = std::env::var("FAKE_CUDA_REFUSE").unwrap_or_default();
    if let Some((call, code)) = refused.split_once('=') {
        if call == name {
            return code.parse().unwrap_or(999);
        }
    }
    let mut guard = state();
    let state = guard.get_or_insert_with(State::default);
    if name != "cuInit" && !state.initialized {
        return NOT_INITIALIZED;
    }
    act(state)
}

/// As [`call`], with a context made before.
fn in_context(name: &str, act: impl FnOnce(&mut State) -> c_int) -> c_int {
    call(name, |state| {
        if state.context {
            act(state)
        } else {
            INVALID_CONTEXT
        }
    })
}

/// Stores a value where the caller wants it.
///
/// # Safety
///
/// `to` must be null or point at a `T` that may be written.
unsafe fn store<T>(to: *mut T, value: T) -> c_int {
    if to.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { to.write(value) };
    0
}

macro_rules! export {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $body:block)+) => {
        $(
            /// As CUDA's driver library.
            ///
            /// # Safety
            ///
            /// Pointers must be as that library wants them.
            #[no_mangle]
            #[allow(non_snake_case, reason = "the library's own names")]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> c_int $body
        )+
    };
}

export! {
    fn cuInit(flags: c_uint) {
        call("cuInit", |state| {
            if flags != 0 {
                return INVALID_VALUE;
            }
            if setting("FAKE_CUDA_DEVICES", 1) == 0 {
                return NO_DEVICE;
            }
            state.initialized = true;
            0
        })
    }

    fn cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller's pointer.
        call("cuDriverGetVersion", |_| unsafe { store(version, VERSION) })
    }

    fn cuDeviceGetCount(count: *mut c_int) {
        let devices = setting("FAKE_CUDA_DEVICES", 1);
        // SAFETY: the caller's pointer.
        call("cuDeviceGetCount", |_| unsafe { store(count, devices) })
    }

    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        call("cuDeviceGet", |_| {
            if ordinal < 0 || ordinal >= setting("FAKE_CUDA_DEVICES", 1) {
                return INVALID_DEVICE;
            }
            // SAFETY: the caller's pointer.
            unsafe { store(device, ordinal) }
        })
    }

    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) {
        call("cuDeviceGetName", |_| {
            let text = format!("{NAME} {device}\0");
            if name.is_null() || usize::try_from(length).is_ok_and(|length| length < text.len()) {
                return INVALID_VALUE;
            }
            // SAFETY: the caller's memory has room for the text.
            unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), name.cast(), text.len()) };
            0
        })
    }

    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, _device: c_int) {
        call("cuDeviceGetAttribute", |_| match attribute {
            // SAFETY: the caller's pointer.
            MULTIPROCESSOR_COUNT => unsafe { store(value, MULTIPROCESSORS as c_int) },
            // SAFETY: the caller's pointer.
            PREEMPTS => unsafe { store(value, setting("FAKE_CUDA_PREEMPTS", 0)) },
            _ => INVALID_VALUE,
        })
    }

    fn cuCtxCreate_v2(context: *mut Handle, _flags: c_uint, _device: c_int) {
        call("cuCtxCreate_v2", |state| {
            state.context = true;
            // SAFETY: the caller's pointer.
            unsafe { store(context, CONTEXT as Handle) }
        })
    }

    fn cuCtxDestroy_v2(context: Handle) {
        in_context("cuCtxDestroy_v2", |state| {
            if context as usize != CONTEXT {
                return INVALID_CONTEXT;
            }
            state.context = false;
            0
        })
    }

    fn cuModuleLoadDataEx(
        module: *mut Handle,
        image: *const c_void,
        count: c_uint,
        options: *mut c_int,
        values: *mut Handle,
    ) {
        in_context("cuModuleLoadDataEx", |state| {
            // SAFETY: PTX ends with a zero byte.
            let text = unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy();
            let target = std::env::var("FAKE_CUDA_TARGET").unwrap_or("sm_30".to_owned());
            if text.starts_with(".version ") && text.contains(&format!(".target {target}\n")) {
                state.ptx = text.into_owned();
                // SAFETY: the caller's pointer.
                return unsafe { store(module, MODULE as Handle) };
            }
            let log = c"ptxas fatal: Unsupported .target";
            for index in 0..count as usize {
                // SAFETY: the caller's arrays have `count` elements.
                let (option, value) = unsafe { (*options.add(index), *values.add(index)) };
                if option == 5 {
                    // SAFETY: option 5 is a buffer, which this library asks to have 64 bytes.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            log.as_ptr(),
                            value.cast(),
                            log.count_bytes() + 1,
                        )
                    };
                }
            }
            INVALID_PTX
        })
    }

    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        in_context("cuModuleGetFunction", |state| {
            // SAFETY: names end with a zero byte.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            let known = FUNCTIONS.iter().find(|(_, known)| *known == name);
            let entry = format!(".visible .entry {name}(");
            match known {
                _ if module as usize != MODULE => INVALID_HANDLE,
                Some((handle, _)) if state.ptx.contains(&entry) => {
                    // SAFETY: the caller's pointer.
                    unsafe { store(function, *handle as Handle) }
                }
                _ => NOT_FOUND,
            }
        })
    }

    fn cuLaunchKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        _shared: c_uint,
        stream: Handle,
        arguments: *mut *mut c_void,
        _extra: *mut *mut c_void,
    ) {
        in_context("cuLaunchKernel", |state| {
            if [grid_y, grid_z, block_x, block_y, block_z] != [1; 5] {
                return INVALID_VALUE;
            }
            if stream as usize != STREAM {
                return INVALID_HANDLE;
            }
            // SAFETY: the caller's arguments, as many as the kernel has.
            unsafe { kernels::launch(state, function as usize, grid_x, arguments) }
        })
    }

    fn cuStreamCreate(stream: *mut Handle, _flags: c_uint) {
        in_context("cuStreamCreate", |state| {
            state.stream = true;
            // SAFETY: the caller's pointer.
            unsafe { store(stream, STREAM as Handle) }
        })
    }

    fn cuEventCreate(event: *mut Handle, _flags: c_uint) {
        in_context("cuEventCreate", |state| {
            let handle = EVENTS + state.events.len();
            state.events.insert(handle, None);
            // SAFETY: the caller's pointer.
            unsafe { store(event, handle as Handle) }
        })
    }

    fn cuEventRecord(event: Handle, stream: Handle) {
        in_context("cuEventRecord", |state| {
            if stream as usize != STREAM || !state.events.contains_key(&(event as usize)) {
                return INVALID_HANDLE;
            }
            let happens_ns = state.record();
            state.events.insert(event as usize, Some(happens_ns));
            0
        })
    }

    fn cuEventQuery(event: Handle) {
        in_context("cuEventQuery", |state| match state.events.get(&(event as usize)) {
            Some(Some(happens_ns)) if *happens_ns > state.now_ns() => NOT_READY,
            Some(_) => 0,
            None => INVALID_HANDLE,
        })
    }

    fn cuEventSynchronize(event: Handle) {
        in_context("cuEventSynchronize", |state| {
            state.last = Last::Nothing;
            let Some(happens) = state.events.get(&(event as usize)) else {
                return INVALID_HANDLE;
            };
            let left_ns = happens.unwrap_or(0).saturating_sub(state.now_ns());
            std::thread::sleep(Duration::from_nanos(left_ns));
            0
        })
    }

    fn cuEventElapsedTime(ms: *mut f32, from: Handle, to: Handle) {
        in_context("cuEventElapsedTime", |state| {
            let happens = |event: Handle| state.events.get(&(event as usize)).copied().flatten();
            match (happens(from), happens(to)) {
                (Some(_), Some(to_ns)) if to_ns > state.now_ns() => NOT_READY,
                (Some(from_ns), Some(to_ns)) => {
                    // The real one has a resolution of about half a microsecond.
                    let ns = to_ns.saturating_sub(from_ns) * setting("FAKE_CUDA_CLOCK", 1);
                    let half_us = ns / 500;
                    // SAFETY: the caller's pointer.
                    unsafe { store(ms, half_us as f32 / 2000.0) }
                }
                _ => INVALID_HANDLE,
            }
        })
    }

    fn cuMemAlloc_v2(address: *mut u64, size: usize) {
        in_context("cuMemAlloc_v2", |state| {
            if size == 0 || size % 8 != 0 {
                return INVALID_VALUE;
            }
            let last = state.memory.last_key_value();
            // CAST: a usize has 64 bits.
            let next = last.map_or(MEMORY, |(at, words)| at + MEMORY + 8 * words.len() as u64);
            state.memory.insert(next, vec![0; size / 8]);
            // SAFETY: the caller's pointer.
            unsafe { store(address, next) }
        })
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, address: u64, size: usize) {
        in_context("cuMemcpyDtoH_v2", |state| {
            let Some(words) = state.memory.get(&address) else {
                return INVALID_VALUE;
            };
            if to.is_null() || size != 8 * words.len() {
                return INVALID_VALUE;
            }
            // SAFETY: the caller's memory has this many bytes, as many as the words.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), to.cast(), words.len()) };
            0
        })
    }

    fn cuGetErrorName(code: c_int, name: *mut *const c_char) {
        let text = match code {
            NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
            INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
            2 => c"CUDA_ERROR_OUT_OF_MEMORY",
            719 => c"CUDA_ERROR_LAUNCH_FAILED",
            _ => return INVALID_VALUE,
        };
        // SAFETY: the caller's pointer.
        unsafe { store(name, text.as_ptr()) }
    }
}
