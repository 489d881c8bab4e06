//! Figures about this instance, as Prometheus and other collectors of OpenMetrics text read them.
//!
//! No label holds anything a caller chose freely: an unknown path or method is counted as such, not by its name.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::app::destinations::DestinationView;

/// The media type of the text (OpenMetrics 1.0).
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Upper bounds in seconds: fine below the few milliseconds a decision takes, coarse up to the longest wait.
const LATENCY_BUCKETS: [f64; 15] =
    [0.000_25, 0.000_5, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DestinationLabels {
    destination: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    verdict: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SlackLabels {
    reason: &'static str,
}

/// The figures.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    latency: Family<RouteLabels, Histogram, fn() -> Histogram>,
    decisions: Family<DecisionLabels, Counter>,
    unauthenticated: Family<RouteLabels, Counter>,
    slack_refused: Family<SlackLabels, Counter>,
    slack_clock: Gauge,
    waiting: Family<DestinationLabels, Gauge>,
    dead: Family<DestinationLabels, Gauge>,
    disabled: Family<DestinationLabels, Gauge>,
    /// Those of the unauthenticated that no log entry sums up yet, by method and route.
    unrecorded: Mutex<BTreeMap<(&'static str, String), u64>>,
}

impl Metrics {
    /// All at zero.
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("countersign");
        let requests = Family::default();
        registry.register("http_requests", "Requests by route and status", requests.clone());
        let latency = Family::new_with_constructor((|| Histogram::new(LATENCY_BUCKETS)) as fn() -> Histogram);
        let help = "Time to answer by route, waits for a human included";
        registry.register("http_request_duration_seconds", help, latency.clone());
        let decisions = Family::default();
        registry.register("decisions", "Answered calls by verdict and, when refused, by reason", decisions.clone());
        let unauthenticated = Family::default();
        let help = "Requests without a valid credential by route";
        registry.register("http_unauthenticated_requests", help, unauthenticated.clone());
        let slack_refused = Family::default();
        let help = "Requests for Slack's route that were not Slack's, or not of now, by reason";
        registry.register("slack_refused_requests", help, slack_refused.clone());
        let slack_clock = Gauge::default();
        let help = "How far ahead of the last request that Slack signed the clock of this instance was";
        registry.register("slack_clock_ahead_seconds", help, slack_clock.clone());
        let (waiting, dead, disabled) = (Family::default(), Family::default(), Family::default());
        registry.register(
            "messages_waiting",
            "Messages that are due and not delivered, by destination",
            waiting.clone(),
        );
        registry.register("messages_dead", "Messages that were given up, by destination", dead.clone());
        let help = "1 where nothing is sent any more until somebody enables it";
        registry.register("destination_disabled", help, disabled.clone());
        let unrecorded = Mutex::default();
        Self {
            registry,
            requests,
            latency,
            decisions,
            unauthenticated,
            slack_refused,
            slack_clock,
            waiting,
            dead,
            disabled,
            unrecorded,
        }
    }

    /// Takes over how it stands with the messages.
    pub(super) fn messages(&self, destinations: &[DestinationView]) {
        let figure = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for view in destinations {
            let labels = DestinationLabels { destination: view.to.to_string() };
            self.waiting.get_or_create(&labels).set(figure(view.waiting));
            self.dead.get_or_create(&labels).set(figure(view.dead));
            self.disabled.get_or_create(&labels).set(i64::from(view.disabled.is_some()));
        }
    }

    /// The figures as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            // Writing into a string does not fail; a collector takes an empty answer for a missing one.
            Err(_) => String::new(),
        }
    }

    /// How many requests without a valid credential came by each method and route since this was last asked.
    pub fn drain_unauthenticated(&self) -> Vec<(String, u64)> {
        let counted = std::mem::take(&mut *self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner));
        counted.into_iter().map(|((method, route), count)| (format!("{method} {route}"), count)).collect()
    }

    /// Counts an answered request.
    pub(super) fn answered(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let route = route.to_owned();
        self.latency.get_or_create(&RouteLabels { method, route: route.clone() }).observe(took.as_secs_f64());
        self.requests.get_or_create(&RequestLabels { method, route, status }).inc();
    }

    /// Counts a decided call.
    pub(super) fn decided(&self, verdict: &'static str, reason: &'static str) {
        self.decisions.get_or_create(&DecisionLabels { verdict, reason }).inc();
    }

    /// Keeps how far ahead our clock was when a request came that Slack signed.
    pub(super) fn slack_clock(&self, ahead: i64) {
        self.slack_clock.set(ahead);
    }

    /// Counts a request for Slack's route that was not taken, for this reason.
    pub(super) fn slack_refused(&self, reason: &'static str) {
        self.slack_refused.get_or_create(&SlackLabels { reason }).inc();
    }

    /// Counts a request without a valid credential.
    pub(super) fn unauthenticated(&self, method: &'static str, route: &str) {
        self.unauthenticated.get_or_create(&RouteLabels { method, route: route.to_owned() }).inc();
        let mut unrecorded = self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner);
        *unrecorded.entry((method, route.to_owned())).or_default() += 1;
    }
}
