//! The corpora of hostile and real arguments, read from the folder that `COUNTERSIGN_CORPORA` names.
//!
//! Each test prints how many rows were accepted, refused, and differ from what the row says without being unsafe.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{kind, resolve};

/// The rows of one file, or `None`, said clearly, where there are no corpora.
fn rows(file: &str) -> Option<Vec<Value>> {
    let Some(folder) = std::env::var_os("COUNTERSIGN_CORPORA") else {
        println!("SKIPPED {file}: COUNTERSIGN_CORPORA is not set, so nothing was checked");
        return None;
    };
    let path = PathBuf::from(folder).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // Rows with lone surrogates are no JSON for us: a request that holds one is refused before any kind sees it.
    let rows: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let unreadable = text.lines().count() - rows.len();
    if unreadable > 0 {
        println!("{file}: {unreadable} rows hold a lone surrogate and are refused as JSON");
    }
    Some(rows)
}

#[derive(Default)]
struct Tally {
    accepted: usize,
    refused: usize,
    differs: usize,
    unsafe_rows: Vec<String>,
}

impl Tally {
    fn unsafe_row(&mut self, row: &Value, why: &str) {
        self.unsafe_rows.push(format!("{} {why}", row["id"]));
    }

    fn report(self, file: &str) {
        let Self { accepted, refused, differs, unsafe_rows } = self;
        println!("{file}: {accepted} accepted, {refused} refused, {differs} differ");
        assert!(unsafe_rows.is_empty(), "{file}: read less safely than stated:\n{}", unsafe_rows.join("\n"));
    }
}

/// Refusals among plainly good inputs, which must stay under one in a hundred.
fn few_are_refused(what: &str, refused: &[String], of: usize) {
    println!("{what}: {} of {of} plainly good inputs refused {refused:?}", refused.len());
    assert!(refused.len() * 100 <= of, "{what}: {refused:?}");
}

#[test]
fn no_path_leads_to_another_file() {
    let kind = kind(json!({ "kind": "path", "base": "/srv/data" }));
    let Some(rows) = rows("path.jsonl") else { return };
    let mut tally = Tally::default();
    for row in rows {
        let Ok(value) = resolve(&kind, row["path"].clone()) else {
            tally.refused += 1;
            tally.differs += usize::from(row["escapes_root_decoded"] == false);
            continue;
        };
        tally.accepted += 1;
        if row["escapes_root_decoded"] != false {
            tally.unsafe_row(&row, "is inside the root");
        } else if value["path"] != row["posix_literal"] {
            tally.unsafe_row(&row, &format!("resolves to {} and not {}", value["path"], row["posix_literal"]));
        }
    }
    tally.report("path.jsonl");
}

#[test]
fn no_address_leads_to_another_host_than_the_standard_says() {
    let kind = kind(json!({
        "kind": "url", "schemes": ["https", "http", "wss", "ws", "ftp"], "allow_ips": true,
        "ports": (1..=65535).collect::<Vec<u16>>(),
    }));
    let Some(rows) = rows("url_wpt.jsonl") else { return };
    let mut tally = Tally::default();
    for row in rows {
        let Ok(value) = resolve(&kind, row["input"].clone()) else {
            tally.refused += 1;
            tally.differs += usize::from(row["failure"] == false);
            continue;
        };
        tally.accepted += 1;
        if row["failure"] != false || value["host"] != row["hostname"] {
            tally.unsafe_row(&row, &format!("resolves to {}", value["host"]));
        }
    }
    tally.report("url_wpt.jsonl");
}

#[test]
fn no_spelling_reaches_a_host_that_is_not_listed_or_not_public() {
    let schemes = json!(["https", "http", "wss", "ws", "ftp"]);
    let ports: Vec<u16> = (1..=65535).collect();
    let listed = kind(
        json!({ "kind": "url", "schemes": schemes, "ports": ports, "hosts": ["good.example.com"], "default_scheme": "https" }),
    );
    let any = kind(
        json!({ "kind": "url", "schemes": schemes, "ports": ports, "hosts": ["*"], "allow_ips": true, "default_scheme": "https" }),
    );
    let Some(rows) = rows("url_ssrf.jsonl") else { return };
    let mut tally = Tally::default();
    for row in rows {
        let host = row["whatwg"]["host"].as_str();
        match resolve(&listed, row["url"].clone()) {
            Ok(value) => {
                tally.accepted += 1;
                if value["host"] != "good.example.com" || host.is_some_and(|host| host != "good.example.com") {
                    tally.unsafe_row(&row, "passes where only good.example.com is listed");
                }
            }
            Err(_) => {
                tally.refused += 1;
                tally.differs += usize::from(host == Some("good.example.com"));
            }
        }
        if let Ok(value) = resolve(&any, row["url"].clone()) {
            let host = value["host"].as_str().expect("a host");
            if !matches!(
                host,
                "216.58.214.206"
                    | "google.com"
                    | "www.google.com"
                    | "example.com"
                    | "good.example.com"
                    | "docs.aws.amazon.com"
                    | "help.redacted.com"
                    | "azure.microsoft.com"
                    | "docs.microsoft.com"
                    | "rancher.com"
                    | "62epax5fhvj3zzmzigyoe5ipkbn7fysllvges3a.302.r3dir.me"
            ) {
                tally.unsafe_row(&row, &format!("reaches {host}"));
            }
        }
    }
    tally.report("url_ssrf.jsonl");
}

#[test]
fn no_host_becomes_another_than_the_standard_says() {
    let kind = kind(json!({ "kind": "hostname", "hosts": ["*"], "allow_ips": true }));
    let Some(rows) = rows("host_idna_wpt.jsonl") else { return };
    let mut tally = Tally::default();
    for row in rows {
        let input = row["input"].as_str().expect("a string");
        // The rows have no public suffix; one is added to reach past the rule for public hosts.
        for (input, expected) in [
            (input.to_owned(), row["ascii_host"].as_str().unwrap_or_default().to_owned()),
            (format!("{input}.com"), format!("{}.com", row["ascii_host"].as_str().unwrap_or_default())),
        ] {
            match resolve(&kind, input) {
                Ok(value) => {
                    tally.accepted += 1;
                    if row["failure"] != false || value["host"] != expected.as_str() {
                        tally.unsafe_row(&row, &format!("becomes {}", value["host"]));
                    }
                }
                Err(_) => {
                    tally.refused += 1;
                    tally.differs += usize::from(row["failure"] == false);
                }
            }
        }
    }
    tally.report("host_idna_wpt.jsonl");
}

#[test]
fn no_unsafe_address_can_match_an_allow_rule() {
    let kind = kind(json!({ "kind": "email" }));
    let Some(rows) = rows("email.jsonl") else { return };
    let mut tally = Tally::default();
    for row in rows {
        match resolve(&kind, row["address"].clone()) {
            Ok(value) => {
                tally.accepted += 1;
                let recipients = value.as_array().expect("a list");
                // What a rule such as `resolved.to.all(r, r.domain == ...)` of that category would see.
                let allowed = row["category"].as_str().and_then(|category| category.strip_prefix("allow-domain "));
                let matches = allowed.is_none_or(|allowed| recipients.iter().all(|one| one["domain"] == allowed));
                if matches && row["safe_to_allow_match"] == false {
                    tally.unsafe_row(&row, &format!("resolves to {value}"));
                }
            }
            Err(_) => {
                tally.refused += 1;
                tally.differs += usize::from(row["safe_to_allow_match"] == true);
            }
        }
    }
    tally.report("email.jsonl");
}

const DIALECTS: [&str; 5] = ["postgres", "mysql", "sqlite", "mssql", "generic"];

fn kind_of_sql(dialect: &str, text: &Value) -> String {
    resolve(&kind(json!({ "kind": "sql", "dialect": dialect })), text.clone())
        .map_or("refused".to_owned(), |value| value["kind"].as_str().expect("a kind").to_owned())
}

#[test]
fn no_statement_that_writes_is_a_read_in_any_dialect() {
    let Some(rows) = rows("sql_statements.jsonl") else { return };
    for dialect in DIALECTS {
        let mut tally = Tally::default();
        let mut missed = Vec::new();
        for row in &rows {
            let is_read = kind_of_sql(dialect, &row["sql"]) == "read";
            if is_read && row["read_only"] != true {
                tally.unsafe_row(row, &row["sql"].to_string());
            }
            tally.differs += usize::from(!is_read && row["read_only"] == true);
            *(if is_read { &mut tally.accepted } else { &mut tally.refused }) += 1;
            if !is_read && row["read_only"] == true && row["label"] == "hand" {
                missed.push(row["sql"].clone());
            }
        }
        println!("{dialect}: hand-labelled reads that are not read: {missed:?}");
        tally.report(&format!("sql_statements.jsonl ({dialect})"));
    }
}

#[test]
fn no_fragment_is_a_read_but_a_whole_query() {
    let Some(rows) = rows("sql_fragments.jsonl") else { return };
    for dialect in DIALECTS {
        let mut tally = Tally::default();
        for row in &rows {
            let is_read = kind_of_sql(dialect, &row["fragment"]) == "read";
            let text = row["fragment"].as_str().expect("a string");
            let begins_as_query =
                ["select", "(", "with", "values", "show", "explain", "describe", "desc", "table", ";"]
                    .iter()
                    .any(|start| text.trim_start().to_lowercase().starts_with(start));
            if is_read && !begins_as_query {
                tally.unsafe_row(row, text);
            }
            *(if is_read { &mut tally.accepted } else { &mut tally.refused }) += 1;
        }
        tally.report(&format!("sql_fragments.jsonl ({dialect})"));
    }
}

#[test]
fn commands_are_read_or_refused_and_never_loosen() {
    let kind = kind(json!({ "kind": "command" }));
    let Some(rows) = rows("command_fragments.jsonl") else { return };
    let mut tally = Tally::default();
    for row in rows {
        match resolve(&kind, row["fragment"].clone()) {
            Ok(_) => tally.accepted += 1,
            Err(_) => tally.refused += 1,
        }
    }
    tally.report("command_fragments.jsonl");
}

#[test]
fn plainly_good_inputs_are_taken() {
    let path = kind(json!({ "kind": "path", "base": "/srv/data" }));
    let mut refused = Vec::new();
    let mut count = 0;
    for folder in ["", "src/", "docs/2024/", "/srv/data/", "./", "a b/", "Projekte/Übersicht/", "日本/"] {
        for stem in [
            "a",
            "README",
            "report (final)",
            "x-y_z",
            ".gitignore",
            "v1.2.3",
            "naïve",
            "100%",
            "a+b=c",
            "#1",
            "[id]",
            "index.test",
            "~",
        ] {
            for extension in ["", ".txt", ".tar.gz", ".PDF"] {
                count += 1;
                let text = format!("{folder}{stem}{extension}");
                if resolve(&path, text.as_str()).is_err() && !stem.starts_with('~') {
                    refused.push(text);
                }
            }
        }
    }
    few_are_refused("path", &refused, count);

    let url = kind(json!({ "kind": "url", "schemes": ["https", "http"] }));
    let mut refused = Vec::new();
    let mut count = 0;
    for host in [
        "github.com",
        "API.github.com",
        "a-b.c.co.uk",
        "bücher.de",
        "例え.jp",
        "s3.eu-west-1.amazonaws.com",
        "1password.com",
        "r3---sn-x.googlevideo.com",
    ] {
        for path in [
            "",
            "/",
            "/a/b.html",
            "/a_b/c-d/~e/",
            "/wiki/Café_(x)",
            "/a%20b",
            "/x;v=1,2",
            "/@user/p:q",
            "/a//b",
            "/100%25",
        ] {
            for query in ["", "?a=b", "?q=a+b&c=%2Fd%2F&e[]=1", "?x=a|b#frag", "#!/a/b"] {
                count += 1;
                let text = format!("https://{host}{path}{query}");
                if resolve(&url, text.as_str()).is_err() {
                    refused.push(text);
                }
            }
        }
    }
    few_are_refused("url", &refused, count);

    let email = kind(json!({ "kind": "email" }));
    let mut refused = Vec::new();
    let mut count = 0;
    for local in ["a", "ana.lee", "Ops+tag", "o'neil", "x_y-z", "123", "first.middle.last", "a=b", "bounce+u=d"] {
        for domain in ["acme.com", "mail.acme.co.uk", "ACME.example", "bücher.de", "x-y.io", "3com.com"] {
            for text in [
                format!("{local}@{domain}"),
                format!("Ana Lee <{local}@{domain}>"),
                format!("{local}@{domain}, b@c.org"),
            ] {
                count += 1;
                if resolve(&email, text.as_str()).is_err() {
                    refused.push(text);
                }
            }
        }
    }
    few_are_refused("email", &refused, count);

    let mut refused = Vec::new();
    let mut count = 0;
    for dialect in DIALECTS {
        for columns in
            ["*", "id, name", "count(*) AS n", "o.id, o.total * 1.2 AS gross", "coalesce(name, '-')", "max(created_at)"]
        {
            for from in [
                "orders o",
                "shop.orders AS o",
                "orders o JOIN customers c ON c.id = o.customer_id",
                "(SELECT * FROM orders) o",
                "orders o LEFT JOIN items i ON i.order_id = o.id AND i.n > 0",
            ] {
                for rest in [
                    "",
                    " WHERE o.id = 42",
                    " WHERE name LIKE '%x%' AND NOT (total > 10 OR total IS NULL)",
                    " WHERE id IN (SELECT order_id FROM refunds)",
                    " WHERE created_at BETWEEN '2024-01-01' AND '2024-12-31' ORDER BY 1 DESC",
                    " GROUP BY name HAVING count(*) > 1;",
                ] {
                    count += 1;
                    let text = format!("SELECT {columns} FROM {from}{rest}");
                    if kind_of_sql(dialect, &json!(text)) != "read" {
                        refused.push(format!("{dialect}: {text}"));
                    }
                }
            }
        }
    }
    few_are_refused("sql", &refused, count);
}
