"""GitHub's published descriptions: the GraphQL schema and the OpenAPI description, as `scripts/setup` fetched them.

Building the schema takes a second, so the built one is kept beside its source.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import pickle
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import graphql

T = TypeVar("T")

FOLDER = Path(__file__).parents[2] / ".cache" / "github"
GRAPHQL_SOURCE = FOLDER / "schema.graphql"
OPENAPI_SOURCE = FOLDER / "api.github.com.json"
MISSING = "GitHub's schema is not here: scripts/setup --with-github fetches it with npm into .cache/github"

#: What gh asks for and the published schema lacks.
EXTENSION = """
type AssigneeEdge { cursor: String! node: Assignee }
type AssigneeConnection { edges: [AssigneeEdge] nodes: [Assignee] pageInfo: PageInfo! totalCount: Int! }
type IssueType { color: String! description: String id: ID! name: String! }
extend type Issue {
  assignedActors(after: String, before: String, first: Int, last: Int): AssigneeConnection!
  blockedBy(after: String, before: String, first: Int, last: Int): IssueConnection!
  blocking(after: String, before: String, first: Int, last: Int): IssueConnection!
  issueType: IssueType
}
extend type PullRequest {
  assignedActors(after: String, before: String, first: Int, last: Int): AssigneeConnection!
}
input RequestReviewsByLoginInput {
  botLogins: [String!]
  clientMutationId: String
  pullRequestId: ID!
  teamSlugs: [String!]
  union: Boolean = false
  userLogins: [String!]
}
type RequestReviewsByLoginPayload { actor: Actor clientMutationId: String pullRequest: PullRequest }
extend type Mutation {
  requestReviewsByLogin(input: RequestReviewsByLoginInput!): RequestReviewsByLoginPayload
}
"""


def available() -> bool:
    return GRAPHQL_SOURCE.is_file() and OPENAPI_SOURCE.is_file()


def _with_deep_stack(work: Callable[[], T]) -> T:
    """Pickle follows types into types into types: deeper than the usual stack."""
    answers: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(work())
        except BaseException as error:
            failures.append(error)

    before = threading.stack_size(512 * 1024 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    if failures:
        raise failures[0]
    return answers[0]


def _build(source: str) -> graphql.GraphQLSchema:
    document = graphql.parse(source + EXTENSION, no_location=True)
    return graphql.build_ast_schema(document, assume_valid=True, assume_valid_sdl=True)


@lru_cache(maxsize=1)
def graphql_schema() -> graphql.GraphQLSchema:
    source = GRAPHQL_SOURCE.read_text(encoding="utf-8")
    digest = hashlib.sha256(f"{graphql.version}\0{source}{EXTENSION}".encode()).hexdigest()[:16]
    kept = FOLDER / f"schema-{digest}.pickle"
    collecting = gc.isenabled()
    gc.disable()
    try:
        if kept.is_file():
            loaded: graphql.GraphQLSchema = _with_deep_stack(lambda: pickle.loads(kept.read_bytes()))  # noqa: S301 (own file)
            return loaded
        schema = _build(source)
        mine = kept.with_suffix(f".{os.getpid()}")
        mine.write_bytes(_with_deep_stack(lambda: _dumped(schema)))
        mine.replace(kept)
        return schema
    finally:
        if collecting:
            gc.enable()


def _dumped(schema: graphql.GraphQLSchema) -> bytes:
    import sys

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(200_000)
    try:
        return pickle.dumps(schema)
    finally:
        sys.setrecursionlimit(before)


@lru_cache(maxsize=1)
def openapi() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(OPENAPI_SOURCE.read_text(encoding="utf-8"))
    return described
