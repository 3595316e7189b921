// SPDX-License-Identifier: GPL-2.0

//! `[double]` A driver behind ordinary files, and the tests of the client with it.

use super::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a control command or a class does to its parameters; returns a status.
pub(in crate::card) type Answer = Box<dyn FnMut(&mut [u32]) -> u32 + Send>;

/// Words of a window, which a test may change.
pub(in crate::card) type Words = Arc<Mutex<Vec<u32>>>;

/// What the driver has been asked, and what it answers.
#[derive(Default)]
pub(in crate::card) struct State {
    /// Objects that are alive, with their classes.
    pub(in crate::card) objects: BTreeMap<Handle, u32>,
    /// Objects that are mapped.
    pub(in crate::card) mapped: Vec<Handle>,
    /// Answers by class or command; what is not listed is granted.
    pub(in crate::card) answers: BTreeMap<u32, Answer>,
    /// The memory of each object, from the first mapping on.
    pub(in crate::card) memory: BTreeMap<Handle, Words>,
    /// Commands and classes in the order they were asked for.
    pub(in crate::card) asked: Vec<u32>,
    /// A driver of 515: RM_ALLOC is 40 bytes long.
    is_old: bool,
    /// The handle whose window comes next.
    prepared: Handle,
}

/// A driver that keeps objects and does nothing.
#[derive(Clone, Default)]
pub(in crate::card) struct FakeDriver(Arc<Mutex<State>>);

impl FakeDriver {
    pub(in crate::card) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Answers a class or command with what `answer` returns.
    pub(in crate::card) fn answer(
        &self,
        number: u32,
        answer: impl FnMut(&mut [u32]) -> u32 + Send + 'static,
    ) {
        self.state().answers.insert(number, Box::new(answer));
    }
}

impl State {
    fn ask(&mut self, number: u32, params: &mut [u32]) -> u32 {
        self.asked.push(number);
        let answer = self.answers.get_mut(&number);
        answer.map_or(0, |answer| answer(params))
    }

    fn alloc(&mut self, arg: &mut [u32], params: &mut [u32]) -> io::Result<()> {
        let length = if self.is_old { 10 } else { 12 };
        if arg.len() != length {
            return Err(io::Error::from_raw_os_error(22));
        }
        if arg[2] == 0 {
            arg[2] = 0xc1d0_0001;
        }
        let status = self.ask(arg[3], params);
        if status == 0 {
            self.objects.insert(arg[2], arg[3]);
        }
        arg[length - 2] = status;
        Ok(())
    }
}

impl Driver for FakeDriver {
    fn call(
        &self,
        _: BorrowedFd<'_>,
        nr: u32,
        arg: &mut [u32],
        _: Option<usize>,
        params: &mut Params<'_>,
    ) -> io::Result<()> {
        let mut state = self.state();
        match nr {
            nr::ALLOC => return state.alloc(arg, params.words),
            nr::CONTROL => arg[7] = state.ask(arg[2], params.words),
            nr::FREE if arg[2] == arg[0] => state.objects.clear(),
            nr::FREE => drop(state.objects.remove(&arg[2])),
            nr::MAP_MEMORY => {
                // Memory that its user may only read is not mapped in any other way.
                if arg[11] & 3 != 1 {
                    arg[10] = 0x1f;
                    return Ok(());
                }
                state.prepared = arg[2];
                state.mapped.push(arg[2]);
                let words = arg[6] as usize / 4;
                let memory = state.memory.entry(arg[2]);
                memory.or_insert_with(|| Arc::new(Mutex::new(vec![0; words])));
            }
            nr::UNMAP_MEMORY => state.mapped.retain(|handle| *handle != arg[2]),
            nr::CARD_INFO => {
                // The second card is /dev/nvidia1 and has another number in RM.
                (arg[CARD_WORDS], arg[CARD_WORDS + 4], arg[CARD_WORDS + 14]) = (1, 0x100, 1);
            }
            nr::REGISTER_FD => {}
            _ => return Err(io::Error::from_raw_os_error(25)),
        }
        Ok(())
    }

    fn map(&self, _: &File, _: usize) -> io::Result<Box<dyn Window>> {
        let state = self.state();
        Ok(Box::new(FakeWindow(state.memory[&state.prepared].clone())))
    }
}

/// Words as a window.
pub(in crate::card) struct FakeWindow(pub(in crate::card) Words);

impl Window for FakeWindow {
    fn read(&self, offset: usize) -> Option<u32> {
        let words = self.0.lock().unwrap();
        words.get(offset / 4).copied().filter(|_| offset % 4 == 0)
    }
}

/// A folder with nodes that are ordinary files.
pub(in crate::card) fn nodes() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["nvidiactl", "nvidia0", "nvidia1"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    folder
}

/// A client of such a driver.
pub(in crate::card) fn client(driver: &FakeDriver, nodes: &Path) -> Client {
    Client::open_with(Box::new(driver.clone()), nodes, 0).unwrap()
}

#[test]
fn client_frees_what_it_allocated() {
    let (driver, nodes) = (FakeDriver::default(), nodes());
    let client = client(&driver, nodes.path());
    let classes: Vec<u32> = driver.state().objects.values().copied().collect();
    assert_eq!(
        classes,
        [class::DEVICE, class::SUBDEVICE, class::ROOT_CLIENT]
    );
    drop(client);
    assert!(driver.state().objects.is_empty());
}

#[test]
fn client_that_is_refused_a_device_says_so_and_frees_the_root() {
    let (driver, nodes) = (FakeDriver::default(), nodes());
    driver.answer(class::DEVICE, |_| 0x26);
    let client = Client::open_with(Box::new(driver.clone()), nodes.path(), 0);
    let refusal = Refusal::driver("RM_ALLOC(device)", 0x26);
    assert_eq!(client.err(), Some(refusal));
    assert!(driver.state().objects.is_empty());
}

#[test]
fn client_of_515_allocates_in_the_shorter_form() {
    let (driver, nodes) = (FakeDriver::default(), nodes());
    driver.state().is_old = true;
    let client = client(&driver, nodes.path());
    assert!(client.is_old);
    assert_eq!(driver.state().objects.len(), 3);
}

#[test]
fn device_is_asked_for_by_the_number_that_rm_has_for_the_node() {
    let (driver, nodes) = (FakeDriver::default(), nodes());
    driver.answer(CTRL_GPU_GET_ID_INFO_V2, |params| {
        params[2] = if params[0] == 0x100 { 7 } else { 9 };
        0
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = seen.clone();
    driver.answer(class::DEVICE, move |params| {
        note.lock().unwrap().push(params[0]);
        assert_eq!((params[1], params[12]), (0xc1d0_0001, 2));
        0
    });
    for minor in [0, 1] {
        Client::open_with(Box::new(driver.clone()), nodes.path(), minor).unwrap();
    }
    // The driver lists no card for nvidia0.
    assert_eq!(*seen.lock().unwrap(), [0, 7]);
}

#[test]
fn node_that_is_missing_or_none_is_refused_by_the_kernel() {
    let folder = nodes();
    let refusal = Client::open(&folder.path().join("none"), 0).unwrap_err();
    assert!(refusal.by.starts_with("the kernel: open of "), "{refusal}");
    assert_eq!(refusal.answer, "No such file or directory");
    let refusal = Client::open(folder.path(), 0).unwrap_err();
    assert_eq!(refusal.by, "the kernel: ioctl CARD_INFO");
    assert_eq!(refusal.answer, "Inappropriate ioctl for device");
}

#[test]
fn mapping_is_ended_and_memory_is_read() {
    let (driver, nodes) = (FakeDriver::default(), nodes());
    let mut client = client(&driver, nodes.path());
    let memory = client
        .alloc(client.root(), 0x90ce, "memory", &mut [0; 32])
        .unwrap();
    let reading = client.map(memory, 64).unwrap();
    driver.state().memory[&memory].lock().unwrap()[3] = 5;
    assert_eq!(
        (reading.window.read(12), reading.window.read(64)),
        (Some(5), None)
    );
    assert_eq!(driver.state().mapped, [memory]);
    client.unmap(reading).unwrap();
    assert!(driver.state().mapped.is_empty());
}

#[test]
fn size_of_the_parameters_is_that_of_the_structure() {
    let mut words = [0; 20];
    let params = Params {
        structure: 12,
        ..Params::plain(&mut words)
    };
    assert_eq!((params.size(), params.words.len()), (48, 20));
}
