"""One stile hands its events to another, and reads the verdict on each."""

import random
import time

import pytest

from gatekit import fresh, post, sample, take, take_batch
from harness import eventually, event_bytes
from sinkkit import QUICK, configure, source


@pytest.fixture
def pair(stile, tmp_path):
    """The first by `near` (options of its source), the second by `far`."""
    def start(near="  a: { claims: [{ once: [n] }] }\n", far=source("b"), more="",
              options=()):
        for name in ("far", "near"):
            (tmp_path / name).mkdir()
        second = stile("--config", configure(str(tmp_path / "far"), far, "  out: stdout\n"),
                       *options, folder=str(tmp_path / "far" / "data"))
        host, port = second.address
        sinks = (f"  far: {{ stile: \"http://{host}:{port}/in/b\", allow: 127.0.0.0/8, {QUICK}"
                 f"{more} }}\n")
        config = configure(str(tmp_path / "near"), near, sinks)
        first = stile("--config", config, folder=str(tmp_path / "near" / "data"))
        return first, second, config
    return start


def send(gateway, events):
    take_batch(gateway.request("POST", "/in/a", event_bytes(events)), ["new"] * len(events))


def test_events_arrive_many_at_a_time(pair):
    near, far, _ = pair()
    before = sample(far, "stile_http_requests_total")
    events = [{"n": fresh(), "id": fresh(), "text": "line\nbreak"} for _ in range(300)]
    send(near, events)
    near.wait_settled()
    far.wait_settled()
    assert sorted(it["id"] for it in far.events()) == sorted(it["id"] for it in events)
    assert sample(near, "stile_deliveries_total", sink="far", outcome="done") == 300
    assert sample(far, "stile_http_requests_total") < 150 + before


def test_each_event_has_its_own_verdict(pair):
    near, far, _ = pair(far="  b: { claims: [{ once: [id] }], on_conflict: reject, "
                            "content: text }\n")
    same = fresh()
    send(near, [{"n": fresh(), "id": same, "text": "1"},
                {"n": fresh(), "text": "no id"},
                {"n": fresh(), "id": same, "text": "2"},
                {"n": fresh(), "id": same, "text": "1"},
                {"n": fresh(), "id": fresh(), "text": "3"}])
    eventually(lambda: sample(near, "stile_deliveries_total", sink="far", outcome="done") == 3,
               "three are done")
    eventually(lambda: sample(near, "stile_dead_tickets") == 2, "two are dead letters")
    far.wait_settled()
    assert len(far.events()) == 2


def test_batch_that_is_refused_as_a_whole_is_sent_in_pieces(pair):
    near, far, _ = pair(options=("--max-body", "4KiB"))
    events = [{"n": fresh(), "id": fresh(), "text": "x" * 1000} for _ in range(20)]
    send(near, events)
    send(near, [{"n": fresh(), "id": fresh(), "text": "x" * 5000}])
    eventually(lambda: sample(near, "stile_dead_tickets") == 1, "the large one is refused")
    eventually(lambda: sample(near, "stile_deliveries_total", sink="far", outcome="done") == 20,
               "the others arrive")
    far.wait_settled()
    assert sorted(it["id"] for it in far.events()) == sorted(it["id"] for it in events)


def test_event_that_is_no_json_goes_alone_as_it_came(pair):
    near, far, _ = pair(near="  a: { preset: twilio }\n", far="  b: { preset: twilio }\n")
    form = b"MessageSid=SM1&AccountSid=AC1&MessageStatus=sent"
    headers = [("Content-Type", "application/x-www-form-urlencoded")]
    take(near.request("POST", "/in/a", form, headers), "new")
    near.wait_settled()
    assert far.wait_events(1) == [form.decode()]


def test_kill_of_the_first_is_a_duplicate_at_the_second(pair, stile, tmp_path, scale):
    near, far, config = pair()
    chance = random.Random(3)
    ids = []
    for _ in range(4 * scale):
        events = [{"n": fresh(), "id": fresh()} for _ in range(500)]
        send(near, events)
        ids += [it["id"] for it in events]
        time.sleep(chance.random() * 0.03)
        near.kill()
        near = stile("--config", config, folder=str(tmp_path / "near" / "data"))
    take(post(near, "/in/a", {"n": fresh(), "id": "last"}), "new")
    near.wait_settled()
    far.wait_settled()
    assert sorted(it["id"] for it in far.events()) == sorted([*ids, "last"])
