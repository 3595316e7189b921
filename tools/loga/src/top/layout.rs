// SPDX-License-Identifier: GPL-2.0

//! `[tool]` How the lines of a screen are divided: on the smallest one the first client stands alone, and
//! on a large one histories are higher than a line.

/// Most lines of a client, or of a GPU, beside a history.
pub(super) const HIGHEST: u16 = 8;

/// Least height of a screen that has an empty line between GPUs and clients.
const SPACIOUS: u16 = 7;

/// Lines of each part of the screen, from the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lines {
    /// Of the headline.
    pub(super) headline: u16,
    /// GPUs that are shown.
    pub(super) gpus: u16,
    /// Of each GPU.
    pub(super) of_gpu: u16,
    /// Empty ones.
    pub(super) space: u16,
    /// Of the titles of columns.
    pub(super) titles: u16,
    /// Of all clients.
    pub(super) clients: u16,
    /// Of each client.
    pub(super) of_client: u16,
    /// Of the keys.
    pub(super) keys: u16,
}

impl Lines {
    /// Of a screen so high, with so many GPUs and clients, each of `highest` lines at most.
    pub(super) fn new(height: u16, gpus: usize, clients: usize, highest: u16) -> Self {
        let mut left = height;
        let mut take = |wanted: u16| {
            let taken = wanted.min(left);
            left -= taken;
            taken
        };
        let all = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        // What matters most first.
        let client = take(1);
        let first_gpu = take(all(gpus).min(1));
        let titles = take(1);
        let headline = take(1);
        let keys = take(1);
        // Many GPUs leave half of the screen to the clients.
        let more_gpus = take(all(gpus).min(height / 2).saturating_sub(first_gpu));
        let space = take(u16::from(height >= SPACIOUS));
        let gpus = first_gpu + more_gpus;
        let room = client + left;
        let of_client = (room / all(clients).max(1)).clamp(1, highest);
        let used = of_client.saturating_mul(all(clients));
        let spare = room.saturating_sub(used);
        let of_gpu = (1 + spare / gpus.max(1)).clamp(1, highest);
        Lines {
            headline,
            gpus,
            of_gpu,
            space,
            titles,
            clients: room - gpus * (of_gpu - 1),
            of_client,
            keys,
        }
    }

    /// Clients that fit.
    pub(super) fn page(&self) -> usize {
        usize::from(self.clients / self.of_client).max(1)
    }

    /// Lines of a history that is so many lines apart from the next one.
    pub(super) const fn of_history(apart: u16) -> u16 {
        match apart {
            // An empty one between two of them.
            3.. => apart - 1,
            lines => lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(lines: &Lines) -> u16 {
        let gpus = lines.gpus * lines.of_gpu;
        lines.headline + gpus + lines.space + lines.titles + lines.clients + lines.keys
    }

    #[test]
    fn smallest_screens_show_the_first_client_first() {
        let of = |height| {
            let lines = Lines::new(height, 2, 3, HIGHEST);
            let Lines {
                headline,
                gpus,
                titles,
                clients,
                keys,
                ..
            } = lines;
            [headline, gpus, titles, clients, keys]
        };
        assert_eq!(of(0), [0, 0, 0, 0, 0]);
        assert_eq!(of(1), [0, 0, 0, 1, 0]);
        assert_eq!(of(2), [0, 1, 0, 1, 0]);
        assert_eq!(of(3), [0, 1, 1, 1, 0]);
        assert_eq!(of(5), [1, 1, 1, 1, 1]);
        assert_eq!(of(6), [1, 2, 1, 1, 1]);
    }

    #[test]
    fn large_screens_have_high_histories() {
        let lines = Lines::new(100, 1, 2, HIGHEST);
        assert_eq!((lines.of_client, lines.of_gpu), (HIGHEST, HIGHEST));
        let lines = Lines::new(24, 1, 2, HIGHEST);
        assert!(lines.of_client > 2, "{lines:?}");
        assert_eq!(Lines::new(24, 1, 40, HIGHEST).of_client, 1);
        assert_eq!(Lines::new(24, 1, 40, HIGHEST).page(), 19);
    }

    proptest! {
        #[test]
        fn parts_are_the_whole(height in 0u16..400, gpus in 0usize..300, clients in 0usize..70_000, highest in 1..=HIGHEST) {
            let lines = Lines::new(height, gpus, clients, highest);
            prop_assert_eq!(sum(&lines), height, "{:?}", lines);
            prop_assert!(height == 0 || lines.clients > 0);
            prop_assert!(lines.of_client >= 1 && lines.of_gpu >= 1);
        }
    }
}
