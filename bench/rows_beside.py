"""The rows of --beside: this build and another one, round by round in turn, and their ratio.

Each row is a function of measure.Bench, as in rows.py. Load and sinks are always those of
this build. A row that runs a program of bench/ runs that of each build, so it needs a folder
with both; for a binary alone it is left out.
"""

import contextlib
import os
import shutil

import rows
import rows_deliver
import rows_postgres
import rows_resp
import servers
from measure import Missing, drop_caches, forget_files, median, ratio

THIS, OTHER = "this", "beside"
NO_ADMIN = ["--admin", "none"]  # both would take the same port
DURABLE = ["--appendonly", "yes", "--appendfsync", "always"]


def each_side(bench, make):
    """{side: make(side)}, made with the programs of that side's build."""
    made = {}
    for side, build in ((THIS, bench.args.build), (OTHER, bench.args.beside)):
        with bench.programs_of(build):
            made[side] = make(side)
    return made


def in_turn(bench, one_round):
    """Rounds of one_round(side), alternating; {side: [figures]}."""
    def run(side, build):
        with bench.programs_of(build):
            return one_round(side)
    return bench.alternate({THIS: lambda: run(THIS, bench.args.build),
                            OTHER: lambda: run(OTHER, bench.args.beside)})


def stile(bench, side, more=(), redis=None):
    server = servers.Stile(bench.folder("stile-" + side), bench.args.server_cpu, bench.stile(),
                           more=[*NO_ADMIN, *more], redis=redis)
    server.name = side
    return server


def both(bench, stack, make):
    """Two running servers."""
    return [stack.enter_context(server) for server in each_side(bench, make).values()]


def judge(bench, what, medians, key, form="%.0f", **limit):
    """Both values and their ratio; `limit` is least or most, of the ratio, if it has one."""
    text = "%s: %s, beside %s, ratio" % (what, form % medians[THIS][key],
                                         form % medians[OTHER][key])
    note = bench.target if limit else bench.report
    note(text, ratio(medians, THIS, OTHER, key), **limit)


def medians_of(rounds):
    return {name: {key: median(figures, key) for key in figures[0]}
            for name, figures in rounds.items()}


def http_unique(bench):
    """1 KB POST, unique ids, keep-alive, durable before the answer"""
    for connections, least in ((256, 0.85), (64, 0.8)):
        what = "%d connections" % connections
        with contextlib.ExitStack() as stack:
            found = both(bench, stack, lambda side: stile(bench, side))
            medians = bench.compare(what, found, connections=connections)
        judge(bench, "%s, requests/s" % what, medians, "rps", least=least)


def today(bench):
    """the same beside the work as it is done today: nginx, Lua and Redis (always)"""
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(
            servers.Redis(bench.folder("redis"), bench.args.server_cpu, DURABLE))
        peer = stack.enter_context(rows.nginx(bench, redis=redis, name="nginx+redis"))
        found = both(bench, stack, lambda side: stile(bench, side))
        medians = bench.compare("256 connections", [peer, *found], connections=256)
    judge(bench, "256 connections, requests/s", medians, "rps", least=0.85)
    bench.target("256 connections, requests/s, × nginx+redis",
                 ratio(medians, THIS, "nginx+redis", "rps"), least=5)


def latency(bench):
    """p99 at half of the maximum rate (of the slower one, for both)"""
    with contextlib.ExitStack() as stack:
        found = both(bench, stack, lambda side: stile(bench, side))
        most = bench.compare("at most", found, connections=256)
        rate = min(figures["rps"] for figures in most.values()) / 2
        medians = bench.compare("half of it", found, connections=256, mode="open", rate=rate)
    judge(bench, "p99 at half load, µs", medians, "p99_us", most=1.25)


def deliver(bench):
    """1 KB POST, durable, to an HTTP sink, end to end"""
    for connections, least in ((256, 0.85), (64, 0.85)):
        what = "%d connections" % connections
        with contextlib.ExitStack() as stack:
            sink = stack.enter_context(rows_deliver.sink_of(bench))
            found = both(bench, stack, lambda side: rows_deliver.stile_to(
                bench, sink, name=side, options=NO_ADMIN))
            medians = rows_deliver.compare_ends(bench, what, found, sink, connections=connections)
        judge(bench, "%s, delivered/s" % what, medians, "rps", least=least)


def batch(bench):
    """batches of 100 plain events, 16 connections"""
    with contextlib.ExitStack() as stack:
        found = both(bench, stack, lambda side: stile(bench, side))
        medians = bench.compare("batches of %d" % rows.BATCH, found, connections=16,
                                batch=rows.BATCH)
    judge(bench, "batches of %d, requests/s" % rows.BATCH, medians, "rps", least=0.5)


def filter_file(bench):
    """stile filter, Genesys events of 1 KB, 20 % duplicates, one core; jq + awk"""
    count = rows.EVENTS // 10 if bench.args.quick else rows.EVENTS
    part_count = rows.PEER_EVENTS // 4 if bench.args.quick else rows.PEER_EVENTS
    whole, part = rows.make_events(bench, count), rows.make_events(bench, part_count)
    rounds = in_turn(bench, lambda side: rows.stile_filter(bench, whole, count))
    if shutil.which("jq"):
        rounds["jq+awk"] = [rows.filter_round(bench, part, part_count, rows.JQ_AWK)[0]
                            for _ in range(bench.args.rounds)]
    bench.keep("%d events" % count, rounds)
    medians = medians_of(rounds)
    for name, figures in medians.items():
        bench.show("filter", name, "%9.0f/s" % figures["events_per_s"])
    judge(bench, "filter, events/s", medians, "events_per_s")
    bench.target("filter, events/s, × jq+awk", ratio(medians, THIS, "jq+awk", "events_per_s"),
                 least=8)


def claims_of(bench):
    return rows.MANY // 10 if bench.args.quick else rows.MANY


def memory(bench):
    """resident bytes per live claim"""
    figures = each_side(bench, lambda side: rows.fresh_store(
        bench, claims_of(bench), "--seconds", 0, "--memory"))
    bench.keep("bytes", {side: [one] for side, one in figures.items()})
    judge(bench, "bytes per claim", figures, "bytes_per_claim", "%.1f")
    bench.target("bytes per claim at %.0f M" % (claims_of(bench) / 1e6),
                 figures[THIS]["bytes_per_claim"], most=32)


def restart(bench):
    """time from start to ready with a cold cache"""
    count = claims_of(bench)
    each_side(bench, lambda side: rows.fresh_store(bench, count, "--seconds", 0, "--keep",
                                                   name="store-" + side))

    def start(side):
        path = bench.folder("store-" + side)
        if not drop_caches():
            forget_files(path)
        figures = bench.program("bench_store", "--path", path, "--recover", "--keep")
        if figures["recovered_claims"] != count:
            bench.wrong.append("restart: %s: %d of %d claims came back" % (
                side, figures["recovered_claims"], count))
        return figures

    rounds = in_turn(bench, start)
    for side in (THIS, OTHER):
        shutil.rmtree(bench.folder("store-" + side), ignore_errors=True)
    bench.keep("restart", rounds)
    medians = medians_of(rounds)
    judge(bench, "restart, s", medians, "recover_s", "%.2f")
    bench.target("restart with %.0f M claims, s" % (count / 1e6), medians[THIS]["recover_s"],
                 most=4)


def door(bench, side):
    """With a Redis door; its address is .resp_port."""
    port = servers.free_port()
    made = stile(bench, side, ["--resp", "127.0.0.1:%d" % port])
    made.resp_port = port
    return made


def resp_set(bench):
    """Redis door: SET key 1 NX EX, 50 clients of redis-benchmark, no pipeline"""
    with contextlib.ExitStack() as stack:
        found = both(bench, stack, lambda side: door(bench, side))
        for server in found:  # how many fit into a round
            rows_resp.one_round(bench, server, 1)
        rounds = bench.alternate({
            server.name: (lambda server=server: rows_resp.one_round(bench, server, 1))
            for server in found})
    bench.keep("commands", rounds)
    judge(bench, "50 clients, commands/s", medians_of(rounds), "rps", least=0.75)


def resp_memory(bench):
    """Redis door: resident bytes per key, value 1, with a time"""
    count = claims_of(bench)

    def fill(side):
        with door(bench, side) as server:
            before = rows_resp.resident(server)
            rows_resp.fill(server, count)
            if rows_resp.keys_of(server) != count:
                raise Missing("%s holds %d keys" % (side, rows_resp.keys_of(server)))
            return {"bytes_per_key": (rows_resp.resident(server) - before) / count}

    figures = each_side(bench, fill)
    bench.keep("bytes", {side: [one] for side, one in figures.items()})
    judge(bench, "bytes per key", figures, "bytes_per_key", "%.1f")
    bench.target("bytes per key at %.0f M" % (count / 1e6), figures[THIS]["bytes_per_key"],
                 most=32)


def redis_store(bench):
    """decisions in a shared Redis (appendfsync always), which each side has for itself"""
    decides = os.path.join(bench.args.work, "decides.yaml")
    with open(decides, "w", encoding="utf-8") as file:
        file.write(rows.DECIDES)
    for connections in (256, 64):
        what = "%d connections" % connections
        with contextlib.ExitStack() as stack:
            def make(side):
                redis = stack.enter_context(servers.Redis(
                    bench.folder("redis-" + side), bench.args.server_cpu, DURABLE))
                return stile(bench, side, ["--config", decides], redis)
            found = both(bench, stack, make)
            medians = bench.compare(what, found, connections=connections)
        judge(bench, "Redis, %s, decisions/s" % what, medians, "rps", least=0.7)


def postgres(bench):
    """decisions/s with the PostgreSQL store; each side has a server for itself"""
    with contextlib.ExitStack() as stack:
        found = {side: stack.enter_context(rows_postgres.Postgres()) for side in (THIS, OTHER)}
        each_side(bench, lambda side: rows_postgres.make_tables(bench, found[side]))
        for name, in_flight, payload in rows_postgres.SIDES:
            rounds = in_turn(bench, lambda side, in_flight=in_flight, payload=payload:
                             bench.program("bench_postgres", found[side].url(), in_flight,
                                           bench.args.seconds, payload))
            bench.keep(name, rounds)
            judge(bench, "PostgreSQL, %s, decisions/s" % name, medians_of(rounds),
                  "decisions_per_s", least=0.7)


ROWS = {
    "http-unique": http_unique,
    "today": today,
    "latency": latency,
    "deliver": deliver,
    "http-batch": batch,
    "filter": filter_file,
    "memory": memory,
    "restart": restart,
    "resp-set": resp_set,
    "resp-memory": resp_memory,
    "redis-store": redis_store,
    "postgres": postgres,
}
