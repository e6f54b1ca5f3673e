"""kill -9 at any moment: nothing acknowledged is lost, nothing is decided twice."""

import json
import random
import shutil
import time

import pytest

from harness import quick_folder, take_verdict
from load import Oracle, post_all, recent_ids, start_senders

KILLS = 100
PARTS = 2  # of them, side by side
RETAIN = ("--retain-size", "64MiB")  # old segments leave while the kills go on


def test_duplicate_stays_one_with_its_ticket_after_kill(stile):
    gateway = stile()
    ticket = take_verdict(gateway.post({"id": "a"}), "new")
    assert take_verdict(gateway.post({"id": "a"}), "duplicate") == ticket
    for _ in range(3):
        gateway.kill()
        gateway = stile()
        assert take_verdict(gateway.post({"id": "a"}), "duplicate") == ticket
    later = take_verdict(gateway.post({"id": "b"}), "new")
    assert later > ticket


def test_acknowledged_event_that_was_not_printed_is_printed_after_kill(stile, blockage):
    gateway = stile(stdout=blockage.write_fd)
    events = [{"id": f"held-{i}", "pad": "y" * 10000} for i in range(30)]
    for event in events:
        take_verdict(gateway.post(event), "new")
    gateway.kill()
    gateway = stile()
    assert gateway.wait_events(30) == events, "in the order in which they came"
    gateway.wait_settled()
    for event in events:
        take_verdict(gateway.post(event), "duplicate")
    assert gateway.stop() == 0
    gateway = stile()
    gateway.wait_settled()
    assert gateway.stop() == 0
    assert gateway.events() == [], "what was settled is not printed again"


def test_seen_counts_survive_a_clean_stop(stile):
    gateway = stile()
    take_verdict(gateway.post({"id": "a"}), "new")
    for seen in (1, 2, 3):
        assert gateway.post({"id": "a"}).json()["seen"] == seen
    first_seen = gateway.post({"id": "a"}).json()["first_seen"]
    assert gateway.stop() == 0
    again = stile().post({"id": "a"}).json()
    assert again["seen"] == 5
    assert again["first_seen"][:19] == first_seen[:19]


class Prints:
    """What all lives wrote to the one file that they append to."""

    def __init__(self):
        self.at = 0
        self.torn = b""
        self.lives = {}  # ticket → lives that printed it
        self.events = []

    def take(self, path, life):
        """The lines of one life that was killed: the last may be cut."""
        with open(path, "rb") as output:
            output.seek(self.at)
            piece = output.read()
        self.at += len(piece)
        if self.torn and piece:
            assert piece.startswith(b"\n"), \
                f"life {life} wrote on into the line that the kill before it had cut"
            piece = piece[1:]
        elif self.torn:
            return
        lines = piece.split(b"\n")
        self.torn = lines.pop()
        for line in lines:
            self.take_line(line, life)

    def take_line(self, line, life):
        printed = json.loads(line)
        self.events.append(printed["event"])
        lives = self.lives.setdefault(printed["ticket"], [])
        assert life not in lives, f"{printed['ticket']} printed twice in life {life}"
        lives.append(life)


def check_survivors(gateway, oracle, chance):
    """What was acknowledged before the kill is a duplicate with its ticket."""
    ids = list(oracle.tickets)
    chosen = ids[-64:] + chance.sample(ids, min(64, len(ids)))
    verdicts = post_all(gateway.address, chosen, oracle)
    again = [event_id for event_id, verdict in verdicts.items() if verdict != "duplicate"]
    assert not again, f"acknowledged before the kill, and new after it: {again[:5]}"


def kill_loop(stile, seed, kills, options, folder):
    def start():
        return stile(*RETAIN, "--print", "envelope", *options, name="killed", folder=folder)

    chance = random.Random(seed)
    oracle, recent, prints = Oracle(), recent_ids(), Prints()
    for life in range(kills):
        gateway = start()
        check_survivors(gateway, oracle, chance)
        senders = start_senders(gateway.address, oracle, recent, f"k{life}", seed)
        time.sleep(chance.uniform(0.1, 0.3))  # when the kill comes; no check rests on it
        gateway.kill()
        for sender in senders:
            sender.finish()
        oracle.check()
        prints.take(gateway.out_path, life)
    gateway = start()
    acknowledged = list(oracle.tickets)
    asked = acknowledged
    if kills <= KILLS:
        asked = chance.sample(acknowledged, min(50000 // PARTS, len(acknowledged)))
    verdicts = post_all(gateway.address, asked, oracle)
    assert set(verdicts.values()) == {"duplicate"}
    gateway.wait_settled()
    assert gateway.stop() == 0
    prints.take(gateway.out_path, kills)
    assert prints.torn == b""
    oracle.check()
    oracle.check_printed(prints.events)
    twice = sum(len(lives) > 1 for lives in prints.lives.values())
    print(f"{kills} kills, {len(acknowledged)} acknowledged, {len(prints.lives)} printed, "
          f"{twice} printed again after a kill, answers other than 200: {dict(oracle.refused)}")
    assert len(acknowledged) > 20 * kills, "the load was no load"
    ids = {event["id"] for event in prints.events}
    assert len(ids) == len(prints.lives), "an event was printed under two tickets"


@pytest.fixture
def quick_data(data, scale):
    """A start in memory does not have to wait for a segment of zeros. The long tier uses
    the disk."""
    if scale > 1:
        yield data
        return
    folder = quick_folder("stile-test-", 6 << 30)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.release
@pytest.mark.parametrize("part", range(PARTS))
def test_kill_loop_loses_nothing_and_decides_nothing_twice(stile, seed, scale, quick_data, part):
    kill_loop(stile, seed + part, max(KILLS, 50 * scale) // PARTS, (), quick_data)


@pytest.mark.parametrize("options", [("--commit", "thread"), ("--threads", "2")],
                         ids=lambda options: "-".join(options).strip("-"))
def test_kill_loop_with_more_threads(stile, seed, scale, options, data):
    kill_loop(stile, seed, 10 * scale, options, data)


def test_settled_events_stay_settled_after_kill(stile, seed):
    """An outcome that was recorded before the kill is not forgotten by it."""
    oracle = Oracle()
    gateway = stile()
    ids = [f"s-{seed}-{i}" for i in range(3000)]
    post_all(gateway.address, ids, oracle)
    gateway.wait_settled()
    gateway.kill()
    assert len(gateway.events()) == len(ids)
    gateway = stile()
    take_verdict(gateway.post({"id": "one more"}), "new")
    gateway.wait_settled()
    assert gateway.events() == [{"id": "one more"}]
