"""The REST endpoints. A path that is not modelled is answered 501 and recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.github.model import User
from tests.github.web import Answer, Request

if TYPE_CHECKING:
    from tests.github.server import Server


def answer(server: Server, viewer: User, request: Request) -> Answer:
    what = f"{request.method} {request.path}"
    server.unmodelled.append(what)
    return Answer.of_json(501, {"message": f"the stand-in does not model {what}"})
