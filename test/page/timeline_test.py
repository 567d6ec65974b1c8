"""The page of `sluice simulate -o FILE.html` in a real browser: timeline_test.py PATH-OF-SLUICE [TEST...]."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import browser
import inputs


class TimelineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.four = inputs.page(cls.folder, "four", inputs.FOUR)
        cls.browser = cls.enterClassContext(browser.Browser())

    def setUp(self):
        self.browser.size(1280, 860)
        self.browser.media(prefers_color_scheme="light")
        self.browser.complaints()

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [], "the console complains")

    def show(self, page):
        seconds = self.browser.open(page)
        self.assertEqual(self.browser.complaints(), [])
        return seconds

    def state(self):
        return self.browser.run("return timeline.state()")

    def place(self, op, chart=0):
        """Left edge, middle, and both widths of an op in the window."""
        box = self.browser.run("return timeline.place(arguments[0], arguments[1])", op, chart)
        self.assertIsNotNone(box, f"{op} is not shown")
        return box["x"], box["y"] + box["height"] / 2, box["width"], box["height"]

    def hover(self, op, chart=0):
        x, y, width, _ = self.place(op, chart)
        self.browser.move(x + width / 2, y)

    def click_op(self, op):
        x, y, width, _ = self.place(op)
        self.browser.click_at(x + width / 2, y)

    def described(self, css="#tip"):
        """Title and rows of the hover box or the panel."""
        rows = self.browser.run(
            "const box = document.querySelector(arguments[0]);"
            "return box.hidden ? null : [box.querySelector('strong, h2').textContent,"
            " [...box.querySelectorAll('dt')].map(dt => [dt.textContent, dt.nextSibling.textContent])]",
            css,
        )
        return rows and (rows[0], dict(rows[1]))

    def color(self, op):
        """What the canvas shows near the lower left corner of an op."""
        return self.browser.run(
            "const box = timeline.place(arguments[0]), canvas = document.querySelector('canvas.base');"
            "const at = canvas.getBoundingClientRect(), copy = document.createElement('canvas').getContext('2d');"
            "copy.drawImage(canvas, at.left - box.x - 3, at.top - box.y - box.height + 5, at.width, at.height);"
            "const [r, g, b] = copy.getImageData(0, 0, 1, 1).data;"
            "return '#' + [r, g, b].map(part => part.toString(16).padStart(2, '0')).join('')",
            op,
        )

    def test_stands_alone(self):
        self.show(self.four)
        loaded = self.browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
        self.assertEqual([name for name in loaded if not name.startswith("data:")], [])
        self.assertEqual(self.state()["charts"][0]["ops"], 2 * 4 * 8 + 8)

    def test_caption_and_figures(self):
        self.show(self.four)
        self.assertEqual(self.browser.text("h2"), "main P=4, M=8")
        tiles = self.browser.text(".tiles")
        for part in ("idle fraction bubble ÷ elapsed", "overhead ratio bubble ÷ ideal", "makespan"):
            self.assertIn(part, tiles)
        self.assertIn("Modeled, not measured", self.browser.text(".schedule"))
        heads = self.browser.run("return [...document.querySelectorAll('thead')].map(head => head.textContent)")
        self.assertTrue(heads[0].startswith("devicebusy") and heads[1].startswith("stagein flight"), heads)
        rows = self.browser.run("return document.querySelectorAll('table.figures')[1].tBodies[0].rows.length")
        self.assertEqual(rows, 4)

    def test_hover_says_what_and_when(self):
        self.show(self.four)
        self.hover("backward(0, 0)")
        title, rows = self.described()
        self.assertEqual(title, "backward(0, 0)")
        self.assertEqual((rows["start"], rows["end"], rows["duration"]), ("106 ms", "126 ms", "20 ms"))
        self.assertEqual((rows["device"], rows["stage"], rows["microbatch"]), ("0", "0", "0"))
        self.assertEqual(rows["waits for"], "backward(1, 0) on device 1 (gradient), then 1 ms under way")
        self.assertEqual(rows["memory"], "4 GiB from its start")
        self.assertRegex(rows["line"], r"^std/one_f_one_b:\d+$")
        self.hover("forward(0, 0)")
        title, rows = self.described()
        self.assertEqual((title, rows["start"], rows["slack"]), ("forward(0, 0)", "0 ms", "0 ms"))
        self.assertEqual(rows["waits for"], "nothing: starts at time 0")
        self.hover("forward(0, 3)")
        title, rows = self.described()
        self.assertEqual(rows["waits for"], "forward(0, 2), before it on the device")
        self.assertNotEqual(rows["slack"], "0 ms")

    def test_hover_over_idle_time(self):
        self.show(self.four)
        x, y, _, _ = self.place("backward(0, 0)")
        self.browser.move(x - 5, y)
        title, rows = self.described()
        self.assertEqual((title, rows["from"], rows["to"]), ("idle", "40 ms", "106 ms"))
        self.assertEqual(rows["until"], "backward(0, 0)")
        self.browser.move(30, y)
        self.assertIsNone(self.described(), "beside the picture nothing is described")

    def test_search(self):
        self.show(self.four)
        self.browser.type("#wanted", "reduce(2)\ue007")
        self.assertEqual((self.state()["chosen"], self.browser.text("#found")), ("reduce(2)", "1 of 1"))
        self.browser.run("document.querySelector('#wanted').value = ''")
        self.browser.type("#wanted", "Backward( 1,\ue007\ue007")
        self.assertEqual((self.state()["chosen"], self.browser.text("#found")), ("backward(1, 1)", "2 of 8"))
        self.browser.run("document.querySelector('#wanted').value = ''")
        self.browser.type("#wanted", "forward(9, 9)\ue007")
        self.assertEqual(self.browser.text("#found"), "no such op")

    def test_wheel_zooms_about_the_pointer(self):
        self.show(self.four)
        x, y, width, _ = self.place("forward(2, 3)")
        self.browser.wheel(x, y, -400)
        after, _, wider, _ = self.place("forward(2, 3)")
        self.assertGreater(wider, 1.5 * width)
        self.assertLess(abs(after - x), 1.5)
        self.assertFalse(self.state()["views"][0]["isWhole"])
        for _ in range(4):
            self.browser.wheel(x, y, 400)
        self.assertTrue(self.state()["views"][0]["isWhole"], "zooming out ends at the whole")

    def test_drag_and_keys_move(self):
        self.show(self.four)
        x, y, width, _ = self.place("forward(2, 3)")
        self.browser.wheel(x, y, -400)
        x, y, width, _ = self.place("forward(2, 3)")
        self.browser.drag(x, y, 120, 0)
        self.assertAlmostEqual(self.place("forward(2, 3)")[0], x + 120, delta=2)
        self.assertIsNone(self.state()["chosen"], "a drag chooses nothing")
        begin = self.state()["views"][0]
        self.browser.run("document.querySelector('canvas.over').focus()")
        self.browser.type("canvas.over", "\ue014")  # right arrow
        moved = self.state()["views"][0]
        self.assertGreater(moved["from"], begin["from"])
        self.assertAlmostEqual(moved["to"] - moved["from"], begin["to"] - begin["from"], delta=1)
        self.browser.type("canvas.over", "+")
        self.assertLess(self.state()["views"][0]["to"] - self.state()["views"][0]["from"], moved["to"] - moved["from"])
        self.browser.type("canvas.over", "0")
        self.assertTrue(self.state()["views"][0]["isWhole"])

    def test_click_shows_what_it_needs(self):
        self.show(self.four)
        self.click_op("backward(1, 2)")
        self.assertEqual(self.state()["chosen"], "backward(1, 2)")
        self.assertEqual(self.state()["charts"][0]["arrows"], 3)
        lists = self.browser.run("return [...document.querySelectorAll('#panel ul')].map(list => list.innerText)")
        self.assertIn("backward(2, 2) device 2: gradient, 1 ms under way", lists[0])
        self.assertIn("forward(1, 2) device 1: saved activation", lists[0])
        self.assertIn("backward(0, 2) device 0: gradient, 1 ms under way", lists[1])
        self.browser.click("#panel li button")
        self.assertEqual(self.described("#panel")[0], self.state()["chosen"])
        self.assertNotEqual(self.state()["chosen"], "backward(1, 2)")
        self.browser.type("canvas.over", "\ue00c")  # Escape
        self.assertIsNone(self.state()["chosen"])
        self.assertEqual(self.state()["charts"][0]["arrows"], 0)

    def test_keyboard_alone_reaches_ops(self):
        self.show(self.four)
        right, down = "\ue008\ue014", "\ue008\ue015"  # Shift and an arrow
        self.browser.type("canvas.over", right)
        self.assertEqual(self.state()["chosen"], "forward(0, 0)")
        self.browser.type("canvas.over", right)
        self.assertEqual(self.state()["chosen"], "forward(0, 1)")
        self.browser.type("canvas.over", down)
        self.assertTrue(self.state()["chosen"].startswith("forward(1, "))
        label = self.browser.run("return document.querySelector('canvas.over').getAttribute('aria-label')")
        self.assertTrue(label.startswith("Timeline of main at P=4, M=8, 4 devices, "), label)

    def test_critical_path(self):
        self.show(self.four)
        bright = self.color("backward(0, 7)")
        self.assertEqual(bright, "#eba52a")
        self.assertEqual(self.color("forward(0, 2)"), "#5cafe6")
        self.browser.click("#critical")
        self.assertEqual(self.color("backward(0, 7)"), bright, "the last op is on every critical path")
        self.assertNotEqual(self.color("forward(0, 2)"), "#5cafe6", "what is off it is dim")
        self.assertEqual(
            self.browser.run("return document.querySelector('#critical').getAttribute('aria-pressed')"), "true"
        )
        self.browser.click("#critical")
        self.assertEqual(self.color("forward(0, 2)"), "#5cafe6")

    def test_memory(self):
        self.show(self.four)
        before = self.browser.run("return document.querySelector('canvas.base').clientHeight")
        self.browser.click("#memory")
        self.assertGreater(self.browser.run("return document.querySelector('canvas.base').clientHeight"), before + 40)
        x, y, _, height = self.place("backward(0, 0)")
        self.browser.move(x - 2, y + height / 2 + 12)
        title, rows = self.described()
        self.assertEqual((title, rows["holds"], rows["peak"]), ("memory of device 0", "4 GiB", "4 GiB"))

    def test_transfers(self):
        self.show(self.four)
        self.browser.click("#transfers")
        self.assertEqual(self.state()["charts"][0]["lanes"], 6)
        x, y, width, _ = self.place("forward(0, 0)")
        _, last, _, height = self.place("forward(3, 0)")
        self.browser.move(x + width + 2, last + height / 2 + 4 + 8 + 6)
        title, rows = self.described()
        self.assertEqual(title, "activation of microbatch 0")
        self.assertEqual(rows["from"], "forward(0, 0) on device 0")
        self.assertEqual(rows["to"], "forward(1, 0) on device 1")
        self.assertEqual((rows["under way"], rows["link"]), ("10 ms to 11 ms: 1 ms", "link"))

    def test_opens_as_asked(self):
        self.show(inputs.page(self.folder, "asked", inputs.FOUR, "--critical", "--memory-strip", "--transfers"))
        self.assertEqual(self.state()["shows"], {"critical": True, "memory": True, "transfers": True})
        self.assertEqual(self.state()["charts"][0]["lanes"], 6)
        self.assertNotEqual(self.color("forward(0, 2)"), "#5cafe6")

    def test_light_and_dark(self):
        self.show(self.four)
        page = "return getComputedStyle(document.documentElement).backgroundColor"
        self.assertEqual(self.browser.run(page), "rgb(255, 255, 255)")
        self.browser.media(prefers_color_scheme="dark")
        self.assertEqual(self.browser.run(page), "rgb(18, 22, 28)")
        dark = self.color("forward(0, 0)")
        self.assertNotEqual(dark, "#5cafe6")
        self.browser.click("#theme")
        self.assertEqual(self.browser.run(page), "rgb(255, 255, 255)", "the switch wins over the system")
        self.assertEqual(self.color("forward(0, 0)"), "#5cafe6")

    def test_print(self):
        self.show(self.four)
        self.browser.click("#theme")
        x, y, _, _ = self.place("forward(2, 3)")
        self.browser.wheel(x, y, -400)
        before = self.state()
        pdf = self.browser.pdf()
        self.assertTrue(pdf.startswith(b"%PDF-") and len(pdf) > 20_000, len(pdf))
        self.browser.settle()
        self.assertEqual(self.state(), before, "paper leaves the window as it was")

    def test_several_schedules_share_a_scale(self):
        self.show(inputs.page(self.folder, "several", inputs.SEVERAL))
        self.assertEqual(len(self.state()["charts"]), 2)
        self.assertEqual(len(self.state()["views"]), 1)
        first, second = self.place("forward(0, 0)"), self.place("forward(0, 0)", 1)
        self.assertAlmostEqual(first[2], second[2], delta=0.1)
        self.browser.wheel(first[0] + 5, first[1], -300)
        self.assertGreater(self.place("forward(0, 0)", 1)[2], 1.2 * second[2])
        self.assertTrue(self.browser.run("return document.querySelector('#transfers').disabled"))
        self.hover("forward(0, 2)", 1)
        self.assertEqual(self.described()[1]["duration"], "1 tick")

    def test_fused_ops(self):
        self.show(inputs.page(self.folder, "fused", inputs.FUSED))
        self.hover("backward(1, 0)")
        title, rows = self.described()
        self.assertEqual(title, "backward(1, 0)")
        self.assertEqual(rows["fused"], "forward(1, 1) & backward(1, 0)")
        self.assertEqual((rows["start"], rows["end"]), ("2 ticks", "5 ticks"))

    def test_a_part(self):
        part = inputs.page(self.folder, "part", inputs.FOUR, "--devices", "1..3", "--from", "100ms", "--to", "200ms")
        self.show(part)
        state = self.state()
        self.assertEqual(state["charts"][0]["rows"], 2)
        self.assertEqual((state["views"][0]["from"], state["views"][0]["to"]), (100e6, 200e6))
        self.assertIsNone(self.browser.run("return timeline.place('backward(0, 0)')"))
        self.hover("forward(2, 4)")
        self.assertEqual(self.described()[0], "forward(2, 4)")

    def test_large(self):
        large = inputs.page(self.folder, "large", inputs.LARGE)
        self.assertLess(os.path.getsize(large), 4e6)
        self.assertLess(self.show(large), 8)
        state = self.state()["charts"][0]
        self.assertEqual((state["ops"], state["rows"]), (2 * 64 * 1024 + 128, 64))
        self.assertTrue(state["merged"], "ops are narrower than pixels")
        self.browser.type("#wanted", "forward(30, 500)\ue007")
        state = self.state()
        self.assertEqual((state["chosen"], self.browser.text("#found")), ("forward(30, 500)", "1 of 1"))
        self.assertFalse(state["charts"][0]["merged"])
        x, y, width, height = self.place("forward(30, 500)")
        self.assertGreater(width, 10)
        self.assertTrue(0 < y < 860, "its row is scrolled to")
        self.hover("forward(30, 500)")
        self.assertEqual(self.described()[1]["waits for"].split(",")[0], "forward(29")
        drawn = self.browser.run(
            "const begin = performance.now(); for (let i = 0; i < 20; ++i) timeline.draw(); return performance.now() - begin"
        )
        self.assertLess(drawn / 20, 200, "milliseconds a picture")

    def test_fingers(self):
        self.show(self.four)
        x, y, width, _ = self.place("forward(2, 3)")

        def finger(name, from_x, to_x):
            moves = [{"type": "pointerMove", "duration": 0, "x": round(from_x), "y": round(y)}, {"type": "pointerDown", "button": 0}]
            moves += [{"type": "pointerMove", "duration": 60, "x": round(to_x), "y": round(y)}, {"type": "pointerUp", "button": 0}]
            return {"type": "pointer", "id": name, "parameters": {"pointerType": "touch"}, "actions": moves}

        self.browser.do("POST", "/actions", {"actions": [finger("a", x - 40, x - 120), finger("b", x + 40, x + 120)]})
        self.browser.settle()
        self.assertGreater(self.place("forward(2, 3)")[2], 1.8 * width, "two fingers zoom")
        self.assertIsNone(self.state()["chosen"])
        before = self.place("forward(2, 3)")[0]
        self.browser.do("POST", "/actions", {"actions": [finger("a", x, x - 90)]})
        self.browser.settle()
        self.assertAlmostEqual(self.place("forward(2, 3)")[0], before - 90, delta=3)
        at = self.place("forward(2, 3)")
        self.browser.do("POST", "/actions", {"actions": [finger("a", at[0] + 8, at[0] + 8)]})
        self.browser.settle()
        self.assertEqual(self.state()["chosen"], "forward(2, 3)", "a tap chooses")

    def test_phone(self):
        self.browser.size(360, 740)
        self.show(self.four)
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 360)
        self.click_op("backward(1, 2)")
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 360)
        self.assertEqual(self.described("#panel")[0], "backward(1, 2)")


    def test_every_schedule_of_the_library(self):
        listed = json.loads(subprocess.check_output([inputs.TOOL, "list", "--format", "json"]))
        names = [schedule["name"] for schedule in listed["schedules"]]
        self.assertGreater(len(names), 20)
        for name in names:
            with self.subTest(name):
                start = subprocess.check_output([inputs.TOOL, "init", "--schedule", name], text=True)
                self.show(inputs.page(self.folder, name, start))
                self.browser.click("#critical")
                self.browser.click("#memory")
                self.browser.move(400, 330)
                self.browser.click_at(400, 330)
                said = self.browser.run("return document.body.innerText")
                self.assertNotRegex(said, r"undefined|NaN|Infinity|\[object")
                self.assertEqual(self.browser.complaints(), [])


if __name__ == "__main__":
    if absent := browser.missing():
        print(f"skipped: {' and '.join(absent)} not installed; tools/test installs them")
        sys.exit(77)
    unittest.main(verbosity=2)
