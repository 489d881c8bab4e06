//! `POST /channels/slack/interactions`: what people do below our messages in Slack. The signature is looked at before
//! anything is read, then who clicked, and then the same use case is called as for everybody else.
//!
//! Slack waits three seconds. What takes longer goes on by itself, and so does everything that is only a word to whoever
//! clicked. Messages are brought to their final state by the outbox, and not from here.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequest, Request, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::timeout};

use super::{
    error::{Problem, Refusal},
    extract::{LONGEST_SENTENCE, reviewer_refused, scope},
    state::HttpState,
};
use crate::{
    app::{
        Caller, ReviewerCaller,
        error::Error,
        ports::Card,
        review::{Decided, ReviewDecision, ReviewedApproval},
    },
    channels::slack::{
        SlackDoor, SlackEntry,
        interaction::{self, About, Button, Click, Form, Interaction, Person, Sent, Shown},
        message::{self, Clicks, Offer},
        signature, view,
    },
    domain::{
        approval::confirmation::ConfirmationFault,
        audit::entry::{Actor, Entry, EventKind},
        identity::{Credential, Principal},
        ids::ApprovalId,
        notice::approval_url,
    },
};

const PATH: &str = "/channels/slack/interactions";

/// The longest request that is read. It repeats the message, percent-encoded.
const MOST_BYTES: usize = 1024 * 1024;

/// How long Slack is kept waiting for what is being decided.
const PATIENCE: Duration = Duration::from_millis(2_500);

/// The one route.
pub(super) fn routes() -> Router<HttpState> {
    Router::new().route(PATH, post(interactions)).layer(DefaultBodyLimit::max(MOST_BYTES))
}

/// What an interaction comes to: the answer, and what is said and done behind it.
struct Reaction {
    answer: Result<Option<Value>, Refusal>,
    after: Option<FollowUp>,
}

/// What follows an answer.
enum FollowUp {
    /// A word to whoever clicked.
    Say(Arc<SlackEntry>, String, String),
    /// A dialog; a word instead, where it does not open in time.
    Open { entry: Arc<SlackEntry>, trigger: String, view: Value, response_url: Option<String> },
}

impl Reaction {
    /// Nothing to say.
    const fn done() -> Self {
        Self { answer: Ok(None), after: None }
    }

    /// Refused as a whole.
    fn refused(refusal: impl Into<Refusal>) -> Self {
        Self { answer: Err(refusal.into()), after: None }
    }

    /// In the place of a dialog.
    const fn in_place(view: Value) -> Self {
        Self { answer: Ok(Some(view)), after: None }
    }
}

impl FollowUp {
    async fn run(self) {
        match self {
            Self::Say(entry, url, text) => entry.client.say_privately(&url, &text).await,
            Self::Open { entry, trigger, view, response_url } => {
                let opened = entry.client.open(&trigger, &view).await;
                if let Some(url) = response_url.filter(|_| !opened) {
                    entry.client.say_privately(&url, NO_DIALOG).await;
                }
            }
        }
    }
}

/// A click or a dialog.
async fn interactions(State(state): State<HttpState>, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let scope = Arc::clone(scope(&parts)?);
    let signed = one(&parts.headers, "x-slack-request-timestamp").zip(one(&parts.headers, "x-slack-signature"));
    let body = Bytes::from_request(Request::from_parts(parts, body), &state).await;
    let body = body.map_err(|_| Problem::unreadable_body())?;
    let refused = |reason, problem: Problem| {
        state.metrics.slack_refused(reason);
        state.metrics.unauthenticated(scope.method, scope.route());
        Err(problem.into())
    };
    let opened = signed.and_then(|(timestamp, signature)| {
        let sent = signature::seconds(&timestamp)?;
        let door = state.slack.opened_by(&timestamp, &body, &signature)?;
        Some((sent, Arc::clone(door)))
    });
    let Some((sent, door)) = opened else {
        // It comes without a signature as well, and gets nothing but a yes.
        if interaction::is_probe(&body) {
            return Ok(StatusCode::OK.into_response());
        }
        return refused("bad_signature", Problem::not_signed_by_slack());
    };
    let (ahead, near) = signature::skew(sent, state.app.now());
    state.metrics.slack_clock(ahead);
    if !near {
        tracing::warn!(ahead, "a request that Slack signed is not of now: is the clock right?");
        return refused("clock_skew", Problem::signed_at_another_time(ahead));
    }
    if interaction::is_probe(&body) {
        return Ok(StatusCode::OK.into_response());
    }
    let interaction = interaction::parse(&body).map_err(|_| Problem::not_an_interaction())?;
    let is_dialog = matches!(interaction, Interaction::Sent(_));
    // A task of its own: whoever waits no longer must not stop what is being decided.
    let (answer, answered) = oneshot::channel();
    let request_id = scope.id.clone();
    tokio::spawn(async move {
        let desk = Desk { state, door, request_id };
        let Reaction { answer: ready, after } = desk.react(interaction).await;
        // Slack may have been answered already.
        let _ = answer.send(ready);
        if let Some(after) = after {
            after.run().await;
        }
    });
    match timeout(PATIENCE, answered).await {
        Ok(Ok(answer)) => Ok(match answer? {
            Some(view) => Json(json!({ "response_action": "update", "view": view })).into_response(),
            None => StatusCode::OK.into_response(),
        }),
        Ok(Err(_)) => Err(Problem::internal().into()),
        Err(_) if is_dialog => {
            let view = view::notice("It takes a little longer. The message shows what came of it.");
            Ok(Json(json!({ "response_action": "update", "view": view })).into_response())
        }
        Err(_) => Ok(StatusCode::OK.into_response()),
    }
}

/// The value of a header that is there exactly once.
fn one(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?.to_owned();
    values.next().is_none().then_some(value)
}

/// Where one interaction is dealt with.
struct Desk {
    state: HttpState,
    door: Arc<SlackDoor>,
    request_id: String,
}

/// What whoever is not told more is told.
const NOBODY: &str = "You are not linked to a reviewer here, so nothing was done. An administrator can add your id to \
                      [reviewers].";
const NOT_YOURS: &str = "This is not for you to decide, so nothing was done.";
const OTHER_SHOWN: &str = "What this message shows is not what would be decided. Nothing was done; see the page.";
const NOT_RECORDED: &str = "It could not be recorded just now. Try again, or see the page for how it stands.";
const NO_DIALOG: &str = "Slack did not open the dialog in time, so nothing was decided. Click again, or use the page.";

impl Desk {
    async fn react(&self, interaction: Interaction) -> Reaction {
        match interaction {
            Interaction::Other => Reaction::done(),
            Interaction::Click(click) => {
                let Some(entry) = self.door.entry_at(&click.person, &click.channel) else {
                    return self.wrong_channel(&click.person).await;
                };
                self.clicked(Arc::clone(entry), click).await
            }
            Interaction::Sent(sent) => {
                let Some(entry) = self.door.entry_named(&sent.person, &sent.about.channel) else {
                    return self.wrong_channel(&sent.person).await;
                };
                self.sent(Arc::clone(entry), sent).await
            }
        }
    }

    async fn clicked(&self, entry: Arc<SlackEntry>, click: Click) -> Reaction {
        let Click { person, button, trigger, response_url, .. } = click;
        let say = |text: &str| Reaction {
            answer: Ok(None),
            after: response_url.clone().map(|url| FollowUp::Say(Arc::clone(&entry), url, text.to_owned())),
        };
        let (Button::Approve(shown) | Button::Deny(shown)) = &button;
        let reviewer = match self.reviewer(&entry, &person, shown.approval).await {
            Ok(Some(reviewer)) => reviewer,
            Ok(None) => return say(NOBODY),
            Err(_) => return say(NOT_RECORDED),
        };
        let card = match self.card(&reviewer, shown).await {
            Ok(card) => card,
            Err(why) => return say(&why),
        };
        let about = |confirmation| About { channel: entry.name.to_string(), shown: shown.clone(), confirmation };
        let open = |view: Value| match trigger.clone() {
            Some(trigger) => {
                let (entry, response_url) = (Arc::clone(&entry), response_url.clone());
                Reaction { answer: Ok(None), after: Some(FollowUp::Open { entry, trigger, view, response_url }) }
            }
            None => say(NO_DIALOG),
        };
        let offered = message::offer(&card, Clicks::Verified);
        match (&button, offered) {
            (_, Offer::Nothing) => say(&decided(&card)),
            (Button::Deny(_), _) => open(view::deny(&card, &about(None))),
            (Button::Approve(_), Offer::Elsewhere(hindrance)) => say(hindrance.sentence()),
            (Button::Approve(_), Offer::Approve | Offer::ApproveTwice) => {
                match self.state.app.decide_approval(&reviewer, shown.approval, &approve(shown, None)).await {
                    Ok(Decided::Counted(_)) => Reaction::done(),
                    Ok(Decided::ToConfirm(to_confirm)) => {
                        open(view::confirm(&card, &about(Some(to_confirm.confirmation)), None))
                    }
                    Err(error) => say(&self.why_not(&reviewer, shown, error).await),
                }
            }
        }
    }

    async fn sent(&self, entry: Arc<SlackEntry>, sent: Sent) -> Reaction {
        let Sent { person, about, form } = sent;
        let say = |text: &str| Reaction::in_place(view::notice(text));
        let reviewer = match self.reviewer(&entry, &person, about.shown.approval).await {
            Ok(Some(reviewer)) => reviewer,
            Ok(None) => return say(NOBODY),
            Err(_) => return say(NOT_RECORDED),
        };
        let card = match self.card(&reviewer, &about.shown).await {
            Ok(card) => card,
            Err(why) => return say(&why),
        };
        let decision = match form {
            Form::Deny { message, reason } => {
                let long = |text: &Option<String>| text.as_ref().is_some_and(|text| text.len() > LONGEST_SENTENCE);
                if long(&message) || long(&reason) {
                    return say("That is too long. Nothing was decided; use the page.");
                }
                ReviewDecision { approve: false, reason, message_to_agent: message, ..approve(&about.shown, None) }
            }
            Form::Confirm => match message::offer(&card, Clicks::Verified) {
                Offer::Approve | Offer::ApproveTwice => approve(&about.shown, about.confirmation.clone()),
                Offer::Elsewhere(hindrance) => return say(hindrance.sentence()),
                Offer::Nothing => return say(&decided(&card)),
            },
        };
        match self.state.app.decide_approval(&reviewer, about.shown.approval, &decision).await {
            Ok(Decided::Counted(_)) => Reaction::done(),
            Ok(Decided::ToConfirm(_)) => {
                say("That was not the second click. Nothing was decided; click Approve again.")
            }
            Err(Error::Confirmation(ConfirmationFault::Early { .. })) => {
                let note = "That was too quick to have been read. It counts two seconds after the first click.";
                Reaction::in_place(view::confirm(&card, &about, Some(note)))
            }
            Err(error) => say(&self.why_not(&reviewer, &about.shown, error).await),
        }
    }

    /// The reviewer that this person is; nobody for a stranger, which is recorded.
    async fn reviewer(
        &self,
        entry: &SlackEntry,
        person: &Person,
        approval: ApprovalId,
    ) -> Result<Option<ReviewerCaller>, Error> {
        let people = self.state.app.reviewers();
        let known = people.by_chat_user(&person.team, &person.user).filter(|_| person.is_of_the_team());
        let credential = Credential::Chat(entry.name.clone());
        let principal = known.and_then(|known| Principal::of_reviewer(known, credential.clone(), []).ok());
        let (Some(known), Some(principal)) = (known, principal) else {
            let via = credential.to_string();
            let entry = self.refusal(person, via, "unknown_chat_user", Some(approval));
            self.state.app.record(entry).await?;
            return Ok(None);
        };
        let groups = people.groups_at(&known.name, self.state.app.now());
        let caller = Caller { principal, request_id: self.request_id.clone() };
        Ok(Some(ReviewerCaller { caller, name: known.name.clone(), groups }))
    }

    async fn wrong_channel(&self, person: &Person) -> Reaction {
        let entry = self.refusal(person, "chat".to_owned(), "wrong_channel", None);
        match self.state.app.record(entry).await {
            Ok(()) => Reaction::refused(Problem::wrong_slack_channel()),
            Err(error) => Reaction::refused(error),
        }
    }

    fn refusal(&self, person: &Person, via: String, reason: &str, approval: Option<ApprovalId>) -> Entry {
        let name = format!("slack:{}/{}", person.own_team, person.user);
        let mut entry = Entry::new(EventKind::RequestRefused, self.state.app.now(), Actor { name, via });
        entry.request_id = Some(self.request_id.clone());
        entry.reason_code = Some(reason.to_owned());
        entry.approval = approval;
        entry.detail.insert("route".to_owned(), format!("POST {PATH}").into());
        entry
    }

    /// The approval as the message would show it now; why not, in words, when this reviewer has no part in it.
    async fn card(&self, reviewer: &ReviewerCaller, shown: &Shown) -> Result<Card, String> {
        let app = &self.state.app;
        let reviewed = match app.approval_for_reviewer(reviewer, shown.approval).await {
            Ok(reviewed) => reviewed,
            Err(Error::NotFound) => {
                let mut entry = reviewer.caller.entry(EventKind::RequestRefused, app.now());
                entry.reason_code = Some("not_eligible".to_owned());
                entry.approval = Some(shown.approval);
                return Err(app.record(entry).await.map_or(NOT_RECORDED, |()| NOT_YOURS).to_owned());
            }
            Err(_) => return Err(NOT_RECORDED.to_owned()),
        };
        let ReviewedApproval { approval, review, rationale, .. } = reviewed;
        let url = approval_url(&self.state.settings.public_url, approval.id);
        let card = Card { approval, review, rationale, url, now: app.now() };
        // Other arguments or another review than those below which the button stood. What was erased may be denied.
        let held = message::shown(&card);
        let other_review = shown.review != held.review && held.review.is_some();
        if other_review || shown.args != held.args { Err(OTHER_SHOWN.to_owned()) } else { Ok(card) }
    }

    /// Why a decision was not taken, for whoever took it.
    async fn why_not(&self, reviewer: &ReviewerCaller, shown: &Shown, error: Error) -> String {
        let text = if matches!(error, Error::Refused(_)) {
            // Somebody was first: who, and when.
            match self.card(reviewer, shown).await {
                Ok(card) => decided(&card),
                Err(why) => why,
            }
        } else if let Error::NotEligible(why) = &error {
            format!("You may not approve this: {why}.")
        } else if matches!(error, Error::NotFound) {
            NOT_YOURS.to_owned()
        } else if matches!(error, Error::StaleArgs { .. } | Error::StaleReview { .. }) {
            OTHER_SHOWN.to_owned()
        } else if matches!(error, Error::DecideInWeb | Error::StepUpRequired) {
            "The policy lets this be approved on the page only.".to_owned()
        } else if let Error::Confirmation(fault) = &error {
            format!("Nothing was decided: {fault}. Click Approve again.")
        } else {
            NOT_RECORDED.to_owned()
        };
        // What concerns the log goes there; what would be the answer elsewhere is said in words here.
        let refusal = reviewer_refused(&self.state, &reviewer.caller, Some(shown.approval), error).await;
        if let Some(cause) = refusal.cause() {
            tracing::error!(request_id = self.request_id, cause, "a click could not be acted on");
        }
        text
    }
}

/// What somebody who comes too late is told.
fn decided(card: &Card) -> String {
    format!("{}: {}", card.approval.code, message::standing(&card.approval, card.now).join(" "))
}

/// An approve of what was shown.
fn approve(shown: &Shown, confirmation: Option<String>) -> ReviewDecision {
    ReviewDecision {
        approve: true,
        args_hash: shown.args,
        review_hash: shown.review.clone(),
        reason: None,
        message_to_agent: None,
        grant: None,
        confirmation,
    }
}
