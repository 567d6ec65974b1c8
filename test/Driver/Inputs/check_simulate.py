"""Checks JSON of `sluice simulate` against its schema, and that what should add up does.

The schema is read by what of JSON Schema it uses, so nothing needs to be installed.
usage: check_simulate.py SCHEMA FILE...
"""

import json
import re
import sys
from fractions import Fraction

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float), "null": type(None)}


def is_of(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def check(value, schema, root, path):
    if "$ref" in schema:
        check(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, path)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    assert not kinds or any(is_of(value, kind) for kind in kinds), f"{path}: {value!r} is no {kinds}"
    assert "const" not in schema or value == schema["const"], f"{path}: {value!r}"
    assert "enum" not in schema or value in schema["enum"], f"{path}: {value!r}"
    if "pattern" in schema:
        assert re.search(schema["pattern"], value), f"{path}: {value!r}"
    if "minimum" in schema:
        assert value >= schema["minimum"], f"{path}: {value!r}"
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for key in schema.get("required", []):
            assert key in value, f"{path}: no {key}"
        for key, member in value.items():
            more = schema.get("additionalProperties", True)
            assert key in known or more, f"{path}: unknown {key}"
            check(member, known.get(key, more if isinstance(more, dict) else {}), root, f"{path}.{key}")
    if isinstance(value, list):
        assert schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)), path
        for i, item in enumerate(value):
            check(item, schema.get("items", {}), root, f"{path}[{i}]")


def exact(number):
    value = Fraction(number["exact"])
    assert float(value) == number["value"], number
    return value


def add_up(schedule):
    figures = {name: exact(value) for name, value in schedule["figures"].items()}
    path = schedule["critical_path"]
    stages = sum(exact(stage["compute"]) for stage in path["stages"])
    assert stages == sum(exact(time) for time in path["kinds"].values())
    updates = sum(exact(stage["update"]) for stage in path["stages"])
    links = sum(exact(link[part]) for link in path["links"] for part in ("latency", "moving", "queueing"))
    assert stages + updates + links + exact(path["collectives"]) + exact(path["host"]) == figures["makespan"]
    for device in schedule["devices"]:
        of = {name: exact(value) for name, value in device["figures"].items()}
        parts = ("compute", "recompute", "update", "collectives", "transfers", "host")
        assert of["busy"] == sum(of["busy_" + part] for part in parts), device["device"]
        idle = ("fill", "drain", "stall_transfer", "imbalance", "stall_upstream")
        assert of["idle"] == sum(of[part] for part in idle), device["device"]
        assert of["busy"] + of["idle"] == figures["makespan"]
        if "memory_at_peak" in device:
            assert sum(item["bytes"] for item in device["memory_at_peak"]["live"]) == of["peak_memory"]
        if "memory" in device:
            curve = device["memory"]
            assert curve[0][0] == 0 and all(a[0] < b[0] for a, b in zip(curve, curve[1:]))
            assert max(point[1] for point in curve) == of["peak_memory"]
            assert max(point[2] for point in curve) == of["peak_activation"]
        if "ops" in device:
            ends = [exact(op["end"]) for op in device["ops"]]
            assert ends == sorted(ends) and all(exact(op["start"]) <= exact(op["end"]) for op in device["ops"])
            assert all(exact(op["slack"]) >= 0 for op in device["ops"])
    print(schedule["name"], "adds up")


def main(schema, *names):
    root = json.load(open(schema))
    for name in names:
        document = json.load(open(name))
        check(document, root, root, "")
        for schedule in document["schedules"]:
            add_up(schedule)
    document["schedules"][0]["figures"]["makespan"]["unit"] = "parsec"
    try:
        check(document, root, root, "")
    except AssertionError:
        return
    sys.exit("a unit that there is not is valid")


main(*sys.argv[1:])
