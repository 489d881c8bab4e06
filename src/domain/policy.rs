//! The policy: files parsed strictly, compiled once into one immutable bundle.
//!
//! This file holds the bundle that decisions read; how it comes about is below it. Nothing here reads files.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    time::Duration,
};

use serde_json::{Map, Value};

use self::{
    argument::Argument,
    condition::{Condition, ConditionFault},
    lookup::Lookup,
    schema::Schema,
};
use super::{
    approval::requirement::{DecideIn, Requirement},
    identity::ReviewerDirectory,
    limit::Limit,
    subject::Subject,
    verdict::{Risk, Verdict},
};

pub mod argument;
mod compile;
pub mod condition;
mod document;
pub mod fault;
mod lint;
pub mod lookup;
mod manifest;
mod names;
pub mod schema;
mod unsupported;

pub use self::fault::{Fault, Severity, SourceFile};

/// A policy that loaded, and what its author should look at.
#[derive(Debug)]
pub struct Loaded {
    /// The policy.
    pub policy: Policy,
    /// Warnings, in the order of the files.
    pub warnings: Vec<Fault>,
}

/// Whether a file of this path holds policy: `*.toml`, but not `*.cases.toml`.
pub fn is_policy_file(path: &str) -> bool {
    manifest::is_policy_file(path)
}

/// The paths of the schema files that the policy files among `files` name, relative as theirs are.
///
/// Whoever reads the files reads these too and gives all of them to [`Policy::load`]. A name that could lead out of the
/// folder of the file it stands in is not among them; loading reports it.
pub fn schema_files(files: &[SourceFile]) -> BTreeSet<String> {
    manifest::schema_files(files)
}

/// Names the exact text of a policy: `sha256:` and 64 hexadecimal digits.
///
/// Two policies have the same version exactly when they consist of the same files with the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PolicyVersion(String);

impl PolicyVersion {
    /// The version of these files, whether or not they load.
    pub fn of(files: &[SourceFile]) -> Self {
        compile::version(files)
    }

    /// The version with this text, as the store returns it.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// The text, as answers and the log carry it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PolicyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One compiled, immutable policy. Everything that could be wrong with it was refused when it was loaded.
#[derive(Debug)]
pub struct Policy {
    version: PolicyVersion,
    tools: Vec<Tool>,
    /// Index into `tools` by canonical name and by alias.
    names: HashMap<String, usize>,
    agents: BTreeMap<String, Agent>,
    vars: Map<String, Value>,
    approval_ttl: Duration,
    caps: Caps,
}

/// How much may wait, and how often an agent may be refused, before further calls are denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Most approvals open at once in one run.
    pub open_per_run: u32,
    /// Most approvals open at once for one agent.
    pub open_per_agent: u32,
    /// Most refused approvals of one tool in one run.
    pub refused_per_run: u32,
}

/// An agent the policy lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Canonical names of the tools it may use.
    pub tools: BTreeSet<String>,
    /// What conditions read as `agent.labels`: text by name.
    pub labels: BTreeMap<String, String>,
    /// Whose it is: names or e-mail addresses of reviewers. They may deny its calls, and not approve them.
    pub owners: BTreeSet<String>,
}

/// A tool as the policy declares it.
#[derive(Debug)]
pub struct Tool {
    /// Its canonical name: decisions, permits and the log use this one, whichever name the caller used.
    pub name: String,
    /// Other names of the very same tool.
    pub aliases: BTreeSet<String>,
    /// What it can do to the world.
    pub risk: Risk,
    /// For people and models; may be empty.
    pub description: String,
    /// The verdict when no rule is true.
    pub default: Verdict,
    /// Whether running it twice with the same idempotency key has the effect of running it once.
    pub idempotent: bool,
    /// Whether its executor confines whatever a command does.
    pub sandboxed: bool,
    /// Whether a reviewer may give a grant for it.
    pub grantable: bool,
    /// Whether the input of allowed calls is kept.
    pub record_args: bool,
    /// The `aud` of its permits.
    pub audience: String,
    /// How long a claim may go without an outcome, where the policy says so; else the installation's setting counts.
    pub lease: Option<Duration>,
    /// Handed to the executor with every permission.
    pub obligations: Map<String, Value>,
    /// What a run has touched once this tool was allowed.
    pub labels: BTreeSet<String>,
    /// The schema of its arguments.
    pub schema: Schema,
    /// Whether its schema admits undeclared properties at the top, as `open = true` says.
    pub open: bool,
    /// The arguments that have a kind. No two of them stand at the same place, or one within the other.
    pub arguments: Vec<Argument>,
    /// Its own rules, in the order of the file; the order never matters.
    pub rules: Vec<Rule>,
    /// The rules over many tools that cover this one. Each can only make the verdict stricter.
    pub floors: Vec<Rule>,
    /// How often and how much.
    pub limits: Vec<Limit>,
    /// What an approval of it takes, whatever asked for it.
    pub approval: ApprovalTerms,
    /// The business keys of a call: JSON Pointers (RFC 6901) into its arguments, by name.
    pub subject: BTreeMap<String, String>,
    /// What the service itself looks at before people are asked, in the order of their names.
    pub lookups: Vec<Lookup>,
}

/// A condition and what follows when it is true.
#[derive(Debug)]
pub struct Rule {
    /// Unique in the whole policy.
    pub id: String,
    /// When it applies.
    pub condition: Condition,
    /// What it says then.
    pub verdict: Verdict,
    /// Why, for people.
    pub reason: String,
    /// What an approval takes that this rule asked for; none unless `verdict` is `require_approval`.
    pub approval: Option<ApprovalTerms>,
    /// Whether it would loosen its tool's default: a failed condition then counts as false, otherwise as true.
    pub loosens: bool,
}

/// What an approval takes: the terms of a tool, or of one of its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalTerms {
    /// How many approvals each of `reviewers` gives (with none: how many different people approve).
    pub quorum: u32,
    /// The groups that must approve; empty for any reviewer.
    pub reviewers: BTreeSet<String>,
    /// How long the approval may wait, where these terms say so. The shortest that is said counts, and only when
    /// nothing says so [`Policy::approval_ttl`].
    pub ttl: Option<Duration>,
    /// How long an approval rests before it can be claimed.
    pub grace: Duration,
    /// An approve takes a second click. Those of destructive tools always do.
    pub double_confirm: bool,
    /// Where an approve may be given.
    pub decide_in: DecideIn,
    /// An approve takes a sign-in at the provider within the last minutes.
    pub step_up: bool,
    /// Whether who asks for the call may approve it too.
    pub allow_self_approval: bool,
    /// The groups that may fill in for `reviewers`, each from so long after the call was held on.
    pub escalation: BTreeMap<String, Duration>,
}

/// One approval by anyone who does not ask for the call, with nothing said about time.
impl Default for ApprovalTerms {
    fn default() -> Self {
        Self {
            quorum: 1,
            reviewers: BTreeSet::new(),
            ttl: None,
            grace: Duration::ZERO,
            double_confirm: false,
            decide_in: DecideIn::Any,
            step_up: false,
            allow_self_approval: false,
            escalation: BTreeMap::new(),
        }
    }
}

impl Policy {
    /// Loads the policy that consists of every policy file among `files` and the schema files they name (see
    /// [`schema_files`]); other files are left alone.
    ///
    /// # Errors
    /// Everything wrong with it, at once. What a later version will build is refused too, and says so.
    pub fn load(files: &[SourceFile]) -> Result<Loaded, Vec<Fault>> {
        compile::load(files, None)
    }

    /// As [`Policy::load`], where the configured reviewers are known: a requirement that they could never meet is an
    /// error too, and an owner who is none of them, unless there are none at all.
    ///
    /// # Errors
    /// Everything wrong with it, at once.
    pub fn load_for(files: &[SourceFile], reviewers: &ReviewerDirectory) -> Result<Loaded, Vec<Fault>> {
        compile::load(files, Some(reviewers))
    }

    /// The version that decisions name.
    pub fn version(&self) -> &PolicyVersion {
        &self.version
    }

    /// The tool that `presented` names exactly, by its canonical name or an alias.
    pub fn tool(&self, presented: &str) -> Option<&Tool> {
        self.tools.get(*self.names.get(presented)?)
    }

    /// Every tool, by canonical name.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.tools.iter()
    }

    /// Whether `agent` may use `tool` at all. When the policy lists any agent, one it does not list may use nothing.
    pub fn agent_may_use(&self, agent: &str, tool: &Tool) -> bool {
        self.agents.is_empty() || self.agents.get(agent).is_some_and(|listed| listed.tools.contains(&tool.name))
    }

    /// What the policy says about `agent`, if it lists it.
    pub fn agent(&self, agent: &str) -> Option<&Agent> {
        self.agents.get(agent)
    }

    /// Every listed agent with its id.
    pub fn agents(&self) -> impl ExactSizeIterator<Item = (&str, &Agent)> {
        self.agents.iter().map(|(id, agent)| (id.as_str(), agent))
    }

    /// What conditions read as `vars`.
    pub fn vars(&self) -> &Map<String, Value> {
        &self.vars
    }

    /// How long an approval may wait when neither its tool nor a rule says so.
    pub fn approval_ttl(&self) -> Duration {
        self.approval_ttl
    }

    /// The caps on open and refused approvals.
    pub fn caps(&self) -> Caps {
        self.caps
    }

    /// Compiles the condition of a reviewer's grant for `tool`: with the names, the types and the bounds of a rule that
    /// loosens it.
    ///
    /// # Errors
    /// Every fault at once.
    pub fn grant_condition(&self, tool: &Tool, source: &str) -> Result<Condition, Vec<ConditionFault>> {
        compile::loosening_condition(source, tool, &self.vars)
    }

    /// What an approval takes that `tool` alone and these rules of it ask for.
    pub fn requirement_of(&self, tool: &Tool, rules: &BTreeSet<String>) -> Requirement {
        let asking: Vec<&Rule> = tool.all_rules().filter(|rule| rules.contains(&rule.id)).collect();
        tool.requirement(&asking, self.approval_ttl)
    }

    /// The references of the secrets that lookups send, each with the lookup that names it.
    pub fn credentials(&self) -> impl Iterator<Item = (String, &str)> {
        self.tools.iter().flat_map(|tool| {
            tool.lookups.iter().filter_map(|lookup| {
                let reference = lookup.credential.as_deref()?;
                Some((format!("tools.{}.lookups.{}", tool.name, lookup.name), reference))
            })
        })
    }

    /// The tools some call of which could be approved only by whoever has just signed in, by name.
    pub fn tools_with_step_up(&self) -> impl Iterator<Item = &str> {
        self.tools_whose_terms(|terms| terms.step_up)
    }

    /// The tools some call of which could be approved on the review page alone, by name.
    pub fn tools_decided_on_the_web(&self) -> impl Iterator<Item = &str> {
        self.tools_whose_terms(|terms| terms.decide_in == DecideIn::Web)
    }

    fn tools_whose_terms(&self, ask: impl Fn(&ApprovalTerms) -> bool) -> impl Iterator<Item = &str> {
        let asks = move |tool: &&Tool| {
            tool.may_require_approval()
                && (ask(&tool.approval) || tool.all_rules().any(|rule| rule.approval.as_ref().is_some_and(&ask)))
        };
        self.tools.iter().filter(asks).map(|tool| tool.name.as_str())
    }

    /// Every group of reviewers that some approval would need, or that could fill in.
    pub fn groups_named(&self) -> BTreeSet<&str> {
        let of_rules = self.tools.iter().flat_map(|tool| tool.rules.iter().chain(&tool.floors));
        let of_rules = of_rules.filter_map(|rule| rule.approval.as_ref());
        let terms = self.tools.iter().map(|tool| &tool.approval).chain(of_rules);
        terms.flat_map(|terms| terms.reviewers.iter().chain(terms.escalation.keys()).map(String::as_str)).collect()
    }
}

impl Tool {
    /// The schema of its arguments as it was written, for `GET /tools`.
    pub fn parameters(&self) -> &Value {
        self.schema.source()
    }

    /// Its own rules, and those over many tools that cover it.
    pub fn all_rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().chain(&self.floors)
    }

    /// The strictest sum of its own terms and those of every rule that asks. Only where none of them says how long an
    /// approval may wait, `otherwise` counts.
    pub(in crate::domain) fn requirement(&self, asking: &[&Rule], otherwise: Duration) -> Requirement {
        let terms = || std::iter::once(&self.approval).chain(asking.iter().filter_map(|rule| rule.approval.as_ref()));
        let ttl = terms().filter_map(|terms| terms.ttl).min().unwrap_or(otherwise);
        terms().fold(self.approval.requirement(ttl), |joined, terms| joined.joined(&terms.requirement(ttl)))
    }

    /// Whether it runs commands that nothing confines: such a call is never permitted without an approval.
    pub fn runs_unconfined_commands(&self) -> bool {
        !self.sandboxed && self.arguments.iter().any(|argument| argument.kind.name() == "command")
    }

    /// Whether its calls are decided on what only holds under locks: what their run has touched or was asked, or what
    /// permitting them leaves behind.
    pub fn is_settled_under_locks(&self) -> bool {
        let reads_run = |rule: &Rule| rule.condition.reads().run || rule.condition.reads().requested;
        !self.labels.is_empty()
            || !self.limits.is_empty()
            || !self.subject.is_empty()
            || self.all_rules().any(reads_run)
    }

    /// Whether a rule that covers it asks what the human asked.
    pub fn reads_request(&self) -> bool {
        self.rules.iter().chain(&self.floors).any(|rule| rule.condition.reads().requested)
    }

    /// Whether what it is called with must be looked up on disk.
    pub fn looks_at_disk(&self) -> bool {
        self.arguments.iter().any(|argument| argument.kind.looks_at_disk())
    }

    /// The business keys of a call with these arguments. What is absent, or no text that could be one, is left out.
    pub fn subjects(&self, args: &Value) -> Vec<Subject> {
        self.subject.iter().filter_map(|(name, pointer)| Subject::of(name, args.pointer(pointer)?)).collect()
    }

    /// Whether some call of it could need an approval.
    pub fn may_require_approval(&self) -> bool {
        let asks = |verdict: Verdict| verdict == Verdict::RequireApproval;
        asks(self.default)
            || self.runs_unconfined_commands()
            || self.limits.iter().any(|limit| asks(limit.on_exceed.verdict()))
            || self.rules.iter().chain(&self.floors).any(|rule| asks(rule.verdict))
    }
}

impl ApprovalTerms {
    /// The same as a requirement that waits for `ttl`: each group gives `quorum`, or anyone does when none is named.
    pub fn requirement(&self, ttl: Duration) -> Requirement {
        let groups: BTreeMap<String, u32> = self.reviewers.iter().map(|group| (group.clone(), self.quorum)).collect();
        Requirement {
            anyone: if groups.is_empty() { self.quorum } else { 0 },
            groups,
            grace: self.grace,
            double_confirm: self.double_confirm,
            decide_in: self.decide_in,
            step_up: self.step_up,
            allow_self_approval: self.allow_self_approval,
            escalation: self.escalation.clone(),
            ..Requirement::one_of_anyone(ttl)
        }
    }
}
