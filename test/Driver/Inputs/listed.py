"""What `sluice list --format json` says, against the files of the library.

usage: listed.py JSON FOLDER
"""

import json
import pathlib
import re
import sys

listed = json.load(open(sys.argv[1]))["schedules"]
names = [entry["name"] for entry in listed]
declared = {
    (name, f"std/{file.stem}")
    for file in pathlib.Path(sys.argv[2]).glob("*.sluice")
    for name in re.findall(r"(?:^///.*\n)^schedule (\w+)", file.read_text(), re.MULTILINE)
}
missing = declared ^ {(entry["name"], entry["import"]) for entry in listed}
in_order = names == sorted(names)
print("every schedule of the library is listed, in order" if not missing and in_order else f"not so: {missing}")
lacking = [
    entry["name"]
    for entry in listed
    if not (entry["summary"].endswith(".") and entry["parameters"] and "idle_fraction" in entry["figures"])
]
print(f"not so: {lacking}" if lacking else "every one has a summary, parameters and figures")
entry = listed[names.index("one_f_one_b")]
parameters = ", ".join(f"{p['name']} = {p['default']}" for p in entry["parameters"])
figures = ", ".join(
    f"{name} {entry['figures'][name]['exact']}" for name in ("idle_fraction", "overhead_ratio", "peak_activation")
)
print(f"one_f_one_b: {parameters}; {figures}")
