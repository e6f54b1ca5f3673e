"""`stile journal` reads a folder offline, and damage is found and never served.

Offsets are found from outside, by the format that docs/journal.md describes:
frames begin at blocks of 4096 bytes with the letters SFRM; the superblock has
two slots of a block with the generation at byte 48, the durable segment at 56
and the durable end at 64."""

import glob
import json
import os
import re
import shutil
import struct

import pytest

from harness import eventually, take_verdict
from load import Oracle, event_of, post_all

BLOCK = 4096


def segments(data):
    return sorted(os.path.join(data, name) for name in os.listdir(data)
                  if re.fullmatch(r"[0-9a-f]{16}\.seg", name))


def last_used(data):
    """The newest segment with frames; the one after it may be ready already."""
    return [path for path in segments(data) if frames(path)][-1]


def frames(path):
    """The offsets of the frames of a segment, and its end of use."""
    with open(path, "rb") as file:
        content = file.read()
    found = [at for at in range(BLOCK, len(content), BLOCK) if content[at:at + 4] == b"SFRM"]
    ends = [at + struct.unpack_from("<I", content, at + 36)[0] for at in found]
    return list(zip(found, ends))


def durable(data):
    """What the superblock says is durable: (segment number, end)."""
    with open(os.path.join(data, "superblock"), "rb") as file:
        content = file.read()
    slots = [content[at:at + BLOCK] for at in (0, BLOCK)]
    newest = max((slot for slot in slots if slot[:8] == b"STILESB1"),
                 key=lambda slot: struct.unpack_from("<Q", slot, 48))
    return struct.unpack_from("<QQ", newest, 56)


def change(path, offset, count=1, to=None):
    """Flips every bit of some bytes, or writes others over them."""
    with open(path, "r+b") as file:
        file.seek(offset)
        old = file.read(count)
        file.seek(offset)
        file.write(bytes(byte ^ 0xff for byte in old) if to is None else to * count)


def report(out):
    """The lines of verify, as {name: value}."""
    return {match[1].strip(): match[2] for match in re.finditer(r"^(.{14}) (.+)$", out, re.M)}


def fill(stile, count, end="kill", prefix="j"):
    """A folder with this many settled events; {id: ticket}."""
    oracle = Oracle()
    gateway = stile()
    for start in range(0, count, 8):
        ids = [f"{prefix}-{i}" for i in range(start, min(start + 8, count))]
        post_all(gateway.address, ids, oracle)
    gateway.wait_settled()
    if end == "stop":
        assert gateway.stop() == 0
    else:
        gateway.kill()
    return oracle.tickets


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_sound_folder_is_called_sound_with_the_right_counts(stile, run, data, end):
    fill(stile, 50, end)
    code, out, err = run("journal", "verify", data)
    assert code == 0 and out.rstrip().endswith("sound"), (out, err)
    told = report(out)
    assert told["events"] == "50" and told["live claims"] == "50", out
    assert told["outcomes"] == "50" and told["open tickets"] == "0", out
    assert told["closed"] == ("cleanly" if end == "stop" else "by a crash or kill"), out
    assert int(told["payload bytes"]) == sum(
        len(json.dumps(event_of(f"j-{i}"))) for i in range(50))


def test_open_tickets_are_counted(stile, run, data, blockage):
    gateway = stile(stdout=blockage.write_fd)
    for i in range(7):
        take_verdict(gateway.post({"id": f"open-{i}"}), "new")
    gateway.kill()
    code, out, _ = run("journal", "verify", data)
    assert code == 0 and report(out)["open tickets"] == "7", out
    assert report(out)["held tickets"] == "0", out


def test_held_tickets_entities_and_copies_are_counted(stile, run, data, scratch):
    path = os.path.join(scratch, "stile.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("sources:\n  a:\n    claims:\n      - once: id\n"
                   "      - newest: { entity: entity, time: time }\n")
    gateway = stile("--config", path)
    for event in ({"id": "1", "entity": "x", "time": 1000000000},
                  {"id": "2", "entity": "y", "time": 1000000000},
                  {"id": "2", "entity": "y", "time": 1000000000},
                  {"id": "1", "entity": "x", "time": 1000000001}):
        assert gateway.request("POST", "/in/a", json.dumps(event).encode()).status == 200
    assert gateway.metrics()["stile_live_entities"].value() == 2
    assert gateway.stop() == 0
    told = report(run("journal", "verify", data)[1])
    assert (told["held tickets"], told["entities"], told["seen again"]) == ("1", "2", "1"), told


def contents(data):
    found = {}
    for folder, _, names in os.walk(data):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.relpath(os.path.join(folder, name), data)] = file.read()
    return found


def test_dump_has_every_event_and_outcome_and_nothing_is_written(stile, run, data):
    tickets = fill(stile, 40)
    before = contents(data)
    code, out, err = run("journal", "dump", data)
    assert code == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    events = [line for line in lines if line["kind"] == "event"]
    assert {line["ticket"]: json.loads(line["payload"]) for line in events} == \
        {ticket: event_of(event_id) for event_id, ticket in tickets.items()}
    assert all(line["source"] == "events" for line in events)
    settled = [line for line in lines if line["kind"] == "settle"]
    assert {line["ticket"] for line in settled} == set(tickets.values())
    assert all(line["outcome"] == "done" for line in settled)
    assert run("journal", "verify", data)[0] == 0
    assert contents(data) == before, "reading must not write"


def test_folder_that_is_open_or_not_there_is_exit_code_1(stile, run, data, scratch):
    gateway = stile()
    for command in ("verify", "dump"):
        code, out, err = run("journal", command, data)
        assert code == 1 and data in err and out == "", (out, err)
        missing = os.path.join(scratch, "missing")
        code, out, err = run("journal", command, missing)
        assert code == 1 and missing in err, (out, err)
        assert not os.path.exists(missing)
    take_verdict(gateway.post({"id": "goes on"}), "new")


def refuses(stile, run, data, path, offset=None):
    """Both verify and serve say exit code 3 and name the place."""
    code, out, err = run("journal", "verify", data)
    assert code == 3 and os.path.basename(path) in out + err, (out, err)
    assert "in 1 places" not in out
    if offset is not None:
        assert str(offset) in out + err, (offset, out, err)
    before = {each: contents(data)[os.path.basename(each)] for each in segments(data)
              if frames(each)}
    gateway = stile(wait=False)
    assert gateway.wait() == 3, gateway.log()
    assert os.path.basename(path) in gateway.log()
    if offset is not None:
        assert str(offset) in gateway.log(), (offset, gateway.log())
    for each, content in before.items():
        with open(each, "rb") as file:
            assert file.read() == content, f"a refusal must not change the evidence: {each}"


@pytest.mark.parametrize("where", ["header", "body"])
def test_flipped_byte_in_the_middle_is_refused_with_file_and_offset(stile, run, data, where):
    fill(stile, 50)
    path = last_used(data)
    used = frames(path)
    assert len(used) > 6
    at, _ = used[len(used) // 2]
    change(path, at + (24 if where == "header" else 100))
    refuses(stile, run, data, path, at)


def test_frame_of_zeros_in_the_middle_is_refused(stile, run, data):
    """As a disk does that lost a write which it had confirmed."""
    fill(stile, 50)
    path = last_used(data)
    at, end = frames(path)[4]
    change(path, at, end - at, b"\0")
    refuses(stile, run, data, path, at)


def test_flipped_header_of_a_segment_is_refused(stile, run, data):
    fill(stile, 20)
    path = last_used(data)
    change(path, 40)
    refuses(stile, run, data, path)


def test_lost_superblock_is_refused_and_not_taken_for_a_new_folder(stile, run, data):
    fill(stile, 20)
    path = os.path.join(data, "superblock")
    change(path, 20)
    change(path, BLOCK + 20)
    refuses(stile, run, data, path)
    os.remove(path)
    code, out, err = run("journal", "verify", data)
    assert code in (1, 3), (out, err)
    gateway = stile(wait=False)
    assert gateway.wait() in (1, 3), "a folder with segments is not new"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("name", ["superblock", "spare.seg", "0000000000000001.seg",
                                  "0000000000000001.clm"])
def test_what_is_no_file_is_named_or_put_away_and_never_waited_for(stile, run, data, name, make):
    """A pipe that nobody writes to would hold up whoever opens it."""
    fill(stile, 20)
    path = os.path.join(data, name)
    if os.path.exists(path):
        os.remove(path)
    make(path)
    code, out, err = run("journal", "verify", data)
    needed = name == "superblock" or name == "0000000000000001.seg"
    assert code == (1 if needed else 0), (out, err)
    assert not needed or name + ": not a regular file" in err, err
    gateway = stile(wait=False)
    if needed or make is os.mkdir:  # what was only left behind is removed, if it can be
        assert gateway.wait() == 1
        assert name in gateway.log()
    else:
        gateway.wait_ready()
        assert gateway.stop() == 0


def starts_or_refuses(gateway):
    """True when it serves, false when it ended with exit code 3."""
    try:
        gateway.wait_ready()
        return True
    except AssertionError:
        assert gateway.wait() == 3, gateway.log()
        return False


def test_one_damaged_slot_of_the_superblock_loses_nothing(stile, run, data, scratch):
    """The other slot is older: what came after it must still be found. verify says
    beforehand what the start will do."""
    tickets = {}
    for life in range(3):  # each begins a segment
        tickets.update(fill(stile, 20, prefix=f"life{life}"))
        for slot in (0, BLOCK):
            copy = os.path.join(scratch, "copy")
            shutil.copytree(data, copy)
            change(os.path.join(copy, "superblock"), slot + 20)
            code, out, err = run("journal", "verify", copy)
            assert "slot" in out, (out, err)
            gateway = stile(folder=copy, wait=False)
            starts = starts_or_refuses(gateway)
            assert code == (0 if starts else 3), (out, err, gateway.log())
            if starts:
                oracle = Oracle()
                post_all(gateway.address, list(tickets), oracle)
                assert oracle.tickets == tickets
                gateway.kill()
            shutil.rmtree(copy)


def test_missing_segment_is_refused_by_its_number(stile, run, data):
    for life in range(3):
        fill(stile, 10, prefix=f"life{life}")
    path = last_used(data)
    os.remove(path)
    for extra in glob.glob(path.replace(".seg", ".clm")):
        os.remove(extra)
    refuses(stile, run, data, path)


def uncovered_tail(stile, data):
    """Kills so soon after a commit that the superblock does not know of it:
    (tickets, path, start of the last frame, its end); None if it was too slow."""
    gateway = stile()
    oracle = Oracle()
    post_all(gateway.address, [f"early-{i}" for i in range(10)], oracle)
    gateway.wait_settled()
    path = last_used(data)
    eventually(lambda: durable(data)[1] >= frames(path)[-1][1], "the superblock follows")
    post_all(gateway.address, [f"late-{i}" for i in range(4)], oracle, batch=1)
    gateway.kill()
    at, end = frames(path)[-1]
    number, known = durable(data)
    if (int(os.path.basename(path)[:16], 16), known) != (number, known) or known > at:
        return None
    return oracle.tickets, path, at, end


def tear(stile, data):
    for _ in range(10):
        found = uncovered_tail(stile, data)
        if found:
            return found
    pytest.skip("this machine is too slow to kill between a commit and its superblock")


def test_torn_tail_is_sound_and_everything_before_it_is_kept(stile, run, data):
    """As a power cut leaves a write that was under way."""
    tickets, path, at, end = tear(stile, data)
    change(path, at + 64, end - at - 64, b"\0")
    code, out, err = run("journal", "verify", data)
    assert code == 0 and "torn tail" in out, (out, err)
    assert run("journal", "dump", data)[0] == 0
    gateway = stile()
    early = [event_id for event_id in tickets if event_id.startswith("early")]
    oracle = Oracle()
    verdicts = post_all(gateway.address, early, oracle)
    assert set(verdicts.values()) == {"duplicate"}
    assert all(oracle.tickets[event_id] == tickets[event_id] for event_id in early)
    gateway.wait_settled()
    assert gateway.stop() == 0
    assert run("journal", "verify", data)[0] == 0


def test_truncated_last_segment_is_mended_or_refused_but_never_silently_short(stile, run, data):
    tickets, path, at, _ = tear(stile, data)
    os.truncate(path, at + 100)
    code, out, err = run("journal", "verify", data)
    assert code in (0, 3), (out, err)
    gateway = stile(wait=False)
    if code == 3:
        assert gateway.wait() == 3 and os.path.basename(path) in gateway.log()
        return
    gateway.wait_ready()
    early = [event_id for event_id in tickets if event_id.startswith("early")]
    verdicts = post_all(gateway.address, early, Oracle())
    assert set(verdicts.values()) == {"duplicate"}


def test_segment_cut_below_what_was_durable_is_refused(stile, run, data):
    fill(stile, 50, "stop")
    path = last_used(data)
    os.truncate(path, frames(path)[2][0] + 100)
    refuses(stile, run, data, path)


def test_help_of_journal_names_both_commands(run):
    code, out, _ = run("help", "journal")
    assert code == 0 and "verify DIR" in out and "dump DIR" in out
