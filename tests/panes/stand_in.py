"""A stand-in for a coding agent, hostile on demand: a raw-mode terminal program with an input line and
dialogs.

Run as ``python stand_in.py [FIRST PROMPT]``. ``STAND_IN`` holds JSON: how it misbehaves. ``STAND_IN_LOG``
names a file to which it writes what happened to it, one JSON line each: ``start``, ``paste``, ``submit``,
``approve``, ``key``.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from datetime import UTC, datetime
from pathlib import Path

RULE = "\u2500" * 40
MARK = "\u276f"


class StandIn:
    """One run. ``ways`` are the switches of ``STAND_IN``; unknown ones are an error."""

    KNOWN = frozenset({
        "drop_enter", "draft", "keeps_draft", "trust", "ask_after_paste", "silent", "die_at",
        "placeholder", "busy",
        "receipts", "ignores_hangup", "child", "work", "error", "limit", "swallow", "title", "late",
        "leaves_after", "torn", "redraws",
    })  # fmt: skip

    def __init__(self) -> None:
        self.ways = json.loads(os.environ.get("STAND_IN", "{}"))
        assert set(self.ways) <= self.KNOWN, self.ways
        self.text = self.ways.get("draft", "")
        self.said: list[str] = []
        self.state = "trust" if self.ways.get("trust") else "idle"
        self.selected = 0
        self.pasted_at = 0.0
        self.due: list[tuple[float, str]] = []
        self.pending = b""
        self.folded = False

    def log(self, what: str, text: str = "") -> None:
        with Path(os.environ["STAND_IN_LOG"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"what": what, "text": text, "at": time.time(), "pid": os.getpid()}) + "\n")

    def receipt(self, event: str, msg: str | None) -> None:
        if "receipts" in self.ways:
            line = {"event": event, "msg": msg, "at": datetime.now(UTC).isoformat(), "pane": "1"}
            with Path(self.ways["receipts"]).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def later(self, seconds: float, what: str) -> None:
        self.due = sorted([*self.due, (time.monotonic() + seconds, what)])

    def draw(self) -> None:
        title = {"idle": "idle", "busy": "busy", "permission": "asks", "trust": "asks"}[self.state]
        out = ["\x1b[H\x1b[2J"]
        if self.ways.get("torn"):
            sys.stdout.write(out.pop())
            sys.stdout.flush()
            time.sleep(self.ways["torn"])
        out += [
            f"\x1b]2;{self.ways.get('title', 'scripted: ')}{title}\x07",
            *(f"{s}\r\n" for s in self.said),
        ]
        if self.state == "trust":
            rows = [("\u276f " if n == self.selected else "  ") + r for n, r in enumerate(("1. No", "2. Yes"))]
            out.append("Do you trust the files in this folder?\r\n" + "\r\n".join(rows))
        elif self.state == "permission":
            out.append("It wants to run `make all`\r\nAllow this? (y/n)\r\n")
        else:
            shown = "[Pasted text #1]" if self.folded else self.text
            out.append(f"{RULE}\r\n{MARK} {shown}")
        sys.stdout.write("".join(out))
        sys.stdout.flush()

    def submit(self) -> None:
        if not self.text:
            return
        self.log("submit", self.text)
        msg = self.text.split("[msg ", 1)[1].split("]", 1)[0] if "[msg " in self.text else None
        self.said.append(f"> {self.text}")
        text, self.text, self.folded = self.text, "", False
        if text == "/exit":
            self.leave()
        self.state = "busy"
        self.receipt("prompt", msg)
        self.later(self.ways.get("work", 0.2), "done")

    def leave(self) -> None:
        """With ``leaves_after``: not before the stand-ins with these logs were asked to leave as well."""
        logs = [Path(name) for name in self.ways.get("leaves_after", ())]
        while not all('"text": "/exit"' in log.read_text(encoding="utf-8") for log in logs):
            time.sleep(0.02)
        self.log("left")
        raise SystemExit(0)

    def enter(self) -> None:
        if self.state == "permission":
            self.log("approve")
            self.state = "idle"
        elif self.state == "trust":
            self.log("trust", str(self.selected))
            self.state = "idle"
        elif time.monotonic() - self.pasted_at < self.ways.get("drop_enter", 0.0):
            self.log("key", "dropped enter")
        elif self.state == "idle":
            if self.ways.get("die_at") == "enter":
                raise SystemExit(7)
            if self.ways.get("swallow"):
                self.text = ""
            else:
                self.submit()

    def paste(self, text: str) -> None:
        self.log("paste", text)
        if self.ways.get("die_at") == "paste":
            raise SystemExit(7)
        self.pasted_at = time.monotonic()
        if self.state in ("permission", "trust") or self.ways.get("silent"):
            return
        self.text += text
        self.folded = bool(self.ways.get("placeholder"))
        if self.ways.get("redraws"):
            self.later(self.ways["redraws"], "redraw")
        if self.ways.get("ask_after_paste"):
            self.later(0.05, "ask")

    def feed(self, data: bytes) -> None:
        self.pending += data
        while self.pending:
            if self.pending.startswith(b"\x1b[200~"):
                end = self.pending.find(b"\x1b[201~")
                if end < 0:
                    return
                text, self.pending = self.pending[6:end], self.pending[end + 6 :]
                self.paste(text.decode())
            elif self.pending[:3] in (b"\x1b[A", b"\x1b[B"):
                self.selected = 0 if self.pending[2:3] == b"A" else 1
                self.pending = self.pending[3:]
            else:
                self.key(self.pending[:1])
                self.pending = self.pending[1:]

    def key(self, key: bytes) -> None:
        if key == b"\r":
            self.enter()
        elif key == b"\x15":
            self.log("key", "clear")
            if not self.ways.get("keeps_draft"):
                self.text, self.folded = "", False
        elif key == b"\x05":
            return
        else:
            self.log("key", key.decode("utf-8", "replace"))
            self.text += key.decode("utf-8", "replace")

    def tick(self) -> None:
        while self.due and self.due[0][0] <= time.monotonic():
            _, what = self.due.pop(0)
            if what == "done":
                self.state = "idle"
                self.receipt("stop", None)
            elif what == "ask":
                self.state = "permission"

    def run(self) -> None:
        if self.ways.get("ignores_hangup"):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.ways.get("child") and os.fork() == 0:
            os.setsid()
            self.log("child")
            threading.Event().wait(600)
            os._exit(0)
        self.log("start", json.dumps({"argv": sys.argv[1:], "cwd": str(Path.cwd())}))
        for line in self.ways.get("error", ()), self.ways.get("limit", ()):
            if line:
                self.said.append(line)
        if self.ways.get("busy"):
            self.state = "busy"
        if len(sys.argv) > 1:
            self.text = sys.argv[1]
            self.submit()
        tty.setraw(0)
        sys.stdout.write("\x1b[?2004h")
        while True:
            self.tick()
            self.draw()
            wait = max(0.0, self.due[0][0] - time.monotonic()) if self.due else None
            ready, _, _ = select.select([0], [], [], wait)
            if ready:
                data = os.read(0, 65536)
                if not data:
                    return
                if self.ways.get("late"):
                    time.sleep(self.ways["late"])
                self.feed(data)


if __name__ == "__main__":
    before = termios.tcgetattr(0)
    try:
        StandIn().run()
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)
