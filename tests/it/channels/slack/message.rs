//! What people see in Slack.

use countersign::{
    channels::slack::message::{self, Clicks, Hindrance, Message, Offer},
    domain::{
        approval::state::{Approval, Canceller, State},
        notice::NoticeEvent,
    },
};
use serde_json::{Value, json};

use super::cards::{card, refund, shown, web_only};
use crate::support::{
    sample,
    slack::{button, shown as texts},
};

fn blocks(message: &Message) -> Value {
    Value::Array(message.blocks.clone())
}

fn rendered(card: &countersign::app::ports::Card) -> (Value, String) {
    let message = message::card(card, Clicks::Verified, "m1");
    let blocks = blocks(&message);
    let shown = texts(&blocks);
    (blocks, shown)
}

#[test]
fn a_card_shows_the_call_the_rule_and_who_decides_and_marks_the_models_words() {
    let card = refund();
    let (blocks, shown) = rendered(&card);
    for part in [
        card.approval.code.as_str(),
        "Tool: issue_refund",
        "Agent: billing-bot",
        "cannot be undone",
        "running it twice is as running it once",
        "Asked by rule large-refund: over 5000",
        "On behalf of: alice@acme.example",
        "• /amount (number): 6000",
        "• /order: \"A-17\"",
        "Needs: one more from anyone",
        "Expires: 2027-01-15 12:00 UTC",
        "The model's own words, which nobody has verified:\nThe customer was charged twice.",
        "arguments: 2, all shown",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let approve = button(&blocks, "approval.approve").unwrap();
    assert_eq!(approve["confirm"]["confirm"]["text"], "Approve");
    assert_eq!(approve["value"], message::shown(&card).to_string());
    assert_eq!(button(&blocks, "approval.deny").unwrap()["value"], approve["value"]);
    assert_eq!(button(&blocks, "approval.open").unwrap()["url"], card.url);
}

#[test]
fn what_stands_for_the_blocks_says_what_is_asked_and_where() {
    let card = refund();
    let text = message::card(&card, Clicks::Verified, "m1").text;
    for part in [card.approval.code.as_str(), "issue_refund", "billing-bot", "6000", "A-17", "one more", &card.url] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn what_a_command_consists_of_stands_apart() {
    let argv = |elements: &[&str]| {
        let at = |(index, element): (usize, &&str)| shown(&format!("/argv/{index}"), "string", element);
        rendered(&card(elements.iter().enumerate().map(at).collect())).1
    };
    assert!(argv(&["rm", "-rf", "a b"]).contains("• /argv/0: \"rm\"\n• /argv/1: \"-rf\"\n• /argv/2: \"a b\""));
    assert!(argv(&["rm", "-rf", "a", "b"]).contains("• /argv/2: \"a\"\n• /argv/3: \"b\""));
}

#[test]
fn what_looks_like_another_line_or_like_a_mention_is_text() {
    let hostile = "x\"\n• /amount (number): 1\n<!channel> <@U1> &lt;!here&gt; \u{202e}txt \u{200b}    .";
    let (blocks, shown) = rendered(&card(vec![shown("/note", "string", hostile)]));
    let line = "• /note: \"x\"\\n• /amount (number): 1\\n&lt;!channel&gt; &lt;@U1&gt; &amp;lt;!here&amp;gt; \
                \\u{202e}txt \\u{200b}\\u{20×4}.\"";
    assert!(shown.contains(line), "{shown}");
    assert!(!blocks.to_string().contains('<'));
}

#[test]
fn a_long_command_is_shown_over_several_blocks_or_cannot_be_approved_here() {
    let long = |bytes: usize| card(vec![shown("/command", "string", &"echo a; ".repeat(bytes / 8))]);
    let fits = long(5 * 1024);
    assert_eq!(message::offer(&fits, Clicks::Verified), Offer::Approve);
    let (blocks, shown) = rendered(&fits);
    let whole = shown.replace("\n(goes on)\n", "");
    let review = fits.review.as_ref().unwrap();
    assert!(whole.contains(&review.arguments[0].shown), "{shown}");
    assert!(blocks.as_array().unwrap().iter().all(|block| block["type"] != "section" || block["expand"] == true));

    let too_long = long(20 * 1024);
    assert_eq!(message::offer(&too_long, Clicks::Verified), Offer::Elsewhere(Hindrance::TooLong));
    let (blocks, shown) = rendered(&too_long);
    assert!(button(&blocks, "approval.approve").is_none());
    assert!(button(&blocks, "approval.deny").is_some() && button(&blocks, "approval.open").is_some());
    assert!(shown.contains(Hindrance::TooLong.sentence()) && shown.contains("not all shown"), "{shown}");
}

#[test]
fn an_approve_is_offered_only_where_it_may_be_given() {
    let mut erased = refund();
    erased.review = None;
    let mut fresh = refund();
    fresh.approval.requirement.step_up = true;
    for (card, clicks, hindrance) in [
        (fresh, Clicks::Verified, Hindrance::SignIn),
        (web_only(), Clicks::Verified, Hindrance::OnTheWeb),
        (erased, Clicks::Verified, Hindrance::Erased),
        (refund(), Clicks::Nobodys, Hindrance::NoClicks),
    ] {
        assert_eq!(message::offer(&card, clicks), Offer::Elsewhere(hindrance));
        let blocks = blocks(&message::card(&card, clicks, "m1"));
        assert!(button(&blocks, "approval.approve").is_none(), "{hindrance:?}");
        assert_eq!(button(&blocks, "approval.deny").is_some(), clicks == Clicks::Verified);
        assert!(button(&blocks, "approval.open").is_some());
        assert!(texts(&blocks).contains(hindrance.sentence()));
    }
}

#[test]
fn what_takes_two_clicks_is_asked_by_a_dialog_of_ours() {
    let mut card = refund();
    card.approval.requirement.double_confirm = true;
    assert_eq!(message::offer(&card, Clicks::Verified), Offer::ApproveTwice);
    let (blocks, _) = rendered(&card);
    assert_eq!(button(&blocks, "approval.approve").unwrap().get("confirm"), None);
}

fn in_state(state: impl FnOnce(Approval) -> Approval) -> (Value, String) {
    let mut card = refund();
    card.approval = state(card.approval);
    card.now = sample::at(600);
    rendered(&card)
}

#[test]
fn a_decided_card_says_who_and_when_and_has_no_buttons_left() {
    let expired = |approval: Approval| Approval { state: State::Expired { at: sample::at(500) }, ..approval };
    let stopped = |approval: Approval| Approval {
        state: State::Cancelled { by: Canceller::Stop, at: sample::at(500) },
        ..approval
    };
    for ((blocks, shown), says) in [
        (in_state(sample::approved), "Approved: ana at 2027-01-15 08:01 UTC"),
        (in_state(sample::denied), "Denied by ana, at 2027-01-15 08:01 UTC."),
        (in_state(sample::denied), "The agent is told: not \\0 today ☂"),
        (in_state(sample::claimed), "Run at 2027-01-15 08:02 UTC: its outcome is awaited."),
        (in_state(expired), "Expired at 2027-01-15 08:08 UTC"),
        (in_state(stopped), "the run was stopped, at 2027-01-15 08:08 UTC."),
    ] {
        assert!(shown.contains(says), "{says} in {shown}");
        assert!(button(&blocks, "approval.approve").is_none() && button(&blocks, "approval.deny").is_none());
        assert!(button(&blocks, "approval.open").is_some());
        // Still what was asked.
        assert!(shown.contains("• /amount (number): 6000"));
    }
}

#[test]
fn a_list_names_each_and_offers_no_approve() {
    let mut cards: Vec<_> = (0..12).map(|_| refund()).collect();
    let list = message::digest(&cards, "https://approve.test/review", "m1");
    let shown = texts(&blocks(&list));
    assert!(shown.contains("12 waiting"));
    for card in &cards {
        assert!(shown.contains(&format!("• {} issue_refund by billing-bot: waits until", card.approval.code)));
    }
    assert!(button(&blocks(&list), "approval.approve").is_none());
    assert_eq!(button(&blocks(&list), "approval.open").unwrap()["url"], "https://approve.test/review");
    assert!(list.text.contains("12 waiting") && list.text.contains(cards[0].approval.code.as_str()));

    cards[0].approval = sample::denied(cards[0].approval.clone());
    let shown = texts(&blocks(&message::digest(&cards, "https://approve.test/review", "m2")));
    assert!(shown.contains("11 waiting of 12"));
    assert!(shown.contains(&format!("{} issue_refund by billing-bot: Denied by ana", cards[0].approval.code)));
}

#[test]
fn a_reminder_says_when_it_was_true() {
    let card = refund();
    let reminder = message::reminder(&card, NoticeEvent::Escalated, "m1");
    let says = format!("At 2027-01-15 08:00 UTC {} still waited: issue_refund by billing-bot.", card.approval.code);
    assert!(reminder.text.starts_with(&says), "{}", reminder.text);
    assert!(reminder.text.contains("Others may decide now."));
    assert!(button(&blocks(&reminder), "approval.approve").is_none());
}

#[test]
fn a_changed_message_has_blocks_of_other_ids() {
    let ids = |mark| {
        let blocks = message::card(&refund(), Clicks::Verified, mark).blocks;
        blocks.iter().map(|block| block["block_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(ids("m1").iter().all(|id| !ids("m2").contains(id)));
    assert_eq!(json!(ids("m1")), json!(ids("m1")));
}
