// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The help of `loga top`: keys, columns and states.

/// All of it; a line that begins with a space explains the word before the two spaces after it.
pub(super) const TEXT: &str = "\
loga top: help (any key goes back, up and down scroll)

Keys
  q, Esc       quit
  h, ?         this help
  left, right  sort by the column before or after; also < and >
  r            reverse the order
  v            clients, or the groups that GPUs are divided between
  g            all GPUs, or one of them
  up, down     scroll; also PgUp, PgDn, Home and End
  space        pause, and go on
  +            longer between two pictures, up to 60 s
  -            shorter between two pictures, down to 0.1 s

Columns, of the time since the picture before
  GPU          index of the GPU
  PID, USER    process, and its user
  COMMAND      name of the process; GROUP is a process, user or cgroup
  CHAN, PROC   channels of a client; processes of a group
  WEIGHT       twice the weight entitles to twice the time
  LIMIT        most of a GPU that it may use; - is no limit
  SHARE        GPU time that it was charged, as a part of the time
  COPY         the same of the copy engine
  ENTITLED     share in a division by weights among those that wanted the GPU
  WAITED       part of the time in which it wanted the GPU and did not have it
  VTIME ms     virtual time ahead of the system's: who is ahead, waits
  THROTTLED    times that it was throttled
  STATE        see below
  (history)    SHARE in each interval; the top is the largest one on the screen

States
  idle         nothing of it ran
  running      it ran, or may run
  throttled    kept off the engine by the policy (red)
  .., limit    kept off by its own limit or that of a cgroup or user around it
  .., idle class  it runs only while no client of the normal class wants the GPU
  yellow       got more than it was entitled to: others did not want it

The line of a GPU
  enforcing    decisions are carried out; accounting: they are not
  busy, idle   parts of the time polled; what is missing had no known owner
  LOST         the device does not answer any more
";

/// Lines of it.
pub(super) fn lines() -> usize {
    TEXT.lines().count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::rows::View;

    #[test]
    fn every_column_and_key_is_explained_on_lines_of_a_usual_screen() {
        for view in [View::Clients, View::Groups] {
            for column in view.columns(true) {
                assert!(TEXT.contains(column.title(view)), "{column:?}");
            }
        }
        for line in TEXT.lines() {
            assert!(line.len() <= 80, "{line}");
            assert!(line.is_ascii(), "{line}");
        }
    }
}
