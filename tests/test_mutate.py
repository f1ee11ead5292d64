"""Which mutants tools/mutate.py makes of a function, and how one is put in its place. `make soak` hunts the rest."""

import ast
import sys
from types import ModuleType

import pytest

from tools import mutate

FILE = "core/sample.py"


@pytest.fixture(autouse=True)
def no_exceptions(monkeypatch):
    monkeypatch.setattr(mutate, "NOT_RULES", {})


def mutants(source):
    return list(mutate.all_mutants({FILE: ast.parse(source)}))


def changes(body):
    """The names of the mutants of a function with this body, without the function."""
    source = "def f(row: Row, early: bool) -> bool:\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return [mutant.name.removeprefix(f"{FILE}:f: ") for mutant in mutants(source)]


def test_a_test_is_negated_and_each_operand_is_left_out():
    assert changes("if a and not (b or c):\n    pass") == [
        "not (a and (not (b or c)))",
        "a and (not (b or c)) without a",
        "a and (not (b or c)) without not (b or c)",
        "a and (not (b or c)) without b",
        "a and (not (b or c)) without c",
    ]


@pytest.mark.parametrize(
    "body",
    [
        "if test:\n    pass",
        "while test:\n    pass",
        "x = 1 if test else 2",
        "x = [y for y in z if test]",
        "match x:\n    case 1 if test:\n        pass",
    ],
)
def test_every_kind_of_test_is_negated(body):
    assert changes(body) == ["not (test)"]


def test_boolean_values_are_negated_where_they_are_assigned_counted_passed_on_and_returned():
    assert changes("row.begun = True\nrow.count += not early\ncall(1, early, late=False)\nreturn early") == [
        "row.begun = not True",
        "not (not early)",
        "call(1, not early, late=False)",
        "call(1, early, late=not False)",
        "return not early",
    ]


def test_a_constant_that_is_returned_is_named_by_its_branch():
    assert changes("if a:\n    return True\nelse:\n    return False\nreturn False") == [
        "not (a)",
        "return not True if a",
        "return not False unless a",
        "return not False",
    ]


def test_a_name_that_is_not_boolean_everywhere_is_left_alone():
    source = "class A:\n    late: bool\nclass B:\n    late: int\ndef f(a: A) -> int:\n    return a.late\n"
    assert mutants(source) == []


def test_assertions_are_not_changed():
    assert changes("assert row is not None\nfor x in y:\n    assert x and row") == []


def test_equal_changes_are_numbered():
    assert changes("if a:\n    pass\nif a:\n    pass") == ["not (a)", "not (a) (2)"]


def test_what_is_not_a_rule_is_not_mutated(monkeypatch):
    monkeypatch.setattr(mutate, "NOT_RULES", {f"{FILE}:f": "advice"})
    assert changes("return early") == []


def test_an_exception_for_what_does_not_exist_any_more_is_an_error(monkeypatch):
    monkeypatch.setattr(mutate, "NOT_RULES", {f"{FILE}:gone": "advice"})
    with pytest.raises(SystemExit, match="gone"):
        changes("return early")


def test_a_mutant_takes_the_place_of_the_function_for_all_that_refer_to_it(monkeypatch):
    source = """
class Base:
    def __init__(self, ready: bool):
        self.ready = ready

class Thing(Base):
    @property
    def may_start(self) -> bool:
        return self.ready
"""
    module = ModuleType("onceflow.core.sample")
    exec(compile(source, FILE, "exec"), vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    thing = module.Thing(True)
    mutant = next(mutant for mutant in mutants(source) if mutant.rule.qualname == "Thing.may_start")
    before = ast.unparse(mutant.rule.tree)
    mutate.install_mutant(mutant)
    assert not thing.may_start
    assert ast.unparse(mutant.rule.tree) == before
