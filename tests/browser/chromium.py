"""Debian's chromium without a screen, driven over a pipe (`--remote-debugging-pipe`)."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

_PATIENCE = 120.0
"""Seconds for one answer, on a busy machine."""


class Browser:
    """One browser with one page. `requests` are the addresses it asked for, `dialogs` what scripts said in boxes, `complaints`
    what the page's policy refused."""

    def __init__(self, profile: Path) -> None:
        found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        assert found, "there is no chromium here: apt-get install chromium"
        hears, self._to = os.pipe()
        self._from, says = os.pipe()
        # The browser takes commands from its descriptor 3 and answers on 4.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{hears} 4>&{says}', "bash", found, "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={profile}"],
            pass_fds=(hears, says), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(hears)
        os.close(says)
        self._rest, self._number, self._session, self._loaded = b"", 0, "", False
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.complaints: list[str] = []
        target = self("Target.createTarget", url="about:blank")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(_PATIENCE)
        os.close(self._to)
        os.close(self._from)

    def __call__(self, method: str, **params: Any) -> dict[str, Any]:
        """A command of the DevTools protocol, and its answer."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._to, json.dumps(command).encode() + b"\0")
        while (message := self._read()).get("id") != self._number:
            self._hear(message)
        assert "error" not in message, message["error"]
        result: dict[str, Any] = message["result"]
        return result

    def open(self, path: Path) -> None:
        """Shows a file and waits until it is loaded."""
        self.requests.clear()
        self._loaded = False
        self("Page.navigate", url=path.as_uri())
        while not self._loaded:  # until then the page before it may answer, or nobody
            self._hear(self._read())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, wanted: str | Callable[[], object]) -> None:
        """Until an expression is true in the page, or something that was heard beside the answers is."""
        end = time.monotonic() + _PATIENCE
        while not (self.ask(wanted) if isinstance(wanted, str) else wanted()):
            assert time.monotonic() < end, f"never: {wanted}"
            time.sleep(0.05)
            self.ask("true")

    def point(self, selector: str, *, click: bool = False) -> None:
        """Moves the mouse onto the first element that a selector finds."""
        box = f"document.querySelector({json.dumps(selector)})"
        self.ask(f"{box}.scrollIntoView({{block: 'center'}})")
        x, y = self.ask(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({box}.getClientRects()[0])")
        self("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def look(self, width: int, height: int, theme: str) -> None:
        """The size of the window, and whether it is dark or light."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def picture(self, path: Path) -> None:
        """A picture of the page, for a look at it."""
        path.write_bytes(base64.b64decode(self("Page.captureScreenshot")["data"]))

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], _PATIENCE)
            data = os.read(self._from, 1 << 20) if ready else b""
            assert data, "the browser says nothing"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _hear(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
        elif method == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
