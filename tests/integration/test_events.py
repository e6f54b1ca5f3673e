"""An event comes in, is decided once, and is printed once."""

import datetime
import json

import pytest

from harness import take_problem, take_verdict

EVENTBRIDGE = {
    "version": "0",
    "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
    "detail-type": "v2.detail.events.conversation.{id}.customer.start",
    "source": "aws.partner/genesys.com/cloud/0000/tests",
    "account": "111122223333",
    "time": "2026-01-02T03:04:05Z",
    "region": "eu-central-1",
    "resources": [],
    "detail": {"topicName": "t", "eventBody": {"conversationId": "c-1"}},
}

CLOUDEVENT = {
    "specversion": "1.0",
    "type": "com.example.order.placed",
    "source": "/orders/7",
    "id": "A234-1234-1234",
    "datacontenttype": "application/json",
    "data": {"total": 12.50},
}


def test_first_event_is_new_and_printed_once_and_its_repeats_are_counted(stile):
    gateway = stile()
    event = {"id": "order-1", "amount": 12.5, "items": ["a", {"b": None}]}
    before = datetime.datetime.now(datetime.timezone.utc)
    with gateway.connect() as connection:
        answer = connection.post(event)
        ticket = take_verdict(answer, "new")
        assert answer.json() == {"verdict": "new", "ticket": ticket}
        for seen in (1, 2, 3):
            answer = connection.post(event)
            assert take_verdict(answer, "duplicate") == ticket
            body = answer.json()
            assert set(body) == {"verdict", "ticket", "first_seen", "seen"}
            assert body["seen"] == seen
        first_seen = datetime.datetime.strptime(body["first_seen"], "%Y-%m-%dT%H:%M:%S.%f%z")
        assert abs(first_seen - before) < datetime.timedelta(seconds=60)
        other = take_verdict(connection.post({"id": "order-2"}), "new")
    assert other != ticket
    assert other > ticket, "tickets sort by age"
    gateway.wait_events(2)
    gateway.wait_settled()
    assert gateway.stop() == 0
    assert gateway.events() == [event, {"id": "order-2"}]


@pytest.mark.parametrize("event", [EVENTBRIDGE, CLOUDEVENT], ids=["eventbridge", "cloudevents"])
def test_envelopes_are_known_by_source_and_id_together(stile, event):
    gateway = stile()
    ticket = take_verdict(gateway.post(event), "new")
    changed = {**event, "time": "2026-05-05T05:05:05Z", "type": "other"}
    assert take_verdict(gateway.post(changed), "duplicate") == ticket
    take_verdict(gateway.post({**event, "source": event["source"] + "x"}), "new")
    take_verdict(gateway.post({**event, "id": event["id"] + "x"}), "new")
    # The parts are kept apart: moving a byte from one to the other is another event.
    moved = {**event, "source": event["source"][:-1], "id": event["source"][-1] + event["id"]}
    take_verdict(gateway.post(moved), "new")


def test_structured_cloudevent_is_the_same_with_its_media_type(stile):
    gateway = stile()
    headers = [("Content-Type", "application/cloudevents+json; charset=utf-8")]
    ticket = take_verdict(gateway.post(CLOUDEVENT, headers), "new")
    assert take_verdict(gateway.post(CLOUDEVENT), "duplicate") == ticket


def ce_headers(**changes):
    attributes = {"specversion": "1.0", "type": "t", "source": "/orders/7", "id": "b-1", **changes}
    return [(f"ce-{name}", value) for name, value in attributes.items()]


def test_binary_cloudevent_is_known_by_its_headers_whatever_the_body(stile):
    gateway = stile("--print", "envelope")
    ticket = take_verdict(gateway.post(b'{"id":"not this"}', ce_headers()), "new")
    assert take_verdict(gateway.post(b"<other/>", ce_headers()), "conflict") == ticket
    text = take_verdict(gateway.post(b"plain \"text\"\nof two lines", ce_headers(id="b-2")), "new")
    binary = take_verdict(gateway.post(b"\xff\x00\xfe", ce_headers(id="b-3")), "new")
    empty = take_verdict(gateway.post(b"", ce_headers(id="b-4")), "new")
    # In a header, as in a body, the value counts and not its spelling.
    take_verdict(gateway.post(b"{}", ce_headers(id="%C3%A9")), "new")
    take_verdict(gateway.post({**CLOUDEVENT, "source": "/orders/7", "id": "\u00e9"}), "known")
    printed = {line["ticket"]: line for line in gateway.wait_events(5)}
    assert printed[ticket]["event"] == {"id": "not this"}
    assert printed[text]["text"] == "plain \"text\"\nof two lines"
    assert "text" in printed[binary] and "text" in printed[empty]
    take_problem(gateway.post(b"{}", ce_headers()[:3]), 400)
    take_problem(gateway.post(b"{}", ce_headers() + [("ce-id", "again")]), 400)


def test_envelope_line_carries_ticket_source_and_the_event_as_it_came(stile):
    gateway = stile("--print", "envelope")
    event = {"id": "e", "n": 1.50}
    ticket = take_verdict(gateway.post(event), "new")
    assert gateway.wait_events(1) == [
        {"ticket": ticket, "source": "events", "attempt": 1, "event": event}]


def test_event_over_many_lines_is_printed_on_one_with_its_bytes_kept(stile):
    gateway = stile()
    event = {"id": "pretty", "text": "line\nbreak\r\n\u2028 tab\t",
             "unicode": "żółw 🐢 \u0000", "number": 1}
    body = json.dumps(event, indent=4, ensure_ascii=False).replace("\n", "\r\n")
    body = body.replace('"number": 1', '"number": 1.0E+2')
    take_verdict(gateway.post(body.encode()), "new")
    gateway.wait_events(1)
    line, = gateway.lines()
    assert json.loads(line) == {**event, "number": 100.0}
    assert b"1.0E+2" in line, "numbers are not rewritten"
    assert "żółw 🐢".encode() in line, "text is not rewritten"


def test_id_counts_by_its_value_and_not_by_its_spelling(stile):
    gateway = stile()
    ticket = take_verdict(gateway.post(b'{"id":"a/\xc3\xa9"}'), "new")
    for spelling in (rb'{"id":"a\/\u00e9"}', rb'{"\u0069d":"\u0061/\u00E9"}',
                     b'{ "x":{"id":"b"},\n"id" :"a/\xc3\xa9"}'):
        assert take_verdict(gateway.post(spelling), "known") == ticket
    take_verdict(gateway.post({"id": "A/\u00e9"}), "new")


def test_shared_vectors_are_new_once_and_then_duplicates(stile, root):
    folder = root.parent / "shared" / "vectors"
    files = [folder / "aws" / "eventBridgeEvent.json", *sorted((folder / "genesys").glob("*.json"))]
    bodies = []
    for path in files:
        if path.exists():
            event = json.loads(path.read_bytes())
            if isinstance(event, dict) and event.get("id") and isinstance(event["id"], str):
                bodies.append((path.name, path.read_bytes(), event))
    if not bodies:
        pytest.skip("the vectors are not there")
    gateway = stile()
    tickets = {}
    for name, body, event in bodies:
        key = (event.get("source"), event["id"])
        answer = gateway.post(body)
        known = key in tickets
        ticket = take_verdict(answer, "known" if known else "new")
        assert tickets.setdefault(key, ticket) == ticket, name
        again = take_verdict(gateway.post(body), "duplicate")
        # Other content under a known key is kept aside, and repeats are of that.
        assert known or again == ticket, name
    printed = gateway.wait_events(len(tickets))
    assert len(printed) == len(tickets)
    assert all(any(event == line for _, _, event in bodies) for line in printed)


def test_pipelined_events_are_answered_in_their_order(stile):
    gateway = stile()
    with gateway.connect() as connection:
        ids = [f"p-{i // 2}" for i in range(200)]
        head = b"POST /in/events HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        bodies = [json.dumps({"id": each}).encode() for each in ids]
        connection.send(b"".join(head % len(body) + body for body in bodies))
        tickets = {}
        for i, each in enumerate(ids):
            ticket = take_verdict(connection.answer(), "duplicate" if i % 2 else "new")
            assert tickets.setdefault(each, ticket) == ticket
    assert [event["id"] for event in gateway.wait_events(100)] == list(tickets)


def test_last_line_of_a_torn_output_file_does_not_swallow_the_next_event(stile, scratch):
    """A kill can cut a line of a file; the next life appends to that file."""
    with open(f"{scratch}/shared.out", "wb") as out:
        out.write(b'{"id":"whole"}\n{"id":"to')
    gateway = stile(name="shared")
    take_verdict(gateway.post({"id": "after"}), "new")
    gateway.wait_settled()
    lines = gateway.lines()
    assert lines[0] == b'{"id":"whole"}'
    assert json.loads(lines[-1]) == {"id": "after"}
