//! What a reviewer is shown.

use countersign::domain::{
    call::{Arguments, CallKey, ToolCall},
    facts::Facts,
    identity::AgentId,
    ids::{RunId, ToolUseId},
    judge::judge,
    lookup::{Looked, LookupFailure, LookupResults},
    review::{AskingRule, Held, Review, ReviewHash, ShownValue, visible},
    run::{Run, RunKey},
    subject::Subject,
    verdict::{Risk, Verdict},
};
use serde_json::{Value, json};
use sha2::Digest as _;

use crate::support::{
    clock::START,
    world::{object, policy},
};

mod alike;
mod difference;

/// A review of a call of `bot` in `run-1` with these arguments, all else being plain.
pub(super) fn shown(args: &Value) -> Review {
    let policy = policy(
        r#"
schema = 1
[tools.tool]
risk = "send"
open = true
parameters = { type = "object", properties = {} }
"#,
    );
    let key = CallKey {
        agent: AgentId::parse("bot").unwrap(),
        run: RunId::parse("run-1").unwrap(),
        turn: 0,
        tool_use_id: ToolUseId::parse("t1").unwrap(),
    };
    let run = Run::new(RunKey::of(&key));
    let arguments = Arguments::new(object(args.clone())).unwrap();
    let call = ToolCall { key, tool: "tool".to_owned(), args: arguments, context: None };
    let judgement = judge(&policy, &call, &Facts::default(), START);
    Review::of(Held {
        tool: policy.tool("tool").unwrap(),
        args,
        judgement: &judgement,
        requirement: judgement.requirement.as_ref().unwrap(),
        run: &run,
        lookups: &LookupResults::default(),
        expires_at: START,
    })
}

#[test]
fn plain_text_is_shown_as_it_is() {
    for text in ["Grüße, 世界 \"quoted\" 'too'", "e\u{301}", "नमस्ते", "a b"] {
        assert_eq!(visible(text), text);
    }
}

#[test]
fn what_could_deceive_is_shown_as_its_code_point() {
    for (text, shown) in [
        ("rm\u{200b} -rf", "rm\\u{200b} -rf"),
        ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
        ("a\u{a0}b", "a\\u{a0}b"),
        ("a\u{2028}b", "a\\u{2028}b"),
        ("a\nb\tc\0", "a\\nb\\tc\\0"),
        ("\u{feff}x", "\\u{feff}x"),
        ("x\u{fe0f}", "x\\u{fe0f}"),
        ("\u{3164}", "\\u{3164}"),
        ("\u{e0041}", "\\u{e0041}"),
        ("Z\u{301}\u{302}\u{303}\u{304}", "Z\u{301}\u{302}\\u{303}\\u{304}"),
    ] {
        assert_eq!(visible(text), shown);
    }
}

#[test]
fn an_escape_cannot_be_forged_by_typing_it() {
    assert_eq!(visible("\\u{202e}"), "\\\\u{202e}");
    assert_ne!(visible("\\u{202e}"), visible("\u{202e}"));
}

#[test]
fn runs_of_space_are_counted_and_spaces_at_the_ends_are_shown() {
    for (text, shown) in [
        ("a  b", "a\\u{20×2}b"),
        ("rm          -rf", "rm\\u{20×10}-rf"),
        (" a", "\\u{20}a"),
        ("a ", "a\\u{20}"),
        ("   ", "\\u{20×3}"),
        ("a b c", "a b c"),
        ("a \u{200b} b", "a \\u{200b} b"),
    ] {
        assert_eq!(visible(text), shown);
    }
    assert_ne!(visible("a\\u{20×2}b"), visible("a  b"));
}

/// A tool of each sort of argument.
const POLICY: &str = r#"
schema = 1
[tools.run]
risk = "destructive"
parameters = { type = "object", properties = { argv = { type = "array", items = { type = "string" } } } }
[tools.shell]
risk = "destructive"
parameters = { type = "object", properties = { line = { type = "string" } } }
[tools.shell.arguments.line]
kind = "command"
[tools.fetch]
risk = "send"
parameters = { type = "object", properties = { url = { type = "string" } } }
[tools.fetch.arguments.url]
kind = "url"
[tools.mail]
risk = "send"
idempotent = true
subject = { to = "/to" }
parameters = { type = "object", properties = { to = { type = "string" } } }
[tools.mail.arguments.to]
kind = "email"
[[tools.mail.rules]]
id = "all"
when = 'true'
verdict = "require_approval"
reason = "every mail is looked at"
approval = { reviewers = ["leads"] }
[tools.write]
risk = "draft"
default = "require_approval"
parameters = { type = "object", properties = { path = { type = "string" } } }
[tools.write.arguments.path]
kind = "path"
base = "/srv/agent"
roots = ["public"]
[tools.look]
risk = "send"
parameters = { type = "object", required = ["id"], properties = { id = { type = "string" } } }
[tools.look.lookups.order]
url = "https://orders.acme.example/{id}"
show = { total = "/total", items = "/items" }
[tools.look.lookups.effect]
url = "https://orders.acme.example/dry-run"
method = "POST"
show = { after = "/after" }
"#;

fn reviewed(tool: &str, args: Value, lookups: &LookupResults) -> Review {
    let policy = policy(POLICY);
    let call = ToolCall {
        key: CallKey {
            agent: AgentId::parse("bot").unwrap(),
            run: RunId::parse("run-1").unwrap(),
            turn: 0,
            tool_use_id: ToolUseId::parse("t1").unwrap(),
        },
        tool: tool.to_owned(),
        args: Arguments::new(object(args)).unwrap(),
        context: None,
    };
    let judgement = judge(&policy, &call, &Facts::default(), START);
    assert_eq!(judgement.verdict, Verdict::RequireApproval, "{judgement:#?}");
    let parent = RunKey { agent: AgentId::parse("boss").unwrap(), run: RunId::parse("run-0").unwrap() };
    let run = Run {
        ancestors: vec![parent],
        on_behalf_of: Some("ana\u{202e}".to_owned()),
        ..Run::new(RunKey::of(&call.key))
    };
    Review::of(Held {
        tool: policy.tool(tool).unwrap(),
        args: call.args.json(),
        judgement: &judgement,
        requirement: judgement.requirement.as_ref().unwrap(),
        run: &run,
        lookups,
        expires_at: START,
    })
}

fn review(tool: &str, args: Value) -> Review {
    reviewed(tool, args, &LookupResults::default())
}

/// Each value as `pointer=shown`.
fn lines(values: &[ShownValue]) -> Vec<String> {
    values.iter().map(|value| format!("{}={}", value.at, value.shown)).collect()
}

#[test]
fn a_review_says_what_the_tool_can_do_who_asks_and_who_must_approve() {
    let shown = review("mail", json!({ "to": "ana@acme.example" }));
    assert_eq!((shown.risk, shown.reversible, shown.idempotent), (Risk::Send, false, true));
    let asking = AskingRule { rule: "all".to_owned(), reason: "every mail is looked at".to_owned() };
    assert_eq!((shown.asked_by, shown.reason.as_str()), (vec![asking], "every mail is looked at"));
    let chain: Vec<_> = shown.chain.iter().map(|key| format!("{}/{}", key.agent, key.run)).collect();
    assert_eq!(chain, ["bot/run-1", "boss/run-0"]);
    assert_eq!(shown.on_behalf_of.as_deref(), Some("ana\\u{202e}"));
    assert_eq!((shown.approvers.groups, shown.approvers.need), ([("leads".to_owned(), 1)].into(), 1));
    assert_eq!(shown.subjects, [Subject { name: "to".to_owned(), value: "ana@acme.example".to_owned() }]);
    let draft = review("write", json!({ "path": "public/a" }));
    assert_eq!((draft.risk, draft.reversible, draft.idempotent), (Risk::Draft, true, false));
}

#[test]
fn words_of_a_command_stand_apart() {
    let one = review("run", json!({ "argv": ["rm", "-rf", "a b"] }));
    let other = review("run", json!({ "argv": ["rm", "-rf", "a", "b"] }));
    assert_eq!(lines(&one.arguments), ["/argv/0=rm", "/argv/1=-rf", "/argv/2=a b"]);
    assert_eq!(lines(&other.arguments), ["/argv/0=rm", "/argv/1=-rf", "/argv/2=a", "/argv/3=b"]);
    let quoted = review("shell", json!({ "line": "rm -rf 'a b'" }));
    let bare = review("shell", json!({ "line": "rm -rf a b" }));
    assert!(lines(&quoted.resolved).contains(&"/line/words/2=a b".to_owned()), "{:?}", quoted.resolved);
    assert!(lines(&bare.resolved).contains(&"/line/words/2=a".to_owned()), "{:?}", bare.resolved);
}

#[test]
fn what_an_argument_stands_for_is_shown_where_it_differs() {
    assert_eq!(review("fetch", json!({ "url": "https://api.github.com/a" })).resolved, []);
    assert_eq!(review("mail", json!({ "to": "Ana <ana@acme.example>" })).resolved, []);
    let path = lines(&review("write", json!({ "path": "public/../public/a.txt" })).resolved);
    assert!(path.contains(&"/path/path=/srv/agent/public/a.txt".to_owned()), "{path:?}");
}

#[test]
fn an_internationalised_host_is_shown_in_both_forms() {
    for url in ["https://bücher.de/a", "https://xn--bcher-kva.de/a"] {
        let shown = lines(&review("fetch", json!({ "url": url })).resolved);
        assert!(shown.contains(&"/url/host=xn--bcher-kva.de (bücher.de)".to_owned()), "{url}: {shown:?}");
    }
    let mail = lines(&review("mail", json!({ "to": "ana@bücher.de" })).resolved);
    assert!(mail.contains(&"/to/0/domain=xn--bcher-kva.de (bücher.de)".to_owned()), "{mail:?}");
}

#[test]
fn lookups_are_shown_with_what_they_found_or_as_failed() {
    let order = [("items".to_owned(), json!(["a", "b\u{200b}"])), ("total".to_owned(), json!(12.5))];
    let found = [
        ("order".to_owned(), Looked::Answered(order.into())),
        ("effect".to_owned(), Looked::Failed(LookupFailure::TimedOut)),
    ];
    let shown = reviewed("look", json!({ "id": "A-17" }), &found.into_iter().collect()).lookups;
    assert_eq!((shown[0].name.as_str(), shown[0].preview), ("effect", true));
    assert_eq!((shown[0].failed.as_deref(), lines(&shown[0].values)), (Some("timed_out"), vec![]));
    assert_eq!((shown[1].name.as_str(), shown[1].preview, shown[1].failed.as_deref()), ("order", false, None));
    assert_eq!(lines(&shown[1].values), ["/items/0=a", "/items/1=b\\u{200b}", "/total=12.5"]);
}

#[test]
fn the_hash_is_that_of_the_stored_text_which_reads_back_as_it_was() {
    let shown = review("mail", json!({ "to": "ana@acme.example" }));
    let text = shown.canonical().unwrap();
    assert_eq!(Review::read(&text), Some(shown.clone()));
    let other = review("mail", json!({ "to": "eva@acme.example" }));
    assert_ne!(ReviewHash::of(&text), ReviewHash::of(&other.canonical().unwrap()));
    assert_eq!(ReviewHash::of("{}").to_string(), format!("sha256:{}", hex::encode(sha2::Sha256::digest("{}"))));
}
