//! Texts with something in them, and amounts of money.

use serde_json::{Value, json};

use super::Desk;

const POLICY: &str = r#"
[tools.post]
risk = "send"
default = "allow_audited"
parameters = { type = "object", required = ["body"], properties = { body = { type = "string" }, parts = { type = "array", maxItems = 10, items = { type = "string" } } } }
[tools.post.arguments.body]
kind = "text"
[tools.post.arguments."/parts/*"]
kind = "text"
[[tools.post.rules]]
id = "no-keys"
when = 'size(resolved.body.findings) > 0'
verdict = "deny"
reason = "nothing secret is posted"
[[tools.post.rules]]
id = "links"
when = 'resolved.body.hosts.exists(h, h != "firm.example")'
verdict = "require_approval"
reason = "a link to another site"
[[tools.post.rules]]
id = "keys-in-parts"
when = 'has(args.parts) && resolved["/parts/*"].exists(p, size(p.findings) > 0)'
verdict = "deny"
reason = "nothing secret is posted in parts"

[tools.pay]
risk = "send"
parameters = { type = "object", required = ["amount", "currency"], properties = { amount = { type = ["number", "string"] }, currency = { type = "string" } } }
[tools.pay.arguments.amount]
kind = "money"
currency = "/currency"
[[tools.pay.rules]]
id = "small"
when = 'resolved.amount.currency == "EUR" && resolved.amount.minor <= 5000'
verdict = "allow"
reason = "up to 50 euros"
"#;

fn body(body: &str) -> Value {
    json!({ "body": body })
}

fn pay(amount: impl Into<Value>, currency: &str) -> Value {
    json!({ "amount": amount.into(), "currency": currency })
}

#[tokio::test]
async fn a_link_and_a_secret_in_a_text_are_found() {
    let desk = Desk::under(POLICY).await;
    desk.allowed("post", body("See https://firm.example/news for more.")).await;
    for linked in ["see https://other.example/x", "see other-site.com for more", "[x](HTTPS://OTHER.example)"] {
        let held = desk.held("post", body(linked)).await;
        assert_eq!(held.rule.as_deref(), Some("links"), "{linked}");
    }
    for secret in ["pay with 4111 1111 1111 1111 please", "to DE89 3704 0044 0532 0130 00, thanks"] {
        let denied = desk.expect("post", body(secret), 403, "rule").await;
        assert_eq!(denied.rule.as_deref(), Some("no-keys"), "{secret}");
        let parts = json!({ "body": "x", "parts": ["y", secret] });
        let denied = desk.expect("post", parts, 403, "rule").await;
        assert_eq!(denied.rule.as_deref(), Some("keys-in-parts"), "{secret}");
    }
    desk.denied("post", body("a\0b"), "unresolvable_argument", "body: control_character").await;
    desk.allowed("post", body("")).await;
}

#[tokio::test]
async fn an_amount_is_compared_in_its_smallest_unit_whichever_way_it_is_written() {
    let desk = Desk::under(POLICY).await;
    for small in [json!(50), json!("50.00"), json!(49.99), json!("0.01")] {
        desk.allowed("pay", pay(small, "EUR")).await;
    }
    desk.held("pay", pay("50.01", "EUR")).await;
    desk.held("pay", pay(50, "JPY")).await;
    for odd in [json!("NaN"), json!("-Inf"), json!(" "), json!("5e1"), json!("1,000"), json!(0.001), json!("0x10")] {
        desk.expect("pay", pay(odd, "EUR"), 403, "unresolvable_argument").await;
    }
    desk.denied("pay", pay(-500, "EUR"), "constraint", "amount: negative").await;
    desk.denied("pay", pay(5, "EURO"), "unresolvable_argument", "amount: unknown_currency").await;
}
