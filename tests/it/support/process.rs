//! The binary as a child process, and clients that talk to it over real sockets.

use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

/// Longer than anything here takes, however busy the machine is: a hung process fails its test, and does not hang it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The binary with an environment of its own: no variable of whoever runs the tests is a setting.
pub(crate) fn countersign(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    command.args(arguments).current_dir(folder).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs(environment.iter().copied());
    command.stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn run(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    countersign(folder, arguments, environment).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Creates a key and returns it.
pub(crate) fn create_key(folder: &Path, environment: &[(&str, &str)], name: &str, roles: &[&str]) -> String {
    let mut arguments = vec!["keys", "create", "--name", name];
    for role in roles {
        arguments.extend(["--role", role]);
    }
    let output = run(folder, &arguments, environment);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).trim_end().to_owned()
}

/// Lines of a pipe, read on a thread of their own so that the process never waits for a reader.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                // The test may have seen enough.
                let _ = sender.send(line);
            }
        });
        Self(lines)
    }

    /// The next line that has `part` in it. Fails the test when the process ends without one.
    pub(crate) fn with(&self, part: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.0.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!("no line with {part:?} among:\n{}", seen.join("\n")),
            }
        }
    }
}

/// A running `dev` or `serve`, killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) stdout: Lines,
    pub(crate) stderr: Lines,
    pub(crate) url: String,
}

impl Process {
    /// Starts `serve` on a free port and waits until it listens.
    pub(crate) fn serve(folder: &Path, environment: &[(&str, &str)]) -> Self {
        let mut environment = environment.to_vec();
        environment.push(("COUNTERSIGN_LISTEN", "127.0.0.1:0"));
        let (child, stdout, stderr) = spawn(countersign(folder, &["serve"], &environment));
        let line = stderr.with("\"listening\"");
        let line: Value = serde_json::from_str(&line).unwrap();
        let url = format!("http://{}", line["address"].as_str().unwrap());
        Self { child, stdout, stderr, url }
    }

    /// Starts `dev` on a free port and waits until it listens.
    pub(crate) fn dev(folder: &Path) -> Self {
        let (child, stdout, stderr) = spawn(countersign(folder, &["dev", "--listen", "127.0.0.1:0"], &[]));
        let line = stdout.with("Listening on ");
        let url = line.split_whitespace().nth(2).unwrap().trim_end_matches(';').to_owned();
        Self { child, stdout, stderr, url }
    }

    /// Sends a signal, such as `TERM`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    /// Ends it as a power cut would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended.
    pub(crate) fn ended(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already where the test waited for that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(mut command: Command) -> (Child, Lines, Lines) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout: ChildStdout = child.stdout.take().unwrap();
    let stderr: ChildStderr = child.stderr.take().unwrap();
    (child, Lines::of(stdout), Lines::of(stderr))
}

/// Whoever holds a key.
pub(crate) struct Caller {
    http: Client,
    url: String,
    key: String,
}

impl Caller {
    pub(crate) fn new(process: &Process, key: &str) -> Self {
        let http = Client::builder().timeout(PATIENCE).build().unwrap();
        Self { http, url: process.url.clone(), key: key.to_owned() }
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Decides a call of run `run-1`.
    pub(crate) async fn decide(&self, tool: &str, args: Value, tool_use_id: &str) -> (StatusCode, Value) {
        let body = json!({ "tool": tool, "args": args, "run_id": "run-1", "tool_use_id": tool_use_id });
        self.post("/decide", body).await
    }

    /// A reviewer approves what is held by this answer to `/decide`.
    pub(crate) async fn approve(&self, held: &Value) -> (StatusCode, Value) {
        let path = format!("/approvals/{}/decision", approval_of(held));
        self.post(&path, json!({ "decision": "approve", "args_hash": held["args_hash"] })).await
    }

    /// An agent claims what is held by this answer to `/decide`.
    pub(crate) async fn claim(&self, held: &Value, args: Value, claim_id: &str) -> (StatusCode, Value) {
        let path = format!("/approvals/{}/claim", approval_of(held));
        self.post(&path, json!({ "args": args, "claim_id": claim_id })).await
    }

    /// Sends to a process that may be gone; `None` when the whole answer did not come.
    pub(crate) async fn try_post(&self, path: &str, body: Value) -> Option<(StatusCode, Value)> {
        self.try_send(Method::POST, path, Some(body)).await.ok()
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        self.try_send(method, path, body).await.unwrap()
    }

    async fn try_send(&self, method: Method, path: &str, body: Option<Value>) -> reqwest::Result<(StatusCode, Value)> {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await?;
        let status = response.status();
        let body = response.text().await?;
        let read =
            if body.is_empty() { Value::Null } else { serde_json::from_str(&body).unwrap_or(Value::String(body)) };
        Ok((status, read))
    }
}

/// The id of the approval that holds a call.
pub(crate) fn approval_of(held: &Value) -> &str {
    held["approval"]["id"].as_str().unwrap()
}

/// The arguments of a call that the quickstart policy holds.
pub(crate) fn external_mail() -> Value {
    json!({ "to": ["ana@customer.example"], "subject": "Your order", "body": "It is on its way." })
}

/// The path of the quickstart policy.
pub(crate) const QUICKSTART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/quickstart/policy.toml");
