// SPDX-License-Identifier: GPL-2.0

//! `[double]` An event buffer in a test, and the tests of its reader.

use super::*;
use crate::card::rm::tests::{FakeWindow, Words};
use std::sync::{Arc, Mutex};

/// A buffer and the driver's side of it.
pub(in crate::card) struct FakeBuffer {
    /// Words of the header.
    pub(in crate::card) header: Words,
    /// Words of the records.
    pub(in crate::card) records: Words,
    capacity: u32,
    seqno: u16,
}

impl FakeBuffer {
    pub(in crate::card) fn new(capacity: u32) -> Self {
        let words = |bytes: usize| Arc::new(Mutex::new(vec![0; bytes / 4]));
        let records = words(RECORD_BYTES * capacity as usize);
        Self::over(words(HEADER_BYTES), records, capacity)
    }

    /// The driver's side of memory that is there.
    pub(in crate::card) fn over(header: Words, records: Words, capacity: u32) -> Self {
        FakeBuffer {
            header,
            records,
            capacity,
            seqno: 0,
        }
    }

    /// Writes a record of version 2, or drops it if the buffer is full.
    pub(in crate::card) fn write(&mut self, tag: u8, pid: u32, at_ns: u64) {
        let seqno = self.seqno;
        self.seqno = seqno.wrapping_add(1);
        let mut header = self.header.lock().unwrap();
        let (get, put) = (header[0], header[1]);
        let next = (put + 1) % self.capacity;
        if next == get {
            header[4] += 1;
            return;
        }
        let at = put as usize * 8;
        let first = u32::from(seqno) << 16 | u32::from(tag);
        let halves = [at_ns as u32, (at_ns >> 32) as u32];
        let words = [0, 0, first, 7, pid, 0, halves[0], halves[1]];
        self.records.lock().unwrap()[at..at + 8].copy_from_slice(&words);
        header[1] = next;
    }

    /// The firmware loses records before RM sees them.
    fn lose(&mut self, count: u16) {
        self.seqno = self.seqno.wrapping_add(count);
    }

    /// RM is told how far was read.
    fn update_get(&self, get: u32) {
        let mut header = self.header.lock().unwrap();
        (header[0], header[4]) = (get, 0);
    }

    fn drain(&self, reader: &mut Reader) -> Vec<Record> {
        let mut found = Vec::new();
        let (header, records) = (self.header.clone(), self.records.clone());
        let each = |record: &Record| found.push(*record);
        reader.drain(&FakeWindow(header), &FakeWindow(records), each);
        self.update_get(reader.get());
        found
    }
}

fn reader(capacity: u32) -> Reader {
    Reader::new(Version::Two, capacity)
}

#[test]
fn records_are_read_once_and_in_order() {
    let (mut buffer, mut reader) = (FakeBuffer::new(4), reader(4));
    let mut times = Vec::new();
    for at in 0..9 {
        buffer.write(6, 100, at << 33);
        times.extend(buffer.drain(&mut reader).iter().map(|record| record.at_ns));
    }
    assert_eq!(times, (0..9).map(|at| at << 33).collect::<Vec<u64>>());
    assert_eq!(reader.losses(), Losses::default());
}

#[test]
fn fields_of_version_2_are_where_the_class_has_them() {
    let (mut buffer, mut reader) = (FakeBuffer::new(4), reader(4));
    buffer.write(7, 0x1234, 0x1_0000_0020);
    buffer.records.lock().unwrap()[5] = 0x0201_0000;
    let record = buffer.drain(&mut reader)[0];
    assert_eq!((record.tag, record.seqno, record.context), (7, 0, 7));
    assert_eq!((record.who, record.instance), (Who::Pid(0x1234), (1, 2)));
    assert_eq!(record.at_ns, 0x1_0000_0020);
}

#[test]
fn process_of_version_1_has_64_bits() {
    let (mut buffer, mut reader) = (FakeBuffer::new(8), Reader::new(Version::One, 8));
    for pid in [5, 0, 0xffff_ffff, 6] {
        buffer.write(6, pid, 1);
    }
    buffer.records.lock().unwrap()[3 * 8 + 5] = 1;
    let found = buffer.drain(&mut reader);
    let who: Vec<Who> = found.iter().map(|record| record.who).collect();
    assert_eq!(who, [Who::Pid(5), Who::Hidden, Who::Kernel]);
    assert_eq!(reader.losses().torn, 1);
}

#[test]
fn records_dropped_by_a_full_buffer_are_counted_twice_over() {
    let (mut buffer, mut reader) = (FakeBuffer::new(4), reader(4));
    (0..5).for_each(|at| buffer.write(6, 100, at));
    assert_eq!(buffer.drain(&mut reader).len(), 3);
    buffer.write(6, 100, 9);
    let record = buffer.drain(&mut reader)[0];
    assert_eq!((record.seqno, record.missing), (5, 2));
    let losses = reader.losses();
    assert_eq!((losses.missing, losses.dropped, losses.torn), (2, 2, 0));
}

#[test]
fn records_lost_by_the_firmware_show_in_the_sequence_only() {
    let (mut buffer, mut reader) = (FakeBuffer::new(8), reader(8));
    buffer.seqno = 0xfffe;
    buffer.write(6, 100, 1);
    buffer.write(7, 100, 2);
    buffer.lose(3);
    buffer.write(6, 100, 3);
    let missing: Vec<u64> = buffer
        .drain(&mut reader)
        .iter()
        .map(|one| one.missing)
        .collect();
    assert_eq!(missing, [0, 0, 3]);
    let losses = reader.losses();
    assert_eq!(
        (losses.missing, losses.dropped, losses.out_of_order),
        (3, 0, 0)
    );
}

#[test]
fn sequence_number_that_wraps_is_no_gap() {
    let (mut buffer, mut reader) = (FakeBuffer::new(8), reader(8));
    buffer.seqno = 0xfffe;
    (0..5).for_each(|at| buffer.write(6, 100, at));
    assert_eq!(buffer.drain(&mut reader).len(), 5);
    assert_eq!(reader.losses(), Losses::default());
}

#[test]
fn sequence_number_that_goes_back_is_out_of_order() {
    let (mut buffer, mut reader) = (FakeBuffer::new(8), reader(8));
    buffer.seqno = 9;
    buffer.write(6, 100, 1);
    buffer.seqno = 3;
    buffer.write(6, 100, 2);
    assert_eq!(buffer.drain(&mut reader).len(), 2);
    let losses = reader.losses();
    assert_eq!((losses.missing, losses.out_of_order), (0, 1));
}

#[test]
fn index_outside_the_buffer_reads_nothing() {
    let (mut buffer, mut reader) = (FakeBuffer::new(4), reader(4));
    buffer.write(6, 100, 1);
    for put in [4, 0xffff_ffff] {
        buffer.header.lock().unwrap()[1] = put;
        assert_eq!(buffer.drain(&mut reader), []);
    }
    assert_eq!(reader.losses().torn, 2);
    buffer.header.lock().unwrap()[1] = 1;
    assert_eq!(buffer.drain(&mut reader).len(), 1);
}

#[test]
fn buffer_shorter_than_said_is_torn_and_ends() {
    let (buffer, mut reader) = (FakeBuffer::new(4), reader(1000));
    buffer.header.lock().unwrap()[1] = 999;
    let found = buffer.drain(&mut reader);
    assert_eq!(found.len(), 4);
    assert_eq!(reader.losses().torn, 995);
}
