"""What the pages say is so: links lead somewhere, examples are taken, commands are there."""

import os
import re

import pytest

# Where a piece of a file stands that an example shows alone, by its first word.
FRAMES = {
    "auth": "sources: {{ a: {{ preset: auto, {} }} }}",
    "when": "routes: [{{ to: stdout, {} }}]",
    "recipes": "sources:\n  a:\n{}",
    "shop": "sources:\n{}",
}
TOP = {"listen", "sources", "sinks", "routes", "store", "claims", "resp", "admin", "tls"}


@pytest.fixture(name="pages", scope="module")
def fixture_pages(root):
    """Text by path."""
    paths = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def without_blocks(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(text):
    """Of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ +(.+)$", without_blocks(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(text):
    """Without those that lead to other places: file and anchor."""
    targets = re.findall(r"\]\(([^)\s]+)\)", without_blocks(text))
    return [target.partition("#")[::2] for target in targets if "://" not in target]


def test_every_link_leads_to_a_file_and_a_heading(root, pages):
    checked = 0
    for page, text in pages.items():
        for path, anchor in links(text):
            target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            assert (root / target).exists(), f"{page}: {path} is not there"
            if anchor:
                assert anchor in anchors(pages[target]), f"{page}: {path}#{anchor}"
            checked += 1
    assert checked > 50


def test_the_readme_leads_to_every_page(pages):
    linked = {path for path, _ in links(pages["README.md"])}
    top = {page for page in pages if os.path.dirname(page) == "docs"}
    assert top - linked == set()


def is_alternatives(text):
    """One line each, all of the same option: each is a file of its own."""
    names = [line.partition(":")[0] for line in text.splitlines()]
    return len(names) > 1 and len(set(names)) == 1


def whole(text):
    """As a file in which the example could stand."""
    first = text.lstrip().partition(":")[0]
    if first in TOP:
        sources = "" if "sources:" in text or "from: genesys" not in text else \
            "sources: { genesys: { preset: genesys } }\n"
        return sources + text
    assert first in FRAMES, f"say in FRAMES where this stands:\n{text}"
    frame = FRAMES[first]
    if "\n" in frame:
        indent = "    " if frame.count("\n") > 1 else "  "
        text = "".join(indent + line for line in text.splitlines(keepends=True))
    return frame.format(text.strip() if "\n" not in frame else text)


def test_every_example_of_a_configuration_is_right(run, pages, scratch):
    names = {"GENESYS_KEY", "CRM_TOKEN", "CLAIMS_TOKEN", "CENTRAL_KEY", "RESP_PASSWORD",
             "REDIS_PASSWORD"}
    environment = {name: "a-secret-of-forty-characters-0123456789a" for name in names}
    file = os.path.join(scratch, "stile.yaml")
    checked = 0
    for page, text in pages.items():
        for block in blocks(text, "yaml"):
            for example in block.splitlines() if is_alternatives(block) else [block]:
                for name in re.findall(r"/etc/stile/([\w.]+)", example):
                    with open(os.path.join(scratch, name), "w", encoding="utf-8") as secret:
                        secret.write("-----BEGIN CERTIFICATE-----\n" if name.endswith(".pem")
                                     else environment["CRM_TOKEN"])
                with open(file, "w", encoding="utf-8") as out:
                    out.write(whole(example).replace("/etc/stile/", f"{scratch}/"))
                code, _, err = run("check", file, env=environment)
                assert code == 0, f"{page}:\n{example}\n{err}"
                checked += 1
    assert checked > 15


def commands(text):
    """Of examples: lines that begin with stile, with or without a prompt."""
    for block in blocks(text, r"\w*"):
        for line in block.splitlines():
            match = re.match(r"(?:\$ )?(?:\w+ \S+ \| )?(?:build/)?stile ([a-z]+(?: .*)?)$", line)
            if match:
                yield match[1]


def test_every_command_of_an_example_and_its_options_are_there(run, pages):
    checked = 0
    options = {}
    for page, text in pages.items():
        for command in commands(text):
            name = command.split()[0]
            if name not in options:
                code, out, _ = run("help", name)
                assert code == 0, f"{page}: stile {command}"
                options[name] = set(re.findall(r"^  (--[a-z-]+)", out, re.MULTILINE))
            used = set(re.findall(r" (--[a-z-]+)", command))
            assert used <= options[name], f"{page}: stile {command}"
            checked += 1
    assert checked > 30


def test_the_reference_has_every_command(run, pages):
    _, out, _ = run("help")
    listed = re.findall(r"^  ([a-z]+) ", out, re.MULTILINE)
    table = re.findall(r"^\| `stile ([a-z]+)", pages["docs/reference.md"], re.MULTILINE)
    assert set(table) == set(listed)
