//! The dialogs that a click in Slack opens: to deny with a word to the agent, and to approve for the second time. What
//! they send back is judged again as if nobody had been asked before.

use serde_json::{Value, json};

use super::{
    escape::{LONGEST_SECTION, plain},
    interaction::{About, CONFIRM_DIALOG, DENY_DIALOG, MESSAGE, REASON, TEXT},
    message::{Blocks, second_look},
};
use crate::{app::ports::Card, domain::review::visible};

/// The longest title and the longest button of a dialog.
const LONGEST_TITLE: usize = 24;

/// The longest text that somebody types.
const LONGEST_TYPED: usize = 1_000;

/// Asks what the agent is told of a denial, and why it is denied. Both may be left out.
pub fn deny(card: &Card, about: &About) -> Value {
    let approval = &card.approval;
    let mut blocks = Blocks::new("deny");
    blocks.section(&format!("{} by {}", visible(&approval.tool), approval.call.agent));
    let mut done = blocks.done;
    done.push(input(MESSAGE, "What the agent is told"));
    done.push(input(REASON, "Why, for the log"));
    json!({
        "type": "modal",
        "callback_id": DENY_DIALOG,
        "private_metadata": about.to_metadata(),
        "title": plain(&format!("Deny {}", approval.code), LONGEST_TITLE),
        "submit": plain("Deny", LONGEST_TITLE),
        "close": plain("Back", LONGEST_TITLE),
        "blocks": done,
    })
}

/// Shows the call once more and asks whether it is meant. `note` says why it is asked yet again, if it is.
pub fn confirm(card: &Card, about: &About, note: Option<&str>) -> Value {
    let mut blocks = Blocks::new("confirm");
    if let Some(note) = note {
        blocks.section(note);
    }
    blocks.section("Read it once more. Nothing counts before you approve here.");
    second_look(card).iter().for_each(|text| blocks.section(text));
    json!({
        "type": "modal",
        "callback_id": CONFIRM_DIALOG,
        "private_metadata": about.to_metadata(),
        "title": plain(&format!("Approve {}", card.approval.code), LONGEST_TITLE),
        "submit": plain("Approve", LONGEST_TITLE),
        "close": plain("Back", LONGEST_TITLE),
        "blocks": blocks.done,
    })
}

/// Tells what came of a dialog that was sent, in its place.
pub fn notice(text: &str) -> Value {
    json!({
        "type": "modal",
        "title": plain("Countersign", LONGEST_TITLE),
        "close": plain("Close", LONGEST_TITLE),
        "blocks": [{ "type": "section", "text": plain(text, LONGEST_SECTION) }],
    })
}

fn input(block: &str, label: &str) -> Value {
    json!({
        "type": "input",
        "block_id": block,
        "optional": true,
        "label": plain(label, 100),
        "element": {
            "type": "plain_text_input",
            "action_id": TEXT,
            "multiline": true,
            "max_length": LONGEST_TYPED,
        },
    })
}
