//! `[[tools.X.limits]]`: what loads, and everything that keeps one from loading.

use std::time::Duration;

use countersign::domain::{
    limit::{OnExceed, Per, amount::Amount},
    policy::{Policy, SourceFile},
};

fn text(limit: &str) -> String {
    format!(
        r#"
schema = 1
[tools.pay]
risk = "send"
parameters = {{ required = ["order", "amount", "free", "maybe_null", "price", "to", "tags"], properties = {{ order = {{ type = "string" }}, amount = {{ type = "number", minimum = 0 }}, free = {{ type = "number" }}, maybe_null = {{ type = ["number", "null"], minimum = 0 }}, price = {{ type = "string" }}, to = {{ type = "string" }}, tags = {{ type = "array", items = {{ type = "string" }} }}, optional = {{ type = "integer", minimum = 0 }} }} }}
[tools.pay.arguments.price]
kind = "money"
currency = "EUR"
[tools.pay.arguments.to]
kind = "email"
[[tools.pay.rules]]
id = "taken"
when = 'args.amount > 10'
verdict = "deny"
reason = "too much"
{limit}
"#
    )
}

fn load(limit: &str) -> Result<Policy, Vec<String>> {
    let files = [SourceFile { path: "policy.toml".to_owned(), text: text(limit) }];
    match Policy::load(&files) {
        Ok(loaded) => Ok(loaded.policy),
        Err(faults) => Err(faults.into_iter().map(|fault| fault.message).collect()),
    }
}

fn with_sum(sum: &str) -> String {
    format!("[[tools.pay.limits]]\nid = \"l\"\nper = \"run\"\nwindow = \"1h\"\nmax_sum = {sum}\non_exceed = \"deny\"\n")
}

#[track_caller]
fn assert_refused(limit: &str, message: &str) {
    let faults = load(limit).unwrap_err();
    assert!(faults.len() == 1 && faults[0].contains(message), "{faults:#?}");
}

#[test]
fn a_limit_loads_as_it_is_written() {
    let policy = load(
        "[[tools.pay.limits]]\nid = \"daily\"\nper = \"agent\"\nwindow = \"24h\"\nmax_calls = 50\n\
         max_sum = { argument = \"amount\", value = 1000.50, by = \"order\" }\non_exceed = \"require_approval\"\n",
    )
    .unwrap();
    let tool = policy.tool("pay").unwrap();
    let limit = &tool.limits[0];
    assert_eq!((limit.id.as_str(), limit.per, limit.window), ("daily", Per::Agent, Duration::from_secs(86_400)));
    assert_eq!((limit.max_calls, limit.on_exceed), (Some(50), OnExceed::RequireApproval));
    let sum = limit.max_sum.as_ref().unwrap();
    assert_eq!((sum.argument.as_str(), sum.by.as_deref(), sum.money), ("amount", Some("order"), false));
    assert_eq!(sum.value, Amount::parse("1000.5").unwrap());
    assert!(tool.is_settled_under_locks());
}

#[test]
fn money_is_added_up_although_it_is_a_text() {
    let policy = load(&with_sum(r#"{ argument = "price", value = 100 }"#)).unwrap();
    assert!(policy.tool("pay").unwrap().limits[0].max_sum.as_ref().unwrap().money);
}

#[test]
fn a_limit_and_a_rule_never_share_an_id() {
    assert_refused(
        &with_sum(r#"{ argument = "amount", value = 1 }"#).replace("\"l\"", "\"taken\""),
        "`taken` is taken",
    );
}

#[test]
fn a_limit_without_a_part_of_it_does_not_load() {
    let whole =
        "[[tools.pay.limits]]\nid = \"l\"\nper = \"run\"\nwindow = \"1h\"\nmax_calls = 1\non_exceed = \"deny\"\n";
    load(whole).unwrap();
    for (line, message) in [
        ("id = \"l\"\n", "has no `id`"),
        ("per = \"run\"\n", "has no `per`"),
        ("window = \"1h\"\n", "has no `window`"),
        ("on_exceed = \"deny\"\n", "has no `on_exceed`"),
        ("max_calls = 1\n", "neither `max_calls` nor `max_sum`"),
    ] {
        assert_refused(&whole.replace(line, ""), message);
    }
    assert_refused(&whole.replace("\"deny\"", "\"allow\""), "`on_exceed`");
    assert_refused(&whole.replace("\"run\"", "\"user\""), "`per`");
    assert_refused(&whole.replace("\"1h\"", "\"400d\""), "`window`");
    assert_refused(&whole.replace("max_calls = 1", "max_calls = 0"), "`max_calls`");
}

#[test]
fn only_what_is_always_there_and_never_negative_is_added_up() {
    for (sum, message) in [
        (r#"{ argument = "optional", value = 1 }"#, "`optional` is not required"),
        (r#"{ argument = "free", value = 1 }"#, "`free` can be negative"),
        (r#"{ argument = "order", value = 1 }"#, "`order` is not always a number"),
        (r#"{ argument = "maybe_null", value = 1 }"#, "`maybe_null` is not always a number"),
        (r#"{ argument = "nothing", value = 1 }"#, "no property `nothing`"),
        (r#"{ argument = "amount", value = 0 }"#, "`value`"),
        (r#"{ argument = "amount", value = -5 }"#, "`value`"),
        (r#"{ argument = "amount", value = inf }"#, "`value`"),
        (r#"{ argument = "amount" }"#, "has no `value`"),
        (r#"{ argument = "amount", value = 1, by = "tags" }"#, "`tags` is not always one plain value"),
        (r#"{ argument = "amount", value = 1, by = "to" }"#, "which has a kind"),
        (r#"{ argument = "amount", value = 1, by = "optional" }"#, "`optional` is not required"),
    ] {
        assert_refused(&with_sum(sum), message);
    }
}

#[test]
fn money_that_can_be_negative_is_not_added_up() {
    let negative = text(&with_sum(r#"{ argument = "price", value = 1 }"#))
        .replace("currency = \"EUR\"", "currency = \"EUR\"\nallow_negative = true");
    let files = [SourceFile { path: "policy.toml".to_owned(), text: negative }];
    let faults = Policy::load(&files).unwrap_err();
    assert!(faults.iter().any(|fault| fault.message == "`price` can be negative"), "{faults:#?}");
}
