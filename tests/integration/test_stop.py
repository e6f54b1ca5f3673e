"""SIGTERM finishes what was accepted and leaves within a bounded time."""

import os
import signal
import socket
import subprocess

import pytest

from harness import Blockage, Connection, LIMIT_S, event_bytes, eventually, request_bytes, take_verdict
from sinkkit import configure, http_sink, source
from load import Oracle, post_all, recent_ids, start_senders


@pytest.mark.parametrize("options", [(), ("--threads", "2"), ("--commit", "thread")],
                         ids=lambda options: "-".join(options).strip("-") or "plain")
def test_stop_under_load_keeps_every_answer_and_prints_each_event_once(stile, seed, options):
    oracle, recent = Oracle(), recent_ids()
    gateway = stile(*options)
    senders = start_senders(gateway.address, oracle, recent, "t", seed)
    eventually(lambda: len(oracle.tickets) > 500, "some load")
    assert gateway.stop() == 0
    for sender in senders:
        sender.finish()
    oracle.check()
    printed = gateway.events()
    oracle.check_printed(printed)
    assert len({event["id"] for event in printed}) == len(printed), "printed twice"
    gateway = stile(*options)
    verdicts = post_all(gateway.address, list(oracle.tickets), oracle)
    assert set(verdicts.values()) == {"duplicate"}
    oracle.check()
    gateway.wait_settled()
    again = {event["id"] for event in gateway.events()} & {event["id"] for event in printed}
    assert not again, "printed again after a clean stop"


def test_idle_keep_alive_connections_are_closed_by_the_stop(stile):
    gateway = stile()
    connections = [gateway.connect() for _ in range(20)]
    for i, connection in enumerate(connections):
        take_verdict(connection.post({"id": f"idle-{i}"}), "new")
    gateway.process.send_signal(signal.SIGTERM)
    for connection in connections:
        assert connection.ended()
        connection.close()
    assert gateway.wait() == 0


def test_request_that_never_ends_does_not_hold_the_stop(stile):
    gateway = stile()
    with gateway.connect() as connection:
        connection.send(b"POST /in/events HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert gateway.get("/healthz").status == 200
        assert gateway.stop() == 0


def test_readyz_and_healthz_while_it_lives(stile):
    gateway = stile()
    assert gateway.get("/healthz").status == 200
    assert gateway.get("/readyz").status == 200


def test_stop_with_a_stuck_reader_ends_and_leaves_the_events_for_the_next_start(stile, blockage):
    gateway = stile(stdout=blockage.write_fd)
    for i in range(3):
        take_verdict(gateway.post({"id": f"stuck-{i}"}), "new")
    assert gateway.stop() == 0
    assert "open events remain for the next start" in gateway.log()
    gateway = stile()
    assert gateway.wait_events(3) == [{"id": f"stuck-{i}"} for i in range(3)]


def test_reader_that_went_away_does_not_lose_events(stile):
    """EPIPE is not a delivery."""
    read_fd, write_fd = os.pipe()
    gateway = stile(stdout=write_fd)
    os.close(write_fd)
    os.close(read_fd)
    take_verdict(gateway.post({"id": "nobody"}), "new")
    assert gateway.running()
    assert gateway.stop() == 0
    gateway = stile()
    assert gateway.wait_events(1) == [{"id": "nobody"}]


@pytest.mark.parametrize("status, options", [
    (500, "retry: { first: 10m, max: 10m }"), (410, ""),
    (500, "retry: { first: 10m, max: 10m }, breaker: { failures: 1 }")],
    ids=["retry", "disabled", "breaker"])
def test_stop_waits_for_no_sink_that_gets_nothing_now(stile, scratch, sink, status, options):
    it = sink(lambda request: status)
    config = configure(scratch, source("a"), http_sink("crm", it.url(), options))
    gateway = stile("--config", config)
    for i in range(3):
        gateway.request("POST", "/in/a", event_bytes({"id": f"later-{i}"}))
    it.wait(1)
    assert gateway.stop() == 0
    assert "shutdown timeout" not in gateway.log() and "open events remain for the next start" in gateway.log()


def test_second_signal_ends_it_at_once_and_loses_nothing(stile, blockage):
    gateway = stile(stdout=blockage.write_fd)
    ticket = take_verdict(gateway.post({"id": "twice"}), "new")
    gateway.process.send_signal(signal.SIGINT)
    eventually(lambda: "stopping" in gateway.log(), "it begins to stop")
    gateway.process.send_signal(signal.SIGTERM)
    gateway.wait()
    gateway = stile()
    assert take_verdict(gateway.post({"id": "twice"}), "duplicate") == ticket
    assert gateway.wait_events(1) == [{"id": "twice"}]


def test_second_process_on_the_same_folder_is_refused_and_the_first_goes_on(stile, data):
    gateway = stile()
    ticket = take_verdict(gateway.post({"id": "mine"}), "new")
    second = stile(wait=False)
    assert second.wait() == 1
    assert data in second.log()
    assert take_verdict(gateway.post({"id": "mine"}), "duplicate") == ticket
    gateway.kill()
    third = stile()
    assert take_verdict(third.post({"id": "mine"}), "duplicate") == ticket


def test_no_file_can_be_removed_to_get_into_a_folder_in_use(stile, run, data):
    gateway = stile()
    ticket = take_verdict(gateway.post({"id": "mine"}), "new")
    for name in os.listdir(data):
        if not name.endswith(".seg"):
            os.rename(os.path.join(data, name), os.path.join(data, name + ".away"))
    second = stile(wait=False)
    assert second.wait() == 1
    assert "in use" in second.log()
    code, _, err = run("journal", "verify", data)
    assert code == 1 and "in use" in err
    assert take_verdict(gateway.post({"id": "mine"}), "duplicate") == ticket


def test_stop_right_after_the_start_is_clean(stile, run, data):
    gateway = stile()
    assert gateway.stop() == 0
    code, out, err = run("journal", "verify", data)
    assert code == 0, (out, err)


def test_stalled_peer_that_reads_during_the_stop_does_no_harm(stile):
    """Its answers let it send more, just when the store is about to be closed."""
    gateway = stile()
    with gateway.connect() as connection:
        connection.socket.setblocking(False)
        requests = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 8 + b"".join(
            request_bytes("POST", "/in/events", event_bytes({"id": f"late-{i}"}))
            for i in range(8))
        try:
            for _ in range(10000):
                connection.socket.sendall(requests)
        except BlockingIOError:
            pass
        gateway.process.send_signal(signal.SIGTERM)
        eventually(lambda: "stopping" in gateway.log(), "it begins to stop")
        connection.socket.settimeout(LIMIT_S)
        received = 0
        try:
            while data := connection.socket.recv(4096):
                received += len(data)
        except ConnectionError:
            pass
        assert received > 0
    assert gateway.wait() == 0
    gateway = stile()
    gateway.wait_settled()
    assert gateway.stop() == 0


def test_log_that_nobody_reads_stops_neither_service_nor_the_stop(binary, data):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    log = Blockage()
    process = subprocess.Popen(
        [binary, "serve", "--listen", f"127.0.0.1:{address[1]}", "--data", data],
        stdout=subprocess.DEVNULL, stderr=log.write_fd)
    try:
        def answered():
            try:
                with Connection(address) as connection:
                    return connection.request("GET", "/readyz").status == 200
            except OSError:
                return False
        eventually(answered, "an answer though the log is stuck")
        with Connection(address) as connection:
            take_verdict(connection.post({"id": "silent"}), "new")
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()
        log.close()
