"""stile explain on the real binary."""

import json
import os
import subprocess

import pytest

GENESYS = {
    "id": "58fb5dac-f077-4eec-a25f-c638dbdd4368",
    "detail-type": "v2.users.{id}.presence",
    "source": "aws.partner/genesys.com/cloud/32aa07aa/bus",
    "detail": {"topicName": "v2.users.7.presence",
               "eventBody": {"modifiedDate": "2026-01-02T03:04:05Z",
                             "presenceDefinition": {"id": "available"}}},
}


@pytest.fixture(name="explain")
def fixture_explain(binary):
    def call(*options, stdin=b""):
        done = subprocess.run([binary, "explain", *options], input=stdin, capture_output=True,
                              check=False, timeout=60)
        return done.returncode, done.stdout.decode(), done.stderr.decode()
    return call


def test_an_event_of_a_file_is_told_in_words_and_as_json(explain, scratch):
    path = os.path.join(scratch, "event.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(GENESYS, file, indent=2)
    code, out, err = explain("--preset", "genesys", path)
    assert code == 0 and err == ""
    assert out.startswith("this is     genesys presence\n")
    assert "claim 2     genesys.presence: once within 4d\n" in out
    code, out, _ = explain("--preset", "genesys", "--json", path)
    told = json.loads(out)
    assert code == 0 and told["case"] == "genesys presence" and len(told["claims"]) == 2


def test_the_order_of_members_changes_no_digest(explain):
    turned = dict(reversed(GENESYS.items()))
    both = [json.loads(explain("--json", stdin=json.dumps(one).encode())[1])
            for one in (GENESYS, turned)]
    assert both[0]["claims"][1]["digest"] == both[1]["claims"][1]["digest"]


def test_several_events_are_told_one_by_one(explain):
    for text in (b'{"id":1}\n{"id":2}\n', b'[{"id":1},{"id":2}]'):
        code, out, _ = explain("--json", stdin=text)
        assert code == 0
        assert [json.loads(line)["fields"]["id"][0]["value"] for line in out.splitlines()] == \
            ["1", "2"]


def test_headers_path_and_query_count(explain, scratch):
    code, out, _ = explain("--preset", "github", "--header", "X-GitHub-Delivery: d-1",
                           "--header", "x-github-event:push", stdin=b"{}")
    assert code == 0 and "d-1" in out and out.startswith("this is     github\n")
    path = os.path.join(scratch, "stile.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write('sources: { a: { claims: [ { once: ["path:2", "query:page"] } ] } }\n')
    code, out, err = explain("--config", path, "--path", "/in/seven", "--query", "page=3",
                             "--json", stdin=b'{"x":1}')
    assert code == 0, err
    parts = json.loads(out)["claims"][0]["parts"]
    assert [part["value"] for part in parts] == ["seven", "3"]


def test_what_is_no_event_is_told_as_refused_with_exit_code_0(explain):
    code, out, _ = explain("--preset", "stripe", stdin=b'{"object":"charge"}')
    assert code == 0 and "refused" in out and "object is not event but charge" in out
    code, out, _ = explain("--preset", "stripe", stdin=b'{"object":\n  oops')
    assert code == 0 and "refused     expected a JSON object; at byte" in out


def test_wrong_usage_and_missing_files(explain, scratch):
    assert explain("--preset", "none")[0] == 2
    assert explain("--header", "no colon", stdin=b"{}")[0] == 2
    missing = os.path.join(scratch, "none")
    code, _, err = explain(missing)
    assert code == 1 and missing in err
