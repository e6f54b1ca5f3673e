"""Sinks that die, lie, stall and refuse: every event ends where it must, under one key,
with the same bytes, and never by an attempt that nobody was sure about."""

import json
import signal

import threading

import pytest

from gatekit import fresh, sample, take
from harness import Connection, event_bytes, eventually
from hostile import (ACTS, DEAD, DONE, EFFECT, FOUR_POINTS, FORGED, GOOD, OK, RETRY, STALL,
                     UNKNOWN, Act, Call, HostileSink, Slowly, act_of, answer, check_promises)
from sinkkit import configure, http_sink, source

ALONE = "keep_alive: 0s"  # a connection for each, so that no event suffers for another
QUICK = "retry: { first: 1ms, max: 20ms }, adapt: no"
NO_BREAKER = "breaker: { failures: 0, percent: 0 }"
POLICIES = ("retry", "probe", "park")


@pytest.fixture
def hostile():
    made = []

    def make(*arguments, **more):
        made.append(HostileSink(*arguments, **more))
        return made[-1]

    yield make
    for it in made:
        it.close()


def sink_with(it, policy, *more, path=None):
    path = path or f"/{policy}"
    options = [f"on_unknown: {policy}", QUICK, NO_BREAKER, *more]
    if policy == "probe":
        options.append(f"probe: \"{it.url(path)}/{{ticket}}\"")
    return http_sink(path.strip("/"), it.url(path), ", ".join(options))


class Gate:
    """A gateway before a hostile sink, and what was posted to it."""

    def __init__(self, stile, scratch, sinks, routes=""):
        self.stile = stile
        self.config = configure(scratch, source("a"), sinks, routes)
        self.bodies = {}   # ticket → bytes
        self.tickets = {}  # id → ticket
        self.gateway = None
        self.start()

    def start(self):
        self.gateway = self.stile("--config", self.config)
        return self.gateway

    def post(self, events):
        with Connection(self.gateway.address) as connection:
            for event in events:
                body = event_bytes(event)
                answered = take(connection.request("POST", "/in/a", body), "new")
                self.bodies[answered["ticket"]] = body
                self.tickets[event["id"]] = answered["ticket"]
        return [self.tickets[event["id"]] for event in events]

    def value(self, metric, **labels):
        return sample(self.gateway, metric, **labels)

    def counts(self):
        metrics = self.gateway.metrics()
        return tuple(int(metrics[f"stile_{name}_tickets"].value())
                     for name in ("open", "parked", "dead"))

    def wait_over(self):
        """Until nothing is open but what waits for a person: (parked, dead)."""
        eventually(lambda: self.counts()[0] == sum(self.counts()[1:]), "all have an outcome")
        return self.counts()[1:]


@pytest.fixture
def gate(stile, scratch):
    return lambda *arguments: Gate(stile, scratch, *arguments)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_act_ends_as_it_must(gate, hostile, policy):
    it = hostile()
    its = gate(sink_with(it, policy, ALONE))
    names = {fresh(): name for name in ACTS for _ in range(3)}
    its.post([{"id": number, "act": name} for number, name in names.items()])
    parked, dead = its.wait_over()
    for number, name in names.items():
        check_act(it, policy, its.tickets[number], name)
    acts = [ACTS[name] for name in names.values()]
    assert dead == sum(act.known == DEAD for act in acts)
    assert parked == (sum(act.known == UNKNOWN for act in acts) if policy == "park" else 0)
    check_promises(it, its.bodies, {"/park"}, {"/probe"})
    assert not it.requests("/elsewhere") and not it.probes("/elsewhere")


def check_act(it, policy, ticket, name):
    """One event whose first attempt met this act; all later ones are well."""
    act, path = ACTS[name], f"/{policy}"
    again = act.known == RETRY or (act.known == UNKNOWN and (
        policy == "retry" or (policy == "probe" and EFFECT not in act.steps)))
    requests = it.requests(path, ticket)
    assert len(requests) == (2 if again else 1), (name, requests)
    assert [request.attempt for request in requests] in ([1], [1, 2]), (name, requests)
    effects = (EFFECT in act.steps) + again
    assert it.effects[path, ticket] == effects, (name, it.effects[path, ticket])


@pytest.mark.parametrize("policy", POLICIES)
def test_sink_dies_at_four_points_again_and_again(gate, hostile, policy, scale):
    """On connections that are kept: there an event may suffer for another, but is never
    lost, and never sent again where that is not wanted."""
    it = hostile()
    its = gate(sink_with(it, policy))
    for _ in range(scale):
        its.post([{"id": fresh(), "act": name} for name in FOUR_POINTS for _ in range(100)])
        parked, dead = its.wait_over()
    assert dead == 0 and len(its.bodies) == 400 * scale
    check_promises(it, its.bodies, {"/park"}, {"/probe"})
    effects = it.effects_of(f"/{policy}")
    if policy == "park":
        assert len(its.bodies.keys() - effects.keys()) <= parked
    else:
        assert parked == 0 and effects.keys() == its.bodies.keys()


@pytest.mark.parametrize("policy", POLICIES)
def test_sink_that_stalls_is_given_up(gate, hostile, policy):
    """Also in the middle of a head; behind the head all is known."""
    stalls = {"silent": [EFFECT, STALL], "no effect": [STALL], "half": [EFFECT, OK[:20], STALL],
              "only 100": [b"HTTP/1.1 100 Continue\r\n\r\n", STALL], "head": [EFFECT, OK[:-2], STALL]}

    def choose(request):
        steps = stalls[json.loads(request.body)["stall"]]
        return Act(UNKNOWN, steps) if request.attempt == 1 else GOOD

    it = hostile(choose)
    its = gate(sink_with(it, policy, ALONE, "timeout: 300ms"))
    its.post([{"id": fresh(), "stall": name} for name in stalls for _ in range(2)])
    parked, dead = its.wait_over()
    assert dead == 0 and (policy == "park" or parked == 0)
    check_promises(it, its.bodies, {"/park"}, {"/probe"})
    if policy == "park":
        assert parked >= 8 and len(it.requests()) <= 10
    else:
        assert it.effects_of(f"/{policy}").keys() == its.bodies.keys()


def test_forged_answer_is_not_that_of_the_next(gate, hostile):
    """Bytes behind an answer, on a connection that is kept, make no event done."""
    def choose(request):
        if request.attempt == 1 and json.loads(request.body)["forge"]:
            return Act(DONE, [EFFECT, FORGED])
        return Act(RETRY, [answer(503)]) if request.attempt == 1 else GOOD

    it = hostile(choose)
    its = gate(sink_with(it, "retry", "concurrency: 1"))
    its.post([{"id": fresh(), "forge": i % 2 == 0} for i in range(100)])
    assert its.wait_over() == (0, 0)
    assert it.effects_of("/retry").keys() == its.bodies.keys()
    check_promises(it, its.bodies)


@pytest.mark.parametrize("policy", POLICIES)
def test_connections_that_end_before_anything_is_read(gate, hostile, policy):
    it = hostile()
    it.turned_away = 20
    its = gate(sink_with(it, policy, ALONE))
    its.post([{"id": fresh()} for _ in range(40)])
    parked, dead = its.wait_over()
    check_promises(it, its.bodies, {"/park"}, {"/probe"})
    assert dead == 0
    assert len(it.effects_of(f"/{policy}")) == 40 - parked
    assert parked <= 20 if policy == "park" else parked == 0


@pytest.mark.parametrize("policy", ["park", "probe"])
def test_what_was_not_sent_is_not_unknown(gate, hostile, policy):
    """Refused connections are tried again until they work; nobody has to be asked."""
    it = hostile(listening=False)
    its = gate(sink_with(it, policy, ALONE))

    def ended(*outcomes):
        return sum(its.value("stile_deliveries_total", sink=policy, outcome=outcome)
                   for outcome in outcomes)
    its.post([{"id": fresh()} for _ in range(30)])
    eventually(lambda: ended("failed") >= 60, "many attempts fail")
    its.gateway.kill()
    its.start()
    eventually(lambda: ended("failed", "unknown") >= 30, "as many end again")
    it.open()
    parked, dead = its.wait_over()
    assert dead == 0
    check_promises(it, its.bodies, {"/park"}, {"/probe"})
    if policy == "park":  # a kill between a note and its attempt is unknown
        assert parked + len(it.requests()) == 30
    else:
        assert parked == 0 and set(it.effects_of("/probe").values()) == {1}


def test_name_that_is_not_there_is_not_unknown(gate):
    its = gate(http_sink("gone", "http://no-such-host.invalid/",
                         f"on_unknown: park, {NO_BREAKER}, retry: {{ first: 1ms, attempts: 3 }}"))
    its.post([{"id": fresh()}])
    assert its.wait_over() == (0, 1)


def test_probe_that_cannot_tell_is_asked_again(gate, hostile):
    it = hostile(lambda request: ACTS["dies after its effect"] if request.attempt == 1 else GOOD)
    answers = [answer(500), answer(403), answer(302, "Location: /elsewhere"), OK]
    it.probe = lambda request: answers[min(len(it.probes()), len(answers)) - 1]
    its = gate(sink_with(it, "probe", ALONE))
    ticket, = its.post([{"id": fresh()}])
    assert its.wait_over() == (0, 0)
    assert len(it.requests()) == 1 and len(it.probes()) == 4
    assert {probe.path for probe in it.probes()} == {f"/probe/{ticket}"}


def test_parked_event_goes_out_when_a_person_says_so(gate, hostile, run):
    it = hostile(lambda request: ACTS["dies before its effect"] if request.attempt == 1 else GOOD)
    its = gate(sink_with(it, "park", ALONE))
    ticket, = its.post([{"id": fresh()}])
    assert its.wait_over() == (1, 0)
    its.gateway.kill()
    its.start()
    assert its.counts() == (1, 1, 0) and len(it.requests()) == 1
    code, _, err = run("release", "--url", its.gateway.admin_url(), ticket)
    assert code == 0, err
    assert its.wait_over() == (0, 0)
    assert [(request.key, request.attempt) for request in it.requests()] == [(ticket, 1),
                                                                            (ticket, 2)]
    assert it.effects["/park", ticket] == 1


# ---- pace ----

def test_retry_after_is_honoured_also_by_another_life(gate, hostile):
    """429 with Retry-After is for the whole sink, and for its event beyond a kill."""
    later = Act(RETRY, [answer(429, "Retry-After: 2")])
    it = hostile(lambda request: later if not it.log else GOOD)
    its = gate(sink_with(it, "retry", "concurrency: 1"))
    first, = its.post([{"id": fresh()}])
    it.wait(1)
    second, = its.post([{"id": fresh()}])
    assert its.wait_over() == (0, 0)
    requests = it.requests()
    assert [request.key for request in requests if request.attempt == 2] == [first]
    assert len(it.requests(key=second)) == 1
    assert requests[1].at_s - requests[0].at_s >= 1.99


def test_due_time_and_attempts_survive_a_stop(gate, hostile):
    """Three attempts are three attempts, however many lives they take."""
    it = hostile(lambda request: Act(RETRY, [answer(500, "Retry-After: 1")]))
    its = gate(http_sink("crm", it.url("/crm"),
                         f"retry: {{ first: 1ms, attempts: 3 }}, {NO_BREAKER}"))
    ticket, = its.post([{"id": fresh()}])
    for attempt in (1, 2):
        it.wait(attempt)
        assert its.gateway.stop() == 0
        its.start()
    assert its.wait_over() == (0, 1)
    requests = it.requests()
    assert [(request.key, request.attempt) for request in requests] == [
        (ticket, 1), (ticket, 2), (ticket, 3)]
    # A lane knows the store's time by when a take was answered: about.
    assert all(two.at_s - one.at_s >= 0.7 for one, two in zip(requests, requests[1:]))
    its.gateway.kill()
    its.start()
    assert its.counts() == (1, 0, 1)
    more, = its.post([{"id": fresh()}])
    it.wait(4)
    assert it.requests()[-1].key == more, "the dead letter stays dead"


def test_sink_that_comes_back_is_not_run_over(gate, hostile):
    """The breaker opens; then one at a time, and never more than have been answered."""
    most = []

    def choose(request):
        most.append((len(it.log), it.busy + 1))
        return GOOD

    it = hostile(choose, listening=False)
    its = gate(http_sink("crm", it.url("/crm"), "retry: { first: 1ms, max: 20ms }, breaker: "
                         "{ failures: 5, open: 50ms, open_max: 100ms, successes: 3 }"))
    its.post([{"id": fresh()} for _ in range(300)])
    eventually(lambda: its.value("stile_sink_breaker", sink="crm") == 1, "the breaker opens")
    it.open()
    assert its.wait_over() == (0, 0)
    assert len(it.requests()) == 300 and set(it.effects_of("/crm").values()) == {1}
    assert all(busy <= 1 for before, busy in most if before < 3), most[:10]
    assert all(busy <= max(1, before) for before, busy in most), most[:40]
    assert its.value("stile_sink_breaker", sink="crm") == 0


def test_open_breaker_leaves_the_sink_alone(gate, hostile):
    it = hostile(lambda request: Act(RETRY, [answer(500)]))
    its = gate(http_sink("crm", it.url("/crm"), "retry: { first: 1ms, max: 1ms }, "
                         "concurrency: 1, breaker: { failures: 5, open: 1h, open_max: 1h }"))
    its.post([{"id": fresh()} for _ in range(50)])
    eventually(lambda: its.value("stile_sink_breaker", sink="crm") == 1, "the breaker opens")
    eventually(lambda: its.value("stile_sink_waiting", sink="crm") == 50, "all are known")
    assert len(it.requests()) == 5


def test_gone_disables_the_sink_until_it_is_changed(gate, hostile, scratch):
    gone = Act(RETRY, [answer(410)])
    it = hostile(lambda request: gone if request.path == "/old" else GOOD)
    its = gate(sink_with(it, "retry", "concurrency: 1", path="/old").replace("old:", "crm:"))
    tickets = its.post([{"id": fresh()} for _ in range(20)])
    eventually(lambda: its.value("stile_sink_state", sink="crm") == 2, "the sink is disabled")
    eventually(lambda: its.value("stile_sink_waiting", sink="crm") == 20, "its events wait")
    assert len(it.requests()) == 1 and its.counts() == (20, 0, 0)
    assert "sink disabled" in its.gateway.log()
    configure(scratch, source("a"),
              sink_with(it, "retry", "concurrency: 1", path="/new").replace("new:", "crm:"))
    its.gateway.process.send_signal(signal.SIGHUP)
    assert its.wait_over() == (0, 0)
    assert sorted(it.effects_of("/new")) == sorted(tickets)


def test_stalled_sink_delays_no_other(gate, hostile):
    it = hostile(lambda request: Act(UNKNOWN, [STALL]) if request.path == "/slow" else GOOD)
    its = gate(http_sink("slow", it.url("/slow"), "concurrency: 4") +
               http_sink("good", it.url("/good")))
    its.post([{"id": fresh()} for _ in range(200)])
    eventually(lambda: len(it.effects_of("/good")) == 200, "the other has all of them")
    assert 1 <= len(it.requests("/slow")) <= 4


# ---- the gateway dies ----

POINTS = {"before its effect": lambda kill: [kill, EFFECT, OK],
          "after its effect": lambda kill: [EFFECT, kill, OK],
          "within its answer": lambda kill: [EFFECT, Slowly(OK[:20]), kill, OK[20:]],
          "after its answer": lambda kill: [EFFECT, OK, kill]}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("point", POINTS)
def test_gateway_is_killed_while_its_sink_acts(gate, hostile, policy, point):
    lives, posted = [], threading.Event()
    kill = Call(lambda request: posted.wait(60) and lives[-1].kill())
    it = hostile(lambda request: Act(UNKNOWN, POINTS[point](kill)) if not it.log else GOOD)
    its = gate(sink_with(it, policy))
    lives.append(its.gateway)
    ticket, = its.post([{"id": fresh()}])
    posted.set()
    its.gateway.wait()
    it.wait_quiet()
    its.start()
    parked, dead = its.wait_over()
    assert dead == 0
    check_promises(it, its.bodies, {"/park"}, {"/probe"})
    requests, probes = len(it.requests()), len(it.probes())
    if policy == "park":
        assert (parked, requests) in ((1, 1), (0, 1))
        assert parked == 1 or point == "after its answer"
    elif policy == "probe":
        assert (requests, it.effects["/probe", ticket]) == (1, 1)
        assert probes == 1 or point == "after its answer"
    else:
        assert requests == 2 or point == "after its answer"
    its.gateway.kill()
    its.start()
    its.wait_over()
    assert (len(it.requests()), len(it.probes())) == (requests, probes), "it is over"


def test_stop_leaves_nothing_unknown_that_was_not_sent(gate, hostile):
    """Of many that were about to go, only those that had left are parked."""
    it = hostile(lambda request: Act(UNKNOWN, [STALL]))
    its = gate(sink_with(it, "park", "concurrency: 2"))
    its.post([{"id": fresh()} for _ in range(100)])
    it.wait(2)
    assert its.gateway.stop() == 0
    it.wait_quiet()
    it.choose = act_of
    its.start()
    parked, dead = its.wait_over()
    assert (parked, dead) == (2, 0)
    assert len(it.requests()) == 100 and len({request.key for request in it.requests()}) == 100
    check_promises(it, its.bodies, {"/park"})
