//! Tells of what happened to an approval: every instance, and everybody who has to know, in the transaction that made it
//! happen.

use super::{
    App,
    error::Error,
    ports::{Change, Tx},
};
use crate::domain::{
    approval::state::{Approval, StateName},
    channel::{Announcement, Destination},
    ids::NoticeId,
    notice::{Notice, NoticeEvent, Topic, about_approval},
    run::RunKey,
    time::Timestamp,
};

impl App {
    /// Writes the messages about `event`, and tells every instance that the approval changed. What became of it is told
    /// wherever it is shown, be it to others than those it asks for.
    pub(super) async fn tell(
        &self,
        tx: &mut dyn Tx,
        approval: &Approval,
        event: NoticeEvent,
        now: Timestamp,
    ) -> Result<(), Error> {
        tx.announce(Change::Approval(approval.id));
        let mut announcements = self.channels.announcements(event, approval, &self.reviewers, now);
        if !event.asks() && !self.channels.is_empty() {
            for (to, recipient) in tx.told_of(approval.id).await? {
                let told = announcements.iter().any(|told| told.to == to && told.recipient == recipient);
                if !told && self.channels.hears(&to, event) {
                    announcements.push(Announcement { to, recipient, event, not_before: now });
                }
            }
        }
        let data = about_approval(approval, &self.settings.public_url);
        let mut notices = Vec::with_capacity(announcements.len());
        for Announcement { to, recipient, event, not_before } in announcements {
            notices.push(Notice {
                id: NoticeId::from_uuid(self.uuid(now)?),
                to,
                recipient,
                event,
                topic: Topic::Approval(approval.id),
                data: data.clone(),
                at: not_before,
                not_before,
                instead_of: None,
            });
        }
        if self.channels.calls_back(&approval.call.agent) && is_decided(approval) {
            notices.push(self.ask_whether_ready(approval, now)?);
        }
        if notices.is_empty() {
            return Ok(());
        }
        Ok(tx.enqueue(&notices).await?)
    }

    /// A message that the run may go on. Whether it may is seen when it is sent: only then is everything committed that
    /// was decided at the same time.
    fn ask_whether_ready(&self, approval: &Approval, now: Timestamp) -> Result<Notice, Error> {
        let call = &approval.call;
        Ok(Notice {
            id: NoticeId::from_uuid(self.uuid(now)?),
            to: Destination::Callback(call.agent.clone()),
            recipient: None,
            event: NoticeEvent::RunReady,
            topic: Topic::Run(RunKey::of(call)),
            data: serde_json::json!({ "agent": call.agent, "run_id": call.run, "turn": call.turn }),
            at: now,
            not_before: now,
            instead_of: None,
        })
    }
}

fn is_decided(approval: &Approval) -> bool {
    match approval.state.name() {
        StateName::Approved | StateName::Denied | StateName::Expired | StateName::Cancelled => true,
        StateName::Pending | StateName::Executed => false,
    }
}
