"""SIGHUP: sources, recipes and auth change without losing a request."""

import collections
import hmac
import os
import re
import signal
import threading

import pytest

from gatekit import fresh, post, sample, take, write
from harness import LIMIT_S, Connection, eventually, take_problem

KEYS = {"KEY_A": "0123456789abcdef-a", "KEY_B": "0123456789abcdef-b"}


def source(name, more="", key=None):
    auth = f", auth: {{ header: X-Api-Key, secret: {key} }}" if key else ""
    return f"  {name}: {{ claims: [{{ once: [id] }}]{more}{auth} }}\n"


class Reloaded:
    """A gateway whose file is written anew."""

    def __init__(self, stile, folder, text, *options):
        self.folder = folder
        self.write(text)
        self.gateway = stile("--config", self.path, *options, env=KEYS)

    def write(self, text):
        self.path = write(self.folder, "stile.yaml", "sources:\n" + text)

    def told(self, message):
        return len(re.findall(f'msg="{message}', self.gateway.log()))

    def hang_up(self, message):
        """SIGHUP, until the log has this message once more; what it said since."""
        before, at = self.told(message), len(self.gateway.log())
        self.gateway.process.send_signal(signal.SIGHUP)
        eventually(lambda: self.told(message) > before, f"the log says: {message}", pause_s=0.003)
        return self.gateway.log()[at:]

    def load(self, text):
        self.write(text)
        return self.hang_up("configuration loaded")

    def fail(self, text):
        self.write(text)
        return self.hang_up("configuration rejected")


@pytest.fixture
def make(stile, scratch):
    return lambda text, *options: Reloaded(stile, scratch, text, *options)


# ---- what changes ----

def test_added_source_is_there_and_a_removed_one_is_404(make):
    it = make(source("a") + source("b"))
    event = {"id": fresh()}
    ticket = take(post(it.gateway, "/in/a", event), "new")["ticket"]
    take_problem(post(it.gateway, "/in/c", event), 404)
    said = it.load(source("a") + source("c"))
    assert "option=sources.b text=removed" in said and "option=sources.c text=added" in said
    take_problem(post(it.gateway, "/in/b", event), 404)
    take(post(it.gateway, "/in/c", event), "new")
    assert take(post(it.gateway, "/in/a", event), "duplicate")["ticket"] == ticket
    it.load(source("a") + source("b"))
    take(post(it.gateway, "/in/b", event), "new")
    take_problem(post(it.gateway, "/in/c", event), 404)


def test_connection_that_was_open_before_sees_the_new_sources(make):
    it = make(source("a"), "--threads", "2", "--commit", "thread")
    with it.gateway.connect() as one, it.gateway.connect() as two:
        for connection in (one, two):
            take(connection.post({"id": fresh()}, (), "/in/a"), "new")
        it.load(source("b"))
        for connection in (one, two):
            take(connection.post({"id": fresh()}, (), "/in/b"), "new")
            take_problem(connection.post({"id": fresh()}, (), "/in/a"), 404)


def test_request_that_came_half_before_the_reload_is_answered(make):
    it = make(source("a") + source("b"))
    body = b'{"id":"half"}'
    head = b"POST /in/%s HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n"
    with it.gateway.connect() as stays, it.gateway.connect() as goes:
        stays.send(head % b"a" + body[:5])
        goes.send(head % b"b" + body[:5])
        take(post(it.gateway, "/in/a", {"id": fresh()}), "new")
        it.load(source("a"))
        stays.send(body[5:])
        goes.send(body[5:])
        take(stays.answer(), "new")
        take_problem(goes.answer(), 404)
        take(stays.post({"id": "half"}, (), "/in/a"), "duplicate")


def test_changed_secret_counts_at_once(make, scratch):
    it = make(source("a", key='"${KEY_A}"'))

    def send(key):
        return post(it.gateway, "/in/a", {"id": fresh()}, [("X-Api-Key", key)])
    take(send(KEYS["KEY_A"]), "new")
    said = it.load(source("a", key='["${KEY_A}", "${KEY_B}"]'))
    assert "option=sources.a" in said and "auth" in said
    take(send(KEYS["KEY_A"]), "new")
    take(send(KEYS["KEY_B"]), "new")
    it.load(source("a", key='"${KEY_B}"'))
    take_problem(send(KEYS["KEY_A"]), 401)
    take(send(KEYS["KEY_B"]), "new")
    # The same words in the configuration, another secret in its file.
    secret = os.path.join(scratch, "secret")
    for key in ("0123456789abcdef-c", "0123456789abcdef-d"):
        with open(secret, "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(key + "\n")
        said = it.load(source("a", key=f"file:{secret}"))
        assert "auth" in said, said
        take(send(key), "new")
    take_problem(send("0123456789abcdef-c"), 401)
    it.load(source("a"))
    take(send("none"), "new")
    log = it.gateway.log()
    assert not any(key in log for key in (*KEYS.values(), "0123456789abcdef"))


def test_signature_over_a_body_that_the_old_file_did_not_want_is_not_called_wrong(make):
    """The first request after a reload is asked for its body by the rules before it."""
    secret, body = "0123456789abcdef0123", b'{"outcome":1}'
    sign = hmac.new(secret.encode(), body, "sha256").hexdigest()
    claims = f'claims: {{ auth: {{ kind: github, secret: "{secret}" }} }}\n'
    it = make(source("a") + "claims: { enabled: off }\n")
    it.load(source("a") + claims)

    def settle():
        with it.gateway.connect() as connection:
            connection.send(b"PUT /v1/claims/nothing HTTP/1.1\r\nHost: localhost\r\n"
                            b"Expect: 100-continue\r\nContent-Length: %d\r\n"
                            b"X-Hub-Signature-256: sha256=%s\r\n\r\n" % (len(body), sign.encode()))
            answer = connection.answer()
            if answer.status == 100:
                connection.send(body)
                answer = connection.answer()
            return answer
    assert settle().status == 503
    assert settle().status == 404  # let in, with a token that is none


def test_policy_mode_and_recipe_change_and_what_was_claimed_stays(make):
    it = make(source("a"))
    event = {"id": fresh(), "n": 1}
    other = {**event, "n": 2}
    ticket = take(post(it.gateway, "/in/a", event), "new")["ticket"]
    it.load(source("a", ", on_conflict: reject"))
    take(post(it.gateway, "/in/a", other), "conflict", status=422)
    it.load(source("a", ", mode: shadow"))
    body = take(post(it.gateway, "/in/a", event), "new")
    assert body["would"] == "duplicate" and body["would_original"] == ticket
    it.load("  a: { claims: [{ once: [n] }] }\n")
    take(post(it.gateway, "/in/a", event), "new")
    take(post(it.gateway, "/in/a", event), "duplicate")
    it.load(source("a"))
    take(post(it.gateway, "/in/a", event), "duplicate")


def test_new_window_is_in_advice_and_for_new_claims_at_once(make):
    it = make(source("a", ", window: 1h"))

    def window_ms():
        return it.gateway.get("/v1/advise").json()["sources"][0]["window_ms"]
    assert window_ms() >= 3600000
    it.load(source("a", ", window: 1s"))
    assert window_ms() == 1000, "before any event came"
    event = {"id": fresh()}
    take(post(it.gateway, "/in/a", event), "new")
    eventually(lambda: post(it.gateway, "/in/a", event).json()["verdict"] == "new",
               "a window of one second ends", pause_s=0.1)


def test_counters_go_on(make):
    it = make(source("a") + source("b"))
    for _ in range(3):
        take(post(it.gateway, "/in/a", {"id": fresh()}), "new")
        take(post(it.gateway, "/in/b", {"id": fresh()}), "new")

    def count(name):
        return sample(it.gateway, "stile_verdicts_total", source=name, verdict="new")
    it.load(source("a", ", window: 2d"))
    assert count("a") == 3 and count("b") == 3, "counters never go back"
    take(post(it.gateway, "/in/a", {"id": fresh()}), "new")
    it.load(source("b") + source("a"))
    take(post(it.gateway, "/in/b", {"id": fresh()}), "new")
    assert count("a") == 4 and count("b") == 4


# ---- what does not ----

def test_bad_file_changes_nothing_and_all_its_errors_are_told(make):
    it = make(source("a", key='"${KEY_A}"') + source("b"))
    right = [("X-Api-Key", KEYS["KEY_A"])]
    bad = ("  a: { presett: auto }\n  b: { claims: [{ once: [id] }], window: soon }\n"
           "  d: { claims: [{ once: [\"a[\"] }] }\n")
    said = it.fail(bad)
    for place in ("stile.yaml:2:", "stile.yaml:3:", "stile.yaml:4:", "presett", "soon"):
        assert place in said, said
    assert said.count("level=error") >= 3
    for text in ("  - a\n", "  a: {\n", "", "  a: { claims: [{ once: [id] }], auth: { header: X, "
                 "secret: ${NONE_SUCH} } }\n"):
        it.fail(text)
    os.unlink(it.path)
    it.hang_up("configuration rejected")
    take(post(it.gateway, "/in/a", {"id": fresh()}, right), "new")
    take_problem(post(it.gateway, "/in/a", {"id": fresh()}), 401)
    take(post(it.gateway, "/in/b", {"id": fresh()}), "new")
    it.load(source("c"))
    take(post(it.gateway, "/in/c", {"id": fresh()}), "new")
    assert it.gateway.stop() == 0


def still_asks_for_its_key(gateway):
    assert post(gateway, "/in/a", {"id": fresh()}).status == 401
    key = [("X-Api-Key", KEYS["KEY_A"])]
    take(post(gateway, "/in/a", {"id": fresh()}, key), "new")


def test_empty_file_changes_nothing_and_opens_nothing(make):
    it = make(source("a", key="${KEY_A}"))
    for text in ("", "# nothing yet\n"):
        with open(it.path, "w", encoding="ascii") as file:
            file.write(text)
        said = it.hang_up("configuration rejected")
        assert "the file is empty" in said, said
        still_asks_for_its_key(it.gateway)
        assert post(it.gateway, "/in/events", {"id": fresh()}).status == 404


def test_pipes_in_place_of_files_do_not_stop_the_gateway(make, scratch):
    it = make(source("a", key="${KEY_A}"))
    pipe = os.path.join(scratch, "pipe")
    os.mkfifo(pipe)
    said = it.fail(source("a", key=f'"file:{pipe}"'))
    assert "not a regular file" in said, said
    os.remove(it.path)
    os.mkfifo(it.path)
    it.hang_up("SIGHUP ignored: the configuration was read from a pipe")
    os.remove(it.path)
    os.symlink("/dev/ptmx", it.path)
    assert "not a regular file" in it.hang_up("configuration rejected")
    still_asks_for_its_key(it.gateway)
    assert it.gateway.stop() == 0


def test_what_needs_a_restart_is_told_and_the_rest_is_taken(make):
    it = make(source("a") + "threads: 1\nlisten: 127.0.0.1:0\nlimits: { body: 1MiB }\n")
    said = it.load(source("b") + "threads: 2\nlisten: 127.0.0.1:0\nlimits: { body: 64KiB }\n")
    only_a_restart = r"it needs a restart\" option=(\S+)"
    assert set(re.findall(only_a_restart, said)) == {"threads", "limits.body"}, said
    said = it.load(source("b") + "threads: 2\nlisten: 127.0.0.1:0\nlimits: { body: 1MiB }\n")
    assert re.findall(only_a_restart, said) == ["threads"], "told as long as it differs"
    assert sample(it.gateway, "stile_store_writable") == 1
    take(post(it.gateway, "/in/b", {"id": fresh(), "pad": "x" * 200000}), "new")


def test_without_a_file_it_is_a_warning(stile):
    gateway = stile()
    for _ in range(2):
        gateway.process.send_signal(signal.SIGHUP)
    eventually(lambda: re.search(r"level=warn msg=.*SIGHUP", gateway.log()), "a warning")
    take(gateway.post({"id": "a"}), "new")
    assert gateway.stop() == 0


# ---- under load ----

class Poster(threading.Thread):
    """Posts on one connection until told to stop; each id twice. Every answer must be
    right for one of the configurations that there were."""

    def __init__(self, address, name):
        super().__init__(name=name, daemon=True)
        self.address, self.stopping = address, threading.Event()
        self.counts, self.problem = collections.Counter(), None

    def run(self):
        try:
            with Connection(self.address) as connection:
                while not self.stopping.is_set():
                    self.step(connection, f"{self.name}-{self.counts['new']}")
        except BaseException as problem:  # told by finish()
            self.problem = problem

    def step(self, connection, name):
        ticket = take(connection.post({"id": name}, (), "/in/steady"), "new")["ticket"]
        again = take(connection.post({"id": name}, (), "/in/steady"), "duplicate")
        assert again["ticket"] == ticket
        self.counts["new"] += 1
        answer = connection.post({"id": name}, (), "/in/comes")
        assert answer.status in (200, 404), answer
        self.counts[answer.status] += 1
        answer = connection.post({"id": name, "n": 1}, (), "/in/steady")
        assert answer.status in (200, 422) and answer.json()["verdict"] in \
            ("conflict", "duplicate"), answer
        self.counts[answer.status] += 1

    def finish(self):
        self.stopping.set()
        self.join(LIMIT_S)
        assert not self.is_alive(), "a request was not answered"
        assert self.problem is None, repr(self.problem)
        return self.counts


@pytest.mark.parametrize("options", [("--commit", "inline"),
                                     ("--threads", "2", "--commit", "thread")],
                         ids=["inline", "threads"])
def test_reload_under_load_loses_no_request_and_no_answer_is_wrong(make, options):
    one = source("steady", ", on_conflict: keep first") + source("comes")
    two = source("steady", ", on_conflict: reject")
    it = make(one, *options)
    posters = [Poster(it.gateway.address, f"p{i}") for i in range(3)]
    for poster in posters:
        poster.start()
    for i in range(14):  # the log tells twenty in ten seconds
        done = [poster.counts["new"] for poster in posters]
        it.load(two if i % 2 == 0 else one)
        eventually(lambda: all(p.counts["new"] > was or p.problem for p, was in zip(posters, done)),
                   "every sender got on", pause_s=0.002)
    counts = sum((poster.finish() for poster in posters), collections.Counter())
    assert counts[200] > 0 and counts[404] > 0 and counts[422] > 0, counts
    gateway = it.gateway
    assert sample(gateway, "stile_verdicts_total", source="steady", verdict="new") == counts["new"]
    eventually(lambda: gateway.metrics()["stile_open_tickets"].value() ==
               gateway.metrics()["stile_held_tickets"].value(), "all is delivered")
    printed = collections.Counter(event["id"] for event in gateway.events())
    for poster in posters:
        for i in range(poster.counts["new"]):
            assert printed[f"{poster.name}-{i}"] in (1, 2), "once by each of two sources"
    assert gateway.stop() == 0


def test_many_signals_at_once_are_one_reload_or_more(make):
    it = make(source("a"))
    it.write(source("b"))
    for _ in range(300):
        it.gateway.process.send_signal(signal.SIGHUP)
    eventually(lambda: post(it.gateway, "/in/b", {"id": fresh()}).status == 200, "b is there")
    take_problem(post(it.gateway, "/in/a", {"id": fresh()}), 404)
    assert it.gateway.stop() == 0
