"""The schedules that the tests look at, and pages made from them."""

import os
import subprocess
import sys

# Times by hand: a forward takes 10 ms, a backward 20 ms, a message 1 ms.
FOUR = """import "std/one_f_one_b";
param P = 4;
param M = 8;
model even { stages = P; forward = 10 ms; backward = 20 ms; activation = 1 GiB; boundary = 0 B; }
cluster { link { latency = 1 ms; bandwidth = 50 GB/s; } }
training { microbatches = M; }
schedule main = one_f_one_b(P, M);
"""
SEVERAL = """import "std/gpipe";
import "std/interleaved_pytorch";
schedule gpipe4 = gpipe(4, 8);
schedule interleaved = interleaved_pytorch(4, 8, v = 2);
"""
FUSED = """schedule main {
  place s in 0..2 on s for m in 0..3;
  device 0 { forward(0); forward(1); forward(2); backward(0); backward(1); backward(2); reduce; update; }
  device 1 { forward(0); overlap { forward(1); backward(0); } overlap { forward(2); backward(1); } backward(2); reduce; update; }
}
"""
LARGE = """import "std/one_f_one_b";
model even { stages = 64; forward = 10 ms; backward = 20 ms; activation = 1 GiB; boundary = 100 MiB; }
cluster { link { latency = 50 us; bandwidth = 50 GB/s; } }
training { microbatches = 1024; }
schedule main = one_f_one_b(64, 1024);
"""
QUEUES = """queue steady { backlog = 4; arrival = 4 /s; service = 4 /s; step = 0.5 s; }
queue stopped { backlog = 4; arrival = 0; service = 4 /s; step = 0.5 s; }
queue thirds { backlog = 1; arrival = 0; service = 1/3 /s; step = 0.1 s; }
"""


def page(folder, name, text, *options, command="simulate"):
    """Path of the page that the tool makes of a schedule file."""
    source, made = os.path.join(folder, name + ".sluice"), os.path.join(folder, name + ".html")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run([TOOL, command, source, "-o", made, *options], check=True, stdout=subprocess.DEVNULL)
    return made


TOOL = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "sluice"
