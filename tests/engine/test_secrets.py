"""Secrets in runs: resolved in workers, and in clear nowhere in the home directory."""

from __future__ import annotations

import dataclasses
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceflow import Engine, Secret, TaskFailed, current, task, workflow
from onceflow.errors import NameTaken, SecretUnavailable
from tests.engine.common import fail_while, keep
from tests.helpers.scripts import kill, run_script, started
from tests.helpers.traces import note, traces
from tests.helpers.waiting import until

CLEAR = "correct-horse-battery"


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Engine]:
    """An engine whose home directory is searched at the end."""
    with Engine(tmp_path / "home", workers=1) as engine:
        yield engine
        assert_nothing_in_clear(tmp_path / "home")
    assert_nothing_in_clear(tmp_path / "home")


def assert_nothing_in_clear(home: Path, *texts: str) -> None:
    files = [path for path in home.rglob("*") if path.is_file()]
    assert any(path.name.startswith("journal.db") for path in files)
    for path in files:
        content = path.read_bytes()
        assert not any(text.encode() in content for text in (CLEAR, *texts)), path


@dataclasses.dataclass
class Access:
    user: str
    token: Secret[str]
    more: Any = None


@task
def use(access: Access) -> tuple[int, Access]:
    clear = access.token.get()
    print("printed", clear)
    logging.getLogger("access").warning("logged %s", clear)
    subprocess.run(["echo", clear], check=True)
    current().progress(1, 1, clear)
    current().annotate(token=clear)
    return len(clear), access


@task
def unwrap(token: Secret[str]) -> int:
    return len(token.get())


@task
def complain(token: Secret[str]) -> None:
    try:
        raise KeyError(token.get())
    except KeyError as error:
        raise ValueError(f"bad token {token.get()}", token) from error


@workflow
def spend(token: Secret[str]) -> Any:
    return use.bind(Access("ann", token))


def test_a_secret_travels_sealed_through_arguments_and_outputs(kept: Engine) -> None:
    length, access = kept.run(use.bind(Access("ann", Secret(CLEAR), {"deep": [Secret(CLEAR)]})))
    assert length == len(CLEAR)
    assert access.token.get() == access.more["deep"][0].get() == CLEAR
    assert kept.run(unwrap.bind(kept.run(keep.bind([Secret(CLEAR)]))[0])) == len(CLEAR)


def test_a_large_argument_and_output_hold_secrets_too(kept: Engine) -> None:
    large = bytes(300_000)
    back = kept.run(keep.bind([Secret(CLEAR), large, ["x" * 70_000, Secret(CLEAR)]]))
    assert back[0].get() == back[2][1].get() == CLEAR


def test_a_workflow_has_secrets_among_its_arguments(kept: Engine) -> None:
    assert kept.run(spend.bind(Secret(CLEAR)))[0] == len(CLEAR)


def test_what_a_task_raises_does_not_tell_its_secret(kept: Engine) -> None:
    with pytest.raises(TaskFailed) as caught:
        kept.run(complain.bind(Secret(CLEAR)))
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError)
    assert cause.args[0] == "bad token ****"
    assert cause.args[1].get() == CLEAR
    (info,) = kept.list_tasks(caught.value.run)
    assert info.error is not None
    assert "bad token ****" in info.error
    assert CLEAR not in info.error + str(caught.value) + repr(cause.__cause__)


def test_what_a_task_tells_about_itself_is_masked(kept: Engine) -> None:
    handle = kept.run_async(use.bind(Access("ann", Secret(CLEAR))))
    handle.result()
    assert kept.list_tasks(handle.id)[0].metadata == {"token": "****"}


@task
def spread(token: Secret[str]) -> int:
    return unwrap.bind(Secret(token.get()))


def test_a_returned_graph_holds_secrets_sealed(kept: Engine) -> None:
    assert kept.run(spread.bind(Secret(CLEAR))) == len(CLEAR)


def test_a_local_function_refers_to_a_secret(kept: Engine) -> None:
    token = Secret(CLEAR)

    @task
    def local() -> int:
        return len(token.get())

    assert kept.run(local.bind(), name="local") == len(CLEAR)


def test_the_same_secret_is_the_same_work_under_a_name(kept: Engine) -> None:
    assert kept.run(unwrap.bind(Secret(CLEAR)), name="once") == len(CLEAR)
    assert kept.run(unwrap.bind(Secret(CLEAR)), name="once") == len(CLEAR)
    with pytest.raises(NameTaken):
        kept.run(unwrap.bind(Secret("another")), name="once")


def test_a_variable_that_is_not_there_fails_the_task_for_good(kept: Engine) -> None:
    with pytest.raises(TaskFailed) as caught:
        kept.run(unwrap.options(retry=3).bind(Secret.env("ONCEFLOW_NOT_THERE")))
    assert isinstance(caught.value.__cause__, SecretUnavailable)
    assert kept.list_tasks(caught.value.run)[0].failures == 1


def test_a_file_is_read_in_the_worker(kept: Engine, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{CLEAR}\n")
    assert kept.run(unwrap.bind(Secret.file(tmp_path / "token"))) == len(CLEAR)


def test_a_failed_run_goes_on_with_its_secret(kept: Engine, tmp_path: Path) -> None:
    obstacle = tmp_path / "obstacle"
    obstacle.touch()
    with pytest.raises(TaskFailed) as caught:
        kept.run(keep.bind([fail_while.bind(str(obstacle)), unwrap.bind(Secret(CLEAR))]))
    obstacle.unlink()
    assert kept.resume(caught.value.run) == ["mended", len(CLEAR)]


SCRIPT = """
    import os, sys
    import onceflow
    from onceflow import Secret, current, task
    from tests.helpers.traces import note

    TOKEN = Secret(os.environ.pop("CLEAR"))

    @task(rollback=lambda token, trace: note(trace, f"undone {len(token.get())}"))
    def take(token, trace):
        note(trace, f"taken {len(token.get())} {len(TOKEN.get())}")
        return token

    @task
    def wait(token, trace):
        if not os.path.exists(trace + ".go"):
            note(trace, "waits")
            import time; time.sleep(600)
        return len(token.get())

    print(onceflow.run(wait.bind(take.bind(TOKEN, sys.argv[1]), sys.argv[1]), name="killed"))
"""


def test_a_killed_script_goes_on_with_its_secret(tmp_path: Path) -> None:
    trace = str(tmp_path / "trace")
    with started(tmp_path, SCRIPT, trace, CLEAR=CLEAR) as process:
        until(lambda: "waits" in traces(trace))
        kill(process)
    assert_nothing_in_clear(tmp_path / "home")
    note(trace + ".go", "")
    assert run_script(tmp_path, SCRIPT, trace, CLEAR=CLEAR) == f"{len(CLEAR)}\n"
    assert traces(trace) == [f"taken {len(CLEAR)} {len(CLEAR)}", "waits"]
    assert_nothing_in_clear(tmp_path / "home")


def test_without_its_key_a_secret_is_lost_and_says_so(tmp_path: Path) -> None:
    # given
    obstacle = tmp_path / "obstacle"
    obstacle.touch()
    body = """
        import sys, onceflow
        from tests.engine.test_secrets import unwrap
        from tests.engine.common import fail_while
        try:
            if sys.argv[1] == "resume":
                onceflow.resume("lost")
            else:
                token = onceflow.Secret(sys.argv[2])
                onceflow.run(unwrap.options(after=[fail_while.bind(sys.argv[1])]).bind(token), name="lost")
        except onceflow.TaskFailed as failed:
            print(failed.__cause__)
    """
    run_script(tmp_path, body, str(obstacle), CLEAR)
    obstacle.unlink()
    # when
    (tmp_path / "home" / "secrets.key").unlink()
    # then
    assert "it was sealed with a key that is not in" in run_script(tmp_path, body, "resume")
