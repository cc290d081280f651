"""The GraphQL documents. Names and texts of others are variables; only numbers stand in a document itself.

Each query has a name, so that a record of requests says what was asked.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

PAGE = "pageInfo { hasNextPage endCursor }"
BUDGET = "rateLimit { cost remaining limit resetAt }"

PULL = """
fragment Pull on PullRequest {
  id number title body state isDraft url createdAt updatedAt
  author { login }
  headRefName headRefOid isCrossRepository headRepository { nameWithOwner }
  baseRefName baseRefOid baseRef { target { oid } }
}
"""


def _contexts(number: int, *, after: bool = False) -> str:
    """The checks of a commit, with the question whether this pull request requires them."""
    required = f"isRequired(pullRequestNumber: {number})"
    return f"""
statusCheckRollup {{ contexts(first: 100{", after: $after" if after else ""}) {{ {PAGE} nodes {{
  __typename
  ... on CheckRun {{
    id databaseId name status conclusion startedAt completedAt detailsUrl {required}
    checkSuite {{ app {{ slug }} workflowRun {{ databaseId event workflow {{ name }} }} }}
  }}
  ... on StatusContext {{ id context state createdAt targetUrl description {required} }}
}} }} }}
"""


def _repository(query: str, fields: str, *, parameters: str = "", fragments: str = "", budget: bool = False) -> str:
    more = f", {parameters}" if parameters else ""
    return (
        f"query {query}($owner: String!, $name: String!{more}) {{ "
        f"repository(owner: $owner, name: $name) {{ {fields} }} {BUDGET if budget else ''} }}{fragments}"
    )


def pulls(numbers: Sequence[int]) -> str:
    """Many pull requests at once, each as ``p<number>``."""
    return _pulls("Pulls", numbers, ())


def checks(numbers: Sequence[int]) -> str:
    """Many pull requests with the checks of their newest commits, each as ``p<number>``."""
    return _pulls("Checks", numbers, numbers)


def poll(numbers: Sequence[int], checks_of: Container[int]) -> str:
    """Many pull requests, some of them with the checks of their newest commits, each as ``p<number>``."""
    return _pulls("Poll", numbers, checks_of)


def _pulls(query: str, numbers: Sequence[int], checks_of: Container[int]) -> str:
    fields = "\n".join(
        f"p{number}: pullRequest(number: {number}) {{ ...Pull {_newest(number) if number in checks_of else ''} }}"
        for number in numbers
    )
    return _repository(query, fields, fragments=PULL, budget=True)


def _newest(number: int) -> str:
    """The checks of the newest commit, and the names of those that the base requires."""
    return (
        "rule: baseRef { refUpdateRule { requiredStatusCheckContexts } } "
        f"commits(last: 1) {{ nodes {{ commit {{ oid {_contexts(number)} }} }} }}"
    )


def commit_checks(number: int) -> str:
    """A page of the checks of one commit (``$oid``)."""
    return _repository(
        "CommitChecks",
        f"commit: object(oid: $oid) {{ ... on Commit {{ oid {_contexts(number, after=True)} }} }}",
        parameters="$oid: GitObjectID!, $after: String",
    )


OPEN_PULLS = _repository(
    "OpenPulls",
    f"pullRequests(states: OPEN, first: 100, after: $after) {{ {PAGE} nodes {{ ...Pull }} }}",
    parameters="$after: String",
    fragments=PULL,
    budget=True,
)
PULLS_OF_BRANCH = _repository(
    "PullsOfBranch",
    f"id pullRequests(headRefName: $branch, states: OPEN, first: 100, after: $after) {{ {PAGE} nodes {{ ...Pull }} }}",
    parameters="$branch: String!, $after: String",
    fragments=PULL,
)
REPOSITORY = _repository("Repository", "id isArchived hasIssuesEnabled defaultBranchRef { name }")
VIEWER = "query Viewer { viewer { login } }"

TALK = _repository(
    "Talk",
    f"""pullRequest(number: $number) {{ timelineItems(
      itemTypes: [ISSUE_COMMENT, PULL_REQUEST_REVIEW], first: 100, after: $after) {{ {PAGE} nodes {{
        __typename
        ... on IssueComment {{ id url body createdAt author {{ login }} }}
        ... on PullRequestReview {{
          id fullDatabaseId url body createdAt submittedAt state author {{ login }} commit {{ oid }}
        }}
    }} }} }}""",
    parameters="$number: Int!, $after: String",
)
REVIEWS = _repository(
    "Reviews",
    f"""pullRequest(number: $number) {{ ...Pull reviews(first: 100, after: $after) {{ {PAGE} nodes {{
        id fullDatabaseId url body createdAt submittedAt state
        author {{ login }} commit {{ oid }} comments {{ totalCount }}
    }} }} }}""",
    parameters="$number: Int!, $after: String",
    fragments=PULL,
)
REQUESTED = _repository(
    "Requested",
    f"""pullRequest(number: $number) {{ reviewRequests(first: 100, after: $after) {{ {PAGE} nodes {{
        requestedReviewer {{ __typename ... on User {{ login }} ... on Bot {{ login }} ... on Mannequin {{ login }}
          ... on Team {{ combinedSlug }} }}
    }} }} }}""",
    parameters="$number: Int!, $after: String",
)
_THREAD_COMMENTS = f"""{{ {PAGE} nodes {{
  id url body createdAt state author {{ login }}
  originalCommit {{ oid }} commit {{ oid }} pullRequestReview {{ fullDatabaseId }}
}} }}"""
THREADS = _repository(
    "Threads",
    f"""pullRequest(number: $number) {{ reviewThreads(first: 100, after: $after) {{ {PAGE} nodes {{
        id path line isResolved comments(first: 50) {_THREAD_COMMENTS}
    }} }} }}""",
    parameters="$number: Int!, $after: String",
)
THREAD_COMMENTS = f"""query ThreadComments($thread: ID!, $after: String) {{ node(id: $thread) {{
  ... on PullRequestReviewThread {{ comments(first: 100, after: $after) {_THREAD_COMMENTS}
}} }} }}"""
HISTORY = _repository(
    "History",
    f"""pullRequest(number: $number) {{ createdAt timelineItems(
      itemTypes: [PULL_REQUEST_COMMIT, HEAD_REF_FORCE_PUSHED_EVENT], first: 100, after: $after) {{ {PAGE} nodes {{
        __typename
        ... on PullRequestCommit {{ commit {{ oid committedDate }} }}
        ... on HeadRefForcePushedEvent {{ createdAt
          beforeCommit {{ oid committedDate }} afterCommit {{ oid committedDate }} }}
    }} }} }}""",
    parameters="$number: Int!, $after: String",
)

_ISSUE = "id number title body state"
ISSUE = _repository(
    "Issue",
    f"issueOrPullRequest(number: $number) {{ __typename ... on Issue {{ {_ISSUE} }} }}",
    parameters="$number: Int!",
)
CLOSING_PULLS = _repository(
    "ClosingPulls",
    f"issueOrPullRequest(number: $number) {{ __typename ... on Issue {{ closedByPullRequestsReferences("
    f"first: 100, after: $after, includeClosedPrs: true) {{ {PAGE} nodes {{ ...Pull repository {{ nameWithOwner }} }} "
    "} } }",
    parameters="$number: Int!, $after: String",
    fragments=PULL,
)
ISSUES = _repository(
    "Issues",
    f"issues(states: OPEN, first: 100, after: $after, orderBy: {{field: CREATED_AT, direction: ASC}}) "
    f"{{ {PAGE} nodes {{ {_ISSUE} }} }}",
    parameters="$after: String",
)
NEWEST_ISSUES = _repository(
    "NewestIssues", f"issues(first: 50, orderBy: {{field: CREATED_AT, direction: DESC}}) {{ nodes {{ {_ISSUE} }} }}"
)


def _mutation(verb: str, answer: str, fragments: str = "") -> str:
    kind = f"{verb[0].upper()}{verb[1:]}Input!"
    return f"mutation($input: {kind}) {{ {verb}(input: $input) {{ {answer} }} }}{fragments}"


_REVIEW = (
    "pullRequestReview { id fullDatabaseId url body state author { login } commit { oid } comments { totalCount } }"
)

ADD_COMMENT = _mutation("addComment", "commentEdge { node { id url } }")
ADD_REVIEW = _mutation("addPullRequestReview", _REVIEW)
SUBMIT_REVIEW = _mutation("submitPullRequestReview", _REVIEW)
DELETE_REVIEW = _mutation("deletePullRequestReview", "pullRequestReview { id }")
ADD_REPLY = _mutation("addPullRequestReviewThreadReply", "comment { id url state }")
RESOLVE = _mutation("resolveReviewThread", "thread { id isResolved }")
CREATE_PULL = _mutation("createPullRequest", "pullRequest { ...Pull }", PULL)
READY = _mutation("markPullRequestReadyForReview", "pullRequest { ...Pull }", PULL)
CLOSE_PULL = _mutation("closePullRequest", "pullRequest { ...Pull }", PULL)
REOPEN_PULL = _mutation("reopenPullRequest", "pullRequest { ...Pull }", PULL)
CREATE_ISSUE = _mutation("createIssue", f"issue {{ {_ISSUE} }}")
CLOSE_ISSUE = _mutation("closeIssue", f"issue {{ {_ISSUE} }}")


def all_documents() -> dict[str, str]:
    """Every document by name, for the test that holds them against GitHub's published schema."""
    fixed = {name: value for name, value in globals().items() if name.isupper() and isinstance(value, str)}
    found = {name: value for name, value in fixed.items() if value.startswith(("query", "mutation"))}
    return {
        **found,
        "pulls": pulls([1, 2]),
        "checks": checks([1, 2]),
        "poll": poll([1, 2], [2]),
        "commit_checks": commit_checks(1),
    }
