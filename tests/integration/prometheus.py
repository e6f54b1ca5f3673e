"""A strict reader of the Prometheus text format 0.0.4: what a lenient scraper
forgives is an error here."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf|NaN)")
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")


class Family:
    def __init__(self, name, help_text):
        self.name = name
        self.help = help_text
        self.type = None
        self.samples = []  # (name, labels, value)

    def value(self, **labels):
        """The value of the only sample with these labels."""
        found = [value for name, has, value in self.samples
                 if name == self.name and labels.items() <= has.items()]
        assert len(found) == 1, f"{self.name}{labels}: {len(found)} samples"
        return found[0]

    def part(self, suffix):
        """The samples of a histogram's part."""
        return [(labels, value) for name, labels, value in self.samples
                if name == self.name + suffix]


def parse_labels(text):
    labels, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        assert match, f"not a label: {text[at:]!r}"
        assert match[1] not in labels, f"label {match[1]} twice"
        labels[match[1]] = match[2]
        at = match.end()
    return labels


def belongs(family, name):
    if family.type == "histogram":
        return name in (family.name + end for end in ("_bucket", "_sum", "_count"))
    return name == family.name


def parse(text):
    """{name: Family}, after checking all there is to check in one scrape."""
    assert text.endswith("\n"), "the last line must end with a newline"
    families, family = {}, None
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            _, _, name, help_text = line.split(" ", 3)
            assert re.fullmatch(NAME, name) and help_text, line
            assert name not in families, f"{name} described twice"
            family = families[name] = Family(name, help_text)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert family and name == family.name and kind in TYPES, line
            assert family.type is None and not family.samples, line
            family.type = kind
        else:
            add_sample(family, line)
    for each in families.values():
        check(each)
    return families


def add_sample(family, line):
    match = SAMPLE.fullmatch(line)
    assert match and NUMBER.fullmatch(match[3]), f"not a sample: {line!r}"
    assert family and family.type and belongs(family, match[1]), f"out of place: {line!r}"
    labels = parse_labels(match[2] or "")
    assert all((match[1], labels) != (name, has) for name, has, _ in family.samples), \
        f"twice: {line!r}"
    family.samples.append((match[1], labels, float(match[3])))


def check(family):
    assert family.samples, f"{family.name} has no sample"
    if family.type == "counter":
        assert family.name.endswith("_total"), f"the counter {family.name} must end with _total"
        assert all(value >= 0 for _, _, value in family.samples), family.name
    if family.type == "histogram":
        check_histogram(family)


def check_histogram(family):
    buckets = family.part("_bucket")
    bounds = [float(labels["le"].replace("+Inf", "inf")) for labels, _ in buckets]
    counts = [value for _, value in buckets]
    assert bounds == sorted(set(bounds)), f"{family.name}: bounds must go up"
    assert bounds[-1] == float("inf"), f"{family.name}: the last bucket is +Inf"
    assert counts == sorted(counts), f"{family.name}: buckets are cumulative"
    (_, count), = family.part("_count")
    (_, total), = family.part("_sum")
    assert counts[-1] == count, f"{family.name}: +Inf must equal the count"
    assert total >= 0
