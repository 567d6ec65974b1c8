"""The parts of a comparison add up to the difference of the makespans, and idle to its own, exactly."""
import json
import sys
from fractions import Fraction

document = json.load(sys.stdin)
exact = lambda number: Fraction(number["exact"])
makespan = document["figures"]["makespan"]
parts = sum(exact(part["time"]) for part in document["parts"])
assert parts == exact(makespan["measured"]) - exact(makespan["predicted"]) != 0, document["parts"]
for device in document["devices"]:
    for side in "predicted", "measured":
        value = lambda name: exact(device["figures"][name][side])
        assert value("busy") + value("idle") == exact(makespan[side])
        assert value("fill") + value("drain") + value("gaps") == value("idle")
        assert sum(value(name) for name in device["figures"] if name.startswith("busy_")) == value("busy")
