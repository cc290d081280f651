"""One step from staged changes to a reported pull request: battery, commit, push with a lease, pull
request, report.

Each sub-step looks first whether it was done already, so that after a crash the same command goes on
where it ended: a commit that exists is not made again, a pushed head is not pushed again, the open pull
request of the branch is used. What was pushed last is kept under ``refs/taskmaestro/pushed/<branch>``;
that and TASK.md's lease are the only heads that a push may overwrite.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.config import Config
from schemas.errors import BadInput, Fault, NeedsPerson, NotSo, StillPending, Unavailable
from schemas.text import clean, one_line
from worker.battery import Stage, failure, run_battery
from worker.report import Extras, Place, report_done, report_refused_push
from worker.task import Task, read_task
from worker.tools import git as g
from worker.tools.config import load_config
from worker.tools.files import MissingFile
from worker.tools.process import run
from worker.validation import record

PR_TIMEOUT = 180.0
_FAULTS: dict[int, type[Fault]] = {1: NotSo, 2: BadInput, 3: Unavailable, 4: NeedsPerson, 8: StillPending}


@dataclass(frozen=True)
class Wishes:
    """What the caller asked for. ``body_file`` holds the pull request's text."""

    amend: bool = False
    message: str | None = None
    title: str | None = None
    body_file: Path | None = None
    extras: Extras = field(default_factory=Extras)


@dataclass
class Shipped:
    """What was done. ``commit`` is the new commit's SHA, None where there was one already."""

    branch: str
    head: str
    stages: list[Stage]
    commit: str | None = None
    pushed: bool = False
    pr_number: int | None = None
    pr_url: str = ""
    reported: str | None = None
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The answer of ``taskmaestro ship --json``."""
        battery = [
            {
                "slot": stage.slot,
                "command": list(stage.command.argv),
                "seconds": round(stage.outcome.seconds, 2),
                "note": stage.note,
            }
            for stage in self.stages
        ]
        return {
            "ok": True,
            "branch": self.branch,
            "head": self.head,
            "battery": battery,
            "commit": self.commit,
            "pushed": self.pushed,
            "pr_number": self.pr_number,
            "pr_url": self.pr_url,
            "reported": self.reported,
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Yard:
    """Where we ship from, and where to."""

    root: Path
    main: Path
    index: int | None
    task: Task | None
    config: Config
    branch: str
    base: str
    base_sha: str | None

    @property
    def remote(self) -> str:
        return self.config.remote

    @property
    def record(self) -> str:
        return f"refs/taskmaestro/pushed/{self.branch}"


Told = Callable[[str], object]


def ship(cwd: Path, wishes: Wishes, told: Told | None = None) -> Shipped:
    """Do all of it, or as much as is left to do. ``told`` gets a line for each thing that is done.

    Raises ``NotSo`` (battery or hook failed, nothing to ship), ``BadInput`` (wrong branch, private files
    staged), ``Unavailable`` (remote or forge not reachable), ``NeedsPerson`` (the lease was rejected, the
    branch deleted).
    """
    say = told or (lambda _: None)
    yard = find_yard(cwd)
    there = g.remote_head(yard.root, yard.remote, yard.branch)
    _refuse_private(yard)
    staged = g.staged_files(yard.root)
    _refuse_nothing(yard, staged, there)
    if wishes.amend and staged:
        _refuse_amend_of_base(yard)
    done = Shipped(yard.branch, g.head(yard.root) or "", [])
    if staged or done.head != there:
        done.stages = _battery(yard, staged, done.notes, say)
    if staged:
        done.commit = _commit(yard, wishes)
        say(f"committed {done.commit[:12]}{' (amended)' if wishes.amend else ''}")
    done.head = g.head(yard.root) or ""
    if done.stages and not g.is_dirty(yard.root):
        _record(yard, done, say)
    _refuse_private_commits(yard)
    done.pushed = _push_or_tell(yard, there, done.head)
    say(f"{'pushed' if done.pushed else 'already pushed'} {done.head[:12]} to {yard.remote}/{yard.branch}")
    done.pr_number, done.pr_url = _pull_request(yard, wishes)
    say(f"pull request #{done.pr_number} {done.pr_url}".rstrip())
    if yard.index is not None:
        result = report_done(Place(yard.root, yard.index, yard.task), done.pr_number, wishes.extras)
        done.reported = str(result.status)
        say(f"reported {done.reported}")
    else:
        done.notes.append("not a worker's worktree, so nothing was reported")
    return done


def find_yard(cwd: Path) -> Yard:
    """The worktree, its task, its branch and base. Raises ``BadInput`` where nothing can be shipped from
    here.
    """
    root, common = g.root_and_common_dir(cwd)
    main = g.main_root(root, common)
    config = load_config(main)
    try:
        task = read_task(root)
    except MissingFile:
        task = None
    branch = g.current_branch(root)
    if branch is None:
        raise BadInput(f"{root} is on no branch (detached HEAD)", "Switch to the task's branch first: git switch ...")
    if task is not None and task.branch is not None and task.branch != branch:
        raise BadInput(
            f"{root} is on branch {one_line(branch)}, and the task is for {one_line(task.branch)}",
            f"git switch {one_line(task.branch)}, and bring your changes there.",
        )
    base = (task.base if task else None) or config.default_branch or g.default_branch(root, config.remote)
    if base is None:
        raise BadInput(f"the default branch of {main} is not known", "Set default_branch in .taskmaestro/config.toml.")
    if branch == base:
        raise BadInput(f"{root} is on {base} itself; a pull request needs a branch of its own", "git switch -c NAME")
    base_sha = g.resolve(root, f"refs/remotes/{config.remote}/{base}") or g.resolve(root, f"refs/heads/{base}")
    return Yard(root, main, g.worktree_index(root), task, config, branch, base, base_sha)


# --- what is refused
# -------------------------------------------------------------------------------------------------


def _refuse_private(yard: Yard) -> None:
    private = [name for name in g.staged_files(yard.root, deleted=False) if g.is_private(name)]
    if private:
        names = ", ".join(one_line(name) for name in private[:5])
        raise BadInput(
            f"{names}: staged, but belongs to taskmaestro and never to a commit",
            f"git restore --staged -- {one_line(private[0])}, then ship again.",
        )


def _refuse_private_commits(yard: Yard) -> None:
    if yard.base_sha is None:
        return
    private = [name for name in g.changed_between(yard.root, yard.base_sha, "HEAD") if g.is_private(name)]
    if private:
        name = one_line(private[0])
        raise BadInput(
            f"the commits of {yard.branch} contain {name}: it belongs to taskmaestro and never to a commit",
            f"git rm --cached -- {name}, then: taskmaestro ship --amend. Nothing was pushed.",
        )


def _commits_of_branch(yard: Yard) -> int:
    if g.head(yard.root) is None:
        return 0
    hidden = ["--not", yard.base_sha] if yard.base_sha else []
    return int(g.git(["rev-list", "--count", "HEAD", *hidden], yard.root).output.strip())


def _refuse_nothing(yard: Yard, staged: list[str], there: str | None) -> None:
    """Nothing staged is fine where a commit waits to be pushed or reported, and only there."""
    if staged:
        return
    changed = g.unstaged_files(yard.root)
    names = ", ".join(one_line(name) for name in changed[:5]) + (" ..." if len(changed) > 5 else "")
    unstaged = f"; changed but not staged: {names}" if changed else ""
    hint = "Stage what belongs to the change (git add FILES; never git add -A), then ship again."
    if not _commits_of_branch(yard):
        raise NotSo(f"nothing is staged, and {yard.branch} has no commit beyond {yard.base}{unstaged}", hint)
    now = g.head(yard.root)
    if now == there and changed:
        raise NotSo(f"nothing is staged, and the commits are pushed already{unstaged}", hint)
    task = yard.task
    if task is not None and task.kind != "first" and now == there and task.lease == now:
        raise NotSo(
            "nothing is staged, and nothing is new since the task was given",
            f"{hint} Where an answer is enough: `taskmaestro pr comment {task.pr or 'N'} --body ...`, "
            "then `taskmaestro report addressed`.",
        )


def _refuse_amend_of_base(yard: Yard) -> None:
    if not _commits_of_branch(yard):
        raise BadInput(
            f"{yard.branch} has no commit of its own to amend; HEAD belongs to {yard.base}",
            'Leave --amend out: taskmaestro ship --message "..."',
        )


# --- battery and commit
# ----------------------------------------------------------------------------------------------


def _record(yard: Yard, done: Shipped, say: Told) -> None:
    """The battery's record is for the draft gate; work is not held back because it could not be kept."""
    try:
        record(yard.main, done.head, done.stages)
    except (Fault, OSError) as fault:
        say(f"the record of the checks could not be kept, the work goes on: {one_line(str(fault))}")


def _battery(yard: Yard, staged: list[str], notes: list[str], say: Told) -> list[Stage]:
    """Run it; put what the formatter changed in staged files back into the index."""
    before = set(g.unstaged_files(yard.root))
    stages = run_battery(yard.root, yard.config.battery, yard.main, told=say)
    fault = failure(stages)
    if fault is not None:
        raise fault
    if not stages:
        notes.append("no battery: no command is configured or was found; set [battery] in .taskmaestro/config.toml")
    changed = set(g.unstaged_files(yard.root))
    mended = sorted((changed - before) & set(staged))
    if mended:
        g.git(["--literal-pathspecs", "add", "--", *mended], yard.root)
        notes.append(f"staged again after the battery changed them: {_list(mended)}")
    others = sorted(changed - before - set(staged))
    ours = set(g.changed_between(yard.root, yard.base_sha, "HEAD")) if yard.base_sha and others else set()
    if not staged and ours & set(others):
        raise NotSo(
            f"the battery changed files of the commits to be pushed: {_list(sorted(ours & set(others)))}",
            "Look at them (git diff), stage them and run: taskmaestro ship --amend",
        )
    if others:
        notes.append(f"left as they are, changed by the battery but not staged: {_list(others)}")
    partly = sorted(before & set(staged))
    if partly:
        notes.append(f"staged in part; the battery saw the whole files: {_list(partly)}")
    return stages


def _list(names: list[str]) -> str:
    return ", ".join(one_line(name) for name in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _commit(yard: Yard, wishes: Wishes) -> str:
    message = wishes.message or (None if wishes.amend else wishes.title)
    if message is None and not wishes.amend:
        raise BadInput("the commit needs a message", 'Add --message "..." or --title "...".')
    args = ["commit", "--quiet"]
    if wishes.amend:
        args.append("--amend")
    args += ["--no-edit"] if message is None else ["--file=-"]
    outcome = g.git(args, yard.root, input=message, timeout=g.HOOKS_TIMEOUT, check=False, hooks=True)
    if not outcome.ok:
        raise NotSo(
            f"git commit {outcome.ending()}:\n{outcome.tail(30)}",
            "Mend what git or the repository's hook says, then ship again; nothing was pushed.",
        )
    return g.head(yard.root) or ""


# --- push
# ------------------------------------------------------------------------------------------------------------


def _push_or_tell(yard: Yard, there: str | None, now: str) -> bool:
    """Push. Where somebody else moved the branch, the conductor is told, for it asks a person."""
    try:
        return _push(yard, there, now)
    except NeedsPerson as fault:
        if yard.index is None:
            raise
        report_refused_push(Place(yard.root, yard.index, yard.task), fault.what)
        raise NeedsPerson(f"{fault.what} (reported to the conductor)", fault.hint) from None


def _push(yard: Yard, there: str | None, now: str) -> bool:
    """Whether a push was needed. Overwrites only what this worktree pushed last, or what the review was
    made on.
    """
    if there == now:
        _remember(yard, now)
        return False
    outcome = _lease_or_refusal(yard, there)
    if isinstance(outcome, g.PushOutcome):
        raise _push_fault(outcome)
    pushed = g.push_with_lease(yard.root, yard.remote, yard.branch, outcome or None)
    if not pushed.ok:
        raise _push_fault(pushed)
    _remember(yard, now)
    return True


def _lease_or_refusal(yard: Yard, there: str | None) -> str | g.PushOutcome:
    """The SHA to lease on ("": the branch must not exist), or why nothing may be pushed."""
    known = [sha for sha in (g.resolve(yard.root, yard.record), yard.task.lease if yard.task else None) if sha]
    if there is None:
        return g.deleted_remotely(yard.remote, yard.branch, known[0]) if known else ""
    if there in known or any(there.startswith(sha) for sha in known) or g.is_ancestor(yard.root, there):
        return there
    if not known and g.has_had(yard.root, there):  # pushed by hand before, and rewritten here since
        return there
    return g.lease_rejected(yard.remote, yard.branch, known[0] if known else None, there)


def _push_fault(outcome: g.PushOutcome) -> Fault:
    kinds: dict[str, type[Fault]] = {
        "rejected_lease": NeedsPerson,
        "deleted_remotely": NeedsPerson,
        "offline": Unavailable,
    }
    return kinds.get(outcome.kind, NotSo)(outcome.text, outcome.hint)


def _remember(yard: Yard, sha: str) -> None:
    g.git(["update-ref", "--", yard.record, sha], yard.root)


# --- pull request
# ----------------------------------------------------------------------------------------------------


def _pull_request(yard: Yard, wishes: Wishes) -> tuple[int, str]:
    """(number, URL) of the branch's pull request: the task's, or the one that ``pr create`` makes or
    finds.
    """
    if yard.task is not None and yard.task.pr is not None:
        return yard.task.pr, ""
    subject = g.git(["log", "-1", "--format=%s"], yard.root).output.strip()
    args = ["create", "--json", f"--head={yard.branch}", f"--base={yard.base}"]
    args.append(f"--title={wishes.title or subject}")
    if wishes.body_file is not None:
        args.append(f"--body-file={wishes.body_file.absolute()}")
    else:
        issue = yard.task.issue if yard.task else None
        args.append(f"--body=Closes #{issue}" if issue else f"--body={subject}")
    if yard.config.forge.draft_first:
        args.append("--draft")
    answer = _taskmaestro_pr(yard.root, args)
    number, url = answer.get("number"), answer.get("url", "")
    if answer.get("head_branch", yard.branch) != yard.branch:
        raise NotSo(
            f"the issue has an open pull request already: #{number}, of {one_line(str(answer['head_branch']))}",
            f"The commits are pushed to {yard.branch}. Go on with that one (git switch), or open another one: "
            f"taskmaestro pr create --another --head {yard.branch} ..., then ship again.",
        )
    if not isinstance(number, int) or number < 1:
        raise Unavailable("`taskmaestro pr create` answered without a number", "Run it by hand to see why.")
    return number, clean(str(url))


def _taskmaestro_pr(root: Path, args: list[str]) -> dict[str, Any]:
    # -P: the worktree's own folders must not stand in for our packages.
    argv = [sys.executable, "-P", "-m", "conductor", "pr", *args]
    # The embedded forge's checks run on after it.
    outcome = run(argv, cwd=root, timeout=PR_TIMEOUT, env=dict(os.environ), merge=False, leave=True)
    if not outcome.ok:
        kind = _FAULTS.get(outcome.returncode or 0, Unavailable)
        raise kind(
            f"the pull request was not opened: {_error_of(outcome.errors) or outcome.ending()}",
            "The commits are pushed; run the same command again once that is mended.",
        )
    try:
        answer = json.loads(outcome.data)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unavailable("`taskmaestro pr create --json` did not answer with a JSON object", "Run it by hand.")
    return answer


def _error_of(text: str) -> str:
    """The message in ``{"ok": false, "error": ...}`` on stderr, or the last lines as they are."""
    lines = [line for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if isinstance(data, dict) and "error" in data:
            return clean(str(data["error"]))
    return "\n".join(lines[-5:])
