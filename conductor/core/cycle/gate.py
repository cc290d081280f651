"""Rows about the CI gate and the head that it stands for."""

from __future__ import annotations

from collections.abc import Sequence

from conductor.core import messages
from conductor.core.cycle.moves import (
    approved_result,
    begin_review,
    give_task,
    kept_at_approval,
    open_gate,
    settle,
    taken_back,
    want_person,
)
from conductor.core.cycle.row import EVERY, LIVE, Outcome, Row
from conductor.core.state import Gate, Pane
from schemas.config import CyclePolicy
from schemas.effects import Effect, KeepBackup, Report, TakeBackTask
from schemas.events import CiBudgetSpent, CiLost, CiRead, HeadMoved, HistoryChecked, PrClosed, PrMerged
from schemas.forge import Check, CheckState
from schemas.pane import AttentionReason, Status

_REVIEWING = frozenset({Status.REVIEWING})
_RETURNED = frozenset({Status.WORKING, Status.REVIEW_PENDING})


def cap_of(pane: Pane, policy: CyclePolicy) -> int:
    """Reviews that may ask for changes: the configured cap and what a person added."""
    return policy.max_cycles + pane.extra_cycles


def _other_gate(pane: Pane, event: CiRead | CiBudgetSpent, _policy: CyclePolicy) -> bool:
    return pane.gate is None or pane.gate.gate_id != event.gate_id


def _other_head(pane: Pane, event: CiRead, _policy: CyclePolicy) -> bool:
    return pane.gate is not None and pane.gate.head != event.head


def _green(_pane: Pane, event: CiRead, policy: CyclePolicy) -> bool:
    if event.state is CheckState.PASSED:
        return True
    return event.state is CheckState.NONE and policy.allow_no_checks


def _read(pane: Pane, event: CiRead, **more: object) -> Gate:
    assert pane.gate is not None
    return pane.gate.model_copy(update={"state": event.state, "checks": event.checks, **more})


def _restart(pane: Pane, event: CiRead, _policy: CyclePolicy) -> Outcome:
    assert pane.gate is not None
    return open_gate(pane, event.head, pane.gate.base, event.at), []


def _green_may_review(pane: Pane, event: CiRead, policy: CyclePolicy) -> bool:
    return _green(pane, event, policy) and pane.review is None and pane.review_cycle < cap_of(pane, policy)


_GREEN_ANSWERS = (
    AttentionReason.CI_TIMEOUT,
    AttentionReason.CI_FAILED_CAP,
    AttentionReason.CYCLE_CAP,
    AttentionReason.REVIEW_FAILED,
    AttentionReason.FORGE_UNAVAILABLE,
)
"""What a green gate with a review to come leaves nobody to decide."""


def _start_review(pane: Pane, event: CiRead, _policy: CyclePolicy) -> Outcome:
    gate = _read(pane, event, timed_out=False)
    pane = settle(pane, *_GREEN_ANSWERS)
    return begin_review(pane.model_copy(update={"gate": gate}), gate)


def _green_at_cap(pane: Pane, event: CiRead, policy: CyclePolicy) -> bool:
    return _green(pane, event, policy) and pane.review is None and pane.review_cycle >= cap_of(pane, policy)


def _stop_at_cap(pane: Pane, event: CiRead, _policy: CyclePolicy) -> Outcome:
    pane = pane.model_copy(update={"gate": _read(pane, event), "green_head": event.head})
    message = messages.cap_message(pane, pane.review_cycle, pane.unresolved)
    return want_person(pane, AttentionReason.CYCLE_CAP, message, event.at)


def _red(_pane: Pane, event: CiRead, _policy: CyclePolicy) -> bool:
    return event.state is CheckState.FAILED


def _red_may_return(pane: Pane, event: CiRead, policy: CyclePolicy) -> bool:
    return _red(pane, event, policy) and pane.ci_returns < policy.ci_returns_cap + pane.extra_ci_returns


def _failing(checks: Sequence[Check]) -> str:
    return ", ".join(check.name for check in checks if check.state is CheckState.FAILED) or "a check"


def return_to_worker(pane: Pane) -> Outcome:
    """The red gate goes back to the worker: failing jobs and their logs, no code review."""
    gate = pane.gate
    assert gate is not None
    status = Status.REVIEW_PENDING if pane.review_cycle else Status.WORKING
    gate = gate.model_copy(update={"returned": True})
    pane = pane.model_copy(update={"status": status, "gate": gate, "review": None, "ci_returns": pane.ci_returns + 1})
    failing = [check for check in gate.checks if check.state is CheckState.FAILED]
    return give_task(pane, "ci", messages.ci_text(gate.head, failing))


def _return_red(pane: Pane, event: CiRead, _policy: CyclePolicy) -> Outcome:
    pane = settle(pane, AttentionReason.CI_TIMEOUT, AttentionReason.FORGE_UNAVAILABLE)
    return return_to_worker(pane.model_copy(update={"gate": _read(pane, event), "green_head": None}))


def _give_up_red(pane: Pane, event: CiRead, _policy: CyclePolicy) -> Outcome:
    gate = _read(pane, event, timed_out=True)
    pane = pane.model_copy(update={"gate": gate, "green_head": None, "review": None})
    return want_person(
        pane,
        AttentionReason.CI_FAILED_CAP,
        f"Pane {pane.index}: CI of #{pane.pr_number} still fails ({_failing(gate.checks)}) after"
        f" {pane.ci_returns} returns to the worker.\n"
        f"`taskmaestro decide {pane.index} another-cycle|retry|abandon --why ...`",
        event.at,
    )


def _note_ci(pane: Pane, event: CiRead, _policy: CyclePolicy) -> Outcome:
    return pane.model_copy(update={"gate": _read(pane, event)}), []


def _stop_watching(pane: Pane, _event: CiRead, _policy: CyclePolicy) -> Outcome:
    assert pane.gate is not None
    stopped = pane.gate.model_copy(update={"timed_out": True})
    return pane.model_copy(update={"gate": stopped, "granted_head": None}), []


def _turned_green_at_cap(pane: Pane, event: CiRead, policy: CyclePolicy) -> bool:
    return pane.gate is not None and pane.gate.returned and _green(pane, event, policy)


def _turned_green(pane: Pane, event: CiRead, policy: CyclePolicy) -> bool:
    return _turned_green_at_cap(pane, event, policy) and pane.review_cycle < cap_of(pane, policy)


def _take_task_back(pane: Pane, *then: str) -> Outcome:
    if pane.task is None or not pane.task.open:
        return pane, []
    text = messages.taken_back_text(pane, pane.task.task_id, *then)
    return taken_back(pane), [TakeBackTask(pane=pane.index, task_id=pane.task.task_id, text=text)]


def _take_back(pane: Pane, event: CiRead, _policy: CyclePolicy) -> Outcome:
    gate = _read(pane, event, returned=False, timed_out=False)
    pane, effects = _take_task_back(pane)
    pane = settle(pane, AttentionReason.INVALID_RESULT, *_GREEN_ANSWERS)
    pane, started = begin_review(pane.model_copy(update={"gate": gate, "claim": None}), gate)
    return pane, [*effects, *started]


def _take_back_at_cap(pane: Pane, event: CiRead, policy: CyclePolicy) -> Outcome:
    gate = _read(pane, event, returned=False, timed_out=False)
    pane, effects = _take_task_back(pane, "a person decides what comes now")
    pane, told = _stop_at_cap(
        settle(pane, AttentionReason.INVALID_RESULT, *_GREEN_ANSWERS).model_copy(
            update={"status": Status.REVIEWING, "gate": gate, "claim": None}
        ),
        event,
        policy,
    )
    return pane, [*effects, *told]


def _time_out(pane: Pane, event: CiBudgetSpent, _policy: CyclePolicy) -> Outcome:
    gate = pane.gate
    assert gate is not None
    # Not the state: `none` may mean that the forge did not answer, which is never "no checks".
    pane = pane.model_copy(update={"gate": gate.model_copy(update={"timed_out": True})})
    unseen = event.state in (CheckState.NONE, CheckState.NOT_YET)
    seen = "no check appeared" if unseen else "checks are still pending"
    hint = " Where this project has no checks, configure some or set `allow_no_checks = true` under `[ci]`."
    return want_person(
        pane,
        AttentionReason.CI_TIMEOUT,
        f"watch timeout — PR #{pane.pr_number} needs manual attention (pane {pane.index}: {seen} for"
        f" {gate.head[:12]}).{hint if unseen else ''} `taskmaestro decide {pane.index} retry --why ...` waits again.",
        event.at,
    )


def _moved(pane: Pane, event: HeadMoved, _policy: CyclePolicy) -> bool:
    return event.head != pane.head


def _open_and_tell(pane: Pane, event: HeadMoved | CiRead | CiLost, base: str, message: str) -> Outcome:
    """An approval is taken back: the gate opens for the event's head, and people hear why."""
    pane = open_gate(pane, event.head, base, event.at)
    return pane, [Report(pane=pane.index, level="info", message=f"Pane {pane.index}: {message}")]


def _reopen(pane: Pane, event: HeadMoved, _policy: CyclePolicy) -> Outcome:
    pane = settle(pane, AttentionReason.REVIEW_FAILED, AttentionReason.CI_TIMEOUT, AttentionReason.CI_FAILED_CAP)
    base = event.base or pane.base or event.head
    if pane.status is not Status.APPROVED:
        return open_gate(pane, event.head, base, event.at), []
    return _open_and_tell(
        pane,
        event,
        base,
        f"the approval of #{pane.pr_number} is withdrawn, its head is {event.head[:12]} now;"
        " that one is checked and reviewed anew.",
    )


def _see_head(pane: Pane, event: HeadMoved, _policy: CyclePolicy) -> Outcome:
    update = {"seen_heads": (*pane.seen_heads, event.head)[-50:], "granted_head": None}
    name = f"seen-pr-{pane.pr_number}-{event.head[:12]}"
    return pane.model_copy(update=update), [KeepBackup(pane=pane.index, head=event.head, name=name)]


def _new_to_us(pane: Pane, event: HeadMoved, _policy: CyclePolicy) -> bool:
    return event.head != pane.head and event.head not in pane.seen_heads


def _lost(_pane: Pane, event: HistoryChecked, _policy: CyclePolicy) -> bool:
    return bool(event.lost)


def _tell_lost(pane: Pane, event: HistoryChecked, _policy: CyclePolicy) -> Outcome:
    kept, lines = [], []
    for lost in event.lost:
        name = f"pr-{pane.pr_number}-{lost.old[:12]}"
        kept.append(KeepBackup(pane=pane.index, head=lost.old, name=name))
        lines += [f"  {line} (kept as refs/taskmaestro/backup/{name})" for line in lost.lines]
    listed = "\n".join(lines)
    pane, effects = want_person(
        pane,
        AttentionReason.FOREIGN_COMMITS_LOST,
        f"Pane {pane.index}: commits of somebody else are gone from #{pane.pr_number} at {event.head[:12]}:\n{listed}\n"
        f"Bring them back, or go on without them: `taskmaestro decide {pane.index} retry --why ...`.",
        event.at,
    )
    return pane, [*kept, *effects]


def _of_approved_head(pane: Pane, event: CiRead, _policy: CyclePolicy) -> bool:
    return pane.approved_head == event.head


def _red_after_approval(pane: Pane, event: CiRead, policy: CyclePolicy) -> bool:
    return _red(pane, event, policy) and _of_approved_head(pane, event, policy)


def _withdraw(pane: Pane, event: CiRead, _policy: CyclePolicy) -> Outcome:
    return _open_and_tell(
        pane,
        event,
        pane.base or event.head,
        f"the approval of #{pane.pr_number} is withdrawn: CI of {event.head[:12]} turned red"
        f" ({_failing(event.checks)}).",
    )


def _note_state(pane: Pane, event: CiRead, _policy: CyclePolicy) -> Outcome:
    assert pane.gate is not None
    return pane.model_copy(update={"gate": pane.gate.model_copy(update={"state": event.state})}), []


def _green_again(pane: Pane, event: CiRead, policy: CyclePolicy) -> bool:
    open_still = pane.gate is not None and (pane.status is Status.REVIEWING or pane.gate.returned)
    return open_still and pane.granted_head == event.head and _green(pane, event, policy)


def _approve_again(pane: Pane, event: CiRead, _policy: CyclePolicy) -> Outcome:
    """Nothing is posted: the approval stands on the pull request, or its effect is still owed."""
    gate = _read(pane, event, returned=False, timed_out=False)
    pane, effects = _take_task_back(pane, "the approval of this commit stands")
    pane = pane.model_copy(
        update={
            "status": Status.APPROVED,
            "gate": gate,
            "green_head": event.head,
            "approved_head": event.head,
            "claim": None,
            "hygiene": (),
            "attention": kept_at_approval(pane),
        }
    )
    message = f"✅ Pane {pane.index}: CI of {event.head[:12]} is green again, the approval of #{pane.pr_number} stands."
    told: list[Effect] = [
        approved_result(pane, event.head),
        Report(pane=pane.index, level="info", message=message, head=event.head),
    ]
    return pane, [*effects, *told]


def _forget_grant(pane: Pane, _event: CiLost, _policy: CyclePolicy) -> Outcome:
    update: dict[str, object] = {"granted_head": None}
    if pane.review_pass is not None and pane.review_pass.stage != "submitted":
        update["review_pass"] = None
    return pane.model_copy(update=update), []


def _withhold(pane: Pane, event: CiLost, policy: CyclePolicy) -> Outcome:
    pane, _ = _forget_grant(pane, event, policy)
    return _open_and_tell(
        pane,
        event,
        pane.base or event.head,
        f"#{pane.pr_number} is not approved: CI of {event.head[:12]} is not green any more ({event.state});"
        " the gate is open again.",
    )


def _merged(pane: Pane, _event: PrMerged, _policy: CyclePolicy) -> Outcome:
    gone = {"gate": None, "review": None, "claim": None, "attention": None, "ended": "merged", "granted_head": None}
    pane = taken_back(pane).model_copy(update={"status": Status.DONE, **gone})
    return pane, [Report(pane=pane.index, level="info", message=f"Pane {pane.index}: #{pane.pr_number} was merged.")]


def _merged_approved(pane: Pane, event: PrMerged, policy: CyclePolicy) -> Outcome:
    pane, effects = _merged(pane, event, policy)
    return pane.model_copy(update={"status": Status.APPROVED}), effects


def _has_request(pane: Pane, _event: PrMerged | PrClosed, _policy: CyclePolicy) -> bool:
    return pane.pr_number is not None


def _merge_known(pane: Pane, _event: PrMerged, _policy: CyclePolicy) -> bool:
    return pane.ended == "merged"


def _closed(pane: Pane, event: PrClosed, _policy: CyclePolicy) -> Outcome:
    gone = {"gate": None, "review": None, "claim": None, "ended": "closed"}
    gone |= {"approved_head": None, "granted_head": None}
    pane = taken_back(pane).model_copy(update={"status": Status.DONE, **gone})
    return want_person(
        pane,
        AttentionReason.PR_CLOSED,
        f"Pane {pane.index}: #{pane.pr_number} was closed without a merge. `taskmaestro decide {pane.index}"
        " abandon --why ...`, or reopen it and decide retry.",
        event.at,
    )


_AT_WORK = frozenset({Status.WORKING, Status.REVIEW_PENDING, Status.REVIEW_ADDRESSED})

ROWS: tuple[Row, ...] = (
    Row(
        "another head seen",
        _AT_WORK,
        "head_moved",
        None,
        "kept under a backup ref; the worker's report is awaited",
        _see_head,
        _new_to_us,
    ),
    Row(
        "commits of others lost",
        EVERY,
        "history_checked",
        None,
        "kept under a backup ref; a person is told",
        _tell_lost,
        _lost,
    ),
    Row(
        "CI lost before the approval was posted",
        frozenset({Status.APPROVED}),
        "ci_lost",
        frozenset({Status.REVIEWING}),
        "nothing is approved that is not green: the gate opens for the same head",
        _withhold,
        lambda pane, event, _policy: pane.approved_head == event.head,
    ),
    Row(
        "approval not posted",
        EVERY - {Status.APPROVED},
        "ci_lost",
        None,
        "it is withdrawn already: the head is reviewed anew once it is green",
        _forget_grant,
        lambda pane, event, _policy: pane.granted_head == event.head,
    ),
    Row("CI of another gate", EVERY, "ci_read", None, "a gate that is not open any more", guard=_other_gate),
    Row(
        "CI of the approved head failed",
        frozenset({Status.APPROVED}),
        "ci_read",
        frozenset({Status.REVIEWING}),
        "nothing stays approved that is not green: the approval is withdrawn, the gate opens for the same head",
        _withdraw,
        _red_after_approval,
    ),
    Row(
        "CI of the approved head",
        frozenset({Status.APPROVED}),
        "ci_read",
        None,
        "noted: only a failure withdraws an approval",
        _note_state,
        _of_approved_head,
    ),
    Row(
        "CI green again",
        _REVIEWING | _RETURNED,
        "ci_read",
        frozenset({Status.APPROVED}),
        "the head was approved before CI failed: it is approved again, with no review and nothing posted twice",
        _approve_again,
        _green_again,
    ),
    Row(
        "CI names another head",
        _REVIEWING,
        "ci_read",
        frozenset({Status.REVIEWING}),
        "head moved: the running review is dropped, the gate opens for the new head",
        _restart,
        _other_head,
    ),
    Row(
        "CI passed",
        _REVIEWING,
        "ci_read",
        frozenset({Status.REVIEWING}),
        "cycle below the cap: plan, run and merge the review",
        _start_review,
        _green_may_review,
    ),
    Row(
        "CI passed at the cap",
        _REVIEWING,
        "ci_read",
        None,
        "no review is left: a person decides",
        _stop_at_cap,
        _green_at_cap,
    ),
    Row(
        "CI failed",
        _REVIEWING,
        "ci_read",
        frozenset({Status.WORKING, Status.REVIEW_PENDING}),
        "back to the worker with jobs and logs; no review, no approval, same cycle",
        _return_red,
        _red_may_return,
    ),
    Row("CI failed, returns used up", _REVIEWING, "ci_read", None, "a person decides", _give_up_red, _red),
    Row("CI not decided", _REVIEWING, "ci_read", None, "inside the watch budget: asked again", _note_ci),
    Row(
        "returned head replaced",
        _RETURNED,
        "ci_read",
        None,
        "the worker pushed: its report is awaited, the old head is not watched any more",
        _stop_watching,
        _other_head,
    ),
    Row(
        "CI turned green",
        _RETURNED,
        "ci_read",
        frozenset({Status.REVIEWING}),
        "the same head was run again: the task is taken back, the review starts",
        _take_back,
        _turned_green,
    ),
    Row(
        "CI turned green at the cap",
        _RETURNED,
        "ci_read",
        frozenset({Status.REVIEWING}),
        "the same head was run again: the task is taken back; no review is left, so a person decides",
        _take_back_at_cap,
        _turned_green_at_cap,
    ),
    Row("CI of returned work", _RETURNED, "ci_read", None, "noted; the worker's answer is awaited", _note_ci),
    Row(
        "CI budget of another gate",
        EVERY,
        "ci_budget_spent",
        None,
        "a gate that is not open any more",
        guard=_other_gate,
    ),
    Row(
        "CI budget spent",
        _REVIEWING,
        "ci_budget_spent",
        None,
        "one last refresh saw no verdict: watch timeout",
        _time_out,
    ),
    Row(
        "head moved",
        frozenset({Status.REVIEWING, Status.APPROVED}),
        "head_moved",
        frozenset({Status.REVIEWING}),
        "verdicts belong to a head: the gate opens for the new one, same cycle",
        _reopen,
        _moved,
    ),
    Row("merge known", EVERY, "pr_merged", None, "reported already", guard=_merge_known),
    Row(
        "approved and merged",
        frozenset({Status.APPROVED}),
        "pr_merged",
        frozenset({Status.APPROVED}),
        "approved stays approved",
        _merged_approved,
    ),
    Row("merged", EVERY - {Status.APPROVED}, "pr_merged", frozenset({Status.DONE}), "done", _merged, _has_request),
    Row(
        "closed",
        LIVE,
        "pr_closed",
        frozenset({Status.DONE}),
        "closed without a merge: done, and a person is told",
        _closed,
        _has_request,
    ),
)
