"""Many clients, the same keys, at once: one is new, the others are duplicates."""

import random
import threading

import pytest

from load import DECISION, Oracle, Pipeline, post_all

CLIENTS = 64
MODES = pytest.mark.parametrize(
    "options", [(), ("--threads", "2"), ("--commit", "thread"), ("--commit", "inline")],
    ids=lambda options: "-".join(options).strip("-") or "plain")


class Racer(threading.Thread):
    """Posts all keys, in batches that all racers send at the same time."""

    def __init__(self, address, ids, oracle, gate):
        super().__init__(daemon=True)
        self.pipeline = Pipeline(address)
        self.ids = ids
        self.oracle = oracle
        self.gate = gate
        self.new = 0
        self.answered = 0
        self.problem = None

    def run(self):
        try:
            self.gate.wait(60)
            for start in range(0, len(self.ids), 32):
                part = self.ids[start:start + 32]
                self.pipeline.send(part)
                for event_id, status, body in self.pipeline.answers(part):
                    decision = DECISION.match(body)
                    assert status == 200 and decision, f"{event_id}: {status} {body!r}"
                    self.oracle.note(event_id, decision[1].decode(), decision[2].decode())
                    self.new += decision[1] == b"new"
                    self.answered += 1
        except OSError as problem:
            self.problem = problem
        except Exception as problem:
            self.problem = AssertionError(repr(problem))
        finally:
            self.pipeline.close()


def start_race(gateway, ids, oracle, chance):
    gate = threading.Barrier(CLIENTS)
    racers = []
    for _ in range(CLIENTS):
        # Near neighbours change places, so that every client is first somewhere.
        order = sorted(range(len(ids)), key=lambda at: at + chance.uniform(0, 40))
        racers.append(Racer(gateway.address, [ids[at] for at in order], oracle, gate))
    for racer in racers:
        racer.start()
    return racers


def join(racers):
    for racer in racers:
        racer.join(120)
        assert not racer.is_alive(), "a client waits for an answer that does not come"


@MODES
def test_exactly_one_of_64_clients_is_new_for_each_key(stile, seed, scale, options):
    gateway = stile(*options)
    oracle, chance = Oracle(), random.Random(seed)
    ids = [f"race-{i}" for i in range(min(10000, 1000 * scale))]
    racers = start_race(gateway, ids, oracle, chance)
    join(racers)
    assert all(racer.problem is None for racer in racers), [racer.problem for racer in racers]
    oracle.check()
    assert sum(racer.new for racer in racers) == len(ids)
    assert oracle.new == set(ids)
    verdicts = gateway.metrics()["stile_verdicts_total"]
    assert verdicts.value(source="events", verdict="new") == len(ids)
    assert verdicts.value(source="events", verdict="duplicate") == len(ids) * (CLIENTS - 1)
    gateway.wait_settled()
    assert gateway.stop() == 0
    printed = [event["id"] for event in gateway.events()]
    assert sorted(printed) == sorted(ids), "each key is printed exactly once"


@MODES
def test_kill_during_the_race_leaves_one_ticket_for_each_key(stile, seed, scale, options):
    oracle, chance = Oracle(), random.Random(seed)
    ids = [f"race-{i}" for i in range(min(10000, 1000 * scale))]
    gateway = stile("--print", "envelope", *options)
    racers = start_race(gateway, ids, oracle, chance)
    wanted = chance.randrange(CLIENTS * 8, CLIENTS * 64)
    while sum(racer.answered for racer in racers) < wanted and \
            any(racer.is_alive() for racer in racers):
        racers[0].join(0.001)
    gateway.kill()
    join(racers)
    assert all(racer.problem is None or isinstance(racer.problem, OSError) for racer in racers)
    oracle.check()
    acknowledged = dict(oracle.tickets)
    assert 0 < len(acknowledged)
    first = [line["ticket"] for line in gateway.events()]
    gateway = stile("--print", "envelope", *options)
    verdicts = post_all(gateway.address, ids, oracle)
    oracle.check()
    assert all(verdicts[event_id] == "duplicate" for event_id in acknowledged)
    gateway.wait_settled()
    second = [line["ticket"] for line in gateway.events()]
    assert len(set(first)) == len(first) and len(set(second)) == len(second)
    assert {oracle.tickets[event_id] for event_id in ids} == set(first) | set(second)
