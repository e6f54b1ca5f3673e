"""Which events go where: by source, type and field, to several sinks with a state each."""

import json

import pytest

from gatekit import fresh, post, sample, take
from harness import eventually, event_bytes, take_problem
from sinkkit import CUT, QUICK, configure, http_sink, key, source


@pytest.fixture
def gateway(stile, scratch):
    def start(sources, sinks, routes="", *options):
        return stile("--config", configure(scratch, sources, sinks, routes), *options)
    return start


def test_events_go_by_source_type_and_field(gateway, sink):
    it = sink()
    stile = gateway(
        source("orders") + source("genesys"),
        "  out: stdout\n" + http_sink("crm", it.url("/crm")) + http_sink("vip", it.url("/vip")),
        "  - { from: orders, type: \"order.*\", to: crm }\n"
        "  - { from: orders, when: { total: \"9*\", customer.test: \"!true\" }, to: [vip, crm] }\n"
        "  - { from: genesys, to: out }\n")
    rows = [
        ("orders", {"type": "order.paid"}, ["crm"]),
        ("orders", {"type": "Order.paid"}, []),
        ("orders", {"type": "order.paid", "total": 99}, ["crm", "vip"]),
        ("orders", {"type": "other", "total": "9"}, ["crm", "vip"]),
        ("orders", {"total": 9, "customer": {"test": True}}, []),
        ("genesys", {"type": "order.paid", "total": 99}, ["out"]),
    ]
    wanted = {"crm": [], "vip": [], "out": []}
    for name, event, sinks in rows:
        event = {"id": fresh(), **event}
        take(post(stile, f"/in/{name}", event), "new")
        for to in sinks:
            wanted[to].append(event["id"])
    stile.wait_settled()
    assert sorted(it.ids("/crm")) == sorted(wanted["crm"])
    assert sorted(it.ids("/vip")) == sorted(wanted["vip"])
    assert [event["id"] for event in stile.events()] == wanted["out"]
    assert sample(stile, "stile_unrouted_total", source="orders") == 2
    assert sample(stile, "stile_unrouted_total", source="genesys") == 0


def test_event_that_no_route_is_for_is_remembered(gateway):
    stile = gateway(source("a"), "  out: stdout\n", "  - { type: wanted, to: out }\n")
    event = {"id": fresh(), "type": "other"}
    ticket = take(post(stile, "/in/a", event), "new")["ticket"]
    assert take(post(stile, "/in/a", event), "duplicate")["ticket"] == ticket
    assert sample(stile, "stile_open_tickets") == 0
    take(post(stile, "/in/a", {"id": fresh(), "type": "wanted"}), "new")
    assert [it["type"] for it in stile.wait_events(1)] == ["wanted"]


def test_source_that_leads_nowhere_only_decides(gateway):
    stile = gateway(source("guard") + source("a"), "  out: stdout\n",
                    "  - { from: guard, to: none }\n  - { from: a, type: x, to: out }\n")
    event = {"id": fresh(), "type": "x"}
    ticket = take(post(stile, "/in/guard", event), "new")["ticket"]
    assert take(post(stile, "/in/guard", event), "duplicate")["ticket"] == ticket
    both = [event, {"id": fresh()}, {"id": fresh()}]
    answer = stile.request("POST", "/in/guard", json.dumps(both).encode()).json()
    assert [it["verdict"] for it in answer["events"]] == ["duplicate", "new", "new"]
    take(post(stile, "/in/a", {"id": fresh(), "type": "other"}), "new")
    take(post(stile, "/in/a", {"id": event["id"], "type": "x"}), "new")
    assert [it["id"] for it in stile.wait_events(1)] == [event["id"]]
    stile.wait_settled()
    assert len(stile.events()) == 1
    assert sample(stile, "stile_unrouted_total", source="guard") == 0
    assert sample(stile, "stile_unrouted_total", source="a") == 1


def test_without_routes_every_sink_has_everything(gateway, sink):
    it = sink()
    stile = gateway(source("a"), "  out: stdout\n" + http_sink("one", it.url("/one")) +
                    http_sink("two", it.url("/two")))
    ids = [fresh() for _ in range(20)]
    for number in ids:
        take(post(stile, "/in/a", {"id": number}), "new")
    stile.wait_settled()
    assert sorted(it.ids("/one")) == sorted(it.ids("/two")) == sorted(ids)
    assert [event["id"] for event in stile.events()] == ids


def test_name_twice_where_a_route_looks_is_400(gateway):
    stile = gateway(source("a"), "  out: stdout\n", "  - { when: { kind: x }, to: out }\n")
    body = b'{"id":"%s","kind":"x","kind":"y"}' % fresh().encode()
    assert "only once" in take_problem(stile.request("POST", "/in/a", body), 400)
    answer = stile.request("POST", "/in/a", b'[{"id":"1","kind":"x"},' + body + b"]")
    assert [event.get("verdict") for event in answer.json()["events"]] == ["new", None]


def test_letter_goes_with_the_event(gateway, sink):
    it = sink()
    stile = gateway(source("a", "correlation: header:X-Trace"),
                    http_sink("crm", it.url("/{id}/{type}?e={entity}&n={$.n}"),
                              "method: PUT, headers: { X-Own: \"{entity}\" }"))
    event = {"id": "a/b", "type": "t é", "entity": "7", "n": 1.50}
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    headers = [("traceparent", trace), ("tracestate", "a=b"), ("X-Trace", "corr-1"),
               ("Content-Type", "application/cloudevents+json")]
    body = json.dumps(event, indent=1).encode()
    ticket = take(stile.request("POST", "/in/a", body, headers), "new")["ticket"]
    request, = it.wait(1)
    assert request.method == "PUT" and request.path == "/a%2Fb/t%20%C3%A9?e=7&n=1.5"
    assert request.body == body
    for name, value in (("Idempotency-Key", ticket), ("webhook-id", ticket), ("X-Own", "7"),
                        ("Stile-Source", "a"), ("Stile-Attempt", "1"), ("tracestate", "a=b"),
                        ("X-Correlation-Id", "corr-1"), ("traceparent", trace),
                        ("Content-Type", "application/cloudevents+json")):
        assert request.headers[name] == value, (name, request.headers)


def test_every_sink_has_its_own_state(gateway, sink):
    """One works at once, one at the third attempt, one never; a copy changes nothing."""
    refused = {}

    def answer(request):
        if request.path == "/slow":
            refused[key(request)] = refused.get(key(request), 0) + 1
            return 500 if refused[key(request)] < 3 else 200
        return {"/good": 200, "/never": 422}[request.path]

    it = sink(answer)
    stile = gateway(source("a"), http_sink("good", it.url("/good"), QUICK) +
                    http_sink("slow", it.url("/slow"), QUICK) +
                    http_sink("never", it.url("/never"), QUICK))
    event = {"id": fresh()}
    ticket = take(post(stile, "/in/a", event), "new")["ticket"]
    take(post(stile, "/in/a", event), "duplicate")
    it.wait(3, "/slow")
    eventually(lambda: sample(stile, "stile_deliveries_total", sink="never", outcome="dead") == 1,
               "it is dead")
    eventually(lambda: sample(stile, "stile_open_tickets") == 1, "the dead letter alone is open")
    assert len(it.got("/good")) == 1 and len(it.got("/never")) == 1 and len(it.got("/slow")) == 3
    assert {key(request) for request in it.got()} == {ticket}
    assert len({request.body for request in it.got()}) == 1
    assert [request.headers["Stile-Attempt"] for request in it.got("/slow")] == ["1", "2", "3"]


def test_sinks_go_on_where_they_were_after_a_kill(stile, scratch, sink):
    up = {"/late": False}
    it = sink(lambda request: 200 if up.get(request.path, True) else 503)
    config = configure(scratch, source("a"), http_sink("good", it.url("/good"), QUICK) +
                       http_sink("late", it.url("/late"), QUICK))
    gateway = stile("--config", config)
    ids = [fresh() for _ in range(30)]
    for number in ids:
        take(post(gateway, "/in/a", {"id": number}), "new")
    it.wait(30, "/good")
    eventually(lambda: sample(gateway, "stile_open_tickets") == 30, "good is done")
    gateway.kill()
    up["/late"] = True
    gateway = stile("--config", config)
    gateway.wait_settled()
    assert sorted(it.ids("/good")) == sorted(ids)
    delivered = [json.loads(r.body)["id"] for r in it.got("/late")]
    assert sorted(set(delivered)) == sorted(ids)
    keys = {}
    for request in it.got("/late"):
        keys.setdefault(json.loads(request.body)["id"], set()).add(key(request))
    assert all(len(found) == 1 for found in keys.values())


@pytest.mark.parametrize("threads", ["1", "2"])
def test_order_per_entity_under_failures(gateway, sink, threads):
    """Events of one entity arrive one after the other; each fails now and then."""
    tries = {}

    def answer(request):
        number = json.loads(request.body)["n"]
        tries[key(request)] = tries.get(key(request), 0) + 1
        if number % 3 == 0 and tries[key(request)] == 1:
            return 500
        if number % 5 == 0 and tries[key(request)] == 1:
            return CUT
        return 200

    it = sink(answer)
    stile = gateway(source("a"), http_sink("crm", it.url(), QUICK),
                    "  - { to: crm, order_by: entity }\n", "--threads", threads)
    with stile.connect() as connection:
        for number in range(120):
            event = {"id": fresh(), "entity": f"e{number % 6}", "n": number}
            take(connection.request("POST", "/in/a", event_bytes(event)), "new")
    stile.wait_settled()
    last = {}
    for request in it.got():
        event = json.loads(request.body)
        before = last.get(event["entity"], -1)
        assert event["n"] >= before, f"{event} after {before}"  # again, or the next
        last[event["entity"]] = event["n"]
    assert len({key(request) for request in it.got()}) == 120


def test_stuck_head_holds_its_entity_alone_until_it_steps_aside(gateway, sink):
    it = sink(lambda request: 500 if json.loads(request.body).get("stuck") else 200)
    stile = gateway(source("a"), http_sink("crm", it.url(), QUICK +
                    ", order: { stuck: aside, attempts: 4 }"),
                    "  - { to: crm, order_by: entity }\n")
    for event in ({"entity": "x", "stuck": True}, {"entity": "x"}, {"entity": "y"}):
        take(post(stile, "/in/a", {"id": fresh(), **event}), "new")
    eventually(lambda: sample(stile, "stile_open_tickets") == 1, "the dead letter alone is open")
    order = [(json.loads(r.body)["entity"], bool(json.loads(r.body).get("stuck")))
             for r in it.got()]
    assert order.count(("x", True)) == 4 and order.count(("x", False)) == 1
    assert order.index(("x", False)) > max(i for i, o in enumerate(order) if o == ("x", True))


def test_dead_letter_goes_to_its_sink_once(gateway, sink):
    it = sink(lambda request: 422 if request.path == "/crm" else 200)
    stile = gateway(source("a"), http_sink("crm", it.url("/crm"), "dead_letter: aside") +
                    http_sink("aside", it.url("/aside")), "  - { to: crm }\n")
    tickets = {}
    for _ in range(20):
        event = {"id": fresh(), "type": "t"}
        tickets[event["id"]] = take(post(stile, "/in/a", event), "new")["ticket"]
    it.wait(20, "/aside")
    eventually(lambda: sample(stile, "stile_open_tickets") == 20, "the dead letters alone are open")
    assert sorted(it.ids("/crm")) == sorted(it.ids("/aside")) == sorted(tickets)
    for request in it.got("/aside"):
        assert key(request) not in tickets.values() and request.headers["Stile-Source"] == "a"


def test_dead_letters_go_on_when_as_many_are_open_as_may_be(gateway, sink):
    """A letter is an open ticket too: if it had to wait for room, nothing would ever close."""
    up = {"crm": False}
    it = sink(lambda request: 200 if request.path == "/aside" else 422 if up["crm"] else 503)
    stile = gateway(source("a"), http_sink("crm", it.url("/crm"), "dead_letter: aside, "
                    f"dead_letters: forget, {QUICK}") +
                    http_sink("aside", it.url("/aside")), "  - { to: crm }\n",
                    "--max-open-tickets", "10")
    ids = [fresh() for _ in range(10)]
    for event in ids:
        take(post(stile, "/in/a", {"id": event}), "new")
    assert post(stile, "/in/a", {"id": fresh()}).status == 503
    up["crm"] = True
    stile.wait_settled()
    assert sorted(it.ids("/aside")) == sorted(ids)
    take(post(stile, "/in/a", {"id": fresh()}), "new")


def test_dead_letter_of_a_crash_comes_once(stile, scratch, sink):
    """Killed again and again while letters die."""
    it = sink(lambda request: 422 if request.path == "/crm" else 200)
    config = configure(scratch, source("a"), http_sink("crm", it.url("/crm"),
                       "dead_letter: aside, dead_letters: forget") +
                       http_sink("aside", it.url("/aside")), "  - { to: crm }\n")
    ids = []
    for _ in range(4):
        gateway = stile("--config", config)
        for _ in range(15):
            ids.append(fresh())
            take(post(gateway, "/in/a", {"id": ids[-1]}), "new")
        gateway.kill()
    gateway = stile("--config", config)
    gateway.wait_settled()
    keys = {}
    for request in it.got("/aside"):
        keys.setdefault(json.loads(request.body)["id"], set()).add(key(request))
    assert sorted(keys) == sorted(ids)
    assert all(len(found) == 1 for found in keys.values()), keys
