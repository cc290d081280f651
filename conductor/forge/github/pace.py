"""How fast GitHub may be asked: one back-off for all callers of the process, and what is left of the budget.

GitHub says in headers when it wants to be left alone (``Retry-After``, ``x-ratelimit-*``). Whoever meets that holds
everybody: a short pause is waited for, a longer one is ``Unavailable`` at once, with the time at which it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock

from schemas.errors import Unavailable
from schemas.forge import ApiBudget

PATIENCE = 20.0
"""Seconds that a caller waits for a pause to end; a longer pause is told instead."""
_UNNAMED = 60.0
"""Seconds to pause where GitHub limits without saying for how long, as its documentation asks; doubled each time."""
_LONGEST = 3600.0
EVERYTHING = "*"
"""The budget that a secondary limit is about: all of them."""


class Pace:
    """The back-off of one host. Clocks and the pause can be given by tests."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        pause: Callable[[float], None] = time.sleep,
        patience: float = PATIENCE,
    ) -> None:
        self._clock = clock
        self._now = now
        self._pause = pause
        self._patience = patience
        self._lock = Lock()
        self._until: dict[str, float] = {}
        self._unnamed = 0
        self._budget: ApiBudget | None = None
        self._skew = 0.0

    @property
    def budget(self) -> ApiBudget | None:
        """What GraphQL, which everything hot goes through, had left at the last answer."""
        return self._budget

    def server_now(self) -> datetime:
        """GitHub's own time, by the last answer's date; ours until one came."""
        return datetime.fromtimestamp(self._now().timestamp() + self._skew, UTC)

    def before(self, resource: str) -> None:
        """Called before each request: waits for a short pause, raises ``Unavailable`` in a long one."""
        left = self.left(resource)
        if left <= 0:
            return
        if left > self._patience:
            until = datetime.fromtimestamp(self._now().timestamp() + left, UTC)
            raise Unavailable(
                f"GitHub asks to be left alone (rate limit): nothing is asked before {until:%H:%M:%S} UTC",
                "It goes on by itself then. Ask less often ([ci] poll), or give each user a token of their own.",
            )
        self._pause(left)

    def left(self, resource: str) -> float:
        """Seconds of the pause that are left."""
        with self._lock:
            until = max(self._until.get(resource, 0.0), self._until.get(EVERYTHING, 0.0))
        return until - self._clock()

    def learn(self, resource: str, headers: Mapping[str, str]) -> None:
        """Take up what an answer's headers say of time and budget."""
        date = _date(headers.get("date"))
        if date is not None:
            self._skew = (date - self._now()).total_seconds()
        remaining, limit, reset = (
            _number(headers.get(f"x-ratelimit-{name}")) for name in ("remaining", "limit", "reset")
        )
        if remaining is None or limit is None or reset is None:
            return
        if resource == "graphql":
            self._budget = ApiBudget(remaining=remaining, limit=limit, reset_at=datetime.fromtimestamp(reset, UTC))
        if remaining == 0:
            self._hold(resource, self._until_reset(reset))

    def told(self, remaining: int, limit: int, reset_at: datetime) -> None:
        """Take up the budget as a GraphQL answer gives it."""
        self._budget = ApiBudget(remaining=remaining, limit=limit, reset_at=reset_at)

    def limited(self, resource: str, headers: Mapping[str, str]) -> None:
        """GitHub refused because of a limit: hold everybody for as long as it says."""
        after, reset = _number(headers.get("retry-after")), _number(headers.get("x-ratelimit-reset"))
        if after is not None:
            self._hold(EVERYTHING, float(after))
        elif headers.get("x-ratelimit-remaining") == "0" and reset is not None:
            self._hold(resource, self._until_reset(reset))
        else:
            self._hold(EVERYTHING, _UNNAMED * 2.0**self._unnamed)
            self._unnamed = min(self._unnamed + 1, 6)

    def fine(self) -> None:
        """An answer without a limit: the next unnamed pause starts small again."""
        self._unnamed = 0

    def _until_reset(self, reset: int) -> float:
        return reset - self.server_now().timestamp() + 1.0

    def _hold(self, resource: str, seconds: float) -> None:
        until = self._clock() + min(max(seconds, 0.0), _LONGEST)
        with self._lock:
            self._until[resource] = max(self._until.get(resource, 0.0), until)


_paces: dict[str, Pace] = {}
_paces_lock = Lock()


def pace_of(host: str, login_source: str = "") -> Pace:
    """The one back-off of this process for a host, and for where its token comes from."""
    with _paces_lock:
        return _paces.setdefault(f"{host} {login_source}", Pace())


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 12 else None


def _date(text: str | None) -> datetime | None:
    try:
        found = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def moment(text: str) -> datetime:
    """A point in time as GitHub writes it."""
    return datetime.fromisoformat(text)
