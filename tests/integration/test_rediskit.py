"""The servers that the tests of shared stores stand on do what those tests believe."""

import pytest
import redis

import rediskit
from harness import eventually

pytestmark = pytest.mark.release  # nothing of stile runs here


@pytest.fixture
def server():
    made = []

    def make(*options, **more):
        made.append(rediskit.Redis(*options, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module")
def cluster():
    made = rediskit.Cluster()
    yield made
    made.close()


def test_server_with_tls_and_password_keeps_what_it_acknowledged_over_a_kill(server):
    one = server(password="secret-word", tls=True)
    assert one.ask("SET", "a", "1") is True
    one.kill()
    one.start()
    assert one.ask("GET", "a") == b"1"
    with pytest.raises(redis.AuthenticationError):
        redis.Redis(host=one.address, port=one.port, ssl=True, ssl_cert_reqs="none").ping()


def test_partition_leaves_both_sides_reachable_and_apart(cluster):
    old = cluster.master_of("k")
    view = next(one for one in cluster.masters() if one is not old)
    with cluster.cut_off(old):
        cluster.wait_promoted(old, view)
        new = cluster.master_of("k", view)
        assert new is not old
        assert new.ask("SET", "k", "far") is True
        assert old.answers()
    cluster.wait_whole()
    assert new.ask("GET", "k") == b"far"


def test_killed_master_is_followed_by_its_replica_and_slots_move(cluster):
    old = cluster.master_of("k")
    view = cluster.kill_master(old)
    cluster.wait_promoted(old, view)
    old.start()
    cluster.wait_whole()
    source, target = cluster.masters()[:2]
    before = slot_count(cluster, target)
    cluster.move_slots(source, target, 50)
    cluster.wait_whole()
    assert slot_count(cluster, target) == before + 50
    replica = cluster.fail_over(target)
    eventually(lambda: replica in cluster.masters(), "the new master has the slots")


def slot_count(cluster, node):
    return sum(int(span[-1]) - int(span[0]) + 1
               for span in cluster.table(node)[node.address]["slots"])
