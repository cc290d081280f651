"""Issues on GitHub."""

from __future__ import annotations

from conductor.forge.github import queries
from conductor.forge.github.base import GithubBase, Node
from conductor.forge.github.marks import bare, marked, stands_in
from conductor.forge.github.redact import redacted
from conductor.forge.texts import checked_title
from schemas.errors import NotSo
from schemas.forge import Issue, PullRequest


class IssuesOnGithub(GithubBase):
    """Read, list, make and close issues."""

    def issue(self, number: int) -> Issue:
        node = self._issue(number)
        with self._api.shaped(f"issue #{number}"):
            return _to_issue(node)

    def _issue(self, number: int) -> Node:
        node = self._api.query(
            queries.ISSUE,
            {"number": number},
            lambda data: data["repository"]["issueOrPullRequest"],
            what=f"issue #{number}",
            absent=True,
        )
        if node is None or node["__typename"] != "Issue":
            other = "" if node is None else ", it is a pull request"
            raise NotSo(f"there is no issue #{number} on GitHub{other}", "See `taskmaestro issue list`.")
        found: Node = node
        return found

    def issues(self) -> list[Issue]:
        nodes = self._api.pages(queries.ISSUES, {}, lambda data: data["repository"]["issues"], what="the open issues")
        with self._api.shaped("the open issues"):
            return sorted((_to_issue(node) for node in nodes or []), key=lambda issue: issue.number)

    def pull_requests_closing(self, issue: int) -> list[PullRequest]:
        """Those of this repository whose text closes the issue, in any state, oldest first."""

        def read(data: Node) -> Node | None:
            node = data["repository"]["issueOrPullRequest"]
            if node is None or node["__typename"] != "Issue":
                return None
            found: Node = node["closedByPullRequestsReferences"]
            return found

        what = f"the pull requests of issue #{issue}"
        nodes = self._api.pages(queries.CLOSING_PULLS, {"number": issue}, read, what=what, absent=True)
        own = [node for node in nodes or [] if self._api.place.same(node["repository"]["nameWithOwner"])]
        return sorted(self._to_pulls(own), key=lambda pull: pull.number)

    def create_issue(self, title: str, body: str) -> Issue:
        line, text = checked_title(title), marked(body, "", empty=True)

        def change() -> Issue:
            return self._api.change(
                queries.CREATE_ISSUE,
                {"input": {"repositoryId": self._repository()["id"], "title": redacted(line), "body": text.body}},
                lambda data: _to_issue(data["createIssue"]["issue"]),
                what="the new issue",
            )

        def look() -> Issue | None:
            nodes = self._api.query(
                queries.NEWEST_ISSUES, {}, lambda data: data["repository"]["issues"]["nodes"], what="the newest issues"
            )
            found = next((node for node in nodes if node and stands_in(node["body"], text.marker)), None)
            return None if found is None else _to_issue(found)

        return self._api.once(change, look)

    def close_issue(self, number: int) -> Issue:
        node = self._issue(number)
        if node["state"] != "OPEN":
            return _to_issue(node)

        def look() -> Issue | None:
            now = self.issue(number)
            return now if now.state == "closed" else None

        return self._api.once(
            lambda: self._api.change(
                queries.CLOSE_ISSUE,
                {"input": {"issueId": node["id"]}},
                lambda data: _to_issue(data["closeIssue"]["issue"]),
                what=f"issue #{number}",
            ),
            look,
        )


def _to_issue(node: Node) -> Issue:
    return Issue(
        number=node["number"],
        title=redacted(node["title"]),
        body=bare(node["body"]),
        state="open" if node["state"] == "OPEN" else "closed",
    )
