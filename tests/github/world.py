"""A GitHub of one's own for a test: server, repositories, and what the gh program and git need to talk to it.

with GithubWorld(folder) as github:
    github.adopt(root, "octo/shop", login="conductor")   # git push there is real from now on
    subprocess.run(["gh", "pr", "list"], cwd=root, env=github.environment("conductor"))
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.github import checks
from tests.github.bare import git
from tests.github.faults import Fault
from tests.github.model import CheckRun, PullRequest, Repository, Status, User, World
from tests.github.server import Server

ROOT = Path(__file__).parents[2]
SSH_SCRIPT = Path(__file__).parent / "git_ssh.py"


class GithubWorld:
    """Everything lies in ``folder``, but the socket: its path must be short, so it lies in a folder in /tmp."""

    def __init__(self, folder: Path, *, host: str = "github.com", check_timeout: float = 60.0) -> None:
        self.folder = folder
        self.world = World(host)
        self._short = Path(tempfile.mkdtemp(prefix="gh-", dir="/tmp"))
        self.socket = self._short / "s"
        self.runner = checks.Runner(self.world, folder / "runs", timeout=check_timeout)
        self.server = Server(self.world, self.socket, self.runner)
        self.server.verbs = {
            "state": self.server.state,
            "recorded": self.server.recorded,
            "fault": lambda **fault: self.fault(Fault(**fault)).to_json(),
            "environment": self.environment,
            "head_lag": self.set_head_lag,
            "check_delay": self.set_check_delay,
            "page_cap": self.set_page_cap,
            "check": lambda **check: {"id": self.put_check(**check).id},
            "status": lambda **status: {"id": self.put_status(**status).id},
        }

    def __enter__(self) -> GithubWorld:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runner.stop()
        self.server.stop()
        shutil.rmtree(self._short, ignore_errors=True)

    def assert_honest(self) -> None:
        """Nothing was asked that is not modelled, and nothing broke GitHub's own description."""
        assert self.server.unmodelled == [], "the stand-in does not model this"
        assert self.server.violations == [], "this is not as GitHub describes it"

    # --- users and repositories ---

    def user(self, login: str) -> User:
        return self.world.add_user(login)

    def repository(self, full_name: str) -> Repository:
        found = self.world.repository(full_name)
        assert found is not None, f"no repository {full_name}"
        return found

    def pull(self, full_name: str, number: int) -> PullRequest:
        found = self.repository(full_name).numbered[number]
        assert isinstance(found, PullRequest)
        return found

    def adopt(
        self,
        root: Path,
        full_name: str,
        *,
        login: str,
        checks: Mapping[str, tuple[str, ...]] | None = None,
        remote: str = "origin",
        protected: tuple[str, ...] = (),
        reviews_required: bool = False,
    ) -> Repository:
        """Make a repository on the stand-in from a real one (its branches are there at once) and connect them.

        ``login`` is who pushes from there. ``protected`` are the checks that the default branch requires.
        """
        path = self.folder / "repositories" / f"{full_name}.git"
        path.parent.mkdir(parents=True, exist_ok=True)
        git(root / ".git", "clone", "--quiet", "--bare", "--no-local", str(root), str(path))
        git(path, "remote", "remove", "origin")
        branch = git(path, "symbolic-ref", "--short", "HEAD")
        made = self.world.add_repository(full_name, path, default_branch=branch)
        made.checks = dict(checks or {})
        made.protection.checks, made.protection.reviews = protected, reviews_required
        self.user(login)
        self.connect(root, full_name, login=login, remote=remote)
        return made

    def connect(self, root: Path, full_name: str, *, login: str, remote: str = "origin") -> None:
        """Point the remote of a clone here: in its configuration, so that worktrees and panes have it too."""
        metadata = root / ".git"
        url = f"git@{self.world.host}:{full_name}.git"
        known = remote in git(metadata, "remote").split()
        git(metadata, "remote", *(("set-url", remote) if known else ("add", remote)), url)
        git(metadata, "config", "core.sshCommand", self.ssh_command(login))
        git(metadata, "config", "ssh.variant", "ssh")
        git(metadata, "fetch", "--quiet", remote)

    def clone(self, full_name: str, folder: Path, *, login: str) -> Path:
        """A clone in which another user works."""
        git(self.repository(full_name).path, "clone", "--quiet", str(self.repository(full_name).path), str(folder))
        self.user(login)
        self.connect(folder, full_name, login=login)
        return folder

    def ssh_command(self, login: str) -> str:
        return shlex.join([sys.executable, "-I", "-S", str(SSH_SCRIPT), str(self.socket), self.world.host, login])

    def fork(self, full_name: str, owner: str) -> Repository:
        parent = self.repository(full_name)
        path = self.folder / "repositories" / owner / f"{parent.name}.git"
        git(parent.path, "clone", "--quiet", "--bare", "--no-local", str(parent.path), str(path))
        return self.world.add_repository(
            f"{owner}/{parent.name}", path, parent=parent, default_branch=parent.default_branch
        )

    def delete(self, full_name: str) -> None:
        self.repository(full_name).deleted = True

    # --- gh ---

    def environment(self, login: str, **more: str) -> dict[str, str]:
        """All variables for gh (and git) acting as ``login``. The token is in no variable: it lies in hosts.yml."""
        home = self.folder / "homes" / login
        config = self.config_dir(login)
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "GH_CONFIG_DIR": str(config),
            "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "XDG_DATA_HOME": str(home / ".local/share"),
            "XDG_STATE_HOME": str(home / ".local/state"),
            "GH_NO_UPDATE_NOTIFIER": "1",
            "GH_NO_EXTENSION_UPDATE_NOTIFIER": "1",
            "GH_TELEMETRY": "false",
            "GH_PROMPT_DISABLED": "1",
            "NO_COLOR": "1",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            **more,
        }

    def config_dir(self, login: str) -> Path:
        """gh's folder for this login, written anew."""
        user = self.user(login)
        home = self.folder / "homes" / login
        config = home / ".config" / "gh"
        config.mkdir(parents=True, exist_ok=True, mode=0o700)
        ssh = self.ssh_command(login).replace("\\", "\\\\").replace('"', '\\"')
        person = f"[user]\n    name = {user.name}\n    email = {login}@users.noreply.github.com\n"
        _private(home / ".gitconfig", f'{person}[core]\n    sshCommand = "{ssh}"\n[ssh]\n    variant = ssh\n')
        _private(config / "config.yml", f'version: "1"\ngit_protocol: ssh\nhttp_unix_socket: {self.socket}\n')
        host = self.world.host
        _private(
            config / "hosts.yml",
            f"{host}:\n"
            f"    users:\n        {login}:\n            oauth_token: {user.token}\n"
            f"    git_protocol: ssh\n    oauth_token: {user.token}\n    user: {login}\n",
        )
        return config

    # --- faults and checks by hand ---

    def fault(self, fault: Fault) -> Fault:
        self.server.faults.append(fault)
        return fault

    def set_head_lag(self, seconds: float) -> None:
        """For so long after each push from now on, the API shows the old head."""
        self.world.head_lag = seconds

    def set_check_delay(self, seconds: float) -> None:
        """For so long after each push from now on, its checks do not show."""
        self.runner.delay = seconds

    def set_page_cap(self, size: int) -> None:
        """No page has more than this."""
        self.server.page_cap = size

    def put_check(
        self,
        full_name: str,
        oid: str,
        name: str,
        conclusion: str | None = None,
        *,
        status: str = "QUEUED",
        workflow: str | None = checks.WORKFLOW,
        app: str = checks.ACTIONS,
        event: str = "push",
        delay: float = 0.0,
        log: str = "",
        details_url: str | None = None,
        again: CheckRun | None = None,
    ) -> CheckRun:
        """A check run in a suite of its own: a second one of the name is a superseded one beside the other.

        ``again``: in the suite of that run instead, of which then only the newest run of the name shows.
        """
        with self.world.lock:
            repository = self.repository(full_name)
            suite = again.suite if again else None
            suite = suite or checks.add_suite(self.world, repository, oid, app=app, workflow=workflow, event=event)
            more = {"conclusion": conclusion, "status": status, "delay": delay, "log": log, "details_url": details_url}
            return checks.add_run(self.world, suite, name, **more)  # type: ignore[arg-type]

    def put_status(
        self, full_name: str, oid: str, context: str, state: str, *, description: str = "", target_url: str = ""
    ) -> Status:
        with self.world.lock:
            repository = self.repository(full_name)
            texts = {"description": description or None, "target_url": target_url or None}
            return checks.add_status(self.world, repository, oid, context, state, repository.owner, **texts)


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text, encoding="utf-8")
