"""Redis servers of the test's own: one, or a cluster of three masters and three
replicas, in folders that go with them. They are killed, stopped for a while, cut off
from each other and started again as the test wants.

Redis      one server, on a loopback address
Cluster    six of them, each on an address of its own, so that some can be cut off

What a test asks goes through redis-py; nothing here is what stile uses."""

import contextlib
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess

import pytest
import redis
from redis.cluster import RedisCluster

from harness import LIMIT_S, eventually, quick_folder

CLUSTER_BUS = 10000  # a node's second port, above its first
NODE_TIMEOUT_MS = 2000
_numbers = itertools.count(1)


def program(name):
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        pytest.skip(f"{name} is not installed: tools/install-packages test")
    return found


def _is_free(address, port):
    with socket.socket() as one:
        try:
            one.bind((address, port))
        except OSError:
            return False
    return True


def free_port(addresses, also=()):
    """One that is free on all addresses, below those that the kernel gives away."""
    while True:
        port = random.SystemRandom().randrange(14000, 22000)
        if all(_is_free(address, port + more) for address in addresses for more in (0, *also)):
            return port


def make_certificate(folder):
    """(certificate, key) for localhost and 127.0.0.1; it is its own authority."""
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True,
        capture_output=True)
    return cert, key


class Redis:
    """Options are those of redis-server: Redis("--maxmemory", "8mb"). Without other
    words it keeps an append-only file that it syncs at each write, and evicts nothing."""

    def __init__(self, *options, password=None, tls=False, aof="always", address="127.0.0.1",
                 port=None):
        self.folder = quick_folder("stile-redis-", 1 << 30)
        self.address = address
        self.port = port or free_port([address])
        self.password = password
        self.certificate = make_certificate(self.folder) if tls else None
        self.process = None
        self.stopped = False
        self.options = ["--bind", address, "--dir", self.folder, "--save", "",
                        "--maxmemory-policy", "noeviction"]
        self.options += ["--appendonly", "yes", "--appendfsync", aof] if aof else \
            ["--appendonly", "no"]
        if tls:
            cert, key = self.certificate
            self.options += ["--port", "0", "--tls-port", str(self.port), "--tls-cert-file", cert,
                             "--tls-key-file", key, "--tls-ca-cert-file", cert,
                             "--tls-auth-clients", "no"]
        else:
            self.options += ["--port", str(self.port)]
        if password:
            self.options += ["--requirepass", password, "--masterauth", password]
        self.options += options
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    # ---- its life ----

    def start(self, wait=True):
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                [program("redis-server"), *self.options], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, cwd=self.folder)
        if wait:
            eventually(self.answers, "Redis answers:\n" + self.log()[-2000:])

    def answers(self):
        assert self.process.poll() is None, self.log()[-4000:]
        try:
            return self.client(socket_timeout=1).ping()
        except redis.RedisError:
            return False

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.stopped = False

    def end(self):
        """As an operator would stop it."""
        self.process.terminate()
        self.process.wait()

    def restart(self):
        self.end()
        self.start()

    def pause(self):
        """It holds its connections and says nothing: SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)
        self.stopped = True

    def resume(self):
        self.process.send_signal(signal.SIGCONT)
        self.stopped = False

    def running(self):
        return self.process is not None and self.process.poll() is None

    def close(self):
        if self.running():
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- what it says ----

    def client(self, **more):
        if self.certificate:
            more = {"ssl": True, "ssl_ca_certs": self.certificate[0], **more}
        return redis.Redis(host=self.address, port=self.port, password=self.password,
                           **{"socket_timeout": 10, **more})

    def ask(self, *words):
        with self.client() as client:
            return client.execute_command(*words)

    def set(self, name, value):
        """CONFIG SET."""
        return self.ask("CONFIG", "SET", name, value)

    def info(self, name):
        with self.client() as client:
            return client.info()[name]

    def url(self, database=0):
        scheme = "rediss" if self.certificate else "redis"
        login = f":{self.password}@" if self.password else ""
        host = "localhost" if self.certificate else self.address
        return f"{scheme}://{login}{host}:{self.port}/{database}"

    def slow(self, ms):
        """Answers nothing for so long."""
        return self.ask("CLIENT", "PAUSE", str(ms), "ALL")

    def log(self):
        try:
            with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
                return log.read()
        except FileNotFoundError:
            return ""


class Cluster:
    """Three masters and three replicas. The nodes reach each other from and at addresses
    of their own (127.x.y.1 … 6), the test and stile come from 127.0.0.1: what is cut
    between nodes stays open for clients, as in a real partition."""

    def __init__(self, *options, password=None, tls=False, aof=None, masters=3, replicas=1):
        number = (os.getpid() * 16 + next(_numbers)) % 60000
        self.addresses = [f"127.{64 + number // 250 % 64}.{1 + number % 250}.{i + 1}"
                          for i in range(masters * (1 + replicas))]
        self.port = free_port(self.addresses, also=(CLUSTER_BUS,))
        self.password = password
        self.replica_count = replicas
        self.nodes = []
        self.cuts = []
        more = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS),
                "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
                "--repl-ping-replica-period", "1", "--repl-timeout", "5",
                "--protected-mode", "no"]  # an address other than 127.0.0.1 counts as foreign
        if tls:
            more += ["--tls-cluster", "yes", "--tls-replication", "yes"]
        try:
            for address in self.addresses:
                self.nodes.append(Redis(*more, "--bind-source-addr", address, *options,
                                        password=password, tls=tls, aof=aof, address=address,
                                        port=self.port))
            self._create()
        except BaseException:
            self.close()
            raise

    def _cli(self, *words):
        login = ["-a", self.password, "--no-auth-warning"] if self.password else []
        certificate = self.nodes[0].certificate
        tls = ["--tls", "--insecure"] if certificate else []
        done = subprocess.run([program("redis-cli"), *login, *tls, "--cluster", *words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=120, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
        return done.stdout

    def _create(self):
        self._cli("create", *[f"{address}:{self.port}" for address in self.addresses],
                  "--cluster-replicas", str(self.replica_count), "--cluster-yes")
        self.wait_whole()

    # ---- who is who ----

    def table(self, node=None):
        """CLUSTER NODES as seen by one: {address: {id, flags, master, slots}}."""
        node = node or next(one for one in self.nodes if one.running() and not one.stopped)
        found = {}
        with node.client(decode_responses=True) as client:
            for at, row in client.cluster("NODES").items():
                found[at.rsplit(":", 1)[0]] = {
                    "id": row["node_id"], "flags": row["flags"].split(","),
                    "master": row["master_id"], "slots": row["slots"]}
        return found

    def node(self, address):
        return self.nodes[self.addresses.index(address)]

    def masters(self, view=None):
        table = self.table(view)
        return [self.node(address) for address, row in table.items()
                if "master" in row["flags"] and row["slots"] and "fail" not in row["flags"]]

    def replicas_of(self, master, view=None):
        table = self.table(view)
        wanted = table[master.address]["id"]
        return [self.node(address) for address, row in table.items() if row["master"] == wanted]

    def master_of(self, key, view=None):
        """The one that has the key's slot, as the view sees it."""
        view = view or next(one for one in self.nodes if one.running() and not one.stopped)
        slot = view.ask("CLUSTER", "KEYSLOT", key)
        for address, row in self.table(view).items():
            if "fail" in row["flags"] or "master" not in row["flags"]:
                continue
            for span in row["slots"]:
                if int(span[0]) <= slot <= int(span[-1]):
                    return self.node(address)
        return None

    def _replicates(self, node):
        """Is a replica in step, or has a master its replicas?"""
        with node.client(decode_responses=True) as client:
            if client.cluster("INFO")["cluster_state"] != "ok":
                return False
            info = client.info("replication")
        if info["role"] == "slave":
            return info["master_link_status"] == "up"
        return info["connected_slaves"] >= self.replica_count

    def _view(self, node):
        """Who has which slots and who follows whom, as this node sees it."""
        return {address: ("master" in row["flags"], "fail" in row["flags"], row["master"],
                          sorted(map(tuple, row["slots"])))
                for address, row in self.table(node).items()}

    def wait_whole(self, limit_s=LIMIT_S):
        """Until each master has its replicas in step, all slots are served, and all nodes
        agree about that."""
        def whole():
            try:
                if not all(self._replicates(node) for node in self.nodes):
                    return False
                views = [self._view(node) for node in self.nodes]
            except redis.RedisError:
                return False
            return all(view == views[0] for view in views)
        eventually(whole, "the cluster is whole", limit_s=limit_s, pause_s=0.1)

    # ---- what may befall it ----

    def wait_promoted(self, old, view, limit_s=LIMIT_S):
        """Until another has the slots of a master that is gone."""
        def promoted():
            table = self.table(view)
            if "fail" not in table[old.address]["flags"]:
                return False
            covered = sum(int(span[-1]) - int(span[0]) + 1 for row in table.values()
                          if "master" in row["flags"] and "fail" not in row["flags"]
                          for span in row["slots"])
            return covered == 16384
        eventually(promoted, "a replica has taken over", limit_s=limit_s, pause_s=0.05)

    def fail_over(self, master):
        """By hand, without loss: a replica takes over, and the old one follows it."""
        replica = self.replicas_of(master)[0]
        replica.ask("CLUSTER", "FAILOVER")
        eventually(lambda: replica.info("role") == "master", "the replica is the master")
        return replica

    def kill_master(self, master):
        view = next(one for one in self.masters() if one is not master)
        master.kill()
        return view

    @contextlib.contextmanager
    def cut_off(self, node):
        """A partition: no packet between this node and the others, while clients reach
        both sides. Needs root."""
        if os.geteuid() != 0:
            pytest.skip("cutting nodes off needs root")
        nft = program("nft")
        table = f"stile_{os.getpid()}_{next(_numbers)}"
        others = ", ".join(address for address in self.addresses if address != node.address)
        rules = f"""table ip {table} {{
            chain out {{
                type filter hook output priority 0; policy accept;
                ip saddr {node.address} ip daddr {{ {others} }} drop
                ip saddr {{ {others} }} ip daddr {node.address} drop
            }}
        }}"""
        subprocess.run([nft, "-f", "-"], input=rules, text=True, check=True)
        self.cuts.append(table)
        try:
            yield
        finally:
            subprocess.run([nft, "delete", "table", "ip", table], check=True)
            self.cuts.remove(table)

    def move_slots(self, source, target, count):
        """As an operator reshards, with all that lies in the slots."""
        self.wait_whole()
        table = self.table(source)
        return self._cli("reshard", f"{source.address}:{self.port}",
                         "--cluster-from", table[source.address]["id"],
                         "--cluster-to", table[target.address]["id"],
                         "--cluster-slots", str(count), "--cluster-yes")

    # ---- what it says ----

    def client(self, **more):
        node = next(one for one in self.nodes if one.running() and not one.stopped)
        if node.certificate:
            more = {"ssl": True, "ssl_cert_reqs": "none", **more}
        return RedisCluster(host=node.address, port=self.port, password=self.password,
                            **{"socket_timeout": 10, **more})

    def url(self):
        node = self.nodes[0]
        scheme = "rediss-cluster" if node.certificate else "redis-cluster"
        login = f":{self.password}@" if self.password else ""
        return f"{scheme}://{login}" + ",".join(
            f"{address}:{self.port}" for address in self.addresses[:3])

    def close(self):
        for table in self.cuts:
            subprocess.run([program("nft"), "delete", "table", "ip", table], check=False)
        for node in self.nodes:
            node.close()
