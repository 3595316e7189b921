// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Parameters of object classes and of control commands, which a call points at.
//!
//! Written as the structures of `call`, from the same sources.

/// Parameters of class 0x79 (`NV0005_ALLOC_PARAMETERS`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct EventParams {
    /// Client.
    pub parent_client: u32,
    /// Object whose completions are wanted; ignored (all of the client).
    pub source: u32,
    /// 0x79.
    pub class: u32,
    /// Notifier index, returned in [`UnixEvent::index`](super::UnixEvent::index).
    pub index: u32,
    /// The `/dev/nvidiaN` descriptor that shall become readable.
    pub data: u64,
}

/// Parameters of class 0x80 (`NV0080_ALLOC_PARAMETERS`). The model reads the first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceParams {
    /// Which GPU, in the order of the minors.
    pub device_id: u32,
    /// Client whose GPU address space is shared; 0 for none.
    pub client_share: u32,
    /// Client and device to be a copy of; 0 for none.
    pub target_client: u32,
    /// As above.
    pub target_device: u32,
    /// `NV_DEVICE_ALLOCATION_FLAGS_*`.
    pub flags: u32,
    /// Padding.
    pub pad: u32,
    /// Size of the GPU address space; 0 for the default.
    pub va_space_size: u64,
    /// Start and end of the part that RM keeps; 0 for the default.
    pub va_start_internal: u64,
    /// As above.
    pub va_limit_internal: u64,
    /// `NV_DEVICE_ALLOCATION_VAMODE_*`.
    pub va_mode: u32,
    /// Padding.
    pub pad_end: u32,
}

/// Parameters of class 0x3e in RM_ALLOC (model only; the real ones are longer).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryParams {
    /// Size in bytes minus one.
    pub limit: u64,
}

/// Parameters of GPFIFO_SCHEDULE (`bEnable`, `bSkipSubmit`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ScheduleParams {
    /// 1 enables the channel, 0 disables it.
    pub enable: u8,
    /// Ignored.
    pub skip_submit: u8,
}

/// Parameters of FIFO_GET_CHANNELLIST.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ChannelListParams {
    /// Number of handles.
    pub count: u32,
    /// Padding.
    pub pad: u32,
    /// User address of u32 channel handles.
    pub handles: u64,
    /// User address of u32 results: hardware channel ids.
    pub chids: u64,
}

/// NV_CHANNEL_ALLOC_PARAMS of 515: parameters of the channel classes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ChannelParams {
    /// Error notifier; ignored.
    pub object_error: u32,
    /// Ignored.
    pub object_buffer: u32,
    /// GPU virtual address of the GPFIFO.
    pub gpfifo_offset: u64,
    /// Number of entries, a power of two.
    pub gpfifo_entries: u32,
    /// USERD index hints; ignored.
    pub flags: u32,
    /// Ignored.
    pub context_share: u32,
    /// Ignored (one address space per client).
    pub va_space: u32,
    /// Ignored before Volta.
    pub userd_memory: [u32; 8],
    /// Ignored before Volta.
    pub userd_offset: [u64; 8],
    /// See [`super::class::ENGINE_TYPE_GRAPHICS`].
    pub engine_type: u32,
    /// Members that concern later chips.
    pub rest: [u32; 43],
}

impl Default for ChannelParams {
    fn default() -> Self {
        Self {
            object_error: 0,
            object_buffer: 0,
            gpfifo_offset: 0,
            gpfifo_entries: 0,
            flags: 0,
            context_share: 0,
            va_space: 0,
            userd_memory: [0; 8],
            userd_offset: [0; 8],
            engine_type: 0,
            rest: [0; 43],
        }
    }
}

const _: () = {
    use core::mem::offset_of;
    use core::mem::size_of;
    assert!(size_of::<DeviceParams>() == 56);
    assert!(size_of::<EventParams>() == 24);
    assert!(size_of::<MemoryParams>() == 8);
    assert!(size_of::<ScheduleParams>() == 2);
    assert!(size_of::<ChannelListParams>() == 24);
    assert!(size_of::<ChannelParams>() == 304);
    assert!(offset_of!(ChannelParams, engine_type) == 128);
};
