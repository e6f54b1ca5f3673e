"""A source that spools: while the shared store is away its events are accepted on this
node, and decided when it is back; nothing is lost, nothing comes twice, whoever dies."""

import itertools
import os
import random
import re
import time

import pytest

import sharedkit
from harness import Connection, event_bytes, eventually
from sharedkit import Acknowledged, Fleet, send, wait_outcomes
from sinkkit import QUICK, configure, source


@pytest.fixture(scope="module")
def backend():
    made = sharedkit.RedisBackend()
    yield made
    made.close()


@pytest.fixture
def fleet(stile, scratch, binary, backend):
    def make(sink=None, more=""):
        return Fleet(stile, scratch, binary, backend, sink, more, "store_away: spool")
    return make


def wait_away(node):
    """Until events are spooled."""
    def spooled():
        with Connection(node.address) as connection:
            answer = connection.post({"id": f"probe-{time.monotonic()}"}, path="/in/a")
            return answer.status == 202
    eventually(spooled, "events are spooled")


def wait_drained(node):
    eventually(lambda: node.metrics()["stile_spooled_events"].value() == 0 and
               node.metrics()["stile_store_away"].value() == 0, "the spool is empty")


def test_spooled_event_is_told_so_and_delivered_once_the_store_is_back(fleet, backend):
    node = fleet().start("one")
    with Connection(node.address) as connection:
        assert connection.post({"id": "known"}, path="/in/a").json()["verdict"] == "new"
        node.wait_events(1)
        node.wait_settled()
        backend.kill()
        try:
            wait_away(node)
            for _ in range(3):
                answer = connection.post({"id": "spooled"}, path="/in/a")
                assert answer.status == 202, answer
                assert answer.header("stile-verdict") == "spooled"
                assert answer.json()["verdict"] == "spooled"
            assert connection.post({"id": "known"}, path="/in/a").status == 202
            assert node.get("/readyz").status == 200
            assert node.metrics()["stile_spooled_events"].value() >= 4
            assert "spooled" not in [event["id"] for event in node.events()]
        finally:
            backend.start()
        wait_drained(node)
        node.wait_settled()
        ids = [event["id"] for event in node.events()]
        assert ids.count("spooled") == 1 and ids.count("known") == 1
        assert connection.post({"id": "spooled"}, path="/in/a").json()["verdict"] == "duplicate"
    assert node.stop() == 0


def test_what_another_stile_spools_is_delivered_to_it(fleet, backend, stile, scratch):
    """It has it on disk, as if it had decided: nobody sends it again."""
    far = fleet().start("far")
    host, port = far.address
    sinks = (f"  far: {{ stile: \"http://{host}:{port}/in/a\", allow: 127.0.0.0/8, "
             "on_unknown: park }\n")
    near = stile("--config", configure(scratch, source("a"), sinks),
                 folder=os.path.join(scratch, "near"))
    backend.kill()
    try:
        wait_away(far)
        for count in (1, 20):  # alone, and in company
            events = [{"id": f"handed-on-{count}-{i}"} for i in range(count)]
            answer = near.request("POST", "/in/a", event_bytes(events))
            assert answer.status == 200, answer
            near.wait_settled()
        deliveries = near.metrics()["stile_deliveries_total"]
        assert deliveries.value(sink="far", outcome="done") == 21
        assert deliveries.value(sink="far", outcome="unknown") == 0
    finally:
        backend.start()
    wait_drained(far)
    far.wait_settled()
    ids = [it["id"] for it in far.events() if it["id"].startswith("handed-on")]
    assert len(ids) == len(set(ids)) == 21


def test_two_nodes_that_spooled_the_same_deliver_it_once(fleet, backend):
    its = fleet()
    nodes = [its.start("one"), its.start("two")]
    ids = [f"both-{n}" for n in range(60)]
    backend.kill()
    try:
        for node in nodes:
            wait_away(node)
            send(node, ids, Acknowledged())
    finally:
        backend.start()
    for node in nodes:
        wait_drained(node)
        node.wait_settled()
    printed = [event["id"] for node in nodes for event in node.events()]
    assert sorted(it for it in printed if it.startswith("both")) == sorted(ids)


def test_node_and_store_that_die_again_and_again_lose_and_double_nothing(
        fleet, backend, sink, seed, scale):
    chance = random.Random(seed)
    destination = sink(lambda request: 200)
    its = fleet(destination, f"on_unknown: park, {QUICK}")
    oracle = Acknowledged()
    numbers = itertools.count()
    for _ in range(6 * scale):
        node = its.start("victim")
        for step in range(6):
            if chance.random() < 0.4:
                if backend.server.running():
                    backend.kill()
                else:
                    backend.start()
            ids = [f"n-{next(numbers)}" for _ in range(chance.randrange(1, 30))]
            send(node, ids + chance.sample(ids, len(ids) // 3), oracle)
            if step == 5 and chance.random() < 0.8:
                time.sleep(chance.random() * 0.3)
        node.kill()
    if not backend.server.running():
        backend.start()
    node = its.start("victim")
    wait_drained(node)
    wait_outcomes(node, oracle, destination)
    oracle.check_remembered(node)


def test_stop_while_the_store_is_away_keeps_what_was_spooled(fleet, backend):
    its = fleet()
    node = its.start("one")
    backend.kill()
    try:
        wait_away(node)
        send(node, ["kept"], Acknowledged())
        assert node.stop() == 0
    finally:
        backend.start()
    node = its.start("one")
    eventually(lambda: "kept" in [event["id"] for event in node.events()],
               "what was spooled is delivered after the next start")
    assert node.stop() == 0


# ---- starts without the store ----

def test_node_that_starts_without_the_store_spools_and_delivers_once_it_is_there(fleet, backend):
    its = fleet()
    node = its.start("one")
    send(node, ["known"], Acknowledged())
    node.wait_events(1)
    node.wait_settled()
    assert node.stop() == 0
    backend.kill()
    try:
        node = its.start("one")
        assert node.get("/readyz").status == 200
        with Connection(node.address) as connection:
            for event_id in ("spooled", "spooled", "known"):
                answer = connection.post({"id": event_id}, path="/in/a")
                assert answer.status == 202 and answer.json()["verdict"] == "spooled"
        assert "events with store_away: spool are spooled" in node.log()
        node.kill()
        node = its.start("one")  # and again
        assert node.metrics()["stile_spooled_events"].value() == 3
    finally:
        backend.start()
    wait_drained(node)
    node.wait_settled()
    assert sorted(event["id"] for event in node.events()) == ["known", "spooled"]
    with Connection(node.address) as connection:
        for event_id in ("spooled", "known"):
            answer = connection.post({"id": event_id}, path="/in/a")
            assert answer.json()["verdict"] == "duplicate"
    assert not re.search(r"^stile_commit_batch_count 0$", node.get("/metrics").body.decode(), re.M)
    assert node.stop() == 0


def test_first_start_without_the_store_spools_nothing(fleet, backend):
    """The secret of the digests is not known: what was spooled would be known to nobody."""
    its = fleet()
    backend.kill()
    try:
        node = its.start_waiting("one")
        assert node.request("POST", "/in/a", event_bytes({"id": "early"})).status == 503
    finally:
        backend.start()
    node.wait_ready()
    oracle = Acknowledged()
    send(node, ["early"], oracle)
    assert oracle.new == {"early": 1}
    assert node.stop() == 0


def test_store_that_comes_back_with_another_secret_ends_the_node(fleet, backend):
    """What was spooled is kept, and decided after the next start, which warns."""
    its = fleet()
    assert its.start("one").stop() == 0
    server = backend.server
    server.ask("SET", f"{its.name}:secret", "x" * 16)
    backend.kill()
    try:
        node = its.start("one")
        send(node, ["spooled"], Acknowledged())
    finally:
        backend.start()
    assert node.wait() == 1
    assert "its secret has changed" in node.log()
    node = its.start("one")
    assert "duplicates of spooled events are not recognized" in node.log()
    eventually(lambda: "spooled" in [event["id"] for event in node.events()], "it is delivered")
    assert node.stop() == 0
