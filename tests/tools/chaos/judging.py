"""The judge: reads the ledger, and says what is wrong with it.

What an undoable task has done is there or not, line after line; what an irrevocable one has done stays. A result is
followed back through the ledger to all values that it is made from: these are the final values, and what is there in
the end must belong to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from onceflow.core.model.graph import Graph
from tests.tools.chaos import plans, steps
from tests.tools.chaos.ledger import Line
from tests.tools.chaos.lives import Outcome
from tests.tools.chaos.plans import Plan
from tests.tools.simulation.structure import Structure

TROUBLE = ("Trouble", "OwnTrouble")


@dataclass
class Effects:
    """What is outside, and what must not have happened on the way there."""

    there: dict[str, Line] = field(default_factory=dict)
    """Undoable node → the line of its effect that has not been taken back."""
    stays: dict[str, Line] = field(default_factory=dict)
    """Irrevocable node → the first line of its effect."""
    made: dict[tuple[str, str], Line] = field(default_factory=dict)
    """(node, token) → the attempt that returned it."""
    problems: list[str] = field(default_factory=list)


def judge(plan: Plan, lines: list[Line], outcome: Outcome) -> list[str]:
    """Everything that is wrong; nothing if all is well."""
    effects = _replay(lines)
    problems = effects.problems
    nodes = [node for node, _ in outcome.written]
    problems += [
        f"what {node} wrote is committed more than once" for node in sorted(set(nodes)) if nodes.count(node) > 1
    ]
    if outcome.status == "succeeded":
        problems += _judge_success(plan, effects, outcome)
    elif outcome.status == "error":
        problems.append(f"the engine failed:\n{outcome.cause}")
    else:
        problems += _judge_failure(plan, effects, outcome)
    return problems


def _replay(lines: list[Line]) -> Effects:
    effects = Effects()
    taken_back: set[str] = set()
    keys: dict[str, str] = {}
    for line in lines:
        match line.what:
            case "apply" if line.detail == "undoable":
                if line.node in effects.there:
                    effects.problems.append(f"applied although its effect is there: {line}")
                if line.key in taken_back:
                    effects.problems.append(f"applied under a key that was taken back: {line}")
                effects.there[line.node] = line
            case "apply":
                first = effects.stays.setdefault(line.node, line)
                if first.inputs != line.inputs:
                    effects.problems.append(f"irrevocable with other inputs than before ({first.inputs}): {line}")
                if keys.setdefault(line.node, line.key) != line.key:
                    effects.problems.append(f"another key than before ({keys[line.node]}): {line}")
            case "undo apply":
                taken_back.add(line.key)
                applied = effects.there.pop(line.node, None)
                if applied is not None:
                    if applied.inputs != line.inputs:
                        effects.problems.append(f"undone with other inputs than were applied ({applied}): {line}")
                    if line.token and applied.token != line.token:
                        effects.problems.append(f"undone with another output than was applied ({applied}): {line}")
                    if applied.key != line.key:
                        effects.problems.append(f"undone under another key than was applied ({applied}): {line}")
            case "overlap":
                effects.problems.append(f"began while another attempt went on: {line}")
            case "return" | "expand":
                made = effects.made.setdefault((line.node, line.token), line)
                if made.inputs != line.inputs:
                    effects.problems.append(f"the same value from other inputs ({made}): {line}")
    return effects


def _judge_success(plan: Plan, effects: Effects, outcome: Outcome) -> Iterator[str]:
    final, problems = _follow(effects, outcome)
    yield from problems
    structure = _structure(plan, final, effects)
    for node, token in final.items():
        if node not in structure.nodes:
            yield f"the result was made from {node}, which is not in the graph"
            continue
        line = effects.made[node, token]
        options = structure.nodes[node].options
        if options.deterministic and token != steps.deterministic_token(structure.nodes[node].id, _inputs(line)):
            yield f"{node} is deterministic, and did not return what follows from its inputs: {line}"
    done = {node for node, _ in effects.made}
    for node, core in structure.nodes.items():
        if node not in done:
            yield f"{node} was never done"
        if core.options.effect == "undoable":
            yield from _judge_effect(node, effects.there.get(node), final, effects)
        elif core.options.effect == "irrevocable":
            yield from _judge_effect(node, effects.stays.get(node), final, effects)
    written = dict(outcome.written)
    for node, core in structure.nodes.items():
        if core.options.writes and node not in written:
            yield f"what {node} wrote is not committed"
        elif node in written and written[node] != final.get(node, written[node]):
            yield f"{node} wrote {written[node]}, which is not what it returned in the end"
    for node in written:
        if node not in structure.nodes:
            yield f"what {node} wrote is left of a past that was dropped"
    for node in (*effects.there, *effects.stays):
        if node not in structure.nodes:
            yield f"the effect of {node} is left of a past that was dropped"


def _judge_effect(node: str, there: Line | None, final: dict[str, str], effects: Effects) -> Iterator[str]:
    if there is None:
        yield f"the effect of {node} is not there"
    elif node in final:
        made = effects.made[node, final[node]]
        if there.inputs != made.inputs:
            yield f"the effect of {node} does not belong to the final values: {there}, but {made}"
    if there is not None and any(final.get(parent, token) != token for parent, token in _inputs(there)):
        yield f"the effect of {node} belongs to values that are not final: {there}"


def _follow(effects: Effects, outcome: Outcome) -> tuple[dict[str, str], list[str]]:
    """Node → token of every value that the result was made from."""
    assert outcome.result is not None
    final: dict[str, str] = {}
    problems: list[str] = []
    open = [outcome.result]
    while open:
        node, token = open.pop()
        if node in final:
            if final[node] != token:
                problems.append(f"the result was made from two different values of {node}: {final[node]} and {token}")
            continue
        line = effects.made.get((node, token))
        if line is None:
            problems.append(f"the result was made from {node} {token}, which nobody returned")
            continue
        final[node] = token
        open += _inputs(line)
    return final, problems


def _structure(plan: Plan, final: dict[str, str], effects: Effects) -> Structure:
    """The graph together with the graphs that the final values are made from."""
    graph = plans.graph_of(plan.steps)
    graphs: dict[str, Graph] = {}
    while True:
        structure = Structure(graph, graphs)
        for id, node in structure.nodes.items():
            token = final.get(id)
            if token is None:  # only waited for: what it returned last is what counts
                token = next((made for name, made in reversed(effects.made) if name == id), None)
            if token is not None and node.call and id not in graphs:
                nested = node.call[int(token, 16) % len(node.call)]
                if nested is not None:
                    graphs[id] = nested
                    break
        else:
            return structure


def _judge_failure(plan: Plan, effects: Effects, outcome: Outcome) -> Iterator[str]:
    doomed = any(step.raises == plans.FOREVER for step in plan.steps)
    expanders = {id for id, step in plans.all_steps(plan.steps) if step.alternatives}
    expands = expanders.issuperset(outcome.failed)
    if outcome.cause in TROUBLE and not doomed:
        yield "the run failed, although every task would have returned in the end"
    elif outcome.cause not in TROUBLE and not (outcome.cause in ("UnsafeGraph", "InvalidGraph") and expands):
        yield f"the run failed for no good reason: {outcome.failed} raised {outcome.cause}"
    left = set(effects.there)
    if outcome.status == "undone" and left:
        yield f"the run is undone, but the effects of {sorted(left)} are there"
    if outcome.status == "undone" and outcome.kept:
        yield f"the run is undone, but keeps {outcome.kept}"
    if outcome.status == "failed" and plan.on_failure == "undo":
        if not outcome.kept:
            yield "the run was to be undone and kept nothing, but has only failed"
        if left - set(outcome.kept):
            yield f"only {outcome.kept} were to be kept, but the effects of {sorted(left)} are there"
    for node in outcome.failed:
        if node in left:
            yield f"{node} has failed, but its effect is there"
    done = {node for node, _ in effects.made}
    unsure = {node for node in effects.stays if node not in done}
    if unsure - set(outcome.uncertain) - set(outcome.failed):
        yield f"{sorted(unsure)} may have happened, but the failure tells only of {outcome.uncertain}"


def _inputs(line: Line) -> list[tuple[str, str]]:
    return [(node, token) for node, token in json.loads(line.inputs)]


def outcomes(lines: list[Line]) -> list[tuple[int, Outcome]]:
    """What engines told their callers, with the ids of the lines."""
    return [(line.id, msgspec.json.decode(line.detail, type=Outcome)) for line in lines if line.what == "outcome"]
