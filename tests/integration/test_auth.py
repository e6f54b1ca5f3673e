"""Each source lets in whom it trusts, over HTTP, and nothing secret comes out."""

import base64
import hashlib
import hmac
import os
import socket
import ssl
import subprocess
import time

import pytest

from gatekit import fresh, post, sample, take, write
from harness import Connection, event_bytes, take_problem

CANARY = "c4n4ry-7f3d"
KEY, OTHER = f"{CANARY}-0123456789abcdef", f"{CANARY}-fedcba9876543210"
WHSEC = "whsec_" + base64.b64encode(f"{CANARY}-standard-webhooks".encode()).decode()
WHSEC_OTHER = "whsec_" + base64.b64encode(f"{CANARY}-standard-rotated".encode()).decode()

CONFIG = """\
sources:
  open: {{ preset: auto }}
  header: {{ preset: auto, auth: {{ header: X-Api-Key, secret: ["${{KEY}}", "${{OTHER}}"] }} }}
  basic: {{ preset: auto, auth: {{ kind: basic, user: genesys, secret: "${{KEY}}" }} }}
  bearer: {{ preset: auto, auth: {{ kind: bearer, secret: ["${{OTHER}}", "${{KEY}}"] }} }}
  standard: {{ preset: auto, auth: {{ kind: standard-webhooks,
             secret: ["${{WHSEC_OTHER}}", "${{WHSEC}}", "{public}"] }} }}
  hmac:
    preset: auto
    auth: {{ kind: hmac, header: X-Sign, secret: "${{KEY}}", algorithm: sha512, encoding: base64,
            prefix: "v0=", signed: ["const:v0:", "header:X-Time", "const::", method, path, body],
            timestamp: "header:X-Time", tolerance: 1m }}
  genesys: {{ preset: auto, auth: {{ kind: genesys, secret: "${{KEY}}" }} }}
  github: {{ preset: auto, auth: {{ kind: github, secret: ["${{OTHER}}", "${{KEY}}"] }} }}
  stripe: {{ preset: auto, auth: {{ kind: stripe, secret: "${{KEY}}" }} }}
  shopify: {{ preset: auto, auth: {{ kind: shopify, secret: "${{KEY}}" }} }}
  twilio: {{ preset: twilio, auth: {{ kind: twilio, secret: "${{KEY}}",
           public_url: "https://hooks.example.com/edge" }} }}
  near: {{ preset: auto, auth: {{ networks: [127.0.0.2/32, "2001:db8::/32"] }} }}
  both: {{ preset: auto, auth: {{ kind: bearer, secret: "${{KEY}}", networks: [127.0.0.2] }} }}
"""
SECRETS = {"KEY": KEY, "OTHER": OTHER, "WHSEC": WHSEC, "WHSEC_OTHER": WHSEC_OTHER}


@pytest.fixture(scope="module")
def ed25519(module_scratch):
    """The file of a private key, and its public key as senders give it."""
    path = os.path.join(module_scratch, "ed25519.pem")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], check=True)
    der = subprocess.run(["openssl", "pkey", "-in", path, "-pubout", "-outform", "DER"],
                         check=True, capture_output=True).stdout
    return path, "whpk_" + base64.b64encode(der[-32:]).decode()


@pytest.fixture(scope="module")
def gateway(module_stile, module_scratch, ed25519):
    path = write(module_scratch, "stile.yaml", CONFIG.format(public=ed25519[1]))
    return module_stile("--config", path, env=SECRETS)


def signed(name, message, key=KEY):
    return hmac.new(key.encode(), message, name).digest()


def b64(data):
    return base64.b64encode(data).decode()


def now(offset_s=0):
    return str(int(time.time()) + offset_s)


def standard_headers(body, secret=WHSEC, stamp=None, message_id="msg_1", version="v1"):
    stamp = stamp or now()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{message_id}.{stamp}.".encode() + body, "sha256").digest()
    return [("webhook-id", message_id), ("webhook-timestamp", stamp),
            ("webhook-signature", f"{version},{b64(digest)}")]


def stripe_headers(body, key=KEY, stamp=None):
    stamp = stamp or now()
    digest = signed("sha256", f"{stamp}.".encode() + body, key).hex()
    return [("Stripe-Signature", f"t={stamp},v0=abc,v1={'0' * 64},v1={digest}")]


def hmac_headers(body, key=KEY, stamp=None):
    stamp = stamp or now()
    message = f"v0:{stamp}:POST/in/hmac".encode() + body
    return [("X-Sign", "v0=" + b64(signed("sha512", message, key))), ("X-Time", stamp)]


# How each kind proves who sends; `key` may be a wrong one.
PROOFS = {
    "header": lambda body, key: [("X-Api-Key", key)],
    "basic": lambda body, key: [("Authorization", "Basic " + b64(f"genesys:{key}".encode()))],
    "bearer": lambda body, key: [("Authorization", f"Bearer {key}")],
    "standard": lambda body, key: standard_headers(
        body, WHSEC if key == KEY else "whsec_" + b64(key.encode()), message_id=fresh("msg_")),
    "hmac": hmac_headers,
    "genesys": lambda body, key: [("X-Hub-Signature-256", "sha256=" +
                                   b64(signed("sha256", body, key)))],
    "github": lambda body, key: [("X-Hub-Signature-256", "sha256=" +
                                  signed("sha256", body, key).hex())],
    "stripe": stripe_headers,
    "shopify": lambda body, key: [("X-Shopify-Hmac-Sha256", b64(signed("sha256", body, key)))],
}
WRONG = f"{CANARY}-this-is-not-the-key"


@pytest.mark.parametrize("kind", PROOFS)
def test_right_proof_is_let_in_and_a_wrong_or_missing_or_moved_one_is_not(gateway, kind):
    path, prove = f"/in/{kind}", PROOFS[kind]
    body = event_bytes({"id": fresh()})
    before = sample(gateway, "stile_unauthorized_total", source=kind)
    take_problem(post(gateway, path, body), 401)
    take_problem(post(gateway, path, body, prove(body, WRONG)), 401)
    proof = prove(body, KEY)
    last = {"stripe": "Stripe-Signature", "standard": "webhook-signature",
            "hmac": "X-Sign"}.get(kind, proof[0][0])
    cut = [(name, value[:-2] if name == last else value) for name, value in proof]
    empty = [(name, "" if name == last else value) for name, value in proof]
    twice = proof + [(name, value) for name, value in proof if name == last]
    refused = [cut, empty, twice]
    if kind not in ("header", "basic", "bearer"):  # a signature is of this body only
        take_problem(post(gateway, path, body + b" ", proof), 401)
    for headers in refused:
        take_problem(post(gateway, path, body, headers), 401)
    assert sample(gateway, "stile_unauthorized_total", source=kind) >= before + 5
    take(post(gateway, path, body, proof), "new")  # and nothing of the refused was decided
    take(post(gateway, path, body, prove(body, KEY)),
         "duplicate" if kind != "standard" else "new")


def test_challenge_says_how_to_authenticate_where_there_is_a_scheme(gateway):
    for kind, scheme in (("basic", "Basic"), ("bearer", "Bearer"), ("header", None)):
        answer = post(gateway, f"/in/{kind}", {"id": "x"})
        challenge = answer.header("www-authenticate")
        assert challenge.startswith(scheme) if scheme else challenge is None, answer


def test_basic_wants_the_right_user_and_not_only_the_secret(gateway):
    for user in ("", "Genesys", "genesys2"):
        value = "Basic " + b64(f"{user}:{KEY}".encode())
        take_problem(post(gateway, "/in/basic", {"id": "x"}, [("Authorization", value)]), 401)


def test_all_secrets_of_a_rotation_are_accepted(gateway):
    for key in (KEY, OTHER):
        body = event_bytes({"id": fresh()})
        for kind in ("header", "bearer", "github"):
            take(post(gateway, f"/in/{kind}", body, PROOFS[kind](body, key)), "new")
    for secret in (WHSEC, WHSEC_OTHER):
        body = event_bytes({"id": fresh()})
        headers = standard_headers(body, secret, message_id=fresh("msg_"))
        take(post(gateway, "/in/standard", body, headers), "new")


def test_names_of_svix_are_the_same_event(gateway):
    body, message_id = event_bytes({"id": fresh()}), fresh("msg_")
    headers = standard_headers(body, message_id=message_id)
    svix = [(name.replace("webhook-", "svix-"), value) for name, value in headers]
    take(post(gateway, "/in/standard", body, svix), "new")
    take(post(gateway, "/in/standard", body, headers), "duplicate")
    # An id beside, that nobody signed, makes no other event of it.
    take_problem(post(gateway, "/in/standard", body, svix + [("webhook-id", fresh("msg_"))]), 401)


def test_standard_webhooks_with_ed25519(gateway, ed25519, module_scratch):
    body, stamp, message_id = event_bytes({"id": fresh()}), now(), fresh("msg_")
    message = write(module_scratch, "message", f"{message_id}.{stamp}.{body.decode()}")
    signature = subprocess.run(["openssl", "pkeyutl", "-sign", "-rawin", "-inkey", ed25519[0],
                                "-in", message], check=True, capture_output=True).stdout
    headers = [("webhook-id", message_id), ("webhook-timestamp", stamp)]
    wrong = bytes([signature[0] ^ 1]) + signature[1:]
    for value, status in ((wrong, 401), (signature[:63], 401)):
        answer = post(gateway, "/in/standard", body,
                      headers + [("webhook-signature", f"v1a,{b64(value)}")])
        take_problem(answer, status)
    # A shared secret's signature is no public key's, whatever it says it is.
    take_problem(post(gateway, "/in/standard", body,
                      standard_headers(body, stamp=stamp, version="v1a")), 401)
    take(post(gateway, "/in/standard", body, headers + [
        ("webhook-signature", f"v1,{b64(bytes(32))} v1a,{b64(signature)} v9,x")]), "new")


@pytest.mark.parametrize("offset_s, right", [(-30, True), (-3600, False), (3600, False)])
@pytest.mark.parametrize("kind", ["hmac", "stripe", "standard"])
def test_signed_time_that_is_far_away_is_refused(gateway, kind, offset_s, right):
    body, stamp = event_bytes({"id": fresh()}), now(offset_s)
    headers = standard_headers(body, stamp=stamp, message_id=fresh("msg_")) \
        if kind == "standard" else \
        (hmac_headers if kind == "hmac" else stripe_headers)(body, KEY, stamp)
    answer = post(gateway, f"/in/{kind}", body, headers)
    if right:
        take(answer, "new")
    else:
        assert "time" in take_problem(answer, 401)


def test_standard_webhooks_known_answer(stile, scratch):
    """The example of the specification, as far as the signature: its time is long past."""
    config = write(scratch, "stile.yaml", "sources:\n  hooks: { preset: auto, auth: { kind: "
                   "standard-webhooks, secret: \"${SECRET}\", tolerance: 1d } }\n")
    gateway = stile("--config", config,
                    env={"SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
    headers = [("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"), ("webhook-timestamp", "1614265330"),
               ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")]
    right = post(gateway, "/in/hooks", b'{"test": 2432232314}', headers)
    assert "time stamp" in take_problem(right, 401)
    wrong = post(gateway, "/in/hooks", b'{"test": 2432232315}', headers)
    assert "time stamp" not in take_problem(wrong, 401)


def twilio(gateway, form, key=KEY, url="https://hooks.example.com/edge/in/twilio?a=1", **more):
    fields = sorted(field.split("=", 1) for field in form.split("&"))
    message = url + "".join(name + value for name, value in fields)
    signature = b64(hmac.new(key.encode(), message.encode(), "sha1").digest())
    headers = [("X-Twilio-Signature", more.get("signature", signature)),
               ("Content-Type", "application/x-www-form-urlencoded")]
    return post(gateway, "/in/twilio?a=1", more.get("body", form).encode(), headers)


def test_twilio_signs_the_public_url_and_the_form(gateway):
    form = f"MessageSid={fresh('SM')}&AccountSid=AC1&MessageStatus=sent&Body=hello"
    take_problem(twilio(gateway, form, key=WRONG), 401)
    take_problem(twilio(gateway, form, signature=""), 401)
    take_problem(twilio(gateway, form, body=form + "&Extra=1"), 401)
    take_problem(twilio(gateway, form, url="https://hooks.example.com/in/twilio?a=1"), 401)
    take(twilio(gateway, form), "new")
    take(twilio(gateway, form), "duplicate")
    take(twilio(gateway, form, url="https://hooks.example.com:443/edge/in/twilio?a=1"),
         "duplicate")


def post_from(gateway, source, path, event, headers=()):
    connection = Connection.__new__(Connection)
    connection.socket = socket.create_connection(gateway.address, timeout=60,
                                                 source_address=(source, 0))
    connection.input = b""
    with connection:
        return connection.post(event, headers, path)


def test_address_outside_of_the_allowed_networks_is_403(gateway):
    event = {"id": fresh()}
    answer = post(gateway, "/in/near", event, [("X-Forwarded-For", "127.0.0.2")])
    take_problem(answer, 403)
    assert answer.header("www-authenticate") is None
    take(post_from(gateway, "127.0.0.2", "/in/near", event), "new")
    right = [("Authorization", f"Bearer {KEY}")]
    answer = post(gateway, "/in/both", event, right)
    take_problem(answer, 403)
    assert answer.header("www-authenticate") is None, "no proof would help"
    take_problem(post_from(gateway, "127.0.0.2", "/in/both", event), 401)
    take(post_from(gateway, "127.0.0.2", "/in/both", event, right), "new")


def test_source_without_auth_on_a_public_address_is_warned_about(run, scratch):
    """The address is one of documentation: nothing can listen there."""
    path = write(scratch, "stile.yaml", "sources:\n  open: { preset: auto }\n  closed: { preset: "
                 "auto, auth: { header: X-Api-Key, secret: \"${KEY}\" } }\n")
    code, _, err = run("serve", "--config", path, "--data", os.path.join(scratch, "data"),
                       "--listen", "192.0.2.1:0", env=SECRETS)
    assert code == 1
    warnings = [line for line in err.splitlines() if "level=warn" in line and "auth" in line]
    assert len(warnings) == 1 and "sources.open" in warnings[0], err
    code, _, err = run("serve", "--data", os.path.join(scratch, "data"),
                       "--listen", "192.0.2.1:0")
    assert code == 1 and "level=warn" in err and "auth" in err, err


# ---- client certificates ----

@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A server's certificate, and clients of two authorities: {name: (cert, key)}."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    def make(name, subject, authority=None):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={subject}")
        (folder / "ext").write_text(f"subjectAltName=DNS:{subject}\n" if authority else
                                    "basicConstraints=critical,CA:TRUE\n")
        signer = ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial"] \
            if authority else ["-signkey", f"{name}.key"]
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", "-days", "2",
                "-extfile", "ext", *signer)

    make("ca", "authority")
    make("other-ca", "stranger")
    make("server", "localhost", "ca")
    make("alice", "alice.example.com", "ca")
    make("bob", "bob.example.com", "ca")
    make("mallory", "alice.example.com", "other-ca")
    return folder


def client(certificates, name=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificates / "ca.pem")
    if name:
        context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
    return context


def test_client_certificates(stile, scratch, certificates):
    config = write(scratch, "stile.yaml", f"""\
tls: {{ cert: {certificates}/server.pem, key: {certificates}/server.key,
       client_ca: {certificates}/ca.pem }}
sources:
  any: {{ preset: auto, auth: {{ kind: certificate }} }}
  alice: {{ preset: auto, auth: {{ kind: certificate, names: [ALICE.example.com] }} }}
  open: {{ preset: auto }}
""")
    gateway = stile("--config", config)

    def send(name, path):
        with gateway.connect(context=client(certificates, name)) as connection:
            return connection.post({"id": fresh()}, (), path)
    take(send(None, "/in/open"), "new")
    take_problem(send(None, "/in/any"), 401)
    take_problem(send(None, "/in/alice"), 401)
    take(send("alice", "/in/any"), "new")
    take(send("bob", "/in/any"), "new")
    take(send("alice", "/in/alice"), "new")
    take_problem(send("bob", "/in/alice"), 401)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        send("mallory", "/in/any")
    # A resumed session is of the same peer.
    context = client(certificates, "alice")
    with gateway.connect(context=context) as connection:
        take(connection.post({"id": fresh()}, (), "/in/alice"), "new")
        session = connection.socket.session
    with gateway.connect(context=context, session=session) as connection:
        assert connection.socket.session_reused
        take(connection.post({"id": fresh()}, (), "/in/alice"), "new")


# ---- nothing secret comes out ----

def test_canary_of_secrets_and_signatures_is_in_no_output(stile, scratch, run, ed25519):
    config = write(scratch, "stile.yaml", CONFIG.format(public=ed25519[1]))
    gateway = stile("--config", config, "--log", "json", env=SECRETS)
    answers, spoken = [], {CANARY}
    for kind, prove in PROOFS.items():
        for key in (KEY, WRONG):
            body = event_bytes({"id": fresh()})
            proof = prove(body, key)
            spoken |= {value for _, value in proof if len(value) > 15}
            for headers in (proof, proof[:1], proof + proof):
                answers.append(post(gateway, f"/in/{kind}?key={KEY}", body, headers))
    spoken |= {b64(f"genesys:{KEY}".encode()), WHSEC[6:], WHSEC_OTHER[6:],
               hashlib.sha256(KEY.encode()).hexdigest()}
    spoken = {text for text in spoken if not text.startswith("msg_")}
    pages = [gateway.get(page) for page in ("/metrics", "/v1/advise", "/v1/why?any=x")]
    code, out, err = run("check", config, env=SECRETS)
    assert code == 0
    gateway.wait_settled()
    assert gateway.stop() == 0
    everything = repr([(a.headers, a.body) for a in answers + pages]) + out + err + gateway.log() \
        + gateway.output().decode()
    assert "request rejected" in gateway.log()
    for text in spoken:
        assert text not in everything, f"{text} came out"


def test_lines_about_one_source_do_not_hide_those_about_another(stile, scratch):
    text = "sources:\n"
    for name in ("loud", "quiet"):
        text += f"  {name}: {{ preset: auto, auth: {{ kind: bearer, secret: c4n4ry-7f3d-0123 }} }}\n"
    path = os.path.join(scratch, "two.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    gateway = stile("--config", path)
    for _ in range(60):
        assert gateway.request("POST", "/in/loud", b"{}").status == 401
    assert gateway.request("POST", "/in/quiet", b"{}").status == 401
    assert "source=quiet" in gateway.log()
    assert gateway.log().count("source=loud") < 60
