// SPDX-License-Identifier: GPL-2.0

//! [glue] `/dev/loga`: snapshots for the tools. Mode 0600, root only.

use super::gpu::Gpu;
use super::hook;
use crate::uapi;
use kernel::fs::File;
use kernel::miscdevice::{MiscDevice, MiscDeviceRegistration};
use kernel::prelude::*;
use kernel::transmute::{AsBytes, FromBytes};
use kernel::uaccess::{UserPtr, UserSlice};

/// An open file of `/dev/loga`; it has no state.
pub(crate) struct ControlDevice;

/// A structure of [`uapi`] on its way to or from user space.
#[repr(transparent)]
struct Wire<T>(T);

// SAFETY: (all) the structures of `uapi` have no padding and no pointers.
unsafe impl AsBytes for Wire<uapi::Snapshot> {}
// SAFETY: As above, and every bit pattern is valid.
unsafe impl FromBytes for Wire<uapi::Snapshot> {}
// SAFETY: As above.
unsafe impl AsBytes for Wire<uapi::Client> {}
// SAFETY: As above.
unsafe impl AsBytes for Wire<uapi::Channel> {}
// SAFETY: As above.
unsafe impl AsBytes for Wire<uapi::Header> {}

#[vtable]
impl MiscDevice for ControlDevice {
    type Ptr = KBox<Self>;

    fn open(_file: &File, _misc: &MiscDeviceRegistration<Self>) -> Result<KBox<Self>> {
        Ok(KBox::new(Self, GFP_KERNEL)?)
    }

    fn ioctl(_device: &Self, _file: &File, cmd: u32, arg: usize) -> Result<isize> {
        match uapi::Call::of(cmd) {
            Some(uapi::Call::Snapshot) => {}
            Some(_) | None => return Err(ENOTTY),
        }
        if uapi::arg_size(cmd) != size_of::<uapi::Snapshot>() {
            return refuse_size(cmd, arg, uapi::Call::Snapshot);
        }
        let user = UserSlice::new(UserPtr::from_addr(arg), size_of::<uapi::Snapshot>());
        let (mut reader, mut writer) = user.reader_writer();
        let Wire(mut snapshot) = reader.read::<Wire<uapi::Snapshot>>()?;
        let header = uapi::Header {
            version: snapshot.version,
            size: snapshot.size,
        };
        if uapi::Call::Snapshot.check(cmd, header).is_err() {
            return refuse_size(cmd, arg, uapi::Call::Snapshot);
        }
        fill(&mut snapshot)?;
        writer.write(&Wire(snapshot))?;
        Ok(0)
    }
}

/// Refuses an argument of the wrong version or size: tells the caller what is right.
fn refuse_size(cmd: u32, arg: usize, call: uapi::Call) -> Result<isize> {
    if uapi::arg_size(cmd) >= size_of::<uapi::Header>() {
        UserSlice::new(UserPtr::from_addr(arg), size_of::<uapi::Header>())
            .writer()
            .write(&Wire(call.header()))?;
    }
    Err(EINVAL)
}

/// Fills a snapshot and the tables it points to.
fn fill(snapshot: &mut uapi::Snapshot) -> Result {
    snapshot.check().map_err(|_| EINVAL)?;
    let tracker = hook::tracker().ok_or(ENODEV)?;
    let gpu = usize::try_from(snapshot.gpu)
        .ok()
        .and_then(|index| tracker.gpu(index))
        .ok_or(ENXIO)?;
    let (clients, channels) = collect(gpu, snapshot)?;
    for (at, client) in clients.into_iter().enumerate() {
        put(snapshot.clients, at, &Wire(client))?;
    }
    for (at, channel) in channels.into_iter().enumerate() {
        put(snapshot.channels, at, &Wire(channel))?;
    }
    Ok(())
}

/// Takes the books down, without touching user memory while they are locked.
fn collect(
    gpu: &Gpu,
    snapshot: &mut uapi::Snapshot,
) -> Result<(KVVec<uapi::Client>, KVVec<uapi::Channel>)> {
    let mut books = gpu.books.lock();
    books.forget_gone_clients();
    snapshot.info = books.describe(gpu);
    let mut clients = KVVec::new();
    for at in 0..books.clients.len().min(snapshot.client_count as usize) {
        if let Some(client) = books.describe_client(at) {
            clients.push(client, GFP_KERNEL)?;
        }
    }
    let mut channels = KVVec::new();
    for at in 0..books.channels.len().min(snapshot.channel_count as usize) {
        if let Some(channel) = books.describe_channel(at) {
            channels.push(channel, GFP_KERNEL)?;
        }
    }
    snapshot.group_count = 0;
    // CAST: both are bounded by the number of channels.
    snapshot.client_count = books.clients.len() as u32;
    // CAST: As above.
    snapshot.channel_count = books.channels.len() as u32;
    Ok((clients, channels))
}

/// Writes element `at` of a table in user memory.
fn put<T>(table: u64, at: usize, element: &T) -> Result
where
    T: AsBytes,
{
    let offset = at.checked_mul(size_of::<T>()).ok_or(EFAULT)?;
    let address = usize::try_from(table)
        .ok()
        .and_then(|table| table.checked_add(offset))
        .ok_or(EFAULT)?;
    UserSlice::new(UserPtr::from_addr(address), size_of::<T>())
        .writer()
        .write(element)
}
