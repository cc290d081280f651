"""Where panes stand: the conductor below at full width, workers tiled above, further windows for further
workers.

libtmux looks up and arranges; what carries other people's text or must not be interrupted goes through
``Tmux``. A pane is known by its tag (a pane option), wherever the user moved it: tags are set before the
program starts, and ``@taskmaestro_started`` after, so that a crash in between leaves neither a double nor a
pane that never starts.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from conductor.panes.control import TmuxRefused
from conductor.panes.listing import BORDER, TAG, Row, all_rows
from conductor.panes.server import NoServer, Tmux, unformatted
from conductor.ports import PaneSpec
from schemas.errors import Unavailable
from schemas.text import one_line

if TYPE_CHECKING:
    from libtmux import Server, Window

_LOG = logging.getLogger(__name__)
WIDTH, HEIGHT = 200, 50
CONDUCTOR_SHARE = 0.25
CONDUCTOR_ROWS = 8
"""The conductor's least height where the window has three times that: its table must be seen in 80x24."""
_PLACEHOLDER = ("sleep", "2147483")
_SMALLEST = 2


def checksum(layout: str) -> str:
    """tmux's checksum of a layout string: a 16-bit rotating sum."""
    total = 0
    for byte in layout.encode():
        total = (total >> 1) + ((total & 1) << 15)
        total = (total + byte) & 0xFFFF
    return f"{total:04x}"


def _border(spec: PaneSpec) -> str:
    """What stands in a pane's border: its index once."""
    return spec.title if spec.title.startswith(f"{spec.index} ") else f"{spec.index} {spec.title}"


def _cuts(size: int, count: int) -> Iterator[tuple[int, int]]:
    """(offset, length) of ``count`` pieces of ``size`` cells with one cell of border between them."""
    room = size - (count - 1)
    offset = 0
    for number in range(count):
        length = room // count + (1 if number < room % count else 0)
        yield offset, length
        offset += length + 1


def _row_of_cells(width: int, height: int, top: int, numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"{width}x{height},0,{top},{numbers[0]}"
    cells = [f"{w}x{height},{x},{top},{n}" for (x, w), n in zip(_cuts(width, len(numbers)), numbers, strict=True)]
    return f"{width}x{height},0,{top}{{{','.join(cells)}}}"


def conductor_rows(height: int) -> int:
    """The height of the conductor's pane in a window of this height."""
    return max(_SMALLEST, round(height * CONDUCTOR_SHARE), min(CONDUCTOR_ROWS, height // 3))


def layout_string(width: int, height: int, workers: Sequence[int], conductor: int | None) -> str | None:
    """The layout as tmux writes it; pane numbers (``%N`` without the sign) in the order of the window's
    panes.

    Workers are tiled in rows as equal as can be, the conductor last. None where the window is too small.
    """
    bottom = conductor_rows(height) if conductor is not None and workers else 0
    above = height - bottom - 1 if bottom else height
    columns = math.ceil(math.sqrt(len(workers))) if workers else 1
    counts = math.ceil(len(workers) / columns) if workers else 0
    cells: list[str] = []
    if workers:
        if above - (counts - 1) < counts * _SMALLEST or width - (columns - 1) < columns * _SMALLEST:
            return None
        share = [len(workers) // counts + (1 if row < len(workers) % counts else 0) for row in range(counts)]
        start = 0
        for (top, tall), count in zip(_cuts(above, counts), share, strict=True):
            cells.append(_row_of_cells(width, tall, top, workers[start : start + count]))
            start += count
    if conductor is not None:
        cells.append(_row_of_cells(width, bottom or height, above + 1 if bottom else 0, [conductor]))
    body = cells[0] if len(cells) == 1 else f"{width}x{height},0,0[{','.join(cells)}]"
    return f"{checksum(body)},{body}"


class Layout:
    """Makes the panes of one session that are missing. ``start`` runs a spec's program in a pane that was
    made.
    """

    def __init__(self, tmux: Tmux, tag: str, panes_per_window: int, start: Callable[[str, PaneSpec], object]) -> None:
        self._tmux = tmux
        self._tag = tag
        self._per_window = panes_per_window
        self._start = start

    def tag_of(self, index: int) -> str:
        return f"{self._tag}:{index}"

    def index_of(self, row: Row) -> int | None:
        """The pane's index where it is one of ours."""
        tag, _, index = row.tag.rpartition(":")
        return int(index) if tag == self._tag and index.isdigit() else None

    def ours(self) -> dict[int, Row]:
        """Our panes by index; where there are two of one index, the one that lives, then the older one."""
        found: dict[int, Row] = {}
        for row in sorted(all_rows(self._tmux).values(), key=lambda row: (row.info.dead, int(row.info.pane_id[1:]))):
            index = self.index_of(row)
            if index is not None:
                found.setdefault(index, row)
        return found

    def ensure(self, specs: Sequence[PaneSpec]) -> dict[int, tuple[str, bool]]:
        """Bring the panes of these specs about: index -> (pane id, whether its program was started now)."""
        answer: dict[int, tuple[str, bool]] = {}
        ours = self.ours()
        touched: set[str] = set()
        for spec in sorted(specs, key=lambda spec: (spec.role != "conductor", spec.index)):
            row = ours.get(spec.index)
            if row is not None and row.started and not row.info.dead:
                answer[spec.index] = (row.info.pane_id, False)
                continue
            if row is not None:
                pane_id = row.info.pane_id
                self._dress(pane_id, spec)
            else:
                pane_id, window_id = self._place(spec)
                touched.add(window_id)
            self._start(pane_id, spec)
            answer[spec.index] = (pane_id, True)
        if touched:
            self._arrange(touched)
        return answer

    def _dress(self, pane_id: str, spec: PaneSpec) -> None:
        """Set the options of a pane of ours, and of nothing else."""
        own = ("set-option", "-p", "-t", pane_id)
        self._tmux.run_many(
            (*own, TAG, self.tag_of(spec.index)),
            (*own, BORDER, unformatted(one_line(_border(spec), 60))),
            (*own, "remain-on-exit", "on"),
            # Enter for one agent must never reach another one's dialog.
            (*own, "synchronize-panes", "off"),
            (*own, "-q", "allow-set-title", "on"),
        )

    def dress_window(self, window_id: str) -> None:
        own = ("set-option", "-w", "-t", window_id)
        self._tmux.run_many(
            (*own, "automatic-rename", "off"),
            (*own, "allow-rename", "off"),
            (*own, "window-size", "latest"),
            (*own, "pane-border-status", "top"),
            (*own, "pane-border-format", f" #{{?{BORDER},#{{{BORDER}}},#{{pane_title}}}} "),
        )

    def _place(self, spec: PaneSpec) -> tuple[str, str]:
        """Make a pane for this spec; its id and its window's. Its program is not started yet."""
        windows: dict[str, list[int]] = {}
        panes: dict[str, str] = {}
        for index, row in self.ours().items():
            if row.info.session == self._tmux.session:
                windows.setdefault(row.info.window_id, []).append(index)
                panes.setdefault(row.info.window_id, row.info.pane_id)
        conductor = spec.role == "conductor"
        for window_id, indexes in windows.items():
            workers = [index for index in indexes if index != 0]
            if conductor or len(workers) < self._per_window:
                made = self._split(window_id, panes[window_id], before=not conductor)
                if made is not None:
                    self._dress(made, spec)
                    return made, window_id
        pane_id, window_id = self._window(spec)
        self._dress(pane_id, spec)
        self.dress_window(window_id)
        return pane_id, window_id

    def _split(self, window_id: str, beside: str, *, before: bool) -> str | None:
        """An empty pane in this window, None where there is no room even after tiling."""
        flags = ["-b"] if before else ["-f"]
        command = ("split-window", "-d", *flags, "-P", "-F", "#{pane_id}", "-t", beside, "")
        try:
            return self._tmux.run(*command)[0]
        except TmuxRefused as refusal:
            if "no space" not in refusal.answer:
                raise
        self._tmux.run("select-layout", "-t", window_id, "tiled")
        try:
            return self._tmux.run(*command)[0]
        except TmuxRefused as refusal:
            if "no space" not in refusal.answer:
                raise
            return None

    def _window(self, spec: PaneSpec) -> tuple[str, str]:
        """A new window, and the session where that is missing: (pane id, window id)."""
        name = "conductor" if spec.role == "conductor" else f"workers {spec.index}+"
        tail = ("-P", "-F", "#{pane_id} #{window_id}", "--", *_PLACEHOLDER)
        exact = f"={self._tmux.session}"
        try:
            there = exact[1:] in self._tmux.read("list-sessions", "-F", "#{session_name}")
            fresh = False
        except NoServer:
            there, fresh = False, True
        if there:
            commands: list[tuple[str, ...]] = [("new-window", "-d", "-n", name, "-t", f"{exact}:", *tail)]
        else:
            size = ("-x", str(WIDTH), "-y", str(HEIGHT))
            commands = [
                ("new-session", "-d", "-s", self._tmux.session, "-n", name, *size, *tail),
                # A user's `destroy-unattached on` would end it as soon as the client that made it goes.
                ("set-option", "-t", f"{exact}:", "destroy-unattached", "off"),
            ]
        answer = self._unmanned(commands, fresh=fresh)
        if not there:
            self._tmux.connect(now=True)
        pane_id, window_id = answer[-1].split(" ")
        return pane_id, window_id

    def _unmanned(self, commands: list[tuple[str, ...]], *, fresh: bool) -> list[str]:
        """Run commands of which one makes a window; ``fresh``: the server is started by them.

        tmux 3.3a crashes there under `window-size manual`, so that is lifted until the window is made.
        """
        option = ("set-option", "-gw")
        lift = (*option, "window-size", "latest")
        if fresh:
            # The user's own value is known to the new server only, and it would end if it were asked first.
            kept = "@taskmaestro_window_size"
            before = [(*option, "-F", kept, "#{window-size}"), lift]
            after = [(*option, "-F", "window-size", f"#{{{kept}}}"), (*option, "-u", kept)]
            return self._tmux.once(*before, *commands, *after)
        if self._tmux.read("show-options", "-gwv", "window-size") != ["manual"]:
            return self._tmux.once(*commands)
        back = (*option, "window-size", "manual")
        try:
            return self._tmux.once(lift, *commands, back)
        except TmuxRefused:
            self._tmux.once(back)
            raise

    def _arrange(self, window_ids: set[str]) -> None:
        with looked_up(self._tmux) as server:
            for window in server.windows:
                if window.window_id in window_ids:
                    self._arrange_window(window)

    def _arrange_window(self, window: Window) -> None:
        """Lay out a window that holds our panes and no other; one that the user added panes to is left as it
        is.
        """
        rows = all_rows(self._tmux)
        order = [pane.pane_id for pane in window.panes]
        known = {pane_id: self.index_of(rows[pane_id]) for pane_id in order if pane_id in rows}
        if len(known) != len(order) or None in known.values():
            return
        conductors = [pane_id for pane_id, index in known.items() if index == 0]
        if conductors and order[-1] != conductors[0]:
            self._tmux.run("swap-pane", "-d", "-s", conductors[0], "-t", str(order[-1]))
        workers = sorted((index or 0, str(pane_id)) for pane_id, index in known.items() if index)
        string = layout_string(
            int(window.window_width or 0),
            int(window.window_height or 0),
            [int(pane_id[1:]) for _, pane_id in workers],
            int(str(conductors[0])[1:]) if conductors else None,
        )
        window.select_layout(string or "tiled")
        if conductors and workers:
            self._keep_height(str(window.window_id), str(conductors[0]))

    def _keep_height(self, window_id: str, conductor: str) -> None:
        """Have tmux keep the conductor's height as ``conductor_rows`` says when a terminal of another size attaches:
        by itself it would shrink all panes alike. A hook of our own window; tmux 3.2 has no such hook.
        """
        limit, rows = round(CONDUCTOR_ROWS / CONDUCTOR_SHARE), CONDUCTOR_ROWS
        few, many = f"resize-pane -t {conductor} -y {rows}", f"resize-pane -t {conductor} -y {CONDUCTOR_SHARE:.0%}"
        small = f"#{{e|<:#{{window_height}},{limit}}}"
        third = f"#{{e|<:#{{window_height}},{3 * rows}}}"
        least = f"resize-pane -t {conductor} -y 33%"
        command = f"if-shell -F \"{third}\" \"{least}\" \"if-shell -F '{small}' '{few}' '{many}'\""
        try:
            self._tmux.run("set-hook", "-w", "-t", window_id, "window-resized", command)
        except TmuxRefused as refusal:
            _LOG.info("the conductor's height follows the window's: %s", refusal.answer)


@contextmanager
def looked_up(tmux: Tmux) -> Iterator[Server]:
    """libtmux's view of the server; its errors as faults. Imported here because that takes a tenth of a
    second.
    """
    import libtmux
    from libtmux.exc import LibTmuxException

    server = libtmux.Server(socket_path=str(tmux.socket)) if tmux.socket else libtmux.Server()
    try:
        yield server
    except LibTmuxException as error:
        raise Unavailable(f"tmux: {one_line(str(error)) or type(error).__name__}", "Try again.") from error
