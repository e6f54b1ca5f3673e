"""docs/openapi.yaml is what the admin listener does: every path, method, status and body."""

import itertools
import re

import pytest
import yaml

from gatekit import fresh, post, write
from harness import eventually, take_problem
from sinkkit import QUICK, http_sink, source

TOKEN = "0123456789abcdef"
DEAD = QUICK.replace("max: 20ms", "max: 20ms, attempts: 2")
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")


@pytest.fixture(scope="module")
def document(root):
    return yaml.safe_load((root / "docs" / "openapi.yaml").read_text(encoding="utf-8"))


def resolve(document, node):
    while isinstance(node, dict) and "$ref" in node:
        at = document
        for name in node["$ref"].removeprefix("#/").split("/"):
            at = at[name]
        node = at
    return node


TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list,
         "null": type(None)}


def problems(document, schema, value, where="body"):
    """Why the value is not of the schema: as much of JSON Schema as the document uses."""
    schema = resolve(document, schema)
    known = {"type", "enum", "required", "properties", "additionalProperties", "items", "format",
             "description"}
    assert not set(schema) - known, (where, set(schema) - known)
    types = schema.get("type")
    if types:
        types = types if isinstance(types, list) else [types]
        right = any(isinstance(value, TYPES[t]) and not (t == "integer" and value is True or
                                                         t == "integer" and value is False)
                    for t in types)
        if not right:
            yield f"{where} is {value!r}, not {types}"
            return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is {value!r}, not one of {schema['enum']}"
    if schema.get("format") == "date-time" and \
            not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value):
        yield f"{where} is {value!r}, no time"
    if isinstance(value, dict):
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{where} has no {name}"
        for name, member in value.items():
            if name in schema.get("properties", {}):
                yield from problems(document, schema["properties"][name], member,
                                    f"{where}.{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{where} has {name}, which is not documented"
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            yield from problems(document, schema["items"], item, f"{where}[{i}]")


def check_body(document, response, answer):
    response = resolve(document, response)
    (media, content), = response["content"].items()
    assert answer.header("content-type").split(";")[0] == media, answer
    if not media.startswith("text/"):
        found = list(problems(document, content["schema"], answer.json()))
        assert not found, (found, answer)


class Scene:
    """A gateway with a dead sink, and what it takes to get each answer."""

    def __init__(self, module_stile, scratch, sink):
        self.sink = sink(lambda request: 500)
        text = "admin: { token: '${TOKEN}' }\nsources:\n" + source("a") + "sinks:\n" + \
            http_sink("crm", self.sink.url("/"), DEAD)
        config = write(scratch, "openapi.yaml", text)
        self.gateway = module_stile("--config", config, env={"TOKEN": TOKEN})
        self.headers = [("Authorization", f"Bearer {TOKEN}")]

    def ask(self, method, path, headers=None):
        headers = self.headers if headers is None else headers
        if path == "/v1/stream" and headers == self.headers and method == "GET":
            method = "HEAD"  # the answer has no end
        return self.gateway.ask(method, path, headers)

    def dead(self):
        ticket = post(self.gateway, "/in/a", {"id": fresh(), "type": "t", "entity": "e",
                                              "time": "2026-01-01T00:00:00Z"}).json()["ticket"]
        eventually(lambda: "dead" in self.ask("GET", f"/v1/tickets/{ticket}").body.decode(),
                   "a dead letter")
        return ticket

    def job(self):
        job = str(self.ask("POST", "/v1/drop?id=none").json()["job"])
        eventually(lambda: self.ask("GET", f"/v1/jobs/{job}").json()["state"] == "done",
                   "the job ends")
        return job

    def part(self, name, status):
        """What stands in braces, so that the answer is of that status."""
        if name == "ticket":
            return "zzzzzzzzzzz" if status in (400, 404, 409) else self.dead()
        if name == "sink":
            return "none" if status == 404 else "crm"
        assert name == "job"
        return "99999" if status == 404 else self.job()

    def claim(self):
        """A ticket that is open, and its caller's."""
        with self.gateway.connect() as connection:
            body = b'{"key":"%s"}' % fresh().encode()
            return connection.request("POST", "/v1/claims", body).json()["ticket"]

    def path(self, path, status):
        if path.endswith("/replay") and status == 409:
            path = path.replace("{ticket}", self.claim())
        done = re.sub(r"\{(\w+)\}", lambda match: self.part(match[1], status), path)
        queries = {"/v1/why": {200: "?any=x", 400: "?limit=x"}, "/v1/advise": {400: "?format=x"},
                   "/v1/tickets": {400: "?state=x"},
                   "/v1/replay": {202: "?state=dead", 400: "?state=held"},
                   "/v1/release": {202: "?state=dead"}, "/v1/drop": {202: "?id=none"}}
        return done + queries.get(path, {}).get(status, "?x=1" if status == 400 else "")


@pytest.fixture(scope="module")
def scene(module_stile, module_scratch):
    import sinkkit
    made = []

    def make(*arguments):
        made.append(sinkkit.Sink(*arguments))
        return made[-1]

    yield Scene(module_stile, module_scratch, make)
    for it in made:
        it.close()


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                yield method.upper(), path, operation


def test_every_route_is_documented_and_every_documented_route_is_there(document, scene):
    answer = scene.ask("GET", "/v1").json()
    routes = {(route["method"], route["path"]) for route in answer["routes"]}
    documented = {(method, path) for method, path, _ in operations(document)}
    pages = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics")}
    assert routes | pages == documented


def test_every_status_of_every_operation_comes_with_its_body(document, scene):
    for method, path, operation in operations(document):
        for status, response in operation["responses"].items():
            if status == "default":
                continue
            headers = {"401": [], "403": [*scene.headers, ("Origin", "null")]}.get(status)
            answer = scene.ask(method, scene.path(path, int(status)), headers)
            assert answer.status == int(status), (method, path, status, answer)
            check_body(document, response, answer)


def test_every_other_method_is_405_and_names_the_right_one(document, scene):
    documented = {(method, path) for method, path, _ in operations(document)}
    for path, method in itertools.product(document["paths"], METHODS):
        if (method, path) in documented:
            continue
        answer = scene.ask(method, scene.path(path, 404))
        assert answer.status == 405, (method, path, answer)
        allowed = {"GET, HEAD" if ("GET", path) in documented else "POST"}
        assert answer.header("allow") in allowed, (method, path, answer)


def test_parameters_of_paths_are_declared(document):
    for path, item in document["paths"].items():
        declared = {resolve(document, p)["name"] for p in item.get("parameters", ())}
        assert declared == set(re.findall(r"\{(\w+)\}", path)), path


def query_parameters(document, operation):
    return [resolve(document, parameter)["name"] for parameter in operation.get("parameters", ())]


def test_documented_query_parameters_are_understood(document, scene):
    """Each has a value that is refused, unless any text is right."""
    refused = {"state": "x", "since": "x", "until": "x", "limit": "x", "cursor": "x", "rate": "x",
               "dry_run": "x", "payload": "x", "nonce": "x" * 65, "format": "x", "to": "x",
               "held": "x", "before": "x"}
    texts = {"source", "sink", "type", "entity", "id", "any", "ticket", "key"}
    for method, path, operation in operations(document):
        for name in query_parameters(document, operation):
            assert name in refused or name in texts, name
            at = re.sub(r"\{ticket\}", "zzzzzzzzzzz", path)
            answer = scene.ask(method, f"{at}?{name}={refused.get(name, '')}")
            problem = take_problem(answer, 400)
            assert name in problem, (method, path, name, problem)


def test_any_other_parameter_is_refused_and_those_that_there_are_are_told(document, scene):
    for method, path, operation in operations(document):
        if not path.startswith("/v1"):
            continue
        known = query_parameters(document, operation)
        at = re.sub(r"\{\w+\}", "zzzzzzzzzzz", path)
        for name in ("dry-run", "State", "x", ""):
            problem = take_problem(scene.ask(method, f"{at}?&{name}=1"), 400)
            told = problem.removeprefix(f"unknown parameter {name}; there are ")
            assert set(told.replace(" and ", ", ").split(", ")) == set(known or ["none here"]), \
                (method, path, problem)
        for name in known:
            problem = take_problem(scene.ask(method, f"{at}?{name}=1&{name}=1"), 400)
            assert problem == f"{name} came 2 times, expected once", (method, path)
