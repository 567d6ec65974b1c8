"""Runs the commands that guides show and compares what they print with what the guide says.

A shown command is a block of language `text` whose first line is `$ sluice ...`; the lines below it are its
output, standard error included. Blanks at the ends of lines do not count.

usage: shown_commands.py FOLDER GUIDE...    FOLDER is where the commands run.
"""

import pathlib
import re
import shlex
import subprocess
import sys

BLOCK = re.compile(r"^```text\n\$ (sluice .*)\n((?:.*\n)*?)```$", re.MULTILINE)


def trimmed(text):
    return [line.rstrip() for line in text.rstrip("\n").split("\n")]


def main(folder, *guides):
    shown = failed = 0
    for guide in guides:
        for command, expected in BLOCK.findall(pathlib.Path(guide).read_text()):
            shown += 1
            run = subprocess.run(
                shlex.split(command), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            if trimmed(run.stdout) != trimmed(expected):
                failed += 1
                print(f"{pathlib.Path(guide).name}: $ {command}\nprints\n{run.stdout}but the guide says\n{expected}")
    print(f"{shown} commands shown, {failed} print something else")
    return failed > 0


sys.exit(main(*sys.argv[1:]))
