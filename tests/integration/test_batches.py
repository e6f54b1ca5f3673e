"""Several events in one request: one verdict for each, durable together."""

import json
import random

import pytest

from gatekit import fresh, post, sample, take, take_batch, write
from harness import eventually, take_problem

LIMIT = 1000  # events in one request

CONFIG = """\
sources:
  events: { preset: auto }
  cloudevents: { preset: cloudevents }
  headers: { claims: [{ once: ["header:X-Id"] }] }
  bodies: { claims: [{ content: body }] }
"""
NDJSON = [("Content-Type", "application/x-ndjson")]


@pytest.fixture(scope="module")
def gateway(module_stile, module_scratch):
    config = write(module_scratch, "stile.yaml", CONFIG)
    return module_stile("--config", config, "--print", "envelope")


def ids(count, prefix="b"):
    return [fresh(prefix) for _ in range(count)]


def lines(events):
    return b"\n".join(json.dumps(event).encode() for event in events)


def delivered(gateway, ticket):
    """The line of a ticket on standard output."""
    mark = b'"ticket":"' + ticket.encode()
    line = eventually(lambda: next((l for l in gateway.lines() if mark in l), None),
                      f"{ticket} is printed")
    return line


# ---- the shapes ----

def test_array_has_a_verdict_for_each_event_in_order(gateway):
    names = ids(20)
    first = take_batch(post(gateway, "/in/events", [{"id": n} for n in names]), ["new"] * 20)
    tickets = [event["ticket"] for event in first]
    assert tickets == sorted(set(tickets)), "tickets in the order of the events"
    mixed = [{"id": n} for n in (names[3], fresh(), names[0], fresh())]
    again = take_batch(post(gateway, "/in/events", mixed), ["duplicate", "new"] * 2)
    assert again[0]["ticket"] == tickets[3] and again[2]["ticket"] == tickets[0]
    for name, ticket in zip(names, tickets):
        assert json.loads(delivered(gateway, ticket))["event"] == {"id": name}


@pytest.mark.parametrize("media_type", ["application/x-ndjson", "application/ndjson",
                                        "Application/X-NDJSON; charset=utf-8",
                                        "application/jsonl"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n \n"], ids=["lf", "crlf", "blank"])
def test_ndjson_has_a_verdict_for_each_line(gateway, media_type, end):
    bodies = [json.dumps({"id": name}).encode() for name in ids(3)]
    headers = [("Content-Type", media_type)]
    take_batch(post(gateway, "/in/events", end.join(bodies) + end, headers), ["new"] * 3)
    take_batch(post(gateway, "/in/events", end.join(bodies), headers), ["duplicate"] * 3)


def test_ndjson_of_one_line_is_a_batch_of_one(gateway):
    take_batch(post(gateway, "/in/events", {"id": fresh()}, NDJSON), ["new"])


def test_cloudevents_batch(gateway):
    def event(name):
        return {"specversion": "1.0", "type": "t", "source": "/s", "id": name, "data": [1, 2]}
    headers = [("Content-Type", "application/cloudevents-batch+json; charset=utf-8")]
    names = ids(3)
    batch = [event(name) for name in names]
    for path in ("/in/cloudevents", "/in/events"):
        take_batch(post(gateway, path, batch, headers), ["new"] * 3)
        take_batch(post(gateway, path, batch[::-1], headers), ["duplicate"] * 3)
    take(post(gateway, "/in/cloudevents", event(names[1])), "duplicate")
    batch[1]["data"] = "other"
    take_batch(post(gateway, "/in/cloudevents", batch, headers),
               ["duplicate", "conflict", "duplicate"])


@pytest.mark.parametrize("body, headers", [(b"[]", []), (b" [ \n ] ", []), (b"", NDJSON),
                                           (b"\n \r\n", NDJSON)])
def test_empty_batch_is_answered_with_no_events(gateway, body, headers):
    take_batch(post(gateway, "/in/events", body, headers), [])


def test_binary_cloudevent_with_an_array_as_its_data_is_one_event(gateway):
    headers = [("ce-specversion", "1.0"), ("ce-type", "t"), ("ce-source", "/s"),
               ("ce-id", fresh()), ("Content-Type", "application/json")]
    take(post(gateway, "/in/events", b'[{"id":"a"},{"id":"b"}]', headers), "new")


# ---- what is wrong ----

def test_bad_event_is_refused_alone(gateway):
    one, two, three = ids(3)
    before = sample(gateway, "stile_refused_total", source="events")
    batch = [{"id": one}, {"no": "id"}, 7, {"id": two}, None, [{"id": three}], {"id": ""}]
    found = take_batch(post(gateway, "/in/events", batch),
                       ["new", "refused", "refused", "new", "refused", "refused", "refused"])
    for event in found:
        if "verdict" not in event:
            assert event["status"] == 400 and event["error"], event
    assert "id" in found[1]["error"]
    assert sample(gateway, "stile_refused_total", source="events") == before + 5
    take(post(gateway, "/in/events", {"id": one}), "duplicate")
    take(post(gateway, "/in/events", {"id": two}), "duplicate")
    take(post(gateway, "/in/events", {"id": three}), "new")


def test_name_twice_spoils_its_own_event_alone(gateway):
    one, two = ids(2)
    body = f'[{{"id":"{one}"}},{{"id":"x","id":"y"}},{{"id":"{two}"}}]'.encode()
    take_batch(post(gateway, "/in/events", body), ["new", "refused", "new"])


def test_line_that_is_no_json_is_refused_alone(gateway):
    one, two = ids(2)
    body = f'{{"id":"{one}"}}\n{{"id":\nnonsense\n{{"id":"{two}"}}\n'.encode()
    found = take_batch(post(gateway, "/in/events", body, NDJSON),
                       ["new", "refused", "refused", "new"])
    assert "byte" in found[1]["error"]


def test_batch_of_bad_events_only_is_400_with_an_error_for_each(gateway):
    take_batch(post(gateway, "/in/events", [{}, {}, 1]), ["refused"] * 3, status=400)


@pytest.mark.parametrize("end", ["", ",", ",]", "]x", "]]", ",{\"id\":\"x\"", "\x00]", ",tru]",
                                 ",\"\\ud800\"]", "] []"])
def test_broken_array_decides_nothing(gateway, end):
    names = ids(3)
    text = "[" + ",".join(f'{{"id":"{name}"}}' for name in names) + end
    take_problem(post(gateway, "/in/events", text.encode()), 400)
    take_batch(post(gateway, "/in/events", [{"id": n} for n in names]), ["new"] * 3)


@pytest.mark.parametrize("shape", ["array", "lines"])
def test_more_than_the_limit_decides_nothing_and_the_limit_is_taken(gateway, shape):
    names = [{"id": n} for n in ids(LIMIT + 1)]

    def send(events):
        if shape == "array":
            return post(gateway, "/in/events", events)
        return post(gateway, "/in/events", lines(events), NDJSON)
    assert str(LIMIT) in take_problem(send(names), 413)
    found = take_batch(send(names[:LIMIT]), ["new"] * LIMIT)
    again = take_batch(send(names[:LIMIT]), ["duplicate"] * LIMIT)
    assert [e["ticket"] for e in found] == [e["ticket"] for e in again]


def test_thousand_refused_events_are_answered_whole(gateway):
    take_batch(post(gateway, "/in/events", [{"no": i} for i in range(LIMIT)]),
               ["refused"] * LIMIT, status=400)


# ---- inside one batch ----

def test_duplicates_inside_one_batch_are_found(gateway):
    one, two = ids(2)
    batch = [{"id": n} for n in (one, two, one, one, two)] + [{"id": one, "other": 1}]
    found = take_batch(post(gateway, "/in/events", batch),
                       ["new", "new", "duplicate", "duplicate", "duplicate", "conflict"])
    assert found[0]["ticket"] == found[2]["ticket"] == found[3]["ticket"] == found[5]["ticket"]
    assert found[1]["ticket"] == found[4]["ticket"]
    assert [found[2]["seen"], found[3]["seen"]] == [1, 2]


def test_request_that_is_known_by_its_header_is_one_event_whatever_its_body(gateway):
    headers = [("X-Id", fresh())]
    for body, more in (([{"n": 1}, {"n": 2}], []), (b'{"n":1}\n{"n":2}', NDJSON)):
        headers = [("X-Id", fresh())] + more
        take(post(gateway, "/in/headers", body, headers), "new")
        take(post(gateway, "/in/headers", body, headers), "duplicate")


def test_content_of_each_event_is_its_own(gateway):
    mark = fresh()
    batch = [{"a": mark}, {"a": mark, "b": 1}, {"a": mark}]
    take_batch(post(gateway, "/in/bodies", batch), ["new", "new", "duplicate"])
    take(post(gateway, "/in/bodies", {"b": 1, "a": mark}), "duplicate")


# ---- kept ----

def test_events_of_a_batch_are_delivered_byte_for_byte(gateway):
    one, two, three = ids(3)
    texts = [f'{{"id":"{one}","n":1.0E+2,"t":"ż\\u00f3\\/"}}',
             f'{{ "id" : "{two}" ,\t"nested":[ 1,2 , {{}} ]}}', f'{{"id":"{three}","x":null}}']
    found = take_batch(post(gateway, "/in/events", f" [ {texts[0]} ,{texts[1]},\n{texts[2]}]\n"
                            .encode()), ["new"] * 3)
    for event, text in zip(found, texts):
        assert delivered(gateway, event["ticket"]).endswith(b'"event":' + text.encode() + b"}")


def test_batches_and_single_events_agree_whatever_the_order(gateway, seed):
    """A model of sets against random batches, arrays and lines."""
    rng, known, pool = random.Random(seed), {}, ids(60, f"r{seed}")
    for _ in range(60):
        names = [rng.choice(pool) for _ in range(rng.choice((1, 2, 10, 40)))]
        events = [{"id": name} for name in names]
        body, headers = (events, []) if rng.random() < 0.5 else (lines(events), NDJSON)
        answer = post(gateway, "/in/events", body, headers)
        seen, expected = set(known), []
        for name in names:
            expected.append("duplicate" if name in seen else "new")
            seen.add(name)
        for name, event in zip(names, take_batch(answer, expected)):
            assert known.setdefault(name, event["ticket"]) == event["ticket"]


@pytest.mark.parametrize("commit", ["inline", "thread"])
def test_batch_is_whole_after_a_kill_right_behind_its_answer(stile, blockage, commit):
    gateway = stile("--commit", commit, stdout=blockage.write_fd)
    names = [{"id": n, "pad": "x" * 700} for n in ids(LIMIT)]
    first = take_batch(post(gateway, "/in/events", names), ["new"] * LIMIT)
    gateway.kill()
    gateway = stile("--commit", commit)
    assert gateway.metrics()["stile_live_claims"].value() == LIMIT
    again = take_batch(post(gateway, "/in/events", names), ["duplicate"] * LIMIT)
    assert [e["ticket"] for e in first] == [e["ticket"] for e in again]
    printed = gateway.wait_events(LIMIT)
    assert sorted(e["id"] for e in printed) == sorted(e["id"] for e in names)


def test_batch_over_several_threads_is_decided_as_one(stile):
    gateway = stile("--threads", "2", "--commit", "thread")
    names = [{"id": n} for n in ids(LIMIT)]
    with gateway.connect() as one, gateway.connect() as two:
        for connection in (one, two):  # both at once
            body = json.dumps(names).encode()
            connection.send(b"POST /in/events HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                            % len(body) + body)
        verdicts = [[e["verdict"] for e in c.answer().json()["events"]] for c in (one, two)]
    assert sorted(map(tuple, verdicts)) == sorted([("new",) * LIMIT, ("duplicate",) * LIMIT]) or \
        all({a, b} == {"new", "duplicate"} for a, b in zip(*verdicts)), verdicts
    assert sample(gateway, "stile_verdicts_total", verdict="new", source="events") == LIMIT
