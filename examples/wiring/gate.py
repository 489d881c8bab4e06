#!/usr/bin/env python3
"""What an agent's own code adds to its loop: ask before a tool runs, run it on 200 alone, say what came of it.

usage: gate.py --key AGENT_KEY [--url http://127.0.0.1:8080]     plays four calls of the quickstart policy
"""
import argparse
import json
import sys
import urllib.error
import urllib.request
import uuid


class Gate:
    """Stands between a model's tool calls and the tools. One for each run of the agent."""

    def __init__(self, url, key, run_id):
        self.url, self.key, self.run_id = url.rstrip("/"), key, run_id

    def call(self, tool, args, tool_use_id, execute, minutes=60):
        """Runs `execute(args)` at most once, when it is permitted; returns what the model is told.

        `tool_use_id` is the model's own name of the call. Asked again under the same name it is the same call, so this
        can be tried again after a crash: what ran already does not run again.
        """
        body = {"tool": tool, "args": args, "run_id": self.run_id, "tool_use_id": tool_use_id, "claim": True}
        status, answer = self.send("/decide", body)
        for _ in range(minutes):
            if status != 202:
                break
            # A person is asked. Each request waits up to a minute for them; a long wait may as well be left to another
            # process, which asks again with the same body.
            print(f"waiting for {answer['approval']['code']}: {answer['approval']['url']}", flush=True)
            status, answer = self.send("/decide", body, wait=60)
        if status != 200:
            # Nothing runs. The model is told what the answer says for it, which never is a reason.
            return self.told(answer.get("tool_result") or answer.get("approval", {}).get("tool_result"))
        approved = answer.get("claim_id")
        try:
            # Of a held call the approved arguments come back, and those are the ones to run.
            result = execute(answer["args"] if approved else args)
        except Exception as error:
            self.report(answer, {"status": "failed", "detail": type(error).__name__})
            raise
        self.report(answer, {"status": "succeeded", "result": result})
        return result

    def report(self, answer, outcome):
        """Says what came of a call; nobody needs to know of one that was allowed without a record."""
        if answer.get("claim_id"):
            path = f"/approvals/{answer['approval']['id']}/outcome"
            status, _ = self.send(path, {**outcome, "claim_id": answer["claim_id"]})
        elif answer["verdict"] == "allow_audited":
            status, _ = self.send(f"/decisions/{answer['decision_id']}/outcome", outcome)
        else:
            return
        if status >= 300:
            print(f"nobody took the outcome of {answer['decision_id']}: {status}", file=sys.stderr)

    def send(self, path, body, wait=0):
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json", "prefer": f"wait={wait}"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=wait + 30) as response:
                return response.status, json.loads(response.read() or b"{}")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    @staticmethod
    def told(tool_result):
        return tool_result["content"] if tool_result else "tool unavailable"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--key", required=True)
    options = parser.parse_args()
    gate = Gate(options.url, options.key, f"wiring-{uuid.uuid4()}")
    mail = {"to": ["ana@customer.example"], "subject": "Your order", "body": "It is on its way."}
    to_us = {**mail, "to": ["bo@acme.example"]}
    calls = [
        ("get_order", {"order_id": "AB-1234"}, lambda args: {"order": args["order_id"], "status": "shipped"}),
        ("read_file", {"path": "/etc/passwd"}, lambda args: open(args["path"]).read()),
        ("send_email", to_us, lambda args: f"sent to {args['to'][0]}"),
        ("send_email", mail, lambda args: f"sent to {args['to'][0]}"),
    ]
    for number, (tool, args, execute) in enumerate(calls, 1):
        print(f"{tool}: {gate.call(tool, args, f'call-{number}', execute)}", flush=True)


if __name__ == "__main__":
    main()
