//! Tests of the kind `text`.

use std::time::{Duration, Instant};

use countersign::domain::canon::Kind;
use serde_json::{Value, json};

use super::{kind, resolved, unresolvable};

fn text() -> Kind {
    kind(json!({ "kind": "text" }))
}

fn hosts(value: &str) -> Value {
    resolved(&text(), value)["hosts"].clone()
}

fn addresses(value: &str) -> Value {
    resolved(&text(), value)["addresses"].clone()
}

fn findings(value: &str) -> Value {
    resolved(&text(), value)["findings"].clone()
}

#[test]
fn a_plain_text_holds_nothing() {
    for value in [
        "",
        "Hello, see you at 10.30 on 3.4.2024, i.e. tomorrow. Cost: 3.14 (v1.2.3.4)",
        "a/b.c d...e",
        "@ana: hi",
        "C:\\dir\\x",
    ] {
        assert_eq!(resolved(&text(), value), json!({ "hosts": [], "addresses": [], "findings": [] }), "{value}");
    }
}

#[test]
fn a_host_of_dots_alone_is_named_as_it_is_written() {
    for host in ["%2e", "%2e%2e", "\u{ff0e}", "\u{3002}"] {
        assert_eq!(hosts(&format!("see https://{host}/x")), json!([host]));
    }
}

#[test]
fn hosts_of_links_with_a_scheme_are_found() {
    assert_eq!(
        hosts("see https://Evil.test/x?u=http://other.example, or (ftp://files.example)."),
        json!(["evil.test", "files.example", "other.example"])
    );
    assert_eq!(hosts("[x](https://a.example/b),evil.com"), json!(["a.example", "evil.com"]));
    assert_eq!(hosts("app://intranet/x"), json!(["intranet"]));
    assert_eq!(hosts("<a href='https://user:pass@evil.test:8080/'>good.com</a>"), json!(["evil.test", "good.com"]));
}

#[test]
fn links_are_read_as_a_browser_would() {
    for value in [
        "https:evil.test/x",
        "HTTPS:/\\evil.test",
        "https:\\\\evil.test\\x",
        "https://good.example@evil.test",
        "https://evil.test.",
        "https://evil%2etest",
        "https://ev\u{ad}il.test",
        "https://evil\u{200b}.test",
        "https://ｅｖｉｌ．test",
        "https://evil。test",
        "ｈttps://evil.test",
        "https&colon;//evil&period;test/",
        "&#104;ttps://evil&#x2e;test",
        "https&#58;//evil&#46test",
    ] {
        let hosts = hosts(value);
        assert!(hosts.as_array().expect("a list").contains(&json!("evil.test")), "{value}: {hosts}");
    }
    assert_eq!(hosts("http://2130706433/ http://[::1]:80/ http://0x7f.1"), json!(["127.0.0.1", "[::1]"]));
    assert_eq!(hosts("https://bücher.de"), json!(["xn--bcher-kva.de"]));
}

#[test]
fn a_host_no_standard_reads_does_not_vanish() {
    assert_eq!(hosts("https://ev^il/x"), json!(["ev^il"]));
    assert_eq!(hosts(&format!("https://{}/", "a".repeat(1000))).as_array().map(Vec::len), Some(1));
}

#[test]
fn hosts_without_a_scheme_are_found() {
    assert_eq!(
        hosts("go to www.secure-systems-252.com/login or evil.co.uk, or //cdn.local.x/y"),
        json!(["cdn.local.x", "evil.co.uk", "www.secure-systems-252.com"])
    );
    assert_eq!(
        hosts("(evil.com) \"evil.net\" evil.org: **evil.io**"),
        json!(["evil.com", "evil.io", "evil.net", "evil.org"])
    );
    assert_eq!(hosts("10.0.0.1/x and 10.0.0.2:80 but 1.2.3.4"), json!(["10.0.0.1", "10.0.0.2"]));
    assert_eq!(hosts("www.intranet"), json!(["www.intranet"]));
    assert_eq!(hosts("example。com"), json!(["example.com"]));
}

#[test]
fn the_path_of_a_link_is_no_host() {
    assert_eq!(hosts("https://a.example/readme.md?x=b.com"), json!(["a.example"]));
    assert_eq!(hosts("https://a.example/readme.md b.com"), json!(["a.example", "b.com"]));
}

#[test]
fn addresses_are_found_and_are_no_links() {
    let value = resolved(&text(), "Write to Ana.Lee@Acme.com, <x+y@evil.test>; mailto:z@bücher.de!");
    assert_eq!(value["addresses"], json!(["ana.lee@acme.com", "x+y@evil.test", "z@xn--bcher-kva.de"]));
    assert_eq!(value["hosts"], json!([]));
    assert_eq!(addresses("x\u{200b}@evil.test"), json!(["x@evil.test"]));
    assert_eq!(addresses("x&#64;evil&#46;test"), json!(["x@evil.test"]));
    assert!(addresses("?to=x@evil.test").as_array().expect("a list").contains(&json!("x@evil.test")));
    assert_eq!(addresses("a@b user@localhost @x.com"), json!([]));
    assert_eq!(hosts("@x.com"), json!(["x.com"]));
}

#[test]
fn card_numbers_are_found() {
    for value in [
        "4111111111111111",
        "card: 4111 1111 1111 1111, thanks",
        "5500-0000-0000-0004",
        "378282246310005",
        "no 12 4111 1111 1111 1111",
        "４１１１１１１１１１１１１１１１",
    ] {
        assert_eq!(findings(value), json!(["card"]), "{value}");
    }
    for value in [
        "4111111111111112",
        "1111111111111111",
        "41111111111111110000000",
        "4111  1111 1111 1111",
        "1700000000000",
        "+49 170 1234567",
        "x4111111111111111",
    ] {
        assert_eq!(findings(value), json!([]), "{value}");
    }
}

#[test]
fn account_numbers_are_found() {
    for value in [
        "DE89370400440532013000",
        "to gb29 nwbk 6016 1331 9268 19.",
        "FR14-2004-1010-0505-0001-3M02-606",
        "NO9386011117947",
    ] {
        assert_eq!(findings(value), json!(["iban"]), "{value}");
    }
    for value in [
        "DE89370400440532013001",
        "DE8937040044053201300",
        "DE893704004405320130001",
        "XX89370400440532013000",
        "DE",
        "de luxe edition of the book",
    ] {
        assert_eq!(findings(value), json!([]), "{value}");
    }
}

#[test]
fn private_keys_are_found() {
    for label in
        ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
    {
        assert_eq!(findings(&format!("x\n-----BEGIN {label}-----\nMII")), json!(["private_key"]), "{label}");
    }
    assert_eq!(findings("-----BEGIN PUBLIC KEY----- and a PRIVATE KEY"), json!([]));
}

#[test]
fn keys_of_known_issuers_are_found() {
    for (prefix, length) in
        [("AKIA", 16), ("ghp_", 36), ("xoxb-", 30), ("sk_live_", 24), ("sk-proj-", 40), ("AIza", 35), ("glpat-", 20)]
    {
        let key = format!("{prefix}{}", "A1B2".repeat(20).get(..length).expect("ASCII"));
        assert_eq!(findings(&format!("key={key}.")), json!(["api_key"]), "{key}");
        assert_eq!(findings(&format!("x{key}")), json!([]), "{key}");
    }
    assert_eq!(findings("sk-learn-and-other-hyphenated-words-that-go-on-and-on, AKIA"), json!([]));
}

#[test]
fn nul_and_other_types_are_refused() {
    assert_eq!(unresolvable(&text(), "a\0b"), "control_character");
    assert_eq!(unresolvable(&text(), json!(["a"])), "not_text");
    assert_eq!(unresolvable(&text(), json!(1)), "not_text");
}

/// A quadratic search would take minutes here; the bound is loose because other tests run beside this one.
#[test]
fn the_largest_text_takes_no_time_to_speak_of() {
    let kind = text();
    for piece in [
        "a",
        "a.",
        "a.com ",
        "http:",
        "http://",
        "http://a",
        "https:////",
        "://",
        "@",
        "a@",
        "a@b.c",
        ".@.",
        "4",
        "4111 ",
        "DE89 ",
        "DE893704",
        "&#",
        "&amp;",
        "&#46;",
        "-----BEGIN ",
        "PRIVATE KEY-----BEGIN ",
        "sk-",
        "é",
        "e\u{301}",
        "\u{301}",
        "\u{fdfa}",
        "\u{200b}",
        "。",
        "[",
        "http://[",
        "..",
        "a..",
        "日本.",
        "xn--a.",
        "\\/",
        "ghp_A1",
    ] {
        let value = Value::String(piece.repeat(256 * 1024 / piece.len()));
        let begun = Instant::now();
        resolved(&kind, value);
        let taken = begun.elapsed();
        println!("256 KiB of {piece:?}: {taken:?}");
        assert!(taken < Duration::from_secs(20), "{piece:?}: {taken:?}");
    }
}
