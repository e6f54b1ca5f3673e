"""Events in PostgreSQL: each exactly once, whatever dies in between."""

import json
import random
import threading
import time
import urllib.parse

import pytest

from gatekit import fresh, post, sample, take, take_batch
from harness import Connection, eventually, event_bytes
from postgreskit import Postgres
from sinkkit import QUICK, configure, source


@pytest.fixture(scope="module")
def postgres():
    server = Postgres()
    yield server
    server.close()


def quoted(text):
    return json.dumps(text)


def postgres_sink(server, name="db", more="", conninfo=None, pace=QUICK):
    return (f"  {name}: {{ postgres: {quoted(conninfo or server.conninfo())}, {pace}"
            f"{', ' if more else ''}{more} }}\n")


@pytest.fixture
def gateway(stile, scratch):
    def start(sinks, *options, **more):
        return stile("--config", configure(scratch, source("a", "time: time"), sinks), *options,
                     **more)
    return start


def test_event_is_a_row(gateway, postgres):
    it = gateway(postgres_sink(postgres, "rows"))
    event = {"id": fresh(), "type": "made", "entity": "e\u0001\u00e9", "time": "2026-01-02T03:04:05Z",
             "text": "'); DROP TABLE stile_events; --"}
    ticket = take(post(it, "/in/a", event), "new")["ticket"]
    odd = fresh()
    odd_body = event_bytes({"id": odd, "nul": "a\u0000b"})
    odd_ticket = take(it.request("POST", "/in/a", odd_body), "new")["ticket"]
    it.wait_settled()
    row = postgres.ask("SELECT sink, key, source, id, type, entity, event_time AT TIME ZONE 'UTC',"
                       f" payload::text, body FROM stile_events WHERE ticket = '{ticket}'")
    columns = row.split("|")
    assert columns[:7] == ["rows", ticket, "a", event["id"], "made", "e \u00e9",
                           "2026-01-02 03:04:05"]
    assert json.loads(columns[7]) == event
    assert columns[8] == ""
    # jsonb cannot hold it: the bytes are there as they came.
    assert postgres.ask("SELECT payload IS NULL, encode(body, 'escape') = "
                        f"'{odd_body.decode()}' FROM stile_events WHERE "
                        f"ticket = '{odd_ticket}'".replace("\\u", "\\\\u")) == "t|t"


ORDERS = ("INSERT INTO orders (id, total, note, lines) "
          "VALUES ({id}, {$.total}, {$.note}, {$.lines})")


def test_own_statement_runs_with_values_as_values(gateway, postgres):
    postgres.ask("CREATE TABLE orders (id text, total numeric, note text, lines jsonb)")
    it = gateway(postgres_sink(postgres, "orders", f"statement: {quoted(ORDERS)}"))
    evil = "x'); DELETE FROM orders; --"
    batch = [{"id": fresh(), "total": 12.50, "note": evil, "lines": [{"n": 1}]},
             {"id": fresh(), "total": "13.5", "note": None},
             {"id": fresh(), "total": "much"},
             {"id": fresh(), "total": 15, "note": "nul \u0000"},
             {"id": fresh(), "total": 16}]
    take_batch(it.request("POST", "/in/a", event_bytes(batch)), ["new"] * 5)
    eventually(lambda: sample(it, "stile_dead_tickets") == 2, "two are dead letters")
    assert postgres.ask("SELECT id, total, note, lines FROM orders ORDER BY total") == "\n".join([
        f"{batch[0]['id']}|12.5|{evil}|" + '[{"n": 1}]',
        f"{batch[1]['id']}|13.5||",
        f"{batch[4]['id']}|16||"])
    assert postgres.number("SELECT count(*) FROM stile_effects WHERE sink = 'orders'") == 3


def test_key_that_is_there_does_nothing(gateway, postgres):
    postgres.ask("CREATE TABLE paid (id text)")
    it = gateway(postgres_sink(postgres, "paid", "statement: \"INSERT INTO paid VALUES ({id});\", "
                               "table: public.paid_keys, key: \"order-{$.order}\""))
    ids = [fresh() for _ in range(3)]
    for number, order in zip(ids, ("1", "2", "1")):
        take(post(it, "/in/a", {"id": number, "order": order}), "new")
    it.wait_settled()
    assert postgres.ask("SELECT id FROM paid").split() == ids[:2]
    assert postgres.ask("SELECT key FROM paid_keys ORDER BY key").split() == ["order-1", "order-2"]
    assert sample(it, "stile_dead_tickets") == 0


def test_row_that_may_fit_later_is_tried_again(gateway, postgres):
    postgres.ask("CREATE TABLE customers (id text PRIMARY KEY);"
                 "CREATE TABLE calls (id text, customer text REFERENCES customers)")
    it = gateway(postgres_sink(postgres, "calls", "statement: "
                               "\"INSERT INTO calls VALUES ({id}, {$.customer})\""))
    take(post(it, "/in/a", {"id": fresh(), "customer": "c1"}), "new")
    eventually(lambda: sample(it, "stile_deliveries_total", sink="calls", outcome="failed") >= 2,
               "it was tried again")
    assert postgres.number("SELECT count(*) FROM calls") == 0
    postgres.ask("INSERT INTO customers VALUES ('c1')")
    it.wait_settled()
    assert postgres.number("SELECT count(*) FROM calls") == 1


def test_table_that_is_dropped_meanwhile_is_made_again(gateway, postgres):
    it = gateway(postgres_sink(postgres, "dropped", "table: dropped"))
    for _ in range(2):
        take(post(it, "/in/a", {"id": fresh()}), "new")
        it.wait_settled()
        assert postgres.number("SELECT count(*) FROM dropped") == 1
        postgres.ask("DROP TABLE dropped")


def test_database_that_is_not_ready_is_told_and_waited_for(gateway, postgres):
    conninfo = postgres.conninfo() + " password=c4n4ry-0123456789"
    it = gateway(postgres_sink(postgres, "late", "create: no, table: late_events",
                               conninfo=conninfo, pace="retry: { first: 1ms, max: 20ms }, "
                               "breaker: { failures: 1, open: 10ms, open_max: 20ms }"))
    take(post(it, "/in/a", {"id": fresh()}), "new")
    eventually(lambda: "the database is not ready" in it.log() and
               "late_events" in it.log(), "the log says why")
    postgres.ask("CREATE TABLE late_events (sink text, key text, ticket text, source text, id text,"
                 " type text, entity text, content_type text, event_time timestamptz,"
                 " payload jsonb, body bytea, PRIMARY KEY (sink, key))")
    it.wait_settled()
    assert postgres.number("SELECT count(*) FROM late_events") == 1
    assert "c4n4ry" not in it.log()


def test_no_character_of_a_password_in_the_url_keeps_the_sink_from_its_database(gateway, postgres):
    password = "c4n/4ry@c4n:1?x#%zz"
    postgres.ask(f"CREATE ROLE guarded LOGIN PASSWORD '{password}'; "
                 "GRANT ALL ON SCHEMA public TO guarded")
    postgres.demand_password("guarded")
    folder = urllib.parse.quote(postgres.folder, safe="")
    conninfo = f"postgresql://guarded:${{SECRET}}@{folder}/postgres"
    it = gateway(postgres_sink(postgres, "guarded", "table: guarded_events", conninfo=conninfo),
                 env={"SECRET": password})
    take(post(it, "/in/a", {"id": fresh()}), "new")
    it.wait_settled()
    assert postgres.number("SELECT count(*) FROM guarded_events") == 1
    assert "c4n" not in it.log()


def test_stop_does_not_wait_for_a_stuck_database(gateway, postgres):
    postgres.ask("CREATE TABLE stuck (id text)")
    it = gateway(postgres_sink(postgres, "stuck", "statement: \"INSERT INTO stuck SELECT {id} "
                               "FROM pg_sleep(30)\""))
    take(post(it, "/in/a", {"id": fresh()}), "new")
    eventually(lambda: postgres.number("SELECT count(*) FROM pg_stat_activity "
                                       "WHERE query LIKE '%pg_sleep(30)%' AND state = 'active' "
                                       "AND application_name = 'stile'") == 1, "it sleeps")
    begin = time.monotonic()
    assert it.stop() == 0
    assert time.monotonic() - begin < 20
    postgres.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                 "WHERE application_name = 'stile'")


def flood(address, ids, ended):
    """Posts until it is told to end; what got no answer is sent again."""
    connection = None
    while not ended.is_set():
        batch = [fresh("f") for _ in range(20)]
        while True:
            try:
                connection = connection or Connection(address)
                answer = connection.request("POST", "/in/a",
                                            event_bytes([{"id": number} for number in batch]))
                assert answer.status == 200, answer
                break
            except OSError:
                connection = None
                if ended.is_set():
                    return
        ids += batch
        time.sleep(0.002)


@pytest.mark.parametrize("own", [False, True])
def test_kill_of_the_database_during_commits_is_exactly_once(stile, scratch, scale, own):
    """The effect has no key of its own: a second one would be counted."""
    server = Postgres()
    try:
        server.ask("CREATE TABLE done (id text NOT NULL)")
        more = "statement: \"INSERT INTO done VALUES ({id})\"" if own else ""
        config = configure(scratch, source("a"), postgres_sink(server, "db", more))
        it = stile("--config", config)
        ids, ended = [], threading.Event()
        thread = threading.Thread(target=flood, args=(it.address, ids, ended))
        thread.start()
        chance = random.Random(1)
        table = "done" if own else "stile_events"
        for _ in range(5 * scale):
            before = len(ids)
            eventually(lambda: len(ids) > before + 200, "events flow")  # pylint: disable=W0640
            time.sleep(chance.random() * 0.1)
            server.kill()
            server.start()
        ended.set()
        thread.join()
        it.wait_settled()
        count = server.ask(f"SELECT count(*), count(DISTINCT id) FROM {table}")
        assert count == f"{len(ids)}|{len(ids)}"
        assert len(ids) > 1000
        assert sample(it, "stile_deliveries_total", sink="db", outcome="failed") > 0
        assert sample(it, "stile_dead_tickets") == 0
    finally:
        server.close()


def test_kill_of_stile_is_exactly_once(stile, scratch, postgres, scale):
    postgres.ask("CREATE TABLE once (id text NOT NULL)")
    config = configure(scratch, source("a"), postgres_sink(
        postgres, "once", "statement: \"INSERT INTO once VALUES ({id})\""))
    chance = random.Random(2)
    ids = []
    for _ in range(5 * scale):
        it = stile("--config", config)
        with it.connect() as connection:
            for _ in range(10):
                batch = [fresh() for _ in range(100)]
                connection.request("POST", "/in/a", event_bytes([{"id": i} for i in batch]))
                ids += batch
        time.sleep(chance.random() * 0.05)
        it.kill()
    it = stile("--config", config)
    it.wait_settled()
    assert postgres.ask("SELECT count(*), count(DISTINCT id) FROM once") == f"{len(ids)}|{len(ids)}"
