"""Commits compared by what they change: the same patch under another SHA, and work that a squash has merged.

A patch is known by its diff without line numbers and object names (as git patch-id does it), but with white
space and with the content of binary files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from conductor.git.run import Git

DIFF = (
    "-p",
    "--root",
    "--no-renames",
    "--full-index",
    "--binary",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
)
COMPARED = 1000
"""At most so many commits of the base are compared, the newest ones."""
PREFIXES = 50
"""At most so many commits of a branch are tried as the end of what was squashed."""
_HUNK = re.compile(rb"^@@ -[0-9,]+ \+[0-9,]+ @@.*$", re.MULTILINE)
_INDEX = re.compile(rb"^index [0-9a-f]+\.\.[0-9a-f]+", re.MULTILINE)
_COMMIT = re.compile(rb"^(?:[0-9a-f]{40}|[0-9a-f]{64})\n", re.MULTILINE)


def patch_key(diff: bytes) -> str | None:
    """The identity of a diff; None for an empty one, which is the same as no other."""
    if not diff.strip():
        return None
    return hashlib.sha256(_INDEX.sub(b"index", _HUNK.sub(b"@@", diff))).hexdigest()


def keys_of(git: Git, commits: Sequence[str]) -> dict[str, str]:
    """Commit -> identity of its patch. Merges and commits without a change have none."""
    if not commits:
        return {}
    done = git.must("diff-tree", "--stdin", *DIFF, data=("\n".join(commits) + "\n").encode(), timeout=300)
    # Each patch follows a line with its commit's name; a line of a patch never starts with a bare SHA.
    parts = _COMMIT.split(done.out)[1:]
    names = [match.group().decode().strip() for match in _COMMIT.finditer(done.out)]
    found = {name: patch_key(part) for name, part in zip(names, parts, strict=True)}
    return {name: key for name, key in found.items() if key}


def rev_list(git: Git, *arguments: str) -> list[str]:
    """The commits that ``git rev-list`` answers, newest first."""
    return git.ask("rev-list", *arguments, "--").split()


def merge_base(git: Git, one: str, other: str) -> str | None:
    """Where two commits part, None where they share no history."""
    done = git.run("merge-base", one, other)
    if done.code not in (0, 1):
        raise git.fault(done, "merge-base")
    return done.text.split()[0] if done.code == 0 else None


def not_merged(git: Git, tip: str, base: str, pushed: Sequence[str] = ()) -> list[str]:
    """The commits of ``tip`` whose work is neither in ``base`` nor in ``pushed`` commits, newest first.

    Work counts as merged by commit, by the same patch under another SHA (rebased, cherry-picked), and by a
    squash: the change of the whole branch, or of its older part, as one commit of the base; or where merging
    the branch into the base would change nothing.
    """
    wanted = "\n".join([tip, *(f"^{sha}" for sha in (base, *pushed))]) + "\n"
    listed = git.must("rev-list", "--topo-order", "--stdin", data=wanted.encode()).text.split()
    if not listed:
        return []
    fork = merge_base(git, tip, base)
    if fork is None:
        return listed
    landed = rev_list(git, f"--max-count={COMPARED}", "--no-merges", f"{fork}..{base}")
    known = set(keys_of(git, landed).values())
    own = keys_of(git, listed)
    missing = [sha for sha in listed if own.get(sha) not in known]
    if not missing or not landed:
        return missing
    if _merging_changes_nothing(git, tip, base, fork):
        return []
    squashed = next((sha for sha in listed[:PREFIXES] if _diff_key(git, fork, sha) in known), None)
    if squashed is None:
        return missing
    merged = set(rev_list(git, f"{fork}..{squashed}"))
    return [sha for sha in missing if sha not in merged]


def _diff_key(git: Git, old: str, new: str) -> str | None:
    return patch_key(git.must("diff-tree", *DIFF, old, new, timeout=300).out)


def _merging_changes_nothing(git: Git, tip: str, base: str, fork: str) -> bool:
    """Whether the base has all that the branch changes. False where git (before 2.38) cannot tell."""
    if _diff_key(git, fork, tip) is None:
        return False
    done = git.run("merge-tree", "--write-tree", base, tip, timeout=300)
    return done.code == 0 and done.text.split()[:1] == [git.ask("rev-parse", f"{base}^{{tree}}")]
