"""A destination that does as it is told: an HTTP server which keeps what it got and
answers by a rule of the test, and short ways to make a gateway that sends there."""

import collections
import http.server
import json
import socket
import threading

from gatekit import write
from harness import eventually

Request = collections.namedtuple("Request", "method path headers body")

HANG = "hang"  # no answer until release()
CUT = "cut"  # the connection ends without an answer


class Sink:
    """`answer(request)` gives a status, (status, headers), HANG or CUT."""

    def __init__(self, answer=lambda request: 200):
        self.answer = answer
        self.lock = threading.Lock()
        self.requests = []
        self.released = threading.Event()
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

            def handle_one(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                request = Request(self.command, self.path, dict(self.headers), body)
                with sink.lock:
                    sink.requests.append(request)
                sink.reply(self, sink.answer(request))

            do_POST = do_PUT = do_PATCH = do_GET = handle_one

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,),
                                       daemon=True)
        self.thread.start()

    def reply(self, handler, answer):
        if answer == HANG:
            self.released.wait(30)
            answer = CUT
        if answer == CUT:
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        try:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        except OSError:
            handler.close_connection = True  # who asked is gone

    def url(self, path="/"):
        return f"http://127.0.0.1:{self.port}{path}"

    def got(self, path=None):
        with self.lock:
            return [request for request in self.requests if path in (None, request.path)]

    def ids(self, path=None):
        return [json.loads(request.body)["id"] for request in self.got(path)]

    def wait(self, count, path=None):
        eventually(lambda: len(self.got(path)) >= count, f"the sink has {count} requests")
        return self.got(path)

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()


def key(request):
    return request.headers["Idempotency-Key"]


def http_sink(name, url, more=""):
    """A sink of the configuration that may reach this machine."""
    return f"  {name}: {{ http: \"{url}\", allow: 127.0.0.0/8{', ' if more else ''}{more} }}\n"


QUICK = "retry: { first: 1ms, max: 20ms }, breaker: { failures: 0, percent: 0 }"


def configure(folder, sources, sinks, routes=""):
    text = "sources:\n" + sources + "sinks:\n" + sinks
    return write(folder, "stile.yaml", text + ("routes:\n" + routes if routes else ""))


def source(name, more=""):
    return (f"  {name}: {{ claims: [{{ once: [id] }}], id: id, type: type, "
            f"entity: entity{', ' if more else ''}{more} }}\n")
