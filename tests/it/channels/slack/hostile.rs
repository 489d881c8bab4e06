//! Whatever a call holds: every message is one that Slack takes, shows it as it is, and offers an approve only where it
//! shows all of it.

use countersign::{
    app::ports::Card,
    channels::slack::{
        escape::units,
        interaction::About,
        message::{self, Clicks, Message, Offer},
        view,
    },
    domain::{notice::NoticeEvent, review::visible},
};
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};

use super::cards::{card, shown};
use crate::support::{programs, sample, slack::shown as texts};

fn hostile() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        any::<String>(),
        proptest::string::string_regex("[ -~]{0,40}").unwrap(),
        Just("\u{202e}\u{2066}gpj.exe".to_owned()),
        Just("\u{200b}\u{200d}\u{feff}\u{e0041}\u{3164}\u{ad}".to_owned()),
        Just("<!channel> <@U1|ana> <https://evil.example|ok> &lt;!here&gt; &amp;".to_owned()),
        Just("*bold* _i_ ~s~ `code` ```\n> quote :skull: @here #general".to_owned()),
        Just("<script>alert(1)</script>\"'\\".to_owned()),
        Just("\n• /amount (number): 1\n(goes on)\n[cut here: this is not all]".to_owned()),
        Just(" ".repeat(400)),
        Just("\n".repeat(200)),
        Just("\u{ffff}\u{fffe}\u{0}\u{1b}[2J\u{7f}".to_owned()),
        Just("e\u{301}\u{302}\u{303}\u{304}\u{305}".to_owned()),
        Just("𝔘🧨".repeat(50)),
        (1_usize..5_200).prop_map(|length| "&".repeat(length)),
        (1_usize..5_200).prop_map(|length| "rm -rf a; ".repeat(length / 10)),
    ];
    prop::collection::vec(fragment, 0..6).prop_map(|fragments| fragments.concat())
}

fn cards() -> impl Strategy<Value = Card> {
    let argument = ("[a-z]{1,8}", hostile()).boxed();
    // Few, which often fit, as well as many.
    let size = prop_oneof![2 => 0_usize..3, 1 => 3_usize..30];
    let arguments = size.prop_flat_map(move |size| prop::collection::vec(argument.clone(), size));
    (arguments, hostile(), hostile(), hostile(), 0_u8..4).prop_map(|(arguments, rationale, tool, reason, state)| {
        let value = |(name, text): &(String, String)| shown(&format!("/{name}"), "string", text);
        let mut card = card(arguments.iter().map(value).collect());
        card.rationale = Some(rationale);
        card.approval.tool.clone_from(&tool);
        card.approval.reason.clone_from(&reason);
        if let Some(review) = &mut card.review {
            (review.tool, review.reason) = (tool, reason.clone());
            review.on_behalf_of = Some(visible(&reason));
        }
        card.approval = match state {
            0 => sample::approved(card.approval),
            1 => card.approval.deny(sample::reviewer("ana"), Some(reason), sample::at(60)).unwrap().0,
            _ => card.approval,
        };
        card
    })
}

fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Fails unless a text is escaped and holds nothing that deceives.
fn check_text(text: &str, most: usize) {
    assert!((1..=most).contains(&text.encode_utf16().count()), "{} of {most}", text.encode_utf16().count());
    assert!(!text.contains(['<', '>']), "{text}");
    let entities = text.matches("&lt;").count() + text.matches("&gt;").count() + text.matches("&amp;").count();
    assert_eq!(text.matches('&').count(), entities, "{text}");
    for line in text.split('\n') {
        // Nothing is left that would have had to be made visible.
        let deceives =
            |character: char| character != ' ' && visible(&format!("x{character}x")) != format!("x{character}x");
        let plain = unescaped(line);
        assert!(plain.chars().filter(|character| *character != '\\').all(|character| !deceives(character)), "{line:?}");
    }
}

fn check_objects(value: &Value, inside: &str) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| check_objects(item, inside)),
        Value::Object(object) => {
            assert_ne!(object.get("type"), Some(&json!("mrkdwn")));
            if object.get("type") == Some(&json!("plain_text")) {
                assert_eq!(object["emoji"], false);
                let most = match inside {
                    "header" => 150,
                    "section" | "context" => 3_000,
                    _ => 300,
                };
                check_text(object["text"].as_str().unwrap(), most);
            }
            if let Some(value) = object.get("value") {
                assert!(value.as_str().unwrap().len() <= 2_000);
            }
            let inside =
                object.get("type").and_then(Value::as_str).filter(|kind| *kind != "plain_text").unwrap_or(inside);
            object.values().for_each(|value| check_objects(value, inside));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check(message: &Message) {
    check_text(&message.text, 4_000);
    let blocks = Value::Array(message.blocks.clone());
    assert!(message.blocks.len() <= 50);
    check_objects(&blocks, "");
    assert!(texts(&blocks).encode_utf16().count() <= 12_000, "{}", texts(&blocks).encode_utf16().count());
}

#[test]
fn every_message_is_one_that_slack_takes_and_an_approve_is_below_everything_or_not_there() {
    // The same cases every time: how many can be approved is asserted below.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner =
        TestRunner::new_with_rng(Config { cases: 96, failure_persistence: None, ..Config::default() }, rng);
    let rendered = std::cell::RefCell::new(Vec::new());
    let (approvable, not_whole) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let run = runner.run(&cards(), |card| {
        let full = message::card(&card, Clicks::Verified, "ntc_0192");
        let several = [card.clone(), card.clone(), card.clone(), card.clone()];
        let messages = [
            message::bare_card(&card, "ntc_1"),
            message::reminder(&card, NoticeEvent::Reminder, "ntc_2"),
            message::digest(&several, "https://approve.test/review", "ntc_3"),
            message::bare_digest(&several, "https://approve.test/review", "ntc_4"),
            message::card(&card, Clicks::Nobodys, "ntc_5"),
        ];
        check(&full);
        let blocks = Value::Array(full.blocks.clone());
        let offered = blocks.to_string().contains("approval.approve");
        if offered {
            approvable.set(approvable.get() + 1);
            assert_eq!(message::offer(&card, Clicks::Verified), Offer::Approve);
            let whole = unescaped(&texts(&blocks)).replace("\n(goes on)\n", "");
            for argument in &card.review.as_ref().unwrap().arguments {
                assert!(
                    whole.contains(&format!("• {}: \"{}\"", argument.at, argument.shown)),
                    "{argument:?} in {whole}"
                );
            }
        } else if card.approval.votes().is_empty() {
            not_whole.set(not_whole.get() + 1);
        }
        let mut rendered = rendered.borrow_mut();
        for message in messages.iter().chain([&full]) {
            check(message);
            rendered.push(json!({ "text": message.text, "blocks": message.blocks }));
        }
        let about = About {
            channel: "finance-chat".to_owned(),
            shown: message::shown(&card),
            confirmation: Some("c".repeat(68)),
        };
        for view in [view::deny(&card, &about), view::confirm(&card, &about, Some("Too quick."))] {
            check_objects(&view, "");
            rendered.push(view);
        }
        Ok(())
    });
    run.unwrap();
    assert!(approvable.get() > 5 && not_whole.get() > 5, "{approvable:?} {not_whole:?}");
    let rendered = rendered.into_inner();
    let lines: String = rendered.iter().map(|message| format!("{message}\n")).collect();
    assert_eq!(programs::told(programs::python("slack_models.py"), &lines).trim(), rendered.len().to_string());
}

#[test]
fn text_is_measured_as_it_is_sent() {
    assert_eq!(units("a<b>&🧨"), "a&lt;b&gt;&amp;".len() + 2);
}
