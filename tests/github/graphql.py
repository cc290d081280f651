"""Runs GraphQL queries and mutations over GitHub's published schema.

A field, an argument or an input that is not modelled is an error and is recorded in ``unmodelled``: never null.
"""

from __future__ import annotations

import base64
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import graphql as core
from graphql.language import (
    FieldNode,
    FragmentSpreadNode,
    InlineFragmentNode,
    IntValueNode,
    SelectionSetNode,
    VariableNode,
)

from tests.github.model import User, World
from tests.github.rules import Refused
from tests.github.schema import graphql_schema

PAGE_LIMIT = 100
RULES = [rule for rule in core.specified_rules if rule is not core.OverlappingFieldsCanBeMergedRule]


class Unmodelled(Exception):
    """Asked for something that the stand-in does not model."""


@dataclass
class Context:
    """What resolvers get to see. ``limits`` are the rate-limit numbers that ``rateLimit`` answers."""

    world: World
    viewer: User
    unmodelled: list[str]
    cost: int = 1
    node_count: int = 0
    limits: Mapping[str, Any] = field(default_factory=dict)
    page_cap: int = PAGE_LIMIT
    """Pages have no more than this, so that few things fill several pages."""


Resolver = Callable[..., Any]
#: GraphQL type -> field -> how to answer it: called with the thing, the context and the arguments given.
Fields = dict[str, Resolver]
FIELDS: dict[str, Fields] = {}
#: The class of a thing -> its GraphQL type.
TYPES: dict[type[Any], str] = {}
MUTATIONS: Fields = {}


def accepts(resolver: Resolver, *given: Any, **named: Any) -> bool:
    try:
        inspect.signature(resolver).bind(*given, **named)
    except TypeError:
        return False
    return True


def _resolve(source: Any, info: core.GraphQLResolveInfo[Any], **arguments: Any) -> Any:
    context: Context = info.context
    type_name, name = info.parent_type.name, info.field_name
    where = f"{type_name}.{name}"
    for word in ("first", "last"):
        if isinstance(arguments.get(word), int) and arguments[word] <= PAGE_LIMIT:
            arguments[word] = min(arguments[word], context.page_cap)
    if isinstance(source, dict) and type_name not in ("Query", "Mutation"):
        if name not in source:
            raise _note(context, where)
        value = source[name]
        if not callable(value):
            return value
        resolver: Resolver = lambda _source, _context, **named: value(**named)  # noqa: E731
    else:
        table = MUTATIONS if type_name == "Mutation" else FIELDS.get(type_name, {})
        found = table.get(name)
        if found is None:
            raise _note(context, where)
        resolver = found
    if arguments and not accepts(resolver, source, context, **arguments):
        raise _note(context, f"{where}({', '.join(sorted(arguments))})")
    try:
        return resolver(source, context, **arguments)
    except Unmodelled as error:
        raise _note(context, f"{where}: {error}") from None


def _note(context: Context, what: str) -> Unmodelled:
    if what not in context.unmodelled:
        context.unmodelled.append(what)
    return Unmodelled(f"the stand-in does not model {what}")


def _type_of(value: Any, info: core.GraphQLResolveInfo[Any], abstract: Any) -> str:
    if isinstance(value, dict):
        return str(value["__typename"])
    if getattr(value, "removed", False):
        return "ReviewRequestRemovedEvent"
    return TYPES[type(value)]


# --- pages ---


def connection(items: Sequence[Any], name: str, /, **asked: Any) -> dict[str, Any]:
    """One page: ``asked`` has first, last, after and before as they came."""
    first, last = asked.pop("first", None), asked.pop("last", None)
    after, before = asked.pop("after", None), asked.pop("before", None)
    if asked:
        raise Unmodelled(f"arguments {', '.join(sorted(asked))}")
    for word, size in (("first", first), ("last", last)):
        if size is not None and not 0 <= size <= PAGE_LIMIT:
            message = f"Requesting {size} records on the `{name}` connection exceeds the `{word}` limit of 100 records."
            raise Refused(message, "EXCESSIVE_PAGINATION")
    start, stop = 0, len(items)
    if after:
        start = min(stop, _position(after) + 1)
    if before:
        stop = max(start, min(stop, _position(before)))
    if first is not None:
        stop = min(stop, start + first)
    if last is not None:
        start = max(start, stop - last)
    nodes = list(items[start:stop])
    cursors = [_cursor(at) for at in range(start, stop)]
    edges = [{"node": node, "cursor": cursor} for node, cursor in zip(nodes, cursors, strict=True)]

    def bounded(value: Any) -> Any:
        """What lies on a page is told to whoever says how long a page is; counts are told to all."""
        if first is None and last is None:
            message = f"You must provide a `first` or `last` value to properly paginate the `{name}` connection."
            raise Refused(message, "MISSING_PAGINATION_BOUNDARIES")
        return value

    return {
        "nodes": lambda: bounded(nodes),
        "edges": lambda: bounded(edges),
        "totalCount": len(items),
        "pageInfo": {
            "hasNextPage": stop < len(items),
            "hasPreviousPage": start > 0,
            "startCursor": cursors[0] if cursors else None,
            "endCursor": cursors[-1] if cursors else None,
        },
    }


def _cursor(at: int) -> str:
    return base64.b64encode(f"cursor:v2:{at}".encode()).decode()


def _position(cursor: str) -> int:
    try:
        return int(base64.b64decode(cursor, validate=True).decode().removeprefix("cursor:v2:"))
    except ValueError:
        raise Refused(f"`{cursor}` does not appear to be a valid cursor.", "INVALID_CURSOR_ARGUMENTS") from None


# --- points ---


class _Counter:
    """The published formula: the requests for each connection, were every page full, by the hundred."""

    def __init__(self, document: core.DocumentNode, variables: Mapping[str, Any]) -> None:
        self.variables = variables
        self.fragments = {
            one.name.value: one for one in document.definitions if isinstance(one, core.FragmentDefinitionNode)
        }
        self.requests = 0
        self.nodes = 0

    def walk(self, selection: SelectionSetNode | None, times: int) -> None:
        for one in selection.selections if selection else ():
            if isinstance(one, FragmentSpreadNode):
                self.walk(self.fragments[one.name.value].selection_set, times)
            elif isinstance(one, InlineFragmentNode):
                self.walk(one.selection_set, times)
            elif isinstance(one, FieldNode):
                size = self._size(one)
                if size is not None:
                    self.requests += times
                    self.nodes += times * size
                self.walk(one.selection_set, times * (size or 1))

    def _size(self, node: FieldNode) -> int | None:
        for argument in node.arguments or ():
            if argument.name.value in ("first", "last"):
                value = argument.value
                if isinstance(value, IntValueNode):
                    return int(value.value)
                if isinstance(value, VariableNode):
                    return int(self.variables.get(value.name.value) or 0)
        return None


def count(document: core.DocumentNode, operation: core.OperationDefinitionNode, given: Mapping[str, Any]) -> _Counter:
    defaults = {
        one.variable.name.value: core.value_from_ast_untyped(one.default_value)
        for one in operation.variable_definitions or ()
        if one.default_value is not None
    }
    counter = _Counter(document, {**defaults, **given})
    counter.walk(operation.selection_set, 1)
    return counter


# --- a call ---


@dataclass(frozen=True)
class Call:
    """A request to /graphql, read. ``problem`` is set where it cannot be run."""

    document: core.DocumentNode | None
    operation: core.OperationDefinitionNode | None
    variables: Mapping[str, Any]
    problem: dict[str, Any] | None = None
    cost: int = 1
    node_count: int = 0

    @property
    def text(self) -> str:
        """The document as it came."""
        source = self.document.loc.source if self.document and self.document.loc else None
        return source.body if source else ""

    @property
    def name(self) -> str:
        return self.operation.name.value if self.operation and self.operation.name else ""

    @property
    def fields(self) -> tuple[str, ...]:
        """The root fields: for a mutation, what it does."""
        selections = self.operation.selection_set.selections if self.operation else ()
        return tuple(one.name.value for one in selections if isinstance(one, FieldNode))

    @property
    def mutation(self) -> bool:
        return self.operation is not None and self.operation.operation is core.OperationType.MUTATION


#: Importing them fills the tables.
TABLES = tuple(f"tests.github.{name}" for name in ("fields", "check_fields", "pull_fields", "mutations", "search"))


def read(query: str, variables: Mapping[str, Any] | None, operation_name: str | None = None) -> Call:
    for table in TABLES:
        importlib.import_module(table)
    given = variables or {}
    try:
        document = core.parse(query)
    except core.GraphQLSyntaxError as error:
        return Call(None, None, given, {"errors": [{"message": error.message, "type": "PARSE_ERROR"}]})
    operation = core.get_operation_ast(document, operation_name)
    if operation is None:
        return Call(document, None, given, {"errors": [{"message": "An operation name is required"}]})
    failures = core.validate(graphql_schema(), document, RULES)
    if failures:
        return Call(document, operation, given, {"errors": [one.formatted for one in failures]})
    counted = count(document, operation, given)
    cost = max(1, round(counted.requests / 100))
    return Call(document, operation, given, None, cost, counted.nodes)


def run(call: Call, context: Context) -> dict[str, Any]:
    if call.problem is not None:
        return dict(call.problem)
    assert call.document is not None
    context.cost, context.node_count = call.cost, call.node_count
    result = core.execute_sync(
        graphql_schema(),
        call.document,
        root_value={},
        context_value=context,
        variable_values=dict(call.variables),
        operation_name=call.name or None,
        field_resolver=_resolve,
        type_resolver=_type_of,
    )
    answer: dict[str, Any] = {"data": result.data}
    if result.errors:
        answer["errors"] = [_error(one) for one in result.errors]
    return answer


def _error(error: core.GraphQLError) -> dict[str, Any]:
    cause = error.original_error
    told: dict[str, Any] = dict(error.formatted)
    if isinstance(cause, Refused):
        told = {"type": cause.kind, **told}
    elif isinstance(cause, Unmodelled):
        told = {"type": "STANDIN_UNMODELLED", **told}
    elif cause is not None:
        raise cause
    return told
