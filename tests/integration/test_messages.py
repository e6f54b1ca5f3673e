"""docs/messages.md and the source name the same log messages, and each says what happened."""

import re

import pytest

CALL = re.compile(r"\b(log_debug|log_info|log_warn|log_error|log_warn_of|local_log|report|fail"
                  r"|serve_log)\s*\(")
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
# A text which a store gives to its log function: MESSAGE or MESSAGE: DETAILS.
PARTS = {"local_log", "report"}
FORMATS = ("store/local/journal/steady_clock.c",)
NOT_LOGGED = ("cli/", "base/")


def code(path):
    """Without comments, and with the strings of several lines in one."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    text = re.sub(r'"\s*PRI\w+\s*"', "d", text)
    return re.sub(r'(?<!\\)"\s*\n\s*"', "", text)


def arguments(text, at):
    """The arguments of the call whose ( is before `at`."""
    found, depth, start, inside = [], 1, at, False
    while depth:
        char = text[at]
        if inside:
            at += char == "\\"
            inside = char != '"'
        elif char == '"':
            inside = True
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        if not inside and (depth == 0 or depth == 1 and char == ","):
            found.append(text[start:at])
            start = at + 1
        at += 1
    return found


def logged(name, call):
    """What a call writes: the literals of its message."""
    if name in ("log_warn_of", "fail") or name not in PARTS:
        message = call[1] if name == "log_warn_of" else call[0]
        return TEXT.findall(message)
    texts = [text for argument in call[1:] for text in TEXT.findall(argument)]
    if not texts:
        return []
    if texts[0].startswith("%s: "):  # two messages with the same details
        return texts[1:3]
    return [texts[0].split(": ")[0]] if texts[0] != "%s" else []


@pytest.fixture(name="in_source", scope="module")
def fixture_in_source(root):
    messages = []
    for path in sorted((root / "src").rglob("*.c")):
        name = path.relative_to(root / "src").as_posix()
        if name.startswith(NOT_LOGGED):
            continue
        text = code(path)
        for match in CALL.finditer(text):
            if match[1] == "fail" and name != "serve/serve.c":
                continue
            messages += logged(match[1], arguments(text, match.end()))
        if name in FORMATS:
            for match in re.finditer(r"\b(?:error_fill|snprintf)\(", text):
                words = TEXT.findall(" ".join(arguments(text, match.end())))
                if words and " " in words[0].split(": ")[0] and "%s: %s" not in words:
                    messages.append(words[0].split(": ")[0])
    assert len(messages) > 80
    return messages


@pytest.fixture(name="in_page", scope="module")
def fixture_in_page(root):
    page = (root / "docs" / "messages.md").read_text(encoding="utf-8")
    section = page.split("## Log messages")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.M)


def test_every_log_message_is_in_the_page_and_the_page_has_no_other(in_source, in_page):
    assert sorted(set(in_source) - set(in_page)) == [], "not in docs/messages.md"
    assert sorted(set(in_page) - set(in_source)) == [], "not in src"


def test_a_log_message_is_unique(in_source, in_page):
    assert sorted(one for one in set(in_source) if in_source.count(one) > 1) == []
    assert len(in_page) == len(set(in_page))


def test_a_log_message_says_what_happened(in_source):
    assert [one for one in in_source if len(one.split()) < 2] == []


def test_every_metric_has_a_page(root):
    names = set(re.findall(r'"(stile_[a-z_]+_(?:total|seconds|bytes)|stile_(?:sink|http|resp|'
                           r'store|live|open|held|parked|dead|due)_[a-z_]+)"',
                           (root / "src/console/console.c").read_text(encoding="utf-8")))
    page = (root / "docs/metrics.md").read_text(encoding="utf-8")
    assert len(names) > 40
    assert sorted(one for one in names if f"`{one}" not in page) == []
