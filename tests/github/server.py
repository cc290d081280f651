"""The HTTP/1.1 server on a Unix socket: authentication, rate limits, faults, and a record of every request."""

from __future__ import annotations

import json
import logging
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.github import faults, graphql, rest, rest_general
from tests.github.checks import Runner
from tests.github.faults import Fault
from tests.github.model import User, World
from tests.github.web import Answer, Request

POINTS_AN_HOUR = 5000
SCOPES = "repo, read:org, gist, workflow"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recorded:
    """One request, as tests count them. ``operation`` is the GraphQL operation's name, ``fields`` its root fields.

    ``status`` is 0 where the connection ended without an answer.
    """

    method: str
    path: str
    operation: str
    fields: tuple[str, ...]
    login: str
    points: int
    status: int
    document: str = ""
    """The GraphQL document as it came."""

    @property
    def name(self) -> str:
        """What was asked: the operation's name, else its root field; of REST the method and the path."""
        return self.operation or (self.fields[0] if self.fields else f"{self.method} {self.path}")


class Dropped(Exception):
    """End the connection without an answer."""


@dataclass
class Server:
    """Answers requests about ``world``. What fixtures assert empty at the end: ``unmodelled``, ``violations``."""

    world: World
    socket: Path
    runner: Runner | None = None
    requests: list[Recorded] = field(default_factory=list)
    unmodelled: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(login, "graphql" or "core") -> points."""
    page_cap: int = graphql.PAGE_LIMIT
    limit: int = POINTS_AN_HOUR
    reset_at: float = field(default_factory=lambda: time.time() + 3600)
    verbs: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """What else the control door can do: name -> called with the JSON object that was sent."""
    git: Counter[str] = field(default_factory=Counter)
    """git-upload-pack (ls-remote, fetch) or git-receive-pack (push) -> how often it was begun."""
    waiting: int = 0
    """How many requests have begun to hang."""
    ending: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._listener = _Listener(str(self.socket), self)
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.ending.set()
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()
        self.socket.unlink(missing_ok=True)

    # --- answering ---

    def look(self, by: User | None = None) -> None:
        """See what was pushed, and have it checked."""
        with self.world.lock:
            moved = self.world.refresh(by)
            if self.runner is not None:
                for repository, branch, oid in moved:
                    self.runner.pushed(repository, branch, oid)

    def answer(self, request: Request) -> tuple[Answer, Fault | None]:
        """The answer and the fault that is to spoil its sending."""
        viewer = self._viewer(request)
        call = self._read_graphql(request) if request.path == "/graphql" else None
        about = _about(request, call, viewer)
        with self.world.lock:
            fault = next((one for one in self.faults if one.matches(about)), None)
            if fault is not None:
                fault.use()
        login, points = viewer.login if viewer else "", call.cost if call is not None else 1
        operation, root = (call.name, call.fields) if call else ("", ())
        about_it = (request.method, request.path, operation, root, login, points)
        document = call.text if call else ""
        try:
            answer = self._faulty(request, call, viewer, fault)
        except Dropped:
            self.requests.append(Recorded(*about_it, 0, document))
            raise
        if viewer is not None and request.path != "/rate_limit":
            self.used[viewer.login, _resource(request)] += points
        self._finish(answer, viewer, request)
        self.requests.append(Recorded(*about_it, answer.status, document))
        return answer, fault

    def _faulty(self, request: Request, call: graphql.Call | None, viewer: User | None, fault: Fault | None) -> Answer:
        if fault is not None:
            if fault.kind == "slow":
                self.ending.wait(fault.seconds)
            if fault.kind == "dropped_before":
                raise Dropped
            if fault.after:
                self._plain(request, call, viewer, None)
            if fault.kind == "hang":
                self.waiting += 1
                self.ending.wait(fault.seconds)
                raise Dropped
            if fault.kind == "answer":
                return Answer(fault.status, fault.body.encode(), dict(fault.headers))
        return self._plain(request, call, viewer, fault)

    def _plain(self, request: Request, call: graphql.Call | None, viewer: User | None, fault: Fault | None) -> Answer:
        if request.path.startswith("/_logs/"):
            return rest_general.log_text(self.world, request.path, request.query)
        if viewer is None:
            return Answer.of_json(401, {"message": "Bad credentials", "status": "401"})
        if self.used[viewer.login, _resource(request)] >= self.limit and request.path != "/rate_limit":
            made = faults.graphql_rate_limited() if call is not None else faults.rate_limited()
            return Answer(made.status, made.body.encode(), {"X-RateLimit-Remaining": "0"})
        self.look()
        with self.world.lock:
            if call is None:
                return rest.answer(self, viewer, request)
            context = graphql.Context(self.world, viewer, self.unmodelled, limits=self._limits(viewer, call.cost))
            context.page_cap = self.page_cap
            if call.problem is not None:
                self.violations += [f"GraphQL: {one['message']}" for one in call.problem["errors"]]
            told = graphql.run(call, context)
        if fault is not None and fault.kind == "partial":
            told = faults.spoil(told, fault)
        return Answer.of_json(200, told)

    def _viewer(self, request: Request) -> User | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return self.world.user_of_token(token.strip()) if kind.lower() in ("token", "bearer") else None

    def _read_graphql(self, request: Request) -> graphql.Call:
        body = json.loads(request.body or b"{}")
        return graphql.read(body.get("query", ""), body.get("variables"), body.get("operationName"))

    def _limits(self, viewer: User, cost: int) -> dict[str, Any]:
        used = self.used[viewer.login, "graphql"] + cost
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.reset_at))
        return {"limit": self.limit, "used": used, "remaining": max(0, self.limit - used), "resetAt": moment}

    def _finish(self, answer: Answer, viewer: User | None, request: Request) -> None:
        used = self.used[viewer.login, _resource(request)] if viewer else 0
        answer.headers = {
            "X-GitHub-Media-Type": "github.v3; format=json",
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(max(0, self.limit - used)),
            "X-RateLimit-Used": str(used),
            "X-RateLimit-Reset": str(int(self.reset_at)),
            "X-RateLimit-Resource": _resource(request),
            "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
            **({"X-OAuth-Scopes": SCOPES} if viewer else {}),
            **answer.headers,
        }

    # --- the control door ---

    def control(self, request: Request) -> Answer:
        """`/_standin/...`: for another process that prepares the world or reads what happened in it."""
        verb = request.path.removeprefix("/_standin/")
        body = json.loads(request.body) if request.body else {}
        if verb == "repository":
            found = self.world.repository(body["name"])
            if found is None:
                return Answer.of_json(404, {"message": "Repository not found."})
            self.git[body.get("service", "")] += 1
            return Answer.of_json(200, {"path": str(found.path), "archived": found.archived})
        if verb == "pushed":
            self.look(self.world.users.get(str(body.get("login", "")).lower()))
            return Answer.of_json(200, {})
        if verb in self.verbs:
            return Answer.of_json(200, self.verbs[verb](**body) or {})
        return Answer.of_json(404, {"message": f"no such verb: {verb}"})

    def recorded(self, since: int = 0) -> dict[str, Any]:
        """The requests from number ``since`` on, oldest first, and how often git was here in all."""
        return {"requests": [{**asdict(one), "name": one.name} for one in self.requests[since:]], "git": self.git}

    def state(self) -> dict[str, Any]:
        """Counts and complaints so far."""
        return {
            "requests": len(self.requests),
            "points": {f"{login} {resource}": points for (login, resource), points in self.used.items()},
            "operations": Counter(one.name for one in self.requests),
            "unmodelled": self.unmodelled,
            "violations": self.violations,
            "faults": [one.to_json() for one in self.faults],
        }


def _resource(request: Request) -> str:
    return "graphql" if request.path == "/graphql" else "core"


def _about(request: Request, call: graphql.Call | None, viewer: User | None) -> Mapping[str, Any]:
    next_page = request.query.get("page", "1") != "1"
    if call is not None:
        cursors = [
            value for name, value in call.variables.items() if "cursor" in name.lower() or "after" in name.lower()
        ]
        next_page = any(cursors)
    return {
        "method": request.method,
        "path": request.path,
        "operations": (call.name, *call.fields) if call else (),
        "login": viewer.login if viewer else "",
        "next_page": next_page,
    }


class _Listener(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, server: Server) -> None:
        self.standin = server
        super().__init__(path, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.exception("a connection to the stand-in ended with an error")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def _serve(self) -> None:
        server = self.server.standin
        request = self._request()
        if request.path.startswith("/_standin/"):
            self._send(server.control(request))
            return
        try:
            answer, fault = server.answer(request)
        except Dropped:
            self.close_connection = True
            return
        except Exception as error:
            _log.exception("the stand-in failed at %s %s", request.method, request.path)
            server.violations.append(f"the stand-in failed at {request.method} {request.path}: {error!r}")
            answer, fault = Answer.of_json(500, {"message": f"the stand-in failed: {error!r}"}), None
        if fault is not None and fault.kind == "dropped_after":
            self.close_connection = True
            return
        self._send(answer, half=fault is not None and fault.kind == "truncated")

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = _serve

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        for prefix, instead in (("/api/graphql", "/graphql"), ("/api/v3", "")):
            if path == prefix or path.startswith(prefix + "/"):
                path = instead + path.removeprefix(prefix)
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.command, path, dict(parse_qsl(parts.query)), headers, self._body())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    def _send(self, answer: Answer, *, half: bool = False) -> None:
        body = answer.body
        try:
            self.send_response_only(answer.status)
            headers = {"Content-Type": "application/json; charset=utf-8", **answer.headers}
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if half else body)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):  # the client went away
            self.close_connection = True
        if half:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """The record says it."""
