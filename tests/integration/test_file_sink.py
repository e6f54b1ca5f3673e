"""Events in files: nothing lost by a kill, whole lines only, and rotation."""

import glob
import json
import os

from gatekit import fresh, post, take
from harness import eventually, event_bytes
from sinkkit import configure, source


def lines(pattern):
    """The whole lines of all files, each of which must be JSON."""
    found = []
    for path in sorted(glob.glob(pattern)):
        with open(path, "rb") as file:
            data = file.read()
        assert data == b"" or data.endswith(b"\n"), (path, data[-80:])
        found += [json.loads(line) for line in data.splitlines()]
    return found


def file_sink(path, more=""):
    return f"  out: {{ file: \"{path}\"{', ' if more else ''}{more} }}\n"


def test_events_are_lines_and_files_rotate(stile, scratch):
    path = os.path.join(scratch, "out.ndjson")
    gateway = stile("--config", configure(
        scratch, source("a"), file_sink(path, "print: envelope, rotate: { size: 1KiB }")))
    tickets = {}
    for _ in range(20):
        event = {"id": fresh(), "text": "x" * 200}
        tickets[event["id"]] = take(post(gateway, "/in/a", event), "new")["ticket"]
        gateway.wait_settled()
    found = lines(path + "*")
    assert {it["event"]["id"]: it["ticket"] for it in found} == tickets
    assert len(found) == 20
    assert all(it["source"] == "a" and it["attempt"] == 1 for it in found)
    files = glob.glob(path + "*")
    assert len(files) == 7  # three lines fit into each
    assert all(os.path.getsize(file) <= 1024 for file in files)


def test_kill_loses_no_line(stile, scratch, scale):
    path = os.path.join(scratch, "out.ndjson")
    config = configure(scratch, source("a"), file_sink(path))
    sent = []
    for _ in range(3 * scale):
        gateway = stile("--config", config)
        with gateway.connect() as connection:
            for _ in range(50):
                sent.append(fresh())
                connection.post({"id": sent[-1]}, path="/in/a")
            batch = [fresh() for _ in range(200)]
            answer = connection.request("POST", "/in/a", event_bytes([{"id": i} for i in batch]))
            assert answer.status == 200, answer
            sent += batch
        gateway.kill()
        with open(path, "ab") as file:
            file.write(b'{"id":"torn')  # as a crash of the machine might leave it
    gateway = stile("--config", config)
    take(post(gateway, "/in/a", {"id": "last"}), "new")
    gateway.wait_settled()
    with open(path, "rb") as file:
        whole = [line for line in file.read().split(b"\n")[:-1]
                 if line.replace(b'{"id":"torn', b"")]  # twice, if a life had no time to write
    assert {json.loads(line)["id"] for line in whole} == {*sent, "last"}


def test_folder_that_comes_later_gets_what_waited(stile, scratch):
    folder = os.path.join(scratch, "later")
    path = os.path.join(folder, "out")
    gateway = stile("--config", configure(scratch, source("a"), file_sink(path)))
    event = {"id": fresh()}
    take(post(gateway, "/in/a", event), "new")
    eventually(lambda: "cannot be opened: No such file or directory" in gateway.log(),
               "the log says why")
    os.mkdir(folder)
    gateway.wait_settled()
    assert lines(path) == [event]
