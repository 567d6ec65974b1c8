"""The page of `sluice queue -o FILE.html` in a real browser: queue_test.py PATH-OF-SLUICE [TEST...]."""

import sys
import tempfile
import unittest

import browser
import inputs


class QueueTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.page = inputs.page(folder, "lab", inputs.QUEUES, command="queue")
        cls.browser = cls.enterClassContext(browser.Browser())

    def setUp(self):
        self.browser.open(self.page)
        self.assertEqual(self.browser.complaints(), [])

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [], "the console complains")

    def choose(self, name):
        self.browser.run(
            "const list = document.querySelector('#queue');"
            "list.value = [...list.options].find(option => option.text === arguments[0]).value;"
            "list.dispatchEvent(new Event('change'))",
            name,
        )

    def set(self, field, text):
        self.browser.run("document.getElementById(arguments[0]).value = ''", field)
        self.browser.type("#" + field, text)

    def bars(self):
        """Value, time and height of each bar."""
        return self.browser.run(
            "return [...document.querySelectorAll('#bars li')].map(bar => [bar.querySelector('.value').textContent,"
            " bar.querySelector('.time').textContent, bar.querySelector('.bar').getBoundingClientRect().height])"
        )

    def now(self):
        return self.browser.text("#now")

    def test_equal_rates_keep_the_backlog(self):
        for _ in range(3):
            self.browser.click("#go")
        self.assertEqual([bar[0] for bar in self.bars()], ["4", "4", "4", "4"])
        self.assertEqual(self.now(), "after 1.5 s: backlog 4")
        self.assertEqual(self.browser.text("#meaning"), "The backlog stays: as much arrives as is served.")

    def test_two_half_steps_drain_it(self):
        self.choose("stopped")
        self.assertEqual(self.browser.text("#meaning"), "Admissions have stopped: the backlog is served in 1 s.")
        self.browser.click("#go")
        self.assertEqual(self.now(), "after 0.5 s: backlog 2")
        self.browser.click("#go")
        self.assertEqual(self.now(), "after 1 s: backlog 0")
        self.browser.click("#go")
        self.assertEqual(self.now(), "after 1.5 s: backlog 0", "never below nothing")
        heights = [bar[2] for bar in self.bars()]
        self.assertAlmostEqual(heights[1], heights[0] / 2, delta=1)
        self.assertLessEqual(heights[2], 1)

    def test_fractions_do_not_drift(self):
        self.choose("thirds")
        for _ in range(29):
            self.browser.click("#go")
        self.assertEqual(self.now(), "after 2.9 s: backlog 1/30")
        self.browser.click("#go")
        self.assertEqual(self.now(), "after 3 s: backlog 0")

    def test_inputs_and_reset(self):
        self.set("arrival", "6")
        self.browser.click("#go")
        self.assertEqual(self.now(), "after 0.5 s: backlog 5")
        self.assertEqual(self.browser.text("#meaning"), "The backlog grows: more arrives than is served.")
        self.browser.click("#stop")
        self.browser.click("#go")
        self.assertEqual(self.now(), "after 1 s: backlog 3")
        self.browser.click("#reset")
        self.assertEqual((self.now(), len(self.bars())), ("after 0 s: backlog 4", 1))
        self.assertEqual(self.browser.run("return document.querySelector('#arrival').value"), "4")

    def test_what_is_no_number(self):
        self.set("step", "0")
        self.browser.click("#go")
        self.assertEqual(self.browser.text("#fault"), "step is 0: a number such as 4, 0.5 or 1/3, above 0")
        self.assertEqual(len(self.bars()), 1)
        self.set("step", "0.25")
        self.browser.click("#go")
        self.assertEqual(self.now(), "after 0.25 s: backlog 4")
        self.set("service", "-1")
        self.assertEqual(self.browser.text("#fault"), "service is -1: a number such as 4, 0.5 or 1/3, not negative")

    def test_says_why_it_is_no_bubble(self):
        text = self.browser.text("section")
        for part in ("admissions have stopped", "no stages", "forward or backward wave", "must not enter an equation of bubbles"):
            self.assertIn(part, text.replace("\n", " "))


if __name__ == "__main__":
    if absent := browser.missing():
        print(f"skipped: {' and '.join(absent)} not installed; tools/test installs them")
        sys.exit(77)
    unittest.main(verbosity=2)
