// SPDX-License-Identifier: GPL-2.0

//! `[pure]` How much of a GPU processes, users and cgroups may get, and what each one got.
//!
//! Three things are kept apart. A *member* is a process that uses the GPU: time is measured of it,
//! and it can be throttled. A *group* is what fairness is between: a process, a user or a cgroup,
//! see [`GroupBy`]. The policy sees groups; a group's use is the sum over its members, and when it
//! is throttled, all of them are. A *setting* belongs to a process, a cgroup or a user, whatever
//! the groups are.
//!
//! The weight of a group of one process is the most specific one set: for the process, the nearest
//! cgroup around it, or its user. Other groups have the weight set for that user, or for the
//! nearest cgroup from the group's own one on. Limits and the idle class apply to processes, after
//! the policy: a process that they throttle is kept out of the competition, and no client waits for
//! it. A process is under the limits of all cgroups around it. A target is of the group that is its
//! subject, and of no other.
//!
//! | file | contents |
//! |---|---|
//! | `setting` | what can be set, and for which subjects |
//! | `settings` | what has been set, and what holds for a process or a group |
//! | `entries` | the table of it |
//! | `resolved` | what holds for one process |
//! | `lowering` | what users may set for their own processes |
//! | `budget` | how a hard limit is kept |
//! | `coarse`, `reserving` | reserves while submissions are not decided on |
//! | `shares` | what happens: processes join, move and leave, periods are booked |
//! | `members` | the processes, and which of them are awake |
//! | `groups` | the groups: how they come, stay and go |
//! | `booking` | what processes used of a period becomes what groups used |
//! | `throttling` | which processes are throttled |
//! | `member` | one process, one group, and what they got |
//! | `activity` | whether a process takes part in decisions |
//! | `rows` | which row of these tables a process gets |
//! | `direct` | what throttled processes used of a period |
//! | `totals` | totals per user and cgroup that outlive the processes |

mod activity;
#[cfg(any(test, loga_kunit))]
mod awake_tests;
mod booking;
mod budget;
mod coarse;
mod direct;
mod entries;
#[cfg(any(test, loga_kunit))]
mod found_tests;
mod groups;
mod lowering;
mod member;
mod members;
#[cfg(any(test, loga_kunit))]
mod remembered_tests;
mod reserving;
mod resolved;
mod rows;
#[cfg(any(test, loga_kunit))]
mod scanning_tests;
mod setting;
mod settings;
#[cfg(any(test, loga_kunit))]
mod settings_tests;
#[cfg(any(test, loga_kunit))]
mod share_tests;
mod shares;
#[cfg(test)]
mod sums_tests;
mod throttling;
mod totals;

pub use activity::QUIET;
pub use booking::Period;
pub use budget::{Budget, Rate, Spent, BURST};
pub use coarse::{shortest_period, CoarseReserve, CoarseTerms};
pub use direct::Direct;
pub use entries::{Entry, MAX_SETTINGS, NO_USER};
pub use lowering::{MAX_LOWERED, MAX_LOWERED_OF_USER};
pub use member::{Account, Group, Member, ThrottledBy, Used};
pub use resolved::Resolved;
pub use rows::{row_for, RowFor, MAX_CLIENTS, MAX_CLIENTS_OF_USER, ROWS};
pub use setting::{Change, Class, GroupBy, Identity, Limit, Setting, Subject, Target, MAX_LEVELS};
pub use settings::Settings;
pub use shares::Shares;
pub use totals::{Kind, Row, Totals, MAX_ROWS, MAX_TOTALS};
