"""Plain scripts: no guard, classes of their own, and what happens when they are killed, mended and started again."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.doors import Door
from tests.helpers.scripts import kill, run_script, started
from tests.helpers.traces import traces

TRIP = """
import dataclasses, enum, os, sys
import onceflow
from onceflow import current, run, task, workflow
from tests.helpers.doors import knock
from tests.helpers.traces import note

note("executed", os.getpid())
WAITING = len(sys.argv) > 1

class Class(enum.Enum):
    FIRST = 1
    SECOND = 2

@dataclasses.dataclass(frozen=True)
class Ticket:
    city: str
    place: Class
    parts: tuple = ()

class SoldOut(Exception):
    def __init__(self, ticket, *, left):
        super().__init__(f"no {ticket.place.name} to {ticket.city}")
        self.ticket = ticket
        self.left = left

@task
def reserve(city, place):
    assert isinstance(place, Class)
    note("effects", f"reserve {city}")
    return Ticket(city, place)
"""


def test_a_script_needs_no_guard_and_is_executed_once(tmp_path: Path) -> None:
    # when
    output = run_script(
        tmp_path,
        TRIP
        + """
print(run(reserve.bind("Rome", Class.FIRST)))
""",
    )
    # then
    assert output == "Ticket(city='Rome', place=<Class.FIRST: 1>, parts=())\n"
    assert len(traces(tmp_path / "executed")) == 1


def test_classes_of_a_script_are_the_callers_in_results(tmp_path: Path) -> None:
    run_script(
        tmp_path,
        TRIP
        + """
ticket = run(reserve.bind("Rome", Class.FIRST))
assert type(ticket) is Ticket
assert ticket.place is Class.FIRST
assert ticket == Ticket("Rome", Class.FIRST)
""",
    )


def test_classes_of_a_script_are_arguments_at_any_depth(tmp_path: Path) -> None:
    run_script(
        tmp_path,
        TRIP
        + """
@task
def check(tickets, node):
    assert all(isinstance(ticket, Ticket) for ticket in tickets["all"])
    assert isinstance(node, Ticket)
    assert node.place is Class.SECOND
    return [node, *tickets["all"]]

result = run(check.bind({"all": [Ticket("Oslo", Class.FIRST)]}, reserve.bind("Rome", Class.SECOND)))
assert [type(ticket) for ticket in result] == [Ticket, Ticket]
""",
    )


def test_exceptions_of_a_script_are_caught_by_their_class(tmp_path: Path) -> None:
    run_script(
        tmp_path,
        TRIP
        + """
@task
def sell_out(ticket):
    raise SoldOut(ticket, left=0)

try:
    run(sell_out.bind(Ticket("Rome", Class.FIRST)))
except onceflow.TaskFailed as failure:
    assert type(failure.__cause__) is SoldOut
    assert failure.__cause__.ticket == Ticket("Rome", Class.FIRST)
    assert failure.__cause__.left == 0
else:
    raise AssertionError
""",
    )


def test_retries_know_the_exceptions_of_a_script(tmp_path: Path) -> None:
    run_script(
        tmp_path,
        TRIP
        + """
@task(retry=onceflow.RetryPolicy(2, on=SoldOut, delay=0.001))
def try_again(ticket):
    note("tries", 1)
    raise SoldOut(ticket, left=0)

try:
    run(try_again.bind(Ticket("Rome", Class.FIRST)))
except onceflow.TaskFailed as failure:
    assert isinstance(failure.__cause__, SoldOut)
""",
    )
    assert len(traces(tmp_path / "tries")) == 3


def test_an_uncaught_failure_prints_the_line_of_the_script(tmp_path: Path) -> None:
    output = run_script(
        tmp_path,
        TRIP
        + """
@task
def divide(number):
    return number / 0  # here

run(divide.bind(1))
""",
        check=False,
    )
    assert "return number / 0  # here" in output
    assert "ZeroDivisionError: division by zero" in output
    assert "TaskFailed: task divide of run" in output


RESUMED = (
    TRIP
    + """
@task
def sell(ticket, door):
    note("effects", "sell")
    if WAITING:
        knock(door)
    assert type(ticket) is Ticket
    return [ticket, ticket.place]

result = run(sell.bind(reserve.bind("Rome", Class.FIRST), "door"), name="trip")
assert type(result[0]) is Ticket and result[1] is Class.FIRST
print(result[0].city)
"""
)


def test_a_killed_script_goes_on_when_it_is_started_again(tmp_path: Path, door: Door) -> None:
    # given
    with started(tmp_path, RESUMED, "wait") as process:
        door.wait()
        kill(process)
    # when
    output = run_script(tmp_path, RESUMED)
    # then
    assert output == "Rome\n"
    assert traces(tmp_path / "effects") == ["reserve Rome", "sell", "sell"]


def test_a_finished_script_gives_the_stored_result_with_its_classes(tmp_path: Path) -> None:
    for _ in range(3):
        assert run_script(tmp_path, RESUMED) == "Rome\n"
    assert traces(tmp_path / "effects") == ["reserve Rome", "sell"]


def test_exceptions_of_a_script_are_caught_by_their_class_after_a_restart(tmp_path: Path) -> None:
    script = (
        TRIP
        + """
@task
def sell_out(ticket):
    raise SoldOut(ticket, left=3)

try:
    run(sell_out.bind(reserve.bind("Rome", Class.FIRST)), name="trip")
except onceflow.TaskFailed as failure:
    assert type(failure.__cause__) is SoldOut
    assert type(failure.__cause__.ticket) is Ticket
    print(failure.__cause__.left)
"""
    )
    for _ in range(2):
        assert run_script(tmp_path, script) == "3\n"
    assert traces(tmp_path / "effects") == ["reserve Rome"]


MENDED = """
from onceflow import run, task
from tests.helpers.traces import note

@task
def first():
    note("effects", "first {first}")
    return "{first}"

@task
def second(value):
    {second}

print(run(second.bind(first.bind()), name="mended"))
"""


def test_a_fixed_function_mends_a_failed_run(tmp_path: Path) -> None:
    # given
    broken = MENDED.format(first="old", second="raise ValueError('broken')")
    assert "ValueError: broken" in run_script(tmp_path, broken, check=False)
    # when
    output = run_script(tmp_path, MENDED.format(first="old", second="return value + ' fixed'"))
    # then
    assert output == "old fixed\n"
    assert traces(tmp_path / "effects") == ["first old"]


def test_a_changed_function_under_a_saved_result_does_not_run_again(tmp_path: Path) -> None:
    # given
    broken = MENDED.format(first="old", second="raise ValueError('broken')")
    run_script(tmp_path, broken, check=False)
    # when
    output = run_script(tmp_path, MENDED.format(first="new", second="return value"))
    # then
    assert output == "old\n"
    assert traces(tmp_path / "effects") == ["first old"]


def test_changed_functions_do_not_run_again_in_a_run_that_succeeded(tmp_path: Path) -> None:
    run_script(tmp_path, MENDED.format(first="old", second="return value"))
    assert run_script(tmp_path, MENDED.format(first="new", second="return value * 2")) == "old\n"
    assert traces(tmp_path / "effects") == ["first old"]


def test_a_fixed_module_mends_a_failed_run(tmp_path: Path) -> None:
    # given a task of a module that the script imports
    module = tmp_path / "shop.py"
    module.write_text("from onceflow import task\n@task\ndef buy():\n    raise ValueError('closed')\n")
    script = "import onceflow, shop\nprint(onceflow.run(shop.buy.bind(), name='buy'))\n"
    assert "ValueError: closed" in run_script(tmp_path, script, check=False)
    # when
    module.write_text("from onceflow import task\n@task\ndef buy():\n    return 'bought for real'\n")
    # then
    assert run_script(tmp_path, script) == "bought for real\n"


def test_resume_by_name_uses_the_code_of_the_same_script(tmp_path: Path) -> None:
    # given
    script = """
import sys
import onceflow
from onceflow import task

@task
def act():
    {body}

if sys.argv[1] == "run":
    onceflow.run(act.bind(), name="act")
else:
    print(onceflow.resume("act"))
"""
    run_script(tmp_path, script.format(body="raise ValueError"), "run", check=False)
    # when
    output = run_script(tmp_path, script.format(body="return 'fixed'"), "resume")
    # then
    assert output == "fixed\n"


def test_another_script_resumes_with_the_stored_code(tmp_path: Path) -> None:
    # given
    (tmp_path / "fault").touch()
    script = """
import os
import onceflow
from onceflow import task

class Box:
    def __init__(self, content):
        self.content = content

@task
def act(path):
    if os.path.exists(path):
        raise ValueError("there is a fault")
    return Box("from the first script").content

onceflow.run(act.bind("fault"), name="act")
"""
    run_script(tmp_path, script, check=False)
    (tmp_path / "fault").unlink()
    # when
    other = "import onceflow\nprint(onceflow.resume('act'))\n"
    # then
    assert run_script(tmp_path, other, file="other.py") == "from the first script\n"


def test_another_script_cannot_take_the_name_for_another_graph(tmp_path: Path) -> None:
    # given
    run_script(tmp_path, MENDED.format(first="old", second="return value"))
    # when
    output = run_script(
        tmp_path,
        """
        import onceflow
        from onceflow import task

        @task
        def third():
            return 3

        onceflow.run(third.bind(), name="mended")
        """,
        check=False,
    )
    # then
    assert "NameTaken" in output
    assert "another graph" in output


def test_a_module_run_with_dash_m_is_a_script_too(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    # given
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "main.py").write_text(TRIP + "\nprint(run(reserve.bind('Rome', Class.FIRST)).city)\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "ONCEFLOW_WORKERS": "1"}
    # when
    done = subprocess.run(
        [sys.executable, "-m", "package.main"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    # then
    assert done.stdout == "Rome\n", done.stderr
    assert len(traces(tmp_path / "executed")) == 1


def test_a_script_from_standard_input(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "ONCEFLOW_WORKERS": "1"}
    done = subprocess.run(
        [sys.executable, "-"],
        input=TRIP + "\nprint(run(reserve.bind('Rome', Class.FIRST)).city)\n",
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "Rome\n", done.stderr


def test_functions_of_the_script_that_a_task_calls_are_there(tmp_path: Path) -> None:
    output = run_script(
        tmp_path,
        """
        import math
        from onceflow import run, task

        LIMIT = 3

        def helper(number):
            return min(number, LIMIT) + math.floor(0.5)

        @task.pure
        def use(number):
            return helper(number)

        print(run(use.bind(10)), run(task(name="free")(lambda: LIMIT).bind()))
        """,
    )
    assert output == "3 3\n"


def test_a_task_of_a_script_may_return_a_graph_of_its_other_tasks(tmp_path: Path) -> None:
    output = run_script(
        tmp_path,
        TRIP
        + """
@task
def plan(cities):
    return collect.bind([reserve.bind(city, Class.FIRST) for city in cities])

@task
def collect(tickets):
    return tickets

tickets = run(plan.bind(["Rome", "Oslo"]), name="plan")
assert all(type(ticket) is Ticket for ticket in tickets)
print(*[ticket.city for ticket in tickets])
""",
    )
    assert output == "Rome Oslo\n"


NESTED = (
    TRIP
    + """
@task
def plan(cities):
    note("effects", "plan")
    return collect.bind([reserve.bind(city, Class.FIRST) for city in cities], "door")

@task
def collect(tickets, door):
    if WAITING:
        knock(door)
    return tickets

tickets = run(plan.bind(["Rome", "Oslo"]), name="plan")
assert all(type(ticket) is Ticket for ticket in tickets)
print(*[ticket.city for ticket in tickets])
"""
)


def test_a_killed_script_goes_on_inside_a_returned_graph(tmp_path: Path, door: Door) -> None:
    # given
    with started(tmp_path, NESTED, "wait") as process:
        door.wait()
        kill(process)
    # when
    door.open()
    output = run_script(tmp_path, NESTED)
    # then
    assert output == "Rome Oslo\n"
    assert sorted(traces(tmp_path / "effects")) == ["plan", "reserve Oslo", "reserve Rome"]


def test_a_fixed_function_mends_a_run_that_failed_inside_a_returned_graph(tmp_path: Path) -> None:
    # given
    script = """
from onceflow import run, task
from tests.helpers.traces import note

@task
def plan():
    note("effects", "plan")
    return act.bind(1)

@task
def act(number):
    {body}

print(run(plan.bind(), name="plan"))
"""
    run_script(tmp_path, script.format(body="raise ValueError"), check=False)
    # when
    output = run_script(tmp_path, script.format(body="return number + 1"))
    # then
    assert output == "2\n"
    assert traces(tmp_path / "effects") == ["plan"]
