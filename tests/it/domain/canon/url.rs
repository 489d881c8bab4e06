//! Tests of the kind `url`.

use countersign::domain::canon::Kind;
use serde_json::{Value, json};

use super::{fault, forbidden, item, kind, named, obligations, resolved, unresolvable};

fn partner() -> Kind {
    kind(json!({ "kind": "url", "hosts": ["api.partner.example", "docs.vendor.example"] }))
}

fn any_url() -> Kind {
    kind(json!({ "kind": "url" }))
}

#[test]
fn an_address_is_taken_apart() {
    assert_eq!(
        resolved(&partner(), "HTTPS://API.Partner.example/v1/items;x=1?q=a%20b&r#top"),
        json!({
            "scheme": "https", "host": "api.partner.example", "port": 443, "path": "/v1/items;x=1", "query": "q=a%20b&r",
            "fragment": "top", "registrable_domain": "partner.example", "is_ip": false,
        })
    );
}

#[test]
fn absent_parts_are_empty() {
    let value = resolved(&partner(), "https://api.partner.example");
    assert_eq!((&value["path"], &value["query"], &value["fragment"]), (&json!("/"), &json!(""), &json!("")));
}

#[test]
fn letters_beyond_ascii_are_encoded_as_the_standard_does() {
    assert_eq!(resolved(&any_url(), "https://ja.wikipedia.org/wiki/日本")["path"], "/wiki/%E6%97%A5%E6%9C%AC");
}

#[test]
fn the_executor_must_not_be_led_elsewhere() {
    assert_eq!(
        obligations(&partner(), "https://api.partner.example/"),
        json!({ "max_redirects": 0, "pin_resolved_ip": true, "block_private": true })
    );
}

#[test]
fn another_host_is_forbidden_however_it_is_dressed_up() {
    for url in [
        "https://docs.vendor.example.evil.test/",
        "https://evil.test/docs.vendor.example",
        "https://evil.test?docs.vendor.example",
    ] {
        assert_eq!(forbidden(&partner(), url), "host_not_listed", "{url}");
    }
    for url in [
        "https://docs.vendor.example@evil.test/",
        "http://api.partner.example:443@10.0.0.9:8080/",
        "https://@api.partner.example/",
        "https://a:b@api.partner.example/",
    ] {
        assert_eq!(unresolvable(&partner(), url), "userinfo", "{url}");
    }
}

#[test]
fn schemes_are_those_listed() {
    assert_eq!(forbidden(&partner(), "http://api.partner.example/"), "scheme_not_listed");
    assert_eq!(forbidden(&partner(), "gopher://x:25/"), "scheme_not_listed");
    assert_eq!(forbidden(&partner(), "file:///etc/passwd"), "scheme_not_listed");
    assert_eq!(unresolvable(&partner(), "javascript:alert(1)"), "no_scheme");
    assert_eq!(unresolvable(&partner(), "//api.partner.example/"), "no_scheme");
    assert_eq!(unresolvable(&partner(), "api.partner.example"), "no_scheme");
    let kind = kind(json!({ "kind": "url", "schemes": ["http"], "hosts": ["a.example"] }));
    assert_eq!(resolved(&kind, "http://a.example/")["port"], 80);
}

#[test]
fn a_default_scheme_completes_an_address_without_one() {
    let kind = kind(json!({ "kind": "url", "hosts": ["a.example"], "default_scheme": "https", "ports": [8443] }));
    assert_eq!(resolved(&kind, "a.example/x?u=http://b")["path"], "/x");
    assert_eq!(resolved(&kind, "a.example:8443/x")["port"], 8443);
    assert_eq!(unresolvable(&kind, "//a.example/x"), "empty_host");
    assert_eq!(unresolvable(&kind, "javascript:alert(1)"), "port");
    assert_eq!(forbidden(&kind, "b.example/https://a.example/"), "host_not_listed");
}

#[test]
fn ports_are_the_default_or_listed() {
    let kind = kind(json!({ "kind": "url", "hosts": ["a.example"], "ports": [8443] }));
    assert_eq!(resolved(&kind, "https://a.example:443/")["port"], 443);
    assert_eq!(resolved(&kind, "https://a.example:8443/")["port"], 8443);
    assert_eq!(forbidden(&kind, "https://a.example:80/"), "port_not_listed");
    for url in [
        "https://a.example:/",
        "https://a.example:0443/",
        "https://a.example:0/",
        "https://a.example:65979/",
        "https://a.example:+443/",
        "https://a.example:44３/",
        "https://[::1]x:1/",
    ] {
        let code = unresolvable(&kind, url);
        assert!(matches!(code, "port" | "address_spelling"), "{url}: {code}");
    }
}

#[test]
fn spellings_that_parsers_repair_are_refused() {
    for (url, code) in [
        ("", "empty"),
        (" https://api.partner.example/", "white_space"),
        ("https://api.partner.example/a b", "white_space"),
        ("https://api.partner.example/\u{a0}", "white_space"),
        ("https://api.part\tner.example/", "control_character"),
        ("https:\\\\api.partner.example\\", "backslash"),
        ("https://api.partner.example\\@evil.test/", "backslash"),
        ("https:/api.partner.example/", "no_scheme"),
        ("https:api.partner.example/", "no_scheme"),
        ("https:///api.partner.example/", "empty_host"),
        ("https://api%2epartner.example/", "host_character"),
        ("https://api.partner.example./", "trailing_dot"),
        ("https://api.partner。example/", "host_form"),
        ("https://\u{0430}pi.partner.example/", "mixed_script"),
        ("https://api.partner.example/<x>", "url_character"),
        ("https://api.partner.example/\u{202e}", "invisible_character"),
    ] {
        assert_eq!(unresolvable(&partner(), url), code, "{url:?}");
    }
}

#[test]
fn paths_that_servers_read_differently_are_refused() {
    for (path, code) in [
        ("a/../b", "dot_segment"),
        ("./a", "dot_segment"),
        ("a/..;x=1/b", "dot_segment"),
        ("a/%2e%2e/b", "encoded_unreserved"),
        ("%61dmin", "encoded_unreserved"),
        ("a%2Fb", "encoded_separator"),
        ("a%5cb", "encoded_separator"),
        ("a%0d%0ab", "encoded_control"),
        ("a%00", "encoded_control"),
        ("a%252e", "double_encoding"),
        ("a%c0%ae", "encoded_bytes"),
        ("a%zz", "percent_sign"),
        ("a%2", "percent_sign"),
        ("a?q=100%", "percent_sign"),
        ("a?q=%00", "encoded_control"),
    ] {
        assert_eq!(unresolvable(&partner(), format!("https://api.partner.example/{path}")), code, "{path}");
    }
}

#[test]
fn ordinary_addresses_are_taken() {
    for url in [
        "https://api.partner.example/repos/a/b/issues?state=open&labels=x|y&page=2",
        "https://api.partner.example/a/100%25/b",
        "https://api.partner.example/a//b/",
        "https://api.partner.example/~user/(x)/@me/a+b/a,b",
        "https://api.partner.example/?redirect=https%3A%2F%2Fx.example%2F&t=a%0Ab",
        "https://api.partner.example/?u=https://x@y.example/..",
        "https://api.partner.example?x#y?z",
    ] {
        assert_eq!(resolved(&partner(), url)["host"], "api.partner.example", "{url}");
    }
}

#[test]
fn addresses_of_machines_follow_the_host_rules() {
    for url in [
        "https://2130706433/",
        "https://0x7f.0.0.1/",
        "https://0251.254.169.254/",
        "https://[::ffff:169.254.169.254]/latest/",
    ] {
        let refusal = super::resolve(&any_url(), url).expect_err(url);
        assert!(matches!(refusal.code(), "address_spelling" | "ip_literal"), "{url}: {refusal:?}");
    }
    let kind = kind(json!({ "kind": "url", "hosts": ["*"], "allow_ips": true }));
    assert_eq!(resolved(&kind, "https://[2606:4700::1111]:443/")["host"], "[2606:4700::1111]");
    assert_eq!(resolved(&kind, "https://8.8.8.8/")["is_ip"], true);
    assert_eq!(forbidden(&kind, "https://169.254.169.254/latest/"), "private_address");
    assert_eq!(forbidden(&kind, "https://[64:ff9b::a9fe:a9fe]/"), "private_address");
}

#[test]
fn whole_addresses_are_compared_segment_by_segment() {
    let kind = kind(json!({
        "kind": "url",
        "urls": ["https://host.example/prefix/*", "https://host.example/deep/**?*", "https://host.example/one?a=b", "https://other.example"],
    }));
    for url in [
        "https://host.example/prefix/a",
        "https://host.example/deep/a/b?x=y",
        "https://host.example/one?a=b",
        "https://other.example/",
    ] {
        resolved(&kind, url);
    }
    for url in [
        "https://host.example/prefix",
        "https://host.example/prefix/",
        "https://host.example/prefix-evil/a",
        "https://host.example/prefix/a/b",
        "https://host.example/prefix/a?x=y",
        "https://host.example/one?a=c",
        "https://host.example/one",
        "https://host.example/Prefix/a",
        "https://evil.example/prefix/a",
        "https://other.example/x",
    ] {
        assert_eq!(forbidden(&kind, url), "url_not_listed", "{url}");
    }
}

#[test]
fn where_hosts_and_addresses_are_listed_both_must_hold() {
    let declaration =
        json!({ "kind": "url", "hosts": ["a.example"], "urls": ["https://a.example/x", "https://b.example/x"] });
    assert_eq!(fault(declaration), item("urls", 1));
}

#[test]
fn options_that_cannot_work_are_faults() {
    let with = |options: Value| {
        let mut declaration = json!({ "kind": "url" });
        declaration.as_object_mut().expect("a table").extend(options.as_object().expect("a table").clone());
        fault(declaration)
    };
    assert_eq!(with(json!({ "schemes": [] })), named("schemes"));
    assert_eq!(with(json!({ "schemes": ["file"] })), item("schemes", 0));
    assert_eq!(with(json!({ "default_scheme": "http" })), named("default_scheme"));
    assert_eq!(with(json!({ "ports": [] })), named("ports"));
    assert_eq!(with(json!({ "ports": [0] })), item("ports", 0));
    assert_eq!(with(json!({ "ports": ["443"] })), item("ports", 0));
    assert_eq!(with(json!({ "ports": [70000] })), item("ports", 0));
    assert_eq!(with(json!({ "urls": [] })), named("urls"));
    assert_eq!(with(json!({ "allow_ips": 1 })), named("allow_ips"));
    for wrong in [
        "host.example/x",
        "http://host.example/x",
        "https://*.example/x",
        "https://host.example:8443/",
        "https://host.example/a/../b",
        "https://host.example/a#b",
        "https://u@host.example/",
        "https://host.example/?a=*",
        "https://10.0.0.1/",
        "https://host.example//a",
        "https://localhost/",
    ] {
        assert_eq!(with(json!({ "urls": [wrong] })), item("urls", 0), "{wrong}");
    }
}
