"""PostgreSQL as the shared store: its tables, settings that would lose what was
acknowledged, connections that are cut, locks of others. (What all shared stores have in
common is in test_shared_stores.py.)"""

import os
import subprocess
import threading
import time

import pytest

import respkit
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

CUT = ("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
       " WHERE application_name = 'stile';")
LONG_LEASE_S = 20  # a machine that is busy elsewhere renews late, and that is not the matter here


def check_under_load(its, server, disturb_sql, times):
    """Two nodes, and a server that does this to them again and again: what was acknowledged
    is remembered, and delivered once. Returns the ids."""
    nodes = [its.start("one"), its.start("two")]
    oracle = Acknowledged()
    with load(nodes, oracle, "disturbed", threads=8):
        for _ in range(times):
            before = len(oracle.known)
            server.ask(disturb_sql)
            eventually(lambda: len(oracle.known) > before + 20, "it goes on by itself")
    oracle.check()
    oracle.check_remembered(nodes[0])
    delivered = lambda: [event["id"] for node in nodes for event in node.events()]  # noqa: E731
    eventually(lambda: oracle.known <= set(delivered()), "all are delivered")
    assert len(delivered()) == len(set(delivered())), "delivered twice"
    return oracle.known


def test_connections_that_are_cut_lose_and_double_nothing(fleet, backend, scale):
    """Whether a COMMIT whose answer was cut off took place is asked, not guessed."""
    its = fleet(lease_s=LONG_LEASE_S)
    known = check_under_load(its, backend.server, CUT, 15 * scale)
    claims = backend.server.number(f"SELECT count(*) FROM {its.name}.stile_claims")
    assert claims == len(known)


def cut_after_commit(node, server, event_id):
    """Posts the event, cuts the connection when it is on the server's disk and waits there
    for a replica that does not exist, and returns the answer; or None: something else of the
    node waited first, or nothing did."""
    answers = []

    def post():
        with Connection(node.address) as connection:
            answers.append(connection.post({"id": event_id}, path="/in/a").json())
    sender = threading.Thread(target=post)
    waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    deciding = f"{waiting} AND query LIKE '%stile_number%'"
    setting(server, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
    try:
        sender.start()
        eventually(lambda: not sender.is_alive() or
                   server.number(f"SELECT count(*) {waiting}") > 0, "it is committed")
        cut = server.number(f"SELECT count(pg_terminate_backend(pid)) {deciding}") == 1
    finally:
        setting(server, "ALTER SYSTEM RESET synchronous_standby_names")
    sender.join()
    return answers[0] if cut else None


def test_commit_of_which_only_the_answer_was_lost_is_answered_as_it_was_decided(fleet, backend):
    its = fleet()
    node = its.start("one")
    oracle = Acknowledged()
    answer, sent = None, 0
    while not answer:
        for n in range(8):  # so that more of the same is expected
            send(node, [f"before-{sent}-{n}"], oracle)
        eventually(lambda: backend.server.number(
            f"SELECT count(*) FROM {its.name}.stile_tickets") == 0, "all are settled")
        event_id = f"unheard-{sent}"
        answer = cut_after_commit(node, backend.server, event_id)
        sent += 1
    assert answer["verdict"] == "new"
    with Connection(node.address) as connection:
        again = connection.post({"id": event_id}, path="/in/a").json()
    assert (again["verdict"], again["ticket"]) == ("duplicate", answer["ticket"])
    node.wait_events(9 * sent)
    assert [event["id"] for event in node.events()].count(event_id) == 1


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


def test_take_of_which_nobody_can_know_any_more_is_given_back(fleet, backend):
    """Its COMMIT is under way when the connection is cut, and the row that would tell what
    came of it is deleted."""
    its = fleet()
    server = backend.server
    function = f"CREATE OR REPLACE FUNCTION {its.name}.slow() RETURNS trigger LANGUAGE plpgsql" \
        " AS $$ BEGIN %s RETURN NULL; END $$;"
    server.ask(function % "PERFORM pg_sleep(600);" +
               f"CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON {its.name}.stile_tickets"
               " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (new.state = 2)"
               f" EXECUTE FUNCTION {its.name}.slow()")
    node = its.start("one")
    oracle = Acknowledged()
    send(node, ["taken"], oracle)
    sleeping = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    eventually(lambda: server.number(f"SELECT count(*) {sleeping}") == 1, "the take commits")
    server.ask(function % "")
    with subprocess.Popen(
            [os.path.join(server.bin, "psql"), "-XAtq", "-d", server.conninfo(), "-c",
             f"DELETE FROM {its.name}.stile_lines"], user=server.user,
            cwd=server.folder) as deleting:
        eventually(lambda: server.number("SELECT count(*) FROM pg_stat_activity WHERE"
                                         " wait_event_type = 'Lock'") > 0 or
                   server.number(f"SELECT count(*) {sleeping}") == 0, "the row is waited for")
        server.ask(f"SELECT count(pg_terminate_backend(pid)) {sleeping}")
        assert deleting.wait() == 0
    eventually(lambda: [event["id"] for event in node.events()] == ["taken"], "it is delivered")
    send(node, ["later"], oracle)
    eventually(lambda: [event["id"] for event in node.events()] == ["taken", "later"],
               "and what comes later is")


def test_rows_of_connections_that_are_deleted_under_load_double_nothing(fleet, backend, scale):
    its = fleet(lease_s=LONG_LEASE_S)
    check_under_load(its, backend.server, f"{CUT} DELETE FROM {its.name}.stile_lines", 10 * scale)


# ---- tables that go away ----

def refused(node, event_id):
    with Connection(node.address) as connection:
        return connection.post({"id": event_id}, path="/in/a").status == 503


def test_tables_that_are_made_anew_under_a_gateway_are_not_used_by_it(fleet, backend, run):
    """They have another secret: what it claims there, others would not know."""
    its = fleet()
    node = its.start("one")
    send(node, ["before"], Acknowledged())
    node.wait_events(1)
    node.wait_settled()
    backend.server.ask(f"DROP SCHEMA {its.name} CASCADE")
    assert run("store", "init", its.url)[0] == 0
    assert refused(node, "after")
    assert "were recreated" in node.log()
    eventually(lambda: node.get("/readyz").status == 503, "it is not ready")
    other = its.start("two")
    with Connection(other.address) as connection:
        assert connection.post({"id": "after"}, path="/in/a").json()["verdict"] == "new"
    assert refused(node, "after")
    eventually(lambda: [event["id"] for event in other.events()] == ["after"], "it is delivered")
    assert backend.server.number(f"SELECT count(*) FROM {its.name}.stile_claims") == 1
    assert node.stop() == 0
    node = its.start("one")
    with Connection(node.address) as connection:
        assert connection.post({"id": "after"}, path="/in/a").json()["verdict"] == "duplicate"


def test_tables_that_are_dropped_are_missed_also_when_nothing_comes(fleet, backend):
    its = fleet()
    node = its.start("one")
    secret = backend.server.ask(f"SELECT key FROM {its.name}.stile_meta")
    backend.server.ask(f"ALTER SCHEMA {its.name} RENAME TO {its.name}_aside")
    eventually(lambda: node.get("/readyz").status == 503, "it is not ready")
    assert "stile store init" in node.log()
    assert refused(node, "one")
    backend.server.ask(f"ALTER SCHEMA {its.name}_aside RENAME TO {its.name}")
    oracle = Acknowledged()
    send(node, ["one"], oracle)
    assert oracle.new == {"one": 1}, "the same tables are used again"
    eventually(lambda: node.get("/readyz").status == 200, "it is ready")
    assert backend.server.ask(f"SELECT key FROM {its.name}.stile_meta") == secret


# ---- time ----

def test_clock_of_the_server_that_goes_back_does_not_bring_back_what_was_over(fleet, backend):
    """A name that was over, and a claim made before the clock went back."""
    its = fleet(source_more="window: 1h")

    def move_clock(hours):
        backend.server.ask(
            f"CREATE OR REPLACE FUNCTION {its.name}.stile_clock() RETURNS bigint LANGUAGE sql"
            " VOLATILE AS $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
            f" + {hours} * 3600000 $$")
    node = its.start("one", ("--resp", "127.0.0.1:0"))
    with respkit.Client(respkit.address_of(node)) as redis:
        assert redis.call("SET", "name", "1", "PX", "60000") == ("+", b"OK")
        move_clock(2)
        assert redis.call("GET", "name") == ("$", None)
        eventually(lambda: "PostgreSQL clock jumped forward" in node.log(), "it is told")
        assert redis.call("SET", "long", "1", "PX", "3600000") == ("+", b"OK")
        move_clock(0)
        assert redis.call("GET", "name") == ("$", None)
        assert 0 < int(redis.call("PTTL", "long")[1]) <= 3600000, "counted from the later time"
        move_clock(3)
        with Connection(node.address) as connection:
            answer = connection.post({"id": "ahead"}, path="/in/a").json()
            assert answer["verdict"] == "new"
            move_clock(0)
            answer = connection.post({"id": "ahead"}, path="/in/a").json()
            assert answer["verdict"] == "duplicate"
            answer = connection.post({"id": "back"}, path="/in/a").json()
            assert answer["verdict"] == "new"
            answer = connection.post({"id": "back"}, path="/in/a").json()
            assert answer["verdict"] == "duplicate"
    node.wait_events(2)


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
