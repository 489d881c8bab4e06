//! What its author should look at in a policy that loads (design section 12). Nothing here refuses anything.

use super::{
    Policy, Rule, Tool,
    fault::{Faults, Place},
    manifest::{Manifest, RuleEntry, ToolEntry},
    schema::{JsonType, Place as Found, Step},
};
use crate::domain::verdict::{Risk, Verdict};

/// Names of properties that usually hold a program, and the kind that treats them as one.
const PROGRAMS: [(&str, &str); 9] = [
    ("command", "command"),
    ("commands", "command"),
    ("cmd", "command"),
    ("script", "command"),
    ("shell", "command"),
    ("bash", "command"),
    ("sql", "sql"),
    ("sql_query", "sql"),
    ("statement", "sql"),
];

/// Adds the warnings about a policy without errors.
pub(super) fn check(manifest: &Manifest, policy: &Policy, faults: &mut Faults<'_>) {
    for entry in manifest.tools.values() {
        let Some(tool) = policy.tool(&entry.name.value) else { continue };
        let rules: Vec<_> = entry.rules.iter().zip(&tool.rules).collect();
        for (entry, rule) in &rules {
            let Some(at) = entry.when.as_ref().map(|when| &when.at) else { continue };
            unreachable(entry, rule, &rules, faults);
            whole_texts(rule, at, faults);
            if rule.loosens {
                loosening(rule, at, tool, faults);
            }
        }
        destructive(entry, tool, faults);
        arguments(entry, tool, faults);
        schema(entry, tool, faults);
    }
    floors(manifest, policy, faults);
}

/// A rule that can never decide.
fn unreachable(entry: &RuleEntry, rule: &Rule, all: &[(&RuleEntry, &Rule)], faults: &mut Faults<'_>) {
    let source = rule.condition.source().trim();
    if source == "false" {
        faults.warning(&entry.at, format!("the rule `{}` is never true", rule.id), "take it out");
        return;
    }
    let stricter = all.iter().map(|(_, other)| *other).find(|other| {
        let covers = matches!(other.condition.source().trim(), "true") || other.condition.source().trim() == source;
        covers && other.verdict > rule.verdict
    });
    if let Some(stricter) = stricter {
        let message =
            format!("the rule `{}` never decides: `{}` is stricter and always true with it", rule.id, stricter.id);
        faults.warning(&entry.at, message, "the strictest true rule wins, in any order; narrow the other one");
    }
}

/// Comparisons of texts that look as if they held more than they do.
fn whole_texts(rule: &Rule, at: &Place, faults: &mut Faults<'_>) {
    let source = rule.condition.source();
    for pattern in literals(source, "matches(") {
        if pattern.starts_with('^') != pattern.ends_with('$') {
            let hint = "`matches` looks at the whole text, so ^ and $ add nothing; write .* where anything may stand";
            faults.warning(at, format!("a pattern of the rule `{}` is anchored at one end only", rule.id), hint);
        }
    }
    for end in literals(source, "endsWith(") {
        if end.contains('.') && !end.starts_with(['.', '@', '/']) {
            let hint = format!("\"evil{end}\" ends with it too: compare a whole domain, or begin with `.` or `@`");
            faults.warning(at, format!("an `endsWith` of the rule `{}` begins inside a name", rule.id), hint);
        }
    }
    for start in literals(source, "startsWith(") {
        if start.contains('/') && !start.ends_with('/') {
            let hint = format!("\"{start}-evil\" begins with it too: end with `/`, or use the kinds `path` and `url`");
            faults.warning(at, format!("a `startsWith` of the rule `{}` ends inside a name", rule.id), hint);
        }
    }
}

/// What a rule should not lean on that lets more through than the tool's default.
fn loosening(rule: &Rule, at: &Place, tool: &Tool, faults: &mut Faults<'_>) {
    let source = rule.condition.source();
    if rule.condition.reads().context {
        let hint =
            "the agent's stack sends the context: let nothing through on its word that the arguments do not show";
        faults.warning(at, format!("the rule `{}` loosens by what the request says of itself", rule.id), hint);
    }
    let of_none = receivers(source, ".all(")
        .into_iter()
        .chain(receivers(source, ".exists(").into_iter().filter(|list| source.contains(&format!("!{list}.exists("))));
    for list in of_none {
        if can_be_empty(list, tool)
            && !source.contains(&format!("size({list})"))
            && !source.contains(&format!("{list}.size()"))
        {
            let hint = format!("add `size({list}) > 0 &&`, or minItems = 1 in the schema");
            faults.warning(at, format!("the rule `{}` is true of an empty list", rule.id), hint);
        }
    }
    for asked in arguments_of(source, "requested(") {
        let Some(path) = asked.strip_prefix("args.") else { continue };
        if is_number(path, tool) && !source.contains(['<', '>']) && !source.contains("==") {
            let hint = "a number may stand in the request for something else: bound it as well";
            faults.warning(at, format!("the rule `{}` loosens by a number that was mentioned", rule.id), hint);
        }
    }
    let addresses: Vec<_> = tool.arguments.iter().filter(|argument| argument.kind.name() == "email").collect();
    for unread in addresses.iter().filter(|argument| !rule.condition.reads().resolved.contains(&argument.name)) {
        if addresses.len() > 1 {
            let hint = format!("look at resolved.{} too, or anyone can be put there", unread.name);
            faults.warning(at, format!("the rule `{}` loosens without reading `{}`", rule.id, unread.name), hint);
        }
    }
}

fn destructive(entry: &ToolEntry, tool: &Tool, faults: &mut Faults<'_>) {
    if tool.risk != Risk::Destructive {
        return;
    }
    let hint = "what is destroyed stays destroyed: let a person look at it";
    let name = &tool.name;
    if tool.default < Verdict::RequireApproval {
        let at = entry.default.as_ref().map_or(&entry.name.at, |default| &default.at);
        faults.warning(at, format!("the destructive tool {name} runs without an approval"), hint);
    }
    if tool.approval.grace.is_zero() {
        let at = entry.approval.as_ref().map_or(&entry.name.at, |approval| &approval.at);
        let hint = "approval = { grace = \"1m\" } lets people take an approve back before it is too late";
        faults.warning(at, format!("an approval of the destructive tool {name} can be claimed at once"), hint);
    }
    for (rule, at) in entry.rules.iter().filter_map(|rule| Some((rule, rule.verdict.as_ref()?))) {
        if at.value < Verdict::RequireApproval && at.value < tool.default {
            let id = rule.id.as_ref().map(|id| id.value.as_str()).unwrap_or_default();
            faults.warning(&at.at, format!("the rule `{id}` loosens the destructive tool {name}"), hint);
        }
    }
}

fn arguments(entry: &ToolEntry, tool: &Tool, faults: &mut Faults<'_>) {
    // A rule that looks at what the run has touched can hold what must not leave.
    let looks_at_run = |rule: &Rule| !rule.loosens && rule.condition.reads().run;
    let covered = tool.rules.iter().chain(&tool.floors).any(looks_at_run);
    for argument in &entry.arguments {
        let declaration = &argument.declaration.value;
        let bounded = ["hosts", "urls"].iter().any(|option| declaration.get(option).is_some());
        if declaration.get("kind").is_some_and(|kind| kind == "url") && tool.risk == Risk::Read && !bounded && !covered
        {
            let message = format!("{} is a `read` that can send anything to any host", tool.name);
            faults.warning(
                &argument.name.at,
                message,
                "list its `hosts`, call it risk = \"send\", or let a rule read run.labels",
            );
        }
    }
    let Some(parameters) = &entry.parameters else { return };
    for property in tool.schema.properties() {
        let folded = property.to_lowercase();
        let Some((_, kind)) = PROGRAMS.iter().find(|(name, _)| *name == folded) else { continue };
        let declared = tool.arguments.iter().any(|argument| argument.stands_below(&property));
        let holds_text = match tool.schema.at(&[Step::Property(property.clone())]) {
            Found::Known(typed) => typed.types.contains(&JsonType::String) || typed.types.contains(&JsonType::Array),
            Found::Unknown | Found::Open => false,
        };
        if !declared && holds_text {
            let at = parameters.key_at(&format!("/properties/{property}"));
            let hint = format!(
                "if it is run as a program, declare it: [tools.{}.arguments.{property}] kind = \"{kind}\"",
                tool.name
            );
            faults.warning(&at, format!("`{property}` of {} looks like a program", tool.name), hint);
        }
    }
}

fn schema(entry: &ToolEntry, tool: &Tool, faults: &mut Faults<'_>) {
    let Some(parameters) = &entry.parameters else { return };
    for pointer in tool.schema.nested_open_objects() {
        let hint = "no rule sees the names that come in here; name them, or keep it small";
        let message = format!("an object in the schema of {} admits any property", tool.name);
        faults.warning(&parameters.value_at(&pointer), message, hint);
    }
    for (pointer, pattern) in tool.schema.patterns() {
        if !pattern.starts_with('^') || !pattern.ends_with('$') {
            let hint = "a `pattern` in a schema is looked for anywhere in the text: write ^ and $ around it";
            let message = format!("a pattern in the schema of {} is not anchored", tool.name);
            faults.warning(&parameters.value_at(&pointer), message, hint);
        }
    }
}

fn floors(manifest: &Manifest, policy: &Policy, faults: &mut Faults<'_>) {
    for floor in &manifest.floors {
        let (Some(id), Some(verdict)) = (&floor.rule.id, &floor.rule.verdict) else { continue };
        if verdict.value == Verdict::Allow {
            let hint = "a rule over many tools can only make the verdict stricter";
            faults.warning(&verdict.at, format!("the rule `{}` changes nothing", id.value), hint);
        }
        if !policy.tools().any(|tool| tool.floors.iter().any(|rule| rule.id == id.value)) {
            faults.warning(
                &floor.rule.at,
                format!("the rule `{}` covers no tool", id.value),
                "no tool has such a risk",
            );
        }
    }
}

/// The names before each `method` in a condition, such as `resolved.to` or `resolved["/to/*"]` before `.all(`.
fn receivers<'s>(source: &'s str, method: &str) -> Vec<&'s str> {
    let before = source.match_indices(method).map(|(at, _)| source.get(..at).unwrap_or_default());
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let receiver = |before: &'s str| {
        let start = if before.ends_with(']') {
            before.rfind("resolved[").unwrap_or(before.len())
        } else {
            before.trim_end_matches(name).len()
        };
        before.get(start..).unwrap_or_default()
    };
    before.map(receiver).collect()
}

/// The text up to the closing bracket after each `function` in a condition.
fn arguments_of<'s>(source: &'s str, function: &str) -> Vec<&'s str> {
    let after = source.match_indices(function).map(|(at, found)| source.get(at + found.len()..).unwrap_or_default());
    after.filter_map(|after| after.split_once(')')).map(|(argument, _)| argument.trim()).collect()
}

/// The texts written out as the first argument of each `function` in a condition.
fn literals<'s>(source: &'s str, function: &str) -> Vec<&'s str> {
    let after = source.match_indices(function).map(|(at, found)| source.get(at + found.len()..).unwrap_or_default());
    let literal = |after: &'s str| {
        let after = after.trim_start().trim_start_matches('r');
        let quote = after.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        after.get(1..)?.split_once(quote).map(|(text, _)| text)
    };
    after.filter_map(literal).collect()
}

/// Whether the list that a condition calls `args.A..`, `resolved.A` or `resolved["/A/*"]` can be empty.
fn can_be_empty(list: &str, tool: &Tool) -> bool {
    if let Some(key) = list.strip_prefix("resolved[").and_then(|rest| rest.strip_suffix(']')) {
        let key = key.trim().trim_matches(['"', '\'']);
        let declared = tool.arguments.iter().find(|argument| argument.name == key);
        return declared.is_some_and(|argument| argument.can_be_empty(&tool.schema));
    }
    let Some(path) = list.strip_prefix("args.").or_else(|| list.strip_prefix("resolved.")) else { return false };
    let steps: Vec<_> = path.split('.').map(|name| Step::Property(name.to_owned())).collect();
    tool.schema.can_be_empty_list(&steps)
}

fn is_number(path: &str, tool: &Tool) -> bool {
    let steps: Vec<_> = path.split('.').map(|name| Step::Property(name.to_owned())).collect();
    match tool.schema.at(&steps) {
        Found::Known(typed) => {
            let number = |of: &JsonType| matches!(of, JsonType::Integer | JsonType::Number);
            !typed.types.is_empty() && typed.types.iter().all(number)
        }
        Found::Unknown | Found::Open => false,
    }
}
