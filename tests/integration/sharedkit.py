"""Shared stores for tests of gateways: real servers, each test with keys of its own, and
nodes that use them.

A backend is one kind of store. It can be killed, started again, and stopped for a while."""

import contextlib
import itertools
import os
import re
import subprocess
import threading
import urllib.parse

import postgreskit
import rediskit
from gatekit import write
from harness import Connection, LIMIT_S, event_bytes, eventually
from sinkkit import http_sink, source

_numbers = itertools.count(1)
LEASE_S = 2


def fresh_name():
    return f"t{os.getpid()}x{next(_numbers)}"


class RedisBackend:
    kind = "redis"

    def __init__(self):
        self.server = rediskit.Redis()

    def url(self, name):
        return self.server.url() + f"?prefix={name}&timeout=5s"

    def kill(self):
        self.server.kill()

    def start(self):
        self.server.start()

    def pause(self):
        self.server.pause()

    def resume(self):
        self.server.resume()

    def close(self):
        self.server.close()


class ClusterBackend:
    kind = "cluster"

    def __init__(self):
        self.cluster = rediskit.Cluster()

    def url(self, name):
        return self.cluster.url() + f"?prefix={name}&timeout=5s&replicas=1&wait=1s"

    def kill(self):
        for node in self.cluster.nodes:
            node.kill()

    def pause(self):
        for node in self.cluster.nodes:
            node.pause()

    def resume(self):
        for node in self.cluster.nodes:
            node.resume()
        self.cluster.wait_whole()

    def close(self):
        self.cluster.close()


class PostgresBackend:
    kind = "postgres"

    def __init__(self):
        self.server = postgreskit.Postgres()
        # Whoever runs stile is not whom the server runs as.
        os.chmod(self.server.folder, 0o755)

    def url(self, name):
        folder = urllib.parse.quote(self.server.folder, safe="")
        return f"postgres://stile@{folder}/postgres?schema={name}"

    def kill(self):
        self.server.kill()

    def start(self):
        self.server.start()

    def close(self):
        self.server.close()


BACKENDS = {it.kind: it for it in (RedisBackend, ClusterBackend, PostgresBackend)}


def prepare(binary, backend, url):
    if backend.kind == "postgres":
        subprocess.run([binary, "store", "init", url], check=True, capture_output=True,
                       timeout=LIMIT_S)


class Fleet:
    """Nodes with one configuration and one store, each with a data folder of its own."""

    def __init__(self, stile, scratch, binary, backend, sink=None, more="", source_more="",
                 lease_s=LEASE_S, timeout="5s"):
        self.stile = stile
        self.scratch = scratch
        self.backend = backend
        self.name = fresh_name()
        self.url = backend.url(self.name).replace("timeout=5s", f"timeout={timeout}")
        prepare(binary, backend, self.url)
        text = f"store: {{ url: \"{self.url}\", lease: {lease_s}s }}\n"
        text += "sources:\n" + source("a", source_more)
        if sink:
            text += "sinks:\n" + http_sink("it", sink.url("/it"), more)
        self.text = text
        self.config = write(scratch, f"{self.name}.yaml", text)

    def start(self, name, options=(), **more):
        return self.stile("--config", self.config, *options, folder=os.path.join(self.scratch, name),
                          name=name, **more)


    def start_waiting(self, name, options=()):
        return start_waiting(self.stile, "--config", self.config, *options,
                             folder=os.path.join(self.scratch, name), name=name)


def start_waiting(stile, *options, **more):
    """A gateway whose store is away: it listens, and waits."""
    node = stile(*options, wait=False, **more)
    found = eventually(lambda: re.search(r"unreachable at start: requests rejected with 503. "
                                         r"listen=https?://([^\s\"]+):(\d+)", node.log()),
                       "it waits for its store")
    node.address = (found[1].strip("[]"), int(found[2]))
    return node


class Acknowledged:
    """The oracle: which ids were acknowledged, and which were called new."""

    def __init__(self):
        self.lock = threading.Lock()
        self.known = set()
        self.new = {}
        self.refused = 0
        self.wrong = []

    def note(self, event_id, answer):
        with self.lock:
            if answer.status not in (200, 202):
                self.refused += 1
                return
            verdict = answer.json()["verdict"]
            self.known.add(event_id)
            if verdict == "new":
                self.new[event_id] = self.new.get(event_id, 0) + 1
                if self.new[event_id] > 1:
                    self.wrong.append(event_id)

    def check(self):
        assert not self.wrong, f"{len(self.wrong)} were new twice: {self.wrong[:5]}"

    def check_remembered(self, node):
        """What was acknowledged is known to the store, whatever became of it."""
        forgotten = []
        with Connection(node.address) as connection:
            for event_id in sorted(self.known):
                answer = eventually(lambda: once_decided(connection, event_id),
                                    "the store decides")
                if answer.json()["verdict"] == "new":
                    forgotten.append(event_id)
        assert not forgotten, f"{len(forgotten)} of {len(self.known)} were forgotten: " \
            f"{forgotten[:5]}"


def wait_outcomes(node, oracle, destination):
    """Until what was acknowledged has arrived, or is parked: of one that was being sent when
    its node died nobody knows. With `park` nothing may arrive twice. (A shared store's
    counts may be a second old.)"""
    def settled():
        metrics = node.metrics()
        parked = metrics["stile_parked_tickets"].value()
        return metrics["stile_open_tickets"].value() == parked and \
            len(oracle.known - set(destination.ids())) <= parked
    try:
        eventually(settled, "all have an outcome")
    except AssertionError:
        missing = oracle.known - set(destination.ids())
        parked = node.metrics()["stile_parked_tickets"].value()
        raise AssertionError(f"{len(missing)} neither arrived nor are parked ({parked}): "
                             f"{sorted(missing)[:5]}") from None
    ids = destination.ids()
    assert len(ids) == len(set(ids)), "delivered twice"


def once_decided(connection, event_id):
    answer = connection.post({"id": event_id}, path="/in/a")
    return answer if answer.status == 200 else None


def send(node, ids, oracle, until=lambda: False):
    """One after the other; what is refused is sent again, as senders do."""
    for event_id in ids:
        while not until():
            try:
                with Connection(node.address) as connection:
                    answer = connection.request("POST", "/in/a", event_bytes({"id": event_id}))
            except OSError:
                return  # the node is gone
            oracle.note(event_id, answer)
            if answer.status in (200, 202):
                break


@contextlib.contextmanager
def load(nodes, oracle, prefix, threads=4):
    """Senders on all nodes until the block ends, each with ids of its own."""
    stop = threading.Event()

    def run(node, name):
        for n in itertools.count():
            if stop.is_set():
                return
            send(node, [f"{prefix}-{name}-{n}"], oracle, stop.is_set)

    workers = [threading.Thread(target=run, args=(nodes[i % len(nodes)], i), daemon=True)
               for i in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        stop.set()
        for worker in workers:
            worker.join(LIMIT_S)
            assert not worker.is_alive(), "a sender waits for an answer that does not come"
