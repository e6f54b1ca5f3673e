"""`ack: delivered`: the sender's answer is what came of its event."""

import json
import signal
import threading

import pytest

from gatekit import fresh, post, sample, take, take_batch
from harness import Connection, eventually, event_bytes, request_bytes
from sinkkit import CUT, HANG, QUICK, configure, http_sink, key, source

ONCE = "retry: { attempts: 1 }, breaker: { failures: 0, percent: 0 }"


@pytest.fixture
def gateway(stile, scratch):
    def start(sinks, wait="20s", routes="", *options):
        sources = source("a", f"ack: delivered, wait: {wait}") + source("plain")
        return stile("--config", configure(scratch, sources, sinks, routes), *options)
    return start


@pytest.fixture(params=[("--commit", "inline"), ("--commit", "thread"), ("--threads", "2")],
                ids=["inline", "thread", "threads"])
def mode(request):
    return request.param


def test_done_is_200_with_its_outcome(gateway, sink, mode):
    it = sink()
    stile = gateway(http_sink("crm", it.url()), "20s", "", *mode)
    event = {"id": fresh()}
    first = take(post(stile, "/in/a", event), "new")
    assert first["outcome"] == "done" and len(it.got()) == 1
    copy = take(post(stile, "/in/a", event), "duplicate")
    assert copy["outcome"] == "done" and copy["ticket"] == first["ticket"]
    assert len(it.got()) == 1
    assert "outcome" not in take(post(stile, "/in/plain", {"id": fresh()}), "new")


def test_answer_comes_after_the_effect_of_every_sink(gateway, sink):
    it = sink()
    stile = gateway(http_sink("one", it.url("/one")) + http_sink("two", it.url("/two")) +
                    "  out: stdout\n")
    for count in range(1, 20):
        answer = take(post(stile, "/in/a", {"id": fresh()}), "new")
        assert answer["outcome"] == "done"
        assert len(it.got("/one")) == len(it.got("/two")) == len(stile.lines()) == count


def test_failed_attempts_are_waited_through(gateway, sink):
    answers = [500, CUT, 429, 200]
    it = sink(lambda request: answers.pop(0))
    stile = gateway(http_sink("crm", it.url(), QUICK))
    assert take(post(stile, "/in/a", {"id": fresh()}), "new")["outcome"] == "done"
    assert len({key(request) for request in it.got()}) == 1 and len(it.got()) == 4


def test_dead_is_502_and_a_copy_is_a_retry_under_the_same_key(gateway, sink, mode):
    answers = [422, 422, 200]
    it = sink(lambda request: answers.pop(0))
    stile = gateway(http_sink("crm", it.url()), "20s", "", *mode)
    event = {"id": fresh()}
    first = post(stile, "/in/a", event)
    assert take(first, "new", 502)["outcome"] == "dead"
    assert first.header("stile-outcome") == "dead"
    assert take(post(stile, "/in/a", event), "duplicate", 502)["outcome"] == "dead"
    assert take(post(stile, "/in/a", event), "duplicate")["outcome"] == "done"
    assert take(post(stile, "/in/a", event), "duplicate")["outcome"] == "done"
    assert len(it.got()) == 3 and len({key(request) for request in it.got()}) == 1
    stile.wait_settled()


def test_copy_elsewhere_leaves_the_dead_alone(gateway, sink):
    it = sink(lambda request: 422)
    stile = gateway(http_sink("crm", it.url()))
    event = {"id": fresh()}
    take(post(stile, "/in/plain", event), "new")
    eventually(lambda: sample(stile, "stile_deliveries_total", sink="crm", outcome="dead") == 1,
               "it is dead")
    take(post(stile, "/in/plain", event), "duplicate")
    assert len(it.got()) == 1


def test_unknown_is_504_and_no_copy_sends_it_again(gateway, sink):
    it = sink(lambda request: CUT)
    stile = gateway(http_sink("crm", it.url(), "on_unknown: park"))
    event = {"id": fresh()}
    assert take(post(stile, "/in/a", event), "new", 504)["outcome"] == "unknown"
    assert take(post(stile, "/in/a", event), "duplicate", 504)["outcome"] == "unknown"
    assert len(it.got()) == 1


def test_no_outcome_in_time_is_503_and_the_delivery_goes_on(gateway, sink):
    go = threading.Event()
    it = sink(lambda request: 200 if go.wait(30) else 500)
    stile = gateway(http_sink("crm", it.url()), "50ms")
    event = {"id": fresh()}
    first = post(stile, "/in/a", event)
    assert "outcome" not in take(first, "new", 503) and first.header("retry-after") == "1"
    copy = post(stile, "/in/a", event)
    take(copy, "busy", 503)
    assert copy.header("retry-after") == "1"
    go.set()
    stile.wait_settled()
    assert take(post(stile, "/in/a", event), "duplicate")["outcome"] == "done"
    assert len(it.got()) == 1


def test_copies_that_come_meanwhile_wait_for_the_same_outcome(gateway, sink, mode):
    go = threading.Event()
    it = sink(lambda request: 200 if go.wait(30) else 500)
    stile = gateway(http_sink("crm", it.url()), "20s", "", *mode)
    event = event_bytes({"id": fresh()})
    connections = [Connection(stile.address) for _ in range(12)]
    for connection in connections:
        connection.send(request_bytes("POST", "/in/a", event))
    it.wait(1)
    eventually(lambda: sample(stile, "stile_waits") == 12, "all of them wait")
    go.set()
    answers = [connection.answer() for connection in connections]
    for connection in connections:
        connection.close()
    assert all(answer.status == 200 and answer.json()["outcome"] == "done" for answer in answers)
    verdicts = sorted(answer.json()["verdict"] for answer in answers)
    assert verdicts == ["duplicate"] * 11 + ["new"]
    assert len({answer.json()["ticket"] for answer in answers}) == 1
    assert len(it.got()) == 1


def test_others_are_answered_while_one_waits(gateway, sink):
    it = sink(lambda request: HANG)
    stile = gateway(http_sink("crm", it.url()))
    with stile.connect() as waiting:
        waiting.send(request_bytes("POST", "/in/a", event_bytes({"id": fresh()})))
        it.wait(1)
        for _ in range(10):
            take(post(stile, "/in/plain", {"id": fresh()}), "new")
        assert stile.get("/healthz").status == 200


def test_client_that_goes_while_it_waits_changes_nothing(gateway, sink):
    go = threading.Event()
    it = sink(lambda request: 200 if go.wait(30) else 500)
    stile = gateway(http_sink("crm", it.url()))
    event = event_bytes({"id": fresh()})
    for _ in range(5):
        with stile.connect() as connection:
            connection.send(request_bytes("POST", "/in/a", event))
            it.wait(1)
    go.set()
    stile.wait_settled()
    copy = take(stile.request("POST", "/in/a", event), "duplicate")
    assert copy["outcome"] == "done" and len(it.got()) == 1


def test_batch_has_an_outcome_for_each(gateway, sink):
    def answer(request):
        return {"good": 200, "bad": 422}[json.loads(request.body)["type"]]

    it = sink(answer)
    stile = gateway(http_sink("crm", it.url()), "20s", "  - { type: \"*d\", to: crm }\n")
    good = [{"id": fresh(), "type": "good"} for _ in range(3)]
    bad = {"id": fresh(), "type": "bad"}
    lost = {"id": fresh(), "type": "lost"}
    ndjson = [("Content-Type", "application/x-ndjson")]

    def send(*events):
        return stile.request("POST", "/in/a", b"\n".join(map(event_bytes, events)), ndjson)

    events = take_batch(send(*good), ["new"] * 3)
    assert [event["outcome"] for event in events] == ["done"] * 3
    events = take_batch(send(*good, lost), ["duplicate"] * 3 + ["new"])
    assert [event.get("outcome") for event in events] == ["done"] * 3 + [None]
    events = take_batch(send(good[0], bad), ["duplicate", "new"], 502)
    assert [event["outcome"] for event in events] == ["done", "dead"]
    assert len(it.got()) == 4


def test_stop_does_not_wait_for_a_sink_that_hangs(gateway, sink):
    it = sink(lambda request: HANG)
    stile = gateway(http_sink("crm", it.url()), "60s")
    with stile.connect() as connection:
        connection.send(request_bytes("POST", "/in/a", event_bytes({"id": fresh()})))
        it.wait(1)
        assert stile.stop() == 0


LATER = "retry: { first: 10m, max: 10m }"


def test_stop_tells_who_waits_and_waits_for_no_retry(gateway, sink, mode):
    it = sink(lambda request: 500)
    stile = gateway(http_sink("crm", it.url(), LATER), "60s", "", *mode)
    with stile.connect() as connection:
        connection.send(request_bytes("POST", "/in/a", event_bytes({"id": fresh()})))
        it.wait(1)
        stile.process.send_signal(signal.SIGTERM)
        answer = connection.answer()
        assert "outcome" not in take(answer, "new", 503) and answer.header("retry-after") == "1"
    assert stile.wait() == 0
    assert "shutdown timeout" not in stile.log() and "open events remain for the next start" in stile.log()


def test_stop_waits_for_an_attempt_under_way_and_tells_what_came_of_it(gateway, sink, mode):
    go = threading.Event()
    it = sink(lambda request: 200 if go.wait(30) else 500)
    stile = gateway(http_sink("crm", it.url()), "60s", "", *mode)
    with stile.connect() as connection:
        connection.send(request_bytes("POST", "/in/a", event_bytes({"id": fresh()})))
        it.wait(1)
        stile.process.send_signal(signal.SIGTERM)
        eventually(lambda: "stopping" in stile.log(), "it begins to stop")
        go.set()
        assert take(connection.answer(), "new")["outcome"] == "done"
    assert stile.wait() == 0
    assert "shutdown timeout" not in stile.log() and "open events remain for the next start" not in stile.log()


def test_conflict_that_is_kept_aside_is_answered_at_once(gateway, sink):
    it = sink()
    stile = gateway(http_sink("crm", it.url()))
    event = {"id": fresh()}
    take(post(stile, "/in/a", event), "new")
    other = take(post(stile, "/in/a", {**event, "more": 1}), "conflict")
    assert "outcome" not in other and len(it.got()) == 1
