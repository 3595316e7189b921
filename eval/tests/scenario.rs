// SPDX-License-Identifier: GPL-2.0

//! What a scenario file may say, and what is said about one that makes no sense.

use loga::knobs::{Config, Scale};
use loga::units::Ns;
use loga_eval::scenario::{parse, read, read_streams, Kind, Profile, Scenario, Span};
use std::path::Path;

const GOOD: &str = r#"length_ms = 100
[policy]
name = "event"
[[client]]
name = "hog"
[[client.phase]]
kernel_us = 1000
[[client]]
name = "light"
count = 3
weight = 50
[[client.phase]]
kernel_us = { exponential = 200 }
launch = "queued"
depth = 4
repeat = 10
[[client.phase]]
cpu_us = 800
"#;

/// The message for the good scenario with a line replaced.
fn refused(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let text = GOOD.replacen(from, to, 1);
    parse("x.toml", &text, &[]).unwrap_err().to_string()
}

fn good(changes: &[&str]) -> Result<Scenario, String> {
    let changes: Vec<_> = changes.iter().map(|text| (*text).to_owned()).collect();
    parse("x.toml", GOOD, &changes).map_err(|error| error.to_string())
}

#[test]
fn policy_that_a_file_does_not_describe_is_that_of_the_module() {
    let text = GOOD.replacen("[policy]\nname = \"event\"\n", "", 1);
    let policy = parse("x.toml", &text, &[]).unwrap().policy;
    let module = Config::default();
    assert_eq!(policy.kind, Kind::Loga(module.policy));
    assert_eq!(
        (policy.poll_ms, policy.ratio, policy.randomize),
        (module.poll_ms, module.ratio, module.randomize)
    );
    assert_eq!(
        (policy.scale, policy.accounting, policy.poll_always),
        (module.scale, module.accounting, module.poll_always)
    );
    // A scenario shows what decisions do.
    assert!(policy.enforce);
    assert!(!module.enforce);
    let named = good(&["policy.accounting=auto", "policy.scale=channels"]);
    let named = named.unwrap().policy;
    assert_eq!(
        (named.accounting, named.scale),
        (None, Some(Scale::Channels))
    );
}

#[test]
fn good_scenario_is_read_as_it_is_written() {
    let scenario = good(&[]).unwrap();
    assert_eq!(scenario.length, Ns::from_ms(100));
    let names: Vec<_> = scenario.clients.iter().map(|one| &one.name[..]).collect();
    assert_eq!(names, ["hog", "light-0", "light-1", "light-2"]);
    let light = &scenario.clients[3];
    assert_eq!((light.channels, light.weight.get()), (12, 50));
    assert_eq!(light.phases[0].kernel, Some(Span::Exponential(200_000.0)));
    assert_eq!((light.phases[0].depth, light.phases[0].repeat), (4, 10));
    assert_eq!(light.phases[1].cpu, Span::Constant(Ns::from_us(800)));
}

/// What, instead of what, the line (and column) of the file, and what is said.
const REFUSED: &str = r#"
count = 3 | cuont = 3 | 10 | unknown field `cuont`
"event" | "event"\naccounting = "sprase" | 4:14 | unknown accounting, want one of auto, burst, sparse
"event" | "event"\nscale = "clients" | 4:9 | unknown scale, want one of auto, active, channels
count = 3 | away_ms = [20, 10] | 10:11 | away_ms ends before it begins, want [from, to]
count = 3 | limit_pct = 101 | 10:13 | limit_pct = 101 is out of range, want 1 to 100
count = 3 | fill_pct = 0 | 10:12 | fill_pct = 0 is out of range, want 1 to 100
count = 3 | bandwidth_pct = 101 | 10:17 | bandwidth_pct = 101 is out of range, want 0 to 100
[[client]] | [[gpu]]\npacked = true\n[[client]] | 4 | a packed GPU with policy event, want one of hardware, per-command
count = 3 | class = "realtime" | 10 | expected `normal` or `idle`
count = 3 | cuont = 3 | 10 | `count`
kernel_us = 1000 | kernel_us = -1 | 7:13 | negative time -1, want 0 to
cpu_us = 800 | cpu_us = -0.5 | 18 | negative time -0.5, want 0 to
length_ms = 100 | length_ms = -100 | 1 | negative time -100, want 0 to
length_ms = 100 | length_ms = 0 | 1 | want more than 0
"event" | "fifo" | 3:8 | unknown policy "fifo", want one of maxmin, event
"event" | "fifo" | 3:8 | hardware, per-command, exclusive, gvim-rr, gvim-xc, ps, las-epoch, token-bucket
[[client.phase]]\nkernel_us = 1000 |  | 5:8 | client "hog" has no phases, want
[[client.phase]]\nkernel_us = 1000 | phase = [] | 5:8 | has no phases
kernel_us = 1000 |  | 6 | want at least one of cpu_us, copy_us, kernel_us
kernel_us = 1000 | kernel_us = 0 | 5 | takes no time at all
"queued" | "async" | 14:10 | expected `synchronous` or `queued`
depth = 4 | depth = 0 | 15 | want 1 to 1000
depth = 4 |  | 12 | wants depth
launch = "queued" |  | 15 | only for launch = "queued"
weight = 50 | weight = 0 | 11 | want 1 to 10000
weight = 50 | weight = 20000 | 11 | want 1 to 10000
weight = 50 | gpu = 1 | 11 | gpu = 1 is out of range, want 0 to 0
weight = 50 | channels = 0 | 11 | want 1 to 4096
weight = 50 | channels = 2000 | 9 | allocate 6012 channels, want at most 4096
weight = 50 | arrive_ms = 5\nleave_ms = 5 | 12 | want a later time
weight = 50 | cpu = 0 | 11 | cpu without any [[cpu]], want one with slice_us
weight = 50 | cpu_weight = 0 | 11 | want 1 to 10000
[policy] | [[cpu]]\nslice_us = 0\n[policy] | 2 | slice_us = 0, want more than 0
[policy] | [policy]\ncpu_boost = 0 | 3:13 | cpu_boost = 0, want 1 to 1000
[policy] | until = "hog"\n[policy] | 2:9 | never ends
[policy] | until = "hgo"\n[policy] | 2:9 | want one of hog, light-0
[policy] | seeds = 0\n[policy] | 2:9 | seeds = 0 is out of range
[policy] | [policy]\nratio = 0 | 3:9 | want 1 to 1000
[policy] | [costs]\nread = 1\n[policy] | 3:1 | `read_us`, `scan_us`, `revoke_us`
[policy] | [policy | 2 |
"#;

/// The cells of a table, row by row; `\n` in them stands for the end of a line.
fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [String; N]> + '_ {
    table.lines().filter(|row| !row.is_empty()).map(|row| {
        let cells = row.split('|').map(|cell| cell.trim().replace("\\n", "\n"));
        let cells: Vec<_> = cells.collect();
        cells.try_into().unwrap_or_else(|_| panic!("{row}"))
    })
}

#[test]
fn what_makes_no_sense_is_refused_with_file_line_and_what_is_allowed() {
    for [from, to, place, reason] in rows(REFUSED) {
        let message = refused(&from, &to);
        let place = format!("x.toml:{place}:");
        assert!(message.starts_with(&place), "{to}: {message}");
        assert!(message.contains(&reason), "{to}: {message}");
    }
}

#[test]
fn second_client_of_a_name_is_refused() {
    let text = GOOD
        .replace("count = 3\n", "")
        .replace("\"light\"", "\"hog\"");
    let message = parse("x.toml", &text, &[]).unwrap_err().to_string();
    assert!(message.starts_with("x.toml:9:8: "), "{message}");
    assert!(message.contains("a second client \"hog\""), "{message}");
}

#[test]
fn clients_of_two_gpus_on_one_processor_are_refused() {
    let text = GOOD
        .replace(
            "[policy]",
            "[[gpu]]\n[[gpu]]\n[[cpu]]\nslice_us = 3000\n[policy]",
        )
        .replace("name = \"hog\"", "name = \"hog\"\ncpu = 0\ngpu = 1");
    let light = |cpu: &str| text.replace("weight = 50", &format!("weight = 50\n{cpu}"));
    assert!(parse("x.toml", &light(""), &[]).is_ok());
    let message = parse("x.toml", &light("cpu = 0"), &[]).unwrap_err();
    let message = message.to_string();
    assert!(
        message.contains("share a processor and have two GPUs"),
        "{message}"
    );
    let message = parse("x.toml", &light("cpu = 1"), &[]).unwrap_err();
    assert!(message.to_string().contains("want 0 to 0"), "{message}");
}

#[test]
fn copies_want_a_channel_of_their_own() {
    let text = GOOD.replace("kernel_us = 1000", "kernel_us = 1000\ncopy_us = 10");
    let text = text.replace("name = \"hog\"", "name = \"hog\"\nchannels = 1");
    let message = parse("x.toml", &text, &[]).unwrap_err().to_string();
    assert!(
        message.contains("channels = 1 is out of range, want 2 to 4096"),
        "{message}"
    );
}

#[test]
fn clients_of_a_group_want_the_same_weight() {
    let text = GOOD
        .replace("name = \"hog\"", "name = \"hog\"\ngroup = \"a\"")
        .replace("weight = 50", "weight = 50\ngroup = \"a\"");
    let message = parse("x.toml", &text, &[]).unwrap_err().to_string();
    assert!(
        message.contains("have weights 100 and 50, want the same"),
        "{message}"
    );
}

#[test]
fn changes_reach_every_part_of_the_file() {
    let scenario = good(&[
        "policy.poll_ms=2",
        "policy.name=none",
        "client.light.weight=300",
        "client.0.phase.0.kernel_us={ uniform = [1, 2] }",
        "client.*.channels=4",
        "costs.read_us=0.5",
        "seeds=7",
    ])
    .unwrap();
    assert_eq!(scenario.policy.poll_ms, 2);
    assert_eq!(scenario.policy.kind.name(), "none");
    assert_eq!(scenario.clients[1].weight.get(), 300);
    let kernel = scenario.clients[0].phases[0].kernel;
    assert_eq!(kernel, Some(Span::Uniform(1000.0, 2000.0)));
    assert!(scenario.clients.iter().all(|client| client.channels == 4));
    assert_eq!(scenario.costs.read.0, Ns::new(500));
    assert_eq!(scenario.seeds, 7);
}

/// A change, the beginning of the message, and what is said.
const BAD_CHANGES: &str = r#"
policy.pol_ms=2      | x.toml with --set policy.pol_ms=2  | unknown field `pol_ms`
policy.poll_ms       | --set policy.poll_ms:              | want key=value
client.hgo.weight=1  | --set client.hgo.weight=1:         | want one of hog, light
length_ms.x=1        | --set length_ms.x=1:               | is a value, not a table
policy.name=fifo     | x.toml with --set policy.name=fifo | unknown policy
length_ms=-1         | x.toml with --set length_ms=-1     | negative time
"#;

#[test]
fn changes_that_make_no_sense_are_named() {
    for [change, place, reason] in rows(BAD_CHANGES) {
        let message = good(&[&change]).unwrap_err();
        assert!(message.starts_with(&place), "{change}: {message}");
        assert!(message.contains(&reason), "{change}: {message}");
    }
}

#[test]
fn client_with_a_profile_has_its_phases() {
    let text = "length_ms = 1\n[[client]]\nname = \"app\"\nprofile = \"lavaMD\"\n";
    let scenario = parse("x.toml", text, &[]).unwrap();
    let profile = Profile::find("lavaMD", Path::new("")).unwrap();
    assert_eq!(scenario.clients[0].phases, profile.phases);
    assert!(scenario.clients[0].copies());
    for (old, new, reason) in [
        (
            "lavaMD",
            "lavamd",
            "x.toml:4:11: no profile \"lavamd\", want a file that ends in .toml, or one of b+tree",
        ),
        ("lavaMD", "none.toml", "none.toml: No such file"),
        (
            "\"lavaMD\"",
            "\"lavaMD\"\n[[client.phase]]\ncpu_us = 1",
            "x.toml:4:11: client \"app\" has a profile and phases",
        ),
    ] {
        let error = parse("x.toml", &text.replace(old, new), &[]).unwrap_err();
        assert!(error.to_string().starts_with(reason), "{error}");
    }
}

#[test]
fn profile_in_a_file_is_found_beside_the_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let text = "length_ms = 1\n[[client]]\nname = \"app\"\nprofile = \"own.toml\"\n";
    let own = "application = \"own\"\nwhat = \"\"\ncommand = \"\"\n[[phase]]\nkernel_us = 3\n\
        [phase.from]\nkernel_us = \"measured\"\n";
    std::fs::write(folder.path().join("x.toml"), text).unwrap();
    std::fs::write(folder.path().join("own.toml"), own).unwrap();
    let changes = ["seeds=2".to_owned()];
    let scenario = read(&folder.path().join("x.toml"), &changes).unwrap();
    assert_eq!(scenario.clients[0].phases[0].kernel.unwrap().mean(), 3000.0);
    std::fs::write(folder.path().join("own.toml"), own.replace("= 3", "= -3")).unwrap();
    let error = read(&folder.path().join("x.toml"), &changes).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("own.toml:5:13: negative time -3"),
        "{error}"
    );
}

#[test]
fn every_scenario_of_the_directory_makes_sense() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let places = std::fs::read_to_string(&path)
            .unwrap()
            .contains("[[stream]]");
        let made = match places {
            true => read_streams(&path).map(|_| ()),
            false => read(&path, &[]).map(|_| ()),
        };
        made.unwrap_or_else(|error| panic!("{error}"));
        count += 1;
    }
    assert!(count > 0);
}
