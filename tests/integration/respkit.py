"""The Redis door from outside: a client that shows replies as they are on the wire.

Client     one connection; call("SET", "k", "v") gives the reply
start()    stile with a door; its address is .resp
"""

import re
import socket

from harness import LIMIT_S


def command_bytes(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


class Client:
    """Replies are (kind, value): ("+", b"OK"), ("$", None), ("*", [...]); at the end of the
    connection ("end", None)."""

    def __init__(self, address, context=None):
        self.socket = socket.create_connection(address, timeout=LIMIT_S)
        if context:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def reply(self):
        try:
            line = self.file.readline()
        except ConnectionError:
            line = b""
        if not line:
            return ("end", None)
        assert line.endswith(b"\r\n"), line
        kind, value = chr(line[0]), line[1:-2]
        if kind in "+-:,#_(":
            return (kind, value)
        count = int(value)
        if kind in "$=":
            return (kind, None if count < 0 else self.file.read(count + 2)[:-2])
        assert kind in "*~%", line
        if count < 0:
            return (kind, None)
        return (kind, [self.reply() for _ in range(count * (2 if kind == "%" else 1))])

    def call(self, *words):
        self.send(command_bytes(*words))
        return self.reply()

    def rest(self):
        """All replies until the connection ends."""
        replies = []
        while not replies or replies[-1] != ("end", None):
            replies.append(self.reply())
        return replies


def address_of(gateway):
    found = re.search(r'\bresp"?[=:]"?(rediss?)://([^\s"]+):(\d+)', gateway.log())
    assert found, gateway.log()
    return (found[2].strip("[]"), int(found[3]))


def start(stile, *options, **more):
    gateway = stile("--resp", "127.0.0.1:0", *options, **more)
    gateway.resp = address_of(gateway)
    return gateway
