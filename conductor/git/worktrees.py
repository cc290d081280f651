"""The workers' worktrees: ``.taskmaestro/wt-N``, their history, a clean-up that loses nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from conductor.git import checkouts, dropped, places, recovery
from conductor.git import history as moved
from conductor.git.dirt import Dirt, look, shown
from conductor.git.patches import not_merged
from conductor.git.repository import Entry, Repository
from conductor.git.run import safe_name, valid_branch
from conductor.ports import AtRisk, Worktree
from schemas.config import Config
from schemas.errors import BadInput, NotSo, Unavailable
from schemas.events import History
from schemas.text import one_line
from worker.tools.exclude import FOLDER
from worker.tools.git import git
from worker.tools.needed import copy_needed

_FULL = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_OURS = re.compile(r"wt-([1-9][0-9]{0,3})")
LOCK_WAIT = 60.0
"""Seconds for another process that works on the same worktree."""


class GitWorktrees:
    """The port ``Worktrees`` on a real repository. Every call looks anew."""

    def __init__(self, root: Path, config: Config) -> None:
        """Raises ``BadInput`` where ``root`` is no working tree's top, ``Unavailable`` without git."""
        self.repository = Repository(root, config)
        self.root = self.repository.root

    def default_branch(self) -> str:
        """See ``Repository.default_branch``."""
        return self.repository.default_branch()

    def fetch(self) -> str | None:
        """Fetch the remote; why not, where that failed. No remote is no failure."""
        return self.repository.fetch()

    def ensure_excluded(self) -> bool:
        """Keep RESULT.json, TASK.md and .taskmaestro/ out of commits; answers whether that was new."""
        return self.repository.ensure_excluded()

    # --- finding and making ---

    def path_of(self, index: int) -> Path:
        """Where worktree ``index`` (from 1) lies."""
        if not 1 <= index <= 9999:
            raise BadInput(f"there is no worktree {index}", "Worktrees are counted from 1.")
        return self.root / FOLDER / f"wt-{index}"

    def add(self, index: int, branch: str) -> Worktree:
        """Make worktree ``index``, or answer the one that is there.

        A branch that exists here or on the remote is taken up again; an old one whose work is all in
        the default branch starts from its newest commit. Works offline, from what was fetched last.
        """
        path = self.path_of(index)
        if not valid_branch(branch):
            raise BadInput(f"{one_line(repr(branch))} is not a branch's name", "Correct the name.")
        with self._alone(index):
            self.ensure_excluded()
            found = self.find(index)
            if found:
                return found
            places.make_room(self.repository, index, path)
            found = self.find(index)
            if found:
                return found
            self.fetch()
            self._not_elsewhere(branch, path)
            places.check_out(self.repository, path, *self._start(branch, path))
            copy_needed(self.root, path, self.repository.config.needed)
            made = self.find(index)
        if made is None:
            raise NotSo(f"{shown(str(path))} was made and is not there", f"See git -C {self.root} worktree list.")
        return made

    def turn_to(self, index: int, branch: str) -> Worktree:
        """See ``Worktrees.turn_to``. Safe to repeat: a crash leaves the old branch checked out, or the new one."""
        path = self.path_of(index)
        if not valid_branch(branch):
            raise BadInput(f"{one_line(repr(branch))} is not a branch's name", "Correct the name.")
        with self._alone(index):
            risk = self.at_risk(index)
            there = [*risk.uncommitted, *risk.untracked]
            if there:
                listed = "\n".join(f"  {name}" for name in there[:20])
                raise NotSo(
                    f"pane {index} cannot start a new branch, this would be carried along:\n{listed}",
                    f"Commit it or take it away (in {path}), then give the task again.",
                )
            self.fetch()
            base = self.repository.base_of(self.default_branch())
            git(["switch", "--quiet", "--no-track", "-c", self._free_name(branch), base], path)
            found = self.find(index)
        if found is None:
            raise NotSo(f"{shown(str(path))} is not there any more", "Bring it back with `taskmaestro up`.")
        return found

    def _free_name(self, branch: str) -> str:
        remote = self.repository.config.remote
        for number in range(1, 1000):
            name = branch if number == 1 else f"{branch}-{number}"
            taken = (f"refs/heads/{name}", f"refs/remotes/{remote}/{name}")
            if not any(self.repository.git.commit(ref) for ref in taken):
                return name
        raise NotSo(f"a thousand branches are called {one_line(branch)}", "Delete those that are merged.")

    def _start(self, branch: str, path: Path) -> tuple[str, ...]:
        """Arguments for ``git worktree add``. No tracking: it would write to the shared configuration."""
        local = self.repository.git.commit(f"refs/heads/{branch}")
        remote = self.repository.git.commit(f"refs/remotes/{self.repository.config.remote}/{branch}")
        if local is None:
            self._no_ref_in_the_way(branch)
            start = remote or self.repository.base_of(self.default_branch())
            return "--no-track", "-b", branch, "--", str(path), start
        base = self.repository.base_of(self.default_branch())
        ancestor = self.repository.git.run("merge-base", "--is-ancestor", local, base).code == 0
        if remote is None and ancestor and local != base:
            self.repository.git.must("update-ref", f"refs/heads/{branch}", base, local)
        return "--", str(path), branch

    def _no_ref_in_the_way(self, branch: str) -> None:
        """A branch ``a`` and a branch ``a/b`` cannot both be."""
        parts = branch.split("/")
        above = [f"refs/heads/{'/'.join(parts[:end])}" for end in range(1, len(parts))]
        below = self.repository.git.ask("for-each-ref", "--count=1", "--format=%(refname)", f"refs/heads/{branch}/")
        taken = next((ref for ref in above if self.repository.git.commit(ref)), below)
        if taken:
            other = one_line(taken.removeprefix("refs/heads/"))
            raise NotSo(
                f"branch {one_line(branch)} cannot be made beside {other}",
                "Choose another name, or rename that branch.",
            )

    def _not_elsewhere(self, branch: str, path: Path) -> None:
        for entry in self.repository.entries():
            if entry.branch == branch and os.path.realpath(entry.path) != os.path.realpath(path):
                raise NotSo(
                    f"branch {one_line(branch)} is checked out in {shown(str(entry.path))}",
                    "Choose another branch, or switch that working tree to another one.",
                )

    def find(self, index: int) -> Worktree | None:
        """The worktree; None where there is none, or only what a crash left of one."""
        return self._whole(index) or self._listed(index)

    def _whole(self, index: int) -> Worktree | None:
        """A worktree in good order, by one question that costs the same however many worktrees there are."""
        path = self.path_of(index)
        if not (path / ".git").is_file():
            return None
        done = self.repository.git.run(
            "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir", "--git-path", "locked",
            "HEAD", "--symbolic-full-name", "HEAD", folder=path,
        )  # fmt: skip
        said = done.text.split("\n")
        if done.code != 0 or len(said) != 6:
            return None
        top, common, locked, sha, name, _ = said
        if os.path.lexists(locked):  # somebody's lock, or git's own until it is made to its end: looked at closely
            return None
        if os.path.realpath(top) != str(path) or os.path.realpath(common) != str(self.repository.common_dir):
            return None
        return Worktree(index, path, name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else None, sha)

    def _listed(self, index: int) -> Worktree | None:
        entry = places.entry_at(self.repository, self.path_of(index))
        return _worktree(index, entry) if entry and places.usable(self.repository, entry) else None

    def all(self) -> list[Worktree]:
        """The workers' worktrees, by index."""
        usable = ((index, entry) for index, entry in self._recorded() if places.usable(self.repository, entry))
        return sorted((_worktree(index, entry) for index, entry in usable), key=lambda worktree: worktree.index)

    def notes(self, index: int) -> tuple[str, ...]:
        """What a worker should know of a new worktree: submodules without content, LFS files as pointers."""
        path = self.path_of(index)
        rows = self.repository.git.must("ls-files", "--stage", "-z", folder=path).fields
        links = [row.partition("\t")[2] for row in rows if row.startswith("160000 ")]
        empty = [link for link in links if not (path / link / ".git").exists()]
        told = [f"submodule {shown(link)} is empty: git submodule update --init" for link in empty]
        lfs = self.repository.git.run("grep", "--quiet", "filter=lfs", "--", "*.gitattributes", folder=path)
        if lfs.code == 0 and self.repository.git.run("config", "--get", "filter.lfs.smudge").code != 0:
            told.append("files of git-lfs are only pointers: install git-lfs, then git lfs install and git lfs pull")
        return tuple(told)

    @contextmanager
    def _alone(self, index: int) -> Iterator[None]:
        """One process at a time for each worktree; different ones do not wait for each other."""
        import filelock

        folder = places.state_folder(self.repository)
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / f"wt-{index}.lock", timeout=LOCK_WAIT)
        try:
            lock.acquire()
        except filelock.Timeout as error:
            raise places.busy(index) from error
        try:
            yield
        finally:
            lock.release()

    # --- remote and history ---

    def remote_head(self, branch: str) -> str | None:
        """See ``Repository.remote_head``."""
        return self.repository.remote_head(branch)

    def commits_ahead(self, head: str, base: str) -> int:
        """How many commits of ``head`` are not in ``base``; both SHAs or branches, fetched where needed."""
        if _FULL.fullmatch(head) and _FULL.fullmatch(base):
            here = self.repository.git.run("rev-list", "--count", f"{base}..{head}", "--")
            if here.code == 0:
                return int(here.text)
        new, old = self.repository.obtain(head), self.repository.obtain(base)
        return int(self.repository.git.ask("rev-list", "--count", f"{old}..{new}", "--"))

    def files_committed(self, head: str, base: str) -> tuple[str, ...]:
        """Paths that commits of ``head`` outside ``base`` write, sorted; also such as a later one deletes."""
        new, old = self.repository.obtain(head), self.repository.obtain(base)
        done = self.repository.git.must(
            "log",
            "-z",
            "--format=",
            "--name-only",
            "--no-renames",
            "--diff-filter=d",
            f"{old}..{new}",
            "--",
            timeout=300,
        )
        return tuple(sorted({path.lstrip("\n") for path in done.fields}))

    def history(self, old: str, new: str, base: str, *, mine: Sequence[str]) -> History:
        """How the branch moved from ``old`` to ``new``; see ``conductor.git.history``."""
        if old == new and _FULL.fullmatch(old):
            count = self.commits_ahead(new, base)
            return History(shape="same", old=old, new=new, commits_before=count, commits_after=count)
        heads = [self.repository.obtain(name) for name in (old, new, base)]
        return moved.history(self.repository.git, heads[0], heads[1], heads[2], mine=mine)

    def keep(self, sha: str, name: str) -> str:
        """See ``Repository.keep``."""
        return self.repository.keep(sha, name)

    # --- scratch ---

    def scratch(self, sha: str, name: str) -> Path:
        """A detached checkout under ``state/scratch``, made anew, without hooks and content filters."""
        path = checkouts.folder(self.repository) / safe_name(name)
        checkouts.make(self.repository, self.repository.obtain(sha), path)
        copy_needed(self.root, path, self.repository.config.needed)
        return path

    def drop_scratch(self, path: Path) -> None:
        """Remove a checkout that ``scratch`` made; one that is gone already is fine."""
        checkouts.drop(self.repository, path)

    # --- clean-up ---

    def at_risk(self, index: int) -> AtRisk:
        """Everything that removing the worktree would lose. Raises where that cannot be told."""
        entry = self._entry(index)
        if entry is None:
            return AtRisk()
        dirt = self._look(entry)
        return self._risk(entry, dirt)

    def remove(self, index: int, *, force: bool) -> str | None:
        """Remove worktree and branch; with ``force`` after keeping everything, answering the recovery ref.

        Commits that no ref holds (amended, reset, detached) never refuse: they get recovery refs of their own.
        Raises ``NotSo`` where work would be lost, listing it. May be repeated after a crash at any point.
        """
        path = self.path_of(index)
        with self._alone(index):
            note = self._plan_note(index)
            plan = _read_plan(note)
            entry = self._entry(index, leftover=plan.get("folder") if plan else None)
            if entry is not None:
                plan = self._prepare(index, entry, force)
                # What is left to do is written down before the first thing is removed.
                _write_plan(note, plan)
            if plan is None:
                return None
            places.take_away(self.repository, path)
            _write_plan(note, {**plan, "folder": None})
            self._drop_branch(plan.get("branch"), plan.get("tip"))
            note.unlink(missing_ok=True)
            return plan.get("ref")

    def check_removal(self, index: int, *, force: bool) -> None:
        """Raises what ``remove`` would refuse with beside the work at risk, and changes nothing."""
        entry = self._entry(index, leftover=(_read_plan(self._plan_note(index)) or {}).get("folder"))
        if entry is not None and entry.held:
            raise places.locked(entry)
        if entry is not None and force and (dirt := self._look(entry)):
            recovery.refuse_what_cannot_be_kept(dirt)

    def recorded(self) -> list[int]:
        """The workers' worktrees that git has a record of, also such as were deleted by hand, by index."""
        return sorted(index for index, _ in self._recorded())

    def _recorded(self) -> Iterator[tuple[int, Entry]]:
        for entry in self.repository.entries():
            match = _OURS.fullmatch(entry.path.name)
            if match and os.path.realpath(entry.path) == str(self.path_of(int(match[1]))):
                yield int(match[1]), entry

    def _plan_note(self, index: int) -> Path:
        return places.state_folder(self.repository) / f"removing-wt-{index}.json"

    def _prepare(self, index: int, entry: Entry, force: bool) -> dict[str, str | None]:
        if entry.held:
            raise places.locked(entry)
        dirt = self._look(entry)
        risk = self._risk(entry, dirt)
        if risk.any and not force:
            raise _refusal(index, risk)
        branch = dirt.branch if dirt else entry.branch
        tip = self.repository.git.commit(f"refs/heads/{branch}") if branch else None
        ref = None
        if risk.any and dirt:
            ref = recovery.keep_all(self.repository, index, dirt, places.scratch_folder(self.repository))
        elif risk.any and (tip or entry.head):
            ref = self.repository.keep(str(tip or entry.head), f"wt-{index}-{str(tip or entry.head)[:12]}")
        dropped.keep_dropped(self.repository, index, entry.path)
        return {"branch": branch, "tip": tip, "ref": ref, "folder": _identity(entry.path)}

    def recovery_refs(self, index: int) -> tuple[str, ...]:
        """The recovery refs of worktree ``index``, of now and of earlier; see ``recovery`` and ``dropped``."""
        return dropped.recovery_refs(self.repository, index)

    def _drop_branch(self, branch: str | None, tip: str | None) -> None:
        """Delete the branch where it still is what was looked at; default branch and branches in use stay."""
        git = self.repository.git
        if branch is None or tip is None or git.commit(f"refs/heads/{branch}") != tip:
            return
        if branch == self.default_branch() or any(e.branch == branch for e in self.repository.entries()):
            return
        git.must("update-ref", "-d", f"refs/heads/{branch}", tip)
        section = f"branch.{branch}"
        if git.run("config", "--local", "--get-regexp", f"^{re.escape(section)}\\.").code == 0:
            git.must("config", "--local", "--remove-section", section)

    def _entry(self, index: int, *, leftover: str | None = None) -> Entry | None:
        """``leftover`` names the folder whose removal was begun: what is left of it holds nothing to lose."""
        path = self.path_of(index)
        entry = places.entry_at(self.repository, path)
        if entry is None and os.path.lexists(path) and leftover != _identity(path):
            raise NotSo(
                f"{shown(str(path))} is there, but it is no worktree of {self.root}",
                "It may hold somebody's work: look at it, then move it elsewhere or delete it.",
            )
        return entry

    def _look(self, entry: Entry) -> Dirt | None:
        """None where the folder is gone, so that only commits are left to lose."""
        if not os.path.lexists(entry.path):
            return None
        config = self.repository.config
        return look(self.repository.git, entry.path, config.precious, places.scratch_folder(self.repository))

    def _risk(self, entry: Entry, dirt: Dirt | None) -> AtRisk:
        branch = dirt.branch if dirt else entry.branch
        tips = [entry.head, self.repository.git.commit(f"refs/heads/{branch}") if branch else None]
        unpushed = self._unpushed(branch, [tip for tip in dict.fromkeys(tips) if tip])
        if dirt is None:
            return AtRisk(unpushed=unpushed)
        changed = [f"{letters} {shown(path)}" for letters, path in dirt.changed]
        stashed = [line for _, line in dirt.stashes]
        return AtRisk(
            uncommitted=(*changed, *dirt.states, *stashed),
            untracked=(*map(shown, dirt.untracked), *dirt.kept_out),
            precious=tuple(map(shown, dirt.precious)),
            unpushed=unpushed,
        )

    def _unpushed(self, branch: str | None, tips: list[str]) -> tuple[str, ...]:
        git = self.repository.git
        self.fetch()
        default = self.default_branch()
        base = self.repository.base_of(default)
        safe = self._on_remotes()
        local = git.commit(f"refs/heads/{default}")
        safe += [local] if local else []  # the default branch is never deleted
        lost = list(dict.fromkeys(sha for tip in tips for sha in not_merged(git, tip, base, safe)))
        name = f"{one_line(branch)}: " if branch else ""
        show = ("show", "--no-patch", "--no-show-signature", "--encoding=UTF-8", "--format=%s")
        return tuple(f"{name}{sha[:12]} {one_line(git.ask(*show, sha, '--'), 120)}" for sha in lost)

    def _on_remotes(self) -> list[str]:
        """Commits that are on a remote: as it says now, or as it was seen last where it does not answer."""
        git, ours = self.repository.git, f"refs/remotes/{self.repository.config.remote}/"
        refs = git.ask("for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes/").splitlines()
        seen = [row.split(" ", 1) for row in refs]
        if not self.repository.has_remote():
            return [sha for sha, _ in seen]
        try:
            now = set(self.repository.remote_heads().values())
        except Unavailable:
            return [sha for sha, _ in seen]
        here = [sha for sha in now if git.commit(sha)]
        return here + [sha for sha, ref in seen if not ref.startswith(ours)]


def _worktree(index: int, entry: Entry) -> Worktree:
    return Worktree(index, Path(os.path.realpath(entry.path)), entry.branch, entry.head or "0" * 40)


def _refusal(index: int, risk: AtRisk) -> NotSo:
    parts = {
        "uncommitted": risk.uncommitted,
        "untracked": risk.untracked,
        "ignored but precious": risk.precious,
        "not pushed": risk.unpushed,
    }
    lines = [f"  {kind}: {line}" for kind, told in parts.items() for line in told]
    return NotSo(
        f"worktree wt-{index} holds work that would be lost:\n" + "\n".join(lines),
        "Commit and push it; or force the clean-up, which first keeps all of it under a recovery ref.",
    )


def _read_plan(note: Path) -> dict[str, str | None] | None:
    try:
        plan = json.loads(note.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return None  # the crash came while it was written, so before anything was removed
    return {key: plan.get(key) for key in ("branch", "tip", "ref", "folder")} if isinstance(plan, dict) else None


def _identity(path: Path) -> str | None:
    """Names this very folder, and no other that takes its place later."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        return None
    return f"{info.st_dev}:{info.st_ino}"


def _write_plan(note: Path, plan: dict[str, str | None]) -> None:
    text = json.dumps(plan)
    draft = note.with_suffix(".tmp")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(note)
