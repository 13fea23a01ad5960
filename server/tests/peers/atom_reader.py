"""A reader of Atom feeds that holds them to RFC 4287, with nothing but Python's own XML parser: takes a feed on stdin and prints
what is in it as JSON, or says what is wrong and ends with 1."""

import json
import re
import sys
import xml.etree.ElementTree as xml

ATOM = "{http://www.w3.org/2005/Atom}"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
TAG = re.compile(r"tag:[A-Za-z0-9.-]+,\d{4}(-\d\d){0,2}:[A-Za-z0-9$._~!*'();/?:@&=+,%-]+")
ALLOWED = {
    "feed": {"id", "title", "subtitle", "updated", "link", "author", "entry"},
    "entry": {"id", "title", "updated", "link", "category", "summary"},
}


def one(element, name):
    found = element.findall(ATOM + name)
    assert len(found) == 1, f"{element.tag}: {len(found)} of {name}"
    text = found[0].text
    assert text and text.strip(), f"{element.tag}: {name} is empty"
    return text


def links(element):
    found = {}
    for link in element.findall(ATOM + "link"):
        assert link.get("href", "").startswith("http"), "a link that leads nowhere"
        key = (link.get("rel", "alternate"), link.get("type"))
        assert key not in found, f"{key} twice"
        found[key] = link.get("href")
    return {rel: href for (rel, _), href in found.items()}


def common(element, kind):
    names = {child.tag.removeprefix(ATOM) for child in element}
    assert names <= ALLOWED[kind], f"{kind}: {names - ALLOWED[kind]}"
    told = {name: one(element, name) for name in ("id", "title", "updated")}
    assert TAG.fullmatch(told["id"]), told["id"]
    assert TIME.fullmatch(told["updated"]), told["updated"]
    return told | {"links": links(element)}


root = xml.fromstring(sys.stdin.buffer.read())
assert root.tag == ATOM + "feed", root.tag
feed = common(root, "feed")
assert "self" in feed["links"], "no link to itself"
assert one(root.find(ATOM + "author"), "name"), "no author"
entries = []
for element in root.findall(ATOM + "entry"):
    entry = common(element, "entry")
    assert "alternate" in entry["links"], "an entry without content must lead somewhere"
    entry["summary"] = one(element, "summary")
    entry["categories"] = [category.attrib["term"] for category in element.findall(ATOM + "category")]
    assert all(not len(child) for child in element), "markup in a text"
    entries.append(entry)
ids = [entry["id"] for entry in entries]
assert len(set(ids)) == len(ids), "an id twice"
print(json.dumps(feed | {"entries": entries}))
