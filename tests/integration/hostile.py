"""A destination that does its worst, by script.

HostileSink  an HTTP server on raw sockets. For each request it runs an act: a row of
             steps such as EFFECT, bytes to send, CUT. It counts effects for each key
             and keeps a log of all requests, over all lives of the gateway.
ACTS         the acts, each with what its peer can know of it afterwards: DONE, RETRY
             (an answer that says later), DEAD (an answer that says never), UNKNOWN.

`check_promises()` is the judge of what every history must be like.
"""

import collections
import hashlib
import json
import random
import socket
import struct
import threading
import time

from harness import eventually

DONE, RETRY, DEAD, UNKNOWN = "done", "retry", "dead", "unknown"

EFFECT = "effect"  # what the request is for happens
CUT = "cut"        # the connection ends, in order
RESET = "reset"    # the connection ends by RST
STALL = "stall"    # nothing, until the peer has gone or the test is over

Act = collections.namedtuple("Act", "known steps")
Request = collections.namedtuple(
    "Request", "number method path key attempt digest body act headers at_s")


class Slowly(bytes):
    """Sent byte by byte."""


class Call:
    """A step that is the test's own."""

    def __init__(self, function):
        self.function = function


def answer(status, *headers, body=b"ok"):
    lines = [f"HTTP/1.1 {status} Because", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


OK = answer(200)
FORGED = OK + OK  # the second is for a request that nobody has sent yet

ACTS = {
    # It dies at one of four points.
    "dies before its effect": Act(UNKNOWN, [CUT]),
    "dies after its effect": Act(UNKNOWN, [EFFECT, CUT]),
    "dies within its answer": Act(UNKNOWN, [EFFECT, OK[:20], CUT]),
    "dies after its answer": Act(DONE, [EFFECT, OK, CUT]),
    # Ends of another kind.
    "resets before its effect": Act(UNKNOWN, [RESET]),
    "resets after its effect": Act(UNKNOWN, [EFFECT, RESET]),
    "resets after its answer's head": Act(DONE, [EFFECT, OK[:-2], RESET]),
    # Answers that are slow, cut, or lies.
    "answers byte by byte": Act(DONE, [EFFECT, Slowly(OK)]),
    "refuses byte by byte": Act(RETRY, [Slowly(answer(503))]),
    "promises more than it sends": Act(DONE, [EFFECT, OK.replace(b": 2", b": 2000"), CUT]),
    "sends more than it promised": Act(DONE, [EFFECT, OK.replace(b": 2", b": 1"), CUT]),
    "forges the next answer": Act(DONE, [EFFECT, FORGED]),
    "has no length": Act(DONE, [EFFECT, b"HTTP/1.1 200 OK\r\n\r\nok", CUT]),
    "has two lengths": Act(DONE, [EFFECT, OK.replace(
        b"Content-Length: 2", b"Content-Length: 2\r\nContent-Length: 5"), CUT]),
    "breaks off its chunks": Act(DONE, [
        EFFECT, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nok", CUT]),
    "has no end of its head": Act(UNKNOWN, [EFFECT, b"HTTP/1.1 200 OK\r\nX: y\r\n", CUT]),
    "speaks another language": Act(UNKNOWN, [EFFECT, b"220 mail.example.com ESMTP\r\n", CUT]),
    "says nothing": Act(UNKNOWN, [EFFECT, b"\r\n", CUT]),
    # Statuses.
    "says 100 and 103 first": Act(DONE, [EFFECT, b"HTTP/1.1 100 Continue\r\n\r\n"
                                         b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", OK]),
    "says 102 and dies": Act(UNKNOWN, [EFFECT, b"HTTP/1.1 102 Processing\r\n\r\n", CUT]),
    "201": Act(DONE, [EFFECT, answer(201, "Location: /1")]),
    "204": Act(DONE, [EFFECT, b"HTTP/1.1 204 No Content\r\n\r\n"]),
    "301": Act(DEAD, [answer(301, "Location: /elsewhere")]),
    "304": Act(DEAD, [b"HTTP/1.1 304 Not Modified\r\n\r\n"]),
    "307": Act(DEAD, [answer(307, "Location: /elsewhere")]),
    "400": Act(DEAD, [answer(400)]),
    "404": Act(DEAD, [answer(404)]),
    "422": Act(DEAD, [answer(422)]),
    "401": Act(RETRY, [answer(401, "WWW-Authenticate: Basic")]),
    "408": Act(RETRY, [answer(408)]),
    "425": Act(RETRY, [answer(425)]),
    "429": Act(RETRY, [answer(429)]),
    "429 with Retry-After 0": Act(RETRY, [answer(429, "Retry-After: 0")]),
    "429 with a Retry-After of the past": Act(RETRY, [
        answer(429, "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT")]),
    "429 with a Retry-After that is none": Act(RETRY, [answer(429, "Retry-After: soon")]),
    "500": Act(RETRY, [answer(500)]),
    "502": Act(RETRY, [answer(502)]),
    "503": Act(RETRY, [answer(503)]),
    "599": Act(RETRY, [answer(599)]),
}

FOUR_POINTS = ("dies before its effect", "dies after its effect", "dies within its answer",
               "dies after its answer")
GOOD = Act(DONE, [EFFECT, OK])


def act_of(request):
    """What an event asks for: its act at the first attempt, then all is well."""
    return ACTS.get(json.loads(request.body).get("act"), GOOD) if request.attempt == 1 else GOOD


class HostileSink:
    """`choose(request)` gives the act. A GET is a probe: 200 if the key at the end of the
    path had its effect at the path before it, else 404; or what `probe(request)` says."""

    def __init__(self, choose=act_of, listening=True):
        self.choose = choose
        self.probe = None
        self.lock = threading.Lock()
        self.log = []
        self.effects = collections.Counter()  # (path, key)
        self.first_effects = []               # requests whose effect was the first
        self.under_way = collections.defaultdict(list)  # connections
        self.together = []                    # (path, key) that came while it was under way
        self.busy = self.busiest = 0
        self.peers = 0
        self.turned_away = 0  # so many connections end before anything is read
        self.ending = threading.Event()
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        if listening:
            self.open()

    def open(self):
        """Until then connections are refused."""
        self.socket.listen(512)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.ending.set()
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.port}{path}"

    # ---- a connection ----

    def _accept(self):
        while not self.ending.is_set():
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            with self.lock:
                away = self.turned_away > 0
                self.turned_away -= away
                self.peers += not away
            if away:
                peer.close()
                continue
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with peer.makefile("rb") as stream:
                while self._serve_one(peer, stream):
                    pass
        except OSError:
            pass
        finally:
            peer.close()
            with self.lock:
                self.peers -= 1

    def _serve_one(self, peer, stream):
        line = stream.readline()
        if not line.endswith(b"\r\n"):
            return False
        method, path, _ = line.decode().split(" ")
        headers = {}
        while (line := stream.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers.get("content-length", 0)))
        if len(body) < int(headers.get("content-length", 0)):
            return False  # the peer died while it wrote
        request = Request(0, method, path, headers.get("idempotency-key"),
                          int(headers.get("stile-attempt", 0)), hashlib.sha256(body).hexdigest(),
                          body, None, headers, time.monotonic())
        if method == "GET":
            return self._tell(peer, request)
        return self._take(peer, request)

    def _tell(self, peer, request):
        path, _, key = request.path.rpartition("/")
        with self.lock:
            request = request._replace(number=len(self.log))
            self.log.append(request)
            found = self.effects[path, key] > 0
        if self.probe:
            peer.sendall(self.probe(request))
        else:
            peer.sendall(OK if found else answer(404))
        return True

    def _take(self, peer, request):
        name = request.path, request.key
        with self.lock:
            act = self.choose(request)
            request = request._replace(number=len(self.log), act=act)
            self.log.append(request)
            if any(not self._left(other) for other in self.under_way[name]):
                self.together.append(name)
            self.under_way[name].append(peer)
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
        ended = False

        def end():
            nonlocal ended
            if not ended:
                ended = True
                with self.lock:
                    self.under_way[name].remove(peer)
                    self.busy -= 1

        try:
            return self._play(peer, request, end)
        finally:
            end()

    def _play(self, peer, request, end):
        """The attempt may be over for its peer with the first byte that it gets."""
        for step in request.act.steps:
            if step not in (EFFECT, STALL) and not isinstance(step, Call):
                end()
            if step == EFFECT:
                self._effect(request)
            elif step == CUT:
                return False
            elif step == RESET:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            elif step == STALL:
                peer.settimeout(0.05)
                while not self.ending.is_set() and not self._gone(peer):
                    pass
                return False
            elif isinstance(step, Call):
                step.function(request)
            elif isinstance(step, Slowly):
                for k in range(len(step)):
                    peer.sendall(step[k:k + 1])
            else:
                peer.sendall(step)
        return True

    @staticmethod
    def _left(peer):
        """Whoever gave up an attempt has closed its connection before the next one begins."""
        try:
            return peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    @staticmethod
    def _gone(peer):
        try:
            return peer.recv(1) == b""
        except TimeoutError:
            return False

    def _effect(self, request):
        with self.lock:
            name = request.path, request.key
            self.effects[name] += 1
            if self.effects[name] == 1:
                self.first_effects.append(request)

    # ---- what a test asks ----

    def requests(self, path=None, key=None):
        """The deliveries, without probes, in the order in which they came."""
        with self.lock:
            return [it for it in self.log if it.method != "GET" and path in (None, it.path) and
                    key in (None, it.key)]

    def probes(self, path=""):
        with self.lock:
            return [it for it in self.log if it.method == "GET" and it.path.startswith(path)]

    def count(self):
        with self.lock:
            return len(self.log)

    def effects_of(self, path):
        with self.lock:
            return {key: count for (at, key), count in self.effects.items() if at == path}

    def wait(self, count, path=None):
        eventually(lambda: len(self.requests(path)) >= count, f"the sink has {count} requests")
        return self.requests(path)

    def wait_quiet(self):
        """After the end of the gateway: what it had sent is read and played to its end, also
        by connections that were not accepted yet: they come before one more."""
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.shutdown(socket.SHUT_WR)
            last.recv(1)
        eventually(lambda: self.peers == 0, "no connection is left")


def check_promises(sink, bodies, park=(), probe=()):
    """Of every history. bodies: {key: bytes that were posted}, at least of what was
    acknowledged. park, probe: paths whose sinks have that policy."""
    assert not sink.together, f"two attempts of one event at a time: {sink.together[:3]}"
    seen, asked = collections.defaultdict(list), collections.defaultdict(list)
    for question in sink.probes():
        asked[question.path].append(question.number)
    for request in sink.requests():
        seen[request.path, request.key].append(request)
    for (path, key), requests in seen.items():
        assert len({request.digest for request in requests}) == 1, \
            f"{key} has other bytes: {requests}"
        if key in bodies:
            assert requests[0].body == bodies[key], f"{key} is not what was posted"
        numbers = [request.attempt for request in requests]
        assert numbers == sorted(numbers), f"{key}: attempts {numbers}"
        for request in requests[:-1] if path in park else ():
            assert request.act.known == RETRY, f"{key} was sent again after {request.act}"
        if path in probe:
            check_asked(sink, path, key, requests, asked[f"{path}/{key}"])
    ids = collections.defaultdict(set)
    for request in sink.requests():
        ids[json.loads(request.body)["id"]].add(request.key)
    assert all(len(keys) == 1 for keys in ids.values()), "an event has two keys"


def check_asked(sink, path, key, requests, asked):
    """Between two attempts somebody asked, unless the first was answered."""
    for one, two in zip(requests, requests[1:]):
        assert one.act.known == RETRY or any(one.number < at < two.number for at in asked), \
            f"{key} was sent again, without a question, after {one.act}"
    assert sink.effects[path, key] <= 1, f"{key} had {sink.effects[path, key]} effects"


def choose_some(seed, share, names=None):
    """Chooses an act by chance for `share` of all requests; the rest is well."""
    chance = random.Random(seed)
    known = [ACTS[name] for name in names] if names else \
        [act for act in ACTS.values() if act.known != DEAD]
    return lambda request: chance.choice(known) if chance.random() < share else GOOD
