"""Sources of a configuration: paths, recipes, claims, windows, scopes, presets."""

import copy
import json

import pytest

from gatekit import fresh, post, sample, take, take_batch, write
from harness import eventually, take_problem

PRESETS = ("auto", "genesys", "eventbridge", "cxone", "cloudevents", "standard-webhooks", "sns",
           "sqs", "lambda", "journey", "stripe", "github", "shopify", "twilio")

CONFIG = """\
sources:
  orders:
    type: type
    claims:
      - once: [customerId, orderId, type]
        name: order
        window: 7d
      - newest: { entity: orderId, time: updatedAt }
        name: state
        when: { type: "order.state.*" }
        missing: skip
  parts:
    path: /in/parts/*
    claims: [{ once: ["path:3", "path:4?", "query:page", "header:X-Act", "const:sms"] }]
  exact: { path: /in/parts, claims: [{ once: [id] }] }
  typed: { claims: [{ once: [a, "b?"] }] }
  listed: { claims: [{ once: ["items[*].id", "items[0].kind?"] }] }
  reject: { claims: [{ once: [customer.id, "header:X-Need"] }] }
  skip:
    id: id
    claims:
      - { once: [id] }
      - { once: [customer.id], missing: skip }
  digest: { claims: [{ once: [customer.id], missing: digest }] }
  whole: { claims: [{ content: body }] }
  chosen: { claims: [{ content: [amount, currency] }] }
  except: { claims: [{ content: { except: [sentAt, meta.attempt] } }] }
  ties: { claims: [{ newest: { entity: [tenant, id], time: at, equal: drop } }] }
  passes: { claims: [{ newest: { entity: id, time: at } }] }
  ranks:
    claims:
      - newest: { entity: id, time: at, rank: { part: state, order: [connected, disconnected] },
                  equal: drop }
  rules:
    recipes:
      - { name: chats, when: { kind: chat }, claims: [{ once: [chatId] }] }
      - { name: mails, when: { kind: "mail*", "header:X-Test": "!yes" }, claims: [{ once: [mailId] }] }
  web: { scope: acts, claims: [{ once: [act], name: act }] }
  phone: { scope: acts, claims: [{ once: [act], name: act }] }
  alone: { claims: [{ once: [act], name: act }] }
  brief:
    claims:
      - { once: [id], window: 1s }
      - { content: [text], window: 1h }
  eventbridge-pass: { preset: eventbridge, on_replay: pass }
  genesys-more: { preset: genesys, claims: [{ content: ["detail.eventBody"], name: any }] }
  single: { preset: auto, batch: never }
  batches: { preset: auto }
""" + "".join(f"  p-{name}: {{ preset: {name} }}\n" for name in PRESETS)


@pytest.fixture(scope="module")
def gateway(module_stile, module_scratch):
    return module_stile("--config", write(module_scratch, "stile.yaml", CONFIG))


@pytest.fixture(scope="module")
def events(request):
    folder = request.path.parents[1] / "data" / "events"

    def read(name):
        return json.loads((folder / name).read_bytes())
    return read


# ---- paths and answers ----

def test_path_of_no_source_is_404_and_another_method_is_405(gateway):
    for path in ("/in/none", "/in/orders/", "/in/orders/1", "/in/order", "/in", "/"):
        take_problem(post(gateway, path, {}), 404)
    for method in ("GET", "PUT", "DELETE"):
        answer = gateway.request(method, "/in/orders", b"{}" if method == "PUT" else None)
        take_problem(answer, 405)
        assert answer.header("allow") == "POST"


def test_metrics_are_counted_by_source(gateway):
    def counts(source):
        return (sample(gateway, "stile_verdicts_total", source=source, verdict="new"),
                sample(gateway, "stile_verdicts_total", source=source, verdict="duplicate"),
                sample(gateway, "stile_refused_total", source=source))
    before, other = counts("digest"), counts("alone")
    event = {"customer": {"id": fresh()}}
    take(post(gateway, "/in/digest", event), "new")
    take(post(gateway, "/in/digest", event), "duplicate")
    take_problem(post(gateway, "/in/reject", {}), 400)
    assert counts("digest") == (before[0] + 1, before[1] + 1, before[2])
    assert counts("alone") == other
    assert sample(gateway, "stile_refused_total", source="reject") >= 1


def test_as_many_sources_as_there_may_be_have_their_metrics(stile, scratch):
    names = [f"{'s' * 60}{i:04}" for i in range(256)]
    config = write(scratch, "stile.yaml", "sources:\n" + "".join(
        f"  {name}: {{ preset: auto }}\n" for name in names))
    gateway = stile("--config", config)
    for name in (names[0], names[-1]):
        take(post(gateway, f"/in/{name}", {"id": "a"}), "new")
        assert sample(gateway, "stile_verdicts_total", source=name, verdict="new") == 1
    assert len(gateway.get("/v1/advise").json()["sources"]) == 256


# ---- parts ----

def parts(gateway, path="a/b", query="page=1", act="x"):
    return post(gateway, f"/in/parts/{path}?{query}", b"", [("X-Act", act)])


def test_path_segments_query_header_and_constant_are_parts(gateway):
    take(parts(gateway), "new")
    take(parts(gateway), "duplicate")
    take(parts(gateway, query="other=2&page=1"), "duplicate")
    take(parts(gateway, query="page=%31"), "duplicate")  # the value counts, not its spelling
    for change in ({"path": "a/c"}, {"path": "ab"}, {"path": "a"}, {"query": "page=2"},
                   {"act": "y"}):
        take(parts(gateway, **change), "new")
    detail = take_problem(parts(gateway, query="side=1"), 400)
    assert "page" in detail
    take_problem(parts(gateway, query="page=1&page=2"), 400)


def test_source_for_a_path_alone_is_asked_before_the_one_for_all_below(gateway):
    event = {"id": fresh()}
    before = sample(gateway, "stile_verdicts_total", source="exact", verdict="new")
    take(post(gateway, "/in/parts", event), "new")
    assert sample(gateway, "stile_verdicts_total", source="exact", verdict="new") == before + 1


def test_parts_are_typed_and_never_run_into_each_other(gateway):
    known = [{"a": "12", "b": "3"}, {"a": "1", "b": "23"}, {"a": "123"}, {"a": 123}, {"a": "1"},
             {"a": 1}, {"a": True}, {"a": "true"}, {"a": "1", "b": None}, {"a": "1", "b": ""},
             {"a": "1", "b": "null"}, {"a": {"x": 1}}, {"a": '{"x":1}'}, {"a": [1]},
             {"a": [[1]]}]
    for event in known:
        take(post(gateway, "/in/typed", event), "new")
    for event in known:
        take(post(gateway, "/in/typed", event), "duplicate")
    # The same value, written otherwise: only the content as it was written is another.
    for text in (b'{"a":1.0}', b'{"a":10e-1}', b'{"a": "\\u0031"}'):
        take(post(gateway, "/in/typed", text), "conflict")


def test_all_elements_of_a_list_are_a_part_in_their_order(gateway):
    def ids(*values):
        return {"items": [{"id": value} for value in values]}
    take(post(gateway, "/in/listed", ids("a", "b")), "new")
    take(post(gateway, "/in/listed", ids("a", "b")), "duplicate")
    for other in (ids("b", "a"), ids("a"), ids("a", "b", "c"), ids("ab")):
        take(post(gateway, "/in/listed", other), "new")
    assert "items" in take_problem(post(gateway, "/in/listed", {"items": []}), 400)
    assert "items" in take_problem(post(gateway, "/in/listed", {"items": [{"id": 1}, {}]}), 400)


def test_name_twice_on_a_used_path_is_refused_and_elsewhere_is_not(gateway):
    twice = b'{"a":"%s","a":"%s"}' % (fresh().encode(), fresh().encode())
    take_problem(post(gateway, "/in/typed", twice), 400)
    take(post(gateway, "/in/typed", b'{"a":"%s","z":1,"z":2}' % fresh().encode()), "new")


# ---- what is missing ----

def test_missing_part_is_refused_by_its_name(gateway):
    need = [("X-Need", "y")]
    for event in ({}, {"customer": {}}, {"customer": {"id": None}}, {"customer": {"id": ""}},
                  {"customer": "x"}):
        assert "customer.id" in take_problem(post(gateway, "/in/reject", event, need), 400)
    good = {"customer": {"id": fresh()}}
    assert "x-need" in take_problem(post(gateway, "/in/reject", good), 400).lower()
    take(post(gateway, "/in/reject", good, need), "new")


def test_claim_with_a_missing_part_is_left_out_if_it_says_so(gateway):
    first, second, customer = fresh(), fresh(), fresh("c")
    take(post(gateway, "/in/skip", {"id": first}), "new")
    take(post(gateway, "/in/skip", {"id": second}), "new")
    take(post(gateway, "/in/skip", {"id": first}), "duplicate")
    event = {"id": fresh(), "customer": {"id": customer}}
    ticket = take(post(gateway, "/in/skip", event), "new")["ticket"]
    again = post(gateway, "/in/skip", {**event, "id": fresh()})
    assert take(again, "conflict")["ticket"] == ticket


def test_claim_with_a_missing_part_takes_the_body_if_it_says_so(gateway):
    mark = fresh()
    take(post(gateway, "/in/digest", {"x": mark, "y": 1}), "new")
    take(post(gateway, "/in/digest", {"y": 1, "x": mark}), "conflict")  # canonical: the same body
    take(post(gateway, "/in/digest", {"x": mark, "y": 2}), "new")
    take(post(gateway, "/in/digest", mark.encode()), "new")  # not JSON at all
    take(post(gateway, "/in/digest", mark.encode()), "duplicate")


# ---- content ----

def test_content_of_the_body_is_canonical(gateway):
    mark = fresh()
    take(post(gateway, "/in/whole", f'{{"a":"{mark}","n":1.0}}'.encode()), "new")
    take(post(gateway, "/in/whole", f'{{ "n": 1e0,\n"a": "{mark}" }}'.encode()), "duplicate")
    take(post(gateway, "/in/whole", f'{{"a":"{mark}","n":1.5}}'.encode()), "new")
    take(post(gateway, "/in/whole", f'{{"a":"{mark}","n":"1"}}'.encode()), "new")


def test_content_of_chosen_members_and_of_all_but_some(gateway):
    amount = fresh()
    event = {"amount": amount, "currency": "EUR", "id": "1"}
    take(post(gateway, "/in/chosen", event), "new")
    take(post(gateway, "/in/chosen", {**event, "id": "2"}), "duplicate")
    take(post(gateway, "/in/chosen", {**event, "currency": "USD"}), "new")
    event = {"text": fresh(), "sentAt": 1, "meta": {"attempt": 1, "kind": "a"}}
    take(post(gateway, "/in/except", event), "new")
    take(post(gateway, "/in/except", {**event, "sentAt": 2}), "duplicate")
    take(post(gateway, "/in/except", {**event, "meta": {"kind": "a", "attempt": 9}}), "duplicate")
    take(post(gateway, "/in/except", {"text": event["text"], "meta": {"kind": "a"}}), "duplicate")
    take(post(gateway, "/in/except", {**event, "meta": {"attempt": 1, "kind": "b"}}), "new")


# ---- newest ----

def test_newest_with_equal_drop_goes_forwards_only(gateway):
    entity = fresh()

    def at(time, tenant="t"):
        return post(gateway, "/in/ties", {"tenant": tenant, "id": entity, "at": time})
    ticket = take(at("2026-01-02T03:04:05.678Z"), "new")["ticket"]
    assert take(at("2026-01-02T03:04:05.678Z"), "stale")["ticket"] == ticket
    take(at("2026-01-02T03:04:05.677Z"), "stale")
    take(at("2026-01-02T04:04:05.677+01:00"), "stale")  # the same instant, elsewhere
    take(at(1767323045679), "new")                      # a millisecond later, as a number
    take(at("2026-01-02T03:04:05.678Z"), "stale")
    take(at("2026-01-02T03:04:05.678Z", tenant="u"), "new")
    assert "at" in take_problem(at("yesterday"), 400)
    assert "at" in take_problem(at(None), 400)


def test_newest_lets_an_equal_time_pass_unless_told_otherwise(gateway):
    event = {"id": fresh(), "at": "2026-01-02T03:04:05Z"}
    take(post(gateway, "/in/passes", event), "new")
    take(post(gateway, "/in/passes", event), "new")
    take(post(gateway, "/in/passes", {**event, "at": "2026-01-02T03:04:04.999Z"}), "stale")


def test_rank_decides_between_states_of_one_time(gateway):
    entity = fresh()

    def state(name, time=1767323045678):
        return post(gateway, "/in/ranks", {"id": entity, "at": time, "state": name})
    take(state("connected"), "new")
    take(state("connected"), "stale")
    take(state("unknown"), "stale")  # what has no rank comes before all that have
    take(state("disconnected"), "new")
    take(state("connected"), "stale")
    take(state("disconnected", 1767323045677), "stale")
    take(state("connected", 1767323045679), "new")


def test_claims_are_decided_together_and_an_older_state_takes_none(gateway):
    order = fresh("o")

    def event(customer, kind, time=None):
        made = {"customerId": customer, "orderId": order, "type": kind}
        return {**made, "updatedAt": time} if time else made
    take(post(gateway, "/in/orders", event("1", "order.state.paid", 2000000000000)), "new")
    old = event("2", "order.state.open", 1000000000000)
    take(post(gateway, "/in/orders", old), "stale")
    # It was dropped as a whole: its key is free when the same comes with a later time.
    take(post(gateway, "/in/orders", {**old, "updatedAt": 2000000000001}), "new")
    # Of another type the order's state does not matter.
    take(post(gateway, "/in/orders", event("2", "order.note", 1000000000000)), "new")
    take(post(gateway, "/in/orders", event("3", "order.note")), "new")


# ---- rules, scopes, windows ----

def test_when_picks_the_recipe_and_what_no_rule_is_for_is_refused(gateway):
    chat, mail = fresh(), fresh()
    take(post(gateway, "/in/rules", {"kind": "chat", "chatId": chat}), "new")
    take(post(gateway, "/in/rules", {"kind": "chat", "chatId": chat}), "duplicate")
    event = {"kind": "mail.in", "mailId": mail, "chatId": chat}
    take(post(gateway, "/in/rules", event), "new")
    take(post(gateway, "/in/rules", event), "duplicate")
    take_problem(post(gateway, "/in/rules", event, [("X-Test", "yes")]), 400)
    take_problem(post(gateway, "/in/rules", {"kind": "call", "chatId": chat}), 400)
    assert "chatId" in take_problem(post(gateway, "/in/rules", {"kind": "chat"}), 400)


def test_same_act_by_two_ways_is_caught_in_a_shared_scope_and_only_there(gateway):
    event = {"act": fresh()}
    ticket = take(post(gateway, "/in/web", event), "new")["ticket"]
    assert take(post(gateway, "/in/phone", event), "duplicate")["ticket"] == ticket
    take(post(gateway, "/in/alone", event), "new")
    assert sample(gateway, "stile_verdicts_total", source="phone", verdict="duplicate") >= 1


def test_each_claim_has_a_window_of_its_own(gateway):
    first = {"id": fresh(), "text": fresh()}
    ticket = take(post(gateway, "/in/brief", first), "new")["ticket"]
    assert take(post(gateway, "/in/brief", {**first, "id": fresh()}), "duplicate")["ticket"] == \
        ticket

    def expired():
        answer = post(gateway, "/in/brief", {"id": first["id"], "text": fresh()}).json()
        return answer["verdict"] == "new"
    eventually(expired, "a claim of one second ends", pause_s=0.1)
    take(post(gateway, "/in/brief", {**first, "id": fresh()}), "duplicate")


# ---- presets ----

def republished(event):
    """The same act in a new envelope, as Genesys does it after an outage."""
    made = copy.deepcopy(event)
    made["id"] = fresh("envelope")
    made["time"] = "2026-03-05T00:00:00Z"
    made["detail"]["metadata"]["CorrelationId"] = fresh("correlation")
    made["detail"]["timestamp"] = "2026-03-05T00:00:00.000Z"
    return made


# What makes an update of a topic a genuine one: the path of a member, and its new value.
GENESYS = {
    "audit": ("id", "another"),
    "conversation": ("eventTime", 1772600767891),
    "presence": ("modifiedDate", "2026-03-04T05:06:07.124Z"),
    "routing": ("routingStatus.status", "IDLE"),
    "metrics": ("metric", "tHeld"),
    "flow_metrics": ("metricDate", "2026-03-04T05:06:07.999Z"),
    "queue": ("participants.0.state", "connected"),
    "transcription": ("transcripts.0.isFinal", False),
    "journey": ("id", "another"),
    "other": ("numberOfContactsCalled", 11),
}


def changed(event, path, value):
    made = copy.deepcopy(event)
    *way, last = path.split(".")
    at = made["detail"]["eventBody"]
    for step in way:
        at = at[int(step)] if step.isdigit() else at[step]
    at[int(last) if last.isdigit() else last] = value
    return made


@pytest.mark.parametrize("path", ["/in/p-genesys", "/in/p-auto"])
@pytest.mark.parametrize("family", GENESYS)
def test_genesys_republication_is_a_duplicate_and_an_update_is_new(gateway, events, family, path):
    event = events(f"genesys_{family}.json")
    ticket = take(post(gateway, path, event), "new")["ticket"]
    assert take(post(gateway, path, event), "duplicate")["ticket"] == ticket
    for _ in range(2):
        assert take(post(gateway, path, republished(event)), "duplicate")["ticket"] == ticket
    update = changed(republished(event), *GENESYS[family])
    assert take(post(gateway, path, update), "new")["ticket"] != ticket
    take(post(gateway, path, republished(update)), "duplicate")


def test_genesys_optional_outcome_and_wrapup_are_part_of_the_key(gateway, events):
    event = changed(events("genesys_conversation.json"), "eventTime", 1772600799999)
    for name in ("flowOutcomeId", "wrapupCode"):
        one = changed(republished(event), name, fresh())
        take(post(gateway, "/in/p-genesys", one), "new")
        take(post(gateway, "/in/p-genesys", republished(one)), "duplicate")


def test_claims_beside_a_preset_are_added_to_its_own(gateway, events):
    event = events("genesys_audit.json")
    take(post(gateway, "/in/genesys-more", event), "new")
    other = changed(republished(event), "id", "another id")
    take(post(gateway, "/in/genesys-more", other), "new")
    other = republished(other)
    other["detail"]["topicName"] += "x"
    take(post(gateway, "/in/genesys-more", other), "duplicate")


FORM = ("Content-Type", "application/x-www-form-urlencoded")


def headed(name, events, suffix):
    """Preset, body and headers of an event that is known by its headers (or its form)."""
    if name == "standard-webhooks":
        return events("standard_webhooks.json"), [("webhook-id", f"msg_{suffix}"),
                                                  ("webhook-timestamp", "1772600767")]
    if name == "github":
        return events("github.json"), [("X-GitHub-Delivery", f"72d3162e-{suffix}"),
                                       ("X-GitHub-Event", "pull_request")]
    if name == "shopify":
        return events("shopify.json"), [
            ("X-Shopify-Topic", "orders/create"), ("X-Shopify-Shop-Domain", "a.myshopify.com"),
            ("X-Shopify-Webhook-Id", f"b54557e4-{suffix}"),
            ("X-Shopify-Event-Id", f"98880550-{suffix}")]
    if name == "cloudevents":
        return b"any \xff bytes", [("ce-specversion", "1.0"), ("ce-type", "t"),
                                   ("ce-source", "/s"), ("ce-id", suffix)]
    status = {"a": "delivered", "b": "sent"}[suffix]
    return (f"MessageSid=SM{'0' * 31}a&AccountSid=AC{'0' * 31}a&MessageStatus={status}"
            f"&To=%2B15558675310").encode(), [FORM]


@pytest.mark.parametrize("way", ["preset", "auto"])
@pytest.mark.parametrize("name", ["standard-webhooks", "github", "shopify", "cloudevents",
                                  "twilio"])
def test_event_known_by_its_headers_is_new_once(gateway, events, name, way):
    path = f"/in/p-{name}" if way == "preset" else "/in/p-auto"
    body, headers = headed(name, events, "a")
    ticket = take(post(gateway, path, body, headers), "new")["ticket"]
    assert take(post(gateway, path, body, headers), "duplicate")["ticket"] == ticket
    body, headers = headed(name, events, "b")
    take(post(gateway, path, body, headers), "new")


BODIES = {
    "eventbridge": ("eventbridge.json", "id"),
    "cxone": ("cxone.json", "eventId"),
    "cloudevents": ("cloudevents.json", "id"),
    "sns": ("sns.json", "MessageId"),
    "stripe": ("stripe.json", "id"),
    "genesys": ("genesys_message.json", "id"),
}


@pytest.mark.parametrize("way", ["preset", "auto"])
@pytest.mark.parametrize("name", BODIES)
def test_event_known_by_its_body_is_new_once(gateway, events, name, way):
    path = f"/in/p-{name}" if way == "preset" else "/in/p-auto"
    file, key = BODIES[name]
    event = {**events(file), key: fresh()}
    ticket = take(post(gateway, path, event), "new")["ticket"]
    assert take(post(gateway, path, event), "duplicate")["ticket"] == ticket
    take(post(gateway, path, {**event, key: fresh()}), "new")


def test_what_changes_from_delivery_to_delivery_is_no_conflict(gateway, events):
    event = {**events("stripe.json"), "id": fresh("evt_")}
    take(post(gateway, "/in/p-stripe", event), "new")
    take(post(gateway, "/in/p-stripe", {**event, "pending_webhooks": 1}), "duplicate")
    event = {**events("sns.json"), "MessageId": fresh()}
    take(post(gateway, "/in/p-sns", event), "new")
    take(post(gateway, "/in/p-sns", {**event, "Signature": "Other=="}), "duplicate")


@pytest.mark.parametrize("preset, file, count", [
    ("journey", "journey.json", 2), ("lambda", "lambda_sqs.json", 3),
    ("lambda", "lambda_sns.json", 2), ("sqs", "sqs_messages.json", 2)])
@pytest.mark.parametrize("way", ["preset", "auto"])
def test_batch_of_a_platform_is_new_once(gateway, events, preset, file, count, way):
    path = f"/in/p-{preset}" if way == "preset" else "/in/batches"
    first = take_batch(post(gateway, path, events(file)), ["new"] * count)
    again = take_batch(post(gateway, path, events(file)), ["duplicate"] * count)
    assert [event["ticket"] for event in first] == [event["ticket"] for event in again]


def test_event_inside_a_queue_message_is_the_same_as_the_event_itself(gateway, events):
    event = {**events("eventbridge.json"), "id": fresh()}
    ticket = take(post(gateway, "/in/p-sqs", event), "new")["ticket"]
    messages = events("sqs_messages.json")
    messages["Messages"][1].update(Body=json.dumps(event, indent=1), MessageId=fresh())
    messages["Messages"][0]["MessageId"] = fresh()
    found = take_batch(post(gateway, "/in/p-sqs", messages), ["new", "duplicate"])
    assert found[1]["ticket"] == ticket


def test_shared_vectors_are_new_once_with_every_preset_that_is_for_them(gateway, root):
    folder = root.parent / "shared" / "vectors"
    if not folder.exists():
        pytest.skip("the vectors are not there")
    for preset, files in (("genesys", "genesys/*.json"), ("lambda", "aws/s*Event.json"),
                          ("eventbridge", "aws/eventBridgeEvent.json")):
        for path in sorted(folder.glob(files)):
            if "signature" in path.name or "Dlq" in path.name:
                continue
            post(gateway, f"/in/p-{preset}", path.read_bytes())
            answer = post(gateway, f"/in/p-{preset}", path.read_bytes())
            body = answer.json()
            found = [e["verdict"] for e in body["events"]] if "events" in body else \
                [body["verdict"]]
            assert answer.status == 200 and set(found) == {"duplicate"}, (path.name, answer)


# ---- replays ----

def test_replay_is_gated_or_passes_as_the_source_says(gateway, events):
    event = {**events("eventbridge.json"), "id": fresh()}
    replay = {**event, "replay-name": "yesterday"}
    take(post(gateway, "/in/p-eventbridge", event), "new")
    take(post(gateway, "/in/p-eventbridge", replay), "duplicate")
    ticket = take(post(gateway, "/in/eventbridge-pass", event), "new")["ticket"]
    assert take(post(gateway, "/in/eventbridge-pass", replay), "new")["ticket"] != ticket
    take(post(gateway, "/in/eventbridge-pass", replay), "new")
    assert take(post(gateway, "/in/eventbridge-pass", event), "duplicate")["ticket"] == ticket


def test_batch_never_takes_the_request_as_one_event(gateway):
    take(post(gateway, "/in/single", {"id": fresh()}), "new")
    take_problem(post(gateway, "/in/single", [{"id": fresh()}]), 400)
