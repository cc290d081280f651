"""The managed repository: what it is, its default branch, its remote, and commits that have to be here."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from conductor.git.run import NETWORK, Done, Git, is_sha, safe_name, valid_branch
from schemas.config import Config
from schemas.errors import BadInput, Fault, NotSo, Unavailable
from schemas.text import one_line
from worker.tools.exclude import FOLDER, ensure_excluded_in

BACKUP = "refs/taskmaestro/backup"
RECOVERY = "refs/taskmaestro/recovery"


@dataclass(frozen=True)
class Entry:
    """One line of ``git worktree list``: ``locked`` is the reason (may be ""), None when it is not locked."""

    path: Path
    head: str | None
    branch: str | None
    locked: str | None
    prunable: bool

    @property
    def half_made(self) -> bool:
        """git locks a worktree with this reason until it is made to its end."""
        return self.locked == "initializing"

    @property
    def held(self) -> bool:
        """Somebody locked it; the reason may be empty."""
        return self.locked is not None and not self.half_made


class Repository:
    """Opened once; nothing is cached but the remote's URL, by the configuration's time stamp."""

    def __init__(self, root: Path, config: Config) -> None:
        """Raises ``BadInput`` where ``root`` is no working tree that workers can have worktrees of."""
        self.root = Path(os.path.realpath(root))
        self.config = config
        self.git = Git(self.root)
        self.common_dir = self._open()
        self._url: tuple[int, Path | None] | None = None

    def _open(self) -> Path:
        git = self.git  # a missing git program is told before GitPython's import fails on it
        if not self.root.is_dir():
            raise BadInput(f"{self.root} is not a folder", "Name the folder of a git repository.")
        done = git.run("rev-parse", "--is-bare-repository", "--git-common-dir", "--show-toplevel")
        answers = done.text.splitlines()
        if answers[:1] == ["true"]:
            raise BadInput(
                f"{self.root} is a bare repository",
                "Workers need a working tree: clone it, and start there.",
            )
        if done.code != 0 or len(answers) != 3:
            if "not a git repository" in done.err:
                raise BadInput(f"{self.root} is not a git repository", "Run git init there, or name another folder.")
            raise git.fault(done, "rev-parse")
        top = Path(os.path.realpath(answers[2]))
        if FOLDER in top.parts:
            main = Path(*top.parts[: top.parts.index(FOLDER)])
            raise BadInput(f"{top} is a worker's own worktree", f"Start in the managed repository: cd {main}")
        if top != self.root:
            raise BadInput(f"{self.root} lies inside the repository {top}", f"Start there: cd {top}")
        return Path(os.path.realpath(self.root / answers[1]))

    def ensure_excluded(self) -> bool:
        """Keep the conductor's files out of every commit; answers whether the exclude file changed."""
        return bool(ensure_excluded_in(self.common_dir))

    # --- worktrees ---

    def entries(self) -> list[Entry]:
        """All registered worktrees, the main one first."""
        done = self.git.run("worktree", "list", "--porcelain", "-z")
        end = "\0"
        if done.code == 129:  # git before 2.36 has no -z
            done, end = self.git.must("worktree", "list", "--porcelain"), "\n"
        elif done.code != 0:
            done = self.git.must("worktree", "list", "--porcelain", "-z")
        return [_entry(block.split(end)) for block in done.text.split(end * 2) if block.strip(end)]

    # --- default branch ---

    def default_branch(self) -> str:
        """From the configuration, else the remote's HEAD, else init.defaultBranch, else the only branch.

        Raises ``NotSo`` where none of them names a branch that is here.
        """
        if self.config.default_branch:
            self.base_of(self.config.default_branch)
            return self.config.default_branch
        for name in self._candidates():
            if self.tip(name):
                return name
        branches = self.branches()
        if len(branches) == 1:
            return branches[0]
        if not branches:
            raise NotSo(f"{self.root} has no commits yet", "Make a first commit, then start again.")
        raise NotSo(
            f"{self.root} has several branches and none of them is known to be the default: "
            + one_line(", ".join(branches), 300),
            'Name it: default_branch = "..." in .taskmaestro/config.toml.',
        )

    def _candidates(self) -> Iterable[str]:
        remote = self.config.remote
        if self.has_remote():
            head = self.git.run("symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD")
            yield head.text.strip().removeprefix(f"refs/remotes/{remote}/")
            answer = self.git.run("ls-remote", "--symref", "--", remote, "HEAD", timeout=NETWORK)
            for line in answer.text.splitlines():
                if line.startswith("ref: refs/heads/") and line.endswith("\tHEAD"):
                    yield line.removeprefix("ref: refs/heads/").removesuffix("\tHEAD")
        yield self.git.run("config", "--get", "init.defaultBranch").text.strip()

    def branches(self) -> list[str]:
        """The names of all branches that are here, local ones and the remote's."""
        prefixes = ("refs/heads/", f"refs/remotes/{self.config.remote}/")
        refs = self.git.ask("for-each-ref", "--format=%(refname)", *prefixes).splitlines()
        names = {ref.removeprefix(prefix) for ref in refs for prefix in prefixes if ref.startswith(prefix)}
        return sorted(names - {"HEAD"})

    def tip(self, branch: str) -> str | None:
        """The SHA of a branch: as the remote had it when it was fetched last, else the local one."""
        if not valid_branch(branch):
            return None
        remote = self.git.commit(f"refs/remotes/{self.config.remote}/{branch}")
        return remote or self.git.commit(f"refs/heads/{branch}")

    def base_of(self, branch: str) -> str:
        """The SHA that new work starts from. Raises ``NotSo`` where the branch is not here."""
        sha = self.tip(branch)
        if sha is None:
            if not self.branches():
                raise NotSo(f"{self.root} has no commits yet", "Make a first commit, then start again.")
            raise NotSo(
                f"branch {one_line(branch)} is neither in {self.root} nor on {self.config.remote}",
                "Correct default_branch in .taskmaestro/config.toml, or fetch the branch.",
            )
        return sha

    # --- remote ---

    def has_remote(self) -> bool:
        """Whether the configured remote exists."""
        if self.config.remote.startswith("-"):
            raise BadInput(f"remote {self.config.remote} is not a remote's name", "Correct remote in config.toml.")
        done = self.git.run("config", "--get-all", f"remote.{self.config.remote}.url")
        if done.code not in (0, 1):
            raise self.git.fault(done, "config")
        return done.code == 0

    def fetch(self) -> str | None:
        """Fetch all branches of the remote; the reason where that failed, else None."""
        if not self.has_remote():
            return None
        remote = self.config.remote
        try:
            self.git.must(
                "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--",
                remote, f"+refs/heads/*:refs/remotes/{remote}/*", timeout=NETWORK,
            )  # fmt: skip
        except Fault as fault:
            return fault.what
        return None

    def remote_heads(self) -> dict[str, str]:
        """Branch -> SHA of all branches on the remote. Raises ``Unavailable`` where it does not answer."""
        return _heads(self._ls_remote("refs/heads/*"))

    def remote_head(self, branch: str) -> str | None:
        """The SHA of exactly this branch on the remote now; None where branch or remote is not there."""
        if not valid_branch(branch):
            raise BadInput(f"{one_line(branch)} is not a branch's name", "Correct the name.")
        sha = self._read_ref(branch)
        if sha is not None:
            return sha
        if not self.has_remote():
            return None
        return _heads(self._ls_remote(f"refs/heads/{branch}")).get(branch)

    def _ls_remote(self, pattern: str) -> Done:
        done = self.git.run("ls-remote", "--", self.config.remote, pattern, timeout=NETWORK)
        if done.code != 0:
            raise Unavailable(
                f"remote {self.config.remote} of {self.root} does not answer: {done.reason}",
                f"Check it: git -C {self.root} ls-remote {self.config.remote}",
            )
        return done

    def _read_ref(self, branch: str) -> str | None:
        """The branch's own file in a remote that is a folder here; None where only git can tell."""
        folder = self._remote_folder()
        if folder is None:
            return None
        try:
            text = (folder / "refs" / "heads" / branch).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None  # packed, another ref storage, or not there: git answers
        return text if is_sha(text) else None

    def _remote_folder(self) -> Path | None:
        stamp = _stamp(self.common_dir / "config")
        if self._url is None or self._url[0] != stamp:
            url = self.git.run("ls-remote", "--get-url", "--", self.config.remote).text.removesuffix("\n")
            self._url = (stamp, _folder_of(url, self.root) if url != self.config.remote else None)
        return self._url[1]

    # --- commits ---

    def obtain(self, name: str) -> str:
        """The full SHA of a commit or branch, fetched from the remote where it is not here.

        Raises ``NotSo`` where it is nowhere, ``Unavailable`` where the remote could not be asked.
        """
        hexadecimal = 7 <= len(name) <= 64 and not name.strip("0123456789abcdef")
        found = (self.git.commit(name) if hexadecimal else None) or self.tip(name)
        if found:
            return found
        if not hexadecimal and not valid_branch(name):
            raise BadInput(f"{one_line(name)} is neither a commit nor a branch", "Correct the name.")
        tried = "no remote is configured"
        if self.has_remote():
            wanted = name if hexadecimal else f"refs/heads/{name}:refs/remotes/{self.config.remote}/{name}"
            done = self.git.run(
                "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--",
                self.config.remote, wanted, timeout=NETWORK,
            )  # fmt: skip
            tried = f"fetching it from {self.config.remote} failed: {done.reason}" if done.code else "fetched"
            # A server may refuse a bare SHA and still have it on a branch.
            failed = self.fetch() if done.code else None
            found = (self.git.commit(name) if hexadecimal else None) or self.tip(name)
            if found:
                return found
            if failed:
                raise Unavailable(f"commit {one_line(name)} is not in {self.root}, and {failed}", "Try again later.")
        raise NotSo(
            f"commit {one_line(name)} is not in {self.root}: {tried}",
            "It may be gone from the remote, or the server refuses to give single commits: "
            "push it to a branch, or fetch it by hand.",
        )

    def keep(self, sha: str, name: str) -> str:
        """Keep a commit under ``refs/taskmaestro/backup/<name>``; an older backup of that name stays."""
        full = self.obtain(sha)
        ref = f"{BACKUP}/{safe_name(name)}"
        for candidate in (ref, f"{ref}-{full[:12]}", f"{ref}-{full}"):
            there = self.git.commit(candidate)
            if there == full:
                return candidate
            if there is None:
                self.git.must("update-ref", "--create-reflog", candidate, full, "0" * len(full))
                return candidate
        raise NotSo(f"{ref}-{full} is taken by another commit", "Give the backup another name.")


def _entry(lines: list[str]) -> Entry:
    named = dict(line.partition(" ")[::2] for line in lines if line)
    head = named.get("HEAD", "")
    branch = named.get("branch")
    return Entry(
        path=Path(named.get("worktree", "")),
        head=head if is_sha(head) and head.strip("0") else None,
        branch=branch.removeprefix("refs/heads/") if branch else None,
        locked=named.get("locked"),
        prunable="prunable" in named,
    )


def _heads(done: Done) -> dict[str, str]:
    rows = (line.partition("\t")[::2] for line in done.text.splitlines())
    # ls-remote matches from the right: refs/x/refs/heads/y answers to refs/heads/y too.
    return {ref.removeprefix("refs/heads/"): sha for sha, ref in rows if ref.startswith("refs/heads/")}


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _folder_of(url: str, root: Path) -> Path | None:
    """The git folder behind a URL that is a path on this machine."""
    if url.startswith("file://"):
        url = urllib.parse.unquote(url.removeprefix("file://"))
    elif "::" in url or (":" in url and not url.startswith(("/", "."))):
        return None
    path = root / url
    return next((folder for folder in (path / ".git", path) if (folder / "refs").is_dir()), None)
