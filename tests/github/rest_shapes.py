"""REST's picture of the things of the world."""

from __future__ import annotations

from typing import Any

from tests.github import bare
from tests.github.fields import association, commit_node
from tests.github.model import (
    Comment,
    Issue,
    PullRequest,
    Repository,
    Review,
    ReviewComment,
    User,
    stamp,
)
from tests.github.pull_fields import changes_of, commits_of, conflicts, line_now, start_line_now

_USER_URLS = (
    *("followers_url", "following_url", "gists_url", "starred_url", "subscriptions_url", "organizations_url"),
    *("repos_url", "events_url", "received_events_url"),
)
_REPOSITORY_URLS = (
    *("archive", "assignees", "blobs", "branches", "collaborators", "comments", "commits", "compare", "contents"),
    *("contributors", "deployments", "downloads", "events", "forks", "git_commits", "git_refs", "git_tags", "hooks"),
    *("issue_comment", "issue_events", "issues", "keys", "labels", "languages", "merges", "milestones"),
    *("notifications", "pulls", "releases", "stargazers", "statuses", "subscribers", "subscription", "tags", "teams"),
    "trees",
)
_LIKE_AN_ISSUE = (
    *("id", "node_id", "number", "title", "body", "state", "user", "author_association", "labels", "locked"),
    *("assignee", "assignees", "milestone", "created_at", "updated_at", "closed_at", "html_url"),
)


class Shapes:
    """Knows the host, so that URLs are right for it."""

    def __init__(self, host: str) -> None:
        self.web = f"https://{host}"
        self.api = "https://api.github.com" if host == "github.com" else f"https://{host}/api/v3"

    def user(self, user: User) -> dict[str, Any]:
        url = f"{self.api}/users/{user.login}"
        return {
            "login": user.login,
            "id": user.id,
            "node_id": user.node_id,
            "avatar_url": f"https://avatars.githubusercontent.com/u/{user.id}",
            "gravatar_id": "",
            "url": url,
            "html_url": f"{self.web}/{user.login}",
            **{name: f"{url}/{name.removesuffix('_url')}" for name in _USER_URLS},
            "type": "User",
            "site_admin": False,
        }

    def public_user(self, user: User) -> dict[str, Any]:
        absent = dict.fromkeys(("bio", "company", "email", "hireable", "location"))
        counts = dict.fromkeys(("followers", "following", "public_gists", "public_repos"), 0)
        times = {"created_at": stamp(user.created_at), "updated_at": stamp(user.created_at)}
        return {**self.user(user), **absent, **counts, **times, "name": user.name, "blog": ""}

    def repository(self, repository: Repository) -> dict[str, Any]:
        url = f"{self.api}/repos/{repository.full_name}"
        page = f"{self.web}/{repository.full_name}"
        issues = sum(one.state == "OPEN" for one in repository.numbered.values())
        return {
            "id": repository.id,
            "node_id": repository.node_id,
            "name": repository.name,
            "full_name": repository.full_name,
            "owner": self.user(repository.owner),
            "private": repository.private,
            "visibility": "private" if repository.private else "public",
            "html_url": page,
            "description": None,
            "fork": repository.parent is not None,
            "url": url,
            **{f"{name}_url": f"{url}/{name}" for name in _REPOSITORY_URLS},
            "git_url": f"git://github.com/{repository.full_name}.git",
            "ssh_url": f"git@github.com:{repository.full_name}.git",
            "clone_url": f"{page}.git",
            "svn_url": page,
            "mirror_url": None,
            "homepage": None,
            "language": None,
            "license": None,
            **dict.fromkeys(("forks", "forks_count", "stargazers_count", "watchers", "watchers_count", "size"), 0),
            "default_branch": repository.default_branch,
            "open_issues": issues,
            "open_issues_count": issues,
            "has_issues": True,
            **dict.fromkeys(("has_projects", "has_wiki", "has_pages", "has_downloads", "has_discussions"), False),
            "archived": repository.archived,
            "disabled": False,
            "pushed_at": stamp(repository.pushed_at),
            "created_at": stamp(repository.created_at),
            "updated_at": stamp(repository.pushed_at),
            "permissions": {"admin": False, "maintain": False, "push": True, "triage": True, "pull": True},
        }

    def full_repository(self, repository: Repository) -> dict[str, Any]:
        return {**self.repository(repository), "network_count": 0, "subscribers_count": 0}

    # --- issues ---

    def subject_url(self, subject: Issue | PullRequest, kind: str) -> str:
        return f"{self.api}/repos/{subject.repository.full_name}/{kind}/{subject.number}"

    def page(self, subject: Issue | PullRequest) -> str:
        kind = "pull" if isinstance(subject, PullRequest) else "issues"
        return f"{self.web}/{subject.repository.full_name}/{kind}/{subject.number}"

    def issue(self, issue: Issue | PullRequest) -> dict[str, Any]:
        url = self.subject_url(issue, "issues")
        pull = {"pull_request": self.pull_links(issue)} if isinstance(issue, PullRequest) else {}
        reason = issue.state_reason if isinstance(issue, Issue) else None
        return {
            "id": issue.id,
            "node_id": issue.node_id,
            "number": issue.number,
            "title": issue.title,
            "body": issue.body,
            "state": "open" if issue.state == "OPEN" else "closed",
            "state_reason": reason.lower() if reason else None,
            "user": self.user(issue.author),
            "author_association": association(issue, issue.author),
            "labels": [],
            "assignee": None,
            "assignees": [],
            "milestone": None,
            "locked": False,
            "comments": len(issue.comments),
            "created_at": stamp(issue.created_at),
            "updated_at": stamp(issue.updated_at),
            "closed_at": stamp(issue.closed_at),
            "url": url,
            "html_url": self.page(issue),
            "repository_url": f"{self.api}/repos/{issue.repository.full_name}",
            "comments_url": f"{url}/comments",
            "events_url": f"{url}/events",
            "labels_url": f"{url}/labels{{/name}}",
            **pull,
        }

    def pull_links(self, pull: PullRequest) -> dict[str, Any]:
        page = self.page(pull)
        links = {"url": self.subject_url(pull, "pulls"), "html_url": page, "diff_url": f"{page}.diff"}
        return {**links, "patch_url": f"{page}.patch", "merged_at": stamp(pull.merged_at)}

    def comment(self, comment: Comment) -> dict[str, Any]:
        subject = comment.subject
        return {
            "id": comment.id,
            "node_id": comment.node_id,
            "body": comment.body,
            "user": self.user(comment.author),
            "author_association": association(subject, comment.author),
            "created_at": stamp(comment.created_at),
            "updated_at": stamp(comment.updated_at),
            "url": f"{self.api}/repos/{subject.repository.full_name}/issues/comments/{comment.id}",
            "html_url": f"{self.page(subject)}#issuecomment-{comment.id}",
            "issue_url": self.subject_url(subject, "issues"),
        }

    # --- pull requests ---

    def pull(self, pull: PullRequest) -> dict[str, Any]:
        """As in lists."""
        repo = f"{self.api}/repos/{pull.repository.full_name}"
        url, issue, head = f"{repo}/pulls/{pull.number}", f"{repo}/issues/{pull.number}", pull.head
        links = {
            "self": url,
            "html": self.page(pull),
            "issue": issue,
            "comments": f"{issue}/comments",
            "review_comments": f"{url}/comments",
            "review_comment": f"{repo}/pulls/comments{{/number}}",
            "commits": f"{url}/commits",
            "statuses": f"{repo}/statuses/{head}",
        }
        named = {f"{name}_url": links[name] for name in ("issue", "comments", "review_comments", "review_comment")}
        named |= {f"{name}_url": links[name] for name in ("commits", "statuses")}
        shown = self.issue(pull)
        return {
            **{name: shown[name] for name in _LIKE_AN_ISSUE},
            **{name: value for name, value in self.pull_links(pull).items() if name != "html_url"},
            **named,
            "draft": pull.draft,
            "merge_commit_sha": pull.merge_oid,
            "auto_merge": None,
            "requested_reviewers": [self.user(one.user) for one in pull.requests],
            "requested_teams": [],
            "head": self._end(pull.head_repository, pull.head_owner, pull.head_branch, head),
            "base": self._end(pull.repository, pull.repository.owner.login, pull.base_branch, pull.base_oid),
            "_links": {name: {"href": link} for name, link in links.items()},
        }

    def _end(self, repository: Repository | None, owner: str, branch: str, oid: str) -> dict[str, Any]:
        alive = repository is not None and not repository.deleted
        return {
            "label": f"{owner}:{branch}",
            "ref": branch,
            "sha": oid,
            "user": self.user(repository.owner) if alive and repository else None,
            "repo": self.repository(repository) if alive and repository else None,
        }

    def full_pull(self, pull: PullRequest, viewer: User) -> dict[str, Any]:
        changes = changes_of(pull)
        open_now = pull.state == "OPEN"
        conflicting = open_now and conflicts(pull)
        state = "dirty" if conflicting else "draft" if pull.draft else "clean"
        seen = [one for thread in pull.threads for one in PullRequest.visible_comments(thread, viewer)]
        return {
            **self.pull(pull),
            "additions": sum(one.additions for one in changes),
            "deletions": sum(one.deletions for one in changes),
            "changed_files": len(changes),
            "commits": len(commits_of(pull)),
            "comments": len(pull.comments),
            "review_comments": len(seen),
            "mergeable": not conflicting if open_now else None,
            "mergeable_state": state if open_now else "unknown",
            "merged": pull.state == "MERGED",
            "merged_by": self.user(pull.merged_by) if pull.merged_by else None,
            "maintainer_can_modify": False,
        }

    def commit(self, repository: Repository, oid: str) -> dict[str, Any]:
        facts = bare.commit(repository.path, oid)
        url = f"{self.api}/repos/{repository.full_name}/commits/{oid}"
        tree = f"{self.api}/repos/{repository.full_name}/git/trees/{facts.tree}"
        author = {"name": facts.author_name, "email": facts.author_email, "date": facts.authored_at}
        committer = {"name": facts.committer_name, "email": facts.committer_email, "date": facts.committed_at}
        return {
            "sha": oid,
            "node_id": commit_node(repository, oid).node_id,
            "url": url,
            "html_url": f"{self.web}/{repository.full_name}/commit/{oid}",
            "comments_url": f"{url}/comments",
            "commit": {
                "url": url,
                "author": author,
                "committer": committer,
                "message": facts.message,
                "tree": {"sha": facts.tree, "url": tree},
                "comment_count": 0,
            },
            "author": None,
            "committer": None,
            "parents": [{"sha": one, "url": url.replace(oid, one)} for one in facts.parents],
        }

    # --- reviews ---

    def review(self, review: Review) -> dict[str, Any]:
        url = self.subject_url(review.pull, "pulls")
        page = f"{self.page(review.pull)}#pullrequestreview-{review.id}"
        submitted = {"submitted_at": stamp(review.submitted_at)} if review.submitted_at else {}
        return {
            "id": review.id,
            "node_id": review.node_id,
            "user": self.user(review.author),
            "body": review.body,
            "state": review.state,
            "commit_id": review.commit,
            "author_association": association(review.pull, review.author),
            "html_url": page,
            "pull_request_url": url,
            "_links": {"html": {"href": page}, "pull_request": {"href": url}},
            **submitted,
        }

    def review_comment(self, comment: ReviewComment) -> dict[str, Any]:
        thread, pull = comment.thread, comment.thread.pull
        url = f"{self.api}/repos/{pull.repository.full_name}/pulls/comments/{comment.id}"
        page, of = f"{self.page(pull)}#discussion_r{comment.id}", self.subject_url(pull, "pulls")
        reply = {"in_reply_to_id": comment.reply_to.id} if comment.reply_to else {}
        line = line_now(thread)
        return {
            "id": comment.id,
            "node_id": comment.node_id,
            "pull_request_review_id": comment.review.id,
            "user": self.user(comment.author),
            "body": comment.body,
            "path": thread.path,
            "diff_hunk": thread.hunk,
            "commit_id": pull.head if line is not None else thread.commit,
            "original_commit_id": thread.commit,
            "line": line,
            "original_line": thread.line,
            "start_line": start_line_now(thread),
            "original_start_line": thread.start_line,
            "side": thread.side,
            "start_side": thread.side if thread.start_line else None,
            "subject_type": "line",
            "created_at": stamp(comment.created_at),
            "updated_at": stamp(comment.created_at),
            "author_association": association(pull, comment.author),
            "url": url,
            "html_url": page,
            "pull_request_url": of,
            "_links": {"self": {"href": url}, "html": {"href": page}, "pull_request": {"href": of}},
            **reply,
        }
