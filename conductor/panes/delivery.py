"""Typing one line into an agent and knowing that it was submitted.

The steps: only into an idle agent; leave copy mode; clear a draft; paste; wait until the text shows and no
dialog has come; wait until the agent has digested it; Enter alone; a receipt; at most one more Enter; then it
is stranded, and a person is told. Nothing is pasted twice, and Enter never goes into a dialog, because there
it says yes.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from conductor.panes.activity import Activity
from conductor.panes.control import TmuxRefused
from conductor.panes.listing import Row, screen_of
from conductor.panes.receipts import Receipts
from conductor.panes.server import Tmux
from conductor.panes.states import gone
from conductor.ports import AgentKind, AgentState, Delivery, Prompt, Screen
from schemas.text import clean, one_line

DIALOGS = frozenset({"permission", "trust"})
_REREAD = 0.25
_REDRAWN = 0.5
"""Seconds for an agent that draws its screen anew: a reading in the middle of it shows no input line."""
_RECEIPT_POLL = 0.02
_HISTORY = 300
_IMAGE_ROWS = 8
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True)
class Timings:
    """Seconds. The defaults were measured with real agents."""

    apart: float = 0.5
    """Between two readings that must agree before anything is typed."""
    clear: float = 1.0
    """For a draft to go after the keys that clear it."""
    digest: float = 0.15
    """Between the text's showing and Enter: earlier ones were dropped or became line breaks."""
    confirm: float = 2.0
    """For a sign that the line was submitted, and for the text to show."""
    per_kilobyte: float = 0.25
    """Added to ``confirm`` for each KB of text."""
    quiet: float = 1.5
    """Without output: the agent is idle or asks."""
    grace: float = 2.0
    """Between asking a process to end and ending it."""


def squashed(text: str) -> str:
    """The text without blanks: agents wrap lines in their own ways, also inside a word."""
    return _BLANKS.sub("", text)


@dataclass(frozen=True)
class Reading:
    """One look at a pane."""

    row: Row
    screen: Screen
    state: AgentState
    composer: str | None
    placeholder: bool

    @property
    def ended(self) -> bool:
        return self.row.info.dead

    @property
    def ready(self) -> bool:
        """Something may be typed. An error that is shown above an input line leaves the agent waiting for
        input.
        """
        return self.state.name == "idle" or (self.state.name == "error" and self.composer is not None)

    def holds(self, mark: str) -> bool:
        """The text with this mark stands in the input line; without a known one, at the screen's end."""
        if self.composer is None:
            return mark in squashed("".join(self.screen.tail(4)))
        return mark in squashed(self.composer)

    def above(self, mark: str) -> bool:
        """The mark shows outside of the input line."""
        inside = squashed(self.composer or "").count(mark)
        return squashed("".join(self.screen.lines)).count(mark) > inside


def _is_clear(reading: Reading) -> bool:
    # While it draws anew no input line is there at all: that is not an empty one.
    return reading.composer == "" and not reading.placeholder


class Courier:
    """Deliveries to the panes of one session; one at a time for each pane."""

    def __init__(
        self,
        tmux: Tmux,
        activity: Activity,
        receipts: Receipts,
        index_of: Callable[[str], int | None],
        is_ours: Callable[[Row], bool],
        timings: Timings,
    ) -> None:
        self.tmux, self.activity, self.receipts = tmux, activity, receipts
        self.index_of = index_of
        self.is_ours = is_ours
        self.timings = timings
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def deliver(self, pane_id: str, prompt: Prompt, agent: AgentKind, *, known_idle: bool) -> Delivery:
        with self._turn(pane_id):
            return _Attempt(self, pane_id, prompt, agent).deliver(known_idle)

    def find(self, pane_id: str, prompt: Prompt, agent: AgentKind) -> Delivery | None:
        with self._turn(pane_id):
            return _Attempt(self, pane_id, prompt, agent).find()

    def say(self, pane_id: str, agent: AgentKind, line: str) -> bool:
        """Type a command line of the agent's own (its exit line) into an idle agent; whether Enter was
        pressed.
        """
        with self._turn(pane_id):
            attempt = _Attempt(self, pane_id, Prompt("", line), agent)
            return attempt.say(squashed(line))

    def _turn(self, pane_id: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(pane_id, threading.Lock())


class _Attempt:
    """One prompt on its way into one pane."""

    def __init__(self, desk: Courier, pane_id: str, prompt: Prompt, agent: AgentKind) -> None:
        self._desk, self._pane, self._agent = desk, pane_id, agent
        self._message = prompt.message_id
        # A tab or a line feed would be a key to some agents.
        self._line = _BLANKS.sub(" ", clean(prompt.line if prompt.message_id else prompt.text)).strip()
        self._start_mark, self._end_mark = f"[msg{self._message}]", f"[end{self._message}]"
        self._patience = desk.timings.confirm + desk.timings.per_kilobyte * len(self._line.encode()) / 1024
        self._index = desk.index_of(pane_id) if agent.has_receipts else None
        self._receipts_before = 0
        self._note = ""

    # --- looking ---

    def _read(self, history: int = 0) -> Reading | None:
        shown = screen_of(self._desk.tmux, self._pane, history)
        if shown is None or not self._desk.is_ours(shown[0]):
            return None
        row, screen = shown
        state = gone(row) if row.info.dead else self._agent.classify(screen)
        return Reading(row, screen, state, self._agent.composer(screen), self._agent.placeholder(screen))

    def _look_until(self, wanted: Callable[[Reading], bool], seconds: float) -> Reading | None:
        """Read anew after each output until it is as wanted or the pane has ended; the last reading, whatever
        it is.
        """
        deadline = time.monotonic() + seconds
        while True:
            mark = self._desk.activity.mark(self._pane)
            reading = self._read()
            left = deadline - time.monotonic()
            if reading is None or reading.ended or wanted(reading) or left <= 0:
                return reading
            self._desk.activity.wait(self._pane, mark, min(left, _REREAD))

    # --- the steps ---

    def deliver(self, known_idle: bool) -> Delivery:
        reading, refusal = self._ready(known_idle)
        if refusal is not None:
            return refusal
        assert reading is not None  # noqa: S101 - one of the two is always given
        refusal = self._clear(reading)
        if refusal is not None:
            return refusal
        if self._index is not None:
            self._receipts_before = self._desk.receipts.count(self._index)
        try:
            self._paste(leave_mode=reading.row.info.in_mode)
        except TmuxRefused as refused:
            return Delivery("queued", f"nothing was typed: {refused.what}")
        blocked = self._blocked(self._look_for_text(self._patience))
        return blocked or self._submit(time.monotonic())

    def _ready(self, known_idle: bool) -> tuple[Reading | None, Delivery | None]:
        """A reading of an agent that waits for input, twice the same; or why nothing is typed.

        A pane that wrote nothing for half a second looked half a second ago as it looks now: one reading is
        enough then.
        """
        activity, apart = self._desk.activity, self._desk.timings.apart
        still = activity.still_for(self._pane) >= apart or (known_idle and activity.idle_and_still(self._pane))
        first = self._read()
        if first is None:
            return None, Delivery("queued", "the pane is not there any more")
        if not first.ready:
            return None, self._queued(first)
        if still and first.row.info.session == self._desk.tmux.session:
            return first, None
        time.sleep(apart)
        second = self._read()
        if second is None or not second.ready:
            return None, self._queued(second)
        if (second.state, second.composer) != (first.state, first.composer):
            return None, Delivery("queued", "its input line is being changed, maybe by a person", second.screen.tail())
        return second, None

    def _queued(self, reading: Reading | None) -> Delivery:
        if reading is None:
            return Delivery("queued", "the pane is not there any more")
        detail = f": {one_line(reading.state.detail)}" if reading.state.detail else ""
        return Delivery("queued", f"the agent is {reading.state.name}{detail}", reading.screen.tail())

    def _clear(self, reading: Reading) -> Delivery | None:
        """Empty the input line of a draft and see it empty; None when it is."""
        draft = reading.composer
        if not draft and not reading.placeholder:
            return None
        self._note = f": {one_line(draft or 'a pasted text', 120)}"
        keys = self._agent.clear_keys()
        for _ in range(2 if keys else 0):
            self._keys(*keys)
            now = self._look_until(lambda seen: _is_clear(seen) or seen.state.name in DIALOGS, self._desk.timings.clear)
            if now is None or now.ended or not now.ready:
                return self._queued(now)
            if _is_clear(now):
                self._note = f"; a draft was cleared{self._note}"
                return None
        return Delivery(
            "stranded",
            f"a draft stands in its input line and could not be cleared{self._note}; nothing was typed",
            reading.screen.tail(),
        )

    def _paste(self, *, leave_mode: bool) -> None:
        buffer = f"taskmaestro-{self._pane[1:]}"
        leave = [("copy-mode", "-q", "-t", self._pane)] if leave_mode else []
        self._desk.tmux.run_many(
            *leave,
            ("set-buffer", "-b", buffer, "--", self._line),
            ("paste-buffer", "-p", "-d", "-b", buffer, "-t", self._pane),
        )

    def _shown(self, reading: Reading) -> bool:
        return reading.holds(self._end_mark) or reading.placeholder

    def _look_for_text(self, seconds: float) -> Reading | None:
        """A reading with the text in the input line, or with a dialog; else the last one within so many seconds."""
        return self._look_until(lambda now: self._shown(now) or now.state.name in DIALOGS, seconds)

    def _blocked(self, reading: Reading | None) -> Delivery | None:
        """Why Enter must not be pressed on what is seen now."""
        if reading is None:
            return Delivery("stranded", "the pane went away after the text was pasted")
        screen = reading.screen.tail()
        if reading.ended:
            return Delivery("stranded", f"the agent is gone after the text was pasted: {reading.state.detail}", screen)
        if reading.state.name in DIALOGS:
            return Delivery(
                "stranded",
                f"a {reading.state.name} dialog came after the text was pasted; Enter was not pressed",
                screen,
            )
        if not self._shown(reading):
            return Delivery("stranded", "the pasted text did not show in its input line; Enter was not pressed", screen)
        at = squashed(reading.composer or "").find(self._start_mark)
        if at > 0:
            return Delivery(
                "stranded",
                "other text stands before the pasted one in its input line; Enter was not pressed",
                screen,
            )
        return None

    def _submit(self, shown_at: float) -> Delivery:
        """Enter, once the agent had time to digest the text; then a sign of it; else one more Enter."""
        for attempt in (1, 2):
            left = shown_at + self._desk.timings.digest - time.monotonic()
            if left > 0:
                time.sleep(left)
            blocked = self._blocked(self._look_for_text(_REDRAWN))
            if blocked is not None:
                return self._confirmed(0.0) or blocked
            self._keys("Enter")
            done = self._confirmed(self._patience)
            if done is not None:
                return done
            last = self._look_for_text(_REDRAWN)
            if last is None or last.ended or not self._shown(last):
                break
            if attempt == 1:
                shown_at = 0.0
        last = self._read()
        tail = last.screen.tail() if last else ()
        return Delivery("stranded", f"Enter was pressed and no sign of its being submitted was seen{self._note}", tail)

    def _keys(self, *names: str) -> None:
        # Keys go nowhere in copy mode, and a person may have entered it a moment ago.
        self._desk.tmux.run_many(("copy-mode", "-q", "-t", self._pane), ("send-keys", "-t", self._pane, "--", *names))

    # --- knowing ---

    def _receipt(self) -> Delivery | None:
        if self._index is None:
            return None
        receipt = self._desk.receipts.find(self._index, self._message, self._receipts_before)
        return Delivery("delivered", f"its hook recorded message {self._message}{self._note}") if receipt else None

    def _confirmed(self, seconds: float) -> Delivery | None:
        """A sign that the line was submitted, within so many seconds: the hook's receipt, else the screen.

        Where hooks record receipts the screen's word counts only when the time is over.
        """
        deadline = time.monotonic() + seconds
        while True:
            mark = self._desk.activity.mark(self._pane)
            done = self._receipt()
            if done is not None:
                return done
            left = deadline - time.monotonic()
            if self._index is None or left <= 0:
                done = self._seen()
                if done is not None or left <= 0:
                    return done
            self._desk.activity.wait(self._pane, mark, min(left, _RECEIPT_POLL if self._index is not None else _REREAD))

    def _seen(self) -> Delivery | None:
        """The screen's evidence: the line left the input line, and the agent is busy or the line stands
        above.
        """
        reading = self._read()
        if reading is None or reading.ended or self._shown(reading):
            return None
        if reading.state.name == "busy":
            return Delivery("delivered", f"its input line is empty and it is busy{self._note}", reading.screen.tail())
        if reading.above(self._start_mark):
            return Delivery("delivered", f"the line stands above its input line{self._note}", reading.screen.tail())
        return None

    def _in_scrollback(self) -> bool:
        """The line stands in the scrollback, and not as an image of the input line.

        Programs that clear the screen to draw it anew leave such images there.
        """
        reading = self._read(_HISTORY)
        if reading is None:
            return False
        lines = reading.screen.lines
        for number, line in enumerate(lines):
            if self._start_mark not in squashed(line):
                continue
            images = (
                self._agent.composer(Screen(lines[: number + below], reading.screen.title))
                for below in range(1, _IMAGE_ROWS)
            )
            if not any(self._start_mark in squashed(image or "") for image in images):
                return True
        return False

    def find(self) -> Delivery | None:
        """See ``Panes.find_delivery``. A line that still stands is submitted now."""
        done = self._receipt()
        if done is not None:
            return done
        reading = self._read()
        if reading is None:
            return None
        if self._start_mark in squashed(reading.row.info.start_command):
            return Delivery("delivered", "it was on the command line that started the agent")
        stands = reading.composer is not None and self._start_mark in squashed(reading.composer)
        if stands and not reading.ended:
            return self._blocked(reading) or self._submit(time.monotonic())
        if self._in_scrollback():
            return Delivery("delivered", "the line stands in its scrollback", reading.screen.tail())
        if reading.state.name in DIALOGS:
            # The dialog hides the input line; what stands there shows again after it.
            return Delivery("queued", f"a {reading.state.name} dialog hides its input line", reading.screen.tail())
        return None

    def say(self, mark: str) -> bool:
        """Type the line of an agent's own command; False where the agent was not ready or did not show it."""
        self._start_mark = self._end_mark = mark
        reading, refusal = self._ready(known_idle=True)
        if reading is None or refusal is not None or self._clear(reading) is not None:
            return False
        with suppress(TmuxRefused):  # the pane went away: then there is nothing to be said to
            self._paste(leave_mode=reading.row.info.in_mode)
            if self._blocked(self._look_for_text(self._patience)) is None:
                time.sleep(self._desk.timings.digest)
                self._keys("Enter")
                return True
        return False
