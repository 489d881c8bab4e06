//! The pages as they are written: who sees what, what a form does, and what it does not.

use axum::http::Method;
use countersign::domain::{audit::entry::EventKind, ids::ApprovalId};
use serde_json::{Value, json};

use crate::support::{
    pages::{Person, field},
    service::{DELETION_HASH, Service, approval_path, deletion, reviewer},
};

/// The path of the page of the approval that the agent sees so.
fn page_of(approval: &Value) -> String {
    format!("/review/approvals/{}", approval["id"].as_str().unwrap())
}

fn id_of(approval: &Value) -> ApprovalId {
    ApprovalId::parse(approval["id"].as_str().unwrap()).unwrap()
}

/// A form as the page of an approval shows it.
async fn decide(person: &Person<'_>, path: &str, act: &str, more: &[(&str, &str)]) -> crate::support::service::Answer {
    let page = person.page(path).await;
    let (args, review) = (field(&page, "args_hash"), field(&page, "review_hash"));
    let fields: Vec<(&str, &str)> =
        [("args_hash", args.as_str()), ("review_hash", review.as_str())].into_iter().chain(more.to_vec()).collect();
    person.send(&format!("{path}/{act}"), &fields).await
}

#[tokio::test]
async fn every_page_has_the_strict_headers_and_nothing_inline() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    let ana = service.person("ana").await;
    let pages = [
        "/review".to_owned(),
        page_of(&held),
        "/review/decided".to_owned(),
        "/review/grants".to_owned(),
        "/review/audit".to_owned(),
        "/review/runs/bot/run-1".to_owned(),
        "/review/sessions".to_owned(),
        "/review/dead-letters".to_owned(),
    ];
    for path in pages {
        let answer = ana.see(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        let policy = answer.header("content-security-policy");
        for directive in ["default-src 'none'", "script-src 'self'", "form-action 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(directive), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(answer.header("referrer-policy"), "same-origin", "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("cross-origin-opener-policy"), "same-origin", "{path}");
        assert!(answer.header("x-robots-tag").contains("noindex"), "{path}");
        let text = answer.text();
        assert!(!text.contains("style=\"") && !text.contains("<style"), "{path}");
        assert!(!text.contains("onclick") && text.matches("<script").count() == 1, "{path}");
    }
}

#[tokio::test]
async fn stylesheet_and_script_are_kept_for_ever_under_names_of_their_content() {
    let service = Service::start().await;
    let page = service.person("ana").await.page("/review").await;
    for (mark, content_type) in [("href=\"/review/assets/", "text/css"), ("src=\"/review/assets/", "text/javascript")] {
        let name = page.split_once(mark).unwrap().1.split('"').next().unwrap();
        let answer = service.request(Method::GET, &format!("/review/assets/{name}")).send().await;
        assert_eq!(answer.status, 200);
        assert!(answer.header("content-type").starts_with(content_type));
        assert_eq!(answer.header("cache-control"), "public, max-age=31536000, immutable");
    }
    assert_eq!(service.request(Method::GET, "/review/assets/0123456789abcdef.css").send().await.status, 404);
}

#[tokio::test]
async fn nobody_signed_in_sees_nothing_and_is_led_to_the_sign_in() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    for path in ["/review".to_owned(), page_of(&held), "/review/audit".to_owned()] {
        for method in [Method::GET, Method::HEAD] {
            let answer = service.request(method, &path).send().await;
            assert_eq!(answer.status, 303, "{path}");
            assert!(answer.header("location").starts_with("/login?to="), "{path}");
            assert!(!answer.text().contains("delete_customer"), "{path}");
        }
    }
    let sent = service.request(Method::POST, &format!("{}/approve", page_of(&held))).send().await;
    assert_eq!(sent.status, 403);
}

#[tokio::test]
async fn looking_at_every_address_changes_nothing() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    let ana = service.person("ana").await;
    let before = service.store.head().await.unwrap();
    let path = page_of(&held);
    let acts = ["approve", "deny", "deny-and-stop", "revoke", "lift", "settle"].map(|act| format!("{path}/{act}"));
    let others = [path.clone(), format!("{path}/mark"), "/review".to_owned(), "/review/mark".to_owned()];
    for address in acts.iter().chain(&others) {
        for method in [Method::GET, Method::HEAD] {
            let answer = ana.look(method, address).await;
            assert!(answer.status == 200 || answer.status == 405, "{address}: {}", answer.status);
        }
    }
    assert_eq!(service.store.head().await.unwrap(), before);
}

#[tokio::test]
async fn an_approve_leads_to_the_same_page_which_says_who_approved() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    let ana = service.person("ana").await;
    let answer = decide(&ana, &page_of(&held), "approve", &[("reason", "looks right"), ("grant", "")]).await;
    assert_eq!((answer.status, answer.header("location")), (303, page_of(&held).as_str()));
    let page = ana.page(&page_of(&held)).await;
    assert!(page.contains("Approved by ana on 30 Nov 2026, 12:00 UTC"), "{page}");
    assert!(page.contains("Take the approval back") && !page.contains("/approve\""));
    let claimed = service.post("bot", &format!("{}/claim", approval_path(&held)), &json!({ "args": deletion() })).await;
    assert_eq!(claimed.status, 200);
}

#[tokio::test]
async fn a_denial_tells_the_agent_what_was_written_and_can_be_lifted_by_its_maker() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    let (ana, ben) = (service.person("ana").await, service.person("ben").await);
    let answer =
        decide(&ana, &page_of(&held), "deny", &[("message_to_agent", "not today\r\nplease"), ("reason", "")]).await;
    assert_eq!(answer.status, 303);
    let told = service.get("bot", &approval_path(&held)).await.json();
    assert_eq!(told["message"], "not today\nplease");
    assert!(ana.page(&page_of(&held)).await.contains("Lift the denial"));
    assert!(!ben.page(&page_of(&held)).await.contains("Lift the denial"));
    let refused = ben.send(&format!("{}/lift", page_of(&held)), &[("reason", "")]).await;
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("Not done. "), "{}", refused.text());
    assert_eq!(ana.send(&format!("{}/lift", page_of(&held)), &[("reason", "")]).await.status, 303);
    assert!(ana.page(&page_of(&held)).await.contains("was lifted for later calls"));
}

#[tokio::test]
async fn a_decision_that_came_too_late_says_who_decided_and_when() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    let (ana, ben) = (service.person("ana").await, service.person("ben").await);
    let page = page_of(&held);
    let stale = ana.page(&page).await;
    assert_eq!(decide(&ben, &page, "deny", &[]).await.status, 303);
    let late = ana.send(&format!("{page}/approve"), &[("args_hash", &field(&stale, "args_hash"))]).await;
    assert_eq!((late.status, late.header("location")), (303, format!("{page}?late=1").as_str()));
    let told = ana.page(&format!("{page}?late=1")).await;
    assert!(told.contains("Your decision came too late. Denied by ben on 30 Nov 2026"), "{told}");
    // The address alone says nothing of an approval that still waits.
    let waiting = service.decide("delete_customer", json!({ "customer": "c-2" }), "t2").await.json();
    let waiting = page_of(&waiting["approval"]);
    assert!(!ana.page(&format!("{waiting}?late=1")).await.contains("too late"));
}

#[tokio::test]
async fn a_decision_is_about_what_was_shown() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    let ana = service.person("ana").await;
    let path = format!("{}/approve", page_of(&held));
    let other = DELETION_HASH.replace("6f6e", "7f6e");
    assert_eq!(ana.send(&path, &[("args_hash", &other)]).await.status, 409);
    let answer = ana.send(&path, &[("args_hash", DELETION_HASH), ("review_hash", "sha256:00")]).await;
    assert_eq!(answer.status, 409);
    assert!(answer.text().contains("no longer what you were shown"), "{}", answer.text());
    assert_eq!(ana.send(&path, &[("args_hash", DELETION_HASH), ("extra", "1")]).await.status, 400);
    assert_eq!(ana.send(&path, &[]).await.status, 400);
    assert_eq!(service.get("ana", &approval_path(&held)).await.json()["state"], "pending");
}

#[tokio::test]
async fn a_form_counts_with_the_token_of_its_session_after_a_second() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    let (ana, ben) = (service.person("ana").await, service.person("ben").await);
    let path = format!("{}/approve", page_of(&held));
    let token = ana.token();
    let fields = [("form_token", token.as_str()), ("args_hash", DELETION_HASH)];
    assert_eq!(ana.send_exactly(&path, &fields).await.status, 425);
    assert_eq!(ana.send_exactly(&path, &fields[1..]).await.status, 403);
    service.clock.advance(std::time::Duration::from_secs(2));
    assert_eq!(ben.send_exactly(&path, &fields).await.status, 403);
    assert_eq!(service.get("ana", &approval_path(&held)).await.json()["state"], "pending");
    assert_eq!(ana.send_exactly(&path, &fields).await.status, 303);
}

#[tokio::test]
async fn a_session_of_a_link_has_one_page_and_may_decide_there() {
    let service = Service::start().await;
    let (held, other) =
        (service.held("t1").await, service.decide("delete_customer", json!({ "customer": "c-2" }), "t2").await);
    let other = other.json()["approval"].clone();
    let guest = service.person_by_link("ana", id_of(&held)).await;
    for path in ["/review", "/review/grants", "/review/decided", "/review/sessions"] {
        let answer = guest.see(path).await;
        assert_eq!((answer.status, answer.header("location")), (303, page_of(&held).as_str()), "{path}");
    }
    for path in [page_of(&other), "/review/audit".to_owned(), "/review/dead-letters".to_owned()] {
        assert_eq!(guest.see(&path).await.status, 404, "{path}");
    }
    let page = guest.page(&page_of(&held)).await;
    assert!(!page.contains("<nav") && !page.contains("stop the run"), "{page}");
    assert_eq!(decide(&guest, &page_of(&held), "deny-and-stop", &[]).await.status, 404);
    assert_eq!(decide(&guest, &page_of(&held), "approve", &[]).await.status, 303);
}

#[tokio::test]
async fn who_may_not_approve_has_no_button_for_it_and_reads_why() {
    const POLICY: &str = r#"
schema = 1
[agents.bot]
tools = ["send"]
owner = "ben"
[tools.send]
risk = "send"
parameters = { type = "object", properties = { to = { type = "string" } } }
"#;
    let service = Service::under(POLICY, vec![reviewer("ana", &[]), reviewer("ben", &[])]).await;
    let held = service.decide("send", json!({ "to": "x" }), "t1").await.json()["approval"].clone();
    let ben = service.person("ben").await;
    let page = ben.page(&page_of(&held)).await;
    assert!(!page.contains("/approve\"") && page.contains("/deny\""), "{page}");
    assert!(page.contains("You cannot approve it here: it is your own agent that asks"), "{page}");
    let tried = decide(&ben, &page_of(&held), "approve", &[]).await;
    assert_eq!(tried.status, 403);
    let id = held["id"].as_str().unwrap();
    let (decision, args, hash) = (format!("decision.{id}"), format!("args.{id}"), field(&page, "args_hash"));
    let many = [(decision.as_str(), "approve"), (args.as_str(), hash.as_str())];
    assert_eq!(ben.send(&format!("/review/stacks/{id}/decisions"), &many).await.status, 409);
    let refused = service.logged(EventKind::RequestRefused).await;
    let why: Vec<_> = refused.iter().map(|refused| refused.entry.reason_code.as_deref()).collect();
    assert_eq!(why, [Some("not_eligible"), Some("not_eligible")], "one by one and many at once");
}

#[tokio::test]
async fn what_takes_a_fresh_sign_in_leads_to_one_and_can_be_denied_meanwhile() {
    const POLICY: &str = r#"
schema = 1
[tools.send]
risk = "send"
parameters = { type = "object", properties = { to = { type = "string" } } }
approval = { step_up = true }
"#;
    let service = Service::under(POLICY, vec![reviewer("ana", &[])]).await;
    let held = service.decide("send", json!({ "to": "x" }), "t1").await.json()["approval"].clone();
    let ana = service.person("ana").await;
    assert!(ana.page(&page_of(&held)).await.contains("/approve\""));
    service.clock.advance(std::time::Duration::from_secs(301));
    let page = ana.page(&page_of(&held)).await;
    assert!(!page.contains("/approve\""), "{page}");
    assert!(page.contains(&format!("/login?to={}&amp;fresh=1", page_of(&held))), "{page}");
    let tried = decide(&ana, &page_of(&held), "approve", &[]).await;
    assert_eq!(tried.status, 403);
    assert_eq!(decide(&ana, &page_of(&held), "deny", &[]).await.status, 303);
}

#[tokio::test]
async fn the_second_of_two_clicks_counts_from_two_seconds_on() {
    let service = Service::start().await;
    let answer =
        service.post("other-bot", "/decide", &crate::support::service::call("format_disk", json!({}), "t1")).await;
    let path = page_of(&answer.json()["approval"]);
    let ana = service.person("ana").await;
    let first = decide(&ana, &path, "approve", &[("reason", "sure"), ("grant", "")]).await;
    assert_eq!(first.status, 200);
    let confirmation = field(first.text(), "confirmation");
    assert!(first.text().contains("Approve it, really?") && field(first.text(), "reason") == "sure");
    let (args, token) = (field(first.text(), "args_hash"), ana.token());
    service.clock.advance(std::time::Duration::from_millis(1_500));
    let fields =
        [("form_token", token.as_str()), ("args_hash", args.as_str()), ("confirmation", confirmation.as_str())];
    let early = ana.send_exactly(&format!("{path}/approve"), &fields).await;
    assert_eq!(early.status, 425);
    assert_eq!(field(early.text(), "confirmation"), confirmation);
    let second = ana.send(&format!("{path}/approve"), &fields[1..]).await;
    assert_eq!(second.status, 303);
    assert!(ana.page(&path).await.contains("Approved by ana"));
}

#[tokio::test]
async fn decisions_on_many_are_taken_all_or_none() {
    let service = Service::start().await;
    let calls: Vec<Value> = (0..3)
        .map(|number| json!({ "tool": "delete_customer", "args": { "customer": format!("c-{number}") }, "tool_use_id": format!("t{number}") }))
        .collect();
    let answer = service.post("bot", "/decide/batch", &json!({ "run_id": "run-1", "calls": calls })).await.json();
    let ids: Vec<String> =
        (0..3).map(|place| answer["results"][place]["approval"]["id"].as_str().unwrap().to_owned()).collect();
    let seen = service.get("ana", &format!("/approvals/{}", ids[0])).await.json();
    let batch = format!("/review/batches/{}", seen["batch_id"].as_str().unwrap());
    let ana = service.person("ana").await;
    let page = ana.page(&batch).await;
    assert!(!page.contains(" checked"), "nothing is chosen beforehand");
    let hash = |id: &str| field(&page, &format!("args.{id}"));
    let fields = |word: &'static str| -> Vec<(String, String)> {
        let one = |(place, id): (usize, &String)| {
            let word = if place == 0 { "deny" } else { word };
            [(format!("decision.{id}"), word.to_owned()), (format!("args.{id}"), hash(id))]
        };
        ids.iter().enumerate().flat_map(one).collect()
    };
    let send = async |fields: Vec<(String, String)>| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        ana.send(&format!("{batch}/decisions"), &fields).await
    };
    assert_eq!(send(fields("open")[2..].to_vec()).await.status, 400);
    assert_eq!(send(vec![("decision.x".to_owned(), "approve".to_owned())]).await.status, 400);
    let mut twice = fields("approve");
    twice.push(twice[0].clone());
    assert_eq!(send(twice).await.status, 400);
    let mut stale = fields("approve");
    stale[5].1 = DELETION_HASH.to_owned();
    let refused = send(stale).await;
    assert_eq!(refused.status, 409);
    assert!(refused.text().contains("In the way: "), "{}", refused.text());
    assert_eq!(service.get("ana", &format!("/approvals/{}", ids[0])).await.json()["state"], "pending");
    let taken = send(fields("approve")).await;
    assert_eq!((taken.status, taken.header("location")), (303, batch.as_str()));
    let mut states = Vec::new();
    for id in &ids {
        states.push(service.get("ana", &format!("/approvals/{id}")).await.json()["state"].clone());
    }
    assert_eq!(states, ["denied", "approved", "approved"]);
}

#[tokio::test]
async fn alike_calls_lie_in_one_stack_with_what_stands_out_on_top() {
    let service = Service::start().await;
    for (number, amount) in [300, 310, 290, 9_000].into_iter().enumerate() {
        let args = json!({ "order_id": format!("A-{number}"), "amount": amount });
        assert_eq!(service.decide("issue_refund", args, &format!("t{number}")).await.status, 202);
    }
    let ana = service.person("ana").await;
    let inbox = ana.page("/review").await;
    assert!(inbox.contains("4 alike: "), "{inbox}");
    let (_, lines) = inbox.split_once("<ol class=\"lines\">").unwrap();
    assert!(lines.find("9000").unwrap() < lines.find("290").unwrap());
    assert!(lines.contains("is far above the others: more than three times their median, 300"), "{lines}");
    let stack = inbox.split_once("href=\"/review/stacks/").unwrap().1.split('"').next().unwrap();
    let page = ana.page(&format!("/review/stacks/{stack}")).await;
    assert_eq!(page.matches("value=\"approve\"").count(), 4);
}

#[tokio::test]
async fn an_empty_inbox_says_so_kindly() {
    let service = Service::start().await;
    let page = service.person("ana").await.page("/review").await;
    assert!(page.contains("Nothing waits for you") && page.contains("Enjoy the quiet"), "{page}");
}

#[tokio::test]
async fn an_unknown_outcome_is_listed_and_settled() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    let claimed = service.post("bot", &format!("{path}/claim"), &json!({ "args": deletion() })).await;
    assert_eq!(claimed.status, 200);
    service.clock.advance(crate::support::service::LEASE);
    let ana = service.person("ana").await;
    let page = format!("/review{path}");
    assert!(ana.page(&page).await.contains("Settle the outcome"));
    assert_eq!(ana.send(&format!("{page}/settle"), &[("status", "perhaps")]).await.status, 400);
    assert_eq!(ana.send(&format!("{page}/settle"), &[("status", "succeeded"), ("reason", "seen")]).await.status, 303);
    assert!(ana.page(&page).await.contains("ana found that it had run"));
}

#[tokio::test]
async fn an_approval_can_be_taken_back_until_it_is_claimed() {
    let service = Service::start().await;
    let path = service.approved("t1").await;
    let ben = service.person("ben").await;
    assert_eq!(ben.send(&format!("/review{path}/revoke"), &[("reason", "changed my mind")]).await.status, 303);
    assert!(ben.page(&format!("/review{path}")).await.contains("Denied by ben"));
}

#[tokio::test]
async fn the_log_is_for_auditors_and_found_by_its_filters() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    let (ana, ben) = (service.person("ana").await, service.person("ben").await);
    for path in ["/review/audit", "/review/runs/bot/run-1", "/review/dead-letters"] {
        assert_eq!(ben.see(path).await.status, 404, "{path}");
        assert_eq!(ana.see(path).await.status, 200, "{path}");
    }
    let code = held["code"].as_str().unwrap();
    let found = ana.page(&format!("/review/audit?approval={code}&agent=&tool=&event=approval.requested")).await;
    assert_eq!(found.matches("class=\"entry\"").count(), 1, "{found}");
    let unknown = ana.see("/review/audit?event=nonsense").await;
    assert_eq!(unknown.status, 400);
    assert!(unknown.text().contains("names no event of the log"), "{}", unknown.text());
    assert_eq!(ana.see("/review/runs/bot/no-such-run").await.status, 404);
}

#[tokio::test]
async fn the_mark_of_a_page_changes_with_what_it_shows() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    let ana = service.person("ana").await;
    let path = page_of(&held);
    let (inbox, one) = (ana.page("/review/mark").await, ana.page(&format!("{path}/mark")).await);
    assert!(ana.page("/review").await.contains(&format!("data-mark=\"{inbox}\"")));
    assert!(ana.page(&path).await.contains(&format!("data-mark=\"{one}\"")));
    assert_eq!(decide(&ana, &path, "deny", &[]).await.status, 303);
    assert_ne!(ana.page("/review/mark").await, inbox);
    assert_ne!(ana.page(&format!("{path}/mark")).await, one);
}

#[tokio::test]
async fn what_is_no_page_is_told_as_a_page() {
    let service = Service::start().await;
    let ana = service.person("ana").await;
    let answer = ana.see("/review/nothing/here").await;
    assert_eq!(answer.status, 404);
    assert!(answer.header("content-type").starts_with("text/html"));
    assert!(!answer.text().contains("nothing/here"));
}

#[tokio::test]
async fn an_address_that_takes_a_form_alone_says_so_on_a_page() {
    let service = Service::start().await;
    let held = service.held("t1").await;
    let ana = service.person("ana").await;
    let answer = ana.see(&format!("{}/approve", page_of(&held))).await;
    assert_eq!((answer.status, answer.header("allow")), (405, "POST"));
    assert!(answer.header("content-type").starts_with("text/html"));
    assert!(answer.text().contains("Nothing was done"), "{}", answer.text());
}
