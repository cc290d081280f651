"""Makes the bare repository of the local forge and names it as a remote of the managed one.

Which remote: where the managed repository has none of the configured name (``origin``), ours takes that name,
so that everything which expects ``origin`` works. Where it has one, that belongs to the user and is never
touched; ours is then called ``taskmaestro``. A push by habit to ``origin`` so goes where it always went, and
nothing of the user's is redirected to a folder on this machine.

How pushes become known: a post-receive hook, in POSIX sh, brings ``refs/pull/N/head`` of the open pull
requests of the pushed branches up to date and renames a file into the events folder, all before ``git push``
returns. It reads branch -> N from a small text file, so that a push needs neither SQLite nor Python. The hook
only saves time: every reader compares the branch's ref with what was seen last, so a lost hook loses nothing.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conductor.forge.local.layout import Layout, replace_text
from conductor.forge.local.plumbing import git
from conductor.forge.local.refs import check_branch
from schemas.errors import BadInput, Unavailable

OWN_REMOTE = "taskmaestro"

HOOK = """\
#!/bin/sh
# Written by taskmaestro; changes are overwritten. Runs in the bare repository after each push.
while read -r old new ref; do
    case $ref in
    refs/heads/*) branch=${ref#refs/heads/} ;;
    *) continue ;;
    esac
    # A deleted branch leaves its pull request's head where it was.
    case $new in
    *[!0]*) ;;
    *) continue ;;
    esac
    [ -f taskmaestro-pulls ] || continue
    while read -r number name; do
        [ "$name" = "$branch" ] && git update-ref "refs/pull/$number/head" "$new"
    done <taskmaestro-pulls
done
events=../events
if [ -d "$events" ]; then
    : >"$events/.push.$$" && mv -f "$events/.push.$$" "$events/push"
fi
exit 0
"""

# receive.* and gc.* are set here so that a user's own settings do not govern the forge; the relative hooks
# path is resolved by git in the bare repository. Nothing is pruned: a review may name a head that was pushed
# away since.
_SETTINGS = {
    "core.hooksPath": "hooks",
    "core.logAllRefUpdates": "always",
    "gc.pruneExpire": "never",
    "receive.denyDeletes": "false",
    "receive.denyNonFastForwards": "false",
    "receive.hideRefs": "refs/pull",
}


def ensure(root: Path, layout: Layout, *, remote: str, default_branch: str | None) -> str:
    """Make what is missing, once even where several start at the same time; answers the remote's name."""
    name = _existing_remote(root, layout, remote)
    if name is not None and (layout.repo / "HEAD").is_file() and layout.events.is_dir() and _hook_current(layout):
        return name
    if name is not None and not (layout.repo / "HEAD").is_file():
        raise Unavailable(
            f"the local forge's repository is lost: {layout.repo} is missing, and the remote {name} names it",
            f"Restore a copy of {layout.folder}. To start anew: git remote remove {name}, then taskmaestro init",
        )
    try:
        for folder in (layout.folder, layout.events, layout.logs):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"the local forge cannot make its folder {error.filename}: {error.strerror}",
            "Make the place writable, or set another one as `path` in [forge.local].",
        ) from error
    with _alone(layout.folder / "create.lock"):
        if not (layout.repo / "HEAD").is_file():
            _make_bare(root, layout, remote, default_branch)
        _write_hook(layout)
        return _name_remote(root, layout, remote)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make_bare(root: Path, layout: Layout, remote: str, default_branch: str | None) -> None:
    branch = default_branch or find_default_branch(root, remote)
    source = _source_of(root, check_branch(branch), remote)
    new = layout.folder / "repo.git.new"
    if new.exists():
        shutil.rmtree(new)
    git(
        layout.folder,
        "init",
        "--quiet",
        "--bare",
        "--template=",
        f"--initial-branch={branch}",
        "--",
        str(new),
    )
    for name, value in _SETTINGS.items():
        git(new, "config", name, value)
    git(
        new,
        "fetch",
        "--quiet",
        "--no-tags",
        "--update-shallow",
        "--no-write-fetch-head",
        "--",
        str(root),
        f"{source}:refs/heads/{branch}",
        timeout=1800.0,
    )
    new.rename(layout.repo)


def find_default_branch(root: Path, remote: str) -> str:
    """The default branch of a repository: what its remote calls so, else main or master, else the current
    one.
    """
    told = git(root, "symbolic-ref", "--quiet", f"refs/remotes/{remote}/HEAD", ok=(0, 1, 128)).out.strip()
    if told:
        return told.removeprefix(f"refs/remotes/{remote}/")
    for name in ("main", "master"):
        if _source_of(root, name, remote, needed=False):
            return name
    current = git(root, "symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1, 128)).out.strip()
    if not current:
        raise BadInput(
            f"{root} has no branch main or master and its HEAD is detached, so no default branch is known",
            "Set default_branch in .taskmaestro/config.toml.",
        )
    return current


def _source_of(root: Path, branch: str, remote: str, *, needed: bool = True) -> str:
    for ref in (f"refs/heads/{branch}", f"refs/remotes/{remote}/{branch}"):
        if git(root, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", ok=(0, 1, 128)).code == 0:
            return ref
    if needed:
        raise BadInput(
            f"the default branch {branch!r} has no commit in {root}",
            "Make a first commit on it, or set default_branch in .taskmaestro/config.toml.",
        )
    return ""


def _hook_current(layout: Layout) -> bool:
    path = layout.repo / "hooks" / "post-receive"
    try:
        return path.read_text(encoding="utf-8") == HOOK and bool(path.stat().st_mode & 0o100)
    except (OSError, UnicodeDecodeError):
        return False


def _write_hook(layout: Layout) -> None:
    if not _hook_current(layout):
        hook = layout.repo / "hooks" / "post-receive"
        hook.parent.mkdir(exist_ok=True)
        replace_text(hook, HOOK, mode=0o755)


def _remotes(root: Path) -> dict[str, str]:
    """Remote name -> its URL as configured (``insteadOf`` is not applied)."""
    listed = git(root, "config", "--null", "--get-regexp", r"^remote\..*\.url$", ok=(0, 1)).out
    found: dict[str, str] = {}
    for entry in listed.split("\0"):
        key, _, url = entry.partition("\n")
        found.setdefault(key.removeprefix("remote.").removesuffix(".url"), url)
    found.pop("", None)
    return found


def _existing_remote(root: Path, layout: Layout, remote: str) -> str | None:
    found = _remotes(root)
    return next((name for name in (remote, OWN_REMOTE) if found.get(name) == str(layout.repo)), None)


def _name_remote(root: Path, layout: Layout, remote: str) -> str:
    existing = _existing_remote(root, layout, remote)
    if existing is not None:
        return existing
    found = _remotes(root)
    ending = "/".join(layout.repo.parts[-3:])
    for name in (remote, OWN_REMOTE):
        url = found.get(name)
        if url is None:
            git(root, "remote", "add", "--", name, str(layout.repo))
            return name
        # The managed repository was moved or copied: its remote still names our folder at the old place.
        if url.endswith(f"/{ending}") and not Path(url).exists():
            git(root, "remote", "set-url", "--", name, str(layout.repo))
            return name
    raise BadInput(
        f"{root} has a remote {OWN_REMOTE!r} that is not the local forge: {found[OWN_REMOTE]}",
        f"Rename it (`git remote rename {OWN_REMOTE} other`), or point it at {layout.repo}.",
    )
