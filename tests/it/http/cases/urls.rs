//! Addresses and hosts that lead elsewhere than they seem to.

use serde_json::{Value, json};

use super::Desk;

const POLICY: &str = r#"
[tools.fetch]
risk = "read"
parameters = { type = "object", required = ["url"], properties = { url = { type = "string" } } }
[tools.fetch.arguments.url]
kind = "url"
hosts = ["data.supplier.example", "*.docs.example"]

[tools.browse]
risk = "read"
default = "require_approval"
parameters = { type = "object", required = ["url"], properties = { url = { type = "string" } } }
[tools.browse.arguments.url]
kind = "url"
[[tools.browse.rules]]
id = "known-site"
when = 'resolved.url.host == "wiki.press-club.org" || resolved.url.registrable_domain == "partner-firm.com"'
verdict = "allow"
reason = "a known site"

[tools.connect]
risk = "send"
parameters = { type = "object", properties = { peers = { type = "array", items = { type = "string" } }, home = { type = "string" } } }
[tools.connect.arguments."/peers/*"]
kind = "hostname"
hosts = ["*.cluster.example"]
[tools.connect.arguments.home]
kind = "url"
hosts = ["home.example"]
[[tools.connect.rules]]
id = "cluster"
when = 'resolved["/peers/*"].all(p, p.registrable_domain == "cluster.example")'
verdict = "allow_audited"
reason = "within the cluster"
"#;

fn url(url: &str) -> Value {
    json!({ "url": url })
}

#[tokio::test]
async fn what_stands_before_an_at_sign_is_no_host() {
    let desk = Desk::under(POLICY).await;
    for trick in [
        "https://data.supplier.example@evil.example/",
        "https://data.supplier.example:443@203.0.113.7/",
        "https://user@data.supplier.example/",
        "https://@data.supplier.example/",
    ] {
        desk.denied("fetch", url(trick), "unresolvable_argument", "url: userinfo").await;
    }
}

#[tokio::test]
async fn a_listed_host_is_the_whole_host() {
    let desk = Desk::under(POLICY).await;
    for other in [
        "https://data.supplier.example.evil.test/",
        "https://evil-data.supplier.example/",
        "https://supplier.example/",
        "https://docs.example/",
        "https://xdocs.example/",
        "https://docs.example.evil.test/",
    ] {
        desk.denied("fetch", url(other), "constraint", "url: host_not_listed").await;
    }
    for listed in
        ["https://data.supplier.example/v1?x=1", "https://DATA.Supplier.Example/", "https://a.b.docs.example/"]
    {
        desk.allowed("fetch", url(listed)).await;
    }
}

#[tokio::test]
async fn an_address_in_any_spelling_is_no_host_name() {
    let desk = Desk::under(POLICY).await;
    for number in [
        "https://3232235777/",
        "https://0x7f000001/",
        "https://0177.1/",
        "https://127.1/",
        "https://10.20.30.40/",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/meta",
        "https://[64:ff9b::a9fe:a9fe]/",
        "https://\u{ff11}\u{ff12}\u{ff17}.0.0.1/",
    ] {
        for tool in ["fetch", "browse"] {
            let (answer, entry) = desk.ask(tool, url(number)).await;
            assert_eq!(answer.status, 403, "{number}");
            assert!(matches!(entry.reason_code.as_deref(), Some("constraint" | "unresolvable_argument")), "{number}");
        }
    }
    for local in ["https://localhost/", "https://db/", "https://printer.local/", "https://metadata.google.internal/"] {
        let (answer, _) = desk.ask("browse", url(local)).await;
        assert_eq!(answer.status, 403, "{local}");
    }
}

#[tokio::test]
async fn a_host_of_mixed_scripts_is_denied_and_one_host_in_two_spellings_is_one() {
    let desk = Desk::under(POLICY).await;
    for lookalike in ["https://d\u{430}ta.supplier.example/", "https://p\u{430}rtner-firm.com/"] {
        desk.expect("browse", url(lookalike), 403, "unresolvable_argument").await;
    }
    desk.held("browse", url("https://b\u{fc}cher.de/")).await;
    desk.held("browse", url("https://xn--bcher-kva.de/")).await;
    desk.allowed("browse", url("https://shop.partner-firm.com/")).await;
    desk.allowed("browse", url("https://wiki.press-club.org/page")).await;
    desk.held("browse", url("https://wiki.press-club.org.other-site.com/page")).await;
}

#[tokio::test]
async fn a_label_that_no_name_can_have_is_denied_before_it_is_decoded() {
    let desk = Desk::under(POLICY).await;
    let long = format!("https://xn--{}.docs.example/", "a".repeat(900));
    desk.denied("fetch", url(&long), "unresolvable_argument", "url: too_long").await;
    desk.allowed("fetch", url(&format!("https://{}.docs.example/", "a".repeat(63)))).await;
}

#[tokio::test]
async fn only_the_schemes_and_ports_that_are_listed_are_taken() {
    let desk = Desk::under(POLICY).await;
    for other in [
        "http://data.supplier.example/",
        "ftp://data.supplier.example/",
        "gopher://data.supplier.example:70/",
        "file:///etc/hostname",
        "javascript:alert(1)",
        "data:text/plain,x",
    ] {
        let (answer, entry) = desk.ask("fetch", url(other)).await;
        assert_eq!(answer.status, 403, "{other}");
        assert!(matches!(entry.reason_code.as_deref(), Some("constraint" | "unresolvable_argument")), "{entry:?}");
    }
    desk.denied("fetch", url("https://data.supplier.example:8443/"), "constraint", "url: port_not_listed").await;
    desk.allowed("fetch", url("https://data.supplier.example:443/")).await;
}

#[tokio::test]
async fn what_parsers_repair_is_denied() {
    let desk = Desk::under(POLICY).await;
    for odd in [
        "https:\\\\data.supplier.example\\x",
        "https://data.supplier.example\\@evil.test/",
        " https://data.supplier.example/",
        "https://data.supplier.example/\r\nHost: evil.test",
        "ht\ttps://data.supplier.example/",
        "https:data.supplier.example",
        "https:///data.supplier.example/",
        "//data.supplier.example/",
        "",
    ] {
        desk.expect("fetch", url(odd), 403, "unresolvable_argument").await;
    }
}

#[tokio::test]
async fn each_of_many_hosts_counts_and_obligations_of_several_arguments_stand_together() {
    let desk = Desk::under(POLICY).await;
    let good = json!({ "peers": ["a.cluster.example", "b.cluster.example"], "home": "https://home.example/" });
    let allowed = desk.allowed("connect", good).await;
    assert_eq!(allowed["obligations"], json!({ "pin_resolved_ip": true, "block_private": true, "max_redirects": 0 }));
    let bad = json!({ "peers": ["a.cluster.example", "cluster.example.evil.test"] });
    desk.denied("connect", bad, "constraint", "/peers/*: host_not_listed").await;
    desk.held("connect", json!({})).await;
}
