"""Reads a trace of `simulate -o x.trace.json` as a stranger would, and holds it against the timeline as CSV,
the figures as JSON and the ops as `dump ir` prints them. Knows the trace event format only, nothing of how
Sluice writes it. Numbers are decimals and fractions, never floats. Exits 1 at the first thing that is wrong.

    check_trace.py x.trace.json x.csv x.json [x.ir]      x.ir: with one schedule
"""
import bisect
import csv
import json
import re
import sys
from collections import Counter, defaultdict
from fractions import Fraction

IN_MICROSECONDS = {"tick": 1, "ns": Fraction(1, 1000), "us": 1, "ms": 1000, "s": 1000000}


def check(holds, *words):
    if not holds:
        sys.exit("wrong: " + " ".join(str(word) for word in words))


def exact(text):
    check(re.fullmatch(r"-?\d+(\.\d+)?", text), "not a plain decimal:", text)
    return Fraction(text)


trace = json.load(open(sys.argv[1], encoding="utf-8"), parse_float=exact, parse_int=exact)
rows = list(csv.DictReader(open(sys.argv[2], encoding="utf-8", newline="")))
figures = json.load(open(sys.argv[3], encoding="utf-8"))["schedules"]
events = trace["traceEvents"]
about = trace["otherData"]["schedules"]
check(trace["displayTimeUnit"] in ("ms", "ns"), "displayTimeUnit")
check([s["name"] for s in about] == [s["name"] for s in figures], "schedules")

# Every event is of a kind we know, on a process and a track with a name.
processes, tracks, order = {}, {}, {}
for e in events:
    check(e["ph"] in "MBEisftC" and len(e["ph"]) == 1, "kind", e)
    if e["ph"] == "M" and e["name"] == "process_name":
        processes[e["pid"]] = e["args"]["name"]
    if e["ph"] == "M" and e["name"] == "thread_name":
        check(e["tid"] not in [tid for _, tid in tracks], "track named twice", e)
        tracks[e["pid"], e["tid"]] = e["args"]["name"]
    if e["ph"] == "M" and e["name"] == "thread_sort_index":
        order[e["pid"], e["tid"]] = e["args"]["sort_index"]
check(order.keys() == tracks.keys(), "tracks without an order")
check(len(processes) == len(about), "processes")
schedule_of = {pid: i for i, pid in enumerate(sorted(processes))}
for e in events:
    check(e["pid"] in processes, "process", e)
    if e["ph"] in "BEisft":
        check((e["pid"], e["tid"]) in tracks, "track", e)
    if e["ph"] != "M":
        check(e["ts"] >= 0 and "dur" not in e, "time", e)

# Begins and ends alternate: nothing on a track overlaps, not even nested. What takes no time stands between.
slices, instants, opened = defaultdict(list), defaultdict(list), {}
for e in events:
    track = e["pid"], e.get("tid")
    if e["ph"] == "B":
        check(track not in opened, "begins inside of another on", tracks[track], e)
        check(not slices[track] or slices[track][-1]["end"] <= e["ts"], "goes back in time on", tracks[track], e)
        opened[track] = e
    elif e["ph"] == "E":
        check(track in opened, "ends nothing:", e)
        e["end"] = opened[track]["end"] = e["ts"]
        slices[track].append(opened.pop(track))
        check(slices[track][-1]["ts"] < e["ts"], "a slice of no time:", slices[track][-1])
    elif e["ph"] == "i":
        check(e["s"] == "t", "an instant of its track", e)
        instants[e["pid"], e["tid"]].append(e)
check(not opened, "never ended:", opened)
end = lambda e: e.get("end", e["ts"])
for track, own in slices.items():
    at = 0
    for e in sorted(instants[track], key=lambda e: e["ts"]):
        while at < len(own) and end(own[at]) <= e["ts"]:
            at += 1
        check(at == len(own) or own[at]["ts"] >= e["ts"], "inside of a slice on", tracks[track], e)

# The same ops as in the table, each once, at the same times.
rounding = [0 if s["exact"] else Fraction(1, 10**9) for s in about]


def is_equal(e, index, row):
    unit = IN_MICROSECONDS[row["unit"]]
    near = lambda a, b: abs(a - Fraction(b) * unit) <= rounding[index]
    return near(e["ts"], row["start"]) and near(end(e), row["end"])


seen, ends = Counter(), defaultdict(Fraction)
ops_of, under_way = {}, defaultdict(list)
for row in rows:
    index = next(i for i, s in enumerate(about) if s["name"] == row["schedule"])
    if row["kind"] == "op":
        ops_of[index, int(row["id"])] = row
    elif row["start"] != row["end"]:  # what takes no time has an arrow alone
        under_way[index, row["kind"], row["op"]].append(row)
for e in events:
    if e["ph"] not in "Bi" or e["cat"].split(",")[0] != "op":
        continue
    index = schedule_of[e["pid"]]
    names = e["name"].split(" & ")
    check(len(names) == len(e["args"]["ids"]), "names of an overlap", e)
    for name, op in zip(names, e["args"]["ids"]):
        row = ops_of[index, int(op)]
        seen[index, int(op)] += 1
        check(row["op"] == name and is_equal(e, index, row), "not as in the table:", e, row)
        check(tracks[e["pid"], e["tid"]] == "device " + row["device"], "track", e, row)
        if op == e["args"]["ids"][0]:  # of an overlap the line of its first op
            check(str(e["args"].get("line", "")) == row["line"], "line", e, row)
    ends[index] = max(ends[index], end(e))
    if "waits_for_id" in e["args"]:
        before = ops_of[index, int(e["args"]["waits_for_id"])]
        check(before["op"] == e["args"]["waits_for"], "waits for", e, before)
        check(
            Fraction(before["end"]) * IN_MICROSECONDS[before["unit"]] <= end(e) + rounding[index],
            "waits for what is later:", e, before,
        )
check(seen.keys() == ops_of.keys() and set(seen.values()) <= {1}, "ops not exactly once")

# What is under way, likewise.
moved = Counter()
for e in events:
    if e["ph"] == "B" and e["cat"] in ("message", "collective", "host"):
        index = schedule_of[e["pid"]]
        moved[index] += 1
        same = under_way[index, e["cat"], e["name"]]
        match = [row for row in same if is_equal(e, index, row) and int(row["id"]) == e["args"]["id"]]
        check(len(match) == 1, "not once in the table:", e, same)
        row = match[0]
        unit = IN_MICROSECONDS[row["unit"]]
        waited = (Fraction(row["start"]) - Fraction(row["ready"])) * unit
        check(abs(waited - e["args"].get("queued", 0)) <= rounding[index], "queued", e, row)
        check(waited >= 0, "under way before it is ready", row)
check(sum(moved.values()) == sum(len(same) for same in under_way.values()), "more in the table")

# Causes come first: what makes a value, its message, what uses it; a receive ends behind its message.
starts = {track: [e["ts"] for e in own] for track, own in slices.items()}


def slice_at(e):
    track = e["pid"], e["tid"]
    at = bisect.bisect_right(starts.get(track, []), e["ts"])
    # Not at the edge of a slice, where viewers differ.
    inside = at > 0 and slices[track][at - 1]["ts"] < e["ts"] < end(slices[track][at - 1])
    check(inside, "an arrow ends on no slice", e)
    return slices[track][at - 1]


arrows = defaultdict(list)
for e in events:
    if e["ph"] in "stf":
        arrows[e["id"]].append(e)
for own in arrows.values():
    check([e["ph"] for e in own] in (["s", "f"], ["s", "t", "f"]), "arrow", own)
    check(own[-1]["bp"] == "e" and len({(e["cat"], e["name"]) for e in own}) == 1, "arrow", own)
    held = [slice_at(e) for e in own]
    for a, b in zip(held, held[1:]):
        check(end(a) <= b["ts"], "an effect before its cause:", a, b)
received = 0
for (index, op), row in ops_of.items():
    found = re.match(r"(wait )?recv_(activation|gradient)\((\d+), (\d+)\)$", row["op"])
    if not found:
        continue
    what, stage, m = found[2], int(found[3]), found[4]
    source = stage - 1 if what == "activation" else stage + 1
    for message in under_way[index, "message", f"{what}({source}, {m})"]:
        check(Fraction(row["end"]) >= Fraction(message["end"]), "received before it has arrived:", row, message)
        received += 1

# Counters count, in the order of time; their peaks and the length of the step are those of the figures.
peaks, before = defaultdict(int), {}
for e in events:
    if e["ph"] != "C":
        continue
    check(len(e["args"]) == 1, "counter", e)
    value = next(iter(e["args"].values()))
    check(value >= 0 and value.denominator == 1, "counter", e)
    check(before.get((e["pid"], e["name"]), -1) < e["ts"], "counters go back in time:", e)
    before[e["pid"], e["name"]] = e["ts"]
    key = schedule_of[e["pid"]], e["name"]
    peaks[key] = max(peaks[key], value)
for index, schedule in enumerate(figures):
    step = schedule["figures"]["makespan"]
    length = Fraction(step["exact"]) * IN_MICROSECONDS[step["unit"]]
    check(abs(length - ends[index]) <= rounding[index], "the step takes", length, "and not", ends[index])
    for device in schedule["devices"]:
        for counter, figure in (("activations", "peak_activation"), ("bytes", "peak_memory")):
            if figure in device["figures"]:
                peak = Fraction(device["figures"][figure]["exact"])
                name = f"device {device['device']} {counter}"
                check(peaks[index, name] == peak, name, "peak at", peaks[index, name], "and not", peak)

if len(sys.argv) > 4:
    printed = re.findall(r"^  %(\d+) +(?:& )?(.*?\))", open(sys.argv[4], encoding="utf-8").read(), re.M)
    check(len(printed) == len(ops_of), "ops of dump ir:", len(printed), "and of the trace:", len(ops_of))
    for op, name in printed:
        check(ops_of[0, int(op)]["op"].startswith(name), "op", op, name, ops_of[0, int(op)])

for index, schedule in enumerate(about):
    pid = sorted(processes)[index]
    print(
        f"{schedule['name']}: {sum(1 for i, _ in ops_of if i == index)} ops, {moved[index]} under way, "
        f"{sum(1 for p, _ in tracks if p == pid)} tracks, {sum(own[0]['pid'] == pid for own in arrows.values())} arrows, "
        f"{sum(1 for i, _ in peaks if i == index)} counters, step {ends[index]} us"
    )
print(f"{received} receives behind their messages")
