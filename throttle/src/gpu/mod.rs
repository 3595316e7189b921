// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Backends for real devices, through libraries that are loaded at run time.
//!
//! | file | contents |
//! |---|---|
//! | `queue` | the load loop's [`Backend`] over any device that runs and times kernels |
//! | `resident` | rounds of a kernel that notes when it is not on the engine |
//! | `calibrate` | how many units of its timer a device spins in a microsecond |
//! | `cuda`, `cuda_calls`, `spin.ptx` | CUDA's driver library; the driver compiles the PTX |
//! | `cuda_residency`, `residency.ptx` | the kernel that notes, on the same library |
//! | `opencl`, `opencl_calls`, `spin.cl` | OpenCL |
//! | `library` | loading a library and finding its calls |
//!
//! Needs neither CUDA's nor OpenCL's development files. A program that is linked statically cannot
//! load libraries; in such a build both backends say so and end.

use crate::backend::Backend;
#[cfg(not(target_feature = "crt-static"))]
use crate::clock::Monotonic;
use crate::error::Error;
use crate::plan::Plan;

#[cfg(not(target_feature = "crt-static"))]
mod cuda;
#[cfg(not(target_feature = "crt-static"))]
mod cuda_calls;
#[cfg(not(target_feature = "crt-static"))]
mod cuda_residency;
#[cfg(not(target_feature = "crt-static"))]
mod library;
#[cfg(not(target_feature = "crt-static"))]
mod opencl;
#[cfg(not(target_feature = "crt-static"))]
mod opencl_calls;

pub mod calibrate;
pub mod queue;
pub mod resident;

/// Opens the device `plan.gpu` of CUDA and calibrates it.
///
/// # Errors
///
/// [`Error::Library`] without CUDA, [`Error::NoDevice`] without the device, [`Error::Gpu`] if the
/// library refuses a call.
#[cfg(not(target_feature = "crt-static"))]
pub fn open_cuda(plan: &Plan) -> Result<Box<dyn Backend>, Error> {
    let device = cuda::Cuda::open(plan)?;
    Ok(Box::new(queue::Queue::new(device, plan, Monotonic)?))
}

/// Opens the device `plan.gpu` of CUDA for a kernel that notes when it is not on the engine.
///
/// # Errors
///
/// As [`open_cuda`], or [`Error::Argument`] if the device's timer is too coarse for the plan.
#[cfg(not(target_feature = "crt-static"))]
pub fn open_resident(plan: &Plan) -> Result<Box<dyn resident::Resident>, Error> {
    let device = cuda_residency::CudaResident::open(plan)?;
    resident::check_timer(plan, &device)?;
    Ok(Box::new(device))
}

/// Opens the device `plan.gpu` of OpenCL and calibrates it.
///
/// # Errors
///
/// As [`open_cuda`].
#[cfg(not(target_feature = "crt-static"))]
pub fn open_opencl(plan: &Plan) -> Result<Box<dyn Backend>, Error> {
    let device = opencl::OpenCl::open(plan)?;
    Ok(Box::new(queue::Queue::new(device, plan, Monotonic)?))
}

/// Says why there is no CUDA in this build.
///
/// # Errors
///
/// Always [`Error::Library`].
#[cfg(target_feature = "crt-static")]
pub fn open_cuda(_: &Plan) -> Result<Box<dyn Backend>, Error> {
    Err(linked_statically("libcuda.so.1"))
}

/// Says why there is no CUDA in this build.
///
/// # Errors
///
/// Always [`Error::Library`].
#[cfg(target_feature = "crt-static")]
pub fn open_resident(_: &Plan) -> Result<Box<dyn resident::Resident>, Error> {
    Err(linked_statically("libcuda.so.1"))
}

/// Says why there is no OpenCL in this build.
///
/// # Errors
///
/// Always [`Error::Library`].
#[cfg(target_feature = "crt-static")]
pub fn open_opencl(_: &Plan) -> Result<Box<dyn Backend>, Error> {
    Err(linked_statically("libOpenCL.so.1"))
}

#[cfg(target_feature = "crt-static")]
fn linked_statically(name: &'static str) -> Error {
    Error::Library {
        name,
        reason: "this throttle is linked statically and cannot load libraries; it was built \
                 with the backend standin only"
            .to_owned(),
    }
}
