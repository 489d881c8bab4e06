//! Holds the direction of imports: reads every path in `src` and fails on one that points the wrong way.

#![expect(clippy::unwrap_used, clippy::string_slice, reason = "a test that cannot read the sources must fail loudly")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Which modules each top-level module may name. `domain` is the vocabulary of all, so every other one may.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("main", &["cli"]),
    ("cli", &["server", "app", "domain", "config"]),
    (
        "server",
        &[
            "http",
            "worker",
            "storage",
            "filesystem",
            "outbound",
            "channels",
            "auth",
            "app",
            "domain",
            "config",
            "telemetry",
        ],
    ),
    ("http", &["app", "auth", "channels", "domain"]),
    ("worker", &["app", "domain"]),
    ("storage", &["app", "domain"]),
    ("filesystem", &["app", "domain"]),
    ("outbound", &["app", "domain"]),
    ("channels", &["app", "domain", "outbound"]),
    ("auth", &["app", "domain", "outbound"]),
    ("app", &["domain"]),
    ("domain", &[]),
    ("config", &[]),
    ("telemetry", &[]),
    ("lib", &[]),
];

/// Of `app`, the implementers of its ports may see nothing else.
const ONLY_PORTS: &[&str] = &["storage", "filesystem", "outbound", "channels", "auth"];

/// Words that the pure middle may not contain.
const IMPURE: &[&str] =
    &["async fn", "tokio::", "axum", "sqlx", "reqwest", "std::env", "std::fs", "SystemTime", "Instant", "rand::"];

/// The one module that sends requests, so that the rule about addresses holds for all of them.
const SENDS: &str = "outbound";

/// Words that the use cases may not contain: the outside comes through ports.
const OUTSIDE: &[&str] = &["axum", "sqlx", "reqwest", "std::env", "std::fs", "SystemTime", "rand::", "jsonwebtoken"];

struct Source {
    module: Vec<String>,
    path: PathBuf,
    text: String,
}

#[test]
fn every_import_points_the_allowed_way() {
    let mut wrong = Vec::new();
    for source in sources() {
        let top = source.module.first().map_or("lib", String::as_str);
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(module, _)| *module == top) else {
            wrong.push(format!("{}: `{top}` is no module of the layout", source.path.display()));
            continue;
        };
        for target in imports(&source) {
            let module = target.first().map(String::as_str).unwrap_or_default();
            if module != top && !allowed.contains(&module) {
                wrong.push(format!("{}: `{top}` may not import `{}`", source.path.display(), target.join("::")));
            }
            let past_ports = module == "app" && target.get(1).is_some_and(|second| second != "ports");
            if past_ports && ONLY_PORTS.contains(&top) {
                wrong.push(format!("{}: `{top}` may see `app::ports` only", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "imports in the wrong direction:\n{}", wrong.join("\n"));
}

#[test]
fn the_domain_is_pure_and_the_use_cases_see_the_outside_through_ports() {
    let mut wrong = Vec::new();
    for source in sources() {
        let forbidden = match source.module.first().map(String::as_str) {
            Some("domain") => IMPURE,
            Some("app") => OUTSIDE,
            _ => continue,
        };
        for (number, line) in source.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in forbidden {
                // `tokio::time::Instant` measures a wait and decides nothing.
                if code.contains(word) {
                    wrong.push(format!("{}:{}: `{word}`", source.path.display(), number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "words that do not belong there:\n{}", wrong.join("\n"));
}

#[test]
fn requests_leave_through_one_module() {
    let elsewhere: Vec<_> = sources()
        .into_iter()
        .filter(|source| source.module.first().map(String::as_str) != Some(SENDS) && source.text.contains("reqwest::"))
        .map(|source| source.path.display().to_string())
        .collect();
    assert!(elsewhere.is_empty(), "requests are sent by {elsewhere:?}");
}

#[test]
fn every_file_says_on_its_first_line_what_it_is_for() {
    let silent: Vec<_> = sources()
        .into_iter()
        .filter(|source| !source.text.starts_with("//! "))
        .map(|source| source.path.display().to_string())
        .collect();
    assert!(silent.is_empty(), "files without a first line: {silent:?}");
}

#[test]
fn imports_are_read_in_every_form() {
    let source = |text: &str| Source {
        module: vec!["app".to_owned(), "x".to_owned()],
        path: PathBuf::new(),
        text: text.to_owned(),
    };
    let tops = |text: &str| -> Vec<String> { imports(&source(text)).into_iter().map(|path| path.join("::")).collect() };
    assert_eq!(tops("use crate::http::api;"), ["http::api"]);
    assert_eq!(tops("use crate::{http::{a, b}, domain};"), ["domain", "http::a", "http::b"]);
    assert_eq!(tops("fn f() { crate::storage::connect() }"), ["storage::connect"]);
    assert_eq!(tops("use super::super::{http, worker::expiry};"), ["http", "worker::expiry"]);
    assert_eq!(tops("use super::ports;"), ["app::ports"]);
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(&root).unwrap().with_extension("");
                let module = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
                let module = if relative == Path::new("lib") { Vec::new() } else { module };
                found.push(Source { module, text: fs::read_to_string(&path).unwrap(), path });
            }
        }
    }
    assert!(found.len() > 10, "the sources are where this test looks for them");
    found
}

/// Every path into this crate that the file names, from the crate's root on.
fn imports(source: &Source) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let code: String =
        source.text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    for start in ["crate::", "countersign::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|character| character.is_alphanumeric() || character == '_' || character == ':') {
                continue;
            }
            let mut rest = &code[at..];
            let mut prefix = Vec::new();
            if start == "super::" {
                prefix.clone_from(&source.module);
                while let Some(after) = rest.strip_prefix("super::") {
                    prefix.pop();
                    rest = after;
                }
            } else {
                rest = &rest[start.len()..];
            }
            paths(&prefix, rest, &mut found);
        }
    }
    found
}

/// Reads `a::b`, `a::{b, c::d}` and the like at the beginning of `text`; keeps two segments of each.
fn paths(prefix: &[String], text: &str, found: &mut BTreeSet<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let space = rest.len() - rest.trim_start().len();
        at += space;
        let rest = &text[at..];
        if rest.starts_with('{') {
            at += 1;
            loop {
                at += paths(&path, &text[at..], found);
                let rest = &text[at..];
                at += rest.len() - rest.trim_start().len();
                match text[at..].chars().next() {
                    Some(',') => at += 1,
                    Some('}') => return at + 1,
                    _ => return at,
                }
            }
        }
        let word = rest.len() - rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
        if word == 0 {
            return at;
        }
        path.push(rest[..word].to_owned());
        at += word;
        if let Some(after) = text[at..].strip_prefix("::") {
            at = text.len() - after.len();
            continue;
        }
        found.insert(path.iter().take(2).cloned().collect());
        let rest = &text[at..];
        if let Some(after) = rest.strip_prefix(" as ") {
            let word = after.len() - after.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').len();
            at = text.len() - after.len() + word;
        }
        return at;
    }
}
