"""docs/claims.openapi.yaml is what the claims API does: every method, status and body."""

import itertools
import json

import pytest
import yaml

from gatekit import fresh, write
from harness import event_bytes
from test_openapi import METHODS, check_body, operations

PATH = "/v1/claims"
SECRET = "0123456789abcdef"


@pytest.fixture(scope="module")
def document(root):
    return yaml.safe_load((root / "docs" / "claims.openapi.yaml").read_text(encoding="utf-8"))


class Scene:
    def __init__(self, module_stile, scratch):
        config = write(scratch, "claims.yaml",
                       f"claims: {{ max_outcome: 1KiB, auth: {{ kind: bearer, secret: {SECRET} }} }}\n")
        self.gateway = module_stile("--config", config)

    def ask(self, method, path, body=None, known=True):
        headers = [("Authorization", f"Bearer {SECRET}")] if known else []
        with self.gateway.connect() as connection:
            return connection.request(method, path, None if body is None else event_bytes(body),
                                      headers)

    def claim(self, key, **more):
        return self.ask("POST", PATH, {"key": key, **more})

    def token(self):
        return f"{PATH}/{self.claim(fresh()).json()['token']}"

    def settled(self):
        path = self.token()
        assert self.ask("PUT", path, {"outcome": 1}).status == 200
        return path

    def post(self, status):
        key = fresh()
        if status == 400:
            return self.ask("POST", PATH, {})
        if status == 413:
            return self.ask("POST", PATH, [{"key": "x"}] * 1001)
        if status == 201:
            return self.claim(key)
        token = self.claim(key, payload=1).json()["token"]
        if status == 200:
            self.ask("PUT", f"{PATH}/{token}", {"outcome": {"a": 1}})
        return self.claim(key, payload=2 if status == 422 else 1)

    def get(self, status):
        return self.ask("GET", PATH + ("" if status == 400 else "?key=" + fresh()))

    def at_token(self, method, status):
        body = {200: {"outcome": 1}, 400: 7, 413: {"outcome": "x" * 2000}}.get(status, {"outcome": 2})
        if method == "PATCH" and status != 400:
            body = {"lease": "1m"}
        if status == 404:
            return self.ask(method, f"{PATH}/none", body)
        path = self.settled() if status == 409 else self.token()
        return self.ask(method, path, None if method == "DELETE" else body)

    def answer(self, method, path, status):
        if status == 401:
            return self.ask(method, path, {}, known=False)
        if path == PATH:
            return self.post(status) if method == "POST" else self.get(status)
        return self.at_token(method, status)


@pytest.fixture(scope="module")
def scene(module_stile, module_scratch):
    return Scene(module_stile, module_scratch)


def test_every_status_of_every_operation_comes_with_its_body(document, scene):
    for method, path, operation in operations(document):
        for status, response in operation["responses"].items():
            answer = scene.answer(method, path, int(status))
            assert answer.status == int(status), (method, path, status, answer)
            check_body(document, response, answer)


def test_every_other_method_is_405(document, scene):
    documented = {(method, path) for method, path, _ in operations(document)}
    for path, method in itertools.product(document["paths"], METHODS):
        if (method, path) in documented:
            continue
        answer = scene.ask(method, path, {})
        assert answer.status == 405, (method, path, answer)
        allowed = {name for name, at in documented if at == path}
        assert set(answer.header("allow").split(", ")) == allowed, answer


def test_lookup_of_a_hit_is_as_documented_too(document, scene):
    key = fresh()
    token = scene.claim(key).json()["token"]
    scene.ask("PUT", f"{PATH}/{token}", {"outcome": {"deep": [1]}})
    answer = scene.ask("GET", f"{PATH}?key={key}")
    check_body(document, document["paths"][PATH]["get"]["responses"]["200"], answer)
    assert json.loads(answer.json()["outcome"]) == {"deep": [1]}
