// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Numbers out of the bytes of an input.

/// The bytes not taken yet. Bytes past the end are zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All bytes of an input.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Input(bytes)
    }

    /// Whether no byte is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that are left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The next bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let (taken, rest) = self.0.split_at(N.min(self.0.len()));
        for (to, from) in bytes.iter_mut().zip(taken) {
            *to = *from;
        }
        self.0 = rest;
        bytes
    }

    /// One byte.
    pub(crate) fn u8(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    /// Two bytes.
    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Four bytes.
    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes.
    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}
