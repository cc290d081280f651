"""What a review pass writes down of itself: the file that ``loop reviewer --local-state`` reads.

The conductor writes ``state/reviews/pr-N.json`` from its journal, ``loop stage`` the file that it is told. It has the
local metadata of the snapshot contract, and which pass they are about: a pass of another head says nothing of this one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from schemas.errors import BadInput
from schemas.loops.fields import Field, as_object, positive, read_all, text, to_object
from schemas.loops.reviewer import FIELDS as SNAPSHOT_FIELDS
from schemas.loops.reviewer import LOCAL_FIELDS

CONDUCTOR = "conductor"


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _list(name: str, doc: str) -> Field:
    return Field(name, _texts, {"type": "array", "items": {"type": "string"}, "default": [], "description": doc})


FIELDS: tuple[Field, ...] = (
    positive("prNumber", "the pull request; another one's file is refused"),
    text("headSha", "the commit that the pass is about; null: whichever is the head"),
    text("reviewerLogin", "who reviews"),
    text("passStartedAt", "ISO 8601; reviews that were submitted before belong to earlier passes"),
    text("reviewId", "the id of the pass"),
    text("verdict", "what the merged review says: APPROVE, COMMENT or REQUEST_CHANGES"),
    _list("angles", "the angles that the pass covers"),
    _list("limitations", "what it could not do"),
    text("writtenBy", "conductor, where it is the conductor's own"),
    *(next(field for field in SNAPSHOT_FIELDS if field.name == name) for name in LOCAL_FIELDS),
)


class LocalState(NamedTuple):
    """In normal form; made by ``read_local_state``. The attributes are in the order of ``FIELDS``."""

    pr_number: int | None = None
    head_sha: str | None = None
    reviewer_login: str | None = None
    pass_started_at: str | None = None
    review_id: str | None = None
    verdict: str | None = None
    angles: list[str] = []  # noqa: RUF012  # never changed
    limitations: list[str] = []  # noqa: RUF012
    written_by: str | None = None
    local_planning_status: str = "none"
    local_review_runs_status: str = "none"
    local_merge_status: str = "none"
    draft_review_prepared: bool = False
    draft_review_posted: bool = False
    draft_review_id: int | None = None
    draft_review_url: str | None = None
    draft_review_commit_sha: str | None = None
    draft_review_notification_status: str = "none"
    review_submission_status: str = "none"

    @property
    def started(self) -> datetime | None:
        """When the pass began; None where that is not said."""
        try:
            moment = datetime.fromisoformat(self.pass_started_at or "")
        except ValueError:
            return None
        return moment if moment.tzinfo is not None else None

    @property
    def active(self) -> bool:
        """A pass goes on, or has ended with a submission."""
        words = (self.local_planning_status, self.local_review_runs_status, self.local_merge_status)
        settled = self.review_submission_status != "none"
        return self.draft_review_prepared or self.draft_review_posted or settled or any(one != "none" for one in words)


AHEAD = timedelta(minutes=5)
"""How far the clock of whoever wrote a state may be ahead of ours."""


def read_local_state(raw: object, *, number: int | None = None, now: datetime | None = None) -> LocalState:
    """The file's content in normal form. Raises ``BadInput`` where it is no object, or of another pull request.

    With ``now``, also where its pass is to begin later: every submitted review would count as an earlier one's.
    """
    state = LocalState._make(read_all(FIELDS, as_object(raw, "local state")))
    if number is not None and state.pr_number not in (None, number):
        raise BadInput(f"the local state is of #{state.pr_number}, not of #{number}", "Name the file of this one.")
    if now is not None and state.started is not None and state.started - now > AHEAD:
        raise BadInput(
            f"the local state's passStartedAt, {state.started.isoformat()}, is in the future",
            "Set this machine's clock, or write the state again.",
        )
    return state


def write_local_state(state: LocalState) -> dict[str, Any]:
    """The state as a JSON object."""
    return to_object(FIELDS, state)
