"""TLS from outside: versions, ALPN, resumption, a connection for each event."""

import json
import os
import ssl
import subprocess

import pytest

from harness import Connection, eventually, take_verdict


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    return cert, key


@pytest.fixture
def gateway(stile, certificate):
    cert, key = certificate
    made = stile("--tls-cert", cert, "--tls-key", key)
    assert made.scheme == "https"
    return made


def client(certificate, low=None, high=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificate[0])
    if low:
        context.minimum_version = low
    if high:
        context.maximum_version = high
    return context


def metrics(gateway, context):
    import prometheus
    with gateway.connect(context=context) as connection:
        return prometheus.parse(connection.request("GET", "/metrics").body.decode())


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3],
                         ids=["1.2", "1.3"])
def test_event_over_tls_is_decided_and_a_duplicate_on_the_next_connection(
        gateway, certificate, version):
    context = client(certificate, version, version)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with gateway.connect(context=context) as connection:
        assert connection.socket.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2",
                                               ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]
        assert connection.socket.selected_alpn_protocol() == "http/1.1"
        ticket = take_verdict(connection.post({"id": "tls", "pad": "z" * 100000}), "new")
        take_verdict(connection.post({"id": "tls-2"}), "new")
    with gateway.connect(context=context) as connection:
        assert take_verdict(connection.post({"id": "tls"}), "conflict") == ticket
    assert [event["id"] for event in gateway.wait_events(2)] == ["tls", "tls-2"]


def test_client_without_alpn_is_served(gateway, certificate):
    with gateway.connect(context=client(certificate)) as connection:
        assert connection.socket.selected_alpn_protocol() is None
        take_verdict(connection.post({"id": "plain"}), "new")


def test_client_that_only_speaks_another_protocol_is_refused(gateway, certificate):
    context = client(certificate)
    context.set_alpn_protocols(["h2"])
    with pytest.raises((ssl.SSLError, ConnectionError)):
        with gateway.connect(context=context) as connection:
            connection.request("GET", "/healthz")


@pytest.mark.filterwarnings("ignore:.*TLSv1_1 is deprecated")
def test_tls_1_1_is_refused(gateway, certificate):
    context = client(certificate)
    context.set_ciphers("ALL:@SECLEVEL=0")
    try:
        context.minimum_version = ssl.TLSVersion.TLSv1_1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    except ValueError:
        pytest.skip("this Python cannot speak TLS 1.1")
    with pytest.raises((ssl.SSLError, ConnectionError)) as refusal:
        gateway.connect(context=context)
    assert "NO_PROTOCOLS_AVAILABLE" not in str(refusal.value), "refused by the client itself"
    now = metrics(gateway, client(certificate))
    assert now["stile_tls_failed_total"].value() >= 1


def test_plain_text_on_the_tls_port_is_refused_and_harms_nobody(gateway, certificate):
    with Connection(gateway.address) as connection:
        connection.send(b"POST /in/events HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        try:
            data = connection.socket.recv(1000)
        except ConnectionError:
            data = b""
        assert b"HTTP/1.1 2" not in data
    with gateway.connect(context=client(certificate)) as connection:
        take_verdict(connection.post({"id": "after"}), "new")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3],
                         ids=["1.2", "1.3"])
def test_session_is_resumed(gateway, certificate, version):
    context = client(certificate, version, version)
    before = metrics(gateway, context)["stile_tls_resumed_total"].value()
    with gateway.connect(context=context) as connection:
        take_verdict(connection.post({"id": "first"}), "new")
        assert not connection.socket.session_reused
        session = connection.socket.session
    assert session and session.has_ticket
    for i in range(3):
        with gateway.connect(context=context, session=session) as connection:
            assert connection.socket.session_reused, f"connection {i}"
            take_verdict(connection.post({"id": f"resumed-{i}"}), "new")
            session = connection.socket.session or session
    assert metrics(gateway, context)["stile_tls_resumed_total"].value() == before + 3


def test_new_connection_for_each_event(gateway, certificate):
    context = client(certificate)
    for i in range(40):
        with gateway.connect(context=context) as connection:
            answer = connection.post({"id": f"each-{i}"}, [("Connection", "close")])
            take_verdict(answer, "new")
            assert answer.header("connection") == "close"
            assert connection.socket.recv(1) == b"", "closed with a close_notify, not cut"
    now = metrics(gateway, context)
    assert now["stile_tls_handshakes_total"].value() >= 40
    assert now["stile_verdicts_total"].value(verdict="new", source="events") == 40
    assert len(gateway.wait_events(40)) == 40


def test_connection_that_breaks_off_in_the_handshake_is_forgotten(gateway, certificate):
    for i in range(30):
        with Connection(gateway.address) as connection:
            connection.send(b"\x16\x03\x01\x02\x00\x01"[:1 + i % 6])
    context = client(certificate)
    eventually(lambda: metrics(gateway, context)["stile_http_connections"].value() == 1,
               "only the connection that asks is open")


def test_key_that_does_not_match_is_refused(run, data, certificate, scratch):
    other = os.path.join(scratch, "other.pem")
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout",
                    "-out", other], check=True, capture_output=True)
    code, _, err = run("serve", "--data", data, "--listen", "127.0.0.1:0",
                       "--tls-cert", certificate[0], "--tls-key", other)
    assert code == 1 and other in err, err


def test_stop_over_tls_is_clean(gateway, certificate):
    with gateway.connect(context=client(certificate)) as connection:
        take_verdict(connection.post({"id": "x"}), "new")
        assert gateway.stop() == 0


# ---- the commands that ask ----

def sign(folder, name, subject, ca):
    """A certificate for `subject`, signed by `ca`: (certificate, key)."""
    cert, key = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
    request, names = str(folder / f"{name}.csr"), str(folder / f"{name}.ext")
    subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={subject}"],
                   check=True, capture_output=True)
    with open(names, "w", encoding="utf-8") as file:
        file.write(f"subjectAltName=DNS:{subject}\n")
    subprocess.run(["openssl", "x509", "-req", "-in", request, "-CA", ca[0], "-CAkey", ca[1],
                    "-CAcreateserial", "-days", "2", "-extfile", names, "-out", cert],
                   check=True, capture_output=True)
    return cert, key


def open_admin(scratch):
    """An admin listener that others could reach: with TLS, and a token."""
    token, path = scratch / "token", scratch / "admin.yaml"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    path.write_text(f"admin: {{ listen: '0.0.0.0:0', token: 'file:{token}' }}\n")
    return str(path), ("--token-file", str(token))


def test_commands_ask_over_tls_with_the_certificate_of_the_gateway(
        stile, certificate, tmp_path, run):
    config, token = open_admin(tmp_path)
    gateway = stile("--tls-cert", certificate[0], "--tls-key", certificate[1], "--config", config,
                    admin=False)
    port, context = gateway.admin[1], client(certificate)
    with gateway.connect(context=context) as connection:
        ticket = take_verdict(connection.post({"id": "asked"}), "new")
        aside = json.loads(connection.post({"id": "asked", "more": 1}).body)["aside"]
    believed = ("--url", f"https://127.0.0.1:{port}", "--ca", certificate[0], *token)
    code, out, err = run("why", *believed, "asked")
    assert code == 0 and ticket in out and f"stile release {aside}" in out, err
    assert run("advise", *believed)[0] == 0
    code, out, err = run("release", *believed, aside)
    assert code == 0 and "released" in out, err
    # Nobody vouches for it, or somebody else does.
    code, _, err = run("why", "--url", f"https://127.0.0.1:{port}", "asked")
    assert code == 1 and "not trusted" in err, err
    code, _, err = run("why", "--url", f"http://127.0.0.1:{port}", "asked")
    assert code == 1 and "if it listens with TLS, ask https://" in err, err
    code, _, err = run("why", "--url", f"http://127.0.0.1:{port}", "--ca", certificate[0], "a")
    assert code == 1 and "--ca needs" in err
    code, _, err = run("why", "--url", f"https://127.0.0.1:{port}", "--ca", certificate[1], "a")
    assert code == 1 and certificate[1] in err


def test_certificate_of_a_known_ca_counts_under_its_name_alone(
        stile, certificate, tmp_path, run):
    cert, key = sign(tmp_path, "gate", "localhost", certificate)
    other, _ = sign(tmp_path, "other", "localhost", certificate)
    config, token = open_admin(tmp_path)
    gateway = stile("--tls-cert", cert, "--tls-key", key, "--config", config, admin=False)
    port = gateway.admin[1]
    assert run("why", "--url", f"https://localhost:{port}", "--ca", certificate[0], "a",
               *token)[0] == 0
    code, _, err = run("why", "--url", f"https://127.0.0.1:{port}", "--ca", certificate[0], "a")
    assert code == 1 and "not for 127.0.0.1" in err, err
    assert run("why", "--url", f"https://127.0.0.1:{port}", "--ca", cert, "a", *token)[0] == 0
    code, _, err = run("why", "--url", f"https://localhost:{port}", "--ca", other, "a")
    assert code == 1 and "not trusted" in err, err


def test_asking_a_plain_gateway_over_tls_fails_with_a_reason(stile, certificate, run):
    gateway = stile()
    code, _, err = run("why", "--url", f"https://127.0.0.1:{gateway.admin[1]}",
                       "--ca", certificate[0], "a")
    assert code == 1 and "no TLS connection" in err, err
