"""A headless Chromium, driven through its own debugging pipe: JSON messages that end in a zero byte."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 120.0

# Chromium reads commands from descriptor 3 and answers on 4. The pipe's ends are moved there in a process of its own.
_LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def found() -> str | None:
    """The browser on the PATH, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. `complaints` are the errors that its console and its policy told of."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._buffer = b""
        self._last = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> Any:
        """The answer to one command."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            self._events.append(answer)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def open(self, path: Path, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Show a file at a width of so many pixels, and wait until it has been laid out."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        self.send("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._next())

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """One key, down and up."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **text)

    def point(self, x: float, y: float) -> None:
        """Move the mouse."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path: Path, height: float) -> None:
        """The page's upper part as a PNG."""
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings since the page was opened."""
        self.run("new Promise((done) => setTimeout(done, 50))")
        said = []
        for event in self._events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                said.append(json.dumps(params["exceptionDetails"]))
            elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}:
                said.append(json.dumps(params["args"]))
            elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
                said.append(params["entry"]["text"])
        return said

    @property
    def requests(self) -> list[str]:
        """All addresses asked for since the page was opened."""
        return [e["params"]["request"]["url"] for e in self._events if e.get("method") == "Network.requestWillBeSent"]

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, "Chromium does not answer."
            part = os.read(self._read, 1 << 16)
            assert part, "Chromium has ended."
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


@contextmanager
def page(browser: str) -> Iterator[Page]:
    """A tab of a new browser with an empty profile, which ends with the block."""
    theirs_read, ours_write = os.pipe()
    ours_read, theirs_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "--no-sandbox",  # containers often forbid what the sandbox needs; the pages are our own
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "about:blank",
        ]
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(theirs_read), str(theirs_write), browser, *options],
            pass_fds=(theirs_read, theirs_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_read)
        os.close(theirs_write)
        try:
            yield Page(ours_read, ours_write)
        finally:
            os.close(ours_write)  # at the end of its commands the browser leaves
            os.close(ours_read)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
