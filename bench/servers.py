"""The servers that bench/run drives: stile and its peers.

Each one listens on a free loopback port, keeps its files in a folder that the
caller owns, is pinned to the server core, and is ended by its process id.
"""

import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import time

# Debian's modules stand here; without them nginx cannot be asked for Lua.
NGINX_MODULES = "/usr/lib/nginx/modules"

NGINX_CONF = """
%(modules)s
worker_processes %(workers)d;
worker_rlimit_nofile 20000;
daemon off;
pid %(folder)s/nginx.pid;
error_log %(folder)s/error.log error;
events { worker_connections 8192; }
http {
	access_log off;
	keepalive_requests 1000000000;
	default_type application/json;
	client_body_temp_path %(folder)s/body;
	proxy_temp_path %(folder)s/proxy;
	fastcgi_temp_path %(folder)s/fastcgi;
	uwsgi_temp_path %(folder)s/uwsgi;
	scgi_temp_path %(folder)s/scgi;
	%(http)s
	server {
		listen 127.0.0.1:%(port)d%(tls)s backlog=4096;
		%(server)s
	}
}
"""

NGINX_ANSWER = """location / {
			return 200 '{"verdict":"new","ticket":"0000000000000000"}';
		}"""

NGINX_TLS = """ssl_certificate %(cert)s;
		ssl_certificate_key %(key)s;
		ssl_protocols TLSv1.2 TLSv1.3;
		ssl_session_tickets %(tickets)s;
		"""

# What one finds advised: a key by the event's id, SET NX EX, a pool of
# connections. A match on the id is cheaper than decoding the JSON.
NGINX_LUA = """location / {
			client_body_buffer_size 64k;
			content_by_lua_block {
				ngx.req.read_body()
				local body = ngx.req.get_body_data()
				local id = body and string.match(body, '"id":"([^"]+)"')
				if not id then return ngx.exit(400) end
				local redis = require("nginx.redis"):new()
				local ok, err = redis:connect("127.0.0.1", %(redis)d)
				if not ok then return ngx.exit(503) end
				local set, err = redis:set("dedup:" .. id, "1", "NX", "EX", "345600")
				if not set then return ngx.exit(503) end
				redis:set_keepalive(60000, 1024)
				local verdict = set == "OK" and "new" or "duplicate"
				local answer = '{"verdict":"' .. verdict .. '"}'
				ngx.header["Stile-Verdict"] = verdict
				ngx.header["Content-Length"] = #answer
				ngx.print(answer)
			}
		}"""


# The same sink behind it as behind stile; connections to it are kept.
NGINX_PROXY = """location / {
			proxy_pass http://sink;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
		}"""
NGINX_UPSTREAM = "upstream sink { server 127.0.0.1:%d; keepalive 512; keepalive_requests 1000000000; }"


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_for(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("%s: not ready after %d s" % (what, seconds))
        time.sleep(0.02)


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def children(pid):
    path = "/proc/%d/task/%d/children" % (pid, pid)
    with open(path) as file:
        return [int(child) for child in file.read().split()]


def make_certificate(folder):
    """An ECDSA P-256 key and a certificate of its own."""
    cert, key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
    if not os.path.exists(cert):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj",
                        "/CN=localhost", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
    return cert, key


class Server:
    """A process on the server core. Use as a context manager."""

    name = "server"
    favour = []  # words before every command, where the machine has other work

    def __init__(self, folder, cpu):
        self.folder = folder
        self.cpu = cpu
        self.port = free_port()
        self.process = None
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)

    def spawn(self, command, **more):
        self.process = subprocess.Popen(self.favour + ["taskset", "-c", str(self.cpu)] + command,
                                        stdin=subprocess.DEVNULL, **more)

    def pids(self):
        return [self.process.pid]

    def start(self):
        raise NotImplementedError

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Nginx(Server):
    """`return 200` to every POST; with `certificate` over TLS, with `redis` by Lua, with
    `sink` a proxy for that server."""

    def __init__(self, folder, cpu, workers=1, certificate=None, tickets=True, redis=None,
                 sink=None, tuned=False, name="nginx"):
        super().__init__(folder, cpu)
        self.name = name
        self.workers = workers
        self.certificate = certificate
        self.tickets = tickets
        self.redis = redis
        self.sink = sink
        self.tuned = tuned

    def config(self):
        modules = http = ""
        server = NGINX_ANSWER
        if self.redis:
            modules = "\n".join("load_module %s/%s;" % (NGINX_MODULES, module) for module in
                                ("ndk_http_module.so", "ngx_http_lua_module.so"))
            http = 'lua_package_path "/usr/share/lua/5.1/?.lua;;";'
            server = NGINX_LUA % {"redis": self.redis.port}
        if self.sink:
            http = NGINX_UPSTREAM % self.sink.port
            server = NGINX_PROXY
        if self.tuned:
            http += "client_header_buffer_size 4k;"
        if self.certificate:
            server = NGINX_TLS % {"cert": self.certificate[0], "key": self.certificate[1],
                                  "tickets": "on" if self.tickets else "off"} + server
        return NGINX_CONF % {"modules": modules, "workers": self.workers, "folder": self.folder,
                             "http": http, "port": self.port, "server": server,
                             "tls": " ssl" if self.certificate else ""}

    def start(self):
        path = os.path.join(self.folder, "nginx.conf")
        with open(path, "w") as file:
            file.write(self.config())
        # Debian loads every packaged module from /etc; this file names its own.
        self.spawn(["nginx", "-c", path, "-p", self.folder, "-e", self.folder + "/error.log"],
                   stderr=subprocess.DEVNULL)
        wait_for(lambda: self.process.poll() is not None or accepts(self.port), self.name)
        if self.process.poll() is not None:
            raise RuntimeError("nginx does not start: " + self.config())

    def pids(self):
        workers = children(self.process.pid)
        return workers + (self.redis.pids() if self.redis else [])


class Redis(Server):
    """Redis, persistent or not. Our own commands come by its unix socket."""

    name = "redis"
    scheme = "redis"

    def __init__(self, folder, cpu, options=(), port=None):
        super().__init__(folder, cpu)
        self.options = list(options)
        self.port = port or self.port
        self.socket = os.path.join(folder, "redis.sock")

    def start(self):
        self.begin()
        self.wait_loaded()

    def begin(self):
        self.spawn(["redis-server", "--bind", "127.0.0.1", "--port", str(self.port),
                    "--unixsocket", self.socket, "--dir",
                    self.folder, "--save", ""] + self.options,
                   stdout=subprocess.DEVNULL)

    def wait_loaded(self, seconds=300):
        wait_for(lambda: self.call("PING") == "PONG", self.name, seconds)

    def call(self, *words):
        done = subprocess.run(["redis-cli", "-s", self.socket] + [str(word) for word in words],
                              capture_output=True, text=True)
        return done.stdout.strip()

    def info(self, key):
        for line in self.call("INFO", "all").splitlines():
            if line.startswith(key + ":"):
                return line.split(":", 1)[1].strip()
        return None

    def end_only(self):
        """Ends the process and keeps the files."""
        self.process.terminate()
        self.process.wait(120)


class RedisCluster:
    """Three masters with a replica each, on any of the cores."""

    scheme = "redis-cluster"

    def __init__(self, folder, cpus, options=()):
        self.servers = []
        for i in range(6):
            home = os.path.join(folder, str(i))
            self.servers.append(Redis(home, cpus, ["--cluster-enabled", "yes", *options],
                                      port=cluster_port()))
        self.port = self.servers[0].port

    def __enter__(self):
        for server in self.servers:
            server.__enter__()
        places = ["127.0.0.1:%d" % server.port for server in self.servers]
        subprocess.run(["redis-cli", "--cluster", "create", *places, "--cluster-replicas", "1",
                        "--cluster-yes"], check=True, stdout=subprocess.DEVNULL)
        wait_for(lambda: all("cluster_state:ok" in server.call("CLUSTER", "INFO")
                             for server in self.servers), "the cluster")
        return self

    def __exit__(self, *error):
        for server in self.servers:
            server.__exit__(*error)

    def pids(self):
        return [pid for server in self.servers for pid in server.pids()]


def cluster_port():
    """A port below those that the kernel gives away, with that of its bus above it."""
    while True:
        port = random.randrange(15000, 22000)
        with socket.socket() as one, socket.socket() as other:
            try:
                one.bind(("127.0.0.1", port))
                other.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
            return port


class Sink(Server):
    """bench/sink: takes events and counts them."""

    name = "sink"

    def __init__(self, folder, cpu, program):
        super().__init__(folder, cpu)
        self.program = program

    def start(self):
        if self.favour:
            self.favour = ["chrt", "--rr", "2"]  # before the generator
        self.spawn([self.program, "--port", str(self.port)], stdout=subprocess.DEVNULL)
        wait_for(lambda: accepts(self.port), self.name)

    def ask(self, method, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request(method, path)
        answer = connection.getresponse().read()
        connection.close()
        return answer

    def stats(self):
        return json.loads(self.ask("GET", "/stats"))


class Python(Server):
    """peer_deliver.py under uvicorn, one worker, with a Redis of its own."""

    name = "python"

    def __init__(self, folder, cpu, sink, redis):
        super().__init__(folder, cpu)
        self.sink, self.redis = sink, redis

    def pids(self):
        return [self.process.pid] + self.redis.pids()

    def start(self):
        env = {**os.environ, "REDIS_PORT": str(self.redis.port),
               "SINK_URL": "http://127.0.0.1:%d/" % self.sink.port}
        self.spawn(["/usr/bin/python3", "-m", "uvicorn", "--host", "127.0.0.1", "--port",
                    str(self.port), "--log-level", "warning", "--app-dir",
                    os.path.dirname(os.path.abspath(__file__)), "peer_deliver:app"], env=env)
        wait_for(lambda: self.process.poll() is not None or accepts(self.port), self.name)
        if self.process.poll() is not None:
            raise RuntimeError("uvicorn does not start")


class Stile(Server):
    """All of stile on one core, no configuration, events to /dev/null."""

    name = "stile"

    def __init__(self, folder, cpu, binary, certificate=None, more=(), redis=None):
        super().__init__(folder, cpu)
        self.binary = binary
        self.redis = redis
        self.more = list(more)
        self.certificate = certificate

    def start(self):
        command = [self.binary, "serve", "--listen", "127.0.0.1:%d" % self.port, "--data",
                   os.path.join(self.folder, "data"), "--threads", "1"] + self.more
        if self.redis:
            command += ["--store", "%s://127.0.0.1:%d" % (self.redis.scheme, self.redis.port)]
        if self.certificate:
            command += ["--tls-cert", self.certificate[0], "--tls-key", self.certificate[1]]
        self.spawn(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: self.process.poll() is not None or accepts(self.port), self.name)
        if self.process.poll() is not None:
            raise RuntimeError("stile does not start: " + " ".join(command))

    def pids(self):
        return super().pids() + (self.redis.pids() if self.redis else [])

    def metric(self, name):
        """The value of a metric without labels."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return next(float(line.split()[1]) for line in text.splitlines()
                    if line.startswith(name + " "))

    def end_only(self):
        """Ends the process and keeps the files."""
        self.process.kill()
        self.process.wait(120)
