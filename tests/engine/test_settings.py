"""Settings: arguments before the environment before pyproject.toml before the defaults; and how bad ones are told."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import onceflow
from onceflow import Engine, OnceflowError
from onceflow.engine import settings
from onceflow.errors import RunActive, StorageNotTrusted
from tests.conftest import NOBODY
from tests.engine.common import add, keep, pass_door
from tests.helpers.doors import Door
from tests.helpers.scripts import run_script

Give = Callable[[Path], None]


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting from outside; the default engine is closed at the end."""
    for name in [name for name in os.environ if name.startswith("ONCEFLOW_")]:
        monkeypatch.delenv(name)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield
    onceflow.configure()


def write_project(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)


def test_by_default_the_home_is_in_the_working_directory(tmp_path: Path) -> None:
    found = settings.find()
    assert found.home == tmp_path / "here" / ".onceflow"
    assert (found.workers, found.durability, found.preload, found.recover) == (None, "power", (), False)


def test_the_environment_gives_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    for name, value in {
        "HOME": str(tmp_path / "x"),
        "WORKERS": "3",
        "DURABILITY": "process",
        "PRELOAD": "json, math",
        "RECOVER": "yes",
    }.items():
        monkeypatch.setenv(f"ONCEFLOW_{name}", value)
    # when
    found = settings.find()
    # then
    assert found == settings.EngineSettings(tmp_path / "x", 3, "process", ("json", "math"), True)


def test_each_setting_tells_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEFLOW_WORKERS", "3")
    write_project(tmp_path / "here", "[tool.onceflow]\nworkers = 2\nrecover = true\n")
    found = settings.sources(home="x")
    assert found["home"] == "argument"
    assert found["workers"] == "ONCEFLOW_WORKERS"
    assert found["recover"] == f"[tool.onceflow] in {tmp_path / 'here' / 'pyproject.toml'}"
    assert found["durability"] == "default"


def test_pyproject_gives_settings(tmp_path: Path) -> None:
    write_project(
        tmp_path / "here",
        '[tool.onceflow]\nhome = "state"\nworkers = 3\ndurability = "process"\npreload = ["json"]\nrecover = true\n',
    )
    assert settings.find() == settings.EngineSettings(tmp_path / "here" / "state", 3, "process", ("json",), True)


def test_a_home_in_pyproject_lies_beside_it_wherever_one_works(tmp_path: Path) -> None:
    write_project(tmp_path, '[tool.onceflow]\nhome = "state"\n')
    assert settings.find().home == tmp_path / "state"


def test_the_nearest_pyproject_counts(tmp_path: Path) -> None:
    write_project(tmp_path, "[tool.onceflow]\nworkers = 3\n")
    write_project(tmp_path / "here", "[tool.other]\nx = 3\n")
    assert settings.find().workers is None


def test_arguments_come_before_the_environment_before_pyproject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    write_project(tmp_path / "here", '[tool.onceflow]\nhome = "project"\nworkers = 3\ndurability = "process"\n')
    monkeypatch.setenv("ONCEFLOW_HOME", str(tmp_path / "environment"))
    monkeypatch.setenv("ONCEFLOW_WORKERS", "4")
    # when
    found = settings.find(workers=5)
    # then
    assert (found.workers, found.home, found.durability) == (5, tmp_path / "environment", "process")


def test_an_empty_variable_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEFLOW_WORKERS", "")
    assert settings.find().workers is None


def test_a_home_may_begin_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert settings.find(home="~/flows").home == tmp_path / "flows"


@pytest.mark.parametrize("home", ["relative", Path("relative")])
def test_a_home_is_fixed_when_the_engine_is_opened(tmp_path: Path, home: Any) -> None:
    assert settings.find(home=home).home == tmp_path / "here" / "relative"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("workers", 0, "at least 1"),
        ("workers", -1, "at least 1"),
        ("workers", 2.5, "at least 1"),
        ("workers", True, "at least 1"),
        ("workers", "many", "at least 1"),
        ("durability", "paper", "'power' or 'process', not 'paper'"),
        ("preload", 3, "list of modules"),
        ("preload", [3], "list of modules"),
        ("recover", "maybe", "true or false"),
        ("recover", 2, "true or false"),
        ("home", "", "path"),
        ("home", 3, "path"),
    ],
)
def test_a_bad_argument_is_told_by_name(name: str, value: Any, expected: str) -> None:
    with pytest.raises(OnceflowError, match=expected) as caught:
        Engine(**{name: value})
    assert isinstance(caught.value, TypeError)
    assert f"'{name}'" in str(caught.value)
    assert "argument" in str(caught.value)
    assert not Path(".onceflow").exists()


def test_a_bad_variable_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEFLOW_WORKERS", "many")
    with pytest.raises(OnceflowError, match="from ONCEFLOW_WORKERS"):
        Engine()


def test_a_bad_setting_in_pyproject_is_told_with_the_file(tmp_path: Path) -> None:
    write_project(tmp_path / "here", "[tool.onceflow]\nworkers = 0\n")
    with pytest.raises(OnceflowError, match=r"here/pyproject\.toml"):
        Engine()


def test_an_unknown_setting_in_pyproject_is_told_with_those_there_are(tmp_path: Path) -> None:
    write_project(tmp_path / "here", "[tool.onceflow]\nworker = 2\n")
    with pytest.raises(OnceflowError, match="workers") as caught:
        Engine()
    assert "'worker'" in str(caught.value)
    assert "pyproject.toml" in str(caught.value)


@pytest.mark.parametrize("text", ["[tool.onceflow\n", "[tool]\nonceflow = 3\n", "tool = 'onceflow'\n"])
def test_a_broken_pyproject_is_told(tmp_path: Path, text: str) -> None:
    write_project(tmp_path / "here", text)
    with pytest.raises(OnceflowError, match=r"pyproject\.toml"):
        Engine()


def test_a_broken_pyproject_of_something_else_is_no_concern(tmp_path: Path) -> None:
    write_project(tmp_path / "here", "[tool.other\n")
    assert settings.find().workers is None


def test_a_pyproject_that_cannot_be_read_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "here" / "pyproject.toml").mkdir()
    write_project(tmp_path, "[tool.onceflow]\nworkers = 3\n")
    assert settings.find().workers == 3


def test_configure_sets_the_default_engine(tmp_path: Path) -> None:
    # when
    onceflow.configure(home=tmp_path / "configured", workers=1)
    # then
    assert onceflow.run(add.bind(1, 2), name="sum") == 3
    assert (tmp_path / "configured" / "journal.db").exists()
    assert onceflow.status("sum") == "succeeded"
    assert onceflow.runs.get_output("sum") == 3
    assert [info.name for info in onceflow.runs.list_runs()] == ["sum"]
    assert onceflow.run_async(keep.bind(1)).result(60) == 1
    assert onceflow.run_many([keep.bind(1), keep.bind(2)]) == [1, 2]
    assert onceflow.resume("sum") == 3
    assert onceflow.runs.resume_all() == []
    onceflow.runs.delete("sum")
    assert not Path(".onceflow").exists()


def test_configure_comes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEFLOW_HOME", str(tmp_path / "environment"))
    onceflow.configure(home=tmp_path / "configured")
    onceflow.runs.list_runs()
    assert (tmp_path / "configured").exists()
    assert not (tmp_path / "environment").exists()


def test_the_default_engine_is_found_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEFLOW_HOME", str(tmp_path / "environment"))
    assert onceflow.runs.list_runs() == []
    assert (tmp_path / "environment" / "journal.db").exists()


def test_configure_opens_another_engine(tmp_path: Path) -> None:
    # given
    onceflow.configure(home=tmp_path / "one", workers=1)
    onceflow.run(add.bind(1, 2), name="sum")
    # when
    onceflow.configure(home=tmp_path / "two", workers=1)
    # then
    assert onceflow.runs.list_runs() == []
    assert list((tmp_path / "one" / "engines").iterdir()) == []


def test_configure_is_refused_while_something_runs(tmp_path: Path, door: Door) -> None:
    # given
    onceflow.configure(home=tmp_path / "one", workers=1)
    handle = onceflow.run_async(pass_door.bind(door.path))
    # when
    with pytest.raises(RunActive) as caught:
        onceflow.configure(home=tmp_path / "two")
    # then
    assert caught.value.run == handle.id
    door.open()
    assert handle.result(60) == "through"


def test_a_bad_setting_is_told_by_configure_itself() -> None:
    with pytest.raises(OnceflowError, match="at least 1"):
        onceflow.configure(workers=0)
    onceflow.configure()
    assert onceflow.runs.list_runs() == []


def test_a_home_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(onceflow.errors.StorageError, match="not a directory"):
        Engine(tmp_path / "file")


def test_only_its_user_may_enter_the_home(tmp_path: Path) -> None:
    with Engine(tmp_path / "home", workers=1) as engine:
        engine.run(keep.bind(1))
        assert (tmp_path / "home").stat().st_mode & 0o077 == 0


def test_preloaded_modules_are_there_in_workers(tmp_path: Path) -> None:
    import sys

    loaded = onceflow.task(name="loaded")(lambda: "colorsys" in sys.modules)
    with Engine(tmp_path / "home", workers=1, preload=["colorsys"]) as engine:
        assert engine.run(loaded.bind())


def test_durability_process_works(tmp_path: Path) -> None:
    for _ in range(2):
        with Engine(tmp_path / "home", workers=1, durability="process") as engine:
            assert engine.run(keep.bind(b"x" * 100_000), name="x") == b"x" * 100_000


def test_a_script_is_configured_by_its_environment(tmp_path: Path) -> None:
    output = run_script(
        tmp_path,
        """
        import os
        import onceflow
        from onceflow import task

        @task.pure
        def where():
            return os.environ["ONCEFLOW_HOME"]

        print(onceflow.run(where.bind()))
        """,
        ONCEFLOW_DURABILITY="process",
    )
    assert output.strip() == str(tmp_path / "home")


@pytest.mark.parametrize(("given", "bytes"), [(1_000, 1_000), ("1000", 1_000), ("2GB", 2_000_000_000), ("1MiB", 2**20)])
def test_memory_for_large_values_is_bytes_or_a_text(given: Any, bytes: int) -> None:
    assert settings.find(object_memory=given).object_memory == bytes


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        (
            "object_memory",
            "much",
            "it is a number of bytes from 0 to 2**63, or a text such as '512MB' or '2GiB', not 'much'",
        ),
        ("object_memory", 0, "it is more than nothing"),
        ("object_patience", "x", "it is a number of seconds, not 'x'"),
        ("object_patience", True, "it is a number of seconds, not True"),
    ],
)
def test_what_is_no_size_and_no_time_is_refused(name: str, given: Any, told: str) -> None:
    with pytest.raises(OnceflowError) as caught:
        settings.find(**{name: given})
    assert told in str(caught.value)


# -- settings of another user ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flaw", ["owner", "mode", "folder", "link"])
def test_settings_that_another_user_could_write_are_refused(tmp_path: Path, give_away: Give, flaw: str) -> None:
    here = tmp_path / "here"
    write_project(here, f'[tool.onceflow]\nhome = "{tmp_path}/theirs"\n')
    if flaw == "owner":
        give_away(here / "pyproject.toml")
    elif flaw == "mode":
        (here / "pyproject.toml").chmod(0o666)
    elif flaw == "folder":
        here.chmod(0o777)
    else:
        (here / "pyproject.toml").rename(here / "other.toml")
        (here / "pyproject.toml").symlink_to("other.toml")
        give_away(here / "pyproject.toml")

    with pytest.raises(StorageNotTrusted, match=r"cannot use .*/here/pyproject\.toml") as caught:
        settings.find()
    assert "pyproject.toml of your own" in caught.value.advice


def test_an_untrusted_pyproject_without_settings_is_no_concern(tmp_path: Path, give_away: Give) -> None:
    write_project(tmp_path / "here", '[project]\ndependencies = ["onceflow"]\n')
    give_away(tmp_path / "here" / "pyproject.toml")
    assert settings.find().home == tmp_path / "here" / ".onceflow"


def test_a_pyproject_cannot_make_its_own_owner_trusted(tmp_path: Path, give_away: Give) -> None:
    write_project(tmp_path / "here", f"[tool.onceflow]\ntrusted_owners = [{NOBODY}]\n")
    give_away(tmp_path / "here" / "pyproject.toml")
    with pytest.raises(StorageNotTrusted):
        settings.find()
    assert settings.find(trusted_owners=[NOBODY]).trusted_owners == (NOBODY,)


def test_owners_come_from_arguments_the_environment_or_a_trusted_pyproject(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings.find().trusted_owners == ()
    write_project(tmp_path / "here", '[tool.onceflow]\ntrusted_owners = [7, "root"]\n')
    assert settings.find().trusted_owners == (0, 7)
    monkeypatch.setenv("ONCEFLOW_TRUSTED_OWNERS", "8, 9")
    assert settings.find().trusted_owners == (8, 9)
    assert settings.find(trusted_owners=["10"]).trusted_owners == (10,)
    with pytest.raises(OnceflowError, match="there is no user 'no-such'"):
        settings.find(trusted_owners=["no-such"])


def test_a_pipe_instead_of_a_pyproject_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "here" / "pyproject.toml")
    assert settings.find().workers is None


def test_an_engine_in_a_folder_of_a_trusted_owner_has_one_of_its_own_and_so_have_its_tasks(
    tmp_path: Path, give_away: Give
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    give_away(volume)
    own = volume / f"uid-{os.geteuid()}"

    with pytest.raises(StorageNotTrusted):
        Engine(volume, workers=1)
    assert list(volume.iterdir()) == []

    with Engine(volume, workers=1, trusted_owners=[NOBODY]) as engine:
        variables = onceflow.task(name="variables")(lambda: dict(os.environ))
        found = engine.run(variables.bind(), name="variables")
    assert engine.settings.home == own
    assert (own / "journal.db").exists()
    assert found["ONCEFLOW_HOME"] == str(own)
    assert found["ONCEFLOW_TRUSTED_OWNERS"] == str(NOBODY)


class Trap:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.makedirs, (str(self.trace), 0o700, True)


def test_pickles_in_the_home_of_another_user_are_not_loaded(tmp_path: Path, give_away: Give) -> None:
    home, trace = tmp_path / "here" / ".onceflow", tmp_path / "trace"
    trap = onceflow.task(name="trap")(lambda: Trap(trace))
    with Engine(home, workers=1) as engine:
        engine.run(trap.bind(), name="trap")
    trace.rmdir()
    for path in (home, *home.rglob("*")):
        give_away(path)

    with pytest.raises(StorageNotTrusted):
        onceflow.runs.get_output("trap")

    assert not trace.exists()
