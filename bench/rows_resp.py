"""Rows of the Redis door: redis-benchmark on it and on Redis, which syncs each write too."""

import contextlib
import itertools
import os
import socket
import subprocess
import time

import servers
from measure import (DISTURBED_CORES, DISTURBED_MB_S, REPEATS_MAX, Missing, children_busy_s,
                     disk_mb, machine_busy_s, median, own_busy_s, process_mb, ratio)

CLIENTS = 50
KEYS = 2_000_000_000  # so many that hardly one comes twice
RUNS = itertools.count()  # redis-benchmark may choose the same keys again
DURABLE = ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"]


def door(bench):
    """stile with a Redis door; its address is .resp_port."""
    binary = bench.stile()
    if binary is None:
        return None
    port = servers.free_port()
    made = servers.Stile(bench.folder("stile"), bench.args.server_cpu, binary,
                         more=["--resp", "127.0.0.1:%d" % port, "--admin", "none"])
    made.resp_port = port
    return made


def keys_of(server):
    """How many keys it holds, by its own word."""
    with socket.create_connection(("127.0.0.1", server.resp_port), timeout=30) as connection:
        connection.sendall(b"DBSIZE\r\n")
        return int(connection.makefile("rb").readline()[1:])


def run_once(bench, server, pipeline, count):
    command = ["taskset", "-c", str(bench.args.load_cpu), "redis-benchmark", "-p",
               str(server.resp_port), "-n", str(count), "-c", str(CLIENTS), "-P", str(pipeline),
               "-r", str(KEYS), "--csv", "SET", "event:dedup:%d:__rand_int__" % next(RUNS), "1",
               "NX", "EX", "86400"]
    before = {"cpu": own_busy_s(server.pids()), "machine": machine_busy_s(),
              "load": children_busy_s(), "disk": disk_mb(), "own": process_mb(server.pids())}
    began = time.monotonic()
    done = subprocess.run(bench.favour + command, capture_output=True, text=True)
    took = time.monotonic() - began
    if done.returncode != 0 or "rror" in done.stdout + done.stderr:
        raise RuntimeError("redis-benchmark failed: %s%s" % (done.stdout, done.stderr))
    cpu = own_busy_s(server.pids()) - before["cpu"]
    load = children_busy_s() - before["load"]
    own = (process_mb(server.pids()) - before["own"]) / took
    figures = {"rps": count / took, "server_cpu_us": cpu * 1e6 / count, "seconds": took,
               "load_idle": 1 - load / took,
               "others_busy": (machine_busy_s() - before["machine"] - cpu - load) / took,
               "others_mb_s": max(0.0, (disk_mb() - before["disk"]) / took - own)}
    figures["disturbed"] = float(figures["others_busy"] > DISTURBED_CORES or
                                 figures["others_mb_s"] > DISTURBED_MB_S)
    return figures


def one_round(bench, server, pipeline):
    """As many commands as fit a round's time, by the last round."""
    counts = server.__dict__.setdefault("counts", {})
    counts.setdefault(pipeline, 5000 * pipeline)
    for _ in range(REPEATS_MAX):
        count = counts[pipeline]
        had = keys_of(server)
        figures = run_once(bench, server, pipeline, count)
        counts[pipeline] = max(1000, int(figures["rps"] * bench.args.seconds))
        if keys_of(server) - had < 0.99 * count:
            bench.wrong.append("%s, %s: of %d keys %d were kept" % (
                bench.row, server.name, count, keys_of(server) - had))
        if not figures["disturbed"]:
            break
    return figures


def compare(bench, pipeline, least_rps, least_cpu):
    what = "%d clients, pipeline %d" % (CLIENTS, pipeline)
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(
            servers.Redis(bench.folder("redis"), bench.args.server_cpu, DURABLE))
        redis.resp_port = redis.port
        found = [redis]
        ours = door(bench)
        if ours is not None:
            found.append(stack.enter_context(ours))
        for server in found:  # how many fit into a round
            one_round(bench, server, pipeline)
        rounds = bench.alternate({server.name: (lambda s=server: one_round(bench, s, pipeline))
                                  for server in found})
    medians = {name: {key: median(one, key) for key in one[0]} for name, one in rounds.items()}
    bench.spoiled = False
    bench.keep(what, rounds)
    for name, one in medians.items():
        bench.show(what, name, "%9.0f/s  %7.2f µs CPU  generator %2.0f %% idle%s" % (
            one["rps"], one["server_cpu_us"], 100 * one["load_idle"],
            "  (disturbed)" if one["disturbed"] else ""))
    for text, value, least in (
            ("commands/s", ratio(medians, "stile", "redis", "rps"), least_rps),
            ("less CPU", ratio(medians, "redis", "stile", "server_cpu_us"), least_cpu)):
        text = "pipeline %d, %s, × Redis" % (pipeline, text)
        if least is None:
            bench.report(text, value)
        else:
            bench.target(text, value, least=least)


def resp_set(bench):
    """SET key 1 NX EX, 50 clients of redis-benchmark, durable; Redis with appendfsync always"""
    compare(bench, 1, 1.5, None)


def resp_pipeline(bench):
    """the same in pipelines of 16 and 64"""
    for pipeline in (16, 64):
        compare(bench, pipeline, None, 3)


# ---- memory ----

def resident(server):
    with open("/proc/%d/statm" % server.pids()[0]) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def fill(server, count):
    """Keys as they are usual, in large pipelines."""
    step = 2000
    with socket.create_connection(("127.0.0.1", server.resp_port)) as connection:
        replies = connection.makefile("rb")
        for first in range(0, count, step):
            keys = ["dedup:%08x-50e2-45f8-950f-%012x" % (i * 2654435761 % 4294967296, i)
                    for i in range(first, min(first + step, count))]
            connection.sendall("".join(
                "*6\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$1\r\n1\r\n$2\r\nNX\r\n$2\r\nEX\r\n$6\r\n345600\r\n"
                % (len(key), key) for key in keys).encode())
            if replies.read(5 * len(keys)) != b"+OK\r\n" * len(keys):
                raise RuntimeError("%s did not take all keys" % server.name)


def resp_memory(bench):
    """resident bytes per key, value 1, with a time; Redis without persistence"""
    count = 1_000_000 if bench.args.quick else 10_000_000
    sizes = {}
    with contextlib.ExitStack() as stack:
        redis = servers.Redis(bench.folder("redis"), bench.args.server_cpu, ["--appendonly", "no"])
        redis.resp_port = redis.port
        for server in (redis, door(bench)):
            if server is None:
                continue
            stack.enter_context(server)
            before = resident(server)
            fill(server, count)
            if keys_of(server) != count:
                raise Missing("%s holds %d keys" % (server.name, keys_of(server)))
            sizes[server.name] = (resident(server) - before) / count
            bench.show("%d M keys" % (count // 1_000_000), server.name,
                       "%6.1f bytes" % sizes[server.name])
    bench.keep("bytes", {name: [{"bytes_per_key": size}] for name, size in sizes.items()})
    if "stile" in sizes:
        bench.target("memory per key, × Redis", sizes["stile"] / sizes["redis"], most=0.2)


ROWS = {"resp-set": resp_set, "resp-pipeline": resp_pipeline, "resp-memory": resp_memory}
