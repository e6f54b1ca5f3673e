"""stile filter on the real binary: files, pipes, exit codes, what is said."""

import json
import os
import pty
import random
import subprocess

import pytest


def event(number, at_s=None, **more):
    body = {"id": f"e{number}", **more}
    if at_s is not None:
        body["time"] = at_s
    return json.dumps(body)


def lines(*events):
    return "".join(one + "\n" for one in events).encode()


@pytest.fixture(name="filter")
def fixture_filter(binary):
    def call(*options, stdin=b""):
        done = subprocess.run([binary, "filter", *options], input=stdin, capture_output=True,
                              check=False, timeout=60)
        return done.returncode, done.stdout, done.stderr.decode()
    return call


@pytest.fixture(name="write")
def fixture_write(scratch):
    def write(data, name):
        path = os.path.join(scratch, name)
        with open(path, "wb") as file:
            file.write(data)
        return path
    return write


def summary(text):
    return json.loads(text.splitlines()[-1])


def test_each_event_passes_once_and_the_summary_counts(filter):
    code, out, err = filter(stdin=lines(event(1), event(2), event(1), "broken"))
    assert code == 0
    assert out == lines(event(1), event(2))
    words = [line.split()[:2] for line in err.splitlines()]
    for row in (["read", "4"], ["new", "2"], ["duplicate", "1"], ["stale", "0"],
                ["conflict", "0"], ["bad", "1"]):
        assert row in words, err
    assert "-:4: expected a JSON object" in err


def test_files_share_one_memory_and_the_rejected_name_them(filter, write, scratch):
    first = write(lines(event(1), event(2)), "first.ndjson")
    second = write(b"[" + event(2).encode() + b",\n" + event(3).encode() + b"]", "second.json")
    rejected = os.path.join(scratch, "rejected.ndjson")
    code, out, err = filter("--json", "--rejected", rejected, first, second)
    assert code == 0 and out == lines(event(1), event(2), event(3))
    assert summary(err)["duplicate"] == 1 and summary(err)["passed"] == 3
    with open(rejected, encoding="utf-8") as file:
        told = [json.loads(line) for line in file]
    assert told == [{"number": 3, "line": 1, "file": second, "verdict": "duplicate", "first": 2,
                     "reason": "the same key as event 2, of the same time", "claim": "transport",
                     "parts": "id", "event": json.loads(event(2))}]


def test_windows_are_those_of_the_events_or_of_the_clock(filter):
    data = lines(event(1, 1_700_000_000), event(1, 1_700_000_000 + 7200))
    assert filter("--window", "1h", stdin=data)[1] == data
    assert filter("--window", "3h", stdin=data)[1] == data[:len(data) // 2]
    assert filter("--window", "1h", "--time", "arrival", stdin=data)[1] == data[:len(data) // 2]


def test_a_source_of_a_configuration_judges_as_it_would_in_the_gateway(filter, write):
    config = write(b"""
sources:
  orders:
    claims:
      - once: [customer, order]
      - newest: { entity: order, time: at }
  others: { preset: auto }
""", "stile.yaml")
    data = lines('{"customer":1,"order":2,"at":100}', '{"order":2,"customer":1,"at":100}',
                 '{"customer":7,"order":2,"at":90}', '{"customer":7,"order":2,"at":110}')
    code, out, err = filter("--config", config, "--source", "orders", "--json", stdin=data)
    assert code == 0, err
    assert out == lines('{"customer":1,"order":2,"at":100}', '{"customer":7,"order":2,"at":110}')
    counts = summary(err)
    assert (counts["duplicate"] + counts["conflict"], counts["stale"]) == (1, 1)
    code, _, err = filter("--config", config, stdin=data)
    assert code == 2 and "several sources" in err
    code, _, err = filter("--config", config, "--source", "order", stdin=data)
    assert code == 2 and "did you mean orders?" in err


@pytest.mark.parametrize("options", [["--preset", "genesis"], ["--time", "never"],
                                     ["--source", "x"], ["--window", "soon"],
                                     ["--preset", "auto", "--config", "x.yaml"]])
def test_wrong_usage_is_exit_code_2(filter, options):
    code, out, err = filter(*options)
    assert code == 2 and out == b"" and err


def test_what_cannot_be_read_or_written_is_exit_code_1(filter, binary, write, scratch):
    good = write(lines(event(1)), "good.ndjson")
    missing = os.path.join(scratch, "none")
    code, out, err = filter(good, missing)
    assert code == 1 and out == lines(event(1)) and missing in err
    code, _, err = filter("--rejected", os.path.join(missing, "x"), good)
    assert code == 1 and missing in err
    code, out, err = filter(stdin=b'[{"id":1} {"id":2}]')
    assert code == 1 and out == b'{"id":1}\n' and "line 1: expected a comma or ]" in err
    code, _, err = filter("--rejected", "/dev/full", stdin=lines(event(1), event(1)))
    assert code == 1 and "rejected" in err
    with open("/dev/full", "wb") as full:
        done = subprocess.run([binary, "filter", good], stdout=full, stderr=subprocess.PIPE,
                              check=False)
    assert done.returncode == 1 and b"standard output" in done.stderr


@pytest.mark.parametrize("options, read, written, told", [
    (["--rejected", "in", "in"], None, None, "would overwrite in"),
    (["--rejected", "link", "other", "in"], None, None, "would overwrite in"),
    (["--rejected", "in"], "in", None, "would overwrite standard input"),
    (["--rejected", "in", "other", "-"], "in", None, "would overwrite standard input"),
    (["--rejected", "stile.yaml", "--config", "stile.yaml", "in"], None, None,
     "would overwrite stile.yaml"),
    (["--rejected", "out", "in"], None, "out", "would overwrite standard output"),
    (["in"], None, "in", "standard output would go into in"),
    ([], "in", "in", "standard output would go into standard input"),
])
def test_what_is_read_is_not_written_over(binary, write, scratch, options, read, written, told):
    data = lines(event(1), event(1))
    for name in ("in", "other", "out"):
        write(data, name)
    write(b"sources: { a: { preset: auto } }\n", "stile.yaml")
    os.symlink("in", os.path.join(scratch, "link"))
    with open(os.path.join(scratch, read) if read else os.devnull, "rb") as source, \
            open(os.path.join(scratch, written) if written else os.devnull, "ab") as sink:
        done = subprocess.run(["prlimit", "--fsize=100000", binary, "filter", *options],
                              cwd=scratch, stdin=source, stdout=sink, stderr=subprocess.PIPE,
                              check=False, timeout=60)
    assert done.returncode == 2 and told in done.stderr.decode(), done.stderr
    for name in ("in", "other", "out"):
        with open(os.path.join(scratch, name), "rb") as file:
            assert file.read() == data, name


def test_bad_events_are_exit_code_3_only_when_that_is_asked_for(filter):
    assert filter("--strict", stdin=b"{}\n")[0] == 3
    assert filter(stdin=b"{}\n")[0] == 0
    assert filter("--strict", stdin=lines(event(1), event(1)))[0] == 0


def test_quiet_says_nothing(filter):
    assert filter("--quiet", stdin=lines(event(1), "x")) == (0, lines(event(1)), "")


def test_a_reader_that_leaves_ends_it_quietly(binary):
    process = subprocess.Popen([binary, "filter"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdin.write(lines(event(1)))
    process.stdin.flush()
    assert process.stdout.readline() == lines(event(1))  # it does not wait for more
    process.stdout.close()
    try:
        for number in range(2, 100_000):
            process.stdin.write(lines(event(number)))
        process.stdin.close()
    except BrokenPipeError:
        pass
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_progress_is_shown_on_a_terminal_and_gone_at_the_end(binary, scratch):
    reader, terminal = pty.openpty()
    path = os.path.join(scratch, "out")
    with open(path, "wb") as out:
        process = subprocess.Popen([binary, "filter"], stdin=subprocess.PIPE, stdout=out,
                                   stderr=terminal)
        os.close(terminal)
        process.stdin.write(lines(event(1)))
        process.stdin.flush()
        said = b""
        while b"events/s" not in said:
            said += os.read(reader, 4096)
        process.stdin.close()
        try:
            while True:
                more = os.read(reader, 4096)
                if not more:
                    break
                said += more
        except OSError:  # the terminal's other side is closed
            pass
    assert process.wait(60) == 0
    os.close(reader)
    assert said.startswith(b"\r\x1b[K") and b"\r\x1b[Kread " in said


def test_a_large_shuffled_history_comes_out_as_a_set(filter, seed, scale):
    dice = random.Random(seed)
    numbers = [n for n in range(20_000 * scale) for _ in range(dice.choice((1, 1, 1, 2, 3)))]
    dice.shuffle(numbers)
    made = [event(n, 1_700_000_000 + n % 1000, fill="x" * (n * 7919 % 500)) for n in numbers]
    code, out, err = filter("--json", stdin=lines(*made))
    assert code == 0
    expected = list(dict.fromkeys(made))
    assert out.decode().splitlines() == expected
    counts = summary(err)
    assert counts["read"] == len(made) and counts["new"] == len(expected)


@pytest.mark.release
def test_memory_is_bounded_by_the_window(binary):
    """A history of many windows; the claims in memory are those of about one."""
    process = subprocess.Popen([binary, "filter", "--window", "1m", "--json"],
                               stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    for first in range(0, 1_000_000, 1000):
        process.stdin.write(lines(*(f'{{"id":{n},"time":{1_700_000_000_000 + n}}}'
                                    for n in range(first, first + 1000))))
    process.stdin.close()
    counts = summary(process.stderr.read().decode())
    process.stderr.close()
    assert process.wait(60) == 0
    assert counts["new"] == 1_000_000
    assert counts["claims"] + counts["claims_forgotten"] == 1_000_000
    assert counts["claims"] < 500_000 and counts["claims_bytes"] < 32_000_000


def delivery(number, **body):
    return json.dumps({"headers": {"X-GitHub-Event": "push", "X-GitHub-Delivery": f"d{number}"},
                       "body": body})


def test_preset_that_knows_its_events_by_headers_asks_for_envelopes(filter):
    for preset, header in (("github", "x-github-"), ("shopify", "x-shopify-"),
                           ("standard-webhooks", "webhook-id")):
        code, out, err = filter("--preset", preset, stdin=lines(event(1)))
        assert (code, out) == (2, b"") and header in err and "--envelope" in err, err
    events = lines(delivery(1, n=1), delivery(2, n=1), delivery(1, n=1), delivery(1, n=2))
    code, out, err = filter("--preset", "github", "--envelope", "--json", stdin=events)
    assert code == 0 and out == lines(delivery(1, n=1), delivery(2, n=1)), err
    assert (summary(err)["duplicate"], summary(err)["conflict"]) == (1, 1)
    # Others need none, and a source of one's own only if its claims do.
    assert filter("--preset", "cloudevents", stdin=lines(event(1)))[0] == 0


@pytest.mark.parametrize("claim, needs", [
    ("{ once: [header:X-Id] }", True), ("{ once: [id, header:X-Id?] }", False),
    ("{ once: [header:X-Id], missing: digest }", False)])
def test_source_whose_claims_need_a_header_asks_for_envelopes(filter, write, claim, needs):
    config = write(f"sources:\n  a: {{ claims: [{claim}] }}\n".encode(), "stile.yaml")
    code, _, err = filter("--config", config, stdin=lines(event(1)))
    assert (code == 2 and "header X-Id" in err) if needs else code == 0, err
