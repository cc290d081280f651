"""The whole review: scratch checkout, steps side by side, verdict; and steps that misbehave."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conductor.git.worktrees import GitWorktrees
from conductor.ports import Cancelled
from conductor.review.runner import StepsReviewer, run_steps
from schemas.config import Config
from schemas.errors import BadInput, NeedsPerson, NotSo, Unavailable
from schemas.finding import Finding, Severity
from schemas.forge import Issue
from schemas.review import EarlierReview, Review, ReviewPacket, StepReport, Verdict
from tests.review.support import PYTHON, Project, checked, never
from tests.support.repos import git
from tests.support.waiting import wait_until

Body = Callable[[ReviewPacket, Callable[[], bool]], StepReport]


@dataclass
class Step:
    name: str
    body: Body
    advisory: bool = False

    def run(self, packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        return self.body(packet, cancelled)


def ran(name: str, *findings: Finding) -> Step:
    return Step(name, lambda packet, cancelled: StepReport(step=name, outcome="ran", findings=findings))


def failing(name: str, fault: Exception, **more: Any) -> Step:
    def body(packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        raise fault

    return Step(name, body, **more)


class Scratches(GitWorktrees):
    """The real worktrees, with a record of what was asked of them."""

    def __init__(self, project: Project, config: Config) -> None:
        super().__init__(project.root, config)
        self.ensure_excluded()
        self.made: list[Path] = []
        self.fetched = 0

    def scratch(self, sha: str, name: str) -> Path:
        self.made.append(super().scratch(sha, name))
        return self.made[-1]

    def fetch(self) -> str | None:
        self.fetched += 1
        return "offline"


@dataclass
class OneForge:
    project: Project

    def pull_request(self, number: int) -> Any:
        return self.project.pull_request()

    def issue(self, number: int) -> Issue:
        if self.project.issue is None:
            raise NotSo(f"issue #{number} does not exist")
        return self.project.issue


def reviewer(project: Project, given: list[Step] | None = None, /, **review: object) -> tuple[StepsReviewer, Scratches]:
    config = Config.model_validate({"review": review})
    scratches = Scratches(project, config)
    made = StepsReviewer(scratches, OneForge(project), config, project.root, steps=given, grace=1.0)  # type: ignore[arg-type]
    return made, scratches


def make_review(project: Project, given: list[Step] | None = None, /, **review: object) -> Review:
    made, scratches = reviewer(project, given, **review)
    try:
        return made.review(project.request(issue=5 if project.issue else None), never)
    finally:
        assert scratches.made
        assert not any(path.exists() for path in scratches.made)


HIGH = Finding(path="a.py", line=1, severity=Severity.HIGH, message="Bad", impact="Hurts", rule="r")
GOOD = {
    "calc.py": "def add(a: int, b: int) -> int:\n    return a + b\n",
    "tests/test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 1) == 2\n",
}
PYTEST = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"]


def test_a_good_change_is_approved_by_real_steps(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {"README.md": "x\n"}, GOOD)
    project.issue = Issue(number=5, title="Add", body="## Acceptance\n- [ ] add adds two numbers\n")
    project.body = "- [x] add adds two numbers: tests/test_calc.py::test_add"
    review = make_review(project, verification={"test": PYTEST})
    assert review.verdict is Verdict.APPROVE, review.findings
    assert {report.outcome for report in review.steps} == {"ran"}
    assert (review.head, review.base) == (project.head, project.base)


def test_a_bad_change_gets_all_its_findings_most_severe_first(tmp_path: Path) -> None:
    bad = {
        "calc.py": "import os\n\n\ndef add(a: int, b: int) -> int:\n    return a - c\n",
        "tests/test_calc.py": None,
        "RESULT.json": "{}",
    }
    project = Project.make(tmp_path, GOOD, bad)
    project.issue = Issue(number=5, title="Add", body="## Acceptance\n- [ ] add is documented\n")
    review = make_review(project, verification={"test": [PYTHON, "-c", "from calc import add; add(1, 1)"]})
    assert review.verdict is Verdict.CHANGES
    checked(review.findings)
    assert {finding.rule for finding in review.findings} == {
        "verification:test",
        "ruff:F821",
        "ruff:F401",
        "spec:no-claim",
        "tests:none-added",
        "hygiene:private-file",
    }
    ranks = [finding.severity.rank for finding in review.findings]
    assert ranks == sorted(ranks)


def test_the_head_under_review_is_checked_out_whatever_moves(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    request = project.request()
    project.write({"a.py": "moved\n"})
    git(project.root, "commit", "-qam", "Move on")
    seen: list[str] = []

    def body(packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        seen.append(Path(packet.checkout, "a.py").read_text(encoding="utf-8") + packet.diff[-7:])
        return StepReport(step="s", outcome="ran")

    made, _ = reviewer(project, [Step("s", body)])
    assert made.review(request, never).head == request.head
    assert seen == ["x = 1\n+x = 1\n"]


@pytest.mark.parametrize("fault", [RuntimeError("boom"), KeyError("x"), Unavailable("tool is missing", "Install it.")])
def test_a_step_that_raises_could_not_run_and_the_others_go_on(tmp_path: Path, fault: Exception) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    review = make_review(project, [failing("bad", fault), ran("good", HIGH)])
    assert review.verdict is Verdict.CHANGES
    assert [(r.step, r.outcome) for r in review.steps] == [("bad", "could_not_run"), ("good", "ran")]
    assert str(fault).splitlines()[0] in review.steps[0].detail


def test_a_step_that_answers_nothing_could_not_run(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    nothing = Step("odd", lambda packet, cancelled: None)  # type: ignore[arg-type,return-value]
    review = make_review(project, [nothing, Step("named", ran("otherwise", HIGH).body)])
    assert [(r.step, r.outcome) for r in review.steps] == [("odd", "could_not_run"), ("named", "ran")]


def test_nothing_blocking_but_a_step_missing_needs_a_person(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    with pytest.raises(NeedsPerson, match="bad: tool is missing"):
        make_review(project, [failing("bad", Unavailable("tool is missing")), ran("good")])


def test_an_advisory_step_does_not_hold_up_an_approval(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    review = make_review(project, [failing("bad", Unavailable("no"), advisory=True), ran("good")])
    assert review.verdict is Verdict.APPROVE
    assert review.steps[0].outcome == "could_not_run"


def test_a_step_that_never_ends_is_given_up(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    end = threading.Event()

    def body(packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        end.wait(60)
        return StepReport(step="slow", outcome="ran")

    began = time.monotonic()
    try:
        review = make_review(project, [Step("slow", body), ran("good", HIGH)], step_timeout=0.2)
    finally:
        end.set()
    assert time.monotonic() - began < 20
    assert [r.outcome for r in review.steps] == ["could_not_run", "ran"]
    assert "given up" in review.steps[0].detail


def test_steps_run_side_by_side_up_to_the_limit_and_report_in_order(tmp_path: Path) -> None:
    packet = Project.make(tmp_path, {}, {"a.py": "x = 1\n"}).packet()
    release = threading.Event()
    running: list[str] = []
    most, rounds = 0, 0

    def body(name: str) -> Body:
        def run(packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
            running.append(name)
            release.wait(30)
            running.remove(name)
            return StepReport(step=name, outcome="ran")

        return run

    def looked_at() -> bool:
        """Asked once in each round of the loop: some rounds with all places taken, then the steps may end."""
        nonlocal most, rounds
        most, rounds = max(most, len(running)), rounds + (len(running) >= 2)
        if rounds > 3:
            release.set()
        return False

    names = [f"s{n}" for n in range(5)]
    reports = run_steps([Step(name, body(name)) for name in names], packet, looked_at, parallel=2, time_limit=60)
    assert most == 2
    assert [report.step for report in reports] == names


def test_cancelling_stops_the_steps_and_drops_the_checkout(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    started = threading.Event()

    def body(packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        started.set()
        wait_until(cancelled)
        raise Cancelled

    made, scratches = reviewer(project, [Step("s", body), failing("never", AssertionError("ran"))], parallel=1)

    with pytest.raises(Cancelled):
        made.review(project.request(), started.is_set)
    assert not any(path.exists() for path in scratches.made)


def test_a_review_not_wanted_from_the_start_makes_no_checkout(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    made, scratches = reviewer(project, [])
    with pytest.raises(Cancelled):
        made.review(project.request(), lambda: True)
    assert scratches.made == []


def test_a_base_that_is_not_here_is_fetched_and_then_a_fault(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    made, scratches = reviewer(project, [ran("s")])
    with pytest.raises(NotSo, match="offline"):
        made.review(project.request(base="1" * 40), never)
    assert scratches.fetched == 1
    assert not any(path.exists() for path in scratches.made)


def test_an_issue_that_is_not_there_is_a_fault_and_no_approval(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    made, _ = reviewer(project, [ran("s")])
    with pytest.raises(NotSo, match="issue #5"):
        made.review(project.request(issue=5), never)


def test_an_unknown_step_in_the_configuration_is_a_fault(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    made, _ = reviewer(project, None, steps=["nope"])
    with pytest.raises(BadInput, match="nope"):
        made.review(project.request(), never)


def test_a_re_review_keeps_what_was_asked_for_first(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.py": "x = 1\n"})
    old = HIGH.model_copy(update={"path": "z.py", "message": "Old", "line": 4})
    made, _ = reviewer(project, [ran("s", HIGH, old.model_copy(update={"line": 9}))])
    earlier = (EarlierReview(cycle=1, head="a" * 40, findings=(old,)),)
    review = made.review(project.request(cycle=1, earlier=earlier), never)
    assert [finding.message for finding in review.findings] == ["Old", "Bad"]


def test_a_detected_battery_sees_the_scratch_checkout_and_not_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(PYTHON).parent}:{os.environ['PATH']}")
    config = '[tool.ruff.lint]\nselect = ["F"]\n[tool.pytest.ini_options]\ntestpaths = ["tests"]\n'
    base = {**GOOD, "pyproject.toml": config}
    project = Project.make(
        tmp_path, base, {"calc.py": "import os\n\n\ndef add(a: int, b: int) -> int:\n    return a - b\n"}
    )
    request = project.request()
    git(project.root, "switch", "--quiet", "--detach", "main")
    made, _ = reviewer(project)
    review = made.review(request, never)
    rules = {(finding.rule, finding.path) for finding in review.findings}
    assert {("verification:lint", "calc.py"), ("verification:test", "tests/test_calc.py")} <= rules
    assert git(project.root, "status", "--porcelain") == ""
