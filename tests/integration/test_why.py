"""Why was this event stopped, and is the window long enough? Over HTTP and by command."""

import json
import os
import re
import urllib.parse

import pytest

from gatekit import fresh, post, sample, take, take_batch, why, write
from harness import eventually, take_problem

CONFIG = """\
sources:
  orders: { id: id, type: type, claims: [{ once: [customer, order], name: order, window: 1h }] }
  chosen: { id: id, claims: [{ content: [amount], name: amount }] }
  genesys: { preset: genesys }
  replays: { preset: eventbridge, on_replay: pass }
  brief: { id: id, claims: [{ once: [id], name: act, window: 1s }] }
"""


@pytest.fixture(scope="module")
def config(module_scratch):
    return write(module_scratch, "stile.yaml", CONFIG)


@pytest.fixture(scope="module")
def gateway(module_stile, config):
    return module_stile("--config", config)


def url(gateway):
    return gateway.admin_url()


def order(**more):
    return {"id": fresh("evt"), "type": "order.paid", "customer": fresh("cust"), "order": 7, **more}


def story(answer, ticket):
    found = [each for each in answer["originals"] if each["ticket"] == ticket]
    assert len(found) == 1, answer
    return found[0]


def ask_text(run, gateway, **question):
    (by, value), = question.items()
    code, out, err = run("why", "--url", url(gateway), "--by", by, value)
    assert code == 0, err
    return out


# ---- questions ----

def test_repeat_is_found_by_its_id_its_ticket_its_key_and_a_part_of_it(gateway, run):
    event = order()
    ticket = take(post(gateway, "/in/orders", event), "new")["ticket"]
    take(post(gateway, "/in/orders", event), "duplicate")
    take(post(gateway, "/in/orders", {**event, "type": "order.other"}), "conflict")
    key = f"{event['customer']}, 7"
    for question in ({"id": event["id"]}, {"ticket": ticket}, {"key": key},
                     {"key": event["customer"]}, {"any": event["id"]}, {"any": ticket},
                     {"any": key}, {"any": event["customer"]}):
        found = story(why(gateway, **question), ticket)
        assert found["source"] == "orders" and found["id"] == event["id"], question
        assert found["repeats_found"] == 2, (question, found)
        conflict, duplicate = found["repeats"]  # the newest first
        assert (duplicate["verdict"], duplicate["content"]) == ("duplicate", "same")
        assert (conflict["verdict"], conflict["content"]) == ("conflict", "other")
        for repeat in found["repeats"]:
            assert repeat["claim"] == "order" and repeat["parts"] == "customer, order"
            assert repeat["keys"] == [key] and repeat["peer"] == "127.0.0.1"
            assert 0 <= repeat["gap_ms"] < 60000 and ticket in repeat["why"]
    text = ask_text(run, gateway, id=event["id"])
    assert ticket in text and "the same came again 2 times" in text and "claim 'order'" in text


def test_question_about_the_id_of_a_republication_finds_the_original(gateway, root):
    path = root / "tests" / "data" / "events" / "genesys_conversation.json"
    event = json.loads(path.read_bytes())
    ticket = take(post(gateway, "/in/genesys", event), "new")["ticket"]
    other = {**event, "id": fresh("republished")}
    take(post(gateway, "/in/genesys", other), "duplicate")
    repeat, = story(why(gateway, id=other["id"]), ticket)["repeats"]
    assert repeat["claim"] == "genesys.conversation" and repeat["id"] == other["id"]
    assert event["detail"]["topicName"] in repeat["keys"][0]
    assert repeat["parts"].startswith("detail.topicName, ")
    assert repeat["parts"].endswith("detail.eventBody.wrapupCode?"), "whole, since it fits"


# ---- what is kept aside ----

def test_held_event_is_told_with_its_ticket_and_what_to_do(gateway, run):
    event = order()
    original = take(post(gateway, "/in/orders", event), "new")["ticket"]
    other = {**event, "id": fresh("other"), "amount": 5}
    held = take(post(gateway, "/in/orders", other), "conflict")["aside"]
    take(post(gateway, "/in/orders", other), "duplicate")
    advice = f"held: stile release {held} delivers it, stile release --drop {held} forgets it"
    text = ask_text(run, gateway, id=event["id"])
    assert f"kept aside as {held}" in text and advice in text
    text = ask_text(run, gateway, id=other["id"])
    assert original in text and "trace is gone" not in text
    own = ask_text(run, gateway, ticket=held)
    assert f"state    {advice}" in own and "the same came again 1 time" in own
    assert story(why(gateway, ticket=held), held)["state"] == "held"
    assert run("release", "--drop", "--url", url(gateway), held)[0] == 0
    assert "released or dropped" in ask_text(run, gateway, ticket=held)
    repeat = story(why(gateway, ticket=original), original)["repeats"][-1]
    assert (repeat["ticket"], repeat["state"]) == (held, "released or dropped")


@pytest.mark.parametrize("threads", ["1", "2"])
def test_what_is_held_is_listed_newest_first(stile, config, run, threads):
    gateway = stile("--config", config, "--threads", threads)
    code, out, err = run("why", "--held", "--url", url(gateway))
    assert (code, out) == (0, "nothing is kept aside\n"), err
    held = []
    for _ in range(5):
        event = order()
        take(post(gateway, "/in/orders", event), "new")
        held.insert(0, take(post(gateway, "/in/orders", {**event, "more": 1}), "conflict")["aside"])
    answer = json.loads(gateway.get("/v1/why?held=1").body)
    assert [each["ticket"] for each in answer["originals"]] == held and "next" not in answer
    assert all(each["state"] == "held" and each["keys"] for each in answer["originals"])
    page = json.loads(gateway.get("/v1/why?held=1&limit=2").body)
    assert [each["ticket"] for each in page["originals"]] == held[:2]
    page = json.loads(gateway.get(f"/v1/why?held=1&limit=9&before={page['next']}").body)
    assert [each["ticket"] for each in page["originals"]] == held[2:]
    code, out, err = run("why", "--held", "--limit", "2", "--url", url(gateway))
    assert code == 0 and re.findall(r"^ticket (\S+),", out, re.M) == held[:2], err
    assert out.endswith(f"\nmore: stile why --held --before {held[1]}\n")
    assert run("release", "--url", url(gateway), held[0])[0] == 0
    code, out, err = run("why", "--held", "--json", "--before", held[1], "--source", "orders",
                         "--url", url(gateway))
    assert code == 0, err
    assert [each["ticket"] for each in json.loads(out)["originals"]] == held[2:]
    assert json.loads(gateway.get("/v1/why?held=1&source=genesys").body)["found"] == 0
    assert run("why", "--held", "--data", gateway.data)[0] == 2
    assert run("why", "--before", held[0], "a", "--url", url(gateway))[0] == 2
    assert run("why", "--held", "a", "--url", url(gateway))[0] == 2


def test_event_that_only_passed_is_found_by_id_ticket_and_key(gateway, run):
    event = order()
    ticket = take(post(gateway, "/in/orders", event), "new")["ticket"]
    key = f"{event['customer']}, 7"
    for question in ({"id": event["id"]}, {"ticket": ticket}, {"any": ticket}, {"key": key},
                     {"key": event["customer"]}, {"any": event["customer"]}):
        found = story(why(gateway, **question), ticket)
        assert found["repeats"] == [] and found["type"] == "order.paid", question
        assert found["keys"] == [key] and found["seen"].startswith("20"), question
    text = ask_text(run, gateway, any=event["id"])
    assert "nothing like it came again" in text and f"key      {key}" in text
    assert f"ticket {ticket}, first seen 20" in text


def test_passed_event_of_two_claims_is_found_by_the_key_of_each(gateway, root):
    path = root / "tests" / "data" / "events" / "genesys_routing.json"
    event = {**json.loads(path.read_bytes()), "id": fresh("twice")}
    ticket = take(post(gateway, "/in/genesys", event), "new")["ticket"]
    first, second = story(why(gateway, key=event["id"]), ticket)["keys"]
    assert event["id"] in first and "INTERACTING" in second
    assert story(why(gateway, key=second), ticket)["id"] == event["id"]


def test_same_amount_in_another_body_is_not_called_the_same_content(gateway):
    event = {"id": fresh(), "amount": fresh()}
    ticket = take(post(gateway, "/in/chosen", event), "new")["ticket"]
    take(post(gateway, "/in/chosen", {**event, "id": fresh(), "note": "other"}), "duplicate")
    repeat, = story(why(gateway, ticket=ticket), ticket)["repeats"]
    assert repeat["content"] != "same" and "content is the same" not in repeat["why"], repeat


def test_each_event_of_a_batch_leaves_a_trace_of_its_own(gateway):
    batch = [order() for _ in range(5)]
    first = take_batch(post(gateway, "/in/orders", batch), ["new"] * 5)
    take_batch(post(gateway, "/in/orders", batch), ["duplicate"] * 5)
    for event, answer in zip(batch, first):
        found = story(why(gateway, id=event["id"]), answer["ticket"])
        repeat, = found["repeats"]
        assert repeat["keys"] == [f"{event['customer']}, 7"]


def test_replay_that_passed_is_marked_as_one(gateway, run):
    event = {"id": fresh(), "source": "s", "detail-type": "t", "detail": {"n": 1},
             "replay-name": "yesterday"}
    ticket = take(post(gateway, "/in/replays", event), "new")["ticket"]
    assert "replay" in story(why(gateway, id=event["id"]), ticket)["why"]
    assert "replay" in ask_text(run, gateway, ticket=ticket)


def test_long_id_is_found_by_all_of_it(gateway):
    event = order(id=fresh() + "ż" * 150)
    ticket = take(post(gateway, "/in/orders", event), "new")["ticket"]
    take(post(gateway, "/in/orders", event), "duplicate")
    assert story(why(gateway, id=event["id"]), ticket)["repeats_found"] == 1


def test_source_and_limit_narrow_the_answer(gateway):
    event = order()
    ticket = take(post(gateway, "/in/orders", event), "new")["ticket"]
    for _ in range(5):
        take(post(gateway, "/in/orders", event), "duplicate")
    found = story(why(gateway, id=event["id"], limit=2), ticket)
    assert found["repeats_found"] == 5 and len(found["repeats"]) == 2
    assert why(gateway, id=event["id"], source="orders")["found"] == 1
    assert why(gateway, id=event["id"], source="genesys")["found"] == 0


def test_nothing_found_is_an_answer_and_a_bad_question_is_400(gateway, run):
    assert why(gateway, any="none such")["found"] == 0
    assert "no trace of" in ask_text(run, gateway, any="none such")
    for query in ("", "id=", "id=a&key=b", "id=a&id=b", "what=a", "id=a&limit=0", "id=a&limit=x",
                  "id=a&format=xml", "id=a&format=text", "id=%4", "id=" + "x" * 3000):
        take_problem(gateway.get("/v1/why?" + query), 400)
    assert gateway.request("POST", "/v1/why?id=a", b"").status == 405


def test_hostile_id_reaches_neither_the_terminal_nor_breaks_the_json(gateway, run):
    name = f"{fresh()}\x1b[31m\r\n\u0000\u202e\"</script>"
    event = order(id=name)
    take(post(gateway, "/in/orders", event), "new")
    take(post(gateway, "/in/orders", event), "duplicate")
    assert why(gateway, key=event["customer"])["originals"][0]["id"] == name
    assert why(gateway, id=name)["found"] == 1
    code, out, err = run("why", "--url", url(gateway), event["customer"])
    assert code == 0, err
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", out), repr(out)


# ---- commands ----

def test_why_command_asks_the_gateway_or_reads_the_folder(gateway, run):
    event = order()
    ticket = take(post(gateway, "/in/orders", event), "new")["ticket"]
    take(post(gateway, "/in/orders", event), "duplicate")
    code, out, err = run("why", "--url", url(gateway), event["id"])
    assert code == 0 and ticket in out and "duplicate of" in out, err
    code, out, err = run("why", "--json", "--by", "ticket", "--url", url(gateway), ticket)
    assert code == 0, err
    assert story(json.loads(out), ticket)["repeats_found"] == 1
    # What a gateway has open is read all the same, once it is written.
    eventually(lambda: ticket in run("why", "--data", gateway.data, event["id"])[1],
               "the traces are on disk", pause_s=0.2)
    code, out, err = run("why", "--data", gateway.data, "--json", event["id"])
    assert code == 0 and story(json.loads(out), ticket)["id"] == event["id"], err
    for arguments in ((), ("a", "b"), ("--by", "what", "a"), ("",)):
        assert run("why", "--url", url(gateway), *arguments)[0] == 2
    code, _, err = run("why", "--url", "http://127.0.0.1:1", "a")
    assert code == 1 and "127.0.0.1" in err
    assert run("why", "--data", os.path.join(gateway.data, "none"), "a")[0] == 1


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_traces_are_there_after_a_restart(stile, config, run, end):
    gateway = stile("--config", config)
    event = order()
    ticket = take(post(gateway, "/in/orders", event), "new")["ticket"]
    take(post(gateway, "/in/orders", event), "duplicate")
    if end == "kill":
        eventually(lambda: "duplicate of" in run("why", "--data", gateway.data, event["id"])[1],
                   "the traces are on disk", pause_s=0.2)
        gateway.kill()
    else:
        assert gateway.stop() == 0
    assert ticket in run("why", "--data", gateway.data, event["id"])[1]
    gateway = stile("--config", config)
    found = story(why(gateway, id=event["id"]), ticket)
    assert found["repeats_found"] == 1
    take(post(gateway, "/in/orders", event), "duplicate")
    assert story(why(gateway, id=event["id"]), ticket)["repeats_found"] == 2


# ---- windows ----

def test_window_that_is_too_short_is_told_by_metric_advice_and_log(gateway, run):
    """Last in the file: the log is written every ten seconds, which the others have used."""
    assert sample(gateway, "stile_window_too_short", source="orders") == 0
    name, tickets = fresh(), set()

    def again():
        answer = post(gateway, "/in/brief", {"id": name}).json()
        tickets.update([answer["ticket"]] if answer["verdict"] == "new" else [])
        return len(tickets) > 1
    eventually(again, "the window of one second has ended", pause_s=0.05)
    eventually(lambda: sample(gateway, "stile_returned_after_window", source="brief") >= 1,
               "the return is counted", pause_s=0.1)
    assert sample(gateway, "stile_window_too_short", source="brief") == 1
    assert sample(gateway, "stile_duplicate_gap_max_seconds", source="brief") >= 1
    assert sample(gateway, "stile_window_advised_seconds", source="brief") >= 2
    assert sample(gateway, "stile_window_too_short", source="orders") == 0
    first = story(why(gateway, id=name), min(tickets))
    assert any(r["returned"] and "window had ended" in r["why"] for r in first["repeats"]), first

    advice = {a["source"]: a for a in json.loads(gateway.get("/v1/advise").body)["sources"]}
    assert advice["brief"]["state"] == "too short" and advice["brief"]["after_the_window"] >= 1
    assert advice["brief"]["window_ms"] == 1000 and advice["brief"]["advised_ms"] > 1000
    assert advice["genesys"]["window"] == "4d" and advice["orders"]["window_ms"] >= 3600000
    code, out, err = run("advise", "--url", url(gateway), "--source", "brief")
    assert code == 0 and "brief: window 1s is too short" in out and "is advised" in out, err
    assert "orders" not in out
    eventually(lambda: re.search(r'level=warn msg="window is too short" source=brief text="window 1s is too '
                                 r'short: duplicates arrive up to', gateway.log()),
               "the log tells it", pause_s=0.2)
    code, out, err = run("advise", "--data", gateway.data, "--window", "1s", "--json")
    assert code == 0, err
    folder = {a["source"]: a for a in json.loads(out)["sources"]}
    assert folder["brief"]["state"] == "too short", folder
    assert run("advise", "--window", "1s", "--url", url(gateway))[0] == 2


def test_a_conflict_tells_what_it_differs_in(stile, run, data):
    gateway = stile()
    name = fresh()
    first = {"id": name, "detail": {"status": "open", "at": 1, "by": "ann"}, "note": "x"}
    other = {"note": "x", "id": name, "detail": {"status": "paid", "at": 1.0}, "total": 3}
    take(post(gateway, "/in/events", first), "new")
    take(post(gateway, "/in/events", other), "conflict")
    repeat = why(gateway, id=name)["originals"][0]["repeats"][0]
    assert repeat["differences"] == 3
    assert sorted((one["path"], one["change"]) for one in repeat["difference"]) == [
        ("detail.by", "missing"), ("detail.status", "changed"), ("total", "added")]
    expected = "they differ in detail.status, detail.by (missing), total (added)"
    text = ask_text(run, gateway, id=name)
    assert expected in text, text
    held = run("why", "--url", url(gateway), "--held")[1]
    assert expected in held, held
    gateway.stop()
    code, out, _ = run("why", "--data", data, name)
    assert code == 0 and expected in out, out
