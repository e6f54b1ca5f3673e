"""The claims API: every answer, races, leases that end, kills, and a lookup with one schema."""

import base64
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading
import urllib.parse

import pytest

from gatekit import fresh, post, sample, take, why, write
from harness import Connection, eventually, event_bytes
from sinkkit import http_sink

PATH = "/v1/claims"


@pytest.fixture(params=[("--commit", "inline"), ("--commit", "thread"), ("--threads", "2")],
                ids=["inline", "thread", "threads"])
def mode(request):
    return request.param


@pytest.fixture
def gateway(stile):
    return stile("--commit", "inline")


def ask(gateway, method, path, body=None, headers=()):
    with gateway.connect() as connection:
        return connection.request(method, path, None if body is None else event_bytes(body),
                                  headers)


def claim(gateway, key, verdict="new", headers=(), **more):
    status = {"new": 201, "duplicate": 200, "stale": 200, "busy": 409, "conflict": 422}[verdict]
    answer = ask(gateway, "POST", PATH, {"key": key, **more}, headers)
    assert answer.status == status, answer
    body = answer.json()
    assert body["verdict"] == verdict == answer.header("stile-verdict"), answer
    assert answer.header("stile-ticket") == body["ticket"], answer
    return body


def settle(gateway, token, outcome, status=200):
    answer = ask(gateway, "PUT", f"{PATH}/{token}", {"outcome": outcome})
    assert answer.status == status, answer
    return answer.json()


def lookup(gateway, key, **more):
    answer = ask(gateway, "GET", PATH + "?" + urllib.parse.urlencode({"key": key, **more}))
    assert answer.status == 200, answer
    return answer.json()


def problem(answer, status, code):
    assert answer.status == status, answer
    assert answer.header("content-type") == "application/problem+json", answer
    body = answer.json()
    assert (body["status"], body["code"]) == (status, code), answer
    return body["detail"]


def lease_is_over(gateway, key):
    eventually(lambda: lookup(gateway, key)["state"] == "due", "its lease is over")


# ---- one caller after the other ----


def test_first_caller_gets_a_lease_and_the_others_its_outcome(stile, mode):
    gateway = stile(*mode)
    key = fresh()
    first = claim(gateway, key)
    assert first["attempt"] == 1 and first["lease_ms"] == 30000
    assert first["lease_until"] > first["first_seen"]
    busy = claim(gateway, key, "busy")
    assert busy["ticket"] == first["ticket"] and busy["lease_until"] == first["lease_until"]
    assert 0 < busy["retry_after_ms"] <= 30000
    outcome = {"order": 17, "texts": ["a", None, True], "nested": {"x": 1.50}}
    assert settle(gateway, first["token"], outcome) == {
        "state": "settled", "ticket": first["ticket"], "attempt": 1, "repeated": False}
    copy = claim(gateway, key, "duplicate")
    assert copy["outcome"] == outcome and copy["outcome_coding"] == "json"
    assert copy["ticket"] == first["ticket"] and copy["first_seen"] == first["first_seen"]
    assert copy["seen"] == 2


def test_busy_says_when_to_ask_again(gateway):
    key = fresh()
    claim(gateway, key, lease="90s")
    answer = ask(gateway, "POST", PATH, {"key": key})
    assert answer.status == 409 and 88 <= int(answer.header("retry-after")) <= 90


def test_keys_have_parts_types_and_a_scope(gateway):
    key = fresh()
    first = claim(gateway, [key, 1])
    same = claim(gateway, [key, 1.0], "busy")
    assert same["ticket"] == first["ticket"]
    claim(gateway, [key, "1"])
    claim(gateway, [key, 1], scope="another")
    claim(gateway, key)
    claim(gateway, [key], "busy")


def test_other_content_under_the_same_key_is_a_conflict(gateway):
    key = fresh()
    first = claim(gateway, key, payload={"sum": 10, "to": "x"})
    claim(gateway, key, "busy", payload={"to": "x", "sum": 10.0})
    assert claim(gateway, key, "conflict", payload={"sum": 11})["ticket"] == first["ticket"]
    settle(gateway, first["token"], "ok")
    claim(gateway, key, "conflict", payload={"sum": 11})
    claim(gateway, key, "duplicate", payload={"sum": 10, "to": "x"})
    claim(gateway, key, "duplicate")
    other = fresh()
    claim(gateway, other, payload_digest="sha256:1")
    claim(gateway, other, "conflict", payload_digest="sha256:2")
    claim(gateway, other, "busy", payload_digest="sha256:1")


def test_window_is_the_caller_s(gateway):
    key = fresh()
    first = claim(gateway, key, window="2s", lease="2s")
    settle(gateway, first["token"], 1)
    eventually(lambda: not lookup(gateway, key)["found"], "its window has ended")
    again = claim(gateway, key)
    assert again["ticket"] != first["ticket"]


def test_window_lasts_as_long_as_the_lease(gateway):
    key, marker = fresh(), fresh()
    first = claim(gateway, key, window="1s", lease="1h")
    claim(gateway, marker, window="1s", lease="1s")
    eventually(lambda: not lookup(gateway, marker)["found"], "the window of another has ended")
    assert claim(gateway, key, "busy")["ticket"] == first["ticket"]


def later(moment, seconds):
    return (datetime.datetime.fromisoformat(moment.replace("Z", "+00:00")) +
            datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_no_lease_goes_beyond_the_window(gateway):
    """Not by renewing it, nor as that of the next caller, whatever that one asks for."""
    key = fresh()
    first = claim(gateway, key, window="1h", lease="100ms")
    end = later(first["first_seen"], 3600)
    lease_is_over(gateway, key)
    second = claim(gateway, key, window="7d", lease="12h")
    assert second["attempt"] == 2 and second["lease_ms"] < 3600_000
    assert second["lease_until"] < end
    answer = ask(gateway, "PATCH", f"{PATH}/{second['token']}", {"lease": "12h"})
    assert answer.status == 200 and answer.json()["lease_until"] < end, answer
    assert lookup(gateway, key)["lease_left_s"] < 3600


def test_token_is_refused_when_its_window_has_ended(gateway):
    key = fresh()
    first = claim(gateway, key, window="1s", lease="1s")
    eventually(lambda: not lookup(gateway, key)["found"], "its window has ended")
    for method, body in (("PATCH", {"lease": "1h"}), ("PUT", {"outcome": 1})):
        problem(ask(gateway, method, f"{PATH}/{first['token']}", body), 409, "fenced")
    assert claim(gateway, key)["ticket"] != first["ticket"]


def test_settling_twice_is_once(gateway):
    key = fresh()
    token = claim(gateway, key)["token"]
    assert not settle(gateway, token, {"a": 1})["repeated"]
    assert settle(gateway, token, {"a": 1})["repeated"]
    answer = ask(gateway, "PUT", f"{PATH}/{token}", {"outcome": {"a": 2}})
    problem(answer, 409, "settled")
    assert claim(gateway, key, "duplicate")["outcome"] == {"a": 1}


@pytest.mark.parametrize("kind, body, coding, told", [
    ("text/plain; charset=utf-8", "Grüße".encode(), "text", "Grüße"),
    ("application/octet-stream", b"\xff\x00\x01", "base64",
     base64.b64encode(b"\xff\x00\x01").decode()),
    ("application/xml", b"<a/>", "text", "<a/>"),
])
def test_outcome_of_any_type_comes_back(gateway, kind, body, coding, told):
    key = fresh()
    token = claim(gateway, key)["token"]
    answer = ask(gateway, "PUT", f"{PATH}/{token}", body, [("Content-Type", kind)])
    assert answer.status == 200, answer
    copy = claim(gateway, key, "duplicate")
    assert copy["outcome"] == told and copy["outcome_coding"] == coding
    assert copy["outcome_type"] == kind
    flat = lookup(gateway, key)
    assert flat["outcome"] == told and flat["outcome_type"] == kind


def test_outcome_may_have_a_status_or_be_none(gateway):
    key = fresh()
    token = claim(gateway, key)["token"]
    answer = ask(gateway, "PUT", f"{PATH}/{token}", {"outcome": None, "status": 418})
    assert answer.status == 200, answer
    copy = claim(gateway, key, "duplicate")
    assert copy["outcome"] is None and copy["outcome_status"] == 418
    key = fresh()
    token = claim(gateway, key)["token"]
    assert ask(gateway, "PUT", f"{PATH}/{token}").status == 200
    copy = claim(gateway, key, "duplicate")
    assert copy["outcome"] is None and copy["outcome_coding"] == "none"


# ---- leases ----


def test_lease_that_is_over_goes_to_the_next_and_the_old_token_is_refused(gateway):
    key = fresh()
    first = claim(gateway, key, lease="100ms")
    lease_is_over(gateway, key)
    problem(ask(gateway, "PUT", f"{PATH}/{first['token']}", {"outcome": 1}), 409, "fenced")
    second = claim(gateway, key)
    assert second["attempt"] == 2 and second["ticket"] == first["ticket"]
    assert second["token"] != first["token"]
    for method in ("PUT", "PATCH", "DELETE"):
        body = {"outcome": "late"} if method == "PUT" else None
        problem(ask(gateway, method, f"{PATH}/{first['token']}", body), 409, "fenced")
    settle(gateway, second["token"], "second")
    problem(ask(gateway, "PUT", f"{PATH}/{first['token']}", {"outcome": "late"}), 409, "fenced")
    assert claim(gateway, key, "duplicate")["outcome"] == "second"


def test_handler_that_runs_ten_times_its_lease_is_refused_every_time(gateway):
    """Ten handlers, each slower than its lease: whoever is fenced stays so."""
    key, tokens = fresh(), []
    for attempt in range(1, 11):
        answer = eventually(lambda: (lambda a: a if a.status == 201 else None)(
            ask(gateway, "POST", PATH, {"key": key, "lease": "100ms"})), "it is due")
        assert answer.json()["attempt"] == attempt
        tokens.append(answer.json()["token"])
        for old in tokens[:-1]:
            problem(ask(gateway, "PUT", f"{PATH}/{old}", {"outcome": old}), 409, "fenced")
            problem(ask(gateway, "PATCH", f"{PATH}/{old}", {"lease": "1h"}), 409, "fenced")
    lease_is_over(gateway, key)
    last = claim(gateway, key)
    for old in tokens:
        problem(ask(gateway, "PUT", f"{PATH}/{old}", {"outcome": old}), 409, "fenced")
    settle(gateway, last["token"], "last")
    assert claim(gateway, key, "duplicate")["outcome"] == "last"


def test_renewed_lease_goes_on(gateway):
    key = fresh()
    first = claim(gateway, key, lease="100ms")
    answer = ask(gateway, "PATCH", f"{PATH}/{first['token']}", {"lease": "1h"})
    if answer.status == 409:  # the machine was slower than the lease
        pytest.skip("the lease was over before it was renewed")
    assert answer.json()["state"] == "renewed" and answer.json()["lease_ms"] == 3600000
    busy = claim(gateway, key, "busy")
    assert busy["retry_after_ms"] > 3500000
    assert ask(gateway, "PATCH", f"{PATH}/{first['token']}").json()["lease_ms"] == 30000
    assert claim(gateway, key, "busy")["retry_after_ms"] <= 30000
    settle(gateway, first["token"], 1)


def test_given_back_it_is_the_next_caller_s_at_once(gateway):
    key = fresh()
    first = claim(gateway, key, lease="1h")
    answer = ask(gateway, "DELETE", f"{PATH}/{first['token']}")
    assert answer.status == 200 and answer.json()["state"] == "released"
    assert lookup(gateway, key)["state"] == "due"
    second = claim(gateway, key)
    assert second["attempt"] == 2
    problem(ask(gateway, "PUT", f"{PATH}/{first['token']}", {"outcome": 1}), 409, "fenced")


def test_given_back_with_a_body_that_comes_later(gateway):
    """Some clients send one with every method."""
    key = fresh()
    first = claim(gateway, key, lease="1h")
    with gateway.connect() as connection:
        connection.send(b"DELETE %s/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
                        b"Expect: 100-continue\r\n\r\n" % (PATH.encode(),
                                                          first["token"].encode()))
        assert connection.answer(head_only=True).status == 100
        connection.send(b"{}")
        answer = connection.answer()
        assert answer.status == 200 and answer.json()["state"] == "released", answer
    assert lookup(gateway, key)["state"] == "due"


def test_prefer_wait_waits_for_the_outcome(stile, mode):
    gateway = stile(*mode)
    key, found = fresh(), []
    first = claim(gateway, key)

    def wait():
        found.append(claim(gateway, key, "duplicate", [("Prefer", "respond-async, wait=50")]))

    threads = [threading.Thread(target=wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    eventually(lambda: lookup(gateway, key)["seen"] == 8, "all have come")
    settle(gateway, first["token"], {"who": "first"})
    for thread in threads:
        thread.join()
    assert [it["outcome"] for it in found] == [{"who": "first"}] * 8


@pytest.mark.parametrize("prefer", ["wait=50", 'respond-async, WAIT = "50" ; x=1',
                                    "wait=99999999999999999999999"])
def test_prefer_wait_takes_over_a_lease_that_ends(gateway, prefer):
    key = fresh()
    claim(gateway, key, lease="300ms")
    second = claim(gateway, key, headers=[("Prefer", prefer)])
    assert second["attempt"] == 2


def test_prefer_wait_takes_over_what_is_given_back(gateway):
    key, found = fresh(), []
    first = claim(gateway, key, lease="1h")
    thread = threading.Thread(
        target=lambda: found.append(claim(gateway, key, headers=[("Prefer", "wait=50")])))
    thread.start()
    eventually(lambda: lookup(gateway, key)["seen"] == 1, "it has come")
    ask(gateway, "DELETE", f"{PATH}/{first['token']}")
    thread.join()
    assert found[0]["attempt"] == 2


def test_prefer_wait_of_a_caller_that_has_left_takes_nothing(gateway):
    key = fresh()
    first = claim(gateway, key, lease="1h")
    with gateway.connect() as connection:
        connection.send(b"POST %s HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=60\r\n"
                        b"Content-Length: %d\r\n\r\n{\"key\":\"%s\"}" %
                        (PATH.encode(), len(key) + 10, key.encode()))
        eventually(lambda: lookup(gateway, key)["seen"] == 1, "it has come")
    eventually(lambda: sample(gateway, "stile_http_connections") == 1, "it waits no more",
               limit_s=40)
    ask(gateway, "DELETE", f"{PATH}/{first['token']}")
    assert claim(gateway, key)["attempt"] == 2


def test_prefer_wait_ends_busy(gateway):
    key = fresh()
    claim(gateway, key)
    claim(gateway, key, "busy", [("Prefer", "wait=1")])


def test_prefer_wait_of_a_batch_ends_with_its_first_lease(gateway):
    """Else that would be over before its holder hears of it, and even be granted again."""
    key, held = fresh(), fresh()
    claim(gateway, held, lease="1h")
    answer = ask(gateway, "POST", PATH, [{"key": key, "lease": "5s"}] * 2,
                 [("Prefer", "wait=50")]).json()
    assert [it["verdict"] for it in answer["claims"]] == ["new", "busy"]
    answer = ask(gateway, "POST", PATH, [{"key": held}, {"key": fresh(), "lease": "20s"}],
                 [("Prefer", "wait=50")]).json()
    assert [it["verdict"] for it in answer["claims"]] == ["busy", "new"]
    settle(gateway, answer["claims"][1]["token"], {})


def test_prefer_wait_of_a_batch_waits_for_all_outcomes(gateway):
    keys, found = [fresh(), fresh()], []
    tokens = [claim(gateway, key, lease="1h")["token"] for key in keys]
    thread = threading.Thread(target=lambda: found.append(
        ask(gateway, "POST", PATH, [{"key": key} for key in keys], [("Prefer", "wait=50")])))
    thread.start()
    eventually(lambda: all(lookup(gateway, key)["seen"] == 1 for key in keys), "they have come")
    for i, token in enumerate(tokens):
        settle(gateway, token, {"n": i})
    thread.join()
    assert [it["outcome"] for it in found[0].json()["claims"]] == [{"n": 0}, {"n": 1}]


# ---- many at once ----


def test_64_clients_on_the_same_keys_get_one_new_each(stile, mode):
    gateway = stile(*mode)
    keys, clients, found, failed = [fresh() for _ in range(50)], 64, [], []
    lock = threading.Lock()

    def run():
        try:
            with gateway.connect() as connection:
                for key in keys:
                    answer = connection.request("POST", PATH, event_bytes({"key": key}))
                    body = answer.json()
                    with lock:
                        found.append((key, body["verdict"], body.get("token")))
                    if body["verdict"] == "new":
                        answer = connection.request("PUT", f"{PATH}/{body['token']}",
                                                    event_bytes({"outcome": body["token"]}))
                        assert answer.status == 200, answer
                    if body["verdict"] == "duplicate":
                        with lock:
                            found.append((key, "outcome", body["outcome"]))
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    for key in keys:
        mine = [it for it in found if it[0] == key]
        tokens = [token for _, verdict, token in mine if verdict == "new"]
        assert len(tokens) == 1, mine
        assert {it[2] for it in mine if it[1] == "outcome"} <= set(tokens)
        assert {it[1] for it in mine} <= {"new", "busy", "duplicate", "outcome"}
        assert claim(gateway, key, "duplicate")["outcome"] == tokens[0]


def test_outcomes_of_a_batch_have_a_bound_and_each_can_be_had_alone(gateway):
    outcome = "v" * 65000
    settle(gateway, claim(gateway, "large")["token"], outcome)
    answer = ask(gateway, "POST", PATH, [{"key": "large"}] * 1000).json()
    told = [each for each in answer["claims"] if "verdict" in each]
    assert answer["duplicate"] == len(told) == 4 * 2**20 // 65000, answer["refused"]
    assert all(each["outcome"] == outcome for each in told)
    assert {each["status"] for each in answer["claims"] if "verdict" not in each} == {413}
    assert claim(gateway, "large", "duplicate")["outcome"] == outcome


def test_batch_has_an_answer_for_each_and_one_write(gateway):
    keys = [fresh() for _ in range(100)]
    commits = sample(gateway, "stile_commits_total")
    answer = ask(gateway, "POST", PATH, [{"key": key} for key in keys] +
                 [{"key": keys[0]}, {"key": ""}, 7, {"source": "none", "event": {}}])
    assert answer.status == 200, answer
    body = answer.json()
    assert (body["new"], body["busy"], body["refused"]) == (100, 1, 3)
    assert len({it["token"] for it in body["claims"][:100]}) == 100
    assert [it["status"] for it in body["claims"][101:]] == [400] * 3
    assert sample(gateway, "stile_commits_total") - commits <= 3
    lines = b"\n".join(event_bytes({"key": key, "lease": "1m"}) for key in keys[:3]) + b"\n\n"
    answer = ask(gateway, "POST", PATH, lines, [("Content-Type", "application/x-ndjson")])
    assert answer.json()["busy"] == 3, answer
    settle(gateway, body["claims"][5]["token"], "five")
    assert claim(gateway, keys[5], "duplicate")["outcome"] == "five"
    assert ask(gateway, "POST", PATH, b"[]").json()["claims"] == []
    too_many = ask(gateway, "POST", PATH, [{"key": "x"}] * 1001)
    problem(too_many, 413, "too_large")


# ---- events and recipes ----


def test_event_by_a_recipe_is_the_webhook_s(stile, scratch):
    config = write(scratch, "stile.yaml",
                   "sources:\n"
                   "  orders: { claims: [ { once: [customer, order] } ], id: order }\n")
    gateway = stile("--config", config)
    first = {"customer": 1, "order": fresh(), "x": 1}
    take(post(gateway, "/in/orders", first), "new")
    answer = ask(gateway, "POST", PATH, {"source": "orders", "event": first})
    assert answer.status in (200, 409), answer  # delivered already, or not yet
    gateway.wait_settled()
    copy = ask(gateway, "POST", PATH, {"source": "orders", "event": first})
    assert copy.json()["verdict"] == "duplicate" and copy.json()["outcome_coding"] == "none"
    second = {"customer": 2, "order": fresh()}
    mine = ask(gateway, "POST", PATH, {"source": "orders", "event": second})
    assert mine.status == 201, mine
    duplicate = take(post(gateway, "/in/orders", second), "duplicate")
    assert duplicate["ticket"] == mine.json()["ticket"]
    other = ask(gateway, "POST", PATH, {"source": "orders", "event": {**second, "y": 1}})
    assert other.status == 422 and other.json()["verdict"] == "conflict"
    detail = problem(ask(gateway, "POST", PATH, {"source": "orders", "event": {"order": 1}}), 400,
                     "invalid")
    assert "customer" in detail
    assert len(gateway.lines()) == 1  # what a caller has claimed is not delivered
    assert sample(gateway, "stile_verdicts_total", source="orders", verdict="new") == 2


def test_stale_is_told(stile, scratch):
    config = write(scratch, "stile.yaml",
                   "sources:\n"
                   "  state: { claims: [ { newest: { entity: id, time: at } } ] }\n")
    gateway = stile("--config", config)
    key = fresh()
    event = {"id": key, "at": "2026-01-01T00:00:10Z"}
    assert ask(gateway, "POST", PATH, {"source": "state", "event": event}).status == 201
    event["at"] = "2026-01-01T00:00:09Z"
    answer = ask(gateway, "POST", PATH, {"source": "state", "event": event})
    assert answer.status == 200 and answer.json()["verdict"] == "stale"


@pytest.mark.parametrize("claims", [
    "[ { newest: { entity: id, time: at, equal: drop } } ]",
    "[ { newest: { entity: id, time: at, equal: drop } }, { once: [id, at] } ]"])
def test_same_event_of_a_recipe_by_newest_is_offered_until_it_is_settled(stile, scratch, claims):
    gateway = stile("--config", write(scratch, "stile.yaml",
                                      f"sources:\n  state: {{ claims: {claims} }}\n"))

    def of(event, verdict, **more):
        answer = ask(gateway, "POST", PATH, {"source": "state", "event": event, **more}).json()
        assert answer["verdict"] == verdict, answer
        return answer

    event = {"id": fresh(), "at": "2026-01-01T00:00:00Z"}
    first = of(event, "new", lease="1h")
    assert of(event, "busy")["lease_until"] == first["lease_until"]
    ask(gateway, "DELETE", f"{PATH}/{first['token']}")
    second = of(event, "new")
    assert (second["ticket"], second["attempt"]) == (first["ticket"], 2)
    settle(gateway, second["token"], {"n": 1})
    assert of(event, "duplicate")["outcome"] == {"n": 1}
    newer = {**event, "at": "2026-01-01T00:00:01Z"}
    of(newer, "new")
    of(event, "stale")
    other = {"id": fresh(), "at": "2026-01-01T00:00:00Z"}
    take(post(gateway, "/in/state", other), "new")
    gateway.wait_events(1)
    of(other, "stale")


def test_duplicate_of_an_event_that_is_dead_says_so(stile, scratch, sink):
    it = sink(lambda request: 422 if b"dies" in request.body else 200)
    gateway = stile("--config", write(
        scratch, "stile.yaml", "sources:\n  a: { claims: [ { once: [id] } ] }\nsinks:\n" +
        http_sink("crm", it.url())))
    for event, state in (({"id": fresh("dies")}, "dead"), ({"id": fresh()}, "done")):
        take(post(gateway, "/in/a", event), "new")
        answer = eventually(lambda: (lambda a: a if a["verdict"] == "duplicate" else None)(
            ask(gateway, "POST", PATH, {"source": "a", "event": event}).json()), "it has an outcome")
        assert (answer["state"], answer["outcome_coding"]) == (state, "none")


# ---- lookup ----


def types(body):
    return {name: type(value) for name, value in body.items()}


def test_lookup_is_flat_and_the_same_for_hit_and_miss(gateway):
    key = fresh()
    miss = lookup(gateway, key)
    assert miss["found"] is False and miss["state"] == "none"
    first = claim(gateway, key, lease="1h")
    leased = lookup(gateway, key)
    assert leased["found"] and leased["state"] == "leased" and leased["attempt"] == 1
    assert 3590 < leased["lease_left_s"] <= 3600
    settle(gateway, first["token"], {"deep": {"er": [1]}})
    done = lookup(gateway, key)
    assert done["state"] == "done" and json.loads(done["outcome"]) == {"deep": {"er": [1]}}
    assert done["ticket"] == first["ticket"] and done["has_outcome"]
    assert types(miss) == types(leased) == types(done)
    assert not {dict, list, type(None)} & set(types(miss).values())
    assert list(miss) == list(done)
    assert lookup(gateway, key, scope="another")["found"] is False
    claim(gateway, [key, 2])
    parts = ask(gateway, "GET", PATH + "?" + urllib.parse.urlencode({"parts": json.dumps([key, 2])}))
    assert parts.json()["state"] == "leased"
    for query in ("", "?key=", "?key=a&key=b", "?key=a&parts=[1]", "?parts=7", "?key=%zz"):
        problem(ask(gateway, "GET", PATH + query), 400, "invalid")


# ---- what survives ----


def test_outcomes_and_claims_survive_restarts(stile, data):
    gateway = stile()
    keys = [fresh() for _ in range(20)]
    tokens = {key: claim(gateway, key)["token"] for key in keys}
    for key in keys[:10]:
        settle(gateway, tokens[key], {"of": key})
    gateway.kill()
    gateway = stile()
    for key in keys[:10]:
        assert claim(gateway, key, "duplicate")["outcome"] == {"of": key}
        assert settle(gateway, tokens[key], {"of": key})["repeated"]
    # The leases ended with the process: what was not settled is the next caller's.
    for key in keys[10:15]:
        problem(ask(gateway, "PUT", f"{PATH}/{tokens[key]}", {"outcome": 1}), 409, "fenced")
        second = claim(gateway, key)
        assert second["attempt"] == 2
        problem(ask(gateway, "PUT", f"{PATH}/{tokens[key]}", {"outcome": 1}), 409, "fenced")
        settle(gateway, second["token"], "second")
    gateway.stop()
    gateway = stile()
    for key in keys[10:15]:
        assert claim(gateway, key, "duplicate")["outcome"] == "second"
    for key in keys[15:]:
        assert claim(gateway, key)["attempt"] == 2


def test_no_token_is_given_twice_over_kills(stile):
    """Kill -9 again and again between POST and PUT: attempts only go up."""
    keys, seen = [fresh() for _ in range(5)], set()
    for life in range(1, 6):
        gateway = stile()
        for key in keys:
            body = claim(gateway, key)
            assert body["attempt"] == life
            assert body["token"] not in seen
            seen.add(body["token"])
        gateway.kill()


def test_stop_is_quick_while_claims_are_open_and_callers_wait(stile, mode):
    gateway = stile(*mode)
    key, found = fresh(), []
    claim(gateway, key, lease="1h")
    thread = threading.Thread(
        target=lambda: found.append(claim(gateway, key, "busy", [("Prefer", "wait=60")])))
    thread.start()
    eventually(lambda: lookup(gateway, key)["seen"] == 1, "it has come")
    gateway.stop()
    thread.join()
    assert found and "open events remain" not in gateway.log()


# ---- what is refused ----


@pytest.mark.parametrize("body, words", [
    (b"", "expected"),
    (b"{", "expected"),
    (b"7", "a number"),
    (b"{}", "a key"),
    (b'{"key":null}', "null"),
    (b'{"key":"a","key":"b"}', "only once"),
    (b'{"key":"a","lease":"1ms"}', "lease"),
    (b'{"key":"a","lease":"13h"}', "lease"),
    (b'{"key":"a","lease":30}', "lease"),
    (b'{"key":"a","window":"11y"}', "window"),
    (b'{"key":"a","scope":1}', "scope"),
    (b'{"key":"a","payload":1,"payload_digest":"x"}', "one of them"),
    (b'{"key":"a","source":"events","event":{}}', "one of them"),
    (b'{"source":"events","event":[]}', "object"),
    (b'{"source":"nobody","event":{}}', "source"),
    (b'{"key":true}', "found true"),
    (b'{"key":{}}', "found an object"),
    (b'{"key":["a",["b"]]}', "found an array"),
    (b'{"key":["a",false]}', "found false"),
    (b'{"key":"a","ttl":"1h"}', 'no member "ttl"'),
    (b'{"ttl":"1h","key":"a\\"}"}', 'no member "ttl"'),
    (b'{"key":"a","payload":{"x":[1,"}\\""]},"Window":"1h"}', 'no member "Window"'),
    (b'{"key":"a","event":{}}', 'no member "event"'),
    (b'{"source":"events","event":{"id":1},"window":"1h"}', 'no member "window"'),
])
def test_bad_claims_are_refused_with_a_reason(gateway, body, words):
    detail = problem(ask(gateway, "POST", PATH, body), 400, "invalid")
    if words != "only once":
        assert words in detail


def test_bad_tokens_methods_and_outcomes_are_refused(stile, scratch):
    config = write(scratch, "stile.yaml", "claims: { max_outcome: 1KiB }\n")
    gateway = stile("--config", config)
    token = claim(gateway, fresh())["token"]
    flipped = ("0" if token[40] != "0" else "1").join((token[:40], token[41:]))
    for bad in (flipped, "x", token + "0", token[:-2], "%20"):
        problem(ask(gateway, "PUT", f"{PATH}/{bad}", {"outcome": 1}), 404, "unknown")
    assert ask(gateway, "POST", f"{PATH}/{token}", {}).status == 405
    assert ask(gateway, "PUT", PATH, {}).header("allow") == "GET, POST"
    assert ask(gateway, "POST", PATH + "x", {}).status == 404
    large = ask(gateway, "PUT", f"{PATH}/{token}", {"outcome": "x" * 2000})
    problem(large, 413, "too_large")
    problem(ask(gateway, "PUT", f"{PATH}/{token}", b"{}"), 400, "invalid")
    problem(ask(gateway, "PUT", f"{PATH}/{token}", b'{"outcome":1,"status":"x"}'), 400, "invalid")
    for method, body in (("PUT", b'{"outcome":1,"stat\\u0075s":1,"state":"done"}'),
                         ("PATCH", b'{"state":"done"}')):
        detail = problem(ask(gateway, method, f"{PATH}/{token}", body), 400, "invalid")
        assert 'no member "state"' in detail
    batch = ask(gateway, "POST", PATH, [{"key": fresh()}, {"key": fresh(), "ttl": "1h"}])
    assert [it.get("status") for it in batch.json()["claims"]][1] == 400, batch
    settle(gateway, token, "x" * 900)


def test_auth_comes_first(stile, scratch):
    config = write(scratch, "stile.yaml",
                   "claims: { auth: { kind: bearer, secret: 0123456789abcdef } }\n")
    gateway = stile("--config", config)
    key = fresh()
    bearer = [("Authorization", "Bearer 0123456789abcdef")]
    assert ask(gateway, "POST", PATH, {"key": key}).status == 401
    assert ask(gateway, "POST", PATH, {"key": key}, [("Authorization", "Bearer x")]).status == 401
    assert ask(gateway, "GET", PATH + "?key=" + key).status == 401
    token = claim(gateway, key, headers=bearer)["token"]
    assert ask(gateway, "PUT", f"{PATH}/{token}", {"outcome": 1}).status == 401
    assert ask(gateway, "DELETE", f"{PATH}/{token}").status == 401
    assert ask(gateway, "PUT", f"{PATH}/{token}", {"outcome": 1}, bearer).status == 200
    assert sample(gateway, "stile_unauthorized_total", source="claims") == 5
    assert "0123456789abcdef" not in gateway.log()


def test_without_auth_a_proxy_or_a_web_page_gets_nothing(gateway, stile, scratch):
    key = fresh()
    signs = [[("X-Forwarded-For", "203.0.113.7")], [("Forwarded", "for=203.0.113.7")],
             [("X-Real-IP", "203.0.113.7")], [("Via", "1.1 proxy")],
             [("Origin", "http://evil.test"), ("Content-Type", "text/plain")],
             [("Host", "rebound.test")], [("Host", "127.0.0.1.evil.test:8080")],
             [("Sec-Fetch-Site", "cross-site")]]
    for sign in signs:
        answer = ask(gateway, "POST", PATH, {"key": key}, sign)
        assert answer.status == 403 and "claims.auth" in answer.json()["detail"], answer
    assert ask(gateway, "GET", f"{PATH}?key={key}", None, signs[0]).status == 403
    token = claim(gateway, key, headers=[("Host", "localhost:8080")])["token"]
    assert ask(gateway, "DELETE", f"{PATH}/{token}", None, signs[0]).status == 403
    config = write(scratch, "auth.yaml",
                   "claims: { auth: { kind: bearer, secret: 0123456789abcdef } }\n")
    guarded = stile("--config", config, folder=scratch + "/guarded")
    claim(guarded, key, headers=[("Authorization", "Bearer 0123456789abcdef"), *signs[0]])


def test_public_listener_without_auth_has_no_claims(stile, scratch):
    gateway = stile("--listen", "0.0.0.0:0")
    answer = ask(gateway, "POST", PATH, {"key": "a"})
    assert answer.status == 403 and "claims.auth" in answer.json()["detail"]
    off = write(scratch, "off.yaml", "claims: { enabled: off }\n")
    assert ask(stile("--config", off, folder=scratch + "/2"), "POST", PATH, {}).status == 404


# ---- the examples of the manual ----


TYPESCRIPT = """
let made = 0;
async function createCase(event) { made += 1; return { case: event.id, made }; }
const first = await handler({ id: "one" });
const again = await handler({ id: "one" });
const other = await handler({ id: "two" });
let conflict = "";
try { await handler({ id: "one", more: 1 }); } catch (error) { conflict = error.message; }
console.log(JSON.stringify({ first, again, other, conflict, made }));
"""


def test_typescript_example_acts_once_and_gives_everyone_the_outcome(stile, scratch):
    node = shutil.which("node") or shutil.which("nodejs")
    if not node:
        pytest.skip("node is not installed: tools/install-packages test")
    manual = pathlib.Path(__file__).resolve().parents[2] / "docs" / "claims.md"
    found = re.findall(r"^```ts\n(.*?)^```$", manual.read_text(encoding="utf-8"), re.M | re.S)
    assert len(found) == 1, "one example"
    # Node runs it but for its types, of which it has one.
    script = found[0].replace("event: unknown", "event")
    assert script != found[0]
    config = write(scratch, "stile.yaml",
                   "claims: { auth: { kind: bearer, secret: 0123456789abcdef } }\n"
                   "sources:\n  genesys: { claims: [ { once: [id] } ] }\n")
    gateway = stile("--config", config)
    path = write(scratch, "example.mjs", script + TYPESCRIPT)
    done = subprocess.run([node, path], check=False, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "STILE_URL": "http://%s:%d" % gateway.address,
                               "STILE_TOKEN": "0123456789abcdef"})
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["first"] == said["again"] == {"case": "one", "made": 1}
    assert said["other"] == {"case": "two", "made": 2} and said["made"] == 2
    assert said["conflict"] == "the same id with other content"


# ---- what people see ----


def test_claims_are_counted_traced_and_listed(gateway):
    key = fresh()
    first = claim(gateway, key)
    claim(gateway, key, "busy")
    settle(gateway, first["token"], 1)
    claim(gateway, key, "duplicate")
    for verdict, count in (("new", 1), ("busy", 1), ("duplicate", 1)):
        assert sample(gateway, "stile_verdicts_total", source="claims", verdict=verdict) == count
    told = eventually(lambda: (lambda it: it if it["found"] else None)(why(gateway, id=key)),
                      "it is traced")
    story, = told["originals"]
    assert story["ticket"] == first["ticket"] and story["source"] == "claims", told
    assert {it["verdict"] for it in story["repeats"]} == {"busy", "duplicate"}, told
    open_one = claim(gateway, fresh(), lease="1h")
    listed = gateway.get("/v1/tickets?state=leased").json()["tickets"]
    assert [(it["ticket"], it["sink"], it["source"]) for it in listed] == \
        [(open_one["ticket"], "caller", "claims")]
