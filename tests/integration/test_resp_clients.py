"""Programs that talk to Redis talk to the door as they are."""

import json
import os
import re
import shutil
import ssl
import subprocess
import time

import pytest
import redis

import rediskit
import respkit

PASSWORD = "a long password, that others do not know"


@pytest.fixture(scope="module")
def gateway(module_stile):
    return respkit.start(module_stile)


@pytest.fixture(scope="module")
def redis_server():
    server = rediskit.Redis(aof=None)
    yield server
    server.close()


@pytest.fixture(scope="module")
def guarded(module_stile, tmp_path_factory):
    """With a password and TLS, from a file."""
    folder = tmp_path_factory.mktemp("guarded")
    cert, key = rediskit.make_certificate(str(folder))
    path = folder / "stile.yaml"
    path.write_text(f"tls: {{ cert: {cert}, key: {key} }}\n"
                    "resp: { listen: '127.0.0.1:0', password: '${RESP_PASSWORD}' }\n",
                    encoding="utf-8")
    made = module_stile("--config", str(path), folder=str(folder / "data"),
                        env={"RESP_PASSWORD": PASSWORD})
    made.resp = respkit.address_of(made)
    made.certificate = cert
    return made


# ---- the handler of the tutorials, unchanged ----

TUTORIAL = '''
import json, os, redis

r = redis.Redis.from_url(os.environ["REDIS_URL"])

def handle(event):
    key = "event:dedup:" + event["id"]
    if not r.set(key, "PROCESSED", nx=True, ex=86400):
        return "duplicate"
    return "processed"

for line in open(os.environ["EVENTS"]):
    print(handle(json.loads(line)))
print(r.get("event:dedup:1"), 86390 < r.ttl("event:dedup:1") <= 86400)
'''


def run_tutorial(url, events):
    return subprocess.run(["/usr/bin/python3", "-c", TUTORIAL], check=True, capture_output=True,
                          text=True, env={**os.environ, "REDIS_URL": url, "EVENTS": events}).stdout


def test_the_tutorial_handler_does_the_same_as_with_redis(gateway, redis_server, tmp_path):
    events = tmp_path / "events"
    ids = [str(i * i % 37) for i in range(200)]
    events.write_text("".join(json.dumps({"id": i}) + "\n" for i in ids), encoding="utf-8")
    ours = run_tutorial("redis://%s:%d/0" % gateway.resp, str(events))
    theirs = run_tutorial(redis_server.url(), str(events))
    assert ours == theirs
    assert ours.count("processed") == len(set(ids))


# ---- redis-py ----

@pytest.mark.parametrize("decode", [False, True])
def test_redis_py(gateway, decode):
    client = redis.Redis(*gateway.resp, decode_responses=decode, client_name="test")
    text = (lambda value: value) if decode else (lambda value: value.encode())
    client.delete("py", "py2")
    assert client.ping() is True
    assert client.client_getname() == "test" or client.client_getname() == b"test"
    assert client.set("py", "1", nx=True, ex=100) is True
    assert client.set("py", "2", nx=True, ex=100) is None
    assert client.set("py", "3", xx=True, get=True, keepttl=True) == text("1")
    assert 90 < client.ttl("py") <= 100
    assert client.mget("py", "nosuch") == [text("3"), None]
    assert client.exists("py", "py") == 2
    assert client.type("py") == text("string")
    assert client.persist("py") is True and client.ttl("py") == -1
    assert client.expire("py", 10) is True and client.pexpire("py", 10000) is True
    assert set(client.scan_iter("py*")) == {text("py")}
    assert client.getdel("py") == text("3")
    assert client.info("server")["redis_mode"] == "standalone"
    assert client.info()["role"] == "master"
    assert client.config_get("appendonly") == {"appendonly": "yes"}
    assert client.command_count() > 30
    assert client.dbsize() >= 0
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client.lpush("list", 1)


def test_redis_py_pipelines_and_transactions(gateway):
    client = redis.Redis(*gateway.resp)
    client.delete("p1", "p2", "p3")
    for transaction in (True, False):
        pipe = client.pipeline(transaction=transaction)
        pipe.set("p1", "a").set("p2", "b", nx=True).get("p1").delete("p1", "p2", "p3")
        assert pipe.execute() == [True, True, b"a", 2]
    pipe = client.pipeline(transaction=True)
    pipe.set("p1", "a").execute_command("NOSUCH")
    with pytest.raises(redis.ResponseError):
        pipe.execute()
    assert client.get("p1") is None, "a transaction with an unknown command does nothing"


def test_redis_py_with_tls_and_password(guarded):
    options = {"host": guarded.resp[0], "port": guarded.resp[1], "ssl": True,
               "ssl_ca_certs": guarded.certificate}
    client = redis.Redis(password=PASSWORD, **options)
    assert client.set("tls", "v" * 50000) is True
    assert client.get("tls") == b"v" * 50000
    assert redis.Redis(username="default", password=PASSWORD, **options).ping() is True
    with pytest.raises(redis.ResponseError, match="WRONGPASS"):
        redis.Redis(password="another", **options).ping()
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(**options).ping()
    with pytest.raises(redis.ConnectionError):
        redis.Redis(*guarded.resp, password=PASSWORD).ping()
    assert PASSWORD not in guarded.log()


def test_a_stranger_has_small_limits_and_learns_nothing(guarded):
    context = ssl.create_default_context(cafile=guarded.certificate)
    with respkit.Client(guarded.resp, context) as client:
        for command in ("GET x", "PING", "INFO", "SCAN 0", "MULTI", "CONFIG GET *"):
            assert client.call(*command.split()) == ("-", b"NOAUTH Authentication required.")
        assert client.call("HELLO", 3)[1].startswith(b"NOAUTH HELLO must be called")
        client.send(b"*2\r\n$3\r\nGET\r\n$20000\r\n")
        assert client.reply() == ("-", b"ERR Protocol error: unauthenticated bulk length")
        assert client.reply() == ("end", None)
    with respkit.Client(guarded.resp, context) as client:
        assert client.call("HELLO", 3, "AUTH", "default", PASSWORD)[0] == "%"
        assert client.call("GET", "nosuch") == ("_", b"")


def test_guessing_passwords_takes_time_and_holds_up_nobody(stile, scratch):
    path = os.path.join(scratch, "guesses.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("resp: { listen: '127.0.0.1:0', password: '${RESP_PASSWORD}' }\n")
    gateway = stile("--config", path, env={"RESP_PASSWORD": PASSWORD})
    gateway.resp = respkit.address_of(gateway)
    with respkit.Client(gateway.resp) as guest, respkit.Client(gateway.resp) as guesser, \
            respkit.Client(gateway.resp) as late:
        assert guest.call("AUTH", PASSWORD) == ("+", b"OK")
        began = time.monotonic()
        for word in ("a", "b", "c", "d", PASSWORD):
            guesser.send(respkit.command_bytes("AUTH", word))
        guesser.send(respkit.command_bytes("PING"))
        for i in range(50):
            assert guest.call("SET", f"k{i}", "v") == ("+", b"OK")
        assert [guesser.reply()[1][:9] for _ in range(4)] == [b"WRONGPASS"] * 4
        assert [guesser.reply()[1], guesser.reply()[1]] == [b"OK", b"PONG"]
        assert time.monotonic() - began > 0.7, "0.05 + 0.1 + 0.2 + 0.4, by a coarse clock"
        # One that goes away before it is answered leaves nothing behind.
        late.send(respkit.command_bytes("AUTH", "e") + respkit.command_bytes("PING"))
        late.close()
        assert guest.call("GET", "k1") == ("$", b"v")
    assert gateway.stop() == 0


def test_others_than_this_machine_need_a_password(run, tmp_path):
    code, _, errors = run("serve", "--resp", "0.0.0.0:0", "--data", str(tmp_path / "data"))
    assert code != 0
    assert "expected resp.password too" in errors


# ---- other clients ----

def cli(address, *words, **more):
    return subprocess.run(
        [rediskit.program("redis-cli"), "-h", address[0], "-p", str(address[1]), *words],
        check=True, capture_output=True, text=True, **more).stdout


def test_redis_cli(gateway):
    address = gateway.resp
    cli(address, "DEL", "cli")
    assert cli(address, "SET", "cli", "1", "NX", "EX", "100") == "OK\n"
    assert cli(address, "SET", "cli", "1", "NX", "EX", "100") == "\n"
    assert cli(address, "-3", "--no-raw", "GET", "nosuch") == "(nil)\n"
    assert "cli" in cli(address, "--scan", "--pattern", "c*").split()
    assert cli(address, input="MULTI\nSET cli 2\nGET cli\nEXEC\n").split() == \
        ["OK", "QUEUED", "QUEUED", "OK", "2"]
    assert "redis_version" in cli(address, "INFO", "server")
    assert cli(address, "DEL", "cli") == "1\n"


NODE = """
const redis = require('redis');
(async () => {
  const client = redis.createClient({ url: process.env.REDIS_URL, name: 'node' });
  await client.connect();
  await client.del('node');
  const first = await client.set('node', '1', { NX: true, EX: 100 });
  const second = await client.set('node', '2', { NX: true, EX: 100 });
  const many = await Promise.all([...Array(500).keys()].map(
    i => client.set('node:' + i % 250, 'v', { NX: true, EX: 100 })));
  const multi = await client.multi().set('node', '3').get('node').exec();
  let seen = 0;
  for await (const key of client.scanIterator({ MATCH: 'node:*' })) seen += key ? 1 : 0;
  let error = null;
  try { await client.lPush('list', '1'); } catch (e) { error = e.message; }
  console.log(JSON.stringify({ first, second, multi, seen, error,
    taken: many.filter(x => x === 'OK').length, ttl: await client.ttl('node') }));
  await client.quit();
})();
"""


def test_node_redis(gateway):
    node = shutil.which("node") or shutil.which("nodejs")
    if not node or not os.path.isdir("/usr/share/nodejs/redis"):
        pytest.skip("node-redis is not installed: tools/install-packages test")
    env = {**os.environ, "REDIS_URL": "redis://%s:%d" % gateway.resp,
           "NODE_PATH": "/usr/share/nodejs"}
    result = subprocess.run([node, "-e", NODE], check=False, capture_output=True, text=True, env=env,
                            timeout=60)
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["first"] == "OK" and said["second"] is None
    assert said["multi"] == ["OK", "3"]
    assert said["taken"] == 250 and said["seen"] >= 250
    assert said["ttl"] == -1, "a plain SET takes the time away"
    assert said["error"].startswith("ERR unknown command 'LPUSH'")


@pytest.mark.parametrize("threads", ["1", "2"])
def test_redis_benchmark(stile, threads):
    """Each key is taken once, whichever of the fifty clients asks."""
    gateway = respkit.start(stile, "--threads", threads)
    for pipeline in ("1", "16"):
        out = subprocess.run(
            [rediskit.program("redis-benchmark"), "-h", gateway.resp[0], "-p", str(gateway.resp[1]),
             "-n", "20000", "-c", "50", "-P", pipeline, "-r", "1000", "-q",
             "SET", "key:__rand_int__", "1", "NX", "EX", "86400"],
            check=True, capture_output=True, text=True).stdout
        assert re.search(r"requests per second", out), out
        assert "rror" not in out
    with respkit.Client(gateway.resp) as client:
        assert client.call("DBSIZE") == (":", b"1000")
    metrics = gateway.metrics()
    assert metrics["stile_resp_commands_total"].value() >= 40000
    assert metrics["stile_live_cells"].value() == 1000
