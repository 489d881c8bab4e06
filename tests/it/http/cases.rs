//! Ways in which arguments deceive, asked of `/decide`: each answer, and the reason that the log gives for it.

mod command;
mod corpora;
mod delegation;
mod email;
mod extra;
mod grants;
mod identity;
mod lifecycle;
mod paths;
mod sql;
mod texts;
mod urls;

use std::sync::atomic::{AtomicU32, Ordering};

use countersign::domain::{
    audit::entry::{Entry, EventKind},
    policy::{Policy, SourceFile},
};
use serde_json::{Value, json};

use crate::support::service::{Answer, Service, call, with};

/// A service under a policy of its own, and calls to it.
struct Desk {
    service: Service,
    calls: AtomicU32,
}

impl Desk {
    async fn under(policy: &str) -> Self {
        let text = format!("schema = 1\n[defaults]\nmax_open_approvals_per_agent = 100000\n{policy}");
        let files = [SourceFile { path: "policy.toml".to_owned(), text }];
        let loaded = Policy::load(&files).unwrap_or_else(|faults| panic!("{faults:#?}"));
        let service = Service::start().await;
        service.app.accept_policy(loaded.policy, &files).await.unwrap();
        Self { service, calls: AtomicU32::new(0) }
    }

    /// A call in a run of its own.
    fn call(&self, tool: &str, args: Value) -> Value {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        with(call(tool, args, "c1"), json!({ "run_id": format!("run-{number}") }))
    }

    async fn send(&self, call: &Value) -> Answer {
        self.service.post("bot", "/decide", call).await
    }

    /// The answer to a new call, and the entry of its decision.
    async fn ask(&self, tool: &str, args: Value) -> (Answer, Entry) {
        let call = self.call(tool, args);
        let answer = self.send(&call).await;
        let entries = self.service.logged(EventKind::Decision).await;
        let entry = entries.into_iter().next_back().expect("a decision").entry;
        assert_eq!(entry.call.as_ref().map(|key| key.run.as_str()), call["run_id"].as_str());
        (answer, entry)
    }

    /// Fails unless the call is answered with this status for this reason.
    async fn expect(&self, tool: &str, args: Value, status: u16, reason: &str) -> Entry {
        let (answer, entry) = self.ask(tool, args.clone()).await;
        let given = (answer.status, entry.reason_code.as_deref().unwrap_or_default());
        assert_eq!(given, (status, reason), "{tool} {args}: {:?}", entry.rule);
        if status == 403 {
            assert_eq!(answer.json()["error"], "tool unavailable", "{args}");
        }
        entry
    }

    /// Fails unless the call is denied because of this fault of that argument.
    async fn denied(&self, tool: &str, args: Value, reason: &str, fault: &str) {
        let entry = self.expect(tool, args.clone(), 403, reason).await;
        assert_eq!(entry.rule.as_deref(), Some(fault), "{args}");
    }

    async fn allowed(&self, tool: &str, args: Value) -> Value {
        let (answer, entry) = self.ask(tool, args.clone()).await;
        assert_eq!(answer.status, 200, "{tool} {args}: {:?}", (&entry.reason, &entry.rule));
        answer.json()
    }

    async fn held(&self, tool: &str, args: Value) -> Entry {
        let (answer, entry) = self.ask(tool, args.clone()).await;
        assert_eq!(answer.status, 202, "{tool} {args}: {:?}", (&entry.reason, &entry.rule));
        entry
    }

    /// Fails unless the call is held or denied.
    async fn not_allowed(&self, tool: &str, args: Value) {
        let (answer, entry) = self.ask(tool, args.clone()).await;
        assert!(matches!(answer.status, 202 | 403), "{tool} {args}: {:?}", (&entry.reason, &entry.rule));
    }
}
