"""PostgreSQL as the shared store: its tables, settings that would lose what was
acknowledged, connections that are cut, locks of others. (What all shared stores have in
common is in test_shared_stores.py.)"""

import os
import subprocess
import threading
import time

import pytest

import sharedkit
from harness import Connection, eventually
from sharedkit import Acknowledged, Fleet, load, send


@pytest.fixture(scope="module")
def backend():
    made = sharedkit.PostgresBackend()
    yield made
    made.close()


@pytest.fixture
def fleet(stile, scratch, binary, backend):
    return lambda **more: Fleet(stile, scratch, binary, backend, **more)


def serve(run, url, scratch):
    return run("serve", "--store", url, "--data", os.path.join(scratch, "none"),
               "--listen", "127.0.0.1:0", "--admin", "none")


def setting(server, sql):
    """For all sessions from now on."""
    server.ask(sql)
    server.ask("SELECT pg_reload_conf()")


# ---- tables ----

def test_tables_are_made_by_init_alone(run, backend, scratch):
    name = sharedkit.fresh_name()
    url = backend.url(name)
    code, _, log = serve(run, url, scratch)
    assert code == 1 and "stile store init" in log, log
    code, out, _ = run("store", "check", url)
    assert code == 1 and "stile store init" in out, out
    code, _, log = run("store", "migrate", url)
    assert code == 1 and "stile store init" in log, log
    assert run("store", "init", url)[0] == 0
    secret = backend.server.ask(f"SELECT key FROM {name}.stile_meta")
    assert run("store", "init", url)[0] == 0, "a second time changes nothing"
    assert run("store", "migrate", url)[0] == 0
    assert backend.server.ask(f"SELECT key FROM {name}.stile_meta") == secret
    code, out, _ = run("store", "check", url)
    assert code == 0, out


def test_inits_at_the_same_time_make_one(binary, backend):
    name = sharedkit.fresh_name()
    processes = [subprocess.Popen([binary, "store", "init", backend.url(name)])
                 for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert backend.server.number(f"SELECT count(*) FROM {name}.stile_meta") == 1


def test_tables_of_a_newer_version_are_left_alone(run, backend, scratch):
    name = sharedkit.fresh_name()
    url = backend.url(name)
    assert run("store", "init", url)[0] == 0
    backend.server.ask(f"UPDATE {name}.stile_meta SET version = 99")
    for action in ("init", "migrate"):
        code, _, log = run("store", action, url)
        assert code == 1 and "99" in log, log
    code, _, log = serve(run, url, scratch)
    assert code == 1 and "99" in log, log
    assert backend.server.number(f"SELECT version FROM {name}.stile_meta") == 99


def test_schema_must_be_a_plain_name(run, backend):
    for name in ("pg_toast", "Upper", "a b", "x'y", ""):
        code, _, log = run("store", "init", backend.url(name))
        assert code != 0 and "schema" in log, (name, log)


# ---- settings ----

def test_server_that_acknowledges_before_its_disk_is_refused(run, backend, scratch):
    url = backend.url(sharedkit.fresh_name())
    assert run("store", "init", url)[0] == 0
    setting(backend.server, "ALTER SYSTEM SET synchronous_commit = off")
    try:
        eventually(lambda: backend.server.ask("SHOW synchronous_commit") == "off", "it is off")
        code, _, log = serve(run, url, scratch)
        assert code == 1 and "synchronous_commit is off" in log, log
        code, out, _ = run("store", "check", url)
        assert code == 1 and "synchronous_commit" in out, out
    finally:
        setting(backend.server, "ALTER SYSTEM RESET synchronous_commit")
    eventually(lambda: backend.server.ask("SHOW synchronous_commit") == "on", "it is on again")
    assert run("store", "check", url)[0] == 0


def test_user_without_rights_is_told_which(run, backend):
    name = sharedkit.fresh_name()
    url = backend.url(name)
    assert run("store", "init", url)[0] == 0
    backend.server.ask(f"CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA {name} TO {name};"
                       f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO {name}")
    code, out, _ = run("store", "check", url.replace("stile@", f"{name}@"))
    assert code == 1 and "GRANT" in out, out


# ---- connections and locks ----

def test_connections_that_are_cut_lose_and_double_nothing(fleet, backend, scale):
    """Whether a COMMIT whose answer was cut off took place is asked, not guessed."""
    its = fleet()
    nodes = [its.start("one"), its.start("two")]
    oracle = Acknowledged()
    with load(nodes, oracle, "cut", threads=8):
        for _ in range(15 * scale):
            before = len(oracle.known)
            backend.server.ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                               " WHERE application_name = 'stile'")
            eventually(lambda: len(oracle.known) > before + 20, "it goes on by itself")
    oracle.check()
    oracle.check_remembered(nodes[0])
    delivered = lambda: [event["id"] for node in nodes for event in node.events()]  # noqa: E731
    eventually(lambda: oracle.known <= set(delivered()), "all are delivered")
    assert len(delivered()) == len(set(delivered())), "delivered twice"
    claims = backend.server.number(f"SELECT count(*) FROM {its.name}.stile_claims")
    assert claims == len(oracle.known)


def test_lock_of_somebody_else_delays_only_what_it_is_about(fleet, backend):
    its = fleet()
    node = its.start("one")
    oracle = Acknowledged()
    send(node, ["held"], oracle)
    server = backend.server
    with subprocess.Popen(
            [os.path.join(server.bin, "psql"), "-XAtq", "-d", server.conninfo()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, user=server.user,
            cwd=server.folder) as other:
        other.stdin.write(f"BEGIN; SELECT count(*) FROM (SELECT FROM {its.name}.stile_claims"
                          " FOR UPDATE) AS held;\n")
        other.stdin.flush()
        assert other.stdout.readline().strip() == "1"
        # A duplicate needs no lock, and neither does what is new.
        with Connection(node.address) as connection:
            answer = connection.post({"id": "held"}, path="/in/a")
            assert answer.json()["verdict"] == "duplicate"
        send(node, [f"free-{n}" for n in range(20)], oracle)
        assert len(oracle.new) == 21
        other.stdin.close()
        assert other.wait() == 0


def test_nodes_that_share_keys_in_any_order_do_not_block_each_other(fleet, backend, scale):
    its = fleet()
    nodes = [its.start("one"), its.start("two")]
    oracle = Acknowledged()
    ids = [f"same-{n}" for n in range(200 * scale)]
    threads = [threading.Thread(target=send, args=(nodes[i % 2], ids[::1 if i % 4 < 2 else -1],
                                                   oracle)) for i in range(8)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    oracle.check()
    assert len(oracle.new) == len(ids)
    deadlocks = backend.server.number("SELECT deadlocks FROM pg_stat_database"
                                      " WHERE datname = current_database()")
    assert deadlocks == 0, f"{deadlocks} deadlocks in {time.monotonic() - began:.1f} s"


# ---- what is over ----

def test_what_has_expired_leaves_the_tables(fleet, backend):
    its = fleet(source_more="window: 1s")
    node = its.start("one")
    oracle = Acknowledged()
    send(node, [f"short-{n}" for n in range(50)], oracle)
    tables = ("claims", "events", "tickets", "seen")

    def rows():
        return sum(backend.server.number(f"SELECT count(*) FROM {its.name}.stile_{table}")
                   for table in tables)
    eventually(lambda: rows() == 0, "nothing is left")
    send(node, ["short-0"], oracle)
    assert oracle.new["short-0"] == 2, "its window was over"
