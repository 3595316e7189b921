// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Object classes, engine types, control commands and status codes of the resource manager.

/// Root object, one per client. Source: OGKM 515 `class/cl0041.h`, `NV01_ROOT_CLIENT`.
pub const ROOT_CLIENT: u32 = 0x41;
/// Root object, older spelling. Source: OGKM 515 `class/cl0000.h`, `NV01_ROOT`.
pub const ROOT: u32 = 0x0;
/// System memory. Source: OGKM 515 `class/cl003e.h`, `NV01_MEMORY_SYSTEM`.
pub const MEMORY_SYSTEM: u32 = 0x3e;
/// An event delivered to a file. Source: OGKM 515 `class/cl0005.h`, `NV01_EVENT_OS_EVENT`.
pub const EVENT_OS_EVENT: u32 = 0x79;
/// A GPU. Source: OGKM 515 `class/cl0080.h`, `NV01_DEVICE_0`.
pub const DEVICE: u32 = 0x80;
/// One GPU of a device. Source: OGKM 515 `class/cl2080.h`, `NV20_SUBDEVICE_0`.
pub const SUBDEVICE: u32 = 0x2080;
/// GPFIFO channel of GK104. Source: OGKM 515 `class/cla06f.h`, `KEPLER_CHANNEL_GPFIFO_A`.
pub const CHANNEL_GPFIFO_A: u32 = 0xa06f;
/// GPFIFO channel of GK110. Source: OGKM 515 `class/cla16f.h`, `KEPLER_CHANNEL_GPFIFO_B`.
pub const CHANNEL_GPFIFO_B: u32 = 0xa16f;
/// Group of channels that the GPU schedules as one (a TSG); its channels have it as their parent.
/// Source: OGKM 515 `class/cla06c.h`, `KEPLER_CHANNEL_GROUP_A`.
pub const CHANNEL_GROUP_A: u32 = 0xa06c;
/// Compute engine of GK104. Source: nouveau `nvif/class.h`, `KEPLER_COMPUTE_A`.
pub const COMPUTE_A: u32 = 0xa0c0;
/// Compute engine of GK110. Source: nouveau `nvif/class.h`, `KEPLER_COMPUTE_B`.
pub const COMPUTE_B: u32 = 0xa1c0;
/// Copy engine of Kepler. Source: nouveau `nvif/class.h`, `KEPLER_DMA_COPY_A`.
pub const DMA_COPY_A: u32 = 0xa0b5;

/// `engineType` of a channel for graphics and compute. Source: OGKM 515 `cl2080_notification.h`.
pub const ENGINE_TYPE_GRAPHICS: u32 = 1;
/// `engineType` of a channel for the first copy engine. Source: OGKM 515 `cl2080_notification.h`.
pub const ENGINE_TYPE_COPY0: u32 = 9;

/// Schedules or stops a channel; parameter: [`super::ScheduleParams`].
///
/// Source: OGKM 515 `ctrla06f.h`, `NVA06F_CTRL_CMD_GPFIFO_SCHEDULE`.
pub const CTRL_GPFIFO_SCHEDULE: u32 = 0xa06f_0103;
/// Turns channel handles into hardware channel ids; parameter: [`super::ChannelListParams`].
///
/// Source: OGKM 515 `ctrl0080fifo.h`, `NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST`.
pub const CTRL_FIFO_GET_CHANNELLIST: u32 = 0x0080_170d;

/// Status codes in the `status` member of every structure.
///
/// Source: OGKM 515 `nvstatuscodes.h`.
pub mod status {
    /// The call did what was asked.
    pub const OK: u32 = 0x00;
    /// A handle is already in use.
    pub const INSERT_DUPLICATE_NAME: u32 = 0x19;
    /// No room for another object.
    pub const INSUFFICIENT_RESOURCES: u32 = 0x1a;
    /// The caller may not do this.
    pub const INSUFFICIENT_PERMISSIONS: u32 = 0x1b;
    /// An argument makes no sense.
    pub const INVALID_ARGUMENT: u32 = 0x1f;
    /// No such channel.
    pub const INVALID_CHANNEL: u32 = 0x21;
    /// The class is not known.
    pub const INVALID_CLASS: u32 = 0x22;
    /// The client handle is not known on this file.
    pub const INVALID_CLIENT: u32 = 0x23;
    /// The control command is not known.
    pub const INVALID_COMMAND: u32 = 0x24;
    /// The device handle is not known.
    pub const INVALID_DEVICE: u32 = 0x26;
    /// An event could not be set up.
    pub const INVALID_EVENT: u32 = 0x28;
    /// A length or limit is out of range.
    pub const INVALID_LIMIT: u32 = 0x2e;
    /// No such object.
    pub const INVALID_OBJECT: u32 = 0x31;
    /// The object has the wrong class for this call.
    pub const INVALID_OBJECT_HANDLE: u32 = 0x33;
    /// The parent of an object is unknown or of the wrong class.
    pub const INVALID_OBJECT_PARENT: u32 = 0x36;
    /// The parameter structure has the wrong size.
    pub const INVALID_PARAM_STRUCT: u32 = 0x3a;
    /// The user pointer cannot be read or written.
    pub const INVALID_POINTER: u32 = 0x3d;
    /// Out of memory.
    pub const NO_MEMORY: u32 = 0x51;
    /// The file already carries a mapping.
    pub const STATE_IN_USE: u32 = 0x63;
    /// The call is not offered.
    pub const NOT_SUPPORTED: u32 = 0x56;
}
