//! The signature: the vector of Slack's documentation, and Bolt on the other side.

use countersign::{
    app::ports::Clock as _,
    channels::slack::signature::{SigningSecret, seconds, skew},
    domain::time::Timestamp,
    server::system::SystemClock,
};
use serde_json::{Value, json};

use super::cards::refund;
use crate::support::{
    programs,
    slack::{SECRET, Slack, form},
};
use countersign::channels::slack::message::{self, Clicks};

const TIMESTAMP: &str = "1531420618";
const BODY: &[u8] = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&\
channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2F\
hooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.\
803a0bc887a14d10d2c447fce8b6703c";
const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

#[test]
fn the_documented_request_is_verified_and_no_other() {
    let secret = SigningSecret::new(SECRET);
    assert_eq!(secret.sign(TIMESTAMP, BODY), SIGNATURE);
    assert!(secret.verifies(TIMESTAMP, BODY, SIGNATURE));
    assert!(!secret.verifies("1531420619", BODY, SIGNATURE));
    assert!(!secret.verifies(TIMESTAMP, &BODY[1..], SIGNATURE));
    assert!(!SigningSecret::new("8f742231b10e8888abcd99yyyzzz85a6").verifies(TIMESTAMP, BODY, SIGNATURE));
    for other in [
        "",
        "v0=",
        SIGNATURE.get(3..).unwrap(),
        SIGNATURE.get(..66).unwrap(),
        &SIGNATURE.to_uppercase(),
        &format!("{SIGNATURE}00"),
    ] {
        assert!(!secret.verifies(TIMESTAMP, BODY, other), "{other}");
    }
}

#[test]
fn a_time_is_digits_and_at_most_five_minutes_from_ours_either_way() {
    assert_eq!(seconds(TIMESTAMP), Some(1_531_420_618));
    for other in ["", "+1531420618", "-1", " 1531420618", "1531420618.0", "0x10", "1e9", "99999999999999"] {
        assert_eq!(seconds(other), None, "{other}");
    }
    let now = Timestamp::from_micros(1_531_420_618_900_000);
    assert_eq!(skew(1_531_420_318, now), (300, true));
    assert_eq!(skew(1_531_420_317, now), (301, false));
    assert_eq!(skew(1_531_420_918, now), (-300, true));
    assert_eq!(skew(1_531_420_919, now), (-301, false));
}

#[tokio::test]
async fn bolt_takes_what_we_sign_and_we_take_what_slacks_own_library_signs() {
    let slack = Slack::start().await;
    let card = message::card(&refund(), Clicks::Verified, "m1");
    let click = slack.click("U0ANA", &Value::Array(card.blocks), "approval.approve");
    let body = form(&click);
    // Bolt has a clock of its own.
    let now = (SystemClock.now().as_micros() / 1_000_000).to_string();
    let secret = SigningSecret::new(SECRET);
    let input = json!({
        "secret": SECRET,
        "body": String::from_utf8(body.clone()).unwrap(),
        "headers": {
            "x-slack-request-timestamp": now,
            "x-slack-signature": secret.sign(&now, &body),
        },
        "sign_at": TIMESTAMP,
    });
    let told: Value =
        serde_json::from_str(&programs::told(programs::python("slack_bolt_app.py"), &input.to_string())).unwrap();
    assert_eq!(told["status"], 200);
    assert_eq!(told["forged"], 401);
    assert_eq!(told["clicks"], json!([{ "value": click["actions"][0]["value"], "user": "U0ANA" }]));
    assert!(secret.verifies(TIMESTAMP, &body, told["signature"].as_str().unwrap()));
}
