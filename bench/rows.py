"""The rows of the benchmark, each a function of measure.Bench. The first line
of a row's text is its title."""

import contextlib
import shutil
import time

import servers
from measure import drop_caches, forget_files, median, ratio

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


def fresh_store(bench, claims, *options, cpu=None):
    """bench_store on an empty folder, which it first fills with that many claims."""
    path = bench.folder("store")
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


ROWS = {
    "http-unique": http_unique,
    "http-tuned": http_tuned,
    "http-duplicate": http_duplicate,
    "http-close": http_close,
    "today": today,
    "tls": tls,
    "latency": latency,
    "store": store,
    "scale": scale,
    "memory": memory,
    "restart": restart,
}
