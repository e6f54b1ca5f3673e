"""The command line: clear messages, and exit codes that scripts can rely on."""

import os
import re
import shutil
import socket

import pytest


@pytest.mark.parametrize("arguments, words", [
    (["serve", "--frobnicate"], ["--frobnicate"]),
    (["serve", "--lisen", "127.0.0.1:0"], ["--lisen", "did you mean --listen"]),
    (["serve", "--thread", "2"], ["did you mean --threads"]),
    (["serve", "--windw=1d"], ["did you mean --window"]),
    (["serve", "-x"], ["-x"]),
    (["serve", "extra"], ["extra"]),
    (["serve", "--listen"], ["--listen", "ADDR:PORT"]),
    (["serve", "--listen", "8080"], ["--listen", "8080", "ADDR:PORT"]),
    (["serve", "--listen", "127.0.0.1:65536"], ["65536", "65535"]),
    (["serve", "--listen", "127.0.0.1:http"], ["http"]),
    (["serve", "--listen", "::1:80"], ["[::1]"]),
    (["serve", "--data", ""], ["--data"]),
    (["serve", "--window", "4"], ["--window", "4", "duration"]),
    (["serve", "--window", "4 d"], ["--window"]),
    (["serve", "--window", "-1s"], ["--window"]),
    (["serve", "--window", "0s"], ["--window", "1s"]),
    (["serve", "--window", "999999999999d"], ["--window"]),
    (["serve", "--window", "4000d"], ["--window", "3650d"]),
    (["serve", "--threads", "0"], ["--threads", "1 to 64"]),
    (["serve", "--threads", "65"], ["--threads", "1 to 64"]),
    (["serve", "--threads", "two"], ["--threads", "whole number"]),
    (["serve", "--threads", "99999999999999999999"], ["--threads"]),
    (["serve", "--log", "xml"], ["--log", "text|json"]),
    (["serve", "--log="], ["--log", "text|json"]),
    (["serve", "--print", "all"], ["event|envelope"]),
    (["serve", "--commit", "never"], ["auto|inline|thread"]),
    (["serve", "--max-body", "1"], ["--max-body"]),
    (["serve", "--max-body", "1TiB"], ["--max-body", "4MiB"]),
    (["serve", "--retain-size", "much"], ["--retain-size", "size"]),
    (["serve", "--accept-clock=yes"], ["--accept-clock", "no value"]),
    (["serve", "--tls-cert", "x.pem"], ["--tls-cert", "--tls-key"]),
    (["serve", "--tls-key", "x.pem"], ["--tls-cert", "--tls-key"]),
    (["journal"], ["journal"]),
    (["journal", "frob", "x"], ["verify DIR", "dump DIR"]),
    (["journal", "verify"], ["DIR"]),
    (["journal", "dump", "a", "b"], []),
    (["version", "now"], ["now"]),
    (["help", "frob"], ["frob"]),
    (["frob"], ["frob", "unknown command"]),
    ([""], ["unknown command"]),
    ([], ["usage"]),
], ids=lambda value: " ".join(value)[:50] if isinstance(value, list) else None)
def test_wrong_usage_is_exit_code_2_and_says_what_was_expected(run, arguments, words):
    code, out, err = run(*arguments)
    assert code == 2, (code, out, err)
    assert out == "", "messages are for standard error"
    assert err.strip(), "nothing was said"
    for word in words:
        assert word in err, (word, err)


def test_version_and_help(run):
    code, out, err = run("version")
    assert code == 0 and err == "" and re.fullmatch(r"stile \d+\.\d+\.\d+\n", out)
    assert run("--version")[:2] == (0, out)
    code, out, err = run("help")
    assert code == 0 and err == ""
    for command in ("serve", "journal", "version", "help"):
        assert re.search(rf"^  {command}\b", out, re.MULTILINE), out
        code, text, _ = run("help", command)
        assert code == 0 and text.startswith("usage: stile " + command), text
        assert run(command, "--help")[:2] == (0, text)
    assert run("--help")[:2] == (0, out)


def test_help_of_serve_names_every_promised_option(run):
    _, out, _ = run("help", "serve")
    for option in ("--listen ADDR:PORT", "--data DIR", "--window TIME", "--tls-cert FILE",
                   "--tls-key FILE", "--threads N", "--log"):
        assert option in out


def serve(run, data, *options):
    code, out, err = run("serve", "--data", data, *options)
    assert out == ""
    return code, err


def test_port_in_use_is_exit_code_1_with_the_address(run, data):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        code, err = serve(run, data, "--listen", address)
    assert code == 1 and address in err, err


@pytest.mark.parametrize("threads", ["1", "2"])
def test_port_of_another_gateway_is_in_use_too(stile, scratch, threads):
    """Two gateways with two memories behind one port would call everything new
    twice."""
    gateway = stile("--threads", threads)
    address = "127.0.0.1:%d" % gateway.address[1]
    other = stile("--listen", address, "--threads", threads, folder=os.path.join(scratch, "other"),
                  wait=False)
    assert other.wait() == 1
    assert address in other.log()


def test_address_that_the_machine_has_not_is_exit_code_1(run, data):
    code, err = serve(run, data, "--listen", "192.0.2.1:8080")
    assert code == 1 and "192.0.2.1:8080" in err, err


def test_data_folder_that_cannot_be_made_is_exit_code_1(run, scratch):
    blocker = os.path.join(scratch, "file")
    with open(blocker, "w", encoding="ascii"):
        pass
    for data in (os.path.join(blocker, "data"), blocker):
        code, err = serve(run, data, "--listen", "127.0.0.1:0")
        assert code == 1 and data in err, err


def test_missing_and_wrong_certificate_files_are_exit_code_1_and_named(run, data, scratch):
    missing = os.path.join(scratch, "missing.pem")
    wrong = os.path.join(scratch, "wrong.pem")
    with open(wrong, "w", encoding="ascii") as file:
        file.write("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    for path in (missing, wrong):
        code, err = serve(run, data, "--listen", "127.0.0.1:0", "--tls-cert", path,
                          "--tls-key", path)
        assert code == 1 and path in err, err
    assert not os.path.exists(data) or os.path.isdir(data)


def test_option_values_may_follow_an_equals_sign(stile):
    gateway = stile("--window=2h", "--log=text", "--threads=1")
    assert gateway.get("/healthz").status == 200


@pytest.mark.skipif(not shutil.which("strace"),
                    reason="needs strace (tools/packages.txt, group test)")
@pytest.mark.parametrize("use, asked, told", [("auto", True, 1), ("off", False, 0)])
def test_where_io_uring_is_forbidden_it_is_told_once_and_done_without(stile, scratch, use, asked,
                                                                      told):
    calls = os.path.join(scratch, "calls")
    gateway = stile("--io-uring", use, "--threads", "2",
                    wrap=["strace", "-f", "-qq", "-o", calls, "-e", "trace=io_uring_setup", "-e",
                          "inject=io_uring_setup:error=EPERM"])
    for number in range(20):
        assert gateway.post({"id": f"forbidden-{number}"}).status == 200
    assert gateway.log().count("io_uring is not available") == told
    gateway.kill_children()
    gateway.wait()
    with open(calls, encoding="utf-8") as file:
        assert ("io_uring_setup" in file.read()) == asked


def test_ipv6_listener(stile):
    if not os.path.exists("/proc/net/if_inet6") or "00000000000000000000000000000001" not in \
            open("/proc/net/if_inet6", encoding="ascii").read():
        pytest.skip("there is no IPv6 loopback here")
    gateway = stile("--listen", "[::1]:0")
    assert gateway.address[0] == "::1"
    assert gateway.post({"id": "six"}).status == 200


def test_text_log_shows_how_to_try_it_and_json_log_is_json_only(stile, data, scratch):
    import json
    gateway = stile()
    text = gateway.log()
    assert "listening on" in text and os.path.realpath(data) in text
    assert f"curl -d '{{\"id\":\"1\"}}' http://127.0.0.1:{gateway.address[1]}/in/events" in text
    gateway = stile("--log", "json", folder=os.path.join(scratch, "other"))
    assert gateway.stop() == 0
    lines = [json.loads(line) for line in gateway.log().splitlines()]
    assert all({"time", "level", "msg"} <= line.keys() for line in lines)
    assert "stile is ready" in [line["msg"] for line in lines]
