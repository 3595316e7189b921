// SPDX-License-Identifier: GPL-2.0

//! Tests of time on the copy engine, against the GPU's own record.

use crate::control::loga::Loga;
use crate::scenario::{parse, Kind};
use crate::world::{Host, World};
use loga::account::sparse::bound;
use loga_model::gpu::{CE0, GR};

/// The world of a scenario, at its beginning.
pub(super) fn world_of(text: &str) -> World<Loga> {
    let scenario = parse("x.toml", text, &[]).unwrap();
    let clients: Vec<_> = scenario.clients.iter().collect();
    let Kind::Loga(kind) = scenario.policy.kind else {
        panic!("{:?}", scenario.policy.kind);
    };
    let (policy, costs) = (&scenario.policy, &scenario.costs);
    let loga = Loga::new(kind, policy, costs, &clients, 1).unwrap();
    World::new(&Host::of(&scenario.gpus[0]), &clients, None, 0, 1, loga)
}

/// Three clients for 20 s: one computes and copies, one only copies, one only computes.
fn world(policy: &str) -> World<Loga> {
    let text = format!(
        "length_ms = 20000\n[policy]\n{policy}\n\
         [[client]]\nname = \"both\"\n[[client.phase]]\ncopy_us = 200\nkernel_us = 300\n\
         [[client]]\nname = \"copies\"\n[[client.phase]]\ncpu_us = 100\ncopy_us = 500\n\
         [[client]]\nname = \"computes\"\n[[client.phase]]\nkernel_us = 100\n"
    );
    let mut world = world_of(&text);
    assert!(!world.run(20_000_000_000, &mut None));
    world
}

#[test]
fn time_of_copies_is_that_of_the_gpu_s_own_record() {
    for policy in [
        "name = \"none\"\naccounting = \"burst\"",
        "name = \"none\"\naccounting = \"sparse\"",
        "name = \"event\"\naccounting = \"burst\"\nenforce = true",
    ] {
        let world = world(policy);
        let share = |ns: u64| ns as f64 / 20e9;
        for client in 0..3 {
            let account = world.control.account(client);
            let said = [account.received, account.copied].map(|time| share(time.get()));
            let real = [GR, CE0].map(|engine| {
                let usage = world.machine.board.usage(client, engine);
                share(usage.run + usage.switch)
            });
            // Nothing with burst accounting.
            let bound = [account.variance_us2, account.copied_variance_us2].map(|variance| {
                let stated = bound(variance, world.control.sparse().interval());
                share(stated.get())
            });
            for ((said, real), bound) in said.into_iter().zip(real).zip(bound) {
                // The last period is not booked.
                let off = (said - real).abs();
                assert!(
                    off < 0.01 + bound,
                    "{policy}: {said:.3}, {real:.3} +- {bound:.3}"
                );
                assert!(real > 0.0 || said == 0.0, "{policy}: {said:.3}, {real:.3}");
            }
            assert!((client == 2) == (account.copied.get() == 0), "{policy}");
        }
        assert!(world.control.violations().is_empty());
    }
}
