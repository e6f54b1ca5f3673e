"""The layout of the keys in a Redis store (redis_open.c): a store of the version before is read if
all of it can be, and refused with a message otherwise; gateways of different layouts do not use
one store."""

import threading

import pytest

import rediskit
from gatekit import write
from harness import Connection, eventually
from sinkkit import QUICK, http_sink, source

LAYOUT, SECRET, SHARD = "stile:layout", "stile:secret", "stile{0}m"


@pytest.fixture
def server():
    made = rediskit.Redis(aof=None)
    yield made
    made.close()


@pytest.fixture
def gateway(stile, scratch, server):
    def start(sink=None, parameters="", **more):
        text = f"store: {{ url: \"{server.url()}{parameters}\" }}\nsources:\n" + source("a")
        if sink:
            text += "sinks:\n" + http_sink("it", sink.url("/it"), f"on_unknown: retry, {QUICK}")
        return stile("--config", write(scratch, "layout.yaml", text), **more)
    return start


def post(node, name):
    with Connection(node.address) as connection:
        return connection.post({"id": name}, path="/in/a").json()["verdict"]


def make_layout_2(server, in_parcels=0):
    """As a gateway of layout 2 leaves it: no version in the shards, a number of events in parcels."""
    names = server.ask("KEYS", "stile{*}m")
    for name in names:
        last = server.ask("HGET", name, "last").decode()
        server.ask("DEL", name)
        server.ask("SET", name, f"{last} {in_parcels}")
    server.ask("SET", LAYOUT, f"2 {len(names)}")


def layouts(server):
    kinds = {server.ask("TYPE", name) for name in server.ask("KEYS", "stile{*}m")}
    return server.ask("GET", LAYOUT), kinds


def check(run, server, code=0):
    got, out, err = run("store", "check", server.url())
    assert got == code, out + err
    return " ".join(out.split())


def refused(node):
    assert node.process.wait(60) == 1, node.log()
    return node.log()


@pytest.mark.parametrize("shards", [1, 4])
def test_store_of_layout_2_is_read_and_has_layout_3_then(gateway, server, sink, shards):
    works = threading.Event()
    destination = sink(lambda request: 200 if works.is_set() else 503)
    node = gateway(destination, f"?shards={shards}")
    assert post(node, "open") == "new"
    assert node.stop() == 0
    make_layout_2(server)
    assert layouts(server) == (f"2 {shards}".encode(), {b"string"})
    works.set()
    tried = len(destination.got())
    node = gateway(destination)  # the store says how many shards it has
    assert layouts(server) == (f"3 {shards}".encode(), {b"hash"})
    assert post(node, "open") == "duplicate"
    destination.wait(tried + 1)
    eventually(lambda: node.metrics()["stile_open_tickets"].value() == 0, "it is delivered")
    assert post(node, "another") == "new"
    assert node.stop() == 0


def test_check_reports_the_layout(gateway, server, run):
    assert "ok redis layout: no keys yet" in check(run, server)
    assert gateway().stop() == 0
    assert "ok redis layout 3, shards=1" in check(run, server)
    make_layout_2(server)
    assert "warning redis layout 2 is of an earlier version" in check(run, server)
    server.ask("SET", LAYOUT, "4 1")
    assert 'error redis layout: the store\'s keys have the layout "4 1"' in check(run, server, code=1)


def test_store_with_events_in_parcels_is_refused_and_left_as_it_is(gateway, server):
    node = gateway()
    assert post(node, "one") == "new"
    assert node.stop() == 0
    make_layout_2(server, in_parcels=7)
    before = server.ask("GET", SHARD)
    log = refused(gateway(wait=False))
    assert "7 open events are in parcels" in log and "stop them with SIGTERM" in log, log
    assert layouts(server) == (b"2 1", {b"string"}) and server.ask("GET", SHARD) == before


def test_store_that_a_gateway_of_layout_2_uses_is_refused(gateway, server):
    """Such a gateway reads the secret each second."""
    node = gateway()
    assert post(node, "one") == "new"
    assert node.stop() == 0
    make_layout_2(server)
    ends = threading.Event()

    def read():
        while not ends.wait(0.2):
            server.ask("GET", SECRET)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        log = refused(gateway(wait=False))
    finally:
        ends.set()
        reader.join()
    assert "a gateway of an earlier version of stile uses this store" in log, log
    assert layouts(server) == (b"2 1", {b"string"})
    node = gateway()  # as soon as nobody reads it any more
    assert layouts(server) == (b"3 1", {b"hash"})
    assert post(node, "one") == "duplicate"
    assert node.stop() == 0


@pytest.mark.parametrize("layout", ["1 1", "4 1", "3 3", "three"])
def test_store_of_an_unknown_layout_is_refused(gateway, server, layout):
    server.ask("SET", LAYOUT, layout)
    log = refused(gateway(wait=False))
    assert f'have the layout \\"{layout}\\"' in log or f'have the layout "{layout}"' in log, log
    assert server.ask("KEYS", "*") == [LAYOUT.encode()]


def test_running_gateway_decides_nothing_when_another_version_changed_the_layout(gateway, server):
    node = gateway()
    assert post(node, "one") == "new"
    server.ask("HSET", SHARD, "layout", "4")
    with Connection(node.address) as connection:
        assert connection.post({"id": "two"}, path="/in/a").status == 503
    eventually(lambda: "LAYOUT the keys have another layout than 3" in node.log(), "that is logged")
    assert server.ask("HGET", SHARD, "layout") == b"4"
    server.ask("HSET", SHARD, "layout", "3")
    with Connection(node.address) as connection:
        eventually(lambda: connection.post({"id": "two"}, path="/in/a").status == 200,
                   "it decides again")
    assert node.stop() == 0
