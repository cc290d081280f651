"""git as both sides use it: a few questions, the private exclude list, and a push that overwrites only
what it names.

Names that others chose stand behind ``--`` or as full ref names. Messages come in the C locale, paths
unquoted; git never asks on a terminal. A repository that a hook or a caller put into the environment is
not taken over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from schemas.errors import BadInput, Fault, NotSo, Unavailable
from schemas.text import one_line
from worker.tools.exclude import ensure_excluded_in
from worker.tools.files import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from worker.tools.process import Outcome, run

OLDEST = (2, 31)
"""The oldest git that works (rev-parse --path-format, and what worktree list tells of locks)."""
MERGING = (2, 38)
"""The oldest one by which the embedded forge merges (merge-tree --write-tree); all else works without it."""
INSTALL = f"Install git {'.'.join(map(str, OLDEST))} or newer."
TIMEOUT = 60.0
NETWORK_TIMEOUT = 180.0
HOOKS_TIMEOUT = 900.0
"""What never belongs to a commit (docs/contracts.md, "Files in a managed repository"), as exclude
patterns.
"""

_FOREIGN = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)
_WORKTREE = re.compile(r"^wt-([1-9]\d{0,3})$")
_OFFLINE = re.compile(
    r"could not resolve|connection (refused|timed out|reset|closed)|network is unreachable|no route to host"
    r"|could not read from remote repository|does not appear to be a git repository|unable to access"
    r"|operation timed out|temporary failure in name resolution|failed to connect|early eof",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"permission denied|authentication failed|access denied|could not read username|\b40[13]\b", re.IGNORECASE
)


def git(
    args: Sequence[str],
    cwd: Path | str,
    *,
    timeout: float = TIMEOUT,
    input: bytes | str | None = None,
    check: bool = True,
    hooks: bool = False,
) -> Outcome:
    """Run git in ``cwd``. ``output`` is stdout alone, ``errors`` stderr, ``data`` stdout's bytes.

    ``hooks``: the command may run the user's hooks, which keep their character set (messages stay in
    English). With ``check`` a failure raises ``NotSo``, a time-out ``Unavailable``, with git's own last
    lines.
    """
    command = ["git", "-c", "core.quotepath=off", *args]
    # git's own daemons (a credential cache, housekeeping) go on.
    outcome = run(command, cwd=cwd, timeout=timeout, env=_environment(hooks), input=input, merge=False, leave=True)
    if check and not outcome.ok:
        shown = one_line(" ".join(args), 120)
        text = f"git {shown} in {cwd}: {outcome.ending()}\n{outcome.tail(8)}".rstrip()
        raise Unavailable(text, "Try again.") if outcome.timed_out else NotSo(text)
    return outcome


def _environment(hooks: bool) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    env["GIT_TERMINAL_PROMPT"] = "0"
    if not hooks:
        env["LC_ALL"] = "C"
        return env
    charset = env.pop("LC_ALL", None)
    if charset is not None:
        env["LANG"] = env["LC_CTYPE"] = charset
    env["LC_MESSAGES"] = "C"
    env.pop("LANGUAGE", None)
    return env


# --- where we are
# ----------------------------------------------------------------------------------------------------


def root_and_common_dir(cwd: Path | str) -> tuple[Path, Path]:
    """(top of the working tree, the git folder that all worktrees share), both absolute.

    Raises ``BadInput`` outside a working tree, ``Unavailable`` where git is missing.
    """
    outcome = git(["rev-parse", "--show-toplevel", "--git-common-dir"], cwd, check=False)
    lines = outcome.data.decode("utf-8", "surrogateescape").split("\n")
    if not outcome.ok or len(lines) < 2:
        raise BadInput(
            f"{cwd} is not in a git working tree: {one_line(outcome.errors)}",
            "Change into the repository first.",
        )
    return Path(lines[0]), Path(cwd, lines[1]).resolve()


def worktree_index(root: Path) -> int | None:
    """N where ``root`` is a worker's worktree ``.taskmaestro/wt-N``, else None."""
    found = _WORKTREE.match(root.name)
    return int(found.group(1)) if found and root.parent.name == ".taskmaestro" else None


def main_root(root: Path, common_dir: Path) -> Path:
    """The managed repository's own working tree, seen from any of its worktrees."""
    if worktree_index(root) is not None:
        return root.parent.parent
    return common_dir.parent if common_dir.name == ".git" else root


def current_branch(cwd: Path | str) -> str | None:
    """The short name of the branch; None when detached. Also right before the first commit."""
    outcome = git(["symbolic-ref", "--quiet", "HEAD"], cwd, check=False)
    return outcome.output.strip().removeprefix("refs/heads/") if outcome.ok else None


def head(cwd: Path | str) -> str | None:
    """The full SHA of HEAD, None before the first commit."""
    return resolve(cwd, "HEAD")


def resolve(cwd: Path | str, name: str) -> str | None:
    """The full SHA of the commit that ``name`` (a ref, a SHA) means here, None where it means none."""
    if name.startswith("-"):
        return None
    outcome = git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"], cwd, check=False)
    return outcome.output.strip() if outcome.ok else None


def default_branch(cwd: Path | str, remote: str = "origin") -> str | None:
    """The remote's HEAD branch where it is known here, else ``main`` or ``master`` where they exist, else
    None.
    """
    outcome = git(["symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD"], cwd, check=False)
    if outcome.ok:
        return outcome.output.strip().removeprefix(f"refs/remotes/{remote}/")
    for name in ("main", "master"):
        if resolve(cwd, f"refs/heads/{name}") or resolve(cwd, f"refs/remotes/{remote}/{name}"):
            return name
    return None


# --- what has changed
# ------------------------------------------------------------------------------------------------


def _names(outcome: Outcome) -> list[str]:
    return [os.fsdecode(name) for name in outcome.data.split(b"\0") if name]


def staged_files(cwd: Path | str, *, deleted: bool = True) -> list[str]:
    """Paths (from the top) whose staged content differs from HEAD; ``deleted``: with those staged for
    deletion.
    """
    wanted = [] if deleted else ["--diff-filter=d"]
    return _names(git(["diff", "--cached", "--name-only", "--no-renames", "-z", *wanted], cwd))


def unstaged_files(cwd: Path | str) -> list[str]:
    """Tracked paths (from the top) whose content in the working tree differs from what is staged."""
    return _names(git(["diff", "--name-only", "--no-renames", "-z"], cwd))


def is_dirty(cwd: Path | str, *, untracked: bool = True) -> bool:
    """Whether anything is staged, changed or (``untracked``) new and not ignored."""
    mode = "normal" if untracked else "no"
    return bool(git(["status", "--porcelain", "-z", f"--untracked-files={mode}"], cwd).data)


def changed_files(cwd: Path | str) -> list[str]:
    """What is staged, changed, or new and not ignored; a folder of new files is one entry."""
    entries = git(["status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal"], cwd)
    return [name[3:] for name in _names(entries)]


def changed_between(cwd: Path | str, base: str, tip: str) -> list[str]:
    """Paths that ``tip`` adds or changes since it left ``base`` (both SHAs)."""
    return _names(git(["diff", "--name-only", "--no-renames", "--diff-filter=d", "-z", f"{base}...{tip}"], cwd))


def is_ignored(root: Path, name: str) -> bool:
    """Whether git leaves this file out: it is ignored, and not tracked all the same."""
    return git(["check-ignore", "--quiet", "--", name], root, check=False).ok


def is_private(path: str) -> bool:
    """Whether this path (from the top) must never be committed. ``.taskmaestro/config.toml`` and the plan
    may be.
    """
    if path in (".taskmaestro/config.toml", ".taskmaestro/wave-plan.json"):
        return False
    name = path.rpartition("/")[2]
    temporary = name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)
    return path in ("RESULT.json", "TASK.md") or path.startswith(".taskmaestro/") or temporary


def exclude_private(cwd: Path | str) -> list[str]:
    """Put what is private to taskmaestro into ``info/exclude`` of the shared git folder; answer the lines
    added.

    The user's lines stay as they are, a second call adds nothing, and nobody's ``.gitignore`` changes.
    """
    return ensure_excluded_in(root_and_common_dir(cwd)[1])


# --- the remote
# ------------------------------------------------------------------------------------------------------

PushKind = Literal["pushed", "up_to_date", "rejected_lease", "deleted_remotely", "offline", "other"]


@dataclass(frozen=True)
class PushOutcome:
    """How a push ended; ``text`` says it for a person, ``hint`` what to do, ``remote_head`` what the
    remote has.
    """

    kind: PushKind
    text: str
    hint: str = ""
    remote_head: str | None = None

    @property
    def ok(self) -> bool:
        return self.kind in ("pushed", "up_to_date")


def remote_head(cwd: Path | str, remote: str, branch: str) -> str | None:
    """The branch's SHA on the remote now, asked there (never the tracking ref); None where it does not exist.

    Raises ``Unavailable`` where the remote cannot be reached, ``BadInput`` where it is not configured.
    """
    ref = f"refs/heads/{branch}"
    outcome = git(["ls-remote", "--refs", "--", remote, ref], cwd, timeout=NETWORK_TIMEOUT, check=False)
    if not outcome.ok:
        raise _remote_fault(cwd, remote, outcome)
    for line in outcome.output.splitlines():
        sha, _, name = line.partition("\t")
        if name == ref:
            return sha
    return None


def _remote_fault(cwd: Path | str, remote: str, outcome: Outcome) -> Fault:
    known = git(["remote"], cwd).output.split()
    if remote not in known and "/" not in remote and ":" not in remote:
        return BadInput(
            f"{cwd}: no remote is called {one_line(remote)} (there are: {', '.join(known) or 'none'})",
            "Add it (git remote add), or set `remote` in .taskmaestro/config.toml.",
        )
    kind = "refuses access" if _DENIED.search(outcome.errors) else "cannot be reached"
    return Unavailable(
        f"the remote {one_line(remote)} {kind}: {one_line(outcome.tail(3), 400)}",
        "Check the network and your access (git ls-remote), then try again.",
    )


def has_had(cwd: Path | str, sha: str) -> bool:
    """Whether this worktree's HEAD has ever contained the commit: what ``--force-if-includes`` would ask.

    git ignores that option next to a lease that names its SHA, so the question is put here.
    """
    if resolve(cwd, sha) is None:
        return False
    tips = git(["reflog", "show", "--format=%H", "-n", "500", "HEAD"], cwd, check=False).output.split()
    if not tips:  # no reflog is kept here, so there is nothing to ask
        return True
    return not git(["rev-list", "--max-count=1", sha, "--not", "HEAD", *dict.fromkeys(tips)], cwd).output.strip()


def is_ancestor(cwd: Path | str, sha: str, of: str = "HEAD") -> bool:
    """Whether ``of`` contains the commit; False where the commit is not known here."""
    if resolve(cwd, sha) is None:
        return False
    return git(["merge-base", "--is-ancestor", sha, of], cwd, check=False).ok


def push_with_lease(cwd: Path | str, remote: str, branch: str, expected: str | None) -> PushOutcome:
    """Push HEAD to ``refs/heads/<branch>``, overwriting only the commit ``expected`` (None: the branch
    must not exist).

    The lease always names its SHA, for a bare one protects nothing once anything has fetched. A commit
    that this worktree never had is not overwritten even where the lease names it. Never raises for what
    the remote answers.
    """
    if expected is not None and not has_had(cwd, expected):
        return PushOutcome(
            "rejected_lease",
            f"{branch} on {remote} is at {expected[:12]}, and this worktree never contained that commit",
            f"Fetch it and put your work on top: git fetch {remote} && git rebase {expected[:12]}; then ship again.",
            expected,
        )
    lease = f"--force-with-lease=refs/heads/{branch}:{expected or ''}"
    outcome = git(
        ["push", "--porcelain", lease, "--", remote, f"HEAD:refs/heads/{branch}"],
        cwd,
        timeout=HOOKS_TIMEOUT,
        check=False,
        hooks=True,
    )
    return _judge(cwd, remote, branch, expected, outcome)


def _judge(cwd: Path | str, remote: str, branch: str, expected: str | None, outcome: Outcome) -> PushOutcome:
    now = head(cwd)
    flags = [line.split("\t") for line in outcome.output.splitlines() if line.count("\t") >= 2]
    row = next((parts for parts in flags if parts[1].endswith(f":refs/heads/{branch}")), None)
    if outcome.ok:
        same = row is not None and row[0].strip() == "="
        kind: PushKind = "up_to_date" if same else "pushed"
        return PushOutcome(kind, f"{branch} on {remote} is at {(now or '')[:12]}", remote_head=now)
    if outcome.timed_out:
        return PushOutcome("offline", f"the push to {remote} {outcome.ending()}", "Try again.")
    reason = one_line(row[2], 300) if row is not None and row[0].strip() == "!" else ""
    if "stale info" in reason:
        return _stale(cwd, remote, branch, expected)
    said = one_line(outcome.tail(6), 600)
    if not reason and _DENIED.search(outcome.errors):
        return PushOutcome("other", f"{remote} refuses access: {said}", "Check your access to the remote.")
    if not reason and _OFFLINE.search(outcome.errors):
        return PushOutcome("offline", f"{remote} cannot be reached: {said}", "Check the network; then ship again.")
    return PushOutcome(
        "other",
        f"{branch} was not pushed to {remote}: {reason or said}",
        "See to what git or the hook says; then ship again." + (f"\n{outcome.tail(12)}" if reason else ""),
    )


def _stale(cwd: Path | str, remote: str, branch: str, expected: str | None) -> PushOutcome:
    try:
        there = remote_head(cwd, remote, branch)
    except Fault as fault:
        return PushOutcome("offline", fault.what, fault.hint)
    if there is None:
        return deleted_remotely(remote, branch, expected)
    return lease_rejected(remote, branch, expected, there)


def deleted_remotely(remote: str, branch: str, expected: str | None) -> PushOutcome:
    """The outcome where the branch was on the remote and is gone: pushing would bring it back unasked."""
    return PushOutcome(
        "deleted_remotely",
        f"{branch} is not on {remote} any more (it was at {(expected or 'an unknown commit')[:12]}): "
        "somebody deleted it, perhaps by merging",
        "Ask whoever deleted it. To bring it back, push it by hand: "
        f"git push -- {remote} HEAD:refs/heads/{branch}; then ship again.",
    )


def lease_rejected(remote: str, branch: str, expected: str | None, there: str) -> PushOutcome:
    """The outcome where the remote has another commit than the lease names."""
    was = f"expected {expected[:12]}" if expected else "expected no such branch"
    return PushOutcome(
        "rejected_lease",
        f"{branch} on {remote} is at {there[:12]}, {was}: somebody else pushed, and nothing was overwritten",
        f"Look at what came (git fetch {remote} && git log {there[:12]}), put your work on top of it "
        f"(git rebase {there[:12]}), then ship again.",
        there,
    )
