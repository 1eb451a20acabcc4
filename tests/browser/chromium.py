"""A page in headless Chromium, driven over its debugging pipe: no port is opened, no driver and no library needed.

Rules:

1. The browser has no network: whatever a page asks for besides itself is seen, refused, and remembered.
2. What the console says is remembered as well, errors and warnings of the page's policy among it.
3. Ending the context ends the browser and all of its processes.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_LONGEST_SILENCE_SECONDS = 60.0
_FIRST_FREE = 16
"""The browser listens at 3 and answers at 4: our ends must not be these."""


def program() -> str | None:
    """Return where Chromium is, or None."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Page:
    """One tab.

    Attributes:
        console: what was logged, as `level: text`.
        requests: addresses that the page asked for, its own among them.
    """

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands = commands
        self._answers = answers
        self._unread = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[str] = []
        self.console: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its answer.

        Raises:
            RuntimeError: the browser refuses it.
        """
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while (answer := self._next()).get("id") != self._number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, path: Path, *, width: int = 1280, dark: bool = False, zoom: float = 1.0) -> None:
        """Show a file and wait until it is loaded.

        Args:
            path: of the file.
            width: of the window, in pixels of the screen.
            dark: the reader likes dark pages.
            zoom: 2 is 200 %: half as many CSS pixels, each twice as large.
        """
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=round(width / zoom),
            height=round(900 / zoom),
            deviceScaleFactor=zoom,
            mobile=False,
        )
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.console.clear()
        self.requests.clear()
        self._events.clear()
        self.call("Page.navigate", url=path.absolute().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._next()

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression on the page; the page's own policy does not bind it."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, as `Tab`."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Tab": 9}[key])

    def picture(self, selector: str | None = None) -> bytes:
        """Return the page, or the first element that a selector finds, as PNG."""
        box = self.evaluate(
            f"(e => {{ const b = e.getBoundingClientRect();"
            " return [b.left + scrollX, b.top + scrollY, b.width, b.height]; })"
            f"({'document.documentElement' if selector is None else f'document.querySelector({json.dumps(selector)})'})"
        )
        clip = dict(zip(("x", "y", "width", "height"), box, strict=True), scale=1)
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def printed(self) -> bytes:
        """Return the page as it is printed, as PDF of A4 sheets."""
        sheet = {"paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": True}
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False, **sheet)["data"])

    def _next(self) -> dict[str, Any]:
        """Read one message and remember what it tells."""
        message: dict[str, Any] = json.loads(self._line())
        method, reported = message.get("method", ""), message.get("params", {})
        self._events.append(method)
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(reported["request"]["url"])
            case "Log.entryAdded":
                self.console.append(f"{reported['entry']['level']}: {reported['entry']['text']}")
            case "Runtime.consoleAPICalled":
                self.console.append(f"{reported['type']}: {reported['args']}")
            case "Runtime.exceptionThrown":
                self.console.append(f"exception: {reported['exceptionDetails']['text']}")
        return message

    def _line(self) -> bytes:
        """Return one message: what ends with a zero byte."""
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], _LONGEST_SILENCE_SECONDS)
            if not ready:
                raise RuntimeError(f"Chromium has said nothing for {_LONGEST_SILENCE_SECONDS:.0f} s")
            more = os.read(self._answers.fileno(), 1 << 16)
            if not more:
                raise RuntimeError("Chromium is gone")
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\0")
        return line


@contextmanager
def browser(executable: str, profile: Path) -> Iterator[Page]:
    """Start Chromium with a page.

    Args:
        executable: where it is.
        profile: a directory of its own, empty.
    """
    command_out, command_in = map(_out_of_the_way, os.pipe())
    answer_out, answer_in = map(_out_of_the_way, os.pipe())

    def connect() -> None:
        os.dup2(command_out, 3)
        os.dup2(answer_in, 4)

    process = subprocess.Popen(
        [executable, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--no-first-run", "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={profile}"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=connect, pass_fds=(3, 4), start_new_session=True,
    )  # fmt: skip
    os.close(command_out)
    os.close(answer_in)
    try:
        with os.fdopen(command_in, "wb") as commands, os.fdopen(answer_out, "rb", 0) as answers:
            yield Page(commands, answers)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _out_of_the_way(descriptor: int) -> int:
    """Move an end of a pipe above the numbers that the browser uses."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE)
    os.close(descriptor)
    return moved
