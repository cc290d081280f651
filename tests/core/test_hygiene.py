"""What a claim lacks, and what is found about the commits; pure rules, from facts alone."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.core.hygiene import hygiene_findings, what_is_missing
from schemas.events import History, PrFacts
from schemas.finding import Severity

A, B = "a" * 40, "b" * 40
SHAPES: tuple[Any, ...] = ("same", "amended", "more_commits", "fewer_commits", "rebased", "rewritten")


def history(shape: Any = "amended", before: int = 1, after: int = 1) -> History:
    return History(shape=shape, old=A, new=B, commits_before=before, commits_after=after)


def facts(**changes: Any) -> PrFacts:
    good: dict[str, Any] = {
        "number": 7, "found": True, "state": "open", "head_branch": "x", "head": B, "base": A,
        "worktree_branch": "x", "worktree_head": B, "remote_head": B, "commits_ahead": 1,
    }  # fmt: skip
    return PrFacts(**{**good, **changes})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("split_asked", [True, False])
def test_only_more_commits_that_nobody_asked_for_are_a_finding(shape: Any, split_asked: bool) -> None:
    found = hygiene_findings(history(shape, 1, 3), split_asked=split_asked, committed_files=("b.py", "c.py"))
    assert len(found) == (shape == "more_commits" and not split_asked)
    for finding in found:
        assert (finding.location, finding.severity) == ("b.py:1", Severity.MEDIUM)
        assert "from 1 to 3 commits" in finding.message


def test_the_fingerprint_of_the_finding_names_the_rule() -> None:
    found = hygiene_findings(history("more_commits", 1, 2), split_asked=False, committed_files=())
    assert found[0].location == ".:1"
    assert found[0].rule == "commit-hygiene:amend"


@pytest.mark.parametrize("path", ["RESULT.json", "TASK.md", ".taskmaestro/state/x", ".taskmaestro/wt-1"])
def test_a_committed_file_of_ours_blocks(path: str) -> None:
    found = hygiene_findings(None, split_asked=False, committed_files=("a.py", path))
    assert [(finding.location, finding.severity) for finding in found] == [(f"{path}:1", Severity.HIGH)]
    assert found[0].blocking


@pytest.mark.parametrize("path", ["docs/TASK.md", "RESULT.json.bak", ".taskmaestro/config.toml", "x/.taskmaestro/y"])
def test_other_files_and_shared_settings_do_not(path: str) -> None:
    assert hygiene_findings(history(), split_asked=False, committed_files=(path,)) == ()


@pytest.mark.parametrize(
    ("changes", "kind", "told"),
    [
        ({"found": False, "state": None}, "not_found", "#7 does not exist"),
        ({"state": "closed"}, "closed", "#7 is closed"),
        ({"state": "merged"}, "merged", "#7 is merged"),
        ({"head_branch": "y"}, "wrong_branch", "is of branch y, but the worktree is on x"),
        ({"worktree_branch": None}, "wrong_branch", "the worktree is on no branch"),
        ({"commits_ahead": 0}, "nothing_committed", "no commit that its base lacks"),
        ({"remote_head": None}, "not_pushed", "not on the remote"),
        ({"remote_head": A}, "not_pushed", f"at {B[:12]}, but branch x on the remote is at {A[:12]}"),
        ({"head": A}, "lagging", f"still shows {A[:12]}"),
    ],
)
@pytest.mark.parametrize("purpose", ["success", "addressed"])
def test_each_thing_that_a_claim_can_lack(
    changes: dict[str, Any], kind: str, told: str, purpose: Literal["success", "addressed"]
) -> None:
    problem = what_is_missing(facts(**changes), purpose)
    assert problem is not None
    assert problem.kind == kind
    assert told in problem.message


def test_a_claim_that_holds_lacks_nothing() -> None:
    assert what_is_missing(facts(), "success", old_head=B) is None
    assert what_is_missing(facts(), "addressed", old_head=A) is None
    assert what_is_missing(facts(), "addressed") is None


def test_addressed_wants_a_new_head_or_a_reply() -> None:
    problem = what_is_missing(facts(), "addressed", old_head=B)
    assert problem is not None
    assert problem.kind == "nothing_new"
    assert what_is_missing(facts(replies=1), "addressed", old_head=B) is None
    same = History(shape="same", old=B, new=B, commits_before=1, commits_after=1)
    problem = what_is_missing(facts(history=same), "addressed")
    assert problem is not None
    assert problem.kind == "nothing_new"


def test_names_that_others_chose_cannot_steer_a_terminal() -> None:
    problem = what_is_missing(facts(head_branch="\x1b[2Jy\nSend"), "success")
    assert problem is not None
    assert "\x1b" not in problem.message
    assert "\n" not in problem.message


@given(
    found=st.booleans(), state=st.sampled_from(["open", "closed", "merged"]),
    branch=st.sampled_from(["x", "y", None]), heads=st.tuples(*[st.sampled_from([A, B, None])] * 3),
    ahead=st.sampled_from([0, 1, None]),
)  # fmt: skip
def test_nothing_is_missing_only_when_all_three_heads_agree(
    found: bool, state: Any, branch: str | None, heads: tuple[str | None, ...], ahead: int | None
) -> None:
    seen = facts(
        found=found, state=state, worktree_branch=branch, commits_ahead=ahead,
        head=heads[0], remote_head=heads[1], worktree_head=heads[2],
    )  # fmt: skip
    if what_is_missing(seen, "success") is None:
        assert (found, state, branch) == (True, "open", "x")
        assert heads[0] == heads[1] == heads[2] is not None
        assert ahead != 0
