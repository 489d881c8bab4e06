//! The whole application on a real store, with a clock that the test moves and people and agents to act in it.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use countersign::{
    app::{
        App, Caller, Parts, ReviewerCaller, Settings,
        audit_log::DecisionLog,
        claim_call::{ClaimedCall, Presented},
        decide_call::{AllowedCall, DecideAnswer, DecideRequest, HeldCall, RefusedCall},
        error::Error,
        keys,
        ports::{Entropy, EntryFilter, SharedStore},
        report_outcome::OutcomeReport,
        review::{Decided, ReviewDecision, ReviewedApproval},
    },
    auth::{
        api_key::ApiKeyText,
        permit::{PermitSigner, PermitVerifier, SigningKey},
    },
    domain::{
        approval::{outcome::ReportedStatus, state::Approval},
        audit::{
            chain::SealedEntry,
            entry::{Actor, EventKind},
        },
        call::{Arguments, CallKey, ToolCall},
        channel::Channels,
        identity::{
            Absence, AgentId, Credential, GroupName, HolderName, KeyParts, KeyRecord, ReviewerDirectory, ReviewerEntry,
            ReviewerName, Role, Roles,
        },
        ids::{ClaimId, KeyId, RunId, ToolUseId},
        policy::{Policy, SourceFile},
    },
    filesystem::Disk,
    storage::Engine,
};
use serde_json::{Map, Value};
use tempfile::TempDir;
use uuid::Uuid;

use super::{
    clock::{ManualClock, START},
    entropy::CountingEntropy,
    lookups::MadeUp,
    postgres::Schema,
    store::{TestStore, sqlite_url},
};

/// Every engine that tests run on.
const ENGINES: [Engine; 2] = [Engine::Sqlite, Engine::Postgres];

/// Where the service is said to be reached.
pub(crate) const PUBLIC_URL: &str = "https://approve.acme.example";

/// How long a claim waits for its report.
pub(crate) const LEASE: Duration = Duration::from_secs(300);

/// How long an approval waits when its tool does not say.
pub(crate) const TTL: Duration = Duration::from_secs(4 * 3_600);

/// The run that calls are of, unless a test says otherwise.
pub(crate) const RUN: &str = "run-1";

/// A policy with a tool of each sort.
pub(crate) const POLICY: &str = r#"
schema = 1

[vars]
auto_refund_limit = 250

[tools.read_file]
risk = "read"
obligations = { max_bytes = 200000 }
parameters = { type = "object", required = ["path"], properties = { path = { type = "string" } } }

[tools.write_note]
risk = "draft"
parameters = { type = "object", required = ["text"], properties = { text = { type = "string" } } }

[tools.send_email]
risk = "send"
aliases = ["mcp__mail__send_email"]
audience = "mail-server"
parameters = { type = "object", required = ["to"], properties = { to = { type = "string" }, body = { type = "string" } } }

[tools.issue_refund]
risk = "send"
idempotent = true
parameters = { type = "object", required = ["order", "amount"], properties = { order = { type = "string" }, amount = { type = "number", exclusiveMinimum = 0 } } }
approval = { ttl = "1h", reviewers = ["support-leads"] }
[[tools.issue_refund.rules]]
id = "small-refund"
when = 'args.amount <= vars.auto_refund_limit'
verdict = "allow_audited"
reason = "under the auto-refund limit"
[[tools.issue_refund.rules]]
id = "large-refund"
when = 'args.amount > 5000'
verdict = "require_approval"
reason = "over 5000"
approval = { reviewers = ["finance"] }
[[tools.issue_refund.rules]]
id = "absurd-refund"
when = 'args.amount > 100000'
verdict = "deny"
reason = "over 100000"

[tools.drop_table]
risk = "destructive"
parameters = { type = "object", required = ["name"], properties = { name = { type = "string" } } }
"#;

/// What a world is made of.
#[derive(Clone)]
pub(crate) struct Setup {
    /// The text of the policy's one file.
    pub(crate) policy: String,
    /// The reviewers with their groups.
    pub(crate) reviewers: Vec<(&'static str, &'static [&'static str])>,
    /// What stands between the application and its store.
    pub(crate) wrap: Option<Arc<dyn Fn(SharedStore) -> SharedStore + Send + Sync>>,
    /// Where random bytes come from, when not from a counter.
    pub(crate) entropy: Option<Arc<dyn Entropy>>,
    /// Who is told of what; nobody unless a test says so. Every reviewer has the address `NAME@acme.example` and
    /// is the user `U0NAME` of Slack then.
    pub(crate) channels: Channels,
    /// Who is away.
    pub(crate) absent: Vec<(&'static str, Absence)>,
}

impl Default for Setup {
    fn default() -> Self {
        let reviewers: Vec<(_, &[_])> = vec![("ana", &["finance", "support-leads"]), ("bo", &["support-leads"])];
        Self {
            policy: POLICY.to_owned(),
            reviewers,
            wrap: None,
            entropy: None,
            channels: Channels::default(),
            absent: Vec::new(),
        }
    }
}

impl Setup {
    pub(crate) fn with_policy(policy: &str) -> Self {
        Self { policy: policy.to_owned(), ..Self::default() }
    }
}

/// A database that is gone when the last world on it is.
struct Database {
    url: String,
    keeper: Keeper,
}

enum Keeper {
    Folder(TempDir),
    Schema(Schema),
}

impl Database {
    async fn new(engine: Engine) -> Self {
        match engine {
            Engine::Sqlite => {
                let folder = TempDir::new().unwrap();
                Self { url: sqlite_url(&folder), keeper: Keeper::Folder(folder) }
            }
            Engine::Postgres => {
                let schema = Schema::create().await;
                Self { url: schema.url(), keeper: Keeper::Schema(schema) }
            }
        }
    }

    async fn drop(self) {
        match self.keeper {
            Keeper::Folder(folder) => folder.close().unwrap(),
            Keeper::Schema(schema) => schema.drop().await,
        }
    }
}

/// One instance of the application.
pub(crate) struct World {
    pub(crate) app: Arc<App>,
    pub(crate) clock: Arc<ManualClock>,
    /// The store itself, past whatever wraps the application's.
    pub(crate) store: SharedStore,
    pub(crate) permits: PermitVerifier,
    /// The agent `billing-bot`.
    pub(crate) bot: Caller,
    /// The agent `other-bot`.
    pub(crate) other_bot: Caller,
    /// What lookups find.
    pub(crate) outside: MadeUp,
    pub(crate) ana: ReviewerCaller,
    pub(crate) bo: ReviewerCaller,
    /// The orchestrator of both agents.
    pub(crate) desk: Caller,
    /// The store, and ways around it.
    pub(crate) storage: TestStore,
    database: Arc<Database>,
    calls: Arc<AtomicU32>,
}

/// The text of the key of `billing-bot`, `other-bot`, `ana`, `bo` or `cy`.
pub(crate) fn key_text(name: &str) -> ApiKeyText {
    let mut entropy = [0; 32];
    entropy[..name.len()].copy_from_slice(name.as_bytes());
    ApiKeyText::generate(&entropy)
}

/// The record of that key.
fn key_of(name: &str, role: Role) -> KeyRecord {
    let key = key_text(name);
    let hash = key.sha256();
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    KeyRecord::new(KeyParts {
        id: KeyId::from_uuid(Uuid::from_bytes(id)),
        name: HolderName::parse(name).unwrap(),
        roles: Roles::new([role]).unwrap(),
        agents: [].into(),
        hash,
        created_at: START,
        expires_at: None,
        revoked_at: None,
    })
    .unwrap()
}

/// The key of the orchestrator of both agents.
fn desk_key() -> KeyRecord {
    let key = key_of("desk", Role::Orchestrator);
    KeyRecord::new(KeyParts {
        id: key.id(),
        name: key.name().clone(),
        roles: key.roles().clone(),
        agents: ["billing-bot", "other-bot"].map(|agent| AgentId::parse(agent).unwrap()).into(),
        hash: *key.hash(),
        created_at: START,
        expires_at: None,
        revoked_at: None,
    })
    .unwrap()
}

fn caller(name: &str, role: Role) -> Caller {
    Caller { principal: key_of(name, role).principal_at(START).unwrap(), request_id: format!("req-{name}") }
}

fn reviewer(name: &str, directory: &ReviewerDirectory) -> ReviewerCaller {
    let name = ReviewerName::parse(name).unwrap();
    let groups = directory.get(&name).map(|entry| entry.groups.iter().map(ToString::to_string).collect());
    ReviewerCaller { caller: caller(name.as_str(), Role::Reviewer), name, groups: groups.unwrap_or_default() }
}

/// The files of a policy that consists of this text.
/// The key that a caller showed.
pub(crate) fn shown_key(caller: &Caller) -> KeyId {
    match caller.principal.credential() {
        Credential::Key(id) => *id,
        other @ (Credential::Session(_) | Credential::Token(_) | Credential::Chat(_)) => panic!("{other} is no key"),
    }
}

pub(crate) fn files(policy: &str) -> Vec<SourceFile> {
    vec![SourceFile { path: "policy.toml".to_owned(), text: policy.to_owned() }]
}

/// The policy that consists of this text.
#[track_caller]
pub(crate) fn policy(text: &str) -> Policy {
    match Policy::load(&files(text)) {
        Ok(loaded) => loaded.policy,
        Err(faults) => panic!("{faults:#?}"),
    }
}

/// Runs a test in a world of its own on each engine.
pub(crate) async fn on_each_engine<F: Future<Output = ()> + Send + 'static>(test: impl Fn(World) -> F) {
    on_each_engine_with(Setup::default(), test).await;
}

/// The same, in a world made so.
pub(crate) async fn on_each_engine_with<F: Future<Output = ()> + Send + 'static>(
    setup: Setup,
    test: impl Fn(World) -> F,
) {
    for engine in ENGINES {
        let database = Arc::new(Database::new(engine).await);
        let outcome = tokio::spawn(test(World::with(Arc::clone(&database), setup.clone()).await)).await;
        if let Some(database) = Arc::into_inner(database) {
            database.drop().await;
        }
        if let Err(failure) = outcome {
            eprintln!("on {engine:?}");
            std::panic::resume_unwind(failure.into_panic());
        }
    }
}

impl World {
    /// A world made so, on an empty database.
    async fn with(database: Arc<Database>, setup: Setup) -> Self {
        let storage = TestStore::new(database.url.clone()).await;
        let store = storage.store();
        let keys = [
            ("billing-bot", Role::Agent),
            ("other-bot", Role::Agent),
            ("ana", Role::Reviewer),
            ("bo", Role::Reviewer),
            ("cy", Role::Reviewer),
        ];
        for (name, role) in keys {
            keys::create_key(&store, &Actor::service(), &key_of(name, role), START).await.unwrap();
        }
        keys::create_key(&store, &Actor::service(), &desk_key(), START).await.unwrap();
        Self::start(database, storage, Arc::new(ManualClock::new()), Arc::default(), setup)
    }

    /// Another instance on the same database, with the same clock.
    pub(crate) async fn another_instance(&self, setup: Setup) -> Self {
        let storage = TestStore::new(self.database.url.clone()).await;
        Self::start(Arc::clone(&self.database), storage, Arc::clone(&self.clock), Arc::clone(&self.calls), setup)
    }

    fn start(
        database: Arc<Database>,
        storage: TestStore,
        clock: Arc<ManualClock>,
        calls: Arc<AtomicU32>,
        setup: Setup,
    ) -> Self {
        static INSTANCES: AtomicU64 = AtomicU64::new(0);
        let store = storage.store();
        let used = setup.wrap.map_or_else(|| Arc::clone(&store), |wrap| wrap(Arc::clone(&store)));
        let tells = setup.channels.destinations().next().is_some();
        let entries = setup.reviewers.iter().map(|(name, groups)| ReviewerEntry {
            name: ReviewerName::parse(name).unwrap(),
            groups: groups.iter().map(|group| GroupName::parse(group).unwrap()).collect(),
            email: tells.then(|| format!("{name}@acme.example")),
            slack_user: tells.then(|| format!("U0{}", name.to_ascii_uppercase())),
            oidc_subject: None,
            absence: setup.absent.iter().find(|(absent, _)| absent == name).map(|(_, absence)| absence.clone()),
        });
        let reviewers = ReviewerDirectory::new(entries).unwrap();
        let signer = PermitSigner::new(PUBLIC_URL, SigningKey::generate(&[1; 32]).unwrap(), vec![]);
        let permits = signer.verifier();
        let (log, writer) = DecisionLog::new(Arc::clone(&used));
        tokio::spawn(writer.run());
        let seed = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let ana = reviewer("ana", &reviewers);
        let bo = reviewer("bo", &reviewers);
        let outside = MadeUp::default();
        let app = App::new(Parts {
            store: used,
            clock: Arc::<ManualClock>::clone(&clock),
            entropy: setup.entropy.unwrap_or_else(|| Arc::new(CountingEntropy::new(seed))),
            permits: Arc::new(signer),
            paths: Arc::new(Disk::default()),
            lookups: Arc::new(outside.clone()),
            log,
            policy: policy(&setup.policy),
            reviewers,
            channels: setup.channels,
            settings: Settings { public_url: PUBLIC_URL.to_owned(), claim_lease: LEASE },
        });
        Self {
            app: Arc::new(app),
            clock,
            store,
            permits,
            bot: caller("billing-bot", Role::Agent),
            other_bot: caller("other-bot", Role::Agent),
            outside,
            ana,
            bo,
            desk: Caller { principal: desk_key().principal_at(START).unwrap(), request_id: "req-desk".to_owned() },
            storage,
            database,
            calls,
        }
    }

    /// `cy`, who has a key, and groups where the setup says so.
    pub(crate) fn cy(&self) -> ReviewerCaller {
        reviewer("cy", self.app.reviewers())
    }

    /// A new call of `billing-bot`, to be sent as it is or changed first.
    pub(crate) fn call(&self, tool: &str, args: Value) -> DecideRequest {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        DecideRequest {
            call: ToolCall {
                key: CallKey {
                    agent: AgentId::parse("billing-bot").unwrap(),
                    run: RunId::parse(RUN).unwrap(),
                    turn: 0,
                    tool_use_id: ToolUseId::parse(&format!("call-{number}")).unwrap(),
                },
                tool: tool.to_owned(),
                args: arguments(args),
                context: None,
            },
            rationale: None,
            claim: false,
            join: false,
            permit: false,
            hold: false,
            batch: None,
            idempotency: None,
        }
    }

    /// `billing-bot` asks.
    pub(crate) async fn ask(&self, request: &DecideRequest) -> Result<DecideAnswer, Error> {
        self.app.decide_call(&self.bot, request).await
    }

    /// `billing-bot` asks about a new call.
    pub(crate) async fn decide(&self, tool: &str, args: Value) -> DecideAnswer {
        self.ask(&self.call(tool, args)).await.unwrap()
    }

    /// A call that is held, and the request that held it.
    pub(crate) async fn hold(&self, tool: &str, args: Value) -> (DecideRequest, Approval) {
        let request = self.call(tool, args);
        let approval = held(self.ask(&request).await.unwrap()).approval;
        (request, approval)
    }

    /// A call that `ana` approved.
    pub(crate) async fn approved(&self, tool: &str, args: Value) -> (DecideRequest, Approval) {
        let (request, approval) = self.hold(tool, args).await;
        let approval = self.approve(&self.ana, &approval).await.unwrap().approval;
        (request, approval)
    }

    /// A call that `ana` approved and `billing-bot` claimed.
    pub(crate) async fn claimed(&self, tool: &str, args: Value) -> (DecideRequest, ClaimedCall) {
        let (request, approval) = self.approved(tool, args).await;
        let claimed = self.claim(&approval, &request.call.args, None).await.unwrap();
        (request, claimed)
    }

    pub(crate) async fn approve(&self, by: &ReviewerCaller, approval: &Approval) -> Result<ReviewedApproval, Error> {
        self.app.decide_approval(by, approval.id, &decision(approval, true, None)).await.map(counted)
    }

    pub(crate) async fn deny(
        &self,
        by: &ReviewerCaller,
        approval: &Approval,
        message: Option<&str>,
    ) -> Result<ReviewedApproval, Error> {
        self.app.decide_approval(by, approval.id, &decision(approval, false, message)).await.map(counted)
    }

    /// `billing-bot` claims.
    pub(crate) async fn claim(
        &self,
        approval: &Approval,
        args: &Arguments,
        claim: Option<&str>,
    ) -> Result<ClaimedCall, Error> {
        let claim = claim.map(|id| ClaimId::parse(id).unwrap());
        self.app.claim_call(&self.bot, approval.id, &Presented { args, claim }).await
    }

    /// `billing-bot` reports.
    pub(crate) async fn report(&self, claimed: &ClaimedCall, status: ReportedStatus) -> Result<(), Error> {
        let report = OutcomeReport { claim: Some(claimed.claim.clone()), status, detail: None, result: None };
        self.app.report_outcome(&self.bot, claimed.approval, &report).await
    }

    /// The approval as it is stored.
    pub(crate) async fn stored(&self, approval: &Approval) -> Approval {
        self.store.approval(approval.id).await.unwrap().unwrap()
    }

    /// Rewrites the stored arguments of an approval behind the service's back.
    pub(crate) async fn tamper_with_payload(&self, approval: &Approval) {
        let digest = match self.storage.engine() {
            Engine::Sqlite => format!("x'{}'", approval.payload),
            Engine::Postgres => format!("'\\x{}'", approval.payload),
        };
        let statement = format!("update payloads set body = replace(body, 'acme', 'evil') where digest = {digest}");
        self.storage.execute(&statement).await.unwrap();
    }

    /// Runs a statement as somebody who may also drop what protects the log.
    pub(crate) async fn without_triggers(&self, statement: &str) {
        let before = match self.storage.engine() {
            Engine::Sqlite => {
                "drop trigger if exists audit_entries_update; drop trigger if exists audit_entries_delete;
                 drop trigger if exists audit_head_update"
            }
            Engine::Postgres => {
                "alter table audit_entries disable trigger user; alter table audit_head disable trigger user"
            }
        };
        self.storage.execute(&format!("{before}; {statement}")).await.unwrap();
    }

    /// Lets the run work for somebody.
    pub(crate) async fn on_behalf_of(&self, identity: &str) {
        let statement = format!("update runs set on_behalf_of = '{identity}' where run_id = '{RUN}'");
        self.storage.execute(&statement).await.unwrap();
    }

    /// Lets another policy decide.
    pub(crate) async fn accept(&self, text: &str) {
        self.app.accept_policy(policy(text), &files(text)).await.unwrap();
    }

    /// Every entry of this kind, oldest first.
    pub(crate) async fn entries_of(&self, event: EventKind) -> Vec<SealedEntry> {
        let filter = EntryFilter { event: Some(event), ..EntryFilter::default() };
        let mut entries = self.store.entries(&filter, None, u32::MAX).await.unwrap();
        entries.reverse();
        entries
    }

    /// Every event in the log but those about keys, oldest first.
    pub(crate) async fn events(&self) -> Vec<EventKind> {
        let entries = self.store.entries_after(0, u32::MAX).await.unwrap();
        entries.iter().map(|sealed| sealed.entry.event).filter(|event| *event != EventKind::KeyCreated).collect()
    }

    /// Fails unless the log is whole.
    pub(crate) async fn assert_log_is_whole(&self) {
        let verification = self.app.verify_audit().await.unwrap();
        assert_eq!(verification.fault, None);
        assert_eq!(verification.head, self.store.head().await.unwrap());
    }
}

/// The members of a JSON object.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(object) = value { object } else { panic!("{value} is no object") }
}

/// Arguments with their hash.
pub(crate) fn arguments(value: Value) -> Arguments {
    Arguments::new(object(value)).unwrap()
}

/// What a reviewer sends who was shown this approval.
pub(crate) fn decision(approval: &Approval, approve: bool, message: Option<&str>) -> ReviewDecision {
    ReviewDecision {
        approve,
        args_hash: approval.args_hash,
        review_hash: None,
        reason: None,
        message_to_agent: message.map(str::to_owned),
        grant: None,
        confirmation: None,
    }
}

/// What a decision that counts came to.
#[track_caller]
pub(crate) fn counted(decided: Decided) -> ReviewedApproval {
    if let Decided::Counted(reviewed) = decided { *reviewed } else { panic!("not counted: {decided:?}") }
}

#[track_caller]
pub(crate) fn allowed(answer: DecideAnswer) -> AllowedCall {
    if let DecideAnswer::Allowed(allowed) = answer { allowed } else { panic!("not allowed: {answer:?}") }
}

#[track_caller]
pub(crate) fn held(answer: DecideAnswer) -> HeldCall {
    if let DecideAnswer::Held(held) = answer { *held } else { panic!("not held: {answer:?}") }
}

#[track_caller]
pub(crate) fn claimed(answer: DecideAnswer) -> (HeldCall, ClaimedCall) {
    if let DecideAnswer::Claimed(held, claimed) = answer {
        (*held, *claimed)
    } else {
        panic!("not claimed: {answer:?}")
    }
}

#[track_caller]
pub(crate) fn refused(answer: DecideAnswer) -> RefusedCall {
    if let DecideAnswer::Refused(refused) = answer { refused } else { panic!("not refused: {answer:?}") }
}
