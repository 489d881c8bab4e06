//! Tests of the kind `money`.

use countersign::domain::canon::{Kind, Refusal};
use serde_json::{Value, json};

use super::{fault, forbidden, kind, named, obligations, resolved, unresolvable};

fn in_currency(code: &str) -> Kind {
    kind(json!({ "kind": "money", "currency": code }))
}

fn minor(code: &str, value: impl Into<Value>) -> Value {
    resolved(&in_currency(code), value)["minor"].clone()
}

#[test]
fn an_amount_is_exact_in_the_smallest_unit() {
    assert_eq!(resolved(&in_currency("USD"), "12.5"), json!({ "amount": "12.50", "minor": 1250, "currency": "USD" }));
    assert_eq!(resolved(&in_currency("USD"), 0.29), json!({ "amount": "0.29", "minor": 29, "currency": "USD" }));
    assert_eq!(minor("EUR", 1.1), 110);
    assert_eq!(minor("EUR", 5000), 500_000);
    assert_eq!(minor("EUR", 0), 0);
    assert_eq!(minor("EUR", 4.35), 435);
}

#[test]
fn a_number_and_its_text_are_one() {
    for text in ["0.01", "0.07", "1.15", "8.41", "19.99", "1234567.89", "9999999999999.99"] {
        let number: Value = serde_json::from_str(text).expect("a number");
        assert_eq!(minor("EUR", number), minor("EUR", text), "{text}");
    }
    assert_eq!(minor("EUR", serde_json::from_str::<Value>("1.5e3").expect("a number")), 150_000);
}

#[test]
fn each_currency_has_its_digits() {
    assert_eq!(resolved(&in_currency("JPY"), 500), json!({ "amount": "500", "minor": 500, "currency": "JPY" }));
    assert_eq!(minor("KWD", "1.234"), 1234);
    assert_eq!(minor("CLF", "1.2345"), 12345);
    assert_eq!(unresolvable(&in_currency("JPY"), "1.5"), "too_many_digits");
    assert_eq!(unresolvable(&in_currency("USD"), "1.005"), "too_many_digits");
    assert_eq!(unresolvable(&in_currency("USD"), "1.500"), "too_many_digits");
    assert_eq!(unresolvable(&in_currency("USD"), 0.1 + 0.2), "too_many_digits");
    assert_eq!(unresolvable(&in_currency("USD"), 1e-7), "too_many_digits");
}

#[test]
fn a_negative_amount_needs_leave() {
    assert_eq!(forbidden(&in_currency("USD"), -5), "negative");
    assert_eq!(forbidden(&in_currency("USD"), "-0.01"), "negative");
    let allowing = kind(json!({ "kind": "money", "currency": "USD", "allow_negative": true }));
    assert_eq!(resolved(&allowing, -0.5), json!({ "amount": "-0.50", "minor": -50, "currency": "USD" }));
    assert_eq!(unresolvable(&allowing, "-0.00"), "negative_zero");
}

#[test]
fn what_cannot_be_held_exactly_is_refused() {
    assert_eq!(minor("USD", "90071992547409.91"), 9_007_199_254_740_991_i64);
    assert_eq!(unresolvable(&in_currency("USD"), "90071992547409.92"), "too_great");
    assert_eq!(unresolvable(&in_currency("USD"), 1e21), "too_great");
    assert_eq!(unresolvable(&in_currency("USD"), 1e300), "too_great");
    assert_eq!(unresolvable(&in_currency("USD"), "9".repeat(1000)), "too_great");
    assert_eq!(unresolvable(&in_currency("USD"), u64::MAX), "too_great");
}

#[test]
fn a_number_whose_digits_a_double_cannot_keep_apart_is_refused() {
    let number: Value = serde_json::from_str("90071992547409.91").expect("a number");
    assert_eq!(unresolvable(&in_currency("USD"), number), "too_great");
}

#[test]
fn only_a_plain_decimal_is_an_amount() {
    for text in [
        "NaN", "Infinity", "-Inf", " ", " 1", "1 ", "+1", "01", "00", ".5", "5.", "1,000", "1.000,00", "1_000", "1e3",
        "0x10", "$5", "5 USD", "٣", "１", "--1", "1.2.3", "-", "1\0", "-.5",
    ] {
        assert_eq!(unresolvable(&in_currency("USD"), text), "amount", "{text:?}");
    }
    assert_eq!(unresolvable(&in_currency("USD"), ""), "empty");
    for value in [json!(true), json!([1]), json!({ "amount": 1 })] {
        assert_eq!(unresolvable(&in_currency("USD"), value), "not_a_number");
    }
}

#[test]
fn the_currency_can_stand_in_another_argument() {
    let kind = kind(json!({ "kind": "money", "currency": "/price/currency~1code" }));
    let resolve = |args: Value| kind.resolve(&json!("1.50"), args.as_object().expect("arguments"));
    let resolution = resolve(json!({ "price": { "currency/code": "eur" } })).expect("a currency");
    assert_eq!(resolution.value["currency"], "EUR");
    for (args, code) in [
        (json!({}), "no_currency"),
        (json!({ "price": "EUR" }), "no_currency"),
        (json!({ "price": { "currency/code": null } }), "no_currency"),
        (json!({ "price": { "currency/code": "XXX" } }), "unknown_currency"),
        (json!({ "price": { "currency/code": "US" } }), "unknown_currency"),
        (json!({ "price": { "currency/code": "" } }), "unknown_currency"),
    ] {
        assert_eq!(resolve(args.clone()).map_err(|refusal: Refusal| refusal.code()), Err(code), "{args}");
    }
}

#[test]
fn there_is_nothing_the_executor_must_keep_to() {
    assert_eq!(obligations(&in_currency("USD"), 1), json!({}));
}

#[test]
fn options_that_cannot_work_are_faults() {
    assert_eq!(fault(json!({ "kind": "money" })), (None, None));
    for currency in [json!("XXX"), json!("usd"), json!(""), json!("/"), json!("/a/*"), json!(840)] {
        assert_eq!(fault(json!({ "kind": "money", "currency": currency })), named("currency"), "{currency}");
    }
    assert_eq!(fault(json!({ "kind": "money", "currency": "USD", "allow_negative": 0 })), named("allow_negative"));
}
