// SPDX-License-Identifier: GPL-2.0

//! Registers of a Kepler GPU that the model implements, as BAR0 byte offsets.
//!
//! Source abbreviations: *GK20A* is NVIDIA's own Kepler register headers (`hw_fifo_gk20a.h`,
//! `hw_ccsr_gk20a.h`, `hw_gr_gk20a.h`, `hw_ram_gk20a.h`), *GV100* the published manual
//! `dev_*.ref.txt` of the next family with the same layout, *nouveau* the driver in Linux 7.3
//! (`drivers/gpu/drm/nouveau/nvkm`), *envytools* its rnndb.

/// PMC_BOOT_0: architecture 28:24, implementation 23:20. Source: GV100 `dev_master`.
pub const PMC_BOOT_0: u32 = 0x00_0000;
/// What PMC_BOOT_0 reads: GK110B. Source: nouveau `engine/device/base.c` (chipset 0x0f1).
pub const PMC_BOOT_0_GK110B: u32 = 0x0f10_00a1;
/// What PMC_BOOT_0 reads on a TU104: a chip that submits through a doorbell.
pub const PMC_BOOT_0_TU104: u32 = 0x1640_00a1;
/// PMC_BOOT_42, the same in other places: architecture 29:24, implementation 23:20, major
/// revision 19:16, minor 15:12. Driver 470 asks it what chip this is.
/// Source: `drivers/gpu/nova-core/regs.rs`.
pub const PMC_BOOT_42: u32 = 0x00_0a00;
/// What PMC_BOOT_42 reads: GK110B, revision A1 as in PMC_BOOT_0.
pub const PMC_BOOT_42_GK110B: u32 = 0x0f1a_1000;
/// PMC_ENABLE: engines out of reset, bit 8 PFIFO, bit 12 PGRAPH. Source: nouveau `gr/gf100.c`.
pub const PMC_ENABLE: u32 = 0x00_0200;
/// PBDMA enable: writing all ones reads back the existing units. Source: nouveau `fifo/gf100.c`.
pub const PMC_PBDMA_ENABLE: u32 = 0x00_0204;

/// How many channels there are, from GM200 on. Source: nouveau `fifo/gm200.c`, `gm200_fifo_chid_nr`.
pub const CHANNEL_COUNT: u32 = 0x00_2008;

/// PFIFO interrupt status, write one to clear. Source: nouveau `fifo/gk104.c`, `gk104_fifo_intr`.
pub const PFIFO_INTR: u32 = 0x00_2100;
/// PFIFO interrupt enable. Source: nouveau `fifo/gk104.c`.
pub const PFIFO_INTR_EN: u32 = 0x00_2140;
/// Interrupt: a bind or unbind was refused. Source: nouveau `fifo/gk104.c`.
pub const INTR_BIND_ERROR: u32 = 1 << 0;
/// Interrupt: the scheduler met a bad runlist. Source: nouveau `fifo/gk104.c`.
pub const INTR_SCHED_ERROR: u32 = 1 << 8;
/// Interrupt: a PBDMA stopped on a bad command. Source: nouveau `fifo/gk104.c`.
pub const INTR_PBDMA: u32 = 1 << 29;
/// Interrupt: a runlist was taken over. Source: nouveau `fifo/gk104.c`.
pub const INTR_RUNLIST: u32 = 1 << 30;
/// Interrupt: a channel executed NON_STALL_INTERRUPT. Source: nouveau `fifo/gk104.c`.
pub const INTR_NON_STALL: u32 = 1 << 31;

/// USERD base in BAR1: address >> 12 in 27:0, valid in 28. Source: GK20A, `fifo_bar1_base`.
pub const USERD_BASE: u32 = 0x00_2254;
/// The valid bit of [`USERD_BASE`]. Source: GK20A, `fifo_bar1_base_valid_true`.
pub const USERD_BASE_VALID: u32 = 1 << 28;
/// Clears the fault state of runlists, one bit each. Source: nouveau `fifo/gk104.c`.
pub const RUNLIST_FAULT: u32 = 0x00_262c;
/// Runlists that must not be scheduled, one bit each. Source: GK20A, `fifo_sched_disable`.
pub const SCHED_DISABLE: u32 = 0x00_2630;
/// Preempt request: id 11:0, pending 20, type 25:24 (1: TSG). Source: GK20A, `fifo_preempt`.
pub const PREEMPT: u32 = 0x00_2634;
/// The pending bit of [`PREEMPT`]. Source: GK20A, `fifo_preempt_pending_true`.
pub const PREEMPT_PENDING: u32 = 1 << 20;
/// The TSG type of [`PREEMPT`]. Source: GK20A, `fifo_preempt_type_tsg`.
pub const PREEMPT_TYPE_TSG: u32 = 1 << 24;
/// Runlist address >> 12, target in 29:28. Source: GK20A, `fifo_runlist_base`.
pub const RUNLIST_BASE: u32 = 0x00_2270;
/// Runlist submit: entries 15:0, runlist 23:20. Source: nouveau `fifo/gk104.c`.
pub const RUNLIST_SUBMIT: u32 = 0x00_2274;
/// Readback of a runlist's address; one pair of words each. Source: GK20A, `fifo_eng_runlist_base`.
pub const RUNLIST_READBACK: u32 = 0x00_2280;
/// Pending bit in the second word of the readback. Source: nouveau `fifo/gk104.c`.
pub const RUNLIST_PENDING: u32 = 1 << 20;
/// Code of the last bind error. Source: nouveau `fifo/gk104.c`, `gk104_fifo_intr_bind_reason`.
pub const BIND_ERROR: u32 = 0x00_252c;
/// A bind of a channel that is bound. Source: as [`BIND_ERROR`].
pub const BIND_NOT_UNBOUND: u32 = 0x01;
/// A bind while [`USERD_BASE`] is not valid. Source: as [`BIND_ERROR`].
pub const BIND_SNOOP_WITHOUT_BAR1: u32 = 0x02;
/// An unbind of a channel while its context is on an engine. Source: as [`BIND_ERROR`].
pub const BIND_UNBIND_WHILE_RUNNING: u32 = 0x03;
/// A channel sent to a runlist that does not exist. Source: as [`BIND_ERROR`].
pub const BIND_INVALID_RUNLIST: u32 = 0x05;
/// PBDMA to runlist masks, one word per PBDMA. Source: nouveau `fifo/gk104.c`.
pub const PBDMA_MAP: u32 = 0x00_2390;
/// Runlist interrupt detail, write one to clear. Source: nouveau `fifo/gk104.c`.
pub const RUNLIST_INTR: u32 = 0x00_2a00;
/// Written once at initialisation. Source: nouveau `fifo/gk104.c`, `gk104_fifo_init`.
pub const PFIFO_INIT: u32 = 0x00_2a04;

/// ENGINE_STATUS(i) at `+ 8 * i`. Source: GK20A, `fifo_engine_status`.
pub const ENGINE_STATUS: u32 = 0x00_2640;
/// ENGINE_STATUS_DEBUG(i) at `+ 8 * i`; bit 0 is constant one. Source: GV100 `dev_fifo`.
pub const ENGINE_STATUS_DEBUG: u32 = 0x00_2644;
/// ID_TYPE: the id is a TSG. Source: GK20A, `fifo_engine_status_id_type`.
pub const STATUS_ID_TSG: u32 = 1 << 12;
/// CTX_STATUS VALID: a context is resident. Source: GK20A, `fifo_engine_status_ctx_status`.
pub const STATUS_CTX_VALID: u32 = 1 << 13;
/// CTX_STATUS CTXSW_LOAD. Source: as [`STATUS_CTX_VALID`].
pub const STATUS_CTX_LOAD: u32 = 5 << 13;
/// CTX_STATUS CTXSW_SAVE. Source: as [`STATUS_CTX_VALID`].
pub const STATUS_CTX_SAVE: u32 = 6 << 13;
/// CTX_STATUS CTXSW_SWITCH. Source: as [`STATUS_CTX_VALID`].
pub const STATUS_CTX_SWITCH: u32 = 7 << 13;
/// Shift of NEXT_ID; its type bit follows at 28. Source: GK20A, `fifo_engine_status_next_id`.
pub const STATUS_NEXT_SHIFT: u32 = 16;
/// ENGINE: busy. Source: GK20A, `fifo_engine_status_engine_busy`.
pub const STATUS_BUSY: u32 = 1 << 31;
/// PBDMA_STATUS(i) at `+ 4 * i`, laid out as ENGINE_STATUS. Source: GK20A, `fifo_pbdma_status`.
pub const PBDMA_STATUS: u32 = 0x00_3080;

/// PTIMER: ns 31:5. Source: GV100 `dev_timer`, `NV_PTIMER_TIME_0`.
pub const PTIMER_TIME_0: u32 = 0x00_9400;
/// PTIMER: ns 60:32. Source: GV100 `dev_timer`, `NV_PTIMER_TIME_1`.
pub const PTIMER_TIME_1: u32 = 0x00_9410;

/// Device information table, 64 words. Source: nouveau `subdev/top/gk104.c`.
pub const DEVICE_INFO: u32 = 0x02_2700;
/// Words of [`DEVICE_INFO`].
pub const DEVICE_INFO_WORDS: u32 = 64;
/// Contents of the table: GR on engine 0 and runlist 0, CE0 on engine 4 and runlist 1.
///
/// Two words each: ENUM (type 2: engine 29:26 valid by bit 5, runlist 24:21 valid by bit 4) and
/// ENGINE_TYPE (type 3, value from bit 2: 0 GR, 1 CE0); bit 31: more follows.
/// Source of the format: nouveau `subdev/top/gk104.c`; the runlist of CE0 is the model's choice.
pub const DEVICE_INFO_TABLE: [u32; 4] = [
    (1 << 31) | (1 << 5) | (1 << 4) | 2,
    3,
    (1 << 31) | (4 << 26) | (1 << 21) | (1 << 5) | (1 << 4) | 2,
    (1 << 2) | 3,
];

/// First PBDMA register block. Source: nouveau `fifo/gf100.c`, `gk104_runq_init`.
pub const PBDMA: u32 = 0x04_0000;
/// Distance of the PBDMA blocks.
pub const PBDMA_STRIDE: u32 = 0x2000;
/// PBDMA interrupt status in a block, write one to clear. Source: nouveau `fifo/gf100.c`.
pub const PBDMA_INTR: u32 = 0x108;
/// PBDMA interrupt enable in a block. Source: nouveau `fifo/gf100.c`.
pub const PBDMA_INTR_EN: u32 = 0x10c;
/// Bit of [`PBDMA_INTR`]: a method was not understood. Source: nouveau `fifo/gf100.c`.
pub const PBDMA_INTR_METHOD: u32 = 1 << 18;

/// PGRAPH_STATUS; the model shows busy in bit 0. Source: envytools `gf100_pgraph`.
pub const PGRAPH_STATUS: u32 = 0x40_0700;
/// GR engine status, bit 0 busy. Source: nouveau `gr/gf100.c`.
pub const GR_ENGINE_STATUS: u32 = 0x40_060c;
/// FECS mailbox; bit 19 is set while the next context is loaded. Source: nouveau `gr/gf100.c`.
pub const FECS_LOADING: u32 = 0x40_9808;
/// The bit of [`FECS_LOADING`] with NVIDIA's firmware. Source: nouveau `gr/gf100.c`.
pub const FECS_LOADING_BIT: u32 = 1 << 19;
/// FECS arbiter's context pointer, without a valid bit. Source: GK20A, `gr_fecs_arb_ctx_ptr`.
pub const FECS_ARB_CTX_PTR: u32 = 0x40_9a0c;
/// FECS current context: pointer 27:0, target 29:28. Source: GK20A, `gr_fecs_current_ctx`.
pub const FECS_CURRENT_CTX: u32 = 0x40_9b00;
/// FECS new context, laid out as the current one. Source: GK20A, `gr_fecs_new_ctx`.
pub const FECS_NEW_CTX: u32 = 0x40_9b04;
/// Valid bit of the two context words. Source: GK20A, `gr_fecs_current_ctx_valid`.
pub const FECS_CTX_VALID: u32 = 1 << 31;

/// Channel table: two words per channel. Source: GK20A, `ccsr_channel_inst`.
pub const CHANNEL: u32 = 0x80_0000;
/// BIND in the first word. Source: GK20A, `ccsr_channel_inst_bind_true`.
pub const CHANNEL_BIND: u32 = 1 << 31;
/// Pointer and target in the first word. Source: GK20A, `ccsr_channel_inst`.
pub const CHANNEL_INST: u32 = 0x3fff_ffff;
/// ENABLE in the second word, read only. Source: GK20A, `ccsr_channel_enable`.
pub const CHANNEL_ENABLE: u32 = 1 << 0;
/// NEXT in the second word. Source: GV100 `dev_fifo`, `NV_PCCSR_CHANNEL_NEXT`.
pub const CHANNEL_NEXT: u32 = 1 << 1;
/// FORCE_CTX_RELOAD, write only. Source: GV100 `dev_fifo`.
pub const CHANNEL_RELOAD: u32 = 1 << 8;
/// ENABLE_SET, write only. Source: GK20A, `ccsr_channel_enable_set_true`.
pub const CHANNEL_ENABLE_SET: u32 = 1 << 10;
/// ENABLE_CLR, write only. Source: GK20A, `ccsr_channel_enable_clr_true`.
pub const CHANNEL_ENABLE_CLR: u32 = 1 << 11;
/// Shift of RUNLIST (4 bits). Source: nouveau `fifo/gk104.c`, `gk104_chan_bind`.
pub const CHANNEL_RUNLIST_SHIFT: u32 = 16;
/// PBDMA_FAULTED, write one to reset. Source: GV100 `dev_fifo`.
pub const CHANNEL_PBDMA_FAULTED: u32 = 1 << 22;
/// Shift of STATUS (4 bits). Source: GK20A, `ccsr_channel_status`.
pub const CHANNEL_STATUS_SHIFT: u32 = 24;
/// BUSY. Source: GK20A, `ccsr_channel_busy`.
pub const CHANNEL_BUSY: u32 = 1 << 28;
/// Channels of GK110. Source: nouveau `fifo/gk110.c`.
pub const CHANNELS: u32 = 4096;

/// GPFIFO address in RAMFC, low word. Source: GK20A `hw_ram`, `ram_fc_gp_base`.
pub const RAMFC_GP_BASE: u64 = 0x48;
/// GPFIFO address 39:32 in 7:0, log2 of the entries in 20:16. Source: `ram_fc_gp_base_hi`.
pub const RAMFC_GP_BASE_HI: u64 = 0x4c;

/// TSG flag of a runlist entry's first word. Source: nouveau `fifo/gk110.c`.
pub const RUNLIST_ENTRY_TSG: u32 = 1 << 13;
/// Shift of the number of channels in a TSG entry. Source: nouveau `fifo/gk110.c`.
pub const RUNLIST_ENTRY_COUNT_SHIFT: u32 = 26;
/// Timeslice of the hardware's default word 0x10003080, in ns. Source: nouveau `fifo/gk104.c`.
pub const TIMESLICE_DEFAULT_NS: u64 = 128 * 8 * 1024;
