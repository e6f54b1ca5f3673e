"""The Redis door says what Redis says: the same commands, valid and not, go to both. Known
differences stand in docs/redis-door.md."""

import shlex
import socket

import pytest

import rediskit
import respkit
from harness import eventually

COMMANDS = r"""
PING
PING hi
PING a b
ECHO x
ECHO
FOO
FOO a b c
foo 'a b' ''
FOO aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb c
SET k v
SET k
SET k v NX
SET k v XX
SET k2 v XX
SET k2 v nx ex 100
TTL k2
SET k v GET
SET k3 v GET
SET k v NX XX
SET k v XX NX
SET k v NX GET
SET k9 v NX GET
SET k v XX GET
SET k v EX 0
SET k v EX -1
SET k v EX abc
SET k v EX 9223372036854775807
SET k v PX 9223372036854775807
SET k v EX 9223372036854775808
SET k v EX 10 PX 10
SET k v EX 10 EX 10
SET k v EX
SET k v KEEPTTL EX 10
SET k v KEEPTTL KEEPTTL
SET k v FOO
SET k v EXAT 1
GET k
SET k v PXAT 1
GET k
SET k v EXAT 0
SET k v
SET k v EX 10.5
SET k v EX 010
SET k v EX +10
SET k v EX ' 10'
SET k v EX ''
SET k v EX 10 KEEPTTL
SET k v EX 100
SET k w KEEPTTL
TTL k
SET k v
TTL k
GET k
GET nosuch
GET
GET a b
SETNX k v
SETNX newk v
SETNX
SETEX k 100 v
SETEX k 0 v
SETEX k x v
PSETEX k 100000 v
PSETEX k 0 v
TTL k
TTL nosuch
TTL newk
PTTL nosuch
EXPIRE newk 100
TTL newk
EXPIRE newk 100 NX
EXPIRE newk 200 GT
TTL newk
EXPIRE newk 300 LT
EXPIRE newk 100 XX
EXPIRE newk 100 NX XX
EXPIRE newk 100 GT LT
EXPIRE newk 100 NX GT
EXPIRE newk 90 XX GT
EXPIRE newk 100 FOO
EXPIRE newk abc
EXPIRE newk abc FOO
EXPIRE newk 9223372036854775807
EXPIRE newk -9223372036854775808
EXPIRE nosuch 100
EXPIRE nosuch 100 XX
PERSIST newk
PERSIST newk
PERSIST nosuch
EXPIRE newk 100 GT
EXPIRE newk 100 XX
EXPIRE newk 100 LT
TTL newk
PEXPIRE newk 100000
EXPIREAT newk 7258118400
EXPIRETIME newk
PEXPIRETIME newk
EXPIRETIME nosuch
EXPIREAT newk 1
GET newk
PEXPIREAT k 7258118400123
PEXPIRETIME k
EXPIRE k -1
EXISTS k
SET k v
SET kk v
EXISTS k kk k nosuch
DEL k kk nosuch
DEL k k
DEL
UNLINK
UNLINK nosuch
MGET a b
SET a 1
SET b 2
MGET a b c a
MGET
GETDEL a
GETDEL a
GETDEL
GETEX b
GETEX b EX 100
TTL b
GETEX b PERSIST
TTL b
GETEX b FOO
GETEX b EX
GETEX b EX 0
GETEX b EX 10 PERSIST
GETEX nosuch
TYPE b
TYPE nosuch
SELECT 0
SELECT 99
SELECT -1
SELECT abc
SELECT 4294967296
AUTH x
AUTH x y
AUTH default y
AUTH a b c
HELLO 4
HELLO 1
HELLO x
HELLO 2 FOO
HELLO 2 AUTH x
HELLO 2 AUTH x y
HELLO 2 SETNAME 'a b'
CLIENT SETNAME foo
CLIENT GETNAME
CLIENT SETNAME 'a b'
CLIENT SETNAME ''
CLIENT GETNAME
CLIENT FOO
CLIENT
CLIENT SETNAME
CLIENT ID x
CLIENT GETNAME x
MULTI
MULTI
SET a 1
GET a
FOO
EXEC
MULTI
SET a 2
GET a
SET a 3 EX 0
DEL a
PING
TTL a
SET a
EXEC
MULTI
SET a 2
GET a
SET a 3 EX 0
DEL a
PING
TTL a
MGET a b
EXISTS a b
SETNX c 1
GETDEL c
SELECT 0
SELECT 100
EXEC
EXEC
DISCARD
MULTI
SET a 5
DISCARD
GET a
MULTI
EXEC
EXEC x
MULTI x
SCAN x
SCAN 0 COUNT 0
SCAN 0 COUNT x
SCAN 0 FOO
SCAN 0 MATCH
SCAN
DBSIZE
DBSIZE x
CONFIG GET save
CONFIG GET appendonlyx
CONFIG GET sav? save
CONFIG FOO
CONFIG GET
COMMAND FOO
COMMAND COUNT x
COMMAND INFO nosuch
COMMAND DOCS nosuch
MULTI
RESET
EXEC
RESET x
EXPIREAT one abc
SET '' x
GET ''
DEL ''
SET bin "\x00\r\n"
"""

RESP3 = """
GET nosuch
SET a 1
SET a 1 NX
SET a 2 GET
MGET a nosuch
GETDEL nosuch
EXISTS a
TTL a
CLIENT GETNAME
CONFIG GET save
COMMAND INFO nosuch
COMMAND DOCS nosuch
MULTI
GET nosuch
EXEC
FOO
RESET
GET nosuch
"""

STREAMS = [
    b"*1\r\n$4\r\nPING\r\n" * 3,
    b"PING\r\n",
    b"PING\n",
    b"  set a  \"x\\x41\\n y\"\r\nget a\r\n",
    b"set b 'it\\'s'\r\nget b\r\n",
    b"*a\r\n",
    b"*2147483648\r\n",
    b"*1\r\nPING\r\n",
    b"*1\r\n$-1\r\n",
    b"*1\r\n$x\r\n",
    b"*1\r\n$600000000\r\n",
    b"*-1\r\nPING\r\n",
    b"*0\r\nPING\r\n",
    b"\r\nPING\r\n",
    b"get \"abc\r\n",
    b"get \"a\"b\r\n",
    b"x" * 70000,
    b"PING\r\nQUIT\r\nPING\r\n",
    b"*2\r\n$3\r\nGET\r\n",
]


@pytest.fixture(scope="module")
def redis_server():
    server = rediskit.Redis(aof=None)
    yield (server.address, server.port)
    server.close()


@pytest.fixture(scope="module")
def door(module_stile):
    return respkit.start(module_stile).resp


@pytest.fixture
def pair(redis_server, door):
    clients = [respkit.Client(door), respkit.Client(redis_server)]
    clients[1].call("FLUSHALL")
    _, names = scan_all(clients[0])
    for name in names | {b""}:
        clients[0].call("DEL", name)
    yield clients
    for client in clients:
        client.close()


def scan_all(client, *options):
    """How many calls it took, and the names."""
    cursor, names, calls = b"0", set(), 0
    while True:
        kind, reply = client.call("SCAN", cursor, *options)
        assert kind == "*", reply
        cursor = reply[0][1]
        names |= {name for _, name in reply[1][1]}
        calls += 1
        if cursor == b"0":
            return calls, names


def passes(line, ours, theirs):
    """Between two questions for a time left some of it may have passed."""
    return line.startswith("TTL") and ours[0] == theirs[0] == ":" and int(theirs[1]) > 0 and \
        abs(int(ours[1]) - int(theirs[1])) <= 5


def differences(pair, lines):
    found = []
    for line in lines.strip().split("\n"):
        words = [word.encode().decode("unicode_escape").encode("latin-1")
                 for word in shlex.split(line)]
        ours, theirs = (client.call(*words) for client in pair)
        if ours != theirs and not passes(line, ours, theirs):
            found.append(f"{line}\n  stile {ours}\n  redis {theirs}")
    return "\n".join(found)


def test_commands_get_the_replies_of_redis(pair):
    assert differences(pair, COMMANDS) == ""


def test_commands_get_the_replies_of_redis_in_resp3(pair):
    ours, theirs = (dict(zip(*[iter(client.call("HELLO", 3)[1])] * 2)) for client in pair)
    for reply in (ours, theirs):
        del reply[("$", b"id")]
    assert ours == theirs
    assert differences(pair, RESP3) == ""


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: repr(stream[:20]))
def test_bytes_that_are_no_commands_end_as_with_redis(redis_server, door, stream):
    replies = []
    for address in (door, redis_server):
        with respkit.Client(address) as client:
            client.send(stream)
            client.socket.shutdown(socket.SHUT_WR)
            replies.append(client.rest())
    assert replies[0] == replies[1]


@pytest.mark.parametrize("line", (b"POST / HTTP/1.1", b"GET / HTTP/1.1"))
def test_the_body_of_a_request_of_http_is_no_command(door, line):
    with respkit.Client(door) as client:
        client.send(line + b"\r\nHost: 127.0.0.1\r\n\r\nSET from:http 1\r\n")
        replies = client.rest()
    assert replies[-2:] == [("-", b"ERR this is an HTTP request; this listener speaks the Redis protocol"),
                            ("end", None)], replies
    with respkit.Client(door) as client:
        assert client.call("GET", "from:http") == ("$", None)


def test_scans_match_as_in_redis(pair):
    names = ["a", "b", "ab", "a*b", "key:1", "key:22", "[x]", "xyz", "-", "k\\"]
    for client in pair:
        for name in names:
            client.call("SET", name, "1")
    for pattern in ("*", "a*", "?", "??", "key:?", "key:*2", "[ab]", "[^a]", "[a-b]*", r"\[x\]",
                    r"a\*b", "[]", "[", "*[", "x*z", "x*y", "**", "", "[z-a]", r"[\]]", "k\\\\"):
        ours, theirs = (scan_all(client, "MATCH", pattern)[1] for client in pair)
        assert ours == theirs, pattern
    for options in (("TYPE", "string"), ("TYPE", "list"), ("COUNT", "3"), ("COUNT", "1000")):
        assert scan_all(pair[0], *options)[1] == scan_all(pair[1], *options)[1], options


def test_a_pipeline_of_many_commands_is_answered_in_order(door):
    with respkit.Client(door) as client:
        many = 20000
        client.send(b"".join(respkit.command_bytes("SET", f"many:{i}", i, "NX", "EX", 1000) +
                             respkit.command_bytes("GET", f"many:{i}") for i in range(many // 100)))
        for i in range(many // 100):
            assert client.reply() == ("+", b"OK")
            assert client.reply() == ("$", b"%d" % i)
        client.send(respkit.command_bytes("PING") * many)
        assert all(client.reply() == ("+", b"PONG") for _ in range(many))


def test_large_values_and_keys_up_to_their_limits_are_kept(module_stile, tmp_path):
    gateway = respkit.start(module_stile, "--resp-max-value", "1MiB", folder=str(tmp_path / "data"))
    with respkit.Client(gateway.resp) as client:
        value, key = b"v" * (1 << 20), b"k" * 4096
        assert client.call("SET", key, value) == ("+", b"OK")
        assert client.call("GET", key) == ("$", value)
        assert client.call("SET", "k", value + b"v")[0] == "-"
        assert client.call("SET", key + b"k", "v")[0] == "-"
        assert client.call("MGET", *[key] * 30) == ("*", [("$", value)] * 30)
        assert client.call("PING") == ("+", b"PONG")


def test_clients_that_do_not_read_cannot_take_all_the_memory(module_stile, tmp_path):
    """Eight replies of 64 MB wait; what has a large reply is refused, claims go on."""
    gateway = respkit.start(module_stile, folder=str(tmp_path / "data"))
    with respkit.Client(gateway.resp) as client:
        assert client.call("SET", "large", b"v" * 65536) == ("+", b"OK")
        many = [respkit.Client(gateway.resp) for _ in range(8)]
        for other in many:
            other.send(respkit.command_bytes("MGET", *["large"] * 1000))
        eventually(lambda: client.call("GET", "large")[0] == "-", "it is refused")
        assert client.call("GET", "large")[1].startswith(b"OOM ")
        assert client.call("SET", "claim", "1", "NX", "EX", 100) == ("+", b"OK")
        assert client.call("TTL", "claim")[0] == ":"
        for other in many:
            other.close()
        eventually(lambda: client.call("GET", "large") == ("$", b"v" * 65536), "it is done again")
