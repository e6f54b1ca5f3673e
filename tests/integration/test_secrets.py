"""What senders send as a secret does not come out anywhere."""

import pytest

from harness import take_verdict

CANARY = "c4n4ry-7f3d"
HEADERS = [("Authorization", f"Bearer {CANARY}"), ("Cookie", f"session={CANARY}"),
           ("X-Api-Key", CANARY), ("Webhook-Signature", f"v1,{CANARY}"),
           ("Proxy-Authorization", f"Basic {CANARY}")]


@pytest.mark.parametrize("log", ["text", "json"])
def test_canary_in_query_and_headers_is_in_no_output(stile, log):
    gateway = stile("--log", log)
    answers = []
    for path in (f"/in/events?key={CANARY}", f"/metrics?token={CANARY}", f"/none?x={CANARY}"):
        for method, body in (("POST", b'{"id":"a"}'), ("POST", b"nonsense"), ("GET", None)):
            answers.append(gateway.request(method, path, body, HEADERS))
    for head in (f"GET /in/events?{CANARY} HTTP/9.9\r\n\r\n",
                 f"POST /in/events?{CANARY} HTTP/1.1\r\nHost: x\r\nCookie : {CANARY}\r\n\r\n",
                 f"POST /?{CANARY} HTTP/1.1\r\nHost: x\r\nAuthorization: {CANARY}\r\n" +
                 "X: y\r\n" * 200 + "\r\n"):
        with gateway.connect() as connection:
            connection.send(head.encode())
            answers.append(connection.answer())
    with gateway.connect() as connection:
        connection.send(f"POST /in/events?{CANARY} HTTP/1.1\r\nAuthorization: {CANARY}".encode())
    take_verdict(gateway.post({"id": "b"}, HEADERS), "new")
    gateway.wait_settled()
    metrics = gateway.get("/metrics").body.decode()
    assert gateway.stop() == 0
    for answer in answers:
        assert CANARY not in repr((answer.headers, answer.body)), answer
    assert CANARY not in metrics
    assert CANARY not in gateway.log()
    assert CANARY.encode() not in gateway.output()
