#!/usr/bin/env python3
"""Writes orders/*.txt from a folder of orders that other systems' own generators printed.

usage: compact.py FOLDER

FOLDER holds one JSON a schedule (source, params, cost, comm, order, resim, peak_mem_units_Ma_over_P),
PyTorch CSVs, DeepSpeed instruction lists and Chimera's step tables, all made once by running the systems
named as `source` (repository@commit); those runs are not repeated here. What is kept of each is its order,
its costs and the figures of an independent re-timing; see orders/README for the form.
"""
import csv
import json
import pathlib
import re
import sys
from fractions import Fraction

FOLDER = pathlib.Path(sys.argv[1])
OUT = pathlib.Path(__file__).parent / "orders"
TORCH = "pytorch/pytorch torch.distributed.pipelining 2.14.1"


def number(value):
    """A cost as an exact number: thirds that a double cannot hold come back as fractions."""
    exact = Fraction(value).limit_denominator(1000)
    return str(exact)


def cell_of(kind, microbatch, stage):
    return (kind, int(microbatch), int(stage))


def json_cell(text):
    """`F3@1` or `O[a|b]` as a tuple of ops."""
    body = text[2:-1].split("|") if text.startswith("O[") else [text]
    ops = [re.fullmatch(r"(F|BW|B|W)(\d+)@(\d+)", op).groups() for op in body]
    return tuple(cell_of(*op) for op in ops)


def csv_cell(text):
    """A PyTorch cell as a tuple of ops; empty for what is no compute."""
    kinds = {"F": "F", "I": "B", "W": "W", "B": "BW"}
    body = re.fullmatch(r"\((.*)\)OVERLAP_F_B", text)
    ops = [re.fullmatch(r"(\d+)(F|I|W|B)(\d+)", op) for op in (body[1].split(";") if body else [text])]
    return tuple(cell_of(kinds[op[2]], op[3], op[1]) for op in ops if op)


def op_words(row):
    """Cells as words; a microbatch one above the last of its kind and stage is left out (B and BW are one)."""
    last = {}
    words = []
    for cell in row:
        ops = []
        for kind, microbatch, stage in cell:
            counted = (kind.replace("BW", "B"), stage)
            expected = last.get(counted, -1) + 1
            last[counted] = microbatch
            ops.append(f"{kind}{'' if microbatch == expected else microbatch}@{stage}")
        words.append(ops[0] if len(ops) == 1 else f"O[{'|'.join(ops)}]")
    return words


def fold(words):
    """Repetitions as `(a b)*5`, the most saving period first."""
    out, i = [], 0
    while i < len(words):
        best = (0, 0, 0)
        for period in range(1, min(192, (len(words) - i) // 2) + 1):
            count = 1
            while words[i + count * period : i + (count + 1) * period] == words[i : i + period]:
                count += 1
            best = max(best, ((count - 1) * period, -period, count))
        saved, period, count = best[0], -best[1], best[2]
        if saved < 2 * (period > 1) + 1:
            out.append(words[i])
            i += 1
            continue
        text = " ".join(words[i : i + period])
        out.append(f"({text})*{count}" if period > 1 else f"{text}*{count}")
        i += period * count
    return " ".join(out)


class Writer:
    def __init__(self):
        self.files, self.rows_of = {}, {}

    def add(self, name, source, params, rows, lines=()):
        folder, short = name.split("/", 1)
        text = [f"order {name}", f"source {source}", "params " + " ".join(f"{k}={v}" for k, v in params.items())]
        text += lines
        body = [f"{d}: " + fold(op_words(row)) for d, row in enumerate(rows)]
        key = "\n".join(body)
        if key in self.rows_of and self.rows_of[key].split("/")[0] == folder:
            text.append(f"as {self.rows_of[key]}")
        else:
            self.rows_of[key] = name
            text += body
        self.files.setdefault(folder, []).append("\n".join(text) + "\n")

    def write(self):
        for folder, blocks in self.files.items():
            (OUT / f"{folder}.txt").write_text("\n".join(blocks))


def add_json(writer, name, data):
    source = data["source"].split(" (")[0]
    source = " ".join(source.split()[:3]) if "@" in source.split()[0] else data["source"].split(" (")[0]
    params = {k: v for k, v in data["params"].items() if isinstance(v, int)}
    if "num_chunks" in params:
        params["M"] = params.pop("num_chunks")
        params.pop("per_direction", None)
    for key in ("mem_f", "mem_b", "mem_w", "max_mem", "mem_limit_MB", "T_F", "T_B", "T_W", "T_comm"):
        params.pop(key, None)
    lines = []
    cost = data["cost"]
    overlap = cost.get("O")
    costs = [number(cost[k]) for k in "FBW"] + ["-" if overlap is None else number(overlap), number(data["comm"])]
    lines.append("cost " + " ".join(costs))
    if data["resim"]:
        figures = data["resim"]
        if "makespan" in figures:
            names = ("makespan", "idle_fraction", "overhead_ratio", "span_bubble_rate")
            lines.append("figures " + " ".join(repr(figures[n]) for n in names))
            lines.append("idle " + fold([repr(i).removesuffix(".0") for i in figures["idle_per_device"]]))
    peaks = data["peak_mem_units_Ma_over_P"]
    for key, word in (("free_at_W", "peak_at_w"), ("free_at_B", "peak_at_b")):
        if peaks and peaks.get(key):
            lines.append(f"{word} " + " ".join(repr(p).removesuffix(".0") for p in peaks[key]))
    writer.add(name, source, params, [[json_cell(c) for c in row] for row in data["order"]], lines)


def add_csv(writer, name, path):
    words = path.stem.split("_")
    if words[0] == "zb1p":
        params = {"P": 2, "M": 8, "v": 2}
    else:
        params = dict(zip(("P", "M", "v"), words[1:4]))
    rows = list(csv.reader(path.open(newline="")))
    cells = [[csv_cell(c) for c in row if c.strip()] for row in rows if any(row)]
    writer.add(name, TORCH, params, [[c for c in row if c] for row in cells])


def add_instructions(writer, name, path):
    """DeepSpeed names buffers: the n-th forward of a stage is microbatch n, and so on for each instruction."""
    kinds = {
        "ForwardPass": "F",
        "BackwardPass": "BW",
        "SendActivation": "SA",
        "RecvActivation": "RA",
        "SendGrad": "SG",
        "RecvGrad": "RG",
    }
    devices = json.loads(path.read_text())
    found = re.fullmatch(r"instructions_P(\d+)_M(\d+)", path.stem)
    rows = []
    buffers = []
    for stage, steps in enumerate(devices):
        counts = {}
        row, held = [], []
        for word in (word for step in steps for word in step):
            match = re.fullmatch(r"(\D+)(\d+)", word)
            if match and match[1] in kinds:
                count = counts[match[1]] = counts.get(match[1], -1) + 1
                row.append((cell_of(kinds[match[1]], count, stage),))
                held.append(match[2])
        rows.append(row)
        buffers.append(f"buffers {stage}: " + fold(held))
    writer.add(name, "microsoft/DeepSpeed@38327e07 runtime/pipe/schedule.py", {"P": found[1], "M": found[2]}, rows, buffers)


def add_steps(writer, name, path):
    """Chimera's table names a unit and a direction: `2@down@f` is the next forward of that direction."""
    data = json.loads(path.read_text())
    P = data["P"]
    rows = []
    for device in range(P):
        counts, row = {}, []
        for step in data["steps"]:
            if not step[device] or step[device].endswith("@s"):
                continue
            unit, direction, kind = step[device].split("@")
            up = direction == "up"
            index = counts.get((direction, kind), 0)
            counts[direction, kind] = index + 1
            row.append((cell_of("F" if kind == "f" else "BW", 2 * index + up, P - 1 - device if up else device),))
        rows.append(row)
    writer.add(name, data["source"].split()[0], {"P": P, "M": data["M"]}, rows)


def add_blocks(writer, name, path):
    """Tessel's blocks, at most one device each: `gid` counts the forwards of a microbatch, then its backwards."""
    data = json.loads(path.read_text())
    if any(len(b["device"]) != 1 for b in data["blocks"]) or "vshape" not in name:
        return name
    P = data["ndevs"]
    rows = [[] for _ in range(P)]
    for b in sorted(data["blocks"], key=lambda b: b["step"]):
        stage = b["gid"] if b["btype"] == "forward" else 2 * P - 1 - b["gid"]
        rows[b["device"][0]].append((cell_of("F" if b["btype"] == "forward" else "BW", b["mid"], stage),))
    M = 1 + max(b["mid"] for b in data["blocks"])
    writer.add(name, "microsoft/Tessel", {"P": P, "M": M}, rows)
    return None


def add_jaxpp_interleaved_gpipe(writer, P, M):
    """The rule read from JaxPP's InterleavedGPipe.tasks: its second half advances the counter of the first, so
    each device repeats one backward to the end of the table."""
    rows = []
    for device in range(P):
        row = []
        for count in range(2 * M):
            group, place = divmod(count, 2 * P)
            row.append((cell_of("F", group * P + place % P, device + place // P * P),))
        row += [(cell_of("BW", 0, device + P),)] * (2 * M + device)
        rows.append(row)
    source = "NVIDIA/jaxpp@cf9e3862 schedules.py InterleavedGPipe.tasks, re-derived by reading"
    writer.add(f"jaxpp/JaxPP-InterleavedGPipe_P{P}_M{M}_v2", source, {"P": P, "M": M, "v": 2}, rows)


def main():
    OUT.mkdir(exist_ok=True)
    writer = Writer()
    unread = []
    for path in sorted(FOLDER.rglob("*")):
        name = str(path.relative_to(FOLDER).with_suffix(""))
        if path.suffix == ".csv":
            add_csv(writer, name, path)
        elif path.suffix != ".json":
            continue
        elif path.stem.startswith("instructions_"):
            add_instructions(writer, name, path)
        elif path.stem.startswith("chimera_steps"):
            add_steps(writer, f"chimera/{name}", path)
        elif path.parent.name == "tessel" and path.stem != "summary":
            unread += filter(None, [add_blocks(writer, name, path)])
        else:
            data = json.loads(path.read_text())
            if isinstance(data, dict) and "order" in data:
                add_json(writer, name, data)
    add_jaxpp_interleaved_gpipe(writer, 4, 8)
    writer.write()
    if unread:
        print("no order of one device an op:", *unread, sep="\n  ")


main()
