"""Turns the trace of a prediction into one as executors write it: as_measured.py MODELED STEPS > MEASURED.

Every op becomes an event of each step, the first step at twice its time; gaps before an op whose device had
to wait become waits. So what is measured is known exactly: the prediction that the trace was made from.
"""
import json
import sys
from fractions import Fraction

modeled = json.load(open(sys.argv[1]), parse_float=Fraction)
steps = int(sys.argv[2])
events, open_events, last = [], {}, 0
for event in modeled["traceEvents"]:
    track = event["pid"], event["tid"]
    if event["ph"] == "B":
        open_events.setdefault(track, []).append(event)
    elif event["ph"] == "E":
        begin = open_events[track].pop()
        last = max(last, event["ts"])
        if begin["cat"].startswith("op,"):
            events.append((begin["name"], begin["cat"], begin["args"]["device"], begin["ts"], event["ts"]))
    elif event["ph"] == "i":
        kind = "op," + event["name"].split("(")[0]
        events.append((event["name"], kind, event["args"]["device"], event["ts"], event["ts"]))

out, zero = [], 0
for step in range(steps):
    slow = 2 if step == 0 else 1
    ends = {}
    for name, cat, device, begin, end in events:
        args = {"device": device, "replica": 0, "step": step}
        common = {"ph": "X", "pid": 1, "tid": 2 + device, "args": args}
        before = ends.get(device, 0)
        if begin > before:
            out.append({"name": "wait " + name, "cat": "wait", "ts": float(zero + slow * before),
                        "dur": float(slow * (begin - before)), **common})
        out.append({"name": name, "cat": cat, "ts": float(zero + slow * begin),
                    "dur": float(slow * (end - begin)), **common})
        ends[device] = end
    zero += slow * last
print(json.dumps({"traceEvents": out, "otherData": {
    "producer": "sluice", "kind": "measured", "schedule": modeled["otherData"]["schedules"][0]["name"],
    "parameters": "P = 2, M = 4", "replicas": 1}}, indent=0))
