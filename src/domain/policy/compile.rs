//! From what the files say to a policy that decisions can trust: every name declared, every schema and condition
//! compiled, everything design section 3.1 lists refused.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{
    Agent, ApprovalTerms, Caps, Fault, Loaded, Policy, PolicyVersion, Rule, Severity, SourceFile, Tool,
    argument::{Argument, steps_of},
    condition::{Condition, ConditionFault, Scope},
    fault::{Faults, Place, character_in_string},
    lint,
    lookup::{Address, Lookup, Method},
    manifest::{
        self, AgentEntry, ArgumentEntry, At, FloorEntry, LimitEntry, LookupEntry, Manifest, MaxSumEntry, RuleEntry,
        ToolEntry,
    },
    names,
    schema::{JsonType, Place as Found, Schema, Step, Typed},
    unsupported,
};
use crate::domain::{
    canon::{Kind, Shape},
    identity::ReviewerDirectory,
    limit::{Limit, MaxSum},
    verdict::{Risk, Verdict},
};

mod terms;

const DEFAULT_APPROVAL_TTL: Duration = Duration::from_secs(4 * 3_600);
/// How long a lookup may take where it does not say.
const DEFAULT_LOOKUP: Duration = Duration::from_secs(2);
const DEFAULT_CAPS: Caps = Caps { open_per_run: 10, open_per_agent: 100, refused_per_run: 5 };

/// The most labels of one tool.
const MOST_LABELS: usize = 16;
/// The longest label, in characters.
const LONGEST_LABEL: usize = 64;

/// Loads the policy in `files`, for these `reviewers` if they are known; see [`Policy::load`] and [`Policy::load_for`].
pub(super) fn load(files: &[SourceFile], reviewers: Option<&ReviewerDirectory>) -> Result<Loaded, Vec<Fault>> {
    if !files.iter().any(|file| manifest::is_policy_file(&file.path)) {
        let hint = "a policy is one or more .toml files, other than *.cases.toml";
        return Err(vec![whole(String::new(), "there is no policy file", hint)]);
    }
    if let Some(odd) = files.iter().find(|file| file.path.contains(char::is_control)) {
        // The version lists paths by lines.
        let hint = "rename the file";
        return Err(vec![whole(odd.path.escape_debug().to_string(), "a path with a control character", hint)]);
    }
    let mut faults = Faults::new(files);
    let manifest = manifest::read(&mut faults);
    // With no reviewer at all every call that would be held is denied, and the service starts and says so.
    let reviewers = reviewers.filter(|reviewers| !reviewers.is_empty());
    let compiling = Compiling { manifest: &manifest, faults: &mut faults, reviewers, ids: HashMap::new() };
    let policy = compiling.policy(version(files));
    if !faults.any_error() {
        lint::check(&manifest, &policy, &mut faults);
    }
    let refused = faults.any_error();
    let found = faults.into_sorted();
    match (refused, complete(&manifest, &policy)) {
        (false, true) => Ok(Loaded { policy, warnings: found }),
        (true, _) => Err(found),
        (false, false) => {
            let hint = "this is an error in Countersign; please report it with the policy";
            Err(vec![whole(String::new(), "a part of the policy was refused without a reason", hint)])
        }
    }
}

/// A fault of the files as a whole.
fn whole(file: String, message: &str, hint: &str) -> Fault {
    let (message, hint) = (message.to_owned(), hint.to_owned());
    Fault { file, line: 1, column: 1, severity: Severity::Error, message, hint }
}

/// Whether everything that restricts a call is in the policy. What is left out must have been reported as a fault; were
/// it ever not, a missing rule would be a permission.
fn complete(manifest: &Manifest, policy: &Policy) -> bool {
    let tool = |entry: &ToolEntry| {
        policy.tool(&entry.name.value).is_some_and(|tool| {
            tool.rules.len() == entry.rules.len()
                && tool.arguments.len() == entry.arguments.len()
                && tool.limits.len() == entry.limits.len()
                && tool.lookups.len() == entry.lookups.len()
        })
    };
    manifest.tools.values().all(tool) && manifest.agents.len() == policy.agents.len()
}

/// The version of a policy: SHA-256 over one line per policy and schema file, in the order of their paths' bytes:
/// the SHA-256 of the file in 64 hexadecimal digits, two spaces, the relative path, a line feed. That is what
/// `sha256sum` prints, so that anyone can compute it.
pub(super) fn version(files: &[SourceFile]) -> PolicyVersion {
    let schemas = manifest::schema_files(files);
    let belongs = |file: &&SourceFile| manifest::is_policy_file(&file.path) || schemas.contains(&file.path);
    let texts: BTreeMap<&str, &str> =
        files.iter().filter(belongs).map(|file| (file.path.as_str(), file.text.as_str())).collect();
    let mut whole = Sha256::new();
    for (path, text) in texts {
        whole.update(format!("{}  {path}\n", hex::encode(Sha256::digest(text))));
    }
    PolicyVersion(format!("sha256:{}", hex::encode(whole.finalize())))
}

/// Compiles a condition that lets calls of `tool` through, as a rule that loosens would.
pub(super) fn loosening_condition(
    source: &str,
    tool: &Tool,
    vars: &Map<String, Value>,
) -> Result<Condition, Vec<ConditionFault>> {
    let (schema, arguments) = (&tool.schema, tool.arguments.as_slice());
    Condition::compile(source, &ToolScope { schema, arguments, vars, loosens: true, open: tool.open })
}

struct Compiling<'m, 'r, 's> {
    manifest: &'m Manifest,
    faults: &'r mut Faults<'s>,
    /// The configured reviewers, where they are known and there are any.
    reviewers: Option<&'r ReviewerDirectory>,
    /// Where the id of each rule and limit stands.
    ids: HashMap<&'m str, &'m Place>,
}

impl<'m> Compiling<'m, '_, '_> {
    /// The whole policy. It is complete only if no error was found.
    fn policy(mut self, version: PolicyVersion) -> Policy {
        let manifest = self.manifest;
        let vars = self.vars();
        let canonical = self.names();
        let mut tools = Vec::new();
        for entry in manifest.tools.values() {
            if let Some(tool) = self.tool(entry, &vars) {
                tools.push(tool);
            }
        }
        for floor in &manifest.floors {
            self.floor(floor, &canonical, &vars, &mut tools);
        }
        let agents: BTreeMap<_, _> =
            manifest.agents.iter().map(|(id, entry)| (id.clone(), self.agent(id, entry, &canonical))).collect();
        let mut names = HashMap::new();
        for (index, tool) in tools.iter().enumerate() {
            names.insert(tool.name.clone(), index);
            names.extend(tool.aliases.iter().map(|alias| (alias.clone(), index)));
        }
        let defaults = &manifest.defaults;
        let number = |said: &Option<At<u32>>, built_in| said.as_ref().map_or(built_in, |number| number.value);
        let policy = Policy {
            version,
            tools,
            names,
            agents,
            vars,
            approval_ttl: defaults.approval_ttl.as_ref().map_or(DEFAULT_APPROVAL_TTL, |ttl| ttl.value),
            caps: Caps {
                open_per_run: number(&defaults.max_open_approvals_per_run, DEFAULT_CAPS.open_per_run),
                open_per_agent: number(&defaults.max_open_approvals_per_agent, DEFAULT_CAPS.open_per_agent),
                refused_per_run: number(&defaults.max_refused_per_run, DEFAULT_CAPS.refused_per_run),
            },
        };
        self.requirements(&policy);
        policy
    }

    fn vars(&mut self) -> Map<String, Value> {
        let scalar = |value: &Value| !value.is_array() && !value.is_object();
        let mut vars = Map::new();
        for (name, var) in &self.manifest.vars {
            let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
            if !starts_well || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                let hint = "conditions read it as vars.NAME: letters, digits and _, not beginning with a digit";
                self.faults.error(&var.at, format!("`{name}` is no name for a variable"), hint);
            }
            let flat = scalar(&var.value) || var.value.as_array().is_some_and(|items| items.iter().all(scalar));
            if !flat {
                let hint = "a variable is a string, a number, true or false, or a list of those";
                self.faults.error(&var.at, format!("vars.{name} is nested"), hint);
            }
            vars.insert(name.clone(), var.value.clone());
        }
        vars
    }

    /// Checks the names and aliases of all tools; the canonical name by each.
    fn names(&mut self) -> BTreeMap<&'m str, &'m str> {
        let mut canonical = BTreeMap::new();
        let mut taken: HashMap<String, &At<String>> = HashMap::new();
        for tool in self.manifest.tools.values() {
            for name in std::iter::once(&tool.name).chain(&tool.aliases) {
                if let Some(fault) = names::fault(&name.value) {
                    let hint = "names are compared letter by letter: use visible letters of one script";
                    self.faults.error(&name.at, format!("the name {:?} {fault}", name.value), hint);
                }
                if let Some(first) = taken.get(&names::folded(&name.value)) {
                    let place = self.faults.describe(&first.at);
                    let message = if first.value == name.value {
                        format!("the name `{}` is taken", name.value)
                    } else {
                        format!("the name `{}` can pass for `{}`", name.value, first.value)
                    };
                    self.faults.error(&name.at, message, format!("the other is at {place}"));
                } else {
                    taken.insert(names::folded(&name.value), name);
                    canonical.insert(name.value.as_str(), tool.name.value.as_str());
                }
            }
        }
        canonical
    }

    /// The canonical name of a tool that is named in a list; a fault if no tool has that name.
    fn named_tool(&mut self, name: &At<String>, canonical: &BTreeMap<&'m str, &'m str>) -> Option<&'m str> {
        let found = canonical.get(name.value.as_str()).copied();
        if found.is_none() {
            let closest = canonical.keys().min_by_key(|known| strsim::osa_distance(known, &name.value));
            let hint = match closest {
                Some(closest) if strsim::osa_distance(closest, &name.value) <= 1 + closest.len() / 4 => {
                    format!("did you mean `{closest}`?")
                }
                Some(_) | None => format!("declare it: [tools.{}]", name.value),
            };
            self.faults.error(&name.at, format!("there is no tool `{}`", name.value), hint);
        }
        found
    }

    fn agent(&mut self, id: &str, entry: &AgentEntry, canonical: &BTreeMap<&'m str, &'m str>) -> Agent {
        let listed = entry.tools.as_ref();
        if let Some(empty) = listed.filter(|tools| tools.value.is_empty()) {
            let hint = "list tools, or take the agent out: one that is not listed may use none";
            self.faults.error(&empty.at, format!("the list of tools of agents.{id} is empty"), hint);
        }
        let mut tools = BTreeSet::new();
        for name in listed.into_iter().flat_map(|tools| &tools.value) {
            if let Some(tool) = self.named_tool(name, canonical)
                && !tools.insert(tool.to_owned())
            {
                let message = format!("agents.{id} lists the tool `{tool}` twice");
                self.faults.error(&name.at, message, "aliases are the very same tool: keep one");
            }
        }
        Agent { tools, labels: entry.labels.clone(), owners: self.owners(id, entry) }
    }

    fn tool(&mut self, entry: &'m ToolEntry, vars: &Map<String, Value>) -> Option<Tool> {
        let open = entry.open.as_ref().is_some_and(|open| open.value);
        let schema = self.schema(entry, open);
        let (arguments, arguments_faulty) = self.arguments(entry, schema.as_ref());
        let runs_commands = entry.arguments.iter().any(|argument| argument.kind() == Some("command"));
        let unconfined = runs_commands && !entry.sandboxed;
        let risk = entry.risk.as_ref().map(|risk| risk.value);
        let default = self.default_verdict(entry, risk, unconfined);
        let approval = self.terms(entry.approval.as_ref(), risk);
        let subject = self.subject(entry, schema.as_ref());
        let lookups = self.lookups(entry, schema.as_ref());

        let mut rules = Vec::new();
        for rule in &entry.rules {
            self.take_id(rule.id.as_ref(), "rule");
            let verdict = rule.verdict.as_ref();
            let loosens = verdict.zip(default).is_some_and(|(verdict, default)| verdict.value < default);
            if let Some(verdict) = verdict.filter(|verdict| loosens && verdict.value < Verdict::RequireApproval)
                && unconfined
            {
                self.faults.error(&verdict.at, "a rule that loosens a tool that runs commands", UNCONFINED_HINT);
            }
            let Some(schema) = &schema else { continue };
            // What a faulty declaration resolves to is not known.
            let unknown = arguments_faulty
                .iter()
                .any(|name| rule.when.as_ref().is_some_and(|when| when.value.contains(name.as_str())));
            if unknown {
                continue;
            }
            let scope = ToolScope { schema, arguments: &arguments, vars, loosens, open };
            if let Some(rule) = self.rule(rule, risk, &scope) {
                rules.push(rule);
            }
        }
        let mut limits = Vec::new();
        for limit in &entry.limits {
            self.take_id(limit.id.as_ref(), "limit");
            if let Some(schema) = &schema {
                limits.extend(self.limit(limit, schema, &arguments));
            }
        }
        let labels = self.labels(entry);
        let grantable_by_risk = risk != Some(Risk::Destructive) && !runs_commands;
        Some(Tool {
            name: entry.name.value.clone(),
            aliases: entry.aliases.iter().map(|alias| alias.value.clone()).collect(),
            risk: risk?,
            description: entry.description.as_ref().map(|text| text.value.clone()).unwrap_or_default(),
            default: default?,
            idempotent: entry.idempotent,
            sandboxed: entry.sandboxed,
            grantable: entry.grantable.unwrap_or(grantable_by_risk),
            record_args: entry.record_args,
            audience: entry.audience.as_ref().unwrap_or(&entry.name).value.clone(),
            lease: entry.lease.as_ref().map(|lease| lease.value),
            obligations: entry
                .obligations
                .as_ref()
                .and_then(|obligations| obligations.value.as_object().cloned())
                .unwrap_or_default(),
            labels,
            schema: schema?,
            open,
            arguments,
            rules,
            floors: Vec::new(),
            limits,
            approval,
            subject,
            lookups,
        })
    }

    /// The business keys: pointers to scalars that the schema declares.
    fn subject(&mut self, tool: &ToolEntry, schema: Option<&Schema>) -> BTreeMap<String, String> {
        let mut subject = BTreeMap::new();
        for entry in &tool.subject {
            let At { value: name, at } = &entry.name;
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
                let hint = "auditors write it as NAME:VALUE; use letters, digits, _ and -";
                self.faults.error(at, format!("`{name}` is no name for a subject"), hint);
            }
            let Some(schema) = schema else { continue };
            let steps =
                if entry.text.starts_with('/') { steps_of(&entry.text) } else { Err("it does not begin with `/`") };
            let fault = match steps.map(|steps| schema.at(&steps)) {
                Err(message) => Some(format!("`{}` is no JSON Pointer: {message}", entry.text)),
                Ok(_) if entry.text.split('/').any(|step| step == "*") => {
                    Some(format!("`{}` leads to many values", entry.text))
                }
                Ok(Found::Known(typed)) if typed.secret => Some(format!("`{}` is a secret property", entry.text)),
                Ok(Found::Known(typed)) if may_be_scalar(&typed) => None,
                Ok(Found::Known(_)) => Some(format!("`{}` is no string, number or boolean", entry.text)),
                Ok(Found::Unknown | Found::Open) => {
                    Some(format!("the schema of {} has nothing at `{}`", tool.name.value, entry.text))
                }
            };
            match fault {
                Some(message) => {
                    let hint = "point at one property that the schema declares, such as \"/order_id\"";
                    self.faults.error(at, message, hint);
                }
                None => {
                    subject.insert(name.clone(), entry.text.clone());
                }
            }
        }
        subject
    }

    fn lookups(&mut self, tool: &ToolEntry, schema: Option<&Schema>) -> Vec<Lookup> {
        tool.lookups.iter().filter_map(|entry| self.lookup(tool, entry, schema?)).collect()
    }

    /// One lookup; faults are reported.
    fn lookup(&mut self, tool: &ToolEntry, entry: &LookupEntry, schema: &Schema) -> Option<Lookup> {
        let name = &entry.name.value;
        let method = entry.method.as_ref().map_or(Method::Get, |method| method.value);
        if method == Method::Post && !schema.secrets().is_empty() {
            let hint = "a dry run is told all arguments; ask with GET and name the ones it needs";
            self.faults.error(&entry.name.at, format!("the lookup `{name}` would send a secret property"), hint);
        }
        let mut show = BTreeMap::new();
        for shown in &entry.show {
            let well_formed = shown.text.is_empty() || steps_of(&shown.text).is_ok() && shown.text.starts_with('/');
            if !well_formed {
                let hint = "write a JSON Pointer into the answer, such as \"/order/status\"";
                self.faults.error(&shown.name.at, format!("`{}` is no JSON Pointer", shown.text), hint);
            }
            show.insert(shown.name.value.clone(), shown.text.clone());
        }
        if let (true, Some(url)) = (show.is_empty(), &entry.url) {
            let hint = "say what reviewers see of the answer: show = { status = \"/status\" }";
            self.faults.error(&url.at, format!("the lookup `{name}` shows nothing"), hint);
        }
        let mut unchanged = BTreeSet::new();
        for wanted in entry.unchanged.iter().flat_map(|names| &names.value) {
            if !show.contains_key(&wanted.value) {
                let hint = "only what reviewers saw can be held to: put it in `show` too";
                self.faults.error(
                    &wanted.at,
                    format!("`{}` is not in `show` of the lookup `{name}`", wanted.value),
                    hint,
                );
            }
            unchanged.insert(wanted.value.clone());
        }
        if let Some(credential) = &entry.credential
            && !credential.value.starts_with("env:")
            && !credential.value.starts_with("file:")
        {
            let hint = "a secret is named and never written here: \"env:NAME\" or \"file:PATH\"";
            self.faults.error(&credential.at, format!("`credential` of the lookup `{name}` is no reference"), hint);
        }
        let url = entry.url.as_ref()?;
        let address = match Address::read(&url.value, entry.allow_private) {
            Ok(address) => address,
            Err(message) => {
                let hint = "write it as \"https://orders.acme.example/orders/{order_id}?full={flag}\"";
                self.faults.error(&url.at, format!("the url of the lookup `{name}`: {message}"), hint);
                return None;
            }
        };
        for argument in address.arguments() {
            let fault = match schema.at(&[Step::Property(argument.to_owned())]) {
                Found::Known(typed) if typed.secret => "is a secret property",
                Found::Known(typed) if !typed.required => "is not required",
                Found::Known(typed) if is_scalar(&typed) => continue,
                Found::Known(_) => "is not always a string, a number or a boolean",
                Found::Unknown | Found::Open => "is not declared by the schema",
            };
            let message = format!("`{{{argument}}}` in the url of the lookup `{name}` of {} {fault}", tool.name.value);
            self.faults.error(&url.at, message, "a placeholder names a required scalar property of the tool's schema");
        }
        Some(Lookup {
            name: name.clone(),
            method,
            address,
            timeout: entry.timeout.as_ref().map_or(DEFAULT_LOOKUP, |timeout| timeout.value),
            show,
            unchanged,
            credential: entry.credential.as_ref().map(|credential| credential.value.clone()),
            allow_private: entry.allow_private,
        })
    }

    /// The limit, if all of it is there and in order; faults are reported.
    fn limit(&mut self, entry: &LimitEntry, schema: &Schema, arguments: &[Argument]) -> Option<Limit> {
        let max_sum = match &entry.max_sum {
            Some(sum) => Some(self.max_sum(sum, schema, arguments)?),
            None => None,
        };
        Some(Limit {
            id: entry.id.as_ref()?.value.clone(),
            per: entry.per.as_ref()?.value,
            window: entry.window.as_ref()?.value,
            max_calls: entry.max_calls.as_ref().map(|most| most.value),
            max_sum,
            on_exceed: entry.on_exceed.as_ref()?.value,
        })
    }

    /// What is added up: a required property whose values are numbers of zero or more, so that no call can be left out
    /// of the sum, or take from it.
    fn max_sum(&mut self, entry: &MaxSumEntry, schema: &Schema, arguments: &[Argument]) -> Option<MaxSum> {
        let faults_before = self.faults.count();
        let argument = entry.argument.as_ref()?;
        let kind = |name: &str| arguments.iter().find(|declared| declared.name == name).map(|declared| &declared.kind);
        let money = match kind(&argument.value) {
            Some(Kind::Money(money)) => {
                if money.allows_negative() {
                    let hint = "take `allow_negative` from the argument: what is paid back would make room in the sum";
                    self.faults.error(&argument.at, format!("`{}` can be negative", argument.value), hint);
                }
                true
            }
            Some(
                Kind::Command(_)
                | Kind::Email(_)
                | Kind::Hostname(_)
                | Kind::Path(_)
                | Kind::Sql(_)
                | Kind::Text(_)
                | Kind::Url(_),
            )
            | None => false,
        };
        if let Some(typed) = self.limited_property(argument, schema) {
            let numbers: &[JsonType] = if money {
                &[JsonType::Integer, JsonType::Number, JsonType::String]
            } else {
                &[JsonType::Integer, JsonType::Number]
            };
            if !typed.types.iter().all(|json_type| numbers.contains(json_type)) {
                let hint = "give it the one type \"integer\" or \"number\" in the schema, or the kind `money`";
                self.faults.error(&argument.at, format!("`{}` is not always a number", argument.value), hint);
            } else if !money && !typed.non_negative {
                let hint = "add minimum = 0 to it in the schema: a negative value would make room in the sum";
                self.faults.error(&argument.at, format!("`{}` can be negative", argument.value), hint);
            }
        }
        if let Some(by) = &entry.by {
            if kind(&by.value).is_some_and(Kind::replaces_raw_value) {
                let hint = "several spellings of it are one value, and each would have a sum of its own";
                self.faults.error(
                    &by.at,
                    format!("sums cannot be kept apart by `{}`, which has a kind", by.value),
                    hint,
                );
            }
            if let Some(typed) = self.limited_property(by, schema) {
                let scalars = [JsonType::Boolean, JsonType::Integer, JsonType::Number, JsonType::String];
                if !typed.types.iter().all(|json_type| scalars.contains(json_type)) {
                    let hint = "sums are kept apart by texts, numbers or truth values";
                    self.faults.error(&by.at, format!("`{}` is not always one plain value", by.value), hint);
                }
            }
        }
        (self.faults.count() == faults_before).then_some(())?;
        Some(MaxSum {
            argument: argument.value.clone(),
            money,
            value: entry.value.as_ref()?.value,
            by: entry.by.as_ref().map(|by| by.value.clone()),
        })
    }

    /// What the schema says of a property that a limit reads; it must be declared, required and no secret.
    fn limited_property(&mut self, name: &At<String>, schema: &Schema) -> Option<Typed> {
        let hint = "a limit reads a required property of the tool's arguments, by its name";
        let fault = match schema.at(&[Step::Property(name.value.clone())]) {
            Found::Known(typed) if typed.secret => format!("`{}` is secret", name.value),
            Found::Known(typed) if !typed.required => format!("`{}` is not required", name.value),
            Found::Known(typed) => return Some(typed),
            Found::Open | Found::Unknown => format!("the schema has no property `{}`", name.value),
        };
        self.faults.error(&name.at, fault, hint);
        None
    }

    /// What a run has touched once the tool was allowed: short names, so that they mean the same wherever they are shown.
    fn labels(&mut self, entry: &ToolEntry) -> BTreeSet<String> {
        let written: Vec<_> = entry.labels.iter().flat_map(|labels| &labels.value).collect();
        if let Some(labels) = entry.labels.as_ref().filter(|_| written.len() > MOST_LABELS) {
            let message = format!("more than {MOST_LABELS} `labels`");
            self.faults.error(&labels.at, message, "a label names a sort of data or of origin, not each of them");
        }
        for label in &written {
            let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            let text = &label.value;
            if text.is_empty() || text.len() > LONGEST_LABEL || !text.chars().all(named) {
                let hint = format!("1 to {LONGEST_LABEL} letters, digits, `-` and `_`, such as \"private-data\"");
                self.faults.error(&label.at, "not a label", hint);
            }
        }
        written.into_iter().map(|label| label.value.clone()).collect()
    }

    fn default_verdict(&mut self, entry: &ToolEntry, risk: Option<Risk>, unconfined: bool) -> Option<Verdict> {
        if let Some(default) = entry.default.as_ref().filter(|default| default.value < Verdict::RequireApproval)
            && unconfined
        {
            self.faults.error(&default.at, "a loose default for a tool that runs commands", UNCONFINED_HINT);
        }
        let risk = risk?;
        let by_risk = self.manifest.defaults.verdicts.get(&risk).map_or(risk.built_in_default(), |said| said.value);
        Some(entry.default.as_ref().map_or(by_risk, |default| default.value))
    }

    fn schema(&mut self, entry: &ToolEntry, open: bool) -> Option<Schema> {
        let document = entry.parameters.as_ref()?;
        match Schema::compile(&document.value, open) {
            Ok(schema) => {
                for pointer in schema.secrets() {
                    unsupported::secret(self.faults, &document.key_at(&pointer));
                }
                Some(schema)
            }
            Err(found) => {
                for fault in found {
                    let at =
                        if fault.key { document.key_at(&fault.pointer) } else { document.value_at(&fault.pointer) };
                    let shown = if fault.pointer.is_empty() { "the top" } else { fault.pointer.as_str() };
                    let message = format!("in the schema of {}, at {shown}: {}", entry.name.value, fault.message);
                    self.faults.error(&at, message, fault.hint);
                }
                None
            }
        }
    }

    /// The arguments with a kind, and the names of those at fault.
    fn arguments(&mut self, tool: &'m ToolEntry, schema: Option<&Schema>) -> (Vec<Argument>, Vec<&'m String>) {
        let mut arguments = Vec::new();
        let mut faulty = Vec::new();
        let mut taken: Vec<(Vec<Step>, &ArgumentEntry)> = Vec::new();
        for entry in &tool.arguments {
            let kind = self.kind(tool, entry);
            let steps = self.place(tool, entry, kind.as_ref(), schema);
            if let Some(steps) = &steps {
                let within = |(other, _): &&(Vec<Step>, _)| steps.iter().zip(other).all(|(one, other)| one == other);
                if let Some((_, first)) = taken.iter().find(within) {
                    let place = self.faults.describe(&first.name.at);
                    let hint = format!("the other is at {place}; a value has one kind: keep the one that covers it");
                    let message = format!(
                        "`{}` and `{}` of {} are the same argument, or one within the other",
                        first.name.value, entry.name.value, tool.name.value
                    );
                    self.faults.error(&entry.name.at, message, hint);
                }
                taken.push((steps.clone(), entry));
            }
            match (kind, steps, schema) {
                (Some(kind), Some(steps), Some(schema)) => {
                    arguments.push(Argument::new(entry.name.value.clone(), kind, steps, schema));
                }
                _ => faulty.push(&entry.name.value),
            }
        }
        (arguments, faulty)
    }

    /// Where an argument with a kind stands: at a place that the schema declares and whose values the kind can take.
    fn place(
        &mut self,
        tool: &ToolEntry,
        entry: &ArgumentEntry,
        kind: Option<&Kind>,
        schema: Option<&Schema>,
    ) -> Option<Vec<Step>> {
        let At { value: name, at } = &entry.name;
        let steps = match steps_of(name) {
            Ok(steps) => steps,
            Err(message) => {
                let hint = "write a property's name, or a pointer such as \"/items/*/path\"";
                self.faults.error(at, format!("`{name}` leads nowhere: {message}"), hint);
                return None;
            }
        };
        match schema?.at(&steps) {
            Found::Unknown | Found::Open => {
                let hint = "a kind is given to what the schema declares: a property, or \"/list/*\" for each item";
                self.faults.error(at, format!("the schema of {} has no property `{name}`", tool.name.value), hint);
                None
            }
            Found::Known(typed) => {
                let takes = kind?.takes();
                if !typed.types.iter().any(|json_type| takes.contains(&json_type.as_str())) {
                    let hint =
                        format!("every value of it would be refused: a {} is {}", kind?.name(), takes.join(" or "));
                    self.faults.error(at, format!("`{name}` of {} cannot hold such a value", tool.name.value), hint);
                    return None;
                }
                Some(steps)
            }
        }
    }

    fn kind(&mut self, tool: &ToolEntry, entry: &ArgumentEntry) -> Option<Kind> {
        let declaration = &entry.declaration;
        match Kind::compile(declaration.value.as_object()?) {
            Ok(kind) => Some(kind),
            Err(found) => {
                for fault in found {
                    let at = match (&fault.option, fault.item) {
                        (Some(option), Some(item)) => declaration.value_at(&format!("/{option}/{item}")),
                        (Some(option), None) => declaration.value_at(&format!("/{option}")),
                        (None, _) => entry.name.at.clone(),
                    };
                    let message = format!("{}.{}: {}", tool.name.value, entry.name.value, fault.message);
                    self.faults.error(&at, message, fault.hint);
                }
                None
            }
        }
    }

    /// Takes the id of a rule or a limit: the log tells them apart by it.
    fn take_id(&mut self, id: Option<&'m At<String>>, of: &str) {
        let Some(id) = id else { return };
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        if id.value.len() > 128 || !id.value.chars().all(fits) {
            let hint = "up to 128 of A-Z, a-z, 0-9, _, -, . and :";
            self.faults.error(&id.at, format!("`{}` is no id for a {of}", id.value), hint);
        }
        if let Some(first) = self.ids.get(id.value.as_str()) {
            let hint =
                format!("the other is at {}; the log tells rules and limits apart by id", self.faults.describe(first));
            self.faults.error(&id.at, format!("the {of} id `{}` is taken", id.value), hint);
        } else {
            self.ids.insert(&id.value, &id.at);
        }
    }

    /// The rule, if all of it is there and in order; faults are reported.
    fn rule(&mut self, entry: &RuleEntry, risk: Option<Risk>, scope: &ToolScope<'_>) -> Option<Rule> {
        let when = entry.when.as_ref()?;
        let approval = self.rule_terms(entry, risk);
        match Condition::compile(&when.value, scope) {
            Ok(condition) => assembled(entry, condition, approval, scope.loosens),
            Err(found) => {
                for fault in found {
                    self.condition_fault(when, &fault, "");
                }
                None
            }
        }
    }

    fn condition_fault(&mut self, when: &At<String>, fault: &ConditionFault, of: &str) {
        let at = match fault.column {
            Some(column) => character_in_string(self.faults.files(), &when.at, column),
            None => when.at.clone(),
        };
        self.faults.error(&at, format!("{}{of}", fault.message), fault.hint.clone());
    }

    /// Compiles a rule over many tools for each tool that it covers.
    fn floor(
        &mut self,
        entry: &'m FloorEntry,
        canonical: &BTreeMap<&'m str, &'m str>,
        vars: &Map<String, Value>,
        tools: &mut [Tool],
    ) {
        self.take_id(entry.rule.id.as_ref(), "rule");
        let mut named = BTreeSet::new();
        for name in entry.tools.iter().flat_map(|tools| &tools.value) {
            named.extend(self.named_tool(name, canonical));
        }
        let risks: BTreeSet<Risk> = entry.risk.iter().flat_map(|risks| &risks.value).map(|risk| risk.value).collect();
        let says_tools = entry.tools.as_ref().is_some_and(|tools| !tools.value.is_empty());
        if !says_tools && risks.is_empty() {
            let hint = "name the tools it covers: risk = [\"send\"], or tools = [..]";
            self.faults.error(&entry.rule.at, "a rule over no tools", hint);
        }
        let approval = self.rule_terms(&entry.rule, None);
        let Some(when) = entry.rule.when.as_ref() else { return };

        let mut covered = 0;
        let mut found: BTreeMap<(Option<usize>, String, String), Vec<String>> = BTreeMap::new();
        for tool in tools.iter_mut().filter(|tool| named.contains(tool.name.as_str()) || risks.contains(&tool.risk)) {
            covered += 1;
            let scope =
                ToolScope { schema: &tool.schema, arguments: &tool.arguments, vars, loosens: false, open: tool.open };
            match Condition::compile(&when.value, &scope) {
                Ok(condition) => {
                    tool.floors.extend(assembled(&entry.rule, condition, approval.clone(), false));
                }
                Err(faults) => {
                    for fault in faults {
                        let key = (fault.column, fault.message, fault.hint);
                        found.entry(key).or_default().push(tool.name.clone());
                    }
                }
            }
        }
        for ((column, message, hint), of) in found {
            let of = if of.len() == covered { String::new() } else { format!(" (for {})", of.join(", ")) };
            self.condition_fault(when, &ConditionFault { column, message, hint }, &of);
        }
    }
}

const UNCONFINED_HINT: &str = "what a command does cannot be told from its text: let people decide, or say \
                               sandboxed = true if its executor confines it";

const SCALARS: [JsonType; 4] = [JsonType::String, JsonType::Integer, JsonType::Number, JsonType::Boolean];

fn may_be_scalar(typed: &Typed) -> bool {
    typed.types.iter().any(|json_type| SCALARS.contains(json_type))
}

fn is_scalar(typed: &Typed) -> bool {
    !typed.types.is_empty() && typed.types.iter().all(|json_type| SCALARS.contains(json_type))
}

impl ArgumentEntry {
    /// The kind's name, if one is given.
    fn kind(&self) -> Option<&str> {
        self.declaration.value.get("kind").and_then(Value::as_str)
    }
}

fn assembled(entry: &RuleEntry, condition: Condition, approval: Option<ApprovalTerms>, loosens: bool) -> Option<Rule> {
    Some(Rule {
        id: entry.id.as_ref()?.value.clone(),
        condition,
        verdict: entry.verdict.as_ref()?.value,
        reason: entry.reason.as_ref()?.value.clone(),
        approval,
        loosens,
    })
}

/// What a rule of one tool can read.
struct ToolScope<'t> {
    schema: &'t Schema,
    arguments: &'t [Argument],
    vars: &'t Map<String, Value>,
    loosens: bool,
    open: bool,
}

impl Scope for ToolScope<'_> {
    fn argument(&self, path: &[Step]) -> Found {
        self.schema.at(path)
    }

    fn resolved(&self, argument: &str) -> Option<Shape> {
        self.arguments.iter().find(|declared| declared.name == argument).map(Argument::shape)
    }

    fn replaced_by_resolved(&self, argument: &str) -> bool {
        // A property may be declared by its name or by a pointer.
        let Ok(steps) = steps_of(argument) else { return false };
        self.arguments.iter().any(|declared| declared.kind.replaces_raw_value() && declared.stands_at(&steps))
    }

    fn var(&self, name: &str) -> Option<&Value> {
        self.vars.get(name)
    }

    fn loosens(&self) -> bool {
        self.loosens
    }

    fn tool_open(&self) -> bool {
        self.open
    }
}
