//! Tests of the kind `hostname`, and of the host rules it shares.

use countersign::domain::canon::Kind;
use serde_json::json;

use super::{fault, forbidden, item, kind, named, obligations, resolved, unresolvable};

fn listing(hosts: &[&str]) -> Kind {
    kind(json!({ "kind": "hostname", "hosts": hosts }))
}

fn any_host() -> Kind {
    kind(json!({ "kind": "hostname" }))
}

#[test]
fn a_host_resolves_to_lower_case_and_its_registrable_domain() {
    assert_eq!(
        resolved(&any_host(), "API.GitHub.com"),
        json!({ "host": "api.github.com", "registrable_domain": "github.com", "is_ip": false })
    );
    assert_eq!(resolved(&any_host(), "a.b.co.uk")["registrable_domain"], "b.co.uk");
}

#[test]
fn an_international_name_and_its_a_label_are_one() {
    assert_eq!(resolved(&any_host(), "bücher.de")["host"], "xn--bcher-kva.de");
    assert_eq!(resolved(&any_host(), "xn--bcher-kva.de")["host"], "xn--bcher-kva.de");
    assert_eq!(resolved(&any_host(), "日本語.jp")["host"], "xn--wgv71a119e.jp");
    assert_eq!(resolved(&any_host(), "пример.рф")["registrable_domain"], "xn--e1afmkfd.xn--p1ai");
}

#[test]
fn the_connection_is_bound_to_the_address_looked_up() {
    assert_eq!(obligations(&any_host(), "api.github.com"), json!({ "pin_resolved_ip": true, "block_private": true }));
}

#[test]
fn only_listed_hosts_are_permitted() {
    let kind = listing(&["docs.vendor.example", "*.acme.example"]);
    assert_eq!(resolved(&kind, "docs.vendor.example")["host"], "docs.vendor.example");
    assert_eq!(resolved(&kind, "a.b.acme.example")["host"], "a.b.acme.example");
    for host in ["docs.vendor.example.evil.test", "acme.example", "evilacme.example", "vendor.example"] {
        assert_eq!(forbidden(&kind, host), "host_not_listed", "{host}");
    }
}

#[test]
fn any_public_host_is_no_local_or_special_one() {
    for kind in [any_host(), listing(&["*"])] {
        for host in [
            "intranet",
            "printer.local",
            "x.internal",
            "a.test",
            "a.example",
            "a.invalid",
            "a.onion",
            "1.0.0.127.in-addr.arpa",
            "router.lan",
            "169.254.169.254.nip.io",
            "a-10-0-0-1.sslip.io",
        ] {
            let code = forbidden(&kind, host);
            assert!(matches!(code, "host_not_public" | "host_not_listed"), "{host}: {code}");
        }
        assert_eq!(forbidden(&kind, "localhost"), "loopback_name");
        assert_eq!(forbidden(&kind, "a.LOCALHOST"), "loopback_name");
        assert_eq!(forbidden(&kind, "metadata.google.internal"), "metadata_name");
    }
}

#[test]
fn an_internal_host_can_be_listed_by_name() {
    assert_eq!(resolved(&listing(&["orders.internal", "db"]), "db")["host"], "db");
    assert_eq!(resolved(&listing(&["*.acme.internal"]), "x.acme.internal")["host"], "x.acme.internal");
}

#[test]
fn addresses_in_any_spelling_are_refused() {
    for host in ["8.8.8.8", "127.0.0.1", "[2606:4700::1111]"] {
        assert_eq!(forbidden(&any_host(), host), "ip_literal");
    }
    for host in [
        "2130706433",
        "0x7f.0.0.1",
        "0251.254.169.254",
        "127.1",
        "0x7f000001",
        "0x",
        "1.2.3.4.5",
        "[::ffff:7f00:1]",
        "[fe80::1%25eth0]",
        "[::1",
        "[0:0::1]",
        "1.2.3.08",
    ] {
        assert_eq!(unresolvable(&any_host(), host), "address_spelling", "{host}");
    }
    for host in ["１２７.0.0.1", "127.0.0.１", "①.0.0.①"] {
        let code = unresolvable(&any_host(), host);
        assert!(matches!(code, "address_spelling" | "host_form"), "{host}: {code}");
    }
}

#[test]
fn private_addresses_are_refused_even_where_addresses_are_allowed() {
    let kind = kind(json!({ "kind": "hostname", "hosts": ["*"], "allow_ips": true }));
    assert_eq!(resolved(&kind, "8.8.8.8"), json!({ "host": "8.8.8.8", "registrable_domain": "", "is_ip": true }));
    assert_eq!(resolved(&kind, "[2606:4700::1111]")["host"], "[2606:4700::1111]");
    for host in [
        "127.0.0.1",
        "10.0.0.5",
        "172.16.0.9",
        "192.168.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "0.0.0.0",
        "192.0.0.192",
        "168.63.129.16",
        "224.0.0.1",
        "255.255.255.255",
        "[::1]",
        "[::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[::ffff:10.0.0.5]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[2001:0:1::1]",
        "[2001:db8::1]",
        "[ff02::1]",
    ] {
        let refusal = super::resolve(&kind, host).expect_err("a private address");
        assert!(matches!(refusal.code(), "private_address" | "address_spelling"), "{host}: {refusal:?}");
    }
}

#[test]
fn names_that_resolvers_could_read_differently_are_refused() {
    for (host, code) in [
        ("", "empty_host"),
        ("good.example.com.", "trailing_dot"),
        ("a..example.com", "host_label"),
        (".example.com", "host_label"),
        ("-a.example.com", "host_label"),
        ("a b.example.com", "host_character"),
        ("a_b.example.com", "host_character"),
        ("a%2eexample.com", "host_character"),
        ("user@example.com", "host_character"),
        ("example.com:80", "host_character"),
        ("example.com/x", "host_character"),
        ("exa\u{ad}mple.com", "invisible_character"),
        ("example\u{200b}.com", "invisible_character"),
        ("example.com\n", "control_character"),
        ("ｅxample.com", "host_form"),
        ("example。com", "host_form"),
        ("bu\u{308}cher.de", "host_form"),
        ("straße.de", "deviation_character"),
        ("xn--a.com", "host_name"),
        ("аpi.partner.example", "mixed_script"),
        ("xn--pi-7kc.partner.example", "mixed_script"),
        ("аррӏе.com", "confusable_host"),
    ] {
        assert_eq!(unresolvable(&any_host(), host), code, "{host:?}");
    }
    assert_eq!(unresolvable(&any_host(), "a".repeat(64) + ".com"), "too_long");
    assert_eq!(unresolvable(&any_host(), json!(["a.com"])), "not_text");
}

#[test]
fn lists_that_cannot_work_are_faults() {
    let hosts = |hosts: &[&str]| fault(json!({ "kind": "hostname", "hosts": hosts }));
    assert_eq!(hosts(&[]), named("hosts"));
    for wrong in [
        "*.com",
        "*.co.uk",
        "*.github.io",
        "*.test",
        "*.localhost",
        "localhost",
        "metadata.google.internal",
        "a.*.example.com",
        "*example.com",
        "https://a.example.com",
        "a.example.com:443",
        "a.example.com/x",
        "",
        "8.8.8.8",
        "a.example.com.",
    ] {
        assert_eq!(hosts(&["a.example.com", wrong]), item("hosts", 1), "{wrong}");
    }
    assert_eq!(fault(json!({ "kind": "hostname", "hosts": ["10.0.0.1"], "allow_ips": true })), item("hosts", 0));
    assert_eq!(fault(json!({ "kind": "hostname", "hosts": [1] })), item("hosts", 0));
}
