"""Several gateways with one memory: Redis, a Redis Cluster, PostgreSQL. Whoever is asked,
each key is new once; what a node leaves when it dies, another delivers; what was
acknowledged is never forgotten, whatever befalls the server."""

import concurrent.futures
import contextlib
import json
import os
import signal
import subprocess
import threading
import time

import pytest
import redis

import rediskit
import respkit
import sharedkit
from gatekit import write
from harness import Connection, event_bytes, eventually, take_problem
from sharedkit import Acknowledged, Fleet, load, send, wait_outcomes
from sinkkit import QUICK, http_sink, key, source


@pytest.fixture(scope="module", params=sorted(sharedkit.BACKENDS))
def backend(request):
    made = sharedkit.BACKENDS[request.param]()
    yield made
    made.close()


def only(*kinds):
    """For some kinds of stores."""
    return pytest.mark.parametrize("backend", kinds, indirect=True, scope="module")


@pytest.fixture
def fleet(stile, scratch, binary, backend):
    def make(*arguments, **more):
        return Fleet(stile, scratch, binary, backend, *arguments, **more)
    return make


# ---- two nodes ----

def test_clients_racing_on_two_nodes_hear_new_once(fleet, scale):
    its = fleet()
    nodes = [its.start("one"), its.start("two")]
    oracle = Acknowledged()
    ids = [f"race-{n}" for n in range(150 * scale)]
    threads = [threading.Thread(target=send, args=(nodes[i % 2], ids, oracle))
               for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    oracle.check()
    assert len(oracle.new) == len(ids)
    printed = lambda: sorted(event["id"] for node in nodes for event in node.events())  # noqa: E731
    eventually(lambda: len(printed()) >= len(ids), "all are delivered, by one or the other")
    for node in nodes:
        assert node.stop() == 0
    assert printed() == sorted(ids)


def test_what_a_killed_node_leaves_another_delivers(fleet, sink):
    """`park` never sends twice, so what was under way is parked, and all else arrives."""
    destination = sink(lambda request: 200)
    its = fleet(destination, f"on_unknown: park, concurrency: 4, {QUICK}")
    first, second = its.start("first"), its.start("second")
    oracle = Acknowledged()
    with load([first, second], oracle, "k"):
        eventually(lambda: len(destination.got()) > 100, "deliveries are under way")
        first.kill()
        before = len(oracle.known)
        eventually(lambda: len(oracle.known) > before + 50, "the other goes on")

    wait_outcomes(second, oracle, destination)


def test_node_that_slept_past_its_lease_is_refused(fleet, sink):
    held = threading.Event()

    def answer(request):
        if len(destination.got()) == 1:
            held.wait(60)  # the first attempt: an answer that comes too late
        return 200
    destination = sink(answer)
    its = fleet(destination, f"on_unknown: retry, {QUICK}")
    sleeper = its.start("sleeper")
    with Connection(sleeper.address) as connection:
        ticket = connection.post({"id": "late"}, path="/in/a").json()["ticket"]
    destination.wait(1)
    sleeper.process.send_signal(signal.SIGSTOP)
    try:
        other = its.start("other")
        destination.wait(2)
        eventually(lambda: other.metrics()["stile_open_tickets"].value() == 0,
                   "the other has recorded its outcome")
        held.set()
    finally:
        sleeper.process.send_signal(signal.SIGCONT)
    eventually(lambda: sleeper.metrics()["stile_sink_lost_total"].value(sink="it") == 1 or
               "too late" in sleeper.log(), "the late outcome is refused")
    assert [key(request) for request in destination.got()] == [ticket, ticket]
    assert sleeper.stop() == 0 and other.stop() == 0
    assert len(destination.got()) == 2


def test_node_whose_configuration_drops_a_sink_leaves_its_events_to_others(fleet, sink, stile,
                                                                           scratch):
    """Neither what it holds, nor what comes later: its takes still wait at the store then."""
    up = threading.Event()
    destination = sink(lambda request: 200 if up.is_set() else 500)
    retry = "retry: { first: 300ms, max: 300ms }, breaker: { failures: 0, percent: 0 }"
    its = fleet(destination, retry)
    own = write(scratch, "own.yaml", its.text)
    node = stile("--config", own, folder=os.path.join(scratch, "drops"), name="drops")
    other = its.start("keeps")
    ids = [str(number) for number in range(60)]
    with Connection(node.address) as connection:
        for number in ids[:20]:
            assert connection.post({"id": number}, path="/in/a").status == 200
    eventually(lambda: sum(row["waiting"] for row in node.ask("GET", "/v1/sinks").json()["sinks"])
               > 0, "it holds some")
    write(scratch, "own.yaml", its.text.replace("  it:", "  another:"))
    node.process.send_signal(signal.SIGHUP)
    eventually(lambda: "sink removed" in node.log(), "it is removed")
    up.set()
    with Connection(other.address) as connection:
        for number in ids[20:]:
            assert connection.post({"id": number}, path="/in/a").status == 200
            time.sleep(0.01)
    good = lambda: set(destination.ids()) == set(ids) and \
        other.metrics()["stile_open_tickets"].value() == 0  # noqa: E731
    eventually(good, "the other delivers all of them")
    assert node.stop() == 0 and other.stop() == 0


def ask_claims(node, method, token="", **body):
    """/v1/claims is on the listener of events."""
    with Connection(node.address) as connection:
        return connection.request(method, f"/v1/claims{token}", event_bytes(body))


def test_claims_and_redis_keys_of_one_node_are_known_to_the_other(fleet):
    its = fleet()
    nodes = [its.start(name, options=("--resp", "127.0.0.1:0")) for name in ("one", "two")]
    mine = ask_claims(nodes[0], "POST", key="order-17", lease="30s")
    assert mine.status == 201, mine
    assert ask_claims(nodes[1], "POST", key="order-17").status == 409
    answer = ask_claims(nodes[1], "PUT", "/" + mine.json()["token"], outcome={"charged": 5})
    assert answer.status == 200, answer
    for node in nodes:
        answer = ask_claims(node, "POST", key="order-17")
        assert answer.status == 200 and answer.json()["outcome"] == {"charged": 5}, answer
    one, two = (redis.Redis(*respkit.address_of(node)) for node in nodes)
    assert one.set("event:1", "PROCESSED", nx=True, ex=100) is True
    assert two.set("event:1", "PROCESSED", nx=True, ex=100) is None
    assert two.get("event:1") == b"PROCESSED" and 0 < two.ttl("event:1") <= 100
    assert two.delete("event:1") == 1
    assert one.set("event:1", "again", nx=True) is True


# ---- the server ----

def test_server_that_is_killed_under_load_forgets_nothing(fleet, backend, scale):
    if backend.kind == "cluster":
        pytest.skip("a cluster that dies as a whole is another matter: see failover")
    its = fleet(lease_s=20)  # outcomes wait for the server, and come before their leases end
    nodes = [its.start("one"), its.start("two")]
    oracle = Acknowledged()
    for life in range(3 * scale):
        with load(nodes, oracle, f"l{life}"):
            before = len(oracle.known)
            eventually(lambda: len(oracle.known) > before + 100, "events are acknowledged")
            backend.kill()
            time.sleep(0.2)
            backend.start()
            before = len(oracle.known)
            eventually(lambda: len(oracle.known) > before + 50, "it goes on by itself")
    oracle.check()
    oracle.check_remembered(nodes[0])

    def printed():
        return [event["id"] for node in nodes for event in node.events()]
    eventually(lambda: oracle.known <= set(printed()), "all are delivered")
    assert len(printed()) == len(set(printed())), "delivered twice"


@only("redis", "postgres")
@pytest.mark.parametrize("on_unknown", ["park", "retry"])
def test_outage_longer_than_the_lease_repeats_nothing_that_is_done(fleet, backend, sink,
                                                                   on_unknown):
    """Its takes and its outcomes come to the store in any order when that is back."""
    go_on, ids = threading.Event(), [f"done-{n}" for n in range(8)]
    destination = sink(lambda request: (go_on.wait(60), 200)[1])
    its = fleet(destination, f"on_unknown: {on_unknown}, {QUICK}", lease_s=2)
    node = its.start("one")
    with Connection(node.address) as connection:
        for name in ids:
            assert connection.post({"id": name}, path="/in/a").status == 200
    destination.wait(len(ids))
    backend.kill()
    try:
        go_on.set()
        time.sleep(4)  # as the lease is the server's to count
    finally:
        backend.start()
    eventually(lambda: node.metrics()["stile_store_away"].value() == 0 and
               node.metrics()["stile_open_tickets"].value() == 0, "all outcomes are recorded")
    assert sorted(destination.ids()) == sorted(ids)
    assert node.stop() == 0


@only("redis")
def test_store_that_says_nothing_is_refused_fast_and_comes_back(fleet, backend):
    its = fleet(timeout="1s")
    node = its.start("one")
    with Connection(node.address) as connection:
        eventually(lambda: connection.post({"id": "before"}, path="/in/a").status == 200,
                   "it is decided")
        node.wait_events(1)
        node.wait_settled()
        backend.pause()
        try:
            def away():
                answer = connection.post({"id": "while"}, path="/in/a")
                detail = take_problem(answer, 503)
                assert answer.header("retry-after") == "1"
                return "unreachable" in detail and node.metrics()["stile_store_away"].value() == 1
            eventually(away, "the breaker opens")
            began = time.monotonic()
            for _ in range(50):
                take_problem(connection.post({"id": "while"}, path="/in/a"), 503)
            assert time.monotonic() - began < 25, "a refusal waits for nothing"
            assert node.get("/readyz").status == 503
        finally:
            backend.resume()
        eventually(lambda: node.get("/readyz").status == 200, "it is ready again")
        for name in ("while", "before"):
            answer = eventually(lambda: sharedkit.once_decided(connection, name), "it decides")
        assert answer.json()["verdict"] == "duplicate"
    eventually(lambda: sorted(event["id"] for event in node.events()) == ["before", "while"],
               "each is delivered once")


@only("redis")
def test_full_store_refuses_and_goes_on_when_there_is_room(fleet, backend):
    its = fleet()
    node = its.start("one")
    oracle = Acknowledged()
    used = backend.server.info("used_memory")
    backend.server.set("maxmemory", str(used))
    try:
        with Connection(node.address) as connection:
            eventually(lambda: connection.post({"id": f"full-{time.monotonic()}",
                                                "pad": "x" * 100000}, path="/in/a").status == 503,
                       "the store is full")
        backend.server.set("maxmemory", "0")
        send(node, [f"room-{n}" for n in range(20)], oracle)
        assert len(oracle.new) == 20
    finally:
        backend.server.set("maxmemory", "0")


@only("redis")
def test_store_that_evicts_is_refused_and_check_says_why(fleet, backend, run, stile, scratch):
    its = fleet()
    code, out, _ = run("store", "check", its.url)
    assert code == 0, out
    backend.server.set("maxmemory-policy", "allkeys-lru")
    try:
        code, out, _ = run("store", "check", its.url)
        assert code == 1 and "noeviction" in out, out
        code, _, log = run("serve", "--store", its.url, "--data", os.path.join(scratch, "none"),
                           "--listen", "127.0.0.1:0", "--admin", "none")
        assert code == 1 and "noeviction" in log, log
    finally:
        backend.server.set("maxmemory-policy", "noeviction")


def test_server_that_evicts_is_refused_also_where_config_is_forbidden(run, scratch):
    server = rediskit.Redis("--rename-command", "CONFIG", "", "--maxmemory-policy", "volatile-lru")
    try:
        code, out, _ = run("store", "check", server.url())
        assert code == 1 and "noeviction" in out and "volatile-lru" in out, out
        code, _, log = run("serve", "--store", server.url(), "--data",
                           os.path.join(scratch, "none"), "--listen", "127.0.0.1:0", "--admin",
                           "none")
        assert code == 1 and "noeviction" in log, log
    finally:
        server.close()


@only("redis")
def test_full_store_still_renews_leases(fleet, backend, sink):
    """What is being delivered stays with its node, however long that takes."""
    held = threading.Event()

    def answer(_):
        held.wait(60)
        return 200
    destination = sink(answer)
    its = fleet(destination, f"on_unknown: retry, timeout: 60s, {QUICK}", lease_s=6)
    nodes = [its.start("one"), its.start("two")]

    def lease_end_ms():
        """Of the only leased ticket (redis_script.lua)."""
        return int(float(backend.server.ask("ZRANGE", f"{its.name}{{0}}l", "0", "-1",
                                            "WITHSCORES")[1]))
    with Connection(nodes[0].address) as connection:
        assert connection.post({"id": "long"}, path="/in/a").status == 200
    destination.wait(1)
    backend.server.set("maxmemory", "1mb")
    try:
        first = lease_end_ms()
        eventually(lambda: lease_end_ms() >= first + 3000 or len(destination.got()) > 1,
                   "its lease is renewed")
        assert len(destination.got()) == 1, "delivered by two at once"
    finally:
        backend.server.set("maxmemory", "0")
        held.set()
    eventually(lambda: nodes[0].metrics()["stile_open_tickets"].value() == 0, "it is done")
    assert len(destination.got()) == 1


def end_leases(server):
    """As if their time were over. Told: the numbers of the attempts of open tickets (RECORD in
    redis_script.lua)."""
    for ticket in server.ask("ZRANGE", "stile{0}l", "0", "-1"):
        server.ask("ZADD", "stile{0}l", "XX", "1", ticket)
    records = [server.ask("GETRANGE", b"stile{0}t" + ticket, "36", "37")
               for ticket in server.ask("ZRANGE", "stile{0}o", "0", "-1")]
    return [int.from_bytes(record, "big") for record in records]


def test_what_no_replica_knows_to_be_taken_is_not_delivered(stile, scratch, sink):
    """After a failover another node would take it once more, under the same number."""
    destination = sink(lambda request: 200)
    master, replica = rediskit.Redis("--repl-diskless-sync-delay", "0", aof=None), None
    try:
        follow = ("--replicaof", master.address, str(master.port))
        replica = rediskit.Redis(*follow, aof=None)
        with master.client() as client:
            client.set("any", "thing")
            assert client.wait(1, 20000) == 1
        url = master.url() + "?replicas=1&wait=500ms&timeout=5s"
        config = write(scratch, "replicas.yaml", f"store: {{ url: \"{url}\", lease: 60s }}\n"
                       "sources:\n" + source("a") + "sinks:\n" +
                       http_sink("it", destination.url("/it"), f"on_unknown: retry, {QUICK}"))
        node = stile("--config", config)
        with Connection(node.address) as connection:
            eventually(lambda: connection.post({"id": "before"}, path="/in/a").status == 200,
                       "it is decided")
            eventually(lambda: node.metrics()["stile_open_tickets"].value() == 0,
                       "its lane knows that the sink is not paused", limit_s=150)
            replica.kill()
            assert connection.post({"id": "x"}, path="/in/a").status == 503
            eventually(lambda: len(destination.got()) > 1 or
                       max(end_leases(master), default=0) > 3, "it is taken again and again",
                       pause_s=0.2)
            assert len(destination.got()) == 1, "delivered under a lease that no replica has"
            replica.start()
            eventually(lambda: connection.post({"id": "x"}, path="/in/a").status == 200,
                       "it is decided")
            eventually(lambda: end_leases(master) == [], "it is done", pause_s=0.2)
        assert len(destination.got()) > 1
    finally:
        master.close()
        if replica:
            replica.close()


@only("postgres")
def test_tables_are_made_by_init_alone_and_their_lack_is_told(fleet, backend, run, scratch):
    url = backend.url(sharedkit.fresh_name())
    options = ["--store", url, "--data", os.path.join(scratch, "none"), "--listen",
               "127.0.0.1:0", "--admin", "none"]
    code, _, log = run("serve", *options)
    assert code == 1 and "stile store init" in log, log
    code, out, _ = run("store", "check", url)
    assert code == 1 and "init" in out, out
    for _ in range(2):  # what is there stays
        code, out, log = run("store", "init", url)
        assert code == 0, log
    code, out, log = run("store", "migrate", url)
    assert code == 0, log
    code, out, _ = run("store", "check", "--json", url)
    assert code == 0 and json.loads(out)["fit"] is True, out


@only("postgres")
def test_server_that_may_forget_is_refused(fleet, backend, run, scratch):
    its = fleet()
    backend.server.ask("ALTER ROLE stile SET synchronous_commit = off")
    try:
        code, out, _ = run("store", "check", its.url)
        assert code == 1 and "synchronous_commit" in out, out
        code, _, log = run("serve", "--store", its.url, "--data", os.path.join(scratch, "none"),
                           "--listen", "127.0.0.1:0", "--admin", "none")
        assert code == 1 and "synchronous_commit" in log, log
    finally:
        # Durable at once: the session has the role's setting, and a later test kills the server.
        backend.server.ask("SET synchronous_commit = on;"
                           "ALTER ROLE stile RESET synchronous_commit")


def at_once(check, cases):
    """Each in a thread, as most of them wait."""
    with concurrent.futures.ThreadPoolExecutor(len(cases)) as threads:
        list(threads.map(check, cases))


def test_url_that_nobody_answers_is_told_without_its_password(run, stile):
    urls = ["redis://:c4n4ry@127.0.0.1:1", "postgres://stile:c4n4ry@127.0.0.1:1/stile",
            "redis-cluster://:c4n4ry@127.0.0.1:1"]

    def check(url):
        hidden = url.replace("c4n4ry", "${SECRET}")
        for words in (["store", "check", hidden], ["store", "init", hidden]):
            code, out, log = run(*words, env={"SECRET": "c4n4ry"})
            assert "c4n4ry" not in out + log, words
            assert code == 1 or words[1:2] == ["init"], (words, out, log)
        code, out, log = run("store", "check", url)  # a password on the command line
        assert code == 2 and "c4n4ry" not in out + log, log

    at_once(check, urls)
    for url in urls:
        node = sharedkit.start_waiting(stile, "--store", url.replace("c4n4ry", "${SECRET}"),
                                       env={"SECRET": "c4n4ry"})
        take_problem(node.request("POST", "/in/events", event_bytes({"id": "1"})), 503)
        assert node.stop() == 0 and "c4n4ry" not in node.log()


def test_parameter_that_there_is_not_is_a_matter_of_usage(run, scratch):
    def check(case):
        url, word = case
        for words in (["store", "check", url], ["store", "init", url],
                      ["serve", "--store", url, "--data", os.path.join(scratch, "none")]):
            code, out, log = run(*words, env={"SECRET": "c4n4ry"})
            assert code == 2 and word in log, (words, out, log)
            assert out == "" and "c4n4ry" not in log

    at_once(check, [("redis://127.0.0.1:1/?replicas=some", "replicas"),
                    ("redis://:${SECRET}@127.0.0.1:1?nonsense=1", "nonsense"),
                    ("redis-cluster://127.0.0.1:1?shards=3", "shards"),
                    ("redis://127.0.0.1:70000", "HOST:PORT"),
                    ("redis://127.0.0.1:1/first", "number of a database"),
                    ("postgres://u:${SECRET}@127.0.0.1:1/c?nonsense=1", "connection string"),
                    ("postgres://u@127.0.0.1:1/c?schema=No", "schema")])


def test_replica_is_refused_as_what_it_is(run, scratch):
    master, replica = rediskit.Redis(), rediskit.Redis()
    try:
        replica.ask("REPLICAOF", master.address, master.port)
        url = replica.url() + "?timeout=2s"
        code, out, _ = run("store", "check", url)
        assert code == 1 and "is a replica: name the master" in out, out
        code, _, log = run("serve", "--store", url, "--data", os.path.join(scratch, "none"),
                           "--listen", "127.0.0.1:0", "--admin", "none")
        assert code == 1 and "it is a replica, which takes no writes" in log, log
    finally:
        replica.close()
        master.close()


def test_no_character_of_a_password_makes_it_part_of_the_host(run):
    server = rediskit.Redis(password="c4n/4ry@c4n?4ry:c4n#4ry")
    try:
        url = f"redis://:${{SECRET}}@{server.address}:{server.port}"

        def check(case):
            secret, fits = case
            for kind in (url, "postgres://c:${SECRET}@127.0.0.1:1/c"):
                code, out, log = run("store", "check", kind, env={"SECRET": secret})
                assert "c4n" not in out + log and "4ry" not in out + log, (secret, out, log)
                assert code == (fits if kind is url else 1), (secret, out, log)
        at_once(check, [("c4n/4ry@c4n?4ry:c4n#4ry", 0), ("c4n%2f4ry@c4n%3F4ry:c4n%234ry", 0),
                        ("c4n/4ry", 1), ("1/c4n", 1), ("x@c4n", 1)])
    finally:
        server.close()


def test_redis_that_does_not_know_auth_is_told_without_the_password_that_it_repeats(run, scratch):
    server = rediskit.Redis("--rename-command", "AUTH", "")
    try:
        def check(case):
            login, secret = case
            url = f"redis://{login}@{server.address}:{server.port}?timeout=1s"
            folder = os.path.join(scratch, "none")
            for words in (["store", "check", url],
                          ["serve", "--store", url, "--data", folder, "--listen", "127.0.0.1:0",
                           "--admin", "none"]):
                code, out, log = run(*words, env={"SECRET": secret})
                assert code == 1 and "unknown command" in out + log, (words, out, log)
                assert "c4n4ry" not in out + log, (words, out, log)
        for case in ((":${SECRET}", "c4n4ry"), ("usr:${SECRET}", "c4n4ry"),
                     (":${SECRET}", "c4n4ry" * 40)):  # longer than what Redis repeats
            check(case)
    finally:
        server.close()


def test_password_that_is_a_parameter_is_refused_on_the_command_line(run):
    code, out, log = run("store", "check", "postgres://u@127.0.0.1:1/c?password=c4n4ry")
    assert code == 2 and "c4n4ry" not in out + log, log


def test_password_and_tls_of_a_redis_and_nobody_reads_the_password(stile, scratch, run):
    server = rediskit.Redis(password="c4n4ry", tls=True)
    try:
        url = server.url().replace("c4n4ry", "${SECRET}") + f"?ca={server.certificate[0]}" \
            "&timeout=1s"
        secret = {"SECRET": "c4n4ry"}
        config = write(scratch, "tls.yaml", f"store: \"{url}\"\nsources:\n" + source("a"))
        code, out, log = run("store", "check", "--config", config, env=secret)
        assert code == 0, out
        said = out + log
        said += "".join(run("check", config, env=secret)[1:])
        node = stile("--config", config, env=secret)
        with Connection(node.address) as connection:
            assert connection.post({"id": "one"}, path="/in/a").json()["verdict"] == "new"
            server.kill()
            eventually(lambda: connection.post({"id": "two"}, path="/in/a").status == 503 and
                       node.metrics()["stile_store_away"].value() == 1, "it is away")
            said += node.get("/metrics").body.decode() + node.get("/readyz").body.decode()
            server.start()
            eventually(lambda: connection.post({"id": "two"}, path="/in/a").status == 200,
                       "it is back")
        assert node.stop() == 0
        assert "c4n4ry" not in said + node.log()
        assert "rediss://localhost" in node.log()
        code, out, _ = run("store", "check", url, env={"SECRET": "another"})
        assert code == 1 and "another" not in out, out
    finally:
        server.close()


def test_name_with_an_address_where_nobody_listens_is_found_by_the_other(binary, scratch):
    server = rediskit.Redis()
    try:
        hosts = write(scratch, "hosts", "::1 both\n127.0.0.1 both\n")
        alone = ["unshare", "-m", "sh", "-c", f"mount --bind {hosts} /etc/hosts && exec \"$@\"",
                 "sh"]
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
            pytest.skip("needs a name space of its own, for /etc/hosts")
        done = subprocess.run([*alone, binary, "store", "check", f"redis://both:{server.port}"],
                              capture_output=True, check=False, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        server.close()


# ---- a cluster ----

@contextlib.contextmanager
def claims_under_load(fleet, prefix):
    """Before, while and after the block happens, events are acknowledged on two nodes; at the
    end the store knows them all."""
    its = fleet()
    nodes = [its.start("one"), its.start("two")]
    oracle = Acknowledged()
    with load(nodes, oracle, prefix):
        eventually(lambda: len(oracle.known) > 200, "events are acknowledged")
        yield
        before = len(oracle.known)
        eventually(lambda: len(oracle.known) > before + 100, "it goes on")
    oracle.check()
    oracle.check_remembered(nodes[0])


@only("cluster")
def test_failover_loses_no_acknowledged_claim(fleet, backend):
    cluster = backend.cluster
    with claims_under_load(fleet, "f"):
        old = cluster.masters()[0]
        view = cluster.kill_master(old)
        cluster.wait_promoted(old, view)
        old.start()  # its successor has no other replica, and may not answer without one
        cluster.wait_whole()


@only("cluster")
def test_partition_of_a_master_loses_no_acknowledged_claim(fleet, backend):
    cluster = backend.cluster
    with claims_under_load(fleet, "p"):
        old = cluster.masters()[0]
        view = next(one for one in cluster.masters() if one is not old)
        with cluster.cut_off(old):
            cluster.wait_promoted(old, view)
        cluster.wait_whole()


@only("cluster")
def test_resharding_under_load_loses_nothing(fleet, backend):
    cluster = backend.cluster
    with claims_under_load(fleet, "r"):
        giver, taker = cluster.masters()[:2]
        cluster.move_slots(giver, taker, 600)
        cluster.move_slots(taker, giver, 600)
        cluster.wait_whole()


# ---- a start without the store ----

@only("redis", "postgres")
def test_gateway_that_starts_without_its_store_refuses_and_goes_on_by_itself(fleet, backend):
    its = fleet()
    backend.kill()
    try:
        node = its.start_waiting("one")
        answer = node.request("POST", "/in/a", event_bytes({"id": "early"}))
        take_problem(answer, 503)
        assert answer.header("retry-after") == "1"
        assert node.get("/healthz").status == 200
        answer = node.get("/readyz")
        assert answer.status == 503 and b"shared store is unreachable" in answer.body
        node.process.send_signal(signal.SIGHUP)
        eventually(lambda: "SIGHUP" in node.log(), "it is told that nothing is loaded again")
        waited_at = node.address
    finally:
        backend.start()
    node.wait_ready()
    assert node.address == waited_at, "the port stays"
    answer = node.request("POST", "/in/a", event_bytes({"id": "early"}))
    assert answer.status == 200 and answer.json()["verdict"] == "new"
    eventually(lambda: [event["id"] for event in node.events()] == ["early"], "it is delivered")
    assert node.stop() == 0


@only("redis", "postgres")
def test_gateway_that_waits_for_its_store_stops_when_it_is_told(fleet, backend):
    its = fleet()
    backend.kill()
    try:
        assert its.start_waiting("one").stop() == 0
    finally:
        backend.start()


@only("postgres")
def test_server_that_comes_without_tables_ends_the_wait(stile, backend):
    url = backend.url(sharedkit.fresh_name())
    backend.kill()
    try:
        node = sharedkit.start_waiting(stile, "--store", url)
    finally:
        backend.start()
    assert node.wait() == 1
    assert "stile store init" in node.log()


def test_wrong_password_is_refused_at_once(run, scratch):
    server = rediskit.Redis(password="right")
    database = sharedkit.PostgresBackend()
    try:
        database.server.ask("CREATE ROLE guarded LOGIN PASSWORD 'right'")
        database.server.demand_password("guarded")
        unknown = database.url("stile").replace("/postgres?", "/nowhere?")
        for url in (server.url().replace("right", "${SECRET}") + "?timeout=1s",
                    database.url("stile").replace("stile@", "guarded:${SECRET}@"), unknown):
            code, _, log = run("serve", "--store", url, "--data", os.path.join(scratch, "none"),
                               "--listen", "127.0.0.1:0", "--admin", "none",
                               env={"SECRET": "wr0ng"})
            assert code == 1 and "cannot be opened" in log, log
            assert "wr0ng" not in log and "LOCATION" not in log, log
    finally:
        database.close()
        server.close()


# ---- a store that has lost its data ----

@only("redis")
def test_a_gateway_that_starts_after_the_store_was_emptied_has_the_same_secret(fleet, backend):
    its = fleet()
    first = its.start("first")
    secret = backend.server.ask("GET", f"{its.name}:secret")
    backend.server.ask("FLUSHALL")
    eventually(lambda: backend.server.ask("GET", f"{its.name}:secret") == secret,
               "the secret is put back")
    second = its.start("second")
    answers = [node.request("POST", "/in/a", event_bytes({"id": "emptied"}))
               for node in (first, second)]
    assert [answer.json()["verdict"] for answer in answers] == ["new", "duplicate"]
    assert "shared store lost its data" in first.log()


@only("redis")
def test_a_gateway_whose_store_was_exchanged_decides_nothing(fleet, backend):
    its = fleet()
    node = its.start("only")
    backend.server.ask("SET", f"{its.name}:secret", "x" * 16)
    eventually(lambda: "shared store was emptied or replaced" in node.log(), "it is noticed")
    take_problem(node.request("POST", "/in/a", event_bytes({"id": "exchanged"})), 503)
    backend.server.ask("DEL", f"{its.name}:secret")
    eventually(lambda: node.request("POST", "/in/a", event_bytes({"id": "again"})).status == 200,
               "its own is put back")
