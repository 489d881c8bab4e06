//! Paths: what resolves lies below its root, is on no never list, and resolves to itself again.

#![no_main]

use std::sync::LazyLock;

use countersign::domain::canon::Kind;
use countersign_fuzz::{kind, resolve, text};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

const BASE: &str = "/srv/data";

static KINDS: LazyLock<[Kind; 3]> = LazyLock::new(|| {
    let never = ["*.pem", ".env", "private/**"];
    [
        kind(json!({ "kind": "path", "base": BASE, "never": never })),
        kind(json!({ "kind": "path", "base": BASE, "roots": ["work", "pub/a"], "never": never })),
        kind(json!({ "kind": "path", "base": BASE, "roots": ["work"], "never": never, "case_insensitive": true })),
    ]
});

fuzz_target!(|input: &str| {
    for kind in KINDS.iter() {
        let Ok(resolution) = resolve(kind, input) else { continue };
        let value = &resolution.value;
        let path = text(value, "path");

        let below = path.strip_prefix(BASE).expect("the path lies below base");
        assert!(below.is_empty() || below.starts_with('/'), "{path:?} only looks as if it lay below base");
        let names: Vec<&str> = below.split('/').skip(1).collect();
        assert!(!names.iter().any(|name| matches!(*name, "" | "." | "..")), "{path:?} is not in its one form");

        let root: Vec<&str> = text(value, "root").split('/').filter(|name| *name != ".").collect();
        let start: Vec<String> = names.iter().take(root.len()).map(|name| name.to_lowercase()).collect();
        assert_eq!(start, root, "{path:?} lies outside its root");
        if let Some(last) = names.last() {
            assert_eq!(text(value, "name"), *last);
        }

        for name in &names {
            let name = name.to_lowercase();
            let listed = name.ends_with(".pem") || name == ".env" || name == "private";
            assert!(!listed, "{path:?} is on the never list");
        }

        assert_eq!(resolution.obligations["resolved_path"], path);
        assert_eq!(resolution.obligations["nofollow"], true);
        let again = resolve(kind, path).unwrap_or_else(|refusal| panic!("{path:?} is refused itself: {refusal:?}"));
        assert_eq!(again, resolution, "{path:?} is not what it resolves to");
        // A space at its beginning is refused there and not within a path.
        if let Some(again) = below.strip_prefix('/').and_then(|relative| resolve(kind, relative).ok()) {
            assert_eq!(again, resolution, "relative to base {path:?} is another file");
        }
    }
});
