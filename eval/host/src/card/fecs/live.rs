// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Gets a buffer of context switches from RM and empties it while something runs.
//!
//! On Linux RM does not allocate the memory of such a buffer: it takes two memory objects that
//! belong to no device, which its user may only read. The reader says how far it has read by a
//! control command. Source: open-gpu-kernel-modules 595, `event_buffer.c`, `cl90cd.h`, `cl90ce.h`,
//! `ctrl90cd.h`, `ctrl2080gr.h`, `nvos.h`.

use super::buffer::{Reader, Version, HEADER_BYTES, RECORD_BYTES};
use super::summary::{Adder, Summary};
use crate::card::refusal::Refusal;
use crate::card::rm::{Client, Handle, Reading};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// `NV_EVENT_BUFFER`.
pub(crate) const CLASS_EVENT_BUFFER: u32 = 0x90cd;
/// `NV01_MEMORY_DEVICELESS`.
pub(crate) const CLASS_MEMORY: u32 = 0x90ce;
/// Words of `NV_MEMORY_ALLOCATION_PARAMS` of 595; branches before have fewer.
const MEMORY_WORDS: usize = 32;
/// In word 6 of them: memory that the CPU caches (`NVOS32_ATTR_COHERENCY_WRITE_BACK`).
const ATTR_WRITE_BACK: u32 = 5 << 29;
/// In word 7 of them: its user may only read (`NVOS32_ATTR2_PROTECTION_USER_READ_ONLY`).
const ATTR2_USER_READS: u32 = 1 << 22;
/// Words of `NV_EVENT_BUFFER_ALLOC_PARAMETERS`.
const EVENT_BUFFER_WORDS: usize = 18;
/// Size of a record without its own header, of either version.
const FECS_RECORD_BYTES: u32 = 24;
/// `NV2080_CTRL_GR_FECS_BIND_EVTBUF_LOD_SIMPLE`: beginnings and ends.
const SIMPLE: u32 = 1;
/// `NV2080_CTRL_CMD_GR_FECS_BIND_EVTBUF_FOR_UID_V2`.
pub(crate) const CTRL_BIND_V2: u32 = 0x2080_1238;
/// `NV2080_CTRL_CMD_GR_FECS_BIND_EVTBUF_FOR_UID`.
pub(crate) const CTRL_BIND: u32 = 0x2080_1231;
/// `NV_EVENT_BUFFER_CTRL_CMD_ENABLE_EVENTS`.
pub(crate) const CTRL_ENABLE: u32 = 0x90cd_0101;
/// `NV_EVENT_BUFFER_CTRL_CMD_UPDATE_GET`.
pub(crate) const CTRL_UPDATE_GET: u32 = 0x90cd_0102;
/// `NV_EVENT_BUFFER_CTRL_CMD_FLUSH`.
pub(crate) const CTRL_FLUSH: u32 = 0x90cd_0104;
/// A full buffer keeps what it has (`NV_EVENT_BUFFER_FLAG_OVERFLOW_POLICY_KEEP_OLDEST`).
const KEEP_OLDEST: u32 = 1;
/// Records that a buffer holds: as many as RM gets contiguous memory for. 33 ms, after which RM
/// fills it, have at most about 300 switches of two records.
const CAPACITIES: [u32; 3] = [16384, 4096, 1024];
/// How often it is emptied.
const PERIOD: Duration = Duration::from_millis(10);

/// What was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recording {
    /// Whether the processes of all users are shown.
    pub(crate) all_users: bool,
    /// Records that the buffer holds.
    pub(crate) capacity: u32,
    /// Times it was emptied.
    pub(crate) drains: u64,
    /// Ways to get it that were refused before one was granted.
    pub(crate) refused: Vec<Refusal>,
    /// What the records say.
    pub(crate) summary: Summary,
}

/// A buffer that RM fills.
pub(crate) struct Recorder {
    client: Client,
    buffer: Handle,
    header: Option<Reading>,
    records: Option<Reading>,
    reader: Reader,
    adder: Adder,
    all_users: bool,
    capacity: u32,
    drains: u64,
    refused: Vec<Refusal>,
}

/// Allocates memory that the driver writes and the client reads.
fn alloc_memory(client: &mut Client, bytes: usize) -> Result<Handle, Refusal> {
    let mut params = [0; MEMORY_WORDS];
    (params[6], params[7]) = (ATTR_WRITE_BACK, ATTR2_USER_READS);
    // CAST: half a MiB at most.
    params[16] = bytes.next_multiple_of(4096) as u32;
    let (root, name) = (client.root(), "NV01_MEMORY_DEVICELESS");
    client.alloc(root, CLASS_MEMORY, name, &mut params)
}

/// Allocates memory for as many records as the driver grants.
fn alloc_records(client: &mut Client) -> Result<(Handle, u32), Refusal> {
    let mut refusal = None;
    for capacity in CAPACITIES {
        // CAST: widened.
        match alloc_memory(client, capacity as usize * RECORD_BYTES) {
            Ok(memory) => return Ok((memory, capacity)),
            Err(other) => refusal = Some(other),
        }
    }
    // PANIC: there is a capacity, so there is a refusal.
    Err(refusal.expect("a capacity was tried"))
}

/// Binds the buffer to the switches, in the newest way and for the most users that is granted.
fn bind(
    client: &Client,
    buffer: Handle,
    refused: &mut Vec<Refusal>,
) -> Result<(Version, bool), Refusal> {
    let mut last = None;
    for all_users in [true, false] {
        for (version, command, words) in [
            (Version::Two, CTRL_BIND_V2, 6),
            (Version::One, CTRL_BIND, 5),
        ] {
            let all = u32::from(all_users);
            let mut params = [buffer, FECS_RECORD_BYTES, SIMPLE, 0, all, 0];
            let name = format!("FECS_BIND_EVTBUF_FOR_UID, {version:?}, all users: {all_users}");
            let object = client.subdevice();
            match client.control(object, command, &name, &mut params[..words]) {
                Ok(()) => return Ok((version, all_users)),
                Err(mut refusal) => {
                    if params[5] != 0 {
                        refusal.answer += &format!(", reason {}", params[5]);
                    }
                    refused.push(refusal.clone());
                    last = Some(refusal);
                }
            }
        }
    }
    // PANIC: four ways were tried, so there is a refusal.
    Err(last.expect("a way was tried"))
}

impl Recorder {
    /// Gets a buffer and begins to record. The processes of all users are asked for first; to who
    /// is not root the driver shows those of others as hidden, or refuses.
    ///
    /// # Errors
    ///
    /// The last of the ways that were tried was refused.
    pub(crate) fn open(mut client: Client) -> Result<Self, Refusal> {
        let header = alloc_memory(&mut client, HEADER_BYTES)?;
        let (records, capacity) = alloc_records(&mut client)?;
        let mut params = [0; EVENT_BUFFER_WORDS];
        // CAST: 32.
        (params[4], params[5]) = (RECORD_BYTES as u32, capacity);
        params[13] = client.subdevice();
        (params[15], params[16]) = (header, records);
        let (root, name) = (client.root(), "NV_EVENT_BUFFER");
        let buffer = client.alloc(root, CLASS_EVENT_BUFFER, name, &mut params)?;
        let mut refused = Vec::new();
        let (version, all_users) = bind(&client, buffer, &mut refused)?;
        let header = client.map(header, 4096)?;
        // CAST: widened.
        let records = client.map(records, capacity as usize * RECORD_BYTES)?;
        let recorder = Recorder {
            client,
            buffer,
            header: Some(header),
            records: Some(records),
            reader: Reader::new(version, capacity),
            adder: Adder::default(),
            all_users,
            capacity,
            drains: 0,
            refused,
        };
        recorder.enable(true)?;
        Ok(recorder)
    }

    fn enable(&self, on: bool) -> Result<(), Refusal> {
        let mut params = [on.into(), KEEP_OLDEST];
        let name = "EVENT_BUFFER_ENABLE_EVENTS";
        self.client
            .control(self.buffer, CTRL_ENABLE, name, &mut params)
    }

    /// Takes what is new, and tells the driver.
    ///
    /// # Errors
    ///
    /// The driver does not want to know; then the buffer runs full.
    pub(crate) fn drain(&mut self) -> Result<(), Refusal> {
        let (Some(header), Some(records)) = (&self.header, &self.records) else {
            return Ok(());
        };
        let adder = &mut self.adder;
        let each = |record: &_| adder.add(record);
        self.reader.drain(&*header.window, &*records.window, each);
        self.drains = self.drains.saturating_add(1);
        let mut params = [self.reader.get(), 0];
        let name = "EVENT_BUFFER_UPDATE_GET";
        self.client
            .control(self.buffer, CTRL_UPDATE_GET, name, &mut params)
    }

    /// Ends the recording with what RM still has.
    ///
    /// # Errors
    ///
    /// A call was refused.
    pub(crate) fn finish(mut self) -> Result<Recording, Refusal> {
        let name = "EVENT_BUFFER_FLUSH";
        let flushed = self.client.control(self.buffer, CTRL_FLUSH, name, &mut []);
        if let Err(refusal) = flushed {
            // What RM has not copied yet is lost: at most 33 ms.
            self.refused.push(refusal);
        }
        self.drain()?;
        let adder = std::mem::take(&mut self.adder);
        let summary = adder.finish(self.reader.version(), self.reader.losses());
        Ok(Recording {
            all_users: self.all_users,
            capacity: self.capacity,
            drains: self.drains,
            refused: std::mem::take(&mut self.refused),
            summary,
        })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The client frees everything that one of these does not end.
        let _ = self.enable(false);
        let _ = self.client.free(self.client.root(), self.buffer);
        for reading in [self.header.take(), self.records.take()] {
            let _ = reading.map(|reading| self.client.unmap(reading));
        }
    }
}

/// Sets a flag when it ends, however it ends.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Records while `work` runs. `work` runs to its end whatever becomes of the recording.
pub(crate) fn record_while<T>(
    recorder: Recorder,
    work: impl FnOnce() -> T,
) -> (Result<Recording, Refusal>, T) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let drainer = scope.spawn(|| record_until(recorder, &done));
        let result = {
            let _end = AtEnd(&done);
            work()
        };
        drainer.thread().unpark();
        let recording = drainer.join().unwrap_or_else(|_| {
            let answer = "the thread that empties the buffer panicked";
            Err(Refusal::new("this program", answer))
        });
        (recording, result)
    })
}

/// Records until `done` is set.
///
/// # Errors
///
/// A call was refused.
pub(crate) fn record_until(
    mut recorder: Recorder,
    done: &AtomicBool,
) -> Result<Recording, Refusal> {
    while !done.load(Ordering::Acquire) {
        recorder.drain()?;
        // TIMEOUT: one period; who sets the flag wakes this thread or does not.
        thread::park_timeout(PERIOD);
    }
    recorder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::fecs::buffer::tests::FakeBuffer;
    use crate::card::fecs::buffer::Who;
    use crate::card::rm::tests::{client, nodes, FakeDriver};
    use std::sync::{Arc, Mutex};

    /// The driver's side of the buffer that a recorder has mapped: header first.
    fn buffer(driver: &FakeDriver) -> FakeBuffer {
        let state = driver.state();
        let [header, records] = [0, 1].map(|at| state.memory[&state.mapped[at]].clone());
        let capacity = records.lock().unwrap().len() * 4 / RECORD_BYTES;
        FakeBuffer::over(header, records, u32::try_from(capacity).unwrap())
    }

    fn recorder(driver: &FakeDriver) -> Result<Recorder, Refusal> {
        Recorder::open(client(driver, nodes().path()))
    }

    #[test]
    fn recording_has_what_was_written_while_it_ran_and_frees_all() {
        let driver = FakeDriver::default();
        let recorder = recorder(&driver).unwrap();
        let mut buffer = buffer(&driver);
        let (recording, result) = record_while(recorder, || {
            buffer.write(6, 77, 1000);
            buffer.write(7, 77, 3000);
            5
        });
        let recording = recording.unwrap();
        assert_eq!(result, 5);
        assert_eq!((recording.all_users, recording.capacity), (true, 16384));
        assert!(recording.drains > 0);
        assert!(recording.refused.is_empty());
        let processes = &recording.summary.processes;
        assert_eq!((processes.len(), processes[0].who), (1, Who::Pid(77)));
        assert_eq!(processes[0].on_engine_ns, 2000);
        let state = driver.state();
        assert!(state.objects.is_empty());
        assert!(state.mapped.is_empty());
    }

    #[test]
    fn driver_is_told_how_far_was_read_and_drops_are_counted() {
        let driver = FakeDriver::default();
        driver.answer(CLASS_MEMORY, |params| {
            u32::from(params[16] > 4096 * 8) * 0x51
        });
        let told = Arc::new(Mutex::new(Vec::new()));
        let note = told.clone();
        driver.answer(CTRL_UPDATE_GET, move |params| {
            note.lock().unwrap().push(params[0]);
            0
        });
        let mut recorder = recorder(&driver).unwrap();
        let mut buffer = buffer(&driver);
        (1..=1025).for_each(|at| buffer.write(6, 77, at));
        recorder.drain().unwrap();
        let recording = recorder.finish().unwrap();
        assert_eq!(*told.lock().unwrap(), [1023, 1023]);
        assert_eq!((recording.capacity, recording.drains), (1024, 2));
        assert_eq!(recording.summary.records, 1023);
        assert!(recording.summary.losses.dropped >= 2);
    }

    #[test]
    fn older_control_and_own_user_are_tried_in_turn() {
        let driver = FakeDriver::default();
        driver.answer(CTRL_BIND_V2, |params| {
            params[5] = 4;
            0x56
        });
        driver.answer(CTRL_BIND, |params| if params[4] == 1 { 0x1b } else { 0 });
        let recording = recorder(&driver).unwrap().finish().unwrap();
        assert_eq!((recording.all_users, recording.refused.len()), (false, 3));
        assert_eq!(recording.summary.version, Version::One);
        let first = &recording.refused[0];
        assert_eq!(first.answer, "status 0x56 (not supported), reason 4");
        assert!(
            first.by.starts_with("the driver: RM_CONTROL(0x20801238, "),
            "{first}"
        );
    }

    #[test]
    fn class_that_is_refused_is_named_and_everything_is_freed() {
        let driver = FakeDriver::default();
        driver.answer(CLASS_EVENT_BUFFER, |_| 0x1b);
        let refusal = recorder(&driver).err().unwrap();
        assert_eq!(refusal, Refusal::driver("RM_ALLOC(NV_EVENT_BUFFER)", 0x1b));
        assert!(driver.state().objects.is_empty());
    }

    #[test]
    fn work_that_panics_ends_the_recording() {
        let driver = FakeDriver::default();
        let recorder = recorder(&driver).unwrap();
        let panics = std::panic::AssertUnwindSafe(|| record_while(recorder, || panic!("work")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(driver.state().objects.is_empty());
    }

    #[test]
    fn work_runs_to_its_end_where_the_driver_refuses_the_index() {
        let driver = FakeDriver::default();
        driver.answer(CTRL_UPDATE_GET, |_| 0x1f);
        let (recording, result) = record_while(recorder(&driver).unwrap(), || 7);
        assert_eq!((recording.is_err(), result), (true, 7));
    }
}
