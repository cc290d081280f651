"""``taskmaestro pr`` around reviews: request, lint, verify, the draft gate, one pull request for an issue."""

from __future__ import annotations

import json

from tests.cli.loops.conftest import live  # noqa: F401  # a fixture
from tests.cli.loops.desk import BODY, LiveDesk
from tests.support.repos import git

DRAFTS = '[forge]\ndraft_first = true\n[battery]\ntest = "true"\nskip = ["format", "lint", "types"]\n'


def test_a_review_is_asked_for_and_withdrawn(live: LiveDesk) -> None:  # noqa: F811
    number, _ = live.open()
    asked = live.ok("pr", "request", "feature", "--reviewer", "mona", "--reviewer", "lisa", "--json")
    assert (asked["number"], asked["requested"]) == (number, ["lisa", "mona"])
    gone = live.ok("pr", "request", str(number), "--reviewer", "lisa", "--withdraw", "--json")
    assert (gone["changed"], gone["requested"]) == (["lisa"], ["mona"])
    assert live.call("pr", "request", str(number), "--reviewer", "worker-1").code == 1
    assert live.call("pr", "request", str(number), "--reviewer", "a b\nc").code == 2


def test_a_description_is_linted_from_a_file_and_from_the_forge(live: LiveDesk) -> None:  # noqa: F811
    number, _ = live.open()
    assert live.call("pr", "lint", str(number)).code == 0
    file = live.root.parent / "pr.md"
    file.write_text(BODY.replace("- [x] tests", "- `[x]` tests"), encoding="utf-8")
    told = live.call("pr", "lint", "--body-file", str(file))
    assert told.code == 1
    line = file.read_text(encoding="utf-8").splitlines().index("- `[x]` tests pass") + 1
    assert f"{file}:{line}: a checkbox in backticks" in told.out
    as_json = live.call("pr", "lint", "--body-file", str(file), "--json")
    assert (as_json.code, as_json.value["clean"]) == (1, False)
    assert line in [fault["line"] for fault in as_json.value["faults"]]
    assert live.call("pr", "lint", "1", "--body-file", str(file)).code == 2


def test_a_draft_is_made_ready_only_with_evidence_for_exactly_this_head(live: LiveDesk) -> None:  # noqa: F811
    live.configure(DRAFTS + '[forge.local.checks]\nunit = "true"\n')
    number, head = live.open(body="thin")
    pr = str(number)
    live.settle(number)
    told = live.call("pr", "ready", pr)
    assert told.code == 1
    for reason in ("no section `summary`", "no issue is closed", "nobody has inspected this head"):
        assert reason in told.err
    live.call("pr", "close", pr)
    live.push("second", "second.py")
    number, head = live.open("second")
    pr = str(number)
    live.settle(number)
    told = live.call("pr", "ready", pr)
    assert told.err.count("\n- ") == 1, told.err
    assert "nobody has inspected this head" in told.err
    assert live.ok("pr", "verify", pr, "--json")["head"] == head
    record = live.root / ".taskmaestro/state/validations" / f"{head}.json"
    assert [stage["slot"] for stage in json.loads(record.read_text(encoding="utf-8"))["stages"]] == ["test"]
    live.push("second", "more.py", "more\n")
    live.settle(number)
    assert live.call("pr", "ready", pr).code == 1, "the record is of another head"
    live.ok("pr", "verify", pr, "--json")
    assert live.ok("pr", "ready", pr, "--json")["draft"] is False


def test_red_or_missing_checks_keep_the_draft(live: LiveDesk) -> None:  # noqa: F811
    live.configure(DRAFTS)
    number, _ = live.open()
    live.ok("pr", "verify", str(number), "--json")
    told = live.call("pr", "ready", str(number))
    assert "checks are not green: none" in told.err
    live.configure(DRAFTS + '[forge.local.checks]\nunit = "false"\n')
    live.settle(number)
    assert "checks failed: unit" in live.call("pr", "ready", str(number)).err
    live.configure(DRAFTS + "[ci]\nallow_no_checks = true\n")
    assert live.ok("pr", "ready", str(number), "--json")["draft"] is False


def test_what_is_not_exactly_the_head_is_not_verified(live: LiveDesk) -> None:  # noqa: F811
    live.configure(DRAFTS)
    number, _ = live.open()
    (live.root / "weeks.py").write_text("changed\n", encoding="utf-8")
    (live.root / "notes.md").write_text("new\n", encoding="utf-8")
    told = live.call("pr", "verify", str(number))
    assert told.code == 1
    assert "weeks.py, notes.md changed or new" in told.err
    git(live.root, "checkout", "--quiet", "--", "weeks.py")
    (live.root / "notes.md").unlink()
    live.configure(DRAFTS.replace('"true"', '"false"'))
    told = live.call("pr", "verify", str(number))
    assert told.code == 1
    assert "test stage failed" in told.err
    assert not (live.root / ".taskmaestro/state/validations").exists()


def test_an_open_pull_request_of_the_issue_is_used_instead_of_a_second(live: LiveDesk) -> None:  # noqa: F811
    number, _ = live.open()
    live.push("other", "other.py")
    told = live.call("pr", "create", "--title", "T", "--body", "Closes #1", "--json")
    assert (told.value["number"], told.value["reused"]) == (number, True)
    assert "issue #1" in told.err
    other = live.ok("pr", "create", "--title", "T", "--body", "Closes #1", "--another", "--json")
    assert (other["reused"], other["head_branch"]) == (False, "other")


def test_what_is_pending_is_submitted_by_its_author_once(live: LiveDesk) -> None:  # noqa: F811
    number, head = live.open()
    live.acts("mona")
    state = str(live.root.parent / "draft.json")
    assert live.call("pr", "submit", str(number)).code == 1
    stage = ("loop", "stage", "--pr", str(number), "--review-file", live.merged(head), "--local-state-output", state)
    live.ok(*stage)
    live.acts("worker-1")
    assert live.call("pr", "submit", str(number)).code == 1
    live.acts("mona")
    assert live.ok("pr", "submit", str(number), "--json")["verdict"] == "approve"
    assert live.call("pr", "submit", str(number)).code == 1
    assert live.call(*stage).code == 1, "this very review was submitted"


def test_verdicts_that_contradict_each_other_are_not_submitted(live: LiveDesk) -> None:  # noqa: F811
    number, head = live.open()
    live.acts("mona")
    state = str(live.root.parent / "draft.json")
    blocking = {"path": "weeks.py", "line": 1, "message": "wrong", "severity": "critical"}
    review = live.merged(head, blocking)
    live.ok("loop", "stage", "--pr", str(number), "--review-file", review, "--local-state-output", state)
    told = live.call("pr", "submit", str(number), "--request-changes", "--approve")
    assert (told.code, "contradict" in told.err) == (2, True)
    told = live.call("pr", "submit", str(number), "--approve")
    assert (told.code, "was staged to ask for changes" in told.err) == (2, True)
    assert live.ok("pr", "submit", str(number), "--json")["verdict"] == "changes_requested"


def test_a_merge_closes_only_what_the_text_says_outside_code(live: LiveDesk) -> None:  # noqa: F811
    for title in ("One", "Two"):
        live.ok("issue", "create", "--title", title, "--body", "Do it", "--json")
    number, _ = live.open(body="Closes #2\n\n```\nCloses #1\n```\n<!-- Closes #1 -->\n")
    assert live.ok("pr", "view", str(number), "--json")["issue"] == 2
    git(live.root, "checkout", "--quiet", "main")
    git(live.root, "merge", "--quiet", "--no-ff", "--no-edit", "feature")
    git(live.root, "push", "--quiet", "origin", "main")
    assert live.ok("pr", "view", str(number), "--json")["state"] == "merged"
    states = [live.ok("issue", "view", name, "--json")["state"] for name in ("1", "2")]
    assert states == ["open", "closed"]
