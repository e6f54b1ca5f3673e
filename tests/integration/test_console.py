"""Health, readiness and metrics tell what really happened."""

import re

from harness import eventually, take_problem, take_verdict


def test_health_and_readiness_pages(stile):
    gateway = stile()
    for page, text in (("/healthz", b"alive\n"), ("/readyz", b"ready\n")):
        answer = gateway.get(page)
        assert answer.status == 200 and answer.body == text
        assert answer.header("content-type").startswith("text/plain")


def test_metrics_are_strict_and_agree_with_what_was_sent(stile):
    gateway = stile()
    with gateway.connect() as connection:
        for i in range(50):
            take_verdict(connection.post({"id": f"m-{i}"}), "new")
        for i in range(30):
            take_verdict(connection.post({"id": f"m-{i}"}), "duplicate")
        for _ in range(7):
            take_problem(connection.post(b"{}"), 400)
    with gateway.connect() as connection:
        connection.send(b"GET / HTTP/1.1\r\n\r\n")
        take_problem(connection.answer(), 400)
    gateway.wait_settled()
    metrics = gateway.metrics()

    def value(name, **labels):
        return metrics[name].value(**labels)

    assert value("stile_verdicts_total", verdict="new", source="events") == 50
    assert value("stile_verdicts_total", verdict="duplicate", source="events") == 30
    assert value("stile_refused_total", source="events") == 7
    assert value("stile_overload_total", source="events") == 0
    assert value("stile_live_claims") == 50
    assert value("stile_live_entities") == 0
    assert value("stile_open_tickets") == 0
    assert value("stile_due_tickets") == 0
    assert value("stile_deliveries_total", outcome="done") == 50
    assert value("stile_store_writable") == 1
    assert value("stile_clock_held_seconds") == 0
    assert value("stile_io_errors_total") == 0
    assert value("stile_journal_bytes") > 0
    assert value("stile_journal_segments") >= 1
    assert value("stile_index_bytes") > 0
    assert value("stile_http_bad_requests_total") >= 1
    assert value("stile_http_requests_total") >= 87
    assert value("stile_http_connections") >= 1, "the connection that asks"
    (_, answers), = metrics["stile_answer_seconds"].part("_count")
    assert answers == 80
    commits = value("stile_commits_total")
    assert 50 <= commits, "one connection, one event at a time: a commit each"
    (_, commit_count), = metrics["stile_commit_seconds"].part("_count")
    (_, batch_count), = metrics["stile_commit_batch"].part("_count")
    (_, batch_sum), = metrics["stile_commit_batch"].part("_sum")
    assert commit_count == commits and batch_count == commits
    assert batch_sum == value("stile_commit_operations_total") >= 100, "50 admits, 50 settles"
    assert value("stile_written_bytes_total") >= 4096 * commits


def test_counters_never_go_back_within_a_life(stile):
    gateway = stile()
    before = gateway.metrics()
    take_verdict(gateway.post({"id": "x"}), "new")
    gateway.wait_settled()
    after = gateway.metrics()
    assert before.keys() == after.keys()
    for name, family in before.items():
        if family.type == "counter":
            for (_, labels, old), (_, _, new) in zip(family.samples, after[name].samples):
                assert new >= old, (name, labels)


def test_claims_and_open_tickets_are_counted_again_after_kill(stile, blockage):
    gateway = stile(stdout=blockage.write_fd)
    for i in range(25):
        take_verdict(gateway.post({"id": f"r-{i}"}), "new")
    assert gateway.metrics()["stile_open_tickets"].value() == 25
    gateway.kill()
    gateway = stile()
    eventually(lambda: gateway.metrics()["stile_open_tickets"].value() == 0, "delivery")
    metrics = gateway.metrics()
    assert metrics["stile_live_claims"].value() == 25
    assert metrics["stile_deliveries_total"].value(outcome="done") == 25


def documented(root, name):
    path = root / "docs" / name
    assert path.exists(), f"docs/{name} is missing"
    return path.read_text(encoding="utf-8")


def test_every_metric_is_documented_and_every_documented_metric_exists(stile, root):
    metrics = stile("--resp", "127.0.0.1:0").metrics()
    text = documented(root, "metrics.md")
    written = set(re.findall(r"`(stile_[a-z0-9_]+)", text))
    parts = {name + end: name for name, family in metrics.items() if family.type == "histogram"
             for end in ("_bucket", "_sum", "_count")}
    written = {parts.get(name, name) for name in written}
    assert metrics.keys() - written == set(), "not in docs/metrics.md"
    assert written - metrics.keys() == set(), "in docs/metrics.md, but not in /metrics"


def test_every_option_is_documented_with_its_default(run, root):
    """docs/reference.md has a table row per option: | `--name VALUE` | `default` | …"""
    code, out, _ = run("help", "serve")
    assert code == 0
    options = {}
    for line in out.splitlines():
        match = re.match(r"\s+--([a-z-]+)", line)
        if match:
            default = re.search(r"\(default (.+)\)$", line)
            options[match[1]] = default[1] if default else None
    assert len(options) >= 10, out
    rows = {}
    for line in documented(root, "reference.md").splitlines():
        match = re.match(r"\|\s*`--([a-z-]+)[^`]*`\s*\|([^|]*)\|", line)
        if match:
            default = re.search(r"`([^`]+)`", match[2])
            rows[match[1]] = default[1] if default else None
    assert rows == options
