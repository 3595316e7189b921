// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Names that others have chosen, and numbers of rows that others decide on.

use super::{kernel, read, sampler};
use crate::directory::Directory;
use crate::export::board::Boards;
use crate::export::owner::Owners;
use crate::export::sampler::Sampler;
use crate::fake::FakeKernel;
use loga::uapi;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[test]
fn hostile_names_stay_inside_their_labels() {
    let root = tempfile::tempdir().expect("a folder");
    let name = "a\"b\\c\nloga_up 7\n{x=\"y\"}";
    let deep = root
        .path()
        .join(name)
        .join("d".repeat(250))
        .join("e".repeat(250))
        .join("f".repeat(250));
    fs::create_dir_all(&deep).expect("folders");
    let fake = kernel();
    let mut wanted = Vec::new();
    for path in [root.path().join(name), deep] {
        let id = fs::metadata(&path).expect("a folder").ino();
        fake.add_total(0, uapi::SUBJECT_CGROUP, id, 1);
        wanted.push(id.to_string());
    }
    fake.gpus.borrow_mut()[0].clients[0].comm = *b"x\"} 1\nloga_up 8\\";
    let mounted = root.path().to_path_buf();
    let owners = Owners::new(move || Directory::of("e\\v\"il\u{1b}:x:1000:", Some(&mounted)));
    let mut sampler = Sampler::new(Boards::below(Path::new("/nonexistent")), owners, Some(4));
    let page = read(&mut sampler, &fake);
    assert_eq!(page.value("loga_up", &[]), 1.0);
    let time = |id: &str| {
        let mut found = page.values.keys().filter(|(name, labels)| {
            name == "loga_gpu_time_seconds_total"
                && labels.get("cgroup_id").is_some_and(|one| one == id)
        });
        found.next().expect("a row").1["cgroup"].clone()
    };
    assert_eq!(time(&wanted[0]), r#""/a\"b\\c\nloga_up 7\n{x=\"y\"}""#);
    let long = time(&wanted[1]);
    assert!(long.len() <= 512, "{long}");
    assert!(long.ends_with("ff\""), "{long}");
    assert!(long.contains("..."), "{long}");
    page.value("loga_weight", &[("user", r#""e\\v\"il\x1b""#)]);
    page.value(
        "loga_process_busy_ratio",
        &[("comm", r#""x\"} 1\nloga_up 8\\""#), ("window", "2s")],
    );
}

#[test]
fn value_of_ten_kilobytes_is_cut() {
    let name = "n".repeat(10_000);
    let owners = Owners::new(move || Directory::of(&format!("{name}:x:1000:"), None));
    let mut sampler = Sampler::new(Boards::below(Path::new("/nonexistent")), owners, None);
    let page = read(&mut sampler, &kernel());
    let longest = page
        .values
        .keys()
        .flat_map(|(_, labels)| labels.values().map(String::len))
        .max();
    assert_eq!(longest, Some(511));
}

#[test]
fn thousand_clients_have_as_many_rows_as_a_few_do() {
    let fake = kernel();
    for id in 0..1000 {
        fake.add_client(0, 1000 + id, 1000);
        let client = fake.gpus.borrow_mut()[0].clients.last_mut().map(|client| {
            client.busy_30s_ppm = 1000;
            client.waited_2s_ppm = 100;
        });
        assert!(client.is_some());
        fake.add_total(0, uapi::SUBJECT_CGROUP, 5000 + id, 1);
        fake.add_total(0, uapi::SUBJECT_USER, 5000 + id, 1);
        fake.add_total(0, uapi::SUBJECT_USER, 9000 + id, 1);
    }
    let page = read(&mut sampler(Some(32)), &fake);
    assert_eq!(page.value("loga_gpu_clients", &[]), 1001.0);
    let rows = |wanted: &str| {
        page.values
            .keys()
            .filter(|(name, _)| name == wanted)
            .count()
    };
    // Two windows of the 32 that used most, and of the 969 others.
    assert_eq!(rows("loga_process_busy_ratio"), 66);
    let others = page.value(
        "loga_process_busy_ratio",
        &[("pid", "other"), ("window", "30s")],
    );
    assert_eq!(others, 0.969);
    // At most 1024 users, and a thousand and one cgroups.
    assert_eq!(rows("loga_gpu_time_seconds_total"), 1024 + 1001);
    assert_eq!(
        page.value("loga_gpu_waited_ratio", &[("window", "2s")]),
        0.25 + 0.1
    );
}

#[test]
fn totals_without_a_number_of_their_own_are_one_row() {
    let fake = kernel();
    for _ in 0..2 {
        fake.add_total(0, uapi::SUBJECT_CGROUP, 0, 1_000_000_000);
        fake.add_total(0, uapi::SUBJECT_USER, 3, 1_500_000_000);
        let mut gpus = fake.gpus.borrow_mut();
        gpus[0].totals.last_mut().expect("a total").1.flags = uapi::TOTAL_OTHERS;
    }
    let page = read(&mut sampler(None), &fake);
    let time = |labels: &[(&str, &str)]| page.value("loga_gpu_time_seconds_total", labels);
    assert_eq!(time(&[("cgroup_id", "0")]), 2.0);
    assert_eq!(time(&[("user", "other")]), 3.0);
}

#[test]
fn cgroup_that_is_gone_keeps_its_name() {
    let root = tempfile::tempdir().expect("a folder");
    let path = root.path().join("system.slice/render.service");
    fs::create_dir_all(&path).expect("a folder");
    let id = fs::metadata(&path).expect("a folder").ino();
    let fake = kernel();
    fake.add_total(0, uapi::SUBJECT_CGROUP, id, 1);
    let mounted = root.path().to_path_buf();
    let owners = Owners::new(move || Directory::of("", Some(&mounted)));
    let mut sampler = Sampler::new(Boards::below(Path::new("/nonexistent")), owners, None);
    let labels = [
        ("cgroup", "/system.slice/render.service"),
        ("unit", "render.service"),
    ];
    read(&mut sampler, &fake).value("loga_gpu_time_seconds_total", &labels);
    fs::remove_dir(&path).expect("removed");
    fake.add_total(0, uapi::SUBJECT_CGROUP, id + 1000, 1);
    read(&mut sampler, &fake).value("loga_gpu_time_seconds_total", &labels);
}

#[test]
fn servers_of_mps_are_counted_by_gpu() {
    let fake = kernel();
    let servers =
        |fake: &FakeKernel| read(&mut sampler(None), fake).value("loga_gpu_mps_servers", &[]);
    assert_eq!(servers(&fake), 0.0);
    {
        let client = &mut fake.gpus.borrow_mut()[0].clients[0];
        // Of another namespace: what it runs cannot be read.
        client.pid = 0;
        crate::mps::tests::command(client, "nvidia-cuda-mps-server");
    }
    assert_eq!(servers(&fake), 1.0);
}
