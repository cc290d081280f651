"""The local forge's pull requests: heads, merges, force-pushes, lost branches, what git shows of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conductor.forge.local import forge as module
from conductor.forge.local.forge import LocalForge
from conductor.ports import HeadMovedError
from schemas.config import LocalForgeConfig
from schemas.errors import BadInput, NotSo, Unavailable
from tests.forge.stage import MakeStage, Stage
from tests.support.repos import clone, commit_file, git, make_repository
from tests.support.waiting import wait_until


def local(stage: Stage) -> LocalForge:
    assert isinstance(stage.forge, LocalForge)
    return stage.forge


def bare(stage: Stage) -> Path:
    return Path(local(stage).remote_url())


def ref(stage: Stage, name: str) -> str | None:
    return git(bare(stage), "for-each-ref", "--format=%(objectname)", name) or None


def test_the_pull_refs_follow_the_branch_before_anybody_reads(make_stage: MakeStage) -> None:
    stage = make_stage()
    opened = stage.open("feature/a")
    assert ref(stage, f"refs/pull/{opened.number}/head") == opened.head
    pushed = stage.push("feature/a", "more.txt")
    assert ref(stage, f"refs/pull/{opened.number}/head") == pushed
    git(stage.root, "fetch", "--quiet", stage.remote, f"refs/pull/{opened.number}/head")
    assert git(stage.root, "rev-parse", "FETCH_HEAD") == pushed


def test_without_its_hook_a_push_is_seen_by_the_next_reader(make_stage: MakeStage) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    (bare(stage) / "hooks" / "post-receive").unlink()
    pushed = stage.push("feature", "more.txt")
    assert stage.forge.pull_requests()[0].head == pushed
    assert ref(stage, f"refs/pull/{opened.number}/head") == pushed
    assert local(stage).heads(opened.number) == [opened.head, pushed]


def test_a_push_renames_a_file_into_the_watched_folder(make_stage: MakeStage) -> None:
    stage = make_stage()
    (events,) = stage.forge.wake_paths()
    before = {path.name: path.stat().st_ino for path in events.iterdir()}
    stage.push("feature")
    after = {path.name: path.stat().st_ino for path in events.iterdir()}
    assert "push" in after
    assert after != before


def test_the_merge_ref_is_the_merge_and_absent_while_it_conflicts(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.push("feature", "file-2.txt", "theirs\n")
    number = stage.open("feature").number
    name = f"refs/pull/{number}/merge"
    assert git(bare(stage), "show", f"{name}:file-2.txt") == "theirs"
    assert git(bare(stage), "rev-parse", f"{name}^1", f"{name}^2").split() == [
        git(stage.root, "rev-parse", "main"),
        git(stage.root, "rev-parse", "feature"),
    ]
    stage.push("main", "file-2.txt", "ours\n")
    stage.forge.pull_request(number)
    assert ref(stage, name) is None
    git(stage.root, "branch", "--force", "feature", "main")
    stage.push("feature", "file-2.txt", "agreed\n")
    stage.forge.pull_request(number)
    assert git(bare(stage), "show", f"{name}:file-2.txt") == "agreed"


def test_heads_that_were_pushed_away_stay_readable_and_in_the_history(make_stage: MakeStage) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    second = stage.amend("feature", "a.txt", "1")
    assert stage.forge.pull_request(opened.number).head == second
    third = stage.amend("feature", "a.txt", "2")
    assert stage.forge.pull_request(opened.number).head == third
    assert local(stage).heads(opened.number) == [opened.head, second, third]
    git(bare(stage), "reflog", "expire", "--expire=now", "--all")
    git(bare(stage), "gc", "--quiet")
    assert git(bare(stage), "cat-file", "-t", opened.head) == "commit"


def test_packed_refs_are_read_too(make_stage: MakeStage) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    git(bare(stage), "pack-refs", "--all", "--prune")
    assert not (bare(stage) / "refs" / "heads" / "feature").exists()
    assert stage.forge.pull_request(opened.number) == opened
    pushed = stage.push("feature", "more.txt")
    assert stage.forge.pull_request(opened.number).head == pushed


def test_a_deleted_branch_closes_its_pull_request_which_keeps_its_head(make_stage: MakeStage) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    diff = stage.forge.diff(opened.number)
    stage.send(":feature")
    closed = stage.forge.pull_request(opened.number)
    assert (closed.state, closed.head) == ("closed", opened.head)
    assert stage.forge.diff(opened.number) == diff
    stage.send("feature")
    assert stage.forge.pull_request(opened.number).state == "closed"
    assert stage.open("feature").number != opened.number


def test_a_missing_repository_is_no_deleted_branch(make_stage: MakeStage) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    aside = bare(stage).with_name("aside.git")
    bare(stage).rename(aside)
    with pytest.raises(Unavailable, match=r"repo\.git"):
        stage.forge.pull_request(opened.number)
    aside.rename(bare(stage))
    assert stage.forge.pull_request(opened.number).state == "open"


def test_a_merge_that_somebody_pushed_is_recognised(make_stage: MakeStage) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    diff = stage.forge.diff(opened.number)
    git(stage.root, "merge", "--quiet", "--no-ff", "--no-edit", "feature")
    stage.send("main")
    merged = stage.forge.pull_request(opened.number)
    assert merged.state == "merged"
    assert stage.forge.pull_requests() == []
    assert stage.forge.diff(opened.number) == diff != ""
    with pytest.raises(NotSo, match="merged"):
        stage.forge.close_pull_request(opened.number)
    with pytest.raises(NotSo, match="merged"):
        stage.forge.reopen_pull_request(opened.number)


def test_a_merge_closes_the_issues_that_the_text_says_it_closes(make_stage: MakeStage) -> None:
    stage = make_stage()
    one, two, other = (stage.forge.create_issue(title, "").number for title in ("One", "Two", "Other"))
    stage.open("feature", body=f"Closes #{one}, fixes #{two}; see #{other}")
    git(stage.root, "merge", "--quiet", "--no-ff", "--no-edit", "feature")
    stage.send("main")
    assert [issue.number for issue in stage.forge.issues()] == [other]
    third = stage.forge.create_issue("Three", "").number
    pull = stage.open("by-hand", body=f"Closes #{third}")
    local(stage).merge(pull.number)
    assert stage.forge.issue(third).state == "closed"


def test_neither_closing_nor_merging_elsewhere_closes_an_issue(make_stage: MakeStage) -> None:
    stage = make_stage()
    number = stage.forge.create_issue("One", "").number
    stage.forge.close_pull_request(stage.open("given-up", body=f"Closes #{number}").number)
    stage.push("below", "below.txt")
    stage.push("feature", "feature.txt", start="below")
    pull = stage.forge.create_pull_request(
        branch="feature", base="below", title="T", body=f"Closes #{number}", draft=False
    )
    assert local(stage).merge(pull.number).state == "merged"
    assert stage.forge.issue(number).state == "open"


def test_merged_and_deleted_in_one_push_counts_as_merged(make_stage: MakeStage) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    git(stage.root, "merge", "--quiet", "--ff-only", "feature")
    stage.send("main", ":feature")
    assert stage.forge.pull_request(opened.number).state == "merged"


def test_a_branch_reset_to_its_base_is_not_merged(make_stage: MakeStage) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    stage.send("main:feature")
    reset = stage.forge.pull_request(opened.number)
    assert (reset.state, reset.head) == ("open", git(stage.root, "rev-parse", "main"))
    stage.push("main", "elsewhere.txt")
    assert stage.forge.pull_request(opened.number).state == "open"


@pytest.mark.parametrize(("method", "parents"), [("merge", 2), ("squash", 1)])
def test_the_library_merges_without_a_checkout(make_stage: MakeStage, method: str, parents: int) -> None:
    stage = make_stage()
    opened = stage.open("feature")
    stage.push("main", "elsewhere.txt")
    merged = local(stage).merge(opened.number, method=method)  # type: ignore[arg-type]
    assert merged.state == "merged"
    shown = git(bare(stage), "show", "--no-patch", "--format=%P%n%s", "main").splitlines()
    assert len(shown[0].split()) == parents
    assert f"#{opened.number}" in shown[1]
    assert "feature.txt" in git(bare(stage), "ls-tree", "--name-only", "main")
    with pytest.raises(NotSo, match="merged"):
        local(stage).merge(opened.number)


def test_conflicting_and_draft_pull_requests_are_not_merged(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.push("feature", "file-2.txt", "theirs\n")
    number = stage.open("feature", draft=True).number
    with pytest.raises(NotSo, match="draft"):
        local(stage).merge(number)
    stage.forge.mark_ready(number)
    stage.push("main", "file-2.txt", "ours\n")
    with pytest.raises(NotSo, match="conflicts"):
        local(stage).merge(number)
    assert stage.forge.pull_request(number).state == "open"


def test_a_base_that_moves_during_a_merge_undoes_it(make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    made = module.commit_tree

    def meanwhile(*args: object, **kwargs: object) -> str:
        commit = made(*args, **kwargs)  # type: ignore[arg-type]
        stage.push("main", "elsewhere.txt")
        return commit

    monkeypatch.setattr(module, "commit_tree", meanwhile)
    with pytest.raises(Unavailable, match="update-ref"):
        local(stage).merge(number)
    assert stage.forge.pull_request(number).state == "open"
    assert "feature.txt" not in git(bare(stage), "ls-tree", "--name-only", "main")


def test_a_head_that_moves_during_a_merge_stops_it(make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    made = module.commit_tree

    def meanwhile(*args: object, **kwargs: object) -> str:
        stage.push("feature", "late.txt")
        return made(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "commit_tree", meanwhile)
    with pytest.raises(HeadMovedError):
        local(stage).merge(number)
    assert stage.forge.pull_request(number).state == "open"


@pytest.mark.parametrize(
    "name",
    ["../../escape", "a/../b", "-x", "a b", "a\nb", "a.lock", ".hidden", "a//b", "@", "", "a\x1b[31m", "x~1"],
)
def test_what_git_takes_for_no_branch_is_refused_before_it_becomes_a_path(make_stage: MakeStage, name: str) -> None:
    stage = make_stage()
    with pytest.raises(BadInput, match="branch"):
        stage.forge.create_pull_request(branch=name, base="main", title="T", body="", draft=False)


def test_a_branch_and_a_folder_with_unusual_letters(make_stage: MakeStage) -> None:
    stage = make_stage(name="dépôt avec 'espaces' #1; & co")  # type: ignore[call-arg]
    stage.push("fonction/é-ü#1", "naïve file.txt", "ok\n")
    opened = stage.open("fonction/é-ü#1")
    pushed = stage.push("fonction/é-ü#1", "more.txt")
    assert ref(stage, f"refs/pull/{opened.number}/head") == pushed
    assert stage.forge.pull_request(opened.number).head == pushed
    assert "b/naïve file.txt" in stage.forge.diff(opened.number)


# --- making and opening ---


def open_on(root: Path, login: str = "conductor", **config: object) -> LocalForge:
    return LocalForge.create_or_open(root, LocalForgeConfig.model_validate(config), login)


def test_a_repository_without_a_remote_gets_the_forge_as_origin(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")
    forge = open_on(root)
    assert forge.remote_name == "origin"
    assert git(root, "remote", "get-url", "origin") == forge.remote_url()
    assert git(root, "ls-remote", "origin", "main").split()[0] == git(root, "rev-parse", "main")
    assert open_on(root).remote_name == "origin"


def test_a_users_own_origin_is_left_alone(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")
    git(root, "remote", "add", "origin", "ssh://host.invalid/theirs.git")
    forge = open_on(root)
    assert forge.remote_name == "taskmaestro"
    assert git(root, "remote", "get-url", "origin") == "ssh://host.invalid/theirs.git"
    assert git(root, "remote", "get-url", "taskmaestro") == forge.remote_url()
    assert open_on(root).remote_name == "taskmaestro"


def test_a_moved_repository_finds_its_forge_again(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")
    forge = open_on(root)
    number = forge.create_issue("kept", "").number
    forge.close()
    moved = root.rename(tmp_path / "elsewhere")
    again = open_on(moved)
    assert again.remote_name == "origin"
    assert git(moved, "remote", "get-url", "origin") == again.remote_url()
    assert again.issue(number).title == "kept"


def test_a_forge_elsewhere_by_configuration(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")
    forge = open_on(root, path=str(tmp_path / "far" / "forge"))
    assert forge.remote_url() == str(tmp_path / "far" / "forge" / "repo.git")
    assert not (root / ".taskmaestro").exists()


def test_a_repository_without_a_commit_is_told_so(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "empty")
    with pytest.raises(BadInput, match="no commit"):
        open_on(tmp_path / "empty")


def test_the_default_branch_is_taken_also_while_another_one_is_checked_out(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "managed")
    git(root, "checkout", "--quiet", "-b", "topic")
    commit_file(root, "topic.txt", "x")
    forge = open_on(root)
    assert forge.default_branch() == "main"
    assert git(Path(forge.remote_url()), "branch", "--list") == "* main"


def test_a_shallow_clone_can_be_managed(tmp_path: Path) -> None:
    full = make_repository(tmp_path / "full", commits=3)
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{full}", "shallow")
    root = tmp_path / "shallow"
    forge = open_on(root)
    assert forge.remote_name == "taskmaestro"
    git(root, "checkout", "--quiet", "-b", "feature")
    commit_file(root, "new.txt", "x")
    git(root, "push", "--quiet", "taskmaestro", "feature")
    opened = forge.create_pull_request(branch="feature", base="main", title="T", body="", draft=False)
    assert "new.txt" in forge.diff(opened.number)


def test_a_users_own_hooks_and_settings_do_not_govern_the_forge(tmp_path: Path, isolated: Path) -> None:
    hooks = isolated / "hooks"
    hooks.mkdir()
    for name in ("pre-receive", "post-receive", "post-checkout", "reference-transaction"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (hooks / name).chmod(0o755)
    root = make_repository(tmp_path / "managed")
    for key, value in {
        "core.hooksPath": str(hooks),
        "receive.denyNonFastForwards": "true",
        "diff.noprefix": "true",
        "diff.external": "false",
        "color.ui": "always",
    }.items():
        git(root, "config", "--global", key, value)
    forge = open_on(root)
    git(root, "-c", "core.hooksPath=/dev/null", "checkout", "--quiet", "-b", "feature")
    git(root, "-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--allow-empty", "-m", "x")
    (root / "new.txt").write_text("x\n", encoding="utf-8")
    git(root, "add", "new.txt")
    git(root, "-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "y")
    git(root, "-c", "core.hooksPath=/dev/null", "push", "--quiet", "origin", "feature")
    opened = forge.create_pull_request(branch="feature", base="main", title="T", body="", draft=False)
    assert forge.diff(opened.number).startswith("diff --git a/new.txt b/new.txt\n")
    git(root, "-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--amend", "-m", "z")
    git(root, "-c", "core.hooksPath=/dev/null", "push", "--quiet", "--force", "origin", "feature")
    assert forge.pull_request(opened.number).head == git(root, "rev-parse", "feature")


def test_a_clone_cannot_write_the_pull_refs(make_stage: MakeStage, tmp_path: Path) -> None:
    stage = make_stage()
    number = stage.open("feature").number
    other = clone(bare(stage), tmp_path / "other")
    with pytest.raises(AssertionError, match="hidden ref"):
        git(other, "push", "origin", f"HEAD:refs/pull/{number}/head")


# --- who acts ---


def test_the_login_is_the_environments_then_the_configurations_then_gits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = make_repository(tmp_path / "managed")
    git(root, "config", "user.email", "someone@example.invalid")
    assert LocalForge.create_or_open(root, LocalForgeConfig()).login() == "someone@example.invalid"
    configured = LocalForgeConfig(login="reviewer")
    assert LocalForge.create_or_open(root, configured).login() == "reviewer"
    monkeypatch.setenv("TASKMAESTRO_LOGIN", "worker-2")
    assert LocalForge.create_or_open(root, configured).login() == "worker-2"
    monkeypatch.setenv("TASKMAESTRO_LOGIN", "\x1b \n")
    with pytest.raises(BadInput, match="no login"):
        LocalForge.create_or_open(root, LocalForgeConfig()).login()


def test_an_issue_and_a_pull_request_never_share_a_number(make_stage: MakeStage) -> None:
    stage = make_stage()
    issue = stage.forge.create_issue("One", "")
    pull = stage.open("feature")
    assert pull.number == issue.number + 1
    with pytest.raises(NotSo, match="issue"):
        stage.forge.pull_request(issue.number)


def test_reading_heads_of_many_starts_no_process(make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage()
    numbers = [stage.open(f"feature-{n}").number for n in range(5)]
    wait_until(lambda: len(stage.forge.pull_requests()) == 5, 5, "all to be seen")

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError(f"a process was started: {args}")

    monkeypatch.setattr("subprocess.Popen", refuse)
    assert [one.number for one in stage.forge.pull_requests()] == numbers
    assert set(stage.forge.checks(numbers)) == set(numbers)


def test_the_local_forge_lets_any_author_be_named(make_stage: MakeStage) -> None:
    forge = local(make_stage())
    stage_root = forge._root
    git(stage_root, "push", "--quiet", forge.remote_url(), "HEAD~0:refs/heads/main")
    commit_file(stage_root, "work.txt", "work\n")
    git(stage_root, "push", "--quiet", forge.remote_url(), "HEAD:refs/heads/feature")
    opened = forge.create_pull_request(
        branch="feature", base="main", title="T", body="", draft=False, author="worker-1"
    )
    forge.comment(opened.number, "said", author="worker-2")
    assert opened.author == "worker-1"
    assert [one.author for one in forge.comments(opened.number)] == ["worker-2"]
