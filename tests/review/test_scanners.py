"""Scanners: real ruff, and programs that print what scanners print, or something worse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conductor.ports import Cancelled
from conductor.review.steps.scanners import MOST_ARGUMENT_BYTES, command_lines, scanners
from tests.review.support import Project, checked, found, never, only_step, script
from tests.support.repos import git

BASE = {
    "old.py": "import sys\n\n\ndef f():\n    return 1\n",
    "pyproject.toml": '[tool.ruff.lint]\nselect = ["E", "F"]\n',
}


def log(*places: tuple[str, int], level: str = "error") -> str:
    results = [
        {
            "ruleId": "X1",
            "level": level,
            "message": {"text": "Wrong"},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": line}}}],
        }
        for uri, line in places
    ]
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "mine"}}, "results": results}]})


def test_ruff_is_detected_and_kept_to_changed_lines(tmp_path: Path) -> None:
    head = {"old.py": "import sys\n\n\ndef f():\n    return undefined_name\n", "new mod.py": "import os\n"}
    project = Project.make(tmp_path, BASE, head)
    report = only_step(scanners(project.context())).run(project.packet(), never)
    assert report.outcome == "ran"
    checked(report.findings)
    assert sorted(found(report)) == [
        ("new mod.py:1", "medium", "ruff:F401"),
        ("old.py:5", "critical", "ruff:F821"),
    ]


def test_a_syntax_error_counts_on_whatever_line_it_shows(tmp_path: Path) -> None:
    project = Project.make(tmp_path, {"a.py": "a = 1\nb = 2\n"}, {"a.py": "a = (1\nb = 2\n"})
    report = only_step(scanners(project.context())).run(project.packet(), never)
    assert {(rule, severity) for _, severity, rule in found(report)} == {("ruff:invalid-syntax", "critical")}
    assert {finding.line for finding in report.findings}.isdisjoint({1})


def test_ruff_has_nothing_to_do_without_python(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"a.md": "text\n", "old.py": None})
    report = only_step(scanners(project.context())).run(project.packet(), never)
    assert (report.outcome, report.findings) == ("ran", ())
    assert "no changed file" in report.detail


def test_files_with_odd_names_are_scanned(tmp_path: Path) -> None:
    names = ["-rf.py", "ü n.py", "a'b\".py", "$(x);.py"]
    project = Project.make(tmp_path, BASE, dict.fromkeys(names, "import os\n"))
    report = only_step(scanners(project.context())).run(project.packet(), never)
    assert {f.path for f in report.findings} == set(names)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("import os\n", encoding="utf-8")
    project = Project.make(tmp_path, BASE, {})
    (project.root / "link.py").symlink_to(tmp_path / "secret.py")
    git(project.root, "add", "--all")
    git(project.root, "commit", "-qm", "Link")
    report = only_step(scanners(project.context())).run(project.packet(), never)
    assert report.findings == ()


def test_a_configured_scanner_gets_the_changed_files(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"a.txt": "one\ntwo\n"})
    seen = tmp_path / "seen.json"
    code = (
        f"import json, sys\njson.dump(sys.argv[1:], open({str(seen)!r}, 'w'))\n"
        f"print({log(('a.txt', 2), ('old.py', 1))!r})\n"
    )
    argv = script(tmp_path, "scan.py", code)
    steps = scanners(project.context(sarif={"ruff": [*argv, "--x", "{files}"]}))
    report = only_step(steps).run(project.packet(), never)
    assert found(report) == [("a.txt:2", "high", "ruff:X1")]
    assert json.loads(seen.read_text(encoding="utf-8")) == ["--x", "./a.txt"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('no json')", "not SARIF"),
        ("pass", "not SARIF"),
        ("import sys; print('config is broken', file=sys.stderr); sys.exit(2)", "config is broken"),
        ("print('{}')", "neither `runs`"),
        ("import time; time.sleep(60)", "did not end within"),
    ],
)
def test_bad_output_is_never_no_findings(tmp_path: Path, code: str, words: str) -> None:
    project = Project.make(tmp_path, BASE, {"a.txt": "one\n"})
    argv = script(tmp_path, "scan.py", code)
    steps = scanners(project.context(sarif={"ruff": list(argv)}, step_timeout=1.0))
    report = only_step(steps).run(project.packet(), never)
    assert report.outcome == "could_not_run"
    assert words in report.detail


def test_a_missing_program_could_not_run(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"a.txt": "one\n"})
    steps = scanners(project.context(sarif={"ruff": ["no-such-scanner-here"]}))
    report = only_step(steps).run(project.packet(), never)
    assert report.outcome == "could_not_run"
    assert "no-such-scanner-here" in report.detail


def test_a_hundred_megabytes_are_refused_in_a_line(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"a.txt": "one\n"})
    argv = script(tmp_path, "scan.py", "import os\nfor _ in range(100): os.write(1, b'x' * 1048576)\n")
    steps = scanners(project.context(sarif={"ruff": list(argv)}))
    report = only_step(steps).run(project.packet(), never)
    assert report.outcome == "could_not_run"
    assert "printed more than 64 MiB" in report.detail
    assert len(report.detail) < 1_000


def test_a_cancelled_scan_stops(tmp_path: Path) -> None:
    project = Project.make(tmp_path, BASE, {"a.txt": "one\n"})
    argv = script(tmp_path, "scan.py", "import time; time.sleep(60)")
    step = only_step(scanners(project.context(sarif={"ruff": list(argv)})))
    with pytest.raises(Cancelled):
        step.run(project.packet(), lambda: True)


def test_many_files_are_scanned_in_several_runs() -> None:
    files = [f"{'x' * 90}{number}.py" for number in range(2_000)]
    lines = command_lines(["s", "{files}", "end"], files)
    assert len(lines) > 1
    assert [name for line in lines for name in line[1:-1]] == [f"./{name}" for name in files]
    assert all(sum(len(name) + 1 for name in line[1:-1]) <= MOST_ARGUMENT_BYTES for line in lines)
    assert command_lines(["s", "all"], files) == [["s", "all"]]
