"""A kill right before, and so right after, each step that makes things durable:
strace ends the process at the n-th system call of a kind."""

import json
import shutil
import subprocess

import pytest

from load import Oracle, event_of, post_all

WRITES = "pwrite64,fdatasync,fsync,ftruncate,rename,unlink"

pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(not shutil.which("strace"),
                       reason="needs strace (tools/packages.txt, group test)"),
]


def inject(calls, when):
    return ["-qq", "-o", "/dev/null", "-e", f"trace={calls}",
            "-e", f"inject={calls}:signal=KILL:when={when}"]


class History:
    """What was acknowledged and what was printed, over all lives."""

    def __init__(self, stile, run, data):
        self.stile, self.run, self.data = stile, run, data
        self.oracle = Oracle()
        self.printed = []
        self.lives = 0

    def take_prints(self, gateway):
        lines = gateway.output().split(b"\n")
        self.printed += [json.loads(line) for line in lines[:-1]]

    def check(self):
        """A life without strace: all is as it was acknowledged."""
        code, out, err = self.run("journal", "verify", self.data)
        assert code == 0 or not self.oracle.tickets, (out, err)  # before that it may be empty
        gateway = self.stile()
        known = list(self.oracle.tickets)
        verdicts = post_all(gateway.address, known, self.oracle)
        assert all(verdict == "duplicate" for verdict in verdicts.values())
        self.lives += 1
        post_all(gateway.address, [f"after-{self.lives}"], self.oracle)
        gateway.wait_settled()
        gateway.kill()
        self.take_prints(gateway)
        self.oracle.check()
        self.oracle.check_printed(self.printed)

    def post_until_killed(self, gateway, prefix):
        """30 events and their duplicates; false when it still lives after them."""
        try:
            with gateway.connect() as connection:
                for i in range(30):
                    event_id = f"{prefix}-{i}"
                    for _ in range(2):
                        answer = connection.post(event_of(event_id)).json()
                        self.oracle.note(event_id, answer["verdict"], answer["ticket"])
        except OSError:
            return True
        return False


def attach(gateway, when):
    """Lets the thread that writes the journal die at its n-th call."""
    tracer = subprocess.Popen(["strace", "-p", str(gateway.process.pid), *inject(WRITES, when)],
                              stderr=subprocess.PIPE)
    with open(f"/proc/{gateway.process.pid}/status", encoding="ascii") as status:
        text = status.read()
    while "TracerPid:\t0" in text and tracer.poll() is None:
        with open(f"/proc/{gateway.process.pid}/status", encoding="ascii") as status:
            text = status.read()
    if tracer.poll() is not None:
        pytest.skip(f"strace cannot attach here: {tracer.stderr.read().decode()}")
    return tracer


def test_kill_at_each_durable_step_of_a_running_gateway(stile, run, data, scale):
    history = History(stile, run, data)
    for when in range(1, min(30, 12 * scale) + 1):
        gateway = stile("--commit", "inline")
        tracer = attach(gateway, when)
        assert history.post_until_killed(gateway, f"step-{when}"), "30 events, and no 30 writes"
        gateway.wait()
        tracer.wait()
        history.take_prints(gateway)
        history.oracle.check()
        if when % 4 == 0:
            history.check()
    history.check()
    assert len(history.oracle.tickets) > 10


@pytest.mark.parametrize("call, most", [("pwrite64", 40), ("fdatasync", 3), ("fsync", 4),
                                        ("rename", 3), ("unlink", 4), ("ftruncate", 2)])
def test_kill_at_each_durable_step_of_a_start(stile, run, data, scale, call, most):
    history = History(stile, run, data)
    for when in range(1, most + 1, 1 if scale > 1 or most < 10 else 13):
        gateway = stile(wrap=["strace", "-f", *inject(call, when)], wait=False)
        try:
            gateway.wait_ready()
            history.post_until_killed(gateway, f"{call}-{when}")
        except (AssertionError, OSError):
            pass  # killed before it was ready
        gateway.kill_children()
        gateway.wait()  # strace ends with it
        history.take_prints(gateway)
        history.check()
