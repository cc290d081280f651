"""The verdict: what approves, what blocks, and what is no verdict at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from conductor.core.verdict import merge
from schemas.finding import Deferral, Finding, Severity
from schemas.review import EarlierReview, StepReport, Verdict


def finding(
    severity: str = "high", message: str = "It breaks", line: int = 1, path: str = "a.py", step: str = ""
) -> Finding:
    return Finding(
        path=path, line=line, severity=Severity(severity), message=message, impact="Bad.", rule="r", step=step
    )


def report(*findings: Finding, step: str = "s", outcome: str = "ran") -> StepReport:
    return StepReport(step=step, outcome=outcome, findings=findings)  # type: ignore[arg-type]


def test_nothing_found_and_all_ran_approves() -> None:
    assert merge([report(), report(step="t", outcome="not_configured")]).verdict is Verdict.APPROVE


def test_medium_and_low_do_not_block() -> None:
    assert merge([report(finding("medium"), finding("low", line=2))]).verdict is Verdict.APPROVE


def test_critical_and_high_block() -> None:
    for severity in ("critical", "high"):
        assert merge([report(finding(severity))]).verdict is Verdict.CHANGES


def test_a_step_that_could_not_run_never_approves() -> None:
    merged = merge([report(), report(step="scan", outcome="could_not_run")])
    assert merged.verdict is None
    assert [left.step for left in merged.not_run] == ["scan"]


def test_a_step_that_could_not_run_leaves_what_blocks_standing() -> None:
    merged = merge([report(finding("critical")), report(step="scan", outcome="could_not_run")])
    assert merged.verdict is Verdict.CHANGES
    assert len(merged.not_run) == 1


def test_an_advisory_step_need_not_have_run() -> None:
    assert merge([report(step="x", outcome="could_not_run")], advisory={"x"}).verdict is Verdict.APPROVE


def test_most_severe_first_and_repeats_once() -> None:
    merged = merge(
        [
            report(finding("low", "Zed", 9), finding("high", "Same WORDS", 3), step="one"),
            report(finding("critical", "same words", 3), finding("critical", "Worst", 5), step="two"),
        ]
    )
    assert [(f.severity, f.message, f.step) for f in merged.findings] == [
        ("critical", "Worst", "two"),
        ("high", "Same WORDS", "one"),
        ("low", "Zed", "one"),
    ]


def earlier(*findings: Finding) -> EarlierReview:
    return EarlierReview(cycle=1, head="a" * 40, findings=findings)


def test_a_re_review_puts_what_was_asked_for_first() -> None:
    old = finding("high", "Old", line=50, path="z.py", step="s")
    merged = merge([report(finding("high", "New"), old.model_copy(update={"line": 80}))], [earlier(old)])
    assert [f.message for f in merged.findings] == ["Old", "New"]
    assert [f.message for f in merged.remaining] == ["Old"]
    assert merged.resolved == ()


def test_a_re_review_does_not_reopen_for_minor_things() -> None:
    merged = merge([report(finding("medium", "New"), finding("low", "Newer"))], [earlier(finding("high", step="s"))])
    assert merged.verdict is Verdict.APPROVE
    assert [f.message for f in merged.resolved] == ["It breaks"]


def test_a_finding_is_not_resolved_when_its_step_did_not_run() -> None:
    merged = merge([report(outcome="could_not_run")], [earlier(finding("high", step="s"))])
    assert merged.resolved == ()
    assert merged.verdict is None


def test_a_granted_deferral_holds_in_the_next_review() -> None:
    deferred = finding("high").model_copy(update={"deferred": Deferral(reason="Later", follow_up_issue=7)})
    assert merge([report(finding("high"))], [earlier(deferred)]).verdict is Verdict.APPROVE
    worse = finding("critical")
    assert merge([report(worse)], [earlier(deferred)]).verdict is Verdict.CHANGES


FINDINGS = st.builds(
    finding,
    st.sampled_from([str(s) for s in Severity]),
    st.sampled_from(["A", "a", "B"]),
    st.integers(1, 3),
    st.sampled_from(["a.py", "b.py"]),
)
REPORTS = st.lists(
    st.builds(
        lambda findings, step, outcome: report(*findings, step=step, outcome=outcome),
        st.lists(FINDINGS, max_size=4),
        st.sampled_from(["s", "t"]),
        st.sampled_from(["ran", "could_not_run", "not_configured"]),
    ),
    max_size=5,
)


@given(REPORTS, st.lists(FINDINGS, max_size=3))
def test_approval_only_with_nothing_blocking_and_everything_run(
    reports: list[StepReport], before: list[Finding]
) -> None:
    merged = merge(reports, [earlier(*before)])
    blocking = any(f.blocking for f in merged.findings)
    failed = any(r.outcome == "could_not_run" for r in reports)
    assert (merged.verdict is Verdict.APPROVE) == (not blocking and not failed)
    assert (merged.verdict is Verdict.CHANGES) == blocking
    ranks = [f.severity.rank for f in merged.findings]
    assert ranks == sorted(ranks)
    keys = [(f.path, f.line, f.message.casefold()) for f in merged.findings]
    assert (
        len(keys)
        == len(set(keys))
        == len({(f.path, f.line, f.message.casefold()) for r in reports for f in r.findings})
    )
