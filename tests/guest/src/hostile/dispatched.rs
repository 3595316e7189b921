// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Some of the other tests again, with a dispatcher, for a short run: `loga-guest run --hostile
//! BRANCH --dispatch prio` and `edf` run all of them so.

use super::{bystander, fuzz, ownership, set_dispatcher, Dispatcher};
use crate::ktap::Verdict;

crate::ktap::tests![
    const QUICK;
    bystander_waits_no_longer_beside_hostile_programs_with_dispatch: timed,
    channels_of_a_group_are_charged_with_dispatch: timed,
    random_calls_get_the_drivers_own_answers_with_dispatch,
];

/// While it lives, LoGA is loaded with a dispatcher.
struct With;

impl With {
    fn new(dispatcher: Dispatcher) -> Self {
        set_dispatcher(Some(dispatcher));
        With
    }
}

impl Drop for With {
    fn drop(&mut self) {
        set_dispatcher(None);
    }
}

fn bystander_waits_no_longer_beside_hostile_programs_with_dispatch() -> Verdict {
    let _dispatcher = With::new(Dispatcher::Prio);
    bystander::calls_beside(&["maps 500", "unmap", "many 256 60000"])
}

fn channels_of_a_group_are_charged_with_dispatch() -> Verdict {
    let _dispatcher = With::new(Dispatcher::Edf);
    ownership::check("group")
}

fn random_calls_get_the_drivers_own_answers_with_dispatch() -> Verdict {
    let _dispatcher = With::new(Dispatcher::Prio);
    fuzz::answers(3..4, 10_000)
}
