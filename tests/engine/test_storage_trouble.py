"""A full disk and a home that may not be written: a clear error, nothing saved is lost, and going on afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import onceflow
from onceflow import Engine, StorageDamaged, StorageError, StorageTooNew, TaskFailed
from onceflow.storage import schema
from tests.engine.common import add, keep, run_script, trace, traces

FULL = """
    import os, resource, signal, sys
    import onceflow
    from onceflow import task
    from onceflow.testing.chaos.kills import children
    from tests.engine.common import keep, trace

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def limit(room):
        \"\"\"From now on, no file of this process grows beyond what the journal has and so many bytes.\"\"\"
        home = os.environ["ONCEFLOW_HOME"]
        largest = max(os.stat(os.path.join(home, name)).st_size for name in ("journal.db", "journal.db-wal"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + room, resource.RLIM_INFINITY))

    def limit_porter(room):
        \"\"\"The process that will write large outputs: it has the limits of the one that starts it.\"\"\"
        for server in children(os.getpid()):
            resource.prlimit(server, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))

    def free():
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    @task
    def half_mebibyte(number, before=None):
        with open("trace", "a") as file:
            file.write(f"{number}\\n")
        return bytes(50_000)
"""


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    # given a chain that needs more room than there is
    script = (
        FULL
        + """
    node = None
    for number in range(80):
        node = half_mebibyte.bind(number, node)
    onceflow.run(keep.bind("before"), name="before")
    if sys.argv[1] == "full":
        limit(200_000)
    try:
        print(len(onceflow.run(node, name="chain")))
    except onceflow.StorageFull as error:
        print("full:", error)
    free()
    """
    )
    # when
    output = run_script(tmp_path, script, "full")
    done = traces(tmp_path / "trace")
    # then
    assert output.startswith("full: cannot use")
    assert "make room, then resume" in output
    assert 0 < len(done) < 80
    # and when there is room
    assert run_script(tmp_path, script, "room") == "50000\n"
    # then what was saved did not run again
    again = traces(tmp_path / "trace")
    assert list(dict.fromkeys(again)) == [str(number) for number in range(80)]
    assert len(again) <= 82


def test_a_full_disk_for_a_large_output_is_a_clear_error(tmp_path: Path) -> None:
    # given
    script = (
        FULL
        + """
    @task
    def large():
        return bytes(8_000_000)

    onceflow.run(keep.bind(1))
    if sys.argv[1] == "full":
        limit_porter(1_000_000)
    try:
        print(len(onceflow.run(large.bind(), name="large")))
    except onceflow.StorageFull as error:
        print("full")
    """
    )
    # then
    assert run_script(tmp_path, script, "full") == "full\n"
    assert run_script(tmp_path, script, "room") == "8000000\n"


def test_a_full_disk_for_a_large_argument_is_a_clear_error(tmp_path: Path) -> None:
    script = (
        FULL
        + """
    onceflow.run(keep.bind(1))
    limit(1_000_000)
    try:
        onceflow.run(keep.bind(bytearray(8_000_000)), name="large")
    except onceflow.StorageFull as error:
        print("full")
    free()
    print(len(onceflow.run(keep.bind(bytearray(8_000_000)), name="large")))
    """
    )
    assert run_script(tmp_path, script) == "full\n8000000\n"


def test_the_same_process_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    script = (
        FULL
        + """
    onceflow.run(keep.bind(1))
    limit(0)
    try:
        onceflow.run(half_mebibyte.bind(1, bytes(60_000)), name="x")
        for number in range(100):
            onceflow.run(half_mebibyte.bind(number, bytes(60_000)))
    except onceflow.StorageFull as error:
        print("full")
    free()
    print(len(onceflow.run(half_mebibyte.bind(1, bytes(60_000)), name="y")))
    """
    )
    assert run_script(tmp_path, script) == "full\n50000\n"


def test_a_read_only_home_is_a_clear_error_and_works_again_when_it_is_writable(tmp_path: Path) -> None:
    output = run_script(
        tmp_path,
        """
        import os, tempfile
        from onceflow import Engine, StorageReadOnly
        from tests.engine.common import keep

        NOBODY = 65534

        def can(act):
            try:
                return act()
            except StorageReadOnly as error:
                return f"read-only: {error}"

        with tempfile.TemporaryDirectory() as folder:
            home = os.path.join(folder, "home")
            with Engine(home, workers=1) as engine:
                engine.run(keep.bind(7), name="x")
            os.chmod(folder, 0o755)
            os.chmod(home, 0o555)
            child = os.fork()
            if child == 0:
                if os.getuid() == 0:  # to whom nothing is read-only
                    os.setresuid(NOBODY, NOBODY, NOBODY)
                print(can(lambda: Engine(home)), flush=True)
                os._exit(0)
            os.waitpid(child, 0)
            os.chmod(home, 0o700)
            with Engine(home, workers=1) as engine:
                print(engine.get_output("x"))
        """,
    )
    refused, found = output.splitlines()
    assert refused.startswith("read-only: cannot use")
    assert "must be writable" in refused
    assert found == "7"


def test_a_home_on_a_read_only_file_system_is_a_clear_error() -> None:
    with pytest.raises(StorageError, match="/proc/onceflow"):
        Engine("/proc/onceflow")


def test_a_journal_that_is_no_journal_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(StorageDamaged, match=r"journal\.db"):
        Engine(tmp_path)


def test_a_journal_of_a_newer_onceflow_is_a_clear_error(tmp_path: Path) -> None:
    import sqlite3

    with Engine(tmp_path, workers=1) as engine:
        engine.list_runs()
    with sqlite3.connect(tmp_path / "journal.db") as journal:
        journal.execute("pragma user_version = 1000")
        journal.execute(f"pragma application_id = {schema.proof_of(1000)}")
    journal.close()
    with pytest.raises(StorageTooNew):
        Engine(tmp_path)


def test_a_version_number_that_was_damaged_is_told_from_a_newer_onceflow(tmp_path: Path) -> None:
    import sqlite3

    with Engine(tmp_path, workers=1) as engine:
        engine.list_runs()
    with sqlite3.connect(tmp_path / "journal.db") as journal:
        journal.execute("pragma user_version = 1000")
    journal.close()
    with pytest.raises(StorageDamaged, match="version number"):
        Engine(tmp_path)


def test_a_blob_that_was_removed_is_told(engine: Engine, home: Path) -> None:
    # given
    engine.run(keep.bind(b"x" * 200_000), name="removed")
    for file in (home / "blobs" / engine.list_runs(name="removed")[0].id).glob("**/*"):
        if file.is_file():
            file.unlink()
    # then
    with pytest.raises(StorageDamaged):
        engine.get_output("removed")
    with pytest.raises(StorageDamaged):
        engine.run(keep.bind(b"x" * 200_000), name="removed")
    assert engine.run(add.bind(1, 2)) == 3


def test_a_blob_that_was_cut_is_told(engine: Engine, home: Path) -> None:
    # given
    engine.run(trace.bind(os.devnull, "x" * 200_000), name="cut")
    for file in (home / "blobs" / engine.list_runs(name="cut")[0].id).glob("**/*"):
        if file.is_file():
            os.truncate(file, 100_000)
    # then
    with pytest.raises(StorageDamaged):
        engine.get_output("cut")


def test_an_input_that_was_removed_fails_only_its_run(engine: Engine, home: Path, tmp_path: Path) -> None:
    # given a failed run that reads a large saved value
    fault = tmp_path / "fault"
    fault.touch()

    def use(value: bytes, fault: str) -> int:
        if os.path.exists(fault):
            raise ValueError("not yet")
        return len(value)

    node = onceflow.task(use).bind(keep.bind(b"x" * 200_000), str(fault))
    with pytest.raises(TaskFailed):
        engine.run(node, name="input removed")
    for file in (home / "blobs" / engine.list_runs(name="input removed")[0].id).glob("**/*"):
        if file.is_file():
            file.unlink()
    fault.unlink()
    # then
    with pytest.raises(StorageDamaged):
        engine.resume("input removed")
    assert engine.run(add.bind(1, 2)) == 3


def test_a_home_that_was_removed_is_told(tmp_path: Path) -> None:
    import shutil

    engine = Engine(tmp_path / "home", workers=1)
    engine.run(keep.bind(1))
    shutil.rmtree(tmp_path / "home")
    with pytest.raises(StorageError):
        engine.run(keep.bind(b"x" * 200_000))
    engine.close()
