// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Requests to an API server that is a double, and callers that it must not trust.

use super::super::double::FakeApi;
use super::super::rule::{Naming, Why};
use super::*;

fn rule(gpu: u32) -> Rule {
    let naming = Naming {
        version: "v1".to_string(),
        driver: "gpu.nvidia.com".to_string(),
        prefix: "gpu-".to_string(),
    };
    Rule::new(&naming, &(Why::Waiting, ("n1".to_string(), gpu)))
}

#[test]
fn rules_are_made_listed_by_pages_and_removed() {
    let fake = FakeApi::start();
    fake.put("loga-of-someone-else", false);
    let session = fake.api().session().expect("a session");
    for gpu in 0..7 {
        session.make(&rule(gpu)).expect("made");
    }
    let listed = session.list().expect("a list");
    let names: Vec<&str> = listed
        .iter()
        .map(|rule| rule.metadata.name.as_str())
        .collect();
    let wanted: Vec<String> = (0..7).map(|gpu| format!("loga-n1-{gpu}")).collect();
    assert_eq!(names, wanted);
    assert_eq!(fake.heard().iter().filter(|one| one.0 == "list").count(), 3);
    session.remove("loga-n1-3").expect("removed");
    session.remove("loga-n1-3").expect("gone already");
    assert_eq!(session.list().expect("a list").len(), 6);
    let said = session.make(&rule(0)).expect_err("there");
    assert!(said.contains("create loga-n1-0: status 409"), "{said}");
    assert!(said.contains("already exists"), "{said}");
}

#[test]
fn server_with_a_certificate_of_another_authority_gets_no_token() {
    let fake = FakeApi::start();
    fake.authority("other-ca");
    let said = fake
        .api()
        .session()
        .expect("a session")
        .list()
        .expect_err("refused");
    assert!(said.contains("certificate"), "{said}");
    assert!(fake.heard().is_empty());
    // A name that the certificate lacks.
    fake.authority("test-ca");
    let mut api = fake.api();
    api.url = api.url.replace("127.0.0.1", "localhost");
    let said = api
        .session()
        .expect("a session")
        .list()
        .expect_err("refused");
    assert!(said.contains("certificate"), "{said}");
    assert!(fake.api().session().expect("a session").list().is_ok());
}

#[test]
fn refusals_are_told_in_one_line_with_the_words_of_the_server() {
    let fake = FakeApi::start();
    fake.token("another");
    let said = fake
        .api()
        .session()
        .expect("a session")
        .list()
        .expect_err("refused");
    assert_eq!(said, "list: status 401 Unauthorized");
    // The next session reads the token anew.
    fake.token(super::super::double::TOKEN);
    let session = fake.api().session().expect("a session");
    session.list().expect("a list");
    fake.state.lock().expect("whole").refuses = Some((403, "forbidden:\n cannot create"));
    let said = session.make(&rule(0)).expect_err("refused");
    assert_eq!(
        said,
        "create loga-n1-0: status 403 forbidden: cannot create"
    );
    assert!(session.remove("loga-n1-0").is_err());
}

#[test]
fn credentials_that_are_absent_or_wrong_are_named() {
    let fake = FakeApi::start();
    let said = |api: Api| api.session().expect_err("refused");
    let mut api = fake.api();
    api.credentials = "/no/such".into();
    assert!(said(api).starts_with("/no/such/token: "));
    fake.token("two words");
    assert!(said(fake.api()).ends_with("/token: want one token"));
    fake.token("fine\n");
    std::fs::write(fake.api().credentials.join("ca.crt"), "text").expect("written");
    assert!(said(fake.api()).ends_with("/ca.crt: no certificate in PEM form"));
}

#[test]
fn server_is_that_of_the_argument_or_of_the_pod() {
    let none = |_: &str| None;
    assert_eq!(
        url(Some("https://h:6443/"), none),
        Ok("https://h:6443".to_string())
    );
    for wrong in [
        "http://h",
        "h:6443",
        "https://",
        "https://h/api",
        "https://a@h",
        "",
    ] {
        let said = url(Some(wrong), none).expect_err(wrong);
        assert!(said.contains("want https://HOST"), "{said}");
    }
    let said = url(None, none).expect_err("no pod");
    assert!(said.contains("KUBERNETES_SERVICE_HOST"), "{said}");
    assert!(said.contains("--api"), "{said}");
    let of = |host: &'static str| {
        url(None, move |name| {
            let value = if name.ends_with("HOST") { host } else { "443" };
            Some(value.to_string())
        })
    };
    assert_eq!(of("10.96.0.1"), Ok("https://10.96.0.1:443".to_string()));
    assert_eq!(of("fd00::1"), Ok("https://[fd00::1]:443".to_string()));
}
