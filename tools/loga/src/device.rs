// SPDX-License-Identifier: GPL-2.0

//! [glue] `/dev/loga`: takes snapshots, and says what is wrong when there is none.

use loga::uapi;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Room for this many clients and channels at first.
const ROOM: usize = 256;

/// Most clients or channels accepted from the kernel; more than any chip has channels.
const ROOM_MAX: usize = 65_536;

/// TIMEOUT: snapshots taken until the tables fit; they grow between two calls only by what starts
/// meanwhile.
const TRIES: u32 = 8;

/// Why there is no snapshot.
#[derive(Debug)]
pub enum Error {
    /// There is no control device.
    NotLoaded,
    /// The control device cannot be opened.
    Open(io::Error),
    /// The kernel and this program were built with different versions of the structures.
    Version {
        /// Version and size of the kernel's structure, if it said so.
        kernel: Option<(u32, u32)>,
    },
    /// The module is loaded but follows no driver.
    Detached,
    /// There is no GPU of this number.
    NoGpu(u32),
    /// The call failed.
    Call(io::Error),
    /// The kernel reports an absurd number of clients or channels.
    Absurd(u32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = uapi::DEVICE_PATH;
        let ours = uapi::VERSION;
        match self {
            Error::NotLoaded => {
                write!(f, "{path} does not exist: the kernel module loga is not loaded")
            }
            Error::Open(source) => write!(f, "cannot open {path}: {source}"),
            Error::Version {
                kernel: Some((version, size)),
            } => write!(
                f,
                "this program speaks version {ours} ({} bytes) of {path}, the kernel module version {version} ({size} bytes)",
                size_of::<uapi::Snapshot>()
            ),
            Error::Version { kernel: None } => write!(
                f,
                "this program speaks version {ours} ({} bytes) of {path}, the kernel module another one",
                size_of::<uapi::Snapshot>()
            ),
            Error::Detached => f.write_str("the kernel module loga is attached to no driver"),
            Error::NoGpu(gpu) => write!(f, "there is no GPU {gpu}"),
            Error::Call(source) => write!(f, "snapshot from {path} failed: {source}"),
            Error::Absurd(count) => write!(f, "{path} reports {count} clients or channels"),
        }
    }
}

impl std::error::Error for Error {}

/// Everything the kernel says about one GPU at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Index of the GPU.
    pub gpu: u32,
    /// The GPU itself.
    pub info: uapi::Gpu,
    /// Its clients.
    pub clients: Vec<uapi::Client>,
    /// Channels whose submission page is known.
    pub channels: Vec<uapi::Channel>,
}

/// The open control device.
#[derive(Debug)]
pub struct Device(File);

impl Device {
    /// Opens the control device.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`] or [`Error::Open`].
    pub fn open() -> Result<Self, Error> {
        match File::open(uapi::DEVICE_PATH) {
            Ok(file) => Ok(Device(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::NotLoaded),
            Err(error) => Err(Error::Open(error)),
        }
    }

    /// A snapshot of one GPU.
    ///
    /// # Errors
    ///
    /// Any but the two of [`open`](Device::open).
    pub fn snapshot(&self, gpu: u32) -> Result<Snapshot, Error> {
        let mut clients = vec![uapi::Client::default(); ROOM];
        let mut channels = vec![uapi::Channel::default(); ROOM];
        for _ in 0..TRIES {
            let argument = self.take(gpu, &mut clients, &mut channels)?;
            let needs = (argument.client_count, argument.channel_count);
            let fits = grow(&mut clients, needs.0)? & grow(&mut channels, needs.1)?;
            if fits {
                clients.truncate(needs.0 as usize);
                channels.truncate(needs.1 as usize);
                return Ok(Snapshot {
                    gpu,
                    info: argument.info,
                    clients,
                    channels,
                });
            }
        }
        Err(Error::Call(io::ErrorKind::WouldBlock.into()))
    }

    /// Snapshots of all GPUs.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Device::snapshot).
    pub fn all(&self) -> Result<Vec<Snapshot>, Error> {
        let mut all = Vec::new();
        for gpu in 0..u32::MAX {
            match self.snapshot(gpu) {
                Ok(snapshot) => all.push(snapshot),
                Err(Error::NoGpu(_)) if gpu > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    fn take(
        &self,
        gpu: u32,
        clients: &mut [uapi::Client],
        channels: &mut [uapi::Channel],
    ) -> Result<uapi::Snapshot, Error> {
        // CAST: structure and tables are far below 2^32; addresses are 64 bits wide.
        let mut argument = uapi::Snapshot {
            version: uapi::VERSION,
            size: size_of::<uapi::Snapshot>() as u32,
            gpu,
            clients: clients.as_mut_ptr() as u64,
            channels: channels.as_mut_ptr() as u64,
            client_count: clients.len() as u32,
            channel_count: channels.len() as u32,
            ..Default::default()
        };
        // SAFETY: the argument is the structure this ioctl takes, its size is part of the number;
        // the kernel writes at most `client_count` and `channel_count` elements to the two tables,
        // which have that many, and any bit pattern is a valid element.
        let rc = unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                uapi::IOC_SNAPSHOT.into(),
                &raw mut argument,
            )
        };
        if rc >= 0 {
            return Ok(argument);
        }
        Err(meaning(io::Error::last_os_error(), gpu, &argument))
    }
}

/// What a failed snapshot means.
fn meaning(error: io::Error, gpu: u32, argument: &uapi::Snapshot) -> Error {
    match error.raw_os_error() {
        // The number of the ioctl holds the size: another size is another number.
        Some(libc::EINVAL | libc::ENOTTY) => {
            // CAST: a structure of two hundred bytes.
            let ours = (uapi::VERSION, size_of::<uapi::Snapshot>() as u32);
            let theirs = (argument.version, argument.size);
            Error::Version {
                kernel: (theirs != ours).then_some(theirs),
            }
        }
        Some(libc::ENODEV) => Error::Detached,
        Some(libc::ENXIO) => Error::NoGpu(gpu),
        _ => Error::Call(error),
    }
}

/// Makes room for `count` elements; `true` if there was enough.
fn grow<T: Clone + Default>(table: &mut Vec<T>, count: u32) -> Result<bool, Error> {
    let wanted = count as usize;
    if wanted <= table.len() {
        return Ok(true);
    }
    if wanted > ROOM_MAX {
        return Err(Error::Absurd(count));
    }
    // Some more than now, for those that start before the next try.
    table.resize(wanted + wanted / 4, T::default());
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_einval_means_version_and_names_both_if_known() {
        let mut argument = uapi::Snapshot {
            version: uapi::VERSION,
            size: size_of::<uapi::Snapshot>() as u32,
            ..Default::default()
        };
        let einval = || io::Error::from_raw_os_error(libc::EINVAL);
        let text = meaning(einval(), 0, &argument).to_string();
        assert!(text.contains("version 2 (248 bytes)"), "{text}");
        assert!(text.ends_with("the kernel module another one"), "{text}");
        argument.version = 7;
        argument.size = 300;
        let text = meaning(einval(), 0, &argument).to_string();
        assert!(text.ends_with("version 7 (300 bytes)"), "{text}");
    }

    #[test]
    fn errno_of_a_missing_gpu_names_it() {
        let argument = uapi::Snapshot::default();
        let enxio = io::Error::from_raw_os_error(libc::ENXIO);
        let text = meaning(enxio, 3, &argument).to_string();
        assert_eq!(text, "there is no GPU 3");
    }

    #[test]
    fn grow_refuses_an_absurd_count() {
        let mut table = vec![0u32; 4];
        assert!(grow(&mut table, 4).expect("fits"));
        assert!(!grow(&mut table, 5).expect("grows"));
        assert!(table.len() >= 5);
        assert!(grow(&mut table, u32::MAX).is_err());
    }
}
