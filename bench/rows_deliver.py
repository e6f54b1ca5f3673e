"""The rows about delivery: what comes in at one side goes out at the other, to bench/sink."""

import contextlib
import os
import statistics
import time

import servers
from measure import (DISTURBED_CORES, REPEATS_MAX, Missing, run_busy_s, machine_busy_s, median,
                     own_busy_s, ratio)

CONFIG = """sources:
  events: { claims: [{ once: [id] }], id: id, ack: %(ack)s }
sinks:
  out: { http: "http://127.0.0.1:%(port)d/", allow: 127.0.0.0/8 }
"""

WAITING = "stile, waiting"  # its senders wait for the outcome


def stile_to(bench, sink, ack="accepted", name="stile", options=()):
    """stile with one HTTP sink, all on the server's core."""
    binary = bench.stile()
    if binary is None:
        raise Missing("stile is not built")
    server = servers.Stile(bench.folder(name), bench.args.server_cpu, binary)
    config = os.path.join(server.folder, "stile.yaml")
    with open(config, "w") as file:
        file.write(CONFIG % {"ack": ack, "port": sink.port})
    server.more = ["--config", config, *options]
    server.name = name
    return server


def sink_of(bench):
    """On the load generator's core, and before it: the generator never sleeps."""
    return servers.Sink(bench.folder("sink"), bench.args.load_cpu, bench.tool("sink"))


def wait_delivered(server):
    servers.wait_for(lambda: server.metric("stile_open_tickets") == 0, "delivery", 300)


class Watch:
    """CPU of a server and its sink, and of others on the machine, between two moments."""

    def __init__(self, server, sink):
        self.server, self.sink = server, sink
        self.began, self.busy = time.monotonic(), machine_busy_s()
        self.own = own_busy_s(server.pids())
        self.all = self.own + own_busy_s(sink.pids()) + run_busy_s()
        self.requests = sink.stats()["requests"]

    def end(self):
        took = time.monotonic() - self.began
        own = own_busy_s(self.server.pids())
        every = own + own_busy_s(self.sink.pids()) + run_busy_s() - self.all
        count = self.sink.stats()["requests"] - self.requests
        others = (machine_busy_s() - self.busy - every) / took
        return {"requests": count, "seconds": took, "rps": count / took,
                "server_cpu_us": 1e6 * (own - self.own) / max(1, count), "others_busy": others,
                "disturbed": float(others > DISTURBED_CORES)}


def end_to_end(bench, server, sink, **load):
    """One round: from the first event that comes in to the last one that has gone out."""
    pids = ",".join(str(pid) for pid in server.pids() + sink.pids())
    for _ in range(REPEATS_MAX):
        watch = Watch(server, sink)
        figures = bench.load(server, repeats=1, behind=True, pids=pids, **load)
        if isinstance(server, servers.Stile):
            wait_delivered(server)
        found = watch.end()
        if not found["disturbed"] or bench.favour:
            break
    if not isinstance(server, servers.Stile) or server.name == WAITING:
        found["rps"] = figures["rps"]  # who waits for the outcome sends no faster
    found["p50_us"], found["in_rps"] = figures["p50_us"], figures["rps"]
    return found


def compare_ends(bench, what, found, sink, **load):
    rounds = bench.alternate({server.name: (lambda s=server: end_to_end(bench, s, sink, **load))
                              for server in found})
    bench.keep(what, rounds)
    medians = {name: {key: median(one, key) for key in one[0]} for name, one in rounds.items()}
    for name, figures in medians.items():
        bench.show(what, name, "%8.0f/s  %7.2f µs CPU  (in: %8.0f/s, p50 %6.0f µs)%s" % (
            figures["rps"], figures["server_cpu_us"], figures["in_rps"], figures["p50_us"],
            "  (disturbed)" if figures["disturbed"] else ""))
    check_sink(bench, sink)
    return medians


def check_sink(bench, sink):
    stats = sink.stats()
    if stats["repeats"]:
        bench.wrong.append("%s: %d events came twice" % (bench.row, stats["repeats"]))


def deliver_http(bench):
    """1 KB POST → durable → HTTP POST to a sink beside the generator; nginx `proxy_pass`"""
    for connections in (256, 64):
        with contextlib.ExitStack() as stack:
            sink = stack.enter_context(sink_of(bench))
            found = [stack.enter_context(server) for server in (
                servers.Nginx(bench.folder("nginx"), bench.args.server_cpu, sink=sink),
                stile_to(bench, sink), stile_to(bench, sink, "delivered", WAITING))]
            what = "%d connections" % connections
            medians = compare_ends(bench, what, found, sink, connections=connections)
        bench.target("%s, requests/s end to end, × nginx" % what,
                     ratio(medians, "stile", "nginx", "rps"), least=0.4)
        bench.report("%s, senders wait for the outcome, × nginx" % what,
                     ratio(medians, WAITING, "nginx", "rps"))


def deliver_python(bench):
    """the same with Python as integrators are told to build it: FastAPI, Redis, requests"""
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(sink_of(bench))
        redis = stack.enter_context(servers.Redis(
            bench.folder("redis"), bench.args.server_cpu,
            ["--appendonly", "yes", "--appendfsync", "always"]))
        found = [stack.enter_context(server) for server in (
            servers.Python(bench.folder("python"), bench.args.server_cpu, sink, redis),
            stile_to(bench, sink))]
        medians = compare_ends(bench, "256 connections", found, sink, connections=256)
    bench.target("requests/s end to end, × Python", ratio(medians, "stile", "python", "rps"),
                 least=20)


BACKLOG = 1_000_000


def fill(bench, server, count):
    """Posts about that many events, in batches."""
    while server.metric("stile_open_tickets") < count:
        bench.load(server, connections=64, batch=100, seconds=0.5, warmup=0)


def resident_bytes(server):
    with open("/proc/%d/statm" % server.process.pid) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def waiting(bench):
    """1 M open tickets for a sink that refuses; intake beside them, memory, restart, drain"""
    count = BACKLOG // 10 if bench.args.quick else BACKLOG
    options = ["--retain-size", "64GiB"]
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(sink_of(bench))
        sink.ask("POST", "/status/503")
        server = stack.enter_context(stile_to(bench, sink, options=options))
        bench.load(server, connections=256, seconds=0.5)  # pools and buffers are there
        before, few = resident_bytes(server), server.metric("stile_open_tickets")
        fill(bench, server, few + count)
        settle_lane(server)
        many = server.metric("stile_open_tickets")
        claims = server.metric("stile_index_bytes")
        size = resident_bytes(server) - before
        bench.report("resident bytes per waiting ticket, with its claim", size / (many - few))
        bench.report("index bytes in all, MB", claims / 1e6)
        compare_intake(bench, sink, server, options)
        restart(bench, server)
        drain(bench, server, sink)


def settle_lane(server):
    """Until the sink's lane has taken all there is."""
    servers.wait_for(lambda: server.metric("stile_due_tickets") == 0, "the lane", 120)


def compare_intake(bench, sink, full, options):
    """Beside the backlog, and beside none: another gateway with a sink that refuses, too."""
    with stile_to(bench, sink, name="empty", options=options) as empty:
        medians = bench.compare("256 connections", [full, empty], connections=256)
    bench.target("intake beside the backlog, × without",
                 ratio(medians, "stile", "empty", "rps"), least=0.9)


def restart(bench, server):
    open_tickets = server.metric("stile_open_tickets")
    server.end_only()
    began = time.monotonic()
    server.start()
    took = time.monotonic() - began
    found = server.metric("stile_open_tickets")
    if found != open_tickets:
        bench.wrong.append("waiting: %d of %d tickets came back" % (found, open_tickets))
    bench.report("restart with %.2f M open tickets, s" % (open_tickets / 1e6), took)


def drain(bench, server, sink):
    """The sink returns."""
    stats = sink.stats()
    count = server.metric("stile_open_tickets")
    sink.ask("POST", "/status/200")
    watch = Watch(server, sink)
    servers.wait_for(lambda: server.metric("stile_open_tickets") == 0, "the drain", 600)
    figures = watch.end()
    bench.keep("drain", {"stile": [figures]})
    bench.show("drain", "stile", "%9.0f/s  %7.2f µs CPU" % (count / figures["seconds"],
                                                           figures["server_cpu_us"]))
    bench.report("drain of %.2f M, events/s" % (count / 1e6), count / figures["seconds"])
    after = sink.stats()
    if figures["requests"] != count or after["keys"] - stats["keys"] > count:
        bench.wrong.append("drain: %d requests for %d tickets" % (figures["requests"], count))


def deliver_latency(bench):
    """one event at a time, idle: from the POST to the sink's answer, over the sink's own"""
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(sink_of(bench))
        server = stack.enter_context(stile_to(bench, sink, "delivered"))
        rounds = bench.alternate({
            "sink": lambda: bench.load(sink, connections=1, path="/"),
            "stile": lambda: bench.load(server, connections=1)})
    bench.keep("one at a time", rounds)
    found = {name: statistics.median(one["p50_us"] for one in figures)
             for name, figures in rounds.items()}
    for name, value in found.items():
        bench.show("one at a time", name, "p50 %7.0f µs" % value)
    bench.target("p50 over the sink's own, ms", (found["stile"] - found["sink"]) / 1000, most=1)


ROWS = {
    "deliver-http": deliver_http,
    "deliver-python": deliver_python,
    "deliver-latency": deliver_latency,
    "waiting": waiting,
}
