"""The texts that go to workers and to the user: TASK.md, the line that points to it, the message at the cap.

Pure builders. Text of issues, findings and tools is data: cleaned, fenced, and marked as somebody's words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from conductor.core.state import Assignment, Pane
from schemas.effects import TaskKind
from schemas.finding import Finding
from schemas.forge import Check
from schemas.text import clean, fenced, one_line

POINTER = "Read TASK.md in this folder and do what it says."
_HEADLINES = {
    "first": "Your task",
    "fix": "Review: changes requested",
    "ci": "CI failed on your pull request",
    "notice": "Something is missing",
}


def pointer(task_id: str) -> str:
    """The one short line that is ever typed into a pane."""
    return f"[msg {task_id}] {POINTER} [end {task_id}]"


def header(pane: Pane, *, task_id: str, kind: TaskKind, about: TaskKind, nonce: str, lease: str | None) -> str:
    """The first line of TASK.md: what a worker's tools need, as JSON in a comment."""
    facts = {
        "task": task_id,
        "kind": kind,
        "about": about,
        "nonce": nonce,
        "pane": pane.index,
        "issue": pane.issue,
        "pr": pane.pr_number,
        "cycle": pane.review_cycle,
        "lease": lease,
        "branch": pane.branch,
        "base": pane.base_branch,
    }
    body = json.dumps(facts, ensure_ascii=True).replace("--", "-\\u002d")
    return f"<!-- taskmaestro {body} -->"


_FINISH_FIRST = """\
## How to finish

1. Work in this folder only, on the branch `{branch}`. Stage what belongs to the change (`git add <files>`).
2. Write the pull request's body into `.taskmaestro/body.md` in this folder (git does not see it): each acceptance
   criterion as a checked box with its evidence (a path, a test or a command). Then run
   `taskmaestro ship --title "..." --body-file .taskmaestro/body.md`: it runs the project's checks, commits what is
   staged, pushes, opens the pull request and reports.
3. Where you cannot finish: `taskmaestro report failure --error "<what stopped you>"`.

By hand instead of `ship`: write `RESULT.json` in this folder with `status` `success`, `pr_number` and the `nonce` of
the first line. Never commit `RESULT.json` or `TASK.md`."""

_FINISH_FIX = """\
## How to finish

1. Fix the code, or answer with a reason: `taskmaestro pr comment {pr} --body "Resolved: <what you did>"`. Ignore
   nothing silently.
2. Stage the changes and run `taskmaestro ship --amend`: it runs the project's checks, amends the commit (no commit
   on top), pushes with a lease on `{head}` and reports.
3. Where only an answer was needed: `taskmaestro {report}`.
4. Where you cannot finish: `taskmaestro report failure --error "<what stopped you>"`."""


def _how_to_finish(pane: Pane, about: TaskKind) -> str:
    if about == "first":
        return _FINISH_FIRST.format(branch=pane.branch)
    report = "report addressed" if pane.review_cycle else f"report success --pr {pane.pr_number}"
    return _FINISH_FIX.format(pr=pane.pr_number, head=(pane.head or "")[:12], report=report)


def task_text(
    pane: Pane, *, task_id: str, kind: TaskKind, about: TaskKind, nonce: str, lease: str | None, middle: str
) -> str:
    """TASK.md: header, what is wanted (``middle``), how to finish."""
    head = header(pane, task_id=task_id, kind=kind, about=about, nonce=nonce, lease=lease)
    title = _HEADLINES[kind]
    where = f" (#{pane.pr_number}, review cycle {pane.review_cycle})" if pane.pr_number and about != "first" else ""
    return f"{head}\n\n# {title}{where}\n\n{middle.strip()}\n\n{_how_to_finish(pane, about)}\n"


def assignment_text(assignment: Assignment, issue: int | None) -> str:
    """What a person asked for, marked as data where it comes from an issue."""
    source = f"Issue #{issue}: " if issue else ""
    body = assignment.body.strip()
    words = f"\n\nThe text of the task, as it was written:\n\n{fenced(body)}" if body else ""
    return f"{source}{one_line(assignment.title)}{words}"


def findings_list(findings: Sequence[Finding]) -> str:
    """Findings as a list, most severe first, each with place, impact and rule."""
    rows = sorted(findings, key=lambda finding: (finding.severity.rank, finding.path, finding.line))
    return "\n".join(
        f"- [{finding.severity}] `{one_line(finding.location)}`: {one_line(finding.message, 500)}\n"
        f"  Impact: {one_line(finding.impact, 500)} ({one_line(finding.rule)})"
        for finding in rows
    )


def fix_text(findings: Sequence[Finding]) -> str:
    """The middle of a fix task. The findings quote tools and reviewers: data, not orders."""
    blocking = sum(1 for finding in findings if finding.blocking)
    return (
        f"The review of your pull request found {len(findings)} thing(s), {blocking} of them blocking."
        " Answer each one: fix it, or say on the pull request why not.\n\n" + findings_list(findings)
    )


def ci_text(head: str, failing: Sequence[Check]) -> str:
    """The middle of a CI task: each failing job with its log."""
    rows = []
    for check in failing:
        rows.append(f"- **{one_line(check.name)}** failed. Log: {one_line(check.log_url, 500) or 'none'}")
        if check.tail.strip():
            rows.append(fenced(check.tail, 4000))
    listed = "\n".join(rows) or "- a check failed; the forge names none"
    return f"CI failed for `{head[:12]}`; there is no code review before it is green.\n\n{listed}"


def notice_text(problem: str, original: str) -> str:
    """The middle of a notice: what is missing, then the task as it was."""
    return f"{clean(problem).strip()}\n\n## The task, as before\n\n{original.strip()}"


def taken_back_text(pane: Pane, task_id: str, then: str = "please wait for the review") -> str:
    """TASK.md after CI turned green by itself; ``then`` is what comes now."""
    nonce = pane.task.nonce if pane.task else ""
    head = header(pane, task_id=task_id, kind="notice", about="ci", nonce=nonce, lease=pane.head)
    return (
        f"{head}\n\n# Nothing to do\n\nCI of `{(pane.head or '')[:12]}` is green now (run again on the same commit)."
        f" The task about it is taken back; {then}.\n"
    )


def cap_message(pane: Pane, cycles: int, findings: Sequence[Finding]) -> str:
    """The message at the cap, word for word as the review protocol has it, with the unresolved list."""
    listed = "; ".join(
        f"[{finding.severity}] {one_line(finding.message, 120)} — {one_line(finding.location)}"
        for finding in sorted(findings, key=lambda one: one.severity.rank)
        if finding.blocking
    )
    return (
        f"⚠️ Pane {pane.index}: unresolved issues after {cycles} review cycles.\n"
        f"PR: #{pane.pr_number}\n"
        f"Unresolved: {listed or 'see the last review'}\n"
        "User decision required."
    )
