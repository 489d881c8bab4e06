//! Recipients: what resolves is a list of plain addresses, each of which resolves to itself, however it is given.

#![no_main]

use std::sync::LazyLock;

use countersign::domain::canon::Kind;
use countersign_fuzz::{kind, resolve, text};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

static WITH_TAGS: LazyLock<Kind> = LazyLock::new(|| kind(json!({ "kind": "email" })));
static WITHOUT_TAGS: LazyLock<Kind> = LazyLock::new(|| kind(json!({ "kind": "email", "strip_tags": true })));

fuzz_target!(|input: &str| {
    let (address, name) = input.split_once('\n').unwrap_or((input, ""));
    for given in [json!(input), json!([address, name]), json!({ "email": address, "name": name })] {
        check(&WITH_TAGS, &given);
        check(&WITHOUT_TAGS, &given);
        // Without their tags they are the same people.
        let domains = |kind| resolve(kind, given.clone()).ok().map(|resolution| fields(&resolution.value, "domain"));
        if let Some(stripped) = domains(&WITHOUT_TAGS) {
            assert_eq!(Some(stripped), domains(&WITH_TAGS), "stripping tags changes who {given} is");
        }
    }
});

fn check(kind: &Kind, given: &Value) {
    let Ok(resolution) = resolve(kind, given.clone()) else { return };
    let recipients = resolution.value.as_array().expect("recipients are a list");
    for recipient in recipients {
        let (address, domain) = (text(recipient, "address"), text(recipient, "domain"));
        assert_eq!(address, format!("{}@{domain}", text(recipient, "local")));
        assert!(address.is_ascii() && address == address.to_ascii_lowercase(), "{address:?} is not in its one form");
        assert_eq!(address.matches('@').count(), 1, "{address:?} holds another address");
        let plain = !address.contains(|c: char| c.is_whitespace() || c.is_control() || ",;<>()[]\"\\:".contains(c));
        assert!(plain && domain.contains('.'), "{address:?} is no plain address");
        let display = text(recipient, "display");
        assert!(!display.contains(['@', '<', '>', ',', ';', '\r', '\n']), "{display:?} can be taken for an address");
    }

    let objects: Vec<Value> = recipients
        .iter()
        .map(|recipient| json!({ "email": recipient["address"], "name": recipient["display"] }))
        .collect();
    let again = resolve(kind, objects).unwrap_or_else(|refusal| panic!("{recipients:?} are refused: {refusal:?}"));
    assert_eq!(again, resolution, "they are not whom they resolve to");
    if !recipients.is_empty() {
        let addresses = fields(&resolution.value, "address");
        let again = resolve(kind, addresses.join(", ")).unwrap_or_else(|refusal| panic!("{addresses:?}: {refusal:?}"));
        assert_eq!(fields(&again.value, "address"), addresses, "one string names other people than the list");
    }
}

fn fields(recipients: &Value, name: &str) -> Vec<String> {
    recipients.as_array().into_iter().flatten().map(|recipient| text(recipient, name).to_owned()).collect()
}
