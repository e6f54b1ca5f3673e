"""A Redis that answers and yet does not do as it should: it becomes a replica, is full, or its
answers are lost. Whatever it is, it is told once, and when it is over; and no event is lost or
delivered twice for it."""

import json
import socket
import threading
import time

import pytest

import rediskit
from gatekit import write
from harness import Connection, eventually
from sinkkit import QUICK, http_sink, source


@pytest.fixture
def server():
    made = rediskit.Redis(aof=None)
    yield made
    made.close()


@pytest.fixture
def gateway(stile, scratch):
    """stile with this URL as its store, and perhaps a sink."""
    def start(url, sink=None, more="", source_more=""):
        text = f"store: {{ url: \"{url}\", lease: 600s }}\nsources:\n" + source("a", source_more)
        if sink:
            text += "sinks:\n" + http_sink("it", sink.url("/it"), f"{more}{QUICK}")
        return stile("--config", write(scratch, "troubles.yaml", text))
    return start


# How an admit of one claim for one sink begins, and a take (redis_script.lua).
ADMIT, TAKE = b"$63\r\nA", b"$22\r\nT"


class LossyWay:
    """Between a gateway and its Redis; the answer to a request that has `pattern` is lost once,
    and the connection with it. While it is shut, so is every other connection."""

    def __init__(self, server):
        self.server = server
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.pattern = None
        self.lost = threading.Event()
        self.shuts = self.shut = False
        threading.Thread(target=self.accept, daemon=True).start()

    def url(self, timeout="20s"):
        return f"redis://127.0.0.1:{self.port}?timeout={timeout}"

    def lose(self, pattern, and_shut=False):
        self.shuts = and_shut
        self.pattern = pattern

    def open(self):
        self.shut = False

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            if self.shut:
                near.close()
                continue
            far = socket.create_connection((self.server.address, self.server.port))
            met = threading.Event()
            threading.Thread(target=self.there, args=(near, far, met), daemon=True).start()
            threading.Thread(target=self.back, args=(near, far, met), daemon=True).start()

    def there(self, near, far, met):
        seen = b""
        while data := self.receive(near):
            seen = seen[-64:] + data
            if self.pattern and self.pattern in seen:
                self.pattern = None
                met.set()  # before the server can have answered
            far.sendall(data)
        self.cut(far)

    def back(self, near, far, met):
        while data := self.receive(far):
            if met.is_set():
                self.shut = self.shuts
                self.lost.set()
                break
            near.sendall(data)
        self.cut(near)
        self.cut(far)

    @staticmethod
    def receive(sock):
        try:
            return sock.recv(65536)
        except OSError:
            return b""

    @staticmethod
    def cut(sock):
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self):
        self.listener.close()


def told(node, words):
    return sum(words in line for line in node.log().splitlines())


def test_gateway_whose_redis_becomes_a_replica_says_so_once_and_when_it_is_over(gateway, server):
    other = rediskit.Redis(aof=None)
    try:
        node = gateway(server.url() + "?timeout=300ms")
        with Connection(node.address) as connection:
            assert connection.post({"id": "before"}, path="/in/a").json()["verdict"] == "new"
            server.ask("REPLICAOF", other.address, str(other.port))
            server.set("replica-serve-stale-data", "yes")
            for n in range(8):
                assert connection.post({"id": f"r{n}"}, path="/in/a").status == 503
            server.ask("REPLICAOF", "NO", "ONE")
            eventually(lambda: connection.post({"id": "after"}, path="/in/a").status == 200,
                       "it is a master again")
            eventually(lambda: told(node, "redis is reachable again") == 1, "that is told")
        assert told(node, "it is a replica, which takes no writes") == 1, node.log()
        assert told(node, "redis rejected a batch") == 0, node.log()
        assert node.stop() == 0
        assert told(node, "redis is reachable again") == 1, node.log()
    finally:
        other.close()


def test_gateway_whose_redis_wants_replicas_says_so_once_and_when_it_is_over(gateway, server):
    node = gateway(server.url() + "?timeout=300ms")
    with Connection(node.address) as connection:
        assert connection.post({"id": "before"}, path="/in/a").json()["verdict"] == "new"
        for spell in (1, 2):
            server.set("min-replicas-to-write", "1")
            for n in range(4):
                assert connection.post({"id": f"r{n}"}, path="/in/a").status == 503
            server.set("min-replicas-to-write", "0")
            eventually(lambda: connection.post({"id": "after"}, path="/in/a").status == 200,
                       "it needs none any more")
            eventually(lambda: told(node, "redis is reachable again") == spell, "that is told")
            assert told(node, "reason=\"NOREPLICAS ") == spell, node.log()
    assert node.stop() == 0
    assert told(node, "redis is unreachable") == told(node, "redis is reachable again") == 2, node.log()


@pytest.mark.parametrize("before, word", [(None, "NOAUTH"), ("c4n4ry-1", "WRONGPASS")])
def test_gateway_whose_password_is_changed_says_what_the_server_says(gateway, before, word):
    server = rediskit.Redis(aof=None, password=before)
    try:
        node = gateway(server.url() + "?timeout=300ms")
        with Connection(node.address) as connection:
            assert connection.post({"id": "before"}, path="/in/a").json()["verdict"] == "new"
            server.set("requirepass", "c4n4ry-2")
            server.password = "c4n4ry-2"
            server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            assert connection.post({"id": "during"}, path="/in/a").status == 503
            eventually(lambda: told(node, f"reason=\"{word} ") == 1, "the reason is told")
            for n in range(4):
                assert connection.post({"id": f"r{n}"}, path="/in/a").status == 503
            server.set("requirepass", before or "")
            server.password = before
            eventually(lambda: connection.post({"id": "after"}, path="/in/a").status == 200,
                       "the old one is right again")
            eventually(lambda: told(node, "redis is reachable again") == 1, "that is told")
        assert told(node, f"reason=\"{word} ") == 1 and "c4n4ry" not in node.log(), node.log()
        assert node.stop() == 0
    finally:
        server.close()


def test_gateway_whose_redis_is_full_says_so_once_and_when_it_is_over(gateway, server):
    node = gateway(server.url())
    with Connection(node.address) as connection:
        assert connection.post({"id": "before"}, path="/in/a").status == 200
        for _ in range(2):
            server.set("maxmemory", "1")
            for n in range(8):
                assert connection.post({"id": f"f{n}"}, path="/in/a").status == 503
            server.set("maxmemory", "0")
            eventually(lambda: connection.post({"id": "after"}, path="/in/a").status == 200,
                       "there is room again")
    assert node.stop() == 0
    assert told(node, "redis is full") == told(node, "redis has room again") == 2, node.log()


def test_answer_that_is_lost_with_an_admit_is_found_again(gateway, server, sink):
    way, destination = LossyWay(server), sink(lambda request: 200)
    sent = ["first"]
    try:
        node = gateway(way.url(), destination)
        with Connection(node.address) as connection:
            assert connection.post({"id": "first"}, path="/in/a").json()["verdict"] == "new"
            destination.wait(1)

            def lost():
                way.lose(ADMIT)
                sent.append(f"e{len(sent)}")
                events = [{"id": sent[-1]}, {"id": sent[-1]}, {"id": "first"}]
                answer = connection.post(events, path="/in/a").json()
                assert [it["verdict"] for it in answer["events"]] == \
                    ["new", "duplicate", "duplicate"], answer
                destination.wait(len(sent))
                return way.lost.is_set()
            eventually(lost, "an answer with an admit is lost")
            for name in sent:
                answer = connection.post({"id": name}, path="/in/a").json()
                assert answer["verdict"] == "duplicate", answer
        assert node.stop() == 0
        assert sorted(destination.ids()) == sorted(sent)
        assert server.ask("ZCARD", "stile{0}o") == server.ask("ZCARD", "stile{0}l") == 0
    finally:
        way.close()


class LateSink:
    """A sink that works from some moment on, and what it took."""

    def __init__(self, sink):
        self.works = False
        self.taken = []
        self.destination = sink(self.answer)

    def answer(self, request):
        if not self.works:
            return 503
        self.taken.append(json.loads(request.body)["id"])
        return 200

    def wait_all(self, node, server, ids):
        """Well before any lease could have ended."""
        eventually(lambda: set(ids) <= set(self.taken), "all are delivered")
        eventually(lambda: server.ask("ZCARD", "stile{0}o") == 0, "all are settled")
        eventually(lambda: node.metrics()["stile_open_tickets"].value() == 0, "that is known")
        assert sorted(self.taken) == sorted(ids)
        assert node.stop() == 0


def leave_due(gateway, server, destination, ids):
    """A gateway ends whose sink took nothing yet."""
    node = gateway(server.url(), destination, "on_unknown: retry, ")
    with Connection(node.address) as connection:
        answer = connection.post([{"id": name} for name in ids], path="/in/a").json()
    assert [it["verdict"] for it in answer["events"]] == ["new"] * len(ids)
    assert node.stop() == 0


def test_tickets_whose_take_was_not_heard_are_taken_again_at_once(gateway, server, sink):
    late, way, ids = LateSink(sink), LossyWay(server), [f"e{n}" for n in range(20)]
    try:
        leave_due(gateway, server, late.destination, ids)
        late.works = True
        way.lose(TAKE)
        node = gateway(way.url(), late.destination, "on_unknown: retry, ")
        assert way.lost.wait(60)
        late.wait_all(node, server, ids)
    finally:
        way.close()


@pytest.mark.parametrize("how", [TAKE, ADMIT], ids=["take", "admit"])
def test_tickets_of_a_take_that_was_given_up_are_taken_again_at_once(gateway, server, sink, how):
    late, way, ids = LateSink(sink), LossyWay(server), [f"e{n}" for n in range(20)]
    try:
        if how == TAKE:
            leave_due(gateway, server, late.destination, ids)
        late.works = True
        way.lose(how, and_shut=True)
        node = gateway(way.url(timeout="1s"), late.destination, "on_unknown: retry, ")
        with Connection(node.address) as connection:
            def refused():
                """The batch before this one was given up, or this one was."""
                name = ids[0] if how == TAKE else f"e{len(sent)}"
                sent.append(name)
                return connection.post({"id": name}, path="/in/a").status == 503
            sent = []
            eventually(lambda: refused() and way.lost.is_set(), "the answer is lost")
            way.open()
            if how == ADMIT:
                ids = sent
                for name in ids:
                    eventually(lambda: connection.post({"id": name}, path="/in/a").status == 200,
                               "the store is there again")
        late.wait_all(node, server, ids)
    finally:
        way.close()


def test_full_redis_takes_the_outcomes_of_a_batch_that_is_half_done(gateway, server, sink):
    go_on, refused = threading.Event(), set()

    def answer(request):
        name = json.loads(request.body)["id"]
        if name.startswith("late"):
            go_on.wait(60)
        if name == "late-again" and name not in refused:
            refused.add(name)
            return 503
        return 200
    destination = sink(answer)
    node = gateway(server.url(), destination, "concurrency: 16, on_unknown: retry, ")
    early = ["early-1", "early-2", "early-3"]
    late = ["late-1", "late-2", "late-again"]
    with Connection(node.address) as connection:
        answer = connection.post([{"id": name} for name in early + late], path="/in/a").json()
        assert [it["verdict"] for it in answer["events"]] == ["new"] * 6
        destination.wait(6)
        eventually(lambda: node.metrics()["stile_open_tickets"].value() == 3, "half is done")
        server.set("maxmemory", "1")
        go_on.set()
        assert connection.post({"id": "full"}, path="/in/a").status == 503
        eventually(lambda: node.metrics()["stile_open_tickets"].value() <= 1,
                   "what is done is recorded")
        server.set("maxmemory", "0")
        eventually(lambda: node.metrics()["stile_open_tickets"].value() == 0,
                   "what failed is tried again")
    assert node.stop() == 0
    assert sorted(destination.ids()) == sorted(early + late + ["late-again"])
    assert server.ask("ZCARD", "stile{0}o") == server.ask("ZCARD", "stile{0}l") == 0


def test_full_redis_gives_out_what_is_due_until_all_is_delivered(gateway, server, sink):
    """That is how it gets room. Some are delivered by their third attempt only."""
    late, ids, tries = LateSink(sink), [f"e{n}" for n in range(60)], {}
    leave_due(gateway, server, late.destination, ids)

    def answer(request):
        name = json.loads(request.body)["id"]
        tries[name] = tries.get(name, 0) + 1
        return 503 if name.endswith("7") and tries[name] < 3 else late.answer(request)
    late.destination.answer, late.works = answer, True
    server.set("maxmemory", "1")
    try:
        node = gateway(server.url(), late.destination, "on_unknown: retry, ")
        with Connection(node.address) as connection:
            assert connection.post({"id": "full"}, path="/in/a").status == 503
        late.wait_all(node, server, ids)
        assert {name for name, times in tries.items() if times == 3} == \
            {name for name in ids if name.endswith("7")}
        assert told(node, "level=error") == 0, node.log()
    finally:
        server.set("maxmemory", "0")


def test_full_redis_keeps_what_a_gateway_that_ends_gives_back(gateway, server, sink):
    late, ids = LateSink(sink), [f"e{n}" for n in range(20)]
    node = gateway(server.url(), late.destination, "on_unknown: retry, ")
    with Connection(node.address) as connection:
        connection.post([{"id": name} for name in ids], path="/in/a")
    eventually(lambda: len(late.destination.got()) >= len(ids), "all were tried")
    server.set("maxmemory", "1")
    try:
        assert node.stop() == 0
        late.works = True
        late.wait_all(gateway(server.url(), late.destination, "on_unknown: retry, "), server, ids)
    finally:
        server.set("maxmemory", "0")


def test_event_that_waits_behind_a_batch_is_given_up_with_it(gateway, server, sink):
    """A take is asked for all the time; the event comes when that is under way already."""
    node = gateway(f"{server.url()}?timeout=20s", sink(lambda request: 200))
    with Connection(node.address) as connection:
        assert connection.post({"id": "before"}, path="/in/a").status == 200
        server.pause()
        try:
            time.sleep(1)
            began = time.monotonic()
            assert connection.post({"id": "behind"}, path="/in/a").status == 503
            assert time.monotonic() - began < 35, "it waited as long once more"
        finally:
            server.resume()
    assert node.stop() == 0


class Sender(threading.Thread):
    def __init__(self, node, name):
        super().__init__(daemon=True)
        self.node, self.name, self.status = node, name, None
        self.start()

    def run(self):
        with Connection(self.node.address) as connection:
            self.status = connection.post({"id": self.name}, path="/in/a").status


@pytest.mark.parametrize("away", ["kill", "pause"])
@pytest.mark.parametrize("source_more, status", [("", 503), ("store_away: spool", 202)],
                         ids=["closed", "spool"])
def test_stop_while_redis_is_away_answers_all_and_ends_in_time(gateway, server, sink, away,
                                                               source_more, status):
    go_on = threading.Event()
    destination = sink(lambda request: (go_on.wait(60), 200)[1])
    node = gateway(f"{server.url()}?timeout=20s", destination, "on_unknown: retry, ", source_more)
    with Connection(node.address) as connection:
        for name in ("one", "two", "three"):
            assert connection.post({"id": name}, path="/in/a").status == 200
    destination.wait(3)
    getattr(server, away)()

    def requests():
        return node.metrics()["stile_http_requests_total"].value()
    looks, before = [], requests()
    senders = [Sender(node, f"late-{n}") for n in range(4)]
    eventually(lambda: looks.append(1) or requests() >= before + len(looks) + 4, "all have asked")
    go_on.set()
    assert node.stop() == 0
    for sender in senders:
        sender.join(60)
    assert [sender.status for sender in senders] == [status] * 4, node.log()


def test_node_that_left_the_cluster_is_forgotten_and_found_again(gateway):
    cluster = rediskit.Cluster()
    try:
        first, old = cluster.masters()[:2]
        node = gateway(f"redis-cluster://{first.address}:{first.port}?timeout=20s")
        with Connection(node.address) as connection:
            def decided(names):
                return all(connection.post({"id": name}, path="/in/a").status == 200
                           for name in names)
            assert decided([f"a{n}" for n in range(64)])  # all shards
            cluster.kill_master(old)
            eventually(lambda: decided([f"b{n}" for n in range(64)]), "its replica has its slots")
            left = "redis node removed: it left the cluster"
            eventually(lambda: told(node, left) == 1, "it is forgotten")
            where = f"host={old.address} port={old.port}"
            assert where in next(line for line in node.log().splitlines()
                                 if left in line)
            old.start()
            cluster.wait_whole()
            assert decided([f"c{n}" for n in range(64)])
            cluster.fail_over(next(one for one in cluster.masters()
                                   if old in cluster.replicas_of(one)))
            cluster.wait_whole()
            eventually(lambda: decided([f"d{n}" for n in range(64)]), "it is asked again")
        assert node.stop() == 0
    finally:
        cluster.close()
