"""Conflict, stale, busy and shadow: what is answered, kept aside, counted and told."""

import pytest

from gatekit import fresh, post, printed, sample, take, take_batch, why, write
from harness import eventually, take_problem

CONFIG = """\
print: envelope
sources:
  keep: { id: id, claims: [{ once: [id], name: act }] }
  pass: { on_conflict: let through, claims: [{ once: [id] }] }
  reject: { on_conflict: reject, claims: [{ once: [id] }] }
  value: { compare: value, claims: [{ once: [id] }] }
  part: { content: data, claims: [{ once: [id] }] }
  two: { claims: [{ once: [id] }, { once: [act] }, { content: [text], missing: skip }] }
  busy: { ack: delivered, wait: 50ms, claims: [{ once: [id] }] }
  trial:
    mode: shadow
    id: id
    claims:
      - { once: [id], name: act }
      - { newest: { entity: who, time: at }, missing: skip, name: state }
  half:
    id: id
    claims:
      - { once: [id], name: act }
      - { content: [text], mode: shadow, name: words }
"""


@pytest.fixture(scope="module")
def config(module_scratch):
    return write(module_scratch, "stile.yaml", CONFIG)


@pytest.fixture(scope="module")
def gateway(module_stile, config):
    return module_stile("--config", config)


def url(gateway):
    return gateway.admin_url()


def tickets_printed(gateway):
    return [line["ticket"] for line in printed(gateway)]


def wait_printed(gateway, ticket):
    eventually(lambda: ticket in tickets_printed(gateway), f"{ticket} is printed")
    assert tickets_printed(gateway).count(ticket) == 1


def settle(gateway):
    """Until all that can be delivered is."""
    eventually(lambda: gateway.metrics()["stile_open_tickets"].value() ==
               gateway.metrics()["stile_held_tickets"].value(), "only held tickets are open")


def make_conflict(gateway, path="/in/keep"):
    """(id, the first one's ticket, the answer to the second)."""
    name = fresh("c")
    ticket = take(post(gateway, path, {"id": name, "amount": 1}), "new")["ticket"]
    return name, ticket, take(post(gateway, path, {"id": name, "amount": 2}), "conflict")


# ---- conflict: keep first ----

def test_conflict_is_kept_aside_and_not_delivered(gateway):
    held = sample(gateway, "stile_held_tickets")
    name, ticket, body = make_conflict(gateway)
    assert body["ticket"] == ticket and body["aside"] > ticket
    assert sample(gateway, "stile_held_tickets") == held + 1
    # A repeat of either is a duplicate of it, and keeps nothing more.
    for amount, original in ((2, body["aside"]), (1, ticket), (2, body["aside"])):
        again = post(gateway, "/in/keep", {"id": name, "amount": amount})
        assert take(again, "duplicate")["ticket"] == original
    third = take(post(gateway, "/in/keep", {"id": name, "amount": 3}), "conflict")
    assert third["aside"] not in (ticket, body["aside"]) and third["ticket"] == ticket
    assert sample(gateway, "stile_held_tickets") == held + 2
    wait_printed(gateway, ticket)
    settle(gateway)
    assert body["aside"] not in tickets_printed(gateway)


def test_same_value_written_anew_is_a_duplicate_where_values_are_compared(gateway):
    for path, verdict in (("/in/value", "duplicate"), ("/in/keep", "conflict")):
        name = fresh()
        take(post(gateway, path, f'{{"id":"{name}","amount":10,"to":"\\u0041"}}'.encode()), "new")
        again = f'{{ "to": "A", "amount": 10.0, "id": "{name}" }}'.encode()
        take(post(gateway, path, again), verdict)
        take(post(gateway, path, {"id": name, "amount": 11, "to": "A"}), "conflict")


def test_conflict_is_in_why_and_in_the_metrics(gateway):
    before = sample(gateway, "stile_verdicts_total", source="keep", verdict="conflict")
    name, ticket, body = make_conflict(gateway)
    assert sample(gateway, "stile_verdicts_total", source="keep", verdict="conflict") == before + 1
    for question in ({"id": name}, {"ticket": ticket}, {"any": ticket}, {"key": name}):
        answer = why(gateway, **question)
        original = next(o for o in answer["originals"] if o["ticket"] == ticket)
        repeat, = original["repeats"]
        assert repeat["verdict"] == "conflict" and repeat["ticket"] == body["aside"], answer
        assert repeat["content"] == "other" and repeat["claim"] == "act", answer
        assert "other content" in repeat["why"]


def test_release_delivers_the_event_once_and_only_once(gateway, run):
    name, ticket, body = make_conflict(gateway)
    aside, held = body["aside"], sample(gateway, "stile_held_tickets")
    code, out, err = run("release", "--url", url(gateway), aside)
    assert code == 0 and aside in out and "released" in out, err
    wait_printed(gateway, aside)
    line = next(line for line in printed(gateway) if line["ticket"] == aside)
    assert line["event"] == {"id": name, "amount": 2} and line["source"] == "keep"
    assert sample(gateway, "stile_held_tickets") == held - 1
    code, _, err = run("release", "--url", url(gateway), aside)
    assert code == 1 and "409" in err, err
    code, _, err = run("release", "--url", url(gateway), ticket)
    assert code == 1, "the first one was never held"
    settle(gateway)
    assert tickets_printed(gateway).count(aside) == 1
    assert take(post(gateway, "/in/keep", {"id": name, "amount": 2}), "duplicate")["ticket"] == \
        aside


def test_drop_forgets_the_event_and_its_repeat_stays_a_duplicate(gateway, run):
    name, _, body = make_conflict(gateway)
    code, out, err = run("release", "--drop", "--url", url(gateway), body["aside"])
    assert code == 0 and "dropped" in out, err
    code, _, err = run("release", "--url", url(gateway), body["aside"])
    assert code == 1 and "409" in err
    take(post(gateway, "/in/keep", {"id": name, "amount": 2}), "duplicate")
    settle(gateway)
    assert body["aside"] not in tickets_printed(gateway)


def test_release_of_nonsense_is_refused(gateway, run):
    for arguments in (("x",), ("00000000000",), ()):
        code, _, err = run("release", "--url", url(gateway), *arguments)
        assert code == 2 and err, (arguments, err)
    ticket = make_conflict(gateway)[1]  # one that is not held
    for path, status in (("x/release", 400), ("00000000000/drop", 400), (f"{ticket}/keep", 404),
                         (f"{ticket}/release", 409), (f"{ticket}/drop", 409), ("", 404)):
        assert gateway.request("POST", f"/v1/tickets/{path}", b"").status == status, path
    answer = gateway.get(f"/v1/tickets/{ticket}/release")
    assert answer.status == 405 and answer.header("allow") == "POST"


@pytest.mark.parametrize("commit", ["inline", "thread"])
def test_held_event_survives_a_kill_and_can_then_be_released(stile, config, run, commit):
    options = ("--config", config, "--commit", commit)
    gateway = stile(*options)
    name, ticket, body = make_conflict(gateway)
    other = make_conflict(gateway)[2]
    gateway.kill()
    gateway = stile(*options)
    assert sample(gateway, "stile_held_tickets") == 2
    assert take(post(gateway, "/in/keep", {"id": name, "amount": 2}), "duplicate")["ticket"] == \
        body["aside"]
    assert run("release", "--url", url(gateway), body["aside"])[0] == 0
    assert run("release", "--drop", "--url", url(gateway), other["aside"])[0] == 0
    wait_printed(gateway, body["aside"])
    settle(gateway)
    gateway.kill()
    gateway = stile(*options)
    assert sample(gateway, "stile_held_tickets") == 0
    settle(gateway)
    assert body["aside"] not in tickets_printed(gateway), "delivered a second time"
    assert other["aside"] not in tickets_printed(gateway)
    assert take(post(gateway, "/in/keep", {"id": name, "amount": 1}), "duplicate")["ticket"] == \
        ticket
    assert gateway.stop() == 0


def test_held_event_stays_held_over_a_stop_that_does_not_wait_for_it(stile, config):
    gateway = stile("--config", config)
    make_conflict(gateway)
    assert gateway.stop() == 0
    assert "open events remain for the next start" not in gateway.log()
    gateway = stile("--config", config)
    assert sample(gateway, "stile_held_tickets") == 1
    assert gateway.stop() == 0


# ---- conflict: the other policies ----

def test_conflict_that_is_let_through_is_delivered_and_marked(gateway):
    name, ticket, body = make_conflict(gateway, "/in/pass")
    assert body["passed_as"] not in (ticket, None)
    answer = post(gateway, "/in/pass", {"id": name, "amount": 3})
    again = take(answer, "conflict")
    assert answer.header("stile-ticket") == again["passed_as"]
    # The latest has the claim from then on.
    assert again["ticket"] == body["passed_as"]
    assert take(post(gateway, "/in/pass", {"id": name, "amount": 3}), "duplicate")["ticket"] == \
        again["passed_as"]
    for each in (ticket, body["passed_as"], again["passed_as"]):
        wait_printed(gateway, each)


def test_conflict_that_is_rejected_is_422_and_leaves_nothing(gateway):
    name, held = fresh(), sample(gateway, "stile_held_tickets")
    ticket = take(post(gateway, "/in/reject", {"id": name, "n": 1}), "new")["ticket"]
    for _ in range(2):
        body = take(post(gateway, "/in/reject", {"id": name, "n": 2}), "conflict", status=422)
        assert body["ticket"] == ticket and "aside" not in body
    assert take(post(gateway, "/in/reject", {"id": name, "n": 1}), "duplicate")["ticket"] == ticket
    assert sample(gateway, "stile_held_tickets") == held
    batch = [{"id": name, "n": 2}, {"id": fresh(), "n": 1}]
    take_batch(post(gateway, "/in/reject", batch), ["conflict", "new"])


def test_only_the_part_that_is_called_content_makes_a_conflict(gateway):
    event = {"id": fresh(), "data": {"a": 1}, "sentAt": 1}
    take(post(gateway, "/in/part", event), "new")
    take(post(gateway, "/in/part", {**event, "sentAt": 2}), "duplicate")
    take(post(gateway, "/in/part", b' { "id": "%s", "data": { "a":\t1 } } ' %
              event["id"].encode()), "duplicate")
    take(post(gateway, "/in/part", {**event, "data": {"a": 2}}), "conflict")


def test_first_claim_that_knows_the_event_decides_and_nothing_else_is_taken(gateway):
    first = {"id": fresh(), "act": fresh(), "text": fresh()}
    ticket = take(post(gateway, "/in/two", first), "new")["ticket"]
    other = {"id": fresh(), "act": fresh(), "text": first["text"]}
    assert take(post(gateway, "/in/two", other), "duplicate")["ticket"] == ticket
    # The duplicate took neither its id nor its act.
    take(post(gateway, "/in/two", {**other, "text": fresh()}), "new")
    same_act = {"id": fresh(), "act": first["act"], "text": fresh()}
    assert take(post(gateway, "/in/two", same_act), "conflict")["ticket"] == ticket
    take(post(gateway, "/in/two", {**same_act, "act": fresh()}), "new")


# ---- stale ----

def test_stale_event_is_traced_and_counted(gateway, stile, scratch):
    config = write(scratch, "stile.yaml", "sources:\n  s: { id: id, claims: [{ newest: { entity: "
                   "who, time: at }, name: state }] }\n")
    gateway = stile("--config", config)
    ticket = take(post(gateway, "/in/s", {"id": "n", "who": "w", "at": 2000000000}), "new")["ticket"]
    body = take(post(gateway, "/in/s", {"id": "o", "who": "w", "at": 1999999999}), "stale")
    assert body["ticket"] == ticket and body["first_seen"]
    assert sample(gateway, "stile_verdicts_total", source="s", verdict="stale") == 1
    repeat, = why(gateway, id="o")["originals"][0]["repeats"]
    assert repeat["verdict"] == "stale" and repeat["claim"] == "state"
    gateway.kill()
    gateway = stile("--config", config)
    take(post(gateway, "/in/s", {"id": "o", "who": "w", "at": 1999999999}), "stale")
    take(post(gateway, "/in/s", {"id": "p", "who": "w", "at": 2000000001}), "new")


# ---- busy ----

def test_repeat_is_busy_until_the_outcome_of_the_first_is_known(stile, config, blockage):
    gateway = stile("--config", config, stdout=blockage.write_fd)
    event = {"id": fresh()}
    ticket = take(post(gateway, "/in/busy", event), "new", status=503)["ticket"]
    answer = post(gateway, "/in/busy", event)
    assert take(answer, "busy", status=503)["ticket"] == ticket
    assert int(answer.header("retry-after")) >= 1
    batch = post(gateway, "/in/busy", [event, {"id": fresh()}])
    assert int(batch.header("retry-after")) >= 1
    take_batch(batch, ["busy", "new"], status=503)
    take(post(gateway, "/in/keep", event), "new")
    take(post(gateway, "/in/keep", event), "duplicate")  # nobody waits there
    assert sample(gateway, "stile_verdicts_total", source="busy", verdict="busy") == 2
    blockage.release()
    gateway.wait_settled()
    assert take(post(gateway, "/in/busy", event), "duplicate")["ticket"] == ticket


# ---- shadow ----

def test_source_on_trial_lets_everything_pass_and_says_what_it_would_have_done(gateway):
    name, who = fresh(), fresh()

    def counts():
        return {verdict: sample(gateway, "stile_shadow_verdicts_total", source="trial",
                                verdict=verdict) for verdict in ("duplicate", "conflict", "stale")}
    before, passed = counts(), sample(gateway, "stile_verdicts_total", source="trial",
                                      verdict="new")
    event = {"id": name, "who": who, "at": 2000000000}
    answer = post(gateway, "/in/trial", event)
    ticket = take(answer, "new")["ticket"]
    assert answer.header("stile-would") is None and "would" not in answer.json()
    tickets = [ticket]
    for other, would in ((event, "duplicate"), ({**event, "x": 1}, "conflict"),
                         ({**event, "id": fresh(), "at": 1999999999}, "stale")):
        answer = post(gateway, "/in/trial", other)
        body = take(answer, "new")
        assert body["would"] == would == answer.header("stile-would"), answer
        # An equal time passes, and moves the entity on.
        original = tickets[-1] if would == "stale" else ticket
        assert body["would_original"] == original, answer
        assert body["ticket"] not in tickets
        tickets.append(body["ticket"])
    assert counts() == {verdict: count + 1 for verdict, count in before.items()}
    assert sample(gateway, "stile_verdicts_total", source="trial", verdict="new") == passed + 4
    for each in tickets:
        wait_printed(gateway, each)
    found = why(gateway, id=name)["originals"]
    repeats = [r for o in found if o["ticket"] == ticket for r in o["repeats"] if r["shadow"]]
    assert {r["verdict"] for r in repeats} >= {"duplicate", "conflict"}, found
    assert all("shadow" in r["why"] for r in repeats)


def test_claim_on_trial_drops_nothing_while_the_others_do(gateway):
    event = {"id": fresh(), "text": fresh()}
    ticket = take(post(gateway, "/in/half", event), "new")["ticket"]
    answer = take(post(gateway, "/in/half", event), "duplicate")
    assert answer["ticket"] == ticket and "would" not in answer
    body = take(post(gateway, "/in/half", {**event, "id": fresh()}), "new")
    assert body["would"] == "duplicate" and body["would_original"] == ticket
    batch = [{**event, "id": fresh()}, {"id": fresh(), "text": fresh()}]
    found = take_batch(post(gateway, "/in/half", batch), ["new", "new"])
    assert found[0]["would"] == "duplicate" and "would" not in found[1]


def test_problem_of_an_event_that_no_policy_concerns_is_400(gateway):
    take_problem(post(gateway, "/in/trial", {}), 400)
