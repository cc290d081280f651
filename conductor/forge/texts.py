"""The words and limits that all forges share: a review of one's own, titles, bodies, markers, closed issues."""

from __future__ import annotations

from typing import NamedTuple

from schemas.errors import BadInput
from schemas.review import Verdict
from schemas.text import one_line

MAX_TITLE = 300
"""Characters in a title: a longer one is refused, not cut."""
MAX_BODY = 65_536
"""Characters in a body: GitHub's limit, kept by every forge, so that what works on one works on the other."""
SELF_APPROVAL = "✅ Review complete - all comments addressed"
"""What an approval of one's own pull request says, as a comment (review protocol, Approval)."""
FIRST_APPROVAL = "✅ Review complete - nothing to address"
"""The same where no review came before: there were no comments."""


class ReviewText(NamedTuple):
    """A review as a forge takes it."""

    body: str
    state: str
    as_comment: bool


def review_text(*, own: bool, verdict: Verdict, body: str, earlier: bool) -> ReviewText:
    """The review as it may be posted: on one's own pull request a forge takes no verdict, so it becomes a comment.
    ``earlier``: a review came before.
    """
    if not own:
        return ReviewText(body, "approved" if verdict is Verdict.APPROVE else "changes_requested", False)
    words = SELF_APPROVAL if earlier else FIRST_APPROVAL
    if verdict is Verdict.APPROVE and not body.startswith(words):
        body = f"{words}\n\n{body}".rstrip()
    return ReviewText(body, "commented", True)


def with_marker(body: str, marker: str) -> str:
    """The body, checked, with the marker at its end unless it has it. Raises ``BadInput`` where nothing is said."""
    if not (body if marker in body else f"{body}{marker}").strip():
        raise BadInput("the text is empty", "Say something, with --body or --body-file.")
    return checked_body(body) if marker in body else with_line(body.rstrip(), marker)


def with_line(body: str, line: str) -> str:
    """The body, checked, with a hidden line at its end. Raises ``BadInput`` where there is no room for both."""
    end = f"\n\n{line}"
    return checked_body(body, kept=len(end)) + end


def checked_title(title: str) -> str:
    line = one_line(title, MAX_TITLE + 1)
    if not line:
        raise BadInput("the title is empty", "Give one line that says what it is about.")
    if len(line) > MAX_TITLE:
        raise BadInput(
            f"the title has {len(title)} characters, more than {MAX_TITLE}", "Shorten it; the text has room for more."
        )
    return line


def checked_body(body: str, *, kept: int = 0) -> str:
    """``kept``: characters that are needed for a line of ours."""
    room = MAX_BODY - kept
    if room < len(body) <= MAX_BODY:
        raise BadInput(
            f"the body has {len(body)} characters, more than {room}: of the {MAX_BODY} that fit, {kept} are needed for "
            "a hidden line of taskmaestro's, by which the post is found again",
            "Shorten it, or put the rest into a file.",
        )
    if len(body) > room:
        raise BadInput(
            f"the body has {len(body)} characters, more than {MAX_BODY}",
            "Shorten it, or put the rest into a file.",
        )
    return body.encode("utf-8", "replace").decode("utf-8")
