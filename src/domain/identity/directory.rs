//! The people who may decide: one entry each, and no identity in two of them.

use std::collections::{BTreeMap, BTreeSet};

use unicode_normalization::UnicodeNormalization as _;

use crate::domain::{
    identity::{GroupName, ReviewerName},
    time::Timestamp,
};

/// One entry of `[reviewers]` as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewerEntry {
    /// The entry's name.
    pub name: ReviewerName,
    /// The groups the person is in; may be none.
    pub groups: BTreeSet<GroupName>,
    /// The person's e-mail address.
    pub email: Option<String>,
    /// The person's user id in Slack, `U...`, or `T.../U...` with its team.
    pub slack_user: Option<String>,
    /// The person's subject at the sign-in provider.
    pub oidc_subject: Option<String>,
    /// When somebody else stands in.
    pub absence: Option<Absence>,
}

/// A time in which a deputy may decide what an absent person could, as well as what is his own to decide. A deputy who
/// is absent himself is not replaced by his: there are no chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// From then on.
    pub from: Timestamp,
    /// Until then, which is no part of it.
    pub until: Timestamp,
    /// Who stands in.
    pub deputy: ReviewerName,
}

impl Absence {
    fn covers(&self, now: Timestamp) -> bool {
        self.from <= now && now < self.until
    }
}

/// A person who may decide, out of a [`ReviewerDirectory`].
pub type Reviewer = ReviewerEntry;

impl ReviewerEntry {
    /// Whether `identity` is this person's name, e-mail address, chat id or subject, case and Unicode form aside. A chat
    /// id may leave its team out.
    pub fn is_known_as(&self, identity: &str) -> bool {
        let wanted = fold(identity.trim());
        identities(self).any(|(field, value)| {
            let value = fold(value);
            value == wanted || field == "slack_user" && is_same_user(&value, &wanted)
        })
    }
}

/// Whether two ids in a chat are one person's, where at least one of them does not say of which team.
fn is_same_user(one: &str, other: &str) -> bool {
    match (one.rsplit_once('/'), other.rsplit_once('/')) {
        (Some((_, user)), None) => user == other,
        (None, Some((_, user))) => user == one,
        (Some(_), Some(_)) | (None, None) => one == other,
    }
}

/// Why entries make no directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryFault {
    /// An identity, case and Unicode form aside, is in two entries: a click could count for either person.
    #[error("{field} {value:?} of reviewer {second} also names reviewer {first}")]
    SharedIdentity {
        /// The entry that had it first.
        first: ReviewerName,
        /// The entry that has it too.
        second: ReviewerName,
        /// Which field of the second entry: `name`, `email`, `slack_user` or `oidc_subject`.
        field: &'static str,
        /// The identity as the second entry writes it.
        value: String,
    },
    /// A deputy who is no other reviewer, or a time without length.
    #[error("the absence of reviewer {name} {problem}")]
    InvalidAbsence {
        /// The entry.
        name: ReviewerName,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A field that is there but names nobody.
    #[error("{field} of reviewer {name} {problem}")]
    InvalidIdentity {
        /// The entry.
        name: ReviewerName,
        /// Which of its fields.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl DirectoryFault {
    /// The entry to mend and its field, for a message that names the setting.
    pub fn place(&self) -> (&ReviewerName, &'static str) {
        match self {
            Self::SharedIdentity { second, field, .. } => (second, field),
            Self::InvalidIdentity { name, field, .. } => (name, field),
            Self::InvalidAbsence { name, .. } => (name, "deputy"),
        }
    }
}

/// Everyone who may decide. Key, sign-in, link and chat all resolve to one entry here, or have no vote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewerDirectory {
    by_name: BTreeMap<ReviewerName, Reviewer>,
    by_identity: BTreeMap<String, ReviewerName>,
}

impl ReviewerDirectory {
    /// The directory of `entries`, which may be none.
    ///
    /// # Errors
    ///
    /// Every [`DirectoryFault`] there is, in the order of the entries.
    pub fn new(entries: impl IntoIterator<Item = ReviewerEntry>) -> Result<Self, Vec<DirectoryFault>> {
        let mut directory = Self::default();
        let mut faults = Vec::new();
        for entry in entries {
            if directory.by_name.contains_key(&entry.name) {
                faults.push(DirectoryFault::SharedIdentity {
                    first: entry.name.clone(),
                    second: entry.name.clone(),
                    field: "name",
                    value: entry.name.to_string(),
                });
                continue;
            }
            for (field, value) in identities(&entry) {
                if let Some(problem) = problem_of(field, value) {
                    faults.push(DirectoryFault::InvalidIdentity { name: entry.name.clone(), field, problem });
                    continue;
                }
                match directory.by_identity.insert(fold(value), entry.name.clone()) {
                    Some(first) if first != entry.name => faults.push(DirectoryFault::SharedIdentity {
                        first,
                        second: entry.name.clone(),
                        field,
                        value: value.to_owned(),
                    }),
                    Some(_) | None => {}
                }
            }
            directory.by_name.insert(entry.name.clone(), entry);
        }
        for entry in directory.by_name.values() {
            let Some(absence) = &entry.absence else { continue };
            let problem = if absence.deputy == entry.name {
                "names the person as the own deputy"
            } else if !directory.by_name.contains_key(&absence.deputy) {
                "names a deputy who is no reviewer"
            } else if absence.from >= absence.until {
                "ends before it begins"
            } else {
                continue;
            };
            faults.push(DirectoryFault::InvalidAbsence { name: entry.name.clone(), problem });
        }
        if faults.is_empty() { Ok(directory) } else { Err(faults) }
    }

    /// The groups somebody may decide for at `now`: the own ones, and those of everybody whose deputy he is then. None
    /// for who is no entry.
    pub fn groups_at(&self, name: &ReviewerName, now: Timestamp) -> BTreeSet<String> {
        let Some(own) = self.by_name.get(name) else { return BTreeSet::new() };
        let deputized = self.by_name.values().filter(|entry| {
            entry.absence.as_ref().is_some_and(|absence| absence.deputy == *name && absence.covers(now))
        });
        deputized.chain([own]).flat_map(|entry| &entry.groups).map(ToString::to_string).collect()
    }

    /// Who is told at `now` what concerns `reviewer`: the person, or the deputy of one who is absent.
    pub fn reached_at<'a>(&'a self, reviewer: &'a Reviewer, now: Timestamp) -> &'a Reviewer {
        let absence = reviewer.absence.as_ref().filter(|absence| absence.covers(now));
        absence.and_then(|absence| self.by_name.get(&absence.deputy)).unwrap_or(reviewer)
    }

    /// The entry of this name, byte for byte.
    pub fn get(&self, name: &ReviewerName) -> Option<&Reviewer> {
        self.by_name.get(name)
    }

    /// The entry that has `identity` as name, e-mail address, chat id or subject, case and Unicode form aside.
    pub fn find(&self, identity: &str) -> Option<&Reviewer> {
        self.by_identity.get(&fold(identity)).and_then(|name| self.by_name.get(name))
    }

    /// The entry that names this user of a chat's team; nobody when several do. An entry that leaves the team out names
    /// the user of any team, and what else an entry holds is no chat id.
    pub fn by_chat_user(&self, team: &str, user: &str) -> Option<&Reviewer> {
        let wanted = fold(&format!("{team}/{user}"));
        let named = |entry: &&Reviewer| entry.slack_user.as_deref().is_some_and(|id| is_same_user(&fold(id), &wanted));
        let mut found = self.by_name.values().filter(named);
        found.next().filter(|_| found.next().is_none())
    }

    /// Everyone in `group`, by name; nobody when no entry names it.
    pub fn members_of<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Reviewer> + 'a {
        self.by_name.values().filter(move |reviewer| reviewer.groups.contains(group))
    }

    /// Everyone, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Reviewer> + '_ {
        self.by_name.values()
    }

    /// Whether nobody may decide, so that every call which would be held is denied.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }
}

fn identities(entry: &ReviewerEntry) -> impl Iterator<Item = (&'static str, &str)> {
    [
        ("name", Some(entry.name.as_str())),
        ("email", entry.email.as_deref()),
        ("slack_user", entry.slack_user.as_deref()),
        ("oidc_subject", entry.oidc_subject.as_deref()),
    ]
    .into_iter()
    .filter_map(|(field, value)| value.map(|value| (field, value)))
}

fn problem_of(field: &str, value: &str) -> Option<&'static str> {
    if value.is_empty() {
        return Some("is empty");
    }
    if value.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Some("has spaces or control characters");
    }
    let is_address = |(local, domain): (&str, &str)| !local.is_empty() && !domain.is_empty() && !domain.contains('@');
    if field == "email" && !value.split_once('@').is_some_and(is_address) {
        return Some("is not one e-mail address");
    }
    None
}

/// NFKC, and one case: through upper case, so that `ß` and `ss`, or both small sigmas, are the same too.
fn fold(identity: &str) -> String {
    identity.nfkc().flat_map(char::to_uppercase).flat_map(char::to_lowercase).nfkc().collect()
}
