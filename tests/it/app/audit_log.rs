//! The audit log: one chain whoever writes, nothing secret in it, and nothing permitted that is not in it.

mod store_failures;

use std::sync::Arc;

use countersign::{
    app::{
        audit_log::{Subject, VerificationFault},
        error::Error,
        ports::EntryFilter,
        report_outcome::OutcomeReport,
    },
    domain::{
        approval::outcome::ReportedStatus,
        audit::{entry::EventKind, payload},
        canon::json::canonical,
        ids::DecisionId,
        verdict::Verdict,
    },
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::support::world::{
    POLICY, Setup, World, allowed, held, object, on_each_engine, on_each_engine_with, refused,
};

/// Text that must not stand in any row that outlives its erasure.
const MARKER: &str = "zebra-4711";

/// Every entry as it is stored, in one text.
async fn log_text(world: &World) -> String {
    let entries = world.store.entries_after(0, u32::MAX).await.unwrap();
    entries.iter().map(|sealed| serde_json::to_string(&sealed.entry).unwrap()).collect()
}

async fn payload_of_last_decision(world: &World) -> Option<Value> {
    let entry = world.entries_of(EventKind::Decision).await.pop().unwrap().entry;
    let payload = world.store.payload(entry.payload?).await.unwrap().unwrap();
    Some(serde_json::from_str(payload.body()).unwrap())
}

#[tokio::test]
async fn an_entry_says_who_asked_what_was_decided_and_why() {
    on_each_engine(|world| async move {
        let request = world.call("issue_refund", json!({ "order": "o-1", "amount": 20 }));
        let decision = allowed(world.ask(&request).await.unwrap()).decision;
        let entry = world.entries_of(EventKind::Decision).await.remove(0).entry;
        assert_eq!(entry.actor.name, "billing-bot");
        assert!(entry.actor.via.starts_with("key:key_"));
        assert_eq!(entry.actor.via, world.bot.principal.credential().to_string());
        assert_eq!(entry.request_id.as_deref(), Some("req-billing-bot"));
        assert_eq!(entry.call, Some(request.call.key));
        assert_eq!(entry.decision, Some(decision));
        assert_eq!(entry.verdict, Some(Verdict::AllowAudited));
        assert_eq!(entry.reason_code.as_deref(), Some("rule"));
        assert_eq!(entry.rule.as_deref(), Some("small-refund"));
        assert_eq!(entry.reason.as_deref(), Some("under the auto-refund limit"));
        let rules = json!({ "small-refund": "true", "large-refund": "false", "absurd-refund": "false" });
        assert_eq!(entry.detail["rules"], rules);
        assert_eq!(entry.policy_version, Some(world.app.policy().version().to_string()));
    })
    .await;
}

#[tokio::test]
async fn allow_keeps_no_arguments_and_what_is_stricter_keeps_them() {
    on_each_engine(|world| async move {
        world.decide("read_file", json!({ "path": "a" })).await;
        assert_eq!(payload_of_last_decision(&world).await, None);
        for (tool, args) in [
            ("write_note", json!({ "text": "a" })),
            ("send_email", json!({ "to": "a" })),
            ("issue_refund", json!({ "order": "o", "amount": 100_001 })),
        ] {
            world.decide(tool, args.clone()).await;
            assert_eq!(payload_of_last_decision(&world).await.unwrap()["args"], args);
        }
    })
    .await;
}

#[tokio::test]
async fn a_tool_that_records_its_arguments_keeps_those_of_allowed_calls() {
    let policy = POLICY.replacen("risk = \"read\"", "risk = \"read\"\nrecord_args = true", 1);
    on_each_engine_with(Setup::with_policy(&policy), |world| async move {
        world.decide("read_file", json!({ "path": "a" })).await;
        assert_eq!(payload_of_last_decision(&world).await.unwrap()["args"], json!({ "path": "a" }));
    })
    .await;
}

#[tokio::test]
async fn arguments_that_no_schema_accepted_are_kept_as_a_salted_hash_alone() {
    let policy = POLICY.to_owned() + "[agents.billing-bot]\ntools = [\"read_file\"]\n";
    on_each_engine_with(Setup::with_policy(&policy), |world| async move {
        for (tool, args) in [
            ("no_such_tool", json!({ "x": MARKER })),
            ("send_email", json!({ "to": MARKER })),
            ("read_file", json!({ "path": { "a": MARKER } })),
            ("read_file", json!({ "path": "a", MARKER: 1 })),
            ("read_file", json!({ "path": [MARKER] })),
        ] {
            refused(world.decide(tool, args.clone()).await);
            let entry = world.entries_of(EventKind::Decision).await.pop().unwrap().entry;
            let stored = world.store.payload(entry.payload.unwrap()).await.unwrap().unwrap();
            assert!(!stored.body().contains(MARKER), "{tool}: {}", stored.body());
            let body: Value = serde_json::from_str(stored.body()).unwrap();
            let hash = payload::salted_hash(stored.salt(), &canonical(&object(args)).unwrap());
            assert_eq!(body["args_salted_hash"], json!(hash));
        }
        assert!(!log_text(&world).await.contains(MARKER));
    })
    .await;
}

#[tokio::test]
async fn no_entry_holds_an_argument_a_sentence_or_a_hash_that_could_be_guessed() {
    on_each_engine(|world| async move {
        let args = json!({ "to": format!("{MARKER}@acme.example"), "body": MARKER });
        let mut request = world.call("send_email", args.clone());
        request.rationale = Some(MARKER.to_owned());
        request.call.context = Some(json!({ "ticket": MARKER }));
        let approval = held(world.ask(&request).await.unwrap()).approval;
        let mut decision = crate::support::world::decision(&approval, true, Some(MARKER));
        decision.reason = Some(MARKER.to_owned());
        world.app.decide_approval(&world.ana, approval.id, &decision).await.unwrap();
        let claim = world.claim(&approval, &request.call.args, None).await.unwrap();
        let report = OutcomeReport {
            claim: Some(claim.claim.clone()),
            status: ReportedStatus::Failed,
            detail: Some(MARKER.to_owned()),
            result: Some(json!(MARKER)),
        };
        world.app.report_outcome(&world.bot, approval.id, &report).await.unwrap();
        let (_, denied) = world.hold("send_email", json!({ "to": MARKER })).await;
        world.deny(&world.ana, &denied, Some(MARKER)).await.unwrap();
        world.app.lift_denial(&world.ana, denied.id, Some(MARKER)).await.unwrap();
        world.decide("write_note", json!({ "text": MARKER })).await;
        let (wrong, approved) = world.approved("send_email", json!({ "to": format!("b{MARKER}") })).await;
        let other = crate::support::world::arguments(json!({ "to": format!("c{MARKER}") }));
        world.claim(&approved, &other, None).await.unwrap_err();
        let mut reused = wrong;
        reused.call.args = other;
        world.ask(&reused).await.unwrap_err();

        let text = log_text(&world).await;
        assert!(!text.contains(MARKER));
        assert!(!text.contains("args_hash"));
        let hash = request.call.args.hash().to_string();
        assert!(!text.contains(hash.trim_start_matches("sha256:")));
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn why_tells_a_decision_and_an_approval_from_the_log_oldest_first() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", json!({ "to": "x" })).await;
        world.claim(&approval, &request.call.args, None).await.unwrap();
        let told = world.app.why(Subject::Approval(approval.id)).await.unwrap().entries;
        let events: Vec<_> = told.iter().map(|told| told.sealed.entry.event).collect();
        use EventKind::{ApprovalApproved, ApprovalRequested, ApprovalVote, Claim, Decision};
        assert_eq!(events, [Decision, ApprovalRequested, ApprovalVote, ApprovalApproved, Claim]);
        assert_eq!(told[0].payload.as_ref().unwrap()["args"], json!({ "to": "x" }));
        let of_decision = world.app.why(Subject::Decision(approval.decision)).await.unwrap().entries;
        assert_eq!(of_decision.len(), told.len());
        let nobodys = Subject::Decision(DecisionId::from_uuid(Uuid::from_u128(1)));
        assert_eq!(world.app.why(nobodys).await, Err(Error::NotFound));
    })
    .await;
}

#[tokio::test]
async fn the_log_is_read_newest_first_page_by_page() {
    on_each_engine(|world| async move {
        for number in 0..5 {
            world.decide("read_file", json!({ "path": number.to_string() })).await;
        }
        let filter = EntryFilter { event: Some(EventKind::Decision), ..EntryFilter::default() };
        let mut seen = Vec::new();
        let mut before = None;
        loop {
            let page = world.app.audit_page(&filter, before, 2).await.unwrap();
            assert!(page.entries.len() <= 2);
            seen.extend(page.entries.into_iter().map(|sealed| sealed.seq));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen.len(), 5);
        assert!(seen.is_sorted_by(|newer, older| newer > older));
    })
    .await;
}

/// Decides many calls at once on these instances; every third needs a human.
async fn decide_many(instances: &[Arc<World>], count: usize) {
    let mut deciding = JoinSet::new();
    for number in 0..count {
        let world = Arc::clone(&instances[number % instances.len()]);
        deciding.spawn(async move {
            let mut request = match number % 3 {
                0 => world.call("send_email", json!({ "to": number.to_string() })),
                1 => world.call("read_file", json!({ "path": number.to_string() })),
                _ => world.call("write_note", json!({ "text": number.to_string() })),
            };
            request.call.key.run = countersign::domain::ids::RunId::parse(&format!("run-{}", number % 7)).unwrap();
            world.ask(&request).await.unwrap();
        });
    }
    deciding.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_decisions_at_once_on_one_instance_are_one_unbroken_chain() {
    on_each_engine(|world| async move {
        let worlds = [Arc::new(world)];
        decide_many(&worlds, 90).await;
        assert_eq!(worlds[0].entries_of(EventKind::Decision).await.len(), 90);
        worlds[0].assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_instances_write_one_unbroken_chain() {
    on_each_engine(|world| async move {
        let another = Arc::new(world.another_instance(Setup::default()).await);
        let worlds = [Arc::new(world), another];
        decide_many(&worlds, 90).await;
        assert_eq!(worlds[0].entries_of(EventKind::Decision).await.len(), 90);
        worlds[1].assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_that_were_held_or_denied_before_leave_the_rest_of_their_group_alone() {
    on_each_engine(|world| async move {
        let mut hold = world.call("read_file", json!({ "path": "held" }));
        hold.hold = true;
        let approval = held(world.ask(&hold).await.unwrap()).approval;
        hold.hold = false;
        let mut denied = world.call("read_file", json!({ "path": "denied" }));
        denied.hold = true;
        let denial = held(world.ask(&denied).await.unwrap()).approval;
        world.deny(&world.ana, &denial, None).await.unwrap();
        let before = world.entries_of(EventKind::Decision).await.len();

        let world = Arc::new(world);
        let mut deciding = JoinSet::new();
        for number in 0..30 {
            let world = Arc::clone(&world);
            let hold = hold.clone();
            deciding.spawn(async move {
                match number % 3 {
                    0 => assert_eq!(held(world.ask(&hold).await.unwrap()).approval.id, approval.id),
                    1 => drop(refused(world.decide("read_file", json!({ "path": "denied" })).await)),
                    _ => drop(allowed(world.decide("read_file", json!({ "path": "free" })).await)),
                }
            });
        }
        deciding.join_all().await;
        // Ten allowed, ten denied as that denial was; the held one needs no further decision.
        assert_eq!(world.entries_of(EventKind::Decision).await.len(), before + 20);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn entries_beyond_the_head_are_found_out() {
    on_each_engine(|world| async move {
        world.decide("read_file", json!({ "path": "a" })).await;
        let head = world.store.head().await.unwrap();
        world.decide("read_file", json!({ "path": "b" })).await;
        let chain = match world.storage.engine() {
            countersign::storage::Engine::Sqlite => format!("x'{}'", hex::encode(head.chain)),
            countersign::storage::Engine::Postgres => format!("'\\x{}'", hex::encode(head.chain)),
        };
        let back = format!("update audit_head set seq = {}, chain = {chain}", head.seq);
        world.without_triggers(&back).await;
        let fault = world.app.verify_audit().await.unwrap().fault;
        assert_eq!(fault, Some((head.seq + 1, VerificationFault::Head)));
    })
    .await;
}

#[tokio::test]
async fn a_changed_entry_and_a_cut_tail_are_found_out() {
    on_each_engine(|world| async move {
        for path in ["a", "b", "c"] {
            world.decide("read_file", json!({ "path": path })).await;
        }
        let head = world.store.head().await.unwrap().seq;
        // Somebody who may drop triggers may change anything; the chain tells.
        world.without_triggers(&format!("update audit_entries set tool = 'x' where seq = {}", head - 1)).await;
        let fault = world.app.verify_audit().await.unwrap().fault.unwrap();
        assert_eq!(fault.0, head - 1);
        assert!(matches!(fault.1, VerificationFault::Entry(_)));
        world.without_triggers(&format!("update audit_entries set tool = 'read_file' where seq = {}", head - 1)).await;
        world.assert_log_is_whole().await;
        world.without_triggers(&format!("delete from audit_entries where seq = {head}")).await;
        assert_eq!(world.app.verify_audit().await.unwrap().fault, Some((head, VerificationFault::Head)));
    })
    .await;
}
