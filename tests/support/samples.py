"""One sample of every event and every effect, with hostile text where text comes from others."""

from __future__ import annotations

from schemas import effects as fx
from schemas import events as ev
from schemas.config import CyclePolicy
from schemas.forge import Check, CheckState
from schemas.pane import Role
from schemas.result import Result, ResultStatus
from schemas.review import Review, Verdict
from tests.support.stories import BASE, BEGIN, finding, sha

HOSTILE = "first\x1b[2J line\r\nsecond \u202eline"
HEAD = sha("a")
REVIEW = Review(review_id="r", cycle=1, head=HEAD, base=BASE, verdict=Verdict.CHANGES, findings=(finding(),))
FAILED = Check(name=HOSTILE, state=CheckState.FAILED)

EVENTS: tuple[ev.Event, ...] = (
    ev.PolicySet(pane=0, at=BEGIN, policy=CyclePolicy()),
    ev.PaneAdded(pane=1, at=BEGIN, role=Role.WORKER, agent=HOSTILE, run="abcdef", worktree="/w", branch=HOSTILE),
    ev.PaneBound(pane=1, at=BEGIN, pane_id="%1", fresh=True),
    ev.PaneRemoved(pane=1, at=BEGIN, why=HOSTILE),
    ev.TaskGiven(pane=1, at=BEGIN, issue=3, title=HOSTILE),
    ev.ResultSeen(
        pane=1, at=BEGIN, result=Result(status=ResultStatus.ERROR, error=HOSTILE * 40), digest="d", stamp="s"
    ),
    ev.ResultInvalid(pane=1, at=BEGIN, problem=HOSTILE, stamp="s"),
    ev.PrInspected(pane=1, at=BEGIN, claim_id="c", facts=ev.PrFacts(number=3, found=False)),
    ev.CiRead(pane=1, at=BEGIN, gate_id="g", head=HEAD, state=CheckState.FAILED, checks=(FAILED,)),
    ev.CiBudgetSpent(pane=1, at=BEGIN, gate_id="g", state=CheckState.PENDING),
    ev.ReviewStage(pane=1, at=BEGIN, review_id="r", stage="staged", login=HOSTILE, draft_id=HOSTILE, draft_url=HOSTILE),
    ev.ReviewFinished(pane=1, at=BEGIN, review=REVIEW, head_now=HEAD),
    ev.ReviewFailed(pane=1, at=BEGIN, review_id="r", reason=HOSTILE),
    ev.ReviewPosted(pane=1, at=BEGIN, review_id="r", url=HOSTILE),
    ev.TaskDelivered(pane=1, at=BEGIN, task_id="t", evidence=HOSTILE),
    ev.TaskQueued(pane=1, at=BEGIN, task_id="t", reason=HOSTILE),
    ev.TaskStranded(pane=1, at=BEGIN, task_id="t", reason=HOSTILE, screen=HOSTILE),
    ev.HeadMoved(pane=1, at=BEGIN, head=HEAD),
    ev.HistoryChecked(pane=1, at=BEGIN, head=HEAD, lost=(ev.LostCommits(old=BASE, lines=(HOSTILE,)),)),
    ev.CiLost(pane=1, at=BEGIN, head=HEAD, state=CheckState.PENDING),
    ev.PrMerged(pane=1, at=BEGIN),
    ev.PrClosed(pane=1, at=BEGIN),
    ev.UserDecided(pane=1, at=BEGIN, verb="approve", why=HOSTILE, who=HOSTILE, request="r"),
    ev.PaneDied(pane=1, at=BEGIN, detail=HOSTILE),
    ev.AgentSeen(pane=1, at=BEGIN, state="limit", detail=HOSTILE),
    ev.LimitOver(pane=1, at=BEGIN),
    ev.ForgeFailed(pane=1, at=BEGIN, reason=HOSTILE),
    ev.ForgeBack(pane=1, at=BEGIN),
    ev.EffectFailed(pane=1, at=BEGIN, effect="post_review", reason=HOSTILE),
)

EFFECTS: tuple[fx.Effect, ...] = (
    fx.InspectPr(pane=1, claim_id="c", purpose="success", pr_number=3),
    fx.RunReview(pane=1, review_id="r", cycle=1, pr_number=3, head=HEAD, base=BASE),
    fx.PostReview(
        pane=1, review_id="r", cycle=1, pr_number=3, head=HEAD, verdict=Verdict.CHANGES, body=HOSTILE, marker="m"
    ),
    fx.WriteResult(pane=1, status="approved", pr_number=3, review_cycle=0, head=HEAD),
    fx.SendTask(pane=1, task_id="t", task="fix", start=True, line=HOSTILE, text=HOSTILE),
    fx.StartAgent(pane=1),
    fx.TakeBackTask(pane=1, task_id="t", text=HOSTILE),
    fx.Report(pane=1, level="info", message=HOSTILE),
    fx.KeepBackup(pane=1, head=HEAD, name=HOSTILE),
    fx.QuarantineResult(pane=1, stamp="s", why=HOSTILE),
    fx.CheckHistory(pane=1, old_heads=(BASE,), head=HEAD, base=BASE),
)
