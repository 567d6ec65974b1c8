"""A headless Chromium, driven through chromedriver by the W3C WebDriver protocol (https://www.w3.org/TR/webdriver2/).

Only Python's standard library is used. What the browser can not do raises Fault with its message.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Fault(Exception):
    pass


def missing():
    """Which of the programs is not installed; empty if none."""
    return [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


class Browser:
    def __init__(self, width=1280, height=860, dark=False):
        self.profile = tempfile.TemporaryDirectory(prefix="sluice-page-")
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.session = None
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.base = f"http://127.0.0.1:{found[1]}"
                break
        else:
            raise Fault("chromedriver does not start")
        options = ["--headless=new", "--hide-scrollbars", f"--user-data-dir={self.profile.name}", "--disable-gpu"]
        options += ["--no-first-run", "--disable-dev-shm-usage", "--force-color-profile=srgb"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")
        if dark:
            options.append("--blink-settings=preferredColorScheme=0")
        made = self.call(
            "POST",
            "/session",
            {
                "capabilities": {
                    "alwaysMatch": {
                        "browserName": "chrome",
                        "goog:chromeOptions": {"args": options, "binary": shutil.which("chromium")},
                        "goog:loggingPrefs": {"browser": "ALL"},
                    }
                }
            },
        )
        self.session = made["sessionId"]
        self.size(width, height)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self.call("DELETE", f"/session/{self.session}")
        finally:
            self.driver.terminate()
            self.driver.wait(20)
            self.driver.stdout.close()
            self.profile.cleanup()

    def call(self, method, path, body=None):
        request = urllib.request.Request(
            self.base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise Fault(json.load(error)["value"]["message"]) from None

    def do(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def devtools(self, command, **parameters):
        return self.do("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height):
        """Of what the page gets, in CSS pixels; the window manager's least width does not hold here."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def open(self, path):
        """Seconds until the page has loaded and drawn itself."""
        begin = time.monotonic()
        self.do("POST", "/url", {"url": "file://" + os.path.abspath(path)})
        self.settle()
        return time.monotonic() - begin

    def run(self, script, *arguments):
        return self.do("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def settle(self):
        """Waits until what has been asked for is drawn."""
        self.do(
            "POST",
            "/execute/async",
            {"script": "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done));", "args": []},
        )

    def pointer(self, *actions):
        self.do(
            "POST",
            "/actions",
            {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}]},
        )
        self.settle()

    def move(self, x, y):
        self.pointer({"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)})

    def click_at(self, x, y):
        self.pointer(
            {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        )

    def drag(self, x, y, dx, dy):
        self.pointer(
            {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerMove", "duration": 50, "x": round(x + dx / 2), "y": round(y + dy / 2)},
            {"type": "pointerMove", "duration": 50, "x": round(x + dx), "y": round(y + dy)},
            {"type": "pointerUp", "button": 0},
        )

    def wheel(self, x, y, dy, dx=0):
        scroll = {"type": "scroll", "x": round(x), "y": round(y), "deltaX": dx, "deltaY": dy, "duration": 0}
        self.do("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [scroll]}]})
        self.settle()

    def element(self, css):
        return self.do("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        self.do("POST", f"/element/{self.element(css)}/click", {})
        self.settle()

    def type(self, css, text):
        self.do("POST", f"/element/{self.element(css)}/value", {"text": text})
        self.settle()

    def text(self, css):
        return self.do("GET", f"/element/{self.element(css)}/text")

    def media(self, **features):
        """`prefers_color_scheme="dark"`: as if the reader's system said so."""
        pairs = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.devtools("Emulation.setEmulatedMedia", features=pairs)
        self.settle()

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.do("GET", "/screenshot")))

    def pdf(self):
        return base64.b64decode(self.do("POST", "/print", {"background": True, "orientation": "landscape"}))

    def complaints(self):
        """Messages of the console that are warnings or errors, since the last call."""
        log = self.do("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] in ("WARNING", "SEVERE")]
