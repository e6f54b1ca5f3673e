"""Senders that post events as fast as they can, and the oracle that notes what
they were told. The oracle stands outside of stile: its memory is its own.

The content of an event follows from its id, so that whoever sees a printed
event can tell whether it is whole."""

import collections
import json
import random
import re
import threading
import zlib

from harness import Connection

ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r]*\r\n(?:[^\r]+\r\n)*?Content-Length: (\d+)\r\n"
                    rb"(?:[^\r]+\r\n)*\r\n", re.IGNORECASE)
DECISION = re.compile(rb'\{"verdict":"(\w+)","ticket":"(\w+)"')


def event_of(event_id):
    return {"id": event_id, "pad": "x" * (zlib.crc32(event_id.encode()) % 1500)}


def post_bytes(event_id):
    body = json.dumps(event_of(event_id)).encode()
    return b"POST /in/events HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (
        len(body), body)


class Oracle:
    def __init__(self):
        self.lock = threading.Lock()
        self.tickets = {}   # id → ticket: acknowledged
        self.owners = {}    # ticket → id
        self.new = set()    # ids that were called new
        self.refused = collections.Counter()
        self.wrong = []

    def note(self, event_id, verdict, ticket):
        with self.lock:
            known = self.tickets.setdefault(event_id, ticket)
            if known != ticket:
                self.wrong.append(f"{event_id} has tickets {known} and {ticket} ({verdict})")
            owner = self.owners.setdefault(ticket, event_id)
            if owner != event_id:
                self.wrong.append(f"ticket {ticket} is of {owner} and of {event_id}")
            if verdict == "new":
                if event_id in self.new:
                    self.wrong.append(f"{event_id} was new twice")
                self.new.add(event_id)
            elif verdict != "duplicate":
                self.wrong.append(f"{event_id} got the verdict {verdict}")

    def check(self):
        assert not self.wrong, f"{len(self.wrong)} wrong answers, first: {self.wrong[:5]}"

    def check_printed(self, events):
        """Every acknowledged event was printed, whole."""
        printed = set()
        for event in events:
            assert event == event_of(event["id"]), f"printed with other content: {event['id']}"
            printed.add(event["id"])
        lost = self.tickets.keys() - printed
        assert not lost, f"{len(lost)} acknowledged events were never printed: {sorted(lost)[:5]}"


class Pipeline:
    """Posts batches of ids on one connection and gives their answers."""

    def __init__(self, address):
        self.connection = Connection(address)
        self.input = b""

    def close(self):
        self.connection.close()

    def send(self, ids):
        self.connection.send(b"".join(map(post_bytes, ids)))

    def answers(self, ids):
        """Yields (id, status, body) as they come; ConnectionError at the end."""
        at = 0
        for event_id in ids:
            while True:
                match = ANSWER.match(self.input, at)
                if match and len(self.input) >= match.end() + int(match[2]):
                    break
                data = self.connection.socket.recv(1 << 18)
                if not data:
                    raise ConnectionResetError("closed by the peer")
                self.input, at = self.input[at:] + data, 0
            end = match.end() + int(match[2])
            yield event_id, int(match[1]), self.input[match.end():end]
            at = end
        self.input = self.input[at:]


def post_all(address, ids, oracle, batch=64):
    """Posts every id and notes the answers; returns {id: verdict}."""
    verdicts = {}
    pipeline = Pipeline(address)
    for start in range(0, len(ids), batch):
        part = ids[start:start + batch]
        pipeline.send(part)
        for event_id, status, body in pipeline.answers(part):
            decision = DECISION.match(body)
            assert status == 200 and decision, f"{event_id}: {status} {body!r}"
            oracle.note(event_id, decision[1].decode(), decision[2].decode())
            verdicts[event_id] = decision[1].decode()
    pipeline.close()
    return verdicts


class Sender(threading.Thread):
    """Posts batches until its connection ends or it is told to stop. Every third
    event is one that some sender has sent before, answered or not."""

    def __init__(self, address, oracle, recent, name, seed):
        super().__init__(name=name, daemon=True)
        self.address = address
        self.oracle = oracle
        self.recent = recent  # a deque of ids, shared by all senders
        self.random = random.Random(f"{seed}-{name}")
        self.batch = self.random.choice((1, 4, 16))
        self.stopping = threading.Event()
        self.count = 0
        self.problem = None

    def choose(self):
        if self.recent and self.random.random() < 0.33:
            return self.random.choice(self.recent)
        self.count += 1
        event_id = f"{self.name}-{self.count}"
        self.recent.append(event_id)
        return event_id

    def run(self):
        try:
            self.pipeline = Pipeline(self.address)
            while not self.stopping.is_set():
                ids = [self.choose() for _ in range(self.batch)]
                self.pipeline.send(ids)
                for event_id, status, body in self.pipeline.answers(ids):
                    self.note(event_id, status, body)
        except OSError:
            pass  # the process was killed: what was not answered is not known
        except Exception as problem:  # told by finish()
            self.problem = problem

    def note(self, event_id, status, body):
        if status != 200:
            self.oracle.refused[status] += 1
            return
        decision = DECISION.match(body)
        self.oracle.note(event_id, decision[1].decode(), decision[2].decode())

    def finish(self):
        self.stopping.set()
        self.join(60)
        assert not self.is_alive(), "a sender waits for an answer that does not come"
        assert self.problem is None, repr(self.problem)


def start_senders(address, oracle, recent, prefix, seed, count=3):
    senders = [Sender(address, oracle, recent, f"{prefix}-{i}", seed) for i in range(count)]
    for sender in senders:
        sender.start()
    return senders


def recent_ids():
    return collections.deque(maxlen=2000)
