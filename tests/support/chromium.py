"""Headless Chromium, spoken to by the DevTools protocol over its pipe."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Any

from tests.support.wait import LIMIT_S, wait_until

NAME = "chromium"
# A test runs as root, in containers without user namespaces: the sandbox is not what is tested.
WORDS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
    *("--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-breakpad"),
    *("--disable-extensions", "--mute-audio", "--force-device-scale-factor=1"),
)


class Chromium:
    """One browser with one page.

    Args:
        width, height: of the page.
    """

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        program = shutil.which(NAME)
        assert program is not None
        self._directory = tempfile.mkdtemp(prefix="chromium-", dir="/tmp")  # short: it has sockets
        read_fd, self._write_fd = os.pipe()
        self._read_fd, write_fd = os.pipe()
        theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (read_fd, write_fd)]

        def place() -> None:  # it reads from descriptor 3, and writes to 4
            os.dup2(theirs[0], 3)
            os.dup2(theirs[1], 4)

        self._process = subprocess.Popen(
            [program, *WORDS, f"--user-data-dir={self._directory}", "about:blank"],
            pass_fds=(3, 4),
            preexec_fn=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={
                **os.environ,
                **dict.fromkeys(("HOME", "TMPDIR", "XDG_RUNTIME_DIR"), self._directory),
            },
            start_new_session=True,
        )
        for fd in (read_fd, write_fd, *theirs):
            os.close(fd)
        self._count = 0
        self._data = b""
        self._session = ""
        self.events: list[dict[str, Any]] = []
        try:
            self._attach(width, height)
        except BaseException:
            self.close()
            raise

    def _attach(self, width: int, height: int) -> None:
        page = wait_until(self._page, what="a page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def _page(self) -> str:
        """The browser's first page; empty: it has none yet."""
        targets = self.call("Target.getTargets")["targetInfos"]
        return next((each["targetId"] for each in targets if each["type"] == "page"), "")

    def close(self) -> None:
        """End it, with all of its processes."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait(timeout=LIMIT_S)
        os.close(self._read_fd)
        os.close(self._write_fd)
        shutil.rmtree(self._directory, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and give its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write_fd, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def resize(self, width: int, height: int, is_phone: bool = False) -> None:
        """Give the page another size."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)

    def open(self, url: str) -> None:
        """Load a page."""
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                         awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def wait(self, script: str, limit_s: float = LIMIT_S) -> Any:
        """Wait until an expression is true in the page, looked at with each of its pictures."""
        found = self.run(
            f"""new Promise((done) => {{
                const late = Date.now() + {limit_s * 1000};
                const look = () => {{
                    let value = null;
                    try {{ value = ({script}); }} catch (error) {{ }}
                    if (value || Date.now() > late) done(value);
                    else setTimeout(look, 10);
                }};
                look();
            }})"""
        )
        assert found, f"never true: {script}\n{self.run('document.body.innerText')}"
        return found

    def key(self, name: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        words = {"key": name, "windowsVirtualKeyCode": code, "code": name}
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **words, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", **words)

    def picture(self, path: str) -> None:
        """Write what is shown as a PNG file."""
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def complaints(self) -> list[str]:
        """What the page has logged as errors, and what it was refused."""
        return [
            json.dumps(each["params"])
            for each in self.events
            if each.get("method") == "Runtime.exceptionThrown"
            or (
                each.get("method") == "Log.entryAdded"
                and each["params"]["entry"]["level"] == "error"
            )
        ]

    def _next(self) -> dict[str, Any]:
        late = time.monotonic() + LIMIT_S
        while b"\0" not in self._data:
            left_s = late - time.monotonic()
            assert left_s > 0 and select.select([self._read_fd], [], [], left_s)[0], "no answer"
            data = os.read(self._read_fd, 1 << 20)
            assert data, "Chromium has ended"
            self._data += data
        message, _, self._data = self._data.partition(b"\0")
        return json.loads(message)
