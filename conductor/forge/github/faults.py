"""What a refusal of GitHub means: which fault it becomes, and whether asking again may help.

Two tables say it, one for HTTP statuses and one for the types of GraphQL errors. What neither knows is a fault too:
an answer with errors in it is never taken for an answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from schemas.errors import Fault, NoLeave, NotSo, Unavailable
from schemas.text import one_line

STATUS_PAGE = "https://www.githubstatus.com"


class Transient(Unavailable):
    """Not done, and asking again may help."""


class Dropped(Transient):
    """No whole answer came: a change may or may not have been made. ``sent`` False: GitHub never heard of it."""

    def __init__(self, what: str, hint: str = "", *, sent: bool = True) -> None:
        super().__init__(what, hint)
        self.sent = sent


class NoAnswer(Unavailable):
    """gh ended well without an answer of GitHub's: the program is at fault, so asking again does not help."""


class Limited(Transient):
    """Refused because of a rate limit; nothing was done."""


class Refused(NotSo):
    """GitHub understood and refused. ``said``: its own words."""

    def __init__(self, what: str, hint: str = "", *, said: str = "") -> None:
        super().__init__(what, hint)
        self.said = said


class Missing(Refused):
    """What was asked about is not there, or not for this login."""


class Denied(NoLeave):
    """The login may not do that; only a person can change it."""


class Facts(NamedTuple):
    """A refusal as it came."""

    host: str
    what: str
    status: int
    said: str
    headers: Mapping[str, str]


_LIMIT = re.compile(r"rate limit|abuse detection|secondary limit|too many requests", re.IGNORECASE)
_ARCHIVED = re.compile(r"archived", re.IGNORECASE)
_SAML = re.compile(r"SAML|single sign-on", re.IGNORECASE)


def not_logged_in(host: str, said: str = "", *, more: str = "") -> NoLeave:
    """gh has no token for the host, or one that does not count any more. ``more`` goes to the remedy."""
    tail = f": {said}" if said else ""
    return NoLeave(f"gh is not logged in to {host}{tail}", f"Log in: gh auth login --hostname {host}{more}")


def is_limited(facts: Facts) -> bool:
    """Whether this is a rate limit, and not a lack of rights: both come as 403."""
    if facts.status == 429:
        return True
    told = "retry-after" in facts.headers or facts.headers.get("x-ratelimit-remaining") == "0"
    return facts.status == 403 and (told or bool(_LIMIT.search(facts.said)))


def of_status(facts: Facts) -> Fault:
    """The fault that an HTTP error is."""
    where, said = f"{facts.what} on {facts.host}", facts.said or f"HTTP {facts.status}"
    if is_limited(facts):
        return Limited(f"GitHub limits the rate of requests ({said})", "It is asked again when the limit ends.")
    if facts.status == 401:
        return not_logged_in(facts.host, said)
    if facts.status in (403, 451):
        return denied(where, said, facts.host)
    if facts.status in (404, 410):
        return Missing(f"{where} is not there: {said}", "Look at the name, and at the rights of the token.", said=said)
    if facts.status in (408, 500, 502, 503, 504) or facts.status >= 520:
        # Whatever answers so may have passed the request on before.
        return Dropped(f"GitHub answered {facts.status} for {where}: {said}", f"Try again; see {STATUS_PAGE}.")
    return Refused(f"GitHub refused {where} ({facts.status}): {said}", "See what it says.", said=said)


def denied(where: str, said: str, host: str) -> Fault:
    """Rights are missing, or the repository takes nothing any more."""
    if _ARCHIVED.search(said):
        return Refused(
            f"{where}: the repository is archived, so it is read-only", "Unarchive it in its settings first.", said=said
        )
    if _SAML.search(said):
        return Denied(f"{where}: {said}", "Authorise the token for the organisation's single sign-on, then try again.")
    return Denied(
        f"{where} is not allowed for this login: {said}",
        f"Give the token the right (`gh auth refresh --hostname {host}`), or use another login.",
    )


_GRAPHQL: dict[str, str] = {
    "NOT_FOUND": "missing",
    "FORBIDDEN": "denied",
    "INSUFFICIENT_SCOPES": "denied",
    "RATE_LIMITED": "limited",
    "MAX_NODE_LIMIT_EXCEEDED": "defect",
    "UNPROCESSABLE": "refused",
    "VALIDATION_FAILED": "refused",
    "STALE_DATA": "refused",
    "SERVICE_UNAVAILABLE": "dropped",
    "INTERNAL": "dropped",
    "INTERNAL_SERVER_ERROR": "dropped",
    "TIMEOUT": "dropped",
    "RESOURCE_LIMITS_EXCEEDED": "dropped",
}
"""GraphQL error types and what they are; a type that is not here is ``dropped`` where it talks of a hiccup."""
_HICCUP = re.compile(r"something went wrong|timed? ?out|temporarily|try again|couldn't respond", re.IGNORECASE)


def of_graphql(errors: Sequence[Mapping[str, Any]], facts: Facts) -> Fault:
    """The fault that the errors of a GraphQL answer are; the worst kind speaks for all."""
    kinds = {_kind(error): error for error in reversed(errors)}
    said = facts.said
    if "limited" in kinds or _LIMIT.search(said):
        return Limited(f"GitHub limits the rate of requests ({said})", "It is asked again when the limit ends.")
    if "dropped" in kinds:
        return Dropped(f"GitHub could not answer {facts.what}: {said}", f"Try again; see {STATUS_PAGE}.")
    if "denied" in kinds:
        return denied(f"{facts.what} on {facts.host}", said, facts.host)
    if "defect" in kinds:
        return Unavailable(
            f"GitHub did not take the question ({facts.what}): {said}",
            "Update taskmaestro; report this where it stays.",
        )
    if "refused" in kinds:
        if _ARCHIVED.search(said):
            return denied(f"{facts.what} on {facts.host}", said, facts.host)
        return Refused(f"GitHub refused: {said}", "See what it says.", said=said)
    return Missing(f"GitHub does not know it: {said}", "Look at the number, and at the rights of the token.", said=said)


def _kind(error: Mapping[str, Any]) -> str:
    kind = error.get("type")
    known = _GRAPHQL.get(kind) if isinstance(kind, str) else None
    if known is not None:
        return known
    return "dropped" if _HICCUP.search(str(error.get("message", ""))) else "defect"


def said_by(errors: Sequence[Mapping[str, Any]]) -> str:
    """The messages of GraphQL errors on one line."""
    return one_line("; ".join(str(error.get("message", "?")) for error in errors), 400)
