//! From the settings of `[channels]` and `[callbacks]` to who is told of what, and by whom.

use std::{collections::BTreeSet, sync::Arc};

use secrecy::SecretString;

use crate::{
    app::{deliver::Couriers, ports::Clock},
    channels::{
        email::{EmailCourier, NoMail},
        teams::TeamsCourier,
        webhook::{WebhookCourier, WebhookKey},
    },
    config::{CallbackSettings, ChannelMeans, ChannelSettings, ConfigFault, Secret, WebhookSettings},
    domain::{
        channel::{Channel, ChannelFault, ChannelKind, Channels, Destination, QuietHours},
        identity::{AgentId, ChannelName, GroupName},
    },
    outbound::Outbound,
};

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
    Teams { url: SecretString, allow_private: bool },
    Email(EmailCourier),
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
                ChannelMeans::Teams { url, allow_private_addresses } => {
                    check_url(url.expose(), *allow_private_addresses, &format!("{place}.url"), faults);
                    let url = SecretString::from(url.expose());
                    means.push((to, Means::Teams { url, allow_private: *allow_private_addresses }));
                }
                ChannelMeans::Email { smtp_url, from } => match EmailCourier::new(smtp_url.expose(), from, host) {
                    Ok(courier) => means.push((to, Means::Email(courier))),
                    Err(fault) => {
                        let key = match fault {
                            NoMail::Server => "smtp_url",
                            NoMail::Sender => "from",
                        };
                        faults.push(ConfigFault::new(format!("{place}.{key}"), fault.to_string(), "mend it"));
                    }
                },
                ChannelMeans::Slack(_) | ChannelMeans::SlackWebhook { .. } => {
                    faults.push(ConfigFault::new(format!("{place}.kind"), "is not supported yet", "take it out"));
                }
            }
            entries.push(entry);
        }
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

    /// Everybody who delivers.
    pub(super) fn couriers(self, outbound: &Outbound, clock: &Arc<dyn Clock>) -> (Channels, Couriers) {
        let mut couriers = Couriers::new();
        for (to, means) in self.means {
            match means {
                Means::Webhook { url, keys, allow_private } => {
                    let (outbound, clock) = (outbound.clone(), Arc::clone(clock));
                    couriers.insert(to, Arc::new(WebhookCourier { outbound, clock, url, keys, allow_private }));
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
