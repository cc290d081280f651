"""Comments and submitted reviews of the local forge.

A post with a marker is made once, however many processes race: it is looked for and made in one transaction, in which
nobody else writes. A pending review is its author's alone, and so is its marker. Only markers given by the poster
count, not such text in somebody's body: a worker could otherwise keep a review from being posted by quoting its marker
first.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from conductor.forge.local.store import now
from conductor.forge.texts import review_text, with_marker
from schemas.forge import Comment, Posted
from schemas.review import Verdict


@dataclass(frozen=True)
class Draft:
    """A post before it is made."""

    kind: str
    author: str
    body: str
    marker: str = ""
    review_state: str | None = None
    sha: str | None = None
    as_comment: bool = False


def reviewed(connection: sqlite3.Connection, number: int) -> bool:
    """Whether a review stands there already."""
    row = connection.execute(
        "SELECT 1 FROM posts WHERE pull = ? AND kind = 'review' AND submitted_at IS NOT NULL LIMIT 1", (number,)
    ).fetchone()
    return row is not None


def review_draft(*, login: str, own: bool, verdict: Verdict, body: str, head: str, marker: str, earlier: bool) -> Draft:
    """The review as it may be posted: on one's own pull request a forge takes no verdict, so it becomes a
    comment. ``earlier``: a review came before.
    """
    text = review_text(own=own, verdict=verdict, body=body, earlier=earlier)
    return Draft("review", login, text.body, marker, text.state, head, as_comment=text.as_comment)


def find(connection: sqlite3.Connection, number: int, marker: str) -> Posted | None:
    """The post with this marker, where it stands already."""
    if not marker:
        return None
    row = connection.execute(
        "SELECT * FROM posts WHERE pull = ? AND marker = ? AND submitted_at IS NOT NULL", (number, marker)
    ).fetchone()
    return None if row is None else Posted(id=str(row["id"]), already=True, as_comment=bool(row["as_comment"]))


def post(connection: sqlite3.Connection, number: int, draft: Draft) -> Posted:
    """Make the post, inside a write that has looked for its marker. The body is given the marker if it lacks
    it. A pending review of its author with the same marker gives way to it.
    """
    body = with_marker(draft.body, draft.marker)
    if draft.marker:
        drop_pending(connection, number, "marker = ? AND author = ?", draft.marker, draft.author)
    moment = now()
    row = connection.execute(
        "INSERT INTO posts (pull, kind, author, body, marker, review_state, sha, as_comment, "
        "created_at, submitted_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            draft.kind,
            draft.author,
            body,
            draft.marker,
            draft.review_state,
            draft.sha,
            int(draft.as_comment),
            moment,
            moment,
        ),
    ).lastrowid
    connection.execute("UPDATE pulls SET updated_at = ? WHERE number = ?", (moment, number))
    if draft.kind == "review":
        answered(connection, number, draft.author)
    return Posted(id=str(row), as_comment=draft.as_comment)


def answered(connection: sqlite3.Connection, number: int, login: str) -> None:
    """Who has reviewed is not asked any longer."""
    connection.execute("DELETE FROM review_requests WHERE pull = ? AND lower(login) = lower(?)", (number, login))


def drop_pending(connection: sqlite3.Connection, number: int, where: str, *values: str | int) -> bool:
    """Remove the pending review that ``where`` (a condition of ours) names, with its threads; False without one."""
    row = connection.execute(
        f"SELECT id FROM posts WHERE pull = ? AND submitted_at IS NULL AND {where}",  # noqa: S608  # words of ours
        (number, *values),
    ).fetchone()
    if row is None:
        return False
    own = "SELECT id FROM threads WHERE review = ?"
    connection.execute(f"DELETE FROM thread_comments WHERE thread IN ({own})", (row["id"],))  # noqa: S608
    connection.execute("DELETE FROM threads WHERE review = ?", (row["id"],))
    connection.execute("DELETE FROM posts WHERE id = ?", (row["id"],))
    return True


def listed(connection: sqlite3.Connection, number: int) -> list[Comment]:
    """All that was submitted, oldest first."""
    rows = connection.execute(
        "SELECT * FROM posts WHERE pull = ? AND submitted_at IS NOT NULL ORDER BY submitted_at, id", (number,)
    )
    return [
        Comment(
            id=str(row["id"]),
            author=row["author"],
            body=row["body"],
            at=row["submitted_at"],
            kind=row["kind"],
            review_state=row["review_state"],
            commit=row["sha"],
        )
        for row in rows
    ]
