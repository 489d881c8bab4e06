//! Secrets are fetched from where the settings say, and shown nowhere.

use super::Written;

#[test]
fn a_secret_comes_from_a_variable_or_a_file() {
    let settings = Written::new("").env("SIGNING", "from the variable");
    let path = settings.file("previous.pem", b"line one\nline two\n");
    let windows = settings.file("windows.pem", b"one line\r\n");
    let permits = settings
        .env("COUNTERSIGN_PERMITS__SIGNING_KEY", "env:SIGNING")
        .env("COUNTERSIGN_PERMITS__PREVIOUS_KEYS", &format!("file:{path},file:{windows}"))
        .config()
        .permits;
    assert_eq!(permits.signing_key.unwrap().expose(), "from the variable");
    let previous: Vec<&str> = permits.previous_keys.iter().map(|key| key.expose()).collect();
    assert_eq!(previous, ["line one\nline two", "one line"]);
}

#[test]
fn a_secret_written_into_the_settings_is_refused_and_not_repeated() {
    let settings = Written::new("[permits]\nseal_key = \"hunter2\"").env("COUNTERSIGN_PERMITS__SIGNING_KEY", "hunter2");
    let faults = settings.faults();
    assert_eq!(faults.len(), 2);
    for fault in faults {
        assert_eq!(fault.message, "is a secret and must not be written here");
        assert_eq!(fault.hint, "write \"env:NAME\" or \"file:PATH\"");
    }
}

#[test]
fn a_secret_that_cannot_be_had_is_a_fault() {
    let settings = Written::new("").env("EMPTY", "");
    let binary = settings.file("binary", &[0xff, 0xfe]);
    let blank = settings.file("blank", b"\n");
    let references = format!("env:NOT_SET,env:EMPTY,env:,file:/nonexistent,file:,file:{binary},file:{blank}");
    let faults = settings.env("COUNTERSIGN_PERMITS__PREVIOUS_KEYS", &references).faulty_settings();
    assert_eq!(faults, ["permits.previous_keys"; 7]);
}

#[test]
fn a_seal_key_is_thirty_two_bytes_in_base64() {
    let with = |value: &str| Written::new("[permits]\nseal_key = \"env:SEAL\"").env("SEAL", value);
    let config = with("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=").config();
    assert_eq!(config.permits.seal_key.unwrap().expose(), &[1; 32]);
    for wrong in [
        "hunter2",
        "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE",
        "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==",
        "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB",
    ] {
        let faults = with(wrong).faults();
        assert_eq!(faults[0].setting, "permits.seal_key", "{wrong}");
        assert!(!faults[0].to_string().contains(wrong));
    }
}

#[test]
fn the_databases_address_may_be_a_secret() {
    let url = "postgres://app:hunter2@db/countersign";
    let settings = Written::new("database_url = \"env:DATABASE_URL\"").env("DATABASE_URL", url);
    assert_eq!(settings.config().database_url.expose(), url);
    let wrong = Written::new("database_url = \"env:DATABASE_URL\"").env("DATABASE_URL", "mysql://app:hunter2@db/x");
    assert_eq!(wrong.faulty_settings(), ["database_url"]);
    assert!(!wrong.faults()[0].to_string().contains("hunter2"));
}

#[test]
fn no_debug_text_shows_a_secret() {
    let settings = Written::new(
        r#"
        database_url = "postgres://app:hunter2@db/countersign"
        [permits]
        signing_key = "env:SECRET"
        previous_keys = ["env:SECRET"]
        seal_key = "env:SEAL"
        [audit]
        checkpoint_key = "env:SECRET"
        "#,
    )
    .env("SECRET", "hunter2")
    .env("SEAL", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=");
    let text = format!("{:?}", settings.config());
    assert!(!text.contains("hunter2") && !text.contains("AQEB") && !text.contains("1, 1"), "{text}");
}
