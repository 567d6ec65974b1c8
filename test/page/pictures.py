"""Makes the pictures of docs/page.md again: pictures.py PATH-OF-SLUICE FOLDER."""

import os
import sys
import tempfile

import browser
import inputs

# Of docs/page.md.
SHOWN = """import "std/one_f_one_b";
param P = 4;
param M = 8;
model even {
  stages = P; forward = 10 ms; backward = 20 ms; activation = 3 GiB; boundary = 100 MiB; weights = 2 GiB;
}
cluster { link { latency = 50 us; bandwidth = 50 GB/s; } }
training { microbatches = M; }
schedule main = one_f_one_b(P, M);
"""
DUAL = """import "std/dualpipe";
model even {
  stages = 8; forward = 10 ms; backward = 25 ms; backward_input = 13 ms; backward_weight = 12 ms;
  activation = 3 GiB; boundary = 100 MiB;
}
cluster { link { latency = 50 us; bandwidth = 50 GB/s; } }
training { microbatches = 20; }
schedule main = dualpipe(8, 20);
"""


def main(target):
    os.makedirs(target, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser.Browser(1180, 690) as window:

        def middle(op):
            box = window.run("return timeline.place(arguments[0])", op)
            return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

        window.open(inputs.page(folder, "main", SHOWN))
        for button in ("#critical", "#memory", "#transfers"):
            window.click(button)
        window.click_at(*middle("backward(1, 2)"))
        window.move(20, 680)
        window.screenshot(os.path.join(target, "page.png"))
        window.open(inputs.page(folder, "main", DUAL))
        window.click("#theme")
        window.size(1180, 720)
        window.wheel(*middle("forward(5, 3)"), -120)
        window.move(*middle("forward(3, 6)"))
        window.screenshot(os.path.join(target, "page-dark.png"))


if __name__ == "__main__":
    main(sys.argv[1])
