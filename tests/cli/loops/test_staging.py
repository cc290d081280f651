"""``loop stage``, ``loop notify`` and ``loop draft`` where something does not fit: nothing is staged or passed on."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.loops.desk import LiveDesk, Told

HIGH = {"path": "weeks.py", "line": 2, "message": "off by one", "severity": "high", "angle": None}
LOW = {**HIGH, "severity": "low"}


def stage(live: LiveDesk, number: int, review: str, output: Path | str) -> Told:
    return live.call("loop", "stage", "--pr", str(number), "--review-file", review, "--local-state-output", str(output))


def pending(live: LiveDesk, number: int) -> bool:
    return live.call("pr", "discard", str(number), "--json").code == 0


@pytest.fixture
def output(live: LiveDesk) -> Path:
    return live.root.parent / "draft.json"


def reviewed(live: LiveDesk) -> tuple[int, str]:
    """A pull request of worker-1, with mona acting; its number and its head."""
    opened = live.open()
    live.acts("mona")
    return opened


@pytest.mark.parametrize("kind", ["pipe", "link", "dash"])
def test_an_output_that_is_no_plain_file_stays_and_nothing_is_staged(live: LiveDesk, output: Path, kind: str) -> None:
    number, head = reviewed(live)
    place: Path | str = output
    if kind == "pipe":
        os.mkfifo(output)
    elif kind == "link":
        output.symlink_to(live.root.parent / "elsewhere.json")
    else:
        place = "-"
    told = stage(live, number, live.merged(head), place)
    assert told.code == 2, told.err
    assert ("expected a regular file" in told.error) or kind == "dash"
    assert kind == "dash" or not output.is_file()
    assert not pending(live, number)


def test_two_reviewers_stage_the_same_review_each_for_themselves(live: LiveDesk, output: Path) -> None:
    number, head = reviewed(live)
    review = live.merged(head)
    first = stage(live, number, review, output)
    live.acts("noor")
    second = stage(live, number, review, output)
    assert (first.code, second.code) == (0, 0), second.err
    assert first.value["draftReviewId"] != second.value["draftReviewId"]
    live.ok("pr", "submit", str(number), "--json")
    live.acts("mona")
    assert stage(live, number, review, output).value["already"]


def test_a_draft_has_one_number_everywhere(live: LiveDesk, output: Path) -> None:
    number, head = reviewed(live)
    staged = stage(live, number, live.merged(head), output).value
    told = live.ok("loop", "notify", "--pr", str(number), "--local-state", str(output))
    seen = live.ok("loop", "reviewer", "--pr", str(number), "--local-state", str(output))["snapshot"]
    written = json.loads(output.read_text(encoding="utf-8"))
    ids = [one["draftReviewId"] for one in (staged, told, seen, written)]
    assert ids == [ids[0]] * 4
    assert isinstance(ids[0], int)


def test_staging_again_does_not_forget_that_the_link_was_passed_on(live: LiveDesk, output: Path) -> None:
    number, head = reviewed(live)
    review = live.merged(head)
    stage(live, number, review, output)
    live.ok("loop", "notify", "--pr", str(number), "--local-state", str(output))
    assert stage(live, number, review, output).value["already"]
    assert live.state(number, "--local-state", str(output)) == "waiting_for_user_submit"
    stage(live, number, live.merged(head, LOW), output)
    assert live.state(number, "--local-state", str(output)) == "draft_review_posted", "another draft"


@pytest.mark.parametrize("how", ["moved", "closed"])
def test_a_stale_draft_is_not_passed_on(live: LiveDesk, output: Path, how: str) -> None:
    number, head = reviewed(live)
    stage(live, number, live.merged(head), output)
    before = output.read_text(encoding="utf-8")
    if how == "moved":
        live.push("feature", "later.py")
    else:
        live.call("pr", "close", str(number))
    told = live.call("loop", "notify", "--pr", str(number), "--local-state", str(output))
    assert (told.code, told.out) == (1, "")
    assert "stale" in told.error
    assert f"taskmaestro pr discard {number}" in told.error
    assert output.read_text(encoding="utf-8") == before
    assert pending(live, number), "it is there until somebody discards it"


def test_a_link_is_not_replaced_when_the_draft_is_passed_on(live: LiveDesk, output: Path) -> None:
    number, head = reviewed(live)
    stage(live, number, live.merged(head), output)
    link = output.with_name("link.json")
    link.symlink_to(output)
    assert live.call("loop", "notify", "--pr", str(number), "--local-state", str(link)).code == 2
    assert link.is_symlink()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"verdict": "APPROVE"}, "critical or high"),
        ({"verdict": "COMMENT"}, "critical or high"),
        ({"totalFindings": 0}, "totalFindings is 0"),
        ({"runsMerged": 0}, "runsMerged is 0"),
        ({"inlineComments": [], "totalFindings": 0}, "there are no findings"),
        ({"verdict": "APPROVE", "inlineComments": [LOW]}, "there are 1 findings"),
        ({"verdict": "APPROVE", "inlineComments": [], "totalFindings": 3}, "there are 3 findings"),
        ({"verdict": "LGTM"}, "verdict must be one of"),
        ({"verdict": None}, "verdict must be one of"),
        ({"runsMerged": None}, "runsMerged must be"),
        ({"totalFindings": "1"}, "totalFindings must be"),
        ({"totalFindings": 1.5}, "totalFindings must be"),
    ],
)
def test_a_review_that_does_not_fit_together_is_neither_drafted_nor_staged(
    live: LiveDesk, output: Path, changed: dict[str, Any], words: str
) -> None:
    number, head = reviewed(live)
    review = Path(live.merged(head, HIGH))
    value = {**json.loads(review.read_text(encoding="utf-8")), **changed}
    review.write_text(json.dumps({name: one for name, one in value.items() if one is not None}), encoding="utf-8")
    for told in (stage(live, number, str(review), output), live.call("loop", "draft", "--input", str(review))):
        assert (told.code, told.out) == (2, "")
        assert words in told.error
    assert not output.exists()
    assert not pending(live, number)


def test_an_approval_of_no_run_is_not_staged(live: LiveDesk, output: Path) -> None:
    number, head = reviewed(live)
    review = Path(live.merged(head))
    review.write_text(review.read_text(encoding="utf-8").replace('"runsMerged": 1', '"runsMerged": 0'), "utf-8")
    told = stage(live, number, str(review), output)
    assert (told.code, "nobody reviewed" in told.error) == (2, True)


def test_a_pass_that_is_to_begin_later_hides_no_review(live: LiveDesk, output: Path) -> None:
    number, _ = reviewed(live)
    live.call("pr", "review", str(number), "--request-changes", "--body", "mend")

    def told(ahead: timedelta) -> Told:
        started = (datetime.now(UTC) + ahead).isoformat()
        output.write_text(json.dumps({"passStartedAt": started, "localMergeStatus": "ready"}), encoding="utf-8")
        return live.call("loop", "reviewer", "--pr", str(number), "--local-state", str(output))

    late = told(timedelta(hours=1))
    assert (late.code, "in the future" in late.error) == (2, True)
    assert told(timedelta(minutes=1)).code == 0, "clocks differ a little"
    own = live.root / ".taskmaestro/state/reviews" / f"pr-{number}.json"
    own.parent.mkdir(parents=True)
    output.write_text(output.read_text(encoding="utf-8").replace("20", "29", 1), encoding="utf-8")
    output.replace(own)
    told_own = live.call("loop", "reviewer", "--pr", str(number))
    assert (told_own.code, told_own.error.count(str(own))) == (2, 1)
