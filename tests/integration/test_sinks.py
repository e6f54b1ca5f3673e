"""Sinks that change while stile runs, and secrets that stay where they belong."""

import base64
import json
import os
import re
import signal
import threading

import pytest

from gatekit import fresh, post, sample, take
from harness import Connection, eventually, event_bytes
from sinkkit import HANG, QUICK, configure, http_sink, key, source

CANARY = "c4n4ry-0123456789-c4n4ry"
SIGNING = "whsec_" + base64.b64encode(b"c4n4ry-0123456789-c4n4ry-signing").decode()


class Reloaded:
    """A gateway whose sinks and routes are written anew."""

    def __init__(self, stile, folder, sinks, routes="", sources=source("a"), options=()):
        self.folder, self.sources = folder, sources
        self.write(sinks, routes)
        self.gateway = stile("--config", self.path, *options,
                             env={"CANARY": CANARY, "SIGNING": SIGNING})

    def write(self, sinks, routes=""):
        self.path = configure(self.folder, self.sources, sinks, routes)

    def told(self, message):
        return len(re.findall(f'msg="{message}', self.gateway.log()))

    def load(self, sinks, routes="", message="configuration loaded"):
        self.write(sinks, routes)
        before, at = self.told(message), len(self.gateway.log())
        self.gateway.process.send_signal(signal.SIGHUP)
        eventually(lambda: self.told(message) > before, f"the log says: {message}")
        return self.gateway.log()[at:]

    def send(self, count=1):
        ids = [fresh() for _ in range(count)]
        for number in ids:
            take(post(self.gateway, "/in/a", {"id": number}), "new")
        return ids


@pytest.fixture
def make(stile, scratch):
    return lambda *arguments, **more: Reloaded(stile, scratch, *arguments, **more)


def test_sink_that_is_added_gets_what_comes(make, sink):
    it = sink()
    gate = make(http_sink("one", it.url("/one")))
    before = gate.send(3)
    said = gate.load(http_sink("one", it.url("/one")) + http_sink("two", it.url("/two")))
    assert "option=sinks.two text=added" in said
    after = gate.send(3)
    gate.gateway.wait_settled()
    assert sorted(it.ids("/one")) == sorted(before + after)
    assert sorted(it.ids("/two")) == sorted(after)
    assert sample(gate.gateway, "stile_deliveries_total", sink="two", outcome="done") == 3


def test_routes_change_at_once(make, sink):
    it = sink()
    sinks = http_sink("one", it.url("/one")) + http_sink("two", it.url("/two"))
    gate = make(sinks, "  - { to: one }\n")
    first = gate.send(2)
    assert "option=routes text=changed" in gate.load(sinks, "  - { to: two }\n")
    second = gate.send(2)
    gate.gateway.wait_settled()
    assert sorted(it.ids("/one")) == sorted(first)
    assert sorted(it.ids("/two")) == sorted(second)


def test_sink_with_another_address_gets_what_waited_there(make, sink):
    down, up = sink(lambda request: 503), sink()
    gate = make(http_sink("crm", down.url(), QUICK))
    ids = gate.send(20)
    down.wait(1)
    gate.load(http_sink("crm", up.url(), QUICK), message="sink changed")
    gate.gateway.wait_settled()
    assert sorted(up.ids()) == sorted(ids)
    again = {json.loads(r.body)["id"]: key(r) for r in down.got()}
    for request in up.got():
        assert again.get(json.loads(request.body)["id"], key(request)) == key(request)


def test_change_waits_for_what_is_under_way(make, sink):
    """Nothing is sent twice because a sink was changed."""
    go = threading.Event()
    slow = sink(lambda request: 200 if go.wait(30) else 500)
    other = sink()
    gate = make(http_sink("crm", slow.url()))
    first = gate.send(1)
    slow.wait(1)
    gate.load(http_sink("crm", other.url()))
    second = gate.send(1)
    go.set()
    gate.gateway.wait_settled()
    assert slow.ids() == first and other.ids() == second


def test_removed_sink_keeps_what_waits_until_it_comes_back(make, sink):
    up = {"crm": False}
    it = sink(lambda request: 200 if up["crm"] or request.path != "/crm" else 503)
    crm, out = http_sink("crm", it.url("/crm"), QUICK), http_sink("other", it.url("/other"))
    gate = make(crm + out)
    ids = gate.send(5)
    it.wait(1, "/crm")
    said = gate.load(out)
    assert re.search(r'sink removed.*sink=crm waiting=', said), said
    more = gate.send(2)
    eventually(lambda: sorted(it.ids("/other")) == sorted(ids + more), "others go on")
    eventually(lambda: sample(gate.gateway, "stile_open_tickets") == 5, "they are done")
    up["crm"] = True
    gate.load(crm + out)
    gate.gateway.wait_settled()
    good = {json.loads(r.body)["id"] for r in it.got("/crm")}
    assert good == set(ids)


def test_name_of_a_sink_is_that_of_the_one_that_is_there(make, sink):
    """Standard output has a number of its own: under an old name it is another sink."""
    it = sink()
    gate = make("  out: stdout\n")
    gate.load(http_sink("out", it.url("/out")))
    answer = gate.gateway.ask("POST", "/v1/sinks/out/pause")
    assert answer.status == 200 and answer.json()["state"] == "paused", answer
    gate.send()
    row = eventually(lambda: [row for row in gate.gateway.ask("GET", "/v1/sinks").json()["sinks"]
                              if row["waiting"] == 1], "it waits")[0]
    assert row["state"] == "paused"
    assert gate.gateway.ask("GET", "/v1/sinks/out").json()["waiting"] == 1
    assert gate.gateway.metrics()["stile_deliveries_total"].value(sink="out", outcome="done") == 0
    assert gate.gateway.ask("POST", "/v1/sinks/out/resume").status == 200
    it.wait(1, "/out")


def test_standard_output_under_another_name(make):
    gate = make("  out: stdout\n")
    assert gate.gateway.ask("POST", "/v1/sinks/out/pause").status == 200
    assert "option=sinks.lines text=added" in gate.load("  lines: stdout\n")
    eventually(lambda: gate.gateway.ask("GET", "/v1/sinks/lines").status == 200, "it is there")
    assert gate.gateway.ask("GET", "/v1/sinks/out").status == 404
    gate.send()
    gate.gateway.wait_settled()
    assert len(gate.gateway.lines()) == 1


def test_events_for_a_sink_that_is_not_there_are_told_at_the_start(stile, scratch, sink):
    it = sink(lambda request: 503 if request.path == "/crm" else 200)
    crm, out = http_sink("crm", it.url("/crm"), QUICK), http_sink("other", it.url("/other"))
    gateway = stile("--config", configure(scratch, source("a"), crm + out))
    for _ in range(3):
        take(post(gateway, "/in/a", {"id": fresh()}), "new")
    it.wait(3, "/other")
    gateway.kill()
    gateway = stile("--config", configure(scratch, source("a"), out))
    told = eventually(lambda: re.search(r'events wait for a sink.*events=(\d+)', gateway.log()),
                      "the log tells of them")
    assert told[1] == "3"
    assert gateway.stop() == 0
    gateway = stile("--config", configure(scratch, source("a"), crm + out))
    it.answer = lambda request: 200
    gateway.wait_settled()
    assert "events wait for a sink" not in gateway.log()


def test_bad_file_leaves_sinks_and_routes_as_they_were(make, sink):
    it = sink()
    gate = make(http_sink("one", it.url("/one")), "  - { to: one }\n")
    said = gate.load(http_sink("one", it.url("/two")), "  - { to: nowhere }\n",
                     "configuration rejected")
    assert "expected the name of a sink" in said
    ids = gate.send(2)
    gate.gateway.wait_settled()
    assert sorted(it.ids("/one")) == sorted(ids) and not it.got("/two")


@pytest.mark.parametrize("options", [(), ("--threads", "2")], ids=["one", "two"])
def test_reloads_under_load_lose_and_double_nothing(make, sink, options):
    it = sink()
    def variant(number):
        sinks = http_sink("crm", it.url(f"/crm{number % 3}"), QUICK) + \
            http_sink("log", it.url("/log"), f"concurrency: {1 + number % 4}")
        if number % 2:
            sinks += http_sink("extra", it.url("/extra"))
        return sinks, "  - { to: [crm, log] }\n" + ("  - { type: x, to: extra }\n"
                                                     if number % 2 else "")
    # Senders that wait for the outcome send no faster than the sink takes.
    gate = make(*variant(0), sources=source("a", "ack: delivered, wait: 30s"), options=options)
    sent, end = [], threading.Event()

    def load():
        with Connection(gate.gateway.address) as connection:
            while not end.is_set():
                number = fresh()
                answer = connection.request("POST", "/in/a", event_bytes({"id": number}))
                assert take(answer, "new")["outcome"] == "done"
                sent.append(number)

    senders = [threading.Thread(target=load) for _ in range(3)]
    for sender in senders:
        sender.start()
    for number in range(1, 9):
        gate.load(*variant(number))
        done = len(sent)
        eventually(lambda: len(sent) >= done + 20, "senders go on")
    end.set()
    for sender in senders:
        sender.join(30)
        assert not sender.is_alive()
    gate.gateway.wait_settled()
    to_crm = [number for path in ("/crm0", "/crm1", "/crm2") for number in it.ids(path)]
    assert sorted(to_crm) == sorted(sent)
    assert sorted(it.ids("/log")) == sorted(sent)


def test_second_reload_waits_for_the_first_change(make, sink):
    go = threading.Event()
    slow = sink(lambda request: 200 if go.wait(30) else 500)
    other = sink()
    gate = make(http_sink("crm", slow.url()))
    gate.send(1)
    slow.wait(1)
    gate.load(http_sink("crm", other.url("/first")))
    gate.write(http_sink("crm", other.url("/second")))
    before = gate.told("configuration loaded")
    gate.gateway.process.send_signal(signal.SIGHUP)
    go.set()
    eventually(lambda: gate.told("configuration loaded") > before, "it is loaded after all")
    eventually(lambda: gate.told("sink changed") == 2, "both changes are done")
    ids = gate.send(2)
    gate.gateway.wait_settled()
    assert sorted(other.ids("/second")) == sorted(ids) and not other.got("/first")


def test_stop_in_the_middle_of_a_change(make, sink):
    slow = sink(lambda request: HANG)
    gate = make(http_sink("crm", slow.url()))
    gate.send(1)
    slow.wait(1)
    gate.load(http_sink("crm", slow.url("/other")))
    assert gate.gateway.stop() == 0


def test_no_secret_is_in_any_output(make, run, sink, scratch):
    """Headers, signatures and queries have secrets; a sink that repeats them in its answer
    must not bring them into logs, either."""
    it = sink(lambda request: (500, {"X-Echo": request.headers.get("X-Api-Key", "")}))
    sinks = http_sink("crm", it.url("/?token=${CANARY}"), QUICK +
                      ", headers: { Authorization: \"Bearer ${CANARY}\", X-Api-Key: \"${CANARY}\" }"
                      ", sign: \"${SIGNING}\"")
    gate = make(sinks + http_sink("gone", "http://127.0.0.1:1/${CANARY}", QUICK))
    gate.send(2)
    request = it.wait(3)[0]
    assert request.headers["Authorization"] == f"Bearer {CANARY}"
    assert request.headers["X-Api-Key"] == CANARY and CANARY in request.path
    assert request.headers["webhook-signature"].startswith("v1,")
    gate.load(sinks.replace("X-Api-Key", "X-Api-Key2"), message="sink changed")
    outputs = [gate.gateway.get("/metrics").body.decode(), gate.gateway.log()]
    env = {"CANARY": CANARY, "SIGNING": SIGNING}
    for arguments in (("check", gate.path), ("check", "--json", gate.path)):
        outputs += run(*arguments, env=env)[1:]
    bad = configure(scratch, source("a"), http_sink("crm", "https://me:${CANARY}@x/"))
    outputs += run("check", bad, env=env)[1:]
    gate.gateway.stop()
    outputs.append(gate.gateway.log())
    for text in outputs:
        assert CANARY not in text and SIGNING not in text and SIGNING[6:] not in text
    with open(os.path.join(scratch, "stile.yaml"), encoding="utf-8") as file:
        assert CANARY not in file.read()
