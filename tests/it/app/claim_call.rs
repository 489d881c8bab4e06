//! The one-time right to execute: who gets it, for what, and when it is refused.

use std::time::Duration;

use countersign::{
    app::{claim_call::Presented, error::Error, keys},
    domain::{
        approval::{
            outcome::{Outcome, ReportedStatus},
            state::{Denier, Obstacle, Refused, ServiceDenial, State, StateName},
        },
        audit::entry::{Actor, EventKind},
        ids::{ApprovalId, ClaimId},
    },
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{
    clock::START,
    world::{LEASE, POLICY, Setup, arguments, on_each_engine, on_each_engine_with, shown_key},
};

fn email() -> Value {
    json!({ "to": "x@acme.example", "body": "hello" })
}

fn refund(amount: u32) -> Value {
    json!({ "order": "o-1", "amount": amount })
}

#[track_caller]
fn obstacle<T: std::fmt::Debug>(answer: Result<T, Error>) -> Obstacle {
    match answer {
        Err(Error::Refused(Refused { why, .. })) => why,
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn a_claim_gives_the_arguments_a_permit_the_obligations_and_a_lease() {
    let policy =
        POLICY.replace("audience = \"mail-server\"", "audience = \"mail-server\"\nobligations = { max_bytes = 9 }");
    on_each_engine_with(Setup::with_policy(&policy), |world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let claim = world.claim(&approval, &request.call.args, Some("claim-1")).await.unwrap();
        assert_eq!(claim.approval, approval.id);
        assert_eq!(claim.claim, ClaimId::parse("claim-1").unwrap());
        assert_eq!(claim.args, *email().as_object().unwrap());
        assert_eq!(claim.obligations, *json!({ "max_bytes": 9 }).as_object().unwrap());
        assert_eq!(claim.lease_expires_at, START.plus(LEASE));
        let permit = world.permits.verify(&claim.permit, "mail-server", START).unwrap().permit;
        assert_eq!(serde_json::to_value(permit.key).unwrap(), json!(approval.id));
        assert_eq!(permit.args_hash, approval.args_hash);
        assert_eq!(permit.tool, "send_email");
        assert_eq!(permit.obligations, claim.obligations);
        let entries = world.entries_of(EventKind::Claim).await;
        assert_eq!(entries.len(), 1);
        assert_eq!(entries[0].entry.detail["claim_id"], "claim-1");
        assert_eq!(entries[0].entry.actor.name, "billing-bot");
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn a_claim_under_another_id_is_refused_once_there_is_one() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        world.claim(&approval, &request.call.args, Some("first")).await.unwrap();
        let second = world.claim(&approval, &request.call.args, Some("second")).await;
        assert_eq!(obstacle(second), Obstacle::Claimed);
        let unnamed = world.claim(&approval, &request.call.args, None).await;
        assert_eq!(obstacle(unnamed), Obstacle::Claimed);
    })
    .await;
}

#[tokio::test]
async fn who_lost_the_answer_gets_the_very_same_one_by_the_same_claim_id() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let first = world.claim(&approval, &request.call.args, Some("claim-1")).await.unwrap();
        let head = world.store.head().await.unwrap();
        world.clock.advance(Duration::from_secs(30));
        let again = world.claim(&approval, &request.call.args, Some("claim-1")).await.unwrap();
        assert_eq!(again, first);
        assert_eq!(world.store.head().await.unwrap(), head);
        // With the lease, and with the outcome, that ends.
        world.clock.set(first.lease_expires_at);
        assert_eq!(obstacle(world.claim(&approval, &request.call.args, Some("claim-1")).await), Obstacle::Claimed);
    })
    .await;
}

#[tokio::test]
async fn a_repeated_claim_is_refused_once_an_outcome_is_known() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("issue_refund", refund(300)).await;
        let claim = world.claim(&approval, &request.call.args, Some("claim-1")).await.unwrap();
        world.report(&claim, ReportedStatus::Succeeded).await.unwrap();
        for id in ["claim-1", "claim-2"] {
            assert_eq!(obstacle(world.claim(&approval, &request.call.args, Some(id)).await), Obstacle::Claimed);
        }
    })
    .await;
}

#[tokio::test]
async fn other_arguments_than_those_approved_end_the_approval() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let wrong = arguments(json!({ "to": "x@acme.example", "body": "hello " }));
        assert_eq!(world.claim(&approval, &wrong, None).await, Err(Error::ArgsMismatch));
        let State::Denied(denial) = world.stored(&approval).await.state else { panic!() };
        assert_eq!(denial.by, Denier::Service { cause: ServiceDenial::ArgumentsDiffer });
        let right = world.claim(&approval, &request.call.args, None).await;
        assert_eq!(obstacle(right), Obstacle::State(StateName::Denied));
        let refused = world.entries_of(EventKind::ClaimRefused).await;
        assert_eq!(refused[0].entry.reason_code.as_deref(), Some("args_mismatch"));
        assert_eq!(refused[0].entry.actor.name, "billing-bot");
        let denied = world.entries_of(EventKind::ApprovalDenied).await;
        assert_eq!(denied[0].entry.actor, Actor::service());
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn other_arguments_under_a_claim_that_is_out_are_refused_and_change_nothing_of_it() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        world.claim(&approval, &request.call.args, Some("claim-1")).await.unwrap();
        let before = world.stored(&approval).await;
        let wrong = arguments(json!({ "to": "evil@evil.example" }));
        assert_eq!(world.claim(&approval, &wrong, Some("claim-1")).await, Err(Error::ArgsMismatch));
        assert_eq!(world.stored(&approval).await, before);
        assert_eq!(world.entries_of(EventKind::ClaimRefused).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn only_what_is_approved_can_be_claimed() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("send_email", email()).await;
        let claim = world.claim(&approval, &request.call.args, None).await;
        assert_eq!(obstacle(claim), Obstacle::State(StateName::Pending));
        // Wrong arguments are no trick to end what waits for people.
        let wrong = arguments(json!({ "to": "evil@evil.example" }));
        assert_eq!(obstacle(world.claim(&approval, &wrong, None).await), Obstacle::State(StateName::Pending));
        assert_eq!(world.stored(&approval).await, approval);
        world.deny(&world.ana, &approval, None).await.unwrap();
        let claim = world.claim(&approval, &request.call.args, None).await;
        assert_eq!(obstacle(claim), Obstacle::State(StateName::Denied));
    })
    .await;
}

#[tokio::test]
async fn a_claim_at_the_last_microsecond_is_in_time_and_one_at_the_end_is_not() {
    on_each_engine(|world| async move {
        let (request, late) = world.approved("send_email", email()).await;
        let (_, in_time) = world.approved("send_email", email()).await;
        world.clock.set(in_time.expires_at.minus(Duration::from_micros(1)));
        world.claim(&in_time, &request.call.args, None).await.unwrap();
        world.clock.set(late.expires_at);
        let claim = world.claim(&late, &request.call.args, None).await;
        assert_eq!(obstacle(claim), Obstacle::State(StateName::Expired));
        assert_eq!(world.stored(&late).await.state, State::Expired { at: late.expires_at });
        assert_eq!(world.entries_of(EventKind::ApprovalExpired).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn another_agents_approval_does_not_exist() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let presented = Presented { args: &request.call.args, claim: None };
        for caller in [&world.other_bot, &world.ana.caller] {
            assert_eq!(world.app.claim_call(caller, approval.id, &presented).await, Err(Error::NotFound));
        }
        let nobodys = ApprovalId::from_uuid(Uuid::from_u128(1));
        assert_eq!(world.app.claim_call(&world.bot, nobodys, &presented).await, Err(Error::NotFound));
        world.claim(&approval, &request.call.args, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_revoked_key_claims_nothing_though_an_instance_still_knows_it() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let key = shown_key(&world.bot);
        keys::revoke_key(&world.store, &Actor::service(), key, world.app.now()).await.unwrap();
        assert_eq!(world.claim(&approval, &request.call.args, None).await, Err(Error::KeyRevoked));
        let mut claiming = request.clone();
        claiming.claim = true;
        assert_eq!(world.ask(&claiming).await, Err(Error::KeyRevoked));
        assert_eq!(world.stored(&approval).await, approval);
    })
    .await;
}

#[tokio::test]
async fn a_policy_that_denies_the_call_by_now_refuses_its_claim() {
    let now_denied = [
        ("a default", POLICY.replace("audience = \"mail-server\"", "default = \"deny\"")),
        ("a rule", POLICY.to_owned() + DENYING_FLOOR),
        ("no such tool", POLICY.replace("tools.send_email", "tools.post_email").replace("mcp__mail__send_email", "x")),
        ("not in the agent's list", POLICY.to_owned() + "[agents.billing-bot]\ntools = [\"read_file\"]\n"),
        ("an unlisted agent", POLICY.to_owned() + "[agents.some-bot]\ntools = [\"send_email\"]\n"),
        (
            "another schema",
            POLICY.replace("body = { type = \"string\" }", "body = { type = \"string\", maxLength = 1 }"),
        ),
    ];
    on_each_engine(move |world| {
        let now_denied = now_denied.clone();
        async move {
            let (request, approval) = world.approved("send_email", email()).await;
            for (why, policy) in &now_denied {
                world.accept(policy).await;
                let claim = world.claim(&approval, &request.call.args, None).await;
                assert!(matches!(claim, Err(Error::PolicyChanged(_))), "{why}: {claim:?}");
                assert_eq!(world.stored(&approval).await, approval, "{why}");
            }
            let refused = world.entries_of(EventKind::ClaimRefused).await;
            assert_eq!(refused.len(), now_denied.len());
            assert!(refused.iter().all(|sealed| sealed.entry.reason_code.as_deref() == Some("policy_changed")));
            let version = world.app.policy().version().to_string();
            assert_eq!(refused.last().unwrap().entry.policy_version, Some(version));
            world.accept(POLICY).await;
            world.claim(&approval, &request.call.args, None).await.unwrap();
        }
    })
    .await;
}

const DENYING_FLOOR: &str = r#"
[[rules]]
id = "no-mail"
tools = ["send_email"]
when = 'args.to.endsWith("@acme.example")'
verdict = "deny"
reason = "no mail today"
"#;

const ASKING_FLOOR: &str = r#"
[[rules]]
id = "look-at-mail"
tools = ["send_email"]
when = 'args.to.endsWith("@acme.example")'
verdict = "require_approval"
reason = "mail is looked at"
"#;

#[tokio::test]
async fn a_rule_that_asks_by_now_and_a_higher_requirement_refuse_the_claim() {
    let changed = [
        ("a rule asks", POLICY.to_owned() + ASKING_FLOOR),
        ("a group", POLICY.replace("audience = \"mail-server\"", "approval = { reviewers = [\"finance\"] }")),
    ];
    on_each_engine(move |world| {
        let changed = changed.clone();
        async move {
            let (request, approval) = world.approved("send_email", email()).await;
            for (why, policy) in &changed {
                world.accept(policy).await;
                let claim = world.claim(&approval, &request.call.args, None).await;
                assert!(matches!(claim, Err(Error::PolicyChanged(_))), "{why}: {claim:?}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_changed_policy_that_asks_for_no_more_is_no_obstacle() {
    let changed = [
        ("a comment", format!("# another version\n{POLICY}")),
        ("a shorter time", POLICY.replace("audience = \"mail-server\"", "approval = { ttl = \"1m\" }")),
        ("no approval at all", POLICY.replace("audience = \"mail-server\"", "default = \"allow\"")),
    ];
    on_each_engine(move |world| {
        let changed = changed.clone();
        async move {
            for (why, policy) in &changed {
                world.accept(POLICY).await;
                let (request, approval) = world.approved("send_email", email()).await;
                world.accept(policy).await;
                assert!(world.claim(&approval, &request.call.args, None).await.is_ok(), "{why}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn votes_of_people_who_are_reviewers_no_more_do_not_count() {
    on_each_engine(|world| async move {
        let (request, approval) = world.hold("issue_refund", refund(300)).await;
        world.approve(&world.bo, &approval).await.unwrap();
        let claim_on = async |reviewers| {
            let later = world.another_instance(Setup { reviewers, ..Setup::default() }).await;
            later.claim(&approval, &request.call.args, None).await
        };
        let ana: (&str, &[&str]) = ("ana", &["finance", "support-leads"]);
        let gone = claim_on(vec![ana]).await;
        assert!(matches!(gone, Err(Error::PolicyChanged(_))), "{gone:?}");
        let moved = claim_on(vec![ana, ("bo", &["finance"])]).await;
        assert!(matches!(moved, Err(Error::PolicyChanged(_))), "{moved:?}");
        claim_on(vec![ana, ("bo", &["support-leads", "finance"])]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_call_is_judged_at_the_claim_with_the_context_it_was_held_with() {
    let policy = r#"
schema = 1
[tools.send_email]
risk = "send"
parameters = { type = "object", required = ["to"], properties = { to = { type = "string" } } }
[[tools.send_email.rules]]
id = "not-from-batch"
when = 'context.source == "batch"'
verdict = "deny"
reason = "no mail from batches"
"#;
    on_each_engine_with(Setup::with_policy(policy), |world| async move {
        let mut request = world.call("send_email", json!({ "to": "x" }));
        request.call.context = Some(json!({ "source": "chat" }));
        let approval = crate::support::world::held(world.ask(&request).await.unwrap()).approval;
        world.approve(&world.ana, &approval).await.unwrap();
        world.claim(&approval, &request.call.args, None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_call_whose_context_is_needed_and_missing_is_refused() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        let needs_context = r#"
[[rules]]
id = "not-from-batch"
tools = ["send_email"]
when = 'context.source == "batch"'
verdict = "deny"
reason = "no mail from batches"
"#;
        world.accept(&(POLICY.to_owned() + needs_context)).await;
        let claim = world.claim(&approval, &request.call.args, None).await;
        assert!(matches!(claim, Err(Error::PolicyChanged(_))), "{claim:?}");
    })
    .await;
}

#[tokio::test]
async fn an_idempotent_call_is_claimed_again_after_its_lease_until_it_expires() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("issue_refund", refund(300)).await;
        let first = world.claim(&approval, &request.call.args, Some("first")).await.unwrap();
        let early = world.claim(&approval, &request.call.args, Some("second")).await;
        assert_eq!(obstacle(early), Obstacle::Claimed);
        world.clock.set(first.lease_expires_at);
        // The same claim is over: what it permitted may have run.
        assert_eq!(obstacle(world.claim(&approval, &request.call.args, Some("first")).await), Obstacle::Claimed);
        let second = world.claim(&approval, &request.call.args, Some("second")).await.unwrap();
        assert_eq!(second.approval, first.approval);
        assert_ne!(second.permit, first.permit);
        world.report(&second, ReportedStatus::Succeeded).await.unwrap();
        assert_eq!(world.entries_of(EventKind::Claim).await.len(), 2);

        let (request, approval) = world.approved("issue_refund", refund(301)).await;
        world.claim(&approval, &request.call.args, Some("first")).await.unwrap();
        world.clock.set(approval.expires_at);
        let late = world.claim(&approval, &request.call.args, Some("second")).await;
        assert_eq!(obstacle(late), Obstacle::Claimed);
        world.assert_log_is_whole().await;
    })
    .await;
}

#[tokio::test]
async fn what_is_not_idempotent_is_never_claimed_again() {
    on_each_engine(|world| async move {
        let (request, claim) = world.claimed("send_email", email()).await;
        world.clock.set(claim.lease_expires_at);
        let approval = world.store.approval(claim.approval).await.unwrap().unwrap();
        let again = world.claim(&approval, &request.call.args, Some("second")).await;
        assert_eq!(obstacle(again), Obstacle::Claimed);
        let State::Executed(execution) = world.stored(&approval).await.state else { panic!() };
        assert!(matches!(execution.outcome, Outcome::Unknown { .. }));
    })
    .await;
}

#[tokio::test]
async fn a_heartbeat_extends_the_lease_from_now_and_only_while_it_runs() {
    on_each_engine(|world| async move {
        let (_, claim) = world.claimed("send_email", email()).await;
        world.clock.advance(Duration::from_secs(200));
        let until = world.app.heartbeat(&world.bot, claim.approval, Some(&claim.claim)).await.unwrap();
        assert_eq!(until, world.app.now().plus(LEASE));
        let other = ClaimId::parse("other").unwrap();
        let answer = world.app.heartbeat(&world.bot, claim.approval, Some(&other)).await;
        assert_eq!(obstacle(answer), Obstacle::OtherClaim);
        assert_eq!(
            world.app.heartbeat(&world.other_bot, claim.approval, Some(&claim.claim)).await,
            Err(Error::NotFound)
        );
        world.clock.set(until);
        let answer = world.app.heartbeat(&world.bot, claim.approval, Some(&claim.claim)).await;
        assert_eq!(obstacle(answer), Obstacle::LeaseOver { at: until });
        // That the lease is over is written down.
        assert_eq!(world.entries_of(EventKind::OutcomeUnknown).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_tools_own_lease_counts_before_the_settings() {
    let policy = POLICY.replace("audience = \"mail-server\"", "lease = \"10m\"");
    on_each_engine_with(Setup::with_policy(&policy), |world| async move {
        let (_, claim) = world.claimed("send_email", email()).await;
        assert_eq!(claim.lease_expires_at, START.plus(Duration::from_secs(600)));
    })
    .await;
}

#[tokio::test]
async fn stored_arguments_that_are_not_the_approved_ones_end_the_approval() {
    on_each_engine(|world| async move {
        let (request, approval) = world.approved("send_email", email()).await;
        world.tamper_with_payload(&approval).await;
        assert_eq!(world.claim(&approval, &request.call.args, None).await, Err(Error::ArgsMismatch));
        let State::Denied(denial) = world.stored(&approval).await.state else { panic!() };
        assert_eq!(denial.by, Denier::Service { cause: ServiceDenial::StoredArgumentsDiffer });

        let (_, approval) = world.hold("send_email", email()).await;
        world.tamper_with_payload(&approval).await;
        let vote = world.approve(&world.ana, &approval).await;
        assert!(matches!(vote, Err(Error::NotEligible(_))), "{vote:?}");
        assert_eq!(world.stored(&approval).await.state.name(), StateName::Denied);
    })
    .await;
}
