//! What the files of a policy say, read strictly and with every place kept; what it means is decided elsewhere.
//!
//! The grammar is that of design section 3: TOML, unknown keys are faults, a folder is one policy. Later rules about
//! the contents (that a name is declared, that a condition compiles) belong to `compile`.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;
use toml::de::DeTable;

use self::table::Table;
use super::{
    document::Document,
    fault::{Faults, Place, SourceFile},
    lookup::Method,
};
use crate::domain::{
    approval::requirement::DecideIn,
    limit::{LONGEST_WINDOW, OnExceed, Per, amount::Amount},
    verdict::{Risk, Verdict},
};

mod table;

/// The version of this grammar.
const SCHEMA: u32 = 1;
/// The longest an approval may wait.
const MAX_TTL: Duration = Duration::from_secs(30 * 86_400);
/// The longest a claim may go without an outcome.
const MAX_LEASE: Duration = Duration::from_secs(24 * 3_600);
/// The most approvals one group may have to give: each is a place that votes are matched to.
const MAX_QUORUM: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);
/// The longest a lookup may take: somebody waits for it.
const MAX_LOOKUP: Duration = Duration::from_secs(10);
const MILLISECOND: Duration = Duration::from_millis(1);
/// The largest cap; above it a cap would not be one.
const MAX_CAP: u32 = 100_000;
/// The most calls a limit may admit; above it it would not be one.
const MAX_CALLS: u32 = 1_000_000;
/// The largest file of a policy, in bytes.
const MAX_FILE: usize = 1024 * 1024;

/// A kind of table in the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// The whole file.
    File,
    /// `[defaults]`
    Defaults,
    /// `[agents.X]`
    Agent,
    /// `[tools.X]`
    Tool,
    /// `[[tools.X.rules]]`
    Rule,
    /// `[[rules]]`
    Floor,
    /// `approval` of a tool or rule
    Approval,
    /// `[[tools.X.limits]]`
    Limit,
    /// `max_sum` of a limit
    MaxSum,
    /// `[tools.X.lookups.L]`
    Lookup,
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) at: Place,
}

/// Everything the files of one policy say. What was at fault is missing from it and among the faults.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    pub(super) vars: BTreeMap<String, At<Value>>,
    pub(super) defaults: DefaultsEntry,
    pub(super) agents: BTreeMap<String, AgentEntry>,
    pub(super) tools: BTreeMap<String, ToolEntry>,
    pub(super) floors: Vec<FloorEntry>,
}

/// `[defaults]`
#[derive(Debug, Default)]
pub(super) struct DefaultsEntry {
    pub(super) verdicts: BTreeMap<Risk, At<Verdict>>,
    pub(super) approval_ttl: Option<At<Duration>>,
    pub(super) max_open_approvals_per_run: Option<At<u32>>,
    pub(super) max_open_approvals_per_agent: Option<At<u32>>,
    pub(super) max_refused_per_run: Option<At<u32>>,
}

/// `[agents.X]`
#[derive(Debug)]
pub(super) struct AgentEntry {
    pub(super) at: Place,
    pub(super) tools: Option<At<Vec<At<String>>>>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) owners: Option<At<Vec<At<String>>>>,
}

/// `[tools.X]`
#[derive(Debug)]
pub(super) struct ToolEntry {
    pub(super) name: At<String>,
    pub(super) risk: Option<At<Risk>>,
    pub(super) description: Option<At<String>>,
    pub(super) parameters: Option<Document>,
    pub(super) open: Option<At<bool>>,
    pub(super) default: Option<At<Verdict>>,
    pub(super) aliases: Vec<At<String>>,
    pub(super) labels: Option<At<Vec<At<String>>>>,
    pub(super) idempotent: bool,
    pub(super) sandboxed: bool,
    pub(super) grantable: Option<bool>,
    pub(super) record_args: bool,
    pub(super) audience: Option<At<String>>,
    pub(super) lease: Option<At<Duration>>,
    pub(super) obligations: Option<Document>,
    pub(super) arguments: Vec<ArgumentEntry>,
    pub(super) rules: Vec<RuleEntry>,
    pub(super) limits: Vec<LimitEntry>,
    pub(super) approval: Option<ApprovalEntry>,
    pub(super) subject: Vec<NamedText>,
    pub(super) lookups: Vec<LookupEntry>,
}

/// A name that the author chose, and the text it stands for.
#[derive(Debug)]
pub(super) struct NamedText {
    pub(super) name: At<String>,
    pub(super) text: String,
}

/// `[tools.X.lookups.L]`
#[derive(Debug)]
pub(super) struct LookupEntry {
    pub(super) name: At<String>,
    pub(super) url: Option<At<String>>,
    pub(super) method: Option<At<Method>>,
    pub(super) timeout: Option<At<Duration>>,
    pub(super) show: Vec<NamedText>,
    pub(super) unchanged: Option<At<Vec<At<String>>>>,
    pub(super) credential: Option<At<String>>,
    pub(super) allow_private: bool,
}

/// `[tools.X.arguments.A]`
#[derive(Debug)]
pub(super) struct ArgumentEntry {
    pub(super) name: At<String>,
    pub(super) declaration: Document,
}

/// What rules of a tool and floors have in common.
#[derive(Debug)]
pub(super) struct RuleEntry {
    pub(super) at: Place,
    pub(super) id: Option<At<String>>,
    pub(super) when: Option<At<String>>,
    pub(super) verdict: Option<At<Verdict>>,
    pub(super) reason: Option<At<String>>,
    pub(super) approval: Option<ApprovalEntry>,
}

/// `[[rules]]`
#[derive(Debug)]
pub(super) struct FloorEntry {
    pub(super) rule: RuleEntry,
    pub(super) tools: Option<At<Vec<At<String>>>>,
    pub(super) risk: Option<At<Vec<At<Risk>>>>,
}

/// `approval` of a tool or a rule.
#[derive(Debug)]
pub(super) struct ApprovalEntry {
    pub(super) at: Place,
    pub(super) quorum: Option<At<u32>>,
    pub(super) reviewers: Option<At<Vec<At<String>>>>,
    pub(super) ttl: Option<At<Duration>>,
    pub(super) grace: Option<At<Duration>>,
    pub(super) double_confirm: Option<At<bool>>,
    pub(super) decide_in: Option<At<DecideIn>>,
    pub(super) step_up: Option<At<bool>>,
    pub(super) allow_self_approval: Option<At<bool>>,
    pub(super) escalate: Option<At<Vec<At<String>>>>,
    pub(super) escalate_after: Option<At<Duration>>,
}

/// `[[tools.X.limits]]`
#[derive(Debug)]
pub(super) struct LimitEntry {
    pub(super) id: Option<At<String>>,
    pub(super) per: Option<At<Per>>,
    pub(super) window: Option<At<Duration>>,
    pub(super) max_calls: Option<At<u32>>,
    pub(super) max_sum: Option<MaxSumEntry>,
    pub(super) on_exceed: Option<At<OnExceed>>,
}

/// `max_sum` of a limit.
#[derive(Debug)]
pub(super) struct MaxSumEntry {
    pub(super) argument: Option<At<String>>,
    pub(super) value: Option<At<Amount>>,
    pub(super) by: Option<At<String>>,
}

/// Whether a path names a file with policy in it (and not test cases, a schema, or something else).
pub(super) fn is_policy_file(path: &str) -> bool {
    path.ends_with(".toml") && !path.ends_with(".cases.toml")
}

/// Reads every policy file among `faults.files()`. A schema file is looked up there too.
pub(super) fn read(faults: &mut Faults<'_>) -> Manifest {
    let mut manifest = Manifest::default();
    let mut reading = Reading { manifest: &mut manifest, faults, defaults_at: None };
    for (file, source) in reading.faults.files().iter().enumerate() {
        if is_policy_file(&source.path) {
            reading.file(file, source);
        }
    }
    manifest
}

/// The paths of the schema files that `policies` name. What is wrong with them is left for loading to report.
pub(super) fn schema_files(policies: &[SourceFile]) -> BTreeSet<String> {
    let mut wanted = BTreeSet::new();
    for source in policies.iter().filter(|source| is_policy_file(&source.path)) {
        let (document, _) = DeTable::parse_recoverable(&source.text);
        let tools = document.get_ref().get("tools").and_then(|tools| tools.get_ref().as_table());
        for (_, tool) in tools.into_iter().flatten() {
            let given = tool.get_ref().get("parameters_file").and_then(|path| path.get_ref().as_str());
            wanted.extend(given.and_then(|given| beside(&source.path, given)));
        }
    }
    wanted
}

/// The path of `given`, which is relative to the folder of `policy` and below it; `None` if it is not.
fn beside(policy: &str, given: &str) -> Option<String> {
    let plain = |part: &str| {
        !matches!(part, "" | "." | "..") && !part.contains(['\\', ':']) && !part.contains(char::is_control)
    };
    if !given.split('/').all(plain) || !given.ends_with(".json") {
        return None;
    }
    Some(match policy.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{given}"),
        None => given.to_owned(),
    })
}

struct Reading<'r, 's> {
    manifest: &'r mut Manifest,
    faults: &'r mut Faults<'s>,
    defaults_at: Option<Place>,
}

impl Reading<'_, '_> {
    fn file(&mut self, file: usize, source: &SourceFile) {
        let start = Place { file, span: 0..0 };
        if source.text.len() > MAX_FILE {
            self.faults.error(
                &start,
                format!("larger than {MAX_FILE} bytes"),
                "a folder of several files is one policy",
            );
            return;
        }
        let (document, errors) = DeTable::parse_recoverable(&source.text);
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            let hint = match error.message() {
                "duplicate key" => "each name stands once",
                _ => "see https://toml.io for how TOML is written",
            };
            self.faults.error(&Place { file, span }, format!("not TOML: {}", error.message()), hint);
        }
        if !errors.is_empty() {
            return;
        }
        let mut table = Table::new(Section::File, "the file", start.clone(), document.get_ref());
        let hint = format!("begin every policy file with schema = {SCHEMA}");
        match table.number("schema", 0..=u32::MAX, self.faults) {
            Some(At { value: SCHEMA, .. }) => {}
            Some(other) => {
                self.faults.error(&other.at, format!("policies of schema {} are not known here", other.value), hint);
            }
            None if table.missing("schema") => self.faults.error(&start, "no `schema`", hint),
            None => {}
        }
        self.vars(&mut table);
        if let Some(defaults) = table.table("defaults", Section::Defaults, self.faults) {
            self.defaults(defaults);
        }
        for named in table.named("agents", self.faults) {
            if let Some(agent) = named.table(Section::Agent, self.faults) {
                self.agent(named.name, agent);
            }
        }
        for named in table.named("tools", self.faults) {
            if let Some(tool) = named.table(Section::Tool, self.faults) {
                self.tool(source, named.name, tool);
            }
        }
        for mut floor in table.tables("rules", Section::Floor, self.faults) {
            let tools = floor.texts("tools", self.faults);
            let risk = floor.words("risk", &Risk::ALL, self.faults);
            let rule = self.rule(floor);
            self.manifest.floors.push(FloorEntry { rule, tools, risk });
        }
        table.finish(self.faults);
    }

    fn vars(&mut self, table: &mut Table<'_>) {
        for named in table.named("vars", self.faults) {
            let Some(document) = named.json(self.faults) else { continue };
            let At { value: name, at } = named.name;
            let entry = At { value: document.value, at: at.clone() };
            if let Some(first) = self.manifest.vars.get(&name) {
                let first = self.faults.describe(&first.at);
                self.faults.error(&at, format!("vars.{name} stands twice"), format!("the other is at {first}"));
            } else {
                self.manifest.vars.insert(name, entry);
            }
        }
    }

    fn defaults(&mut self, mut table: Table<'_>) {
        if let Some(first) = &self.defaults_at {
            let hint = format!("the other is at {}", self.faults.describe(first));
            self.faults.error(table.at(), "[defaults] stands in more than one file", hint);
            return;
        }
        self.defaults_at = Some(table.at().clone());
        let mut verdicts = BTreeMap::new();
        for risk in Risk::ALL {
            verdicts.extend(table.word(risk.as_str(), &Verdict::ALL, self.faults).map(|verdict| (risk, verdict)));
        }
        self.manifest.defaults = DefaultsEntry {
            verdicts,
            approval_ttl: table.duration("approval_ttl", SECOND..=MAX_TTL, "from 1s to 30d", self.faults),
            max_open_approvals_per_run: table.number("max_open_approvals_per_run", 1..=MAX_CAP, self.faults),
            max_open_approvals_per_agent: table.number("max_open_approvals_per_agent", 1..=MAX_CAP, self.faults),
            max_refused_per_run: table.number("max_refused_per_run", 1..=MAX_CAP, self.faults),
        };
        table.finish(self.faults);
    }

    fn agent(&mut self, name: At<String>, mut table: Table<'_>) {
        let tools = table.texts("tools", self.faults);
        if tools.is_none() && table.missing("tools") {
            let hint = "list the tools it may use; an agent that is not listed may use none";
            self.faults.error(table.at(), format!("{} has no `tools`", table.name()), hint);
        }
        let owners = table.text_or_texts("owner", self.faults);
        let mut labels = BTreeMap::new();
        for label in table.named("labels", self.faults) {
            match label.json(self.faults).map(|document| document.value) {
                Some(Value::String(text)) => {
                    labels.insert(label.name.value, text);
                }
                Some(_) => {
                    self.faults.error(
                        &label.name.at,
                        format!("`{}` is not a string", label.path),
                        "labels are strings",
                    );
                }
                None => {}
            }
        }
        table.finish(self.faults);
        let At { value: name, at } = name;
        if let Some(first) = self.manifest.agents.get(&name) {
            let first = self.faults.describe(&first.at);
            self.faults.error(&at, format!("agents.{name} stands twice"), format!("the other is at {first}"));
        } else {
            self.manifest.agents.insert(name, AgentEntry { at, tools, labels, owners });
        }
    }

    fn tool(&mut self, source: &SourceFile, name: At<String>, mut table: Table<'_>) {
        let risk = table.word("risk", &Risk::ALL, self.faults);
        if risk.is_none() && table.missing("risk") {
            let hint = "say what it can do: risk = \"read\", \"draft\", \"send\" or \"destructive\"";
            self.faults.error(table.at(), format!("{} has no `risk`", table.name()), hint);
        }
        let entry = ToolEntry {
            risk,
            description: table.text("description", self.faults),
            parameters: self.parameters(source, &mut table),
            open: table.flag("open", self.faults),
            default: table.word("default", &Verdict::ALL, self.faults),
            aliases: table.texts("aliases", self.faults).map(|aliases| aliases.value).unwrap_or_default(),
            labels: table.texts("labels", self.faults),
            idempotent: table.flag("idempotent", self.faults).is_some_and(|flag| flag.value),
            sandboxed: table.flag("sandboxed", self.faults).is_some_and(|flag| flag.value),
            grantable: table.flag("grantable", self.faults).map(|flag| flag.value),
            record_args: table.flag("record_args", self.faults).is_some_and(|flag| flag.value),
            audience: table.text("audience", self.faults),
            lease: table.duration("lease", SECOND..=MAX_LEASE, "from 1s to 24h", self.faults),
            obligations: table.json_table("obligations", self.faults),
            arguments: self.arguments(&mut table),
            rules: table.tables("rules", Section::Rule, self.faults).into_iter().map(|rule| self.rule(rule)).collect(),
            limits: table
                .tables("limits", Section::Limit, self.faults)
                .into_iter()
                .map(|limit| self.limit(limit))
                .collect(),
            approval: self.approval(&mut table),
            subject: self.named_texts(&mut table, "subject"),
            lookups: self.lookups(&mut table),
            name,
        };
        table.finish(self.faults);
        if let Some(first) = self.manifest.tools.get(&entry.name.value) {
            let hint = format!("the other is at {}", self.faults.describe(&first.name.at));
            self.faults.error(&entry.name.at, format!("tools.{} stands twice", entry.name.value), hint);
        } else {
            self.manifest.tools.insert(entry.name.value.clone(), entry);
        }
    }

    fn parameters(&mut self, source: &SourceFile, table: &mut Table<'_>) -> Option<Document> {
        let inline = table.json_table("parameters", self.faults);
        let path = table.text("parameters_file", self.faults);
        let Some(path) = path else {
            if inline.is_none() && table.missing("parameters") && table.missing("parameters_file") {
                let hint = "describe its arguments: parameters = { type = \"object\", properties = { .. } }, or parameters_file";
                self.faults.error(table.at(), format!("{} has no schema", table.name()), hint);
            }
            return inline;
        };
        if inline.is_some() {
            let message = format!("{} has `parameters` and `parameters_file`", table.name());
            self.faults.error(&path.at, message, "keep one of the two");
            return inline;
        }
        let Some(found) = beside(&source.path, &path.value) else {
            let hint = "name a .json file by its path relative to this file and below its folder, without `..`";
            self.faults.error(&path.at, format!("`parameters_file` of {} is not such a path", table.name()), hint);
            return None;
        };
        match self.faults.files().iter().position(|file| file.path == found) {
            Some(index) => Document::from_json(index, self.faults),
            None => {
                let hint = "it is looked for relative to this file";
                self.faults.error(&path.at, format!("there is no file {found}"), hint);
                None
            }
        }
    }

    fn arguments(&mut self, table: &mut Table<'_>) -> Vec<ArgumentEntry> {
        let mut arguments = Vec::new();
        for named in table.named("arguments", self.faults) {
            let Some(declaration) = named.json(self.faults) else { continue };
            if declaration.value.is_object() {
                arguments.push(ArgumentEntry { name: named.name, declaration });
            } else {
                let hint = format!("write [{}] with a `kind`", named.path);
                self.faults.error(&named.name.at, format!("`{}` is not a table", named.path), hint);
            }
        }
        arguments
    }

    /// A table of names and texts.
    fn named_texts(&mut self, table: &mut Table<'_>, key: &'static str) -> Vec<NamedText> {
        let mut texts = Vec::new();
        for named in table.named(key, self.faults) {
            let Some(document) = named.json(self.faults) else { continue };
            match document.value.as_str() {
                Some(text) => texts.push(NamedText { name: named.name, text: text.to_owned() }),
                None => {
                    let hint = "write a JSON Pointer such as \"/order/id\"";
                    self.faults.error(&named.name.at, format!("`{}` is not a string", named.path), hint);
                }
            }
        }
        texts
    }

    fn lookups(&mut self, table: &mut Table<'_>) -> Vec<LookupEntry> {
        let mut lookups = Vec::new();
        for named in table.named("lookups", self.faults) {
            let Some(mut table) = named.table(Section::Lookup, self.faults) else { continue };
            let lookup = LookupEntry {
                url: table.text("url", self.faults),
                method: table.word("method", &Method::ALL, self.faults),
                timeout: table.duration("timeout", MILLISECOND..=MAX_LOOKUP, "from 1ms to 10s", self.faults),
                show: self.named_texts(&mut table, "show"),
                unchanged: table.texts("unchanged", self.faults),
                credential: table.text("credential", self.faults),
                allow_private: table.flag("allow_private", self.faults).is_some_and(|flag| flag.value),
                name: named.name,
            };
            for (key, hint) in [
                ("url", "say where to look: url = \"https://orders.acme.example/orders/{order_id}\""),
                ("show", "say what reviewers see of the answer: show = { status = \"/status\" }"),
            ] {
                if table.missing(key) {
                    self.faults.error(table.at(), format!("{} has no `{key}`", table.name()), hint);
                }
            }
            table.finish(self.faults);
            lookups.push(lookup);
        }
        lookups
    }

    fn rule(&mut self, mut table: Table<'_>) -> RuleEntry {
        let rule = RuleEntry {
            at: table.at().clone(),
            id: table.text("id", self.faults),
            when: table.text("when", self.faults),
            verdict: table.word("verdict", &Verdict::ALL, self.faults),
            reason: table.text("reason", self.faults),
            approval: self.approval(&mut table),
        };
        for (key, hint) in [
            ("id", "name it: the log and reviewers see this name"),
            ("when", "say when it applies, as a condition in CEL"),
            ("verdict", "say what follows: \"allow\", \"allow_audited\", \"require_approval\" or \"deny\""),
            ("reason", "say why, for the people who read the log and the review"),
        ] {
            if table.missing(key) {
                self.faults.error(table.at(), format!("a rule in {} has no `{key}`", table.name()), hint);
            }
        }
        table.finish(self.faults);
        rule
    }

    fn limit(&mut self, mut table: Table<'_>) -> LimitEntry {
        let limit = LimitEntry {
            id: table.text("id", self.faults),
            per: table.word("per", &Per::ALL, self.faults),
            window: table.duration("window", SECOND..=LONGEST_WINDOW, "from 1s to 31d", self.faults),
            max_calls: table.number("max_calls", 1..=MAX_CALLS, self.faults),
            max_sum: self.max_sum(&mut table),
            on_exceed: table.word("on_exceed", &OnExceed::ALL, self.faults),
        };
        for (key, hint) in [
            ("id", "name it: the log and reviewers see this name"),
            ("per", "say whose calls count together: \"agent\", \"run\" or \"tool\""),
            ("window", "say how far back calls count, as in window = \"24h\""),
            ("on_exceed", "say what follows: \"require_approval\" or \"deny\""),
        ] {
            if table.missing(key) {
                self.faults.error(table.at(), format!("a limit in {} has no `{key}`", table.name()), hint);
            }
        }
        if table.missing("max_calls") && table.missing("max_sum") {
            let hint = "say how many: max_calls = 50, or how much: max_sum = { argument = \"amount\", value = 1000 }";
            self.faults.error(
                table.at(),
                format!("a limit in {} has neither `max_calls` nor `max_sum`", table.name()),
                hint,
            );
        }
        table.finish(self.faults);
        limit
    }

    fn max_sum(&mut self, table: &mut Table<'_>) -> Option<MaxSumEntry> {
        let mut table = table.table("max_sum", Section::MaxSum, self.faults)?;
        let max_sum = MaxSumEntry {
            argument: table.text("argument", self.faults),
            value: table.amount("value", self.faults),
            by: table.text("by", self.faults),
        };
        for (key, hint) in
            [("argument", "name the property that is added up"), ("value", "say how much it may come to")]
        {
            if table.missing(key) {
                self.faults.error(table.at(), format!("{} has no `{key}`", table.name()), hint);
            }
        }
        table.finish(self.faults);
        Some(max_sum)
    }

    fn approval(&mut self, table: &mut Table<'_>) -> Option<ApprovalEntry> {
        let mut table = table.table("approval", Section::Approval, self.faults)?;
        let approval = ApprovalEntry {
            at: table.at().clone(),
            quorum: table.number("quorum", 1..=MAX_QUORUM, self.faults),
            reviewers: table.texts("reviewers", self.faults),
            ttl: table.duration("ttl", SECOND..=MAX_TTL, "from 1s to 30d", self.faults),
            grace: table.duration("grace", Duration::ZERO..=MAX_TTL, "from 0s to 30d", self.faults),
            double_confirm: table.flag("double_confirm", self.faults),
            decide_in: table.word("decide_in", &[DecideIn::Any, DecideIn::Web], self.faults),
            step_up: table.flag("step_up", self.faults),
            allow_self_approval: table.flag("allow_self_approval", self.faults),
            escalate: table.texts("escalate", self.faults),
            escalate_after: table.duration("escalate_after", SECOND..=MAX_TTL, "from 1s to 30d", self.faults),
        };
        table.finish(self.faults);
        Some(approval)
    }
}
