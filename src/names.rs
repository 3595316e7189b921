// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The values that a setting has, and enumerations with values that are selected by name.

/// The values that a setting has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0 or 1.
    Switch,
    /// A number, both bounds included.
    Number {
        /// Smallest value.
        min: u32,
        /// Largest value.
        max: u32,
    },
    /// One of these words.
    Word(&'static [&'static str]),
}

/// A type of which a setting has a value.
pub trait Value: Copy {
    /// Its values.
    const KIND: Kind;
    /// The one with the least number.
    const FIRST: Self;

    /// The number of this one.
    fn number(self) -> u32;

    /// The one with this number.
    fn of(number: u32) -> Option<Self>;
}

impl Value for bool {
    const KIND: Kind = Kind::Switch;
    const FIRST: Self = false;

    fn number(self) -> u32 {
        self.into()
    }

    fn of(number: u32) -> Option<Self> {
        match number {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Value for u32 {
    const KIND: Kind = Kind::Number {
        min: 0,
        max: u32::MAX,
    };
    const FIRST: Self = 0;

    fn number(self) -> u32 {
        self
    }

    fn of(number: u32) -> Option<Self> {
        Some(number)
    }
}

/// Declares an enumeration of which a setting has one value, with the names of the values.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $type:ident of $setting:literal {
            $($(#[$of:meta])* $value:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $type {
            $($(#[$of])* $value,)+
        }

        impl crate::names::Value for $type {
            const KIND: crate::names::Kind = crate::names::Kind::Word(Self::NAMES);
            const FIRST: Self = Self::ALL[0];

            fn number(self) -> u32 {
                // CAST: a small number.
                self as u32
            }

            fn of(number: u32) -> Option<Self> {
                Self::ALL.get(number as usize).copied()
            }
        }

        impl crate::names::Value for Option<$type> {
            const KIND: crate::names::Kind = crate::names::Kind::Word(&["auto", $($name),+]);
            const FIRST: Self = None;

            fn number(self) -> u32 {
                self.map_or(0, |value| crate::names::Value::number(value).saturating_add(1))
            }

            fn of(number: u32) -> Option<Self> {
                match number.checked_sub(1) {
                    None => Some(None),
                    Some(number) => <$type as crate::names::Value>::of(number).map(Some),
                }
            }
        }

        impl $type {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];
            /// Their names.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// Name by which it is selected.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }

            /// The value with this name.
            ///
            /// # Errors
            ///
            /// [`UnknownName`](crate::error::Error::UnknownName) if there is none.
            pub fn by_name(name: &str) -> Result<Self, crate::error::Error> {
                let found = Self::ALL.iter().find(|value| value.name() == name);
                found.copied().ok_or(crate::error::Error::UnknownName {
                    setting: $setting,
                    names: Self::NAMES,
                })
            }
        }
    };
}

pub(crate) use named;

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_names))]
mod tests {
    use crate::account::Accounting;
    use crate::error::Error;
    use crate::knobs::Scale;
    use crate::regs::Source;
    use crate::share::GroupBy;

    #[test]
    fn value_is_found_by_its_own_name_only() {
        for kind in GroupBy::ALL {
            assert_eq!(GroupBy::by_name(kind.name()), Ok(*kind));
        }
        for scale in Scale::ALL {
            assert_eq!(Scale::by_name(scale.name()), Ok(*scale));
        }
        for source in Source::ALL {
            assert_eq!(Source::by_name(source.name()), Ok(*source));
        }
        for way in Accounting::ALL {
            assert_eq!(Accounting::by_name(way.name()), Ok(*way));
        }
    }

    #[test]
    fn other_name_is_refused_with_those_there_are() {
        let refused = Scale::by_name("clients");
        let wanted = Error::UnknownName {
            setting: "scale",
            names: &["active", "channels"],
        };
        assert_eq!(refused, Err(wanted));
        assert!(GroupBy::by_name("").is_err());
        assert!(Source::by_name("ptimer").is_err());
    }
}
