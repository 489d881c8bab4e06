//! What is refused when a condition is loaded.

use super::*;

#[track_caller]
fn refused_with(expected: &[(&str, &str)]) {
    for (source, part) in expected {
        let faults = faults(source, Tool::default());
        assert!(faults.iter().any(|fault| fault.message.contains(part)), "{source}: {faults:?}");
        assert!(faults.iter().all(|fault| !fault.hint.is_empty()), "{source}: {faults:?}");
    }
}

#[test]
fn unknown_names_are_refused() {
    refused_with(&[
        ("arguments.amount > 1", "no variable `arguments`"),
        ("acme", "no variable `acme`"),
        ("args.amuont > 1", "no property `args.amuont`"),
        ("args.order.totl > 1", "no property `args.order.totl`"),
        ("has(args.amuont)", "no property `args.amuont`"),
        ("args[\"amuont\"] > 1", "no property `args.amuont`"),
        ("args.lines.all(l, l.prise > 1)", "no property `args.lines[].prise`"),
        ("args.lines[0].prise > 1", "no property `args.lines[].prise`"),
        ("resolved.amount == 1", "no argument `amount` is declared"),
        ("has(resolved.bcc)", "no argument `bcc` is declared"),
        ("resolved.url.hots == \"x\"", "no field `hots`"),
        ("resolved.to.all(r, r.domian == \"x\")", "no field `domian`"),
        ("resolved.to.domain == \"x\"", "a list has no property"),
        ("vars.limt > 1", "no constant `vars.limt`"),
        ("has(vars.limt)", "no constant `vars.limt`"),
        ("vars.per_tag.green > 1", "this constant has no property `green`"),
        ("agent.name == \"x\"", "no field `name`"),
        ("run.agent == \"x\"", "no field `agent`"),
        ("now.second > 1", "no field `second`"),
        ("args.subject.length > 1", "no property"),
        ("args.few.all(f, g > 1)", "no variable `g`"),
        ("args.few.all(f, f > 1) && f > 1", "no variable `f`"),
    ]);
}

#[test]
fn unknown_functions_and_macros_are_refused() {
    for source in [
        "args.few.map(f, f + 1) == args.few",
        "size(args.few.filter(f, f > 1)) > 1",
        "int(args.subject) > 1",
        "args.subject.split(\",\")[0] == \"x\"",
        "timestamp(\"2026-01-01T00:00:00Z\") > 1",
        "args.subject.contains(\"a\", \"b\")",
        "contains(args.subject, \"a\")",
        "requested()",
        "type(args.amount) == int",
        "dyn(args.amount) == 1",
        "args.few.existsOne(f, f > 1)",
        "cel.bind(x, 1, x > 0)",
    ] {
        let faults = faults(source, Tool::default());
        assert!(faults.iter().any(|fault| fault.message.contains("no function")), "{source}: {faults:?}");
    }
}

#[test]
fn what_the_language_leaves_out_is_refused() {
    refused_with(&[
        ("args.count == 1u", "unsigned"),
        ("args.subject == b\"x\"", "byte strings"),
        ("{\"a\": 1}.a == 1", "objects cannot be written out"),
        ("Money{amount: 1}.amount == 1", "objects cannot be written out"),
        ("args.?note == \"x\"", "unsupported"),
        ("[?args.note] == 1", "unsupported"),
        ("args.few.all(f, args.pair.all(p, p == \"x\"))", "stands inside another"),
        ("args.few.all(f, args.few.exists(g, g == f))", "stands inside another"),
        ("args.few.all(args, args > 1)", "`args` has a meaning of its own"),
        ("args.few.all(f.x, true)", "plain name"),
        ("has(args)", "`has` takes a property"),
        ("has(args[\"note\"])", "`has` takes a property"),
        ("size(args) > 1", "`args` is read by its properties"),
        ("agent == 1", "`agent` is read by its properties"),
        ("\"x\" in vars", "`vars` is read by its properties"),
        ("args.pair == args.pair", "takes"),
        ("(args.urgent ? args.few : args.pair).all(f, true)", "each side of `?:`"),
        ("args.few[-1] == 1", "no negative positions"),
        ("args[args.subject] == 1", "cannot be indexed"),
    ]);
}

#[test]
fn values_that_never_fit_are_refused() {
    refused_with(&[
        ("args.amount", "a condition takes a boolean; this is a number"),
        ("\"yes\"", "a condition takes a boolean"),
        ("null", "a condition takes a boolean"),
        ("args.amount == \"5\"", "compares a number with a text"),
        ("\"5\" < args.amount", "compares a text with a"),
        ("args.subject in [1, 2]", "compares a text with a"),
        ("args.subject in vars.mixed", "compares values of one type"),
        ("args.subject in vars.nothing", "nothing is in an empty list"),
        ("args.subject in []", "nothing is in an empty list"),
        ("args.subject in args.few", "compares a text with a"),
        ("args.subject in args.short", "`in` takes"),
        ("args.urgent < true", "`<` takes"),
        ("args.subject == null", "never null"),
        ("args.note < null", "`<` takes"),
        ("args.subject + 1 == \"x\"", "`+` compares"),
        ("args.few + args.few == 1", "`+` takes"),
        ("args.subject - \"x\" == \"y\"", "`-` takes a number"),
        ("args.amount % 2 == 1", "`%` takes a whole number"),
        ("!args.amount", "`!` takes a boolean"),
        ("args.urgent && args.count", "`&&` takes a boolean"),
        ("args.count ? true : false", "`?:` takes a boolean"),
        ("(args.urgent ? 1 : \"a\") == 1", "may be a whole number or a text"),
        ("args.amount.all(a, a > 1)", "a macro over a list takes a list"),
        ("args.few.all(f, f)", "a macro over a list takes a boolean"),
        ("args.count.startsWith(\"x\")", "`startsWith` takes a text"),
        ("size(args.count) > 1", "`size` takes"),
        ("requested(args.urgent)", "`requested` takes"),
        ("requested(args.few)", "`requested` takes"),
        ("args.few[\"a\"] == 1", "no property"),
        ("args.few[\"a\" + \"b\"] == 1", "an index of a list takes a whole number"),
    ]);
}

#[test]
fn comparing_what_the_schema_gives_no_one_type_is_refused() {
    refused_with(&[
        ("args.mixed == \"x\"", "may be"),
        ("args.mixed > 1", "may be"),
        ("args.anything == 1", "may be"),
        ("args.anything in [1]", "may be"),
        ("args.anything", "may be"),
        ("args.mixed.contains(\"x\")", "may be"),
    ]);
    assert_eq!(faults("has(args.anything) || has(args.mixed)", Tool::default()), []);
}

#[test]
fn patterns_are_written_out_and_compile() {
    refused_with(&[
        ("args.subject.matches(args.short)", "must be a text written out"),
        ("glob(args.subject, args.short)", "must be a text written out"),
        ("args.subject.matches(\"a(\")", "does not compile"),
        ("args.subject.matches(\"a)|(b\")", "does not compile"),
        ("args.subject.matches(\"(?=a)b\")", "does not compile"),
        ("args.subject.matches(\"(a)\\\\1\")", "does not compile"),
        ("args.subject.matches(\"((a{1,100}){1,100}){1,100}\")", "does not compile"),
        ("args.subject.matches(\"(a|b)*a(a|b){30}\")", "does not compile"),
        ("glob(args.subject, \"\")", "does not compile"),
    ]);
}

#[test]
fn a_secret_is_not_read() {
    for source in ["args.token == \"x\"", "has(args.token)", "size(args.token) > 3"] {
        let faults = faults(source, Tool::default());
        assert!(faults.iter().any(|fault| fault.message.contains("secret")), "{source}: {faults:?}");
    }
}

#[test]
fn a_loosening_rule_reads_the_resolved_form() {
    let loosening = Tool { loosens: true, open: false };
    for source in [
        "args.url.startsWith(\"https://acme.example/\")",
        "args[\"url\"] == \"x\"",
        "has(args.url)",
        "size(args.to) == 1",
        "args.to.all(t, t.endsWith(\"@acme.example\"))",
        "args.to[0] == \"ana@acme.example\"",
        "args.lines.all(l, l.file == \"x\")",
        "args.lines[0].file == \"x\"",
    ] {
        let faults = faults(source, loosening);
        assert!(faults.iter().any(|fault| fault.message.contains("raw value")), "{source}: {faults:?}");
        assert_eq!(super::faults(source, Tool::default()), [], "{source}");
    }
    for source in [
        "resolved.url.host == \"acme.example\"",
        "args.subject == \"x\"",
        "args.lines.all(l, l.price < 3)",
        "resolved[\"/lines/*/file\"].all(f, f.name == \"x\")",
    ] {
        assert_eq!(faults(source, loosening), [], "{source}");
    }
}

#[test]
fn no_rule_loosens_an_open_tool() {
    assert_eq!(faults("true", Tool { loosens: true, open: true }).len(), 1);
    assert_eq!(faults("true", Tool { loosens: false, open: true }), []);
    assert_eq!(faults("true", Tool { loosens: true, open: false }), []);
}

#[test]
fn faults_name_their_column_in_characters_and_come_all_at_once() {
    let source = "args.subject == \"äöü\" && args.nope == 1 && nix && args.amount == \"x\"";
    let faults = faults(source, Tool::default());
    let at = |part: &str| source.split(part).next().map(|before| before.chars().count());
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert_eq!(faults[0].column, at(".nope"));
    assert_eq!(faults[1].column, at("nix"));
    assert_eq!(faults[2].column, at("== \"x\""));
    let called = super::faults("args.urgent && args.subject.trim() == \"ä\" || int(1) > 1", Tool::default());
    assert_eq!(called.iter().map(|fault| fault.column).collect::<Vec<_>>(), [Some(28), Some(45)]);
}

#[test]
fn faults_of_syntax_name_their_column() {
    let columns =
        |source: &str| faults(source, Tool::default()).into_iter().map(|fault| fault.column).collect::<Vec<_>>();
    assert_eq!(columns("args.amount >"), [Some(13)]);
    assert_eq!(columns("true &&\n  ) true").first(), Some(&Some(10)));
    assert_eq!(columns("\"ä\" == # 1").first(), Some(&Some(7)));
    assert_eq!(columns("args.amount > 1 args.amount").first(), Some(&Some(16)));
}

#[test]
fn bounds_are_kept() {
    let long = format!("args.subject == \"{}\"", "x".repeat(1_024));
    let many = format!("{}true", "args.urgent || ".repeat(60));
    let parts = format!("args.count in [{}1]", "1,".repeat(300));
    let deep = format!("{}1 > 0", "1+".repeat(100));
    refused_with(&[
        ("", "is empty"),
        (" \n ", "is empty"),
        (&long, "bytes long"),
        (&parts, "parts"),
        (&deep, "nested more than"),
        ("args.tags.all(t, t in args.tags)", "steps"),
        ("args.tags.all(t, args.subject.contains(t))", "steps"),
    ]);
    assert_eq!(faults(&many, Tool::default()), []);
    assert_eq!(faults(&format!("{}1 > 0", "1+".repeat(60)), Tool::default()), []);
    assert_eq!(faults("args.tags.all(t, t.endsWith(\"x\") && t.contains(\"y\"))", Tool::default()), []);
    assert_eq!(faults("args.pair.all(t, args.subject.contains(t))", Tool::default()), []);
}
