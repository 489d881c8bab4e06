"""Reads messages and dialogs, one JSON object a line, and holds each against the models of slack_sdk."""

import json
import sys

from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View


def check_blocks(blocks, most):
    assert 1 <= len(blocks) <= most, len(blocks)
    ids = [block.get("block_id") for block in blocks if "block_id" in block]
    assert len(set(ids)) == len(ids), ids
    for block in blocks:
        parsed = Block.parse(block)
        assert parsed is not None, block
        again = parsed.to_dict()
        for key, value in block.items():
            assert key in again, (key, block)
            if key in ("type", "block_id", "text"):
                assert again[key] == value, (key, value, again[key])


count = 0
for line in sys.stdin:
    given = json.loads(line)
    if "type" in given:
        view = View(**given)
        view.validate_json()
        check_blocks(given["blocks"], 100)
        assert len(given["private_metadata"]) <= 3000
        assert len(line.encode()) < 250_000
    else:
        assert 1 <= len(given["text"]) <= 4000, len(given["text"])
        check_blocks(given["blocks"], 50)
    count += 1
print(count)
