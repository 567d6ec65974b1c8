"""Imports orders and compares their figures with those in `resim`, to 1e-9 relative: of the order itself, of the
schedule file that `import` prints, and of the JSON that `export` writes.

usage: figures.py FOLDER ORDER...    FOLDER is for what is written. Files without figures, and those that a test of
                                     faults reads, are passed over.
"""

import json
import pathlib
import subprocess
import sys

FIGURES = ("makespan", "idle_fraction", "span_bubble_rate")


def run(*command):
    done = subprocess.run(["sluice", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"sluice {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main(folder, *orders):
    for order in map(pathlib.Path, orders):
        wanted = json.loads(order.read_text())
        if "resim" not in wanted or order.stem in ("dropped", "repeated"):
            continue
        printed, written = pathlib.Path(folder, order.stem + ".sluice"), pathlib.Path(folder, order.stem + ".json")
        printed.write_text(run("import", "json", order))
        written.write_text(run("export", "json", printed))
        ways = 0
        for source in (order, printed, written):
            if not run("check", source).startswith("clean: "):
                sys.exit(f"{source} has findings")
            figures = json.loads(run("simulate", source, "--format", "json"))["schedules"][0]["figures"]
            for name in FIGURES:
                ours, theirs = figures[name]["value"], wanted["resim"][name]
                if abs(ours - theirs) > 1e-9 * max(abs(theirs), 1):
                    sys.exit(f"{source}: {name} is {ours}, retimed {theirs}")
            ways += 1
        print(f"{order.stem}: clean, as retimed, {ways} ways")


main(*sys.argv[1:])
