//! `[channels]` and `[callbacks]`: where messages go, and with which secrets.

use super::{Secret, reader::Section};

/// One entry of `[channels]`, as it is written.
#[derive(Debug)]
pub struct ChannelSettings {
    /// The entry's name.
    pub name: String,
    /// The groups whose approvals are told there; none: all.
    pub groups: Vec<String>,
    /// The channel that is told when this one cannot be reached.
    pub fallback: Option<String>,
    /// Hours in which nobody is to be disturbed, such as `22:00-07:00`.
    pub quiet_hours: Option<String>,
    /// The time zone of those hours, by its IANA name; UTC.
    pub time_zone: Option<String>,
    /// How it is reached.
    pub means: ChannelMeans,
}

/// How a channel is reached, by its `kind`.
#[derive(Debug)]
pub enum ChannelMeans {
    /// `slack`, with a bot token.
    Slack(SlackSettings),
    /// `slack`, with an incoming webhook.
    SlackWebhook {
        /// The webhook's address, which is its secret.
        webhook_url: Secret,
        /// Whether it may be a private one.
        allow_private_addresses: bool,
    },
    /// `teams`.
    Teams {
        /// The workflow's address, which is its secret.
        url: Secret,
        /// Whether it may be a private one.
        allow_private_addresses: bool,
    },
    /// `email`.
    Email {
        /// The server, and how to log in there.
        smtp_url: Secret,
        /// The sender's address.
        from: String,
        /// Whether the server may be spoken to without encryption.
        allow_plaintext: bool,
    },
    /// `webhook`.
    Webhook(WebhookSettings),
}

/// A Slack app.
#[derive(Debug)]
pub struct SlackSettings {
    /// The team (workspace).
    pub team: String,
    /// The app; clicks from another one are refused.
    pub app: Option<String>,
    /// The channel's id.
    pub channel: String,
    /// The token that posts.
    pub bot_token: Secret,
    /// What requests of Slack are signed with; without one there are no buttons.
    pub signing_secret: Option<Secret>,
    /// Slack's API; `https://slack.com/api`.
    pub api_url: String,
    /// Whether the API may be at a private address.
    pub allow_private_addresses: bool,
}

/// A receiver of Standard Webhooks.
#[derive(Debug)]
pub struct WebhookSettings {
    /// Where events are sent to.
    pub url: String,
    /// What they are signed with: the current secret or key first, then the one before.
    pub secrets: Vec<Secret>,
    /// Whether it may be a private address.
    pub allow_private_addresses: bool,
}

/// One entry of `[callbacks]`: the webhook of the stack that runs an agent.
#[derive(Debug)]
pub struct CallbackSettings {
    /// The agent.
    pub agent: String,
    /// Its webhook.
    pub webhook: WebhookSettings,
}

impl ChannelSettings {
    pub(super) fn read((name, mut section): (String, Section<'_>)) -> Option<Self> {
        let groups = section.texts("groups");
        let fallback = section.text("fallback");
        let quiet_hours = section.line("quiet_hours", 20);
        let time_zone = section.line("time_zone", 60);
        let means = ChannelMeans::read(&mut section);
        section.finish();
        Some(Self { name, groups, fallback, quiet_hours, time_zone, means: means? })
    }
}

impl ChannelMeans {
    fn read(section: &mut Section<'_>) -> Option<Self> {
        const KINDS: &str = "write slack, webhook, teams or email";
        let Some(kind) = section.text("kind") else {
            section.missing("kind", KINDS);
            return None;
        };
        match kind.as_str() {
            "slack" if section.has("webhook_url") => Some(Self::SlackWebhook {
                allow_private_addresses: section.boolean("allow_private_addresses").unwrap_or(false),
                webhook_url: section.secret("webhook_url")?,
            }),
            "slack" => SlackSettings::read(section).map(Self::Slack),
            "teams" => Some(Self::Teams {
                allow_private_addresses: section.boolean("allow_private_addresses").unwrap_or(false),
                url: section.needed_secret("url")?,
            }),
            "email" => {
                let (smtp_url, from) = (section.needed_secret("smtp_url"), section.needed("from"));
                let allow_plaintext = section.boolean("allow_plaintext").unwrap_or(false);
                Some(Self::Email { smtp_url: smtp_url?, from: from?, allow_plaintext })
            }
            "webhook" => WebhookSettings::read(section).map(Self::Webhook),
            _ => {
                section.fault("kind", "is no kind of channel", KINDS);
                None
            }
        }
    }
}

impl SlackSettings {
    fn read(section: &mut Section<'_>) -> Option<Self> {
        let (team, channel) = (section.needed("team"), section.needed("channel"));
        let app = section.text("app");
        let (bot_token, signing_secret) = (section.needed_secret("bot_token"), section.secret("signing_secret"));
        let api_url = section.base_url("api_url").unwrap_or_else(|| "https://slack.com/api".to_owned());
        let allow_private_addresses = section.boolean("allow_private_addresses").unwrap_or(false);
        Some(Self {
            team: team?,
            app,
            channel: channel?,
            bot_token: bot_token?,
            signing_secret,
            api_url,
            allow_private_addresses,
        })
    }
}

impl WebhookSettings {
    fn read(section: &mut Section<'_>) -> Option<Self> {
        let url = section.needed("url");
        let secret = section.needed_secret("secret");
        let previous = section.secret("previous_secret");
        let allow_private_addresses = section.boolean("allow_private_addresses").unwrap_or(false);
        Some(Self { url: url?, secrets: [secret?].into_iter().chain(previous).collect(), allow_private_addresses })
    }
}

impl CallbackSettings {
    pub(super) fn read((agent, mut section): (String, Section<'_>)) -> Option<Self> {
        let webhook = WebhookSettings::read(&mut section);
        section.finish();
        Some(Self { agent, webhook: webhook? })
    }
}
