// SPDX-License-Identifier: GPL-2.0

//! Property: whatever processes do with channels, files and mappings, in whatever order, time of a
//! channel has an owner, when it is booked, if its page was ever mapped; no mapping of a throttled
//! owner has an entry; every mapping waits at the gate of its page; and every record is removed in
//! the end.
//!
//! The world around the records is a model: processes that fork, execute another program and end; an
//! RM that gives each page to one process at a time and frees it when the control file is closed,
//! which outlives its process if another one holds it; channels that are disabled; files that are
//! prepared, inherited and passed on; and mappings with and without page-table entries. The steps
//! are those of `src/glue/gpu/submission_pages.rs`.

use loga::account::{EngineKind, Slot};
use loga::ids::{Chid, ClientId};
use loga::track::pages::{Page, PageClaim, Pages, MAX_PAGES, SLOTS};
use loga::units::Ns;
use loga::Vectors;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Pages that the RM of the model gives out.
const PAGES: u16 = 4;
/// Processes at a time.
const PROCESSES: usize = 5;

type Pid = usize;

#[derive(Clone, Debug)]
enum Step {
    /// A process allocates a channel, in a page of its own.
    Allocate(Pid),
    /// A process frees the channels of one of its pages; the record learns it later.
    Free(Pid),
    /// A process gives its control file to another one.
    Pass(Pid, Pid),
    /// The channels of a page are enabled, or disabled: they run only while they are enabled.
    Enable(u16, bool),
    /// A process executes another program: its mappings go, its files stay.
    Exec(Pid),
    /// A process has the driver prepare a page of its own for mapping: a new file, which another
    /// process has opened.
    Prepare(Pid, Pid),
    /// A process maps a file that it was given.
    Map(Pid, usize),
    /// A mapping goes.
    Unmap(usize),
    /// A mapping is copied by a fork of its process.
    Copy(usize, Pid),
    /// A mapping is touched.
    Touch(usize),
    /// A process ends, and another begins under a new number.
    Exit(Pid),
    /// A decision throttles these clients, one bit each.
    Decide(u8),
    /// Channels are read again.
    Reread,
}

fn step() -> impl Strategy<Value = Step> {
    let pid = || 0..PROCESSES;
    prop_oneof![
        3 => pid().prop_map(Step::Allocate),
        1 => pid().prop_map(Step::Free),
        3 => (pid(), pid()).prop_map(|(pid, opener)| Step::Prepare(pid, opener)),
        4 => (pid(), any::<usize>()).prop_map(|(pid, file)| Step::Map(pid, file)),
        2 => any::<usize>().prop_map(Step::Unmap),
        1 => (any::<usize>(), pid()).prop_map(|(at, pid)| Step::Copy(at, pid)),
        4 => any::<usize>().prop_map(Step::Touch),
        1 => (pid(), pid()).prop_map(|(pid, to)| Step::Pass(pid, to)),
        2 => (0..PAGES, any::<bool>()).prop_map(|(page, on)| Step::Enable(page, on)),
        1 => pid().prop_map(Step::Exec),
        1 => pid().prop_map(Step::Exit),
        2 => any::<u8>().prop_map(Step::Decide),
        1 => Just(Step::Reread),
    ]
}

#[derive(Clone, Copy, Debug)]
struct File {
    page: u16,
    /// Number of the process that asked for it through its RM client.
    allocator: u64,
    opener: u64,
}

#[derive(Debug)]
struct Mapping {
    page: u16,
    gate: u32,
    /// Processes that have a copy.
    holders: Vec<Pid>,
    present: bool,
}

#[derive(Clone, Copy, Debug)]
struct Client {
    id: ClientId,
    process: u64,
    throttled: bool,
}

/// A page as the RM sees it.
#[derive(Clone, Copy, Debug, Default)]
struct RmPage {
    /// The process whose control file the channels were allocated through.
    process: Option<u64>,
    channels: u8,
    /// Its channels do not run.
    disabled: bool,
    /// Mapped since the process got it.
    mapped: bool,
}

struct World {
    /// Number of the process in each place; never used again.
    processes: [u64; PROCESSES],
    next: u64,
    /// Who holds the control file that a process opened: a process lives while it is among them.
    holders: Vec<(u64, u64)>,
    rm: [RmPage; PAGES as usize],
    files: Vec<File>,
    mappings: Vec<Mapping>,
    clients: Vec<Client>,
    /// Gates that are shut, by number.
    shut: Vec<bool>,
    pages: Pages<Vectors, u32>,
    /// Channels that ran since the last phase was booked.
    ran: BTreeSet<u16>,
}

impl World {
    fn new() -> Self {
        World {
            processes: core::array::from_fn(|at| at as u64 + 1),
            next: PROCESSES as u64 + 1,
            holders: (1..=PROCESSES as u64).map(|one| (one, one)).collect(),
            rm: Default::default(),
            files: Vec::new(),
            mappings: Vec::new(),
            clients: Vec::new(),
            shut: Vec::new(),
            pages: Pages::new(vec![Page::default(); MAX_PAGES]),
            ran: BTreeSet::new(),
        }
    }

    fn lives(&self, process: u64) -> bool {
        self.processes.contains(&process)
    }

    /// Position of a process among the clients.
    fn client(&mut self, process: u64) -> usize {
        let found = self
            .clients
            .iter()
            .position(|client| client.process == process);
        found.unwrap_or_else(|| {
            self.clients.push(Client {
                id: ClientId::new(process),
                process,
                throttled: false,
            });
            self.clients.len() - 1
        })
    }

    /// Removes the entries of the mappings of a gate, as turning a shut gate does.
    fn apply(&mut self, gate: u32) {
        if self.shut[gate as usize] {
            let own = self
                .mappings
                .iter_mut()
                .filter(|mapping| mapping.gate == gate);
            own.for_each(|mapping| mapping.present = false);
        }
    }

    fn live_channels(&self, number: u16) -> Option<u8> {
        self.pages.get(number)?;
        Some(self.rm[usize::from(number)].channels)
    }

    fn read_channels(&mut self, number: u16) {
        if let Some(live) = self.live_channels(number) {
            self.pages.set_live(number, live, |_, _, _, _| ());
        }
    }

    fn forget_clients(&mut self) {
        for at in (0..self.clients.len()).rev() {
            let client = self.clients[at];
            if !self.lives(client.process) && !self.pages.has_owner(client.id) {
                self.clients.remove(at);
                self.pages.forget_position(at);
            }
        }
    }

    fn map(&mut self, pid: Pid, file: File) {
        let caller = self.processes[pid];
        // The driver maps what the file was prepared for, if it is there still.
        let rm = &mut self.rm[usize::from(file.page)];
        if rm.process != Some(file.allocator) || rm.channels == 0 {
            return;
        }
        rm.mapped = true;
        let proven = self.lives(file.allocator);
        let claimant = match (proven, self.lives(file.opener)) {
            (true, _) => file.allocator,
            (false, true) => file.opener,
            (false, false) => caller,
        };
        let at = self.client(claimant);
        let owner = self.clients[at].id;
        let fresh = self.shut.len() as u32;
        let claim = PageClaim { owner, at, proven };
        let claimed = self.pages.map(file.page, &claim, fresh).expect("room");
        self.shut.push(false);
        self.read_channels(file.page);
        let page = self.pages.get(file.page).expect("just mapped");
        let (gate, at) = (*page.gate().expect("a gate"), page.at());
        assert_eq!(self.clients[at].id, claimed.owner);
        if proven {
            assert_eq!(claimed.owner, owner, "a proven claim was not followed");
        }
        self.shut[gate as usize] = self.clients[at].throttled;
        if claimed.moved {
            self.apply(gate);
        }
        self.mappings.push(Mapping {
            page: file.page,
            gate,
            holders: vec![pid],
            // The mapping is emptied before the application sees it.
            present: false,
        });
    }

    fn drop_mapping(&mut self, at: usize) {
        let number = self.mappings.remove(at).page;
        // The page has an owner until the phase is booked.
        if self.pages.unmap(number) && self.live_channels(number) == Some(0) {
            self.pages.end(number);
            let page = self.pages.get(number).expect("not booked");
            assert_eq!(page.allocated(), 0, "an ended page counts");
        }
    }

    fn decide(&mut self, throttled: u8) {
        for at in 0..self.clients.len() {
            let holds = throttled >> (at % 8) & 1 == 1;
            self.clients[at].throttled = holds;
            let id = self.clients[at].id;
            let own = self.pages.all().iter().filter(|page| page.owner() == id);
            let gates: Vec<u32> = own.filter_map(|page| page.gate().copied()).collect();
            for gate in gates {
                self.shut[gate as usize] = holds;
                self.apply(gate);
            }
        }
    }

    fn exit(&mut self, pid: Pid) {
        let process = self.processes[pid];
        self.processes[pid] = self.next;
        self.holders.push((self.next, self.next));
        self.next += 1;
        self.drop_mappings_of(pid);
        self.holders.retain(|(_, holder)| *holder != process);
        for rm in &mut self.rm {
            let is_held = |file| self.holders.iter().any(|(held, _)| *held == file);
            if rm.process.is_some_and(|file| !is_held(file)) {
                *rm = RmPage::default();
            }
        }
        self.pages.doubt_all();
    }

    fn drop_mappings_of(&mut self, pid: Pid) {
        for at in (0..self.mappings.len()).rev() {
            self.mappings[at].holders.retain(|holder| *holder != pid);
            if self.mappings[at].holders.is_empty() {
                self.drop_mapping(at);
            }
        }
    }

    /// Books the phase, and reads the channels afterwards.
    fn reread(&mut self) {
        for number in core::mem::take(&mut self.ran) {
            self.charge(Chid::new(number).expect("exists"));
        }
        while let Some(number) = self.pages.ended().map(Page::number) {
            self.pages.set_live(number, 0, |_, _, _, _| ());
        }
        for _ in 0..MAX_PAGES {
            let Some(page) = self.pages.doubtful() else {
                break;
            };
            self.read_channels(page);
        }
        self.forget_clients();
    }

    fn go(&mut self, step: &Step) {
        let count = self.mappings.len().max(1);
        match *step {
            Step::Allocate(pid) => {
                let process = self.processes[pid];
                let own = |rm: &&mut RmPage| rm.process == Some(process) && rm.channels != 0xff;
                let free = self.rm.iter_mut().find(own);
                let free = match free {
                    Some(rm) => Some(rm),
                    None => self.rm.iter_mut().find(|rm| rm.process.is_none()),
                };
                if let Some(rm) = free {
                    rm.process = Some(process);
                    rm.channels |= rm.channels + 1;
                }
            }
            Step::Free(pid) => {
                let process = Some(self.processes[pid]);
                if let Some(rm) = self.rm.iter_mut().find(|rm| rm.process == process) {
                    *rm = RmPage::default();
                }
                self.pages.doubt_all();
            }
            Step::Pass(pid, to) => {
                let passed = (self.processes[pid], self.processes[to]);
                self.holders.push(passed);
            }
            Step::Enable(page, on) => self.rm[usize::from(page)].disabled = !on,
            Step::Exec(pid) => self.drop_mappings_of(pid),
            Step::Prepare(pid, opener) => {
                let allocator = self.processes[pid];
                let own = self.rm.iter().position(|rm| rm.process == Some(allocator));
                if let Some(page) = own {
                    self.files.push(File {
                        page: page as u16,
                        allocator,
                        opener: self.processes[opener],
                    });
                }
            }
            Step::Map(pid, file) => {
                let files = self.files.len().max(1);
                if let Some(file) = self.files.get(file % files).copied() {
                    self.map(pid, file);
                }
            }
            Step::Unmap(at) if at % count < self.mappings.len() => self.drop_mapping(at % count),
            Step::Copy(at, pid) => {
                if let Some(mapping) = self.mappings.get_mut(at % count) {
                    mapping.holders.push(pid);
                }
            }
            Step::Touch(at) => {
                if let Some(mapping) = self.mappings.get_mut(at % count) {
                    mapping.present |= !self.shut[mapping.gate as usize];
                }
            }
            Step::Exit(pid) => self.exit(pid),
            Step::Decide(throttled) => self.decide(throttled),
            Step::Reread => self.reread(),
            Step::Unmap(_) => {}
        }
    }

    /// Charges time on the engine to the owner of a channel.
    fn charge(&mut self, chid: Chid) {
        let slot = Slot {
            ran: Ns::new(1),
            runs: 1,
            ..Slot::default()
        };
        let owner = self.pages.charge(EngineKind::Compute, chid, &slot, true);
        let client = owner.and_then(|at| self.clients.get(at));
        assert!(client.is_some(), "time of channel {chid:?} is unknown");
    }

    /// What holds after every step. All channels run in it that are enabled.
    fn check(&mut self) {
        for (number, rm) in (0u16..).zip(self.rm) {
            let runs = |slot: &u16| rm.mapped && !rm.disabled && rm.channels >> slot & 1 == 1;
            for slot in (0..SLOTS as u16).filter(runs) {
                self.ran.insert(number * SLOTS as u16 + slot);
            }
        }
        for mapping in &self.mappings {
            let page = self
                .pages
                .get(mapping.page)
                .expect("a mapped page has a record");
            assert_eq!(page.gate(), Some(&mapping.gate), "an orphaned gate");
            let owner = self.clients[page.at()];
            assert_eq!(owner.id, page.owner());
            assert!(
                !owner.throttled || !mapping.present,
                "an entry of a throttled owner: {mapping:?}"
            );
        }
    }

    /// Everything ends; nothing is left.
    fn end(&mut self) {
        (0..PROCESSES).for_each(|pid| self.exit(pid));
        assert!(self.mappings.is_empty());
        // Twice as often as there are pages: a page comes up again at every decision.
        for _ in 0..2 {
            self.reread();
        }
        assert!(self.pages.all().is_empty(), "left: {:?}", self.pages.all());
        assert!(self.clients.is_empty(), "left: {:?}", self.clients);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_page_has_the_owner_that_it_should(
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.go(step);
            world.check();
        }
        world.end();
    }
}
