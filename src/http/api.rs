//! The routes, one file for each resource: extract, call one use case, show its answer.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::{
    approval::state::StateName,
    verdict::{Risk, Verdict},
};

pub(super) mod agents;
pub(super) mod approvals;
pub(super) mod audit;
pub(super) mod batch;
pub(super) mod decide;
pub(super) mod decisions;
pub(super) mod events;
pub(super) mod grants;
pub(super) mod outbox;
pub(super) mod policy;
pub(super) mod runs;
pub(super) mod service;
pub(super) mod tools;

/// What policy says to a call, from the loosest to the strictest.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Verdict)]
enum VerdictView {
    Allow,
    AllowAudited,
    RequireApproval,
    Deny,
}

impl From<Verdict> for VerdictView {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Allow,
            Verdict::AllowAudited => Self::AllowAudited,
            Verdict::RequireApproval => Self::RequireApproval,
            Verdict::Deny => Self::Deny,
        }
    }
}

/// What a tool can do to the world, from the mildest to the gravest.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Risk)]
enum RiskView {
    Read,
    Draft,
    Send,
    Destructive,
}

impl From<Risk> for RiskView {
    fn from(risk: Risk) -> Self {
        match risk {
            Risk::Read => Self::Read,
            Risk::Draft => Self::Draft,
            Risk::Send => Self::Send,
            Risk::Destructive => Self::Destructive,
        }
    }
}

/// Where an approval stands.
#[derive(Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ApprovalState)]
enum StateView {
    Pending,
    Approved,
    Denied,
    Expired,
    Cancelled,
    Executed,
}

impl From<StateName> for StateView {
    fn from(state: StateName) -> Self {
        match state {
            StateName::Pending => Self::Pending,
            StateName::Approved => Self::Approved,
            StateName::Denied => Self::Denied,
            StateName::Expired => Self::Expired,
            StateName::Cancelled => Self::Cancelled,
            StateName::Executed => Self::Executed,
        }
    }
}

/// How a list is asked for, of its query parameters.
mod page {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

    use crate::http::error::{Problem, Refusal};

    const LARGEST: u32 = 200;
    const USUAL: u32 = 50;

    /// How many items to show.
    pub(super) fn limit(asked: Option<u32>) -> Result<u32, Refusal> {
        match asked {
            None => Ok(USUAL),
            Some(limit) if (1..=LARGEST).contains(&limit) => Ok(limit),
            Some(_) => Err(Problem::invalid_query("`limit` is 1 to 200").into()),
        }
    }

    /// The cursor that names this place.
    pub(super) fn cursor(place: &impl ToString) -> String {
        URL_SAFE_NO_PAD.encode(place.to_string())
    }

    /// The place that a cursor names.
    pub(super) fn place<T: std::str::FromStr>(cursor: Option<&str>) -> Result<Option<T>, Refusal> {
        let Some(cursor) = cursor else { return Ok(None) };
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
        let place = bytes.and_then(|bytes| String::from_utf8(bytes).ok()?.parse().ok());
        match place {
            Some(place) => Ok(Some(place)),
            None => Err(Problem::invalid_query("`cursor` is not one that this list gave").into()),
        }
    }
}
