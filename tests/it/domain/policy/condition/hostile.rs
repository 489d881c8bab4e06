//! Sources and values made to break the parser or the evaluator.

use super::*;

#[test]
fn hostile_sources_come_back_as_faults() {
    let chains = [
        ("(", 100_000, "1", ")"),
        ("[", 100_000, "1", "]"),
        ("(", 400, "true", ")"),
        ("[", 400, "1", "]"),
        ("-(", 300, "1", ")"),
        ("!(", 300, "true", ")"),
    ];
    let mut sources: Vec<String> = chains
        .iter()
        .flat_map(|(open, times, middle, close)| {
            let opened = open.repeat(*times);
            [opened.clone(), format!("{opened}{middle}"), format!("{opened}{middle}{}", close.repeat(*times))]
        })
        .collect();
    for (part, times) in [("1+", 2_000), ("1+", 500), ("true||", 100_000), ("true ? 1 : ", 90), ("1 == ", 200)] {
        sources.push(format!("{}1", part.repeat(times)));
    }
    for (part, times) in [(".a", 100_000), (".a", 500), ("[0]", 100_000), ("[0]", 330), (".a()", 250), ("-", 1_000)] {
        sources.push(format!("args{}", part.repeat(times)));
    }
    sources.push(format!("{}1", "-".repeat(1_000)));
    sources.push(format!("{}true", "!".repeat(1_001)));
    sources.push("a.all(a,".repeat(120));
    sources.extend(
        ["\0", "\u{feff}true", "\"", "'''", "\\", "`", "args.``", "1e999 > 0", "0x", "9223372036854775808 > 0"]
            .map(str::to_owned),
    );
    sources.extend(
        ["\"\\ud800\" == \"\"", "\"\\x\" == \"\"", ".args.amount > 1", "args .amount > 1 //", "a b", "true;"]
            .map(str::to_owned),
    );
    let harmless = ["args .amount > 1 //".to_owned(), format!("{}true", "!".repeat(1_001))];
    for source in sources {
        let faults = faults(&source, Tool::default());
        let shown: String = source.chars().take(60).collect();
        if !harmless.contains(&source) {
            assert!(!faults.is_empty(), "{shown}");
        }
        let length = source.chars().count();
        assert!(faults.iter().all(|fault| fault.column.is_none_or(|column| column <= length)), "{shown}: {faults:?}");
    }
}

fn one_of(sources: &'static [&'static str]) -> BoxedStrategy<String> {
    prop::sample::select(sources).prop_map(str::to_owned).boxed()
}

/// An expression that is a number, if it is anything.
fn number(depth: u32) -> BoxedStrategy<String> {
    let leaf = one_of(&[
        "args.amount",
        "args.count",
        "args.lines[0].price",
        "args.order.total",
        "resolved.url.port",
        "context.number",
        "vars.limit",
        "now.hour",
        "0",
        "-1.5",
        "9223372036854775807",
        "size(args.tags)",
    ]);
    if depth == 0 {
        return leaf;
    }
    let inner = number(depth - 1);
    prop_oneof![
        leaf,
        (inner.clone(), one_of(&["+", "-", "*", "/"]), inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
        (boolean(depth - 1), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
        inner.prop_map(|a| format!("-({a})")),
        text(depth - 1).prop_map(|a| format!("size({a})")),
    ]
    .boxed()
}

/// An expression that is a text, if it is anything.
fn text(depth: u32) -> BoxedStrategy<String> {
    let leaf = one_of(&[
        "args.short",
        "args.note",
        "args.pair[1]",
        "resolved.url.host",
        "resolved.to[1].domain",
        "context.ticket",
        "run.on_behalf_of",
        "agent.labels.team",
        "vars.domains[0]",
        "\"a\"",
        "\"\"",
    ]);
    if depth == 0 {
        return leaf;
    }
    let inner = text(depth - 1);
    prop_oneof![
        leaf,
        (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} + {b})")),
        (boolean(depth - 1), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
        inner.prop_map(|a| format!("{a}.lowerAscii()")),
    ]
    .boxed()
}

/// An expression that is a boolean, if it is anything.
fn boolean(depth: u32) -> BoxedStrategy<String> {
    let leaf =
        one_of(&["args.urgent", "context.flag", "true", "has(args.note)", "args.note == null", "\"a\" in context"]);
    if depth == 0 {
        return leaf;
    }
    let (inner, number, text) = (boolean(depth - 1), number(depth - 1), text(depth - 1));
    let order = one_of(&["==", "!=", "<", "<=", ">", ">="]);
    prop_oneof![
        leaf,
        (number.clone(), order.clone(), number.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
        (text.clone(), order, text.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
        (inner.clone(), one_of(&["&&", "||", "=="]), inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
        inner.clone().prop_map(|a| format!("!{a}")),
        (text.clone(), one_of(&["contains", "startsWith", "endsWith"]), text.clone())
            .prop_map(|(a, name, b)| format!("{a}.{name}({b})")),
        text.clone().prop_map(|a| format!("{a}.matches(\"[a-z]*\") && glob({a}, \"**/a*\")")),
        text.clone().prop_map(|a| format!("({a} in vars.domains || {a} in [{a}, args.short])")),
        number.prop_map(|a| format!("({a} in args.few || requested({a}))")),
        (one_of(&["all", "exists", "exists_one"]), inner, text)
            .prop_map(|(name, a, b)| format!("args.pair.{name}(x, x == {b} || {a})")),
    ]
    .boxed()
}

/// Any JSON, with values that make arithmetic and comparisons fail.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(
                prop::sample::select(vec!["total", "price", "host", "team", "id"]),
                inner,
                0..4
            )
            .prop_map(|map| Value::Object(map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Map<String, Value>> {
    let names = ["amount", "count", "subject", "note", "urgent", "few", "tags", "lines", "order", "pair", "short"]
        .map(str::to_owned);
    prop::collection::btree_map(prop::sample::select(names.to_vec()), json_value(), 0..11)
        .prop_map(|map| map.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_condition_panics_whatever_the_call(source in boolean(4), args in arguments(), facts in json_value()) {
        let call = Call {
            args,
            agent: facts.clone(),
            context: Some(facts.clone()),
            run: Some(facts),
            ..Call::with(json!({}))
        };
        // What is too large or looks into a list within another macro is refused; the rest is evaluated.
        if let Ok(condition) = Condition::compile(&source, &Tool::default()) {
            call.evaluate_with(&condition, Request::Made(&|_| true));
        }
    }

    #[test]
    fn no_source_panics_the_compiler(source in "[-a-z0-9()\\[\\]{}.,?:|&!=<>+*/%\"'` \\\\äu]{0,80}") {
        let _ = faults(&source, Tool::default());
    }

    #[test]
    fn a_failing_operand_fails_whatever_is_reached_through(
        failing in prop::sample::select(vec![
            "args.missing_flag", "args.number == \"a\"", "args.text > 1", "1 / (args.number - args.number) == 1",
        ]),
        wrap in prop::collection::vec(0_usize..9, 0..5),
    ) {
        let failing = failing
            .replace("args.missing_flag", "args.urgent")
            .replace("args.number == \"a\"", "args.subject == \"a\"")
            .replace("args.text > 1", "args.amount > 1")
            .replace("args.number", "args.count");
        let source = wrap.iter().fold(failing, |inner, way| match way {
            0 => format!("({inner} || true)"),
            1 => format!("({inner} && false)"),
            2 => format!("(false || {inner})"),
            3 => format!("(true && {inner})"),
            4 => format!("!({inner})"),
            5 => format!("({inner} ? true : true)"),
            6 => format!("(true ? {inner} : false)"),
            7 => format!("({inner} == true)"),
            _ => format!("(({inner}) in [true, false])"),
        });
        let call = Call::with(json!({ "subject": 5, "amount": "5", "count": 3, "few": [1] }));
        let condition = compiled(&source);
        prop_assert!(matches!(call.evaluate_with(&condition, Request::None), RuleState::Failed(_)), "{}", source);
        for name in ["all", "exists", "exists_one"] {
            let state = call.evaluate(&format!("args.few.{name}(f, {source})"));
            prop_assert!(matches!(state, RuleState::Failed(_)), "{}", source);
        }
    }
}
