//! The ways a message leaves for people and machines, one module each. They render and send what they are given, and
//! decide nothing: not whom to tell, nor when to try again.

pub mod email;
mod lines;
pub mod slack;
pub mod teams;
pub mod webhook;

use std::time::Duration;

use crate::{
    app::ports::Delivery,
    outbound::{Answer, SendFailure},
};

/// How long one attempt may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What the status of an answer says of a message, where nothing else in it does.
fn by_status(answer: &Answer) -> Delivery {
    let fault = format!("answered {}", answer.status);
    match answer.status {
        200..=299 => Delivery::Done { place: None },
        410 => Delivery::Gone { fault },
        _ => Delivery::Later { after: answer.retry_after, fault },
    }
}

/// What it says of a message that it could not be sent.
fn unsent(failure: SendFailure) -> Delivery {
    let fault = failure.to_string();
    match failure {
        SendFailure::PrivateAddress | SendFailure::Unsendable => Delivery::Refused { fault },
        // Whether it arrived is not known: the receiver tells by the id.
        SendFailure::Unreachable | SendFailure::TimedOut | SendFailure::TooLong => {
            Delivery::Later { after: None, fault }
        }
    }
}
