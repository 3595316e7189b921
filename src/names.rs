// SPDX-License-Identifier: GPL-2.0

//! [pure] Enumerations whose values are selected by name.

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
    use crate::engine::Scale;
    use crate::error::Error;
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
