"""What the ``pr`` verbs share: the forge of this repository, which pull request is meant, the text of an option."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import click

from conductor.cli.context import Context, find_context
from conductor.cli.files import read_text
from conductor.forge import KnowsDefaultBranch, open_forge
from conductor.ports import Forge
from schemas.errors import BadInput, NotSo
from schemas.forge import PullRequest
from schemas.text import one_line

P = ParamSpec("P")
R = TypeVar("R")
_HEAD = re.compile(r"[0-9a-f]{7,64}")


def body_options(verb: Callable[P, R]) -> Callable[P, R]:
    """``--body TEXT`` and ``--body-file FILE``."""
    for option in (
        click.option("-F", "--body-file", metavar="FILE", help="Read the text from this file; - is stdin."),
        click.option("-b", "--body", metavar="TEXT", help="The text, in Markdown."),
    ):
        verb = option(verb)
    return verb


def read_body(body: str | None, body_file: str | None) -> str | None:
    """The text of the two options; None where neither was given. Raises ``BadInput`` for both, or an
    unreadable file.
    """
    if body is not None and body_file is not None:
        raise BadInput("--body and --body-file exclude each other", "Give one of them.")
    if body_file is None:
        return body
    return read_text(body_file, what="--body-file")


def open_here() -> tuple[Context, Forge]:
    """The managed repository of the current folder, and its forge."""
    context = find_context()
    return context, open_forge(context.config, context.root)


def current_branch_of(context: Context) -> str:
    """The branch of the worktree. Raises ``BadInput`` where HEAD is detached."""
    branch = context.current_branch()
    if branch is None:
        raise BadInput(f"no branch is checked out in {context.worktree}", "Name a pull request or a branch.")
    return branch


def default_base(context: Context, forge: Forge) -> str:
    """Where pull requests go unless told otherwise."""
    configured = context.config.default_branch
    if configured is None and isinstance(forge, KnowsDefaultBranch):
        return forge.default_branch()
    if configured is None:
        raise BadInput("the default branch is not known", "Name the branch with --base, or set default_branch.")
    return configured


def number_of(context: Context, forge: Forge, which: str | None) -> int:
    """The number of a pull request that was named by number, ``#number``, branch, or not at all."""
    digits = (which or "").removeprefix("#")
    if digits.isascii() and digits.isdigit() and len(digits) <= 9 and int(digits):
        return int(digits)
    branch = which or current_branch_of(context)
    found = forge.pull_request_of_branch(branch)
    if found is None:
        raise NotSo(
            f"{one_line(branch)} has no open pull request",
            "Open one with `taskmaestro pr create`, or name its number.",
        )
    return found.number


def pull_of(context: Context, forge: Forge, which: str | None) -> PullRequest:
    """The pull request that was named, as ``number_of`` says."""
    return forge.pull_request(number_of(context, forge, which))


def checked_head(head: str) -> str:
    """A commit's SHA, or at least the first seven digits of it. Raises ``BadInput`` for anything else."""
    found = head.strip().lower()
    if not _HEAD.fullmatch(found):
        raise BadInput(f"{one_line(head, 80)!r} names no commit", "Give its SHA, or at least the first 7 digits of it.")
    return found


def moved(number: int, head: str) -> NotSo:
    """The fault of a verdict that is for another head."""
    return NotSo(
        f"the head of #{number} is {head} now, not the one that was reviewed",
        "Review the new head, then try again.",
    )
