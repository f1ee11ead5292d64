"""`onceflow doctor`."""

import os
import socket
import subprocess
import sys

import click
import pytest

from onceflow.cli import completion
from onceflow.cli import doctor as doctor_module
from onceflow.cli.main import main
from onceflow.storage.home import Home
from onceflow.storage.inspection import MOST_REFUSALS, Inspection
from tests.cli.common import FLOWS, Command
from tests.conftest import NOBODY


def findings(told):
    return {finding["name"]: (finding["state"], finding["text"]) for finding in told["findings"]}


def test_a_home_that_is_well(fresh):
    fresh.run("nothing")
    told = fresh.json("doctor")
    found = findings(told)
    assert told["ok"]
    assert {state for state, _ in found.values()} <= {"ok", "note"}
    assert found["runs"] == ("ok", "1 succeeded")
    assert found["home"] == ("ok", str(fresh.home))
    assert found["journal"][1].startswith("whole, version ")
    assert "0 alive" in found["engines"][1]


def test_a_run_that_was_submitted_waits_for_an_engine_and_was_not_interrupted(fresh):
    fresh("submit", f"{FLOWS}:nothing")
    assert findings(fresh.json("doctor"))["runs"] == ("ok", "1 pending")


def test_each_setting_is_told_with_its_source(fresh, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.onceflow]\ndurability = "process"')
    monkeypatch.chdir(tmp_path)
    told = fresh.json("doctor")["settings"]
    assert told["home"] == {"value": str(fresh.home), "source": "--home"}
    assert told["workers"] == {"value": 1, "source": "ONCEFLOW_WORKERS"}
    assert told["durability"] == {"value": "process", "source": f"[tool.onceflow] in {tmp_path / 'pyproject.toml'}"}
    assert told["recover"] == {"value": False, "source": "default"}


def test_a_damaged_journal_is_found_and_the_rest_is_told_as_well(fresh):
    fresh.run("nothing")
    (fresh.home / "journal.db").write_bytes(b"no database" * 1000)
    result = fresh("doctor", code=5)
    assert "writable" in result.stdout
    assert result.stderr.startswith("onceflow: journal: ")
    assert len(result.stderr.splitlines()) == 1
    for command in (["ls"], ["show", "x"], ["run", f"{FLOWS}:nothing"], ["prune", "--keep", "1"]):
        assert "journal.db" in fresh.error(*command, code=5)


def test_a_home_that_others_can_write_is_found(fresh):
    fresh.run("nothing")
    os.chmod(fresh.home, 0o777)
    assert "could run code as you" in fresh.error("doctor", code=5)


def test_blobs_that_nobody_names_are_counted(fresh):
    fresh.run("nothing")
    (run,) = fresh.json("ls")
    folder = fresh.home / "blobs" / run["id"]
    folder.mkdir(parents=True)
    (folder / "1.0123456789abcdef.3-352441c2.value").write_bytes(b"abc")
    assert findings(fresh.json("doctor"))["orphans"][1].startswith("1 files, 3 B")


def test_a_setting_that_makes_no_sense_is_told(fresh, monkeypatch):
    monkeypatch.setenv("ONCEFLOW_WORKERS", "many")
    for verb in ("doctor", "ls"):
        assert "ONCEFLOW_WORKERS" in fresh.error(verb, code=2)


WITHOUT_POWERS = """
import ctypes, sys
header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # root may write everywhere, unless it gives up its capabilities
assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0
from onceflow.cli.main import main
sys.argv = ["onceflow", *sys.argv[1:]]
main()
"""


def test_a_home_that_cannot_be_written_is_found(fresh):
    fresh.run("nothing")
    os.chmod(fresh.home, 0o500)
    try:
        command = [sys.executable, "-c", WITHOUT_POWERS, "doctor", "--home", str(fresh.home)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    finally:
        os.chmod(fresh.home, 0o700)
    assert done.returncode == 5
    assert "nothing can be written there" in done.stderr


def test_a_key_that_others_can_read_is_found(fresh):
    fresh.run("nothing")
    (fresh.home / "secrets.key").write_text("0" * 64)
    (fresh.home / "secrets.key").chmod(0o644)
    assert findings(fresh.json("doctor", code=5))["secrets"][0] == "bad"


def test_the_place_for_blobs_is_tried(fresh, s3, monkeypatch):
    monkeypatch.setenv("ONCEFLOW_BLOBS", s3.create_bucket())
    fresh.run("nothing")
    state, text = findings(fresh.json("doctor"))["blobs"]
    assert state == "ok"
    assert text.startswith("s3://")


def test_a_place_for_blobs_that_cannot_be_used_is_trouble(fresh, s3, monkeypatch):
    fresh.run("nothing")
    monkeypatch.setenv("ONCEFLOW_BLOBS", s3.create_bucket(patience="0.1").replace("s3://", "s3://no-"))
    result = fresh("doctor", code=5)
    assert "NoSuchBucket" in result.stderr


def test_a_home_of_another_user_is_found_and_refused_by_every_verb(fresh, give_away):
    fresh.run("nothing", "--name", "x")
    give_away(fresh.home)
    assert "belongs to user" in fresh.error("doctor", code=5)
    for command in (
        ["ls"],
        ["show", "x"],
        ["resume", "x"],
        ["logs", "x"],
        ["logs", "--engine"],
        ["stats"],
        ["run", f"{FLOWS}:nothing"],
    ):
        assert "belongs to user" in fresh.error(*command, code=5)


def test_runs_in_the_home_of_another_user_are_not_proposed(fresh, give_away):
    fresh.run("nothing", "--name", "x")
    with click.Context(main) as context:
        context.params["home"] = str(fresh.home)
        assert [name for name, _ in completion.runs(context, "x")] == ["x"]
        give_away(fresh.home / "journal.db")
        assert completion.runs(context, "x") == []


def test_a_home_that_is_yet_to_be_made_in_a_folder_of_another_user_is_found(fresh, give_away):
    give_away(fresh.home.parent)
    assert "belongs to user" in fresh.error("doctor", code=5)


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o701])
@pytest.mark.parametrize("name", [".", "blobs", "journal.db", "logs"])
def test_any_right_of_others_in_a_home_is_found(fresh, name, mode):
    fresh.run("nothing")
    (fresh.home / name).chmod(mode)
    state, text = findings(fresh.json("doctor", code=5))["access"]
    assert state == "bad"
    assert f"mode {mode:04o}" in text
    assert f"chmod -R go= {fresh.home}" in text


def test_a_file_of_another_user_deep_in_a_home_is_found(fresh, give_away):
    fresh.run("nothing")
    (fresh.home / "blobs" / "run").mkdir()
    give_away(fresh.home / "blobs" / "run")
    state, text = findings(fresh.json("doctor", code=5))["access"]
    assert state == "bad"
    assert "blobs/run: it belongs to user" in text


def test_settings_of_another_user_are_trouble(fresh, tmp_path, give_away, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("[tool.onceflow]\nworkers = 1")
    give_away(tmp_path / "pyproject.toml")
    monkeypatch.chdir(tmp_path)
    for verb in ("doctor", "ls"):
        assert "pyproject.toml" in fresh.error(verb, code=5)


def damage_one_blob(fresh):
    fresh.run("nothing")
    fresh.run("large", "--name", "large")
    run = fresh.json("show", "large")["id"]
    (blob,) = (fresh.home / "blobs" / run).iterdir()
    content = bytearray(blob.read_bytes())
    content[1000] ^= 4
    blob.write_bytes(content)
    return run, blob


def test_a_deep_look_names_run_task_and_file_of_each_damaged_value_and_what_to_do(fresh):
    run, blob = damage_one_blob(fresh)
    assert fresh.json("doctor")["ok"]
    told = fresh.json("doctor", "--deep", code=5)
    assert not told["ok"]
    (damage,) = told["damage"]
    assert (damage["run"], damage["task"], damage["file"]) == (run, "large", str(blob))
    assert f"onceflow delete {run}" in damage["advice"]
    result = fresh("doctor", "--deep", code=5)
    assert str(blob) in result.stdout
    assert result.stderr.startswith("onceflow: saved values: 1 are damaged; the first is of task large of run ")
    fresh("delete", run, "--yes")
    assert fresh.json("doctor", "--deep")["damage"] == []


def test_a_deep_look_at_a_home_that_is_well_says_how_much_it_has_read(fresh):
    fresh.run("nothing")
    state, text = findings(fresh.json("doctor", "--deep"))["saved values"]
    assert state == "ok"
    assert text.startswith("whole: 1 of 1 runs, ")


def test_a_deep_look_where_there_is_no_home_yet_finds_nothing(fresh):
    assert fresh.json("doctor", "--deep")["damage"] == []


def test_a_deep_look_that_is_interrupted_ends_cleanly(fresh, monkeypatch):
    fresh.run("nothing")

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Inspection, "damage", interrupted)
    result = fresh("doctor", "--deep", code=130)
    assert "interrupted" in result.stderr
    assert "0 alive" in findings(fresh.json("doctor"))["engines"][1]


def test_a_deep_look_takes_the_settings_of_the_home_like_any_other_command(fresh, tmp_path, give_away, monkeypatch):
    """Given a folder of a trusted owner: what is in it is read. And nobody is waited for longer than is set."""
    mount = tmp_path / "mount"
    mount.mkdir()
    give_away(mount)
    monkeypatch.setenv("ONCEFLOW_TRUSTED_OWNERS", str(NOBODY))
    monkeypatch.setenv("ONCEFLOW_LOCK_TIMEOUT", "7.5")
    mounted, opened = Command(mount), []

    class Noted(Home):
        def __init__(self, *given, **others):
            super().__init__(*given, **others)
            opened.append(self.journal.lock_timeout)

    monkeypatch.setattr(doctor_module, "Home", Noted)
    mounted.run("large")

    found = findings(mounted.json("doctor", "--deep"))

    assert found["saved values"][0] == "ok"
    assert "1 large values" in found["saved values"][1]
    assert opened == [7.5, 7.5]


def test_a_value_that_others_could_have_changed_is_not_called_damaged(fresh):
    fresh.run("large", "--name", "large")
    run = fresh.json("show", "large")["id"]
    (blob,) = (fresh.home / "blobs" / run).iterdir()
    blob.chmod(0o666)

    told = fresh.json("doctor", "--deep", code=5)

    assert told["damage"] == []
    (unread,) = told["unread"]
    assert (unread["run"], unread["task"], unread["file"]) == (run, "large", str(blob))
    assert "every user can write to it (mode 0666)" in unread["reason"]
    assert f"chmod go-w {blob}" in unread["advice"]
    assert "It may be whole" in unread["advice"]
    result = fresh("doctor", "--deep", code=5)
    assert "delete" not in result.stdout
    assert "Restore" not in result.stdout
    blob.chmod(0o600)
    assert findings(fresh.json("doctor", "--deep"))["saved values"][0] == "ok"


def test_values_in_an_object_store_that_does_not_answer_are_not_called_damaged(fresh, s3, monkeypatch):
    """And after some of them it is not asked for more: each takes its patience."""
    bucket = s3.create_bucket(patience="0.1")
    monkeypatch.setenv("ONCEFLOW_BLOBS", bucket)
    for _ in range(MOST_REFUSALS + 2):
        fresh.run("large")
    assert findings(fresh.json("doctor", "--deep"))["saved values"][0] == "ok"
    with socket.socket() as nobody:  # who listens there
        nobody.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        monkeypatch.setenv("ONCEFLOW_BLOBS", bucket.replace(s3.address, gone))
        told = fresh.json("doctor", "--deep", code=5)

    assert told["damage"] == []
    assert len(told["unread"]) == MOST_REFUSALS + 2
    asked = [unread for unread in told["unread"] if "a saved value cannot be read" in unread["reason"]]
    assert len(asked) == MOST_REFUSALS
    assert all("It may be whole" in unread["advice"] for unread in told["unread"])
    assert {unread["task"] for unread in told["unread"]} == {"large"}
    state, text = findings(told)["unread values"]
    assert state == "bad"
    assert text.startswith("5 could not be read, and may be whole; the first is of task large of run ")


@pytest.fixture
def elsewhere(fresh, tmp_path, monkeypatch):
    """The folders of large values that are kept outside of the home: of the journal, and of the run in it."""
    monkeypatch.setenv("ONCEFLOW_BLOBS", f"file://{tmp_path}/blobs")
    fresh.run("large")
    (journal,) = (tmp_path / "blobs").iterdir()
    (run,) = journal.iterdir()
    return journal, run


def test_a_folder_for_large_values_that_is_well(fresh, elsewhere):
    elsewhere[0].parent.chmod(0o755)  # a mount, for instance
    assert findings(fresh.json("doctor"))["access to blobs"] == ("ok", "for its user only; --deep looks at each file")
    assert findings(fresh.json("doctor", "--deep"))["access to blobs"] == ("ok", "for its user only")


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_a_folder_for_large_values_that_others_may_enter_is_found(fresh, elsewhere, mode):
    elsewhere[0].chmod(mode)
    state, text = findings(fresh.json("doctor", code=5))["access to blobs"]
    assert state == "bad"
    assert f"mode {mode:04o}" in text


def test_a_folder_of_a_run_elsewhere_that_others_can_write_is_found(fresh, elsewhere):
    elsewhere[1].chmod(0o777)
    state, text = findings(fresh.json("doctor", code=5))["access to blobs"]
    assert (state, text.partition(": ")[0]) == ("bad", str(elsewhere[1]))
    assert "every user can write to it (mode 0777)" in text


def test_a_folder_of_a_run_elsewhere_that_belongs_to_another_user_is_found(fresh, elsewhere, give_away):
    give_away(elsewhere[1])
    assert "it belongs to user" in findings(fresh.json("doctor", code=5))["access to blobs"][1]


@pytest.mark.parametrize("what", ["mode", "owner"])
def test_a_deep_look_finds_every_file_elsewhere_that_others_can_change(fresh, elsewhere, give_away, what):
    (blob,) = elsewhere[1].iterdir()
    if what == "mode":
        blob.chmod(0o666)
    else:
        give_away(blob)
    assert fresh.json("doctor")["ok"]
    state, text = findings(fresh.json("doctor", "--deep", code=5))["access to blobs"]
    assert state == "bad"
    assert text.startswith(f"{blob}: ")
    assert "so that others could run code as you" in text
