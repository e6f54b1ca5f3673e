"""The admin API: who may ask, what is shown, what is done to tickets and sinks."""

import http.client
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import urllib.parse

import pytest

from gatekit import fresh, post, take, write
from harness import Connection, eventually, take_problem
from sinkkit import CUT, QUICK, configure, http_sink, key, source

CANARY = "c4n4ry-9876543210-c4n4ry"
DEAD = QUICK.replace("max: 20ms", "max: 20ms, attempts: 2")


def ask(gateway, method, path, **parameters):
    if parameters:
        path += "?" + urllib.parse.urlencode(parameters)
    answer = gateway.ask(method, path)
    assert answer.status in (200, 202), answer
    return answer.json()


def tickets(gateway, **filters):
    """All of them, page by page."""
    found, more = [], {}
    while True:
        page = ask(gateway, "GET", "/v1/tickets", **filters, **more)
        found += page["tickets"]
        if page["next"] is None:
            return found
        more = {"cursor": page["next"]}


def finish(gateway, job):
    """The job when it has ended."""
    def ended():
        state = ask(gateway, "GET", f"/v1/jobs/{job['job']}")
        return state if state["state"] != "running" else None
    return eventually(ended, "the job ends")


class Gate:
    """A gateway with one sink that answers as the test says, and dead letters in it."""

    def __init__(self, stile, folder, sink, sinks="", policy=DEAD, options=(), sources=None):
        self.status = 500
        self.sink = sink(lambda request: self.status)
        text = http_sink("crm", self.sink.url("/crm"), policy) + sinks
        self.config = configure(folder, sources or source("a"), text)
        self.gateway = stile("--config", self.config, *options, env={"CANARY": CANARY})

    def send(self, count=1, **more):
        """Tickets, oldest first."""
        return [take(post(self.gateway, "/in/a", {"id": fresh(), **more}), "new")["ticket"]
                for _ in range(count)]

    def dead(self, count=1, **more):
        before = len(tickets(self.gateway, state="dead"))
        sent = self.send(count, **more)
        eventually(lambda: len(tickets(self.gateway, state="dead")) == before + count,
                   f"{count} dead letters")
        return sent


@pytest.fixture
def gate(stile, scratch, sink):
    return lambda **more: Gate(stile, scratch, sink, **more)


# ---- who may ask ----

@pytest.mark.parametrize("headers, status", [
    ([], 200),
    ([("Host", "localhost:1")], 200),
    ([("Host", "127.0.0.1")], 200),
    ([("Host", "[::1]:8081")], 200),
    ([("Host", "stile.example.com")], 403),
    ([("Host", "localhost.example.com")], 403),
    ([("Host", "127.0.0.1.example.com")], 403),
    ([("Host", "localhost:1"), ("Origin", "http://localhost:1")], 200),
    ([("Host", "localhost:1"), ("Origin", "http://localhost:2")], 403),
    ([("Host", "localhost:1"), ("Origin", "https://localhost:1")], 403),
    ([("Origin", "null")], 403),
    ([("Origin", "")], 403),
    ([("Sec-Fetch-Site", "cross-site")], 403),
    ([("Sec-Fetch-Site", "same-origin")], 200),
    ([("X-Forwarded-For", "192.0.2.1")], 403),
    ([("Forwarded", "for=192.0.2.1")], 403),
    ([("X-Real-IP", "192.0.2.1")], 403),
    ([("Via", "1.1 proxy")], 403),
])
def test_only_this_machine_under_its_own_name_is_answered(module_gateway, headers, status):
    for method, path in (("GET", "/v1/stats"), ("GET", "/healthz"),
                         ("POST", "/v1/tickets/zzzzzzzzzzz/drop")):
        answer = module_gateway.ask(method, path, headers)
        assert answer.status == (409 if method == "POST" and status == 200 else status), answer
        assert "default-src 'none'" in answer.header("content-security-policy")
        assert answer.header("x-content-type-options") == "nosniff"


@pytest.fixture(scope="module")
def module_gateway(module_stile):
    return module_stile()


def test_v1_is_not_on_the_listener_of_events(module_gateway):
    for path in ("/v1", "/v1/stats", "/v1/tickets/zzzzzzzzzzz/drop"):
        with module_gateway.connect() as connection:
            detail = take_problem(connection.request("GET", path), 404)
            assert "--admin" in detail
    assert module_gateway.ask("GET", "/metrics").status == 200
    with module_gateway.connect() as connection:
        assert connection.request("GET", "/metrics").header("content-security-policy") is None


CLIENT = """\
import http.client, sys
port, token = int(sys.argv[1]), sys.argv[2]
for peer in ("127.0.0.1", "192.0.2.1"):
    for name, headers in (("none", {}), ("wrong", {"Authorization": "Bearer " + token[:-1] + "x"}),
                          ("short", {"Authorization": "Bearer " + token[:-1]}),
                          ("basic", {"Authorization": "Basic " + token}),
                          ("right", {"Authorization": "Bearer " + token})):
        connection = http.client.HTTPConnection(peer, port, timeout=60)
        connection.request("GET", "/v1/stats", headers=headers)
        print(peer, name, connection.getresponse().status)
"""


def test_others_need_the_token(stile, scratch):
    """In a network of its own, with an address that is not of the loopback."""
    if not shutil.which("unshare") or not shutil.which("nsenter") or not shutil.which("ip"):
        pytest.skip("needs unshare, nsenter and ip")
    setup = "ip link set lo up && ip addr add 192.0.2.1/32 dev lo"
    if subprocess.run(["unshare", "-n", "sh", "-c", setup], capture_output=True,
                      check=False).returncode != 0:
        pytest.skip("no network of its own can be had here")
    config = write(scratch, "stile.yaml", "admin: { listen: '0.0.0.0:0', token: '${CANARY}' }\n")
    gateway = stile("--config", config, wait=False, admin=False, env={"CANARY": CANARY},
                    wrap=("unshare", "-n", "sh", "-c", setup + ' && exec "$@"', "sh"))
    eventually(gateway._listening, "stile is ready")
    port = gateway.log().split("admin=http://0.0.0.0:")[1].split()[0]
    done = subprocess.run(["nsenter", "-t", str(gateway.process.pid), "-n", sys.executable, "-c",
                           CLIENT, port, CANARY], capture_output=True, text=True, check=True)
    got = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    for peer in ("127.0.0.1", "192.0.2.1"):
        for name in ("none", "wrong", "short", "basic"):
            assert got[f"{peer} {name}"] == "401", got
        assert got[f"{peer} right"] == "200", got
    assert gateway.stop() == 0
    assert CANARY not in gateway.log()


def test_listener_that_others_reach_needs_a_token(run, data, scratch):
    code, _, err = run("serve", "--data", data, "--admin", "0.0.0.0:0")
    assert code == 2 and "admin.token" in err, err
    config = write(scratch, "short.yaml", "admin: { listen: '0.0.0.0:0', token: short }\n")
    code, _, err = run("serve", "--data", data, "--config", config)
    assert code == 2 and "16" in err and "short" not in err.replace("short.yaml", ""), err


def test_commands_bring_the_token(stile, scratch, run):
    path = write(scratch, "token", CANARY + "\n")
    os.chmod(path, 0o600)
    config = write(scratch, "stile.yaml", f"admin: {{ token: 'file:{path}' }}\n")
    gateway = stile("--config", config)
    url = ("--url", gateway.admin_url())
    code, _, err = run("stats", *url)
    assert code == 1 and "401" in err, err
    code, out, err = run("stats", *url, "--token-file", path)
    assert code == 0 and "tickets.dead" in out, err
    wrong = write(scratch, "wrong", "x" * len(CANARY))
    assert run("stats", *url, "--token-file", wrong)[0] == 1
    code, _, err = run("stats", *url, "--token-file", os.path.join(scratch, "none"))
    assert code == 1 and err


# ---- a socket in the file system ----

@pytest.fixture(name="path")
def fixture_path():
    """Of a socket: it may not be long."""
    with tempfile.TemporaryDirectory(prefix="stile") as folder:
        yield os.path.join(folder, "admin.sock")


def status_at(path, headers=()):
    connection = http.client.HTTPConnection("localhost")
    with socket.socket(socket.AF_UNIX) as connection.sock:
        connection.sock.settimeout(60)
        connection.sock.connect(path)
        connection.request("GET", "/v1/stats", headers=dict(headers))
        return connection.getresponse().status


def test_socket_in_the_file_system_is_for_this_user_and_needs_no_token(stile, path, run):
    gateway = stile("--admin", f"unix:{path}")
    assert f"admin=unix:{path}" in gateway.log()
    assert stat.filemode(os.lstat(path).st_mode) == "srw-------"
    assert status_at(path) == 200
    assert status_at(path, {"Host": "stile.example.com"}) == 200
    for headers in ({"X-Forwarded-For": "192.0.2.1"}, {"Origin": "http://other.example.com"}):
        assert status_at(path, headers) == 403, headers
    code, out, err = run("stats", "--url", f"unix:{path}")
    assert code == 0 and "tickets.dead" in out, err
    ticket = take(post(gateway, "/in/events", {"id": fresh()}), "new")["ticket"]
    code, out, err = run("tickets", "show", ticket, "--url", f"unix:{path}")
    assert code == 0 and ticket in out, err
    assert gateway.stop() == 0
    assert not os.path.lexists(path)
    code, _, err = run("stats", "--url", f"unix:{path}")
    assert code == 1 and path in err, err


def test_socket_in_the_file_system_wants_a_token_that_is_configured(stile, scratch, path, run):
    token = write(scratch, "token", CANARY)
    config = write(scratch, "stile.yaml",
                   f"admin: {{ listen: 'unix:{path}', token: 'file:{token}' }}\n")
    stile("--config", config, admin=False)
    assert status_at(path) == 401
    assert run("stats", "--url", f"unix:{path}", "--token-file", token)[0] == 0


def test_socket_that_a_killed_gateway_left_is_replaced(stile, path, scratch):
    stile("--admin", f"unix:{path}").kill()
    assert os.path.lexists(path)
    stile("--admin", f"unix:{path}", folder=os.path.join(scratch, "other"))
    assert status_at(path) == 200


def test_place_of_a_socket_that_is_taken_stays_as_it_is(stile, run, path, scratch):
    listen = ("--listen", "127.0.0.1:0", "--admin", f"unix:{path}")
    gateway = stile("--admin", f"unix:{path}")
    other = os.path.join(scratch, "other")
    for commit in ("inline", "thread"):
        code, _, err = run("serve", "--data", other, "--commit", commit, *listen)
        assert code == 1 and path in err, err
    assert status_at(path) == 200
    os.unlink(path)
    with open(path, "w", encoding="ascii") as file:
        file.write("no socket")
    code, _, err = run("serve", "--data", other, *listen)
    assert code == 1 and path in err, err
    assert gateway.stop() == 0
    with open(path, encoding="ascii") as file:
        assert file.read() == "no socket"


def test_path_of_a_socket_is_absolute_and_fits(run, data):
    for path in ("", "/", "admin.sock", "/" + "a" * 107):
        code, _, err = run("serve", "--data", data, "--admin", f"unix:{path}")
        assert code == 2 and "unix:/PATH" in err, err
    code, _, err = run("serve", "--data", data, "--resp", "unix:/tmp/resp.sock")
    assert code == 2, err


def test_place_that_is_taken_is_an_error_only_when_it_was_asked_for(stile, run, data, scratch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        code, _, err = run("serve", "--data", data, "--listen", "127.0.0.1:0", "--admin", address)
        assert code == 1 and address in err, err
    with socket.socket() as taken:  # the default
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", 8081))
            taken.listen()
        except OSError:
            pass  # somebody else has it: as good
        gateway = stile(admin=False)
        assert "admin API disabled" in gateway.log() and gateway.admin is None
        take(post(gateway, "/in/events", {"id": "a"}), "new")
    gateway = stile("--admin", "none", folder=os.path.join(scratch, "other"))
    assert gateway.admin is None and "admin API disabled" not in gateway.log()


# ---- lists ----

def test_tickets_are_listed_by_every_filter(gate):
    it = gate(sinks=http_sink("other", "http://127.0.0.1:9/", DEAD),
              sources=source("a") + source("b"))
    first = it.send(type="order.paid", entity="e1")[0]
    second = it.send(type="order.sent", entity="e2")[0]
    number = fresh()
    third = take(post(it.gateway, "/in/b", {"id": number, "type": "call"}), "new")["ticket"]
    eventually(lambda: len(tickets(it.gateway, state="dead")) == 6, "all are dead")

    def events(**filters):
        return [ticket["event"] for ticket in tickets(it.gateway, **filters)]

    assert events(sink="crm") == [first, second, third]
    assert events(sink="crm", source="a") == [first, second]
    assert events(sink="crm", type="order.*") == [first, second]
    assert events(sink="crm", type="order.paid") == [first]
    assert events(sink="other", entity="e2") == [second]
    assert events(sink="crm", id=number) == [third]
    assert events(sink="crm", state="parked,held") == []
    assert events(sink="crm", state="dead,held", since="1h") == [first, second, third]
    assert events(until="2000-01-01T00:00:00Z") == []
    assert events(until="1h") == [] and len(events(until="0s")) == 6
    assert events(sink="none-of-this-name") == []
    row = tickets(it.gateway, id=number, sink="crm")[0]
    assert row["ticket"] == row["event"] == third and row["state"] == "dead"
    assert row["source"] == "b" and row["type"] == "call" and row["last"] == "dead"
    assert row["status"] == 500 and row["attempt"] == 2 and row["since"] >= row["received"]


@pytest.mark.parametrize("query", [
    "state=none", "state=", "limit=0", "limit=1001", "limit=x", "cursor=0", "cursor=" + "0" * 48,
    "since=yesterday", "since=1h&until=2h", "sink=a&sink=b", "type=" + "*a" * 40,
    "source=" + "x" * 300, "source=%zz", "dry_run=1", "payload=1"])
def test_question_that_makes_no_sense_is_400(module_gateway, query):
    take_problem(module_gateway.ask("GET", "/v1/tickets?" + query), 400)


def test_drop_that_was_asked_for_wrongly_drops_nothing(gate):
    """As a body too: curl -d dry_run=1 would else be a drop."""
    it = gate()
    it.dead(1)
    for query in ("dry-run=1", "dry_run=true", "dry_run=2", "dry_run=", "dry_run",
                  "dry_run=1&dry_run=0", "rate=1", "nonce=n", "limit=1"):
        take_problem(it.gateway.ask("POST", "/v1/drop?state=dead&" + query), 400)
    answer = it.gateway.ask("POST", "/v1/drop?state=dead", body=b"dry_run=1")
    assert "query" in take_problem(answer, 400)
    assert ask(it.gateway, "GET", "/v1/jobs")["jobs"] == []
    assert len(tickets(it.gateway, state="dead")) == 1


def test_pages_are_whole_while_tickets_come_and_go(gate):
    it = gate()
    sent = it.dead(30)
    seen, cursor = [], None
    for step in range(100):
        page = ask(it.gateway, "GET", "/v1/tickets", state="dead", limit=4,
                   **({"cursor": cursor} if cursor else {}))
        assert len(page["tickets"]) <= 4
        seen += [ticket["ticket"] for ticket in page["tickets"]]
        if step == 2:  # one that was listed, and one that was not
            ask(it.gateway, "POST", f"/v1/tickets/{sent[0]}/drop")
            ask(it.gateway, "POST", f"/v1/tickets/{sent[25]}/drop")
            it.dead(2)
        cursor = page["next"]
        if cursor is None:
            break
    assert seen[:29] == sent[:25] + sent[26:] and len(set(seen)) == len(seen)


def test_ticket_shows_its_legs_and_every_attempt(gate, run):
    it = gate(policy=DEAD.replace("attempts: 2", "attempts: 3"))
    ticket = it.dead(1, type="order.paid", note="the payload")[0]
    event = ask(it.gateway, "GET", f"/v1/tickets/{ticket}")
    leg, = event["legs"]
    assert event["event"] == leg["ticket"] == ticket and "payload" not in event
    marks = [(note["mark"], note["attempt"], note["status"]) for note in leg["history"]]
    assert marks == [("dead", 3, 500), ("failed", 2, 500), ("failed", 1, 500)], leg
    assert all(note["time"] for note in leg["history"])
    event = ask(it.gateway, "GET", f"/v1/tickets/{ticket}", payload=1)
    assert event["payload"]["note"] == "the payload"
    code, out, err = run("tickets", "show", ticket, "--payload", "--url", it.gateway.admin_url())
    assert code == 0 and "order.paid" in out and "the payload" in out, err
    assert out.split().count("500") == 3 and "crm" in out  # a ticket may have these digits too
    take_problem(it.gateway.ask("GET", "/v1/tickets/zzzzzzzzzzz"), 404)
    take_problem(it.gateway.ask("GET", "/v1/tickets/none"), 400)
    assert run("tickets", "show", "zzzzzzzzzzz", "--url", it.gateway.admin_url())[0] == 1
    assert run("tickets", "show", "--url", it.gateway.admin_url())[0] == 2


def test_closed_tickets_are_listed_when_asked_for(gate):
    it = gate()
    it.status = 200
    sent = it.send(3)
    it.gateway.wait_settled()
    assert tickets(it.gateway) == []
    assert [row["ticket"] for row in tickets(it.gateway, state="closed")] == sent
    assert [row["ticket"] for row in tickets(it.gateway, state="all", limit=1)] == sent


def test_closed_ticket_is_shown_with_all_its_legs(gate, sink, run):
    other = sink()
    it = gate(sinks=http_sink("erp", other.url("/erp")))
    it.status = 200
    first, ticket, last = it.send(3, type="order.paid", note="the payload")
    it.gateway.wait_settled()
    event = ask(it.gateway, "GET", f"/v1/tickets/{ticket}", payload=1)
    assert event["event"] == ticket and event["payload"]["note"] == "the payload"
    assert [(leg["state"], leg["sink"], leg["type"]) for leg in event["legs"]] == \
        [("closed", "crm", "order.paid"), ("closed", "erp", "order.paid")], event
    assert all(leg["history"] == [] for leg in event["legs"])
    second = event["legs"][1]["ticket"]
    assert ask(it.gateway, "GET", f"/v1/tickets/{second}")["event"] == ticket
    code, out, err = run("tickets", "show", ticket, "--url", it.gateway.admin_url())
    assert code == 0 and "closed" in out and "erp" in out, err
    assert first and last


# ---- release and drop ----

def test_released_dead_letter_is_sent_under_its_old_key(gate, run):
    it = gate()
    kept, dropped = it.dead(2)
    it.status = 200
    before = len(it.sink.got())
    code, out, err = run("release", kept, "--url", it.gateway.admin_url())
    assert code == 0 and "released" in out, err
    code, out, err = run("drop", dropped, "--url", it.gateway.admin_url())
    assert code == 0 and "dropped" in out, err
    it.gateway.wait_settled()
    requests = it.sink.got()
    assert len(requests) == before + 1
    assert {key(requests[-1])} == {key(request) for request in requests[:2]} or \
        key(requests[-1]) in {key(request) for request in requests[:before]}
    for ticket in (kept, dropped):
        assert run("release", ticket, "--url", it.gateway.admin_url())[0] == 1
        take_problem(it.gateway.ask("POST", f"/v1/tickets/{ticket}/drop"), 409)


def test_many_are_released_and_dropped_by_filter_after_a_count(gate, run):
    it = gate()
    paid, sent = it.dead(5, type="paid"), it.dead(3, type="sent")
    job = finish(it.gateway, ask(it.gateway, "POST", "/v1/drop", type="sent", dry_run=1))
    assert job["matched"] == 3 and job["dropped"] == 0 and job["state"] == "done"
    assert len(tickets(it.gateway)) == 8
    url = ("--url", it.gateway.admin_url())
    code, out, err = run("drop", "--type", "sent", "--dry-run", *url)
    assert code == 0 and out == "3 would be dropped\n", err
    code, out, err = run("drop", "--type", "sent", *url)
    assert code == 0 and out.startswith("dropped 3 of 3"), err
    assert {row["ticket"] for row in tickets(it.gateway)} == set(paid)
    it.status = 200
    code, out, err = run("release", "--state", "dead", "--sink", "crm", *url)
    assert code == 0 and out.startswith("released 5 of 5"), err
    it.gateway.wait_settled()
    assert tickets(it.gateway) == [] and sent
    for command in ("release", "drop", "replay"):  # nothing is meant, or both
        assert run(command, *url)[0] == 2
        assert run(command, "--state", "dead", paid[0], *url)[0] == 2
    take_problem(it.gateway.ask("POST", "/v1/drop"), 400)
    take_problem(it.gateway.ask("POST", "/v1/drop?state=closed"), 400)
    take_problem(it.gateway.ask("POST", "/v1/replay?state=held"), 400)


def test_ticket_that_waits_for_its_next_attempt_is_tried_now_or_dropped(gate):
    """First attempts fail, the next would be in an hour."""
    it = gate(policy="retry: { first: 1h, max: 1h }, breaker: { failures: 0, percent: 0 }")
    now, gone = it.send(2)
    eventually(lambda: [row.get("last") for row in tickets(it.gateway)] == ["failed", "failed"] and
               ask(it.gateway, "GET", "/v1/sinks/crm")["waiting"] == 2, "both have failed once")
    it.status = 200
    assert ask(it.gateway, "POST", f"/v1/tickets/{now}/release")["state"] == "released"
    assert ask(it.gateway, "POST", f"/v1/tickets/{gone}/drop")["state"] == "dropped"
    it.gateway.wait_settled()
    assert [key(request) for request in it.sink.got()].count(key(it.sink.got()[-1])) == 2
    assert len(it.sink.got()) == 3


def test_what_was_answered_as_dropped_stays_so_over_a_kill(gate, stile):
    """Out of its lane: the answer waits until the store has it."""
    it = gate(policy="retry: { first: 1h, max: 1h }, breaker: { failures: 0, percent: 0 }")
    for _ in range(3):
        ticket, = it.send()
        eventually(lambda: [row.get("last") for row in tickets(it.gateway)] == ["failed"] and
                   ask(it.gateway, "GET", "/v1/sinks/crm")["waiting"] == 1, "it has failed once")
        assert ask(it.gateway, "POST", f"/v1/tickets/{ticket}/drop")["state"] == "dropped"
        it.gateway.kill()
        it.gateway = stile("--config", it.config)
        assert tickets(it.gateway) == []


def test_backlog_of_a_sink_is_dropped_or_tried_now(gate, run):
    """In its lane or not: what the lane has not taken is due, what it has is leased."""
    it = gate(policy="retry: { first: 1h, max: 1h }, breaker: { failures: 0, percent: 0 }, "
              "concurrency: 1")
    it.send(3)
    eventually(lambda: [row.get("last") for row in tickets(it.gateway)] == ["failed"] * 3 and
               ask(it.gateway, "GET", "/v1/sinks/crm")["waiting"] == 3, "all have failed once")
    url = ("--url", it.gateway.admin_url())
    it.status = 503
    code, out, err = run("release", "--state", "due,leased", "--sink", "crm", *url)
    assert code == 0 and out.startswith("released 3 of 3"), (out, err)
    it.sink.wait(6)
    eventually(lambda: ask(it.gateway, "GET", "/v1/sinks/crm")["waiting"] == 3, "again in vain")
    code, out, err = run("drop", "--state", "open", "--sink", "crm", *url)
    assert code == 0 and out.startswith("dropped 3 of 3"), (out, err)
    it.gateway.wait_settled()
    assert len(it.sink.got()) == 6


def test_what_waits_for_a_sink_that_is_gone_is_dropped(gate, stile, scratch, run):
    it = gate(policy="retry: { first: 1h, max: 1h }, breaker: { failures: 0, percent: 0 }")
    first, second, third = it.send(3)
    it.gateway.kill()
    config = configure(scratch, source("a"), http_sink("erp", it.sink.url("/erp")))
    gateway = stile("--config", config)
    assert {row["state"] for row in tickets(gateway)} == {"due"}
    assert ask(gateway, "POST", f"/v1/tickets/{first}/drop")["state"] == "dropped"
    assert ask(gateway, "POST", f"/v1/tickets/{second}/release")["state"] == "released"
    assert {row["ticket"] for row in tickets(gateway)} == {second, third}
    code, out, err = run("drop", "--state", "due", "--url", gateway.admin_url())
    assert code == 0 and out.startswith("dropped 2 of 2"), (out, err)
    assert tickets(gateway) == []


# ---- replay ----

def test_replay_twice_with_one_nonce_sends_once(gate, run):
    it = gate()
    sent = it.dead(4)
    keys = {key(request) for request in it.sink.got()}
    it.status = 200
    before = len(it.sink.got())
    url = ("--url", it.gateway.admin_url())
    code, out, err = run("replay", "--state", "dead", "--dry-run", *url)
    assert code == 0 and out == "4 would be replayed\n", err
    assert len(tickets(it.gateway, state="dead")) == 4
    code, out, err = run("replay", "--state", "dead", "--nonce", "n-1", "--rate", "1000", *url)
    assert code == 0 and out.startswith("replayed 4 of 4") and "nonce n-1" in out, err
    it.gateway.wait_settled()
    fresh_keys = [key(request) for request in it.sink.got()[before:]]
    assert len(fresh_keys) == 4 and len(set(fresh_keys)) == 4 and not set(fresh_keys) & keys
    # What was sent is closed now: by its numbers it is found there, and known.
    for ticket in sent:
        job = finish(it.gateway, ask(it.gateway, "POST", f"/v1/tickets/{ticket}/replay",
                                     nonce="n-1", rate=1000))
        assert job["matched"] == 1 and job["skipped"] == 1 and job["replayed"] == 0, job
    job = finish(it.gateway, ask(it.gateway, "POST", "/v1/replay", nonce="n-1", since="1h",
                                 rate=1000))
    assert job["replayed"] == 0 and job["skipped"] == 4, job
    it.gateway.wait_settled()
    assert len(it.sink.got()) == before + 4
    job = finish(it.gateway, ask(it.gateway, "POST", "/v1/replay", nonce="n-2", since="1h",
                                 rate=1000))
    assert job["replayed"] == 4 and job["matched"] == 4, job  # not the replays as well
    it.gateway.wait_settled()
    assert len(it.sink.got()) == before + 8


def test_replay_to_another_sink_comes_once_and_leaves_the_original(gate, sink, run):
    """An event with two legs, of which one is dead and one is done."""
    other = sink()
    it = gate(sinks=http_sink("erp", other.url("/erp")) + http_sink("lake", other.url("/lake")))
    ticket, = it.dead(1)
    other.wait(2)
    url = ("--url", it.gateway.admin_url())
    for count in (1, 0):  # under one nonce once, however many legs there are
        code, out, err = run("replay", "--nonce", "n-1", "--to", "lake", "--since", "1h",
                             "--rate", "1000", *url)
        assert code == 0 and out.startswith(f"replayed {count} of 3"), (out, err)
    other.wait(3)
    assert len(other.got("/lake")) == 2 and len(other.got("/erp")) == 1
    assert len({key(request) for request in other.got("/lake")}) == 2
    assert [row["ticket"] for row in tickets(it.gateway, state="dead")] == [ticket]
    take_problem(it.gateway.ask("POST", "/v1/replay?since=1h&to=nowhere"), 400)


def test_replay_by_filter_is_of_each_leg(gate, sink):
    other = sink()
    it = gate(sinks=http_sink("erp", other.url("/erp")))
    it.status = 200
    it.send(2)
    it.gateway.wait_settled()
    job = finish(it.gateway, ask(it.gateway, "POST", "/v1/replay", since="1h", rate=1000))
    assert job["matched"] == job["replayed"] == 4, job
    it.gateway.wait_settled()
    assert len(it.sink.got("/crm")) == len(other.got("/erp")) == 4
    job = finish(it.gateway, ask(it.gateway, "POST", "/v1/replay", since="1h", rate=1000,
                                 sink="erp"))
    assert job["replayed"] == 2, job
    it.gateway.wait_settled()
    assert len(it.sink.got("/crm")) == 4 and len(other.got("/erp")) == 6


def test_replay_leaves_the_claims_of_callers_to_them(gate, sink):
    lake = sink()
    it = gate(sinks=http_sink("lake", lake.url("/lake")))
    it.status = 200
    it.send(1)
    with it.gateway.connect() as connection:
        made = connection.request("POST", "/v1/claims", b'{"key":"k"}').json()
        settled = connection.request("PUT", "/v1/claims/" + made["token"])
        assert settled.status == 200, settled
    it.gateway.wait_settled()
    job = finish(it.gateway, ask(it.gateway, "POST", "/v1/replay", since="1h", rate=1000))
    assert job["matched"] == job["replayed"] == 2, job  # the legs of the event
    it.gateway.wait_settled()
    assert tickets(it.gateway) == []
    job = finish(it.gateway, ask(it.gateway, "POST", "/v1/replay", source="claims", to="lake",
                                 rate=1000))
    assert job["matched"] == job["replayed"] == 1, job
    lake.wait(3)
    it.gateway.wait_settled()


def test_replay_of_a_ticket_in_no_state_for_it_is_refused(gate, sink, run):
    """Not there; on its way; a claim that its caller has; or one that was settled."""
    lake = sink()
    it = gate(policy="retry: { first: 1h, max: 1h }, breaker: { failures: 0, percent: 0 }",
              sinks=http_sink("lake", lake.url("/lake")))
    url = ("--url", it.gateway.admin_url())

    def refused(ticket, status, text, *options):
        query = "&".join(f"{name[2:]}={value}" for name, value in zip(options[::2], options[1::2]))
        answer = it.gateway.ask("POST", f"/v1/tickets/{ticket}/replay?{query}")
        assert text in take_problem(answer, status)
        for more in ((), ("--dry-run",)):
            code, out, err = run("replay", ticket, *options, *more, *url)
            assert code == 1 and out == "" and ticket in err and text in err, (out, err)

    refused("zzzzzzzzzzz", 404, "no such ticket")
    with it.gateway.connect() as connection:
        made = connection.request("POST", "/v1/claims", b'{"key":"k"}').json()
        refused(made["ticket"], 409, "still being delivered")
        refused(made["ticket"], 409, "still being delivered", "--to", "lake")
        assert connection.request("PUT", "/v1/claims/" + made["token"]).status == 200
    refused(made["ticket"], 409, "claim of the claims API")
    code, out, err = run("replay", made["ticket"], "--to", "lake", *url)
    assert code == 0 and out.startswith("replayed 1 of 1"), (out, err)
    lake.wait(1)
    ask(it.gateway, "POST", "/v1/sinks/lake/pause")
    ticket, = it.send()
    refused(ticket, 409, "still being delivered")  # crm is tried in vain, lake is paused
    jobs = ask(it.gateway, "GET", "/v1/jobs")["jobs"]
    assert {(job["state"], "error" in job) for job in jobs} == {("failed", True), ("done", False)}


def test_replay_of_an_event_is_of_its_legs_that_are_done_with(gate, sink, run):
    """One leg is delivered, the other waits: named by the event, what is done is sent again."""
    lake = sink()
    it = gate(policy="retry: { first: 1h, max: 1h }, breaker: { failures: 0, percent: 0 }",
              sinks=http_sink("lake", lake.url("/lake")))
    ticket, = it.send()
    lake.wait(1)
    eventually(lambda: len(tickets(it.gateway)) == 1, "one leg waits")
    code, out, err = run("replay", ticket, "--url", it.gateway.admin_url())
    assert code == 0 and out.startswith("replayed 1 of 1"), (out, err)
    lake.wait(2)


def test_replay_is_the_same_bytes_and_says_whose(gate):
    it = gate()
    it.status = 200
    body = b'{ "id" : "bytes-1",  "type": "t",\t"x": 1.0e0 }'
    ticket = take(post(it.gateway, "/in/a", body), "new")["ticket"]
    it.gateway.wait_settled()
    it.status = 500
    job = ask(it.gateway, "POST", f"/v1/tickets/{ticket}/replay")
    assert len(job["nonce"]) == 16 and finish(it.gateway, job)["replayed"] == 1
    row, = eventually(lambda: tickets(it.gateway, state="dead"), "the replay is dead")
    assert row["replay_of"] == ticket and row["id"] == "bytes-1" and row["ticket"] > ticket
    assert {request.body for request in it.sink.got()} == {body}
    assert take(post(it.gateway, "/in/a", body), "duplicate")["ticket"] == ticket


def test_replay_survives_a_kill_by_being_run_again(gate, stile):
    it = gate()
    it.dead(40)
    it.status = 200
    before = len(it.sink.got())
    ask(it.gateway, "POST", "/v1/replay", state="dead", nonce="again", rate=40)
    eventually(lambda: len(it.sink.got()) > before + 3, "some are sent again")
    it.gateway.kill()
    gateway = stile("--config", it.config, env={"CANARY": CANARY})
    finish(gateway, ask(gateway, "POST", "/v1/replay", since="1h", nonce="again", rate=10000))
    gateway.wait_settled()
    assert tickets(gateway) == []
    again = {}
    for request in it.sink.got()[before:]:
        again.setdefault(json.loads(request.body)["id"], set()).add(key(request))
    assert len(again) == 40 and all(len(keys) == 1 for keys in again.values())


def test_rate_of_a_replay_holds_and_it_can_be_cancelled(gate):
    it = gate()
    it.dead(20)
    it.status = 200
    job = ask(it.gateway, "POST", "/v1/replay", state="dead", rate=1)
    shown = ask(it.gateway, "GET", f"/v1/jobs/{job['job']}")
    assert shown["rate"] == 1 and shown["state"] == "running", shown
    ended = ask(it.gateway, "POST", f"/v1/jobs/{job['job']}/cancel")
    ended = finish(it.gateway, ended)
    assert ended["state"] == "cancelled" and ended["replayed"] < 20
    assert [row["job"] for row in ask(it.gateway, "GET", "/v1/jobs")["jobs"]] == [job["job"]]
    take_problem(it.gateway.ask("GET", "/v1/jobs/99"), 404)
    take_problem(it.gateway.ask("POST", "/v1/jobs/x/cancel"), 404)
    assert it.gateway.stop() == 0


def test_stop_does_not_wait_for_a_slow_job(gate):
    it = gate()
    it.dead(20)
    ask(it.gateway, "POST", "/v1/replay", state="dead", rate=1)
    assert it.gateway.stop() == 0


# ---- sinks, sources, counts ----

def test_paused_sink_gets_nothing_until_it_is_resumed(gate, run):
    it = gate()
    it.status = 200
    it.send()
    it.gateway.wait_settled()
    url = ("--url", it.gateway.admin_url())
    code, out, err = run("sinks", "pause", "crm", *url)
    assert code == 0 and out == "crm paused\n", err
    it.send(3)
    eventually(lambda: ask(it.gateway, "GET", "/v1/sinks/crm")["waiting"] == 3, "three wait")
    row, = ask(it.gateway, "GET", "/v1/sinks")["sinks"]
    assert row["sink"] == "crm" and row["state"] == "paused" and row["outcomes"]["done"] == 1
    assert len(it.sink.got()) == 1
    code, out, err = run("sinks", *url)
    assert code == 0 and "crm" in out and "paused" in out, err
    assert ask(it.gateway, "POST", "/v1/sinks/crm/resume")["state"] == "running"
    it.gateway.wait_settled()
    assert len(it.sink.got()) == 4
    for method, path in (("GET", "none"), ("POST", "none/pause"), ("POST", "none/resume")):
        take_problem(it.gateway.ask(method, f"/v1/sinks/{path}"), 404)
    assert run("sinks", "pause", "none", *url)[0] == 1
    assert run("sinks", "stop", "crm", *url)[0] == 2


def test_paused_and_disabled_sinks_are_so_after_a_kill(gate, stile, run):
    it = gate(policy="")
    it.status = 410
    erp = http_sink("erp", it.sink.url("/erp"))
    it.send(1)
    eventually(lambda: ask(it.gateway, "GET", "/v1/sinks/crm")["state"] == "disabled", "410")
    it.send(1)  # is durable when it is answered, and so is what was said before it
    it.gateway.kill()
    it.status = 200
    with open(it.config, "a", encoding="utf-8") as file:
        file.write(erp)
    gateway = stile("--config", it.config)
    assert ask(gateway, "POST", "/v1/sinks/erp/pause")["state"] == "paused"
    gateway.kill()
    gateway = stile("--config", it.config)
    take(post(gateway, "/in/a", {"id": fresh()}), "new")
    for name, state, waiting in (("crm", "disabled", 3), ("erp", "paused", 1)):
        eventually(lambda: ask(gateway, "GET", f"/v1/sinks/{name}")["waiting"] == waiting, name)
        assert ask(gateway, "GET", f"/v1/sinks/{name}")["state"] == state
    assert len(it.sink.got()) == 1
    for name in ("crm", "erp"):
        assert ask(gateway, "POST", f"/v1/sinks/{name}/resume")["state"] == "running"
    gateway.wait_settled()
    gateway.kill()
    gateway = stile("--config", it.config)
    take(post(gateway, "/in/a", {"id": fresh()}), "new")
    gateway.wait_settled()
    assert len(it.sink.got("/crm")) == 5 and len(it.sink.got("/erp")) == 2


def test_sources_and_counts_are_what_was_sent(gate, run):
    it = gate()
    it.dead(2)
    post(it.gateway, "/in/a", b"nonsense")
    row, = ask(it.gateway, "GET", "/v1/sources")["sources"]
    assert row["source"] == "a" and row["verdicts"]["new"] == 2 and row["refused"] == 1, row
    stats = ask(it.gateway, "GET", "/v1/stats")
    assert stats["tickets"]["dead"] == stats["tickets"]["open"] == 2 and stats["writable"]
    code, out, err = run("stats", "--json", "--url", it.gateway.admin_url())
    assert code == 0 and json.loads(out)["tickets"]["dead"] == 2, err


def test_commands_list_tickets_as_table_and_as_lines(gate, run):
    it = gate()
    sent = it.dead(5, type="order\u001bpaid", entity="e 1")
    url = ("--url", it.gateway.admin_url())
    code, out, err = run("tickets", "--state", "dead", *url)
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == ["TICKET", *sent], err
    assert "\u001b" not in out and "order\\u001bpaid" in out
    code, out, err = run("tickets", "--limit", "2", *url)
    assert code == 0 and len(out.splitlines()) == 3 and "more" in err
    code, out, err = run("tickets", "--json", "--sink", "crm", *url)
    assert code == 0 and [json.loads(line)["ticket"] for line in out.splitlines()] == sent, err
    assert run("tickets", "--state", "none", *url)[0] == 1
    assert run("tickets", "list", *url)[0] == 2


def test_secrets_of_sinks_are_in_no_answer(gate):
    """Neither the sink's headers nor the query of its address."""
    it = gate(sinks='  secret: { http: "http://127.0.0.1:9/x?key=%s", allow: 127.0.0.0/8, '
                    "headers: { Authorization: '${CANARY}' }, %s }\n" % (CANARY, DEAD))
    ticket = it.send(1)[0]
    eventually(lambda: len(tickets(it.gateway, state="dead")) == 2, "both legs are dead")
    pages = ["/v1", "/v1/tickets", f"/v1/tickets/{ticket}", f"/v1/tickets/{ticket}?payload=1",
             "/v1/sinks", "/v1/sinks/secret", "/v1/sources", "/v1/stats", "/v1/jobs", "/metrics",
             "/v1/why?any=x", "/v1/advise"]
    for page in pages:
        answer = it.gateway.ask("GET", page)
        assert answer.status == 200 and CANARY not in repr((answer.headers, answer.body)), page
    assert CANARY not in it.gateway.log()


def test_answers_come_while_tickets_are_admitted_and_released(gate):
    """Readers and writers at once: nothing breaks, and no answer is torn."""
    it = gate()
    it.dead(10)
    stop, problems = threading.Event(), []

    def read():
        with Connection(it.gateway.admin) as connection:
            while not stop.is_set():
                answer = connection.request("GET", "/v1/tickets?limit=3", None,
                                            [("Host", "localhost")])
                if answer.status != 200 or len(answer.json()["tickets"]) > 3:
                    problems.append(answer)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for count in range(13, 26, 3):
        it.dead(3)
        finish(it.gateway, ask(it.gateway, "POST", "/v1/release", state="dead"))
        eventually(lambda: len(tickets(it.gateway, state="dead")) == count, "all are dead again")
    stop.set()
    for reader in readers:
        reader.join()
    assert not problems, problems[:1]


def test_unknown_outcome_is_parked_and_released_by_a_person(gate):
    it = gate(policy=f"on_unknown: park, {QUICK}")
    it.status = CUT
    ticket = it.send()[0]
    row, = eventually(lambda: tickets(it.gateway, state="parked"), "it is parked")
    assert row["ticket"] == ticket and row["last"] == "parked"
    it.status = 200
    assert ask(it.gateway, "POST", f"/v1/tickets/{ticket}/release")["state"] == "released"
    it.gateway.wait_settled()
    assert len(it.sink.got()) == 2 and len({key(request) for request in it.sink.got()}) == 1


# ---- the stream ----

class Stream:
    """GET /v1/stream, read message by message."""

    def __init__(self, gateway, receive_bytes=None):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(60)
        self.socket.connect(gateway.admin)
        self.socket.sendall(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.input = b""
        self.head = self._until(b"\r\n\r\n").decode()
        assert " 200 " in self.head, self.head
        assert self._until(b"\n\n") == b": stile"

    def _until(self, end):
        while end not in self.input:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self.input += data
        piece, self.input = self.input.split(end, 1)
        return piece

    def next(self, kind=None):
        """(event, data) of the next message of that kind."""
        while True:
            lines = dict(line.split(": ", 1) for line in self._until(b"\n\n").decode().split("\n"))
            if "event" in lines and kind in (None, lines["event"]):
                return lines["event"], json.loads(lines["data"])

    def ended(self):
        try:
            while self._until(b"\n\n") is not None:
                pass
        except (EOFError, ConnectionError):
            return True

    def close(self):
        self.socket.close()


def test_stream_tells_decisions_and_attempts_as_they_happen(gate):
    it = gate()
    before = it.send(type="early")[0]
    stream, other = Stream(it.gateway), Stream(it.gateway)
    assert "200 OK" in stream.head and "text/event-stream" in stream.head
    assert "content-length" not in stream.head.lower() and "default-src" in stream.head
    event = {"id": fresh(), "type": "order\n\npaid"}
    ticket = take(post(it.gateway, "/in/a", event), "new")["ticket"]
    take(post(it.gateway, "/in/a", event), "duplicate")
    for one in (stream, other):
        decisions = [one.next("decision")[1] for _ in range(2)]
        assert [(d["verdict"], d["ticket"], d["id"], d["type"], d["source"]) for d in decisions] \
            == [(v, ticket, event["id"], event["type"], "a") for v in ("new", "duplicate")]
    stream.close()
    outcomes = []
    third = Stream(it.gateway)
    number = it.send()[0]
    while not outcomes or outcomes[-1][1] != "dead":
        told = third.next("delivery")[1]
        if told["ticket"] == number:
            outcomes.append((told["attempt"], told["outcome"], told["status"], told["sink"]))
    assert outcomes == [(1, "failed", 500, "crm"), (2, "dead", 500, "crm")]
    assert before and it.gateway.stop() == 0
    assert other.ended() and third.ended()


def test_reader_that_does_not_read_is_cut_and_delays_nobody(gate):
    it = gate(policy="retry: { attempts: 1 }, breaker: { failures: 0, percent: 0 }")
    it.status = 200
    slow = Stream(it.gateway, receive_bytes=4096)
    batch = b"".join(b'{"id":"%s-%d","type":"%s"}\n' % (fresh().encode(), i, b"x" * 900)
                     for i in range(500))
    for _ in range(40):  # some 20 MB of messages
        answer = it.gateway.request("POST", "/in/a", batch.replace(b'"id":"', b'"id":"%s' %
                                                                   fresh().encode()),
                                    [("Content-Type", "application/x-ndjson")])
        assert answer.status == 200, answer
    quick = Stream(it.gateway)
    ticket = it.send()[0]
    while quick.next("decision")[1]["ticket"] != ticket:
        pass
    assert slow.ended()
    assert it.gateway.stop() == 0


def test_streams_are_limited_and_gone_readers_make_room(gate):
    it = gate()
    streams = [Stream(it.gateway) for _ in range(16)]
    take_problem(it.gateway.ask("GET", "/v1/stream"), 503)
    for stream in streams:
        stream.close()
    it.status = 200

    def room():
        it.send()  # whoever is gone is noticed when something is sent
        try:
            return Stream(it.gateway)
        except (AssertionError, EOFError):
            return None
    eventually(room, "there is room for another").close()
    take_problem(it.gateway.ask("POST", "/v1/stream"), 405)
