"""What an agent's own hooks run: append one receipt line to a file, and be gone.

Started as `python -I -S .../worker/hook.py EVENT` with the hook's JSON on stdin, so it imports the standard
library alone and as little of it as it can: it runs inside every turn of every agent (30 ms, half of it the
interpreter). It prints nothing, because what a hook prints becomes part of the agent's conversation, and it
always exits 0, because another code would block the prompt.

A receipt is one JSON line:
    {"event": "prompt", "msg": "12", "at": "2026-01-02T03:04:05.678Z", "pane": "%3"}
with event one of prompt, stop, error, permission, start, end; `msg` is the N of the `[msg N]` that a prompt
begins with, null otherwise. File and pane come from TASKMAESTRO_RECEIPTS and TASKMAESTRO_PANE.
"""

import json
import os
import sys
import time

EVENTS = ("prompt", "stop", "error", "permission", "start", "end")
#: A prompt can quote whole files; its marker stands at the start, so no more than this is read, in bytes.
MAX_INPUT = 4 * 1024 * 1024


def message_id(prompt: str) -> str | None:
    """The N of a leading `[msg N]` in a prompt, or None. Only letters, digits, `.`, `_`, `-`; 64 at most."""
    head = prompt.lstrip()
    if not head.startswith("[msg "):
        return None
    ident, bracket, _ = head[len("[msg ") : len("[msg ") + 65].partition("]")
    plain = ident.replace("-", "").replace("_", "").replace(".", "")
    return ident if bracket and plain.isascii() and plain.isalnum() else None


def receipt(event: str, payload: object, pane: str, now: float) -> bytes:
    """The line to append, newline included; `now` is in seconds since 1970."""
    prompt = payload.get("prompt") if isinstance(payload, dict) else None
    whole = int(now)
    at = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{int((now - whole) * 1000):03d}Z"
    msg = message_id(prompt) if event == "prompt" and isinstance(prompt, str) else None
    return (json.dumps({"event": event, "msg": msg, "at": at, "pane": pane}) + "\n").encode()


def append(path: str, line: bytes) -> None:
    """One write on a file opened for appending: lines of several agents never mix."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def main(argv: list[str]) -> int:
    """Write the receipt.  Faults go to stderr in one line, which agents show in their logs only."""
    path = os.environ.get("TASKMAESTRO_RECEIPTS", "")
    if len(argv) != 1 or argv[0] not in EVENTS:
        sys.stderr.write(f"hook: expected one event of {', '.join(EVENTS)}\n")
        return 0
    if not path:
        sys.stderr.write("hook: TASKMAESTRO_RECEIPTS is not set: this agent was not started by taskmaestro\n")
        return 0
    try:
        payload = json.loads(sys.stdin.buffer.read(MAX_INPUT) or b"{}")
    except (ValueError, RecursionError):
        payload = {}
    try:
        append(path, receipt(argv[0], payload, os.environ.get("TASKMAESTRO_PANE", ""), time.time()))
    except OSError as fault:
        sys.stderr.write(f"hook: cannot write the receipt to {path}: {fault.strerror}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
