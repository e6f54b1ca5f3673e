"""A full disk: 503 while there is no room, delivery goes on, nothing is lost."""

import glob
import json
import os
import subprocess

import pytest

import respkit
from harness import eventually, take_verdict

SMALL, LARGE = "150m", "800m"


@pytest.fixture
def disk(scratch):
    """A small disk of its own; resize(size) gives it more or less room."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small tmpfs")
    folder = os.path.join(scratch, "disk")
    os.mkdir(folder)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", folder],
                             capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def resize(folder, size):
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)


def large(event_id):
    return {"id": event_id, "pad": "f" * 900000}


def fill(gateway, prefix, limit=600):
    """Posts large events until one is refused: (tickets by id, the refusal)."""
    tickets = {}
    with gateway.connect() as connection:
        for i in range(limit):
            answer = connection.post(large(f"{prefix}-{i}"))
            if answer.status != 200:
                return tickets, answer
            tickets[f"{prefix}-{i}"] = take_verdict(answer, "new")
    raise AssertionError(f"{limit} events of 900 kB fitted on a disk of {SMALL}")


def fill_rest(gateway, prefix, limit=600):
    """Small ones too, until there is no room for any: their ids."""
    ids = []
    with gateway.connect() as connection:
        for i in range(limit):
            answer = connection.post({"id": f"{prefix}-{i}", "pad": "f" * 3000})
            if answer.status != 200:
                assert answer.status == 503, answer
                return ids
            ids.append(f"{prefix}-{i}")
    raise AssertionError(f"{limit} small events fitted where no large one did")


def accepted_again(gateway, event):
    def attempt():
        answer = gateway.post(event)
        assert answer.status in (200, 503), answer
        return answer if answer.status == 200 else None
    return eventually(attempt, "events are accepted again", pause_s=0.1)


def test_full_disk_answers_503_delivers_and_accepts_again_when_room_returns(
        stile, disk, blockage):
    folder = os.path.join(disk, "data")
    gateway = stile(folder=folder, stdout=blockage.write_fd)
    kept, refusal = fill(gateway, "full")
    assert refusal.status == 503, refusal
    assert int(refusal.header("retry-after")) >= 1
    assert len(kept) >= 40, "a whole segment should have fitted"
    rest = fill_rest(gateway, "rest")
    eventually(lambda: gateway.get("/readyz").status == 503, "/readyz says that it cannot write")
    assert gateway.get("/healthz").status == 200
    eventually(lambda: "no room for another segment" in gateway.log(), "the log tells it")

    # What it knows it still answers, and what it has it still delivers.
    first = next(iter(kept))
    assert take_verdict(gateway.post(large(first)), "duplicate") == kept[first]
    blockage.release()
    printed = blockage.wait_events(len(kept) + len(rest))
    assert sorted(event["id"] for event in printed) == sorted([*kept, *rest]), "delivery goes on"
    assert gateway.post({"id": "still full", "pad": "f" * 900000}).status == 503

    resize(disk, LARGE)
    take_verdict(accepted_again(gateway, {"id": "room"}), "new")
    eventually(lambda: gateway.get("/readyz").status == 200, "/readyz")
    eventually(lambda: "room for segments again" in gateway.log(), "the log tells that too")
    assert gateway.log().count("no room for another segment") == 1
    for event_id, ticket in kept.items():
        assert take_verdict(gateway.post(large(event_id)), "duplicate") == ticket
    gateway.wait_settled()
    gateway.kill()

    gateway = stile(folder=folder)
    for event_id, ticket in kept.items():
        assert take_verdict(gateway.post(large(event_id)), "duplicate") == ticket
    take_verdict(gateway.post({"id": "room"}), "duplicate")
    gateway.wait_settled()
    assert gateway.stop() == 0
    assert gateway.events() == [], "outcomes of the full time were recorded when room returned"


def test_kill_on_a_full_disk_loses_nothing(stile, disk, blockage, run):
    folder = os.path.join(disk, "data")
    gateway = stile(folder=folder, stdout=blockage.write_fd)
    kept, refusal = fill(gateway, "kill")
    assert refusal.status == 503
    gateway.kill()
    resize(disk, LARGE)
    code, out, err = run("journal", "verify", folder)
    assert code == 0, (out, err)
    gateway = stile(folder=folder)
    for event_id, ticket in kept.items():
        assert take_verdict(gateway.post(large(event_id)), "duplicate") == ticket
    printed = {event["id"] for event in gateway.wait_events(len(kept))}
    assert kept.keys() <= printed


@pytest.mark.parametrize("commit", ["inline", "thread"])
def test_stop_after_a_start_on_a_full_disk_is_clean(stile, disk, blockage, commit):
    """There is not even room for outcomes: they are given up, not waited for."""
    folder = os.path.join(disk, "data")
    gateway = stile(folder=folder, stdout=blockage.write_fd)
    ids = [f"stop-{i}" for i in range(50)]
    tickets = {i: take_verdict(gateway.post({"id": i}), "new") for i in ids}
    gateway.kill()
    for later in sorted(glob.glob(os.path.join(folder, "*.seg")))[1:]:
        os.remove(later)  # as if killed before there was another; that would be room
    with open(os.path.join(disk, "filler"), "wb", buffering=0) as filler:
        try:
            while filler.write(bytes(1 << 16)):
                pass
        except OSError:
            pass
    gateway = stile("--commit", commit, folder=folder, wait=False)
    assert gateway.wait_events(len(ids)) == [{"id": i} for i in ids], "delivery goes on"
    assert gateway.stop() == 0, gateway.log()

    os.remove(os.path.join(disk, "filler"))
    gateway = stile(folder=folder)
    for event_id, ticket in tickets.items():
        assert take_verdict(gateway.post({"id": event_id}), "duplicate") == ticket
    gateway.wait_settled()
    assert gateway.stop() == 0
    assert gateway.events() == [{"id": i} for i in ids], "what was not recorded is printed again"


def test_output_that_is_full_is_no_delivery(stile):
    with open("/dev/full", "wb") as full:
        gateway = stile(stdout=full.fileno())
    ticket = take_verdict(gateway.post({"id": "kept"}), "new")
    eventually(lambda: gateway.metrics()["stile_deliveries_total"].value(outcome="failed") > 0,
               "a first attempt has failed")
    assert take_verdict(gateway.post({"id": "kept"}), "duplicate") == ticket
    assert gateway.stop() == 0
    assert stile().wait_events(1) == [{"id": "kept"}]


def test_line_that_a_full_output_cut_is_printed_whole_on_a_line_of_its_own(stile, disk):
    """The output is a file on the small disk; the journal is elsewhere."""
    resize(disk, "1m")
    path = os.path.join(disk, "out")
    with open(path, "ab") as out:
        gateway = stile(stdout=out.fileno())
    events = [{"id": f"cut-{i}", "pad": "c" * 70001} for i in range(30)]
    for event in events:
        take_verdict(gateway.post(event), "new")
    eventually(lambda: gateway.metrics()["stile_deliveries_total"].value(outcome="failed") > 0,
               "the output is full")
    resize(disk, SMALL)
    gateway.wait_settled()
    assert gateway.stop() == 0
    whole, cut = [], []
    with open(path, "rb") as out:
        for line in out.read().split(b"\n")[:-1]:
            try:
                whole.append(json.loads(line))
            except ValueError:
                cut.append(line)
    whole.sort(key=lambda event: int(event["id"][4:]))  # what failed may be overtaken
    assert whole == events
    assert all(json.dumps(events[i]).encode().startswith(line) for line in cut
               for i in [int(line.split(b'"')[3][4:])]), cut


def test_full_disk_is_an_error_to_redis_clients_and_never_ok(stile, disk):
    folder = os.path.join(disk, "data")
    gateway = respkit.start(stile, folder=folder)
    value = {i: f"{i:06}" * 10000 for i in range(6000)}
    kept = []
    with respkit.Client(gateway.resp) as client:
        for i, text in value.items():
            reply = client.call("SET", f"k{i}", text, "NX")
            if reply != ("+", b"OK"):
                break
            kept.append(i)
        assert reply[0] == "-" and reply[1].startswith(b"OOM "), reply
        assert len(kept) > 100, "a whole segment should have fitted"
        # What it knows it still answers.
        assert client.call("GET", "k0") == ("$", value[0].encode())
        assert client.call("SET", "k0", "other", "NX") == ("$", None)
        resize(disk, LARGE)
        eventually(lambda: client.call("SET", f"k{i}", value[i], "NX") == ("+", b"OK"),
                   "keys are taken again", pause_s=0.1)
    gateway.kill()
    gateway = respkit.start(stile, folder=folder)
    with respkit.Client(gateway.resp) as client:
        for i in [*kept, len(kept)]:
            assert client.call("GET", f"k{i}") == ("$", value[i].encode()), i
