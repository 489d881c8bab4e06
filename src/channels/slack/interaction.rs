//! What people do in Slack, read out of the requests that tell of it. It must not know whether a request is Slack's:
//! that has been found out before.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::domain::{canon::json::ArgsHash, ids::ApprovalId};

/// The buttons, by their `action_id`.
pub(super) const APPROVE: &str = "approval.approve";
pub(super) const DENY: &str = "approval.deny";
pub(super) const OPEN: &str = "approval.open";

/// The dialogs, by their `callback_id`.
pub(super) const DENY_DIALOG: &str = "approval.deny.submit";
pub(super) const CONFIRM_DIALOG: &str = "approval.confirm.submit";

/// The inputs of the dialog that denies, by their `block_id`; each holds one element named [`TEXT`].
pub(super) const MESSAGE: &str = "message";
pub(super) const REASON: &str = "reason";
pub(super) const TEXT: &str = "text";

/// What a button was shown with: the call, and what people saw of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The approval.
    pub approval: ApprovalId,
    /// The hash of its arguments.
    pub args: ArgsHash,
    /// The hash of the review; `None` when there was none to show.
    pub review: Option<String>,
}

/// As buttons hold it: `v1.<approval>.<args hash>.<review hash or ->`.
impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v1.{}.{}.{}", self.approval, self.args, self.review.as_deref().unwrap_or("-"))
    }
}

impl Shown {
    /// Reads what a button holds.
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('.').collect();
        let ["v1", approval, args, review] = parts.as_slice() else { return None };
        Some(Self {
            approval: ApprovalId::parse(approval).ok()?,
            args: ArgsHash::parse(args)?,
            review: (*review != "-").then(|| (*review).to_owned()),
        })
    }
}

/// Who did it, as Slack knows people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The team in which it was done.
    pub team: String,
    /// The person's own team, which is another one where a channel is shared between companies.
    pub own_team: String,
    /// The organization that the team belongs to, if it belongs to one.
    pub organization: Option<String>,
    /// The person.
    pub user: String,
    /// The app whose message or dialog it was.
    pub app: Option<String>,
}

impl Person {
    /// Whether the person is of the team in which it was done, or of its organization.
    pub fn is_of_the_team(&self) -> bool {
        self.own_team == self.team || self.organization.as_ref() == Some(&self.own_team)
    }
}

/// What somebody did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interaction {
    /// Clicked a button below a message.
    Click(Click),
    /// Sent a dialog.
    Sent(Sent),
    /// Something that asks for nothing.
    Other,
}

/// A click on a button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Click {
    /// Who clicked.
    pub person: Person,
    /// The channel that the message stands in.
    pub channel: String,
    /// Which button.
    pub button: Button,
    /// Lets a dialog be opened, for three seconds.
    pub trigger: Option<String>,
    /// Where the person alone can be answered.
    pub response_url: Option<String>,
}

/// The buttons below an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Button {
    /// Approve.
    Approve(Shown),
    /// Deny.
    Deny(Shown),
}

/// A dialog that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Who sent it.
    pub person: Person,
    /// What the dialog was opened with.
    pub about: About,
    /// What it says.
    pub form: Form,
}

/// What a dialog is opened with, and sent back with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The entry of `[channels]` in which the button stood.
    pub channel: String,
    /// What the button was shown with.
    pub shown: Shown,
    /// What the first approve was answered with, where this is the second one.
    pub confirmation: Option<String>,
}

/// What the dialogs say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Deny.
    Deny {
        /// What the agent is told.
        message: Option<String>,
        /// Why, for the log.
        reason: Option<String>,
    },
    /// Approve, for the second time.
    Confirm,
}

/// A request that is signed and still makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is none that Slack would send")]
pub struct Malformed;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    channel: String,
    shown: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    confirmation: Option<String>,
}

impl About {
    /// As `private_metadata` holds it.
    pub(super) fn to_metadata(&self) -> String {
        let Self { channel, shown, confirmation } = self.clone();
        serde_json::to_string(&Metadata { channel, shown: shown.to_string(), confirmation }).unwrap_or_default()
    }

    fn read(text: &str) -> Option<Self> {
        let Metadata { channel, shown, confirmation } = serde_json::from_str(text).ok()?;
        Some(Self { channel, shown: Shown::parse(&shown)?, confirmation })
    }
}

#[derive(Deserialize)]
struct Payload {
    #[serde(rename = "type")]
    kind: String,
    user: Option<User>,
    team: Option<Team>,
    api_app_id: Option<String>,
    channel: Option<Identified>,
    #[serde(default)]
    actions: Vec<Action>,
    trigger_id: Option<String>,
    response_url: Option<String>,
    view: Option<View>,
}

#[derive(Deserialize)]
struct User {
    id: String,
    team_id: Option<String>,
}

#[derive(Deserialize)]
struct Team {
    id: String,
    enterprise_id: Option<String>,
}

#[derive(Deserialize)]
struct Identified {
    id: String,
}

#[derive(Deserialize)]
struct Action {
    action_id: String,
    value: Option<String>,
}

#[derive(Deserialize)]
struct View {
    callback_id: Option<String>,
    private_metadata: Option<String>,
    state: Option<ViewState>,
}

#[derive(Deserialize)]
struct ViewState {
    #[serde(default)]
    values: serde_json::Map<String, serde_json::Value>,
}

impl ViewState {
    fn text(&self, block: &str) -> Option<String> {
        let text = self.values.get(block)?.get(TEXT)?.get("value")?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// Whether a body is the probe by which Slack looks whether an address answers. It may come without a signature, and
/// asks for nothing.
pub fn is_probe(body: &[u8]) -> bool {
    const LONGEST: usize = 1_024;
    let mut fields = url::form_urlencoded::parse(body);
    body.len() <= LONGEST
        && fields.clone().all(|(name, _)| name != "payload")
        && fields.any(|field| field == ("ssl_check".into(), "1".into()))
}

/// Reads a body whose signature is good.
///
/// # Errors
/// [`Malformed`] when it is not a form with the one field `payload`, or that is not what the documentation says.
pub fn parse(body: &[u8]) -> Result<Interaction, Malformed> {
    let mut payloads = url::form_urlencoded::parse(body).filter(|(name, _)| name == "payload");
    let (Some((_, payload)), None) = (payloads.next(), payloads.next()) else { return Err(Malformed) };
    let payload: Payload = serde_json::from_str(&payload).map_err(|_| Malformed)?;
    match payload.kind.as_str() {
        "block_actions" => click(payload),
        "view_submission" => sent(payload).map(Interaction::Sent),
        _ => Ok(Interaction::Other),
    }
}

fn click(payload: Payload) -> Result<Interaction, Malformed> {
    let person = person(&payload)?;
    let [Action { action_id, value }] = payload.actions.as_slice() else { return Err(Malformed) };
    let shown = || value.as_deref().and_then(Shown::parse).ok_or(Malformed);
    let button = match action_id.as_str() {
        APPROVE => Button::Approve(shown()?),
        DENY => Button::Deny(shown()?),
        _ => return Ok(Interaction::Other),
    };
    let channel = payload.channel.map(|channel| channel.id).ok_or(Malformed)?;
    let (trigger, response_url) = (payload.trigger_id, payload.response_url);
    Ok(Interaction::Click(Click { person, channel, button, trigger, response_url }))
}

fn sent(payload: Payload) -> Result<Sent, Malformed> {
    let person = person(&payload)?;
    let view = payload.view.ok_or(Malformed)?;
    let about = view.private_metadata.as_deref().and_then(About::read).ok_or(Malformed)?;
    let form = match view.callback_id.as_deref() {
        Some(DENY_DIALOG) => {
            let state = view.state.ok_or(Malformed)?;
            Form::Deny { message: state.text(MESSAGE), reason: state.text(REASON) }
        }
        Some(CONFIRM_DIALOG) => Form::Confirm,
        Some(_) | None => return Err(Malformed),
    };
    Ok(Sent { person, about, form })
}

fn person(payload: &Payload) -> Result<Person, Malformed> {
    let (user, team) = (payload.user.as_ref().ok_or(Malformed)?, payload.team.as_ref().ok_or(Malformed)?);
    let own_team = user.team_id.as_ref().unwrap_or(&team.id);
    // They go into the log as they are.
    let ids =
        [Some(&user.id), Some(&team.id), Some(own_team), team.enterprise_id.as_ref(), payload.api_app_id.as_ref()];
    if !ids.into_iter().flatten().all(|id| is_id(id)) {
        return Err(Malformed);
    }
    Ok(Person {
        team: team.id.clone(),
        own_team: own_team.clone(),
        organization: team.enterprise_id.clone(),
        user: user.id.clone(),
        app: payload.api_app_id.clone(),
    })
}

/// Whether this has the form of an id of Slack.
pub fn is_id(text: &str) -> bool {
    (2..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}
