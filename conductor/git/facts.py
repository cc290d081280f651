"""A worker's claim held against the forge, the remote and the worktree.

What cannot be read raises (``Unavailable`` and the like); only what was looked for and is not there is
"not found".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from conductor.ports import Forge, Worktrees
from schemas.errors import NotSo
from schemas.events import PrFacts
from schemas.forge import Comment

# At the start of a line: somebody who quotes a review quotes its marker too.
_MARKER = re.compile(r"^<!-- taskmaestro:(.*?)-->", re.MULTILINE)


def inspect(
    number: int,
    *,
    forge: Forge,
    worktrees: Worktrees,
    index: int,
    old_head: str | None = None,
    review_id: str | None = None,
    mine: Sequence[str] = (),
) -> PrFacts:
    """The facts about pull request ``number`` of worktree ``index``.

    ``old_head`` is the head that the last review was made on, ``review_id`` names that review (it stands in
    its marker); ``mine`` are the e-mail addresses of the worker and the conductor.
    """
    worktree = worktrees.find(index)
    branch_here, head_here = (worktree.branch, worktree.head) if worktree else (None, None)
    try:
        request = forge.pull_request(number)
    except NotSo:
        return PrFacts(number=number, found=False, worktree_branch=branch_here, worktree_head=head_here)
    remote_head = worktrees.remote_head(request.head_branch)
    newest = remote_head or request.head
    # Of a request that is closed, or of another branch, nothing more is asked: the claim fails anyway.
    head = head_here if request.state == "open" and branch_here == request.head_branch else None
    moved = None
    if head and old_head:
        moved = worktrees.history(old_head, newest, request.base, mine=mine)
    return PrFacts(
        number=number,
        found=True,
        state=request.state,
        head_branch=request.head_branch,
        head=request.head,
        base=request.base,
        remote_head=remote_head,
        commits_ahead=worktrees.commits_ahead(head, request.base) if head else None,
        worktree_branch=branch_here,
        worktree_head=head_here,
        replies=replies(forge.comments(number), forge.login(), review_id),
        history=moved,
    )


def replies(comments: Sequence[Comment], login: str, review_id: str | None = None) -> int:
    """How many comments since the conductor's last review (or the one with this id) are not the conductor's.

    The conductor may share its login with a worker: its own comments are those with the marker.
    """
    ours = [position for position, comment in enumerate(comments) if _is_ours(comment, login)]
    named = [position for position in ours if review_id and _names(comments[position], review_id)]
    last = (named or ours or [-1])[-1]
    return sum(1 for comment in comments[last + 1 :] if not _is_ours(comment, login))


def _is_ours(comment: Comment, login: str) -> bool:
    return comment.author == login and bool(_MARKER.search(comment.body))


def _names(comment: Comment, review_id: str) -> bool:
    """Whether the marker has exactly this id: ``r-1`` is not in ``r-10``."""
    found = _MARKER.search(comment.body)
    whole = rf"(?<![\w.-]){re.escape(review_id)}(?![\w.-])"
    return bool(found and re.search(whole, found[1]))
