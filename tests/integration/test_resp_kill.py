"""What was acknowledged through the Redis door is there after kill -9, and only once; peers
that misbehave harm nobody."""

import random
import socket
import threading

import pytest

import respkit
from harness import eventually

KILLS = 6


class Taker(threading.Thread):
    """Takes keys with NX, in pipelines, until the connection ends. What it was told is the
    oracle: OK and the value it sent, or taken already."""

    def __init__(self, address, name, seed, keys):
        super().__init__(daemon=True)
        self.address, self.name_, self.keys = address, name, keys
        self.random = random.Random(seed)
        self.owned = {}  # key: value that was acknowledged
        self.refused = set()
        self.unknown = {}  # sent, and not answered

    def run(self):
        try:
            with respkit.Client(self.address) as client:
                while self.batch(client):
                    pass
        except OSError:
            pass

    def batch(self, client):
        keys = [self.random.randrange(self.keys) for _ in range(self.random.choice((1, 3, 40)))]
        sent = [(key, f"{self.name_}:{key}:{self.random.random()}") for key in keys]
        for key, value in sent:
            self.unknown.setdefault(key, []).append(value)
        client.send(b"".join(respkit.command_bytes("SET", f"key:{k}", v, "NX", "EX", 86400)
                             for k, v in sent))
        for key, value in sent:
            reply = client.reply()
            if reply[0] == "end":
                return False
            self.unknown[key].remove(value)
            if reply == ("+", b"OK"):
                assert key not in self.owned, "a key was taken twice by one client"
                self.owned[key] = value
            else:
                assert reply == ("$", None), reply
                self.refused.add(key)
        return True


def check(client, owned, possible):
    """Every key that was acknowledged is refused and has its value; others have a value that
    somebody sent."""
    for key, value in owned.items():
        assert client.call("SET", f"key:{key}", "other", "NX", "EX", 86400) == ("$", None), key
        assert client.call("GET", f"key:{key}") == ("$", value.encode()), key
        ttl = int(client.call("TTL", f"key:{key}")[1])
        assert 80000 < ttl <= 86400
    for key, values in possible.items():
        kind, value = client.call("GET", f"key:{key}")
        assert key in owned or value is None or value.decode() in values, (kind, value)


@pytest.mark.parametrize("options", [(), ("--threads", "2"), ("--commit", "thread")],
                         ids=["inline", "two threads", "thread"])
def test_every_acknowledged_key_is_refused_after_kill(stile, seed, scale, options):
    chance = random.Random(seed)
    owned, possible = {}, {}
    keys = 3000
    for life in range(KILLS * scale):
        gateway = respkit.start(stile, *options)
        with respkit.Client(gateway.resp) as client:
            check(client, owned, possible)
        takers = [Taker(gateway.resp, f"{life}-{i}", chance.random(), keys) for i in range(8)]
        for taker in takers:
            taker.start()
        target = len(owned) + chance.randrange(20, 400)
        eventually(lambda: len(owned) + sum(len(t.owned) for t in takers) >= target or
                   sum(len(t.refused) for t in takers) > 2000, "keys are taken")
        gateway.kill()
        for taker in takers:
            taker.join(60)
            assert not set(taker.owned) & set(owned), "a key was given to two"
            owned.update(taker.owned)
            for key, values in taker.unknown.items():
                possible.setdefault(key, set()).update(values)
        keys += 1000
    gateway = respkit.start(stile, *options)
    with respkit.Client(gateway.resp) as client:
        check(client, owned, possible)
    assert len(owned) > 100


def test_removed_and_changed_keys_are_so_after_kill(stile):
    gateway = respkit.start(stile)
    with respkit.Client(gateway.resp) as client:
        for i in range(200):
            assert client.call("SET", f"k{i}", f"v{i}") == ("+", b"OK")
        for i in range(0, 200, 4):
            assert client.call("DEL", f"k{i}") == (":", b"1")
            assert client.call("SET", f"k{i + 1}", "again", "EX", "1000") == ("+", b"OK")
            assert client.call("EXPIRE", f"k{i + 2}", "5000") == (":", b"1")
    gateway.kill()
    gateway = respkit.start(stile)
    with respkit.Client(gateway.resp) as client:
        for i in range(0, 200, 4):
            assert client.call("MGET", f"k{i}", f"k{i + 1}", f"k{i + 2}", f"k{i + 3}") == \
                ("*", [("$", None), ("$", b"again"), ("$", b"v%d" % (i + 2)), ("$", b"v%d" % (i + 3))])
            assert 900 < int(client.call("TTL", f"k{i + 1}")[1]) <= 1000
            assert 4900 < int(client.call("TTL", f"k{i + 2}")[1]) <= 5000
            assert client.call("TTL", f"k{i + 3}") == (":", b"-1")
        assert client.call("DBSIZE") == (":", b"150")


def test_a_transaction_is_whole_after_kill(stile):
    gateway = respkit.start(stile)
    clients = [respkit.Client(gateway.resp) for _ in range(4)]
    words = respkit.command_bytes
    for round_ in range(200):
        for number, client in enumerate(clients):
            value = f"{number}-{round_}"
            client.send(words("MULTI") + words("SET", f"a{number}", value) +
                        words("SET", f"b{number}", value * 50) + words("EXEC"))
        if round_ > 20:
            for client in clients:
                for _ in range(4):
                    client.reply()
    gateway.kill()
    for client in clients:
        client.close()
    gateway = respkit.start(stile)
    with respkit.Client(gateway.resp) as client:
        for number in range(4):
            first, second = (client.call("GET", f"{name}{number}")[1] for name in "ab")
            assert second == first * 50


# ---- peers that misbehave ----

def test_a_peer_that_does_not_read_is_not_fed_for_ever(stile):
    gateway = respkit.start(stile)
    with respkit.Client(gateway.resp) as good:
        assert good.call("SET", "k", "v" * 60000) == ("+", b"OK")
        slow = socket.create_connection(gateway.resp)
        slow.setblocking(False)
        commands = respkit.command_bytes("GET", "k") * 1000
        sent = 0
        before = gateway.resident_bytes()

        def stuck():
            nonlocal sent
            try:
                sent += slow.send(commands)
                return False
            except BlockingIOError:
                return True
        eventually(stuck, "the kernel takes no more of a peer that does not read")
        assert good.call("PING") == ("+", b"PONG")
        assert gateway.resident_bytes() - before < 64 << 20
        slow.close()
        assert good.call("GET", "k") == ("$", b"v" * 60000)


def test_hostile_bytes_harm_nobody(stile, seed):
    chance = random.Random(seed)
    gateway = respkit.start(stile)
    good = respkit.Client(gateway.resp)
    pieces = [b"*", b"$", b"\r\n", b"1", b"3", b"-1", b"SET", b"GET", b"k", b"\0", b"\xff" * 20,
              b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", b"MULTI\r\n", b"EXEC\r\n", b"999999999"]
    for _ in range(300):
        bad = socket.create_connection(gateway.resp)
        try:
            bad.sendall(b"".join(chance.choice(pieces) for _ in range(chance.randrange(1, 60))))
            if chance.random() < 0.5:
                bad.shutdown(socket.SHUT_WR)
                bad.settimeout(60)
                while bad.recv(65536):
                    pass
        except ConnectionError:
            pass
        bad.close()
        assert good.call("PING") == ("+", b"PONG")
    good.close()
    eventually(lambda: gateway.metrics()["stile_resp_connections"].value() == 0,
               "all connections are closed")
    assert gateway.stop() == 0


def test_too_many_connections_are_told_so(stile):
    gateway = respkit.start(stile, "--max-connections", "5")
    clients = [respkit.Client(gateway.resp) for _ in range(5)]
    for client in clients:
        assert client.call("PING") == ("+", b"PONG")
    with respkit.Client(gateway.resp) as extra:
        extra.send(b"PING\r\n")
        assert extra.reply() == ("-", b"ERR max number of clients reached")
        assert extra.reply() == ("end", None)
    clients.pop().close()

    def again():
        with respkit.Client(gateway.resp) as client:
            client.send(b"PING\r\n")
            return client.reply() == ("+", b"PONG")
    eventually(again, "another may come")


def test_a_stop_ends_idle_clients_and_answers_the_others(stile):
    gateway = respkit.start(stile)
    idle, busy = respkit.Client(gateway.resp), respkit.Client(gateway.resp)
    assert idle.call("PING") == ("+", b"PONG")
    for i in range(100):
        busy.send(respkit.command_bytes("SET", f"k{i}", "v"))
    assert busy.reply() == ("+", b"OK")
    assert gateway.stop() == 0
    assert idle.reply() == ("end", None)
    replies = busy.rest()
    acknowledged = 1 + len(replies) - 1
    assert all(reply == ("+", b"OK") for reply in replies[:-1])
    gateway = respkit.start(stile)
    with respkit.Client(gateway.resp) as client:
        for i in range(acknowledged):
            assert client.call("GET", f"k{i}") == ("$", b"v"), i
