"""The configuration file on the real binary: check, init, serve --config, the manual."""

import json
import os
import re
import signal
import subprocess

import pytest

from harness import eventually

GOOD = """\
listen: 127.0.0.1:0
sources:
  events:
    preset: auto
    auth: { header: X-Api-Key, secret: "${STILE_TEST_KEY:-c4n4ry-7f3d-0123456789}" }
"""


@pytest.fixture(name="write")
def fixture_write(scratch):
    def write(text, name="stile.yaml"):
        path = os.path.join(scratch, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path
    return write


def test_check_of_a_right_file_is_exit_code_0_with_a_table(run, write):
    code, out, err = run("check", write(GOOD))
    assert code == 0 and err == "", err
    assert re.search(r"^events +/in/events +auto +4d +header +gate$", out, re.MULTILINE), out
    code, out, err = run("check", "--json", write(GOOD))
    answer = json.loads(out)
    assert code == 0 and answer["ok"] and answer["sources"][0]["auth"] == "header"


def test_check_of_a_wrong_file_is_exit_code_2_with_all_mistakes(run, write):
    path = write("lisen: 1\nthreads: many\nsources:\n  a: { preset: genesis }\n")
    code, out, err = run("check", path)
    assert code == 2 and out == ""
    for place in (f"{path}:1:1: lisen: ", f"{path}:2:10: threads: ", f"{path}:4:16: sources.a"):
        assert place in err, err
    code, out, err = run("check", "--json", path)
    answer = json.loads(out)
    assert code == 2 and not answer["ok"] and [e["line"] for e in answer["errors"]] == [1, 2, 4]
    assert run("serve", "--config", path)[0] == 2


def test_check_without_a_file_or_with_one_that_is_not_there_is_exit_code_2(run, scratch):
    assert run("check")[0] == 2
    missing = os.path.join(scratch, "none.yaml")
    code, _, err = run("check", missing)
    assert code == 2 and missing in err


def test_every_preset_has_a_starting_file_that_passes(run, write, scratch):
    _, text, _ = run("help", "init")
    _, _, err = run("check", write("sources: { a: { preset: none } }\n"))
    for preset in re.search(r"one of ([a-z|-]+)", err)[1].split("|"):
        assert re.search(rf"\b{preset}\b", text), f"help init does not list {preset}"
    presets = re.search(r"presets: (.*)", text, re.DOTALL)[1].replace("\n", " ").split(",")
    assert len(presets) >= 14
    for preset in (name.strip() for name in presets):
        path = os.path.join(scratch, preset + ".yaml")
        code, out, _ = run("init", "--preset", preset, "--out", path)
        assert code == 0 and out == ""
        code, out, err = run("check", path)
        assert code == 0 and err == "" and preset in out, (preset, err)
        assert run("init", "--preset", preset, "--out", path)[0] == 1, "it was overwritten"
    code, _, err = run("init", "--preset", "genesis")
    assert code == 2 and "did you mean genesys" in err


def test_serve_takes_the_file_and_flags_count_more(stile, write):
    path = write("listen: 127.0.0.1:1\nlog: json\nwindow: 2h\n")
    gateway = stile("--config", path, "--log", "text")
    assert gateway.post({"id": "a"}).status == 200
    assert gateway.stop() == 0
    assert not gateway.log().startswith("{")


def test_secrets_and_values_of_variables_are_in_no_output(run, write):
    canary = "c4n4ry-7f3d"
    texts = [GOOD, GOOD.replace("header:", "hedder:"), GOOD.replace("X-Api-Key", "[a]"),
             GOOD.replace("${STILE", "${S TILE"), GOOD.replace("auth: {", f"auth: {canary}x {{"),
             GOOD + f"window: ${{NONE:-{canary}}}\n"]
    for text in texts:
        path = write(text.replace(":-c4n4ry-7f3d-0123456789", ""))
        for arguments in (("check", path), ("check", "--json", path)):
            _, out, err = run(*arguments, env={"STILE_TEST_KEY": canary})
            assert canary not in (out + err).replace(f"NONE:-{canary}", ""), (arguments, out, err)


def test_the_manual_is_what_the_program_says(root, binary):
    result = subprocess.run([root / "tools" / "write-manual", "--check", binary],
                            capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"tools/write-manual must be run for: {result.stdout}"


def test_every_flag_of_serve_is_in_the_reference(root, run):
    reference = (root / "docs" / "reference.md").read_text(encoding="utf-8")
    _, text, _ = run("help", "serve")
    for flag in re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE):
        assert f"`{flag}" in reference, flag


@pytest.fixture(name="through_pipe")
def fixture_through_pipe():
    """The name of a pipe with this text in it, as the shell's <(…) has one."""
    ends = []

    def make(text):
        reader, writer = os.pipe()
        os.set_inheritable(reader, True)
        os.write(writer, text.encode())
        os.close(writer)
        ends.append(reader)
        return f"/dev/fd/{reader}"
    yield make
    for end in ends:
        os.close(end)


def call(binary, *arguments):
    done = subprocess.run([binary, *arguments], capture_output=True, text=True, check=False,
                          close_fds=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_a_configuration_through_a_pipe_is_read_and_not_taken_for_an_empty_one(
        binary, through_pipe):
    code, out, err = call(binary, "check", through_pipe("listen: nonsense\nsources: {x: {}}\n"))
    assert code == 2 and out == "" and ":1:9: listen: " in err, (out, err)
    code, out, err = call(binary, "check", through_pipe(GOOD))
    assert code == 0 and re.search(r"^events .* header ", out, re.MULTILINE), (out, err)
    assert call(binary, "serve", "--config", through_pipe("lisen: 1\n"))[0] == 2


def test_a_pipe_without_a_byte_is_no_configuration(binary, through_pipe):
    for command in (["check"], ["serve", "--config"]):
        code, _, err = call(binary, *command, through_pipe(""))
        assert code == 2 and "nothing came through this pipe" in err, err


def test_what_the_configuration_names_is_a_regular_file_and_no_pipe_is_waited_for(run, write,
                                                                                  scratch):
    pipe = os.path.join(scratch, "pipe")
    os.mkfifo(pipe)
    sink = "sources: {{ a: {{ preset: auto }} }}\nsinks: {{ s: {{ {} }} }}\n".format
    for text in (f"sources: {{ a: {{ preset: auto, auth: {{ header: X, secret: 'file:{pipe}' }} }} }}\n",
                 f"admin: {{ token: 'file:{scratch}' }}\n",
                 f"store: {{ url: 'file:{pipe}' }}\n",
                 f"tls: {{ cert: {pipe}, key: {pipe} }}\n",
                 sink(f"http: https://a.example/, tls: {{ ca: {pipe} }}"),
                 sink(f"http: https://a.example/, sign: 'file:{pipe}'")):
        path = write(text)
        for command in (["check", path], ["serve", "--config", path]):
            code, _, err = run(*command)
            assert code == 2 and "cannot be read: not a regular file" in err, (text, err)
    code, _, err = run("serve", "--data", os.path.join(scratch, "data"), "--listen", "127.0.0.1:0",
                       "--tls-cert", pipe, "--tls-key", pipe)
    assert code == 1 and f"{pipe}: not a regular file" in err, err


def test_an_event_comes_through_a_pipe(binary, through_pipe):
    code, out, err = call(binary, "explain", through_pipe('{"id":"1"}'))
    assert code == 0 and out.startswith("this is     plain"), (out, err)


def test_a_reload_of_what_came_through_a_pipe_changes_nothing(stile, through_pipe):
    text = "sources:\n  a: { preset: auto, auth: { header: X-Api-Key, secret: abcdefghijklmnop } }\n"
    name = through_pipe(text)
    gateway = stile("--config", name, pass_fds=[int(os.path.basename(name))])
    gateway.process.send_signal(signal.SIGHUP)
    eventually(lambda: "was read from a pipe" in gateway.log(), "the reload is refused")
    assert gateway.request("POST", "/in/a", b'{"id":"1"}').status == 401
