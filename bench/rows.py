"""The rows of the benchmark, each a function of measure.Bench. The first line
of a row's text is its title."""

import concurrent.futures
import contextlib
import json
import os
import shutil
import subprocess
import time

import rows_deliver
import rows_postgres
import rows_resp
import servers
from measure import (DISTURBED_CORES, Missing, children_busy_s, drop_caches, forget_files,
                     machine_busy_s, median, ratio)

MANY = 10_000_000
MOST = 100_000_000


def start(bench, stack, *candidates):
    """Starts the servers that can be had; stile may be missing."""
    return [stack.enter_context(server) for server in candidates if server is not None]


def nginx(bench, **options):
    name = options.get("name", "nginx")
    return servers.Nginx(bench.folder(name), bench.args.server_cpu, **options)


def stile(bench, **options):
    binary = bench.stile()
    if binary is None:
        return None
    return servers.Stile(bench.folder("stile"), bench.args.server_cpu, binary, **options)


def http_unique(bench):
    """1 KB POST, unique ids, keep-alive, durable before the answer; nginx `return 200`"""
    limits = {256: (1.15, 1.25), 64: (1.0, None), 8: (None, None), 1: (None, None)}
    for connections, (least_rps, least_cpu) in limits.items():
        with contextlib.ExitStack() as stack:
            found = start(bench, stack, nginx(bench), stile(bench))
            medians = bench.compare("%d connections" % connections, found,
                                    connections=connections)
        judge_pair(bench, "%d connections" % connections, medians, "nginx", least_rps, least_cpu)


def judge_pair(bench, what, medians, peer, least_rps, least_cpu):
    rps = ratio(medians, "stile", peer, "rps")
    cpu = ratio(medians, peer, "stile", "server_cpu_us")
    for text, value, least in (("requests/s", rps, least_rps), ("less CPU", cpu, least_cpu)):
        text = "%s, %s, × %s" % (what, text, peer)
        if least is None:
            bench.report(text, value)
        else:
            bench.target(text, value, least=least)


def http_tuned(bench):
    """the same against nginx with a header buffer that holds the whole POST (4k, not 1k)"""
    for connections in (256, 64):
        with contextlib.ExitStack() as stack:
            found = start(bench, stack, nginx(bench, tuned=True, name="nginx-4k"), stile(bench))
            medians = bench.compare("%d connections" % connections, found,
                                    connections=connections)
        judge_pair(bench, "%d connections" % connections, medians, "nginx-4k", None, None)


def http_recycled(bench):
    """the same with the journal at its size limit, as in long service: segments are used again"""
    for connections, (least_rps, least_cpu) in {256: (1.15, 1.25), 64: (1.0, None)}.items():
        with contextlib.ExitStack() as stack:
            found = start(bench, stack, nginx(bench),
                          stile(bench, more=["--retain-size", "64MiB"]))
            medians = bench.compare("%d connections" % connections, found,
                                    connections=connections)
        judge_pair(bench, "%d connections" % connections, medians, "nginx", least_rps, least_cpu)


def http_genesys(bench):
    """Genesys events by the preset (two claims) beside plain ones (one claim)"""
    server = stile(bench)
    if server is None:
        return
    with server:
        rounds = bench.alternate({
            kind: (lambda kind=kind: bench.load(server, connections=256, event=kind))
            for kind in ("plain", "genesys")})
    bench.keep("256 connections", rounds)
    medians = {name: {key: median(one, key) for key in one[0]} for name, one in rounds.items()}
    for name in rounds:
        bench.show_load("256 connections", name, medians[name])
    bench.target("requests/s with the preset genesys, × plain",
                 ratio(medians, "genesys", "plain", "rps"), least=0.9)


BATCH = 100


def http_batch(bench):
    """batches of 100 plain events, 16 connections; nginx, Lua and Redis with one a request"""
    options = ["--appendonly", "yes", "--appendfsync", "always"]
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(
            servers.Redis(bench.folder("redis"), bench.args.server_cpu, options))
        peer = stack.enter_context(nginx(bench, redis=redis, name="nginx+redis"))
        ours = stile(bench)
        sides = {"nginx+redis": lambda: bench.load(peer, connections=256)}
        if ours is not None:
            stack.enter_context(ours)
            sides["stile"] = lambda: bench.load(ours, connections=16, batch=BATCH)
        rounds = bench.alternate(sides)
    bench.keep("batches", rounds)
    medians = {name: {key: median(one, key) for key in one[0]} for name, one in rounds.items()}
    for name in rounds:
        bench.show_load("batches of %d" % BATCH if name == "stile" else "one by one", name,
                        medians[name])
    if ours is not None:
        events = medians["stile"]["rps"] * BATCH
        bench.report("events/s in batches of %d" % BATCH, events)
        bench.target("events/s, × nginx+redis", events / medians["nginx+redis"]["rps"], least=30)


def http_duplicate(bench):
    """1 KB POST, only duplicates, keep-alive; nginx `return 200`"""
    for connections in (256, 64):
        with contextlib.ExitStack() as stack:
            found = start(bench, stack, nginx(bench), stile(bench))
            medians = bench.compare("%d connections" % connections, found,
                                    connections=connections, duplicates=1000)
        judge_pair(bench, "%d connections" % connections, medians, "nginx", 1.1, None)


def today(bench):
    """the same work as it is done today: nginx, Lua and Redis with appendfsync always"""
    options = ["--appendonly", "yes", "--appendfsync", "always"]
    for connections in (256, 64):
        with contextlib.ExitStack() as stack:
            redis = stack.enter_context(
                servers.Redis(bench.folder("redis"), bench.args.server_cpu, options))
            found = start(bench, stack, nginx(bench, redis=redis, name="nginx+redis"),
                          stile(bench))
            what = "%d connections" % connections
            medians = bench.compare(what, found, connections=connections)
        judge_pair(bench, what, medians, "nginx+redis", 5, 6)


DECIDES = """sources:
  events: { preset: auto }
routes:
  - { to: none }
"""


def redis_store(bench):
    """decisions in a shared Redis (appendfsync always): stile with that store, deciding only
    (to: none), then with the events kept and delivered too; nginx, Lua and the same Redis"""
    options = ["--appendonly", "yes", "--appendfsync", "always"]
    decides = os.path.join(bench.args.work, "decides.yaml")
    with open(decides, "w", encoding="utf-8") as file:
        file.write(DECIDES)
    for kind, more, least in (("decisions", ["--config", decides], 2), ("delivered", [], None)):
        for connections in (256, 64):
            with contextlib.ExitStack() as stack:
                redis = stack.enter_context(
                    servers.Redis(bench.folder("redis"), bench.args.server_cpu, options))
                found = start(bench, stack, nginx(bench, redis=redis, name="nginx+redis"),
                              stile(bench, redis=redis, more=more))
                what = "%s, %d connections" % (kind, connections)
                medians = bench.compare(what, found, connections=connections)
            judge_pair(bench, what, medians, "nginx+redis", least if connections == 64 else None,
                       None)


def redis_cluster(bench):
    """two nodes of stile on one Redis Cluster of six (appendfsync always) beside one node"""
    binary = bench.stile()
    if binary is None:
        return
    cpus = "%s,%s" % (bench.args.server_cpu, bench.args.load_cpu)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(servers.RedisCluster(
            bench.folder("cluster"), cpus, ["--appendonly", "yes", "--appendfsync", "always"]))
        nodes = start(bench, stack, *(servers.Stile(bench.folder("node-%d" % i), cpus, binary,
                                                    redis=cluster) for i in range(2)))
        rounds = bench.alternate({
            "one node": lambda: together(bench, nodes[:1], 256),
            "two nodes": lambda: together(bench, nodes, 128)})
    bench.keep("256 connections in all", rounds)
    for name, figures in rounds.items():
        bench.show("256 connections in all", name, "%9.0f/s" % median(figures, "rps"))
    bench.report("two nodes, requests/s, × one node",
                 median(rounds["two nodes"], "rps") / median(rounds["one node"], "rps"))


def together(bench, nodes, connections):
    """Load on all nodes at the same time."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        each = list(pool.map(lambda node: bench.load(node, repeats=1, connections=connections),
                             nodes))
    return {"rps": sum(figures["rps"] for figures in each),
            "disturbed": max(figures["disturbed"] for figures in each)}


def tls(bench):
    """a new TLS 1.3 connection for each event, ECDSA P-256"""
    certificate = servers.make_certificate(bench.args.work)
    for kind in ("full", "resume"):
        with contextlib.ExitStack() as stack:
            found = start(bench, stack, nginx(bench, certificate=certificate),
                          stile(bench, certificate=certificate))
            medians = bench.compare("handshake " + kind, found, connections=32, mode="close",
                                    tls=kind)
        judge_pair(bench, "handshake " + kind, medians, "nginx", 1.0, None)


def http_close(bench):
    """a new plain connection for each event"""
    with contextlib.ExitStack() as stack:
        found = start(bench, stack, nginx(bench), stile(bench))
        medians = bench.compare("64 at a time", found, connections=64, mode="close")
    judge_pair(bench, "new connection", medians, "nginx", None, None)


def latency(bench):
    """time to the answer at half of the maximum rate, from the intended moment"""
    with contextlib.ExitStack() as stack:
        for server in start(bench, stack, nginx(bench), stile(bench)):
            most = median([bench.load(server, connections=256) for _ in range(3)], "rps")
            bench.show("256 connections", server.name, "%9.0f/s at most" % most)
            medians = bench.compare("half of it", [server], connections=256, mode="open",
                                    rate=most / 2)
            if server.name == "stile":
                bench.target("p99 at half of the maximum rate, ms",
                             medians["stile"]["p99_us"] / 1000, most=2)
                bench.report("p50, ms", medians["stile"]["p50_us"] / 1000)
                bench.report("p99.9, ms", medians["stile"]["p999_us"] / 1000)


def store(bench):
    """in-process durable admits, batches of 1,024; RocksDB by its C API"""
    claims = MANY // 10 if bench.args.quick else MANY
    sides = {"rocksdb": rocksdb_side(bench, claims)}
    if not bench.args.peers_only:
        for name, options in (("stile", ["--steady"]), ("stile, growing", [])):
            sides[name] = lambda options=options: fresh_store(
                bench, claims, "--seconds", bench.args.seconds, *options,
                cpu=bench.args.server_cpu)
    rounds = bench.alternate(sides)
    bench.keep("%d claims" % claims, rounds)
    found = {name: {key: median(one, key) for key in ("admits_per_s", "cpu_ns_per_admit")}
             for name, one in rounds.items()}
    for name, figures in found.items():
        bench.show("%d M claims" % (claims // 1_000_000), name, "%9.0f/s  %7.0f ns CPU an admit" % (
            figures["admits_per_s"], figures["cpu_ns_per_admit"]))
    # As many expire as arrive; then the same while nothing expires and the index grows.
    bench.target("durable admits, × rocksdb", ratio(found, "stile", "rocksdb", "admits_per_s"),
                 least=20)
    if "stile" in found:
        bench.target("durable admits, M/s", found["stile"]["admits_per_s"] / 1e6, least=4)
        bench.report("CPU ns per admit", found["stile"]["cpu_ns_per_admit"])
        bench.report("while it grows, × rocksdb",
                     ratio(found, "stile, growing", "rocksdb", "admits_per_s"))
        bench.report("while it grows, M/s", found["stile, growing"]["admits_per_s"] / 1e6)
        bench.report("while it grows, CPU ns per admit",
                     found["stile, growing"]["cpu_ns_per_admit"])


def fresh_store(bench, claims, *options, cpu=None, name="store"):
    """bench_store on an empty folder, which it first fills with that many claims."""
    path = bench.folder(name)
    shutil.rmtree(path, ignore_errors=True)
    figures = bench.program("bench_store", "--path", path, "--claims", claims, "--batch", 1024,
                            *options, cpu=cpu)
    if figures["failed"] or figures["found"]:
        bench.wrong.append("bench_store: %d failed, %d new claims were found taken" % (
            figures["failed"], figures["found"]))
    return figures


def rocksdb_side(bench, claims):
    path = bench.folder("rocksdb")
    bench.program("bench_rocksdb", "--path", path, "--claims", claims, "--seconds", 0)
    first = [claims]

    def one_round():
        first[0] += 100 * claims
        return bench.program("bench_rocksdb", "--path", path, "--claims", claims, "--seconds",
                             bench.args.seconds, "--cpu", bench.args.server_cpu, "--first",
                             first[0])
    return one_round


REDIS_FILL = """
local value = ARGV[3]
for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
	redis.call('SET', string.format('dedup:%08x-50e2-45f8-950f-%012x', i * 2654435761 % 4294967296, i),
		value, 'NX', 'EX', '345600')
end
"""

# What is usually advised to store: the state of the work and its answer.
REDIS_JSON = ('{"status":"completed","statusCode":200,"response":{"ok":true},'
              '"createdAt":"2025-12-10T08:43:58.648Z"}')


def fill_redis(redis, claims, value):
    step = 20_000
    for first in range(0, claims, step):
        redis.call("EVAL", REDIS_FILL, 0, first, min(first + step, claims) - 1, value)
    if int(redis.call("DBSIZE")) != claims:
        raise RuntimeError("Redis holds %s keys" % redis.call("DBSIZE"))


def redis_memory(bench, claims, value):
    options = ["--appendonly", "no"]
    with servers.Redis(bench.folder("redis"), bench.args.server_cpu, options) as redis:
        before = int(redis.info("used_memory_rss"))
        fill_redis(redis, claims, value)
        return (int(redis.info("used_memory_rss")) - before) / claims


def memory(bench):
    """resident bytes per live claim, table slack included"""
    claims = MANY // 10 if bench.args.quick else MANY
    for text, value in (("value 1", "1"), ("JSON value", REDIS_JSON)):
        size = redis_memory(bench, claims, value)
        bench.keep("redis " + text, {"redis": [{"bytes_per_claim": size}]})
        bench.show("%d M claims" % (claims // 1_000_000), "redis", "%5.1f bytes, %s" % (size, text))
    for count in [claims] if bench.args.quick else [MANY, MOST]:
        if bench.args.peers_only:
            return
        figures = fresh_store(bench, count, "--seconds", 0, "--memory")
        bench.keep("stile %d" % count, {"stile": [figures]})
        bench.target("bytes per claim at %d M" % (count // 1_000_000),
                     figures["bytes_per_claim"], most=32)


def cells(bench):
    """in-process durable SET NX EX: batches of 1,024 at 10 M live names, then a start"""
    if bench.args.peers_only:
        return
    count = MANY // 10 if bench.args.quick else MANY
    figures = fresh_store(bench, count, "--cells", "--memory", "--keep", "--seconds",
                          bench.args.seconds, cpu=bench.args.server_cpu)
    bench.keep("%d cells" % count, {"stile": [figures]})
    bench.report("durable PUT if absent, M/s", figures["admits_per_s"] / 1e6)
    bench.report("CPU ns per PUT", figures["cpu_ns_per_admit"])
    bench.target("bytes per cell", figures["bytes_per_cell"], most=32)
    path = bench.folder("store")
    start = bench.program("bench_store", "--path", path, "--cells", "--recover", "--keep")
    shutil.rmtree(path, ignore_errors=True)
    bench.report("start with %.1f M cells, s" % (start["recovered_cells"] / 1e6),
                 start["recover_s"])


def scale(bench):
    """cost per admit at 100 M live claims against 1 M"""
    few, many = MANY // 10, MANY if bench.args.quick else MOST
    if bench.args.peers_only:
        return
    rounds = {few: [], many: []}
    for _ in range(bench.args.rounds):
        for count, figures in rounds.items():
            figures.append(fresh_store(bench, count, "--seconds", bench.args.seconds, "--steady",
                                       cpu=bench.args.server_cpu))
    bench.keep("cost", {str(count): one for count, one in rounds.items()})
    cost = {count: median(one, "cpu_ns_per_admit") for count, one in rounds.items()}
    for count, value in cost.items():
        bench.show("%d M claims" % (count // 1_000_000), "stile", "%7.0f ns CPU an admit" % value)
    bench.target("cost at %d M, × at 1 M" % (many // 1_000_000), cost[many] / cost[few], most=2)


def redis_restart(bench, redis):
    """Seconds until it answers, from a cold cache."""
    redis.end_only()
    if not drop_caches():
        forget_files(redis.folder)
    began = time.monotonic()
    redis.begin()
    redis.wait_loaded()
    return time.monotonic() - began


def redis_restarts(bench, claims):
    options = ["--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"]
    seconds = {}
    with servers.Redis(bench.folder("redis"), bench.args.server_cpu, options) as redis:
        fill_redis(redis, claims, "1")
        seconds["AOF"] = redis_restart(bench, redis)
        redis.call("BGREWRITEAOF")
        servers.wait_for(lambda: redis.info("aof_rewrite_in_progress") == "0" and
                         redis.info("aof_rewrite_scheduled") == "0", "rewrite", 300)
        seconds["RDB preamble"] = redis_restart(bench, redis)
    return seconds


def restart(bench):
    """time from start to ready with a cold cache"""
    claims = MANY // 10 if bench.args.quick else MANY
    redis = redis_restarts(bench, claims)
    bench.keep("redis", {"redis": [redis]})
    for text, value in redis.items():
        bench.show("%d M claims" % (claims // 1_000_000), "redis", "%6.2f s, %s" % (value, text))
    if bench.args.peers_only:
        return
    for count in [claims] if bench.args.quick else [MANY, MOST]:
        seconds = stile_restart(bench, count)
        bench.keep("stile %d" % count, {"stile": seconds})
        best = median(seconds, "recover_s")
        bench.target("restart with %d M, s" % (count // 1_000_000), best,
                     most=1 if count <= MANY else 10)
        if count == claims:
            bench.target("restart with %d M, × faster than Redis" % (count // 1_000_000),
                         min(redis.values()) / best, least=9)


def stile_restart(bench, count):
    path = bench.folder("store")
    fresh_store(bench, count, "--seconds", 0, "--keep")
    seconds = []
    for _ in range(bench.args.rounds if count <= MANY else 3):
        if not drop_caches():
            forget_files(path)
        figures = bench.program("bench_store", "--path", path, "--recover", "--keep")
        if figures["recovered_claims"] != count:
            bench.wrong.append("restart: %d of %d claims came back" % (
                figures["recovered_claims"], count))
        seconds.append(figures)
    return seconds


def tickets(bench):
    """1 M open tickets of a sink that does not answer, with a note each; then done."""
    count = 1_000_000
    path = bench.folder("tickets")
    shutil.rmtree(path, ignore_errors=True)
    found = bench.program("bench_tickets", "--path", path, "--tickets", count)
    if found["failed"] or found["recovered_tickets"] != count or found["left_tickets"]:
        bench.wrong.append("tickets: %d failed, %d of %d came back, %d were left" % (
            found["failed"], found["recovered_tickets"], count, found["left_tickets"]))
    for what in ("admit", "take_and_note", "take_and_done"):
        bench.show("1 M tickets", what.replace("_", " "), "%9.0f/s  %7.0f ns CPU a ticket" % (
            found[what + "_per_s"], found[what + "_cpu_ns"]))
    bench.target("store's memory per open ticket, bytes", found["index_bytes_per_ticket"],
                 most=100)
    bench.report("resident memory per open ticket, bytes", found["bytes_per_ticket"])
    bench.report("recovery of 1 M open tickets, s", found["recover_s"])


EVENTS = 5_000_000
PEER_EVENTS = 200_000


def make_events(bench, count):
    """A file of that many Genesys events, 20 % of them duplicates; made once."""
    path = bench.folder("events-%d.ndjson" % count)
    if not os.path.exists(path):
        os.makedirs(bench.args.work, exist_ok=True)
        with open(path, "wb") as file:
            subprocess.run([bench.tool("make_events"), str(count), "20"], stdout=file, check=True)
    with open(path, "rb") as file:  # from the page cache, for all sides alike
        while file.read(1 << 20):
            pass
    return path


JQ_AWK = "jq -r .id | awk '!seen[$0]++'"


def filter_round(bench, path, count, command, out=os.devnull):
    """Seconds of a shell command that reads the events, on one core; and what it
    wrote to standard error."""
    command = ["taskset", "-c", str(bench.args.server_cpu), "sh", "-c", command]
    with open(path, "rb") as source, open(out, "wb") as sink:
        busy, own, began = machine_busy_s(), children_busy_s(), time.monotonic()
        done = subprocess.run(bench.favour + command, stdin=source, stdout=sink,
                              stderr=subprocess.PIPE, text=True, check=True)
        took = time.monotonic() - began
    others = (machine_busy_s() - busy - (children_busy_s() - own)) / took
    return {"seconds": took, "events_per_s": count / took,
            "mb_per_s": os.path.getsize(path) / took / 1e6, "others_busy": others,
            "disturbed": float(others > DISTURBED_CORES)}, done.stderr


def stile_filter(bench, path, count, out=os.devnull):
    command = "exec %s filter --preset genesys --json" % bench.stile()
    figures, told = filter_round(bench, path, count, command, out)
    counts = json.loads(told.splitlines()[-1])
    figures["new"] = counts["new"]
    figures["claims_bytes"] = counts["claims_bytes"]
    if counts["read"] != count or counts["new"] + counts["duplicate"] != count:
        bench.wrong.append("filter: of %d events it says %s" % (count, told.strip()))
    return figures


def check_filter(bench, part, count, peers):
    """All must find the same number of different events."""
    found = {"stile": stile_filter(bench, part, count)["new"]}
    for name, command in peers.items():
        told = subprocess.run(["sh", "-c", command + " | wc -l"], stdin=open(part, "rb"),
                              capture_output=True, text=True, check=True)
        found[name] = int(told.stdout)
    if len(set(found.values())) != 1:
        bench.wrong.append("filter: different events found: %s" % found)


def filter_file(bench):
    """stile filter, 5 M Genesys events of 1 KB, 20 % duplicates, one core; jq + awk, Python"""
    if not shutil.which("jq"):
        raise Missing("jq is not installed")
    count = EVENTS // 10 if bench.args.quick else EVENTS
    peer_count = PEER_EVENTS // 4 if bench.args.quick else PEER_EVENTS
    part = make_events(bench, peer_count)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_filter.py")
    peers = {"jq+awk": JQ_AWK, "python": "/usr/bin/python3 " + script}
    sides = {name: (lambda command=command: filter_round(bench, part, peer_count, command)[0])
             for name, command in peers.items()}
    if bench.stile():
        whole = make_events(bench, count)
        check_filter(bench, part, peer_count, peers)
        sides["stile"] = lambda: stile_filter(bench, whole, count)
        sides["stile to a file"] = lambda: stile_filter(bench, whole, count,
                                                        bench.folder("unique.ndjson"))
    rounds = bench.alternate(sides)
    bench.keep("%d events" % count, rounds)
    medians = {name: {key: median(one, key) for key in one[0]} for name, one in rounds.items()}
    for name, figures in medians.items():
        events = peer_count if name in peers else count
        bench.show("%d events" % events, name, "%9.0f/s  %7.1f MB/s" % (
            figures["events_per_s"], figures["mb_per_s"]))
    bench.say("    the peers read the first part of the history only: their sets stay small")
    if "stile" not in medians:
        return
    bench.target("events/s, × jq+awk", ratio(medians, "stile", "jq+awk", "events_per_s"), least=20)
    bench.report("events/s, × Python", ratio(medians, "stile", "python", "events_per_s"))
    bench.target("GB/s", medians["stile"]["mb_per_s"] / 1000, least=1)
    bench.report("GB/s into a file", medians["stile to a file"]["mb_per_s"] / 1000)
    bench.report("bytes of memory an event that passed",
                 medians["stile"]["claims_bytes"] / medians["stile"]["new"])


def recipe(bench):
    """recipe genesys with two claims on a 1 KB event, in process; parsers of the same event"""
    figures = bench.program("bench_recipe", 21 if bench.args.quick else 101,
                            cpu=bench.args.server_cpu)
    bench.keep("nanoseconds", {"stile": [figures]})
    for key in ("genesys", "auto_genesys", "eventbridge", "claims_1", "claims_2", "claims_4",
                "content_claim", "json_c", "cjson", "jansson", "simdjson"):
        if key + "_ns" in figures:
            bench.show("%d bytes" % figures["dense_bytes"], key, "%7.0f ns" % figures[key + "_ns"])
    ours = figures["genesys_ns"]
    bench.report("genesys, ns per event", ours)
    for peer, least in (("json_c", 10), ("cjson", 4)):
        if peer + "_ns" in figures:
            bench.target("× %s" % peer, figures[peer + "_ns"] / ours, least=least)
    for peer in ("jansson", "simdjson"):
        if peer + "_ns" in figures:
            bench.report("× %s (it parses only)" % peer, figures[peer + "_ns"] / ours)
    bench.report("a claim more, ns", (figures["claims_4_ns"] - figures["claims_1_ns"]) / 3)


ROWS = {
    "http-unique": http_unique,
    "http-tuned": http_tuned,
    "http-recycled": http_recycled,
    "http-genesys": http_genesys,
    "http-batch": http_batch,
    "http-duplicate": http_duplicate,
    "http-close": http_close,
    "today": today,
    "redis-store": redis_store,
    "redis-cluster": redis_cluster,
    "tls": tls,
    "latency": latency,
    "store": store,
    "scale": scale,
    "memory": memory,
    "cells": cells,
    "restart": restart,
    "tickets": tickets,
    **rows_deliver.ROWS,
    **rows_postgres.ROWS,
    **rows_resp.ROWS,
    "filter": filter_file,
    "recipe": recipe,
}
