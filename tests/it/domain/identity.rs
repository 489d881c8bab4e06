//! Roles, keys' records and what they resolve to.

use std::collections::BTreeSet;

use countersign::domain::{
    identity::{AgentId, HolderName, KeyFault, KeyParts, KeyRecord, KeyState, Role, Roles},
    ids::KeyId,
    time::Timestamp,
};
use uuid::Uuid;

mod directory;

fn parts(name: &str, roles: &[Role]) -> KeyParts {
    KeyParts {
        id: KeyId::from_uuid(Uuid::from_u128(1)),
        name: HolderName::parse(name).unwrap(),
        roles: Roles::new(roles.iter().copied()).unwrap(),
        agents: BTreeSet::new(),
        hash: [7; 32],
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

#[test]
fn a_role_is_read_from_the_word_it_is_shown_as() {
    for (role, word) in [
        (Role::Agent, "agent"),
        (Role::Orchestrator, "orchestrator"),
        (Role::Reviewer, "reviewer"),
        (Role::Auditor, "auditor"),
        (Role::Admin, "admin"),
    ] {
        assert_eq!(role.to_string(), word);
        assert_eq!(word.parse(), Ok(role));
        assert_eq!(serde_json::to_value(role).unwrap(), word);
    }
    for word in ["", "Agent", "agent ", "root", "admin,agent"] {
        assert!(word.parse::<Role>().is_err(), "{word:?}");
    }
}

#[test]
fn what_proposes_never_shares_a_key_with_what_decides() {
    for proposes in [Role::Agent, Role::Orchestrator] {
        for decides in [Role::Reviewer, Role::Admin] {
            assert_eq!(Roles::new([proposes, decides]), Err(KeyFault::MixedRoles), "{proposes} and {decides}");
            assert_eq!(Roles::new([proposes, Role::Auditor, decides]), Err(KeyFault::MixedRoles));
        }
    }
    assert!(Roles::new([Role::Agent, Role::Orchestrator]).is_ok());
    assert!(Roles::new([Role::Reviewer, Role::Auditor, Role::Admin]).is_ok());
}

#[test]
fn a_key_without_a_role_is_refused() {
    assert_eq!(Roles::new([]), Err(KeyFault::NoRole));
}

#[test]
fn no_key_bears_the_name_of_an_agent_known_by_a_token() {
    for name in ["jwt:billing", "JWT:billing"] {
        assert_eq!(KeyRecord::new(parts(name, &[Role::Agent])), Err(KeyFault::ReservedName), "{name}");
    }
}

#[test]
fn an_orchestrator_that_names_no_agent_writes_for_the_one_of_its_own_name() {
    let key = KeyRecord::new(parts("billing-bot", &[Role::Agent, Role::Orchestrator])).unwrap();
    assert_eq!(key.agents(), &BTreeSet::from([AgentId::parse("billing-bot").unwrap()]));
}

#[test]
fn an_orchestrator_writes_for_the_agents_it_names_and_no_other() {
    let named = BTreeSet::from([AgentId::parse("a").unwrap(), AgentId::parse("b").unwrap()]);
    let parts = KeyParts { agents: named.clone(), ..parts("stack", &[Role::Orchestrator]) };
    let principal = KeyRecord::new(parts).unwrap().principal_at(at(1)).unwrap();
    assert_eq!(principal.orchestrates(), &named);
    assert_eq!(principal.agent(), None);
}

#[test]
fn only_an_orchestrator_names_agents() {
    let parts =
        KeyParts { agents: BTreeSet::from([AgentId::parse("b").unwrap()]), ..parts("billing-bot", &[Role::Agent]) };
    assert_eq!(KeyRecord::new(parts), Err(KeyFault::AgentsWithoutOrchestrator));
}

#[test]
fn a_key_ends_at_its_expiry_and_not_before() {
    let key = KeyRecord::new(KeyParts { expires_at: Some(at(10)), ..parts("bot", &[Role::Agent]) }).unwrap();
    assert_eq!(key.state_at(Timestamp::from_micros(9_999_999)), KeyState::Active);
    assert_eq!(key.state_at(at(10)), KeyState::Expired { at: at(10) });
    assert!(key.principal_at(at(10)).is_none());
}

#[test]
fn a_revoked_key_is_no_credential_even_to_a_clock_that_is_behind() {
    let key = KeyRecord::new(KeyParts { revoked_at: Some(at(10)), ..parts("bot", &[Role::Agent]) }).unwrap();
    for now in [at(0), at(9), at(10), at(11)] {
        assert_eq!(key.state_at(now), KeyState::Revoked { at: at(10) });
        assert!(key.principal_at(now).is_none());
    }
}

#[test]
fn a_principal_is_an_agent_or_a_reviewer_only_by_its_role() {
    let agent = KeyRecord::new(parts("ana", &[Role::Agent])).unwrap().principal_at(at(1)).unwrap();
    assert_eq!(agent.agent().unwrap().as_str(), "ana");
    assert!(agent.reviewer().is_none());
    let reviewer = KeyRecord::new(parts("ana", &[Role::Reviewer])).unwrap().principal_at(at(1)).unwrap();
    assert_eq!(reviewer.reviewer().unwrap().as_str(), "ana");
    assert!(reviewer.agent().is_none());
    assert!(reviewer.orchestrates().is_empty());
    let auditor = KeyRecord::new(parts("ana", &[Role::Auditor])).unwrap().principal_at(at(1)).unwrap();
    assert!(auditor.agent().is_none() && auditor.reviewer().is_none());
}

#[test]
fn a_records_debug_text_has_no_hash() {
    let key = KeyRecord::new(parts("bot", &[Role::Agent])).unwrap();
    let text = format!("{key:?}");
    assert!(text.contains("key_") && !text.contains("hash") && !text.contains("7, 7"), "{text}");
}
