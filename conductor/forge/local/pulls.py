"""Pull requests and issues of the local forge as rows, and what is observed of their heads.

A head is always the branch's ref in the bare repository; the columns only say what was seen last. When a ref
moved, the observation is recorded once: head history, merge detection, superseded checks, a new run.

Merged: the base branch came to contain the head, and did not contain it before. A branch that is reset onto
its base brings nothing and so is not merged. Deleted branch: the request is closed, as on GitHub, unless it
was merged.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from conductor.core.description import closed_by, closes
from conductor.forge.local import runs
from conductor.forge.local.layout import Layout, replace_text
from conductor.forge.local.plumbing import (
    MergeUnsupported,
    commit_tree,
    delete_ref,
    is_ancestor,
    merged_tree,
    update_ref,
)
from conductor.forge.local.refs import Refs
from conductor.forge.local.store import Store, now
from schemas.errors import NotSo
from schemas.forge import Issue, PullRequest


@dataclass(frozen=True)
class Observed:
    """What a pull request's refs say now, and whether that is new."""

    row: sqlite3.Row
    head: str
    base: str
    branch_there: bool

    @property
    def moved(self) -> bool:
        return (self.head, self.base) != (
            self.row["head_seen"],
            self.row["base_seen"],
        ) or not self.branch_there


def close_its_issues(connection: sqlite3.Connection, refs: Refs, row: sqlite3.Row) -> None:
    """Close what a merged pull request says it closes; only the default branch counts, as on GitHub."""
    if row["base_branch"] == refs.head_branch():
        close_issues(connection, closed_by(row["body"]))


def close_issues(connection: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Close these issues; numbers of closed ones and of no issue are passed over."""
    connection.executemany(
        "UPDATE issues SET state = 'closed', updated_at = ? WHERE number = ? AND state = 'open'",
        [(now(), number) for number in numbers],
    )


def to_pull(observed: Observed) -> PullRequest:
    row = observed.row
    return PullRequest(
        number=row["number"],
        title=row["title"],
        body=row["body"],
        author=row["author"],
        state=row["state"],
        draft=bool(row["draft"]),
        head_branch=row["head_branch"],
        head=observed.head,
        base_branch=row["base_branch"],
        base=observed.base,
        issue=closes(row["body"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def to_issue(row: sqlite3.Row) -> Issue:
    return Issue(number=row["number"], title=row["title"], body=row["body"], state=row["state"])


def new_number(connection: sqlite3.Connection, kind: str) -> int:
    inserted = connection.execute("INSERT INTO numbers (kind) VALUES (?) RETURNING number", (kind,))
    return int(inserted.fetchone()[0])


def rows_of(connection: sqlite3.Connection, numbers: Sequence[int] | None) -> list[sqlite3.Row]:
    """These pull requests (unknown ones left out), or all open ones, by number."""
    if numbers is None:
        return connection.execute("SELECT * FROM pulls WHERE state = 'open' ORDER BY number").fetchall()
    return connection.execute(
        "SELECT * FROM pulls WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number",
        (json.dumps(list(numbers)),),
    ).fetchall()


def row_of(connection: sqlite3.Connection, number: int) -> sqlite3.Row:
    rows = rows_of(connection, [number])
    if not rows:
        kind = connection.execute("SELECT kind FROM numbers WHERE number = ?", (number,)).fetchone()
        raise NotSo(
            f"there is no pull request #{number} in the local forge" + (", it is an issue" if kind else ""),
            "See `taskmaestro pr list` for the open ones.",
        )
    return rows[0]


def issue_row(connection: sqlite3.Connection, number: int) -> sqlite3.Row:
    row: sqlite3.Row | None = connection.execute("SELECT * FROM issues WHERE number = ?", (number,)).fetchone()
    if row is None:
        kind = connection.execute("SELECT kind FROM numbers WHERE number = ?", (number,)).fetchone()
        raise NotSo(
            f"there is no issue #{number} in the local forge" + (", it is a pull request" if kind else ""),
            "See `taskmaestro issue list`.",
        )
    return row


def look(refs: Refs, row: sqlite3.Row) -> Observed:
    """Read a pull request's refs now. One that is closed or merged stays as it was then."""
    if row["state"] != "open":
        return Observed(row, row["head_seen"], row["base_seen"], True)
    head = refs.branch(row["head_branch"])
    base = refs.branch(row["base_branch"]) or row["base_seen"]
    return Observed(row, head or refs.pull_head(row["number"]) or row["head_seen"], base, head is not None)


def write_open_pulls(connection: sqlite3.Connection, layout: Layout) -> None:
    """Tell the hook which branches have pull requests. Inside a write, so that the last writer writes it
    last.
    """
    rows = connection.execute("SELECT number, head_branch FROM pulls WHERE state = 'open' ORDER BY number")
    replace_text(layout.open_pulls, "".join(f"{row['number']} {row['head_branch']}\n" for row in rows))


def end(connection: sqlite3.Connection, layout: Layout, number: int, state: str, why: str) -> None:
    """Close or merge a pull request and let go of its checks."""
    connection.execute(
        "UPDATE pulls SET state = ?, state_why = ?, ended_at = ?, updated_at = ? WHERE number = ?",
        (state, why, now(), now(), number),
    )
    _cancel_unwanted(connection, row_of(connection, number)["head_seen"])
    write_open_pulls(connection, layout)


def reopen(connection: sqlite3.Connection, layout: Layout, number: int, refs: tuple[str, str]) -> None:
    """Open a closed pull request again, at these commits (head, base). Raises ``NotSo`` where its branch has an open
    one by now.
    """
    row = row_of(connection, number)
    if row["state"] != "closed":
        return  # another process was faster
    head, base = refs
    other = connection.execute(
        "SELECT number FROM pulls WHERE head_branch = ? AND state = 'open'", (row["head_branch"],)
    ).fetchone()
    if other is not None:
        raise NotSo(
            f"{row['head_branch']} has an open pull request already, #{other['number']}",
            f"Go on with that one, or close it first: taskmaestro pr close {other['number']}",
        )
    connection.execute(
        "UPDATE pulls SET state = 'open', state_why = '', ended_at = NULL, base_seen = ?, updated_at = ?"
        " WHERE number = ?",
        (base, now(), number),
    )
    if head != row["head_seen"]:
        see_head(connection, number, head, base)
    write_open_pulls(connection, layout)


class Observer:
    """Brings rows up to what the refs say."""

    def __init__(self, layout: Layout, store: Store, refs: Refs, plan: runs.Plan) -> None:
        self._layout = layout
        self._store = store
        self._refs = refs
        self._plan = plan

    def observe(self, rows: Sequence[sqlite3.Row]) -> list[Observed]:
        """The same pull requests, up to date. Where nothing moved, this only reads a few small files."""
        seen = [look(self._refs, row) for row in rows]
        moved = [one for one in seen if one.moved]
        if not moved:
            return seen
        for one in moved:
            self._record(one)
        with self._store.read() as connection:
            again = rows_of(connection, [row["number"] for row in rows])
        return [look(self._refs, row) for row in again]

    def _record(self, one: Observed) -> None:
        number = one.row["number"]
        merged = self._became_merged(one)
        if one.head != self._refs.pull_head(number):
            update_ref(self._layout.repo, f"refs/pull/{number}/head", one.head)
        with self._store.write() as connection:
            row = row_of(connection, number)
            if row["state"] != "open" or (row["head_seen"], row["base_seen"]) != (
                one.row["head_seen"],
                one.row["base_seen"],
            ):
                return  # another process has recorded it meanwhile
            if one.head != row["head_seen"]:
                see_head(connection, number, one.head, one.base)
                _cancel_unwanted(connection, row["head_seen"])
            if merged:
                # base_seen stays: the diff of a merged request is against the base before the merge.
                end(connection, self._layout, number, "merged", f"{one.row['base_branch']} contains its head")
                close_its_issues(connection, self._refs, row)
                return
            connection.execute("UPDATE pulls SET base_seen = ? WHERE number = ?", (one.base, number))
            if one.branch_there:
                runs.queue(connection, one.head, self._plan)
            else:
                end(connection, self._layout, number, "closed", "its branch was deleted")

    def _became_merged(self, one: Observed) -> bool:
        repo, before = self._layout.repo, one.row["base_seen"]
        if one.base == before or not is_ancestor(repo, one.head, one.base):
            return False
        return not is_ancestor(repo, one.head, before)

    def refresh_merge_ref(self, one: Observed) -> None:
        """Bring ``refs/pull/N/merge`` up to date: the merge of head and base, absent while they conflict.

        Done when one pull request is asked for, as GitHub does: a base that moves would otherwise cost a
        merge for every open request at once. Two processes that do it at the same time make the same commit.
        """
        row, repo = one.row, self._layout.repo
        if row["state"] != "open" or (row["merge_head"], row["merge_base"]) == (one.head, one.base):
            return
        name = f"refs/pull/{row['number']}/merge"
        try:
            tree = merged_tree(repo, one.base, one.head)
        except MergeUnsupported:
            tree = None
        if tree is None:
            delete_ref(repo, name)
        else:
            message = f"Merge {one.head} into {one.base}"
            update_ref(repo, name, commit_tree(repo, tree, (one.base, one.head), message, like=one.head))
        with self._store.write() as connection:
            connection.execute(
                "UPDATE pulls SET merge_head = ?, merge_base = ? WHERE number = ?",
                (one.head, one.base, row["number"]),
            )


def see_head(connection: sqlite3.Connection, number: int, head: str, base: str) -> None:
    """Record a head in the history of its pull request."""
    connection.execute("INSERT INTO heads (pull, sha, base, seen_at) VALUES (?, ?, ?, ?)", (number, head, base, now()))
    connection.execute("UPDATE pulls SET head_seen = ?, updated_at = ? WHERE number = ?", (head, now(), number))


def _cancel_unwanted(connection: sqlite3.Connection, sha: str) -> None:
    wanted = connection.execute("SELECT 1 FROM pulls WHERE head_seen = ? AND state = 'open' LIMIT 1", (sha,)).fetchone()
    if wanted is None:
        runs.cancel(connection, [sha])
