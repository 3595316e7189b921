// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What goes with what: cards, driver branches, kernels and distributions.
//!
//! [`table`] has the rows, `rows` says what they are, this file has the questions that programs ask. `loga
//! doctor`, `loga-host check`, the module's line about the driver's branch, and the tables of
//! README.md and docs/nvidia.md have no list of their own. What the module reads from a card
//! ([`crate::regs::detect`]) decides; a PCI id only tells what to expect.

mod rows;
pub mod table;

pub use rows::*;

use crate::regs::Family;
use core::fmt;
use table::{BRANCHES, BUILDS, DISTRIBUTIONS, FAMILIES, IDS, KERNELS, MIN_KERNEL};

impl IdRange {
    /// Whether LoGA follows cards with these ids.
    ///
    /// # Errors
    ///
    /// Why it does not.
    pub fn followed(&self) -> Result<(), &'static str> {
        match (row_of(self.family).follows, self.unknown_chip) {
            (Follows::No(why), _) => Err(why),
            (Follows::Yes, Some(_)) => Err("LoGA does not know its chip"),
            (Follows::Yes, None) => Ok(()),
        }
    }
}

impl Kernel {
    /// Whether the module is built for it.
    pub fn is_new_enough(self) -> bool {
        self >= MIN_KERNEL
    }

    /// What ran there, if it was tried.
    pub fn tried(self) -> Option<&'static str> {
        let row = KERNELS.iter().find(|row| row.kernel == self)?;
        Some(row.tried)
    }
}

/// The row of a family.
pub fn row_of(family: Family) -> &'static FamilyRow {
    let row = FAMILIES.iter().find(|row| row.family == family);
    // `every_family_has_a_row` checks that there is one.
    row.unwrap_or(&FAMILIES[0])
}

/// What a PCI device id of NVIDIA tells of a card.
pub fn card(device: u16) -> Option<&'static IdRange> {
    IDS.iter().find(|ids| (ids.from..=ids.to).contains(&device))
}

/// Families that LoGA follows, oldest first.
pub fn followed() -> impl Iterator<Item = &'static FamilyRow> + Clone {
    FAMILIES.iter().filter(|row| row.follows == Follows::Yes)
}

/// Branches that LoGA knows by a test, oldest first.
pub fn known() -> impl DoubleEndedIterator<Item = &'static Branch> + Clone {
    BRANCHES.iter().filter(|branch| branch.is_known())
}

/// The number of a version's branch: 470 of `470.256.02`.
pub fn branch_number(version: &str) -> Option<u16> {
    version.trim().split('.').next()?.parse().ok()
}

/// The row of a branch.
pub fn branch(number: u16) -> Option<&'static Branch> {
    BRANCHES.iter().find(|branch| branch.number == number)
}

/// Branches that LoGA knows and that take the cards of all these families, the best tested and
/// newest first.
pub fn wanted(families: &[Family]) -> impl Iterator<Item = &'static Branch> + Clone + use<'_> {
    let takes = move |branch: &&Branch| families.iter().all(|one| branch.takes.contains(one));
    let of = move |tested| known().rev().filter(move |one| one.tested == tested);
    let real = of(Tested::RealDriver);
    real.chain(of(Tested::StandIn)).filter(takes)
}

/// Whether a source of the driver builds for a kernel.
pub fn build(branch: u16, flavour: Flavour, kernel: Kernel) -> Build {
    let is_it =
        |pair: &&Pair| (pair.branch, pair.flavour, pair.kernel) == (branch, flavour, kernel);
    BUILDS
        .iter()
        .find(is_it)
        .map_or(Build::NotTried, |pair| pair.build)
}

/// The distribution of an os-release file.
pub fn distribution(id: &str, version: &str) -> Option<&'static Distribution> {
    let mut rows = DISTRIBUTIONS.iter();
    rows.find(|row| row.id == id && row.version == version)
}

/// What LoGA says of a driver's version when it attaches: nothing of a branch that it knows.
///
/// It attaches all the same: it reads the driver's calls by their numbers and sizes, lets pass what it
/// does not understand, and knows submission pages by their physical addresses.
pub fn remark(version: &str) -> Option<UnknownBranch<'_>> {
    let number = branch_number(version);
    let is_known = number.and_then(branch).is_some_and(Branch::is_known);
    (!is_known).then_some(UnknownBranch { version })
}

/// A version of the driver whose branch LoGA does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownBranch<'a> {
    version: &'a str,
}

impl fmt::Display for UnknownBranch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version;
        write!(
            f,
            "driver {version} is of a branch that LoGA was not tested with (known: {}): it follows the calls that it understands",
            Listed(known().map(|branch| branch.number))
        )
    }
}

/// `a, b and c`.
#[derive(Clone, Copy, Debug)]
pub struct Listed<T>(pub T);

impl<T: Iterator<Item: fmt::Display> + Clone> fmt::Display for Listed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.clone().count();
        for (at, item) in self.0.clone().enumerate() {
            let before = match at {
                0 => "",
                _ if at.saturating_add(1) == count => " and ",
                _ => ", ",
            };
            write!(f, "{before}{item}")?;
        }
        Ok(())
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_compatibility))]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_row() {
        for ids in IDS {
            assert_eq!(row_of(ids.family).family, ids.family);
        }
    }

    #[test]
    fn every_example_has_the_family_of_its_row() {
        for row in FAMILIES {
            for example in row.examples {
                let family = card(example.device).map(|ids| ids.family);
                assert_eq!(family, Some(row.family));
            }
        }
    }

    #[test]
    fn ranges_of_ids_are_in_order_and_apart() {
        for pair in IDS.windows(2) {
            assert!(pair[0].from <= pair[0].to);
            assert!(pair[0].to < pair[1].from);
        }
    }

    #[test]
    fn ids_in_a_gap_are_of_no_family() {
        assert!(card(0x0001).is_none());
        assert!(card(0x1080 + 0x20).is_none());
        assert!(card(0xffff).is_none());
    }

    #[test]
    fn k80_is_a_kepler_with_a_chip_that_loga_does_not_know() {
        let ids = card(0x102d);
        assert_eq!(ids.map(|ids| ids.family), Some(Family::Kepler));
        assert!(ids.is_some_and(|ids| ids.followed().is_err()));
    }

    #[test]
    fn families_whose_programs_submit_through_pages_are_followed() {
        let mut families = followed().map(|row| row.family);
        assert_eq!(families.next(), Some(Family::Kepler));
        assert_eq!(families.next(), Some(Family::Maxwell));
        assert_eq!(families.next(), Some(Family::Pascal));
        assert_eq!(families.next(), None);
    }

    #[test]
    fn branch_takes_no_family_that_ended_before_it() {
        for branch in BRANCHES {
            for family in branch.takes {
                let last = row_of(*family).last;
                assert!(last.is_none_or(|last| branch.number <= last));
            }
        }
    }

    #[test]
    fn wanted_branches_take_all_cards_and_the_real_driver_comes_first() {
        let mut kepler = wanted(&[Family::Kepler]).map(|branch| branch.number);
        assert_eq!(kepler.next(), Some(470));
        assert_eq!(kepler.next(), Some(340));
        assert_eq!(kepler.next(), None);
        let mut both = wanted(&[Family::Kepler, Family::Pascal]).map(|branch| branch.number);
        assert_eq!(both.next(), Some(470));
        assert_eq!(both.next(), None);
        let pascal = wanted(&[Family::Pascal]).map(|branch| branch.number);
        assert_eq!(pascal.clone().next(), Some(550));
        assert!(wanted(&[Family::Blackwell]).next().is_none());
    }

    #[test]
    fn versions_of_known_branches_need_no_remark() {
        for version in ["340.108", "470.256.02", "550.163.01", "550"] {
            assert_eq!(remark(version), None);
        }
    }

    #[test]
    fn versions_of_other_branches_are_said() {
        for version in [
            "390.157",
            "535.274.02",
            "580.95.05",
            "999.1",
            "",
            "x",
            "99999.1",
        ] {
            assert_eq!(remark(version), Some(UnknownBranch { version }));
        }
    }

    #[test]
    fn release_of_a_kernel_is_its_first_two_numbers() {
        let seven_three = Some(Kernel { major: 7, minor: 3 });
        assert_eq!(Kernel::of_release("7.3.4+deb13-amd64"), seven_three);
        assert_eq!(Kernel::of_release("7.3-rc1"), seven_three);
        assert_eq!(Kernel::of_release("7.3"), seven_three);
        assert_eq!(Kernel::of_release(""), None);
        assert_eq!(Kernel::of_release("7"), None);
        assert_eq!(Kernel::of_release("7.x"), None);
        assert!(
            Kernel {
                major: 6,
                minor: 18
            } < Kernel { major: 7, minor: 0 }
        );
        assert!(!Kernel { major: 6, minor: 1 }.is_new_enough());
    }

    #[test]
    fn pair_that_nobody_tried_is_not_tried() {
        let seven_three = Kernel { major: 7, minor: 3 };
        let tried = build(470, Flavour::Proprietary, seven_three);
        assert_eq!(tried, Build::Patched(&["pat"]));
        let open = build(470, Flavour::Open, seven_three);
        assert_eq!(open, Build::NotTried);
        let older = build(470, Flavour::Proprietary, MIN_KERNEL);
        assert_eq!(older, Build::NotTried);
    }

    #[test]
    fn every_kernel_that_was_tried_is_new_enough() {
        for row in KERNELS {
            assert!(row.kernel.is_new_enough());
        }
    }
}
