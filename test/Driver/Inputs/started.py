"""Checks the starter file of each schedule that `sluice list --format json` names: clean as it is, and with
one finding, the expectation's, once it asks for half the idle fraction.

usage: started.py JSON
"""

import json
import re
import subprocess
import sys


def check(text):
    return subprocess.run(["sluice", "check", "-"], input=text, stdout=subprocess.PIPE, text=True)


failed = []
for entry in json.load(open(sys.argv[1]))["schedules"]:
    text = subprocess.run(
        ["sluice", "init", "--schedule", entry["name"]], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    run = check(text)
    if run.returncode != 0 or not run.stdout.startswith("clean: main at "):
        failed.append((entry["name"], run.stdout))
    idle = int(re.search(r"idle_fraction <= (\d+)%", text)[1])
    if idle > 1 and check(text.replace(f"<= {idle}%", f"<= {idle // 2}%")).returncode != 1:
        failed.append((entry["name"], "an idle fraction that nobody reaches is not missed"))
print(failed if failed else "every starter is clean, none at half its idle fraction")
