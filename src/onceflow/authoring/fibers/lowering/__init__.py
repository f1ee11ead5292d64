"""Lowering: everything that the interpreter would keep on its hidden stack across a suspension gets a name.

The result is ordinary Python of the same meaning, in which a suspension is always a statement of its own (`Suspend`).
Half-evaluated calls, left operands and displays become temporary variables; `and`, `or`, conditional expressions and
comparison chains become `if` statements; comprehensions become loops; `with`, `async with` and `async for` become what
the language reference says they are. Statements that do not suspend are left alone, so they run at their usual speed.

Order is everything here: operands are evaluated from left to right, and whatever stands before the last suspension of
an expression is *pinned* to a temporary variable before that suspension.

- `statements`: statements that suspend, but for assignments
- `targets`: assignments that suspend
- `expressions`: expressions that suspend
- `comprehensions`: comprehensions that suspend become loops
- `matching`: `match` statements that suspend
- `telling`: describes generated variables in terms of the user's source
"""

from onceflow.authoring.fibers.lowering.statements import Statements as Lowering

__all__ = ["Lowering"]
