//! From the settings of `[channels]` and `[callbacks]` to who is told of what, and by whom.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use secrecy::SecretString;

use crate::{
    app::{deliver::Couriers, ports::Clock},
    channels::{
        email::{EmailCourier, NoMail},
        slack::{
            ATTEMPT, SlackClient, SlackCourier, SlackDoors, SlackEntry, SlackWebhookCourier, interaction,
            message::Clicks,
        },
        teams::TeamsCourier,
        webhook::{WebhookCourier, WebhookKey},
    },
    config::{CallbackSettings, ChannelMeans, ChannelSettings, ConfigFault, Secret, SlackSettings, WebhookSettings},
    domain::{
        channel::{Channel, ChannelFault, ChannelKind, Channels, Destination, QuietHours},
        identity::{AgentId, ChannelName, GroupName, ReviewerDirectory},
    },
    outbound::Outbound,
};

/// How a mail server is written.
const MAIL_SERVER: &str = "write smtps://USER:PASSWORD@HOST, or smtp://HOST:587?tls=required";
const MAIL_SERVER_OR_PLAIN: &str = "write smtps://..., or add ?tls=required; allow_plaintext = true is for a server that is reached by no open network";

/// Who is told, and what it takes to tell them.
#[derive(Default)]
pub(super) struct Ways {
    /// Who is told of what.
    pub(super) channels: Channels,
    means: Vec<(Destination, Means)>,
}

/// What it takes to reach a destination.
enum Means {
    Webhook { url: String, keys: Vec<WebhookKey>, allow_private: bool },
    Slack(SlackMeans),
    SlackWebhook { url: Arc<str>, allow_private: bool },
    Teams { url: SecretString, allow_private: bool },
    Email(EmailCourier),
}

/// What it takes to post into a channel of Slack, and to believe what comes from there.
struct SlackMeans {
    team: String,
    app: Option<String>,
    channel: String,
    token: Arc<str>,
    secret: Option<String>,
    api_url: String,
    allow_private: bool,
}

impl SlackMeans {
    fn client(&self, outbound: &Outbound) -> SlackClient {
        SlackClient {
            outbound: outbound.clone(),
            api_url: self.api_url.clone(),
            token: Arc::clone(&self.token),
            allow_private: self.allow_private,
            patience: ATTEMPT,
        }
    }
}

impl Ways {
    /// What the settings say, as far as it is at no fault.
    pub(super) fn read(
        channels: &[ChannelSettings],
        callbacks: &[CallbackSettings],
        host: &str,
        faults: &mut Vec<ConfigFault>,
    ) -> Self {
        let mut means = Vec::new();
        let mut entries = Vec::new();
        for settings in channels {
            let place = format!("channels.{}", settings.name);
            let Some(entry) = channel(settings, &place, faults) else { continue };
            let to = Destination::Channel(entry.name.clone());
            match &settings.means {
                ChannelMeans::Webhook(webhook) => {
                    means.extend(webhook_means(webhook, &place, faults).map(|webhook| (to, webhook)));
                }
                ChannelMeans::Slack(slack) => {
                    means.extend(slack_means(slack, &place, faults).map(|slack| (to, Means::Slack(slack))));
                }
                ChannelMeans::SlackWebhook { webhook_url, allow_private_addresses: allow_private } => {
                    check_url(webhook_url.expose(), *allow_private, &format!("{place}.webhook_url"), faults);
                    let url = Arc::from(webhook_url.expose());
                    means.push((to, Means::SlackWebhook { url, allow_private: *allow_private }));
                }
                ChannelMeans::Teams { url, allow_private_addresses } => {
                    check_url(url.expose(), *allow_private_addresses, &format!("{place}.url"), faults);
                    let url = SecretString::from(url.expose());
                    means.push((to, Means::Teams { url, allow_private: *allow_private_addresses }));
                }
                ChannelMeans::Email { smtp_url, from, allow_plaintext } => {
                    match EmailCourier::new(smtp_url.expose(), *allow_plaintext, from, host) {
                        Ok(courier) => means.push((to, Means::Email(courier))),
                        Err(fault) => {
                            let (key, hint) = match fault {
                                NoMail::Server => ("smtp_url", MAIL_SERVER),
                                NoMail::Plaintext => ("smtp_url", MAIL_SERVER_OR_PLAIN),
                                NoMail::Sender => ("from", "write it as Name <name@host>"),
                            };
                            faults.push(ConfigFault::new(format!("{place}.{key}"), fault.to_string(), hint));
                        }
                    }
                }
            }
            entries.push(entry);
        }
        check_slack_secrets(channels, faults);
        let mut agents = BTreeSet::new();
        for settings in callbacks {
            let place = format!("callbacks.{}", settings.agent);
            match AgentId::parse(&settings.agent) {
                Ok(agent) => {
                    let to = Destination::Callback(agent.clone());
                    means.extend(webhook_means(&settings.webhook, &place, faults).map(|webhook| (to, webhook)));
                    agents.insert(agent);
                }
                Err(error) => faults.push(ConfigFault::new(place, format!("is {error}"), "name an agent")),
            }
        }
        let channels = match Channels::new(entries, agents) {
            Ok(channels) => channels,
            Err(found) => {
                for fault in found {
                    let ChannelFault::Fallback { channel, problem } = fault;
                    let place = format!("channels.{channel}.fallback");
                    faults.push(ConfigFault::new(place, problem, "name another channel"));
                }
                Channels::default()
            }
        };
        Self { channels, means }
    }

    /// What requests of Slack are verified with: the entries that have a signing secret.
    pub(super) fn slack_doors(&self, outbound: &Outbound) -> SlackDoors {
        SlackDoors::new(self.means.iter().filter_map(|(to, means)| {
            let (Destination::Channel(name), Means::Slack(slack)) = (to, means) else { return None };
            let entry = SlackEntry {
                name: name.clone(),
                team: slack.team.clone(),
                app: slack.app.clone(),
                channel: slack.channel.clone(),
                client: slack.client(outbound),
            };
            Some((slack.secret.clone()?, entry))
        }))
    }

    /// Everybody who delivers.
    pub(super) fn couriers(self, outbound: &Outbound, clock: &Arc<dyn Clock>) -> (Channels, Couriers) {
        let mut couriers = Couriers::new();
        for (to, means) in self.means {
            match means {
                Means::Webhook { url, keys, allow_private } => {
                    let (outbound, clock) = (outbound.clone(), Arc::clone(clock));
                    couriers.insert(to, Arc::new(WebhookCourier { outbound, clock, url, keys, allow_private }));
                }
                Means::Slack(slack) => {
                    let clicks = if slack.secret.is_some() { Clicks::Verified } else { Clicks::Nobodys };
                    let (client, channel) = (slack.client(outbound), slack.channel);
                    couriers.insert(to, Arc::new(SlackCourier { client, channel, clicks }));
                }
                Means::SlackWebhook { url, allow_private } => {
                    let outbound = outbound.clone();
                    couriers.insert(to, Arc::new(SlackWebhookCourier { outbound, url, allow_private }));
                }
                Means::Teams { url, allow_private } => {
                    let outbound = outbound.clone();
                    couriers.insert(to, Arc::new(TeamsCourier { outbound, url, allow_private }));
                }
                Means::Email(courier) => {
                    couriers.insert(to, Arc::new(courier));
                }
            }
        }
        (self.channels, couriers)
    }
}

/// An entry of `[channels]`, but for how it is reached.
fn channel(settings: &ChannelSettings, place: &str, faults: &mut Vec<ConfigFault>) -> Option<Channel> {
    let before = faults.len();
    let mut invalid = |key: &str, error: String, hint: &str| {
        faults.push(ConfigFault::new(format!("{place}{key}"), error, hint));
    };
    let another = "choose another name";
    let name = ChannelName::parse(&settings.name).map_err(|error| invalid("", format!("is {error}"), another)).ok();
    let mut groups = BTreeSet::new();
    for group in &settings.groups {
        match GroupName::parse(group) {
            Ok(group) => drop(groups.insert(group)),
            Err(error) => invalid(".groups", format!("{group:?} is {error}"), another),
        }
    }
    let fallback = settings.fallback.as_ref().and_then(|name| {
        ChannelName::parse(name).map_err(|error| invalid(".fallback", format!("is {error}"), another)).ok()
    });
    let quiet = match (&settings.quiet_hours, &settings.time_zone) {
        (Some(hours), zone) => QuietHours::parse(hours, zone.as_deref().unwrap_or("UTC"))
            .map_err(|error| {
                let hint = "write quiet_hours = \"22:00-07:00\" and time_zone = \"Europe/Berlin\"";
                invalid(".quiet_hours", error.to_string(), hint);
            })
            .ok(),
        (None, Some(_)) => {
            invalid(".time_zone", "does nothing without quiet_hours".to_owned(), "set both, or neither");
            None
        }
        (None, None) => None,
    };
    let kind = match &settings.means {
        ChannelMeans::Slack(_) => ChannelKind::Slack,
        ChannelMeans::SlackWebhook { .. } => ChannelKind::SlackWebhook,
        ChannelMeans::Teams { .. } => ChannelKind::Teams,
        ChannelMeans::Email { .. } => ChannelKind::Email,
        ChannelMeans::Webhook(_) => ChannelKind::Webhook,
    };
    let name = name?;
    (faults.len() == before).then_some(Channel { name, kind, groups, fallback, quiet })
}

fn webhook_means(settings: &WebhookSettings, place: &str, faults: &mut Vec<ConfigFault>) -> Option<Means> {
    let before = faults.len();
    check_url(&settings.url, settings.allow_private_addresses, &format!("{place}.url"), faults);
    let key = |secret: &Secret| WebhookKey::parse(secret.expose());
    let keys = settings.secrets.iter().map(key).collect::<Result<Vec<_>, _>>();
    let hint = "make one: echo whsec_$(openssl rand -base64 32)";
    let keys = keys.map_err(|error| faults.push(ConfigFault::new(format!("{place}.secret"), error.to_string(), hint)));
    let keys = keys.ok()?;
    let means = Means::Webhook { url: settings.url.clone(), keys, allow_private: settings.allow_private_addresses };
    (faults.len() == before).then_some(means)
}

fn slack_means(settings: &SlackSettings, place: &str, faults: &mut Vec<ConfigFault>) -> Option<SlackMeans> {
    let before = faults.len();
    let mut check = |fits: bool, key: &str, what: &str, hint: &str| {
        if !fits {
            faults.push(ConfigFault::new(format!("{place}.{key}"), what, hint));
        }
    };
    let is_id = |text: &str, initials: &[char]| text.starts_with(initials) && interaction::is_id(text);
    check(is_id(&settings.team, &['T', 'E']), "team", "is no team of Slack", "write its id, such as T0123ABCD");
    check(
        is_id(&settings.channel, &['C', 'G', 'D']),
        "channel",
        "is no channel of Slack",
        "write its id, such as C0123ABCD, and not its name",
    );
    let app = settings.app.as_deref();
    check(app.is_none_or(|app| is_id(app, &['A'])), "app", "is no app of Slack", "write its id, such as A0123ABCD");
    let visible =
        |secret: &str, least: usize| secret.len() >= least && secret.bytes().all(|byte| byte.is_ascii_graphic());
    check(visible(settings.bot_token.expose(), 8), "bot_token", "is no token of Slack", "it begins with xoxb-");
    let secret = settings.signing_secret.as_ref();
    check(
        secret.is_none_or(|secret| visible(secret.expose(), 16)),
        "signing_secret",
        "is no signing secret of Slack",
        "copy it from the app's Basic Information",
    );
    check_url(&settings.api_url, settings.allow_private_addresses, &format!("{place}.api_url"), faults);
    let means = SlackMeans {
        team: settings.team.clone(),
        app: settings.app.clone(),
        channel: settings.channel.clone(),
        token: Arc::from(settings.bot_token.expose()),
        secret: secret.map(|secret| secret.expose().to_owned()),
        api_url: settings.api_url.clone(),
        allow_private: settings.allow_private_addresses,
    };
    (faults.len() == before).then_some(means)
}

/// The entries of a Slack app, each with its name.
fn slack_entries(channels: &[ChannelSettings]) -> impl Iterator<Item = (&str, &SlackSettings)> {
    channels.iter().filter_map(|settings| match &settings.means {
        ChannelMeans::Slack(slack) => Some((settings.name.as_str(), slack)),
        ChannelMeans::SlackWebhook { .. }
        | ChannelMeans::Teams { .. }
        | ChannelMeans::Email { .. }
        | ChannelMeans::Webhook(_) => None,
    })
}

/// One secret verifies one team, and one entry tells of one channel: else it could not be told which entry a click is
/// good for.
fn check_slack_secrets(channels: &[ChannelSettings], faults: &mut Vec<ConfigFault>) {
    let mut teams: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    let mut places: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for (name, slack) in slack_entries(channels) {
        if let Some(secret) = &slack.signing_secret {
            let (first, team) = *teams.entry(secret.expose()).or_insert((name, &slack.team));
            if team != slack.team {
                let place = format!("channels.{name}.signing_secret");
                let fault = format!("is also that of channels.{first}, whose team is another one");
                faults.push(ConfigFault::new(place, fault, "give each team an app of its own"));
            }
        }
        let first = *places.entry((&slack.team, &slack.channel)).or_insert(name);
        if first != name {
            let fault = format!("is also that of channels.{first}");
            faults.push(ConfigFault::new(format!("channels.{name}.channel"), fault, "join the two entries"));
        }
    }
}

/// Where people of several teams click, a user's id alone is nobody's.
pub(super) fn check_slack_users(
    channels: &[ChannelSettings],
    reviewers: &ReviewerDirectory,
    faults: &mut Vec<ConfigFault>,
) {
    let teams: BTreeSet<&str> = slack_entries(channels).map(|(_, slack)| slack.team.as_str()).collect();
    if teams.is_empty() {
        return;
    }
    for reviewer in reviewers.iter() {
        let Some(id) = &reviewer.slack_user else { continue };
        let place = format!("reviewers.{}.slack_user", reviewer.name);
        let (team, user) = id.split_once('/').map_or((None, id.as_str()), |(team, user)| (Some(team), user));
        let is_user = user.starts_with(['U', 'W']) && interaction::is_id(user);
        if !is_user || team.is_some_and(|team| !interaction::is_id(team)) {
            faults.push(ConfigFault::new(place, "is no user of Slack", "write U0123ABCD, or T0123ABCD/U0123ABCD"));
        } else if team.is_none() && teams.len() > 1 {
            let fault = "does not say of which team, and there are channels of several";
            faults.push(ConfigFault::new(place, fault, format!("write T0123ABCD/{user}")));
        } else if let Some(team) = team.or_else(|| teams.first().copied())
            && reviewers.by_chat_user(team, user) != Some(reviewer)
        {
            faults.push(ConfigFault::new(place, "is another reviewer's too", "an identity names one person"));
        }
    }
}

/// Messages go by https, or to what is private anyway.
fn check_url(url: &str, allow_private: bool, place: &str, faults: &mut Vec<ConfigFault>) {
    let parsed = url::Url::parse(url);
    let fits = parsed.is_ok_and(|url| {
        let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        plain && (url.scheme() == "https" || allow_private && url.scheme() == "http")
    });
    if !fits {
        let hint = "write https://..., or http:// together with allow_private_addresses = true";
        faults.push(ConfigFault::new(place, "is no address that messages may be sent to", hint));
    }
}
