//! Deciding a call, and asking again in every state.

use countersign::domain::verdict::Verdict;
use serde_json::json;

use crate::support::world::{allowed, on_each_engine};

#[tokio::test]
async fn a_call_that_policy_allows_may_run_at_once() {
    on_each_engine(|world| async move {
        let request = world.call("read_file", json!({ "path": "a.txt" }));
        let answer = allowed(world.ask(&request).await.unwrap());
        assert_eq!(answer.verdict, Verdict::Allow);
        assert_eq!(answer.args_hash, request.call.args.hash());
        assert_eq!(answer.obligations, *json!({ "max_bytes": 200_000 }).as_object().unwrap());
        assert_eq!(answer.permit, None);
        world.assert_log_is_whole().await;
    })
    .await;
}
