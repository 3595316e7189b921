// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Snapshots: one GPU, its clients, groups and channels.

/// Room for knobs.
pub const MAX_KNOBS: usize = 16;

/// Longest command name of a process, with its terminating zero (`TASK_COMM_LEN`).
pub const COMM_LEN: usize = 16;

/// Argument of [`super::IOC_SNAPSHOT`]: where to put the tables, and what came back.
///
/// A caller without `CAP_PERFMON` in the initial user namespace gets its own clients, with their
/// groups and channels; of a group that has processes of other users, what its own processes got;
/// and of the GPU itself the fields that do not show when LoGA samples it or what a single other
/// user does: see [`GPU_WITHHELD`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<Snapshot>()`.
    pub size: u32,
    /// In: index of the GPU, from 0. `ENXIO` past the last one.
    pub gpu: u32,
    /// In: zero.
    pub flags: u32,
    /// In: address of an array of [`Client`].
    pub clients: u64,
    /// In: address of an array of [`Group`].
    pub groups: u64,
    /// In: address of an array of [`Channel`].
    pub channels: u64,
    /// In: room in `clients`, in elements. Out: how many there are; the table is
    /// cut to the room when this is larger.
    pub client_count: u32,
    /// In: room in `groups`. Out: as `client_count`.
    pub group_count: u32,
    /// In: room in `channels`. Out: as `client_count`.
    pub channel_count: u32,
    /// In: zero.
    pub reserved: u32,
    /// Out: the GPU itself.
    pub info: Gpu,
}

impl Gpu {
    /// Clears what not all users may see: phases, counters and times of the whole GPU.
    pub fn withhold(&mut self) {
        *self = Self {
            chipset: self.chipset,
            pci_domain: self.pci_domain,
            pci_bdf: self.pci_bdf,
            flags: (self.flags & !(GPU_POLLING | GPU_UNKNOWN_SEEN)) | GPU_WITHHELD,
            now_ns: self.now_ns,
            accounting: self.accounting,
            scale: self.scale,
            knobs: self.knobs,
            busy_2s_pct: self.busy_2s_pct,
            busy_30s_pct: self.busy_30s_pct,
            want_2s_pct: self.want_2s_pct,
            want_30s_pct: self.want_30s_pct,
            wanting: self.wanting,
            claims: self.claims,
            claimed_pct: self.claimed_pct,
            claims_seen: self.claims_seen,
            copy_2s_pct: self.copy_2s_pct,
            copy_30s_pct: self.copy_30s_pct,
            ..Self::default()
        };
    }
}

/// One GPU and what its poller saw. With [`GPU_WITHHELD`], fields marked with a star are zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Gpu {
    /// Chip id as in PMC_BOOT_0 bits 28:20, `0xf1` for a GK110B.
    pub chipset: u32,
    /// PCI domain.
    pub pci_domain: u32,
    /// PCI bus number in bits 15:8, device and function in bits 7:0.
    pub pci_bdf: u32,
    /// Bits `GPU_*`.
    pub flags: u32,
    /// * Open files of the GPU's device node that LoGA manages.
    pub open_files: u32,
    /// * Processes, users and cgroups for which something is set.
    pub settings: u32,
    /// Time of this snapshot.
    pub now_ns: u64,
    /// * Sum of the lengths of all polling phases.
    pub polled_ns: u64,
    /// * Sum of the lengths of all non-polling phases.
    pub unpolled_ns: u64,
    /// * Part of `polled_ns` in which no work was on the engine.
    pub idle_ns: u64,
    /// * Part of `polled_ns` in which channels without a known owner ran.
    pub unknown_ns: u64,
    /// * System virtual time.
    pub t_sys_ns: u64,
    /// * Length of the last polling phase.
    pub last_poll_ns: u64,
    /// * Length of the last non-polling phase.
    pub last_nonpoll_ns: u64,
    /// * Iterations of the poll loop, and samples of sparse accounting.
    pub polls: u64,
    /// * Register reads made by them.
    pub register_reads: u64,
    /// * Changes of the engine's occupant that were seen.
    pub switches: u64,
    /// * Polling phases ended.
    pub decisions: u64,
    /// * Clients throttled, ever.
    pub revokes: u64,
    /// * Clients released, ever.
    pub restores: u64,
    /// * Fallbacks: times all clients ran against a decision.
    pub fallbacks: u64,
    /// * Times that a channel did not run empty within the bound of a policy that waits for it.
    pub overdue_drains: u64,
    /// * Files that were open before LoGA was attached and are passed through.
    pub unmanaged_files: u64,
    /// Mappings of submission pages that LoGA neither controls nor has refused: their channels
    /// run unthrottled. The log says why, and of which process.
    pub unmanaged_mappings: u64,
    /// * Time between two samples on average, if accounting is sparse; else zero.
    pub sample_interval_ns: u64,
    /// * Times that a client was found on the engine outside of polling phases for longer than
    ///   within them, beyond the errors of both and over many periods; see [`Client::evasions`].
    pub evasions: u64,
    /// * The last channel without a known owner that was on the engine, if
    ///   [`GPU_UNKNOWN_SEEN`]; ids of TSGs count from 4096.
    pub unknown_chid: u32,
    /// How GPU time is accounted: position in [`Accounting::NAMES`](crate::account::Accounting).
    pub accounting: u32,
    /// What phases grow with: position in [`Scale::NAMES`](crate::knobs::Scale).
    pub scale: u32,
    /// GPUs of the driver that LoGA does not follow; the kernel's log says why.
    pub unfollowed: u32,
    /// The numbers of all knobs, in the order of [`KNOBS`](crate::knobs::KNOBS).
    pub knobs: [u32; MAX_KNOBS],
    /// Part of the GPU that all clients together had, in whole percents: a mean that fades with a
    /// time constant of 2 s, see [`account::fading`](crate::account::fading). This and the fields
    /// below are those of the whole GPU for every user: whole percents of fading means show neither
    /// when LoGA samples the GPU nor what a single user does in detail.
    pub busy_2s_pct: u32,
    /// As `busy_2s_pct`, of 30 s.
    pub busy_30s_pct: u32,
    /// Sum of what the clients want, in whole percents of the GPU: of each what it would use alone,
    /// [`Means::want_2s`](crate::account::fading::Means::want_2s). It may be more than 100.
    pub want_2s_pct: u32,
    /// As `want_2s_pct`, of 30 s.
    pub want_30s_pct: u32,
    /// Clients that want 1 % of the GPU or more, over 30 s.
    pub wanting: u32,
    /// Programs that are about to start: claims that hold now, of processes that are no clients yet.
    pub claims: u32,
    /// What all claims count together, in percent of the GPU: those of clients too, as far as these
    /// are not measured to want it yet.
    pub claimed_pct: u32,
    /// Zero.
    pub reserved2: u32,
    /// Changes whenever a claim is made, on any GPU; see IOC_CLAIM.
    pub claims_seen: u64,
    /// As `busy_2s_pct`, of the copy engine.
    pub copy_2s_pct: u32,
    /// As `busy_30s_pct`, of the copy engine.
    pub copy_30s_pct: u32,
    /// * Sum of the lengths of the polling phases in which the copy engine was measured.
    pub copy_polled_ns: u64,
    /// * Part of `copy_polled_ns` in which no work was on the copy engine.
    pub copy_idle_ns: u64,
    /// * Part of `copy_polled_ns` in which channels without a known owner were on it.
    pub copy_unknown_ns: u64,
    /// * Time that the submissions of all clients together waited while they were decided on.
    pub submission_waits: SubmissionWaits,
    /// * Deadlines of all reserves that were missed.
    pub misses: Misses,
}

/// Time from the arrivals of submissions to their grants, by what they waited for. While a reserve
/// does not let its client start, only that counts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubmissionWaits {
    /// For submissions that were on the engine before, the client's own too, and for work of
    /// protected clients.
    pub running_ns: u64,
    /// For its reserve to let it start.
    pub budget_ns: u64,
    /// For clients that passed before it although it was ready.
    pub order_ns: u64,
    /// While the engine was kept free after work of protected clients.
    pub linger_ns: u64,
}

impl SubmissionWaits {
    /// All of it.
    pub const fn total_ns(&self) -> u64 {
        self.running_ns
            .saturating_add(self.budget_ns)
            .saturating_add(self.order_ns)
            .saturating_add(self.linger_ns)
    }
}

/// Submissions that ended after they were due. What a reserve promises holds under conditions: a
/// miss is void if one of them was broken.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// All conditions held: LoGA, or its admission, is at fault.
    pub promised: u64,
    /// Void: the client used more than its reserve had left, or than is declared.
    pub own: u64,
    /// Void: a command of another client was longer than the deadline bears beside all that is
    /// promised, and not declared so; or there was work of protected clients.
    pub foreign: u64,
    /// Void: all clients had to pass, or submissions had passed without a decision.
    pub fallback: u64,
    /// Void: clients of a higher priority passed before.
    pub order: u64,
}

/// The poller is inside a polling phase. Not shown to all users, see [`GPU_WITHHELD`].
pub const GPU_POLLING: u32 = 1 << 0;
/// The device answered with all ones: it is gone, no client is throttled.
pub const GPU_LOST: u32 = 1 << 1;
/// Figures of the whole GPU are left out, because the caller may not see them: they would show when
/// LoGA samples the GPU, and what other users do. Fields that [`Gpu`] marks are zero.
pub const GPU_WITHHELD: u32 = 1 << 2;
/// A part of `unknown_ns` is time of `unknown_chid`.
pub const GPU_UNKNOWN_SEEN: u32 = 1 << 3;
/// The first copy engine was measured in the last polling phase. Else the chip lists none, or its
/// status word cannot be read: times of copies do not grow, whatever is copied.
pub const GPU_COPIES: u32 = 1 << 4;
/// The GPU is not bound to its driver, or the machine sleeps: no client is throttled.
pub const GPU_AWAY: u32 = 1 << 5;

/// The GPU is divided between processes.
pub const GROUP_BY_PROCESS: u32 = 0;
/// The GPU is divided between users.
pub const GROUP_BY_USER: u32 = 1;
/// The GPU is divided between cgroups.
pub const GROUP_BY_CGROUP: u32 = 2;

/// One client: a process that uses the GPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Client {
    /// Unique since the module was loaded, never used again. Counts the clients of all users.
    pub id: u64,
    /// Process id of the owner, in the pid namespace of the reader; 0 if not visible there.
    pub pid: i32,
    /// The user that it belongs to, in the user namespace of the reader: its real user when it first
    /// mapped a page, or the user that made the user namespace that it was in.
    pub uid: u32,
    /// Command name of the owner.
    pub comm: [u8; COMM_LEN],
    /// Channels allocated.
    pub channels: u32,
    /// One of `STATE_*`.
    pub state: u32,
    /// Weight that holds for it, 1 to 10000.
    pub weight: u32,
    /// Lowest hard limit that it is under, in percent of a GPU; 100 for none.
    pub limit_pct: u32,
    /// One of `CLASS_*`.
    pub class: u32,
    /// Why it is throttled: one of `THROTTLED_BY_*`.
    pub throttled_by: u32,
    /// [`Group::id`] of its group.
    pub group: u64,
    /// Its cgroup; 0 if it has none, or one outside the cgroup namespace of the reader.
    pub cgroup: u64,
    /// GPU time in all polling phases: measured.
    pub measured_ns: u64,
    /// GPU time since the client appeared: measured time scaled by the phases it stands for.
    pub gpu_time_ns: u64,
    /// What `gpu_time_ns` may be wrong by, with 95 % confidence, where accounting was
    /// sparse; zero with burst accounting, which gives no bound.
    pub error_ns: u64,
    /// Variance behind `error_ns`, in square microseconds. The variance of an interval is the
    /// difference of two snapshots.
    pub variance_us2: u64,
    /// What a division by weights among the active clients would have given it.
    pub entitled_ns: u64,
    /// Time in which it wanted the GPU and did not have it.
    pub waited_ns: u64,
    /// Virtual time of its group; the system's if the reader may not see all of the group.
    pub vtime_ns: u64,
    /// Time spent throttled.
    pub throttled_ns: u64,
    /// Times it was throttled.
    pub throttled_count: u64,
    /// Times the engine took up its work in polling phases: with burst accounting,
    /// `measured_ns / runs` is the mean length of a run. Sparse accounting counts none.
    pub runs: u64,
    /// When it appeared.
    pub since_ns: u64,
    /// Times that it was found on the engine outside of polling phases for longer than within
    /// them, beyond the errors of both and over many periods: it is charged what was found.
    /// With burst accounting only: sparse accounting samples all times alike.
    pub evasions: u64,
    /// What the spec that it follows is set for: one of `SUBJECT_*`, or [`NO_SPEC`].
    pub spec: u32,
    /// Priority of its submissions: set, or of the thread that submitted last; [`PRIO_BY_NICE`](super::PRIO_BY_NICE)
    /// if neither is known.
    pub prio: u32,
    /// One of `MODE_*`.
    pub mode: u32,
    /// Kind of the reserve that it has with the other clients of its spec: one of `RESERVE_*`.
    pub reserve: u32,
    /// Submissions that were decided on and have completed. This and the fields below are of all
    /// clients of its user that share its wait queue, and zero without one.
    pub submissions: u64,
    /// Time that they waited for their grants.
    pub submission_waits: SubmissionWaits,
    /// The longest of them.
    pub longest_submission_wait_ns: u64,
    /// Part of the time for which it had the GPU, in millionths: a mean of what is added to
    /// `gpu_time_ns`, which fades with a time constant of 2 s, or is over the life of a younger
    /// client. It changes when a period is booked, and fades without one.
    pub busy_2s_ppm: u32,
    /// As `busy_2s_ppm`, of 30 s.
    pub busy_30s_ppm: u32,
    /// As `busy_2s_ppm`, of what is added to `waited_ns`: also time throttled, by a limit too. It
    /// lacks the time in which commands wait behind those of other clients where LoGA does not
    /// observe that: under policies that work in stages, and, with `scale=channels`, under those
    /// that do not need it.
    pub waited_2s_ppm: u32,
    /// As `waited_2s_ppm`, of 30 s.
    pub waited_30s_ppm: u32,
    /// Time on the first copy engine since the client appeared, scaled like `gpu_time_ns`, of which
    /// it is no part. Only where [`GPU_COPIES`] is set it grows.
    pub copy_time_ns: u64,
    /// As `error_ns`, of `copy_time_ns`.
    pub copy_error_ns: u64,
    /// As `variance_us2`, of `copy_time_ns`.
    pub copy_variance_us2: u64,
    /// As `busy_2s_ppm`, of `copy_time_ns`.
    pub copy_2s_ppm: u32,
    /// As `copy_2s_ppm`, of 30 s.
    pub copy_30s_ppm: u32,
    /// 1 if its process has ended: others use its pages on, or its channels still run.
    pub ended: u32,
    /// Process id of one that uses its pages on, in the pid namespace of the reader; 0 for none.
    pub user: i32,
}

/// The client follows no spec.
pub const NO_SPEC: u32 = u32::MAX;

/// The client had no work in the last polling phase.
pub const STATE_IDLE: u32 = 0;
/// The client had work in the last polling phase and may submit.
pub const STATE_RUNNING: u32 = 1;
/// The client's submission pages are revoked.
pub const STATE_THROTTLED: u32 = 2;

/// Of the normal class.
pub const CLASS_NORMAL: u32 = 0;
/// Of the idle class: runs only when no client of the normal class wants the GPU.
pub const CLASS_IDLE: u32 = 1;

/// Not throttled.
pub const THROTTLED_BY_NONE: u32 = 0;
/// Throttled by the policy.
pub const THROTTLED_BY_POLICY: u32 = 1;
/// Throttled by a hard limit.
pub const THROTTLED_BY_LIMIT: u32 = 2;
/// Throttled for being of the idle class.
pub const THROTTLED_BY_CLASS: u32 = 3;
/// Throttled while a client uses what a reserve promises it.
pub const THROTTLED_BY_RESERVE: u32 = 4;

/// One group: what fairness is between.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Group {
    /// Unique on this GPU, until `group_by` changes.
    pub id: u64,
    /// User id or cgroup id; 0 for a process: its group is found by [`Client::group`].
    pub key: u64,
    /// One of `GROUP_BY_*`.
    pub kind: u32,
    /// Processes in it that the reader may see. A group without any is shown until what it used
    /// is paid for; policies that go by attained service remember it for longer, see
    /// docs/policies.md.
    pub members: u32,
    /// Weight, 1 to 10000.
    pub weight: u32,
    /// 1 if the policy throttles it.
    pub throttled: u32,
    /// As of a [`Client`].
    pub vtime_ns: u64,
    /// As of a [`Client`], summed over its processes, those that exited included.
    pub measured_ns: u64,
    /// As of a [`Client`].
    pub gpu_time_ns: u64,
    /// As of a [`Client`].
    pub entitled_ns: u64,
    /// As of a [`Client`].
    pub waited_ns: u64,
    /// As of a [`Client`].
    pub throttled_ns: u64,
    /// As of a [`Client`].
    pub throttled_count: u64,
    /// As of a [`Client`].
    pub runs: u64,
    /// As of a [`Client`].
    pub copy_time_ns: u64,
    /// 1 if it has the turn, under a policy with turns: it has the GPU alone until another group has.
    pub turn: u32,
    /// Zero.
    pub reserved: u32,
}

/// One channel with a known submission page.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Channel {
    /// Hardware channel id.
    pub chid: u32,
    /// Submission mappings of it that exist now.
    pub mappings: u32,
    /// [`Client::id`] of the owner.
    pub client: u64,
    /// GPU time in all polling phases.
    pub measured_ns: u64,
    /// Times the engine took up its work in polling phases.
    pub runs: u64,
    /// Time on the copy engine in all polling phases.
    pub copied_ns: u64,
}

const _: () = assert!(core::mem::size_of::<Gpu>() == 408);
const _: () = assert!(core::mem::size_of::<Client>() == 288);
const _: () = assert!(core::mem::size_of::<Group>() == 112);
const _: () = assert!(core::mem::size_of::<Channel>() == 40);
const _: () = assert!(core::mem::size_of::<Snapshot>() == 56 + 408);
