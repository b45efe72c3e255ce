"""A real browser for tests: Chromium without a window, driven through chromedriver's HTTP interface on the loopback.

`no_browser` says in words why none can be started here, and the tests skip with these words.
"""

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

# The name under which the protocol hands out elements.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# Control and V.
PASTE = "\ue009v"
FLAGS = [
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
# Nothing here leaves the machine, whatever proxies the environment names.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def chromium():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")


def no_browser():
    """Why no browser can be started here; empty if one can."""
    if not chromium():
        return "no Chromium is installed"
    return "" if shutil.which("chromedriver") else "chromedriver is not installed"


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def ask(address, method, body=None):
    """One request of the protocol; a refusal becomes an error with the browser's words."""
    content = json.dumps(body if body is not None else {}).encode() if method == "POST" else None
    request = urllib.request.Request(address, content, {"Content-Type": "application/json"}, method=method)
    try:
        with direct.open(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as refused:
        with refused:
            raise AssertionError(json.load(refused)["value"]["message"]) from None


class Browser:
    """One window. Elements are named by CSS selectors; clicks and keys are those of a person."""

    def __init__(self, session, folder):
        self.session = session
        # Pages go in here, downloads come out of it.
        self.folder = Path(folder)
        self.downloads = self.folder / "downloads"

    def open(self, page, name="form.html"):
        """Open a page as respondents do: as a file."""
        file = self.folder / name
        file.write_text(page, encoding="utf-8")
        ask(f"{self.session}/url", "POST", {"url": file.as_uri()})

    def address(self):
        return ask(f"{self.session}/url", "GET")

    def run(self, script, *arguments):
        """What a piece of JavaScript in the page returns; a guarantee is waited for."""
        return ask(f"{self.session}/execute/sync", "POST", {"script": script, "args": list(arguments)})

    def _element(self, selector):
        found = ask(f"{self.session}/element", "POST", {"using": "css selector", "value": selector})
        return f"{self.session}/element/{found[ELEMENT]}"

    def click(self, selector):
        ask(f"{self._element(selector)}/click", "POST")

    def type(self, selector, text):
        ask(f"{self._element(selector)}/value", "POST", {"text": text})

    def text(self, selector):
        return ask(f"{self._element(selector)}/text", "GET")

    def shown(self, selector):
        return ask(f"{self._element(selector)}/displayed", "GET")

    def wait_for(self, selector, text, seconds=10.0):
        """Until an element says something."""
        end = time.monotonic() + seconds
        while self.text(selector) != text:
            assert time.monotonic() < end, f"{selector} says {self.text(selector)!r}"
            time.sleep(0.02)

    def tell(self, command, **parameters):
        """A command of the browser's own protocol."""
        return ask(f"{self.session}/goog/cdp/execute", "POST", {"cmd": command, "params": parameters})

    @contextlib.contextmanager
    def before_pages(self, script):
        """JavaScript that runs in every page before its own."""
        number = self.tell("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
        try:
            yield
        finally:
            self.tell("Page.removeScriptToEvaluateOnNewDocument", identifier=number)

    def downloaded(self, seconds=10.0):
        """The one file that was downloaded; it is removed from the folder of downloads."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            files = list(self.downloads.glob("*.csv"))
            if len(files) == 1 and not list(self.downloads.glob("*.crdownload")):
                return files[0].rename(self.folder / files[0].name)
            time.sleep(0.02)
        raise AssertionError("nothing was downloaded")

    def screenshot(self, path, width=1000, height=900):
        """A picture of the whole page at some width, for people."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        picture = self.tell("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        Path(path).write_bytes(base64.b64decode(picture))
        self.tell("Emulation.clearDeviceMetricsOverride")


@contextlib.contextmanager
def browser():
    """A browser that lives as long as the block, with a profile of its own in a temporary folder."""
    folder = tempfile.mkdtemp(prefix="dpsurvey-browser-")
    port = free_port()
    driver = subprocess.Popen(
        [shutil.which("chromedriver"), f"--port={port}"],
        cwd=folder,
        env=os.environ | {"HOME": folder},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        server = f"http://127.0.0.1:{port}"
        _wait_for(server, driver)
        # Chromium's sandbox does not work for root.
        flags = [*FLAGS, f"--user-data-dir={folder}/profile"] + ["--no-sandbox"] * (os.geteuid() == 0)
        settings = {"download.default_directory": f"{folder}/downloads", "download.prompt_for_download": False}
        options = {"binary": chromium(), "args": flags, "prefs": settings}
        wanted = {"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}}
        session = f"{server}/session/{ask(f'{server}/session', 'POST', wanted)['sessionId']}"
        try:
            yield Browser(session, folder)
        finally:
            ask(session, "DELETE")
    finally:
        # The driver has a group of its own, with whatever of the browser is left.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(server, driver, seconds=20.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end and driver.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            if ask(f"{server}/status", "GET")["ready"]:
                return
        time.sleep(0.05)
    raise AssertionError("chromedriver does not answer")
