"""Fixtures. STILE_BINARY names the binary (default build/stile), STILE_TEST_SEED
repeats a random test, STILE_TEST_SCALE multiplies the counts of the long ones,
STILE_TEST_KEEP=1 leaves the data folders for a look, STILE_TEST_OPTIONS is added
to every `stile serve` (`--io-uring off`)."""

import os
import pathlib
import random
import shutil
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

import harness  # noqa: E402
import sinkkit  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "release: for the binary that users run, not for one with "
                            "sanitizers (memory use, preloaded libraries, long loops)")


ROOT = pathlib.Path(__file__).resolve().parents[2]

# Files whose tests are given to the workers one by one, or server by server, and first:
# what takes long must not begin last. The other files are given out whole.
APART = ("test_kill", "test_store_suites", "test_shared_stores", "test_postgres_sink",
         "test_hostile_sinks", "test_full_disk", "test_delivery_kill", "test_resp_kill",
         "test_spool", "test_postgres_store", "test_stop", "test_journal", "test_ack",
         "test_rediskit", "test_kill_steps", "test_sinks", "test_clock")
SERVERS = ("backend", "server", "cluster", "postgres")


def group_of(item):
    """Tests of one group share a worker; None: by itself."""
    module = item.module.__name__
    if module not in APART:
        return module
    used = [name for name in SERVERS if name in item.fixturenames]
    if not used:
        return None
    kind = item.callspec.params.get("backend", "") if hasattr(item, "callspec") else ""
    return f"{module}-{used[0]}{kind}"


def pytest_collection_modifyitems(items):
    rank = {name: i for i, name in enumerate(APART)}
    items.sort(key=lambda item: rank.get(item.module.__name__, len(rank)))
    for item in items:
        group = group_of(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def binary():
    path = os.path.abspath(os.environ.get("STILE_BINARY", ROOT / "build" / "stile"))
    if not os.access(path, os.X_OK):
        pytest.exit(f"there is no binary at {path}; build it or set STILE_BINARY", returncode=1)
    return path


@pytest.fixture(scope="session")
def scale():
    return max(1, int(float(os.environ.get("STILE_TEST_SCALE") or 1)))


@pytest.fixture
def seed():
    """Printed, and shown by pytest when the test fails."""
    value = int(os.environ.get("STILE_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"STILE_TEST_SEED={value}")
    return value


@pytest.fixture
def scratch(tmp_path):
    """A folder of the test; a segment is large, so nothing is left behind."""
    yield str(tmp_path)
    if os.environ.get("STILE_TEST_KEEP") != "1":
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def data(scratch):
    return os.path.join(scratch, "data")


def starter(binary, scratch, lives):
    def start(*options, folder=os.path.join(scratch, "data"), name=None, **more):
        name = name or f"life-{len(lives)}"
        life = harness.Stile.__new__(harness.Stile)
        lives.append(life)
        life.__init__(binary, folder, *options, scratch=scratch, name=name, **more)
        return life
    return start


def end_all(lives):
    for life in lives:
        process = getattr(life, "process", None)
        if process and process.poll() is None:
            process.kill()
            process.wait()
        if process:  # libfaketime cleans up only after processes that exit
            for name in (f"faketime_shm_{process.pid}", f"sem.faketime_sem_{process.pid}"):
                pathlib.Path("/dev/shm", name).unlink(missing_ok=True)


@pytest.fixture
def stile(binary, scratch):
    """Starts processes on the test's data folder: stile("--threads", "2"). Each
    life has its own files for standard output and log, unless a name is given."""
    lives = []
    yield starter(binary, scratch, lives)
    end_all(lives)


@pytest.fixture(scope="module")
def module_scratch(tmp_path_factory):
    folder = tmp_path_factory.mktemp("module")
    yield str(folder)
    if os.environ.get("STILE_TEST_KEEP") != "1":
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def module_stile(binary, module_scratch):
    """As `stile`, for processes that serve all tests of a file. They must stop well."""
    lives = []
    yield starter(binary, module_scratch, lives)
    codes = [life.stop() for life in lives if life.running()]
    end_all(lives)
    assert not any(codes), "".join(life.log()[-4000:] for life in lives)


@pytest.fixture
def blockage():
    made = harness.Blockage()
    yield made
    made.close()


@pytest.fixture
def run(binary):
    def call(*arguments, **more):
        return harness.run(binary, *arguments, **more)
    return call


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failing test shows the logs of its processes."""
    outcome = yield
    report = outcome.get_result()
    if report.when != "call" or not report.failed:
        return
    for fixture in ("scratch", "module_scratch"):
        if fixture not in item.funcargs:
            continue
        for log in sorted(pathlib.Path(item.funcargs[fixture]).glob("*.log"))[-4:]:
            text = log.read_text(errors="replace")
            report.sections.append((f"log {log.name}", text[-4000:]))


@pytest.fixture
def sink():
    """Makes destinations (sinkkit.Sink), and ends them with the test."""
    made = []

    def make(*arguments):
        made.append(sinkkit.Sink(*arguments))
        return made[-1]

    yield make
    for it in made:
        it.close()
