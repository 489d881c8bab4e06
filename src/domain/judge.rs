//! `judge`: steps 1 to 6 of the decision. Pure and total: what fails inside is a reason for a denial, never an error.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    call::ToolCall,
    canon::{Refusal, Resolution, path::PathQuestion},
    decision::{Judgement, Reason, ReasonCode, RuleTrace},
    facts::Facts,
    policy::{
        Policy, Rule, Tool,
        argument::{Argument, Values},
        condition::{Condition, InputParts, Inputs, Request, RequestedValue, RuleState},
    },
    time::Timestamp,
    verdict::Verdict,
};

/// Decides what policy says of `call`, before limits, denial memory and caps.
pub fn judge(policy: &Policy, call: &ToolCall, facts: &Facts, now: Timestamp) -> Judgement {
    let agent = &call.key.agent;
    if facts.agent_paused {
        return Draft::new(policy, None).denied(ReasonCode::AgentPaused, "the agent is paused", None);
    }
    if facts.run.as_ref().is_some_and(|run| run.ended) {
        return Draft::new(policy, None).denied(ReasonCode::RunEnded, "the run has ended", None);
    }
    let Some(tool) = policy.tool(&call.tool) else {
        return Draft::new(policy, None).denied(ReasonCode::UnknownTool, "no tool has this name", None);
    };
    let mut draft = Draft::new(policy, Some(tool));
    if !policy.agent_may_use(agent.as_str(), tool) {
        return draft.denied(ReasonCode::ToolNotGranted, "the tool is not in the agent's list", None);
    }
    let mut above = facts.run.iter().flat_map(|run| &run.agents_above);
    if let Some(agent) = above.find(|agent| !policy.agent_may_use(agent.as_str(), tool)) {
        let text = format!("the tool is not in the list of `{agent}`, which this run was started by");
        return draft.denied(ReasonCode::ToolNotGranted, &text, None);
    }
    if let Err(faults) = tool.schema.validate(call.args.json()) {
        draft.judgement.argument_faults = faults;
        return draft.denied(ReasonCode::InvalidArguments, "the arguments do not fit the tool's schema", None);
    }
    if let Err(denial) = draft.resolve(tool, call.args.value(), facts) {
        let Denial { code, text, rule } = *denial;
        return draft.denied(code, &text, Some(rule));
    }
    draft.apply_rules(policy, tool, call, facts, now)
}

/// The most paths of one call that are looked up on disk. The others stay unknown, and so the call is denied.
const MOST_PATHS: usize = 200;

/// What must be found out on disk before this call can be judged, by the place of each path in the arguments. Nothing
/// for a call that is denied whatever is found.
pub fn paths_to_find(policy: &Policy, call: &ToolCall) -> BTreeMap<String, PathQuestion> {
    let Some(tool) = policy.tool(&call.tool).filter(|tool| tool.looks_at_disk()) else { return BTreeMap::new() };
    let permitted = policy.agent_may_use(call.key.agent.as_str(), tool);
    if !permitted || tool.schema.validate(call.args.json()).is_err() {
        return BTreeMap::new();
    }
    let mut questions = BTreeMap::new();
    for argument in &tool.arguments {
        let values = match argument.values(call.args.value()) {
            Ok(Values::One(value)) => vec![(argument.name.clone(), value)],
            Ok(Values::Each(values)) => values,
            Ok(Values::Absent) | Err(_) => continue,
        };
        let asked = values.into_iter().filter_map(|(place, value)| Some((place, argument.kind.path_question(value)?)));
        questions.extend(asked.take(MOST_PATHS.saturating_sub(questions.len())));
    }
    questions
}

/// A judgement in the making.
struct Draft {
    judgement: Judgement,
}

struct Denial {
    code: ReasonCode,
    text: String,
    rule: String,
}

impl Draft {
    fn new(policy: &Policy, tool: Option<&Tool>) -> Self {
        let reason = Reason { code: ReasonCode::Default, text: String::new(), rule: None };
        Self {
            judgement: Judgement {
                verdict: Verdict::Deny,
                reason,
                tool: tool.map(|tool| tool.name.clone()),
                rules: Vec::new(),
                resolved: Map::new(),
                obligations: tool.map(|tool| tool.obligations.clone()).unwrap_or_default(),
                requirement: None,
                asked_by: Vec::new(),
                argument_faults: Vec::new(),
                policy_version: policy.version().clone(),
            },
        }
    }

    fn denied(mut self, code: ReasonCode, text: &str, rule: Option<String>) -> Judgement {
        self.judgement.verdict = Verdict::Deny;
        self.judgement.obligations = Map::new();
        self.judgement.reason = Reason { code, text: text.to_owned(), rule };
        self.judgement
    }

    /// Steps 3 and 4: every declared argument gets its one meaning, or the call is denied.
    fn resolve(&mut self, tool: &Tool, args: &Map<String, Value>, facts: &Facts) -> Result<(), Box<Denial>> {
        for argument in &tool.arguments {
            let name = &argument.name;
            match argument.values(args).map_err(|refusal| denial(name, name, refusal))? {
                Values::Absent => {}
                Values::One(value) => {
                    let resolved = self.resolve_one(argument, name, value, args, facts)?;
                    self.judgement.resolved.insert(name.clone(), resolved);
                }
                Values::Each(values) => {
                    let most = argument.shape().most_items();
                    let mut all = Vec::new();
                    for (pointer, value) in values {
                        let resolved = self.resolve_one(argument, &pointer, value, args, facts)?;
                        if let Value::Array(several) = resolved {
                            // Of a kind that makes a list of each value.
                            all.extend(several);
                        } else {
                            all.push(resolved);
                        }
                        if u64::try_from(all.len()).unwrap_or(u64::MAX) > most {
                            let detail = format!("it leads to more than {most} values");
                            return Err(denial(name, name, Refusal::unresolvable("too_many_values", detail)));
                        }
                    }
                    self.judgement.resolved.insert(name.clone(), Value::Array(all));
                }
            }
        }
        Ok(())
    }

    /// What the value at `place` resolves to. Its obligations join those of the others.
    fn resolve_one(
        &mut self,
        argument: &Argument,
        place: &str,
        value: &Value,
        args: &Map<String, Value>,
        facts: &Facts,
    ) -> Result<Value, Box<Denial>> {
        let resolved = argument.kind.resolve_found(value, args, facts.paths.get(place));
        let Resolution { value, obligations } = resolved.map_err(|refusal| denial(&argument.name, place, refusal))?;
        for (name, value) in obligations {
            if name == "resolved_path" {
                // The one obligation that speaks of a single value.
                let paths = self.judgement.obligations.entry("resolved_paths").or_insert_with(|| Map::new().into());
                if !paths.is_object() {
                    // A policy may say anything by that name.
                    *paths = Map::new().into();
                }
                if let Value::Object(paths) = paths {
                    paths.insert(place.to_owned(), value);
                }
            } else {
                self.judgement.obligations.insert(name, value);
            }
        }
        Ok(value)
    }

    /// Steps 5 and 6.
    fn apply_rules(
        mut self,
        policy: &Policy,
        tool: &Tool,
        call: &ToolCall,
        facts: &Facts,
        now: Timestamp,
    ) -> Judgement {
        let states = self.evaluate(policy, tool, call, facts, now);
        let (own, floors) = states.split_at(tool.rules.len().min(states.len()));
        // The strictest wins; among equals the first by id, so that order in the file never matters.
        let strictest = |rules: &[(&'_ Rule, RuleState)]| -> Option<(Verdict, String, String)> {
            rules
                .iter()
                .filter(|(rule, state)| counts_as_true(rule, *state))
                .map(|(rule, _)| *rule)
                .min_by_key(|rule| (std::cmp::Reverse(rule.verdict), &rule.id))
                .map(|rule| (rule.verdict, rule.id.clone(), rule.reason.clone()))
        };
        let (mut verdict, mut reason) = match strictest(own) {
            Some((verdict, id, text)) => (verdict, Reason { code: ReasonCode::Rule, text, rule: Some(id) }),
            None => {
                let text = format!("the default of `{}`", tool.name);
                (tool.default, Reason { code: ReasonCode::Default, text, rule: None })
            }
        };
        if let Some((floor, id, text)) = strictest(floors)
            && floor > verdict
        {
            verdict = floor;
            reason = Reason { code: ReasonCode::Floor, text, rule: Some(id) };
        }
        if tool.runs_unconfined_commands() && verdict < Verdict::RequireApproval {
            verdict = Verdict::RequireApproval;
            let text = "the tool runs commands outside a sandbox".to_owned();
            reason = Reason { code: ReasonCode::NotSandboxed, text, rule: None };
        }
        let asking: Vec<&Rule> = states
            .iter()
            .filter(|(rule, state)| rule.verdict == Verdict::RequireApproval && counts_as_true(rule, *state))
            .map(|(rule, _)| *rule)
            .collect();
        self.judgement.rules =
            states.iter().map(|(rule, state)| RuleTrace { rule: rule.id.clone(), state: *state }).collect();
        if verdict == Verdict::Deny {
            self.judgement.obligations = Map::new();
        }
        // Kept for an allowed call as well: whoever asks to hold it asks for what the tool asks for.
        self.judgement.requirement = Some(tool.requirement(&asking, policy.approval_ttl()));
        self.judgement.asked_by = asking.iter().map(|rule| rule.id.clone()).collect();
        self.judgement.asked_by.sort();
        self.judgement.verdict = verdict;
        self.judgement.reason = reason;
        self.judgement
    }

    fn evaluate<'p>(
        &self,
        policy: &Policy,
        tool: &'p Tool,
        call: &ToolCall,
        facts: &Facts,
        now: Timestamp,
    ) -> Vec<(&'p Rule, RuleState)> {
        if tool.all_rules().next().is_none() {
            return Vec::new();
        }
        with_inputs(policy, call, &self.judgement.resolved, facts, now, |inputs| {
            tool.all_rules().map(|rule| (rule, rule.condition.evaluate(inputs))).collect()
        })
    }
}

/// What `condition` comes to for a call whose arguments resolved to this: it reads what the rules of its tool read.
pub fn state_of(
    condition: &Condition,
    policy: &Policy,
    call: &ToolCall,
    resolved: &Map<String, Value>,
    facts: &Facts,
    now: Timestamp,
) -> RuleState {
    with_inputs(policy, call, resolved, facts, now, |inputs| condition.evaluate(inputs))
}

fn with_inputs<T>(
    policy: &Policy,
    call: &ToolCall,
    resolved: &Map<String, Value>,
    facts: &Facts,
    now: Timestamp,
    read: impl FnOnce(&Inputs<'_>) -> T,
) -> T {
    let id = call.key.agent.as_str();
    let labels = policy.agent(id).map(|agent| agent.labels.clone()).unwrap_or_default();
    let agent = json!({ "id": id, "labels": labels });
    let asked = facts.run.as_ref().and_then(|run| run.request.as_ref()).filter(|asked| asked.is_at_hand());
    let named = |value: RequestedValue<'_>| asked.is_some_and(|asked| asked.names(value));
    read(&Inputs::new(InputParts {
        args: call.args.value(),
        resolved,
        agent: &agent,
        context: call.context.as_ref(),
        run: facts.run.as_ref().map(|run| &run.value),
        now,
        request: match asked {
            None => Request::NotGathered,
            Some(asked) if asked.is_empty() => Request::None,
            Some(_) => Request::Made(&named),
        },
    }))
}

/// Why the value at `place` denies the call; `argument` is the key of its declaration.
fn denial(argument: &str, place: &str, refusal: Refusal) -> Box<Denial> {
    let (code, fault, detail) = match refusal {
        Refusal::Unresolvable { code, detail } => (ReasonCode::UnresolvableArgument, code, detail),
        Refusal::Constraint { code, detail } => (ReasonCode::Constraint, code, detail),
    };
    let rule = format!("{argument}: {fault}");
    Box::new(Denial { code, text: format!("argument `{place}`: {detail}"), rule })
}

/// Failed counts as false in a rule that would loosen the tool's default, and as true in every other.
const fn counts_as_true(rule: &Rule, state: RuleState) -> bool {
    match state {
        RuleState::True => true,
        RuleState::False => false,
        RuleState::Failed(_) => !rule.loosens,
    }
}
