"""Dumps schedules as Sluice text, reads that text again, and compares both IRs but for places and loop indices.

Usage: dumped_again.py FOLDER SCRATCH. Every schedule in the files of FOLDER is taken at several P and M; settings that
its `require`s refuse are passed over. Prints how many were compared, and each difference.
"""

import pathlib
import re
import subprocess
import sys

SETTINGS = [(1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (3, 6), (5, 20), (8, 16)]


def sluice(*arguments):
    return subprocess.run(["sluice", *map(str, arguments)], capture_output=True, text=True)


def without_places(ir):
    return re.sub(r"  at \d+:\d+.*", "", ir)


def main():
    folder, scratch = map(pathlib.Path, sys.argv[1:])
    compared, differences = 0, []
    for path in sorted(folder.glob("*.sluice")):
        for name, parameters in re.findall(r"^schedule (\w+)\((.*?)\)", path.read_text(), re.M):
            for stages, microbatches in SETTINGS:
                setting = ["--schedule", name, "-D", f"P={stages}"]
                if re.search(r"\bM\b", parameters):
                    setting += ["-D", f"M={microbatches}"]
                original = sluice("dump", "ir", path, *setting)
                if "[require-failed 107]" in original.stderr:
                    continue
                scratch.write_text(sluice("dump", "sluice", path, *setting).stdout)
                again = sluice("dump", "ir", scratch)
                compared += 1
                if original.returncode or without_places(original.stdout) != without_places(again.stdout):
                    differences.append(f"{name} at P={stages}, M={microbatches}: {original.stderr}{again.stderr}")
    print(f"{compared} compared, {len(differences)} differ")
    print("\n".join(differences))


main()
