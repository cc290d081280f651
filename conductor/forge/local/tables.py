"""The tables of the local forge, as migrations: entry n brings a file of version n to version n + 1.

A migration that was released is never edited; a change is a new entry. Times are ISO 8601 UTC text.
``posts`` without ``submitted_at`` are pending reviews; their threads show when they are submitted.
"""

from __future__ import annotations

_FIRST = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # Issues and pull requests share one sequence, as on GitHub: #7 is one thing only.
    """CREATE TABLE numbers (
        number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL CHECK (kind IN ('issue', 'pull')))""",
    """CREATE TABLE issues (
        number INTEGER PRIMARY KEY REFERENCES numbers (number),
        title TEXT NOT NULL, body TEXT NOT NULL, author TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
        created_at TEXT NOT NULL, updated_at TEXT NOT NULL)""",
    # head_seen and base_seen are what was observed last; the bare repository's refs are the authority. They
    # freeze when the request is closed or merged, so that its diff can still be shown.
    """CREATE TABLE pulls (
        number INTEGER PRIMARY KEY REFERENCES numbers (number),
        title TEXT NOT NULL, body TEXT NOT NULL, author TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed', 'merged')),
        state_why TEXT NOT NULL DEFAULT '',
        draft INTEGER NOT NULL DEFAULT 0 CHECK (draft IN (0, 1)),
        head_branch TEXT NOT NULL, base_branch TEXT NOT NULL,
        head_seen TEXT NOT NULL, base_seen TEXT NOT NULL, merged_as TEXT,
        merge_head TEXT, merge_base TEXT,
        created_at TEXT NOT NULL, updated_at TEXT NOT NULL, ended_at TEXT)""",
    "CREATE UNIQUE INDEX one_open_pull_of_a_branch ON pulls (head_branch) WHERE state = 'open'",
    """CREATE TABLE heads (
        id INTEGER PRIMARY KEY, pull INTEGER NOT NULL REFERENCES pulls (number),
        sha TEXT NOT NULL, base TEXT NOT NULL, seen_at TEXT NOT NULL)""",
    "CREATE INDEX heads_of_pull ON heads (pull, id)",
    """CREATE TABLE posts (
        id INTEGER PRIMARY KEY AUTOINCREMENT, pull INTEGER NOT NULL REFERENCES pulls (number),
        kind TEXT NOT NULL CHECK (kind IN ('comment', 'review')),
        author TEXT NOT NULL, body TEXT NOT NULL, marker TEXT NOT NULL DEFAULT '',
        review_state TEXT CHECK (review_state IN ('approved', 'commented', 'changes_requested')),
        sha TEXT, as_comment INTEGER NOT NULL DEFAULT 0,
        created_at TEXT NOT NULL, submitted_at TEXT, edited_at TEXT)""",
    "CREATE UNIQUE INDEX one_post_of_a_marker ON posts (pull, marker) WHERE marker <> ''",
    "CREATE INDEX posts_of_pull ON posts (pull, id)",
    """CREATE TABLE threads (
        id INTEGER PRIMARY KEY AUTOINCREMENT, pull INTEGER NOT NULL REFERENCES pulls (number),
        review INTEGER REFERENCES posts (id), path TEXT NOT NULL, line INTEGER CHECK (line >= 1),
        side TEXT NOT NULL DEFAULT 'new' CHECK (side IN ('new', 'old')), sha TEXT NOT NULL,
        resolved_at TEXT, resolved_by TEXT)""",
    "CREATE INDEX threads_of_pull ON threads (pull, id)",
    """CREATE TABLE thread_comments (
        id INTEGER PRIMARY KEY AUTOINCREMENT, thread INTEGER NOT NULL REFERENCES threads (id),
        review INTEGER REFERENCES posts (id), author TEXT NOT NULL, body TEXT NOT NULL,
        created_at TEXT NOT NULL, edited_at TEXT)""",
    "CREATE INDEX comments_of_thread ON thread_comments (thread, id)",
    """CREATE TABLE review_requests (
        pull INTEGER NOT NULL REFERENCES pulls (number), login TEXT NOT NULL, requested_at TEXT NOT NULL,
        PRIMARY KEY (pull, login)) WITHOUT ROWID""",
    # One run is all checks of one head. plan names the set of checks, so that a changed configuration runs
    # anew.
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT, sha TEXT NOT NULL, plan TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'cancelled')),
        timeout REAL NOT NULL, env TEXT NOT NULL,
        runner_pid INTEGER, runner_identity TEXT, cookie TEXT, scratch TEXT,
        takeovers INTEGER NOT NULL DEFAULT 0,
        launched REAL, created_at TEXT NOT NULL, started_at TEXT, ended_at TEXT)""",
    "CREATE INDEX runs_of_head ON runs (sha, plan, id)",
    "CREATE INDEX runs_not_ended ON runs (state, id) WHERE state IN ('queued', 'running')",
    """CREATE TABLE results (
        run INTEGER NOT NULL REFERENCES runs (id), position INTEGER NOT NULL, name TEXT NOT NULL,
        argv TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'passed', 'failed')),
        exit_code INTEGER, detail TEXT NOT NULL DEFAULT '', log TEXT NOT NULL DEFAULT '',
        tail TEXT NOT NULL DEFAULT '',
        pid INTEGER, identity TEXT, started_at TEXT, ended_at TEXT,
        PRIMARY KEY (run, position)) WITHOUT ROWID""",
)

_SECOND = ("CREATE UNIQUE INDEX one_pending_review ON posts (pull, author) WHERE submitted_at IS NULL",)

# Two logins may stage the same review.
_THIRD = (
    "DROP INDEX one_post_of_a_marker",
    "CREATE UNIQUE INDEX one_post_of_a_marker ON posts (pull, author, marker) WHERE marker <> ''",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_FIRST, _SECOND, _THIRD)
