"""A Bolt app as Slack's customers write it. Reads a request that we signed and lets the app verify and parse it; signs
the same body at another time with slack_sdk, for us to verify."""

import json
import sys

from slack_bolt import App, BoltRequest
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.signature import SignatureVerifier

given = json.load(sys.stdin)
app = App(
    signing_secret=given["secret"],
    authorize=lambda **_: AuthorizeResult(enterprise_id=None, team_id="T0TEAM", bot_token="xoxb-1", bot_id="B1", bot_user_id="U1"),
)
clicks = []


@app.action("approval.approve")
def approved(ack, action, body):
    ack()
    clicks.append({"value": action["value"], "user": body["user"]["id"]})


headers = {"content-type": "application/x-www-form-urlencoded", **given["headers"]}
answer = app.dispatch(BoltRequest(body=given["body"], headers=headers))
forged = {**headers, "x-slack-signature": "v0=" + "0" * 64}
refused = app.dispatch(BoltRequest(body=given["body"], headers=forged))
verifier = SignatureVerifier(given["secret"])
print(
    json.dumps(
        {
            "status": answer.status,
            "forged": refused.status,
            "clicks": clicks,
            "signature": verifier.generate_signature(timestamp=given["sign_at"], body=given["body"]),
        }
    )
)
