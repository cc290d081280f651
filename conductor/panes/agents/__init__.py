"""The kinds of agent program that are known, each as data in one module; built-ins and plug-ins by the same
door.

An entry point of the group ``taskmaestro.agents`` names a factory: it takes the agent's ``AgentConfig`` and
answers an ``AgentKind``. ``[agents.NAME]`` in the configuration adds a name: of ``kind`` where that is given,
of the kind of its own name where there is one, else of kind ``command``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from conductor.ports import AgentKind, Launch
from schemas.config import AgentConfig, Config
from schemas.errors import BadInput, Unavailable
from schemas.text import one_line

GROUP = "taskmaestro.agents"
Factory = Callable[[AgentConfig], AgentKind]

_HERE = "conductor.panes.agents"
#: What the distribution declares too; from a source tree that is not installed they are found here.
BUILT_IN = (
    EntryPoint("claude", f"{_HERE}:make_claude", GROUP),
    EntryPoint("command", f"{_HERE}.command:make", GROUP),
    EntryPoint("scripted", f"{_HERE}.scripted:make", GROUP),
)


def doors() -> dict[str, EntryPoint]:
    """The factories by name; an installed one takes the place of a built-in of the same name. Loads none of
    them.
    """
    found = {point.name: point for point in BUILT_IN}
    found.update({point.name: point for point in entry_points(group=GROUP)})
    return found


def agent_kinds(config: Config) -> Mapping[str, AgentKind]:
    """Every kind that the configuration or an entry point names; each is made when it is first asked for.

    Raises ``BadInput`` for a configured agent of a kind that nobody provides.
    """
    known = doors()
    wanted: dict[str, tuple[EntryPoint, AgentConfig]] = {}
    for name, point in known.items():
        if name != "command":
            wanted[name] = point, config.agents.get(name, AgentConfig())
    for name, settings in config.agents.items():
        kind = settings.kind or (name if name in known else "command")
        if kind not in known:
            names = ", ".join(sorted(known))
            raise BadInput(
                f"[agents.{one_line(name, 40)}]: nobody provides the kind `{one_line(kind, 40)}`",
                f"Known: {names}.",
            )
        wanted[name] = known[kind], settings
    return _Kinds(wanted)


class _Kinds(Mapping[str, AgentKind]):
    """Agent kinds by name. A plug-in that is broken is a fault when its kind is used, not before."""

    def __init__(self, wanted: Mapping[str, tuple[EntryPoint, AgentConfig]]) -> None:
        self._wanted = dict(wanted)
        self._made: dict[str, AgentKind] = {}

    def __getitem__(self, name: str) -> AgentKind:
        if name not in self._made:
            point, settings = self._wanted[name]
            try:
                factory: Factory = point.load()
            except (ImportError, AttributeError) as error:
                raise Unavailable(
                    f"the agent kind `{one_line(name, 40)}` cannot be loaded from {point.value}: "
                    f"{one_line(str(error))}",
                    "Repair or remove the package that provides it.",
                ) from error
            self._made[name] = Configured(name, factory(settings), settings)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._wanted  # asking for it would load it

    def __iter__(self) -> Iterator[str]:
        return iter(self._wanted)

    def __len__(self) -> int:
        return len(self._wanted)


class Configured:
    """A kind under its configured name, with arguments and environment from ``[agents.NAME]``."""

    def __init__(self, name: str, kind: AgentKind, settings: AgentConfig) -> None:
        self.name = name
        self.program = kind.program
        self.install_hint = kind.install_hint
        self.idle_memory_mb = kind.idle_memory_mb
        self.has_receipts = kind.has_receipts
        # A plug-in that was written before there was this word needs nothing.
        self.pass_env: tuple[str, ...] = (*getattr(kind, "pass_env", ()), *settings.pass_env)
        self.kind = kind
        self._settings = settings
        self.prepare = kind.prepare
        self.classify = kind.classify
        self.composer = kind.composer
        self.placeholder = kind.placeholder
        self.clear_keys = kind.clear_keys
        self.exit_line = kind.exit_line

    def argv(self, launch: Launch) -> list[str]:
        return self.kind.argv(replace(launch, extra_args=(*self._settings.args, *launch.extra_args)))

    def env(self, launch: Launch) -> dict[str, str]:
        return {**self.kind.env(launch), **self._settings.env}


def make_claude(settings: AgentConfig) -> AgentKind:
    """The built-in kind ``claude``; ``command`` in the configuration names another program for it."""
    from conductor.panes.agents.claude import Claude

    return Claude(*settings.command[:1]) if settings.command else Claude()
