"""Panes for tests: a ``TmuxPanes`` on a private socket, and stand-in agents in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from conductor.panes.agents.scripted import ScriptedAgent
from conductor.panes.delivery import Timings
from conductor.panes.tmux import TmuxPanes
from conductor.ports import PaneSpec
from schemas.config import AgentConfig
from tests.support.waiting import wait_until

STAND_IN = Path(__file__).parent / "stand_in.py"
QUICK = Timings(confirm=0.8, clear=0.4, grace=1.0)


class StandInAgent(ScriptedAgent):
    """The scripted kind, with or without receipts."""

    def __init__(self, has_receipts: bool = False) -> None:
        super().__init__(AgentConfig())
        self.has_receipts = has_receipts


@dataclass
class Bench:
    """A place to try things: panes, folders, and what the stand-ins wrote into their logs."""

    folder: Path
    socket: Path
    panes: TmuxPanes
    agent: StandInAgent = field(default_factory=StandInAgent)

    def spec(self, index: int = 1, *args: str, **ways: Any) -> PaneSpec:
        env = {"STAND_IN": json.dumps(ways), "STAND_IN_LOG": str(self.log_file(index))}
        argv = (sys.executable, "-S", str(STAND_IN), *args)
        role = "conductor" if index == 0 else "worker"
        return PaneSpec(index, role, f"pane {index}", self.folder, argv, env)

    def log_file(self, index: int) -> Path:
        return self.folder / f"log-{index}.jsonl"

    def log(self, index: int = 1, what: str = "") -> list[dict[str, Any]]:
        path = self.log_file(index)
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if what in ("", line["what"])]

    def receipts(self, index: int = 1) -> Path:
        return self.folder / "receipts" / f"pane-{index}.jsonl"

    def up(self, *specs: PaneSpec) -> dict[int, str]:
        return {index: pane_id for index, (pane_id, _) in self.panes.ensure_session(specs).items()}

    def agent_up(self, *args: str, state: str = "idle", **ways: Any) -> str:
        """A stand-in in pane 1 that behaves in these ways, seen in this state."""
        pane_id = self.up(self.spec(1, *args, **ways))[1]
        wait_until(lambda: self.panes.state_of(pane_id, self.agent).name == state, what=f"the state {state}")
        return pane_id

    def tmux(self, *args: str) -> str:
        return "\n".join(self.panes.tmux.once(args))


@pytest.fixture
def make_panes(private_tmux: Path, tmp_path: Path) -> Iterator[Callable[..., TmuxPanes]]:
    """A factory of ``TmuxPanes`` on one private socket; all are closed afterwards."""
    made: list[TmuxPanes] = []
    (tmp_path / "receipts").mkdir()

    def make(session: str = "taskmaestro-demo-1", **options: Any) -> TmuxPanes:
        options = {"timings": QUICK, "receipts": tmp_path / "receipts", **options}
        made.append(TmuxPanes(session, private_tmux, **options))
        return made[-1]

    yield make
    for panes in made:
        panes.close()


@pytest.fixture
def bench(make_panes: Callable[..., TmuxPanes], private_tmux: Path, tmp_path: Path) -> Bench:
    return Bench(tmp_path, private_tmux, make_panes())
