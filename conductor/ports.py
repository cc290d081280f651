"""The doors to the outside: what the loop needs of a forge, of panes, of git, of agents and of reviews.

One contract test runs against every implementation of a port. Adapters raise ``schemas.errors`` faults for what can
be expected to go wrong (``Unavailable`` where a retry may help) and never answer "nothing" for "could not read".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    # Only names in signatures: a verb that asks a forge loads no words but those that it uses.
    from schemas.effects import Report
    from schemas.events import History
    from schemas.forge import (
        ApiBudget,
        Checks,
        Comment,
        DraftComment,
        Issue,
        PendingReview,
        Posted,
        PullRequest,
        Push,
        RequestedReviewer,
        SubmittedReview,
        Thread,
    )
    from schemas.review import EarlierReview, Review, ReviewPacket, StepReport, Verdict

# --- forge ---


@dataclass(frozen=True)
class Polled:
    """One round of questions: the pull requests that are there, and the checks of those that were asked for."""

    requests: Mapping[int, PullRequest]
    checks: Mapping[int, Checks]


class Forge(Protocol):
    """Where pull requests live. Each call answers for now; a missing thing is ``NotSo``, no answer ``Unavailable``.

    ``author``: who posts, default the acting login; where the forge posts as a token's login, another is ``BadInput``.
    """

    name: str
    remote_name: str
    """The managed repository's remote that the pull requests' branches are pushed to."""

    def login(self) -> str:
        """The acting login."""

    def pull_request(self, number: int) -> PullRequest: ...

    def pull_request_of_branch(self, branch: str) -> PullRequest | None:
        """The open pull request whose head branch this is."""

    def pull_requests(self, numbers: Sequence[int] | None = None) -> list[PullRequest]:
        """Many at once: these numbers (unknown ones left out), or all open ones; one batched query where it can be."""

    def checks(self, numbers: Sequence[int]) -> dict[int, Checks]:
        """The checks of the current head of each of these pull requests; one batched query where there is one."""

    def poll(self, numbers: Sequence[int], checks_of: Sequence[int]) -> Polled:
        """``pull_requests`` of these numbers and ``checks`` of those, in one batched query where there is one."""

    def diff(self, number: int) -> str: ...

    def issue(self, number: int) -> Issue: ...

    def issues(self) -> list[Issue]: ...

    def create_issue(self, title: str, body: str) -> Issue: ...

    def close_issue(self, number: int) -> Issue:
        """Close it; a closed one is answered as it is."""

    def comments(self, number: int) -> list[Comment]:
        """Comments and submitted reviews, oldest first, all pages."""

    def create_pull_request(
        self, *, branch: str, base: str, title: str, body: str, draft: bool, author: str | None = None
    ) -> PullRequest:
        """Open a pull request, or answer the open one of this branch (title, body and draft state then stay)."""

    def comment(self, number: int, body: str, *, marker: str = "", author: str | None = None) -> Posted:
        """Post a comment; where one with ``marker`` stands already, answer that one."""

    def post_review(self, number: int, *, body: str, verdict: Verdict, head: str, marker: str) -> Posted:
        """Post a review pinned to ``head``. Approving one's own pull request becomes a comment (``as_comment``).

        Looks for ``marker`` first and posts nothing where it stands. An approval reads the head again just before:
        raises ``HeadMovedError`` where it is another one.
        """

    def mark_ready(self, number: int) -> PullRequest: ...

    def close_pull_request(self, number: int) -> PullRequest:
        """Close it unmerged; a closed one is answered as it is, a merged one is ``NotSo``."""

    def reopen_pull_request(self, number: int) -> PullRequest:
        """Open a closed one again; an open one is answered as it is.

        ``NotSo``: merged, its branch is gone or has nothing to bring, or has another open pull request.
        """

    def remote_url(self) -> str | None:
        """The git remote that the forge keeps, where it keeps one itself (local), else None."""

    def wake_paths(self) -> tuple[Path, ...]:
        """Folders in which something changes when checks or heads change: to be watched instead of polled."""


class HeadMovedError(Exception):
    """The head was read again before something irreversible, and it was another one."""

    def __init__(self, head: str) -> None:
        super().__init__(head)
        self.head = head


@runtime_checkable
class Metered(Protocol):
    """A forge whose answers cost points of a rate limit."""

    def budget(self) -> ApiBudget | None:
        """As the last answer told it; None before the first one."""


@runtime_checkable
class LinksIssues(Protocol):
    """A forge that tells the pull requests of an issue when they are over, too."""

    def pull_requests_closing(self, issue: int) -> list[PullRequest]:
        """Those whose text closes the issue, in any state, oldest first."""


@runtime_checkable
class LoopFacts(Protocol):
    """What the review loops ask of a forge besides ``Forge``. Every list has all pages or is ``Unavailable``: what
    could not be read is never nothing.
    """

    def repository(self) -> str:
        """The repository as ``owner/name``, in lower case."""

    def requested_reviewers(self, number: int) -> list[RequestedReviewer]:
        """Whose review is asked for and has not come yet, by login."""

    def request_review(self, number: int, login: str) -> bool:
        """Ask for a review; False where it was asked for already. The author's own is ``NotSo``."""

    def withdraw_request(self, number: int, login: str) -> bool:
        """Ask no longer; False where nobody asked."""

    def submitted_reviews(self, number: int) -> list[SubmittedReview]:
        """Oldest first."""

    def pushes(self, number: int) -> list[Push]:
        """The heads that it had, oldest first; the last one is the head now."""

    def checks_of(self, number: int, head: str) -> Checks:
        """The checks of a head that it has or had."""


@runtime_checkable
class DraftReviews(Protocol):
    """Reviews that are staged first and submitted later.

    A login has at most one pending review of a pull request; each login may have one, of the same marker too. All
    calls look at the acting login's own reviews alone.
    """

    def pending_review(self, number: int) -> PendingReview | None:
        """The acting login's own."""

    def stage_review(
        self, number: int, *, commit: str, body: str, marker: str, comments: Sequence[DraftComment] = ()
    ) -> PendingReview:
        """Stage a review of ``commit``; submits nothing. Where one of the login with ``marker`` stands, pending or
        submitted, answer that one; somebody else's with the same marker is another one.

        ``NotSo`` where another one of the login is pending; ``BadInput`` for a comment on a line that the diff of the
        commit does not show.
        """

    def discard_review(self, number: int, review: str) -> bool:
        """Remove the acting login's pending review; False where it is not pending any more."""

    def submit_review(self, number: int, review: str, *, verdict: Verdict | None, stale: bool = False) -> Posted:
        """Submit the acting login's pending review, without a verdict as a comment; a submitted one is ``already``.

        Raises ``HeadMovedError`` where its commit is not the head and that is not allowed (``stale``), for an approval
        always. On one's own pull request every verdict becomes a comment (``as_comment``).
        """


@runtime_checkable
class Threads(Protocol):
    """The review threads of a pull request."""

    def threads(self, number: int) -> list[Thread]:
        """All submitted ones, all pages, in the order in which they began."""

    def reply(self, number: int, thread: str, body: str, *, author: str | None = None) -> Posted: ...

    def resolve(self, number: int, thread: str) -> bool:
        """Mark it resolved; False where it was."""


# --- git ---


@dataclass(frozen=True)
class Worktree:
    """One worker's worktree: ``path`` is absolute, ``head`` a full SHA, ``branch`` None when detached."""

    index: int
    path: Path
    branch: str | None
    head: str


@dataclass(frozen=True)
class AtRisk:
    """Work that a clean-up would lose, one line for a person each."""

    uncommitted: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    precious: tuple[str, ...] = ()
    unpushed: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.uncommitted or self.untracked or self.precious or self.unpushed)


class Worktrees(Protocol):
    """The managed repository's worktrees and refs."""

    root: Path

    def default_branch(self) -> str: ...

    def fetch(self) -> str | None:
        """Fetch the remote; the reason as text where that failed (offline), else None. Never raises for the network."""

    def add(self, index: int, branch: str) -> Worktree:
        """``.taskmaestro/wt-<index>`` on ``branch`` from the freshest default branch; an existing one is kept."""

    def turn_to(self, index: int, branch: str) -> Worktree:
        """The worktree on a new branch from the freshest default branch, for a new task; a number is added to a name
        that is taken. The old branch stays. Raises ``NotSo`` where uncommitted or untracked work stands there."""

    def find(self, index: int) -> Worktree | None: ...

    def all(self) -> list[Worktree]: ...

    def at_risk(self, index: int) -> AtRisk: ...

    def remove(self, index: int, *, force: bool) -> str | None:
        """Remove worktree and branch. Refuses (``NotSo``, listing it) where work would be lost; with ``force`` first
        keeps everything under a recovery ref and answers its name."""

    def recovery_refs(self, index: int) -> tuple[str, ...]:
        """The recovery refs of this worktree: also of commits that no branch held when it was removed or made anew."""

    def remote_head(self, branch: str) -> str | None:
        """The SHA of the branch on the remote now (``git ls-remote``), None where it is not there."""

    def commits_ahead(self, head: str, base: str) -> int: ...

    def files_committed(self, head: str, base: str) -> tuple[str, ...]:
        """The paths that commits of ``head`` outside ``base`` write, sorted."""

    def history(self, old: str, new: str, base: str, *, mine: Sequence[str]) -> History:
        """How the branch moved; ``mine`` are the e-mail addresses of the worker and the conductor."""

    def keep(self, sha: str, name: str) -> str:
        """Keep a commit under ``refs/taskmaestro/backup/<name>`` (fetching it where needed) and answer the ref."""

    def scratch(self, sha: str, name: str) -> Path:
        """A detached scratch worktree at this commit, made anew; removed by ``drop_scratch``."""

    def drop_scratch(self, path: Path) -> None: ...


# --- panes and agents ---

AgentStateName = Literal["starting", "idle", "busy", "permission", "trust", "limit", "error", "gone", "unknown"]


@dataclass(frozen=True)
class AgentState:
    """What an agent is doing. ``detail`` is for a person: the dialog's question, the reset time, the error."""

    name: AgentStateName
    detail: str = ""


@dataclass(frozen=True)
class Screen:
    """What a pane shows: wrapped lines joined, without trailing blanks; cursor as (column, row) from 0."""

    lines: tuple[str, ...]
    title: str = ""
    cursor: tuple[int, int] = (0, 0)

    def tail(self, count: int = 14) -> tuple[str, ...]:
        """The last non-blank lines, oldest first."""
        return tuple([line for line in self.lines if line.strip()][-count:])


@dataclass(frozen=True)
class Launch:
    """How an agent is to be started in a pane."""

    index: int
    worktree: Path
    private: Path
    """A folder outside the worktree for the settings that the agent kind writes."""
    hook_argv: tuple[str, ...]
    """The command that records a receipt; the agent kind appends the event's name."""
    first_prompt: str | None = None
    extra_args: tuple[str, ...] = ()
    resume: bool = False


class AgentKind(Protocol):
    """All that is known about one kind of agent program, kept as data in its one module."""

    name: str
    program: str
    install_hint: str
    idle_memory_mb: int
    has_receipts: bool
    """Its hooks record receipts, so that a missing receipt means something."""
    pass_env: tuple[str, ...]
    """Variables that it needs from the shell in which `up` is called (keys, base URLs); `PREFIX_*` for many."""

    def prepare(self, launch: Launch) -> None:
        """Write the settings that the launch needs, outside the worktree."""

    def argv(self, launch: Launch) -> list[str]: ...

    def env(self, launch: Launch) -> dict[str, str]: ...

    def classify(self, screen: Screen) -> AgentState: ...

    def composer(self, screen: Screen) -> str | None:
        """The text in its input line: "" when empty, None when no input line shows."""

    def placeholder(self, screen: Screen) -> bool:
        """A paste placeholder stands in its input line."""

    def clear_keys(self) -> tuple[str, ...]:
        """tmux key names that empty its input line."""

    def exit_line(self) -> str | None: ...


@dataclass(frozen=True)
class PaneInfo:
    """A tmux pane as ``list-panes -a`` gives it."""

    pane_id: str
    session: str
    window_id: str
    dead: bool
    exit_status: int | None
    pid: int
    start_command: str
    title: str
    in_mode: bool
    width: int
    height: int


@dataclass(frozen=True)
class Prompt:
    """One short line for an agent: ``[msg ID] ... [end ID]``."""

    message_id: str
    text: str

    @property
    def line(self) -> str:
        return f"[msg {self.message_id}] {self.text} [end {self.message_id}]"


@dataclass(frozen=True)
class Delivery:
    """How a delivery ended. ``queued``: nothing was typed, try again when the agent is idle."""

    outcome: Literal["delivered", "queued", "stranded"]
    evidence: str
    """How it is known (delivered), or why not."""
    screen: tuple[str, ...] = ()


@dataclass(frozen=True)
class PaneSpec:
    """A pane to be made: argv is run directly, without a shell; env is added to the server's."""

    index: int
    role: Literal["conductor", "worker", "reviewer"]
    title: str
    cwd: Path
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


class Panes(Protocol):
    """The terminals. Every pane is named by its exact ``%N`` and checked against the list of all panes."""

    session: str

    def ensure_session(self, specs: Sequence[PaneSpec]) -> dict[int, tuple[str, bool]]:
        """Bring session, windows and panes of these specs about; answers index -> (pane id, made anew).

        Conductor below, full width. Panes that live already are kept. Only options of our panes and windows are set.
        """

    def hand_over(self, variables: Mapping[str, str]) -> None:
        """Give these to every program that is started in the session from now on; on no command line, in no file."""

    def all(self) -> dict[str, PaneInfo]:
        """All panes of the server; empty where no server runs."""

    def info(self, pane_id: str) -> PaneInfo | None: ...

    def screen(self, pane_id: str, *, history: int = 0) -> Screen: ...

    def start(self, pane_id: str, spec: PaneSpec) -> PaneInfo:
        """Replace whatever the pane runs by this command (respawn); ends the old process tree first."""

    def deliver(self, pane_id: str, prompt: Prompt, agent: AgentKind, *, known_idle: bool) -> Delivery:
        """Type one line into an idle agent and confirm that it was submitted (panes page, "Delivery")."""

    def find_delivery(self, pane_id: str, prompt: Prompt, agent: AgentKind) -> Delivery | None:
        """After a crash: what became of this prompt, from receipts, start command, composer and scrollback.

        A line that still stands in the composer is submitted now. None: it was never typed.
        """

    def state_of(self, pane_id: str, agent: AgentKind) -> AgentState:
        """The agent's state, from its receipts where they say it, else from the screen, read once."""

    def watch(self, on_change: Callable[[str, str], None]) -> None:
        """From now on call ``on_change(pane id, "output" | "quiet" | "dead" | "gone")``; quiet panes are not polled."""

    def end(self, pane_id: str, agent: AgentKind | None) -> None:
        """End the agent (its exit line, then its recorded process tree) and close the pane."""

    def end_all(self, agents: Mapping[str, AgentKind | None]) -> list[str]:
        """``end`` for many panes: all are asked, then all are waited for together, then what is left is ended.

        Answers those that were ended; panes that are not ours are left alone.
        """

    def close(self) -> None:
        """Stop watching; the session goes on."""


# --- reviews ---


class Cancelled(Exception):
    """The work was not wanted any more while it ran."""


class ReviewStep(Protocol):
    """One step of a review, a module of its own; reads the packet and the checkout, changes nothing outside it."""

    name: str

    def run(self, packet: ReviewPacket, cancelled: Callable[[], bool]) -> StepReport:
        """Never raises for what a tool does: a step that could not run says so in its report."""


@dataclass(frozen=True)
class ReviewRequest:
    """A review to be made."""

    review_id: str
    pane: int
    cycle: int
    pr_number: int
    head: str
    base: str
    issue: int | None
    earlier: tuple[EarlierReview, ...]
    told: Callable[[Literal["running", "merging"]], None] = lambda _stage: None
    """Called when the runs start, and when they have ended and are merged."""


class Reviewer(Protocol):
    """Whoever reviews: the conductor's own steps, or a review pane."""

    def review(self, request: ReviewRequest, cancelled: Callable[[], bool]) -> Review:
        """Raises ``Fault`` where no review could be made, ``Cancelled`` where it was not wanted any more."""


class Notifier(Protocol):
    """Tells a person outside the terminal."""

    name: str

    def notify(self, report: Report) -> None: ...
