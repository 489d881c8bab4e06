"""Says whether a webhook is accepted by the library."""

import datetime
import json
import sys
from unittest import mock

import standardwebhooks.webhooks as library

sent = json.load(sys.stdin)
now = datetime.datetime.fromtimestamp(sent["now"], tz=datetime.timezone.utc)
with mock.patch.object(library, "datetime", wraps=datetime.datetime) as clock:
    clock.now.return_value = now
    try:
        library.Webhook(sent["secret"]).verify(sent["body"], sent["headers"])
        print("accepted")
    except library.WebhookVerificationError:
        print("refused")
