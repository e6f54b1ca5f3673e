"""Windows end by a clock that never goes back and never jumps ahead."""

import datetime
import glob
import os
import time

import pytest

import respkit
from gatekit import sample, why
from harness import Connection, eventually, take_verdict


def faked(offset):
    """The environment of a process whose wall clock is off by this much."""
    found = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1") or \
        glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
    if not found:
        pytest.skip("needs libfaketime (tools/packages.txt, group test)")
    return {"LD_PRELOAD": found[0], "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1"}


def held_s(gateway):
    return gateway.metrics()["stile_clock_held_seconds"].value()


def assert_no_gap(gateway, event, ticket):
    """The copy came moments after its original, and no window is found too short."""
    answer = why(gateway, id=event)
    (original,) = answer["originals"]
    assert original["ticket"] == ticket
    assert 0 <= original["repeats"][0]["gap_ms"] < 60_000, original
    assert sample(gateway, "stile_window_too_short", source="events") == 0


@pytest.mark.release
@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("offset", ["+3600", "-3600", "+400d", "-400d"])
def test_jump_of_the_wall_clock_over_a_restart_expires_nothing(stile, offset, end):
    gateway = stile("--window", "30m")
    ticket = take_verdict(gateway.post({"id": "jump"}), "new")
    gateway.stop() if end == "stop" else gateway.kill()

    gateway = stile("--window", "30m", env=faked(offset))
    assert take_verdict(gateway.post({"id": "jump"}), "duplicate") == ticket
    assert (held_s(gateway) > 3500) == (offset[0] == "+")
    assert_no_gap(gateway, "jump", ticket)
    later = take_verdict(gateway.post({"id": "later"}), "new")
    assert later > ticket, "tickets go up whatever the wall says"
    gateway.kill()

    gateway = stile("--window", "30m")  # and back to the truth
    assert take_verdict(gateway.post({"id": "jump"}), "duplicate") == ticket
    assert take_verdict(gateway.post({"id": "later"}), "duplicate") == later
    assert take_verdict(gateway.post({"id": "newest"}), "new") > later


@pytest.mark.release
@pytest.mark.parametrize("offset_s", [3600, -3600, 400 * 86400, -400 * 86400])
def test_expiry_of_a_key_by_the_wall_is_not_early_after_a_jump(stile, offset_s):
    gateway = respkit.start(stile)
    gateway.stop()
    gateway = respkit.start(stile, env=faked(f"{offset_s:+d}"))
    wall = int(time.time()) + offset_s
    with respkit.Client(gateway.resp) as client:
        def number(*words):
            kind, value = client.call(*map(str, words))
            assert kind == ":", value
            return int(value)

        assert client.call("SET", "at", "1", "NX", "EXAT", str(wall + 1000)) == ("+", b"OK")
        assert client.call("SET", "at", "1", "NX", "EXAT", str(wall + 1000))[1] is None
        client.call("SET", "moved", "1")
        assert number("EXPIREAT", "moved", wall + 1000) == 1
        assert number("EXPIREAT", "moved", wall + 500, "LT") == 1
        assert number("EXISTS", "at", "moved") == 2
        for name, left in (("at", 1000), ("moved", 500)):
            assert number("TTL", name) > left - 300
            assert abs(number("EXPIRETIME", name) - wall - left) < 2
        assert number("EXPIREAT", "moved", 1) == 1
        assert number("EXISTS", "moved") == 0


@pytest.fixture
def turnable(stile, scratch):
    """A gateway, and what turns its wall clock."""
    path = os.path.join(scratch, "offset")

    def turn(text):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    turn("+0")
    environment = {**faked(""), "FAKETIME_TIMESTAMP_FILE": path, "FAKETIME_NO_CACHE": "1"}
    del environment["FAKETIME"]
    return stile("--window", "30m", env=environment), turn


@pytest.mark.release
def test_clock_that_is_set_back_does_not_silence_a_stream(turnable):
    """By what is sent to it a reader that is gone is noticed."""
    gateway, turn = turnable
    with Connection(gateway.admin) as connection:
        connection.send(b"GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await_sign(connection.socket)
        turn("-400d")
        eventually(lambda: wall_of(gateway) != wall_now(), "the process sees the other time")
        await_sign(connection.socket)


def await_sign(stream):
    heard = b""
    while b": still here" not in heard:
        piece = stream.recv(65536)
        assert piece, heard
        heard += piece


@pytest.mark.release
@pytest.mark.parametrize("offset", ["+400d", "-400d"])
def test_jump_while_it_runs_expires_nothing(stile, turnable, offset):
    gateway, turn = turnable
    ticket = take_verdict(gateway.post({"id": "before"}), "new")
    turn(offset)
    eventually(lambda: wall_of(gateway) != wall_now(), "the process sees the other time")
    assert take_verdict(gateway.post({"id": "before"}), "duplicate") == ticket
    assert_no_gap(gateway, "before", ticket)
    after = take_verdict(gateway.post({"id": "after"}), "new")
    assert after > ticket
    if offset[0] == "+":
        eventually(lambda: held_s(gateway) > 399 * 86400, "the jump is held")
    gateway.kill()
    gateway = stile("--window", "30m")
    assert take_verdict(gateway.post({"id": "before"}), "duplicate") == ticket
    assert take_verdict(gateway.post({"id": "after"}), "duplicate") == after


def wall_now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y")


def wall_of(gateway):
    """The year of the Date header: by the process's wall clock."""
    return gateway.get("/healthz").header("date").split()[3]


@pytest.mark.release
def test_clock_that_went_back_does_not_end_a_window_early_nor_never(stile):
    """Two seconds are two seconds, wherever the wall clock is."""
    gateway = stile("--window", "2s")
    ticket = take_verdict(gateway.post({"id": "short"}), "new")
    gateway.kill()
    gateway = stile("--window", "2s", env=faked("-400d"))

    def expired():
        body = gateway.post({"id": "short"}).json()
        return body["verdict"] == "new" and body["ticket"] > ticket
    eventually(expired, "the window ends although the wall is 400 days behind", pause_s=0.1)


@pytest.mark.release
def test_held_clock_is_told_and_accept_clock_ends_the_hold(stile):
    gateway = stile("--window", "30m")
    ticket = take_verdict(gateway.post({"id": "held"}), "new")
    assert held_s(gateway) == 0
    assert gateway.stop() == 0
    ahead = faked("+3600")
    gateway = stile("--window", "30m", env=ahead)
    assert held_s(gateway) > 3500
    assert "clock" in gateway.log()
    assert take_verdict(gateway.post({"id": "held"}), "duplicate") == ticket
    assert gateway.stop() == 0
    gateway = stile("--window", "30m", "--accept-clock", env=ahead)
    eventually(lambda: held_s(gateway) == 0, "the hold has ended")
    assert take_verdict(gateway.post({"id": "held"}), "new") > ticket, "now the window is over"
    assert gateway.stop() == 0
    gateway = stile("--window", "30m", env=ahead)
    assert held_s(gateway) == 0, "accepted once, accepted for good"


@pytest.mark.parametrize("end", [None, "kill", "stop"], ids=["alive", "kill", "stop"])
def test_short_window_ends_and_the_id_is_new_again(stile, end):
    gateway = stile("--window", "1s")
    ticket = take_verdict(gateway.post({"id": "short"}), "new")
    if end:
        gateway.stop() if end == "stop" else gateway.kill()
        gateway = stile("--window", "1s")
    answers = []

    def expired():
        answers.append(gateway.post({"id": "short"}).json())
        return answers[-1]["verdict"] == "new"
    eventually(expired, "a window of one second ends", pause_s=0.1)
    assert answers[-1]["ticket"] > ticket
    assert all(each["ticket"] == ticket for each in answers[:-1])


def test_expired_claims_are_freed(stile, scale):
    if scale == 1:
        pytest.skip("the sweep goes around once in half a minute: for the long tier")
    gateway = stile("--window", "1s")
    for i in range(100):
        take_verdict(gateway.post({"id": f"e-{i}"}), "new")
    eventually(lambda: gateway.metrics()["stile_live_claims"].value() == 0,
               "expired claims are freed", limit_s=200, pause_s=0.5)
    assert gateway.metrics()["stile_expired_claims_total"].value() == 100
