//! The pages in a real browser: Chromium, driven by the scripts in `tests/browser`, against a service of the test.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use axum::{extract::Request, middleware::from_fn};
use countersign::domain::ids::ApprovalId;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::support::service::{Service, call, reviewer, with};

/// A policy with something of each sort to decide on.
const POLICY: &str = r#"
schema = 1

[agents.bot]
tools = ["issue_refund", "send_email", "exec", "fetch"]

[tools.issue_refund]
risk = "send"
idempotent = true
subject = { order = "/order_id" }
parameters = { type = "object", required = ["order_id", "amount", "currency"], properties = { order_id = { type = "string" }, amount = { type = "number", exclusiveMinimum = 0 }, currency = { type = "string" }, note = { type = "string" } } }
approval = { ttl = "1h", reviewers = ["finance"] }
[[tools.issue_refund.rules]]
id = "large-refund"
when = 'args.amount > 50'
verdict = "require_approval"
reason = "refunds over 50 are looked at"
approval = { reviewers = ["finance"] }

[tools.send_email]
risk = "send"
parameters = { type = "object", required = ["to", "subject", "body"], properties = { to = { type = "array", minItems = 1, maxItems = 50, items = { type = "string" } }, subject = { type = "string" }, body = { type = "string" } } }
[tools.send_email.arguments.to]
kind = "email"

[tools.exec]
risk = "destructive"
parameters = { type = "object", required = ["argv"], properties = { argv = { type = "array", items = { type = "string" } }, host = { type = "string" } } }
approval = { quorum = 1, ttl = "4h", grace = "5m", reviewers = ["ops"] }

[tools.fetch]
risk = "read"
parameters = { type = "object", required = ["url"], properties = { url = { type = "string" } } }
approval = { ttl = "9m" }
"#;

/// A service that listens, where each request comes three seconds after the last.
struct Listening {
    service: Arc<Service>,
    base: String,
    serving: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Listening {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let reviewers =
            vec![reviewer("ana", &["finance", "ops"]), reviewer("ben", &["finance"]), reviewer("cleo", &["press"])];
        let service = Arc::new(Service::under_at(POLICY, reviewers, &base).await);
        let clock = Arc::clone(&service.clock);
        let later = from_fn(move |request: Request, next: axum::middleware::Next| {
            clock.advance(Duration::from_secs(3));
            next.run(request)
        });
        let router = service.router().layer(later);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { service, base, serving }
    }

    /// Holds a call; the id of its approval.
    async fn held(&self, tool: &str, args: Value, id: &str) -> String {
        self.held_with(tool, args, id, json!({})).await
    }

    async fn held_with(&self, tool: &str, args: Value, id: &str, more: Value) -> String {
        let answer = self.service.post("bot", "/approvals", &with(call(tool, args, id), more)).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["approval"]["id"].as_str().unwrap().to_owned()
    }

    /// Decides over the API.
    async fn decided(&self, id: &str, word: &str) {
        let path = format!("/approvals/{id}");
        let seen = self.service.get("ben", &path).await.json();
        let body = json!({ "decision": word, "args_hash": seen["args_hash"] });
        let answer = self.service.post("ben", &format!("{path}/decision"), &body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    /// Runs a script to its end; it is given `scene`, where to find the service, and Ana's session.
    async fn drive(&self, script: &str, mut scene: Value) {
        let ana = self.service.person("ana").await;
        scene["base"] = self.base.clone().into();
        scene["cookie"] = ana.cookie().into();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let script = root.join("tests/browser").join(script);
        let packages = root.join("target/node");
        assert!(packages.join("node_modules").is_dir(), "target/node is missing: scripts/test installs it");
        let mut command = Command::new("node");
        command.arg(&script).env("SCENE", scene.to_string()).env("NODE_PACKAGES", packages).env("CHROMIUM", chromium());
        command.stdin(Stdio::null());
        let ran = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success() && out.trim_end().ends_with("done"), "{}:\n{out}\n{err}", script.display());
    }
}

fn chromium() -> PathBuf {
    let names = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].map(PathBuf::from);
    let named = std::env::var_os("COUNTERSIGN_TEST_CHROMIUM").map(PathBuf::from);
    let found = named.into_iter().chain(names).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("Chromium is missing (Debian: apt-get install chromium)"))
}

fn refund(order: &str, amount: u32) -> Value {
    json!({ "order_id": order, "amount": amount, "currency": "EUR", "note": "duplicate charge" })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_stands_at_both_widths_with_and_without_the_script_and_axe_finds_nothing_serious() {
    let listening = Listening::start().await;
    let service = &listening.service;
    let denied = listening.held("issue_refund", refund("A-16", 90), "c1").await;
    listening.decided(&denied, "deny").await;
    let approved = listening.held("issue_refund", refund("A-17", 120), "c2").await;
    listening.decided(&approved, "approve").await;
    let words = "The customer was charged twice; refunding the duplicate is the right thing to do.";
    let one = listening.held_with("issue_refund", refund("A-17", 140), "c3", json!({ "rationale": words })).await;
    for (number, amount) in [95, 110, 88, 4800, 102].into_iter().enumerate() {
        listening.held("issue_refund", refund(&format!("B-{number}"), amount), &format!("d{number}")).await;
    }
    let argv = json!({ "argv": ["rm", "-rf", "/srv/data/old exports"], "host": "web-1" });
    let destructive = listening.held("exec", argv, "e1").await;
    let soon = listening.held("fetch", json!({ "url": "https://example.com/report?id=7" }), "f1").await;
    let mail = json!({ "to": ["ana@customer.example", "ben@customer.example"], "subject": "Your order", "body": "It is on its way." });
    let batched = |tool: &str, args: &Value, id: &str| json!({ "tool": tool, "args": args, "tool_use_id": id });
    let calls = [
        batched("send_email", &mail, "b1"),
        batched("issue_refund", &refund("C-1", 75), "b2"),
        batched("exec", &json!({ "argv": ["systemctl", "restart", "web"] }), "b3"),
    ];
    let batch = service.post("bot", "/decide/batch", &json!({ "run_id": "run-2", "calls": calls })).await.json();
    let in_batch = batch["results"][0]["approval"]["id"].as_str().unwrap();
    let seen = service.get("ana", &format!("/approvals/{in_batch}")).await.json();
    let batch = seen["batch_id"].as_str().unwrap();
    let grant = json!({ "agent": "bot", "run_id": "run-1", "tool": "issue_refund", "when": "args.amount <= 100", "ttl": "1h", "max_uses": 5, "rules": ["large-refund"] });
    let granted = service.post("ana", "/grants", &grant).await;
    assert_eq!(granted.status, 201, "{granted:?}");

    let ben = "ben".parse().unwrap();
    let link = service.app.make_link(&ben, ApprovalId::parse(&one).unwrap()).await.unwrap();
    let link = link.strip_prefix("https://approve.test").or(link.strip_prefix(&listening.base)).unwrap();
    let by_link = service.person_by_link("ben", ApprovalId::parse(&one).unwrap()).await.cookie();
    let stranger = service.person("cleo").await.cookie();
    let approval = |id: &str| format!("/review/approvals/{id}");
    let scene = json!({ "pages": {
        "inbox": { "path": "/review" },
        "inbox-gravest": { "path": "/review?sort=risk&show=mine&group=" },
        "inbox-empty": { "path": "/review?group=finance&show=mine", "cookie": stranger },
        "approval": { "path": approval(&one) },
        "approval-destructive": { "path": approval(&destructive) },
        "approval-soon": { "path": approval(&soon) },
        "approval-approved": { "path": approval(&approved) },
        "approval-denied": { "path": approval(&denied) },
        "approval-by-link": { "path": approval(&one), "cookie": by_link },
        "stack": { "path": format!("/review/stacks/{one}") },
        "batch": { "path": format!("/review/batches/{batch}") },
        "decided": { "path": "/review/decided" },
        "grants": { "path": "/review/grants" },
        "audit": { "path": "/review/audit" },
        "audit-found": { "path": "/review/audit?tool=issue_refund&event=approval.denied" },
        "audit-not-understood": { "path": "/review/audit?from=yesterday", "status": 400 },
        "run": { "path": "/review/runs/bot/run-1" },
        "sessions": { "path": "/review/sessions" },
        "dead-letters": { "path": "/review/dead-letters" },
        "link": { "path": link, "cookie": "" },
        "sign-in": { "path": "/login?to=/review", "cookie": "", "status": 404 },
        "not-found": { "path": "/review/approvals/apr_nothing", "status": 404 },
    } });
    listening.drive("pages.mjs", scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_taken_by_keyboard_and_without_the_script_and_never_by_enter_in_a_field() {
    let listening = Listening::start().await;
    let service = &listening.service;
    let path = |id: String| format!("/review/approvals/{id}");
    let batched = |tool: &str, args: Value, id: &str| json!({ "tool": tool, "args": args, "tool_use_id": id });
    let mut batches = Vec::new();
    for run in ["run-2", "run-3"] {
        let calls =
            [batched("issue_refund", refund("C-1", 75), "b1"), batched("issue_refund", refund("C-2", 76), "b2")];
        let answer = service.post("bot", "/decide/batch", &json!({ "run_id": run, "calls": calls })).await.json();
        let id = answer["results"][0]["approval"]["id"].as_str().unwrap();
        let seen = service.get("ana", &format!("/approvals/{id}")).await.json();
        batches.push(format!("/review/batches/{}", seen["batch_id"].as_str().unwrap()));
    }
    let url = |text: &str| json!({ "url": format!("https://example.com/{text}") });
    let enter = path(listening.held("issue_refund", refund("A-3", 103), "c3").await);
    let stop = listening.held_with("fetch", url("5"), "c7", json!({ "run_id": "run-9" })).await;
    let scene = json!({
        "approve": path(listening.held("fetch", url("1"), "c1").await),
        "deny": path(listening.held("fetch", url("2"), "c2").await),
        "enter": { "one": enter, "batch": batches[0] },
        "plain": path(listening.held("fetch", url("4"), "c4").await),
        "twice": path(listening.held("exec", json!({ "argv": ["true"] }), "c5").await),
        "grant": path(listening.held("issue_refund", refund("A-6", 106), "c6").await),
        "batch": batches[1],
        "stop": path(stop),
        "stopped": "/review/runs/bot/run-9",
    });
    listening.drive("keyboard.mjs", scene).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_script_holds_an_approve_back_and_says_what_changed_and_does_nothing_else() {
    let listening = Listening::start().await;
    let one = listening.held("issue_refund", refund("A-1", 101), "c1").await;
    let two = listening.held("issue_refund", refund("A-2", 102), "c2").await;
    listening.held("issue_refund", refund("A-3", 103), "c3").await;
    let path = |id: String| format!("/review/approvals/{id}");
    let ben = listening.service.person("ben").await.cookie();
    listening.drive("changes.mjs", json!({ "one": path(one), "two": path(two), "ben": ben })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_is_shown_whole_as_what_it_is_and_stays_text() {
    let listening = Listening::start().await;
    let hostile = [
        (
            "html",
            json!({ "argv": ["<script>window.hacked = 1</script>", "<img src=x onerror='window.hacked = 1'>", "&lt;b&gt;", "\"><h1>Approved</h1>"] }),
        ),
        (
            "bidi",
            json!({ "argv": ["rm \u{202e}fdp.tnecca\u{202c}", "\u{2066}\u{2069}\u{200f}x", "a\u{200b}b\u{2060}c\u{feff}", "e\u{e0041}\u{e0042}", "\u{3164}", "x\u{fe0f}"] }),
        ),
        (
            "padding",
            json!({ "argv": [format!("ls{}; rm -rf /", " ".repeat(4_000)), "\n".repeat(60) + "rm", "\t\r\n\u{0}".to_owned(), "\\u{202e}".to_owned(), " x ".to_owned(), String::from("a\u{a0}\u{2003}b")] }),
        ),
        (
            "long",
            json!({ "argv": [format!("curl https://example.com/{}", "a".repeat(5_000)), format!("echo {}", "word ".repeat(1_000))] }),
        ),
        ("argv", json!({ "argv": ["rm", "-rf", "a b", "140", "true", "null", "[]", ""] })),
        (
            "zalgo",
            json!({ "argv": ["Z\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}\u{308}", "аррӏе.com", "مرحبا"] }),
        ),
    ];
    let mut scene = json!({ "hostile": {} });
    for (name, args) in hostile {
        let words = format!(
            "Trust me.\u{202e} <script>window.hacked = 1</script> {}\u{200b}",
            args["argv"][0].as_str().unwrap_or_default().chars().take(900).collect::<String>()
        );
        let id = listening.held_with("exec", args, name, json!({ "rationale": words })).await;
        let seen = listening.service.get("ana", &format!("/approvals/{id}")).await.json();
        let shown = seen["review"]["arguments"].as_array().unwrap().iter();
        // An empty text has a word of its own.
        let values: Vec<&Value> = shown.map(|value| &value["shown"]).filter(|shown| *shown != "").collect();
        scene["hostile"][name] = json!({
            "path": format!("/review/approvals/{id}"),
            "values": values,
            "rationale": countersign::domain::review::visible(&words),
        });
    }
    listening.drive("hostile.mjs", scene).await;
}
