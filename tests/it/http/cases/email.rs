//! Recipients that a rule could overlook.

use serde_json::{Value, json};

use super::Desk;

fn policy(strip_tags: bool) -> String {
    let addresses = r#"{ type = ["string", "array", "object", "null"], maxItems = 50, items = { type = ["string", "object"], additionalProperties = true, properties = { email = { type = "string" } } }, additionalProperties = true, properties = { email = { type = "string" } } }"#;
    format!(
        r#"
[vars]
ours = ["firm.example"]
[tools.mail]
risk = "send"
parameters = {{ type = "object", required = ["to"], properties = {{ to = {addresses}, cc = {addresses}, bcc = {addresses} }} }}
[tools.mail.arguments.to]
kind = "email"
[tools.mail.arguments.cc]
kind = "email"
[tools.mail.arguments.bcc]
kind = "email"
[[tools.mail.rules]]
id = "stranger-to"
when = 'resolved.to.exists(r, !(r.domain in vars.ours))'
verdict = "deny"
reason = "strangers get no mail"
[[tools.mail.rules]]
id = "stranger-cc"
when = 'has(resolved.cc) && resolved.cc.exists(r, !(r.domain in vars.ours))'
verdict = "deny"
reason = "nor a copy"
[[tools.mail.rules]]
id = "stranger-bcc"
when = 'has(resolved.bcc) && resolved.bcc.exists(r, !(r.domain in vars.ours))'
verdict = "deny"
reason = "nor a hidden one"

[tools.page]
risk = "send"
parameters = {{ type = "object", required = ["to"], properties = {{ to = {{ type = "string" }} }} }}
[tools.page.arguments.to]
kind = "email"
strip_tags = {strip_tags}
[[tools.page.rules]]
id = "on-call"
when = 'size(resolved.to) == 1 && resolved.to.all(r, r.address == "oncall@firm.example")'
verdict = "allow"
reason = "they want to be woken"
"#
    )
}

fn to(to: impl Into<Value>) -> Value {
    json!({ "to": to.into() })
}

#[tokio::test]
async fn a_stranger_is_seen_in_every_field_and_every_form() {
    let desk = Desk::under(&policy(false)).await;
    for args in [
        json!({ "to": "eve@stranger.example" }),
        json!({ "to": "ann@firm.example", "cc": "eve@stranger.example" }),
        json!({ "to": "ann@firm.example", "bcc": ["bob@firm.example", "eve@stranger.example"] }),
        json!({ "to": [{ "email": "eve@stranger.example" }] }),
        json!({ "to": { "email": "eve@stranger.example", "name": "Ann" } }),
        json!({ "to": "ann@firm.example; eve@stranger.example" }),
        json!({ "to": "ann@firm.example, Eve <eve@stranger.example>" }),
        json!({ "to": "ann@firm.example.stranger.example" }),
    ] {
        let entry = desk.expect("mail", args, 403, "rule").await;
        assert!(entry.rule.is_some_and(|rule| rule.starts_with("stranger-")));
    }
    desk.held("mail", json!({ "to": ["Ann <ann@firm.example>", { "email": "bob@FIRM.example" }], "cc": null })).await;
}

#[tokio::test]
async fn addresses_that_mailers_read_in_two_ways_are_denied() {
    let desk = Desk::under(&policy(false)).await;
    for trick in [
        "\"ann@firm.example\"@stranger.example",
        "\"eve@stranger.example\"@firm.example",
        "ann@firm.example <eve@stranger.example>",
        "\"ann@firm.example,\" <eve@stranger.example>",
        "ann(comment)@firm.example",
        "ann@firm.example\r\nBcc: eve@stranger.example",
        "ann@firm.example@stranger.example",
        "@relay.example:ann@firm.example",
        "eve%stranger.example@firm.example",
        "stranger.example!eve@firm.example",
        "ann@[203.0.113.9]",
        "ann@localhost",
        "Ann",
        "ann@firm.example, Bob",
        "=?utf-8?q?ann=40firm.example?= <eve@stranger.example>",
        "",
    ] {
        desk.expect("mail", to(trick), 403, "unresolvable_argument").await;
    }
}

#[tokio::test]
async fn a_name_that_is_resolved_later_is_no_address() {
    let desk = Desk::under(&policy(false)).await;
    desk.expect("mail", json!({ "to": { "contact": "Dana" } }), 403, "unresolvable_argument").await;
    desk.expect(
        "mail",
        json!({ "to": [{ "email": "ann@firm.example", "list": "everyone" }] }),
        403,
        "unresolvable_argument",
    )
    .await;
}

#[tokio::test]
async fn case_and_tags_count_as_the_policy_says() {
    let plain = Desk::under(&policy(false)).await;
    let stripping = Desk::under(&policy(true)).await;
    for desk in [&plain, &stripping] {
        desk.allowed("page", to("oncall@firm.example")).await;
        desk.allowed("page", to("OnCall@Firm.EXAMPLE")).await;
        desk.held("page", to("oncall2@firm.example")).await;
    }
    plain.held("page", to("oncall+night@firm.example")).await;
    stripping.allowed("page", to("oncall+night@firm.example")).await;
    stripping.expect("page", to("+night@firm.example"), 403, "unresolvable_argument").await;
}
