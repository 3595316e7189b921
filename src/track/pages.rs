// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which client owns which page of submission slots, and the channels in it.
//!
//! The driver gives a page of slots to one RM client at a time, so a page has one owner, and all
//! time of its channels is charged to the owner, whichever slot an application stored to and
//! whichever process mapped the page. A page keeps its owner while it is mapped anywhere or while
//! one of its channels exists; LoGA reads from the channel table of the GPU whether a channel
//! exists, and does not trust applications.
//!
//! A mapping names its *claimant*: the process that allocates through the control file on which the
//! driver was asked for the mapping. Such a claim is *proven*, as the driver granted it, and moves
//! the page to the claimant: the driver has given the page to another RM client. Any other claim,
//! of the process that opened the file or that maps, only takes a page that is not mapped.
//!
//! Every page has its gate, so that threads that use a mapping which outlives its process, or the
//! owner, still wait where those of the present owner wait.

use crate::account::{Commands, EngineKind, Slot};
use crate::ids::{Chid, ClientId, TsgId, MAX_CHANNELS};
use crate::storage::{find_near, Bounded, Storage};
use crate::units::Ns;

/// Slots in a page: [`crate::regs::USERD_SLOT`] bytes each.
pub const SLOTS: usize = 8;
/// Pages that a GPU can have.
pub const MAX_PAGES: usize = MAX_CHANNELS / SLOTS;

/// One channel, as far as it was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChannelRecord {
    /// Time on the engine in polling phases.
    pub measured: Ns,
    /// Times the engine took up its work.
    pub runs: u64,
    /// Time on the copy engine in polling phases.
    pub copied: Ns,
    /// Where it was at the last scan.
    pub commands: Commands,
    /// Its instance block, as the channel table had it last; 0: none.
    context: u32,
    /// The TSG in which it ran last.
    tsg: Option<TsgId>,
}

/// One page of submission slots.
#[derive(Clone, Debug)]
pub struct Page<G> {
    number: u16,
    owner: ClientId,
    /// Position of the owner in the tables of clients.
    at: usize,
    mappings: u32,
    /// Slots with a channel that exists, one bit each.
    live: u8,
    /// The page has been mapped or freed since its channels were read last.
    doubtful: bool,
    /// It is not mapped and its channels are gone, but may have run in the phase that is measured.
    ended: bool,
    slots: [ChannelRecord; SLOTS],
    gate: Option<G>,
}

impl<G> Default for Page<G> {
    fn default() -> Self {
        Self {
            number: 0,
            owner: ClientId::default(),
            at: 0,
            mappings: 0,
            live: 0,
            doubtful: false,
            ended: false,
            slots: [ChannelRecord::default(); SLOTS],
            gate: None,
        }
    }
}

impl<G> Page<G> {
    /// Its number: that of its first channel, divided by [`SLOTS`].
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// Its owner.
    pub const fn owner(&self) -> ClientId {
        self.owner
    }

    /// Position of its owner in the tables of clients.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Mappings of it, in all processes.
    pub const fn mappings(&self) -> u32 {
        self.mappings
    }

    /// The gate where threads that touch it wait.
    pub const fn gate(&self) -> Option<&G> {
        self.gate.as_ref()
    }

    /// Its channels, ascending.
    pub fn channels(&self) -> impl Iterator<Item = (Chid, &ChannelRecord)> + Clone {
        let slots = (0u16..).zip(self.slots.iter());
        slots.filter_map(|(slot, record)| Some((self.channel(slot)?, record)))
    }

    /// As [`Page::channels`], to change what was seen of them.
    pub fn channels_mut(&mut self) -> impl Iterator<Item = (Chid, &mut ChannelRecord)> {
        let (live, number) = (self.live, self.number);
        let slots = (0u16..).zip(self.slots.iter_mut());
        slots.filter_map(move |(slot, record)| {
            let exists = live & bit(slot) != 0;
            exists.then_some((chid(number, slot)?, record))
        })
    }

    /// The channel of a slot, if it exists.
    fn channel(&self, slot: u16) -> Option<Chid> {
        let exists = self.live & bit(slot) != 0;
        exists.then(|| chid(self.number, slot)).flatten()
    }

    /// Channels that phases count. One that the channel table does not show yet is among them.
    pub fn allocated(&self) -> u32 {
        if self.ended {
            return 0;
        }
        let mapped = u32::from(self.mappings != 0);
        self.live.count_ones().max(mapped)
    }
}

fn bit(slot: u16) -> u8 {
    1u8.checked_shl(slot.into()).unwrap_or(0)
}

fn chid(page: u16, slot: u16) -> Option<Chid> {
    // CAST: eight.
    Chid::new(page.checked_mul(SLOTS as u16)?.checked_add(slot)?)
}

/// The page in which the slot of a channel lies.
pub const fn page_of(chid: Chid) -> u16 {
    // CAST: eight.
    chid.get() / SLOTS as u16
}

/// A process that a mapping gives the page to.
#[derive(Clone, Copy, Debug)]
pub struct PageClaim {
    /// The client.
    pub owner: ClientId,
    /// Its position in the tables of clients.
    pub at: usize,
    /// The driver granted the mapping to an RM client of this process.
    pub proven: bool,
}

/// What a mapping came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The owner of the page from now on.
    pub owner: ClientId,
    /// The page had another owner; the mappings of that owner belong to the new one now.
    pub moved: bool,
}

/// What became of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It exists.
    Created,
    /// It does not exist any more.
    Destroyed,
}

/// The pages of one GPU that have an owner, in storage that the caller owns, with room for
/// [`MAX_PAGES`].
///
/// # Invariants
///
/// In ascending order of number. A page in the table is mapped, or one of its channels exists.
pub struct Pages<S: Storage, G: 'static> {
    table: Bounded<S::Of<Page<G>>>,
    /// Where [`Pages::doubtful`] goes on.
    next: usize,
    /// The page that was charged last. Channels are charged in ascending order.
    charged: usize,
}

impl<S: Storage, G: 'static> Pages<S, G> {
    /// No page has an owner.
    pub const fn new(store: S::Of<Page<G>>) -> Self {
        Self {
            table: Bounded::new(store),
            next: 0,
            charged: 0,
        }
    }

    /// The pages.
    pub fn all(&self) -> &[Page<G>] {
        self.table.all()
    }

    /// The pages, to change what was seen of their channels.
    pub fn all_mut(&mut self) -> &mut [Page<G>] {
        self.table.all_mut()
    }

    /// A page.
    pub fn get(&self, number: u16) -> Option<&Page<G>> {
        self.all().get(self.find(number).ok()?)
    }

    /// All channels, ascending, each with the page that it is in.
    pub fn channels<'a>(
        &'a self,
    ) -> impl Iterator<Item = (Chid, &'a Page<G>, &'a ChannelRecord)> + Clone
    where
        G: 'a,
    {
        let of = |page: &'a Page<G>| page.channels().map(move |(chid, seen)| (chid, page, seen));
        self.all().iter().flat_map(of)
    }

    /// How many channels there are. Symbols of a longer chain are too long for objtool.
    pub fn channel_count(&self) -> usize {
        let counts = self.all().iter().map(|page| page.channels().count());
        counts.fold(0, usize::saturating_add)
    }

    /// Channels that phases count.
    pub fn allocated(&self) -> u32 {
        let counts = self.all().iter().map(Page::allocated);
        counts.fold(0, u32::saturating_add)
    }

    /// Whether a client owns a page.
    pub fn has_owner(&self, client: ClientId) -> bool {
        self.all().iter().any(|page| page.owner == client)
    }

    /// The page that a channel's slot lies in, if it has an owner.
    pub fn page_of_channel(&self, chid: Chid) -> Option<&Page<G>> {
        self.get(page_of(chid))
    }

    /// Whether a mapping for this claimant would move the page from another owner to it.
    pub fn would_move(&self, number: u16, claim: &PageClaim) -> bool {
        let of_another = self.get(number).filter(|page| page.owner != claim.owner);
        of_another.is_some_and(|page| claim.proven || page.mappings == 0)
    }

    /// Notes a mapping of a page and returns the owner of the page. A page that has no owner yet
    /// gets the claimant, and `gate`. Nothing without room.
    pub fn map(&mut self, number: u16, claim: &PageClaim, gate: G) -> Option<Claimed> {
        let moved = self.would_move(number, claim);
        let at = match self.find(number) {
            Ok(at) => at,
            Err(at) => {
                let page = Page {
                    number,
                    owner: claim.owner,
                    at: claim.at,
                    gate: Some(gate),
                    ..Page::default()
                };
                if !self.table.insert(at, page) {
                    return None;
                }
                at
            }
        };
        let page = self.all_mut().get_mut(at)?;
        if moved {
            (page.owner, page.at) = (claim.owner, claim.at);
            page.slots = [ChannelRecord::default(); SLOTS];
        }
        page.mappings = page.mappings.saturating_add(1);
        (page.doubtful, page.ended) = (true, false);
        Some(Claimed {
            owner: page.owner,
            moved,
        })
    }

    /// Notes that a mapping of a page has been copied.
    pub fn copy(&mut self, number: u16) {
        if let Some(page) = self.page_mut(number) {
            page.mappings = page.mappings.saturating_add(1);
        }
    }

    /// Notes that a mapping of a page has gone. True if it was the last one.
    pub fn unmap(&mut self, number: u16) -> bool {
        let Some(page) = self.page_mut(number) else {
            return false;
        };
        page.mappings = page.mappings.saturating_sub(1);
        page.doubtful = true;
        page.mappings == 0
    }

    /// Notes that a page that is not mapped has no channels any more, while a phase is measured: the
    /// page keeps its owner until [`Pages::set_live`], after the phase is booked.
    pub fn end(&mut self, number: u16) {
        if let Some(page) = self.page_mut(number) {
            page.ended = page.mappings == 0;
        }
    }

    /// A page that has ended, see [`Pages::end`].
    pub fn ended(&self) -> Option<&Page<G>> {
        self.all().iter().find(|page| page.ended)
    }

    /// Notes that channels may have been freed: all pages are to be read again.
    pub fn doubt_all(&mut self) {
        for page in self.all_mut() {
            page.doubtful = true;
        }
    }

    /// The next page with channels that should be read from the channel table, after the one
    /// returned last: it was mapped, or something was freed, or it is not mapped.
    pub fn doubtful(&mut self) -> Option<u16> {
        let asks = |page: &Page<G>| page.doubtful || page.mappings == 0;
        let count = self.all().len();
        let start = self.next.min(count);
        let around = (start..count).chain(0..start);
        let at = around
            .into_iter()
            .find(|at| self.all().get(*at).is_some_and(asks))?;
        self.next = at.saturating_add(1);
        self.all().get(at).map(Page::number)
    }

    /// Notes which channels of a page exist, one bit for each slot, and reports what has changed. A
    /// page without channels that is not mapped has no owner any more.
    pub fn set_live(
        &mut self,
        number: u16,
        live: u8,
        mut changed: impl FnMut(Chid, ClientId, Change, &ChannelRecord),
    ) {
        let Some(page) = self.page_mut(number) else {
            return;
        };
        let owner = page.owner;
        for (slot, record) in (0u16..).zip(page.slots.iter_mut()) {
            let (was, is) = (page.live & bit(slot) != 0, live & bit(slot) != 0);
            let Some(chid) = chid(number, slot) else {
                continue;
            };
            if !was && is {
                *record = ChannelRecord::default();
                changed(chid, owner, Change::Created, record);
            }
            if was && !is {
                changed(chid, owner, Change::Destroyed, record);
            }
        }
        page.live = live;
        (page.doubtful, page.ended) = (false, false);
        let is_gone = live == 0 && page.mappings == 0;
        if let (true, Ok(at)) = (is_gone, self.find(number)) {
            self.table.remove(at);
        }
    }

    /// Notes the instance blocks of the channels of a page, see [`Pages::channel_of_tsg`].
    pub fn set_contexts(&mut self, number: u16, contexts: &[u32; SLOTS]) {
        if let Some(page) = self.page_mut(number) {
            for (record, context) in page.slots.iter_mut().zip(contexts) {
                record.context = *context;
            }
        }
    }

    /// A channel of a TSG: the one with this instance block, or, if that is 0, one that ran in the
    /// TSG before. All channels of a TSG belong to one RM client, and so to the owner of its page.
    pub fn channel_of_tsg(&self, id: TsgId, context: u32) -> Option<Chid> {
        let is_it = |record: &ChannelRecord| match context {
            0 => record.tsg == Some(id),
            _ => record.context == context,
        };
        let mut channels = self.channels();
        channels.find_map(|(chid, _, record)| is_it(record).then_some(chid))
    }

    /// Notes the TSG in which a channel has run.
    pub fn note_tsg(&mut self, chid: Chid, id: TsgId) {
        let Some(page) = self.page_mut(page_of(chid)) else {
            return;
        };
        // CAST: eight.
        if let Some(record) = page.slots.get_mut(usize::from(chid.get() % SLOTS as u16)) {
            record.tsg = Some(id);
        }
    }

    /// Adds time on an engine to a channel, and returns the position of its owner: a channel that
    /// ran exists. Nothing for a page without an owner.
    pub fn charge(
        &mut self,
        on: EngineKind,
        chid: Chid,
        slot: &Slot,
        counts_runs: bool,
    ) -> Option<usize> {
        let at = find_near(self.all(), self.charged, &page_of(chid), Page::number)?;
        self.charged = at;
        let page = self.all_mut().get_mut(at)?;
        // CAST: eight.
        let place = chid.get() % SLOTS as u16;
        page.live |= bit(place);
        let record = page.slots.get_mut(usize::from(place))?;
        let time = match on {
            EngineKind::Compute => &mut record.measured,
            EngineKind::Copy => &mut record.copied,
        };
        *time = time.saturating_add(slot.ran);
        if counts_runs && on == EngineKind::Compute {
            record.runs = record.runs.saturating_add(slot.runs.into());
        }
        Some(page.at)
    }

    /// The client at `at`, which owns no page, has been forgotten: the later ones move up.
    pub fn forget_position(&mut self, at: usize) {
        let later = self.all_mut().iter_mut().filter(|page| page.at > at);
        later.for_each(|page| page.at = page.at.saturating_sub(1));
    }

    fn page_mut(&mut self, number: u16) -> Option<&mut Page<G>> {
        let at = self.find(number).ok()?;
        self.all_mut().get_mut(at)
    }

    fn find(&self, number: u16) -> Result<usize, usize> {
        self.all().binary_search_by_key(&number, Page::number)
    }
}
