// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The lines of `modinfo` about the knobs, and their entries in the table of parameters,
//! made from [`KNOBS`] when the module is built.

use crate::knobs::KNOBS;
use crate::names::Kind;
use kernel::bindings;
use kernel::prelude::*;

/// More bytes than the longest name of a knob has.
const NAME_LEN: usize = 24;
/// More bytes than all lines together have.
const ROOM: usize = 8192;

/// Lines as the section `.modinfo` has them: each ends with a zero.
struct Lines {
    bytes: [u8; ROOM],
    len: usize,
}

impl Lines {
    const fn push(&mut self, text: &str) {
        let text = text.as_bytes();
        let mut at = 0;
        while at < text.len() {
            self.bytes[self.len] = text[at];
            self.len += 1;
            at += 1;
        }
    }

    const fn push_number(&mut self, number: u32) {
        if number >= 10 {
            self.push_number(number / 10);
        }
        // CAST: a digit.
        self.bytes[self.len] = b'0' + (number % 10) as u8;
        self.len += 1;
    }

    /// The words that a knob takes, or its range.
    const fn push_values(&mut self, kind: Kind) {
        match kind {
            Kind::Switch => self.push("0 or 1"),
            Kind::Number { min, max } => {
                self.push_number(min);
                self.push(" to ");
                self.push_number(max);
            }
            Kind::Word(words) => {
                let mut at = 0;
                while at < words.len() {
                    if at > 0 {
                        self.push(", ");
                    }
                    self.push(words[at]);
                    at += 1;
                }
            }
        }
    }

    const fn of_all_knobs() -> Self {
        let mut lines = Self {
            bytes: [0; ROOM],
            len: 0,
        };
        let mut at = 0;
        while at < KNOBS.len() {
            let knob = &KNOBS[at];
            lines.push("parm=");
            lines.push(knob.name);
            lines.push(":");
            lines.push(knob.about);
            lines.push(": ");
            lines.push_values(knob.kind);
            lines.push(" (default ");
            lines.push(knob.default);
            lines.push(")\0parmtype=");
            lines.push(knob.name);
            lines.push(match knob.kind {
                Kind::Switch => ":bool\0",
                Kind::Number { .. } => ":uint\0",
                Kind::Word(_) => ":charp\0",
            });
            at += 1;
        }
        lines
    }
}

const LINES: Lines = Lines::of_all_knobs();

#[link_section = ".modinfo"]
#[used(compiler)]
static MODINFO: [u8; LINES.len] = {
    let (mut bytes, mut at) = ([0; LINES.len], 0);
    while at < bytes.len() {
        bytes[at] = LINES.bytes[at];
        at += 1;
    }
    bytes
};

/// Names of the knobs, zero-terminated.
static NAMES: [[u8; NAME_LEN]; KNOBS.len()] = {
    let (mut names, mut knob) = ([[0; NAME_LEN]; KNOBS.len()], 0);
    while knob < names.len() {
        let name = KNOBS[knob].name.as_bytes();
        assert!(name.len() < NAME_LEN);
        let mut at = 0;
        while at < name.len() {
            names[knob][at] = name[at];
            at += 1;
        }
        knob += 1;
    }
    names
};

/// Entries in the table of parameters.
#[repr(transparent)]
pub(super) struct Parameters([bindings::kernel_param; KNOBS.len()]);

// SAFETY: The kernel reads them, under its own lock, and Rust never does.
unsafe impl Sync for Parameters {}

impl Parameters {
    /// One for each knob; their argument is its position in [`KNOBS`].
    pub(super) const fn new(
        module: *mut bindings::module,
        ops: *const bindings::kernel_param_ops,
    ) -> Self {
        const fn of(
            knob: usize,
            module: *mut bindings::module,
            ops: *const bindings::kernel_param_ops,
        ) -> bindings::kernel_param {
            bindings::kernel_param {
                name: NAMES[knob].as_ptr().cast(),
                mod_: module,
                ops,
                perm: 0o444,
                level: -1,
                flags: 0,
                __bindgen_anon_1: bindings::kernel_param__bindgen_ty_1 {
                    arg: core::ptr::without_provenance_mut(knob),
                },
            }
        }
        let mut all = [of(0, module, ops); KNOBS.len()];
        let mut knob = 1;
        while knob < all.len() {
            all[knob] = of(knob, module, ops);
            knob += 1;
        }
        Self(all)
    }
}

/// The name of the knob at this position if it can be changed while LoGA runs; null after the last.
#[no_mangle]
extern "C" fn loga_knob_name(knob: usize, live: &mut bool) -> *const c_char {
    let Some((knob, name)) = KNOBS.get(knob).zip(NAMES.get(knob)) else {
        return core::ptr::null();
    };
    *live = knob.live;
    name.as_ptr().cast()
}
