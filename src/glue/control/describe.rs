// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The GPU itself and its channels as `/dev/loga` shows them.

use super::wire::{miss_numbers, wait_numbers};
use crate::account::{sparse, Accounting};
use crate::glue::gpu::books::Books;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::names::Value;
use crate::uapi;
use crate::units::Ns;
use kernel::sync::atomic::Relaxed;

/// The GPU as `/dev/loga` shows it.
pub(super) fn describe(books: &Books, gpu: &Gpu) -> uapi::Gpu {
    let stats = books.state.engine.stats();
    let config = &gpu.effective_config(books);
    let sums = books.state.sums();
    let (waits, misses) = gpu.engaged.sums();
    let mut flags = 0;
    for (set, flag) in [
        (books.state.engine.polling(), uapi::GPU_POLLING),
        (gpu.device.is_lost(), uapi::GPU_LOST),
        (books.sums.unknown_chid.is_some(), uapi::GPU_UNKNOWN_SEEN),
        (sums.copies.measured, uapi::GPU_COPIES),
        (gpu.device.is_away(), uapi::GPU_AWAY),
    ] {
        if set {
            flags |= flag;
        }
    }
    let mut shown = uapi::Gpu {
        chipset: books
            .presence
            .chip
            .map_or(0, |chip| chip.chipset.get().into()),
        pci_domain: gpu.device.address.domain,
        pci_bdf: u32::from(gpu.device.address.bus) << 8 | u32::from(gpu.device.address.devfn),
        flags,
        open_files: books.presence.open_files,
        now_ns: ffi::now().get(),
        polled_ns: stats.polled.get(),
        unpolled_ns: stats.unpolled.get(),
        idle_ns: sums.idle.get(),
        unknown_ns: sums.unknown.get(),
        t_sys_ns: books.state.engine.start_vtime().get(),
        last_poll_ns: stats.last_poll.get(),
        last_nonpoll_ns: stats.last_nonpoll.get(),
        polls: books.sums.polls,
        register_reads: books.sums.reads,
        switches: sums.switches,
        decisions: stats.decisions,
        revokes: books.clients.throttles(),
        restores: books.clients.releases(),
        fallbacks: stats.fallbacks.saturating_add(gpu.overruns.load(Relaxed)),
        overdue_drains: stats.overdue,
        unmanaged_files: books.unmanaged.files(),
        unmanaged_mappings: books.unmanaged.mappings(),
        accounting: config.effective_accounting().number(),
        scale: config.effective_scale().number(),
        // The caller knows the tracker.
        unfollowed: 0,
        knobs: [0; uapi::MAX_KNOBS],
        // CAST: at most `MAX_SETTINGS`.
        settings: books.state.settings.all().len() as u32,
        sample_interval_ns: sample_interval(books).map_or(0, Ns::get),
        unknown_chid: books.sums.unknown_chid.map_or(0, u32::from),
        evasions: books.sums.evasions,
        // `Tables::fill` sums up clients.
        busy_2s_pct: 0,
        busy_30s_pct: 0,
        want_2s_pct: 0,
        want_30s_pct: 0,
        wanting: 0,
        claims: 0,
        claimed_pct: 0,
        reserved2: 0,
        claims_seen: 0,
        copy_2s_pct: 0,
        copy_30s_pct: 0,
        copy_polled_ns: sums.copies.polled.get(),
        copy_idle_ns: sums.copies.idle.get(),
        copy_unknown_ns: sums.copies.unknown.get(),
        submission_waits: wait_numbers(&waits),
        misses: miss_numbers(&misses),
    };
    shown.note(config);
    shown
}

/// Bound of the error of a client's time with this variance. Burst accounting gives none.
pub(super) fn error_of(books: &Books, variance_us2: u64) -> Ns {
    let every = sample_interval(books);
    if every.is_none() && variance_us2 == 0 {
        return Ns::ZERO;
    }
    sparse::bound(variance_us2, every.unwrap_or(Ns::ZERO))
}

/// Mean time between two samples, if accounting is sparse.
fn sample_interval(books: &Books) -> Option<Ns> {
    match books.state.engine.config().effective_accounting() {
        Accounting::Burst => None,
        Accounting::Sparse => Some(books.state.plan().1),
    }
}

/// The channels as `/dev/loga` shows them, each with the position of its owner.
pub(super) fn describe_channels(
    books: &Books,
) -> impl Iterator<Item = (usize, uapi::Channel)> + '_ {
    books.pages.table().channels().map(|(chid, page, channel)| {
        let shown = uapi::Channel {
            chid: chid.get().into(),
            mappings: page.mappings(),
            client: page.owner().get(),
            measured_ns: channel.measured.get(),
            runs: channel.runs,
            copied_ns: channel.copied.get(),
        };
        (page.at(), shown)
    })
}
