//! `countersign why`: the log's own words about one decision or approval, for people.

use clap::Args;
use serde_json::{Map, Value, json};

use super::{Done, Failure, SettingsArgs, print, print_json, runtime};
use crate::{
    app::{
        audit_log::{ExplainedEntry, Explanation, Subject, why},
        ports::{EntryFilter, SharedStore},
    },
    domain::{
        approval::code::ApprovalCode,
        audit::entry::Entry,
        ids::{ApprovalId, DecisionId},
        review::visible,
    },
    server,
};

/// `why`.
#[derive(Args)]
pub(super) struct Why {
    #[command(flatten)]
    settings: SettingsArgs,
    /// dec_..., apr_..., or the short code of an approval, AP-...
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: Why) -> Result<Done, Failure> {
    let config = command.settings.load()?;
    runtime()?.block_on(async {
        let store = server::open_existing(&config).await.map_err(Failure::new)?;
        let subject = subject(&store, &command.id).await?;
        let explanation = match subject {
            Some(subject) => why(&store, subject).await.map_err(Failure::new)?,
            None => None,
        };
        let Some(explanation) = explanation else {
            return Err(Failure(format!("the log knows nothing of {}", visible(&command.id))));
        };
        if command.json {
            print_json(&as_json(&explanation)?)?;
        } else {
            print(&as_text(&explanation))?;
        }
        Ok(Done::Fine)
    })
}

async fn subject(store: &SharedStore, id: &str) -> Result<Option<Subject>, Failure> {
    if let Ok(id) = DecisionId::parse(id) {
        return Ok(Some(match held_by(store, id).await? {
            // A held call's story is that of its approval.
            Some(approval) => Subject::Approval(approval),
            None => Subject::Decision(id),
        }));
    }
    if let Ok(id) = ApprovalId::parse(id) {
        return Ok(Some(Subject::Approval(id)));
    }
    let Some(code) = ApprovalCode::parse(id) else {
        return Err(Failure(format!("{} is no dec_..., apr_... or AP-...", visible(id))));
    };
    let filter = EntryFilter { code: Some(code.to_string()), ..EntryFilter::default() };
    let entries = store.entries(&filter, None, 1).await.map_err(Failure::new)?;
    Ok(entries.first().and_then(|sealed| sealed.entry.approval).map(Subject::Approval))
}

async fn held_by(store: &SharedStore, decision: DecisionId) -> Result<Option<ApprovalId>, Failure> {
    let filter = EntryFilter { decision: Some(decision), ..EntryFilter::default() };
    let entries = store.entries(&filter, None, 1).await.map_err(Failure::new)?;
    Ok(entries.first().and_then(|sealed| sealed.entry.approval))
}

fn as_json(explanation: &Explanation) -> Result<Value, Failure> {
    let entries = explanation.entries.iter().map(|explained| {
        let entry = serde_json::to_value(&explained.sealed.entry)?;
        Ok(json!({ "seq": explained.sealed.seq, "entry": entry, "payload": explained.payload }))
    });
    let entries = entries.collect::<Result<Vec<_>, serde_json::Error>>().map_err(Failure::new)?;
    Ok(json!({ "entries": entries }))
}

fn as_text(explanation: &Explanation) -> String {
    explanation.entries.iter().map(entry_as_text).collect::<Vec<_>>().join("\n\n")
}

fn entry_as_text(explained: &ExplainedEntry) -> String {
    let Entry {
        event,
        at,
        request_id,
        actor,
        call,
        agent,
        run,
        tool,
        decision,
        approval,
        code,
        verdict,
        reason_code,
        reason,
        rule,
        policy_version,
        payload,
        detail,
    } = &explained.sealed.entry;
    let mut lines = Lines::default();
    lines.heading(&format!("{at}  {event}  by {} ({})", actor.name, actor.via));
    lines.some("verdict", verdict.map(|verdict| verdict.as_str()));
    lines.some("reason", reason.as_deref());
    lines.some("because of", reason_code.as_deref());
    lines.some("rule", rule.as_deref());
    lines.some("tool", tool.as_deref());
    let call = call
        .as_ref()
        .map(|call| format!("{} of run {}, turn {}, by agent {}", call.tool_use_id, call.run, call.turn, call.agent));
    lines.some("call", call.as_deref());
    lines.some("agent", agent.as_ref().map(|agent| agent.as_str()));
    lines.some("run", run.as_ref().map(|run| run.as_str()));
    lines.some("decision", decision.map(|id| id.to_string()).as_deref());
    let approval = approval.map(|id| match code {
        Some(code) => format!("{code}, {id}"),
        None => id.to_string(),
    });
    lines.some("approval", approval.as_deref());
    lines.members(detail);
    match &explained.payload {
        Some(Value::Object(members)) => lines.members(members),
        Some(other) => lines.value("payload", other),
        None => lines.some("payload", payload.map(|_| "erased")),
    }
    lines.some("policy", policy_version.as_deref());
    lines.some("request", request_id.as_deref());
    lines.0.join("\n")
}

/// Lines for a terminal: nothing that a caller wrote reaches it as anything but visible text.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    const WIDTH: usize = 10;

    fn heading(&mut self, text: &str) {
        self.0.push(visible(text));
    }

    fn some(&mut self, label: &str, text: Option<&str>) {
        if let Some(text) = text {
            let (label, text, width) = (visible(label), visible(text), Self::WIDTH);
            self.0.push(format!("  {label:width$}  {text}"));
        }
    }

    /// Each member on a line; those of a member that is an object, each on one below it.
    fn members(&mut self, members: &Map<String, Value>) {
        for (name, value) in members {
            match value {
                Value::Null => {}
                Value::Object(below) if below.is_empty() => {}
                Value::Object(below) => {
                    self.0.push(format!("  {}", visible(name)));
                    below.iter().for_each(|(name, value)| self.value(&format!("  {name}"), value));
                }
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => self.value(name, value),
            }
        }
    }

    fn value(&mut self, label: &str, value: &Value) {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
        };
        self.some(label, Some(&text));
    }
}
