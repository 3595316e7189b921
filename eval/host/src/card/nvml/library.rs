// SPDX-License-Identifier: GPL-2.0

//! `[glue]` NVIDIA's management library, loaded at run time; the only calls into it.
//!
//! Every call may be missing: branches differ. Source: NVIDIA's NVML API reference (names, arguments
//! and structures).

use crate::card::refusal::Refusal;
use libloading::os::unix::{Library as Loaded, Symbol, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString};
use std::path::Path;
use std::ptr;

/// `NVML_ERROR_NOT_FOUND`: there is nothing of the kind.
const NOT_FOUND: c_int = 6;
/// `NVML_ERROR_INSUFFICIENT_SIZE`: the count is that of the elements there are.
const INSUFFICIENT_SIZE: c_int = 7;
/// What is said of a call that the library lacks.
const NO_CALL: &str = "no such call";
/// The count of compute processes, newest call first.
const RUNNING: [&str; 3] = [
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses",
];
/// Longest version, with its end.
const VERSION_BYTES: usize = 80;

/// What the library calls a device.
type Handle = *mut c_void;

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UtilizationSample {
    pub(super) pid: c_uint,
    pub(super) time_us: u64,
    pub(super) sm: c_uint,
    pub(super) memory: c_uint,
    pub(super) encoder: c_uint,
    pub(super) decoder: c_uint,
}

/// `nvmlAccountingStats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AccountingStats {
    pub(super) gpu: c_uint,
    pub(super) memory: c_uint,
    pub(super) max_memory: u64,
    pub(super) time_ms: u64,
    pub(super) start_us: u64,
    pub(super) is_running: c_uint,
    pub(super) reserved: [c_uint; 5],
}

/// `nvmlConfComputeSystemState_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConfidentialState {
    pub(super) environment: c_uint,
    pub(super) feature: c_uint,
    pub(super) devtools: c_uint,
}

const _: () = {
    assert!(size_of::<UtilizationSample>() == 32);
    assert!(size_of::<AccountingStats>() == 56);
    assert!(size_of::<ConfidentialState>() == 12);
};

/// Plain C structures that any bytes make, so that a library may fill them.
trait Filled: Copy + Default {}
impl Filled for c_uint {}
impl Filled for UtilizationSample {}
impl Filled for AccountingStats {}
impl Filled for ConfidentialState {}

/// The library, initialised; shut down when dropped.
#[derive(Debug)]
pub(crate) struct Library {
    loaded: Loaded,
    name: String,
}

impl Library {
    /// Loads the library and initialises it.
    ///
    /// # Errors
    ///
    /// There is none, or it does not find a driver.
    pub(crate) fn load(path: &Path) -> Result<Self, Refusal> {
        let name = path.display().to_string();
        let by = format!("no library: {name}");
        // SAFETY: the library's initialisers are made to be run by dlopen; what is installed under
        // this name is trusted as by any program that is linked with it.
        let loaded = unsafe { Loaded::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let loaded = loaded.map_err(|error| Refusal::new(by, error.to_string()))?;
        let library = Library { loaded, name };
        let started = library.find::<unsafe extern "C" fn() -> c_int>("nvmlInit_v2");
        let started = started.and_then(|init| {
            // SAFETY: the call takes nothing and may be made at any time.
            library.granted("nvmlInit_v2", unsafe { init() })
        });
        match started {
            Ok(()) => Ok(library),
            Err(refusal) => {
                // What was not initialised is not shut down.
                std::mem::forget(library);
                Err(refusal)
            }
        }
    }

    /// A call of this name. Its type is the caller's word: see each use.
    fn find<T: Copy>(&self, name: &str) -> Result<T, Refusal> {
        // SAFETY: looking up calls nothing; the symbol lives no longer than the library, since
        // only methods of it use what is found.
        let symbol: Result<Symbol<T>, _> = unsafe { self.loaded.get(name.as_bytes()) };
        let by = format!("the library {}: {name}", self.name);
        let found = symbol.map_err(|_| Refusal::new(by, NO_CALL))?;
        Ok(*found)
    }

    /// What the library says of a status.
    fn refusal(&self, name: &str, status: c_int) -> Refusal {
        type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
        let text = self.find::<ErrorString>("nvmlErrorString").ok();
        // SAFETY: the call takes any number.
        let text = text.map(|call| unsafe { call(status) });
        let text = text.filter(|text| !text.is_null()).map(|text| {
            // SAFETY: the library returns a constant text that ends with NUL.
            let text = unsafe { CStr::from_ptr(text) };
            text.to_string_lossy().into_owned()
        });
        let words = text.unwrap_or_else(|| "unknown".to_owned());
        let by = format!("the library {}: {name}", self.name);
        Refusal::new(by, format!("status {status} ({words})"))
    }

    fn granted(&self, name: &str, status: c_int) -> Result<(), Refusal> {
        match status {
            0 => Ok(()),
            status => Err(self.refusal(name, status)),
        }
    }

    /// A call that fills in a value and takes nothing else.
    fn value<T: Filled>(&self, name: &str) -> Result<T, Refusal> {
        type Call = unsafe extern "C" fn(*mut c_void) -> c_int;
        let call: Call = self.find(name)?;
        let mut value = T::default();
        // SAFETY: each caller names a call that takes a pointer to a T alone and fills it.
        let status = unsafe { call(ptr::from_mut(&mut value).cast()) };
        self.granted(name, status).map(|()| value)
    }

    /// State of confidential computing.
    pub(super) fn confidential_state(&self) -> Result<ConfidentialState, Refusal> {
        self.value("nvmlSystemGetConfComputeState")
    }

    /// A number that a stand-in keeps for its test.
    #[cfg(test)]
    pub(super) fn initialised(&self) -> Result<c_uint, Refusal> {
        self.value("standin_initialised")
    }

    /// The version of the driver.
    pub(super) fn driver_version(&self) -> Result<String, Refusal> {
        type Call = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
        let name = "nvmlSystemGetDriverVersion";
        let call: Call = self.find(name)?;
        let mut text = [0u8; VERSION_BYTES];
        // CAST: 80. The last byte stays zero.
        let length = (VERSION_BYTES - 1) as c_uint;
        // SAFETY: the call writes at most `length` bytes.
        let status = unsafe { call(text.as_mut_ptr().cast(), length) };
        self.granted(name, status)?;
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// The device at a PCI address.
    ///
    /// # Errors
    ///
    /// The library knows no such device.
    pub(crate) fn device(&self, address: &str) -> Result<Device<'_>, Refusal> {
        type Call = unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int;
        let name = "nvmlDeviceGetHandleByPciBusId_v2";
        let call: Call = self.find(name)?;
        let text = CString::new(address);
        let text = text.map_err(|_| Refusal::new("this program", "a NUL in a PCI address"))?;
        let mut handle = ptr::null_mut();
        // SAFETY: the text ends with NUL, and the call writes one pointer.
        let status = unsafe { call(text.as_ptr(), &mut handle) };
        self.granted(name, status)?;
        Ok(Device {
            library: self,
            handle,
        })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        type Shutdown = unsafe extern "C" fn() -> c_int;
        if let Ok(shutdown) = self.find::<Shutdown>("nvmlShutdown") {
            // SAFETY: the library was initialised once, and no device is left: each borrows from it.
            // Nothing can be done about a library that does not end.
            let _ = unsafe { shutdown() };
        }
    }
}

/// A device of the library.
#[derive(Debug)]
pub(crate) struct Device<'a> {
    library: &'a Library,
    handle: Handle,
}

impl Device<'_> {
    /// The library it is of.
    pub(super) fn library(&self) -> &Library {
        self.library
    }

    /// Whether MIG is on now, and after the next reset.
    pub(super) fn mig_mode(&self) -> Result<(c_uint, c_uint), Refusal> {
        self.pair("nvmlDeviceGetMigMode")
    }

    /// Whether the driver keeps the card running without clients.
    pub(super) fn persistence_mode(&self) -> Result<c_uint, Refusal> {
        self.value("nvmlDeviceGetPersistenceMode")
    }

    /// How guests share the card.
    pub(super) fn virtualization_mode(&self) -> Result<c_uint, Refusal> {
        self.value("nvmlDeviceGetVirtualizationMode")
    }

    /// Whether accounting is on.
    pub(super) fn accounting_mode(&self) -> Result<c_uint, Refusal> {
        self.value("nvmlDeviceGetAccountingMode")
    }

    /// Turns accounting on or off.
    pub(super) fn set_accounting_mode(&self, on: bool) -> Result<(), Refusal> {
        self.set("nvmlDeviceSetAccountingMode", on.into())
    }

    /// Number of processes with a compute context, by the newest call that there is.
    pub(super) fn running_processes(&self) -> Result<c_uint, Refusal> {
        let [newest, others @ ..] = RUNNING;
        let mut answer = self.count(newest);
        for name in others {
            let is_missing = |refusal: &Refusal| refusal.answer == NO_CALL;
            if !answer.as_ref().is_err_and(is_missing) {
                break;
            }
            answer = self.count(name);
        }
        answer
    }

    /// How often a stand-in was told to switch accounting.
    #[cfg(test)]
    pub(super) fn changes(&self) -> Result<c_uint, Refusal> {
        self.value("standin_changes")
    }

    /// A call that fills in a value of the device.
    fn value<T: Filled>(&self, name: &str) -> Result<T, Refusal> {
        type Call = unsafe extern "C" fn(Handle, *mut c_void) -> c_int;
        let call: Call = self.library.find(name)?;
        let mut value = T::default();
        // SAFETY: each caller names a call that takes a device and a pointer to a T, and fills it.
        let status = unsafe { call(self.handle, ptr::from_mut(&mut value).cast()) };
        self.library.granted(name, status).map(|()| value)
    }

    /// A call that fills in two numbers.
    fn pair(&self, name: &str) -> Result<(c_uint, c_uint), Refusal> {
        type Call = unsafe extern "C" fn(Handle, *mut c_uint, *mut c_uint) -> c_int;
        let call: Call = self.library.find(name)?;
        let (mut first, mut second) = (0, 0);
        // SAFETY: each caller names a call that takes a device and two pointers to numbers.
        let status = unsafe { call(self.handle, &mut first, &mut second) };
        self.library.granted(name, status).map(|()| (first, second))
    }

    /// A call that takes a number.
    fn set(&self, name: &str, value: c_uint) -> Result<(), Refusal> {
        type Call = unsafe extern "C" fn(Handle, c_uint) -> c_int;
        let call: Call = self.library.find(name)?;
        // SAFETY: each caller names a call that takes a device and a number.
        let status = unsafe { call(self.handle, value) };
        self.library.granted(name, status)
    }

    /// How many compute processes there are: a call whose third argument is where they would go.
    fn count(&self, name: &str) -> Result<c_uint, Refusal> {
        type Call = unsafe extern "C" fn(Handle, *mut c_uint, *mut c_void) -> c_int;
        let call: Call = self.library.find(name)?;
        let mut count = 0;
        // SAFETY: with a count of zero the call writes the count and no element.
        let status = unsafe { call(self.handle, &mut count, ptr::null_mut()) };
        match status {
            INSUFFICIENT_SIZE => Ok(count),
            status => self.library.granted(name, status).map(|()| count),
        }
    }

    /// The processes that are accounted, at most as many as fit.
    pub(super) fn accounted_pids(&self, most: usize) -> Result<Vec<c_uint>, Refusal> {
        type Call = unsafe extern "C" fn(Handle, *mut c_uint, *mut c_uint) -> c_int;
        let name = "nvmlDeviceGetAccountingPids";
        let call: Call = self.library.find(name)?;
        let mut pids = vec![0; most];
        let mut count = c_uint::try_from(most).unwrap_or(c_uint::MAX);
        // SAFETY: the call writes at most `count` elements, which there are.
        let status = unsafe { call(self.handle, &mut count, pids.as_mut_ptr()) };
        self.library.granted(name, status)?;
        // CAST: widened.
        pids.truncate(count as usize);
        Ok(pids)
    }

    /// What was accounted to a process.
    pub(super) fn accounting_of(&self, pid: c_uint) -> Result<AccountingStats, Refusal> {
        type Call = unsafe extern "C" fn(Handle, c_uint, *mut AccountingStats) -> c_int;
        let name = "nvmlDeviceGetAccountingStats";
        let call: Call = self.library.find(name)?;
        let mut stats = AccountingStats::default();
        // SAFETY: the call fills one structure.
        let status = unsafe { call(self.handle, pid, &mut stats) };
        self.library.granted(name, status).map(|()| stats)
    }

    /// Samples of the utilisation since a time of the library's, at most as many as fit.
    pub(super) fn utilization(
        &self,
        most: usize,
        since_us: u64,
    ) -> Result<Vec<UtilizationSample>, Refusal> {
        type Call = unsafe extern "C" fn(Handle, *mut UtilizationSample, *mut c_uint, u64) -> c_int;
        let name = "nvmlDeviceGetProcessUtilization";
        let call: Call = self.library.find(name)?;
        let mut samples = vec![UtilizationSample::default(); most];
        let mut count = c_uint::try_from(most).unwrap_or(c_uint::MAX);
        // SAFETY: the call writes at most `count` elements, which there are.
        let status = unsafe { call(self.handle, samples.as_mut_ptr(), &mut count, since_us) };
        if status == NOT_FOUND {
            return Ok(Vec::new());
        }
        self.library.granted(name, status)?;
        // CAST: widened.
        samples.truncate(count as usize);
        Ok(samples)
    }
}
