"""A full disk and a home that may not be written: a clear error, nothing saved is lost, and going on afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import onceflow
from onceflow import Engine, TaskFailed, task
from onceflow.backends.local import send_ahead
from onceflow.errors import StorageDamaged, StorageError, StorageMoved, StorageReadOnly, StorageTooNew
from onceflow.storage import schema
from onceflow.storage.sqlite import SqliteJournal
from tests.engine.common import add, keep, trace
from tests.helpers.doors import Door, knock
from tests.helpers.scripts import run_script
from tests.helpers.traces import note, traces
from tests.helpers.waiting import LONG

FULL = """
    import os, resource, signal, sys
    import onceflow
    from onceflow import task
    from tests.tools.chaos.kills import children
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


@task
def pass_door(door: str, path: str, line: str) -> str:
    note(path, line)
    knock(door)
    return line


def make_read_only(engine: Engine) -> None:
    """From now on every commit fails."""
    journal = engine._home.journal
    assert isinstance(journal, SqliteJournal)
    assert journal._writer._connection is not None
    journal._writer._connection.execute("PRAGMA query_only = 1")


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
    except onceflow.errors.StorageFull as error:
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
    except onceflow.errors.StorageFull as error:
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
    except onceflow.errors.StorageFull as error:
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
    except onceflow.errors.StorageFull as error:
        print("full")
    free()
    print(len(onceflow.run(half_mebibyte.bind(1, bytes(60_000)), name="y")))
    """
    )
    assert run_script(tmp_path, script) == "full\n50000\n"


def test_nothing_starts_after_a_failed_commit_in_any_run(tmp_path: Path, door: Door) -> None:
    # given a task that runs, and tasks of other runs that wait for its worker
    ledger = str(tmp_path / "ledger")
    engine = Engine(tmp_path / "home", workers=1)
    handles = [engine.run_async(pass_door.bind(door.path, ledger, "held"), name="held")]
    door.wait()
    handles += [engine.run_async(trace.bind(ledger, number), name=f"queued {number}") for number in range(20)]
    # when a commit fails
    make_read_only(engine)
    with pytest.raises(StorageReadOnly):
        engine.run(keep.bind(1))
    door.open()
    # then all runs end with the error, and nothing has begun since
    for handle in handles:
        with pytest.raises(StorageReadOnly):
            handle.result()
    assert engine.broken
    with pytest.raises(StorageReadOnly):
        engine.run(keep.bind(1))
    engine.close()
    assert traces(ledger) == ["held"]
    # and a new engine goes on with all of them
    door.open()
    with Engine(tmp_path / "home", workers=1) as anew:
        resumed = [handle.result() for handle in anew.resume_all()]
    assert resumed == ["held", *range(20)]
    assert Counter(traces(ledger)) == {"held": 2, **{str(number): 1 for number in range(20)}}


def test_a_run_in_another_home_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    script = (
        FULL
        + """
    @task
    def wait():
        with open("gate", "rb", buffering=0) as gate:
            return gate.read(1)

    elsewhere = os.path.join(os.getcwd(), "elsewhere")
    os.mkfifo("gate")
    gate = os.open("gate", os.O_RDWR)
    handle = onceflow.run_async(wait.bind(), name="waits", home=elsewhere)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    os.write(gate, b"1")
    try:
        handle.result()
    except onceflow.errors.StorageFull as error:
        print("full")
    free()
    os.write(gate, b"2")
    print(onceflow.run(wait.bind(), name="waits", home=elsewhere))
    """
    )
    assert run_script(tmp_path, script) == "full\nb'2'\n"


DISK = """
    import os, sys, time
    from onceflow import Engine, task
    from onceflow.errors import StorageFull
    from onceflow.storage.group_commit import GroupWriter

    @task
    def strike(number):
        with open("ledger", "a") as file:
            file.write(f"{number} {time.monotonic_ns()}\\n")
        time.sleep(float(os.environ["SECONDS"]))
        return bytes(30_000)

    failed = []
    fail = GroupWriter._fail

    def note_failure(writer, error):
        fail(writer, error)
        failed.append(time.monotonic_ns())

    GroupWriter._fail = note_failure
    numbers = range(150)
    with Engine(workers=2) as engine:
        nodes = [strike.bind(number) for number in numbers]
        names = [f"strike {number}" for number in numbers]
        results = engine.run_many(nodes, names=names, return_exceptions=True)
    print(*failed[:1])
    print(*[number for number in numbers if isinstance(results[number], bytes)])
    print(*[number for number in numbers if isinstance(results[number], StorageFull)])
"""


@pytest.mark.parametrize("seconds", [0, 2 * send_ahead.LONG])
def test_a_disk_that_is_really_full_repeats_only_what_had_begun(tmp_path: Path, seconds: float) -> None:
    """Also what had begun is known: of tasks that take longer than a commit, one that each worker runs, and one more
    that was promised to it."""
    # given a small disk
    (tmp_path / "home").mkdir()
    (tmp_path / "strikes.py").write_text(textwrap.dedent(DISK))
    shell = """
        set -e
        mount -t tmpfs -o size=4m,mode=700 tmpfs "$ONCEFLOW_HOME"
        "$1" strikes.py
        cp ledger before
        mount -o remount,size=64m "$ONCEFLOW_HOME"
        exec "$1" strikes.py
    """
    command = ["unshare", *([] if os.getuid() == 0 else ["--user", "--map-root-user"]), "--mount", "sh", "-c", shell]
    environment = {**os.environ, "ONCEFLOW_HOME": str(tmp_path / "home"), "SECONDS": str(seconds)}
    # when
    ended = subprocess.run(
        [*command, "sh", sys.executable], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LONG
    )
    assert ended.returncode == 0, ended.stderr
    # then nothing begins after the failed commit but what the two workers had taken up
    moment, saved, full, _, done, rest = ended.stdout.splitlines()
    before = [line.split() for line in traces(tmp_path / "before")]
    assert len([begun for _, begun in before if int(begun) > int(moment)]) <= 2
    assert len(saved.split()) + len(full.split()) == 150
    assert full
    # and with room for all, what had not begun happens once, and what was saved not again
    assert (len(done.split()), rest) == (150, "")
    times = Counter(line.split()[0] for line in traces(tmp_path / "ledger"))
    begun = {number for number, _ in before}
    assert len(times) == 150
    assert {times[number] for number in saved.split()} == {1}
    assert {times[number] for number in full.split() if number not in begun} <= {1}
    assert max(times.values()) <= 2
    workers, repeated = 2, [number for number, count in times.items() if count == 2]
    if seconds >= send_ahead.LONG:
        assert len(repeated) <= workers * (1 + 1)


def test_a_read_only_home_is_a_clear_error_and_works_again_when_it_is_writable(tmp_path: Path) -> None:
    output = run_script(
        tmp_path,
        """
        import os, tempfile
        from onceflow import Engine
        from onceflow.errors import StorageReadOnly
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


def delete(home: Path) -> None:
    shutil.rmtree(home)


def move(home: Path) -> None:
    home.rename(home.with_name("moved"))


def replace(home: Path) -> None:
    move(home)
    Engine(home).close()


def delete_locks(home: Path) -> None:
    shutil.rmtree(home / "engines")


@pytest.mark.parametrize("trouble", [delete, move, replace, delete_locks])
def test_a_home_that_is_moved_away_stops_the_engine_at_the_next_commit(
    tmp_path: Path, door: Door, trouble: Callable[[Path], None]
) -> None:
    # given a task that runs, and others that wait for its worker
    home, ledger = tmp_path / "home", str(tmp_path / "ledger")
    engine = Engine(home, workers=1)
    names = ["held", "queued 1", "queued 2", "queued 3"]
    handles = [engine.run_async(pass_door.bind(door.path, ledger, name), name=name) for name in names]
    door.wait()
    # when
    trouble(home)
    door.open()
    # then the result of the task is not believed, and nothing begins after it
    for handle in handles:
        with pytest.raises(StorageMoved, match=rf"{home}.*Move it back, or open an engine where it is now") as caught:
            handle.result()
        assert caught.value.path == str(home)
    assert engine.broken
    engine.close()
    assert len(traces(ledger)) <= 2  # the next one may have begun before the first was to be saved


@pytest.mark.parametrize("trouble", [delete, move, replace])
def test_an_engine_whose_home_is_moved_away_neither_reads_nor_writes(
    tmp_path: Path, trouble: Callable[[Path], None]
) -> None:
    engine = Engine(tmp_path / "home", workers=1)
    engine.run(keep.bind(1), name="one")
    trouble(tmp_path / "home")

    for use in (engine.list_runs, lambda: engine.run(keep.bind(1), name="one"), lambda: engine.run(keep.bind(2))):
        with pytest.raises(StorageMoved):
            use()
    assert engine.broken
    engine.close()


def test_a_home_that_was_moved_is_not_begun_anew_and_goes_on_when_it_is_back(tmp_path: Path, door: Door) -> None:
    # given
    home, ledger = tmp_path / "home", str(tmp_path / "ledger")
    engine = Engine(home, workers=1)
    engine.serve()
    handle = engine.run_async(pass_door.bind(door.path, ledger, "held"), name="held")
    door.wait()
    # when
    move(home)
    with pytest.raises(StorageMoved):
        handle.result()
    engine.close()
    # then
    assert not home.exists()
    # and when it is back
    (tmp_path / "moved").rename(home)
    door.open(2)
    with Engine(home, workers=1) as anew:
        assert anew.resume("held") == "held"
    assert traces(ledger) == ["held", "held"]


def test_an_engine_in_the_moved_home_does_not_drive_what_the_old_one_still_drives(tmp_path: Path, door: Door) -> None:
    # given
    home, ledger = tmp_path / "home", str(tmp_path / "ledger")
    engine = Engine(home, workers=1)
    handle = engine.run_async(pass_door.bind(door.path, ledger, "held"), name="held")
    door.wait()
    move(home)
    with Engine(tmp_path / "moved", workers=1) as other:
        # when
        again = other.run_async(pass_door.bind(door.path, ledger, "held"), name="held")
        door.open()
        with pytest.raises(StorageMoved):
            handle.result()
        # then it waits until that one is closed
        assert traces(ledger) == ["held"]
        engine.close()
        door.open()
        assert again.result() == "held"
