"""Runs ``gh api`` and takes its answer apart: status, headers, body. Nothing here knows what is asked for.

Bodies go in by stdin, so that neither the process list nor a shell ever sees them. gh neither retries nor gives up by
itself: the time limit is set here, and ends all that it started.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conductor.forge.github.faults import Dropped, NoAnswer, not_logged_in
from conductor.forge.github.redact import redacted_output
from schemas.errors import Unavailable
from schemas.text import clean, one_line
from worker.tools.process import Outcome, run

KEEP = 64 * 1024 * 1024
"""Bytes of an answer; a longer one is a fault, never a shorter answer."""

# What would change gh's output, its target, or make it ask or call home.
_UNWANTED = frozenset(
    {"GH_DEBUG", "DEBUG", "GH_FORCE_TTY", "GH_HOST", "GH_REPO", "GH_PATH", "CLICOLOR_FORCE", "GH_MDWIDTH", "GH_BROWSER"}
)
_SETTINGS = {
    "GH_PROMPT_DISABLED": "1",
    "NO_COLOR": "1",
    "CLICOLOR": "0",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_NO_EXTENSION_UPDATE_NOTIFIER": "1",
    "GH_SPINNER_DISABLED": "1",
    "GH_TELEMETRY": "false",
    "DO_NOT_TRACK": "true",
    "GH_PAGER": "cat",
    "PAGER": "cat",
    "LC_ALL": "C.UTF-8",
}
_UNLESS_SET = {"GOGC": "400"}
"""gh is a process of some milliseconds, and a quarter of them went into collecting its garbage."""
_ESCAPES = "--allow-escape-sequences"
_NEEDS_LOGIN = 4
"""gh's exit code where it has no token for the host."""
_ALIAS = (
    " {host} stands in the remote's URL: where it is an alias of your ssh configuration, set `host` (github.com, say), "
    "and `repository` (owner/name) where the URL does not name it, in [forge.github]."
)
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})")
_NOT_SENT = re.compile(
    r"connection refused|no such host|network is unreachable|no route to host|connect: no such file|name resolution"
    r"|error connecting to",
    re.IGNORECASE,
)


def gh_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for gh: the user's own, without what changes how it speaks."""
    wanted = {name: value for name, value in given.items() if name not in _UNWANTED}
    return {**_UNLESS_SET, **wanted, **_SETTINGS}


@dataclass(frozen=True)
class Answer:
    """What the server answered, with a complete body. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """Raises ``Dropped`` where the body is no JSON: it was cut off, or somebody in between answered."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            said = one_line(redacted_output(self.text), 120)
            raise Dropped(
                f"GitHub's answer (HTTP {self.status}) is not JSON: {said or 'empty'}",
                "Ask again; where it stays, look for a proxy in between.",
            ) from error


class Gh:
    """``gh api`` for one host. Safe to share between threads."""

    def __init__(
        self,
        program: Path,
        host: str,
        *,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        read_off: bool = False,
    ) -> None:
        """``environment``: in place of this process's own. ``read_off``: the host is the one in the remote's URL, which
        may be an alias that only ssh knows.
        """
        self.host = host
        self._program = program
        self._timeout = timeout
        self._given = environment
        self._read_off = read_off
        self._extra: list[str] = []

    def call(
        self,
        path: str,
        *,
        method: str = "GET",
        data: Mapping[str, Any] | None = None,
        accept: str | None = None,
        keep: int = KEEP,
        cut: bool = False,
    ) -> Answer:
        """One request; any status is an answer. ``keep`` bounds the bytes of it; with ``cut`` the middle of a longer
        one is left out, else that is a fault.

        Raises ``Dropped`` where no whole answer came, ``NoAnswer`` where gh ended well without one, ``NeedsPerson``
        where gh is not logged in.
        """
        done = self._run(path, method, data, accept, keep)
        if not done.ok and method == "GET" and _ESCAPES in done.errors:
            # Newer ones refuse text with colours in it unless told; older ones do not know the word.
            self._extra = [_ESCAPES]
            done = self._run(path, method, data, accept, keep)
        return self._read(done, f"{method} {one_line(path, 120)}", cut=cut)

    def doubt(self) -> str:
        """What to add to a remedy where the host may be an alias of ssh: it is the URL's, and gh knows none such."""
        if not self._read_off:
            return ""
        environment = gh_environment(os.environ if self._given is None else self._given)
        argv = [str(self._program), "config", "get", "user", "--host", self.host]
        known = run(argv, cwd="/", timeout=self._timeout, env=environment, merge=False, leave=True)
        return "" if known.ok and known.output.strip() else _ALIAS.format(host=self.host)

    def _run(self, path: str, method: str, data: Mapping[str, Any] | None, accept: str | None, keep: int) -> Outcome:
        argv = [str(self._program), "api", "--hostname", self.host, "--include", "--method", method]
        if accept is not None:
            argv += ["--header", f"Accept: {accept}"]
        if method == "GET":
            argv += self._extra
        body = None
        if data is not None:
            argv += ["--input", "-"]
            body = json.dumps(data).encode()
        environment = gh_environment(os.environ if self._given is None else self._given)
        return run(
            [*argv, "--", path],
            cwd="/",
            timeout=self._timeout,
            env=environment,
            input=body,
            keep=keep,
            merge=False,
            leave=True,
        )

    def _read(self, done: Outcome, what: str, *, cut: bool) -> Answer:
        where = f"{self.host}, {what}"
        said = one_line(redacted_output(done.errors, self._given), 300)
        if done.timed_out:
            raise Dropped(
                f"GitHub did not answer within {self._timeout:g} s ({where})",
                "Ask again later, or raise `timeout` in [forge.github].",
            )
        if done.returncode == _NEEDS_LOGIN or "gh auth login" in said:
            raise not_logged_in(self.host, said, more=self.doubt())
        answer = _parse(done.data)
        if answer is None and done.ok:
            raise NoAnswer(
                f"the gh program at {self._program} answered something that is no answer of GitHub's ({where}): "
                f"{self._first_line(done) or 'nothing'}",
                "Run `gh api user` by hand with that program; where it is no better, install gh again: "
                "https://cli.github.com",
            )
        if answer is None:
            sent = not _NOT_SENT.search(said)
            raise Dropped(
                f"GitHub cannot be reached ({where}): {said or done.ending()}",
                "Look at the network and at https://www.githubstatus.com, then try again."
                + ("" if sent else self.doubt()),
                sent=sent,
            )
        if done.truncated and not cut:
            raise Unavailable(f"GitHub's answer is too large ({where})", "Ask for less at once.")
        # gh ends with 1 for an answer that is an error; what else makes it fail came while it read the body.
        if not done.ok and answer.status < 400 and not _holds_errors(answer):
            raise Dropped(f"GitHub's answer broke off ({where}): {said or done.ending()}", "Ask again.")
        return answer

    def _first_line(self, done: Outcome) -> str:
        lines = (line for line in f"{done.output}\n{done.errors}".splitlines() if line.strip())
        return one_line(redacted_output(next(lines, ""), self._given), 120)


def _parse(raw: bytes) -> Answer | None:
    head, gap, body = raw.partition(b"\r\n\r\n")
    first, _, rest = head.partition(b"\n")
    found = _STATUS.match(first)
    if not gap or found is None:
        return None
    headers = {}
    for line in rest.decode("utf-8", "replace").split("\r\n"):
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = clean(value).strip()
    return Answer(int(found[1]), headers, body)


def _holds_errors(answer: Answer) -> bool:
    """A GraphQL answer whose errors made gh fail: complete, and read further on."""
    if b'"errors"' not in answer.body:
        return False
    try:
        return isinstance(json.loads(answer.body), dict)
    except ValueError:
        return False
