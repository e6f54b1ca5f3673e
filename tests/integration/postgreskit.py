"""A PostgreSQL of the test's own: in a folder, on a socket there, killed and started
again as the test wants. Its programs refuse to run as root; root lends it another user."""

import glob
import os
import pwd
import shutil
import signal
import subprocess

import pytest

from harness import LIMIT_S, eventually, quick_folder


def programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    if not found:
        pytest.skip("PostgreSQL is not installed: tools/install-packages test")
    return os.path.dirname(found[-1])


class Postgres:
    """In a folder of its own: a socket's path must be short, and pytest's folders are
    for their owner alone."""

    def __init__(self):
        self.bin = programs()
        self.folder = quick_folder("stile-pg-", 2 << 30)
        self.data = os.path.join(self.folder, "data")
        self.user = "postgres" if os.geteuid() == 0 else None
        self.process = None
        if self.user:
            ids = pwd.getpwnam(self.user)
            os.chown(self.folder, ids.pw_uid, ids.pw_gid)
        os.chmod(self.folder, 0o755)
        self._run("initdb", "-D", self.data, "-U", "stile", "-A", "trust", "-E", "UTF8",
                  "--no-instructions", "--no-sync")
        self.start()

    def _command(self, name, *arguments):
        return [os.path.join(self.bin, name), *arguments]

    def _run(self, name, *arguments):
        subprocess.run(self._command(name, *arguments), check=True, capture_output=True,
                       user=self.user, cwd=self.folder)

    def start(self):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                self._command("postgres", "-D", self.data, "-k", self.folder,
                              "-c", "listen_addresses=", "-c", "autovacuum=off",
                              "-c", "max_connections=20"),
                stdout=log, stderr=log, user=self.user, cwd=self.folder, start_new_session=True)
        eventually(lambda: self.try_ask("SELECT 1") == "1", "the database answers", limit_s=LIMIT_S)

    def kill(self):
        """All of its processes at once, as when the machine stops."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        # Each backend is the leader of its own session.
        eventually(lambda: not self._backends(), "no backend lives")
        shared = os.path.join(self.data, "postmaster.pid")
        if os.path.exists(shared):
            os.remove(shared)

    def _backends(self):
        alive = []
        for path in glob.glob("/proc/[0-9]*/cwd"):
            try:
                if os.readlink(path) == self.data:
                    alive.append(int(path.split("/")[2]))
            except OSError:
                continue
        for process in alive:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return alive

    def conninfo(self, database="postgres"):
        return f"host={self.folder} user=stile dbname={database}"

    def demand_password(self, role):
        path = os.path.join(self.data, "pg_hba.conf")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"local all {role} scram-sha-256\n" + text)
        self.ask("SELECT pg_reload_conf()")

    def try_ask(self, sql):
        answer = subprocess.run(self._command("psql", "-XAtq", "-d", self.conninfo(), "-c", sql),
                                capture_output=True, text=True, user=self.user, cwd=self.folder)
        return answer.stdout.rstrip("\n") if answer.returncode == 0 else None

    def ask(self, sql):
        """psql's answer: lines of values with | between them."""
        answer = self.try_ask(sql)
        assert answer is not None, sql
        return answer

    def number(self, sql):
        return int(self.ask(sql))

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
