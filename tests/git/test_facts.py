"""A claim held against a forge, the remote and a real worktree."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from conductor.core.hygiene import what_is_missing
from conductor.git.facts import inspect, replies
from conductor.git.worktrees import GitWorktrees
from conductor.ports import Forge, Worktree
from schemas.errors import NotSo, Unavailable
from schemas.events import PrFacts
from schemas.forge import Comment, PullRequest
from tests.support.repos import commit_file, git

NOW = datetime(2030, 1, 1, tzinfo=UTC)
MINE = ("tester@example.invalid",)


class OneRequest:
    """A forge with one pull request, #7, as far as the facts ask it."""

    def __init__(self, request: PullRequest) -> None:
        self.request = request
        self.said: list[Comment] = []
        self.down = False

    def login(self) -> str:
        return "conductor"

    def pull_request(self, number: int) -> PullRequest:
        if self.down:
            raise Unavailable("the forge does not answer")
        if number != self.request.number:
            raise NotSo(f"there is no pull request {number}")
        return self.request

    def comments(self, number: int) -> list[Comment]:
        return self.said

    def change(self, **fields: Any) -> None:
        self.request = self.request.model_copy(update=fields)

    def say(self, author: str, body: str) -> None:
        self.said.append(Comment(id=str(len(self.said)), author=author, body=body, at=NOW))


@pytest.fixture
def wt(worktrees: GitWorktrees) -> Worktree:
    wt = worktrees.add(1, "tm/one")
    commit_file(wt.path, "w.txt", "w\n" * 20)
    git(wt.path, "push", "-q", "origin", "tm/one")
    found = worktrees.find(1)
    assert found
    return found


@pytest.fixture
def forge(repo: Path, wt: Worktree) -> OneRequest:
    return OneRequest(
        PullRequest(
            number=7,
            title="t",
            author="worker",
            state="open",
            head_branch="tm/one",
            head=wt.head,
            base_branch="main",
            base=git(repo, "rev-parse", "main"),
            created_at=NOW,
            updated_at=NOW,
        )
    )


Look = Callable[..., PrFacts]


@pytest.fixture
def look(forge: OneRequest, worktrees: GitWorktrees) -> Look:
    def ask(number: int = 7, **options: Any) -> PrFacts:
        return inspect(number, forge=cast(Forge, forge), worktrees=worktrees, index=1, mine=MINE, **options)

    return ask


def problem(facts: PrFacts, old_head: str | None = None) -> str | None:
    found = what_is_missing(facts, "addressed" if old_head else "success", old_head=old_head)
    return found.kind if found else None


def test_a_claim_that_holds(look: Look, wt: Worktree, repo: Path) -> None:
    facts = look()
    assert problem(facts) is None
    assert (facts.head, facts.remote_head, facts.worktree_head) == (wt.head, wt.head, wt.head)
    assert (facts.commits_ahead, facts.base, facts.history) == (1, git(repo, "rev-parse", "main"), None)


def test_each_thing_that_can_be_untrue_about_it(
    look: Look, forge: OneRequest, wt: Worktree, repo: Path, worktrees: GitWorktrees
) -> None:
    assert problem(look(8)) == "not_found"
    for state in ("closed", "merged"):
        forge.change(state=state)
        assert problem(look()) == state
    forge.change(state="open", head_branch="main")
    assert problem(look()) == "wrong_branch"
    forge.change(head_branch="tm/one", head=git(repo, "rev-parse", "main"))
    assert problem(look()) == "lagging"
    commit_file(wt.path, "late.txt", "x")
    assert problem(look()) == "not_pushed"
    git(wt.path, "push", "-q", "origin", ":tm/one")
    assert problem(look()) == "not_pushed"
    git(wt.path, "reset", "-q", "--hard", "origin/main")
    assert problem(look()) == "nothing_committed"
    worktrees.remove(1, force=True)
    assert problem(look()) == "wrong_branch"


def test_what_cannot_be_read_is_never_not_found(look: Look, forge: OneRequest, remote: Path, wt: Worktree) -> None:
    forge.down = True
    with pytest.raises(Unavailable):
        look()
    forge.down = False
    remote.rename(remote.with_name("gone"))
    with pytest.raises(Unavailable):
        look()


def test_a_fix_is_held_against_the_head_of_the_review(look: Look, forge: OneRequest, wt: Worktree) -> None:
    facts = look(old_head=wt.head)
    assert facts.history is not None
    assert facts.history.shape == "same"
    assert problem(facts, wt.head) == "nothing_new"
    (wt.path / "w.txt").write_text("w\n" * 20 + "fixed\n")
    git(wt.path, "commit", "-q", "-a", "--amend", "--no-edit")
    git(wt.path, "push", "-q", "--force", "origin", "tm/one")
    new = git(wt.path, "rev-parse", "HEAD")
    forge.change(head=new)
    facts = look(old_head=wt.head)
    assert problem(facts, wt.head) is None
    assert facts.history is not None
    assert (facts.history.shape, facts.history.new) == ("amended", new)


def test_a_reply_answers_a_review_without_a_new_head(look: Look, forge: OneRequest, wt: Worktree) -> None:
    forge.say("worker", "opened it")
    forge.say("conductor", "Review\n\n<!-- taskmaestro: review r-1 -->")
    assert problem(look(old_head=wt.head, review_id="r-1"), wt.head) == "nothing_new"
    forge.say("worker", "Rebuttal: not so, because ...")
    facts = look(old_head=wt.head, review_id="r-1")
    assert facts.replies == 1
    assert problem(facts, wt.head) is None


def said(*pairs: tuple[str, str]) -> list[Comment]:
    return [Comment(id=str(n), author=who, body=body, at=NOW) for n, (who, body) in enumerate(pairs)]


OURS = "text\n<!-- taskmaestro: review r-1 head abc -->"
NEXT = "text\n<!-- taskmaestro: review r-2 head abc -->"


def test_a_worker_may_share_the_conductors_login() -> None:
    assert replies(said(("conductor", OURS), ("conductor", "no, because ...")), "conductor") == 1


def test_only_what_came_after_the_named_review_counts() -> None:
    talk = said(("w", "a"), ("conductor", OURS), ("w", "b"), ("conductor", NEXT), ("w", "c"))
    assert replies(talk, "conductor", "r-1") == 2
    assert replies(talk, "conductor", "r-2") == 1
    assert replies(talk, "conductor") == 1
    later = said(("conductor", OURS), ("w", "b"), ("conductor", OURS.replace("r-1", "r-10")))
    assert replies(later, "conductor", "r-1") == 1


def test_a_marker_that_somebody_else_writes_or_quotes_is_a_reply() -> None:
    assert replies(said(("conductor", OURS), ("w", NEXT)), "conductor") == 1
    quoted = "> " + OURS.replace("\n", "\n> ") + "\nI disagree"
    assert replies(said(("conductor", OURS), ("conductor", quoted)), "conductor") == 1


def test_our_own_notices_after_the_review_are_no_replies() -> None:
    notice = "approved\n<!-- taskmaestro: notice -->"
    assert replies(said(("conductor", OURS), ("conductor", notice)), "conductor", "r-1") == 0
