"""``LocalForge``: the ``Forge`` port on a bare repository and an SQLite file.

Every reader brings what it reads up to date first (``pulls.Observer``) and sees to it that checks of open
heads have a runner; nothing runs between calls but those runners.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from conductor.core.description import closed_by
from conductor.forge.local import posts, pulls, repository, reviews, runs
from conductor.forge.local.layout import Layout, replace_text, write_needed
from conductor.forge.local.plumbing import commit_tree, commits_between, diff, git, merged_tree, update_ref
from conductor.forge.local.refs import Refs
from conductor.forge.local.store import Store, now
from conductor.forge.texts import checked_body, checked_title
from conductor.ports import HeadMovedError, Polled
from schemas.config import Config, LocalForgeConfig
from schemas.errors import BadInput, NotSo, Unavailable
from schemas.forge import Check, Checks, CheckState, Comment, Issue, Posted, PullRequest
from schemas.review import Verdict
from schemas.text import clean, one_line

LOGIN_VARIABLE = "TASKMAESTRO_LOGIN"
DEFAULT_FOLDER = ".taskmaestro/forge"


def open_local(config: Config, root: Path) -> LocalForge:
    """The factory behind the entry point ``local``: opens the forge of this repository, or makes it."""
    return LocalForge.create_or_open(
        root,
        config.forge.local,
        remote=config.remote,
        default_branch=config.default_branch,
        needed=config.needed,
    )


def _open_store(layout: Layout) -> Store:
    """The database; made where there was none yet. One that is lost is never read as "no pull requests"."""
    made = layout.made.exists()
    if made and not (layout.database.exists() and layout.database.stat().st_size):
        raise Unavailable(
            f"the local forge's pull requests are lost: {layout.database} is missing or empty",
            f"Restore a copy of it. To start with none (all commits stay): rm {shlex.quote(str(layout.made))}",
        )
    store = Store(layout.database)
    if not made:
        replace_text(layout.made, "")
    return store


class LocalForge(reviews.ReviewsOfLocal):
    """A forge in a folder. Safe to use from many processes, and from many threads of one."""

    name = "local"

    def __init__(self, root: Path, layout: Layout, config: LocalForgeConfig, login: str | None, remote: str) -> None:
        self._root = root
        self._layout = layout
        self._login = login
        self._config = config
        self.remote_name = remote
        """The remote of the managed repository that is this forge."""
        self._plan = runs.Plan(config.checks, config.check_timeout, config.check_env)
        self._refs = Refs(layout.repo)
        self._store = _open_store(layout)
        self._observer = pulls.Observer(layout, self._store, self._refs, self._plan)

    @classmethod
    def create_or_open(
        cls,
        repo_root: Path,
        config: LocalForgeConfig,
        login: str | None = None,
        *,
        remote: str = "origin",
        default_branch: str | None = None,
        needed: Sequence[str] = (),
    ) -> LocalForge:
        """Open the forge of a managed repository, making what is missing; safe to repeat and to race.

        ``login``: the acting login, default as ``login()`` says. ``remote``: the name that the managed
        repository should know the forge by (see ``repository``). ``needed``: ignored files of the repository that
        checkouts for checks get a copy of. Raises ``BadInput`` where the repository has
        no commit yet, ``Unavailable`` where the folder or the file cannot be used.
        """
        root = repo_root.resolve()
        layout = Layout(root / Path(config.path or DEFAULT_FOLDER).expanduser())
        name = repository.ensure(root, layout, remote=remote, default_branch=default_branch)
        write_needed(layout, root, needed)
        return cls(root, layout, config, login, name)

    def close(self) -> None:
        """Let go of the file; checks go on."""
        self._store.close()

    # --- who and where ---

    def login(self) -> str:
        """The acting login: as given, else ``TASKMAESTRO_LOGIN``, else the configuration's, else git's
        user.email.
        """
        if self._login is None:
            told = os.environ.get(LOGIN_VARIABLE) or self._config.login
            found = told or git(self._root, "config", "user.email", ok=(0, 1)).out
            self._login = _checked_login(found)
        return self._login

    def default_branch(self) -> str:
        """The branch that pull requests go to unless another one is named."""
        return self._refs.head_branch()

    def remote_url(self) -> str:
        return str(self._layout.repo)

    def wake_paths(self) -> tuple[Path, ...]:
        """The events folder: the hook renames a file into it at each push, runners at each result, posts
        likewise.
        """
        return (self._layout.events,)

    # --- pull requests ---

    def pull_request(self, number: int) -> PullRequest:
        one = self._one(number)
        self._observer.refresh_merge_ref(one)
        return pulls.to_pull(one)

    def pull_request_of_branch(self, branch: str) -> PullRequest | None:
        with self._store.read() as connection:
            row = connection.execute(
                "SELECT * FROM pulls WHERE head_branch = ? AND state = 'open'", (branch,)
            ).fetchone()
        if row is None:
            return None
        found = self.pull_request(row["number"])
        return found if found.state == "open" else None

    def pull_requests(self, numbers: Sequence[int] | None = None) -> list[PullRequest]:
        found = [pulls.to_pull(one) for one in self._observe(numbers)]
        return [one for one in found if numbers is not None or one.state == "open"]

    def pull_requests_closing(self, issue: int) -> list[PullRequest]:
        with self._store.read() as connection:
            numbers = [row["number"] for row in connection.execute("SELECT number FROM pulls ORDER BY number")]
        return [pull for pull in self.pull_requests(numbers) if issue in closed_by(pull.body)]

    def heads(self, number: int) -> list[str]:
        """Every head that was seen, oldest first."""
        with self._store.read() as connection:
            rows = connection.execute("SELECT sha FROM heads WHERE pull = ? ORDER BY id", (number,)).fetchall()
        return [row["sha"] for row in rows]

    def diff(self, number: int) -> str:
        one = self._one(number)
        return diff(self._layout.repo, one.base, one.head)

    def create_pull_request(
        self, *, branch: str, base: str, title: str, body: str, draft: bool, author: str | None = None
    ) -> PullRequest:
        existing = self.pull_request_of_branch(branch)
        if existing is not None:
            return existing
        by = _checked_login(author) if author is not None else self.login()
        title, body = checked_title(title), checked_body(body)
        head, base_sha = self._new_head(branch, base)
        with self._store.write() as connection:
            row = connection.execute(
                "SELECT number FROM pulls WHERE head_branch = ? AND state = 'open'", (branch,)
            ).fetchone()
            number = row["number"] if row is not None else pulls.new_number(connection, "pull")
            if row is None:
                moment = now()
                connection.execute(
                    "INSERT INTO pulls (number, title, body, author, draft, head_branch, base_branch, "
                    "head_seen, base_seen, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (number, title, body, by, int(draft), branch, base, head, base_sha, moment, moment),
                )
                pulls.see_head(connection, number, head, base_sha)
                runs.queue(connection, head, self._plan)
                pulls.write_open_pulls(connection, self._layout)
        update_ref(self._layout.repo, f"refs/pull/{number}/head", head)
        runs.launch(self._store, self._layout)
        self._layout.wake("pulls")
        return self.pull_request(number)

    def _new_head(self, branch: str, base: str) -> tuple[str, str]:
        if branch == base:
            raise BadInput(f"{branch} cannot be asked to go into itself", "Work on a branch of its own.")
        head, base_sha = self._refs.branch(branch), self._refs.branch(base)
        if head is None:
            raise NotSo(f"the forge has no branch {branch}", f"Push it first: git push {self.remote_name} {branch}")
        if base_sha is None:
            raise NotSo(f"the forge has no branch {base} to go into", "Name another one with --base.")
        if commits_between(self._layout.repo, base_sha, head) == 0:
            raise NotSo(f"{branch} has no commit that {base} lacks", "Commit and push the work first.")
        return head, base_sha

    def mark_ready(self, number: int) -> PullRequest:
        self._change_open(number, "can be made ready", "UPDATE pulls SET draft = 0, updated_at = ? WHERE number = ?")
        return self.pull_request(number)

    def close_pull_request(self, number: int) -> PullRequest:
        one = self._one(number)
        if one.row["state"] == "merged":
            raise NotSo(f"pull request #{number} is merged, so it cannot be closed", "")
        with self._store.write() as connection:
            if pulls.row_of(connection, number)["state"] == "open":
                pulls.end(connection, self._layout, number, "closed", f"closed by {self.login()}")
        self._layout.wake("pulls")
        return self.pull_request(number)

    def reopen_pull_request(self, number: int) -> PullRequest:
        row = self._one(number).row
        if row["state"] == "merged":
            raise NotSo(f"pull request #{number} is merged, so it cannot be opened again", "Open a new one.")
        if row["state"] == "closed":
            head, base = self._new_head(row["head_branch"], row["base_branch"])
            with self._store.write() as connection:
                pulls.reopen(connection, self._layout, number, (head, base))
                runs.queue(connection, head, self._plan)
            update_ref(self._layout.repo, f"refs/pull/{number}/head", head)
            runs.launch(self._store, self._layout)
            self._layout.wake("pulls")
        return self.pull_request(number)

    def merge(self, number: int, *, method: Literal["merge", "squash"] = "merge") -> PullRequest:
        """Merge into the base branch, without a checkout. Nothing in taskmaestro calls this by itself.

        Raises ``NotSo`` where it is not open, is a draft or conflicts, ``Unavailable`` where the base moved
        meanwhile.
        """
        one = self._one(number)
        row, repo = one.row, self._layout.repo
        if row["state"] != "open" or row["draft"]:
            state = "a draft" if row["state"] == "open" else row["state"]
            raise NotSo(
                f"pull request #{number} is {state}, so it cannot be merged",
                "Open it and make it ready first.",
            )
        tree = merged_tree(repo, one.base, one.head)
        if tree is None:
            raise NotSo(
                f"pull request #{number} conflicts with {row['base_branch']}",
                "Rebase its branch and push it again.",
            )
        parents = (one.base, one.head) if method == "merge" else (one.base,)
        message = f"{row['title']} (#{number})"
        if method == "merge":
            message = f"Merge pull request #{number} from {row['head_branch']}\n\n{row['title']}"
        commit = commit_tree(repo, tree, parents, message, like=one.head)
        with self._store.write() as connection:
            if pulls.look(self._refs, pulls.row_of(connection, number)).head != one.head:
                raise HeadMovedError(one.head)
            connection.execute("UPDATE pulls SET merged_as = ? WHERE number = ?", (commit, number))
            pulls.end(connection, self._layout, number, "merged", f"merged by {self.login()}")
            pulls.close_its_issues(connection, self._refs, row)
            # Last and inside: a base that moved undoes the rest.
            update_ref(repo, f"refs/heads/{row['base_branch']}", commit, one.base)
        self._layout.wake("push")
        return self.pull_request(number)

    # --- checks ---

    def checks(self, numbers: Sequence[int]) -> dict[int, Checks]:
        """As the port says. One failed check makes the head failed while others still run, as ``gh pr
        checks`` has it.
        """
        seen = self._observe(numbers)
        with self._store.read() as connection:
            found = runs.latest(connection, [one.head for one in seen], self._plan)
        return {one.row["number"]: self._checks_of(one, found.get(one.head, [])) for one in seen}

    def poll(self, numbers: Sequence[int], checks_of: Sequence[int]) -> Polled:
        requests = {pull.number: pull for pull in self.pull_requests(numbers)}
        wanted = sorted(set(checks_of) & set(requests))
        return Polled(requests, self.checks(wanted) if wanted else {})

    def checks_of(self, number: int, head: str) -> Checks:
        one = self._one(number)
        if head == one.head:
            return self.checks([number])[number]
        if head not in self.heads(number):
            raise NotSo(f"pull request #{number} never had the head {one_line(head)}", "See its history.")
        with self._store.read() as connection:
            checks = tuple(_to_check(row) for row in runs.last_of(connection, head))
        states = {check.state for check in checks}
        worst = next((s for s in (CheckState.FAILED, CheckState.PENDING, CheckState.PASSED) if s in states), None)
        return Checks(head=head, state=worst or CheckState.NONE, checks=checks)

    def _checks_of(self, one: pulls.Observed, rows: list[runs.Result]) -> Checks:
        if not self._plan.checks:
            return Checks(head=one.head, state=CheckState.NONE)
        checks = tuple(_to_check(row) for row in rows)
        states = {check.state for check in checks}
        if CheckState.FAILED in states:
            state = CheckState.FAILED
        elif CheckState.PENDING in states or not checks:
            state = CheckState.PENDING if one.row["state"] == "open" else CheckState.NONE
        else:
            state = CheckState.PASSED
        return Checks(head=one.head, state=state, checks=checks)

    def rerun_checks(self, number: int) -> Checks:
        """Run the checks of the current head once more; the earlier run does not count any longer."""
        one = self._one(number)
        if one.row["state"] != "open":
            raise NotSo(f"pull request #{number} is {one.row['state']}, so its checks do not run", "")
        with self._store.write() as connection:
            if self._plan.checks:
                runs.queue_anew(connection, one.head, self._plan)
        runs.launch(self._store, self._layout)
        self._layout.wake("checks")
        return self.checks([number])[number]

    # --- comments and reviews ---

    def comments(self, number: int) -> list[Comment]:
        with self._store.read() as connection:
            pulls.row_of(connection, number)
            return posts.listed(connection, number)

    def comment(self, number: int, body: str, *, marker: str = "", author: str | None = None) -> Posted:
        by = _checked_login(author) if author is not None else self.login()
        with self._store.write() as connection:
            pulls.row_of(connection, number)
            found = posts.find(connection, number, marker)
            posted = found or posts.post(connection, number, posts.Draft("comment", by, body, marker))
        self._layout.wake("posts")
        return posted

    def post_review(self, number: int, *, body: str, verdict: Verdict, head: str, marker: str) -> Posted:
        login = self.login()
        with self._store.write() as connection:
            row = pulls.row_of(connection, number)
            found = posts.find(connection, number, marker)
            if found is not None:
                return found
            if verdict is Verdict.APPROVE:
                self._may_approve(row["state"], number)
                current = pulls.look(self._refs, row).head
                if current != head:
                    raise HeadMovedError(current)
            draft = posts.review_draft(
                login=login,
                own=row["author"] == login,
                verdict=verdict,
                body=body,
                head=head,
                marker=marker,
                earlier=posts.reviewed(connection, number),
            )
            posted = posts.post(connection, number, draft)
        self._layout.wake("posts")
        return posted

    def _may_approve(self, state: str, number: int) -> None:
        if state != "open":
            raise NotSo(f"pull request #{number} is {state}, so it cannot be approved", "Comment on it instead.")

    # --- issues ---

    def issue(self, number: int) -> Issue:
        self._observe(None)  # a merge that is noticed only now closes issues
        return self._issue(number)

    def _issue(self, number: int) -> Issue:
        with self._store.read() as connection:
            return pulls.to_issue(pulls.issue_row(connection, number))

    def issues(self) -> list[Issue]:
        self._observe(None)
        with self._store.read() as connection:
            rows = connection.execute("SELECT * FROM issues WHERE state = 'open' ORDER BY number").fetchall()
        return [pulls.to_issue(row) for row in rows]

    def create_issue(self, title: str, body: str) -> Issue:
        title, body, by = checked_title(title), checked_body(body), self.login()
        with self._store.write() as connection:
            number = pulls.new_number(connection, "issue")
            connection.execute(
                "INSERT INTO issues (number, title, body, author, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)",
                (number, title, body, by, now(), now()),
            )
        return self._issue(number)

    def close_issue(self, number: int) -> Issue:
        with self._store.write() as connection:
            pulls.issue_row(connection, number)
            pulls.close_issues(connection, [number])
        return self._issue(number)

    # --- inside ---

    def _observe(self, numbers: Sequence[int] | None) -> list[pulls.Observed]:
        with self._store.read() as connection:
            rows = pulls.rows_of(connection, numbers)
        seen = self._observer.observe(rows)
        self._see_to_checks(seen)
        return seen

    def _one(self, number: int) -> pulls.Observed:
        with self._store.read() as connection:
            row = pulls.row_of(connection, number)
        seen = self._observer.observe([row])
        self._see_to_checks(seen)
        return seen[0]

    def _see_to_checks(self, seen: list[pulls.Observed]) -> None:
        """Queue runs for open heads that have none (the configuration changed), and see that a runner is
        there.
        """
        if not self._plan.checks:
            return
        heads = {one.head for one in seen if one.row["state"] == "open"}
        with self._store.read() as connection:
            missing = heads - runs.latest(connection, heads, self._plan).keys()
        if missing:
            with self._store.write() as connection:
                for sha in sorted(missing):
                    runs.queue(connection, sha, self._plan)
        runs.launch(self._store, self._layout)

    def _change_open(self, number: int, what: str, statement: str) -> None:
        self._one(number)
        with self._store.write() as connection:
            state = pulls.row_of(connection, number)["state"]
            if state != "open":
                raise NotSo(f"pull request #{number} is {state}; only an open one {what}", "")
            connection.execute(statement, (now(), number))
        self._layout.wake("pulls")


def _to_check(row: runs.Result) -> Check:
    state = CheckState(row["state"])
    if state is CheckState.FAILED:
        head = f"{row['detail']}\n" if row["detail"] and row["detail"] not in row["tail"] else ""
        return Check(name=row["name"], state=state, log_url=row["log"], tail=clean(head + row["tail"]))
    # The type of Check.state leaves out the states that only a head can have.
    checked: Literal[CheckState.PASSED, CheckState.PENDING] = (
        CheckState.PASSED if state is CheckState.PASSED else CheckState.PENDING
    )
    return Check(name=row["name"], state=checked, log_url=row["log"])


def _checked_login(login: str) -> str:
    found = one_line(login, 100)
    if not found:
        raise BadInput(
            "nobody is known to act as: no login",
            f"Set {LOGIN_VARIABLE}, `login` in [forge.local], or `git config user.email`.",
        )
    return found
