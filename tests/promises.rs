// SPDX-License-Identifier: GPL-2.0

//! What admission promises is kept: random sets of reserves, on the module's own code, with clients
//! that keep their word and others that do not, and with changes meanwhile. A failing set is shrunk.
//!
//! `PROPTEST_CASES=300000 PROPTEST_RNG_SEED=2 cargo test --release -p loga --test promises` searches
//! among others.

#[path = "promises/bucket.rs"]
mod bucket;
#[path = "promises/sets.rs"]
mod sets;
#[path = "promises/world.rs"]
mod world;

use self::sets::set;
use self::world::World;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 20_000, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn deadlines_that_are_promised_are_kept_or_void(set in set()) {
        let kept = World::new(&set).run(&set);
        prop_assert!(kept.is_ok(), "{}", kept.unwrap_err());
    }
}
