// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Lines of spec files that are right, and what is said about others.

use super::*;
use proptest::prelude::*;

fn wrong(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

#[test]
fn lines_of_the_paper_are_read() {
    let text = "# a comment\n\nglxgears:HT:PE:20:2500:25000\n \
                exe=/usr/bin/player : prt : - : - : - : -\n@user=ann:PRT:CBS:0:10:1000\n";
    let entries = parse(text).expect("a good file");
    let [gears, player, ann] = entries.as_slice() else {
        panic!("{entries:?}");
    };
    assert_eq!(
        (gears.line, gears.selector.to_string()),
        (3, "glxgears".into())
    );
    assert_eq!(
        (gears.spec.mode, gears.spec.kind),
        (uapi::MODE_HT, uapi::RESERVE_PE)
    );
    assert_eq!((gears.spec.prio, gears.spec.commands), (20, 1));
    assert_eq!(gears.spec.capacity_ns, 2_500_000);
    assert_eq!(player.selector, Selector::Exe("/usr/bin/player".into()));
    assert_eq!(
        (player.spec.prio, player.spec.kind),
        (uapi::PRIO_BY_NICE, 0)
    );
    assert_eq!((ann.line, ann.spec.kind), (5, uapi::RESERVE_CBS));
}

#[test]
fn wrong_lines_are_refused_with_line_and_column() {
    for (text, said) in [
        (
            "a:HT:PE:20:2500",
            "1:16: want 6 columns, name:sched:resv:prio:C:T, not 5",
        ),
        (
            "a:HT:PE:20:2500:25000:1",
            "1:23: want 6 columns, name:sched:resv:prio:C:T, not 7; a name with a colon has to be in \
             double quotes",
        ),
        (
            "\na:FIFO:PE:20:2500:25000",
            "2:3: want one of PRT, HT, PROTECTED, not 'FIFO'",
        ),
        (
            "a:HT:BE:20:2500:25000",
            "1:6: want one of PE, AE, CBS, not 'BE'",
        ),
        (
            "a:HT:PE:40:2500:25000",
            "1:9: prio=40 is out of range, want 0 to 39",
        ),
        (
            "a:HT:PE:-1:2500:25000",
            "1:9: want a whole number or -, not '-1'",
        ),
        (
            "a:HT:PE:20:26000:25000",
            "1:12: capacity_us=26000 is out of range, want 10 to 25000",
        ),
        (
            "a:HT:PE:20:100:999",
            "1:16: period_us=999 is out of range, want 1000 to 10000000",
        ),
        (
            "a:HT:PE:20:-:25000",
            "1:12: want microseconds for a reserve",
        ),
        ("a:HT:-:20:-:25000", "1:13: want - without a reserve"),
        (":HT:-:20:-:-", "1:1: want the name of a program"),
        (
            "@uid=7:HT:-:20:-:-",
            "1:1: want @user= or @cgroup=, not '@uid=7'",
        ),
        (
            "exe=gears:HT:-:20:-:-",
            "1:1: want an absolute path, not 'gears'",
        ),
        (
            "a:HT:-:1:-:-\na:HT:-:2:-:-",
            "2:1: line 1 is for the same already",
        ),
        (
            "a:HT:PE:99999999999:2500:25000",
            "1:9: prio=4294967294 is out of range",
        ),
    ] {
        assert!(wrong(text).starts_with(said), "{text}: {}", wrong(text));
    }
}

#[test]
fn process_is_named_by_its_cut_name_or_its_program() {
    let process = Running {
        pid: 7,
        comm: "a-rather-long-n".into(),
        exe: Some("/usr/bin/x".into()),
    };
    let names = |line: &str| parse(line).expect(line)[0].names(&process);
    assert!(names("a-rather-long-name:HT:-:1:-:-"));
    assert!(!names("a-rather:HT:-:1:-:-"));
    assert!(names("exe=/usr/bin/x:HT:-:1:-:-"));
    assert!(!names("exe=/usr/bin/y:HT:-:1:-:-"));
    assert!(!names("@user=x:HT:-:1:-:-"));
}

#[test]
fn name_in_quotes_may_have_anything() {
    let of = |line: &str| parse(line).expect(line)[0].selector.clone();
    for (text, selector) in [
        (
            "\"VLLM::EngineCor\"",
            Selector::Comm("VLLM::EngineCor".into()),
        ),
        (
            "\"a\\nb\\x1b\\u{202e}\"",
            Selector::Comm("a\nb\u{1b}\u{202e}".into()),
        ),
        ("\"#x\"", Selector::Comm("#x".into())),
        ("\"@user=x\"", Selector::Comm("@user=x".into())),
        ("\"exe=x\"", Selector::Comm("exe=x".into())),
        ("\" x \"", Selector::Comm(" x ".into())),
        ("caf\u{e9}", Selector::Comm("caf\u{e9}".into())),
        (
            "fourteen_bytes\u{e9}",
            Selector::Comm(Name::from(&b"fourteen_bytes\xc3"[..])),
        ),
        ("a\"b\\n", Selector::Comm("a\"b\\n".into())),
        (
            "exe=\"/opt/a:b/prog\"",
            Selector::Exe("/opt/a:b/prog".into()),
        ),
        (
            "exe=/opt/a b/\"prog\"",
            Selector::Exe("/opt/a b/\"prog\"".into()),
        ),
        (
            "@cgroup=\"/a.slice:cri-containerd:1\"",
            Selector::Cgroup("/a.slice:cri-containerd:1".into()),
        ),
        (
            "@cgroup=/dev\\x2duuid.swap",
            Selector::Cgroup("/dev\\x2duuid.swap".into()),
        ),
        ("@user=\"DOM\\\\ann\"", Selector::User("DOM\\ann".into())),
        ("@user=smith, j", Selector::User("smith, j".into())),
    ] {
        for line in [
            format!("{text}:HT:-:1:-:-"),
            format!("  {text} : HT : - : 1 : - : -"),
        ] {
            assert_eq!(of(&line), selector, "{line}");
        }
    }
}

#[test]
fn wrong_quotes_are_refused_with_line_and_column() {
    for (text, said) in [
        ("\"a:HT:-:1:-:-", "1:1: want a second \""),
        ("exe=\"/a\\q\":HT:-:1:-:-", "1:8: want \\\\, "),
        ("\"a\"b:HT:-:1:-:-", "1:4: want a colon"),
        ("@user=\"\":HT:-:1:-:-", "1:1: want a name after ="),
        ("\"\":HT:-:1:-:-", "1:1: want the name of a program"),
        (
            "exe=\"a\":HT:-:1:-:-",
            "1:1: want an absolute path, not 'a'",
        ),
        (
            "\"a:b\"",
            "1:6: want 6 columns, name:sched:resv:prio:C:T, not 1",
        ),
        (
            "VLLM::EngineCor:HT:-:20:-:-",
            "1:25: want 6 columns, name:sched:resv:prio:C:T, not 8; a name with a colon has to be \
             in double quotes",
        ),
        (
            "\u{feff}a:HT:-:1:-:-",
            "1:1: want \"\\u{feff}a\" as the name",
        ),
        (
            "exe=/a\u{200b}:HT:-:1:-:-",
            "1:5: want \"/a\\u{200b}\" as the name",
        ),
        (
            "a:H\u{1b}T:-:1:-:-",
            "1:3: want one of PRT, HT, PROTECTED, not 'H\\x1bT'",
        ),
        (
            "\"a\":HT:-:1:-:-\na:HT:-:2:-:-",
            "2:1: line 1 is for the same already",
        ),
    ] {
        assert!(wrong(text).starts_with(said), "{text}: {}", wrong(text));
    }
}

proptest! {
    #[test]
    fn line_names_any_bytes_as_they_are_printed(
        bytes in proptest::collection::vec(any::<u8>(), 1..=255),
        at in 0usize..4,
    ) {
        let name = Name::from(bytes);
        let path = Name::from([b"/", name.as_bytes()].concat());
        let quoted = |name: &Name| match name.to_string() {
            text if text.starts_with('"') => text,
            text => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        };
        let cut = name.as_bytes().get(..COMM_MAX).unwrap_or(name.as_bytes());
        let (text, selector) = match at {
            0 => (quoted(&name), Selector::Comm(cut.into())),
            1 => (format!("exe={}", quoted(&path)), Selector::Exe(path)),
            2 => (format!("@user={}", quoted(&name)), Selector::User(name)),
            _ => (format!("@cgroup={}", quoted(&name)), Selector::Cgroup(name)),
        };
        let entries = parse(&format!("{text}:HT:-:1:-:-\n"));
        prop_assert_eq!(entries.map(|all| all[0].selector.clone()), Ok(selector));
    }

    #[test]
    fn any_line_is_read_or_refused_in_one_harmless_line(text in any::<String>()) {
        for text in [text.clone(), format!("{text}:HT:-:1:-:-"), format!("\"{text}:HT:-:1:-:-")] {
            if let Err(fault) = parse(&text) {
                let said = fault.to_string();
                prop_assert!(said.chars().all(names::is_plain), "{said:?}");
            }
        }
    }
}
