"""The row of the PostgreSQL store: a server of its own, whose client is either pgbench with
the INSERT that handlers make, or the store."""

import contextlib
import glob
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time

from measure import Missing, median, ratio

PEER_TABLE = "CREATE TABLE IF NOT EXISTS peer (key uuid PRIMARY KEY, ticket bigint, expiry bigint)"
PEER_INSERT = ("INSERT INTO peer (key, ticket, expiry) VALUES (gen_random_uuid(), 1, 2)"
               " ON CONFLICT DO NOTHING;\n")
CLIENTS = 32
SIDES = (("32 at a time", 32, 0), ("256 at a time", 256, 0), ("1,024 at a time", 1024, 0),
         ("256 with 512 B and a ticket", 256, 512), ("1,024 with 512 B and a ticket", 1024, 512))


class Postgres:
    """As it comes, but for its folder. Its programs refuse to run as root."""

    def __init__(self):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
        if not found or not os.path.exists(os.path.join(os.path.dirname(found[-1]), "pgbench")):
            raise Missing("PostgreSQL is not installed")
        self.bin = os.path.dirname(found[-1])
        self.user = "postgres" if os.geteuid() == 0 else None
        self.folder = tempfile.mkdtemp(prefix="stile-bench-pg-", dir="/var/tmp")
        self.process = None

    def __enter__(self):
        if self.user:
            ids = pwd.getpwnam(self.user)
            os.chown(self.folder, ids.pw_uid, ids.pw_gid)
        os.chmod(self.folder, 0o755)
        self.run("initdb", "-D", self.folder + "/data", "-U", "stile", "-A", "trust")
        self.process = subprocess.Popen(
            [os.path.join(self.bin, "postgres"), "-D", self.folder + "/data", "-k", self.folder,
             "-c", "listen_addresses="], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            user=self.user, cwd=self.folder)
        end = time.monotonic() + 60
        while subprocess.run(self.psql("SELECT 1"), capture_output=True).returncode != 0:
            if time.monotonic() > end:
                raise Missing("PostgreSQL does not start")
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, name, *arguments):
        done = subprocess.run([os.path.join(self.bin, name), *arguments], user=self.user,
                              cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise Missing("%s: %s" % (name, done.stderr.strip()))
        return done.stdout

    def psql(self, sql):
        return [os.path.join(self.bin, "psql"), "-XAtq", "-h", self.folder, "-U", "stile",
                "-d", "postgres", "-c", sql]

    def url(self):
        return "postgres://stile@/postgres?host=%s" % self.folder


def pgbench_side(bench, server):
    script = os.path.join(server.folder, "peer.sql")
    with open(script, "w") as file:
        file.write(PEER_INSERT)
    subprocess.run(server.psql(PEER_TABLE), check=True)

    def one_round():
        out = server.run("pgbench", "-h", server.folder, "-U", "stile", "-n", "-M", "prepared",
                         "-c", str(CLIENTS), "-j", "2", "-T", str(max(1, int(bench.args.seconds))),
                         "-f", script, "postgres")
        return {"decisions_per_s": float(re.search(r"tps = ([0-9.]+)", out)[1])}
    return one_round


def make_tables(bench, server):
    subprocess.run([bench.tool("bench_postgres"), server.url()], check=True)


def postgres(bench):
    """decisions/s with the PostgreSQL store; `INSERT … ON CONFLICT DO NOTHING`, 32 clients"""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Postgres())
        sides = {"pgbench": pgbench_side(bench, server)}
        if not bench.args.peers_only:
            make_tables(bench, server)
            for name, in_flight, payload in SIDES:
                sides[name] = lambda in_flight=in_flight, payload=payload: bench.program(
                    "bench_postgres", server.url(), in_flight, bench.args.seconds, payload)
        rounds = bench.alternate(sides)
    bench.keep("decisions", rounds)
    found = {name: {"decisions_per_s": median(one, "decisions_per_s")}
             for name, one in rounds.items()}
    for name, figures in found.items():
        bench.show("decisions", name, "%9.0f/s" % figures["decisions_per_s"])
    for name, in_flight, _ in SIDES:
        text, value = "%s, × pgbench" % name, ratio(found, name, "pgbench", "decisions_per_s")
        if in_flight >= 256:
            bench.target(text, value, least=3)
        else:
            bench.report(text, value)


ROWS = {"postgres": postgres}
