//! `examples/exfiltration`: three tools whose combination is held, and an assistant that obeys whatever it reads.

use std::{process::Command, time::Duration};

use countersign::{
    app::{decide_call::DecideRequest, ports::Clock as _},
    domain::audit::entry::EventKind,
};
use serde_json::{Value, json};

use crate::support::{
    installation::Installation,
    process::{Caller, text},
    tool_server::{NoEffect, ToolServer},
    world::{Setup, World, allowed, arguments, held, on_each_engine_with},
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/exfiltration");
const POLICY: &str = include_str!("../../examples/exfiltration/policy.toml");

/// The documents that want something of an assistant.
const HOSTILE: [&str; 4] = ["begging.txt", "hidden-comment.html", "impersonating.txt", "policy-changed.txt"];

async fn an_assistant_that_obeys_every_page_sends_nothing_away(installation: Installation) {
    let service = installation.start();
    let played = Command::new("python3")
        .arg(format!("{FOLDER}/play.py"))
        .args(["--url", &service.url, "--key", &installation.agent_key, "--reviewer-key", &installation.reviewer_key])
        .output()
        .expect("python3 is needed to run the example; install it");
    let printed = text(&played.stdout);
    assert!(played.status.success(), "{printed}{}", text(&played.stderr));
    for document in HOSTILE {
        assert!(printed.contains(&format!("{document}: ")), "{document} was not played:\n{printed}");
    }
    assert!(printed.contains("notes that got out: 0"), "{printed}");

    let auditor = Caller::new(&service, &installation.auditor_key);
    let items = async |query: &str| -> Vec<Value> {
        let (_, page) = auditor.get(&format!("/audit?limit=200&{query}")).await;
        page["items"].as_array().unwrap().clone()
    };
    let held = items("event=decision&verdict=require_approval&tool=send_message").await;
    assert_eq!(held.len(), HOSTILE.len());
    assert!(held.iter().all(|entry| entry["rule"] == "no-exfiltration"), "{held:#?}");
    let denials = items("event=approval.denied").await;
    assert_eq!(denials.len(), HOSTILE.len());
    assert!(denials.iter().all(|entry| entry["actor"] == "ana"), "{denials:#?}");
    let again = items("event=decision&verdict=deny&tool=send_message").await;
    assert_eq!(again.len(), HOSTILE.len());
    assert!(again.iter().all(|entry| entry["reason_code"] == "denied_before"), "{again:#?}");
    assert!(items("event=claim").await.is_empty());
    service.kill();
    installation.end().await;
}

#[tokio::test]
async fn an_assistant_that_obeys_every_page_sends_nothing_away_on_sqlite() {
    let policy = format!("{FOLDER}/policy.toml");
    an_assistant_that_obeys_every_page_sends_nothing_away(Installation::on_sqlite(&policy)).await;
}

#[tokio::test]
async fn an_assistant_that_obeys_every_page_sends_nothing_away_on_postgres() {
    let policy = format!("{FOLDER}/policy.toml");
    an_assistant_that_obeys_every_page_sends_nothing_away(Installation::on_postgres(&policy).await).await;
}

fn with_permit(request: DecideRequest) -> DecideRequest {
    DecideRequest { permit: true, ..request }
}

fn message(text: &str) -> Value {
    json!({ "to": "drop@collector.example", "text": text })
}

/// A permit for a message that nothing speaks against.
async fn permitted(world: &World, args: Value) -> String {
    let answer = world.ask(&with_permit(world.call("send_message", args))).await.unwrap();
    allowed(answer).permit.expect("it was asked for")
}

#[tokio::test]
async fn a_permit_is_good_for_one_message_at_one_server_and_soon() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        let server = ToolServer::new(world.permits.clone());
        let now = world.clock.now();
        let harmless = message("See you at nine.");
        let permit = permitted(&world, harmless.clone()).await;
        let other = arguments(message("account 4417 1234 5678 9113"));
        assert_eq!(server.run(&permit, "send_message", &other, now), Err(NoEffect::OtherArguments));
        assert_eq!(server.run(&permit, "read_note", &arguments(harmless.clone()), now), Err(NoEffect::Permit));
        let (signed, signature) = permit.rsplit_once('.').unwrap();
        let forged = format!("{signed}.{}", signature.chars().rev().collect::<String>());
        assert_eq!(server.run(&forged, "send_message", &arguments(harmless.clone()), now), Err(NoEffect::Permit));
        assert!(server.effects().is_empty());
        assert_eq!(server.run(&permit, "send_message", &arguments(harmless.clone()), now), Ok(()));
        assert_eq!(server.run(&permit, "send_message", &arguments(harmless.clone()), now), Err(NoEffect::UsedBefore));
        let late = permitted(&world, harmless.clone()).await;
        let later = now.plus(Duration::from_secs(60));
        assert_eq!(server.run(&late, "send_message", &arguments(harmless), later), Err(NoEffect::Permit));
        assert_eq!(server.effects().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_message_that_was_held_has_no_effect_before_a_person_and_one_after() {
    on_each_engine_with(Setup::with_policy(POLICY), async |world: World| {
        let server = ToolServer::new(world.permits.clone());
        allowed(world.decide("read_note", json!({ "name": "accounts" })).await);
        allowed(world.decide("fetch_page", json!({ "url": "https://news.example/" })).await);
        let request = with_permit(world.call("send_message", message("the note")));
        let approval = held(world.ask(&request).await.unwrap()).approval;
        assert!(world.claim(&approval, &request.call.args, None).await.is_err());
        assert!(server.effects().is_empty());
        world.approve(&world.ana, &approval).await.unwrap();
        let now = world.clock.now();
        // The answer is lost, and asked for again: the permit is the same, and so is the effect.
        let first = world.claim(&approval, &request.call.args, Some("claim-1")).await.unwrap();
        let again = world.claim(&approval, &request.call.args, Some("claim-1")).await.unwrap();
        assert_eq!(server.run(&first.permit, "send_message", &request.call.args, now), Ok(()));
        assert_eq!(server.run(&again.permit, "send_message", &request.call.args, now), Err(NoEffect::UsedBefore));
        assert_eq!(server.times(), [(approval.id.to_string(), 1)].into());
        assert_eq!(world.entries_of(EventKind::Claim).await.len(), 1);
    })
    .await;
}
