//! Makes the requests of lookups, all of one call at once.

use async_trait::async_trait;
use reqwest::Method;
use tokio::task::JoinSet;

use super::{Answer, Outbound, Request, SendFailure};
use crate::{
    app::ports::LookupClient,
    domain::lookup::{Looked, LookupFailure, LookupRequest, LookupResults},
};

/// The most bytes of an answer that are read.
const MOST_BYTES: usize = 256 * 1024;

#[async_trait]
impl LookupClient for Outbound {
    async fn look_up(&self, requests: Vec<LookupRequest>) -> LookupResults {
        let mut names = Vec::with_capacity(requests.len());
        let mut looking = JoinSet::new();
        for request in requests {
            names.push(request.name.clone());
            let outbound = self.clone();
            looking.spawn(async move { (request.name.clone(), outbound.look(request).await) });
        }
        // A task that broke down has found nothing.
        let unanswered = names.into_iter().map(|name| (name, Looked::Failed(LookupFailure::Unreachable)));
        let mut results: Vec<(String, Looked)> = unanswered.collect();
        while let Some(joined) = looking.join_next().await {
            results.extend(joined);
        }
        results.into_iter().collect()
    }
}

impl Outbound {
    async fn look(&self, request: LookupRequest) -> Looked {
        let bearer = match &request.credential {
            None => None,
            Some(reference) => match self.credentials.get(reference) {
                Some(secret) => Some(secret),
                None => return Looked::Failed(LookupFailure::NoCredential),
            },
        };
        let sent = self
            .send(Request {
                method: if request.dry_run.is_some() { Method::POST } else { Method::GET },
                url: request.url.clone(),
                body: request.dry_run.as_ref().map(|args| ("application/json", args.to_string().into_bytes())),
                headers: Vec::new(),
                bearer,
                timeout: request.timeout,
                most_bytes: MOST_BYTES,
                allow_private: request.allow_private,
            })
            .await;
        match sent {
            Ok(Answer { status: 200..=299, body, retry_after: _ }) => request.read(&body),
            Ok(Answer { status: 300..=399, .. }) => Looked::Failed(LookupFailure::Redirected),
            Ok(Answer { .. }) => Looked::Failed(LookupFailure::BadStatus),
            Err(failure) => Looked::Failed(match failure {
                SendFailure::PrivateAddress => LookupFailure::PrivateAddress,
                SendFailure::TimedOut => LookupFailure::TimedOut,
                SendFailure::TooLong => LookupFailure::TooLong,
                SendFailure::Unreachable => LookupFailure::Unreachable,
                // The address was read when it was made: what cannot be sent is the credential.
                SendFailure::Unsendable => LookupFailure::NoCredential,
            }),
        }
    }
}
