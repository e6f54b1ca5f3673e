"""The suites of stores (tests/store: verdicts, tickets, random histories against the model)
on real servers. They are programs of their own, built with the unit tests."""

import os
import pathlib
import subprocess

import pytest

import rediskit
import sharedkit
from harness import eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]


def suite_program(binary, name):
    """Of the same build as the gateway, or of the unit tests'."""
    for folder in (pathlib.Path(binary).parent, ROOT / "build-test"):
        found = folder / "tests" / f"store-{name}"
        if found.exists():
            return found
    pytest.skip(f"store-{name} is not built: tools/run-tests unit")
    return None


def run_suite(binary, name, url):
    done = subprocess.run([suite_program(binary, name)], cwd=ROOT, text=True, timeout=500,
                          env=dict(os.environ, STILE_TEST_STORE=url), check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "[  PASSED  ]" in done.stdout


@pytest.fixture(scope="module")
def server():
    made = rediskit.Redis(aof=None)
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster():
    made = rediskit.Cluster()
    yield made
    made.close()


@pytest.fixture(scope="module")
def postgres():
    made = sharedkit.PostgresBackend()
    yield made
    made.close()


SUITES = ["test_verdicts", "test_tickets", "test_ticket_leases", "test_ticket_records",
          "test_ticket_waits", "test_model"]


@pytest.mark.parametrize("suite", SUITES)
def test_redis_answers_as_the_model_does(binary, server, suite):
    run_suite(binary, suite, server.url())


@pytest.mark.parametrize("suite", SUITES[:-1])
def test_redis_with_shards_gives_the_same_verdicts(binary, server, suite):
    run_suite(binary, suite, server.url() + "?shards=8")


@pytest.mark.parametrize("suite", SUITES[:-1])
def test_cluster_gives_the_same_verdicts_and_waits_for_replicas(binary, cluster, suite):
    run_suite(binary, suite, cluster.url() + "/?replicas=1")


def test_cluster_answers_as_the_model_does(binary, cluster):
    run_suite(binary, "test_model", cluster.url() + "/?shards=1")


@pytest.mark.parametrize("suite", SUITES)
def test_postgres_answers_as_the_model_does(binary, postgres, suite):
    run_suite(binary, suite, postgres.url(suite))


def test_redis_over_tls_with_a_password_and_a_replica_that_is_waited_for(binary):
    master = rediskit.Redis(aof=None, tls=True, password="a secret: %")
    try:
        cert, private = master.certificate
        replica = rediskit.Redis("--replicaof", master.address, str(master.port),
                                 "--tls-replication", "yes", "--tls-ca-cert-file", cert,
                                 "--tls-cert-file", cert, "--tls-key-file", private,
                                 aof=None, password="a secret: %")
        try:
            login = f":{'a%20secret%3A%20%25'}@localhost:{master.port}"
            url = f"rediss://{login}?replicas=1&ca={master.certificate[0]}"
            eventually(lambda: replica.info("master_link_status") == "up", "the replica follows")
            run_suite(binary, "test_verdicts", url)
            assert replica.info("role") == "slave"
        finally:
            replica.close()
    finally:
        master.close()
