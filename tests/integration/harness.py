"""The real binary, started and spoken to from outside.

Stile      one process of `stile serve` on a port that the kernel chose
Connection one TCP or TLS connection with a small HTTP/1.1 client
Blockage   a standard output that takes nothing until it is released

Nothing here waits for a time to pass: eventually() waits for a condition, with
a limit that only a hang reaches.
"""

import json
import os
import re
import resource
import signal
import socket
import shutil
import subprocess
import tempfile
import threading
import time

LIMIT_S = 120.0  # only a hang reaches it


def eventually(condition, what, limit_s=LIMIT_S, pause_s=0.01):
    """The first true value of condition(); fails when there is none in time."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {limit_s:.0f} s in vain: {what}")
        time.sleep(pause_s)


def quick_folder(prefix, need_bytes):
    """A folder of its own, to be removed by the caller. For the death of a process memory
    is as good as a disk, and nobody waits for it."""
    shm = "/dev/shm"
    quick = os.path.isdir(shm) and shutil.disk_usage(shm).free >= need_bytes
    return tempfile.mkdtemp(prefix=prefix, dir=shm if quick else None)


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers  # list of (name in lower case, value)
        self.body = body

    def header(self, name):
        """The value of a header that must not come twice; None without it."""
        values = [value for key, value in self.headers if key == name.lower()]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"Answer({self.status}, {self.headers}, {self.body[:300]!r})"


class Connection:
    """A connection with a buffer of its own; answers come in order."""

    def __init__(self, address, context=None, session=None, limit_s=LIMIT_S):
        self.socket = socket.create_connection(address, timeout=limit_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost",
                                              session=session)
        self.input = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def _more(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError(f"closed by the peer after {self.input[:200]!r}")
        self.input += data

    def _line_end(self):
        while True:
            at = self.input.find(b"\r\n\r\n")
            if at >= 0:
                return at
            self._more()

    def answer(self, head_only=False):
        at = self._line_end()
        head, self.input = self.input[:at].decode("latin-1"), self.input[at + 4:]
        lines = head.split("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d{3}) .*", lines[0])
        assert match, f"not a status line: {lines[0]!r}"
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            assert colon and name == name.strip(), f"not a header line: {line!r}"
            headers.append((name.lower(), value.strip()))
        answer = Answer(int(match[1]), headers, b"")
        if head_only or answer.status < 200 or answer.status == 204:
            return answer
        length = int(answer.header("content-length"))
        while len(self.input) < length:
            self._more()
        answer.body, self.input = self.input[:length], self.input[length:]
        return answer

    def request(self, method, path, body=None, headers=()):
        self.send(request_bytes(method, path, body, headers))
        return self.answer(head_only=method == "HEAD")

    def post(self, event, headers=(), path="/in/events"):
        return self.request("POST", path, event_bytes(event), headers)

    def ended(self):
        """True when the peer closed or reset the connection; waits for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True


def event_bytes(event):
    return event if isinstance(event, bytes) else json.dumps(event).encode()


def request_bytes(method, path, body=None, headers=()):
    given = {name.lower() for name, _ in headers}
    lines = [f"{method} {path} HTTP/1.1"] + ([] if "host" in given else ["Host: localhost"])
    lines += [f"{name}: {value}" for name, value in headers]
    if body is not None and not given & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


class Blockage:
    """A pipe, filled to the brim: a reader that has stopped. What stile writes
    after release() is collected. The filling is blank lines."""

    def __init__(self):
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.write_fd, False)
        self.filling = 0
        try:
            while True:
                self.filling += os.write(self.write_fd, b"\n" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(self.write_fd, True)  # stile shares this description
        self.data = bytearray()
        self.newlines = 0
        self.thread = None

    def release(self):
        """Reads from now on, until every writer has closed."""
        self.close_writer()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def close_writer(self):
        if self.write_fd >= 0:
            os.close(self.write_fd)
        self.write_fd = -1

    def _read(self):
        while True:
            data = os.read(self.read_fd, 1 << 16)
            if not data:
                os.close(self.read_fd)
                return
            self.data += data
            self.newlines += data.count(b"\n")

    def wait_events(self, count):
        eventually(lambda: self.newlines >= self.filling + count, f"{count} events are printed")
        return self.events()

    def events(self):
        lines = bytes(self.data).split(b"\n")[:-1]
        return [json.loads(line) for line in lines if line]

    def close(self):
        self.close_writer()
        if not self.thread:  # else the thread does, when the last writer has ended
            os.close(self.read_fd)


def its_environment(env):
    """That of a gateway; STILE_TEST_PRELOAD is a library to start it with."""
    env = {**os.environ, **(env or {})}
    libraries = [os.environ.get("STILE_TEST_PRELOAD"), env.get("LD_PRELOAD")]
    if any(libraries):
        env["LD_PRELOAD"] = ":".join(filter(None, libraries))
    return env


class Stile:
    """One process. Use it through the fixture `stile`, which ends what a test
    leaves behind."""

    def __init__(self, binary, data, *options, scratch, name="life", stdout=None, env=None,
                 wrap=(), wait=True, pass_fds=(), admin=True):
        self.data = data
        self.out_path = os.path.join(scratch, f"{name}.out")
        self.log_path = os.path.join(scratch, f"{name}.log")
        options = list(options) + os.environ.get("STILE_TEST_OPTIONS", "").split()
        if "--listen" not in options:
            options += ["--listen", "127.0.0.1:0"]
        if "--admin" not in options and admin:
            options += ["--admin", "127.0.0.1:0"]
        out = stdout if stdout is not None else open(self.out_path, "ab")
        with open(self.log_path, "ab") as log:
            self.log_start = log.tell()  # a name may serve for several lives
            self.process = subprocess.Popen(
                [*wrap, binary, "serve", "--data", data, *options], stdin=subprocess.DEVNULL,
                stdout=out, stderr=log, env=its_environment(env), pass_fds=pass_fds)
        if stdout is None:
            out.close()
        self.address = None
        self.admin = None  # where the admin API is; None: nowhere
        self.scheme = None
        if wait:
            self.wait_ready()

    # ---- its life ----

    def log(self):
        with open(self.log_path, "rb") as log:
            log.seek(self.log_start)
            return log.read().decode(errors="replace")

    def _listening(self):
        text = self.log()
        match = re.search(r'msg="?stile is ready.*?\blisten=(https?)://([^\s"]+):(\d+)', text) or \
            re.search(r'"stile is ready".*?"listen":"(https?)://([^"]+):(\d+)"', text)
        if match:
            return match
        code = self.process.poll()
        assert code is None, f"stile ended with {code} before it was ready:\n{text}"
        return None

    def wait_ready(self):
        match = eventually(self._listening, "stile says that it is ready", pause_s=0.003)
        self.scheme = match[1]
        self.address = (match[2].strip("[]"), int(match[3]))
        admin = re.search(r'\badmin"?[=:]"?https?://([^\s"]+):(\d+)', self.log())
        self.admin = (admin[1].strip("[]"), int(admin[2])) if admin else None
        if self.scheme == "http":
            eventually(lambda: self.get("/readyz").status == 200, "/readyz")

    def kill(self):
        """kill -9; what it had not made durable is gone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LIMIT_S)

    def kill_children(self):
        """kill -9 for what runs below a wrapper such as strace."""
        pid = self.process.pid
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
                for child in children.read().split():
                    os.kill(int(child), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass

    def stop(self):
        """SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self):
        try:
            return self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"stile did not end within {LIMIT_S} s:\n{self.log()}") from None

    def running(self):
        return self.process.poll() is None

    # ---- what it says ----

    def connect(self, **options):
        return Connection(self.address, **options)

    def request(self, method, path, body=None, headers=()):
        """What is under /v1 is asked of the admin listener."""
        if path.startswith("/v1"):
            return self.ask(method, path, headers, body)
        with self.connect() as connection:
            return connection.request(method, path, body, headers)

    def ask(self, method, path, headers=(), body=None):
        """The admin API, under the name by which it may be asked."""
        if "host" not in {name.lower() for name, _ in headers}:
            headers = [("Host", "%s:%d" % self.admin), *headers]
        with Connection(self.admin) as connection:
            return connection.request(method, path, body, headers)

    def admin_url(self):
        return "http://%s:%d" % self.admin

    def get(self, path):
        return self.request("GET", path)

    def post(self, event, headers=()):
        with self.connect() as connection:
            return connection.post(event, headers)

    def metrics(self):
        import prometheus
        answer = self.get("/metrics")
        assert answer.status == 200, answer
        return prometheus.parse(answer.body.decode())

    def output(self):
        with open(self.out_path, "rb") as out:
            return out.read()

    def lines(self):
        """The whole lines on standard output."""
        return self.output().split(b"\n")[:-1]

    def events(self):
        return [json.loads(line) for line in self.lines()]

    def wait_events(self, count):
        eventually(lambda: self.output().count(b"\n") >= count, f"{count} events are printed")
        return self.events()

    def wait_settled(self):
        """Until every outcome is recorded: then nothing is ever printed again."""
        eventually(lambda: self.metrics()["stile_open_tickets"].value() == 0, "no open tickets")

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()


def run(binary, *arguments, env=None):
    """A command to its end: (exit code, standard output, standard error)."""
    done = subprocess.run([binary, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=LIMIT_S, env={**os.environ, **(env or {})}, check=False)
    return done.returncode, done.stdout.decode(errors="replace"), \
        done.stderr.decode(errors="replace")


def take_verdict(answer, verdict):
    """The ticket of an answer that must be 200 with this verdict; `known` is a duplicate,
    or a conflict for what was written otherwise."""
    assert answer.status == 200, answer
    body = answer.json()
    assert body["verdict"] in (("duplicate", "conflict") if verdict == "known" else (verdict,)), \
        answer
    assert answer.header("stile-verdict") == body["verdict"], answer
    assert answer.header("stile-ticket") == body["ticket"], answer
    assert answer.header("content-type") == "application/json", answer
    return body["ticket"]


def take_problem(answer, status):
    """The detail of an answer that must be this problem (RFC 9457)."""
    assert answer.status == status, answer
    assert answer.header("content-type") == "application/problem+json", answer
    body = answer.json()
    assert body["status"] == status and body["title"] and body["detail"], answer
    return body["detail"]
