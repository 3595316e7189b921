// SPDX-License-Identifier: GPL-2.0

//! Tests of the names of GPUs.

use super::*;
use loga::uapi;

/// UUIDs of two GPUs that begin alike, and of a third one.
const UUIDS: [&str; 3] = [
    "GPU-11111111-2222-3333-4444-000000000000",
    "GPU-11111111-2222-3333-5555-000000000000",
    "GPU-99999999-2222-3333-4444-000000000000",
];

const UNKNOWN: &str = "GPU-????????-????-????-????-????????????";

/// GPUs at these buses, in the order of LoGA's indices.
fn snapshots(buses: &[u32]) -> Vec<Snapshot> {
    let at = |(gpu, bus): (u32, &u32)| Snapshot {
        gpu,
        info: uapi::Gpu {
            pci_bdf: bus << 8,
            ..Default::default()
        },
        ..Default::default()
    };
    (0..).zip(buses).map(at).collect()
}

/// The driver's descriptions of GPUs: the bus and the UUID of each.
fn described(gpus: &[(u32, &str)]) -> tempfile::TempDir {
    let proc = tempfile::tempdir().expect("a folder");
    for (bus, uuid) in gpus {
        let address = names::pci(0, bus << 8);
        let folder = proc.path().join(DRIVER).join(address);
        fs::create_dir_all(&folder).expect("made");
        let text = format!("Model: \t\t Tesla K40c\nIRQ:   \t\t 30\nGPU UUID: \t {uuid}\n");
        fs::write(folder.join("information"), text).expect("written");
    }
    proc
}

fn environment(visible: Option<&str>, order: Option<&str>) -> Environment {
    Environment {
        proc: "/nowhere".into(),
        visible: visible.map(OsString::from),
        order: order.map(OsString::from),
        cgroups: "/nowhere".into(),
        history: "/nowhere".into(),
        path: None,
    }
}

/// Three GPUs whose indices are not in the order of their buses: positions 0, 1, 2 are GPUs 2, 0, 1.
fn three(uuids: [&str; 3]) -> Devices {
    let proc = described(&[(0x10, uuids[0]), (0x20, uuids[1]), (0x05, uuids[2])]);
    Devices::new(&snapshots(&[0x10, 0x20, 0x05]), proc.path())
}

fn allowed(devices: &Devices, visible: &str, order: Option<&str>) -> Result<Vec<u32>, String> {
    let allowed = devices.allowed(&environment(Some(visible), order))?;
    Ok(allowed.expect("a list"))
}

fn in_order(visible: &str) -> Vec<u32> {
    allowed(&three(UUIDS), visible, Some(BY_BUS)).expect("known")
}

#[test]
fn without_a_list_all_gpus_are_allowed() {
    let all = three(UUIDS).allowed(&environment(None, None));
    assert_eq!(all, Ok(None));
}

#[test]
fn indices_are_positions_by_bus() {
    assert_eq!(in_order("0"), [2]);
    assert_eq!(in_order("2,0"), [1, 2]);
    assert_eq!(in_order(" 1 , 2"), [0, 1]);
}

#[test]
fn entry_that_is_no_gpu_ends_the_list() {
    assert_eq!(in_order("0,-1,1"), [2]);
    assert_eq!(in_order("1,3,0"), [0]);
    assert_eq!(in_order("1,x,0"), [0]);
    assert_eq!(in_order("1,GPU-9999,0"), [0]);
    assert_eq!(in_order("1,"), [0]);
    assert_eq!(in_order("1,99999999999999999999,0"), [0]);
    for none in ["", "-1", "none", "NoDevFiles", ",0"] {
        assert_eq!(in_order(none), [0u32; 0], "{none}");
    }
}

#[test]
fn digits_count_and_what_follows_does_not() {
    assert_eq!(in_order("1gpu,2"), [0, 1]);
}

#[test]
fn gpu_that_is_named_twice_makes_the_list_empty() {
    assert_eq!(in_order("0,1,0"), [0u32; 0]);
    let twice = format!("{},{}", UUIDS[2], &UUIDS[2][..10]);
    assert_eq!(in_order(&twice), [0u32; 0]);
}

#[test]
fn indices_in_another_order_are_refused_unless_there_is_one_gpu() {
    for order in [None, Some("FASTEST_FIRST"), Some("")] {
        let said = allowed(&three(UUIDS), "0", order).expect_err("unknown order");
        assert!(said.contains("set CUDA_DEVICE_ORDER=PCI_BUS_ID"), "{said}");
        // What names no GPU names none in any order.
        assert_eq!(allowed(&three(UUIDS), "-1", order), Ok(Vec::new()));
        let one = Devices::new(&snapshots(&[1]), Path::new("/nowhere"));
        assert_eq!(allowed(&one, "0", order), Ok(vec![0]));
        assert_eq!(allowed(&one, "1", order), Ok(Vec::new()));
    }
}

#[test]
fn uuids_may_be_cut_short_while_they_name_one_gpu() {
    assert_eq!(in_order(UUIDS[0]), [0]);
    assert_eq!(in_order("GPU-9"), [2]);
    assert_eq!(in_order("GPU-11111111-2222-3333-5"), [1]);
    assert_eq!(in_order("GPU-1"), [0u32; 0]);
    assert_eq!(in_order("GPU-9,GPU-1111,GPU-11111111-2222-3333-5"), [2]);
    // Numbers name none in a list of UUIDs.
    assert_eq!(in_order("GPU-9,1"), [2]);
    // Their order does not depend on that of indices.
    assert_eq!(allowed(&three(UUIDS), "GPU-9", None), Ok(vec![2]));
}

#[test]
fn uuid_is_refused_while_those_of_others_are_unknown_unless_it_is_whole() {
    let devices = three([UUIDS[0], UNKNOWN, UUIDS[2]]);
    assert_eq!(allowed(&devices, UUIDS[2], None), Ok(vec![2]));
    for short in ["GPU-9", UUIDS[1]] {
        let said = allowed(&devices, short, None).expect_err("cannot be known");
        assert!(said.contains("name GPUs by index"), "{said}");
    }
}

#[test]
fn part_of_a_gpu_is_refused_by_its_name() {
    for list in ["MIG-GPU-1/1/0", "0,MIG-11111111-2222"] {
        let said = allowed(&three(UUIDS), list, Some(BY_BUS)).expect_err("no part");
        assert!(said.contains("whole GPUs"), "{said}");
    }
}

#[test]
fn gpu_that_loga_does_not_manage_has_a_position_and_is_not_allowed() {
    let proc = described(&[(0x01, UUIDS[0]), (0x10, UUIDS[1]), (0x20, UUIDS[2])]);
    let devices = Devices::new(&snapshots(&[0x10, 0x20]), proc.path());
    assert_eq!(allowed(&devices, "0,2", Some(BY_BUS)), Ok(vec![1]));
    assert_eq!(allowed(&devices, UUIDS[0], None), Ok(Vec::new()));
    // The driver's descriptions are gone, that of GPU 1 not.
    fs::remove_dir_all(proc.path().join(DRIVER).join(names::pci(0, 0x1000))).expect("removed");
    let devices = Devices::new(&snapshots(&[0x10, 0x20]), proc.path());
    let told = devices.variables(&[0]);
    assert_eq!(told[1], (VISIBLE, "1".to_string()));
}

#[test]
fn gpus_that_a_program_cannot_open_have_no_position() {
    let unknown = [UNKNOWN, UUIDS[1], UUIDS[2]];
    let told = three(unknown).only(&[1, 0]).variables(&[1, 0]);
    assert_eq!(told[1], (VISIBLE, "1,0".to_string()));
    assert_eq!(
        three(unknown).only(&[1]).variables(&[1])[0],
        (VISIBLE, UUIDS[1].to_string())
    );
    assert_eq!(
        three(unknown).only(&[0]).variables(&[0])[1],
        (VISIBLE, "0".to_string())
    );
}

#[test]
fn program_is_told_uuids_if_all_are_known() {
    let told = three(UUIDS).variables(&[2, 0]);
    let uuids = format!("{},{}", UUIDS[2], UUIDS[0]);
    assert_eq!(told, [(VISIBLE, uuids), (LOGA_GPU, "2".to_string())]);
}

#[test]
fn program_is_told_positions_if_a_uuid_is_unknown() {
    let told = three([UNKNOWN, UUIDS[1], UUIDS[2]]).variables(&[1, 0]);
    let right = [
        (ORDER, BY_BUS.to_string()),
        (VISIBLE, "2,1".to_string()),
        (LOGA_GPU, "1".to_string()),
    ];
    assert_eq!(told, right);
    // The unknown one is not among those chosen.
    let told = three([UNKNOWN, UUIDS[1], UUIDS[2]]).variables(&[1]);
    assert_eq!(told[0], (VISIBLE, UUIDS[1].to_string()));
    let told = Devices::new(&snapshots(&[7]), Path::new("/nowhere")).variables(&[0]);
    assert_eq!(told[1], (VISIBLE, "0".to_string()));
}

#[test]
fn gpu_is_named_by_its_index_or_by_a_uuid_that_names_one() {
    let devices = three(UUIDS);
    let index = |text: &str| devices.index(&text.parse().expect("a name"));
    // Whether there is one is asked of the kernel module.
    assert_eq!(index("7"), Ok(7));
    assert_eq!(index(UUIDS[1]), Ok(1));
    assert_eq!(index("GPU-9"), Ok(2));
    assert_eq!(
        index("GPU-11111111"),
        Err(format!(
            "GPU-11111111: several UUIDs begin so: want one of 2 ({}), 0 ({}), 1 ({})",
            UUIDS[2], UUIDS[0], UUIDS[1]
        ))
    );
    let said = three([UUIDS[0], UNKNOWN, UUIDS[2]])
        .index(&GpuName::Uuid("GPU-7".to_string()))
        .expect_err("none");
    let line = "GPU-7: there is no GPU with this UUID: want one of ";
    assert!(said.starts_with(line), "{said}");
    assert!(
        said.ends_with(", 1 (UUID unknown until it was opened)"),
        "{said}"
    );
}

#[test]
fn names_in_a_list_become_indices() {
    let asked = cli::Asked {
        named: ["1", "GPU-9"]
            .map(|name| name.parse().expect("a name"))
            .into(),
        ..Default::default()
    };
    let resolved = three(UUIDS).resolved(&asked).expect("known");
    assert_eq!(resolved.among, [1, 2]);
    let none = cli::Asked {
        named: vec![GpuName::Uuid("GPU-7".to_string())],
        ..Default::default()
    };
    let said = three(UUIDS).resolved(&none).expect_err("none");
    assert!(
        said.starts_with("--among: GPU-7: there is no GPU"),
        "{said}"
    );
}
