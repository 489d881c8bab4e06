//! What each kind of argument costs: on typical values, and on the costliest ones found in the largest body (256 KiB).
//!
//! Run with `cargo bench --bench kinds`. It prints a table for `docs/performance.md` and asserts nothing. The last
//! column compares the whole value with a quarter of it: about 4 is linear, 16 would be quadratic.

#![expect(clippy::panic, reason = "a benchmark that cannot begin ends here")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use countersign::domain::canon::Kind;
use serde_json::{Map, Value, json};

/// The largest body of a request.
const LARGEST: usize = 256 * 1024;
/// How long each value is measured.
const PATIENCE: Duration = Duration::from_millis(400);

fn main() {
    println!("| kind | value | bytes | answer | p50 | p99 | times a quarter |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    path();
    url_and_hostname();
    email();
    sql();
    command();
    money();
    text();
}

/// What is measured: one declaration with one sort of value, of any length.
struct Case<'a> {
    kind: &'a Kind,
    what: &'a str,
}

impl Case<'_> {
    /// A value of everyday length.
    fn typical(&self, value: Value) {
        self.print(&value, String::new());
    }

    /// A value of at most this many bytes, compared with a quarter of it.
    fn up_to(&self, bytes: usize, value: impl Fn(usize) -> Value) {
        let (whole, _) = timed(self.kind, &value(bytes));
        let (quarter, _) = timed(self.kind, &value(bytes / 4));
        self.print(&value(bytes), format!("{:.1}", whole.as_secs_f64() / quarter.as_secs_f64()));
    }

    fn largest(&self, value: impl Fn(usize) -> Value) {
        self.up_to(LARGEST, value);
    }

    fn print(&self, value: &Value, growth: String) {
        let (p50, p99) = timed(self.kind, value);
        let bytes = value.to_string().len() - 2;
        let answer = match self.kind.resolve(value, &Map::new()) {
            Ok(_) => "resolved".to_owned(),
            Err(refusal) => format!("`{}`", refusal.code()),
        };
        let name = self.kind.name();
        println!("| {name} | {} | {bytes} | {answer} | {} | {} | {growth} |", self.what, readable(p50), readable(p99));
    }
}

/// The median and the 99th percentile.
fn timed(kind: &Kind, value: &Value) -> (Duration, Duration) {
    let args = Map::new();
    let mut all = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE || all.len() < 20 {
        let start = Instant::now();
        let _ = black_box(kind.resolve(black_box(value), &args));
        all.push(start.elapsed());
    }
    all.sort_unstable();
    let at = |hundredth: usize| all.get(all.len() * hundredth / 100).copied().unwrap_or_default();
    (at(50), at(99))
}

fn readable(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1000.0 { format!("{micros:.1} us") } else { format!("{:.2} ms", micros / 1000.0) }
}

fn kind(declaration: Value) -> Kind {
    let Value::Object(declaration) = declaration else { panic!("a declaration is an object") };
    Kind::compile(&declaration).unwrap_or_else(|faults| panic!("{faults:?}"))
}

/// `part` as often as it fits into so many bytes.
fn filled(part: &str, bytes: usize) -> String {
    part.repeat(bytes / part.len())
}

fn repeated(part: &str) -> impl Fn(usize) -> Value {
    move |bytes| filled(part, bytes).into()
}

fn path() {
    let kind = kind(json!({
        "kind": "path", "base": "/srv/agent", "roots": ["workspace", "public"],
        "never": ["*.pem", ".env", "private/**", "*secret*", "**/a*/b*/**"],
    }));
    let case = |what| Case { kind: &kind, what };
    case("a file").typical(json!("workspace/reports/2025/q3/summary-final.txt"));
    case("the longest path").up_to(4000, |bytes| format!("workspace/{}x", filled("a/", bytes)).into());
    case("the longest path, long names")
        .up_to(4000, |bytes| format!("workspace/{}x", filled(&format!("{}/", "ab".repeat(120)), bytes)).into());
    case("steps back").up_to(4000, |bytes| format!("workspace/{}x", filled("a/../", bytes)).into());
    case("slashes").largest(repeated("workspace/"));
}

fn url_and_hostname() {
    let url = kind(json!({ "kind": "url", "hosts": ["api.firm.example", "*.docs.example"] }));
    let case = |what| Case { kind: &url, what };
    const LONGEST: usize = 16_000;
    let below = |part: &'static str| move |bytes| format!("https://api.firm.example/v1/{}", filled(part, bytes)).into();
    case("an address").typical(json!("https://api.firm.example/v1/orders/8812?expand=items#top"));
    case("a path").up_to(LONGEST, below("a/"));
    case("percent signs").up_to(LONGEST, below("%41"));
    case("letters of other scripts").up_to(LONGEST, below("\u{fc}"));
    case("a query").up_to(LONGEST, |bytes| format!("https://api.firm.example/v1/?{}", filled("a=b&", bytes)).into());
    case("labels").up_to(LONGEST, |bytes| format!("https://{}example/", filled("a.", bytes)).into());
    case("more than is read").largest(below("a/"));
    let hostname = kind(json!({ "kind": "hostname" }));
    let case = |what| Case { kind: &hostname, what };
    case("a host").typical(json!("files.eu-west.firm.com"));
    case("labels").up_to(250, |bytes| format!("{}com", filled("a.", bytes - 3)).into());
    case("labels of other scripts")
        .up_to(200, |bytes| format!("{}com", filled("\u{448}\u{43a}\u{43e}\u{43b}\u{430}.", bytes - 3)).into());
    case("an A-label").up_to(60, |bytes| format!("xn--{}", filled("a", bytes - 4)).into());
    case("more than is read").largest(repeated("a."));
}

fn email() {
    let kind = kind(json!({ "kind": "email", "strip_tags": true }));
    let case = |what| Case { kind: &kind, what };
    case("an address").typical(json!("Ana Lima <ana.lima+orders@firm.example>"));
    case("five addresses").typical(json!(["a@x.example", "b@x.example", "c@x.example", "d@x.example", "e@x.example"]));
    case("as many addresses as are taken, in one text")
        .up_to(24_000, |bytes| json!(vec!["someone@mail.firm.example"; bytes / 24].join(",")));
    case("more than that").largest(repeated("someone@mail.firm.example,"));
    case("a list").largest(|bytes| json!(vec!["a@b.example"; bytes / 14]));
    case("commas").largest(repeated(","));
    case("a display name").largest(|bytes| format!("{} <a@b.example>", filled("name ", bytes)).into());
    case("labels").largest(|bytes| format!("a@{}example", filled("b.", bytes)).into());
}

fn sql() {
    let postgres = kind(json!({ "kind": "sql", "dialect": "postgres" }));
    let generic = kind(json!({ "kind": "sql", "dialect": "generic" }));
    let case = |what| Case { kind: &postgres, what };
    const LONGEST: usize = 64 * 1024;
    case("a query").typical(json!(
        "SELECT c.id, c.name, sum(o.total) FROM customers c JOIN orders o ON o.customer = c.id \
         WHERE o.placed > now() - interval '30 days' GROUP BY c.id, c.name ORDER BY 3 DESC LIMIT 20"
    ));
    case("columns").up_to(LONGEST, |bytes| format!("SELECT {}a FROM t", filled("a,", bytes - 16)).into());
    case("a list of values")
        .up_to(LONGEST, |bytes| format!("SELECT a FROM t WHERE b IN ({}1)", filled("1,", bytes - 40)).into());
    case("statements").up_to(LONGEST, repeated("SELECT 1;"));
    case("joins").up_to(LONGEST, |bytes| format!("SELECT 1 FROM a {}", filled("JOIN b USING (c) ", bytes - 20)).into());
    case("brackets").up_to(LONGEST, repeated("("));
    case("brackets within what is taken").up_to(LONGEST, |bytes| {
        let part = format!("{}1{},", "(".repeat(20), ")".repeat(20));
        format!("SELECT {}1", filled(&part, bytes - 10)).into()
    });
    case("subqueries").up_to(LONGEST, |bytes| {
        let part = "(SELECT (SELECT (SELECT (SELECT (SELECT 1))))),";
        format!("SELECT {}1", filled(part, bytes - 10)).into()
    });
    case("CASE").up_to(LONGEST, repeated("SELECT CASE WHEN "));
    case("operators").up_to(LONGEST, |bytes| format!("SELECT 1{}", filled("+1", bytes - 10)).into());
    case("comments").up_to(LONGEST, |bytes| format!("SELECT 1 {}", filled("/**/", bytes - 10)).into());
    case("a text").up_to(LONGEST, |bytes| format!("SELECT '{}'", filled("x''", bytes - 10)).into());
    case("more than is parsed").largest(repeated("SELECT 1, "));
    let case = |what| Case { kind: &generic, what };
    case("columns, every dialect asked")
        .up_to(LONGEST, |bytes| format!("SELECT {}a FROM t", filled("a,", bytes - 16)).into());
}

fn command() {
    let kind = kind(json!({ "kind": "command" }));
    let case = |what| Case { kind: &kind, what };
    const LONGEST: usize = 64 * 1024;
    case("a pipeline").typical(json!("cd /srv/app && git log --oneline | head -n 20 > /tmp/log.txt"));
    case("words").up_to(LONGEST, repeated("word "));
    case("commands").up_to(LONGEST, repeated("a;"));
    case("substitutions").up_to(LONGEST, repeated("$(a)"));
    case("nested substitutions").up_to(LONGEST, repeated("$("));
    case("quotes").up_to(LONGEST, repeated("'a'\"b\""));
    case("commands in words").up_to(LONGEST, repeated("sh -c 'sh -c a' ; "));
    case("one command in a word")
        .up_to(LONGEST, |bytes| format!("sh -c '{}'", filled("env sh -c a;", bytes - 10)).into());
    case("backslashes").up_to(LONGEST, repeated("\\a"));
    case("a vector").up_to(LONGEST, |bytes| json!(vec!["a"; bytes / 4]));
    case("more than is read").largest(repeated("word "));
}

fn money() {
    let kind = kind(json!({ "kind": "money", "currency": "EUR" }));
    let case = |what| Case { kind: &kind, what };
    case("an amount").typical(json!("1249.90"));
    case("a number").typical(json!(1249.9));
    case("digits").largest(repeated("9"));
    case("zeros").largest(|bytes| format!("0.{}", filled("0", bytes)).into());
}

fn text() {
    let kind = kind(json!({ "kind": "text" }));
    let case = |what| Case { kind: &kind, what };
    case("a message").typical(json!(
        "Hello Ana,\n\nyour order 8812 has left the warehouse. Follow it at https://track.firm.com/8812 or write to \
         help@firm.com. The refund of 49.90 EUR goes to the card ending in 1881.\n\nKind regards\nThe shop"
    ));
    for (what, part) in [
        ("words", "some words of prose, "),
        ("one word", "a"),
        ("links", "https://a.example.com/x "),
        ("an A-label", "xn--aa"),
        ("schemes", "http://"),
        ("hosts", "a.com "),
        ("labels", "a."),
        ("addresses", "a@b.com "),
        ("at signs", "@"),
        ("a and at", "a@"),
        ("digits", "4"),
        ("digits with spaces", "4 "),
        ("cards", "4111 1111 1111 1111 "),
        ("accounts", "DE89370400440532013000 "),
        ("letters and digits", "DE89"),
        ("key beginnings", "sk_live_"),
        ("private keys", "-----BEGIN PRIVATE KEY-----"),
        ("dashes", "-"),
        ("references", "&amp;"),
        ("ampersands", "&"),
        ("numbered references", "&#x0000041;"),
        ("other scripts", "\u{fc}\u{3b1}\u{436} "),
        ("compatible letters", "\u{ff41}"),
        ("ligatures of eighteen", "\u{fdfa}"),
        ("combining marks", "a\u{301}\u{323}"),
        ("hidden characters", "\u{200b}"),
        ("percent signs", "%41"),
        ("brackets", "["),
        ("slashes", "//"),
        ("colons", ":"),
    ] {
        case(what).largest(repeated(part));
    }
}
