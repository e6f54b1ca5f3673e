"""What is not an event is refused, with a text that says what was expected."""


import pytest

from harness import Connection, eventually, request_bytes, take_problem, take_verdict

EVENT = b'{"id":"x"}'


@pytest.fixture(scope="module", params=["auto", "off"])
def gateway(request, binary, tmp_path_factory):
    import shutil

    import harness
    folder = tmp_path_factory.mktemp("requests")
    made = harness.Stile(binary, str(folder / "data"), "--io-uring", request.param,
                         scratch=str(folder))
    yield made
    assert made.running(), "a bad request must not end the process"
    made.kill()
    shutil.rmtree(folder)


@pytest.mark.parametrize("body, expected", [
    (b"", "JSON"),
    (b"   ", "JSON"),
    (b"hello", "JSON"),
    (b'{"id":"x"', None),
    (b'{"id":"x"}}', None),
    (b'{"id":"x"} {"id":"y"}', None),
    (b"{'id':'x'}", None),
    (b'{"id":"x",}', None),
    (b'{"id":"x","n":01}', None),
    (b'{"id":"x","n":NaN}', None),
    (b'\xef\xbb\xbf{"id":"x"}', None),
    (b'{"id":"\xff"}', None),
    (b'{"id":"\\ud800"}', None),
    (b'{"id":"a\nb"}', None),
    (b'{"id":"x","id":"y"}', "once"),
    (b'{"id":"x","\\u0069d":"y"}', "once"),
    (b'"x"', "object"),
    (b"17", "object"),
    (b"null", "object"),
    (b"{}", "id"),
    (b'{"ID":"x"}', "id"),
    (b'{"event":{"id":"x"}}', "id"),
    (b'{"id":""}', "id"),
    (b'{"id":null}', "id"),
    (b'{"id":"' + b"x" * 1025 + b'"}', "1024"),
    (b'{"id":"x","deep":' + b"[" * 64 + b"]" * 64 + b"}", None),
    (b'{"id":"x","deep":' + b"[" * 100000, None),
], ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else "")
def test_body_that_is_no_event_gets_400_and_the_connection_goes_on(gateway, body, expected):
    with gateway.connect() as connection:
        detail = take_problem(connection.post(body), 400)
        assert expected is None or expected in detail, detail
        take_problem(connection.post(b"{"), 400)


def test_longest_id_is_taken_by_value(gateway):
    longest = "x" * 1024
    ticket = take_verdict(gateway.post({"id": longest}), "new")
    spelled = b'{"id":"' + b"\\u0078" * 1024 + b'"}'
    assert take_verdict(gateway.post(spelled), "known") == ticket


def test_body_of_one_mebibyte_is_taken_and_one_byte_more_is_413(gateway):
    frame = len(b'{"id":"big","pad":""}')
    largest = b'{"id":"big","pad":"' + b"x" * ((1 << 20) - frame) + b'"}'
    assert len(largest) == 1 << 20
    ticket = take_verdict(gateway.post(largest), "new")
    assert take_verdict(gateway.post({"id": "big"}), "conflict") == ticket
    take_problem(gateway.post(largest + b" "), 413)
    eventually(lambda: any(event["id"] == "big" for event in gateway.events()), "it is printed")


def test_chunked_body_counts_towards_the_same_limit(gateway):
    def chunked(body, size):
        parts = [body[i:i + size] for i in range(0, len(body), size)]
        return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"

    headers = [("Transfer-Encoding", "chunked")]
    ticket = take_verdict(gateway.post(chunked(b'{"id":"chunked"}', 3), headers), "new")
    assert take_verdict(gateway.post({"id": "chunked"}), "duplicate") == ticket
    with gateway.connect() as connection:
        connection.send(request_bytes("POST", "/in/events", b"", headers))
        try:
            connection.send(chunked(b" " * ((1 << 20) + 4096), 1 << 16))
        except ConnectionError:
            pass  # it need not take what it has refused
        take_problem(connection.answer(), 413)
        assert connection.ended()


def test_methods_are_405_and_say_which_are_allowed(gateway):
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        answer = gateway.request(method, "/in/events", b"" if method != "GET" else None)
        take_problem(answer, 405)
        assert answer.header("allow") == "POST"
    for page in ("/metrics", "/healthz", "/readyz"):
        answer = gateway.request("POST", page, EVENT)
        take_problem(answer, 405)
        assert answer.header("allow") == "GET, HEAD"


def test_unknown_path_is_404_and_names_the_right_one(gateway):
    for path in ("/", "/in", "/in/events/", "/in/Events", "/in/%65vents", "/metrics/x"):
        assert "/in/events" in take_problem(gateway.request("POST", path, EVENT), 404), path
    take_problem(gateway.get("/nothing"), 404)


def test_query_does_not_change_the_path(gateway):
    ticket = take_verdict(gateway.request("POST", "/in/events?key=1", b'{"id":"query"}'), "new")
    assert take_verdict(gateway.post({"id": "query"}), "duplicate") == ticket


def test_encoded_body_is_415(gateway):
    for coding in ("gzip", "br", "identity, gzip"):
        take_problem(gateway.post(EVENT, [("Content-Encoding", coding)]), 415)
    answer = gateway.post(b'{"id":"identity"}', [("Content-Encoding", "identity")])
    take_verdict(answer, "new")


@pytest.mark.parametrize("head, status", [
    (b"POST /in/events HTTP/1.1\r\nContent-Length: 10\r\n\r\n", 400),  # no Host
    (b"POST /in/events HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
     b"Content-Length: 10\r\n\r\n", 400),
    (b"POST /in/events HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
     b"Transfer-Encoding: chunked\r\n\r\n", 400),
    (b"POST /in/events HTTP/1.1\r\nHost: x\r\nContent-Length: +10\r\n\r\n", 400),
    (b"POST /in/events HTTP/1.1\r\nHost: x\r\nContent-Length : 10\r\n\r\n", 400),
    (b"POST /in/events HTTP/1.1\nHost: x\nContent-Length: 10\n\n", 400),
    (b"POST  /in/events HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", 400),
    (b"POST /in/events HTTP/1.1\r\nHost: x\r\n folded\r\nContent-Length: 10\r\n\r\n", 400),
    (b"POST /in/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", None),
    (b"POST /in/events HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 101 + b"\r\n", 431),
    (b"POST /in/events HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20000 + b"\r\n\r\n", 431),
    (b"POST /in/events HTTP/1.1\r\nHost: x\r\nExpect: magic\r\nContent-Length: 10\r\n\r\n", 417),
], ids=lambda value: repr(value)[2:60] if isinstance(value, bytes) else "")
def test_doubtful_request_is_refused_and_the_connection_closed(gateway, head, status):
    with gateway.connect() as connection:
        connection.send(head + EVENT + request_bytes("GET", "/healthz"))
        answer = connection.answer()
        assert 400 <= answer.status <= 501 and answer.status != 404, answer
        assert status is None or answer.status == status, answer
        take_problem(answer, answer.status)
        assert answer.header("connection") == "close", answer
        assert connection.ended(), "what follows a doubtful request must not be read as one"


def test_expect_100_continue_is_answered_before_the_body(gateway):
    with gateway.connect() as connection:
        body = b'{"id":"continue"}'
        connection.send(request_bytes("POST", "/in/events", None, [
            ("Content-Length", len(body)), ("Expect", "100-continue")]))
        assert connection.answer().status == 100
        connection.send(body)
        take_verdict(connection.answer(), "new")


@pytest.mark.parametrize("method, path, status", [
    ("POST", "/nothing", 404), ("PUT", "/in/events", 405), ("POST", "/metrics", 405)])
def test_expect_100_continue_is_not_asked_for_a_body_that_will_be_refused(
        gateway, method, path, status):
    with gateway.connect() as connection:
        connection.send(request_bytes(method, path, None, [
            ("Content-Length", 1000), ("Expect", "100-continue")]))
        answer = connection.answer()
        take_problem(answer, status)
        assert answer.header("connection") == "close"
        assert connection.ended()


def test_target_in_absolute_form_is_the_same_path(gateway):
    with gateway.connect() as connection:
        connection.send(b"POST http://x/in/events HTTP/1.1\r\nHost: x\r\n"
                        b'Content-Length: 17\r\n\r\n{"id":"absolute"}')
        take_verdict(connection.answer(), "new")
        take_verdict(connection.post({"id": "absolute"}), "duplicate")


def test_connection_close_and_http_1_0_are_answered_and_closed(gateway):
    with gateway.connect() as connection:
        answer = connection.post({"id": "close"}, [("Connection", "close")])
        take_verdict(answer, "new")
        assert answer.header("connection") == "close"
        assert connection.ended()
    with Connection(gateway.address) as connection:
        connection.send(b"POST /in/events HTTP/1.0\r\nContent-Length: 14\r\n\r\n" +
                        b'{"id":"close"}')
        take_verdict(connection.answer(), "duplicate")
        assert connection.ended()


def test_peer_that_half_closed_still_gets_its_answer(gateway):
    import socket
    with gateway.connect() as connection:
        connection.send(request_bytes("POST", "/in/events", b'{"id":"half"}'))
        connection.socket.shutdown(socket.SHUT_WR)
        take_verdict(connection.answer(), "new")
        assert connection.ended()


def test_head_has_the_head_of_get_and_no_body(gateway):
    with gateway.connect() as connection:
        get = connection.request("GET", "/healthz")
        head = connection.request("HEAD", "/healthz")
        assert head.status == 200 and head.header("content-length") == get.header("content-length")
        assert connection.request("GET", "/healthz").body == get.body
