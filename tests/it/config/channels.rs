//! `[channels]` and `[callbacks]`: read whole or refused.

use countersign::config::{ChannelMeans, Config};

use super::Written;

fn read(toml: &str) -> Config {
    Written::new(toml).env("TOKEN", "xoxb-1").env("SECRET", "whsec_x").env("URL", "https://t.example/x").config()
}

#[test]
fn every_kind_of_channel_is_read_with_its_secrets() {
    let config = read(
        r#"
        [channels.chat]
        kind = "slack"
        groups = ["finance"]
        fallback = "hook"
        quiet_hours = "22:00-07:00"
        time_zone = "Europe/Berlin"
        team = "T1"
        app = "A1"
        channel = "C1"
        bot_token = "env:TOKEN"
        signing_secret = "env:SECRET"
        [channels.hook]
        kind = "webhook"
        url = "https://hooks.example/x"
        secret = "env:SECRET"
        previous_secret = "env:SECRET"
        [channels.mail]
        kind = "email"
        smtp_url = "env:URL"
        from = "a@b.example"
        allow_plaintext = true
        [channels.plain]
        kind = "slack"
        webhook_url = "env:URL"
        [channels.teams]
        kind = "teams"
        url = "env:URL"
        [callbacks.billing-bot]
        url = "https://agents.example/resume"
        secret = "env:SECRET"
        allow_private_addresses = true
        "#,
    );
    let [chat, hook, mail, plain, teams] = config.channels.as_slice() else { panic!("{:?}", config.channels) };
    assert_eq!((chat.name.as_str(), chat.groups.as_slice()), ("chat", &["finance".to_owned()][..]));
    assert_eq!(chat.fallback.as_deref(), Some("hook"));
    let ChannelMeans::Slack(slack) = &chat.means else { panic!("{chat:?}") };
    assert_eq!((slack.team.as_str(), slack.channel.as_str()), ("T1", "C1"));
    assert_eq!((slack.api_url.as_str(), slack.bot_token.expose()), ("https://slack.com/api", "xoxb-1"));
    let ChannelMeans::Webhook(webhook) = &hook.means else { panic!("{hook:?}") };
    assert_eq!((webhook.secrets.len(), webhook.allow_private_addresses), (2, false));
    assert!(matches!(&mail.means, ChannelMeans::Email { from, allow_plaintext: true, .. } if from == "a@b.example"));
    assert!(matches!(plain.means, ChannelMeans::SlackWebhook { .. }));
    assert!(matches!(teams.means, ChannelMeans::Teams { .. }));
    let callback = &config.callbacks[0];
    assert_eq!((callback.agent.as_str(), callback.webhook.allow_private_addresses), ("billing-bot", true));
    assert!(!format!("{config:?}").contains("xoxb-1"), "no secret is shown");
}

#[test]
fn half_a_channel_is_none() {
    let faults = |toml| Written::new(toml).env("X", "x").faulty_settings();
    assert_eq!(faults("[channels.a]"), ["channels.a.kind"]);
    assert_eq!(faults("[channels.a]\nkind = \"pigeon\""), ["channels.a.kind"]);
    assert_eq!(
        faults("[channels.a]\nkind = \"slack\""),
        ["channels.a.team", "channels.a.channel", "channels.a.bot_token"]
    );
    assert_eq!(faults("[channels.a]\nkind = \"webhook\"\nurl = \"https://x\""), ["channels.a.secret"]);
    assert_eq!(faults("[channels.a]\nkind = \"teams\"\nurl = \"https://x\""), ["channels.a.url"]);
    assert_eq!(
        faults("[channels.a]\nkind = \"email\"\nsmtp_url = \"env:X\"\nfrom = \"a@b\"\nteam = \"T1\""),
        ["channels.a.team"]
    );
    assert_eq!(faults("[callbacks.bot]\nurl = \"https://x\""), ["callbacks.bot.secret"]);
}
