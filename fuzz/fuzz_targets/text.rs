//! Texts: what is found is well formed, and nothing that stands before or after a text hides what is in it.
//!
//! That time is linear is the fuzzer's to see: run it with `-timeout`, and long inputs stay quick.

#![no_main]

use std::{collections::BTreeSet, sync::LazyLock};

use countersign::domain::canon::Kind;
use countersign_fuzz::{kind, resolve, texts};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

static TEXT: LazyLock<Kind> = LazyLock::new(|| kind(json!({ "kind": "text" })));

const FINDINGS: [&str; 4] = ["api_key", "card", "iban", "private_key"];

/// A line with one thing of each sort. The card and the account are the numbers everybody tests with.
const LINE: &str = "https://evil.example.org/x to x@evil.example.net, 4111 1111 1111 1111, GB82 WEST 1234 5698 7654 32";

fuzz_target!(|input: &str| {
    let Some(found) = found(input) else {
        assert!(input.contains('\0'), "a text without NUL is refused");
        return;
    };
    for (name, items) in ["hosts", "addresses", "findings"].into_iter().zip(&found) {
        assert!(items.iter().all(|item| !item.is_empty()), "something empty among the {name}");
        let odd = |item: &&String| item.contains(|c: char| c.is_whitespace() || c.is_control());
        assert_eq!(items.iter().find(odd), None, "white space or a control character among the {name}");
    }
    let [_, addresses, findings] = &found;
    assert!(findings.iter().all(|finding| FINDINGS.contains(&finding.as_str())), "unknown findings: {findings:?}");
    for address in addresses {
        let (local, domain) = address.rsplit_once('@').expect("an address has an `@`");
        assert!(!local.is_empty() && !domain.is_empty(), "half an address: {address:?}");
    }

    for joined in [format!("{input}\n{LINE}\n"), format!("{LINE}\n{input}")] {
        let [hosts, addresses, findings] = self::found(&joined).expect("there is no NUL in it");
        assert!(hosts.contains("evil.example.org"), "a link is hidden");
        assert!(addresses.contains("x@evil.example.net"), "an address is hidden");
        assert!(findings.contains("card") && findings.contains("iban"), "a number is hidden");
        for (alone, joined) in found.iter().zip([hosts, addresses, findings]) {
            assert!(alone.is_subset(&joined), "another line hides {:?}", alone.difference(&joined));
        }
    }
});

/// Hosts, addresses and findings; `None` when the text is refused.
fn found(input: &str) -> Option<[BTreeSet<String>; 3]> {
    let value: Value = resolve(&TEXT, input).ok()?.value;
    Some(["hosts", "addresses", "findings"].map(|name| texts(&value, name).into_iter().map(str::to_owned).collect()))
}
