#!/usr/bin/python3
"""peer_filter.py < events.ndjson: what one writes in Python to drop duplicates: a
set of the ids seen, each line parsed as JSON."""

import json
import sys

seen = set()
for line in sys.stdin.buffer:
    key = json.loads(line)["id"]
    if key not in seen:
        seen.add(key)
        sys.stdout.buffer.write(line)
