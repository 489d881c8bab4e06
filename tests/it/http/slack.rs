//! Clicks and dialogs of Slack, from the signature to the message in its final state, on both engines.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use countersign::{
    app::ports::{ApprovalFilter, Clock as _},
    auth::key_ring::KeyRing,
    channels::slack::{SlackCourier, SlackDoors, message::Clicks},
    domain::{
        approval::state::{Approval, State, StateName},
        audit::entry::EventKind,
        channel::{Channel, ChannelKind, Channels, Destination},
        identity::ChannelName,
        time::Timestamp,
    },
    http::{
        self,
        state::{HttpParts, HttpSettings, HttpState},
    },
};
use serde_json::{Value, json};
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::support::{
    clock::START,
    slack::{CHANNEL, ENTRY, SECRET, Says, Slack, TEAM, button, form, shown, signed, submission},
    world::{POLICY, PUBLIC_URL, Setup, World, on_each_engine_with},
};

const PATH: &str = "/channels/slack/interactions";
const ANA: &str = "U0ANA";
const BO: &str = "U0BO";

/// An answer: its status and body.
type Answer = (u16, String);

/// One instance of the service, and the Slack that it talks to.
struct Desk {
    world: World,
    slack: Arc<Slack>,
    courier: SlackCourier,
    state: HttpState,
    router: Router,
}

fn channels() -> Channels {
    let channel = Channel {
        name: ChannelName::parse(ENTRY).unwrap(),
        kind: ChannelKind::Slack,
        groups: [].into(),
        fallback: None,
        quiet: None,
    };
    Channels::new([channel], []).unwrap()
}

fn setup() -> Setup {
    let policy = format!(
        "{POLICY}
[tools.wire_money]
risk = \"send\"
parameters = {{ type = \"object\", required = [\"to\"], properties = {{ to = {{ type = \"string\" }} }} }}
approval = {{ decide_in = \"web\" }}
[tools.sign_contract]
risk = \"send\"
parameters = {{ type = \"object\", required = [\"with\"], properties = {{ with = {{ type = \"string\" }} }} }}
approval = {{ quorum = 2 }}
[tools.pay_salaries]
risk = \"send\"
parameters = {{ type = \"object\", properties = {{}} }}
approval = {{ reviewers = [\"finance\"] }}
"
    );
    let (ana, bo): (&[_], &[_]) = (&["finance", "support-leads"], &["support-leads"]);
    Setup { policy, channels: channels(), reviewers: vec![("ana", ana), ("bo", bo), ("cy", &[])], ..Setup::default() }
}

impl Desk {
    async fn new(world: World) -> Self {
        let slack = Arc::new(Slack::start().await);
        let doors = slack.doors();
        Self::with(world, slack, doors)
    }

    fn with(world: World, slack: Arc<Slack>, doors: SlackDoors) -> Self {
        let state = HttpState::new(HttpParts {
            app: Arc::clone(&world.app),
            keys: Arc::new(KeyRing::default()),
            slack: doors,
            settings: HttpSettings {
                body_bytes: 256 * 1024,
                requests_per_second: None,
                request_timeout: Duration::from_secs(30),
                refusal_text: None,
                public_url: PUBLIC_URL.to_owned(),
                commit: "0123abc".to_owned(),
                checkpoints_signed: false,
                metrics_elsewhere: false,
            },
            draining: watch::Sender::new(false).subscribe(),
        });
        let courier = slack.courier(Clicks::Verified);
        Self { world, slack, courier, router: http::router(state.clone()), state }
    }

    /// Another instance of the same service.
    async fn another_instance(&self) -> Self {
        let world = self.world.another_instance(setup()).await;
        Self::with(world, Arc::clone(&self.slack), self.slack.doors())
    }

    async fn send(&self, body: &[u8], headers: &[(&str, String)]) -> Answer {
        let mut request = Request::builder().method("POST").uri(PATH);
        request = request.header("content-type", "application/x-www-form-urlencoded");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let response = self.router.clone().oneshot(request.body(Body::from(body.to_vec())).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Sends a payload as Slack would now.
    async fn slack_sends(&self, payload: &Value) -> Answer {
        let body = form(payload);
        self.send(&body, &signed(SECRET, &body, self.now())).await
    }

    fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    /// Delivers everything that is due by now, at the pace of the channel.
    async fn deliver(&self) {
        let to = Destination::Channel(ChannelName::parse(ENTRY).unwrap());
        for _ in 0..10 {
            self.world.app.deliver_to(&to, &self.courier).await.unwrap();
            self.world.clock.advance(Duration::from_secs(1));
        }
    }

    /// Holds a call and posts it; the approval, and the blocks of its message.
    async fn posted(&self, tool: &str, args: Value) -> (Approval, Value) {
        let before = self.slack.bodies("chat.postMessage").len();
        let (_, approval) = self.world.hold(tool, args).await;
        self.deliver().await;
        let body = self.slack.nth("chat.postMessage", before).await;
        (approval, body["blocks"].clone())
    }

    async fn click(&self, user: &str, blocks: &Value, action: &str) -> Answer {
        self.slack_sends(&self.slack.click(user, blocks, action)).await
    }

    async fn state_of(&self, approval: &Approval) -> State {
        self.world.store.approval(approval.id).await.unwrap().unwrap().state
    }

    async fn name_of(&self, approval: &Approval) -> StateName {
        self.state_of(approval).await.name()
    }

    async fn logged(&self, event: EventKind) -> Vec<countersign::domain::audit::entry::Entry> {
        self.world.entries_of(event).await.into_iter().map(|sealed| sealed.entry).collect()
    }

    /// The message as it was last changed.
    fn last_change(&self) -> Value {
        self.slack.bodies("chat.update").pop().unwrap()["blocks"].clone()
    }
}

fn ok() -> Answer {
    (200, String::new())
}

fn mail() -> Value {
    json!({ "to": "a@b.example" })
}

#[tokio::test]
async fn a_click_on_approve_decides_and_the_message_ends_without_buttons() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let (approval, blocks) = desk.posted("send_email", mail()).await;
        assert!(shown(&blocks).contains("• /to: \"a@b.example\""));
        assert_eq!(desk.click(ANA, &blocks, "approval.approve").await, ok());
        let State::Approved(approved) = desk.state_of(&approval).await else { panic!() };
        assert_eq!(approved.votes[0].reviewer.as_str(), "ana");
        let vote = &desk.logged(EventKind::ApprovalVote).await[0];
        assert_eq!((vote.actor.name.as_str(), vote.actor.via.as_str()), ("ana", "chat:finance-chat"));
        // Not by the click itself.
        assert!(desk.slack.bodies("chat.update").is_empty());
        desk.deliver().await;
        let change = desk.last_change();
        assert!(shown(&change).contains("Approved: ana at 2026-11-30 12:00 UTC"), "{}", shown(&change));
        assert!(button(&change, "approval.approve").is_none() && button(&change, "approval.deny").is_none());
        desk.world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn one_click_that_comes_twice_on_two_instances_is_one_decision() {
    on_each_engine_with(setup(), |world| async move {
        let first = Desk::new(world).await;
        let second = first.another_instance().await;
        let (approval, blocks) = first.posted("send_email", mail()).await;
        let payload = first.slack.click(ANA, &blocks, "approval.approve");
        let (one, other) = tokio::join!(first.slack_sends(&payload), second.slack_sends(&payload));
        assert_eq!((one, other), (ok(), ok()));
        assert_eq!(first.name_of(&approval).await, StateName::Approved);
        assert_eq!(first.logged(EventKind::ApprovalVote).await.len(), 1);
        assert_eq!(first.logged(EventKind::ApprovalApproved).await.len(), 1);
        // And once more a minute later, as Slack or the person would.
        assert_eq!(second.slack_sends(&payload).await, ok());
        assert_eq!(first.logged(EventKind::ApprovalVote).await.len(), 1);
        first.world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn whoever_comes_second_is_told_who_decided_and_when() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let (approval, blocks) = desk.posted("send_email", mail()).await;
        assert_eq!(desk.click(ANA, &blocks, "approval.approve").await, ok());
        assert_eq!(desk.click(BO, &blocks, "approval.deny").await, ok());
        let told = desk.slack.whispered(0).await;
        assert!(
            told.starts_with(approval.code.as_str()) && told.contains("Approved: ana at 2026-11-30 12:00 UTC"),
            "{told}"
        );
        assert!(desk.slack.bodies("views.open").is_empty());
        assert_eq!(desk.name_of(&approval).await, StateName::Approved);
    })
    .await;
}

#[tokio::test]
async fn a_denial_takes_a_word_to_the_agent_and_is_judged_when_it_is_sent() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let (approval, blocks) = desk.posted("send_email", mail()).await;
        assert_eq!(desk.click(BO, &blocks, "approval.deny").await, ok());
        let opened = desk.slack.nth("views.open", 0).await;
        assert_eq!(opened["trigger_id"], "111.222.valid");
        assert_eq!(desk.name_of(&approval).await, StateName::Pending);
        let typed = [("message", "  not this address "), ("reason", "looks odd")];
        assert_eq!(desk.slack_sends(&submission(BO, &opened["view"], &typed)).await, ok());
        let State::Denied(denial) = desk.state_of(&approval).await else { panic!() };
        assert_eq!(denial.message_to_agent.as_deref(), Some("not this address"));
        // Sent again, it is the same denial; by somebody else, it comes too late.
        assert_eq!(desk.slack_sends(&submission(BO, &opened["view"], &typed)).await.0, 200);
        let (status, body) = desk.slack_sends(&submission(ANA, &opened["view"], &[])).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["response_action"]), (200, &json!("update")));
        assert!(shown(&body).contains("Denied by bo, at 2026-11-30 12:00 UTC."), "{body}");
        assert_eq!(desk.logged(EventKind::ApprovalDenied).await.len(), 1);
        desk.deliver().await;
        assert!(shown(&desk.last_change()).contains("The agent is told: not this address"));
    })
    .await;
}

#[tokio::test]
async fn what_takes_two_clicks_takes_a_dialog_that_was_open_for_two_seconds() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let (approval, blocks) = desk.posted("drop_table", json!({ "name": "orders" })).await;
        assert_eq!(desk.click(ANA, &blocks, "approval.approve").await, ok());
        let view = desk.slack.nth("views.open", 0).await["view"].clone();
        assert!(shown(&view).contains("• /name: \"orders\""));
        assert_eq!(desk.name_of(&approval).await, StateName::Pending);
        let (status, body) = desk.slack_sends(&submission(ANA, &view, &[])).await;
        let early: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(status, 200);
        assert!(shown(&early["view"]).contains("too quick"), "{early}");
        // Of another person it is nothing.
        let (_, body) = desk.slack_sends(&submission(BO, &early["view"], &[])).await;
        assert!(body.contains("not the confirmation you were given"), "{body}");
        assert_eq!(desk.name_of(&approval).await, StateName::Pending);
        desk.world.clock.advance(Duration::from_secs(2));
        assert_eq!(desk.slack_sends(&submission(ANA, &early["view"], &[])).await, ok());
        assert_eq!(desk.name_of(&approval).await, StateName::Approved);
    })
    .await;
}

#[tokio::test]
async fn whoever_clicks_is_told_when_no_dialog_opens() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let (approval, blocks) = desk.posted("send_email", mail()).await;
        desk.slack.says("views.open", [Says::Error("expired_trigger_id")]);
        assert_eq!(desk.click(ANA, &blocks, "approval.deny").await, ok());
        assert!(desk.slack.whispered(0).await.contains("did not open the dialog"));
        assert_eq!(desk.name_of(&approval).await, StateName::Pending);
    })
    .await;
}

#[tokio::test]
async fn votes_are_counted_up_to_the_number_that_is_needed() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let (approval, blocks) = desk.posted("sign_contract", json!({ "with": "acme" })).await;
        for _ in 0..2 {
            assert_eq!(desk.click(ANA, &blocks, "approval.approve").await, ok());
            assert_eq!(desk.name_of(&approval).await, StateName::Pending);
        }
        desk.deliver().await;
        let change = desk.last_change();
        assert!(shown(&change).contains("1 of 2 approved: ana"), "{}", shown(&change));
        assert_eq!(desk.click(BO, &change, "approval.approve").await, ok());
        assert_eq!(desk.name_of(&approval).await, StateName::Approved);
        desk.deliver().await;
        assert!(button(&desk.last_change(), "approval.approve").is_none());
    })
    .await;
}

#[tokio::test]
async fn strangers_and_those_whom_it_does_not_concern_are_refused_in_private_and_recorded() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let (approval, blocks) = desk.posted("pay_salaries", json!({})).await;
        assert_eq!(desk.click("U0MALLORY", &blocks, "approval.approve").await, ok());
        assert!(desk.slack.whispered(0).await.contains("not linked to a reviewer"));
        // Known here by that id, but of another company that shares the channel.
        let mut guest = desk.slack.click(ANA, &blocks, "approval.approve");
        guest["user"]["team_id"] = json!("T0OTHER");
        assert_eq!(desk.slack_sends(&guest).await, ok());
        assert!(desk.slack.whispered(1).await.contains("not linked to a reviewer"));
        // A reviewer of other things.
        assert_eq!(desk.click("U0CY", &blocks, "approval.deny").await, ok());
        assert!(desk.slack.whispered(2).await.contains("not for you to decide"));
        // The name of a reviewer is no id of Slack.
        let mut named = desk.slack.click(ANA, &blocks, "approval.approve");
        named["user"]["id"] = json!("ANA");
        assert_eq!(desk.slack_sends(&named).await, ok());
        assert!(desk.slack.whispered(3).await.contains("not linked to a reviewer"));
        assert_eq!(desk.name_of(&approval).await, StateName::Pending);
        let refused = desk.logged(EventKind::RequestRefused).await;
        let told: Vec<_> = refused
            .iter()
            .map(|entry| (entry.actor.name.as_str(), entry.reason_code.as_deref().unwrap(), entry.approval))
            .collect();
        assert_eq!(
            told,
            [
                ("slack:T0TEAM/U0MALLORY", "unknown_chat_user", Some(approval.id)),
                ("slack:T0OTHER/U0ANA", "unknown_chat_user", Some(approval.id)),
                ("cy", "not_eligible", Some(approval.id)),
                ("slack:T0TEAM/ANA", "unknown_chat_user", Some(approval.id)),
            ]
        );
        assert!(desk.slack.bodies("views.open").is_empty() && desk.slack.bodies("chat.update").is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_secret_is_good_for_its_team_app_and_channel_alone() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let (approval, blocks) = desk.posted("send_email", mail()).await;
        for (pointer, other) in [("/team/id", "T0OTHER"), ("/api_app_id", "A0OTHER"), ("/channel/id", "C0OTHER")] {
            let mut payload = desk.slack.click(ANA, &blocks, "approval.approve");
            *payload.pointer_mut(pointer).unwrap() = json!(other);
            let (status, body) = desk.slack_sends(&payload).await;
            assert_eq!(status, 403, "{pointer}");
            assert!(body.contains("wrong_channel"), "{body}");
        }
        // Nor does a dialog of another entry's count.
        assert_eq!(desk.click(ANA, &blocks, "approval.deny").await, ok());
        let mut view = desk.slack.nth("views.open", 0).await["view"].clone();
        view["private_metadata"] = json!(view["private_metadata"].as_str().unwrap().replace(ENTRY, "ops-chat"));
        assert_eq!(desk.slack_sends(&submission(ANA, &view, &[])).await.0, 403);
        assert_eq!(desk.name_of(&approval).await, StateName::Pending);
        assert_eq!(desk.logged(EventKind::RequestRefused).await.len(), 4);
        assert!(TEAM != "T0OTHER" && CHANNEL != "C0OTHER");
    })
    .await;
}

#[tokio::test]
async fn what_slack_did_not_sign_now_is_refused_before_it_is_read_and_counted() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let (approval, blocks) = desk.posted("send_email", mail()).await;
        let body = form(&desk.slack.click(ANA, &blocks, "approval.approve"));
        let [time, signature] = signed(SECRET, &body, desk.now());
        let forged = signed("another secret of another app", &body, desk.now());
        let hour = Duration::from_secs(3_600);
        for (headers, code) in [
            (vec![], "bad_signature"),
            (vec![time.clone()], "bad_signature"),
            (vec![signature.clone()], "bad_signature"),
            (forged.to_vec(), "bad_signature"),
            (vec![time.clone(), signature.clone(), signature.clone()], "bad_signature"),
            (vec![time.clone(), time.clone(), signature.clone()], "bad_signature"),
            (vec![(time.0, format!(" {}", "x")), signature.clone()], "bad_signature"),
            (signed(SECRET, &body, desk.now().minus(hour)).to_vec(), "clock_skew"),
            (signed(SECRET, &body, desk.now().plus(hour)).to_vec(), "clock_skew"),
        ] {
            let (status, answer) = desk.send(&body, &headers).await;
            assert_eq!(status, 401, "{headers:?}");
            assert!(answer.contains(code), "{headers:?}: {answer}");
        }
        // Signed, and nothing that is read: whoever reads it first would answer 400.
        assert_eq!(desk.send(b"payload={", &forged).await.0, 401);
        let odd = b"payload={";
        assert_eq!(desk.send(odd, &signed(SECRET, odd, desk.now())).await.0, 400);
        assert_eq!(desk.name_of(&approval).await, StateName::Pending);
        let metrics = desk.state.metrics.text();
        for figure in [
            "countersign_slack_refused_requests_total{reason=\"bad_signature\"} 8",
            "countersign_slack_refused_requests_total{reason=\"clock_skew\"} 2",
            "countersign_http_unauthenticated_requests_total{method=\"POST\",route=\"/channels/slack/interactions\"} 10",
        ] {
            assert!(metrics.contains(figure), "{figure} in {metrics}");
        }
        let counted = desk.state.metrics.drain_unauthenticated();
        assert_eq!(counted, [(format!("POST {PATH}"), 10)]);
    })
    .await;
}

#[tokio::test]
async fn an_approve_is_not_taken_where_the_message_could_not_offer_it() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let long = json!({ "to": "a@b.example", "body": "word ".repeat(4_000) });
        for (tool, args, says) in
            [("wire_money", json!({ "to": "acme" }), "on the page only"), ("send_email", long, "does not show all")]
        {
            let told = desk.slack.called().iter().filter(|call| call.method.starts_with("/actions")).count();
            let (approval, blocks) = desk.posted(tool, args).await;
            assert!(button(&blocks, "approval.approve").is_none());
            assert!(shown(&blocks).contains(says));
            // Whoever makes up the button that is not there.
            let mut payload = desk.slack.click(ANA, &blocks, "approval.deny");
            payload["actions"][0]["action_id"] = json!("approval.approve");
            assert_eq!(desk.slack_sends(&payload).await, ok());
            assert!(desk.slack.whispered(told).await.contains(says));
            assert_eq!(desk.name_of(&approval).await, StateName::Pending);
        }
    })
    .await;
}

#[tokio::test]
async fn a_button_of_another_call_decides_nothing() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let (_, blocks) = desk.posted("send_email", mail()).await;
        let (approval, other) = desk.posted("send_email", json!({ "to": "c@d.example" })).await;
        let value = |blocks: &Value| button(blocks, "approval.approve").unwrap()["value"].as_str().unwrap().to_owned();
        let parts = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let (first, second) = (parts(&value(&blocks)), parts(&value(&other)));
        for mixed in [[&second[1], &first[2], &second[3]], [&second[1], &second[2], &first[3]]] {
            let mut payload = desk.slack.click(ANA, &other, "approval.approve");
            payload["actions"][0]["value"] = json!(format!("v1.{}.{}.{}", mixed[0], mixed[1], mixed[2]));
            assert_eq!(desk.slack_sends(&payload).await, ok());
        }
        assert!(desk.slack.whispered(1).await.contains("not what would be decided"));
        assert_eq!(desk.name_of(&approval).await, StateName::Pending);
    })
    .await;
}

#[tokio::test]
async fn a_probe_is_answered_and_without_a_secret_there_is_no_route() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        assert_eq!(desk.send(b"ssl_check=1&token=x", &[]).await, ok());
        for method in ["GET", "HEAD"] {
            let request = Request::builder().method(method).uri(PATH).body(Body::empty()).unwrap();
            let response = desk.router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        }
        let Desk { world, slack, .. } = desk;
        let closed = Desk::with(world, slack, SlackDoors::default());
        assert_eq!(closed.send(b"ssl_check=1&token=x", &[]).await.0, StatusCode::NOT_FOUND.as_u16());
    })
    .await;
}

#[tokio::test]
async fn while_slack_is_down_for_an_hour_nothing_is_lost_and_nothing_decided_by_itself() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let to = Destination::Channel(ChannelName::parse(ENTRY).unwrap());
        let (_, waiting) = desk.world.hold("send_email", mail()).await;
        let (_, decided) = desk.world.hold("send_email", json!({ "to": "c@d.example" })).await;
        // An instance is killed in the middle of an attempt.
        desk.slack.always_says(Some(Says::Hangs));
        let doomed = desk.another_instance().await;
        let (app, courier, at) = (Arc::clone(&doomed.world.app), doomed.slack.courier(Clicks::Verified), to.clone());
        let attempt = tokio::spawn(async move { app.deliver_to(&at, &courier).await });
        desk.slack.nth("chat.postMessage", 0).await;
        attempt.abort();
        assert!(attempt.await.unwrap_err().is_cancelled());
        drop(doomed);
        // Nobody else delivers while it might still live.
        assert_eq!(desk.world.app.deliver_to(&to, &desk.courier).await.unwrap(), 0);
        desk.slack.always_says(Some(Says::Status(503)));
        for _ in 0..60 {
            desk.world.clock.advance(Duration::from_secs(60));
            assert_eq!(desk.world.app.deliver_to(&to, &desk.courier).await.unwrap(), 0);
        }
        // Decisions elsewhere go on meanwhile.
        desk.world.approve(&desk.world.ana, &decided).await.unwrap();
        assert_eq!(desk.name_of(&waiting).await, StateName::Pending);
        assert!(desk.world.app.dead_letters(None, 10).await.unwrap().0.is_empty());
        let before = desk.slack.bodies("chat.postMessage").len();
        desk.slack.always_says(None);
        desk.world.clock.advance(Duration::from_secs(3_600));
        desk.deliver().await;
        let posted = desk.slack.bodies("chat.postMessage").split_off(before);
        assert_eq!(posted.len(), 1, "only what still waits is asked for: {posted:?}");
        assert!(shown(&posted[0]["blocks"]).contains(waiting.code.as_str()));
        assert_eq!(desk.click(BO, &posted[0]["blocks"], "approval.approve").await, ok());
        assert_eq!(desk.name_of(&waiting).await, StateName::Approved);
        let all = desk.world.store.approvals(&ApprovalFilter::default(), None, 10).await.unwrap();
        assert_eq!(all.len(), 2);
        assert!(desk.now() > START);
        desk.world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_burst_is_one_message_and_reminders_of_what_was_posted_alone_leave_it_where_it_is() {
    on_each_engine_with(setup(), |world| async move {
        let desk = Desk::new(world).await;
        let mut alone = Vec::new();
        for number in 0..4 {
            alone.push(desk.posted("send_email", json!({ "to": format!("{number}@b.example") })).await);
        }
        for number in 4..9 {
            desk.world.hold("send_email", json!({ "to": format!("{number}@b.example") })).await;
        }
        let before = desk.slack.bodies("chat.postMessage").len();
        desk.deliver().await;
        let burst = desk.slack.bodies("chat.postMessage").split_off(before);
        assert_eq!(burst.len(), 1);
        assert!(shown(&burst[0]["blocks"]).contains("5 waiting"));
        // Half of the time has gone: all nine are reminded of at once.
        desk.world.clock.advance(Duration::from_secs(2 * 3_600 + 60));
        desk.deliver().await;
        assert!(shown(&desk.slack.bodies("chat.postMessage").pop().unwrap()["blocks"]).contains("9 waiting"));
        let (approval, blocks) = &alone[0];
        assert_eq!(desk.click(ANA, blocks, "approval.approve").await, ok());
        desk.deliver().await;
        let change = desk.last_change();
        assert!(shown(&change).contains(approval.code.as_str()) && shown(&change).contains("Approved: ana"));
        assert!(button(&change, "approval.approve").is_none() && !shown(&change).contains("waiting"));
    })
    .await;
}
