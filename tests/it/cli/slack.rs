//! `countersign serve` with Slack: what it refuses, and a service that is killed while Slack is down.

use std::{fs, path::Path};

use countersign::{app::ports::Clock as _, server::system::SystemClock};
use reqwest::{Client, StatusCode};
use serde_json::json;
use tempfile::tempdir;

use crate::support::{
    process::{Caller, Process, QUICKSTART, approval_of, create_key, external_mail, run, text},
    slack::{CHANNEL, SECRET, Says, Slack, TEAM, TOKEN, form, shown, signed},
};

fn settings(slack: &Slack) -> String {
    format!(
        r#"
        policy = "policy.toml"
        public_url = "https://approve.acme.example"
        [reviewers.ana]
        slack_user = "U0ANA"
        [channels.finance-chat]
        kind = "slack"
        team = "{TEAM}"
        channel = "{CHANNEL}"
        bot_token = "env:BOT_TOKEN"
        signing_secret = "env:SIGNING_SECRET"
        api_url = "{}"
        allow_private_addresses = true
        "#,
        slack.api_url(),
    )
}

const SECRETS: [(&str, &str); 2] = [("BOT_TOKEN", TOKEN), ("SIGNING_SECRET", SECRET)];

/// Whether these settings are taken, and what is said of them.
fn checked(settings: &str) -> (Option<i32>, String) {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("countersign.toml"), settings).unwrap();
    fs::copy(QUICKSTART, folder.path().join("policy.toml")).unwrap();
    let secrets = [SECRETS.as_slice(), &[("OTHER_SECRET", "fedcba9876543210"), ("SHORT", "x")]].concat();
    let output = run(folder.path(), &["serve", "--check"], &secrets);
    (output.status.code(), text(&output.stderr).to_owned())
}

#[tokio::test]
async fn settings_that_could_mistake_one_team_or_person_for_another_are_refused() {
    let slack = Slack::start().await;
    let whole = settings(&slack);
    assert_eq!(checked(&whole).0, Some(0), "{}", checked(&whole).1);
    let second = |team: &str, secret: &str| {
        format!(
            "{whole}\n[channels.ops-chat]\nkind = \"slack\"\nteam = \"{team}\"\nchannel = \"C0OPS\"\n\
             bot_token = \"env:BOT_TOKEN\"\nsigning_secret = \"env:{secret}\"\n"
        )
    };
    assert_eq!(checked(&second(TEAM, "SIGNING_SECRET")).0, Some(0));
    for (settings, fault) in [
        (
            second("T0OTHER", "SIGNING_SECRET"),
            "channels.ops-chat.signing_secret: is also that of channels.finance-chat",
        ),
        (second("T0OTHER", "OTHER_SECRET"), "reviewers.ana.slack_user: does not say of which team"),
        (second(TEAM, "SHORT"), "channels.ops-chat.signing_secret: is no signing secret"),
        (second(TEAM, "OTHER_SECRET").replace("C0OPS", CHANNEL), "channels.ops-chat.channel: is also that of"),
        (whole.replace("\"U0ANA\"", "\"ana\""), "reviewers.ana.slack_user: is no user of Slack"),
        (whole.replace(CHANNEL, "#finance"), "channels.finance-chat.channel: is no channel of Slack"),
        (format!("{whole}\n[reviewers.bo]\nslack_user = \"{TEAM}/U0ANA\"\n"), "is another reviewer's too"),
        (whole.replace("allow_private_addresses = true", ""), "channels.finance-chat.api_url: is no address"),
    ] {
        let (status, told) = checked(&settings);
        assert_eq!(status, Some(2), "{told}");
        assert!(told.contains(fault), "{fault} in {told}");
        assert!(!told.contains(SECRET) && !told.contains(TOKEN));
    }
    let full_id = second("T0OTHER", "OTHER_SECRET").replace("\"U0ANA\"", &format!("\"{TEAM}/U0ANA\""));
    assert_eq!(checked(&full_id).0, Some(0), "{}", checked(&full_id).1);
    assert_eq!(checked(&whole.replace("signing_secret = \"env:SIGNING_SECRET\"", "")).0, Some(0));
}

fn started(folder: &Path) -> Process {
    Process::serve(folder, &SECRETS)
}

#[tokio::test]
async fn a_service_that_is_killed_while_slack_is_down_asks_when_both_are_back() {
    let slack = Slack::start().await;
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("countersign.toml"), settings(&slack)).unwrap();
    fs::copy(QUICKSTART, folder.path().join("policy.toml")).unwrap();
    let agent_key = create_key(folder.path(), &SECRETS, "bot", &["agent"]);
    slack.always_says(Some(Says::Status(503)));
    let service = started(folder.path());
    let (status, held) = Caller::new(&service, &agent_key).decide("send_email", external_mail(), "call-1").await;
    assert_eq!(status, StatusCode::ACCEPTED);
    slack.nth("chat.postMessage", 0).await;
    service.kill();

    let failed = slack.bodies("chat.postMessage").len();
    slack.always_says(None);
    let service = started(folder.path());
    let agent = Caller::new(&service, &agent_key);
    let path = format!("/approvals/{}", approval_of(&held));
    assert_eq!(agent.get(&path).await.1["state"], json!("pending"));
    let posted = slack.nth("chat.postMessage", failed).await;
    assert!(shown(&posted["blocks"]).contains(held["approval"]["code"].as_str().unwrap()));

    let now = SystemClock.now();
    let body = form(&slack.click("U0ANA", &posted["blocks"], "approval.approve"));
    let mut click = Client::new().post(format!("{}/channels/slack/interactions", service.url)).body(body.clone());
    for (name, value) in signed(SECRET, &body, now) {
        click = click.header(name, value);
    }
    assert_eq!(click.send().await.unwrap().status(), StatusCode::OK);
    assert_eq!(agent.get(&path).await.1["state"], json!("approved"));
    let changed = slack.nth("chat.update", 0).await;
    assert!(shown(&changed["blocks"]).contains("Approved: ana"));
}
