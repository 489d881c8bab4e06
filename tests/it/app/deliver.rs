//! Messages: written with what they tell of, delivered once, tried again, given up, and told to the next channel.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use countersign::{
    app::{
        deliver::Couriers,
        error::Error,
        ports::{Courier, Delivery, Dispatch, StoreError},
    },
    channels::webhook,
    domain::{
        approval::state::{Approval, StateName},
        audit::entry::EventKind,
        channel::{Channel, ChannelKind, Channels, Destination, QuietHours},
        identity::{Absence, AgentId, ChannelName, GroupName, ReviewerName},
        ids::{ApprovalId, NoticeId, RunId},
        notice::{FALLBACK_AFTER, MOST_ATTEMPTS, NoticeEvent, back_off},
    },
};
use serde_json::json;

use crate::support::{
    clock::START,
    described::assert_as_described,
    faulty_store::{At, Faults},
    world::{Setup, TTL, World, held, on_each_engine_with},
};

const MINUTE: Duration = Duration::from_secs(60);

fn channel(name: &str, kind: ChannelKind) -> Channel {
    let name = ChannelName::parse(name).unwrap();
    Channel { name, kind, groups: [].into(), fallback: None, quiet: None }
}

fn of_groups(channel: Channel, groups: &[&str]) -> Channel {
    Channel { groups: groups.iter().map(|group| GroupName::parse(group).unwrap()).collect(), ..channel }
}

fn to(name: &str) -> Destination {
    Destination::Channel(ChannelName::parse(name).unwrap())
}

fn told(channels: impl IntoIterator<Item = Channel>) -> Setup {
    Setup { channels: Channels::new(channels, []).unwrap(), ..Setup::default() }
}

fn called_back() -> Setup {
    let bot = AgentId::parse("billing-bot").unwrap();
    Setup { channels: Channels::new([], [bot]).unwrap(), ..Setup::default() }
}

/// A courier that answers as it is told, and then that all arrived, each at a place of its own.
#[derive(Default)]
struct Recorder {
    answers: Mutex<VecDeque<Delivery>>,
    sent: Mutex<Vec<Dispatch>>,
}

impl Recorder {
    fn answering(answers: impl IntoIterator<Item = Delivery>) -> Self {
        Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() }
    }

    fn sent(&self) -> Vec<Dispatch> {
        self.sent.lock().unwrap().clone()
    }

    fn assert_as_described(&self, schema: &str) {
        for dispatch in self.sent() {
            let Dispatch::Event { event, at, data, .. } = dispatch else { panic!("no event") };
            assert_as_described(schema, &webhook::body(event, at, &data));
        }
    }

    fn events(&self) -> Vec<String> {
        self.sent().iter().map(shown).collect()
    }
}

#[async_trait]
impl Courier for Recorder {
    async fn deliver(&self, dispatch: &Dispatch) -> Delivery {
        let mut sent = self.sent.lock().unwrap();
        sent.push(dispatch.clone());
        let place = Some(format!("place-{}", sent.len()));
        self.answers.lock().unwrap().pop_front().unwrap_or(Delivery::Done { place })
    }
}

/// A message in a few words: its event, its state and to whom.
fn shown(dispatch: &Dispatch) -> String {
    match dispatch {
        Dispatch::Event { event, data, .. } => {
            format!("{event} {}", data["state"].as_str().or(data["status"].as_str()).unwrap())
        }
        Dispatch::Card { event, recipient, card, posted, .. } => {
            let whom = recipient.as_ref().map(|to| format!(" to {}", to.email)).unwrap_or_default();
            let place = posted.as_ref().map(|place| format!(" at {place}")).unwrap_or_default();
            format!("{event} {}{whom}{place}", card.approval.state.name().as_str())
        }
        Dispatch::Digest { event, cards, .. } => format!("{event} of {}", cards.len()),
    }
}

fn id_of(dispatch: &Dispatch) -> NoticeId {
    match dispatch {
        Dispatch::Event { id, .. } | Dispatch::Card { id, .. } | Dispatch::Digest { id, .. } => *id,
    }
}

fn later(fault: &str) -> Delivery {
    Delivery::Later { after: None, fault: fault.to_owned() }
}

async fn deliver(world: &World, to: &Destination, courier: &Recorder) -> usize {
    world.app.deliver_to(to, courier).await.unwrap()
}

async fn hold(world: &World) -> Approval {
    world.hold("send_email", json!({ "to": "x@acme.example" })).await.1
}

#[tokio::test]
async fn a_machine_is_told_of_every_step_without_an_argument() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        let courier = Recorder::default();
        let (request, approval) = world.hold("send_email", json!({ "to": "secret@acme.example" })).await;
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 1);
        world.approve(&world.ana, &approval).await.unwrap();
        let claimed = world.claim(&approval, &request.call.args, None).await.unwrap();
        world.report(&claimed, countersign::domain::approval::outcome::ReportedStatus::Succeeded).await.unwrap();
        deliver(&world, &to("hook"), &courier).await;
        assert_eq!(
            courier.events(),
            [
                "approval.requested pending",
                "approval.approved approved",
                "approval.executed executed",
                "approval.outcome executed",
            ]
        );
        let Some(Dispatch::Event { data, .. }) = courier.sent().pop() else { panic!("no event") };
        assert_eq!(data["outcome"], "succeeded");
        assert_eq!(data["run_id"], "run-1");
        assert_eq!(data["tool_use_id"], json!(approval.call.tool_use_id));
        assert!(!format!("{:?}", courier.sent()).contains("secret@"));
        courier.assert_as_described("ApprovalEvent");
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_message_of_a_transaction_that_failed_was_never_written() {
    let faults = Faults::default();
    let setup = Setup { wrap: Some(faults.wrap()), ..told([channel("hook", ChannelKind::Webhook)]) };
    on_each_engine_with(setup, move |world| {
        let faults = faults.clone();
        async move {
            faults.then(At::Commit, StoreError::Unavailable("gone".to_owned()));
            let refused = world.ask(&world.call("send_email", json!({ "to": "x@acme.example" }))).await;
            assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
            assert_eq!(world.app.due_destinations().await.unwrap(), []);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_instances_at_once_send_each_message_once() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        for _ in 0..10 {
            hold(&world).await;
        }
        let courier = Arc::new(Recorder::default());
        let mut instances = Vec::new();
        for _ in 0..4 {
            instances.push(world.another_instance(told([channel("hook", ChannelKind::Webhook)])).await);
        }
        let tasks: Vec<_> = instances
            .iter()
            .map(|instance| {
                let (app, courier) = (Arc::clone(&instance.app), Arc::clone(&courier));
                tokio::spawn(async move { app.deliver_to(&to("hook"), courier.as_ref()).await.unwrap() })
            })
            .collect();
        let mut arrived = 0;
        for task in tasks {
            arrived += task.await.unwrap();
        }
        arrived += deliver(&world, &to("hook"), &courier).await;
        assert_eq!(arrived, 10);
        let mut ids: Vec<_> = courier.sent().iter().map(id_of).collect();
        ids.sort();
        ids.dedup();
        assert_eq!((courier.sent().len(), ids.len()), (10, 10));
    })
    .await;
}

#[tokio::test]
async fn what_an_instance_left_behind_another_one_delivers_when_the_lease_is_over() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        hold(&world).await;
        let mut tx = world.store.begin().await.unwrap();
        let until = START.plus(Duration::from_secs(20));
        assert!(tx.lease_destination(&to("hook"), "killed", START, until).await.unwrap().is_some());
        tx.commit().await.unwrap();
        let courier = Recorder::default();
        world.clock.set(until.minus(Duration::from_micros(1)));
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 0);
        world.clock.set(until);
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_failed_attempt_is_made_again_later_under_the_same_id() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        hold(&world).await;
        let courier = Recorder::answering([later("answered 500"), later("nobody answered")]);
        deliver(&world, &to("hook"), &courier).await;
        assert_eq!(courier.sent().len(), 1);
        // A second, and up to a quarter of one more.
        world.clock.advance(Duration::from_millis(999));
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 0);
        assert_eq!(courier.sent().len(), 1);
        world.clock.advance(Duration::from_millis(251));
        deliver(&world, &to("hook"), &courier).await;
        assert_eq!(courier.sent().len(), 2);
        world.clock.advance(Duration::from_millis(2_500));
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 1);
        let ids: Vec<_> = courier.sent().iter().map(id_of).collect();
        assert_eq!(ids, [ids[0]; 3]);
    })
    .await;
}

#[tokio::test]
async fn somebody_who_asks_for_patience_gets_it() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        hold(&world).await;
        hold(&world).await;
        let patience = Delivery::Later { after: Some(5 * MINUTE), fault: "answered 429".to_owned() };
        let courier = Recorder::answering([patience]);
        deliver(&world, &to("hook"), &courier).await;
        world.clock.advance(5 * MINUTE - Duration::from_micros(1));
        deliver(&world, &to("hook"), &courier).await;
        assert_eq!(courier.sent().len(), 1, "nothing else is sent there either");
        world.clock.advance(Duration::from_micros(1));
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 2);
    })
    .await;
}

/// `name` of the finance group, of a kind that posts without buttons, with `next` to be told instead.
fn falling_back(name: &str, kind: ChannelKind, next: &str) -> Channel {
    let fallback = Some(ChannelName::parse(next).unwrap());
    Channel { fallback, ..of_groups(channel(name, kind), &["finance", "support-leads"]) }
}

/// A channel that none of what is held here asks.
fn of_others(name: &str, kind: ChannelKind) -> Channel {
    of_groups(channel(name, kind), &["nobody"])
}

/// A refund that finance and the leads are asked about.
async fn refund(world: &World) -> Approval {
    refund_in("run-1", world).await
}

async fn refund_in(run: &str, world: &World) -> Approval {
    let mut request = world.call("issue_refund", json!({ "order": "o", "amount": 6000 }));
    request.call.key.run = RunId::parse(run).unwrap();
    held(world.ask(&request).await.unwrap()).approval
}

async fn is_due(world: &World, name: &str) -> bool {
    world.app.due_destinations().await.unwrap().contains(&to(name))
}

#[tokio::test]
async fn a_message_that_fails_among_others_that_arrive_is_told_to_the_next_channel_after_five_attempts() {
    let channels = [falling_back("hook", ChannelKind::Webhook, "teams"), of_others("teams", ChannelKind::Teams)];
    on_each_engine_with(told(channels), |world| async move {
        let approval = refund(&world).await;
        let courier = Recorder::answering(std::iter::repeat_n(later("answered 500"), 5));
        for attempt in 1..=FALLBACK_AFTER {
            assert!(!is_due(&world, "teams").await, "attempt {attempt}");
            deliver(&world, &to("hook"), &courier).await;
            assert_eq!(courier.sent().len() as u32, attempt);
            world.clock.advance(back_off(attempt) * 5 / 4);
        }
        let teams = Recorder::default();
        assert_eq!(deliver(&world, &to("teams"), &teams).await, 1);
        assert_eq!(teams.events(), ["approval.requested pending"]);
        assert_eq!(world.stored(&approval).await, approval, "nothing is decided by a channel that is down");
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 1);
        assert!(!is_due(&world, "teams").await, "it was told once");
    })
    .await;
}

#[tokio::test]
async fn after_many_failures_a_message_is_given_up() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        hold(&world).await;
        let courier = Recorder::answering(std::iter::repeat_n(later("answered 500"), 100));
        for attempt in 1..=MOST_ATTEMPTS {
            assert_eq!(world.app.dead_letters(None, 10).await.unwrap().0, [], "attempt {attempt}");
            deliver(&world, &to("hook"), &courier).await;
            assert_eq!(courier.sent().len() as u32, attempt);
            world.clock.advance(back_off(attempt) * 5 / 4);
        }
        let dead = world.app.dead_letters(None, 10).await.unwrap().0;
        assert_eq!(dead.iter().map(|dead| dead.attempts).collect::<Vec<_>>(), [MOST_ATTEMPTS]);
        deliver(&world, &to("hook"), &courier).await;
        assert_eq!(courier.sent().len() as u32, MOST_ATTEMPTS);
    })
    .await;
}

/// A courier at whose end everything arrives but what is about one approval.
struct AllBut {
    approval: ApprovalId,
    recorder: Recorder,
}

#[async_trait]
impl Courier for AllBut {
    async fn deliver(&self, dispatch: &Dispatch) -> Delivery {
        let Dispatch::Event { data, .. } = dispatch else { panic!("no event") };
        if data["approval_id"] == json!(self.approval) {
            later("answered 500")
        } else {
            self.recorder.deliver(dispatch).await
        }
    }
}

#[tokio::test]
async fn a_message_that_keeps_failing_holds_up_no_other() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        let courier = AllBut { approval: hold(&world).await.id, recorder: Recorder::default() };
        for number in 1..=10 {
            hold_in_new_run(&world).await;
            // The one that fails is due again and again, and never goes before one that was not tried.
            for _ in 0..2 {
                world.app.deliver_to(&to("hook"), &courier).await.unwrap();
                world.clock.advance(Duration::from_millis(1_500));
            }
            assert_eq!(courier.recorder.sent().len(), number);
        }
    })
    .await;
}

/// Lets a minute go by in seconds in which messages are delivered to `hook`, and passed on where they do not arrive.
async fn a_minute_at(hook: &str, courier: &Recorder, world: &World) {
    for _ in 0..60 {
        deliver(world, &to(hook), courier).await;
        world.app.pass_on_waiting().await.unwrap();
        world.clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn what_waits_where_nothing_arrives_is_told_elsewhere_within_a_minute_tried_or_not() {
    let channels = [falling_back("hook", ChannelKind::Webhook, "other"), of_others("other", ChannelKind::Webhook)];
    on_each_engine_with(told(channels), |world| async move {
        for number in 0..12 {
            refund_in(&format!("run-{number}"), &world).await;
        }
        let down = Recorder::answering(std::iter::repeat_n(later("nobody answered"), 1_000));
        a_minute_at("hook", &down, &world).await;
        assert!(down.sent().len() < 12, "a destination that does not answer is not tried over and over");
        let other = Recorder::default();
        assert_eq!(deliver(&world, &to("other"), &other).await, 12);

        // And what comes while nothing arrives waits for a quarter of a minute, not for the next attempt.
        refund_in("run-13", &world).await;
        world.clock.advance(Duration::from_secs(14));
        world.app.pass_on_waiting().await.unwrap();
        assert_eq!(deliver(&world, &to("other"), &other).await, 0);
        world.clock.advance(Duration::from_secs(1));
        world.app.pass_on_waiting().await.unwrap();
        assert_eq!(deliver(&world, &to("other"), &other).await, 1);
        assert_eq!(world.app.pass_on_waiting().await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn what_is_refused_is_told_to_the_next_channel_at_once_and_so_is_what_comes_to_one_that_is_disabled() {
    let channels = [falling_back("hook", ChannelKind::Webhook, "other"), of_others("other", ChannelKind::Webhook)];
    on_each_engine_with(told(channels), |world| async move {
        let refused = Delivery::Refused { fault: "answered 400".to_owned() };
        let gone = Delivery::Gone { fault: "answered 410".to_owned() };
        let (courier, other) = (Recorder::answering([refused, gone]), Recorder::default());
        for number in 1..=3 {
            refund(&world).await;
            deliver(&world, &to("hook"), &courier).await;
            deliver(&world, &to("other"), &other).await;
            assert_eq!(other.sent().len(), number);
        }
        assert_eq!(courier.sent().len(), 2, "nothing is sent to one that is disabled");
    })
    .await;
}

#[tokio::test]
async fn a_channel_that_stands_in_for_mail_to_many_shows_each_request_once() {
    let mail = falling_back("mail", ChannelKind::Email, "teams");
    let setup = Setup {
        reviewers: vec![("ana", &["finance"]), ("bo", &["finance"]), ("cy", &["support-leads"])],
        ..told([mail, of_others("teams", ChannelKind::Teams)])
    };
    on_each_engine_with(setup, |world| async move {
        let approval = refund(&world).await;
        let refused = Delivery::Refused { fault: "the server answered 535".to_owned() };
        let mail = Recorder::answering(std::iter::repeat_n(refused, 1_000));
        let teams = Recorder::default();
        deliver(&world, &to("mail"), &mail).await;
        assert_eq!(mail.sent().len(), 3);
        deliver(&world, &to("teams"), &teams).await;
        assert_eq!(teams.events(), ["approval.requested pending"]);
        // A reminder is something else to tell, and so is the next one.
        let ttl = approval.expires_at.since(approval.created_at);
        for at in [ttl / 2, ttl / 10 * 9] {
            world.clock.set(approval.created_at.plus(at));
            deliver(&world, &to("mail"), &mail).await;
            deliver(&world, &to("teams"), &teams).await;
        }
        assert_eq!(teams.events()[1..], ["approval.reminder pending", "approval.reminder pending"]);
    })
    .await;
}

#[tokio::test]
async fn what_a_channel_of_others_was_told_instead_it_sees_brought_to_its_final_state() {
    let channels = [falling_back("hook", ChannelKind::Webhook, "chat"), of_others("chat", ChannelKind::Slack)];
    on_each_engine_with(told(channels), |world| async move {
        let approval = refund(&world).await;
        let refused = Delivery::Refused { fault: "answered 400".to_owned() };
        deliver(&world, &to("hook"), &Recorder::answering([refused])).await;
        let chat = Recorder::default();
        deliver(&world, &to("chat"), &chat).await;
        world.deny(&world.ana, &approval, None).await.unwrap();
        world.clock.advance(MINUTE);
        deliver(&world, &to("chat"), &chat).await;
        assert_eq!(chat.events(), ["approval.requested pending", "approval.denied denied at place-1"]);

        let unshown = refund_in("run-2", &world).await;
        world.deny(&world.ana, &unshown, None).await.unwrap();
        assert!(!is_due(&world, "chat").await, "it is told of nothing else");
    })
    .await;
}

#[tokio::test]
async fn an_escalation_that_a_channel_could_not_be_told_reaches_a_machine_as_a_request() {
    let leads = Channel {
        fallback: Some(ChannelName::parse("hook").unwrap()),
        ..of_groups(channel("leads", ChannelKind::Teams), &["support-leads"])
    };
    let hook = of_groups(channel("hook", ChannelKind::Webhook), &["finance"]);
    let setup = Setup { policy: ESCALATING.to_owned(), ..told([leads, hook]) };
    on_each_engine_with(setup, |world| async move {
        world.hold("refund", json!({})).await;
        let hook = Recorder::default();
        deliver(&world, &to("hook"), &hook).await;
        world.clock.advance(15 * MINUTE);
        let refused = Delivery::Refused { fault: "answered 400".to_owned() };
        deliver(&world, &to("leads"), &Recorder::answering([refused])).await;
        deliver(&world, &to("hook"), &hook).await;
        assert_eq!(hook.events(), ["approval.requested pending", "approval.requested pending"]);
    })
    .await;
}

#[tokio::test]
async fn an_instance_that_does_not_know_a_channel_leaves_it_to_those_that_do_and_gives_it_up_when_nobody_does() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        let none = Couriers::new();
        let dead = async || world.app.dead_letters(None, 10).await.unwrap().0.len();
        hold(&world).await;
        world.clock.advance(59 * MINUTE);
        assert_eq!(world.app.give_up_unserved(&none).await.unwrap(), 0);
        // Another instance serves it, though in vain.
        let down = Recorder::answering(std::iter::repeat_n(later("nobody answered"), 100));
        deliver(&world, &to("hook"), &down).await;
        world.clock.advance(59 * MINUTE);
        assert_eq!((world.app.give_up_unserved(&none).await.unwrap(), dead().await), (0, 0));
        world.clock.advance(2 * MINUTE);
        let known = Couriers::from([(to("hook"), Arc::new(Recorder::default()) as Arc<dyn Courier>)]);
        assert_eq!((world.app.give_up_unserved(&known).await.unwrap(), dead().await), (0, 0));
        assert_eq!((world.app.give_up_unserved(&none).await.unwrap(), dead().await), (1, 1));
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn two_failures_days_apart_disable_nothing() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        let refused = Delivery::Refused { fault: "answered 400".to_owned() };
        let courier = Recorder::answering([refused, later("nobody answered")]);
        for _ in 0..2 {
            hold_in_new_run(&world).await;
            deliver(&world, &to("hook"), &courier).await;
            world.clock.advance(Duration::from_secs(4 * 24 * 3_600));
        }
        assert_eq!(courier.sent().len(), 2);
        let shown = world.app.destinations().await.unwrap().remove(0);
        assert_eq!(
            (shown.failing_since, shown.disabled),
            (Some(START.plus(Duration::from_secs(4 * 24 * 3_600))), None)
        );
    })
    .await;
}

#[tokio::test]
async fn a_request_goes_before_the_news_of_others_and_one_message_is_changed_once_for_all_it_shows() {
    on_each_engine_with(told([channel("chat", ChannelKind::Slack)]), |world| async move {
        let mut held = Vec::new();
        for _ in 0..9 {
            held.push(hold(&world).await);
        }
        let courier = Recorder::default();
        deliver(&world, &to("chat"), &courier).await;
        for approval in &held[..5] {
            world.approve(&world.ana, approval).await.unwrap();
        }
        hold(&world).await;
        for _ in 0..3 {
            world.clock.advance(Duration::from_secs(1));
            deliver(&world, &to("chat"), &courier).await;
        }
        assert_eq!(
            courier.events(),
            ["approval.requested of 9", "approval.requested pending", "approval.approved of 9"]
        );
    })
    .await;
}

#[tokio::test]
async fn a_chat_gets_a_message_a_second_at_most() {
    on_each_engine_with(told([channel("chat", ChannelKind::Teams)]), |world| async move {
        let courier = Recorder::default();
        for _ in 0..2 {
            hold(&world).await;
        }
        assert_eq!(deliver(&world, &to("chat"), &courier).await, 1);
        world.clock.advance(Duration::from_millis(999));
        assert_eq!(deliver(&world, &to("chat"), &courier).await, 0);
        world.clock.advance(Duration::from_millis(1));
        assert_eq!(deliver(&world, &to("chat"), &courier).await, 1);
    })
    .await;
}

#[tokio::test]
async fn what_was_given_up_is_listed_recorded_and_sent_when_somebody_has_it_tried_again() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        hold(&world).await;
        let courier = Recorder::answering([Delivery::Refused { fault: "the address is private".to_owned() }]);
        deliver(&world, &to("hook"), &courier).await;
        world.clock.advance(10 * MINUTE);
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 0, "nobody tries again unasked");
        let (dead, next) = world.app.dead_letters(None, 10).await.unwrap();
        assert_eq!((dead.len(), next), (1, None));
        assert_eq!(dead[0].failed[0].fault, "the address is private");
        assert_eq!(dead[0].dead_since, Some(START));
        assert_eq!(world.app.destinations().await.unwrap()[0].dead, 1);
        assert_eq!(world.entries_of(EventKind::NoticeDead).await.len(), 1);

        let id = dead[0].notice.id;
        world.app.replay_dead_letter(&world.bot, id).await.unwrap();
        assert_eq!(world.app.replay_dead_letter(&world.bot, id).await, Err(Error::NotFound));
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 1);
        assert_eq!(courier.sent().iter().map(id_of).collect::<Vec<_>>(), [id, id]);
        assert_eq!(world.app.dead_letters(None, 10).await.unwrap().0, []);
        assert_eq!(world.entries_of(EventKind::NoticeReplayed).await.len(), 1);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_destination_that_is_gone_is_tried_no_more_until_somebody_enables_it() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        hold(&world).await;
        hold(&world).await;
        let courier = Recorder::answering([Delivery::Gone { fault: "answered 410".to_owned() }]);
        deliver(&world, &to("hook"), &courier).await;
        assert_eq!(courier.sent().len(), 1);
        assert_eq!(world.app.dead_letters(None, 10).await.unwrap().0.len(), 2);
        let shown = world.app.destinations().await.unwrap().remove(0);
        assert_eq!(shown.disabled, Some((START, "answered 410".to_owned())));
        assert_eq!(world.entries_of(EventKind::DestinationDisabled).await.len(), 1);

        world.app.enable_destination(&world.bot, &to("hook")).await.unwrap();
        assert_eq!(world.app.enable_destination(&world.bot, &to("hook")).await, Err(Error::NotFound));
        hold(&world).await;
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 1);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn days_of_nothing_but_failures_disable_a_destination() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        let courier = Recorder::answering(std::iter::repeat_n(later("nobody answered"), 1_000));
        for _ in 0..(3 * 24 + 1) {
            hold_in_new_run(&world).await;
            deliver(&world, &to("hook"), &courier).await;
            world.clock.advance(Duration::from_secs(3_600));
        }
        deliver(&world, &to("hook"), &courier).await;
        let shown = world.app.destinations().await.unwrap().remove(0);
        assert_eq!(shown.failing_since, Some(START));
        assert_eq!(shown.disabled.map(|(_, why)| why), Some("nobody answered".to_owned()));
    })
    .await;
}

/// A call of a run of its own, which no cap of an earlier one holds back.
async fn hold_in_new_run(world: &World) {
    let mut request = world.call("send_email", json!({ "to": "x@acme.example" }));
    let run = format!("run-{}", world.app.now().as_micros());
    request.call.key.run = RunId::parse(&run).unwrap();
    world.ask(&request).await.unwrap();
}

#[tokio::test]
async fn a_burst_becomes_one_message() {
    on_each_engine_with(told([channel("chat", ChannelKind::Slack)]), |world| async move {
        let mut held = Vec::new();
        for _ in 0..9 {
            held.push(hold(&world).await);
        }
        let courier = Recorder::default();
        assert_eq!(deliver(&world, &to("chat"), &courier).await, 1);
        assert_eq!(courier.events(), ["approval.requested of 9"]);
        // The one message is changed when one of them is decided.
        world.approve(&world.ana, &held[3]).await.unwrap();
        world.clock.advance(MINUTE);
        assert_eq!(deliver(&world, &to("chat"), &courier).await, 1);
        let Some(Dispatch::Digest { cards, posted, .. }) = courier.sent().pop() else { panic!("no digest") };
        assert_eq!(posted.as_deref(), Some("place-1"));
        let approved: Vec<_> = cards.iter().filter(|card| card.approval.state.name() == StateName::Approved).collect();
        assert_eq!(approved.len(), 1);
        assert_eq!(approved[0].approval.id, held[3].id);
    })
    .await;
}

#[tokio::test]
async fn whoever_decides_before_it_is_sent_is_not_asked_any_more() {
    on_each_engine_with(told([channel("chat", ChannelKind::Slack)]), |world| async move {
        let approval = hold(&world).await;
        world.approve(&world.ana, &approval).await.unwrap();
        let courier = Recorder::default();
        assert_eq!(deliver(&world, &to("chat"), &courier).await, 0);
        world.clock.advance(TTL);
        assert_eq!(deliver(&world, &to("chat"), &courier).await, 0, "nor reminded");
        assert_eq!(courier.events(), [] as [String; 0]);
    })
    .await;
}

#[tokio::test]
async fn what_was_posted_is_brought_to_its_final_state() {
    on_each_engine_with(told([channel("chat", ChannelKind::Slack)]), |world| async move {
        let approval = hold(&world).await;
        let courier = Recorder::default();
        deliver(&world, &to("chat"), &courier).await;
        world.deny(&world.ana, &approval, None).await.unwrap();
        world.clock.advance(MINUTE);
        deliver(&world, &to("chat"), &courier).await;
        assert_eq!(courier.events(), ["approval.requested pending", "approval.denied denied at place-1"]);
    })
    .await;
}

/// Approves while the message that asks is on its way.
struct Overtaken {
    world: Arc<World>,
    approval: Approval,
}

#[async_trait]
impl Courier for Overtaken {
    async fn deliver(&self, _: &Dispatch) -> Delivery {
        self.world.approve(&self.world.ana, &self.approval).await.unwrap();
        // The word of it comes before anybody knows where the message stands.
        let early = Recorder::default();
        assert_eq!(deliver(&self.world, &to("chat"), &early).await, 0);
        Delivery::Done { place: Some("place-0".to_owned()) }
    }
}

#[tokio::test]
async fn a_message_that_a_decision_overtook_is_brought_to_its_final_state_too() {
    on_each_engine_with(told([channel("chat", ChannelKind::Slack)]), |world| async move {
        let world = Arc::new(world);
        let approval = hold(&world).await;
        let overtaken = Overtaken { world: Arc::clone(&world), approval };
        assert_eq!(world.app.deliver_to(&to("chat"), &overtaken).await.unwrap(), 1);
        world.clock.advance(MINUTE);
        let courier = Recorder::default();
        assert_eq!(deliver(&world, &to("chat"), &courier).await, 1);
        let Some(Dispatch::Card { card, posted, .. }) = courier.sent().pop() else { panic!("no card") };
        assert_eq!((card.approval.state.name(), posted.as_deref()), (StateName::Approved, Some("place-0")));
    })
    .await;
}

#[tokio::test]
async fn people_are_reminded_at_half_and_at_nine_tenths_of_the_time() {
    on_each_engine_with(told([channel("chat", ChannelKind::Teams)]), |world| async move {
        hold(&world).await;
        let courier = Recorder::default();
        deliver(&world, &to("chat"), &courier).await;
        world.clock.set(START.plus(TTL / 2).minus(Duration::from_micros(1)));
        deliver(&world, &to("chat"), &courier).await;
        assert_eq!(courier.sent().len(), 1);
        world.clock.set(START.plus(TTL / 2));
        deliver(&world, &to("chat"), &courier).await;
        world.clock.set(START.plus(TTL / 10 * 9));
        deliver(&world, &to("chat"), &courier).await;
        world.clock.set(START.plus(TTL));
        world.app.record_elapsed().await.unwrap();
        deliver(&world, &to("chat"), &courier).await;
        assert_eq!(
            courier.events(),
            [
                "approval.requested pending",
                "approval.reminder pending",
                "approval.reminder pending",
                "approval.expired expired",
            ]
        );
    })
    .await;
}

/// Refunds that the leads may decide when finance has not after a quarter of an hour.
const ESCALATING: &str = r#"
schema = 1
[tools.refund]
risk = "send"
parameters = { type = "object", properties = { order = { type = "string" } } }
approval = { reviewers = ["finance"], escalate = ["support-leads"], escalate_after = "15m" }
"#;

#[tokio::test]
async fn an_escalation_is_told_to_those_who_may_decide_from_then_on_and_to_nobody_else() {
    let finance = of_groups(channel("finance", ChannelKind::Teams), &["finance"]);
    let leads = of_groups(channel("leads", ChannelKind::Teams), &["support-leads"]);
    let hook = of_groups(channel("hook", ChannelKind::Webhook), &["support-leads"]);
    let setup = Setup { policy: ESCALATING.to_owned(), ..told([finance, leads, hook]) };
    on_each_engine_with(setup, |world| async move {
        world.hold("refund", json!({})).await;
        assert_eq!(world.app.due_destinations().await.unwrap(), [to("finance")]);
        world.clock.advance(15 * MINUTE);
        assert_eq!(world.app.due_destinations().await.unwrap(), [to("finance"), to("hook"), to("leads")]);
        let (leads, hook) = (Recorder::default(), Recorder::default());
        deliver(&world, &to("leads"), &leads).await;
        deliver(&world, &to("hook"), &hook).await;
        assert_eq!(leads.events(), ["approval.escalated pending"]);
        assert_eq!(hook.events(), ["approval.requested pending"]);
    })
    .await;
}

#[tokio::test]
async fn nobody_is_disturbed_in_quiet_hours_unless_it_would_be_too_late() {
    // It is noon in London.
    let quiet = Some(QuietHours::parse("11:00-14:00", "Europe/London").unwrap());
    let chat = Channel { quiet, ..channel("chat", ChannelKind::Teams) };
    on_each_engine_with(told([chat]), |world| async move {
        let courier = Recorder::default();
        hold(&world).await;
        deliver(&world, &to("chat"), &courier).await;
        assert_eq!(courier.sent().len(), 0);
        // This one runs out within the hour.
        world.hold("issue_refund", json!({ "order": "o", "amount": 300 })).await;
        deliver(&world, &to("chat"), &courier).await;
        assert_eq!(courier.events(), ["approval.requested pending"]);
        world.clock.set(START.plus(120 * MINUTE));
        deliver(&world, &to("chat"), &courier).await;
        assert_eq!(courier.events().last().unwrap(), "approval.requested pending");
        assert_eq!(courier.sent().len(), 2, "the reminder that came due meanwhile is no message of its own");
    })
    .await;
}

#[tokio::test]
async fn mail_goes_to_each_person_asked_and_to_the_deputy_of_one_who_is_away() {
    let deputy = ReviewerName::parse("cy").unwrap();
    let absence = Absence { from: START.plus(MINUTE), until: START.plus(60 * MINUTE), deputy };
    let setup = Setup {
        reviewers: vec![("ana", &["finance"]), ("bo", &["support-leads"]), ("cy", &[])],
        absent: vec![("ana", absence)],
        ..told([channel("mail", ChannelKind::Email)])
    };
    on_each_engine_with(setup, |world| async move {
        let courier = Recorder::default();
        let refund = json!({ "order": "o", "amount": 6000 });
        world.hold("issue_refund", refund.clone()).await;
        deliver(&world, &to("mail"), &courier).await;
        assert_eq!(
            courier.events(),
            ["approval.requested pending to ana@acme.example", "approval.requested pending to bo@acme.example",]
        );
        world.clock.advance(MINUTE);
        let (_, approval) = world.hold("issue_refund", refund).await;
        deliver(&world, &to("mail"), &courier).await;
        assert_eq!(courier.events()[2], "approval.requested pending to cy@acme.example");
        assert_eq!(courier.events()[3], "approval.requested pending to bo@acme.example");
        // And the deputy may decide what ana could.
        let groups = world.app.reviewers().groups_at(&ReviewerName::parse("cy").unwrap(), world.app.now());
        assert!(approval.requirement.admits(&groups, approval.created_at, world.app.now()));
    })
    .await;
}

#[tokio::test]
async fn a_deputy_who_is_asked_anyway_gets_one_message() {
    let deputy = ReviewerName::parse("cy").unwrap();
    let absence = Absence { from: START, until: START.plus(60 * MINUTE), deputy };
    let setup = Setup {
        reviewers: vec![("ana", &["finance"]), ("bo", &["support-leads"]), ("cy", &["finance"])],
        absent: vec![("ana", absence)],
        ..told([channel("mail", ChannelKind::Email)])
    };
    on_each_engine_with(setup, |world| async move {
        let courier = Recorder::default();
        refund(&world).await;
        deliver(&world, &to("mail"), &courier).await;
        assert_eq!(
            courier.events(),
            ["approval.requested pending to bo@acme.example", "approval.requested pending to cy@acme.example"]
        );
    })
    .await;
}

#[tokio::test]
async fn who_has_voted_is_not_reminded_and_the_others_are() {
    let setup = Setup {
        reviewers: vec![("ana", &["finance"]), ("bo", &["support-leads"])],
        ..told([channel("mail", ChannelKind::Email)])
    };
    on_each_engine_with(setup, |world| async move {
        let courier = Recorder::default();
        let (_, approval) = world.hold("issue_refund", json!({ "order": "o", "amount": 6000 })).await;
        deliver(&world, &to("mail"), &courier).await;
        world.approve(&world.ana, &approval).await.unwrap();
        world.clock.advance(approval.expires_at.since(approval.created_at) / 2);
        deliver(&world, &to("mail"), &courier).await;
        assert_eq!(courier.events()[2..], ["approval.reminder pending to bo@acme.example"]);
    })
    .await;
}

#[tokio::test]
async fn nobody_gets_more_than_an_hour_of_patience() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        hold(&world).await;
        let patient = Delivery::Later { after: Some(24 * 60 * MINUTE), fault: "answered 429".to_owned() };
        let courier = Recorder::answering([patient]);
        deliver(&world, &to("hook"), &courier).await;
        world.clock.advance(60 * MINUTE);
        assert_eq!(deliver(&world, &to("hook"), &courier).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_destination_that_refuses_is_seen_to_fail() {
    on_each_engine_with(told([channel("hook", ChannelKind::Webhook)]), |world| async move {
        hold(&world).await;
        let courier = Recorder::answering([Delivery::Refused { fault: "answered invalid_auth".to_owned() }]);
        deliver(&world, &to("hook"), &courier).await;
        let views = world.app.destinations().await.unwrap();
        assert_eq!((views[0].dead, views[0].failing_since), (1, Some(START)));
        hold(&world).await;
        deliver(&world, &to("hook"), &courier).await;
        assert_eq!(world.app.destinations().await.unwrap()[0].failing_since, None);
    })
    .await;
}

#[tokio::test]
async fn the_stack_is_told_once_that_its_run_may_go_on() {
    on_each_engine_with(called_back(), |world| async move {
        let back = Destination::Callback(AgentId::parse("billing-bot").unwrap());
        let courier = Recorder::default();
        let (one, two) = (hold(&world).await, hold(&world).await);
        world.approve(&world.ana, &one).await.unwrap();
        deliver(&world, &back, &courier).await;
        assert!(!courier.events().iter().any(|event| event.starts_with("run.ready")), "another call waits");
        world.deny(&world.ana, &two, None).await.unwrap();
        deliver(&world, &back, &courier).await;
        assert_eq!(courier.events().last().unwrap(), "run.ready ready");
        let ready = courier.sent().pop();
        Recorder { sent: Mutex::new(ready.into_iter().collect()), ..Recorder::default() }
            .assert_as_described("RunReadyEvent");
        let before = courier.sent().len();
        // A denial taken back from what was approved changes nothing about that.
        world.app.revoke_approval(&world.ana, one.id, None).await.unwrap();
        deliver(&world, &back, &courier).await;
        assert_eq!(courier.events()[before..], ["approval.denied denied"]);
    })
    .await;
}

#[tokio::test]
async fn a_stack_is_told_of_its_own_agents_only() {
    on_each_engine_with(called_back(), |world| async move {
        let mut request = world.call("send_email", json!({ "to": "x" }));
        request.call.key.agent = AgentId::parse("other-bot").unwrap();
        world.app.decide_call(&world.other_bot, &request).await.unwrap();
        assert_eq!(world.app.due_destinations().await.unwrap(), []);
    })
    .await;
}

#[test]
fn a_notice_event_is_read_as_it_is_written() {
    for event in NoticeEvent::ALL {
        assert_eq!(event.as_str().parse(), Ok(event));
    }
    assert!("approval.maybe".parse::<NoticeEvent>().is_err());
}
