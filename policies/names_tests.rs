// SPDX-License-Identifier: GPL-2.0

//! Tests of the names by which policies are selected.

use super::PolicyKind;
use super::{by_name, NAMES, UNKNOWN};

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policies))]
mod tests {
    use super::*;

    #[test]
    fn by_name_of_nothing_known_is_refused() {
        assert_eq!(by_name("fifo"), Err(UNKNOWN));
        assert_eq!(by_name(""), Err(UNKNOWN));
        assert_eq!(by_name("Event"), Err(UNKNOWN));
    }

    #[test]
    fn names_of_all_policies_differ() {
        assert_eq!(NAMES.len(), PolicyKind::ALL.len());
        for (index, name) in NAMES.iter().enumerate() {
            assert!(!NAMES.iter().skip(index + 1).any(|other| other == name));
        }
    }
}
