"""Reads what `sluice sweep` wrote and holds it against something else.

usage: read_sweep.py SWEEP.json FILE.sluice   figures of each row against `sluice simulate` at its setting
       read_sweep.py SWEEP.json SWEEP.csv     the same rows, number for number
       read_sweep.py SWEEP.json SWEEP.svg     the bars of the plot against the numbers
       read_sweep.py SWEEP.json               the parts of each step, in milliseconds
"""

import csv
import json
import subprocess
import sys
import xml.etree.ElementTree as xml
from fractions import Fraction

PARTS = ("kernel", "bubble", "transfer")


def exact(number):
    value = Fraction(number["exact"])
    assert float(value) == number["value"], number
    return value


def split(times):
    total, *parts = (exact(times[name]) for name in ("total", *PARTS))
    assert sum(parts) == total, times
    return total, *parts


def against_simulate(sweep, file):
    simulated = refused = changes = 0
    rows = {tuple(sorted(row["parameters"].items())): row for row in sweep["rows"]}
    for row in sweep["rows"]:
        settings = [word for name, value in row["parameters"].items() for word in ("-D", f"{name}={value}")]
        run = subprocess.run(
            ["sluice", "simulate", file, "--format", "json", *settings], capture_output=True, text=True
        )
        if "refused" in row:
            assert run.returncode == 1 and row["refused"].split(" [")[0] in run.stderr, row
            refused += 1
            continue
        (schedule,) = [s for s in json.loads(run.stdout)["schedules"] if s["name"] == row["schedule"]]
        figures = schedule["figures"]
        peaks = [device["figures"]["peak_memory"] for device in schedule["devices"]]
        figures["peak_memory"] = max(peaks, key=lambda peak: peak["value"])
        for name, number in row["figures"].items():
            assert number == figures[name], (row, name, number, figures[name])
        samples = row["batch"]
        makespan, ideal, exposed = (exact(figures[n]) for n in ("makespan", "ideal", "transfer_exposed"))
        times = split(row["time_per_sample"])
        assert times == (makespan / samples, ideal / samples, (makespan - exposed - ideal) / samples, exposed / samples)
        assert row["fits"] == (exact(row["headroom"]) >= 0)
        simulated += 1
        if "change" in row:
            name, value = row["against"].split("=")
            before = rows[tuple(sorted({**row["parameters"], name: int(value)}.items()))]
            was = split(before["time_per_sample"])
            assert split(row["change"]) == tuple(now - then for now, then in zip(times, was))
            changes += 1
    print(f"{simulated} rows as simulated, {refused} refused, {changes} changes add up")


def against_csv(sweep, path):
    lines = list(csv.DictReader(open(path, newline="")))
    assert len(lines) == len(sweep["rows"])
    for line, row in zip(lines, sweep["rows"]):
        expected = {"schedule": row["schedule"], "held": sweep["hold"], "refused": row.get("refused", "")}
        expected |= {name: str(value) for name, value in row["parameters"].items()}
        if "refused" not in row:
            expected |= {"batch": str(row["batch"]), "fits": "yes" if row["fits"] else "no"}
            expected["samples_per_microbatch"] = repr(row["samples"]["mean"]["value"]).removesuffix(".0")
            expected["against"] = row.get("against", "")
            for name, number in row["figures"].items():
                unit = number["unit"]
                title = name if unit == "1" else name + "_" + (f"per_{unit[2:]}" if "/" in unit else unit)
                assert float(line[title]) == number["value"], (line, title)
            for prefix, key in (("sample_time", "time_per_sample"), ("change", "change")):
                for part, number in row.get(key, {}).items():
                    assert float(line[f"{prefix}_{part}_{number['unit']}"]) == number["value"]
        else:
            assert all(value == "" for name, value in line.items() if name not in expected), line
        for name, value in expected.items():
            assert line[name] == value, (line, name, value)
    print(f"{len(lines)} lines as in the JSON")


def against_svg(sweep, path):
    space = "{http://www.w3.org/2000/svg}"
    root = xml.parse(path).getroot()
    bars = {kind: [] for kind in ("rate", *PARTS)}
    for bar in root.iter(space + "rect"):
        if bar.get("class") in bars and bar.get("height") != "12":  # 12: those of the legend
            bars[bar.get("class")].append(float(bar.get("width")))
    labels = [text.text for text in root.iter(space + "text") if text.get("class") == "label"]
    ran = [row for row in sweep["rows"] if "refused" not in row]
    assert labels == [", ".join(f"{n}={v}" for n, v in row["parameters"].items()) for row in sweep["rows"]]

    def same_scale(lengths, values):
        # Ends are rounded to hundredths of a pixel.
        scale = max(lengths) / max(values)
        for length, value in zip(lengths, values):
            assert abs(length - value * scale) < 0.03, (length, value * scale)
        return scale

    rates = same_scale(bars["rate"], [row["figures"]["throughput"]["value"] for row in ran])
    scales = []
    for part in PARTS:
        values = [row["time_per_sample"][part]["value"] for row in ran]
        shown = [value for value in values if value > 0]
        assert len(bars[part]) == len(shown)
        scales.append(same_scale(bars[part], shown))
    assert rates > 0 and max(scales) / min(scales) < 1.01
    print(f"{len(labels)} rows, {len(bars['rate'])} bars of throughput, parts of {len(ran)} times as long as they are")
    words = " ".join(text.text for text in root.iter(space + "text"))
    assert "throughput, samples/s: batch ÷ makespan" in words and "time per sample, ms: makespan ÷ batch" in words
    for part in PARTS:
        assert f"{part}: " in words
    print("axes say their unit and denominator")


def parts_of_steps(sweep):
    for row in sweep["rows"]:
        per_ms = {"us": 1000, "ms": 1}[row["figures"]["ideal"]["unit"]]
        _, *parts = (float(time * row["batch"] / per_ms) for time in split(row["time_per_sample"]))
        words = " + ".join(f"{name} {part}" for name, part in zip(PARTS, parts))
        print(f"M={row['parameters']['M']}: {words}, ideal {float(exact(row['figures']['ideal']) / per_ms)} ms")


def main(sweep, other=None):
    sweep = json.load(open(sweep))
    assert sweep["version"] == 1
    if other is None:
        return parts_of_steps(sweep)
    read = {"sluice": against_simulate, "csv": against_csv, "svg": against_svg}
    read[other.rsplit(".", 1)[1]](sweep, other)


main(*sys.argv[1:])
