//! Web addresses: what resolves goes to a listed place only, and put together again it resolves to itself.

#![no_main]

use std::sync::LazyLock;

use countersign::domain::canon::Kind;
use countersign_fuzz::{kind, resolve, text};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

/// Any public host, in the widest options there are.
static PUBLIC: LazyLock<Kind> = LazyLock::new(|| {
    let schemes = ["https", "http", "wss", "ws", "ftp"];
    kind(json!({ "kind": "url", "schemes": schemes, "default_scheme": "https", "allow_ips": true, "ports": [8443] }))
});
static LISTED_HOSTS: LazyLock<Kind> =
    LazyLock::new(|| kind(json!({ "kind": "url", "hosts": ["api.acme.com", "*.cdn.acme.com"] })));
static LISTED_URLS: LazyLock<Kind> =
    LazyLock::new(|| kind(json!({ "kind": "url", "urls": ["https://api.acme.com/v1/*", "https://acme.com/q?*"] })));

fuzz_target!(|input: &str| {
    if let Some(value) = resolved(&PUBLIC, input) {
        let port = value["port"].as_u64().expect("a port is a number");
        assert!([21, 80, 443, 8443].contains(&port), "the port {port} is not listed");
        let host = text(&value, "host");
        assert!(host.contains(['.', ':']), "{host:?} is no public host");
        let private = ["10.", "127.", "169.254.", "192.168.", "0.", "[::", "[fe80:", "[fc", "[fd"];
        let is_private = value["is_ip"] == true && private.iter().any(|start| host.starts_with(start));
        assert!(!is_private && !host.ends_with("localhost"), "{host:?} is private");
    }
    if let Some(value) = resolved(&LISTED_HOSTS, input) {
        let host = text(&value, "host");
        assert!(host == "api.acme.com" || host.ends_with(".cdn.acme.com"), "{host:?} is not listed");
        assert_eq!((text(&value, "scheme"), &value["port"], &value["is_ip"]), ("https", &json!(443), &json!(false)));
    }
    if let Some(value) = resolved(&LISTED_URLS, input) {
        let (host, path, query) = (text(&value, "host"), text(&value, "path"), text(&value, "query"));
        let below = path.strip_prefix("/v1/").is_some_and(|name| !name.is_empty() && !name.contains('/'));
        let listed = (host == "api.acme.com" && below && query.is_empty()) || (host == "acme.com" && path == "/q");
        assert!(listed, "{host:?} {path:?} {query:?} is not listed");
    }
});

/// What the input resolves to, having resolved what it resolves to once more.
fn resolved(kind: &Kind, input: &str) -> Option<Value> {
    let resolution = resolve(kind, input).ok()?;
    let value = &resolution.value;
    let host = text(value, "host");
    assert!(host.is_ascii() && host == host.to_ascii_lowercase(), "{host:?} is not in its one form");
    let path = text(value, "path");
    assert!(path.starts_with('/'), "{path:?} is no path");
    assert!(!path.split('/').any(|segment| matches!(segment, "." | "..")), "{path:?} steps back");

    let mut whole = format!("{}://{host}:{}{path}", text(value, "scheme"), value["port"]);
    for (mark, part) in [('?', text(value, "query")), ('#', text(value, "fragment"))] {
        if !part.is_empty() {
            whole.push(mark);
            whole.push_str(part);
        }
    }
    match resolve(kind, whole.as_str()) {
        Ok(again) => assert_eq!(again, resolution, "{whole:?} is not what it resolves to"),
        // What is written out can be longer than what was given, and only that may be refused.
        Err(refusal) => assert_eq!(refusal.code(), "too_long", "{whole:?} is refused itself: {refusal:?}"),
    }
    assert_eq!(resolution.obligations["max_redirects"], 0);
    Some(resolution.value)
}
