"""Checks, for each schedule that `sluice list --format json` names, a file that imports and uses it.

usage: used.py JSON
"""

import json
import subprocess
import sys

failed = 0
for entry in json.load(open(sys.argv[1]))["schedules"]:
    text = "\n".join(entry["use"])
    run = subprocess.run(["sluice", "check", "-"], input=text, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0 or not run.stdout.startswith("clean: main at "):
        failed += 1
        print(entry["name"], run.stdout)
print(f"{failed} are not clean" if failed else "all are clean")
