// SPDX-License-Identifier: GPL-2.0

//! `[double]` A kernel module that answers from memory. It checks arguments with the kernel's own
//! checks, and can be of another version, refuse an unprivileged caller, or fail with any errno.

use crate::control::{Calls, Tables};
use loga::account::fading::{percent, Sums};
use loga::claims::{Claim, Claimed, Claims, OnGpu, MAX_CLAIMS};
use loga::knobs::Config;
use loga::policies::PolicyKind;
use loga::request::{ClaimRequest, Named};
use loga::uapi;
use loga::uapi::{Call, Header, Refusal};
use loga::units::Ns;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// One GPU of the double.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeGpu {
    pub(crate) info: uapi::Gpu,
    pub(crate) clients: Vec<uapi::Client>,
    /// Clients that the caller may not see: they count in the sums alone.
    pub(crate) hidden: Vec<uapi::Client>,
    pub(crate) groups: Vec<uapi::Group>,
    pub(crate) shares: Vec<uapi::Share>,
    pub(crate) specs: Vec<uapi::ListedSpec>,
    pub(crate) totals: Vec<(u32, uapi::Total)>,
}

/// The double.
#[derive(Debug)]
pub(crate) struct FakeKernel {
    pub(crate) gpus: RefCell<Vec<FakeGpu>>,
    /// Processes that exist.
    pub(crate) processes: RefCell<Vec<i32>>,
    /// What each read gives, in this order; after the last, the device is gone.
    pub(crate) events: RefCell<VecDeque<Vec<uapi::Event>>>,
    /// Mask and GPU of the last subscription.
    pub(crate) subscribed: Cell<Option<(u32, u64)>>,
    /// The last [`uapi::Configure`] that was accepted.
    pub(crate) configured: Cell<Option<uapi::Configure>>,
    /// Process and user that call.
    pub(crate) caller: Cell<(i32, u32)>,
    /// The time, for claims.
    pub(crate) now: Cell<Ns>,
    claims: RefCell<Claims<Vec<Claim>>>,
    spec_refusal: Cell<Option<Refusal>>,
    /// Subjects whose shares are refused, why, and how often.
    share_refusals: RefCell<Vec<(u64, Refusal, u32)>>,
    privileged: Cell<bool>,
    version: Cell<u32>,
    errno: Cell<Option<i32>>,
}

impl FakeKernel {
    pub(crate) fn new(gpus: usize) -> Self {
        let mut gpu = FakeGpu::default();
        gpu.info.note(&Config {
            policy: PolicyKind::Event,
            ..Config::default()
        });
        FakeKernel {
            gpus: RefCell::new(vec![gpu; gpus]),
            processes: RefCell::new(vec![100]),
            events: RefCell::default(),
            subscribed: Cell::default(),
            configured: Cell::default(),
            caller: Cell::new((100, 1000)),
            now: Cell::default(),
            claims: RefCell::new(Claims::new(vec![Claim::default(); gpus * MAX_CLAIMS], 1)),
            spec_refusal: Cell::default(),
            share_refusals: RefCell::default(),
            privileged: Cell::new(true),
            version: Cell::new(uapi::VERSION),
            errno: Cell::default(),
        }
    }

    /// From now on the caller has no capabilities.
    pub(crate) fn drop_privileges(&self) {
        self.privileged.set(false);
    }

    /// From now on every call fails, or none does.
    pub(crate) fn fail(&self, errno: impl Into<Option<i32>>) {
        self.errno.set(errno.into());
    }

    /// From now on the kernel is of another version.
    pub(crate) fn speak(&self, version: u32) {
        self.version.set(version);
    }

    /// From now on specs that promise something are refused.
    pub(crate) fn refuse_specs(&self, refusal: Refusal) {
        self.spec_refusal.set(Some(refusal));
    }

    /// Shares that are set for this subject are refused, so many times.
    pub(crate) fn refuse_share(&self, id: u64, refusal: Refusal, times: u32) {
        self.share_refusals.borrow_mut().push((id, refusal, times));
    }

    pub(crate) fn add_client(&self, gpu: usize, id: u64, uid: u32) {
        self.gpus.borrow_mut()[gpu].clients.push(uapi::Client {
            id,
            uid,
            ..Default::default()
        });
    }

    pub(crate) fn add_total(&self, gpu: usize, kind: u32, id: u64, gpu_time_ns: u64) {
        let total = uapi::Total {
            id,
            gpu_time_ns,
            ..Default::default()
        };
        self.gpus.borrow_mut()[gpu].totals.push((kind, total));
    }

    /// What comes before the call itself; `header` becomes what the kernel speaks.
    fn enter(&self, call: Call, header: (&mut u32, &mut u32), root: bool) -> io::Result<()> {
        let (version, size) = (*header.0, *header.1);
        assert_eq!(Header { version, size }, call.header(), "{call:?}");
        if let Some(errno) = self.errno.get() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        if self.version.get() != uapi::VERSION {
            *header.0 = self.version.get();
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        if root && !self.privileged.get() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        Ok(())
    }

    fn with_gpu<R>(&self, gpu: u32, act: impl FnOnce(&mut FakeGpu) -> R) -> io::Result<R> {
        let mut gpus = self.gpus.borrow_mut();
        let gpu = gpus.get_mut(gpu as usize);
        gpu.map(act)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::ENXIO))
    }

    /// Indices of the GPUs that a call is for.
    fn chosen(&self, gpu: Option<u32>) -> Vec<u32> {
        let count = self.gpus.borrow().len() as u32;
        gpu.map_or_else(|| (0..count).collect(), |gpu| vec![gpu])
    }

    fn set_checked(&self, argument: &uapi::SetShare) -> Result<(), Fault> {
        let request = argument.check()?;
        self.find(request.named, argument.id)?;
        let mut refusals = self.share_refusals.borrow_mut();
        let refused = |one: &&mut (u64, Refusal, u32)| one.0 == argument.id && one.2 > 0;
        let sets = argument.action == uapi::ACTION_SET;
        if let Some((_, refusal, times)) = refusals.iter_mut().find(refused).filter(|_| sets) {
            *times -= 1;
            return Err((*refusal).into());
        }
        for gpu in self.chosen(request.gpu) {
            self.with_gpu(gpu, |gpu| set_on(gpu, argument))??;
        }
        Ok(())
    }

    fn set_spec_checked(&self, argument: &uapi::SetSpec) -> Result<(), Fault> {
        let request = argument.check()?;
        self.find(request.named, argument.spec.id)?;
        if let Some(refusal) = self.spec_refusal.get().filter(|_| argument.spec.kind != 0) {
            return Err(refusal.into());
        }
        for gpu in self.chosen(request.gpu) {
            self.with_gpu(gpu, |gpu| set_spec_on(gpu, argument))??;
        }
        Ok(())
    }

    /// Returns the number of the claims after it.
    fn claim_checked(&self, argument: &uapi::Claim) -> Result<u64, Fault> {
        let request = argument.check()?;
        let ((process, user), now) = (self.caller.get(), self.now.get());
        // CAST: process ids are positive.
        let key = process as u64;
        let mut claims = self.claims.borrow_mut();
        match request {
            ClaimRequest::Make {
                gpu,
                want,
                lasts,
                seen,
            } => {
                self.with_gpu(gpu, |_| ())?;
                let claim = Claim {
                    process: key,
                    until: now.saturating_add(lasts),
                    gpu,
                    user,
                    cgroup: 0,
                    want,
                };
                let made = claims.make(claim, seen, now, |key| self.is_alive(key));
                made.map_err(|cause| Fault::Refused(cause.into()))
            }
            ClaimRequest::Clear { gpu } => {
                gpu.map(|gpu| self.with_gpu(gpu, |_| ())).transpose()?;
                let cleared = claims.clear(key, gpu, now);
                cleared.map_err(|cause| Fault::Refused(cause.into()))?;
                Ok(claims.seen())
            }
        }
    }

    /// What the claims on a GPU count beside its clients.
    fn claimed(&self, gpu: u32, clients: &[uapi::Client]) -> Claimed {
        let mut claims = self.claims.borrow_mut();
        let here = claims.on(gpu, self.now.get(), |key| self.is_alive(key));
        let here = here.to_vec();
        let wants = clients.iter().map(|client| {
            let want = || percent(client.means().want_2s().into());
            (client.pid.unsigned_abs().into(), want)
        });
        OnGpu::new(here, claims.seen()).claimed(wants)
    }

    fn is_alive(&self, key: u64) -> bool {
        let processes = self.processes.borrow();
        processes.iter().any(|pid| u64::try_from(*pid) == Ok(key))
    }

    fn find(&self, named: Named, id: u64) -> Result<(), Refusal> {
        match named {
            Named::Process(pid) if !self.processes.borrow().contains(&pid) => {
                Err(Refusal::unknown_subject(id))
            }
            _ => Ok(()),
        }
    }
}

/// A refusal, or an errno.
enum Fault {
    Refused(Refusal),
    Errno(io::Error),
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Fault::Refused(refusal)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Errno(error)
    }
}

fn tell(result: Result<(), Fault>, refusal: &mut Refusal) -> io::Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(Fault::Errno(error)) => Err(error),
        Err(Fault::Refused(why)) => {
            *refusal = why;
            Err(io::Error::from_raw_os_error(match why.code {
                uapi::REFUSED_CHANGED => libc::EAGAIN,
                _ => libc::EINVAL,
            }))
        }
    }
}

fn set_on(gpu: &mut FakeGpu, argument: &uapi::SetShare) -> Result<(), Refusal> {
    let same = |share: &uapi::Share| share.subject == argument.subject && share.id == argument.id;
    let at = gpu.shares.iter().position(same);
    if argument.action == uapi::ACTION_CLEAR {
        let at = at.ok_or(Refusal::from(loga::error::Error::NotSet))?;
        gpu.shares.remove(at);
        return Ok(());
    }
    let at = at.unwrap_or_else(|| {
        gpu.shares.push(uapi::Share {
            subject: argument.subject,
            id: argument.id,
            ..Default::default()
        });
        gpu.shares.len() - 1
    });
    let share = &mut gpu.shares[at];
    share.mask |= argument.mask;
    for (bit, to, from) in [
        (uapi::SHARE_WEIGHT, &mut share.weight, argument.weight),
        (uapi::SHARE_LIMIT, &mut share.limit_pct, argument.limit_pct),
        (uapi::SHARE_CLASS, &mut share.class, argument.class),
        (
            uapi::SHARE_TARGET,
            &mut share.target_pct,
            argument.target_pct,
        ),
        (uapi::SHARE_ACCESS, &mut share.access, argument.access),
    ] {
        *to = if argument.mask & bit != 0 { from } else { *to };
    }
    Ok(())
}

fn set_spec_on(gpu: &mut FakeGpu, argument: &uapi::SetSpec) -> Result<(), Refusal> {
    let before = gpu.specs.len();
    let subject = |spec: &uapi::Spec| (spec.subject, spec.id);
    let other = |one: &uapi::ListedSpec| subject(&one.spec) != subject(&argument.spec);
    gpu.specs.retain(other);
    if argument.action == uapi::ACTION_SET {
        gpu.specs.push(uapi::ListedSpec {
            spec: argument.spec,
            ..Default::default()
        });
    } else if gpu.specs.len() == before {
        return Err(loga::error::Error::NotSet.into());
    }
    Ok(())
}

/// Copies what there is room for; returns how many there are.
fn copy<T: Copy>(from: &[T], to: &mut [T], room: u32) -> u32 {
    let room = (room as usize).min(to.len()).min(from.len());
    to[..room].copy_from_slice(&from[..room]);
    from.len() as u32
}

impl Calls for &FakeKernel {
    fn snapshot(&self, argument: &mut uapi::Snapshot, tables: &mut Tables) -> io::Result<()> {
        let header = (&mut argument.version, &mut argument.size);
        self.enter(Call::Snapshot, header, false)?;
        self.with_gpu(argument.gpu, |gpu| {
            let Tables {
                clients, groups, ..
            } = tables;
            let mut sums = Sums::default();
            let all = gpu.clients.iter().chain(&gpu.hidden);
            all.for_each(|client| sums.add(&client.means()));
            argument.info = gpu.info;
            argument.info.note_sums(&sums);
            let claimed = self.claimed(argument.gpu, &gpu.clients);
            argument.info.note_claims(&claimed);
            argument.client_count = copy(&gpu.clients, clients, argument.client_count);
            argument.group_count = copy(&gpu.groups, groups, argument.group_count);
            argument.channel_count = 0;
        })
    }

    fn set_share(&self, argument: &mut uapi::SetShare) -> io::Result<()> {
        let header = (&mut argument.version, &mut argument.size);
        self.enter(Call::SetShare, header, true)?;
        tell(self.set_checked(argument), &mut argument.refusal)
    }

    fn list_shares(
        &self,
        argument: &mut uapi::ListShares,
        shares: &mut [uapi::Share],
    ) -> io::Result<()> {
        let header = (&mut argument.version, &mut argument.size);
        self.enter(Call::ListShares, header, false)?;
        self.with_gpu(argument.gpu, |gpu| {
            argument.count = copy(&gpu.shares, shares, argument.count);
        })
    }

    fn set_spec(&self, argument: &mut uapi::SetSpec) -> io::Result<()> {
        let header = (&mut argument.version, &mut argument.size);
        self.enter(Call::SetSpec, header, true)?;
        tell(self.set_spec_checked(argument), &mut argument.refusal)
    }

    fn list_specs(
        &self,
        argument: &mut uapi::ListSpecs,
        specs: &mut [uapi::ListedSpec],
    ) -> io::Result<()> {
        let header = (&mut argument.version, &mut argument.size);
        self.enter(Call::ListSpecs, header, true)?;
        self.with_gpu(argument.gpu, |gpu| {
            argument.count = copy(&gpu.specs, specs, argument.count);
        })
    }

    fn claim(&self, argument: &mut uapi::Claim) -> io::Result<()> {
        let header = (&mut argument.version, &mut argument.size);
        self.enter(Call::Claim, header, false)?;
        let result = self.claim_checked(argument);
        let result = result.map(|seen| argument.seen = seen);
        tell(result, &mut argument.refusal)
    }

    fn read_totals(
        &self,
        argument: &mut uapi::ReadTotals,
        totals: &mut [uapi::Total],
    ) -> io::Result<()> {
        let header = (&mut argument.version, &mut argument.size);
        let reset = argument.flags & uapi::TOTALS_RESET != 0;
        self.enter(Call::ReadTotals, header, reset)?;
        let kind = argument.kind;
        self.with_gpu(argument.gpu, |gpu| {
            let of_kind = gpu.totals.iter().filter(|(of, _)| *of == kind);
            let mut found: Vec<uapi::Total> = of_kind.map(|(_, total)| *total).collect();
            let room = argument.count;
            argument.count = copy(&found, totals, room);
            if reset {
                let kept = found.split_off(found.len().min(room as usize));
                gpu.totals.retain(|(of, _)| *of != kind);
                gpu.totals
                    .extend(kept.into_iter().map(|total| (kind, total)));
            }
        })
    }

    fn configure(&self, argument: &mut uapi::Configure) -> io::Result<()> {
        let header = (&mut argument.version, &mut argument.size);
        self.enter(Call::Configure, header, true)?;
        let result = argument.check().map_err(Fault::from).and_then(|knobs| {
            for gpu in self.chosen(knobs.gpu) {
                self.with_gpu(gpu, |gpu| {
                    let mut config = gpu.info.config();
                    knobs.apply(&mut config);
                    gpu.info.note(&config);
                })?;
            }
            self.configured.set(Some(*argument));
            Ok(())
        });
        tell(result, &mut argument.refusal)
    }

    fn subscribe(&self, argument: &mut uapi::Subscribe) -> io::Result<()> {
        let header = (&mut argument.version, &mut argument.size);
        self.enter(Call::Subscribe, header, false)?;
        let result = argument.check().map_err(Fault::from);
        self.subscribed.set(Some((argument.gpu, argument.mask)));
        tell(result, &mut argument.refusal)
    }

    fn read_events(&self, events: &mut [uapi::Event], _timeout: Duration) -> io::Result<usize> {
        let next = self.events.borrow_mut().pop_front();
        let next = next.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(copy(&next, events, u32::MAX) as usize)
    }
}
