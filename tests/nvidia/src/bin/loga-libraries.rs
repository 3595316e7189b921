// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga-libraries`: loads the branch's own NVML and CUDA libraries, as applications do,
//! goes as far as they go without a GPU, and prints every answer.
//!
//! Source: signatures in the public references of NVML and of the CUDA driver interface.

use libloading::{Library, Symbol};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};

/// Room for a version as text. NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE and its like are 80.
const TEXT: usize = 80;

fn main() {
    nvml();
    cuda();
}

/// An installed library; prints a line if it is missing.
fn library(name: &str) -> Option<Library> {
    // SAFETY: The libraries are made to be loaded by any program.
    match unsafe { Library::new(name) } {
        Ok(library) => Some(library),
        Err(error) => {
            println!("{name}: {error}");
            None
        }
    }
}

/// Calls `name` with a function of type `F`, and prints the status that it returns.
fn print_answer<F>(library: &Library, name: &str, call: impl FnOnce(&F) -> (c_int, String)) {
    // SAFETY: The type that each caller names is that of the public reference.
    match unsafe { library.get::<F>(name.as_bytes()) } {
        Ok(function) => {
            let function: Symbol<'_, F> = function;
            let (status, answer) = call(&function);
            println!("{name}: {status} {answer}");
        }
        Err(_) => println!("{name}: not there"),
    }
}

type Plain = unsafe extern "C" fn() -> c_int;
type ToText = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
type ToInt = unsafe extern "C" fn(*mut c_int) -> c_int;
type ToHandle = unsafe extern "C" fn(c_uint, *mut *mut c_void) -> c_int;
type Initialize = unsafe extern "C" fn(c_uint) -> c_int;
type ToDevice = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;

fn nvml() {
    let Some(nvml) = library("libnvidia-ml.so.1") else {
        return;
    };
    plain(&nvml, "nvmlInit_v2");
    text(&nvml, "nvmlSystemGetDriverVersion");
    text(&nvml, "nvmlSystemGetNVMLVersion");
    integer(&nvml, "nvmlSystemGetCudaDriverVersion");
    integer(&nvml, "nvmlDeviceGetCount_v2");
    print_answer(
        &nvml,
        "nvmlDeviceGetHandleByIndex_v2",
        |function: &ToHandle| {
            let mut handle = std::ptr::null_mut();
            // SAFETY: `handle` is ours.
            let status = unsafe { function(0, &mut handle) };
            (status, format!("handle {}", !handle.is_null()))
        },
    );
    plain(&nvml, "nvmlShutdown");
}

fn cuda() {
    let Some(cuda) = library("libcuda.so.1") else {
        return;
    };
    integer(&cuda, "cuDriverGetVersion");
    for _ in 0..2 {
        print_answer(&cuda, "cuInit", |function: &Initialize| {
            // SAFETY: Flags must be 0.
            (unsafe { function(0) }, String::new())
        });
    }
    integer(&cuda, "cuDeviceGetCount");
    print_answer(&cuda, "cuDeviceGet", |function: &ToDevice| {
        let mut device = -1;
        // SAFETY: `device` is ours.
        let status = unsafe { function(&mut device, 0) };
        (status, device.to_string())
    });
}

fn plain(library: &Library, name: &str) {
    print_answer(library, name, |function: &Plain| {
        // SAFETY: Takes nothing.
        (unsafe { function() }, String::new())
    });
}

fn integer(library: &Library, name: &str) {
    print_answer(library, name, |function: &ToInt| {
        let mut value = -1;
        // SAFETY: `value` is ours.
        let status = unsafe { function(&mut value) };
        (status, value.to_string())
    });
}

fn text(library: &Library, name: &str) {
    print_answer(library, name, |function: &ToText| {
        let mut bytes = [0_u8; TEXT];
        // SAFETY: The library gets the length of the buffer.
        let status = unsafe { function(bytes.as_mut_ptr().cast(), TEXT as c_uint) };
        let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        (status, text.to_string_lossy().into_owned())
    });
}
