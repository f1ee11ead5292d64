"""The tasks, fibers, actors and handlers that programs are made of, and how a program becomes a graph."""

from __future__ import annotations

from typing import Any

from onceflow import (
    Ref,
    RetryPolicy,
    UnsafeGraph,
    Variable,
    actor,
    fiber,
    for_each,
    ref,
    sleep,
    task,
    transaction,
    workflow,
)
from onceflow.actors import Exclusive, const, create
from onceflow.fibers import call, fork, gather, join, spawn_limit, timeout
from onceflow.handlers import FailedAttempt, Handler, break_, handler, ignore, retry, terminate
from onceflow.loops import FailedItem
from tests.testing.random_programs.language import Answer, Program, Statement, Step
from tests.testing.random_programs.world import Plain, world

PATIENCE, LONG = 10_000, 100_000
"""Seconds: of the block around what expires, and of what it waits for. Retries and rates take less than the first."""

QUEUE, QUEUE_OF_RUNS = "tasks", "runs"

entries: Variable[tuple[tuple[str, int], ...]] = Variable("entries", ())
"""What was written, in the order in which it was committed: the label of the writer, and what it made."""
cell: Variable[tuple[str, int] | None] = Variable("cell", None)
"""What was written last."""
VARIABLES: dict[str, Variable[Any]] = {"entries": entries, "cell": cell}


class Trouble(Exception):
    """What tasks raise."""


class Grave(Exception):
    """What other tasks raise."""


@actor
class Diary:
    """Remembers who made it and who took it, by what they made."""

    def __init__(self, first: int) -> None:
        self._pages: tuple[int, ...] = (first,)

    def write(self, page: int) -> None:
        self._pages = (*self._pages, page)

    @const
    def pages(self) -> tuple[int, ...]:
        return self._pages


def plain(given: Any) -> Plain:
    """What a task was given, as plain data. What an actor has to tell is what it is built on."""
    match given:
        case None | int() | str():
            return given  # type: ignore[no-any-return]
        case list() | tuple():
            return tuple(map(plain, given))
        case FailedItem():
            return f"item {given.index} failed"
        case BaseException():
            if isinstance(given, UnsafeGraph):
                world.unsafe = given
            elif not isinstance(given, (Trouble, Grave, TimeoutError)):
                world.note(f"unexpected: {given!r}")
            return (type(given).__name__,)
        case Ref() if not hasattr(given, "pages"):
            return plain(given.get())
        case _:
            return "diary", *given.pages()


# -- tasks -------------------------------------------------------------------------------------------------------------


def carry_out(label: str, given: Any, *, new: bool | None = None) -> int:
    """What all tasks do. Returns what it made."""
    step, inputs = world.steps[label], plain(given)
    raises = world.raises(label)
    saw = entries.get() if step.looks else ()
    if raises and not step.raises.late:  # type: ignore[union-attr]
        raise error_of(step)
    if step.effect != "none":
        world.enter(label, inputs)
    if raises:
        raise error_of(step)
    made = world.make(label, inputs, saw=saw, new=not step.deterministic if new is None else new)
    for name in step.writes:
        if name == "entries":
            entries.update(lambda before: (*before, (label, made)))
        else:
            cell.set((label, made))
    world.ended(label, made)
    return made


def error_of(step: Step) -> Exception:
    assert step.raises is not None
    return Grave(step.label) if step.raises.grave else Trouble(step.label)


@task
def act(label: str, inputs: list[Any]) -> Any:
    return carry_out(label, inputs)


def take_back(label: str, inputs: list[Any], *, output: Any, key: str) -> None:
    world.take_back(label, plain(inputs), key, output)


@task
def make(label: str, inputs: list[Any]) -> Any:
    return create(Diary, carry_out(label, inputs))


@task
def take(label: str, diary: Exclusive[Diary], inputs: list[Any]) -> Any:
    made = carry_out(label, [diary, inputs])
    if not hasattr(diary, "pages"):  # a handler gave something in the place of an actor
        return made
    diary.write(made)
    return diary


def take_back_taken(label: str, diary: Any, inputs: list[Any], *, key: str) -> None:
    world.take_back(label, plain([diary, inputs]), key, None)


def take_back_made(label: str, inputs: list[Any], *, key: str) -> None:
    world.take_back(label, plain(inputs), key, None)


@task
def each(item: int, label: str, inputs: list[Any]) -> Any:
    return carry_out(f"{label}.{item}", inputs)


def take_back_each(item: int, label: str, inputs: list[Any], *, output: Any, key: str) -> None:
    world.take_back(f"{label}.{item}", plain(inputs), key, output)


@task.pure
def numbers(count: int) -> list[int]:
    return list(range(count))


@task
def expand(label: str, inputs: list[Any]) -> Any:
    return build(world.steps[label].inside, carry_out(label, inputs))


@transaction
def perform(label: str, inputs: list[Any]) -> Any:
    return build(world.steps[label].inside, carry_out(label, inputs))


@task(queue=QUEUE, can_rollback=True)
def pass_through() -> None:
    """For whoever wants to know whether a queue has room."""


ROLLBACKS = {
    "task": take_back,
    "make": take_back_made,
    "take": take_back_taken,
    "graph": take_back_made,
    "loop": take_back_each,
}


# -- fibers ------------------------------------------------------------------------------------------------------------


@fiber
async def story(label: str, inputs: list[Any]) -> list[Any]:
    """Carries out statements one after the other, and tells what came of them."""
    log = [plain(inputs)]
    children = {}
    for number, statement in enumerate(world.statements[label]):
        segment = world.make(statement.label, tuple(log))
        try:
            match statement.verb:
                case "await" if statement.expires:
                    async with timeout(PATIENCE):
                        log.append(plain(await awaited(statement, segment)))
                case "await" if statement.block is not None:
                    with handler_of(statement.block):
                        log.append(plain(await awaited(statement, segment)))
                case "await":
                    log.append(plain(await awaited(statement, segment)))
                case "fork" if statement.limited:
                    with spawn_limit(1):
                        children[number] = await fork(*forked(statement, segment))
                case "fork":
                    children[number] = await fork(*forked(statement, segment))
                case "join":
                    log.append(plain(await join(children[statement.child])))
                case "look":
                    log.append(world.make(f"{statement.label} saw", (), saw=entries.get()))
                case "sleep":
                    await sleep(10)
        except (Trouble, Grave, TimeoutError) as error:
            if not statement.tries:
                raise
            log.append(plain(error))
    return log


def awaited(statement: Statement, segment: int) -> Any:
    if statement.direct:
        ((step,),) = statement.graphs
        return with_options(step).call(step.label, [segment])
    nodes = [call(build(graph, segment)) for graph in statement.graphs]
    return gather(*nodes) if len(nodes) > 1 else nodes[0]


def forked(statement: Statement, segment: int) -> tuple[Any, ...]:
    if statement.direct:
        ((step,),) = statement.graphs
        return with_options(step), step.label, [segment]
    return nested, statement.label, segment


@workflow
def nested(label: str, segment: int) -> Any:
    """What a statement forks, if it is a graph."""
    (graph,) = next(one.graphs for all in world.statements.values() for one in all if one.label == label)
    return build(graph, segment)


# -- handlers ----------------------------------------------------------------------------------------------------------


def give_own(error: Exception, failure: FailedAttempt) -> int:
    return world.make(f"own {error.args[0]}", ())


def handler_of(answer: Answer) -> Handler:
    kinds = tuple(kind for kind, wanted in ((Trouble, answer.trouble), (Grave, answer.grave)) if wanted)
    match answer.decision:
        case "retry":
            return handler(kinds, retry(answer.count, delay=5, jitter=0))
        case "ignore":
            return handler(kinds, ignore("ignored"))
        case "own":
            return handler(kinds)(give_own)
        case "break":
            return handler(kinds, break_())
        case "terminate":
            return handler(kinds, terminate())


# -- graphs ------------------------------------------------------------------------------------------------------------


def build(steps: tuple[Step, ...], given: int) -> Any:
    nodes: list[Any] = []
    for step in steps:
        inputs = [ref(nodes[one]) if step.refs else nodes[one] for one in step.reads] or [given]
        nodes.append(node_of(step, nodes, inputs))
    return nodes[-1]


def node_of(step: Step, nodes: list[Any], inputs: list[Any]) -> Any:
    if step.kind == "loop":
        body = with_options(step).partial(label=step.label, inputs=inputs)
        handlers = [handler_of(answer) for answer in step.answers]
        items = numbers.bind(step.items) if step.listed else range(step.items)
        return for_each(body, items, on_error=step.on_error, handlers=handlers, name=step.label)
    after = [nodes[one] for one in step.after]
    if step.late:
        after.append(sleep(LONG))
    called = with_options(step)
    if after:
        called = called.options(after=after)
    if step.actor is not None:
        return called.bind(step.label, nodes[step.actor], inputs)
    return called.bind(step.label, inputs)


def with_options(step: Step) -> Any:
    """The task of a step. It is made once for a program, not for each of its lives."""
    if step.label not in world.tasks:
        world.tasks[step.label] = _with_options(step)
    return world.tasks[step.label]


def _with_options(step: Step) -> Any:
    if step.kind == "loop":
        return each.options(name=step.label, **_effect(step))
    options: dict[str, Any] = {"name": step.label}
    if step.answers:
        options["handlers"] = [handler_of(answer) for answer in step.answers]
    if step.catch:
        options["catch"] = True
    match step.kind:
        case "fiber":
            return story.options(**options)
        case "transaction":
            return perform.options(retry=_retry(step), **options)
        case "graph":
            return expand.options(**options, **_effect(step))
        case "make":
            return make.options(**options, **_effect(step))
        case "take":
            return take.options(**options, **_effect(step))
        case _:
            return act.options(**options, **_effect(step))


def _effect(step: Step) -> dict[str, Any]:
    options: dict[str, Any] = {"checkpoint": step.checkpoint, "deterministic": step.deterministic}
    if step.effect == "none":
        options["can_rollback"] = True
    elif step.effect == "undoable":
        options["rollback"] = ROLLBACKS[step.kind]
    if step.retry:
        options["retry"] = _retry(step)
    if step.writes:
        options["writes"] = [VARIABLES[name] for name in step.writes]
    if step.queue:
        options["queue"] = QUEUE
    return options


def _retry(step: Step) -> RetryPolicy:
    return RetryPolicy(step.retry, delay=5, jitter=0)


def graph_of(program: Program) -> Any:
    """What the program runs. `world` must have been told of it."""
    return workflow(handlers=[handler_of(answer) for answer in program.answers])(_steps_of_the_program).bind()


def _steps_of_the_program() -> Any:
    return build(world.program.steps, world.make("begin", (), new=False))
