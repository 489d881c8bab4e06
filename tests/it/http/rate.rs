//! The rate at which one key may send requests.

use std::{num::NonZeroU32, time::Duration};

use serde_json::json;

use crate::support::service::Service;

async fn two_a_second() -> Service {
    Service::start_with(|settings| settings.requests_per_second = NonZeroU32::new(2)).await
}

#[tokio::test]
async fn a_call_over_the_rate_is_refused_like_any_other_and_says_when_to_come_back() {
    let service = two_a_second().await;
    for id in ["call-1", "call-2"] {
        assert_eq!(service.decide("get_order", json!({ "order_id": "AB-1" }), id).await.status, 200);
    }
    let refused = service.decide("get_order", json!({ "order_id": "AB-1" }), "call-3").await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    assert_eq!(
        refused.text(),
        r#"{"error":"tool unavailable","tool_result":{"is_error":true,"content":"tool unavailable"}}"#
    );
    service.clock.advance(Duration::from_secs(1));
    assert_eq!(service.decide("get_order", json!({ "order_id": "AB-1" }), "call-3").await.status, 200);
}

#[tokio::test]
async fn integrators_are_told_what_was_too_much() {
    let service = two_a_second().await;
    for _ in 0..2 {
        assert_eq!(service.get("bot", "/tools").await.status, 200);
    }
    assert_eq!(service.get("bot", "/tools").await.problem(429), "too_many_requests");
}

#[tokio::test]
async fn one_key_does_not_use_up_the_rate_of_another() {
    let service = two_a_second().await;
    for _ in 0..3 {
        service.get("bot", "/tools").await;
    }
    assert_eq!(service.get("other-bot", "/tools").await.status, 200);
}
