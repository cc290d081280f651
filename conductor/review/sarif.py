"""What scanners print, read with tolerance: SARIF 2.1.0, and reviewdog's rdjson and rdjsonl.

Only the parts that a review uses are modelled; unknown ones are passed over. What cannot be read is a fault
with its place, never an empty list of results.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from schemas.errors import BadInput, Unavailable
from schemas.text import one_line


@dataclass(frozen=True)
class ToolResult:
    """One result of a tool: a place in the checkout (path relative, lines from 1, both ends included) and
    words.

    ``line`` is 0 where the tool speaks of the file as a whole.
    """

    path: str
    line: int
    end_line: int
    level: str
    rule: str
    message: str
    tool: str
    security_severity: float | None = None


class _Part(BaseModel):
    """A part of a log: unknown fields are ignored, names are camelCase."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class _Text(_Part):
    text: str | None = None
    markdown: str | None = None


class _Message(_Text):
    id: str | None = None
    arguments: tuple[str, ...] = ()


class _Artifact(_Part):
    uri: str | None = None
    uri_base_id: str | None = None
    index: int = -1


class _Region(_Part):
    start_line: int | None = None
    end_line: int | None = None


class _Physical(_Part):
    artifact_location: _Artifact | None = None
    region: _Region | None = None


class _Location(_Part):
    physical_location: _Physical | None = None


class _Configuration(_Part):
    level: str | None = None


class _Rule(_Part):
    id: str = ""
    default_configuration: _Configuration = _Configuration()
    message_strings: dict[str, _Text] = Field(default_factory=dict)
    properties: dict[str, Any] = Field(default_factory=dict)


class _Component(_Part):
    name: str = ""
    rules: tuple[_Rule, ...] = ()


class _Tool(_Part):
    driver: _Component
    extensions: tuple[_Component, ...] = ()


class _ComponentReference(_Part):
    index: int = -1


class _RuleReference(_Part):
    id: str | None = None
    index: int = -1
    tool_component: _ComponentReference | None = None


class _Suppression(_Part):
    status: str | None = None


class _Result(_Part):
    rule_id: str | None = None
    rule_index: int = -1
    rule: _RuleReference | None = None
    kind: str = "fail"
    level: str | None = None
    message: _Message = _Message()
    locations: tuple[_Location, ...] = ()
    suppressions: tuple[_Suppression, ...] | None = None
    baseline_state: str | None = None


class _Notification(_Part):
    level: str = "warning"
    message: _Message = _Message()


class _Invocation(_Part):
    execution_successful: bool = True
    tool_execution_notifications: tuple[_Notification, ...] = ()
    tool_configuration_notifications: tuple[_Notification, ...] = ()


class _ArtifactEntry(_Part):
    location: _Artifact | None = None


class _Run(_Part):
    tool: _Tool
    results: tuple[_Result, ...] | None = None
    artifacts: tuple[_ArtifactEntry, ...] = ()
    invocations: tuple[_Invocation, ...] = ()
    original_uri_base_ids: dict[str, _Artifact] = Field(default_factory=dict)


class SarifLog(_Part):
    """A SARIF log: one run for each tool."""

    version: str
    runs: tuple[_Run, ...]


_PLACEHOLDER = re.compile(r"\{(\d{1,3})\}")
_NOT_A_PROBLEM = ("pass", "notApplicable", "informational")
_KNOWN_BEFORE = ("unchanged", "absent")


def read_results(text: str, checkout: Path, *, tool: str) -> list[ToolResult]:
    """The results in a tool's output that lie in the checkout; ``tool`` names it where the output does not.

    Left out: results that passed, were suppressed, or stood in the tool's baseline unchanged. Raises
    ``BadInput`` where the output is none of the formats, ``Unavailable`` where the tool says itself that it
    did not succeed.
    """
    try:
        value = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as fault:
        lines = _json_lines(text)
        if lines is None:
            raise _unreadable(tool, f"not JSON ({one_line(str(fault), 120)})", text) from fault
        value = {"diagnostics": lines}
    if not isinstance(value, dict):
        raise _unreadable(tool, "not an object", text)
    try:
        if "runs" in value:
            return list(_of_sarif(SarifLog.model_validate(value), checkout, tool))
        if "diagnostics" in value:
            return list(_of_rdjson(_RdResult.model_validate(value), checkout, tool))
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise _unreadable(tool, f"{place}: {first['msg']}", text) from fault
    raise _unreadable(tool, "an object with neither `runs` (SARIF) nor `diagnostics` (rdjson)", text)


def _unreadable(tool: str, why: str, text: str) -> BadInput:
    shown = one_line(text, 80) or "(nothing)"
    return BadInput(
        f"the output of {tool} is not SARIF 2.1.0 or rdjson: {why}; it begins: {shown}",
        "Have the command print one of these, and nothing else, on its standard output.",
    )


# --- SARIF


def _of_sarif(log: SarifLog, checkout: Path, tool: str) -> Iterator[ToolResult]:
    if not log.version.startswith("2."):
        raise BadInput(f"{tool} printed SARIF {one_line(log.version, 20)}", "Have it print SARIF 2.1.0.")
    for run in log.runs:
        name = one_line(run.tool.driver.name, 60) or tool
        _check_success(run, name)
        if run.results is None:
            raise Unavailable(f"{name} printed a run without results", "See what it says on its standard error.")
        for result in run.results:
            if _counts(result):
                yield from _one(result, run, checkout, name)


def _check_success(run: _Run, name: str) -> None:
    for invocation in run.invocations:
        if not invocation.execution_successful:
            notes = invocation.tool_execution_notifications + invocation.tool_configuration_notifications
            said = next((note.message.text for note in notes if note.message.text), "it does not say why")
            raise Unavailable(f"{name} did not succeed: {one_line(said, 300)}", "Mend its configuration.")


def _counts(result: _Result) -> bool:
    if result.kind in _NOT_A_PROBLEM or result.baseline_state in _KNOWN_BEFORE:
        return False
    # A suppression counts unless it is still asked for or was turned down (SARIF 3.27.23).
    states = {item.status for item in result.suppressions or ()}
    return not states or bool(states & {"underReview", "rejected"})


def _one(result: _Result, run: _Run, checkout: Path, tool: str) -> Iterator[ToolResult]:
    physical = next((place.physical_location for place in result.locations if place.physical_location), None)
    if physical is None or physical.artifact_location is None:
        return
    path = _path(physical.artifact_location, run, checkout)
    if path is None:
        return
    rule = _rule(result, run)
    region = physical.region or _Region()
    start = max(0, region.start_line or 0)
    reference = result.rule or _RuleReference()
    yield ToolResult(
        path=path,
        line=start,
        end_line=max(start, region.end_line or start),
        level=result.level or rule.default_configuration.level or "warning",
        rule=one_line(result.rule_id or reference.id or rule.id or "unnamed", 120),
        message=one_line(_message(result.message, rule), 500) or "(the tool gives no message)",
        tool=tool,
        security_severity=_score(rule.properties.get("security-severity")),
    )


def _rule(result: _Result, run: _Run) -> _Rule:
    reference = result.rule or _RuleReference()
    component = run.tool.driver
    if reference.tool_component is not None and 0 <= reference.tool_component.index < len(run.tool.extensions):
        component = run.tool.extensions[reference.tool_component.index]
    index = result.rule_index if result.rule_index >= 0 else reference.index
    if 0 <= index < len(component.rules):
        return component.rules[index]
    wanted = result.rule_id or reference.id or ""
    # An id may be hierarchical: CA1000/1 is described by CA1000 (SARIF 3.52.4).
    names = (wanted, wanted.rpartition("/")[0])
    return next((rule for rule in component.rules if rule.id and rule.id in names), _Rule(id=wanted))


def _message(message: _Message, rule: _Rule) -> str:
    text = message.text or message.markdown
    if text is None and message.id is not None:
        known = rule.message_strings.get(message.id, _Text())
        text = known.text or known.markdown

    def argument(found: re.Match[str]) -> str:
        number = int(found.group(1))
        return message.arguments[number] if number < len(message.arguments) else found.group()

    return _PLACEHOLDER.sub(argument, text or "")


def _score(value: object) -> float | None:
    try:
        score = float(value) if isinstance(value, str | int | float) else None
    except ValueError:
        return None
    return score if score is not None and 0 <= score <= 10 else None


def _path(artifact: _Artifact, run: _Run, checkout: Path) -> str | None:
    if artifact.uri is None and 0 <= artifact.index < len(run.artifacts):
        artifact = run.artifacts[artifact.index].location or artifact
    if artifact.uri is None:
        return None
    uri = artifact.uri
    base, seen = artifact.uri_base_id, set[str]()
    while base is not None and base not in seen and not urlsplit(uri).scheme:
        seen.add(base)
        above = run.original_uri_base_ids.get(base, _Artifact())
        uri = f"{above.uri.rstrip('/')}/{uri}" if above.uri else uri
        base = above.uri_base_id
    return relative_path(uri, checkout)


def relative_path(uri: str, checkout: Path) -> str | None:
    """The path below the checkout that a URI or a path means, None where it lies outside or is no file's."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme not in ("", "file") or "\0" in unquote(uri):
        return None
    # A relative reference is taken whole: tools do not always escape # and ? in names.
    name = unquote(parts.path) if parts.scheme else unquote(uri)
    for root in (str(checkout), os.path.realpath(checkout)):
        plain = os.path.normpath(os.path.join(root, name))  # noqa: PTH118 - lexical: the file may be gone
        if plain.startswith(f"{root}{os.sep}"):
            return os.path.relpath(plain, root).replace(os.sep, "/")
    return None


# --- reviewdog


class _RdPosition(_Part):
    line: int = 0


class _RdRange(_Part):
    start: _RdPosition = _RdPosition()
    end: _RdPosition | None = None


class _RdLocation(_Part):
    path: str
    range: _RdRange = _RdRange()


class _RdCode(_Part):
    value: str = ""


class _RdSource(_Part):
    name: str = ""


class _Diagnostic(_Part):
    message: str
    location: _RdLocation
    severity: str | int = ""
    code: _RdCode = _RdCode()
    source: _RdSource | None = None


class _RdResult(_Part):
    diagnostics: tuple[_Diagnostic, ...]
    source: _RdSource = _RdSource()
    severity: str | int = ""


_RD_LEVELS = {
    "ERROR": "error",
    "WARNING": "warning",
    "INFO": "note",
    "1": "error",
    "2": "warning",
    "3": "note",
}


def _of_rdjson(log: _RdResult, checkout: Path, tool: str) -> Iterator[ToolResult]:
    for item in log.diagnostics:
        path = relative_path(item.location.path, checkout)
        if path is None:
            continue
        start = max(0, item.location.range.start.line)
        end = item.location.range.end.line if item.location.range.end else start
        level = str(item.severity or log.severity or "WARNING").upper()
        source = item.source or log.source
        yield ToolResult(
            path=path,
            line=start,
            end_line=max(start, end),
            level=_RD_LEVELS.get(level, level),
            rule=one_line(item.code.value, 120) or "unnamed",
            message=one_line(item.message, 500) or "(the tool gives no message)",
            tool=one_line(source.name, 60) or tool,
        )


def _json_lines(text: str) -> list[object] | None:
    """rdjsonl: one diagnostic a line. None where it is not that."""
    rows = [line for line in text.splitlines() if line.strip()]
    if not rows:
        return None
    try:
        values = [json.loads(row) for row in rows]
    except (ValueError, RecursionError):
        return None
    return values if all(isinstance(value, dict) and "location" in value for value in values) else None


def on_changed_lines(result: ToolResult, changed: Iterable[int]) -> int | None:
    """The changed line that the result is about: its own, or the first one in its range. None: it is about
    others.

    A result about the file as a whole is put on the file's first changed line.
    """
    lines = sorted(changed)
    if not lines:
        return None
    if result.line == 0:
        return lines[0]
    return next((line for line in lines if result.line <= line <= result.end_line), None)
