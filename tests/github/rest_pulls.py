"""REST endpoints of pull requests, reviews and review comments."""

from __future__ import annotations

from typing import Any

from tests.github import bare, review_rules, rules
from tests.github.model import PullRequest, Review, ReviewComment
from tests.github.pull_fields import changes_of, commits_of
from tests.github.rest import Asked, NotModelledError, endpoint, missing, page
from tests.github.review_rules import DraftComment
from tests.github.web import Answer

PULLS = "/repos/{owner}/{repo}/pulls"
PULL = f"{PULLS}/{{pull_number}}"
REVIEW = f"{PULL}/reviews/{{review_id}}"


@endpoint("GET", PULLS)
def pulls(asked: Asked) -> Answer:
    """Newest first."""
    query = asked.queried("state", "head", "base")
    wanted = query.get("state", "open")
    chosen = [
        one
        for one in reversed(asked.repository.pulls)
        if (wanted == "all" or (one.state == "OPEN") == (wanted == "open"))
        and query.get("head") in (None, f"{one.head_owner}:{one.head_branch}")
        and query.get("base") in (None, one.base_branch)
    ]
    return page(asked, chosen, asked.shapes.pull)


@endpoint("POST", PULLS)
def new_pull(asked: Asked) -> Answer:
    body = asked.taking("title", "body", "head", "base", "draft")
    made = rules.create_pull_request(
        asked.world,
        asked.repository,
        asked.viewer,
        title=str(body.get("title", "")),
        body=body.get("body") or "",
        head=body["head"],
        base=body["base"],
        draft=bool(body.get("draft")),
    )
    return Answer.of_json(201, asked.shapes.full_pull(made, asked.viewer))


@endpoint("GET", PULL)
def pull(asked: Asked) -> Answer:
    found = asked.pull
    accept = asked.request.headers.get("accept", "")
    for kind, read in (("diff", bare.diff_text), ("patch", bare.patch_text)):
        if f".{kind}" in accept:
            text = read(found.repository.path, found.base_oid, found.head)
            return Answer(200, text, {"Content-Type": f"application/vnd.github.{kind}; charset=utf-8"})
    return Answer.of_json(200, asked.shapes.full_pull(found, asked.viewer))


@endpoint("PATCH", PULL)
def change_pull(asked: Asked) -> Answer:
    found, body = asked.pull, asked.taking("title", "body", "state")
    if body.get("state") == "closed" and found.state == "OPEN":
        rules.close_pull_request(found)
    if body.get("state") == "open" and found.state != "OPEN":
        rules.reopen_pull_request(asked.world, found)
    rules.update_text(found, body.get("title"), body.get("body"))
    return Answer.of_json(200, asked.shapes.full_pull(found, asked.viewer))


@endpoint("GET", f"{PULL}/commits")
def pull_commits(asked: Asked) -> Answer:
    found = asked.pull
    return page(asked, commits_of(found), lambda oid: asked.shapes.commit(found.repository, oid))


@endpoint("GET", f"{PULL}/files")
def pull_files(asked: Asked) -> Answer:
    found = asked.pull
    url = f"{asked.shapes.api}/repos/{found.repository.full_name}/contents"

    def shape(change: bare.FileChange) -> dict[str, Any]:
        blob = bare.git(found.repository.path, "rev-parse", f"{found.head}:{change.path}")
        renamed = {"previous_filename": change.previous} if change.previous != change.path else {}
        return {
            "sha": blob,
            "filename": change.path,
            "status": change.status,
            "additions": change.additions,
            "deletions": change.deletions,
            "changes": change.additions + change.deletions,
            "patch": change.patch,
            **{f"{word}_url": f"{url}/{change.path}?ref={found.head}" for word in ("blob", "raw", "contents")},
            **renamed,
        }

    return page(asked, changes_of(found), shape)


# --- requested reviewers ---


@endpoint("GET", f"{PULL}/requested_reviewers")
def requested(asked: Asked) -> Answer:
    users = [asked.shapes.user(one.user) for one in asked.pull.requests]
    return Answer.of_json(200, {"users": users, "teams": []})


@endpoint("POST", f"{PULL}/requested_reviewers")
def request(asked: Asked) -> Answer:
    found, logins = asked.pull, asked.taking("reviewers").get("reviewers", [])
    unknown = [one for one in logins if one.lower() not in asked.world.users]
    if unknown:
        raise rules.Refused(
            "Reviews may only be requested from collaborators. One or more of the users or teams you specified is "
            f"not a collaborator of the {found.repository.full_name} repository."
        )
    rules.request_reviews(asked.world, found, asked.viewer, [asked.user(one) for one in logins])
    return Answer.of_json(201, asked.shapes.pull(found))


@endpoint("DELETE", f"{PULL}/requested_reviewers")
def withdraw(asked: Asked) -> Answer:
    found, logins = asked.pull, asked.taking("reviewers")["reviewers"]
    users = [asked.world.users[one.lower()] for one in logins if one.lower() in asked.world.users]
    rules.withdraw_requests(asked.world, found, asked.viewer, users)
    return Answer.of_json(200, asked.shapes.pull(found))


# --- reviews ---


def _review(asked: Asked) -> Review:
    wanted = int(asked.parameters["review_id"])
    found = next((one for one in asked.pull.visible_reviews(asked.viewer) if one.id == wanted), None)
    if found is None:
        raise missing()
    return found


def _draft(given: dict[str, Any]) -> DraftComment:
    if "position" in given or "line" not in given:
        raise NotModelledError("comments by position")
    side = given.get("side", "RIGHT")
    return DraftComment(given["path"], given["line"], given["body"], side, given.get("start_line"))


@endpoint("GET", f"{PULL}/reviews")
def reviews(asked: Asked) -> Answer:
    return page(asked, asked.pull.visible_reviews(asked.viewer), asked.shapes.review)


@endpoint("POST", f"{PULL}/reviews")
def new_review(asked: Asked) -> Answer:
    body = asked.taking("commit_id", "body", "event", "comments")
    made = review_rules.add_review(
        asked.world,
        asked.pull,
        asked.viewer,
        event=body.get("event"),
        body=body.get("body") or "",
        commit=body.get("commit_id"),
        comments=[_draft(one) for one in body.get("comments", ())],
    )
    return Answer.of_json(200, asked.shapes.review(made))


@endpoint("GET", REVIEW)
def review(asked: Asked) -> Answer:
    return Answer.of_json(200, asked.shapes.review(_review(asked)))


@endpoint("PUT", REVIEW)
def change_review(asked: Asked) -> Answer:
    found = _review(asked)
    if found.author is not asked.viewer:
        raise rules.Refused("Only the author may change a review", "FORBIDDEN")
    found.body = rules.checked_body(asked.taking("body")["body"])
    return Answer.of_json(200, asked.shapes.review(found))


@endpoint("DELETE", REVIEW)
def delete_review(asked: Asked) -> Answer:
    found = _review(asked)
    review_rules.delete_review(asked.world, found, asked.viewer)
    return Answer.of_json(200, asked.shapes.review(found))


@endpoint("PUT", f"{REVIEW}/dismissals")
def dismiss(asked: Asked) -> Answer:
    found = _review(asked)
    review_rules.dismiss_review(found, asked.taking("message", "event")["message"])
    return Answer.of_json(200, asked.shapes.review(found))


@endpoint("POST", f"{REVIEW}/events")
def submit(asked: Asked) -> Answer:
    body, found = asked.taking("event", "body"), _review(asked)
    review_rules.submit_review(found, asked.viewer, body["event"], body.get("body"))
    return Answer.of_json(200, asked.shapes.review(found))


# --- review comments ---


@endpoint("GET", f"{PULL}/comments")
def review_comments(asked: Asked) -> Answer:
    """Those that are submitted, oldest first."""
    asked.queried()
    submitted = [one for thread in asked.pull.threads for one in thread.comments if one.review.state != "PENDING"]
    return page(asked, sorted(submitted, key=lambda one: one.id), asked.shapes.review_comment)


@endpoint("POST", f"{PULL}/comments")
def new_review_comment(asked: Asked) -> Answer:
    """A review of its own with one comment, submitted at once."""
    body = asked.taking("body", "commit_id", "path", "line", "side", "start_line", "start_side")
    comment = [_draft(body)]
    made = review_rules.add_review(
        asked.world, asked.pull, asked.viewer, event="COMMENT", commit=body["commit_id"], comments=comment
    )
    return Answer.of_json(201, asked.shapes.review_comment(made.comments[0]))


def _comment(found: PullRequest, comment_id: int) -> ReviewComment:
    everything = (one for thread in found.threads for one in thread.comments)
    comment = next((one for one in everything if one.id == comment_id and one.review.state != "PENDING"), None)
    if comment is None:
        raise missing()
    return comment


@endpoint("POST", f"{PULL}/comments/{{comment_id}}/replies")
def reply(asked: Asked) -> Answer:
    found = _comment(asked.pull, int(asked.parameters["comment_id"]))
    made = review_rules.reply(asked.world, found.thread, asked.viewer, asked.taking("body")["body"])
    return Answer.of_json(201, asked.shapes.review_comment(made))
