"""Traces, tables and graphs of every schedule of the library, over links of their own and over one that all share,
each read by check_trace.py and check_dot.py. Prints how many; exits 1 at the first that is wrong.

    library_traces.py       in a folder for its files
"""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LINKS = {
    "own": "link { latency = 1 ms; bandwidth = 10 GB/s; }",
    "shared": "link { latency = 500 us; bandwidth = 3 GB/s; shared = fifo; lane = 0; } collectives = overlapped;",
}


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"wrong: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


checked = arrows = 0
for entry in json.loads(run("sluice", "list", "--format", "json"))["schedules"]:
    name = entry["name"]
    for kind, link in LINKS.items():
        training = "semantics = asynchronous(staleness <= 64);" if name.startswith("pipedream") else "replicas = 2;"
        with open("x.sluice", "w", encoding="utf-8") as file:
            file.write(
                f'import "{entry["import"]}";\n'
                "model m { forward = 10 ms; backward_input = 11 ms; backward_weight = 9 ms; boundary = 10 MB;\n"
                "  activation = 1 MiB; weights = 1 GiB; gradients = 1 GB; update = 3 ms; }\n"
                f"cluster {{ {link} collective {{ latency = 1 ms; bandwidth = 100 GB/s; }} }}\n"
                f"training {{ {training} }}\n"
                f"schedule main = {name}();\n"
            )
        for suffix in ("trace.json", "csv", "json", "dot"):
            run("sluice", "simulate", "x.sluice", "-o", f"x.{suffix}")
        printed = run(sys.executable, f"{HERE}/check_trace.py", "x.trace.json", "x.csv", "x.json")
        run(sys.executable, f"{HERE}/check_dot.py", "x.dot")
        arrows += int(re.search(r"(\d+) arrows", printed)[1])
        checked += 1
print(f"{checked} traces, {arrows} arrows")
