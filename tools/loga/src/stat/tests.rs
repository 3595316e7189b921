// SPDX-License-Identifier: GPL-2.0

//! Tests of the figures of `loga stat`.

use super::*;
use loga::knobs::Config;
use loga::policies::PolicyKind;

/// A GPU polled for a sixth of 600 ms, a quarter idle, with two clients.
pub(crate) fn snapshot(times: u64) -> Snapshot {
    let mut info = uapi::Gpu {
        chipset: 0xf1,
        pci_domain: 1,
        pci_bdf: 0x100,
        polled_ns: times * 100_000_000,
        unpolled_ns: times * 500_000_000,
        idle_ns: times * 25_000_000,
        t_sys_ns: 1_000_000,
        ..Default::default()
    };
    info.note(&Config {
        policy: PolicyKind::Event,
        enforce: true,
        ..Config::default()
    });
    let client = |id: u64, share: u64| {
        let mut client = uapi::Client {
            id,
            pid: 100 + id as i32,
            weight: 100,
            measured_ns: times * share * 1_000_000,
            gpu_time_ns: times * share * 6_000_000,
            entitled_ns: times * 300_000_000,
            vtime_ns: 3_000_000 - id * 1_500_000,
            state: uapi::STATE_RUNNING,
            spec: uapi::NO_SPEC,
            prio: uapi::PRIO_BY_NICE,
            ..Default::default()
        };
        client.comm[..8].copy_from_slice(b"throttle");
        client
    };
    Snapshot {
        gpu: 0,
        info,
        clients: vec![client(1, 15), client(2, 60)],
        groups: vec![uapi::Group {
            id: 1,
            kind: uapi::GROUP_BY_PROCESS,
            members: 1,
            gpu_time_ns: times * 90_000_000,
            measured_ns: times * 15_000_000,
            ..Default::default()
        }],
        channels: Vec::new(),
    }
}

#[test]
fn shares_are_of_all_phases_and_sorted() {
    let stat = Stat::new(&snapshot(1), None);
    assert_eq!(stat.span_ns, 600_000_000);
    assert_eq!(stat.idle, Some(0.25));
    assert_eq!(stat.busy, Some(0.75));
    assert_eq!(stat.clients[0].id, 2);
    assert_eq!(stat.clients[0].share, Some(0.6));
    assert_eq!(stat.clients[1].share, Some(0.15));
    assert_eq!(stat.clients[1].entitled, Some(0.5));
    assert_eq!(stat.clients[1].vtime_ahead_ns, Some(500_000));
    assert_eq!(stat.clients[0].vtime_ahead_ns, Some(-1_000_000));
    assert_eq!(stat.pci, "0001:01:00.0");
    assert_eq!(stat.policy, "event");
    assert!(stat.enforcing);
    assert!(!stat.interval);
}

// Regression: what a throttled client ran on for between polling phases was in no share.
#[test]
fn share_is_of_what_was_charged() {
    let mut now = snapshot(1);
    now.clients[0].gpu_time_ns += 30_000_000;
    now.groups[0].gpu_time_ns += 30_000_000;
    let stat = Stat::new(&now, None);
    assert_eq!(stat.clients[1].share, Some(0.2));
    assert_eq!(stat.groups[0].share, Some(0.2));
}

#[test]
fn difference_counts_only_what_happened_since() {
    let before = snapshot(1);
    let mut now = snapshot(3);
    now.clients[0].gpu_time_ns = before.clients[0].gpu_time_ns;
    now.clients[0].measured_ns = before.clients[0].measured_ns;
    let stat = Stat::new(&now, Some(&before));
    assert!(stat.interval);
    assert_eq!(stat.span_ns, 1_200_000_000);
    assert_eq!(stat.clients[0].share, Some(0.6));
    assert_eq!(stat.clients[1].share, Some(0.0));
}

#[test]
fn phase_under_way_is_not_in_the_span() {
    let mut now = snapshot(2);
    now.info.flags |= uapi::GPU_POLLING;
    now.info.unpolled_ns += 500_000_000;
    now.info.last_nonpoll_ns = 500_000_000;
    let stat = Stat::new(&now, Some(&snapshot(1)));
    assert_eq!(stat.span_ns, 600_000_000);
    assert_eq!(stat.clients[0].share, Some(0.6));
    assert_eq!(stat.clients[0].entitled, Some(0.5));
}

#[test]
fn figures_that_are_withheld_are_left_out_and_shares_are_of_the_time() {
    let snapshot = |times: u64| {
        let mut own = snapshot(times);
        own.info.now_ns = times * 600_000_000;
        own.info.withhold();
        own
    };
    let stat = Stat::new(&snapshot(3), Some(&snapshot(1)));
    assert_eq!(stat.clients[0].share, Some(0.6));
    assert_eq!(stat.clients[0].entitled, Some(0.5));
    assert_eq!(stat.clients[0].vtime_ahead_ns, None);
    assert_eq!(stat.busy, None);
    let json = stat.to_json().expect("JSON");
    assert_eq!(json["withheld"], true);
    for name in WITHHELD {
        assert!(json.get(name).is_none(), "{name}");
    }
    assert_eq!(json["clients"][0]["gpu_time_ns"], 720_000_000);
    let again: Stat = serde_json::from_value(json).expect("readable");
    assert_eq!(again.clients, stat.clients);
    let whole = Stat::new(&tests::snapshot(1), None)
        .to_json()
        .expect("JSON");
    for name in WITHHELD {
        assert!(whole.get(name).is_some(), "{name}");
    }
}

#[test]
fn counters_that_went_backwards_are_zero() {
    let stat = Stat::new(&snapshot(1), Some(&snapshot(2)));
    assert_eq!(stat.span_ns, 0);
    assert_eq!(stat.busy, None);
    assert_eq!(stat.clients[0].share, None);
}

#[test]
fn fading_means_are_parts_and_shown_to_callers_from_whom_figures_are_withheld() {
    let mut now = snapshot(1);
    now.clients[0].busy_2s_ppm = 250_000;
    now.clients[0].waited_2s_ppm = 500_000;
    now.clients[0].busy_30s_ppm = 100_000;
    (now.info.busy_30s_pct, now.info.want_30s_pct) = (93, 187);
    (now.info.wanting, now.info.claims, now.info.claimed_pct) = (2, 1, 20);
    now.info.withhold();
    let json = Stat::new(&now, None).to_json().expect("JSON");
    assert_eq!(
        (&json["busy_30s"], &json["want_30s"]),
        (&0.93.into(), &1.87.into())
    );
    assert_eq!((&json["wanting"], &json["claims"]), (&2.into(), &1.into()));
    assert_eq!(json["claimed"], 0.2);
    let client = &json["clients"][1];
    assert_eq!(
        (&client["busy_2s"], &client["want_2s"]),
        (&0.25.into(), &0.5.into())
    );
    assert_eq!(
        (&client["waited_2s"], &client["want_30s"]),
        (&0.5.into(), &0.1.into())
    );
}

#[test]
fn integers_that_no_double_holds_are_printed_and_read_exactly() {
    let mut now = snapshot(1);
    // 2^53 + 1, the first integer that no double holds, and the largest one that there can be.
    (now.info.now_ns, now.info.t_sys_ns) = ((1 << 53) + 1, u64::MAX);
    (now.clients[0].gpu_time_ns, now.clients[0].cgroup) = (u64::MAX - 1, u64::MAX - 2);
    let stat = Stat::new(&now, None);
    let text = stat.to_json().expect("JSON").to_string();
    for exact in [
        "\"now_ns\":9007199254740993,",
        "\"t_sys_ns\":18446744073709551615,",
        "\"gpu_time_ns\":18446744073709551614,",
        "\"cgroup\":18446744073709551613,",
    ] {
        assert!(text.contains(exact), "{exact}: {text}");
    }
    let again: Stat = serde_json::from_str(&text).expect("readable");
    assert_eq!(again.now_ns, stat.now_ns);
    assert_eq!(again.clients, stat.clients);
}
