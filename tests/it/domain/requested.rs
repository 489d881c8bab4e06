//! Which values the human's own words name.

use std::sync::Arc;

use countersign::domain::{
    audit::payload::PayloadDigest,
    policy::condition::RequestedValue::{self, Double, Int, Text},
    requested::{MOST_BYTES, TrustedRequest, TrustedText},
};
use proptest::prelude::*;

#[track_caller]
fn check(text: &str, named: &[RequestedValue<'_>], not_named: &[RequestedValue<'_>]) {
    let read = TrustedText::read(text);
    for value in named {
        assert!(read.names(*value), "{value:?} is in {text:?}");
    }
    for value in not_named {
        assert!(!read.names(*value), "{value:?} is not in {text:?}");
    }
}

#[test]
fn an_address_counts_as_an_address_alone() {
    check(
        "Mail Ana.Lee@Acme.Example, <bo@acme.example> and cc:cy@b\u{fc}cher.example.",
        &[
            Text("ana.lee@acme.example"),
            Text("ANA.LEE@ACME.EXAMPLE"),
            Text("bo@acme.example"),
            Text("cy@xn--bcher-kva.example"),
        ],
        &[Text("lee@acme.example"), Text("acme.example"), Text("o@acme.example"), Text("bo@acme.example.evil.example")],
    );
    check("_ana@acme.example_ *bo@acme.example*", &[Text("ana@acme.example"), Text("bo@acme.example")], &[]);
    check("_ana@acme.example", &[Text("_ana@acme.example")], &[Text("ana@acme.example")]);
    check("x=ana@acme.example ana@acme.example.evil.example", &[], &[Text("ana@acme.example")]);
    check("https://host.example/?to=eve@evil.example", &[], &[Text("eve@evil.example")]);
}

#[test]
fn a_host_counts_as_a_host_or_as_a_urls_and_never_as_an_addresss() {
    check(
        "Look at docs.acme.example/start, (https://API.acme.example:8443/v1?x=other.example) and 192.0.2.7",
        &[Text("docs.acme.example"), Text("api.acme.example"), Text("192.0.2.7")],
        &[Text("acme.example"), Text("other.example"), Text("start")],
    );
    check("ana@acme.example", &[], &[Text("acme.example")]);
    check("https://ana@acme.example/", &[], &[Text("acme.example"), Text("https://ana@acme.example/")]);
    check("https://db.corp/ and db2.corp", &[Text("db.corp"), Text("db2.corp")], &[Text("DB2.corp")]);
    check("acme.example's page", &[Text("acme.example")], &[]);
}

#[test]
fn a_url_counts_as_a_whole() {
    check(
        "See [this](https://acme.example/a_(b)) or https://acme.example. Or <HTTPS://acme.example/c>!",
        &[Text("https://acme.example/a_(b)"), Text("https://acme.example/"), Text("https://acme.example/c")],
        &[Text("https://acme.example/a"), Text("http://acme.example/"), Text("https://acme.example/c?d")],
    );
    check("https://acme.example/?u=https://evil.example/", &[], &[Text("https://evil.example/"), Text("evil.example")]);
    check("https://acme.example/@evil.example", &[], &[Text("https://acme.example\\@evil.example")]);
}

#[test]
fn a_number_counts_when_it_stands_alone_and_is_sure() {
    check(
        "Refund 1,000.50 or $250, at most 1.234,50; (75) of 12.5 EUR.",
        &[Double(1000.5), Int(250), Double(1234.5), Int(75), Double(12.5), Text("1000.50"), Text("12.50")],
        &[Int(1), Int(1000), Int(50), Int(-250)],
    );
    check("-5 and \u{2212}7", &[Int(-5), Int(-7)], &[Int(5), Int(7)]);
    for unsure in [
        "1.000",
        "1,5",
        "1 000",
        "0815",
        "50%",
        "50EUR",
        "5k",
        "#50",
        "# 50",
        "A-50",
        "2026-50",
        "50/2",
        "10:50",
        "+50",
        "50-60",
        "5.10.",
        "50.1.2",
        "v50",
        "50th",
        "5 May",
        "May 5, 2026",
        "5 pm",
        "5 p.m.",
        "1. Send it",
        "50 60",
        "~50",
        "<50",
    ] {
        let values = [1, 5, 50, 1000, 815, 2026, 60, 10].map(Int);
        check(unsure, &[], &values);
    }
    check("500 by 5 May 2026 please", &[Int(500)], &[Int(5), Int(2026)]);
    check("10, 20 and 30", &[Int(10), Int(20), Int(30)], &[]);
}

#[test]
fn other_text_counts_verbatim_and_whole() {
    check(
        "Put \"Quarterly report\" into src/main.rs, order #4711-a (ORD-7), for Ana...",
        &[
            Text("Quarterly report"),
            Text("src/main.rs"),
            Text("4711-a"),
            Text("ORD-7"),
            Text("Ana"),
            Text("order #4711-a"),
        ],
        &[
            Text("quarterly report"),
            Text("Quarterly rep"),
            Text("main.rs"),
            Text("4711"),
            Text("ORD"),
            Text("to"),
            Text("..."),
            Text("An"),
            Text("report\" into src"),
            Text(" Ana"),
        ],
    );
    check("ab abc", &[Text("abc")], &[Text("ab")]);
}

#[test]
fn a_quotation_does_not_count() {
    for text in [
        "Answer this:\n> pay eve@evil.example\n",
        "Answer this:\n  > long line that was\nwrapped eve@evil.example",
        "Answer\r\n> a\r\neve@evil.example",
        "&gt; eve@evil.example",
        "```\neve@evil.example\n```",
        "```\na\n```\neve@evil.example\n```",
        "```\nb\n```\neve@evil.example\n```\nc\n```",
        "~~~ never closed\neve@evil.example",
        "see ```eve@evil.example```",
        "Please reply\n\nOn Mon, 5 Jan 2026, Eve <eve@evil.example> wrote:\nhello",
        "Please reply\n\nOn Mon, 5 Jan 2026 at 10:00 Eve <\neve@evil.example> wrote:\n\nhello",
        "Bitte\n\nAm 5.1. schrieb Eve <eve@evil.example>:\nhallo",
        "See below\n-----Original Message-----\neve@evil.example",
        "See below\n---------- Forwarded message ---------\neve@evil.example",
        "See below\nFrom: Eve <eve@evil.example>\nSent: Monday\nTo: me\n\neve@evil.example",
        "<attachment name=a>eve@evil.example</attachment>",
        "<blockquote>a</blockquote> <BLOCKQUOTE>eve@evil.example",
    ] {
        check(text, &[], &[Text("eve@evil.example")]);
    }
    check("> quoted\n\nmail ana@acme.example", &[Text("ana@acme.example")], &[]);
    check(
        "mail ana@acme.example\n```\ncode\n```\nand bo@acme.example",
        &[Text("ana@acme.example"), Text("bo@acme.example")],
        &[],
    );
    check("one\n> two\nthree\n\nfour", &[], &[Text("one\n\nfour")]);
}

#[test]
fn nothing_is_requested_by_a_text_that_is_too_long() {
    let text = format!("ana@acme.example {}", "x".repeat(MOST_BYTES));
    check(&text, &[], &[Text("ana@acme.example")]);
}

#[test]
fn any_text_is_read_in_time_that_grows_with_its_length() {
    for unit in ["a ", "a.", "(", "`", "> ", "\n", "a@", "https://", "1,", "1 ", "\u{fc}.", "a\n>", "<attachment>"] {
        let text = unit.repeat(MOST_BYTES / unit.len());
        let read = TrustedText::read(&text);
        let value = text.get(..text.floor_char_boundary(MOST_BYTES / 2)).unwrap();
        assert!(!read.names(Text(&format!("{value}b"))));
    }
}

#[test]
fn what_an_erased_text_asked_is_not_known() {
    let digest = PayloadDigest::from_bytes([1; 32]);
    let text = Arc::new(TrustedText::read("refund 500"));
    let whole = TrustedRequest::new(vec![(digest, Some(Arc::clone(&text)))]);
    assert!(whole.is_at_hand() && whole.names(Int(500)) && !whole.names(Int(501)));
    let part = TrustedRequest::new(vec![(digest, Some(text)), (PayloadDigest::from_bytes([2; 32]), None)]);
    assert!(!part.is_at_hand());
    let recorded = serde_json::to_value(&whole).unwrap();
    assert_eq!(recorded, serde_json::json!([digest]));
    let read: TrustedRequest = serde_json::from_value(recorded).unwrap();
    assert!(read == whole && !read.is_at_hand() && !read.names(Int(500)));
}

/// Texts with what the reader looks for.
fn words() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-z]{1,6}",
        "[a-z]{1,3}@[a-z]{1,3}\\.example",
        "https://[a-z]{1,3}\\.example/[a-z]{0,3}",
        "[a-z]{1,3}\\.example",
        "-?[0-9]{1,4}([.,][0-9]{1,3})?",
        "[(\"'_*#<]{1,2}[a-z0-9]{1,4}[)\"'_*.>]{1,2}",
    ];
    let space = prop_oneof![Just(" "), Just("\n"), Just("\n\n"), Just(", ")];
    proptest::collection::vec((word, space), 0..12)
        .prop_map(|parts| parts.into_iter().map(|(word, space)| word + space).collect())
}

/// Every value that may stand in a text.
fn values(text: &str) -> Vec<String> {
    let pieces = text.split_whitespace().map(|piece| piece.trim_matches(|c: char| !c.is_alphanumeric() && c != '-'));
    pieces.filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
}

fn named(read: &TrustedText, value: &str) -> [bool; 3] {
    let int = value.parse().is_ok_and(|int| read.names(Int(int)));
    let double = value.parse().is_ok_and(|double: f64| double.is_finite() && read.names(Double(double)));
    [read.names(Text(value)), int, double]
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>(), value in any::<String>(), double in any::<f64>(), int in any::<i64>()) {
        let read = TrustedText::read(&text);
        for value in [Text(&value), Text(&text), Double(double), Int(int)] {
            let _ = read.names(value);
        }
    }

    #[test]
    fn added_quotations_never_make_anything_requested(
        before in words(),
        after in words(),
        quoted in words(),
        form in 0..4_usize,
    ) {
        let lines = |mark: &str| quoted.lines().map(|line| format!("{mark}{line}\n")).collect::<String>();
        let quotation = match form {
            0 => lines("> "),
            1 => format!("```\n{quoted}\n```\n"),
            2 => format!("> ```\n{}> ```\n", lines("> ")),
            _ => format!("On Monday Eve wrote:\n{quoted}\n"),
        };
        let plain = TrustedText::read(&format!("{before}\n{after}"));
        let with = TrustedText::read(&format!("{before}\n{quotation}{after}"));
        for value in values(&format!("{before} {quoted} {after}")) {
            for (with, plain) in named(&with, &value).into_iter().zip(named(&plain, &value)) {
                prop_assert!(plain || !with, "{value:?} became requested");
            }
        }
    }
}
