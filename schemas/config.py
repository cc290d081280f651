"""``.taskmaestro/config.toml`` as a model. Every value has a default that works; unknown names are errors.

Times are in seconds. Commands are argument lists or one line split by shell rules; no shell runs them.
"""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from schemas.base import Frozen


def _split(value: object) -> object:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


_ARGV_SCHEMA = {
    "anyOf": [
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"type": "string", "pattern": r"\S"},
    ]
}
Argv = Annotated[
    tuple[str, ...],
    BeforeValidator(_split),
    Field(min_length=1),
    WithJsonSchema(_ARGV_SCHEMA, mode="validation"),
]
"""A command: ``["ruff", "check"]`` or ``"ruff check"``."""


Angle = Literal["correctness", "tests", "maintainability", "security", "scope"]
LENSES: dict[str, Angle] = {"dry": "maintainability", "kiss": "maintainability", "yagni": "scope"}
"""Say things once, keep it simple, build what is asked for (review protocol, gate-angle mapping)."""


class CyclePolicy(Frozen):
    """The limits of the review cycle (review protocol; review cycle page)."""

    max_cycles: int = Field(default=3, ge=1, le=9)
    ci_returns_cap: int = Field(default=3, ge=1, le=20)
    ci_budget: float = Field(default=1800.0, gt=0)
    allow_no_checks: bool = Field(default=False, description="a head without any check counts as green")


class ReviewConfig(Frozen):
    """``[review]``"""

    max_cycles: int = Field(
        default=3, ge=1, le=9, description="reviews that may ask for changes; then a person decides"
    )
    parallel: int = Field(default=3, ge=1, le=4, description="steps of a review that run at the same time")
    step_timeout: float = Field(default=600.0, gt=0, description="seconds for each step of a review")
    verification: dict[str, Argv] = Field(default_factory=dict, description="name = command; any failure is a finding")
    sarif: dict[str, Argv] = Field(default_factory=dict, description="name = command that prints SARIF 2.1.0")
    reviewers: dict[str, Argv] = Field(
        default_factory=dict,
        description="name = command that takes the review packet (JSON, stdin) and answers findings (JSON, stdout)",
    )
    steps: tuple[str, ...] | None = Field(default=None, description="names of the steps to run; default: all")
    lenses: dict[str, Angle] = Field(
        default_factory=lambda: dict(LENSES),
        description="lens = angle: what judging reviewers look through; the review records what was covered",
    )
    pane_budget: float = Field(default=1800.0, gt=0, description="seconds that a review pane may take")


class CiConfig(Frozen):
    """``[ci]``"""

    returns_cap: int = Field(default=3, ge=1, le=20, description="times that red CI goes back to the worker")
    poll: float = Field(default=60.0, gt=0, description="seconds between two looks, where the forge does not tell")
    budget: float = Field(default=1800.0, gt=0, description="seconds that a verdict of CI is waited for")
    grace: float = Field(default=60.0, ge=0, description="seconds after a push in which no checks means not yet")
    allow_no_checks: bool = Field(default=False, description="a head without any check counts as green")


class BatteryConfig(Frozen):
    """``[battery]``: what runs before every push, in this order; a failure stops the push."""

    format: Argv | None = Field(default=None, description="command that checks the formatting; default: as detected")
    lint: Argv | None = Field(default=None, description="command that looks for mistakes; default: as detected")
    types: Argv | None = Field(default=None, description="command that checks the types; default: as detected")
    test: Argv | None = Field(default=None, description="command that runs the tests; default: as detected")
    skip: tuple[Literal["format", "lint", "types", "test"], ...] = Field(
        default=(), description="what is left out although the project has a command for it"
    )
    timeout: float = Field(default=900.0, gt=0, description="seconds for each command")


class LocalForgeConfig(Frozen):
    """``[forge.local]``"""

    path: str | None = Field(default=None, description="its folder; default: .taskmaestro/forge")
    login: str | None = Field(default=None, description="the acting login; default: git's user.email")
    checks: dict[str, Argv] = Field(default_factory=dict, description="name = command; what CI is here")
    check_timeout: float = Field(default=900.0, gt=0, description="seconds for each check")
    check_env: tuple[str, ...] = Field(default=(), description="more environment variables that checks may see")


class GithubForgeConfig(Frozen):
    """``[forge.github]``"""

    program: str | None = Field(
        default=None, description="path or name of gh 2.82.1 or newer; default: on PATH, else beside this Python"
    )
    repository: str | None = Field(default=None, description="owner/name; default: what the git remote's URL names")
    host: str | None = Field(default=None, description="an Enterprise Server's host; default: the remote's, github.com")
    timeout: float = Field(default=30.0, gt=0, description="seconds that one answer of GitHub may take")
    grace: float | None = Field(
        default=None, ge=0, description="seconds after a push in which no checks means not yet; default: grace of [ci]"
    )
    only_required: bool = Field(
        default=False, description="where GitHub requires some checks, the others are listed and decide nothing"
    )
    log_lines: int = Field(default=40, ge=1, le=1000, description="lines of a failed check's log that are shown")


class ForgeConfig(Frozen):
    """``[forge]``"""

    kind: str = Field(default="local", description="local, github, or the name of another forge")
    draft_first: bool = Field(default=False, description="pull requests are opened as drafts")
    local: LocalForgeConfig = LocalForgeConfig()
    github: GithubForgeConfig = GithubForgeConfig()


class LoopsConfig(Frozen):
    """``[loops]``: the review loops of a pull request."""

    external_reviewers: tuple[str, ...] = Field(
        default=("copilot", "copilot-pull-request-reviewer", "copilot-pull-request-reviewer[bot]"),
        description="logins whose reviews are the follow-up loop's external ones",
    )
    poll: float = Field(
        default=60.0, gt=0, allow_inf_nan=False, description="seconds between two looks, where the forge does not tell"
    )
    budget: float = Field(default=1800.0, gt=0, allow_inf_nan=False, description="seconds that one wait may take")


class AgentConfig(Frozen):
    """``[agents.NAME]``: extra arguments, and for kind ``command`` the program and its patterns."""

    kind: str | None = Field(
        default=None, description="claude, command, scripted, ...; default: the name, else command"
    )
    command: Argv | None = Field(default=None, description="the program with its arguments, for kind command")
    args: tuple[str, ...] = Field(default=(), description="more arguments")
    env: dict[str, str] = Field(default_factory=dict, description="more environment variables; nothing secret")
    pass_env: tuple[str, ...] = Field(
        default=(),
        description="names of variables that `up` hands from its shell to the panes, such as keys; `PREFIX_*` for many",
    )
    idle: str | None = Field(default=None, description="pattern of a line that shows only when it is idle")
    busy: str | None = Field(default=None, description="pattern of a line that shows while it works")
    permission: str | None = Field(default=None, description="pattern of a line that asks for leave")
    composer: str | None = Field(default=None, description="pattern whose first group is the text in its input line")
    exit: str | None = Field(default=None, description="line that ends it")
    prompt: Literal["argument", "paste"] = Field(default="argument", description="how it gets its first task")


class TmuxConfig(Frozen):
    """``[tmux]``"""

    socket: str | None = Field(default=None, description="path of a private socket; default: the user's own server")
    panes_per_window: int = Field(default=4, ge=1, le=12, description="worker panes in one tmux window")


class Config(Frozen):
    """The whole file."""

    agent: str = Field(default="claude", description="the agent of new panes: a kind, or a name of [agents.NAME]")
    default_branch: str | None = Field(default=None, description="where work starts from; default: the remote's own")
    remote: str = Field(default="origin", description="the git remote that branches are pushed to")
    precious: tuple[str, ...] = Field(default=(".env*",), description="ignored files that clean-up must not lose")
    needed: tuple[str, ...] = Field(
        default=(), description="files that git ignores and each new checkout gets a copy of, such as generated ones"
    )
    silent_after: float = Field(
        default=900.0, gt=0, description="seconds without output after which a busy agent is reported"
    )
    review: ReviewConfig = ReviewConfig()
    ci: CiConfig = CiConfig()
    battery: BatteryConfig = BatteryConfig()
    forge: ForgeConfig = ForgeConfig()
    loops: LoopsConfig = LoopsConfig()
    agents: dict[str, AgentConfig] = Field(default_factory=dict)
    tmux: TmuxConfig = TmuxConfig()

    @property
    def policy(self) -> CyclePolicy:
        return CyclePolicy(
            max_cycles=self.review.max_cycles,
            ci_returns_cap=self.ci.returns_cap,
            ci_budget=self.ci.budget,
            allow_no_checks=self.ci.allow_no_checks,
        )
