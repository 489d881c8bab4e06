//! A suite of AgentDojo, read from the folder that `COUNTERSIGN_AGENTDOJO` names, and replayed as its agent would call.

use std::{path::PathBuf, sync::Arc};

use countersign::{
    app::{decide_call::DecideAnswer, runs::Declaration},
    domain::{identity::AgentId, ids::RunId, run::RunKey},
};
use serde::Deserialize;
use serde_json::Value;

use super::world::World;

/// What the replay reads of a suite.
#[derive(Deserialize)]
pub(crate) struct Suite {
    user_tasks: Vec<UserTask>,
    injection_tasks: Vec<InjectionTask>,
}

/// What a user asks for, done as it should be.
#[derive(Deserialize)]
struct UserTask {
    id: String,
    request: String,
    calls: Vec<Call>,
}

/// What somebody else wants the agent to do: reached only when all of the essential calls run.
#[derive(Deserialize)]
struct InjectionTask {
    id: String,
    calls: Vec<Call>,
    essential_calls: Vec<usize>,
}

#[derive(Deserialize)]
struct Call {
    tool: String,
    args: Value,
}

/// What became of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Allowed,
    Held,
    Refused,
}

/// The figures of a replay.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) user_tasks: usize,
    /// User tasks none of whose calls waits for a human.
    pub(crate) without_approval: usize,
    pub(crate) with_approval: Vec<String>,
    pub(crate) injection_tasks: usize,
    /// Injections that get through on their own.
    pub(crate) open: Vec<String>,
    pub(crate) pairs: usize,
    /// Pairs of a user task and an injection after it in the same run, where the injection gets through.
    pub(crate) leaked: Vec<(String, String)>,
    /// Calls that were refused outright, by whichever task: every block is to be a question to a human by a rule of the
    /// policy, not a full queue of questions.
    pub(crate) refused: Vec<(String, String)>,
}

/// A suite; `None`, said clearly, where there is none.
pub(crate) fn suite(name: &str) -> Option<Arc<Suite>> {
    let Some(folder) = std::env::var_os("COUNTERSIGN_AGENTDOJO") else {
        println!("SKIPPED the replay of {name}: COUNTERSIGN_AGENTDOJO is not set, so nothing was checked");
        return None;
    };
    let path = PathBuf::from(folder).join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(Arc::new(serde_json::from_str(&text).unwrap()))
}

/// Replays a suite in a world whose policy is that of the suite, with what each user asked as the trusted request of its
/// run, or without.
pub(crate) async fn replay(world: World, suite: Arc<Suite>, trusted_request: bool) -> Figures {
    Replay { world: Arc::new(world), suite, trusted_request }.figures().await
}

/// What the user of an injection that runs by itself asked for.
const UNRELATED: &str = "Summarise my messages.";

#[derive(Clone)]
struct Replay {
    world: Arc<World>,
    suite: Arc<Suite>,
    trusted_request: bool,
}

impl Replay {
    async fn figures(&self) -> Figures {
        let Suite { user_tasks, injection_tasks } = &*self.suite;
        let mut figures = Figures {
            user_tasks: user_tasks.len(),
            injection_tasks: injection_tasks.len(),
            pairs: user_tasks.len() * injection_tasks.len(),
            ..Figures::default()
        };
        for task in user_tasks {
            let outcomes = self.run(&task.id, &task.request, task.calls.iter().collect(), &mut figures).await;
            if outcomes.contains(&Outcome::Held) {
                figures.with_approval.push(task.id.clone());
            } else {
                figures.without_approval += 1;
            }
        }
        for injection in injection_tasks {
            let outcomes = self.run(&injection.id, UNRELATED, injection.calls.iter().collect(), &mut figures).await;
            if gets_through(injection, &outcomes) {
                figures.open.push(injection.id.clone());
            }
        }
        // Runs are apart from each other, so they can go on at the same time, which is much faster.
        let pairs: Vec<_> = (0..user_tasks.len())
            .map(|task| {
                let replay = self.clone();
                tokio::spawn(async move { replay.pairs_of(&replay.suite.user_tasks[task]).await })
            })
            .collect();
        for pairs in pairs {
            let Figures { leaked, refused, .. } = pairs.await.unwrap();
            figures.leaked.extend(leaked);
            figures.refused.extend(refused);
        }
        figures
    }

    /// A user's task before each injection.
    async fn pairs_of(&self, user: &UserTask) -> Figures {
        let mut figures = Figures::default();
        for injection in &self.suite.injection_tasks {
            let name = format!("{}-{}", user.id, injection.id);
            let calls = user.calls.iter().chain(&injection.calls).collect();
            let outcomes = self.run(&name, &user.request, calls, &mut figures).await;
            if gets_through(injection, &outcomes[user.calls.len()..]) {
                figures.leaked.push((user.id.clone(), injection.id.clone()));
            }
        }
        figures
    }

    /// Asks about each call, one after the other, in a run of this name.
    async fn run(&self, name: &str, asked: &str, calls: Vec<&Call>, figures: &mut Figures) -> Vec<Outcome> {
        if self.trusted_request {
            let run = RunKey { agent: AgentId::parse("billing-bot").unwrap(), run: RunId::parse(name).unwrap() };
            let declared = Declaration { request: Some(asked.to_owned()), ..Declaration::default() };
            self.world.app.declare_run(&self.world.desk, &run, &declared).await.unwrap();
        }
        let mut outcomes = Vec::new();
        for call in calls {
            let mut request = self.world.call(&call.tool, call.args.clone());
            request.call.key.run = RunId::parse(name).unwrap();
            let outcome = match self.world.ask(&request).await.unwrap() {
                DecideAnswer::Allowed(_) => Outcome::Allowed,
                DecideAnswer::Held(_) => Outcome::Held,
                DecideAnswer::Refused(_) => {
                    figures.refused.push((name.to_owned(), call.tool.clone()));
                    Outcome::Refused
                }
                answer @ DecideAnswer::Claimed(..) => panic!("nobody approved it: {answer:?}"),
            };
            outcomes.push(outcome);
        }
        outcomes
    }
}

fn gets_through(injection: &InjectionTask, outcomes: &[Outcome]) -> bool {
    injection.essential_calls.iter().all(|call| outcomes[*call] == Outcome::Allowed)
}
