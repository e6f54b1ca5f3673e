"""Limits: what is too much is refused with its proper status, the rest goes on."""

import contextlib
import json
import os
import re
import resource

import pytest

from harness import Connection, eventually, take_problem, take_verdict
from sinkkit import HANG, configure, http_sink, source


def hold(gateway, count):
    """Connections that were served and stay open; one that closed a moment ago may
    still count, so a refusal is not the end."""
    held = []

    def one_more():
        connection = gateway.connect()
        try:
            if connection.request("GET", "/healthz").status == 200:
                held.append(connection)
                return len(held) == count
        except ConnectionError:
            pass
        connection.close()
        return False
    eventually(one_more, f"{count} connections are held", pause_s=0)
    return held


def refused(gateway, status):
    """The connection that is too many gets an answer and is closed."""
    with gateway.connect() as connection:
        connection.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = connection.answer()
        take_problem(answer, status)
        assert answer.header("connection") == "close"
        assert connection.ended()
        return answer


def all_gone(gateway):
    def alone():
        try:
            return gateway.get("/healthz").status == 200
        except OSError:
            return False
    eventually(alone, "there is room again")


@pytest.mark.parametrize("option, status", [("--max-connections", 503), ("--max-per-address", 429)])
@pytest.mark.parametrize("threads", ["1", "2"])
def test_connection_beyond_the_limit_is_refused_and_room_returns(stile, option, status, threads):
    gateway = stile(option, "8", "--threads", threads)
    held = hold(gateway, 8)
    answer = refused(gateway, status)
    if status == 503:
        assert int(answer.header("retry-after")) >= 1
    assert held[3].post({"id": "inside"}).status == 200, "those inside are served"
    for connection in held:
        connection.close()
    all_gone(gateway)
    assert gateway.metrics()["stile_http_refused_total"].value() >= 1


def test_thousand_slow_connections_do_not_stop_others(stile):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # for our own sockets
    gateway = stile()
    count = 1000
    text = b"POST /in/events HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n{\"id\":"
    slow = []
    for i in range(count):
        connection = gateway.connect()
        connection.send(text[:5 + i % (len(text) - 5)])
        slow.append(connection)
    with gateway.connect() as connection:
        for i in range(200):
            take_verdict(connection.post({"id": f"quick-{i}"}), "new")
            slow[i * 5].send(b"x")
        assert gateway.metrics()["stile_http_connections"].value() > count
    for connection in slow:
        connection.close()
    eventually(lambda: gateway.metrics()["stile_http_connections"].value() == 1, "they are gone")
    assert len(gateway.wait_events(200)) == 200


def test_connections_leave_descriptors_to_the_store(stile):
    """A peer may hold all connections there are: segments are still opened."""
    few_files = 'ulimit -Sn 80 && ulimit -Hn 101 && exec "$@"'
    gateway = stile(wrap=("sh", "-c", few_files, "sh"))
    assert "connection limit lowered" in gateway.log()
    held = hold(gateway, 32)
    refused(gateway, 503)
    with open(f"/proc/{gateway.process.pid}/limits", encoding="ascii") as limits:
        assert "Max open files            101 " in limits.read(), "the soft limit is raised"
    pad = "s" * 900000
    for i in range(160):  # more than two segments
        take_verdict(held[i % 32].post({"id": f"big-{i}", "pad": pad}), "new")
    for connection in held:
        connection.close()
    assert len(gateway.wait_events(160)) == 160


def test_connections_leave_descriptors_to_sinks(stile, scratch, sink):
    """The sink's attempts have theirs, and the store has its own all the same."""
    it = sink(lambda request: HANG)
    crm = http_sink("crm", it.url(), "concurrency: 60, adapt: no, on_unknown: park")
    few_files = 'ulimit -Sn 200 && ulimit -Hn 200 && exec "$@"'
    gateway = stile("--config", configure(scratch, source("a"), crm),
                    wrap=("sh", "-c", few_files, "sh"))
    count = int(re.search(r'"connection limit lowered.* connections=(\d+)', gateway.log())[1])
    with gateway.connect() as connection:
        for i in range(60):
            take_verdict(connection.post({"id": f"small-{i}"}, (), "/in/a"), "new")
    it.wait(60)
    held = hold(gateway, count)
    refused(gateway, 503)
    pad = "s" * 900000
    for i in range(160):  # more than two segments
        take_verdict(held[i % count].post({"id": f"big-{i}", "pad": pad}, (), "/in/a"), "new")
    for connection in held:
        connection.close()
    assert "Too many open files" not in gateway.log()


@pytest.mark.release
def test_peer_that_does_not_read_its_answers_is_not_buffered_without_end(stile):
    gateway = stile()
    before = gateway.resident_bytes()
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 1000
    with Connection(gateway.address, limit_s=1.0) as greedy:
        sent = 0
        try:
            for _ in range(400):
                greedy.send(request)
                sent += len(request)
        except (TimeoutError, ConnectionError):
            pass
        take_verdict(gateway.post({"id": "others"}), "new")
        assert gateway.resident_bytes() - before < 64 << 20, f"{sent} bytes were sent"
    assert gateway.running()


@pytest.mark.release  # sanitizers use memory of their own
def test_slow_sink_does_not_stop_accepting_and_memory_stays_bounded(stile, blockage):
    gateway = stile(stdout=blockage.write_fd)
    pad = "p" * 60000
    ids = [f"slow-{i}" for i in range(1600)]
    with gateway.connect() as connection:
        for event_id in ids[:100]:
            take_verdict(connection.post({"id": event_id, "pad": pad}), "new")
        before = gateway.resident_bytes()
        for event_id in ids[100:]:
            take_verdict(connection.post({"id": event_id, "pad": pad}), "new")
    grown = gateway.resident_bytes() - before
    assert gateway.metrics()["stile_open_tickets"].value() == len(ids)
    assert grown < 32 << 20, f"{grown} bytes more for 90 MB of events that wait"
    blockage.release()
    assert [event["id"] for event in blockage.wait_events(len(ids))] == ids
    gateway.wait_settled()


@pytest.mark.parametrize("commit", ["inline", "thread"])
def test_limit_on_open_tickets_is_503_until_the_sink_goes_on(stile, blockage, commit):
    gateway = stile("--max-open-tickets", "20", "--commit", commit, stdout=blockage.write_fd)
    with gateway.connect() as connection:
        for i in range(20):
            take_verdict(connection.post({"id": f"open-{i}"}), "new")
        answer = connection.post({"id": "too many"})
        take_problem(answer, 503)
        assert int(answer.header("retry-after")) >= 1
        take_verdict(connection.post({"id": "open-7"}), "duplicate")
        eventually(lambda: gateway.get("/readyz").status == 503, "/readyz says that it is full")
        assert gateway.metrics()["stile_store_writable"].value() == 0
        assert gateway.log().count("too many open tickets") == 1
        blockage.release()
        eventually(lambda: connection.post({"id": "too many"}).status == 200, "room again")
        take_verdict(connection.post({"id": "too many"}), "duplicate")
    gateway.wait_settled()
    ids = [event["id"] for event in blockage.events()]
    assert ids == [f"open-{i}" for i in range(20)] + ["too many"], "refused is not decided"
    assert gateway.metrics()["stile_overload_total"].value(source="events") >= 1
    eventually(lambda: gateway.get("/readyz").status == 200, "/readyz says that there is room")
    assert gateway.log().count("room for new tickets again") == 1


def test_body_limit_follows_its_option(stile):
    gateway = stile("--max-body", "2KiB")
    event = {"id": "fits", "pad": ""}
    event["pad"] = "x" * (2048 - len(json.dumps(event)))
    take_verdict(gateway.post(event), "new")
    event["pad"] += "x"
    take_problem(gateway.post(event), 413)


def test_largest_allowed_body_is_kept_and_printed(stile):
    gateway = stile("--max-body", "4MiB")
    event = {"id": "huge", "pad": ""}
    event["pad"] = "x" * ((4 << 20) - len(json.dumps(event)))
    for life in range(2):
        take_verdict(gateway.post(event), "duplicate" if life else "new")
        if life == 0:
            assert gateway.wait_events(1) == [event]
            gateway.kill()
            gateway = stile("--max-body", "4MiB")


def test_who_is_not_let_in_takes_no_memory(stile, scratch):
    path = os.path.join(scratch, "stile.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("sources:\n  a: { preset: auto, auth: { kind: bearer, secret: c4n4ry-7f3d-0123 } }\n")
    gateway = stile("--config", path)
    before = gateway.resident_bytes()
    size, held = 1 << 20, []
    for _ in range(64):
        connection = gateway.connect()
        held.append(connection)
        connection.send(b"POST /in/a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        take_problem(connection.answer(), 401)
        with contextlib.suppress(OSError):
            connection.send(b"x" * (size - 10))
    grown = gateway.resident_bytes() - before
    assert grown < 16 << 20, f"{grown} bytes more for 64 MiB from nobody"
    for connection in held:
        connection.close()
