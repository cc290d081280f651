"""The `github` fixture, and how tests run the real gh. Import `github` into a conftest to have it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.github import schema
from tests.github.web import Request
from tests.github.world import GithubWorld
from tests.support.repos import commit_file, git, make_repository

GH = Path(sys.executable).parent / "gh"
NAME = "octo/shop"
URL = f"https://github.com/{NAME}"


def reason_to_skip() -> str | None:
    if not GH.exists():
        return "the gh program is not here: scripts/setup installs it into .venv/bin"
    return None if schema.available() else schema.MISSING


@pytest.fixture
def github(isolated: Path, tmp_path: Path) -> Iterator[GithubWorld]:
    """A GitHub of the test's own. What it had to answer without modelling it fails the test."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    with GithubWorld(tmp_path / "github") as world:
        yield world
        world.assert_honest()


@dataclass
class Shop:
    """The repository `octo/shop` and a clone in which `worker-1` works; `conductor` is the other user."""

    github: GithubWorld
    root: Path

    def push(self, branch: str, name: str = "work.txt", text: str = "one\ntwo\nthree\n") -> str:
        """Commit ``name`` on ``branch`` (made from main where new) and push it; answers the SHA."""
        new = () if git(self.root, "branch", "--list", branch) else ("-b",)
        git(self.root, "checkout", "--quiet", *new, branch, *(("main",) if new else ()))
        sha = commit_file(self.root, name, text)
        git(self.root, "push", "--quiet", "--force", "origin", branch)
        git(self.root, "checkout", "--quiet", "main")
        return sha

    def amend(self, branch: str, name: str, text: str) -> str:
        git(self.root, "checkout", "--quiet", branch)
        (self.root / name).write_text(text, encoding="utf-8")
        git(self.root, "add", "--", name)
        git(self.root, "commit", "--quiet", "--amend", "--no-edit")
        git(self.root, "push", "--quiet", "--force", "origin", branch)
        sha = git(self.root, "rev-parse", "HEAD")
        git(self.root, "checkout", "--quiet", "main")
        return sha

    def open(self, branch: str = "feature", *, login: str = "worker-1", body: str = "") -> int:
        """Push a commit on ``branch`` and open a pull request by the GraphQL door; answers its number."""
        self.push(branch, f"{branch}.txt")
        values = {"repositoryId": self.github.repository(NAME).node_id, "baseRefName": "main", "headRefName": branch}
        told = self.mutate("createPullRequest", {**values, "title": branch, "body": body}, "pullRequest{number}", login)
        number: int = told["pullRequest"]["number"]
        return number

    # --- without gh ---

    def send(
        self, method: str, path: str, body: Any = None, login: str = "conductor", **headers: str
    ) -> tuple[int, Any, Mapping[str, str]]:
        """(status, JSON, headers) of a request that is answered in this process."""
        path, _, words = path.partition("?")
        query = dict(word.split("=", 1) for word in words.split("&") if word)
        token = self.github.user(login).token
        sent = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, query, {"authorization": f"token {token}", **headers}, sent)
        answer, _ = self.github.server.answer(request)
        value = json.loads(answer.body) if answer.body[:1] in (b"{", b"[") else answer.body
        return answer.status, value, answer.headers

    def ask(self, query: str, login: str = "conductor", **variables: Any) -> dict[str, Any]:
        """The whole answer to a GraphQL query."""
        answer: dict[str, Any] = self.send("POST", "/graphql", {"query": query, "variables": variables}, login)[1]
        return answer

    def data(self, query: str, login: str = "conductor", **variables: Any) -> dict[str, Any]:
        answer = self.ask(query, login, **variables)
        assert "errors" not in answer, answer["errors"]
        data: dict[str, Any] = answer["data"]
        return data

    def pull(self, number: int, fields: str, login: str = "conductor") -> dict[str, Any]:
        """Fields of a pull request."""
        owner, _, name = NAME.partition("/")
        query = f'query{{repository(owner:"{owner}",name:"{name}"){{pullRequest(number:{number}){{{fields}}}}}}}'
        found: dict[str, Any] = self.data(query, login)["repository"]["pullRequest"]
        return found

    def tried(self, name: str, given: dict[str, Any], fields: str, login: str = "conductor") -> dict[str, Any]:
        """The whole answer to a mutation."""
        kind = f"{name[0].upper()}{name[1:]}Input"
        return self.ask(f"mutation($input:{kind}!){{{name}(input:$input){{{fields}}}}}", login, input=given)

    def mutate(self, name: str, given: dict[str, Any], fields: str, login: str = "conductor") -> dict[str, Any]:
        answer = self.tried(name, given, fields, login)
        assert "errors" not in answer, answer["errors"]
        told: dict[str, Any] = answer["data"][name]
        return told

    def refused(self, name: str, given: dict[str, Any], login: str = "conductor") -> str:
        """The words with which a mutation is refused."""
        answer = self.tried(name, given, "clientMutationId", login)
        (error,) = answer["errors"]
        assert answer["data"] == {name: None}
        message: str = error["message"]
        return message

    # --- with gh ---

    def gh(
        self, *arguments: str, login: str = "worker-1", stdin: str | None = None, code: int = 0, timeout: float = 60
    ) -> str:
        """Run the real gh in the clone; answers its output, and its errors where it is to fail."""
        done = self.run(*arguments, login=login, stdin=stdin, timeout=timeout)
        assert done.returncode == code, f"gh {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return (done.stdout if code == 0 else done.stdout + done.stderr).strip()

    def run(
        self, *arguments: str, login: str = "worker-1", stdin: str | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(GH), *arguments],
            cwd=self.root,
            env=self.github.environment(login),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def json(self, *arguments: str, login: str = "worker-1") -> Any:
        return json.loads(self.gh(*arguments, login=login))


@pytest.fixture
def shop(github: GithubWorld, tmp_path: Path) -> Shop:
    """A repository without checks, adopted by the stand-in."""
    root = make_repository(tmp_path / "shop", commits=2)
    github.adopt(root, NAME, login="worker-1")
    github.user("conductor")
    return Shop(github, root)
