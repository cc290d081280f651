"""The end of a failed check's log: of a GitHub Actions job its log, of others what their provider wrote.

Read only for checks that failed, and once for each run: a log that is there does not change any more.
"""

from __future__ import annotations

import re
from threading import Lock

from conductor.forge.github.api import Api, at
from conductor.forge.github.checks import Run
from conductor.forge.github.faults import Missing
from conductor.forge.github.redact import redacted_output
from schemas.errors import Fault
from schemas.text import clean, one_line

_KEEP = 512 * 1024
_MOST = 4096
"""Characters of a tail."""
_MOST_HELD = 500
_AT_ONCE = 10
"""Logs that are read for one answer; the others are named by their URL alone."""
_STAMP = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT[\d:.]+Z ?", re.MULTILINE)
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_GROUPS = re.compile(r"^##\[(?:endgroup|group)\].*\n?", re.MULTILINE)


def tail_of(text: str, lines: int) -> str:
    """The last lines without escapes, control characters, time stamps and tokens."""
    plain = _GROUPS.sub("", _STAMP.sub("", clean(_ESCAPES.sub("", text))))
    kept = [line.rstrip() for line in plain.splitlines() if line.strip()][-lines:]
    return redacted_output("\n".join(kept))[-_MOST:]


class Logs:
    """Reads tails and keeps them."""

    def __init__(self, api: Api, lines: int) -> None:
        self._api = api
        self._lines = lines
        self._lock = Lock()
        self._held: dict[str, str] = {}

    def tails(self, failed: list[Run]) -> dict[str, str]:
        """Node id -> tail, for as many as may be read at once. A log that cannot be read is said to be so."""
        found = {}
        fresh = 0
        for run in failed:
            with self._lock:
                held = self._held.get(run.node)
            if held is None and fresh < _AT_ONCE:
                fresh += 1
                held = self._read(run)
            found[run.node] = held or redacted_output(run.words)
        return found

    def _read(self, run: Run) -> str:
        try:
            text = tail_of(self._log(run) or self._output(run), self._lines)
        except Fault as fault:  # the check failed whether or not its log can be read; the next look tries again
            return f"{run.words}\nits log could not be read: {one_line(redacted_output(fault.what), 200)}".strip()
        text = "\n".join(part for part in (redacted_output(run.words), text) if part)
        with self._lock:
            while len(self._held) >= _MOST_HELD:
                self._held.pop(next(iter(self._held)))
            self._held[run.node] = text
        return text

    def _log(self, run: Run) -> str:
        if not run.is_job:
            return ""
        path = f"actions/jobs/{run.number}/logs"
        try:
            return self._api.get(path, what=f"the log of {one_line(run.name, 80)}", keep=_KEEP, cut=True).text
        except Missing:  # expired, or a job that never started: what its output says is all there is
            return ""

    def _output(self, run: Run) -> str:
        if run.number is None:
            return ""
        answer = self._api.get(f"check-runs/{run.number}", what=f"the output of {one_line(run.name, 80)}")
        return "\n".join(part for name in ("title", "summary", "text") if (part := at(answer.json(), "output", name)))
