"""Events and effects in words for people. ``details`` knows every event, ``effect_words`` every effect."""

from __future__ import annotations

from typing import assert_never

from conductor.core.cycle import TABLE
from schemas import effects as fx
from schemas import events as ev
from schemas.forge import Check, CheckState
from schemas.text import one_line

RULES: dict[str, str] = {
    **{row.rule: row.doc for row in TABLE},
    "policy set": "the limits in force from now on",
    "pane added": "a pane joined",
    "pane known": "the pane was there already; its facts are as given",
    "pane removed": "the pane and its worktree are gone",
    "result": "what had failed on this machine was done at last",
    "request taken already": "a request counts once",
    "ignored": "no rule takes this event in this state: kept in the journal, and that is all",
}
"""Every rule that can take an event, and what it means."""


def short(sha: str | None) -> str:
    """The first characters of a commit's name."""
    return (sha or "")[:7] or "no commit"


def details(event: ev.Event) -> str:
    """What the event says beside its rule, on one line; empty where the rule says it all."""
    return one_line(_details(event), 300)


def _details(event: ev.Event) -> str:
    match event:
        case ev.PolicySet():
            policy = event.policy
            return f"at most {policy.max_cycles} reviews and {policy.ci_returns_cap} CI returns"
        case ev.PaneAdded():
            return f"{event.role} {event.agent}, branch {event.branch or 'none'}"
        case ev.PaneBound():
            return f"{event.pane_id}{', made anew' if event.fresh else ''}"
        case ev.TaskGiven():
            return (f"#{event.issue} " if event.issue else "") + event.title
        case ev.ResultSeen():
            return _result(event)
        case ev.ResultInvalid():
            return event.problem
        case ev.PrInspected():
            return _facts(event.facts)
        case ev.UserDecided():
            return f"{event.verb} by {event.who}: {event.why}"
        case ev.AgentSeen():
            return f"{event.state}{f' ({event.detail})' if event.detail else ''}"
        case ev.PaneRemoved():
            return event.why
        case ev.PaneDied():
            return event.detail
        case ev.EffectFailed():
            return f"{event.effect}: {event.reason}"
        case ev.ForgeFailed():
            return event.reason
        case ev.ForgeBack() | ev.PrMerged() | ev.PrClosed() | ev.LimitOver():
            return ""
        case ev.HistoryChecked():
            return f"at {short(event.head)}" + "".join(f"; lost: {line}" for one in event.lost for line in one.lines)
        case ev.CiLost():
            return f"{event.state} at {short(event.head)}"
        case ev.ReviewStage():
            return event.stage
        case ev.HeadMoved():
            return short(event.head)
        case ev.TaskDelivered():
            return f"task {event.task_id} ({event.evidence})"
        case ev.TaskQueued() | ev.TaskStranded():
            return f"task {event.task_id}: {event.reason}"
        case _:
            return _review_details(event)


def _review_details(event: ev.CiRead | ev.CiBudgetSpent | ev.ReviewFinished | ev.ReviewFailed | ev.ReviewPosted) -> str:
    match event:
        case ev.CiRead():
            decided = event.state in (CheckState.PASSED, CheckState.FAILED)
            return f"{'' if decided else f'{event.state} '}at {short(event.head)}{_failing(event.checks)}"
        case ev.CiBudgetSpent():
            return event.state
        case ev.ReviewFinished():
            review = event.review
            count = len(review.findings)
            found = f"{count} finding{'' if count == 1 else 's'}, {len(review.blocking)} blocking"
            return f"{found}, at {short(review.head)}"
        case ev.ReviewFailed():
            return event.reason
        case ev.ReviewPosted():
            return f"{'stood there already' if event.already else event.url}"
        case _:
            assert_never(event)


def _failing(checks: tuple[Check, ...]) -> str:
    names = [check.name for check in checks if check.state is CheckState.FAILED]
    return f" ({', '.join(names)})" if names else ""


def _result(event: ev.ResultSeen) -> str:
    result = event.result
    parts = [str(result.status)]
    if result.pr is not None:
        parts.append(f"#{result.pr}")
    if result.review_cycle is not None:
        parts.append(f"cycle {result.review_cycle}")
    return " ".join(parts) + (f": {result.error}" if result.error else "")


def _facts(facts: ev.PrFacts) -> str:
    if not facts.found:
        return f"#{facts.number} is not there"
    answers = f"{facts.replies} answer{'' if facts.replies == 1 else 's'}"
    return f"#{facts.number} is {facts.state}, head {short(facts.head)}, {answers}"


def effect_words(effect: fx.Effect) -> str:
    """What was asked of the outside, on one line."""
    return one_line(_effect_words(effect), 300)


def _effect_words(effect: fx.Effect) -> str:
    match effect:
        case fx.InspectPr():
            return f"look at #{effect.pr_number}"
        case fx.RunReview():
            return f"review #{effect.pr_number} at {short(effect.head)}, cycle {effect.cycle}"
        case fx.PostReview():
            return f"post the review on #{effect.pr_number}: {effect.verdict}"
        case fx.WriteResult():
            return f"write RESULT.json: {effect.status}"
        case fx.SendTask():
            what = {"first": "the task", "fix": "the fix task", "ci": "the CI task", "notice": "a notice"}[effect.task]
            return f"send {what} {effect.task_id}{' to a new agent' if effect.start else ''}"
        case fx.StartAgent():
            return "start the agent"
        case fx.TakeBackTask():
            return f"take back task {effect.task_id}"
        case fx.Report():
            return f"tell the user: {effect.message}"
        case fx.CheckHistory():
            return f"look whether commits of others fell out at {short(effect.head)}"
        case fx.KeepBackup():
            return f"keep {short(effect.head)} as refs/taskmaestro/backup/{effect.name}"
        case fx.QuarantineResult():
            return f"move RESULT.json to quarantine: {effect.why}"
        case _:
            assert_never(effect)
