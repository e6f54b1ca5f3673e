"""What earlier builds wrote is read: data folders, spools, and what they left in Redis and
PostgreSQL. tests/data/compat has them, made by tests/compat/make-data-folder.

A shared store of an earlier layout may be refused instead, with a message that says so; it is
never ignored. The local store's time goes on where the folder ended, and the windows are ten
years long, so no date of the calendar matters."""

import base64
import collections
import json
import pathlib
import re
import subprocess
import tarfile
import time
import urllib.parse

import pytest

import respkit
import sharedkit
from gatekit import fresh, write
from harness import event_bytes, eventually
from sinkkit import http_sink, key

WRITTEN = pathlib.Path(__file__).resolve().parents[1] / "data" / "compat"
PREFIX = "compat"  # of the keys in Redis; the schema in PostgreSQL
LONG = "3650d"
DAY_S = 86400
GATED = ("crm", "slow", "share")  # sinks that answer 503 until the test lets them work
WAITING = ("due", "leased")

CONFIGURATION = f"""\
window: {LONG}
claims: {{ window: {LONG} }}
limits: {{ body: 4MiB }}
sources:
  plain: {{ claims: [{{ once: [id] }}], id: id, type: type, entity: entity }}
  other: {{ claims: [{{ once: [id], window: 3000d }}], id: id }}
  pair: {{ claims: [{{ once: [id] }}, {{ name: order, once: [order, kind] }}], id: id }}
  body: {{ claims: [{{ content: {{ except: [sent] }} }}], id: id }}
  state: {{ claims: [{{ newest: {{ entity: entity, time: time }} }}], id: id, entity: entity }}
  guard: {{ claims: [{{ once: [id] }}], id: id }}
  large: {{ claims: [{{ once: [id] }}], id: id }}
  spool: {{ claims: [{{ once: [id] }}], id: id, store_away: spool }}
""" + "".join(f"  {name}: {{ claims: [{{ once: [id] }}], id: id, type: type, entity: entity }}\n"
              for name in ("away", "text", "bad", "book", "fan", "slow", "pay", "share"))

ROUTES = """\
routes:
  - { from: [plain, other, pair, body, state, large, spool], to: ok }
  - { from: guard, to: none }
  - { from: away, to: crm, order_by: entity }
  - { from: text, to: sms }
  - { from: bad, to: old }
  - { from: book, to: books }
  - { from: fan, to: [ok, crm, books] }
  - { from: slow, to: slow }
  - { from: pay, to: pay }
  - { from: share, to: share }
"""


def formats():
    return sorted(path.name for path in WRITTEN.iterdir() if path.is_dir())


class Earlier:
    """What one case of one format left, started by the present binary."""

    def __init__(self, stile, scratch, sink, name, case):
        self.written, self.case = WRITTEN / name, case
        self.scratch, self.stile = pathlib.Path(scratch), stile
        self.facts = json.loads((self.written / f"{case}.json").read_text(encoding="utf-8"))
        self.works = False
        self.taken = collections.defaultdict(list)  # requests that a sink answered with 200
        self.sink = sink(self.answer)
        self.folder = str(self.scratch / "data")
        with tarfile.open(self.written / f"{case}.tar.xz") as packed:
            packed.extractall(self.folder)
        self.node = None

    def answer(self, request):
        name = request.path[1:]
        if name in GATED and not self.works:
            return 503
        self.taken[name].append(request)
        return 200

    def start(self, store=None, **more):
        retry = ("retry: { first: 10ms, max: 100ms, for: 0s }, "
                 "breaker: { failures: 0, percent: 0 }")
        url = f"url: \"{store}\", lease: 2s, " if store else ""
        text = f"store: {{ {url}local: {{ retain: {LONG}, retain_size: 64MiB, " \
            f"dead_keep: {LONG} }} }}\n{CONFIGURATION}sinks:\n"
        for name in ("ok", "old", "books", "crm", "slow", "share"):
            text += http_sink(name, self.sink.url("/" + name), retry)
        for name in ("sms", "pay"):
            text += http_sink(name, self.sink.url("/" + name), retry + ", on_unknown: park")
        config = write(self.scratch, "stile.yaml", text + ROUTES)
        self.node = self.stile("--config", config, "--resp", "127.0.0.1:0", folder=self.folder,
                               **more)
        return self.node

    # ---- short ways to ask ----

    def ask(self, method, path, **query):
        path += "?" + urllib.parse.urlencode(query) if query else ""
        answer = self.node.ask(method, path)
        assert answer.status in (200, 202), answer
        return answer.json()

    def tickets(self):
        found, more = [], {}
        while True:
            page = self.ask("GET", "/v1/tickets", state="open", limit=1000, **more)
            found += page["tickets"]
            if page["next"] is None:
                return found
            more = {"cursor": page["next"]}

    def expected(self, *sinks):
        return [it for it in self.facts["tickets"] if it["sink"] in sinks]

    def delivered(self, name):
        """The keys of what a sink took."""
        return collections.Counter(key(request) for request in self.taken[name])

    def claim(self, body):
        with self.node.connect() as connection:
            return connection.request("POST", "/v1/claims", event_bytes(body))

    # ---- what must be so ----

    def check_tickets(self):
        """Each that was open is listed, in its state and with what is known of it."""
        wanted = sorted(its_state(it) for it in self.facts["tickets"])
        eventually(lambda: all(it["state"] == "parked" for it in self.tickets()
                               if it["sink"] == "pay"), "what was under way is parked")
        assert sorted(its_state(it) for it in self.tickets()) == wanted
        for it in self.facts["tickets"]:
            if it["state"] == "dead":
                shown = self.ask("GET", f"/v1/tickets/{it['ticket']}", payload=1)
                assert it["id"] in json.dumps(shown) and "400" in json.dumps(shown), shown
        states = collections.Counter(it["state"] for it in self.facts["tickets"])
        held = self.node.metrics()["stile_held_tickets"].value()
        assert held == states["held"] == 2
        assert self.node.metrics()["stile_dead_tickets"].value() == states["dead"] == 3

    def check_claims(self):
        by_source = collections.defaultdict(list)
        for it in self.facts["claims"]:
            by_source[it["source"]].append(it)
        by_source["guard"] = [{"event": {"id": f"bulk-{n}"}, "pad": 0, "ticket": None}
                              for n in range(self.facts["bulk"])]
        for name, its in by_source.items():
            if its[0]["pad"]:
                its = its[::10]
            step = 1 if its[0]["pad"] else len(its)
            for at in range(0, len(its), step):
                self.check_duplicates(name, its[at:at + step])
        assert self.verdict("guard", {"id": fresh()}) == "new"
        second = {"id": "pair-2", "order": 17, "kind": "paid"}  # the second claim alone
        assert self.verdict("pair", second) in ("duplicate", "conflict")
        assert self.verdict("body", {"id": "body-1", "sent": 2, "sum": 12.5}) in (
            "duplicate", "conflict")

    def check_duplicates(self, source, its):
        events = [{**it["event"], "pad": "x" * it["pad"]} if it["pad"] else it["event"]
                  for it in its]
        answer = self.node.request("POST", f"/in/{source}",
                                   event_bytes(events if len(events) > 1 else events[0]))
        assert answer.status == 200, answer
        told = answer.json()["events"] if len(events) > 1 else [answer.json()]
        assert {one["verdict"] for one in told} == {"duplicate"}, (source, told[:3])
        for one, it in zip(told, its):
            assert it["ticket"] in (None, one["ticket"]), (it, one)

    def verdict(self, source, event):
        answer = self.node.request("POST", f"/in/{source}", event_bytes(event))
        assert answer.status == 200, answer
        return answer.json()["verdict"]

    def check_newest(self):
        for it in self.facts["states"]:
            def at(day, entity=it["entity"]):
                return {"id": f"{entity}-again-{day}", "entity": entity,
                        "time": f"2026-01-{day:02}T00:00:00Z"}
            assert self.verdict("state", at(it["day"] - 1)) == "stale"
            assert self.verdict("state", at(it["day"] + 1)) == "new"

    def check_cells(self, is_local):
        gone_s = max(0, time.time() - unix(self.facts["made"]))
        # Time that the machine was off, or was another one, may pass for the local store.
        low = max(gone_s, DAY_S + 60 if is_local else 0) + 120
        with respkit.Client(respkit.address_of(self.node)) as client:
            for name, cell in self.facts["cells"].items():
                assert client.call("GET", name) == ("$", cell["value"].encode()), name
                left = int(client.call("TTL", name)[1])
                if cell["left_s"] is None:
                    assert left == -1, name
                else:
                    assert cell["left_s"] - low <= left <= cell["left_s"], (name, left)
                assert client.call("SET", name, "other", "NX") == ("$", None), name
            for name in self.facts["removed"]:
                assert client.call("GET", name) == ("$", None), name
            assert client.call("SET", "fresh", "1", "NX", "EX", "60") == ("+", b"OK")

    def check_claims_api(self):
        for it in self.facts["settled"]:
            answer = self.claim(it["claim"])
            assert answer.status == 200 and answer.json()["verdict"] == "duplicate", answer
            found = {name: answer.json().get(name) for name in it["answer"]}
            assert found == it["answer"]
        other = self.claim({"key": "json", "payload": {"sum": 2}})
        assert other.status == 422, other
        for it in self.facts["leased"]:
            with self.node.connect() as connection:
                late = connection.request("PUT", f"/v1/claims/{it['token']}", b"")
            assert late.status in (404, 409), late  # its lease is over
            self.check_next_attempt(it)
        for it in self.facts["returned"]:
            self.check_next_attempt(it)

    def check_next_attempt(self, it):
        answer = self.claim({"key": it["key"], "lease": "1h"})
        assert answer.status == 201, answer
        assert answer.json()["attempt"] > 1 and answer.json()["ticket"] == it["ticket"], answer

    def check_spooled(self, ids):
        """What waited for the shared store is admitted once."""
        def delivered():
            return [json.loads(request.body)["id"] for request in list(self.taken["ok"])]
        eventually(lambda: self.node.metrics()["stile_spooled_events"].value() == 0,
                   "the spool is empty")
        eventually(lambda: len(delivered()) >= len(ids), "what was spooled is delivered")
        assert sorted(delivered()) == sorted(ids)

    def check_people(self):
        """What waited for a person is released, and dropped."""
        for name, count in (("ok", 2), ("sms", 3), ("old", 3)):
            its = sorted(it["ticket"] for it in self.expected(name))
            assert len(its) == count
            before = self.delivered(name)
            self.ask("POST", f"/v1/tickets/{its[0]}/drop")
            for ticket in its[1:]:
                self.ask("POST", f"/v1/tickets/{ticket}/release")
            eventually(lambda n=name, i=its: all(self.delivered(n)[t] for t in i[1:]),
                       f"what was released is delivered to {name}")
            assert all(self.delivered(name)[ticket] == 1 for ticket in its[1:])
            assert its[0] not in self.delivered(name)
            assert all(self.delivered(name)[ticket] == n for ticket, n in before.items())

    def check_deliveries(self):
        """What was open is delivered, each once."""
        assert self.ask("GET", "/v1/sinks/books")["state"] == "paused"
        assert not self.sink.got("/books")
        self.works = True
        self.ask("POST", "/v1/sinks/books/resume")
        eventually(lambda: not [it for it in self.tickets() if it["state"] in WAITING and
                                it["sink"] != "caller"], "all is delivered")
        for name in ("books", *GATED):
            wanted = {it["event"] for it in self.expected(name)}  # the key of all its legs
            assert self.delivered(name) == collections.Counter(wanted), name
        assert not self.sink.got("/pay"), "nobody knows whether it was done"

    def check(self, is_local):
        self.check_tickets()
        self.check_claims()
        self.check_newest()
        self.check_cells(is_local)
        self.check_claims_api()
        self.check_people()
        self.check_deliveries()
        assert self.node.stop() == 0, self.node.log()


def its_state(it):
    """What is listed of a ticket, but for what another life may change."""
    state = it["state"]
    if it["sink"] == "pay":
        state = "parked"  # an attempt was under way
    elif state in WAITING:
        state = "waits"
    return tuple(it.get(name, "") for name in ("ticket", "event", "sink", "source", "id", "type",
                                               "entity")) + (state,)


def unix(text):
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone


@pytest.mark.parametrize("case", ["stopped", "killed"])
@pytest.mark.parametrize("name", formats())
def test_data_folder_of_an_earlier_build_is_read(stile, scratch, sink, run, name, case):
    it = Earlier(stile, scratch, sink, name, case)
    code, out, err = run("journal", "verify", it.folder)
    assert code == 0, out + err
    it.start()
    it.check(is_local=True)
    code, out, err = run("journal", "verify", it.folder)
    assert code == 0, out + err
    it.start()  # and now it is a folder of this build
    it.check_claims()


# ---- shared stores ----


def fill_redis(server, written, case):
    keys = json.loads((written / f"{case}.keys").read_text(encoding="utf-8"))
    with server.client() as client:
        for name, (ends_ms, dump) in keys.items():
            client.restore(base64.b64decode(name), ends_ms, base64.b64decode(dump),
                           absttl=ends_ms > 0)


def fill_postgres(server, written, case):
    text = (written / f"{case}.sql").read_text(encoding="utf-8")
    subprocess.run([f"{server.bin}/psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d",
                    server.conninfo()], input=text, text=True, check=True, capture_output=True,
                   user=server.user, cwd=server.folder)


def refused(node):
    """Did the start end because of what it found? Then the log must say so."""
    eventually(lambda: node.process.poll() is not None or "stile is ready" in node.log(),
               "it is ready, or says why not")
    if node.process.poll() is None:
        node.wait_ready()
        return False
    assert node.process.returncode == 1, node.log()
    assert re.search(r"level=error .*\b(layout|version|earlier|format)\b", node.log()), node.log()
    return True


@pytest.mark.parametrize("case", ["redis", "parcels", "postgres"])
@pytest.mark.parametrize("name", formats())
def test_shared_store_of_an_earlier_build_is_read_or_refused(stile, scratch, sink, binary, name,
                                                             case):
    """By a gateway with events in its spool. If the store is refused, they go into a new one."""
    it = Earlier(stile, scratch, sink, name, case)
    backend = (sharedkit.PostgresBackend if case == "postgres" else sharedkit.RedisBackend)()
    try:
        fill = fill_postgres if case == "postgres" else fill_redis
        fill(backend.server, it.written, case)
        if not refused(it.start(backend.url(PREFIX), wait=False)):
            it.check_spooled(it.facts["spooled"])
            for event_id in it.facts["spooled"]:
                assert it.verdict("spool", {"id": event_id}) == "duplicate"
            it.check(is_local=False)
            return
        if case == "postgres":
            backend.server.ask(f"DROP SCHEMA {PREFIX} CASCADE")
            sharedkit.prepare(binary, backend, backend.url(PREFIX))
        else:
            backend.server.ask("FLUSHALL")
        it.start(backend.url(PREFIX))
        it.check_spooled([*it.facts["spooled"], "known"])  # a new store does not know that one
        assert it.node.stop() == 0
    finally:
        backend.close()
