"""Code review severities as data: what each stands for, and what the rules of well-known tools amount to.

The table is the review protocol's severity classification; "when unsure, the higher one" decides ties.
Production incident levels (P1 to P4) are another scale and never appear here. Every rating says why, since a
finding without an impact is not written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from schemas.finding import Severity


@dataclass(frozen=True)
class Meaning:
    """One row of the classification."""

    severity: Severity
    stands_for: tuple[str, ...]
    blocks: str


TABLE: tuple[Meaning, ...] = (
    Meaning(
        Severity.CRITICAL,
        (
            "secret in source",
            "exploitable injection, XSS, CSRF",
            "missing authentication or authorisation",
            "loss or corruption of data",
            "build or CI broken",
            "exception on the normal path",
            "regression in production behaviour",
        ),
        "always",
    ),
    Meaning(
        Severity.HIGH,
        (
            "missing error handling on a path that can fail",
            "missing test for new non-trivial logic",
            "off-by-one, null or unhandled edge case",
            "`any` where a concrete type exists",
            "layer boundary crossed",
            "plain performance fault (N+1, blocking the main thread)",
            "duplication that will drift",
        ),
        "unless explicitly deferred with a reason and a follow-up issue",
    ),
    Meaning(
        Severity.MEDIUM,
        (
            "complexity over the project's limit (cyclomatic > 10, function > 20 lines)",
            "naming or API shape",
            "undocumented public API",
            "minor accessibility",
            "non-critical test gap",
        ),
        "no",
    ),
    Meaning(Severity.LOW, ("style beyond the linter", "wording", "optional clean-up"), "no"),
)


@dataclass(frozen=True)
class Rating:
    """How severe a tool's result is, and the impact that a finding of it states."""

    severity: Severity
    impact: str


@dataclass(frozen=True)
class _Family:
    """Rules whose id matches ``pattern`` from its start; ``tools`` empty: of any tool."""

    pattern: str
    severity: Severity
    impact: str
    tools: tuple[str, ...] = ()

    def covers(self, tool: str, rule: str) -> bool:
        return (not self.tools or tool in self.tools) and re.match(self.pattern, rule) is not None


_C, _H, _M, _L = Severity
_PY = ("ruff", "flake8", "bandit", "pylint", "pycodestyle", "pyflakes")
_SECRETS = ("gitleaks", "trufflehog", "detect-secrets", "secretlint", "ggshield", "kingfisher", "noseyparker")

# First match wins, so the particular stands before the general.
FAMILIES: tuple[_Family, ...] = (
    _Family(r"", _C, "A secret in the source is known to all who can read it; revoke it.", _SECRETS),
    # --- Python: rule families of ruff, which flake8 and its plug-ins share
    _Family(r"invalid-syntax|E9|E999", _C, "The file cannot be loaded: whatever imports it breaks.", _PY),
    _Family(r"F82[123]", _C, "Raises NameError when this line runs: an exception on the normal path.", _PY),
    _Family(r"F7\d\d", _C, "The file does not compile: whatever imports it breaks.", _PY),
    _Family(r"F5\d\d", _H, "The format string and its arguments disagree: wrong text, or an exception.", _PY),
    _Family(r"F63\d", _H, "The comparison or assertion does not test what it seems to.", _PY),
    _Family(r"F811", _H, "The earlier definition is silently replaced and never runs.", _PY),
    _Family(r"F(401|841|842)", _M, "Unused: it misleads the reader; often an unfinished change.", _PY),
    _Family(r"S10[4-7]|B10[4-7]$", _C, "A secret or an open binding in the source.", _PY),
    _Family(r"S(30[1-3678]|60[2-9]|61\d|70\d)|B(30[1-3678]|60[2-9]|61\d|70\d)$", _C,
            "Input may be run as code, a command, a query or a template: exploitable injection.", _PY),
    _Family(r"S11[0-2]|BLE|E722|B11[0-2]$", _H, "Errors are swallowed here and show elsewhere.", _PY),
    _Family(r"S101|B101$", _M, "An assertion vanishes under -O; it guards nothing in production.", _PY),
    _Family(r"S\d", _H, "A known security weakness.", _PY),
    _Family(r"ANN401|PGH00[34]", _H, "Any or a blanket ignore, where a concrete type exists.", _PY),
    _Family(r"C901|PLR09", _M, "Complexity over the limit: hard to test and to change.", _PY),
    _Family(r"B0(07|28)|B90[45]", _M, "Hides its intent or the cause of an error.", _PY),
    _Family(r"B\d", _H, "A likely defect: it does not do what it seems to.", _PY),
    _Family(r"ASYNC", _H, "Blocks the event loop, and everything else that runs on it.", _PY),
    _Family(r"DTZ", _H, "A time without a zone: wrong by hours somewhere (unhandled edge case).", _PY),
    _Family(r"TID25", _H, "Crosses a boundary between layers.", _PY),
    _Family(r"PLE|LOG|RUF00[68]|RUF012", _H, "A likely defect: it fails or misbehaves when it runs.", _PY),
    _Family(r"D1", _M, "Undocumented public API.", _PY),
    _Family(r"N\d|ANN|ARG|A0|FBT|PLR|PLW|PERF|TRY|EM|ERA|T10|T20|TD|FIX|RUF|FURB|PD|NPY|SLF|INP", _M,
            "Shape or clarity of the code.", _PY),
    _Family(r"E|W|I\d|Q|COM|UP|D|SIM|PT|PIE|RET|RSE|C4|ISC|ICN|TC|PTH|PLC|PYI|G\d|CPY|EXE|YTT|C\d", _L,
            "Style: left as it is, the code reads less evenly.", _PY),
    # --- JavaScript and TypeScript
    _Family(r"(@typescript-eslint/)?no-explicit-any|@typescript-eslint/no-unsafe", _H,
            "`any` where a concrete type exists hides type errors."),
    _Family(r"(@typescript-eslint/)?no-(implied-)?eval|no-new-func|react/no-danger|no-script-url", _C,
            "Input may be run as code: exploitable injection."),
    _Family(r"no-undef$|react/jsx-no-undef", _C, "Raises ReferenceError when it runs."),
    _Family(r"no-empty$|@typescript-eslint/no-floating-promises|require-atomic-updates", _H,
            "Errors are swallowed or lost here, and the failure shows elsewhere."),
    _Family(r"(@typescript-eslint/)?no-unused-vars|unused-imports/", _M, "Unused: it misleads the reader."),
    _Family(r"complexity$|max-(depth|lines|params|statements|nested)", _M, "Complexity over the limit."),
    _Family(r"jsx-a11y/", _M, "Keeps some people from using this (accessibility)."),
    _Family(r"import/no-restricted-paths|boundaries/|no-restricted-imports", _H, "Crosses a layer boundary."),
    _Family(r"(?i).*(secret|credential|api[-_]?key|private[-_]?key|hardcoded[-_]?password)", _C,
            "A secret in the source is public to all who can read the repository."),
    _Family(r"(?i).*(sql[-_]?inj|command[-_]?inj|code[-_]?inj|\bxss\b|\bcsrf\b|path[-_]?traversal)", _C,
            "Exploitable with hostile input."),
)  # fmt: skip

_LEVELS = {
    "error": Rating(_H, "The tool calls this an error."),
    "warning": Rating(_M, "The tool warns of this."),
    "note": Rating(_L, "The tool notes this."),
    "none": Rating(_L, "The tool notes this without a level."),
    "info": Rating(_L, "The tool notes this."),
}
_UNKNOWN_LEVEL = Rating(_H, "The tool gives no level that is known; taken as high because it is unsure.")


def rate(tool: str, rule: str, level: str, security_severity: float | None = None) -> Rating:
    """The severity of one result of a tool.

    A known rule family decides first: tools call nearly everything an error. Then the score that security
    scanners put on a rule (0 to 10: from 9 critical, from 7 high, from 4 medium). Then the level, where an
    error is high and not critical, because only what a rule means can show that something breaks. An unknown
    level is high.
    """
    family = next((known for known in FAMILIES if known.covers(tool.casefold(), rule)), None)
    if family is not None:
        return Rating(family.severity, family.impact)
    if security_severity is not None:
        return Rating(_of_score(security_severity), f"Security severity {security_severity:.1f} of 10.")
    return _LEVELS.get(level.casefold(), _UNKNOWN_LEVEL)


def spoils_whole_file(rule: str) -> bool:
    """The rule says that the file cannot be parsed: it counts wherever in a changed file it is reported."""
    return re.match(r"(?i)invalid-syntax|syntax-?error|parse-?error|E9\d\d$|fatal$", rule) is not None


def _of_score(score: float) -> Severity:
    if score >= 9:
        return Severity.CRITICAL
    if score >= 7:
        return Severity.HIGH
    return Severity.MEDIUM if score >= 4 else Severity.LOW
