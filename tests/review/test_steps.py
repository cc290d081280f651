"""The steps that read texts and commits: acceptance criteria, missing tests, private files."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductor.ports import Cancelled, ReviewStep
from conductor.review.steps.hygiene import hygiene
from conductor.review.steps.spec import spec
from conductor.review.steps.tests_present import tests_present as missing_tests
from schemas.forge import Issue
from schemas.review import StepReport
from tests.review.support import Project, checked, found, never, only_step
from tests.support.repos import git

LOGIC = "def f(a):\n    if a:\n        return 1\n    return 2\n"


def run(step: list[ReviewStep], project: Project) -> StepReport:
    report = only_step(step).run(project.packet(), never)
    checked(report.findings)
    return report


# --- acceptance criteria


def with_issue(project: Project, issue: str, body: str) -> Project:
    project.issue = Issue(number=5, title="Do it", body=issue)
    project.body = body
    return project


CRITERIA = "## Acceptance criteria\n- [ ] f returns 1 for true\n- [ ] f is documented\n- [ ] f is fast\n"


def test_claims_with_evidence_in_diff_or_checkout_satisfy_the_criteria(tmp_path: Path) -> None:
    head = {"f.py": LOGIC, "tests/test_f.py": "def test_f_true():\n    pass\n"}
    project = Project.make(tmp_path, {"docs/guide.md": "x\n", "tests/test_old.py": "def test_speed(): ...\n"}, head)
    body = (
        "- [x] f returns 1 for true: test_f_true in f.py\n"
        "- [x] f is documented: docs/guide.md\n"
        "- [x] f is fast (test_speed)"
    )
    report = run(spec(project.context()), with_issue(project, CRITERIA, body))
    assert (report.outcome, report.findings) == ("ran", ())
    assert "3 of 3" in report.detail


def test_each_gap_is_high_and_says_where_it_is(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"f.py": LOGIC})
    body = "Text\n- [x] f returns 1 for true: tests/test_none.py\n- [ ] f is documented: f.py"
    report = run(spec(project.context()), with_issue(project, CRITERIA, body))
    assert found(report) == [
        ("(pull request body):2", "high", "spec:evidence-not-found"),
        ("(pull request body):3", "high", "spec:unchecked"),
        ("(issue #5):4", "high", "spec:no-claim"),
    ]


def test_evidence_outside_the_checkout_is_none(tmp_path: Path) -> None:
    (tmp_path / "out.py").write_text("x", encoding="utf-8")
    project = Project.make(tmp_path, {}, {"f.py": LOGIC})
    issue = "## Acceptance\n- f works"
    for name in ("../out.py", "/etc/hosts.conf", "sub/../../out.py"):
        report = run(spec(project.context()), with_issue(project, issue, f"- [x] f works: `{name}`"))
        assert len(report.findings) == 1, name


def test_nothing_to_hold_against_is_said(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"f.py": LOGIC})
    assert run(spec(project.context()), project).outcome == "not_configured"
    report = run(spec(project.context()), with_issue(project, "Just do it", ""))
    assert (report.outcome, report.detail) == ("not_configured", "issue #5 has no acceptance criteria")


# --- tests


def test_new_logic_without_any_test_is_high(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"src/f.py": LOGIC})
    report = run(missing_tests(project.context()), project)
    assert found(report) == [("src/f.py:1", "high", "tests:none-added")]
    assert "(new: f)" in report.findings[0].message


@pytest.mark.parametrize(
    "head",
    [
        {"src/f.py": LOGIC, "tests/test_f.py": "def test_f():\n    assert True\n"},
        {"src/lib.rs": "fn f() -> u8 {\n    1 + 1\n}\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {}\n}\n"},
        {"README.md": "words\n", "docs/a.py": LOGIC},
        {"pyproject.toml": "[x]\n", "setup.py": LOGIC, ".github/w.yml": "a: b\n"},
        {"tests/test_f.py": LOGIC},
        {"old.py": None},
        {"old.py": '"""Only words."""\n\nimport os\n\n# more words\nLIMIT = 4\n'},
        {"moved.py": "# words\n" * 30 + "def old(a):\n    return a + 1\n", "old.py": None},
        {"vendor/x.js": "function f() { return g() }\n"},
    ],
    ids=["tested", "rust", "docs", "config", "tests only", "deletion", "comments", "move", "vendored"],
)
def test_changes_that_need_no_new_test_are_left_alone(tmp_path: Path, head: dict[str, str | None]) -> None:
    project = Project.make(tmp_path, {"old.py": "def old(a):\n    return a + 1\n"}, head)
    assert run(missing_tests(project.context()), project).findings == ()


def test_a_line_or_two_without_a_test_is_medium(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {"f.py": "def f(a):\n    return a\n"}, {"f.py": "def f(a):\n    return a or 1\n"})
    assert found(run(missing_tests(project.context()), project)) == [("f.py:2", "medium", "tests:none-added")]


def test_deleting_the_tests_is_not_adding_one(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {"tests/test_f.py": "def test(): ...\n"}, {"f.py": LOGIC, "tests/test_f.py": None})
    assert [f.severity for f in run(missing_tests(project.context()), project).findings] == ["high"]


# --- private files


def test_private_files_in_commits_are_high(tmp_path: Path) -> None:
    head = {
        "RESULT.json": "{}",
        "TASK.md": "x",
        ".taskmaestro/state/x": "y",
        ".taskmaestro/config.toml": "",
        "a.md": "",
    }
    project = Project.make(tmp_path, {}, {**head, "sub/TASK.md": "somebody's own"})
    assert found(run(hygiene(project.context()), project)) == [
        (".taskmaestro/state/x:1", "high", "hygiene:private-file"),
        ("RESULT.json:1", "high", "hygiene:private-file"),
        ("TASK.md:1", "high", "hygiene:private-file"),
    ]


def test_a_private_file_that_a_later_commit_takes_out_is_still_in_a_commit(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"TASK.md": "x"})
    git(project.root, "rm", "-q", "TASK.md")
    git(project.root, "commit", "-qm", "Take it out")
    assert [f.path for f in run(hygiene(project.context()), project).findings] == ["TASK.md"]


def test_a_private_file_in_a_merge_commit_is_seen(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.md": "x"})
    git(project.root, "switch", "--quiet", "-c", "side", "main")
    git(project.root, "commit", "--quiet", "--allow-empty", "-m", "Side")
    git(project.root, "switch", "--quiet", "work")
    git(project.root, "merge", "--quiet", "--no-commit", "--no-ff", "side")
    project.write({"RESULT.json": "{}"})
    git(project.root, "add", "--force", "RESULT.json")
    git(project.root, "commit", "--quiet", "-m", "Merge")
    assert [f.path for f in run(hygiene(project.context()), project).findings] == ["RESULT.json"]


def test_taking_out_what_the_base_has_is_fine(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {"TASK.md": "x"}, {"TASK.md": None})
    assert run(hygiene(project.context()), project).findings == ()


def test_commits_that_cannot_be_read_could_not_run(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.md": "x"})
    packet = project.packet().model_copy(update={"base": "0" * 40})
    report = only_step(hygiene(project.context())).run(packet, never)
    assert report.outcome == "could_not_run"
    assert "0" * 12 in report.detail


def test_text_steps_stop_when_cancelled(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {}, {"a.md": "x"})
    for make in (spec, missing_tests, hygiene):
        with pytest.raises(Cancelled):
            only_step(make(project.context())).run(project.packet(), lambda: True)
