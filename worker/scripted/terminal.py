"""The terminal in raw mode: lines that scroll, a composer below them, keys, the window's title.

Whatever is printed is cleaned first, so that a script or a task cannot steer the terminal. The old
settings come back at every exit but SIGKILL.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import time
import unicodedata
from collections import deque
from types import FrameType

from schemas.errors import BadInput
from schemas.text import clean, one_line
from worker.scripted.keys import Key, KeyReader

RULE = "\u2500"
PROMPT = "\u276f "
_ESCAPE_WAIT = 0.05
_MEMORY = 300


def width_of(text: str) -> int:
    """Columns that the text takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


class Ended(Exception):
    """The terminal is gone, or a signal asks to end; ``code`` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Terminal:
    """Use as a context manager. ``composer`` shows a line of input; None hides it."""

    def __init__(self, source: int = 0, target: int = 1) -> None:
        if not os.isatty(source) or not os.isatty(target):
            raise BadInput("the scripted agent needs a terminal", "Start it in a tmux pane.")
        self.source, self.target = source, target
        self.keys: deque[Key] = deque()
        self.lines: deque[str] = deque(maxlen=_MEMORY)
        self.composer: str | None = None
        self._reader = KeyReader()
        self._above = 0  # rows between the top of the drawn composer and the cursor
        self._resized = False
        self._ended = 0
        self._wake, self._waker = os.pipe()

    def __enter__(self) -> Terminal:
        self._old = termios.tcgetattr(self.source)
        raw = termios.tcgetattr(self.source)
        raw[0] &= ~(termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON)
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
        termios.tcsetattr(self.source, termios.TCSADRAIN, raw)
        os.set_blocking(self._waker, False)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._on_end)
        signal.signal(signal.SIGWINCH, self._on_resize)
        self._write("\x1b[?2004h")
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError, termios.error, Ended):  # the terminal may be gone already
            self.show(None)
            self._write("\x1b[?2004l\x1b[0m")
            termios.tcsetattr(self.source, termios.TCSADRAIN, self._old)
        os.close(self._wake)
        os.close(self._waker)

    def _on_end(self, number: int, _frame: FrameType | None) -> None:
        self._ended = 128 + number
        self._nudge()

    def _on_resize(self, _number: int, _frame: FrameType | None) -> None:
        self._resized = True
        self._nudge()

    def _nudge(self) -> None:
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
            os.write(self._waker, b"x")

    def _write(self, text: str) -> None:
        rest = memoryview(text.encode("utf-8", "replace"))
        while rest:
            try:
                rest = rest[os.write(self.target, rest) :]
            except OSError as fault:
                raise Ended(129) from fault

    @property
    def ended(self) -> bool:
        """A signal asked to end; what runs on our behalf is not wanted any more."""
        return bool(self._ended)

    # --- showing
    # -----------------------------------------------------------------------------------------------------

    def title(self, state: str) -> None:
        """The window's title: ``scripted: idle``, ``busy`` or ``asks``."""
        self._write(f"\x1b]2;scripted: {state}\x07")

    def print(self, text: str) -> None:
        """One line, or several, above the composer."""
        lines = clean(text).replace("\t", "    ").split("\n")
        self.lines.extend(lines)
        shown = self.composer
        self._write(self._erased() + "".join(f"{line}\r\n" for line in lines) + self._drawn(shown))

    def show(self, text: str | None) -> None:
        """Draw the composer with this text between two rules, the cursor after it; None takes it away."""
        # In one piece: who reads the screen between two finds no input line.
        self._write(self._erased() + self._drawn(text))

    def _erased(self) -> str:
        """What takes the composer away."""
        if self.composer is None:
            return ""
        up = f"\x1b[{self._above}A" if self._above else ""
        self.composer, self._above = None, 0
        return f"\r{up}\x1b[J"

    def _drawn(self, text: str | None) -> str:
        """What draws it with this text."""
        self.composer, self._above = text, 0
        if text is None:
            return ""
        columns, rows = os.get_terminal_size(self.target)
        room = max(8, (rows - 4) * columns - 4)
        line = PROMPT + one_line_of(text, room)
        size = width_of(line)
        extra = max(0, size - 1) // columns
        column = size - extra * columns
        rule = RULE * max(1, columns - 1)
        to = f"\x1b[{min(column + 1, columns)}G"
        self._above = 1 + extra
        return f"{rule}\r\n{line}\r\n{rule}\x1b[1A{to}"

    def page(self, lines: list[str]) -> None:
        """A screen with only these lines: a dialog."""
        self.lines.clear()
        self.lines.extend(lines)
        self.redraw()

    def redraw(self) -> None:
        """After a change of size: the last lines again, then the composer."""
        _, rows = os.get_terminal_size(self.target)
        shown = self.composer
        self.composer, self._above = None, 0
        lines = list(self.lines)[-max(1, rows - 4) :]
        self._write("\x1b[H\x1b[2J" + "".join(f"{line}\r\n" for line in lines) + self._drawn(shown))

    # --- keys
    # --------------------------------------------------------------------------------------------------------

    def key(self) -> Key:
        """The next key, waited for as long as it takes. Raises ``Ended`` for a signal or a closed
        terminal.
        """
        while not self.keys:
            self._wait(None)
        return self.keys.popleft()

    def pause(self, seconds: float) -> bool:
        """Wait; keys that come meanwhile are kept. True where Ctrl-C or Escape interrupted the waiting."""
        end = time.monotonic() + seconds
        while True:
            stop = next((key for key in self.keys if key.name in ("interrupt", "escape")), None)
            if stop is not None:
                self.keys.remove(stop)
                return True
            left = end - time.monotonic()
            if left <= 0:
                self._wait(0)
                return False
            self._wait(left)

    def _wait(self, seconds: float | None) -> None:
        if self._reader.waiting:
            seconds = _ESCAPE_WAIT
        ready, _, _ = select.select([self.source, self._wake], [], [], seconds)
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._ended:
            raise Ended(self._ended)
        if self._resized:
            self._resized = False
            self.redraw()
        if self.source in ready:
            self._read()
        elif not ready:
            self.keys.extend(self._reader.flush())

    def _read(self) -> None:
        try:
            data = os.read(self.source, 1 << 16)
        except OSError as fault:
            raise Ended(129) from fault
        if not data:
            raise Ended(129)
        self.keys.extend(self._reader.feed(data))


def one_line_of(text: str, room: int) -> str:
    """The text on one line, its end where it is too long for the screen."""
    line = one_line(text, 1 << 20) if "\n" in text else text
    return line if width_of(line) <= room else "\u2026" + line[-(room - 1) // 2 :]


__all__ = ["PROMPT", "RULE", "Ended", "Terminal", "width_of"]
