//! What is read out of requests that are Slack's.

use countersign::{
    channels::slack::interaction::{Button, Interaction, Malformed, Person, Shown, is_probe, parse},
    domain::{canon::json::ArgsHash, ids::ApprovalId},
};
use serde_json::{Value, json};

use crate::support::{sample, slack::form};

fn button() -> Shown {
    let approval = sample::approval();
    let review = approval.review.map(|review| review.hash.to_string());
    Shown { approval: approval.id, args: approval.args_hash, review }
}

/// As Bolt's own tests have it, with a button of ours.
fn payload() -> Value {
    json!({
        "type": "block_actions",
        "user": { "id": "W111", "username": "primary-owner", "name": "primary-owner", "team_id": "T111" },
        "api_app_id": "A111",
        "token": "verification_token",
        "container": { "type": "message", "message_ts": "111.222", "channel_id": "C111", "is_ephemeral": true },
        "trigger_id": "111.222.valid",
        "team": {
            "id": "T111", "domain": "workspace-domain", "enterprise_id": "E111", "enterprise_name": "Sandbox Org"
        },
        "channel": { "id": "C111", "name": "test-channel" },
        "response_url": "https://hooks.slack.com/actions/T111/111/random-value",
        "actions": [{
            "action_id": "approval.deny", "block_id": "b", "value": button().to_string(), "type": "button",
            "text": { "type": "plain_text", "text": "Button", "emoji": true }, "action_ts": "1596530385.194939"
        }]
    })
}

fn read(payload: &Value) -> Result<Interaction, Malformed> {
    parse(&form(payload))
}

#[test]
fn what_a_button_holds_is_read_as_it_was_written_and_in_no_other_form() {
    let shown = button();
    let text = shown.to_string();
    assert!(text.len() <= 2_000);
    assert_eq!(Shown::parse(&text), Some(shown.clone()));
    let without = Shown { review: None, ..shown };
    assert_eq!(Shown::parse(&without.to_string()), Some(without));
    for other in [
        "",
        "v1",
        text.get(1..).unwrap(),
        &text.replace("v1", "v2"),
        &format!("{text}.x"),
        &text.replace("apr_", "dec_"),
    ] {
        assert_eq!(Shown::parse(other), None, "{other}");
    }
    assert!(ArgsHash::parse("sha256:00").is_none() && ApprovalId::parse("apr_1").is_err());
}

#[test]
fn a_click_tells_who_clicked_by_id_and_where() {
    let Ok(Interaction::Click(click)) = read(&payload()) else { panic!() };
    let person = Person {
        team: "T111".to_owned(),
        own_team: "T111".to_owned(),
        organization: Some("E111".to_owned()),
        user: "W111".to_owned(),
        app: Some("A111".to_owned()),
    };
    assert_eq!(click.person, person);
    assert!(person.is_of_the_team());
    assert!(Person { own_team: "E111".to_owned(), ..person.clone() }.is_of_the_team());
    assert!(!Person { own_team: "T999".to_owned(), ..person }.is_of_the_team());
    assert_eq!(click.channel, "C111");
    assert!(matches!(click.button, Button::Deny(_)));
    assert_eq!(click.trigger.as_deref(), Some("111.222.valid"));
}

#[test]
fn what_slack_would_not_send_is_not_read_for_something_else() {
    let change = |pointer: &str, value: Value| {
        let mut payload = payload();
        *payload.pointer_mut(pointer).unwrap() = value;
        read(&payload)
    };
    assert_eq!(change("/actions", json!([])), Err(Malformed));
    assert_eq!(change("/actions/0/value", json!("v1.x")), Err(Malformed));
    assert_eq!(change("/actions/0/value", Value::Null), Err(Malformed));
    assert_eq!(change("/user/id", json!("W111\nU2")), Err(Malformed));
    assert_eq!(change("/user/team_id", json!("t111")), Err(Malformed));
    assert_eq!(change("/user", Value::Null), Err(Malformed));
    assert_eq!(change("/channel", Value::Null), Err(Malformed));
    assert_eq!(change("/type", json!("view_submission")), Err(Malformed));
    assert_eq!(change("/type", json!("view_closed")), Ok(Interaction::Other));
    assert_eq!(change("/actions/0/action_id", json!("approval.open")), Ok(Interaction::Other));
    let one = form(&payload());
    assert_eq!(parse(&[one.as_slice(), b"&", &one].concat()), Err(Malformed));
    assert_eq!(parse(payload().to_string().as_bytes()), Err(Malformed));
    assert_eq!(parse(b""), Err(Malformed));
}

#[test]
fn a_probe_is_a_short_form_without_a_payload() {
    assert!(is_probe(b"ssl_check=1&token=xyz"));
    assert!(!is_probe(b"ssl_check=0"));
    assert!(!is_probe(b"ssl_check=1&payload=%7B%7D"));
    assert!(!is_probe(format!("ssl_check=1&a={}", "x".repeat(2_000)).as_bytes()));
    assert!(!is_probe(b""));
}
