"""How a branch moved between two heads: its shape, and whether somebody else's work fell out.

The rules are the review cycle's "Commit hygiene": amending is wanted, a rebase is allowed and compared by
range-diff, more commits are a finding, and a lost commit of somebody else needs a person.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from conductor.git.patches import COMPARED, keys_of, merge_base, rev_list
from conductor.git.run import Done, Git
from schemas.errors import Unavailable
from schemas.events import History
from schemas.text import clean, one_line

RANGE_DIFF_COMMITS = 200
"""Above so many commits on either side no range-diff is made: it compares each with each."""
RANGE_DIFF_CHARS = 20_000
_ROW = re.compile(r" *\d+: +([0-9a-f]{4,64}) [=!] +\d+: +[0-9a-f]{4,64}(?: |$)")
Shape = Literal["same", "amended", "more_commits", "fewer_commits", "rebased", "rewritten"]


def history(git: Git, old: str, new: str, base: str, *, mine: Sequence[str]) -> History:
    """``old``, ``new`` and ``base`` are full SHAs that are here; ``mine`` are e-mail addresses."""
    before = rev_list(git, f"{base}..{old}")
    after = rev_list(git, f"{base}..{new}")
    compared = None if old == new else _range_diff(git, old, new, base, max(len(before), len(after)))
    return History(
        shape=_shape(git, old, new, base, len(before), len(after)),
        old=old,
        new=new,
        commits_before=len(before),
        commits_after=len(after),
        foreign_lost=_foreign_lost(git, old, new, base, mine, compared),
        range_diff=_bounded(compared),
    )


def _shape(git: Git, old: str, new: str, base: str, before: int, after: int) -> Shape:
    if old == new:
        return "same"
    if after > before:
        return "more_commits"
    if after < before:
        return "fewer_commits"
    if _parents(git, old) == _parents(git, new):
        return "amended"
    forks = merge_base(git, old, base), merge_base(git, new, base)
    return "rebased" if None not in forks and forks[0] != forks[1] else "rewritten"


def _parents(git: Git, sha: str) -> list[str]:
    return git.ask("rev-list", "--max-count=1", "--parents", sha, "--").split()[1:]


def _range_diff(git: Git, old: str, new: str, base: str, commits: int) -> Done | None:
    """None where there are too many commits to compare, or no common history."""
    forks = merge_base(git, old, base), merge_base(git, new, base)
    if commits > RANGE_DIFF_COMMITS or None in forks:
        return None
    try:
        done = git.run(
            "range-diff",
            "--no-color",
            "--no-dual-color",
            "--no-ext-diff",
            f"{forks[0]}..{old}",
            f"{forks[1]}..{new}",
        )
    except Unavailable:  # it took too long: the patches themselves are still compared, one by one
        return None
    return done if done.code == 0 else None


def _bounded(done: Done | None) -> str:
    text = clean(done.out.decode("utf-8", "replace")).rstrip() if done else ""
    if len(text) <= RANGE_DIFF_CHARS:
        return text
    return text[:RANGE_DIFF_CHARS] + f"\n… ({len(text) - RANGE_DIFF_CHARS} more characters)"


def _foreign_lost(
    git: Git, old: str, new: str, base: str, mine: Sequence[str], compared: Done | None
) -> tuple[str, ...]:
    ours = {address.casefold() for address in mine}
    lost = rev_list(git, "--reverse", "--topo-order", old, "--not", base, new)
    told = {sha: _who(git, sha) for sha in lost}
    foreign = [sha for sha in lost if not ours & {told[sha][1], told[sha][2]}]
    if not foreign:
        return ()
    fork = merge_base(git, old, base)
    # What is on the base by now is not lost: somebody merged it there, and the branch was rebased onto it.
    landed = rev_list(git, f"--max-count={COMPARED}", f"{fork}..{base}") if fork else []
    kept = set(keys_of(git, [*rev_list(git, f"{base}..{new}"), *landed]).values())
    keys = keys_of(git, foreign)
    paired = _paired(compared)
    return tuple(
        told[sha][0]
        for sha in foreign
        if not _found_again(git, sha, paired) and _carries(git, sha, keys) not in kept | {None}
    )


def _who(git: Git, sha: str) -> tuple[str, str, str]:
    """A line for a person, and the e-mail addresses of author and committer."""
    text = git.ask(
        "show",
        "--no-patch",
        "--encoding=UTF-8",
        "--no-show-signature",
        "--format=%ae%x00%ce%x00%an%x00%s",
        sha,
        "--",
    )
    author, committer, name, subject = [*text.split("\0", 3), "", "", ""][:4]
    line = f"{sha[:12]} {one_line(name, 60)} <{one_line(author, 80)}> {one_line(subject, 120)}"
    return line, author.casefold(), committer.casefold()


def _carries(git: Git, sha: str, keys: dict[str, str]) -> str | None:
    """What goes with a commit: its patch; for a merge the resolution that somebody made; or nothing."""
    if sha in keys:
        return keys[sha]
    if len(_parents(git, sha)) < 2:
        return None
    return sha if git.ask("show", "--format=", "--cc", "--no-ext-diff", "--no-textconv", sha, "--").strip() else None


def _found_again(git: Git, sha: str, paired: set[str]) -> bool:
    """Whether range-diff found the commit again; it does not look into binary files: those do not count."""
    if not any(sha.startswith(short) for short in paired):
        return False
    rows = git.ask("diff-tree", "--root", "--numstat", "-r", "--no-commit-id", "--no-renames", sha, "--")
    return not any(row.startswith("-\t-\t") for row in rows.splitlines())


def _paired(done: Done | None) -> set[str]:
    """The short SHAs of old commits that range-diff finds again, changed or not."""
    # A row is "1:  abc1234 ! 1:  def5678 subject"; the lines of the patches below it are indented by four.
    lines = done.text.split("\n") if done else []
    rows = (_ROW.match(line) for line in lines if not line.startswith("    "))
    return {row[1] for row in rows if row}
