//! The whole service behind its router, on a SQLite file of its own, with a clock that stands still.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{HeaderMap, Method, Request, header},
};
use countersign::{
    app::{
        App, Parts, Settings,
        audit_log::DecisionLog,
        keys::create_key,
        ports::{Clock as _, SharedStore},
        sessions::SignInSettings,
    },
    auth::{
        key_ring::KeyRing,
        permit::{PermitSigner, SigningKey},
    },
    channels::slack::SlackDoors,
    domain::{
        audit::{
            chain::SealedEntry,
            entry::{Actor, EventKind},
        },
        channel::Channels,
        identity::{GroupName, ReviewerDirectory, ReviewerEntry, ReviewerName, Role},
        policy::{Policy, SourceFile},
    },
    filesystem::Disk,
    http::{
        self,
        state::{HttpParts, HttpSettings, HttpState},
    },
    outbound::{Credentials, Outbound},
    storage::{self, ConnectOptions},
};
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};
use tempfile::TempDir;
use tokio::{sync::watch, task::JoinHandle};
use tower::ServiceExt as _;

use super::{
    broken_store::BrokenStore,
    clock::{ManualClock, START},
    entropy::CountingEntropy,
    keys,
    store::sqlite_url,
};

/// The policy of the service.
pub(crate) const POLICY: &str = r#"
schema = 1

[defaults]
approval_ttl = "4h"

[agents.bot]
tools = ["get_order", "add_note", "issue_refund", "delete_customer", "read_file"]

[agents.other-bot]
tools = ["get_order", "delete_customer", "format_disk"]

[tools.get_order]
risk = "read"
description = "Look up an order"
aliases = ["mcp__shop__get_order"]
parameters = { type = "object", required = ["order_id"], properties = { order_id = { type = "string" } } }

[tools.add_note]
risk = "draft"
parameters = { type = "object", required = ["text"], properties = { text = { type = "string" } } }

[tools.issue_refund]
risk = "send"
parameters = { type = "object", required = ["order_id", "amount"], properties = { order_id = { type = "string" }, amount = { type = "number" } } }

[[tools.issue_refund.rules]]
id = "small-refund"
when = "args.amount <= 250"
verdict = "allow_audited"
reason = "under the limit"

[[tools.issue_refund.rules]]
id = "absurd-refund"
when = "args.amount > 50000"
verdict = "deny"
reason = "no refund is that large"

[tools.delete_customer]
risk = "send"
parameters = { type = "object", required = ["customer"], properties = { customer = { type = "string" } } }

[tools.read_file]
risk = "read"
parameters = { type = "object", required = ["path"], properties = { path = { type = "string" } } }

[tools.read_file.arguments.path]
kind = "path"
base = "/srv/agent"
roots = ["public"]
never = ["*.pem"]

[tools.format_disk]
risk = "destructive"
parameters = { type = "object", properties = {} }
"#;

/// Who has a key, and for what. `ghost` is no entry of the reviewers, and `cleo` only where a test makes her one.
const HOLDERS: [(&str, Role); 9] = [
    ("bot", Role::Agent),
    ("other-bot", Role::Agent),
    ("writer", Role::Orchestrator),
    ("ana", Role::Reviewer),
    ("ben", Role::Reviewer),
    ("cleo", Role::Reviewer),
    ("ghost", Role::Reviewer),
    ("iris", Role::Auditor),
    ("root", Role::Admin),
];

/// A running service.
pub(crate) struct Service {
    pub(crate) app: Arc<App>,
    pub(crate) state: HttpState,
    pub(crate) store: SharedStore,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) draining: watch::Sender<bool>,
    router: Router,
    writer: JoinHandle<()>,
    /// The database, kept as long as the service.
    _folder: TempDir,
}

impl Service {
    /// A service with the usual settings.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// A service with other settings.
    pub(crate) async fn start_with(change: impl FnOnce(&mut HttpSettings)) -> Self {
        Self::start_for(vec![reviewer("ana", &["leads"]), reviewer("ben", &[])], change).await
    }

    /// A service with these reviewers, under this policy.
    pub(crate) async fn under(policy: &str, reviewers: Vec<ReviewerEntry>) -> Self {
        let service = Self::start_for(reviewers, |_| {}).await;
        service.accept(policy).await;
        service
    }

    /// The same, reached at this address.
    pub(crate) async fn under_at(policy: &str, reviewers: Vec<ReviewerEntry>, public_url: &str) -> Self {
        let public_url = public_url.to_owned();
        let service = Self::start_for(reviewers, |settings| settings.public_url = public_url).await;
        service.accept(policy).await;
        service
    }

    /// The same service after a restart with these reviewers, under this policy.
    pub(crate) async fn restarted(self, policy: &str, reviewers: Vec<ReviewerEntry>) -> Self {
        let service = Self::on(self.store, self._folder, reviewers, |_| {});
        service.keys.replace(service.store.keys().await.unwrap());
        service.accept(policy).await;
        service
    }

    /// Lets another policy decide.
    pub(crate) async fn accept(&self, policy: &str) {
        let files = [SourceFile { path: "policy.toml".to_owned(), text: policy.to_owned() }];
        let loaded = Policy::load(&files).unwrap_or_else(|faults| panic!("{faults:#?}"));
        self.app.accept_policy(loaded.policy, &files).await.unwrap();
    }

    async fn start_for(reviewers: Vec<ReviewerEntry>, change: impl FnOnce(&mut HttpSettings)) -> Self {
        let (store, folder) = Self::store_with_keys().await;
        let service = Self::on(store, folder, reviewers, change);
        service.keys.replace(service.store.keys().await.unwrap());
        service.app.record_policy(&policy_files()).await.unwrap();
        service
    }

    /// A service that decides by this policy.
    pub(crate) async fn with_policy(policy: &str) -> Self {
        let service = Self::start().await;
        service.take_policy(policy).await;
        service
    }

    /// Another policy takes over.
    pub(crate) async fn take_policy(&self, policy: &str) {
        let files = [SourceFile { path: "policy.toml".to_owned(), text: policy.to_owned() }];
        self.app.accept_policy(Policy::load(&files).unwrap().policy, &files).await.unwrap();
    }

    /// A service whose store cannot be reached.
    pub(crate) fn without_store() -> Self {
        Self::on_broken(BrokenStore::Refusing, |_| {})
    }

    /// A service whose store is broken in this way, with other settings.
    pub(crate) fn on_broken(store: BrokenStore, change: impl FnOnce(&mut HttpSettings)) -> Self {
        let service = Self::on(Arc::new(store), TempDir::new().unwrap(), vec![reviewer("ana", &["leads"])], change);
        service.keys.replace(HOLDERS.map(|(holder, role)| keys::record(holder, role)));
        service
    }

    /// A service at `public_url` where people sign in like this.
    pub(crate) async fn where_people_sign_in(
        reviewers: Vec<ReviewerEntry>,
        sign_in: SignInSettings,
        public_url: &str,
    ) -> Self {
        let (store, folder) = Self::store_with_keys().await;
        let service = Self::assembled(store, folder, reviewers, (sign_in, Channels::default()), |settings| {
            settings.public_url = public_url.to_owned();
        });
        service.keys.replace(service.store.keys().await.unwrap());
        service.app.record_policy(&policy_files()).await.unwrap();
        service
    }

    /// A service that tells these people by these channels.
    pub(crate) async fn telling(channels: Channels, people: Vec<ReviewerEntry>) -> Self {
        let (store, folder) = Self::store_with_keys().await;
        let service = Self::assembled(store, folder, people, (SignInSettings::default(), channels), |_| {});
        service.keys.replace(service.store.keys().await.unwrap());
        service.app.record_policy(&policy_files()).await.unwrap();
        service
    }

    async fn store_with_keys() -> (SharedStore, TempDir) {
        let folder = TempDir::new().unwrap();
        let connected = storage::connect(&sqlite_url(&folder), ConnectOptions { max_connections: 4 }).await.unwrap();
        connected.migrate().await.unwrap();
        let store = connected.store();
        for (holder, role) in HOLDERS {
            let key = keys::record(holder, role);
            create_key(&store, &Actor::service(), &key, START).await.unwrap();
        }
        (store, folder)
    }

    fn on(
        store: SharedStore,
        folder: TempDir,
        reviewers: Vec<ReviewerEntry>,
        change: impl FnOnce(&mut HttpSettings),
    ) -> Self {
        // Of those who sign in, Ana may read the log and the rest as well.
        let roles = [(ReviewerName::parse("ana").unwrap(), [Role::Auditor, Role::Admin].into())].into();
        let sign_in = SignInSettings { roles, ..SignInSettings::default() };
        Self::assembled(store, folder, reviewers, (sign_in, Channels::default()), change)
    }

    fn assembled(
        store: SharedStore,
        folder: TempDir,
        reviewers: Vec<ReviewerEntry>,
        (sign_in, channels): (SignInSettings, Channels),
        change: impl FnOnce(&mut HttpSettings),
    ) -> Self {
        let mut settings = HttpSettings {
            body_bytes: 256 * 1024,
            requests_per_second: None,
            request_timeout: Duration::from_secs(30),
            refusal_text: None,
            public_url: PUBLIC_URL.to_owned(),
            commit: "0123abc".to_owned(),
            checkpoints_signed: false,
            metrics_elsewhere: false,
        };
        change(&mut settings);
        let clock = Arc::new(ManualClock::new());
        let (log, writer) = DecisionLog::new(Arc::clone(&store));
        let app = App::new(Parts {
            store: Arc::clone(&store),
            clock: Arc::<ManualClock>::clone(&clock),
            entropy: Arc::new(CountingEntropy::new(1)),
            permits: Arc::new(PermitSigner::new(PUBLIC_URL, SigningKey::generate(&[7; 32]).unwrap(), Vec::new())),
            paths: Arc::new(Disk::default()),
            lookups: Arc::new(Outbound::new(credentials())),
            log,
            policy: Policy::load(&policy_files()).unwrap().policy,
            reviewers: ReviewerDirectory::new(reviewers).unwrap(),
            channels,
            settings: Settings { public_url: settings.public_url.clone(), claim_lease: LEASE },
        });
        let app = Arc::new(app.with_sign_in(sign_in));
        let keys = Arc::new(KeyRing::default());
        let draining = watch::Sender::new(false);
        let state = HttpState::new(HttpParts {
            app: Arc::clone(&app),
            keys: Arc::clone(&keys),
            slack: SlackDoors::default(),
            settings,
            draining: draining.subscribe(),
        });
        let router = http::router(state.clone());
        let writer = tokio::spawn(writer.run());
        Self { app, state, store, keys, clock, draining, router, writer, _folder: folder }
    }

    /// Gives `holder` a key with which the requests of these agents are written.
    pub(crate) async fn add_orchestrator(&self, holder: &str, agents: &[&str]) {
        let key = keys::orchestrator(holder, agents);
        create_key(&self.store, &Actor::service(), &key, START).await.unwrap();
        self.keys.replace(self.store.keys().await.unwrap());
    }

    /// Holds the lock of whoever writes to the store, until what is returned is dropped.
    pub(crate) async fn lock_writes(&self) -> SqliteConnection {
        let mut connection = SqliteConnection::connect(&sqlite_url(&self._folder)).await.unwrap();
        sqlx::query("begin immediate").execute(&mut connection).await.unwrap();
        connection
    }

    /// What tells whether anything was written since: the same as before when nothing was.
    pub(crate) async fn watch_writes(&self) -> Writes {
        let mut connection = SqliteConnection::connect(&sqlite_url(&self._folder)).await.unwrap();
        let version = data_version(&mut connection).await;
        Writes { connection, version }
    }

    /// Kills the writer of decisions.
    pub(crate) async fn stop_writer(&mut self) {
        self.writer.abort();
        // It was cancelled, as it should.
        let _ = (&mut self.writer).await;
    }

    /// Everything behind its router, for clients that come over a socket.
    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    /// A request to be completed and sent.
    pub(crate) fn request(&self, method: Method, path: &str) -> Call {
        Call { router: self.router.clone(), method, path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// Asks `path` as `holder`.
    pub(crate) async fn get(&self, holder: &str, path: &str) -> Answer {
        self.request(Method::GET, path).key(holder).send().await
    }

    /// Sends `body` to `path` as `holder`.
    pub(crate) async fn post(&self, holder: &str, path: &str, body: &Value) -> Answer {
        self.request(Method::POST, path).key(holder).json(body).send().await
    }

    /// Asks as `bot` whether a call may run.
    pub(crate) async fn decide(&self, tool: &str, args: Value, id: &str) -> Answer {
        self.post("bot", "/decide", &call(tool, args, id)).await
    }

    /// Holds a deletion by `bot`; returns the approval as the agent sees it.
    pub(crate) async fn held(&self, id: &str) -> Value {
        let answer = self.decide("delete_customer", deletion(), id).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["approval"].clone()
    }

    /// Holds a deletion by `bot` and lets `ana` approve it; returns the path of the approval.
    pub(crate) async fn approved(&self, id: &str) -> String {
        let path = approval_path(&self.held(id).await);
        let answer = self.post("ana", &format!("{path}/decision"), &decision("approve")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        path
    }

    /// Everything in the log of this kind, oldest first.
    pub(crate) async fn logged(&self, event: EventKind) -> Vec<SealedEntry> {
        let entries = self.store.entries_after(0, 10_000).await.unwrap();
        entries.into_iter().filter(|sealed| sealed.entry.event == event).collect()
    }

    /// How the service's clock reads the moment after `by`.
    pub(crate) fn in_the_future(&self, by: Duration) -> String {
        self.clock.now().plus(by).to_string()
    }
}

/// A look at the database file that notices every write of others.
pub(crate) struct Writes {
    connection: SqliteConnection,
    version: i64,
}

impl Writes {
    /// Whether anything was written since this was last asked.
    pub(crate) async fn any(&mut self) -> bool {
        let before = std::mem::replace(&mut self.version, data_version(&mut self.connection).await);
        before != self.version
    }
}

async fn data_version(connection: &mut SqliteConnection) -> i64 {
    sqlx::query_scalar("pragma data_version").fetch_one(connection).await.unwrap()
}

/// The secret that lookups may send, as the policy names it.
pub(crate) const ORDERS_CREDENTIAL: &str = "env:ORDERS_TOKEN";

/// That secret.
pub(crate) const ORDERS_TOKEN: &str = "orders-secret-7";

fn credentials() -> Arc<Credentials> {
    let credentials = Credentials::default();
    credentials.add([(ORDERS_CREDENTIAL.to_owned(), Arc::from(ORDERS_TOKEN))].into());
    Arc::new(credentials)
}

/// Where people reach the service.
pub(crate) const PUBLIC_URL: &str = "https://approve.test";

/// How long a claim waits for its report.
pub(crate) const LEASE: Duration = Duration::from_secs(300);

fn policy_files() -> [SourceFile; 1] {
    [SourceFile { path: "policy.toml".to_owned(), text: POLICY.to_owned() }]
}

/// An entry of the reviewers.
pub(crate) fn reviewer(name: &str, groups: &[&str]) -> ReviewerEntry {
    ReviewerEntry {
        name: ReviewerName::parse(name).unwrap(),
        groups: groups.iter().map(|group| GroupName::parse(group).unwrap()).collect::<BTreeSet<_>>(),
        email: None,
        slack_user: None,
        oidc_subject: None,
        absence: None,
    }
}

/// A call of run `run-1`.
pub(crate) fn call(tool: &str, args: Value, id: &str) -> Value {
    json!({ "tool": tool, "args": args, "run_id": "run-1", "tool_use_id": id })
}

/// `call` with more fields.
pub(crate) fn with(mut call: Value, more: Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        call[name] = value.clone();
    }
    call
}

/// Arguments of a call that is always held.
pub(crate) fn deletion() -> Value {
    json!({ "customer": "c-17" })
}

/// What a reviewer decides of [`deletion`].
pub(crate) fn decision(word: &str) -> Value {
    json!({ "decision": word, "args_hash": DELETION_HASH })
}

/// SHA-256 of `{"customer":"c-17"}`, computed with Python's `hashlib`.
pub(crate) const DELETION_HASH: &str = "sha256:6f6eb73cc60312051178750d68154cde58bc4cc35db1580f2cad67281eb98643";

/// The path of an approval.
pub(crate) fn approval_path(approval: &Value) -> String {
    format!("/approvals/{}", approval["id"].as_str().unwrap())
}

/// A request in the making.
pub(crate) struct Call {
    router: Router,
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Call {
    /// With the key of `holder`.
    pub(crate) fn key(self, holder: &str) -> Self {
        let bearer = format!("Bearer {}", keys::text(holder).expose());
        self.header(header::AUTHORIZATION.as_str(), &bearer)
    }

    /// With one more header.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With JSON.
    pub(crate) fn json(self, body: &Value) -> Self {
        self.text(&body.to_string())
    }

    /// With text that says to be JSON.
    pub(crate) fn text(self, body: &str) -> Self {
        self.bytes(body.as_bytes()).header(header::CONTENT_TYPE.as_str(), "application/json")
    }

    /// With bytes that say nothing of what they are.
    pub(crate) fn bytes(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// Sends it, and reads the whole answer.
    pub(crate) async fn send(self) -> Answer {
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let response = self.router.oneshot(request.body(Body::from(self.body)).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// A header that is there once.
    pub(crate) fn header(&self, name: &str) -> &str {
        let values: Vec<_> = self.headers.get_all(name).iter().collect();
        assert_eq!(values.len(), 1, "{name} in {:?}", self.headers);
        values[0].to_str().unwrap()
    }

    /// The code of a problem document with this status.
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json");
        let document = self.json();
        assert_eq!(document["status"], status);
        assert_eq!(document["request_id"], self.header("x-request-id"));
        let code = document["code"].as_str().unwrap().to_owned();
        assert_eq!(document["type"], format!("urn:countersign:problem:{code}"));
        assert!(!document["title"].as_str().unwrap().is_empty());
        assert!(!document["detail"].as_str().unwrap().is_empty());
        code
    }
}
