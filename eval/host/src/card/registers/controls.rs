// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What RM tells of the registers, or reads on behalf of a client.
//!
//! Source: open-gpu-kernel-modules 515 to 595, `ctrl2080gpu.h`, `ctrl2080mc.h`, `ctrla06c.h`, `nvos.h`.

use super::bar0::Registers;
use crate::card::refusal::Refusal;
use crate::card::rm::{Client, Params};
use loga::rm::class;
use serde::{Deserialize, Serialize};

/// `NV2080_CTRL_CMD_GPU_GET_ENGINE_RUNLIST_PRI_BASE`; for root.
pub(crate) const CTRL_RUNLIST_BASE: u32 = 0x2080_0179;
/// `NV2080_CTRL_CMD_MC_GET_ARCH_INFO`.
pub(crate) const CTRL_ARCH_INFO: u32 = 0x2080_1701;
/// `NV2080_CTRL_CMD_GPU_EXEC_REG_OPS`.
pub(crate) const CTRL_REG_OPS: u32 = 0x2080_0122;
/// `NVA06C_CTRL_CMD_GET_INFO`.
pub(crate) const CTRL_GROUP_INFO: u32 = 0xa06c_0106;
/// Engines in each of the three lists: 565 to 595, 550, 525 and 535, 515.
const LIST_SIZES: [usize; 4] = [0x54, 0x40, 0x3e, 0x34];
/// What a list says of an engine that is not there.
const NO_RUNLIST: [u32; 2] = [0xffff_ffff, 0xffff_fffb];
/// GR0 to GR7 and the first eight copy engines, each asked for alone: one that is not there makes
/// the driver refuse the whole list.
const ENGINES: std::ops::RangeInclusive<u32> = 1..=16;
/// Words of the structure of EXEC_REG_OPS, and of one operation.
const REG_OPS_WORDS: (usize, usize) = (12, 8);

/// Which chip the driver has, as the words at the beginning of BAR0 would tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChipId {
    /// The family: 0x180 for a Hopper.
    pub(crate) architecture: u32,
    /// Which one of the family.
    pub(crate) implementation: u32,
    /// Its revision.
    pub(crate) revision: u32,
}

/// The chip, by the driver.
///
/// # Errors
///
/// The call was refused.
pub(crate) fn chip(client: &Client) -> Result<ChipId, Refusal> {
    let mut params = [0; 4];
    let name = "MC_GET_ARCH_INFO";
    client.control(client.subdevice(), CTRL_ARCH_INFO, name, &mut params)?;
    let [architecture, implementation, revision, _] = params;
    Ok(ChipId {
        architecture,
        implementation,
        revision,
    })
}

/// Where the runlist of an engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunlistBase {
    /// Number of the engine: 1 is GR0, 9 is COPY0.
    pub(crate) engine: u32,
    /// Offset of the runlist's block in BAR0.
    pub(crate) base: u32,
    /// Runlist id.
    pub(crate) runlist: u32,
}

/// Where the driver says the runlist of one engine is, by a structure with lists of `size` engines.
fn runlist_of(client: &Client, engine: u32, size: usize) -> Result<RunlistBase, Refusal> {
    let mut params = vec![0; 3 * size];
    params[0] = engine;
    let (object, name) = (client.subdevice(), "GET_ENGINE_RUNLIST_PRI_BASE");
    client.control(object, CTRL_RUNLIST_BASE, name, &mut params)?;
    let (base, runlist) = (params[size], params[2 * size]);
    if NO_RUNLIST.contains(&base) {
        let by = format!("the driver: {name} of engine {engine}");
        return Err(Refusal::new(by, format!("base {base:#x}")));
    }
    Ok(RunlistBase {
        engine,
        base,
        runlist,
    })
}

/// The runlists of the engines for graphics and compute and of the copy engines.
///
/// # Errors
///
/// The first engine was refused with lists of every size that a branch has.
pub(crate) fn runlist_bases(client: &Client) -> Result<Vec<RunlistBase>, Refusal> {
    let (first, others) = (*ENGINES.start(), *ENGINES.start() + 1..=*ENGINES.end());
    let mut refusal = None;
    for size in LIST_SIZES {
        match runlist_of(client, first, size) {
            Ok(base) => {
                let others = others.filter_map(|engine| runlist_of(client, engine, size).ok());
                return Ok(std::iter::once(base).chain(others).collect());
            }
            // That of a size that fits says more than that of one that does not.
            Err(other) if other.answer.contains("size of the parameters") => {
                refusal = refusal.or(Some(other));
            }
            Err(other) => refusal = Some(other),
        }
    }
    // PANIC: there are sizes, so there is a refusal.
    Err(refusal.expect("a size was tried"))
}

/// The id that a channel group of this client gets on the engine for compute. The group is freed
/// again; it never has a channel.
///
/// # Errors
///
/// A call was refused.
pub(crate) fn group_id(client: &mut Client) -> Result<u32, Refusal> {
    let mut params = [0, 0, 0, class::ENGINE_TYPE_GRAPHICS, 0];
    let device = client.device();
    let class = class::CHANNEL_GROUP_A;
    let group = client.alloc(device, class, "channel group", &mut params)?;
    let mut info = [0];
    let asked = client.control(group, CTRL_GROUP_INFO, "GROUP_GET_INFO", &mut info);
    client.free(device, group)?;
    asked.map(|()| info[0])
}

/// Registers that RM reads for a client, one by one.
pub(crate) struct ThroughRm<'a>(pub(crate) &'a Client);

impl Registers for ThroughRm<'_> {
    fn read(&mut self, offset: u32) -> Result<u32, Refusal> {
        let (structure, operation) = REG_OPS_WORDS;
        let mut words = vec![0; structure + operation];
        // One operation, whose address goes into word 6. It reads 32 bits (0) of a register that
        // belongs to no context (type 0): all its other words are zero.
        words[5] = 1;
        words[structure + 3] = offset;
        let mut params = Params {
            words: &mut words,
            structure,
            pointer: Some(6),
        };
        let (object, name) = (self.0.subdevice(), "EXEC_REG_OPS");
        self.0
            .control_with(object, CTRL_REG_OPS, name, &mut params)?;
        let status = words[structure] >> 16 & 0xff;
        if status != 0 {
            let by = format!("the driver: {name} of {offset:#x}");
            return Err(Refusal::new(by, reg_status(status)));
        }
        Ok(words[structure + 5])
    }
}

/// What the status of an operation says.
fn reg_status(status: u32) -> String {
    let words = match status {
        0x01 => "invalid operation",
        0x02 => "invalid type",
        0x04 => "invalid offset",
        0x08 => "unsupported operation",
        0x10 => "invalid mask",
        0x20 => "no access",
        _ => "unknown",
    };
    format!("operation status {status:#x} ({words})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::rm::tests::{client, nodes, FakeDriver};

    fn driver_of(size: usize) -> FakeDriver {
        let driver = FakeDriver::default();
        driver.answer(CTRL_RUNLIST_BASE, move |params| {
            if params.len() != 3 * size {
                return 0x3a;
            }
            (params[size], params[2 * size]) = match params[0] {
                1 => (0xb0_0000, 0),
                9 => (0xb1_0000, 3),
                _ => return 0x1f,
            };
            0
        });
        driver
    }

    #[test]
    fn runlists_are_found_with_the_size_of_each_branch() {
        for size in [0x34, 0x3e, 0x40, 0x54] {
            let client = client(&driver_of(size), nodes().path());
            let bases = runlist_bases(&client).unwrap();
            let found: Vec<(u32, u32, u32)> = bases
                .iter()
                .map(|one| (one.engine, one.base, one.runlist))
                .collect();
            assert_eq!(found, [(1, 0xb0_0000, 0), (9, 0xb1_0000, 3)]);
        }
    }

    #[test]
    fn runlists_that_no_size_gets_are_refused_by_the_driver() {
        let driver = FakeDriver::default();
        driver.answer(CTRL_RUNLIST_BASE, |params| {
            if params.len() == 3 * 0x40 {
                0x1b
            } else {
                0x3a
            }
        });
        let refusal = runlist_bases(&client(&driver, nodes().path())).unwrap_err();
        assert_eq!(refusal.answer, "status 0x1b (insufficient permissions)");
    }

    #[test]
    fn runlist_base_that_means_none_is_refused() {
        let driver = FakeDriver::default();
        driver.answer(CTRL_RUNLIST_BASE, |params| {
            params.fill(0xffff_fffb);
            0
        });
        let refusal = runlist_bases(&client(&driver, nodes().path())).unwrap_err();
        assert_eq!(refusal.answer, "base 0xfffffffb");
    }

    #[test]
    fn group_tells_its_id_and_is_freed_even_if_it_does_not() {
        for (status, expected) in [(0, Some(12)), (0x56, None)] {
            let driver = FakeDriver::default();
            driver.answer(CTRL_GROUP_INFO, move |params| {
                params[0] = 12;
                status
            });
            let mut client = client(&driver, nodes().path());
            assert_eq!(group_id(&mut client).ok(), expected);
            let objects = &driver.state().objects;
            assert!(!objects.values().any(|of| *of == class::CHANNEL_GROUP_A));
            assert_eq!(objects.len(), 3);
        }
    }

    #[test]
    fn register_is_read_by_an_operation_that_only_reads() {
        let driver = FakeDriver::default();
        driver.answer(CTRL_REG_OPS, |params| {
            assert_eq!((params[5], params[12] & 0xffff), (1, 0), "one read");
            params[12] |= if params[15] == 0xb0_0200 {
                0
            } else {
                0x20_0000
            };
            params[17] = 0x8000_2005;
            0
        });
        let client = client(&driver, nodes().path());
        let mut registers = ThroughRm(&client);
        assert_eq!(registers.read(0xb0_0200), Ok(0x8000_2005));
        let refusal = registers.read(0x2640).unwrap_err();
        assert_eq!(refusal.by, "the driver: EXEC_REG_OPS of 0x2640");
        assert_eq!(refusal.answer, "operation status 0x20 (no access)");
    }

    #[test]
    fn chip_is_what_the_driver_says() {
        let driver = FakeDriver::default();
        driver.answer(CTRL_ARCH_INFO, |params| {
            params[..3].copy_from_slice(&[0x180, 0, 0xa1]);
            0
        });
        let client = client(&driver, nodes().path());
        let wanted = ChipId {
            architecture: 0x180,
            implementation: 0,
            revision: 0xa1,
        };
        assert_eq!(chip(&client), Ok(wanted));
    }
}
