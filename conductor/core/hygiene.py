"""Is a worker's claim true, and how did it treat its branch? Pure rules over facts that were gathered before.

A claim is checked and not believed: "done" with nothing committed or pushed is told to the worker. How the
branch moved becomes findings of the next review (review cycle page, "Commit hygiene").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.events import History, PrFacts
from schemas.finding import Finding, Severity
from schemas.text import one_line

Kind = Literal[
    "not_found",
    "closed",
    "merged",
    "wrong_branch",
    "nothing_committed",
    "not_pushed",
    "lagging",
    "nothing_new",
]
_OURS = ("RESULT.json", "TASK.md")
_FOLDER = ".taskmaestro/"
_SHARED = (".taskmaestro/config.toml", ".taskmaestro/wave-plan.json")
"""The two files in that folder that teams do check in (contracts, "Files in a managed repository")."""


@dataclass(frozen=True)
class ClaimProblem:
    """Why a claim does not hold. ``message`` is for the worker; ``lagging`` only means: look again soon."""

    kind: Kind
    message: str


def hygiene_findings(
    history: History | None, *, split_asked: bool, committed_files: Sequence[str]
) -> tuple[Finding, ...]:
    """Findings about how the branch moved and what was committed.

    ``committed_files`` are all paths that the branch's commits write, in order; a finding about the commits
    as such stands at the first of them.
    """
    found = [_committed(path) for path in committed_files if _is_ours(path)]
    if history is not None and history.shape == "more_commits" and not split_asked:
        found.append(
            Finding(
                path=committed_files[0] if committed_files else ".",
                line=1,
                severity=Severity.MEDIUM,
                message=(
                    f"The branch grew from {history.commits_before} to {history.commits_after} commits; "
                    "the review did not ask for a split. Amend: git commit --amend --no-edit."
                ),
                impact="Fix-up commits hide the change from readers of the history and from bisecting.",
                rule="commit-hygiene:amend",
                step="commit hygiene",
            )
        )
    return tuple(found)


def _is_ours(path: str) -> bool:
    return path in _OURS or (path.startswith(_FOLDER) and path not in _SHARED)


def _committed(path: str) -> Finding:
    return Finding(
        path=path,
        line=1,
        severity=Severity.HIGH,
        message=f"{one_line(path)} is committed. Take it out (git rm --cached) and amend.",
        impact="A file of the conductor on the branch is taken for the result or task of other worktrees.",
        rule="commit-hygiene:own-files",
        step="commit hygiene",
    )


def what_is_missing(
    facts: PrFacts, purpose: Literal["success", "addressed"], *, old_head: str | None = None
) -> ClaimProblem | None:
    """The first thing that keeps a claim from being true, None where it holds.

    ``old_head`` is the head of the last review; for ``addressed`` either it moved or somebody replied.
    """
    return _unreviewable(facts) or _unpushed(facts) or _unanswered(facts, purpose, old_head)


def _unreviewable(facts: PrFacts) -> ClaimProblem | None:
    request = f"Pull request #{facts.number}"
    if not facts.found:
        return ClaimProblem("not_found", f"{request} does not exist. Open one, then report its number.")
    if facts.state == "closed":
        return ClaimProblem("closed", f"{request} is closed. Reopen it, or report another one.")
    if facts.state == "merged":
        return ClaimProblem("merged", f"{request} is merged already. Open another one for further work.")
    if facts.worktree_branch is None:
        return ClaimProblem(
            "wrong_branch",
            f"{request} is of branch {one_line(facts.head_branch or '?')}, but the worktree is on no branch. "
            "Finish the rebase, or switch to the branch, then report again.",
        )
    if facts.head_branch != facts.worktree_branch:
        return ClaimProblem(
            "wrong_branch",
            f"{request} is of branch {one_line(facts.head_branch or '?')}, but the worktree is on "
            f"{one_line(facts.worktree_branch)}. Report the pull request of this branch.",
        )
    return None


def _unpushed(facts: PrFacts) -> ClaimProblem | None:
    branch = one_line(facts.head_branch or "?")
    if facts.commits_ahead == 0:
        return ClaimProblem(
            "nothing_committed",
            f"Branch {branch} has no commit that its base lacks. Commit, push, then report again.",
        )
    if facts.remote_head is None:
        return ClaimProblem("not_pushed", f"Branch {branch} is not on the remote. Push, then report again.")
    if facts.remote_head != facts.worktree_head:
        return ClaimProblem(
            "not_pushed",
            f"The worktree is at {_short(facts.worktree_head)}, but branch {branch} on the remote is at "
            f"{_short(facts.remote_head)}. Push your commit, with a lease on that one if it is yours, "
            "or take over what is there; then report again.",
        )
    if facts.head != facts.remote_head:
        return ClaimProblem(
            "lagging",
            f"The forge still shows {_short(facts.head)} as the head of #{facts.number}; "
            f"the remote has {_short(facts.remote_head)}.",
        )
    return None


def _unanswered(facts: PrFacts, purpose: str, old_head: str | None) -> ClaimProblem | None:
    if purpose != "addressed" or facts.replies:
        return None
    before = old_head or (facts.history.old if facts.history else None)
    if before is None or facts.remote_head != before:
        return None
    return ClaimProblem(
        "nothing_new",
        f"Since the review, #{facts.number} has neither a new head ({_short(before)} still) nor a reply. "
        "Push the fix, or answer the findings on the pull request; then report again.",
    )


def _short(sha: str | None) -> str:
    return sha[:12] if sha else "no commit"
