// SPDX-License-Identifier: GPL-2.0

//! How wrong accounting is. Fixed seeds: a figure that moves has a cause.

use loga_eval::accuracy::{loads, measure, Accuracy, Method};

const SPARSE: Method = Method::Sparse { interval_us: 300 };
const WINDOWS: u32 = 120;

fn of(name: &str, way: Method) -> Accuracy {
    let loads = loads();
    let load = loads.iter().find(|load| load.name.starts_with(name));
    measure(load.expect("no such load"), way, WINDOWS, 1).unwrap()
}

#[test]
fn sparse_accounting_takes_a_hundredth_of_a_core_for_a_point() {
    for (name, most) in [("1000/0", 0.9), ("ten", 0.35)] {
        let one = of(name, SPARSE);
        assert!(one.cpu_pct <= 1.01, "{one:?}");
        assert!(one.error95_pt <= most, "{one:?}");
        assert!(one.bias_pt <= 0.15, "{one:?}");
    }
}

#[test]
fn bound_of_sparse_accounting_holds_in_19_of_20_windows() {
    for load in loads() {
        let one = measure(&load, SPARSE, WINDOWS, 2).unwrap();
        assert!(one.covered_pct.unwrap() >= 90.0, "{one:?}");
        assert!(one.bound_pt.unwrap() < 3.0 * one.error95_pt, "{one:?}");
    }
}

#[test]
fn strata_are_never_worse_than_independent_samples() {
    for load in loads() {
        let strata = measure(&load, SPARSE, WINDOWS, 3).unwrap();
        let way = Method::Uniform { interval_us: 300 };
        let independent = measure(&load, way, WINDOWS, 3).unwrap();
        // Three standard deviations of the ratio of two such quantiles.
        let most = 1.4 * independent.error95_pt;
        assert!(strata.error95_pt <= most, "{strata:?}, {independent:?}");
    }
}

#[test]
fn clients_in_step_deceive_equidistant_samples_only() {
    for name in ["60/240", "120/480"] {
        let regular = of(name, Method::Regular { interval_us: 300 });
        assert!(regular.error95_pt > 20.0, "{regular:?}");
        for interval_us in [300, 600] {
            let one = of(name, Method::Sparse { interval_us });
            assert!(one.error95_pt < 3.0, "{one:?}");
            assert!(one.bias_pt < 0.3, "{one:?}");
        }
    }
}

#[test]
fn two_equal_clients_of_short_commands_are_out_of_reach() {
    let one = of("50/0", SPARSE);
    assert!(one.error95_pt > 1.0, "{one:?}");
    // 1.96^2 / 4 / 0.01^2 samples in two seconds.
    let way = Method::Uniform { interval_us: 208 };
    let enough = of("50/0", way);
    assert!(enough.error95_pt < 1.25, "{enough:?}");
    assert!(enough.cpu_pct > 1.3, "{enough:?}");
}
