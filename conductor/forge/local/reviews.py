"""The review loops' side of the local forge: requested reviewers, pending reviews, threads, the history of heads.

The rules are those of GitHub, so that what works here works there: one pending review for each login, seen by nobody
else; no review of one's own pull request is asked for; comments stand on lines that the diff shows; whoever has
reviewed is not asked any longer.
"""

from __future__ import annotations

import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from conductor.core.diff import shown_lines
from conductor.forge.local import posts, pulls
from conductor.forge.local.layout import Layout
from conductor.forge.local.plumbing import diff
from conductor.forge.local.refs import Refs
from conductor.forge.local.store import Store, now
from conductor.forge.texts import checked_body, with_marker
from conductor.ports import HeadMovedError
from schemas.errors import BadInput, NotSo
from schemas.forge import (
    DraftComment,
    PendingReview,
    Posted,
    Push,
    RequestedReviewer,
    SubmittedReview,
    Thread,
    ThreadComment,
)
from schemas.review import Verdict
from schemas.text import one_line

_NOT_NAME = re.compile(r"[^\w.-]+")


class ReviewsOfLocal(ABC):
    """The ports ``LoopFacts``, ``DraftReviews`` and ``Threads``; a part of ``LocalForge``."""

    _root: Path
    _layout: Layout
    _store: Store
    _refs: Refs

    @abstractmethod
    def login(self) -> str:
        """The acting login."""

    @abstractmethod
    def _one(self, number: int) -> pulls.Observed:
        """The pull request, brought up to date."""

    def repository(self) -> str:
        """``local/<name of the managed repository's folder>``."""
        return f"local/{_NOT_NAME.sub('-', self._root.name) or 'repository'}".lower()

    # --- requested reviewers ---

    def requested_reviewers(self, number: int) -> list[RequestedReviewer]:
        with self._store.read() as connection:
            pulls.row_of(connection, number)
            rows = connection.execute(
                "SELECT login, requested_at FROM review_requests WHERE pull = ? ORDER BY login", (number,)
            ).fetchall()
        return [RequestedReviewer(login=row["login"], at=row["requested_at"]) for row in rows]

    def request_review(self, number: int, login: str) -> bool:
        wanted = _named(login)
        self._one(number)
        with self._store.write() as connection:
            row = pulls.row_of(connection, number)
            if row["state"] != "open":
                raise NotSo(f"pull request #{number} is {row['state']}, so nobody can be asked to review it", "")
            if row["author"].lower() == wanted:
                raise NotSo(f"{wanted} is the author of #{number}", "Ask somebody else for the review.")
            done = connection.execute(
                "INSERT OR IGNORE INTO review_requests (pull, login, requested_at) VALUES (?, ?, ?)",
                (number, wanted, now()),
            )
        self._layout.wake("pulls")
        return done.rowcount > 0

    def withdraw_request(self, number: int, login: str) -> bool:
        with self._store.write() as connection:
            pulls.row_of(connection, number)
            done = connection.execute(
                "DELETE FROM review_requests WHERE pull = ? AND login = ?", (number, _named(login))
            )
        self._layout.wake("pulls")
        return done.rowcount > 0

    # --- reviews and heads ---

    def submitted_reviews(self, number: int) -> list[SubmittedReview]:
        with self._store.read() as connection:
            pulls.row_of(connection, number)
            rows = connection.execute(
                "SELECT * FROM posts WHERE pull = ? AND kind = 'review' AND submitted_at IS NOT NULL "
                "ORDER BY submitted_at, id",
                (number,),
            ).fetchall()
        return [
            SubmittedReview(
                id=str(row["id"]),
                author=row["author"],
                state=row["review_state"],
                commit=row["sha"],
                body=row["body"],
                at=row["submitted_at"],
            )
            for row in rows
        ]

    def pushes(self, number: int) -> list[Push]:
        self._one(number)
        with self._store.read() as connection:
            rows = connection.execute("SELECT sha, seen_at FROM heads WHERE pull = ? ORDER BY id", (number,)).fetchall()
        return [Push(head=row["sha"], at=row["seen_at"]) for row in rows]

    # --- pending reviews ---

    def pending_review(self, number: int) -> PendingReview | None:
        with self._store.read() as connection:
            pulls.row_of(connection, number)
            row = connection.execute(
                "SELECT * FROM posts WHERE pull = ? AND author = ? AND submitted_at IS NULL", (number, self.login())
            ).fetchone()
            return None if row is None else _pending(connection, row, already=True)

    def stage_review(
        self, number: int, *, commit: str, body: str, marker: str, comments: Sequence[DraftComment] = ()
    ) -> PendingReview:
        login, text = self.login(), with_marker(body, marker)
        if not marker:
            raise BadInput("a review is staged under a marker", "Give one, so that it is staged once.")
        self._check_places(self._one(number), commit, comments)
        with self._store.write() as connection:
            pulls.row_of(connection, number)
            known = self._known(connection, number, login, marker)
            if known is not None:
                return known
            row = self._insert_pending(connection, number, login, text, marker, commit)
            for comment in comments:
                _insert_thread(connection, number, row["id"], login, commit, comment)
            staged = _pending(connection, row)
        self._layout.wake("posts")
        return staged

    def _known(self, connection: sqlite3.Connection, number: int, login: str, marker: str) -> PendingReview | None:
        found = connection.execute(
            "SELECT * FROM posts WHERE pull = ? AND marker = ? AND author = ?", (number, marker, login)
        ).fetchone()
        if found is not None:
            return _pending(connection, found, already=True)
        other = connection.execute(
            "SELECT id, sha FROM posts WHERE pull = ? AND author = ? AND submitted_at IS NULL", (number, login)
        ).fetchone()
        if other is None:
            return None
        raise NotSo(
            f"another review of #{number} is pending ({other['id']}, for {other['sha'][:12]})",
            f"Submit it, or discard it: taskmaestro pr discard {number}",
        )

    def _insert_pending(
        self, connection: sqlite3.Connection, number: int, login: str, text: str, marker: str, commit: str
    ) -> sqlite3.Row:
        connection.execute(
            "INSERT INTO posts (pull, kind, author, body, marker, sha, created_at) VALUES (?, 'review', ?, ?, ?, ?, ?)",
            (number, login, text, marker, commit, now()),
        )
        statement = "SELECT * FROM posts WHERE pull = ? AND marker = ? AND author = ?"
        return _row(connection, statement, (number, marker, login))

    def _check_places(self, one: pulls.Observed, commit: str, comments: Sequence[DraftComment]) -> None:
        if not comments:
            return
        shown = shown_lines(diff(self._layout.repo, one.base, commit))
        for comment in comments:
            if comment.line not in shown.get(comment.path, frozenset()):
                raise BadInput(
                    f"{one_line(comment.path)}:{comment.line} is not in the diff of {commit[:12]}",
                    "Comments stand on lines that the diff shows; say it in the body instead.",
                )

    def discard_review(self, number: int, review: str) -> bool:
        with self._store.write() as connection:
            row = self._own(connection, number, review)
            gone = posts.drop_pending(connection, number, "id = ?", row["id"]) if row is not None else False
        self._layout.wake("posts")
        return gone

    def submit_review(self, number: int, review: str, *, verdict: Verdict | None, stale: bool = False) -> Posted:
        login = self.login()
        with self._store.write() as connection:
            pull = pulls.row_of(connection, number)
            row = self._own(connection, number, review)
            if row is None:
                raise NotSo(f"#{number} has no review {one_line(review)} of yours", "Stage it first.")
            if row["submitted_at"] is not None:
                return Posted(id=str(row["id"]), already=True, as_comment=bool(row["as_comment"]))
            self._may_submit(pull, row["sha"], verdict, stale=stale)
            earlier = posts.reviewed(connection, number)
            made = _submission(pull["author"] == login, verdict, row["body"], row["sha"], login, earlier=earlier)
            moment = now()
            connection.execute(
                "UPDATE posts SET submitted_at = ?, review_state = ?, body = ?, as_comment = ? WHERE id = ?",
                (moment, made.review_state, made.body, int(made.as_comment), row["id"]),
            )
            connection.execute("UPDATE pulls SET updated_at = ? WHERE number = ?", (moment, number))
            posts.answered(connection, number, login)
        self._layout.wake("posts")
        return Posted(id=str(row["id"]), as_comment=made.as_comment)

    def _may_submit(self, pull: sqlite3.Row, commit: str, verdict: Verdict | None, *, stale: bool) -> None:
        approves = verdict is Verdict.APPROVE
        if approves and pull["state"] != "open":
            raise NotSo(f"pull request #{pull['number']} is {pull['state']}, so it cannot be approved", "Discard it.")
        current = pulls.look(self._refs, pull).head
        if current != commit and (approves or not stale):
            raise HeadMovedError(current)

    def _own(self, connection: sqlite3.Connection, number: int, review: str) -> sqlite3.Row | None:
        """The acting login's review of this id, pending or submitted."""
        pulls.row_of(connection, number)
        found: sqlite3.Row | None = connection.execute(
            "SELECT * FROM posts WHERE pull = ? AND id = ? AND author = ? AND kind = 'review'",
            (number, _id(review), self.login()),
        ).fetchone()
        return found

    # --- threads ---

    def threads(self, number: int) -> list[Thread]:
        with self._store.read() as connection:
            pulls.row_of(connection, number)
            rows = connection.execute(
                "SELECT threads.* FROM threads LEFT JOIN posts ON posts.id = threads.review "
                "WHERE threads.pull = ? AND (threads.review IS NULL OR posts.submitted_at IS NOT NULL) "
                "ORDER BY threads.id",
                (number,),
            ).fetchall()
            return [_thread(connection, row) for row in rows]

    def reply(self, number: int, thread: str, body: str, *, author: str | None = None) -> Posted:
        by, text = (author or self.login()), checked_body(body)
        if not text.strip():
            raise BadInput("the text is empty", "Say something, with --body or --body-file.")
        with self._store.write() as connection:
            row = _thread_row(connection, number, thread)
            moment = now()
            made = connection.execute(
                "INSERT INTO thread_comments (thread, author, body, created_at) VALUES (?, ?, ?, ?)",
                (row["id"], by, text, moment),
            ).lastrowid
            connection.execute("UPDATE pulls SET updated_at = ? WHERE number = ?", (moment, number))
        self._layout.wake("posts")
        return Posted(id=str(made))

    def resolve(self, number: int, thread: str) -> bool:
        login = self.login()
        with self._store.write() as connection:
            row = _thread_row(connection, number, thread)
            if row["resolved_at"] is not None:
                return False
            connection.execute(
                "UPDATE threads SET resolved_at = ?, resolved_by = ? WHERE id = ?", (now(), login, row["id"])
            )
        self._layout.wake("posts")
        return True


def _named(login: str) -> str:
    found = login.strip().lower()
    if not found:
        raise BadInput("the reviewer has no login", "Name somebody with --reviewer.")
    if len(found) > 100 or any(sign.isspace() or not sign.isprintable() for sign in found):
        raise BadInput(f"{one_line(login, 100)!r} is no login: it has blanks or is too long", "Name one login each.")
    return found


def _id(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else 0


def _row(connection: sqlite3.Connection, statement: str, values: tuple[int | str, ...]) -> sqlite3.Row:
    found: sqlite3.Row = connection.execute(statement, values).fetchone()
    return found


def _pending(connection: sqlite3.Connection, row: sqlite3.Row, *, already: bool = False) -> PendingReview:
    comments = _row(connection, "SELECT count(*) AS n FROM threads WHERE review = ?", (row["id"],))["n"]
    return PendingReview(
        id=str(row["id"]),
        author=row["author"],
        commit=row["sha"],
        body=row["body"],
        marker=row["marker"],
        comments=comments,
        already=already,
        submitted=row["submitted_at"] is not None,
        as_comment=bool(row["as_comment"]),
    )


def _submission(own: bool, verdict: Verdict | None, body: str, head: str, login: str, *, earlier: bool) -> posts.Draft:
    if verdict is None:
        return posts.Draft("review", login, body, review_state="commented", sha=head)
    return posts.review_draft(login=login, own=own, verdict=verdict, body=body, head=head, marker="", earlier=earlier)


def _insert_thread(
    connection: sqlite3.Connection, number: int, review: int, login: str, commit: str, comment: DraftComment
) -> None:
    thread = connection.execute(
        "INSERT INTO threads (pull, review, path, line, sha) VALUES (?, ?, ?, ?, ?)",
        (number, review, comment.path, comment.line, commit),
    ).lastrowid
    connection.execute(
        "INSERT INTO thread_comments (thread, review, author, body, created_at) VALUES (?, ?, ?, ?, ?)",
        (thread, review, login, checked_body(comment.body), now()),
    )


def _thread_row(connection: sqlite3.Connection, number: int, thread: str) -> sqlite3.Row:
    pulls.row_of(connection, number)
    found: sqlite3.Row | None = connection.execute(
        "SELECT threads.* FROM threads LEFT JOIN posts ON posts.id = threads.review WHERE threads.pull = ? "
        "AND threads.id = ? AND (threads.review IS NULL OR posts.submitted_at IS NOT NULL)",
        (number, _id(thread)),
    ).fetchone()
    if found is None:
        raise NotSo(f"#{number} has no thread {one_line(thread)}", f"See `taskmaestro pr threads {number}`.")
    return found


def _thread(connection: sqlite3.Connection, row: sqlite3.Row) -> Thread:
    said = connection.execute("SELECT * FROM thread_comments WHERE thread = ? ORDER BY id", (row["id"],))
    return Thread(
        id=str(row["id"]),
        path=row["path"],
        line=row["line"],
        commit=row["sha"],
        review=None if row["review"] is None else str(row["review"]),
        resolved=row["resolved_at"] is not None,
        comments=tuple(ThreadComment(author=one["author"], body=one["body"], at=one["created_at"]) for one in said),
    )
