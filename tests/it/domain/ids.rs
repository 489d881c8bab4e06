//! Ids and names: one spelling each, and no two kinds alike.

use countersign::domain::{
    identity::{AgentId, ReviewerName},
    ids::{ApprovalId, ClaimId, DecisionId, GrantId, KeyId, RunId, ToolUseId},
};
use uuid::Uuid;

const UUID: Uuid = Uuid::from_u128(0x0197_a3b2_c4d5_7e6f_8a9b_0c1d_2e3f_4a5b);

#[test]
fn an_id_is_its_prefix_and_a_uuid_in_lower_case() {
    assert_eq!(DecisionId::from_uuid(UUID).to_string(), "dec_0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b");
    assert_eq!(ApprovalId::from_uuid(UUID).to_string(), "apr_0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b");
    assert_eq!(GrantId::from_uuid(UUID).to_string(), "gra_0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b");
    assert_eq!(KeyId::from_uuid(UUID).to_string(), "key_0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b");
}

#[test]
fn an_id_is_read_back_from_what_it_shows() {
    let id = ApprovalId::from_uuid(UUID);
    assert_eq!(id.to_string().parse(), Ok(id));
    assert_eq!(id.uuid(), UUID);
    let json = serde_json::to_string(&id).unwrap();
    assert_eq!(json, "\"apr_0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b\"");
    assert_eq!(serde_json::from_str::<ApprovalId>(&json).unwrap(), id);
}

#[test]
fn another_spelling_of_an_id_is_refused() {
    for text in [
        "",
        "apr_",
        "0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b",
        "dec_0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b",
        "APR_0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b",
        "apr_0197A3B2-c4d5-7e6f-8a9b-0c1d2e3f4a5b",
        "apr_0197a3b2c4d57e6f8a9b0c1d2e3f4a5b",
        "apr_{0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b}",
        "apr_urn:uuid:0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b",
        " apr_0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b",
        "apr_0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b\n",
        "apr_0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5é",
    ] {
        assert!(ApprovalId::parse(text).is_err(), "{text:?}");
        assert!(serde_json::from_value::<ApprovalId>(text.into()).is_err(), "{text:?}");
    }
}

#[test]
fn ids_sort_by_their_uuid() {
    assert!(DecisionId::from_uuid(Uuid::from_u128(1)) < DecisionId::from_uuid(Uuid::from_u128(2)));
}

#[test]
fn run_claim_and_tool_use_ids_are_1_to_128_of_their_characters() {
    for text in ["a", "toolu_01A.b:c-d", &"x".repeat(128)] {
        assert_eq!(RunId::parse(text).unwrap().as_str(), text);
        assert_eq!(ToolUseId::parse(text).unwrap().as_str(), text);
        assert_eq!(ClaimId::parse(text).unwrap().as_str(), text);
    }
    for text in ["", "a b", "a/b", "a@b", "a\n", "a\0", "é", "ａ", "a%20b", &"x".repeat(129)] {
        assert!(RunId::parse(text).is_err(), "{text:?}");
        assert!(ToolUseId::parse(text).is_err(), "{text:?}");
        assert!(ClaimId::parse(text).is_err(), "{text:?}");
    }
    assert_eq!(ClaimId::from_uuid(UUID).to_string(), "0197a3b2-c4d5-7e6f-8a9b-0c1d2e3f4a5b");
}

#[test]
fn names_of_agents_and_reviewers_may_be_addresses() {
    assert!(AgentId::parse("billing-bot@acme.example").is_ok());
    assert!(ReviewerName::parse("ana@acme.example").is_ok());
    for text in ["", "ana lee", "ana|x", "аna", "ana\u{200b}", &"x".repeat(129)] {
        assert!(AgentId::parse(text).is_err(), "{text:?}");
        assert!(ReviewerName::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_refusal_says_what_is_right_and_never_repeats_the_text() {
    let message = RunId::parse("so secret!").unwrap_err().to_string();
    assert_eq!(message, "a run id is 1 to 128 ASCII letters, digits and _.:-");
    let message = KeyId::parse("so secret!").unwrap_err().to_string();
    assert_eq!(message, "not an id of the form key_ and a UUID in lower case");
}
