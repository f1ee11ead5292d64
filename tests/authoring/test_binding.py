"""What bind accepts, what it refuses, and what it keeps of the arguments."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow import task
from onceflow.authoring.graph_builder import build_graph
from onceflow.authoring.signatures import Shape
from onceflow.errors import UnpicklableArgument, WrongArguments


@task
def book(city: str, nights: int = 1, *, breakfast: bool = False) -> Any: ...


@task
def keep(value: Any, *more: Any, **named: Any) -> Any: ...


def arguments_of(node: Any) -> Any:
    """What the task would receive, if it reads no other node."""
    return build_graph(node).nodes[-1].call.arguments([])


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, "missing a required argument: 'city'"),
        (("Rome", 2, True), {}, "too many positional arguments"),
        (("Rome",), {"city": "Rome"}, "multiple values for argument 'city'"),
        (("Rome",), {"dinner": True}, "got an unexpected keyword argument 'dinner'"),
    ],
)
def test_arguments_that_do_not_fit_are_a_type_error_with_the_signature(
    args: tuple[Any, ...], kwargs: dict[str, Any], says: str
) -> None:
    with pytest.raises(TypeError, match=says) as caught:
        book.bind(*args, **kwargs)
    assert isinstance(caught.value, WrongArguments)
    assert "book(city: 'str', nights: 'int' = 1, *, breakfast: 'bool' = False)" in str(caught.value)


SIGNATURES = [
    lambda: 0,
    lambda a: 0,
    lambda a, b=1: 0,
    lambda a, /, b, *, c: 0,
    lambda a=1, /, b=2, *, c=3: 0,
    lambda *a: 0,
    lambda a, *b, c: 0,
    lambda **a: 0,
    lambda a, /, **b: 0,
    lambda a, b=1, *c, d, e=2, **f: 0,
]


@given(
    st.sampled_from(SIGNATURES),
    st.lists(st.integers(), max_size=4),
    st.dictionaries(st.sampled_from("abcdefg"), st.integers(), max_size=4),
)
def test_the_quick_answer_whether_arguments_fit_is_that_of_a_call(
    function: Any, args: list[int], kwargs: dict[str, int]
) -> None:
    try:
        function(*args, **kwargs)
        fits = True
    except TypeError:
        fits = False
    assert Shape(function).fits(tuple(args), kwargs) == fits


def test_arguments_arrive_as_they_were_given() -> None:
    assert arguments_of(book.bind("Rome", breakfast=True)) == (("Rome",), {"breakfast": True})
    assert arguments_of(keep.bind([1], {2}, x={"y": b"z"})) == (([1], {2}), {"x": {"y": b"z"}})


def test_changing_an_argument_after_bind_has_no_influence() -> None:
    rows = [1, [2]]
    node = keep.bind(rows)
    rows.append(3)
    rows[1].append(4)  # type: ignore[attr-defined]
    assert arguments_of(node) == (([1, [2]],), {})


def test_every_attempt_gets_its_own_copy() -> None:
    call = build_graph(keep.bind([1])).nodes[0].call
    call.arguments([])[0][0].append(2)
    assert call.arguments([]) == (([1],), {})


def test_one_object_in_two_arguments_stays_one_object() -> None:
    rows = [1]
    args, kwargs = arguments_of(keep.bind(rows, rows, same=rows))
    assert args[0] is args[1] is kwargs["same"]


def test_functions_and_local_classes_may_be_arguments() -> None:
    class Local:
        value = 3

    args, _ = arguments_of(keep.bind(lambda number: number + 1, Local, Local()))
    assert args[0](1) == 2
    assert args[2].value == 3


def test_an_argument_that_cannot_be_pickled_is_a_type_error_that_names_task_and_argument() -> None:
    with pytest.raises(
        TypeError, match=r"keep\.bind\(\): the argument value cannot be sent to a worker: .*lock"
    ) as caught:
        keep.bind(threading.Lock())
    assert isinstance(caught.value, UnpicklableArgument)


@dataclasses.dataclass
class Shelf:
    books: Any


class Room:
    def __init__(self, shelf: Any) -> None:
        self.shelf = shelf


@pytest.mark.parametrize(
    ("args", "kwargs", "path"),
    [
        (([1, 2, threading.Lock()],), {}, "value[2]"),
        ((1, 2, {"a": (0, threading.Lock())}), {}, "*[1]['a'][1]"),
        ((1,), {"rooms": [Room(Shelf(threading.Lock()))]}, "rooms[0].shelf.books"),
    ],
)
def test_the_error_says_where_inside_the_argument(args: Any, kwargs: Any, path: str) -> None:
    with pytest.raises(UnpicklableArgument) as caught:
        keep.bind(*args, **kwargs)
    assert caught.value.path == path


class Brittle:
    def __reduce__(self) -> Any:
        return int, ("not a number",)


def test_an_argument_that_cannot_be_loaded_again_is_found_before_the_run() -> None:
    with pytest.raises(UnpicklableArgument, match="loading them raised ValueError"):
        build_graph(keep.bind(Brittle()))


class TestLargeBuffers:
    def test_an_array_is_held_and_not_copied(self) -> None:
        numpy = pytest.importorskip("numpy")
        large = numpy.zeros(100_000)
        graph = build_graph(keep.bind({"rows": large}))
        (buffer,) = graph.buffers
        assert numpy.shares_memory(numpy.frombuffer(buffer), large)
        assert len(graph.nodes[0].call.template.payload) < 1_000

    def test_a_small_array_is_copied(self) -> None:
        numpy = pytest.importorskip("numpy")
        small = numpy.zeros(10)
        node = keep.bind(small)
        small[0] = 1
        assert arguments_of(node)[0][0].sum() == 0

    @pytest.mark.parametrize("large", [b"x" * 70_000, bytearray(70_000)])
    def test_bytes_are_held_and_not_copied(self, large: Any) -> None:
        for node in (keep.bind(large), keep.bind([1, {"deep": large}])):
            (buffer,) = build_graph(node).buffers
            assert memoryview(buffer).obj is large

    def test_what_many_nodes_share_is_stored_once(self) -> None:
        numpy = pytest.importorskip("numpy")
        rows, text = numpy.asfortranarray(numpy.zeros((300, 400))), b"x" * 70_000
        graph = build_graph(keep.bind([keep.bind(rows, text), keep.bind([rows], [text]), keep.bind(rows)]))
        assert len(graph.buffers) == 2
        assert graph.nodes[0].call.template.buffers[0] is graph.nodes[2].call.template.buffers[0]

    def test_other_memory_can_take_the_place_of_the_buffers(self) -> None:
        large = bytearray(b"x" * 70_000)
        template = build_graph(keep.bind(large, [large])).nodes[0].call.template
        (args, _) = template.fill([], [b"y" * 70_000])
        assert args[0] == bytearray(b"y" * 70_000)
        assert args[1][0] is args[0]

    def test_a_long_text_is_copied_with_the_rest(self) -> None:
        text = "x" * 200_000
        assert arguments_of(keep.bind([text])) == (([text],), {})


def test_an_open_file_is_refused_instead_of_being_shipped_as_its_content(tmp_path: Path) -> None:
    with (tmp_path / "data").open("w+") as file, pytest.raises(UnpicklableArgument, match="an open file belongs"):
        book.bind(file, 1)
