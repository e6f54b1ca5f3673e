"""kill -9 while deliveries are under way, at any moment and at each durable step: nothing is
lost, nothing starts again after its success was recorded, `park` never sends again."""

import contextlib
import json
import random
import shutil
import signal
import threading
import time

import pytest

from harness import Connection, event_bytes, eventually
from hostile import GOOD, HostileSink, check_promises, choose_some
from sinkkit import configure, http_sink, source
from test_kill_steps import attach

PATHS = ("/retry", "/probe", "/park")
OPTIONS = "retry: { first: 1ms, max: 20ms }, breaker: { failures: 0, percent: 0 }, adapt: no"
ROUTES = "  - { to: [retry, probe, park], order_by: entity }\n"


class History:
    """All lives of a gateway, its sink, and what senders were told."""

    def __init__(self, stile, scratch, choose, more=""):
        self.stile = stile
        self.sink = HostileSink(choose)
        self.lock = threading.Lock()
        self.bodies = {}    # ticket → bytes: acknowledged
        self.recorded = {}  # ticket → how much the sink's log had when "done" was told
        self.config = configure(
            scratch, source("a") + source("told", "ack: delivered, wait: 20s"),
            "".join(http_sink(path[1:], self.sink.url(path), f"on_unknown: {path[1:]}, {OPTIONS}{more}" +
                              (f", probe: \"{self.sink.url(path)}/{{ticket}}\""
                               if path == "/probe" else "")) for path in PATHS), ROUTES)

    def start(self, *options):
        return self.stile("--config", self.config, *options, name="killed")

    def send(self, gateway, name, stopping=lambda: False):
        """One event after the other, each of the entity `name`, until the gateway is gone."""
        try:
            with Connection(gateway.address) as connection:
                number = 0
                while not stopping():
                    number += 1
                    self.send_one(connection, name, number)
        except OSError:
            pass  # killed: what was not answered is not known

    @contextlib.contextmanager
    def sending(self, gateway, name):
        """Three senders, until the block has ended and the gateway is gone."""
        senders = [threading.Thread(target=self.send, args=(gateway, f"{name}-{i}"))
                   for i in range(3)]
        for sender in senders:
            sender.start()
        yield
        gateway.kill()
        for sender in senders:
            sender.join(60)
            assert not sender.is_alive()
        self.end_life(gateway)

    def send_one(self, connection, name, number):
        body = event_bytes({"id": f"{name}-{number}", "entity": name, "n": number})
        path = "/in/told" if number % 3 == 0 else "/in/a"
        answer = connection.request("POST", path, body)
        told = answer.json()
        assert answer.status in (200, 503, 504) and told.get("verdict") == "new", answer
        with self.lock:
            self.bodies[told["ticket"]] = body
            if told.get("outcome") == "done":
                self.recorded[told["ticket"]] = self.sink.count()

    def end_life(self, gateway):
        gateway.wait()
        self.sink.wait_quiet()  # what it had sent is read before the next life asks about it

    def check(self):
        """A last life, with a sink that works."""
        self.sink.choose = lambda request: GOOD
        gateway = self.start()

        def parked():
            metrics = gateway.metrics()
            count = metrics["stile_parked_tickets"].value()
            return metrics["stile_open_tickets"].value() == count and int(count) + 1
        left = eventually(parked, "all have an outcome") - 1
        gateway.kill()
        self.sink.wait_quiet()
        check_promises(self.sink, self.bodies, {"/park"}, {"/probe"})
        for path in ("/retry", "/probe"):
            lost = self.bodies.keys() - self.sink.effects_of(path).keys()
            assert not lost, f"{path}: {len(lost)} acknowledged events never arrived"
        missing = self.bodies.keys() - self.sink.effects_of("/park").keys()
        assert len(missing) <= left, f"{missing} neither arrived nor are parked"
        for request in self.sink.requests():
            assert request.number < self.recorded.get(request.key, request.number + 1), \
                f"{request.key} started again after its success was recorded"
        self.check_order()

    def check_order(self):
        last = {}
        for request in self.sink.first_effects:
            event = json.loads(request.body)
            name = request.path, event["entity"]
            assert last.get(name, 0) < event["n"], f"{event} after {last[name]} at {request.path}"
            last[name] = event["n"]

    def close(self):
        self.sink.close()


@pytest.fixture
def history(stile, scratch):
    made = []

    def make(*arguments):
        made.append(History(stile, scratch, *arguments))
        return made[-1]

    yield make
    for it in made:
        it.close()


@pytest.mark.release
def test_kill_loop_with_a_hostile_sink(history, seed, scale):
    lives = 25 if scale == 1 else 100 * scale
    chance = random.Random(seed)
    its = history(choose_some(seed, 0.3))
    for life in range(lives):
        gateway = its.start("--threads", str(1 + life % 2))
        with its.sending(gateway, f"{seed}-{life}"):
            time.sleep(chance.uniform(0.05, 0.3))  # when the kill comes; no check rests on it
    its.check()
    assert len(its.bodies) >= lives and its.recorded


@pytest.mark.release
def test_frozen_process_repeats_nothing_whose_success_it_recorded(history, seed, scale):
    """Longer than an attempt may take: the answer is there, but its time is over. That is an
    unknown outcome: sent again, asked about or parked. A success that was recorded before
    the freeze, or after it, is none of that."""
    chance = random.Random(seed)
    its = history(lambda request: GOOD, ", timeout: 200ms")
    for life in range(4 * scale):
        gateway = its.start()
        with its.sending(gateway, f"frozen-{life}"):
            for _ in range(4):
                time.sleep(chance.uniform(0.02, 0.1))  # no check rests on these
                gateway.process.send_signal(signal.SIGSTOP)
                time.sleep(chance.uniform(0.1, 0.5))
                gateway.process.send_signal(signal.SIGCONT)
    its.check()
    assert its.recorded


@pytest.mark.release
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_kill_at_each_durable_step_of_a_delivery(history, seed, scale):
    """Admission, the note that an attempt begins, what came of it: one event at a time, so
    each of them is a write and a sync of its own."""
    its = history(choose_some(seed, 0.3))
    for when in range(1, min(60, 18 * scale) + 1):
        gateway = its.start("--commit", "inline")
        tracer = attach(gateway, when)
        its.send(gateway, f"step-{when}")
        its.end_life(gateway)
        tracer.wait()
    its.check()
    assert len(its.bodies) > 10
