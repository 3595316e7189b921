// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Users and cgroups of any name, and a name service that answers, does not know, or is slow.

use super::*;
use std::time::Duration;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n#x\n";

fn directory(cgroups: Option<&Path>) -> Directory {
    Directory::of(PASSWD, cgroups)
}

#[test]
fn users_have_names_and_numbers() {
    let directory = directory(None);
    assert_eq!(directory.user_id(&"ann".into()), Ok(1000));
    assert_eq!(directory.user_id(&"77".into()), Ok(77));
    assert_eq!(directory.user(1000), "ann");
    assert_eq!(directory.user(77), "77");
}

#[test]
fn unknown_user_is_refused_with_what_would_be_right() {
    for name in ["bob", "", "-1", "4294967295"] {
        let error = directory(None).user_id(&name.into()).expect_err(name);
        assert!(error.contains("getent passwd"), "{error}");
    }
}

#[test]
fn cgroups_have_paths_and_numbers() {
    let root = tempfile::tempdir().expect("a folder");
    let inner = root.path().join("render/night");
    fs::create_dir_all(&inner).expect("a folder");
    let id = fs::metadata(&inner).expect("a folder").ino();
    let directory = directory(Some(root.path()));
    assert_eq!(directory.cgroup_id(&"/render/night".into()), Ok(id));
    assert_eq!(directory.cgroup_id(&"render/night".into()), Ok(id));
    assert_eq!(directory.cgroup_id(&inner.as_path().into()), Ok(id));
    assert_eq!(directory.cgroup_id(&"4711".into()), Ok(4711));
    assert_eq!(directory.cgroup_paths()[&id], "/render/night");
}

#[test]
fn cgroups_of_users_hide_no_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = |path: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(&path).expect("a folder");
        fs::metadata(path).expect("a folder").ino()
    };
    let mut wanted = BTreeSet::new();
    for at in 0..20 {
        make(&format!("user.slice/user-7.slice/{at}/a/b"));
        wanted.insert(make(&format!("system.slice/{at}.service")));
        wanted.insert(make(&format!("z.slice/{at}")));
    }
    // The root, three slices, and the services; those of the user are three times as many.
    let found = search(folder.path(), 1 + 3 + 40, Some(&wanted));
    assert_eq!(found.paths.len(), wanted.len());
    assert!(!found.cut);
    assert!(found
        .paths
        .values()
        .any(|path| *path == "/system.slice/7.service"));
    wanted.insert(u64::MAX);
    assert!(search(folder.path(), 50, Some(&wanted)).cut);
    let whole = search(folder.path(), 1000, Some(&wanted));
    assert!(!whole.cut);
    assert!(whole.paths.len() == wanted.len() - 1);
    assert_eq!(
        search(folder.path(), 1000, None).paths.len(),
        1 + 3 + 40 + 61
    );
}

#[test]
fn unknown_cgroup_is_refused_with_one_that_exists() {
    let root = tempfile::tempdir().expect("a folder");
    fs::create_dir(root.path().join("render")).expect("a folder");
    let known = directory(Some(root.path()));
    let error = known.cgroup_id(&"nowhere".into()).expect_err("unknown");
    assert!(error.ends_with("such as /render"), "{error}");
    let error = directory(None)
        .cgroup_id(&"render".into())
        .expect_err("no mount");
    assert!(error.contains("no cgroup v2 hierarchy"), "{error}");
}

#[test]
fn mount_point_is_found_among_others() {
    let mounts = b"proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
    assert_eq!(mount(mounts), Some(PathBuf::from("/sys/fs/cgroup")));
    assert_eq!(mount(b"proc /proc proc rw 0 0\n"), None);
}

#[test]
fn cgroup_of_a_process_is_below_the_mount_point() {
    let mounts = b"cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
    let of = |text: &str| own_cgroup(mounts, text.as_bytes());
    let found = of("1:net_cls:/\n0::/user.slice/a b\n");
    assert_eq!(found, Ok("/sys/fs/cgroup/user.slice/a b".into()));
    assert_eq!(of("0::/\n"), Ok("/sys/fs/cgroup/".into()));
    assert!(of("0::/../other\n").is_err());
    assert!(of("1:cpu:/\n").is_err());
    assert!(own_cgroup(b"", b"0::/\n").is_err());
}

/// TIMEOUT: ends a test that hangs; a program that answers does so before, however busy the machine is.
const ANSWERS: Duration = Duration::from_secs(300);
/// For a program that never answers.
const SILENT: Duration = Duration::from_millis(500);

/// A program that answers for the name service, and notes each question.
fn service(folder: &Path, script: &str) -> PathBuf {
    let (text_of, path) = (folder.join("text"), folder.join("getent"));
    let noted = folder.join("asked");
    let text = format!(
        "#!/bin/sh\necho \"$*\" >> '{}'\n{script}\n",
        noted.display()
    );
    fs::write(&text_of, text).expect("a file");
    // By another process: one of a test beside this one would inherit the open file, and a file that
    // is open for writing cannot be run.
    let install = std::process::Command::new("install")
        .args(["-m", "755"])
        .args([&text_of, &path])
        .status();
    assert!(install.expect("install").success());
    path
}

fn asked(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("asked")).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

const LDAP: &str = "case \"$3\" in
alice|4242) echo 'alice:*:4242:100::/home/alice:/bin/sh';;
'smith, j'|4243) echo 'smith, j:*:4243:100:::';;
'DOM\\eve'|4244) printf '%s\n' 'DOM\\eve:*:4244:100:::';;
77) echo '77:*:78:100:::';;
*) exit 2;;
esac";

#[test]
fn users_of_a_directory_in_the_network_have_names_both_ways() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = directory(None).asking(&service(folder.path(), LDAP), ANSWERS);
    for (uid, name) in [(4242, "alice"), (4243, "smith, j"), (4244, "DOM\\eve")] {
        assert_eq!(directory.user_id(&name.into()), Ok(uid));
        assert_eq!(directory.user(uid), name);
    }
    // A user whose name is another one's number.
    assert_eq!(directory.user(77), "77");
    assert_eq!(directory.user(5000), "5000");
    assert_eq!(directory.user(1000), "ann");
    assert!(directory.user_id(&"bob\0".into()).is_err());
    let before = asked(folder.path());
    assert!(
        !before.contains(&"passwd -- 1000".to_string()),
        "{before:?}"
    );
    // Each number is asked once.
    for uid in [4242, 5000, 77, 4242] {
        directory.user(uid);
    }
    assert_eq!(asked(folder.path()), before);
}

#[test]
fn user_that_was_named_once_stays_while_the_name_service_is_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let gone = folder.path().join("gone");
    let script = format!("[ ! -e {} ] || exec sleep 1000\n{LDAP}", gone.display());
    let directory = directory(None).asking(&service(folder.path(), &script), ANSWERS);
    let (alice, eve) = ("alice".into(), "DOM\\eve".into());
    assert_eq!(directory.user_id(&alice), Ok(4242));
    assert!(directory.user_id(&"nobody-yet".into()).is_err());
    fs::write(&gone, "").expect("a file");
    let directory = directory.again().within(SILENT);
    assert!(directory.user_id(&eve).is_err());
    assert!(!directory.answers());
    assert_eq!(directory.user_id(&alice), Ok(4242));
    fs::remove_file(&gone).expect("back");
    // It was silent: it is asked again with the next reading.
    assert!(directory.user_id(&eve).is_err());
    let directory = directory.again().within(ANSWERS);
    assert_eq!(directory.user_id(&eve), Ok(4244));
    // And asked once for each.
    let before = asked(folder.path());
    assert_eq!(
        (directory.user_id(&alice), directory.user_id(&eve)),
        (Ok(4242), Ok(4244))
    );
    assert_eq!(asked(folder.path()), before);
}

#[test]
fn name_service_that_does_not_answer_is_asked_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let silent = service(folder.path(), "exec sleep 1000");
    let directory = directory(None).asking(&silent, SILENT);
    assert!(directory.answers());
    for uid in 4242..4300 {
        assert_eq!(directory.user(uid), uid.to_string().as_str());
    }
    assert!(!directory.answers());
    // One that got no processor has not noted that it was asked.
    assert!(asked(folder.path()).len() <= 1);
    let without = directory.asking(Path::new("/nonexistent/getent"), ANSWERS);
    assert_eq!(without.user(4242), "4242");
    assert!(without.answers());
}

/// Cgroups that exist as they are named, and what is printed.
const CGROUPS: [(&[u8], &str); 7] = [
    (b"a\x1b[2J b", "\"/a\\x1b[2J b\""),
    (b"cri-containerd:1", "/cri-containerd:1"),
    (b"dev-disk\\x2duuid.swap", "/dev-disk\\x2duuid.swap"),
    (b"caf\xe9", "\"/caf\\xe9\""),
    (b"\xe2\x80\xaecod", "\"/\\u{202e}cod\""),
    (b"\"q\"", "/\"q\""),
    (&[b'x'; 255], ""),
];

#[test]
fn cgroup_of_any_name_is_found_as_it_is_and_as_it_is_printed() {
    let root = tempfile::tempdir().expect("a folder");
    let directory = directory(Some(root.path()));
    for (name, printed) in CGROUPS {
        let path = root.path().join(OsStr::from_bytes(name));
        fs::create_dir(&path).expect("a folder");
        let id = fs::metadata(&path).expect("a folder").ino();
        let below = Name::from([b"/", name].concat());
        assert_eq!(directory.cgroup_id(&below), Ok(id));
        assert_eq!(directory.named_cgroup(&below), Ok((id, below.clone())));
        assert_eq!(directory.cgroup_paths()[&id], below);
        if !printed.is_empty() {
            assert_eq!(below.to_string(), printed);
        }
        let quoted = below.to_string().into();
        assert_eq!(directory.named_cgroup(&quoted), Ok((id, below)));
    }
    // One whose name is the printed form of another one goes before that.
    let quoted = Name::from("\"/caf\\xe9\"");
    let path = root.path().join("\"/caf\\xe9\"");
    fs::create_dir_all(&path).expect("folders");
    let id = fs::metadata(&path).expect("a folder").ino();
    assert_eq!(directory.named_cgroup(&quoted), Ok((id, quoted)));
    let said = directory
        .named_cgroup(&Name::from("a\u{1b}b"))
        .expect_err("none");
    assert!(
        said.starts_with("there is no cgroup '\"a\\x1bb\"': "),
        "{said}"
    );
}

#[test]
fn cgroup_is_gone_only_if_all_were_looked_at() {
    let root = tempfile::tempdir().expect("a folder");
    let wanted = BTreeSet::from([u64::MAX, 0]);
    let found = directory(Some(root.path())).cgroup_paths_of(&wanted);
    assert!(found.is_gone(u64::MAX));
    assert!(!found.is_gone(0));
    assert!(!directory(None).cgroup_paths_of(&wanted).is_gone(u64::MAX));
    fs::create_dir_all(root.path().join("d/".repeat(40))).expect("folders");
    let found = directory(Some(root.path())).cgroup_paths_of(&wanted);
    assert!(!found.cut);
    assert!(!found.is_gone(u64::MAX));
}

#[test]
fn mount_point_may_have_spaces() {
    let mounts = b"cgroup2 /mnt/a\\040b\\134c cgroup2 rw 0 0\n";
    assert_eq!(mount(mounts), Some(PathBuf::from("/mnt/a b\\c")));
}
