"""What the tests of sources, verdicts and traces share: gateways that are started
from a configuration and serve a whole file of tests, and short ways to ask them.

Each test takes ids and sources of its own, so that the tests of a file do not see
each other."""

import itertools
import json
import os
import urllib.parse

import harness

_numbers = itertools.count(1)


def fresh(prefix="e"):
    """An id that no other test uses."""
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def post(gateway, path, event, headers=()):
    return gateway.request("POST", path, harness.event_bytes(event), headers)


def take(answer, verdict, status=200):
    """The answer's object, which must have this verdict, in body and header."""
    assert answer.status == status, answer
    body = answer.json()
    assert body["verdict"] == verdict, answer
    assert answer.header("stile-verdict") == verdict, answer
    return body


def take_batch(answer, verdicts, status=200):
    """The events of a batch's answer, whose verdicts (or `refused`) must be these."""
    assert answer.status == status, answer
    body = answer.json()
    found = [event.get("verdict", "refused") for event in body["events"]]
    assert found == list(verdicts), answer
    for name in ("new", "duplicate", "stale", "conflict", "busy", "refused"):
        assert body[name] == found.count(name), (name, body)
    return body["events"]


def sample(gateway, metric, **labels):
    return gateway.metrics()[metric].value(**labels)


def why(gateway, **question):
    answer = gateway.get("/v1/why?" + urllib.parse.urlencode(question))
    assert answer.status == 200, answer
    return json.loads(answer.body)


def printed(gateway):
    """The lines of standard output that are JSON objects."""
    return [json.loads(line) for line in gateway.lines()]
