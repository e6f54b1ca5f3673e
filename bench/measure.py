"""What all rows share: running a program, alternating rounds, medians, targets."""

import contextlib
import itertools
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import time

DISTURBED_CORES = 0.15  # work of others during a round, in cores, that spoils it
DISTURBED_MB_S = 30  # the same for what others write to the disks, if the server writes
REPEATS_MAX = 3
LIMITED_IDLE = 0.03  # a generator with less idle time than this was the limit


class Missing(Exception):
    """What a row needs is not there; the row is left out and says so."""


def parse(text):
    """Lines of "key value" to a dict of numbers."""
    values = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2:
            try:
                values[words[0]] = float(words[1])
            except ValueError:
                pass
    return values


def median(rounds, key):
    values = [one[key] for one in rounds if key in one]
    return statistics.median(values) if values else None


def disk_mb():
    """Written to all disks since the start of the machine."""
    disks = set(os.listdir("/sys/block"))
    with open("/proc/diskstats") as file:
        lines = [line.split() for line in file]
    return sum(int(words[9]) for words in lines
               if words[2] in disks and not words[2].startswith(("loop", "ram", "dm-"))) / 2048


def machine_busy_s():
    """CPU seconds of everything on the machine."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def children_busy_s():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_busy_s():
    """Of this process and of those that it has waited for."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime + children_busy_s()


def own_busy_s(pids):
    """CPU seconds of all threads of these processes."""
    spent = 0
    for pid in pids:
        for task in os.listdir("/proc/%d/task" % pid):
            try:
                with open("/proc/%d/task/%s/schedstat" % (pid, task)) as file:
                    spent += int(file.read().split()[0])
            except OSError:
                pass  # a thread that has ended
    return spent / 1e9


def process_mb(pids):
    """Written by these processes, as far as we may know."""
    written = 0
    for pid in pids:
        try:
            with open("/proc/%d/io" % pid) as file:
                written += int(dict(line.split(": ") for line in file)["write_bytes"])
        except OSError:
            pass
    return written / (1 << 20)


class Bench:
    def __init__(self, args):
        self.args = args
        self.results = {}
        self.targets = []  # what the table shows
        self.row = None
        self.run_id = random.SystemRandom().randrange(1 << 16)
        self.loads = itertools.count(1)
        self.spoiled = False  # the figures at hand are from disturbed rounds
        self.wrong = []  # rounds with wrong answers
        self.favour = ["chrt", "--rr", "1"] if args.favour else []

    # -- programs

    def tool(self, name):
        path = os.path.join(self.args.build, "bench", name)
        if not os.path.exists(path):
            raise Missing("%s is not built" % name)
        return path

    @contextlib.contextmanager
    def programs_of(self, build):
        """Within it, tool() and stile() are those of that build: a folder, or a binary alone."""
        own, self.args.build = self.args.build, build
        try:
            yield
        finally:
            self.args.build = own

    def stile(self):
        path = self.args.build
        if not os.path.isfile(path):
            path = os.path.join(path, "stile")
        if self.args.peers_only or not os.path.exists(path):
            return None
        return path

    def folder(self, name):
        return os.path.join(self.args.work, name)

    def program(self, name, *options, cpu=None, behind=False):
        """Runs one of our programs and returns its figures; behind: others on its core
        go before it."""
        command = [self.tool(name)] + [str(option) for option in options]
        if cpu is not None:
            command = ["taskset", "-c", str(cpu)] + command
        favour = ["nice", "-n", "10"] if behind and not self.favour else self.favour
        machine, own, began = machine_busy_s(), children_busy_s(), time.monotonic()
        done = subprocess.run(favour + command, capture_output=True, text=True)
        others = (machine_busy_s() - machine - (children_busy_s() - own)) / (
            time.monotonic() - began)
        if done.returncode != 0:
            raise RuntimeError("%s failed: %s" % (" ".join(command), done.stderr.strip()))
        figures = parse(done.stdout)
        figures.setdefault("others_busy", others)
        figures["disturbed"] = float(figures["others_busy"] > DISTURBED_CORES)
        return figures

    def load(self, server, repeats=REPEATS_MAX, behind=False, **options):
        """One round of load on a server. Ids never repeat between rounds."""
        settings = {"port": server.port, "cpu": self.args.load_cpu, "seconds": self.args.seconds,
                    "pids": ",".join(str(pid) for pid in server.pids())}
        settings.update(options)
        for _ in range(repeats):
            settings["prefix"] = (self.run_id << 16) + next(self.loads)
            words = []
            for key, value in settings.items():
                words += ["--" + key.replace("_", "-"), value]
            figures = self.load_once(server, words, behind)
            if not figures["disturbed"]:
                break
        if figures["errors"] > 0:
            self.say("    %s: %d errors" % (server.name, figures["errors"]))
        self.check_answers(server, figures, settings)
        return figures

    def load_once(self, server, words, behind):
        disk, own, began = disk_mb(), process_mb(server.pids()), time.monotonic()
        figures = self.program("load", *words, behind=behind)
        took = time.monotonic() - began
        own = (process_mb(server.pids()) - own) / took
        others = max(0.0, (disk_mb() - disk) / took - own)
        figures["written_mb_s"] = own
        figures["others_mb_s"] = others
        figures["disturbed"] = float(figures["others_busy"] > DISTURBED_CORES or
                                     (own > 1 and others > DISTURBED_MB_S))
        return figures

    def check_answers(self, server, figures, settings):
        """A fast wrong answer is worth nothing: the verdicts must be the right ones."""
        if server.name in ("nginx", "nginx-4k", "sink"):
            return
        right = figures["duplicate"] if settings.get("duplicates") else figures["new"]
        events = figures["requests"] * settings.get("batch", 1)
        if right != events:
            self.wrong.append("%s, %s: %d of %d events have the wrong verdict" % (
                self.row, server.name, events - right, events))
            self.say("    " + self.wrong[-1])

    # -- rounds

    def alternate(self, sides):
        """sides: {name: function that runs one round}. Returns {name: [figures]}."""
        rounds = {name: [] for name in sides}
        for _ in range(self.args.rounds):
            for name, one_round in sides.items():
                rounds[name].append(one_round())
        return rounds

    def compare(self, what, servers, **options):
        """Alternating load on several servers; medians are shown and kept."""
        rounds = self.alternate({server.name: (lambda s=server: self.load(s, **options))
                                 for server in servers})
        medians = {}
        for name, figures in rounds.items():
            medians[name] = {key: median(figures, key) for key in figures[0]}
            self.show_load(what, name, medians[name])
        self.spoiled = False
        self.keep(what, rounds)
        return medians

    # -- what comes out

    def say(self, text):
        print(text, flush=True)

    def show_load(self, what, name, figures):
        notes = []
        if figures["load_idle"] < LIMITED_IDLE:
            notes.append("generator is the limit")
        if figures["disturbed"]:
            notes.append("disturbed")
        self.say("  %-26s %-14s %9.0f/s  %7.2f µs CPU  p50 %7.0f  p99 %7.0f  p99.9 %7.0f µs"
                 "  generator %5.2f µs, %2.0f %% idle%s" % (
                     what, name, figures["rps"], figures["server_cpu_us"], figures["p50_us"],
                     figures["p99_us"], figures["p999_us"], figures["load_cpu_us"],
                     100 * figures["load_idle"], "  (" + ", ".join(notes) + ")" if notes else ""))

    def show(self, what, name, text):
        self.say("  %-26s %-14s %s" % (what, name, text))

    def keep(self, what, rounds):
        for figures in rounds.values():
            self.spoiled = self.spoiled or bool(median(figures, "disturbed"))
        self.results.setdefault(self.row, {})[what] = rounds

    def target(self, text, value, least=None, most=None):
        """Notes a figure with its limit: at least `least` or at most `most`."""
        if value is None:
            return
        reached = value >= least if least is not None else value <= most
        limit = "at least %g" % least if least is not None else "at most %g" % most
        self.note(text, value, limit, reached)

    def report(self, text, value):
        """A figure without a limit."""
        if value is not None:
            self.note(text, value, None, None)

    def note(self, text, value, limit, reached):
        self.targets.append({"row": self.row, "what": text, "value": value, "limit": limit,
                             "reached": reached, "disturbed": self.spoiled})
        self.say("    %s: %.2f%s" % (text, value, " (%s): %s" % (
            limit, "reached" if reached else "short") if limit else ""))

    def run_row(self, name, row):
        self.row = name
        self.spoiled = False
        self.say("\n%s: %s" % (name, row.__doc__.splitlines()[0]))
        began = time.monotonic()
        try:
            row(self)
        except Missing as why:
            self.say("  left out: %s" % why)
            self.results.setdefault(name, {})["left_out"] = str(why)
        self.say("  (%d s)" % (time.monotonic() - began))

    def save(self, machine):
        with open(self.args.json, "w") as file:
            json.dump({"machine": machine, "rounds": self.args.rounds,
                       "seconds": self.args.seconds, "quick": self.args.quick,
                       "wrong": self.wrong, "targets": self.targets, "rows": self.results}, file, indent=1)
            file.write("\n")

    def summary(self):
        wide = max([52] + [len(one["what"]) for one in self.targets])
        lines = ["%-16s %-*s %10s  %-15s %s" % ("row", wide, "figure", "value", "target", "")]
        for one in self.targets:
            state = {True: "reached", False: "SHORT", None: ""}[one["reached"]]
            if one["disturbed"]:
                state += " (disturbed)"
            lines.append("%-16s %-*s %10.2f  %-15s %s" % (
                one["row"], wide, one["what"], one["value"], one["limit"] or "", state))
        if self.args.quick:
            lines.append("quick: stores are a tenth of the size that the targets are meant for")
        lines += ["WRONG: " + text for text in self.wrong]
        return "\n".join(lines)


def ratio(medians, ours, peer, key):
    """ours / peer; for CPU use it the other way round. None when a side is missing."""
    if ours not in medians or peer not in medians or not medians[peer][key]:
        return None
    return medians[ours][key] / medians[peer][key]


def drop_caches():
    """Whether the page cache could be emptied (root only)."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3\n")
        return True
    except OSError:
        print("bench/run: the page cache cannot be dropped, so restarts are warm", file=sys.stderr)
        return False


def forget_files(folder):
    """Without root: at least these files leave the page cache."""
    for base, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(base, name), os.O_RDONLY)
            try:
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)
