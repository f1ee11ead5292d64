"""try in every nesting, with, async with, exceptions as values."""

from __future__ import annotations

import contextlib
import sys
import traceback

from tests.authoring.fibers.world import Boom, Stop, echo, fail, fiber, log, op


@fiber
async def case_except_else_finally():
    out = []
    for n in range(3):
        try:
            if n == 1:
                await fail(n)
            out.append(await echo(n))
        except Boom as error:
            out.append((repr(error), await echo("handled")))
        else:
            out.append(await echo("else"))
        finally:
            out.append(await echo("finally"))
    return out


@fiber
async def case_bare_raise_after_a_pause():
    try:
        await fail("first")
    except Boom:
        log(await echo("handling"))
        raise


@fiber
async def case_exc_info_after_a_pause():
    try:
        raise KeyError("k")
    except KeyError:
        await echo(1)
        return repr(sys.exc_info()[1]), [line.lineno for line in traceback.extract_tb(sys.exc_info()[2])] != []


@fiber
async def case_context_and_cause():
    try:
        try:
            await fail("inner")
        except Boom as error:
            await echo(1)
            raise ValueError("outer") from error
    except ValueError:
        await echo(2)
        raise TypeError("last")


@fiber
async def case_implicit_context():
    try:
        await fail("a")
    except Boom:
        try:
            await fail("b")
        except Boom:
            await echo("both")
            raise RuntimeError("c")


@fiber
async def case_raise_with_awaits():
    raise (await echo(ValueError))(await echo("v")) from await echo(KeyError("k"))


@fiber
async def case_the_name_of_an_exception_is_deleted():
    error = "before"
    try:
        await fail(1)
    except Boom as error:
        await echo(2)
    try:
        return error
    except UnboundLocalError:
        return "gone"


@fiber
async def case_the_name_of_an_exception_is_rebound():
    try:
        await fail(1)
    except Boom as error:
        error = "mine"
        await echo(2)
        log(error)
        del error
        await echo(3)
    return "fine"


@fiber
async def case_several_handlers():
    out = []
    for kind in (KeyError, IndexError, ValueError, OSError):
        try:
            try:
                raise kind("x")
            except KeyError:
                out.append(await echo("key"))
            except (IndexError, ZeroDivisionError) as error:
                out.append((await echo("index"), repr(error)))
            except ValueError:
                out.append("value")
        except:
            out.append(await echo("bare"))
    return out


@fiber
async def case_handler_expression_is_evaluated():
    def kinds():
        log("asked")
        return KeyError

    try:
        await fail(1)
    except kinds():
        log("never")
    except Boom:
        return await echo(2)


@fiber
async def case_return_in_finally_wins():
    try:
        return await echo("try")
    finally:
        return await echo("finally")


@fiber
async def case_return_in_finally_swallows():
    try:
        await fail("lost")
    finally:
        return await echo("finally")


@fiber
async def case_returned_value_survives_finally():
    value = [1]
    try:
        return value
    finally:
        value.append(await echo(2))
        value = "other"


@fiber
async def case_break_and_continue_through_finally():
    out = []
    for n in range(6):
        try:
            if n == 1:
                continue
            if n == 4:
                break
            out.append(await echo(n))
        finally:
            out.append(("f", await echo(n)))
    else:
        out.append("never")
    return out


@fiber
async def case_break_through_two_finallys():
    out = []
    for n in range(3):
        for m in range(3):
            try:
                try:
                    if m == 1:
                        break
                    if n == 1:
                        continue
                    out.append((n, m))
                finally:
                    out.append(await echo("inner"))
            finally:
                out.append(await echo("outer"))
    return out


@fiber
async def case_return_through_two_finallys():
    try:
        try:
            return await echo("value")
        finally:
            log(await echo("inner"))
    finally:
        log(await echo("outer"))


@fiber
async def case_continue_in_finally_swallows():
    out = []
    for n in range(3):
        try:
            out.append(n)
            if n == 1:
                await fail(n)
        finally:
            await echo("f")
            continue
    return out


@fiber
async def case_stale_completion():
    out = []
    for n in range(4):
        try:
            if n == 0:
                continue
            if n == 2:
                raise ValueError(n)
            out.append(n)
        except ValueError:
            out.append("value")
        finally:
            out.append(await echo("f"))
        out.append("after")
    return out


@fiber
async def case_break_in_finally_of_return():
    while True:
        try:
            return await echo("never returned")
        finally:
            await echo("f")
            break
    return "after"


@fiber
async def case_finally_raises():
    try:
        await fail("first")
    finally:
        await echo("f")
        raise ValueError("second")


@fiber
async def case_failing_in_finally():
    try:
        try:
            await fail("first")
        finally:
            await fail("second")
    except Boom as error:
        return repr(error), repr(error.__context__), await echo(1)


@fiber
async def case_finally_inside_handler_inside_finally():
    out = []
    try:
        try:
            await fail(1)
        except Boom:
            try:
                out.append(await echo("a"))
                await fail(2)
            finally:
                out.append(await echo("b"))
        finally:
            try:
                out.append(await echo("c"))
            finally:
                out.append(await echo("d"))
    except Boom as error:
        out.append((repr(error), repr(error.__context__)))
    return out


@fiber
async def case_try_in_else():
    try:
        pass
    except Boom:
        log("never")
    else:
        try:
            await fail(1)
        except Boom:
            return await echo("in else")


@fiber
async def case_pause_in_else():
    out = []
    try:
        out.append(await echo(1))
    except Boom:
        out.append("never")
    else:
        out.append(await echo(2))
        out.append(3)
    return out


@fiber
async def case_a_failure_in_else_is_not_handled():
    try:
        await echo(1)
    except Boom:
        log("never")
    else:
        await fail(2)
    finally:
        log("finally")


@fiber
async def case_cancellation_runs_finally():
    try:
        await op("stop", "now")
    except Exception:
        log("never")
    finally:
        log(await echo("cleaning"))


@fiber
async def case_stop_is_caught_as_base_exception():
    try:
        await op("stop", 1)
    except BaseException as error:
        return repr(error), isinstance(error, Stop), await echo(2)


@fiber
async def case_except_star():
    out = []
    try:
        await echo(1)
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), TypeError(3)])
    except* ValueError as group:
        out.append(repr(group.exceptions))
    except* KeyError as group:
        out.append(repr(group.exceptions))
    return out


@fiber
async def case_except_star_lets_others_through():
    out = []
    try:
        try:
            await fail("naked")
        except* ValueError:
            out.append("never")
        else:
            out.append("never")
        finally:
            out.append(await echo("finally"))
    except* Boom as group:
        out.append(repr(group.exceptions))
    return out


@fiber
async def case_except_star_else():
    out = []
    try:
        out.append(await echo(1))
    except* ValueError:
        out.append("never")
    else:
        out.append(await echo(2))
    return out


@fiber
async def case_exception_group_survives():
    try:
        raise ExceptionGroup("many", [ValueError(1), ExceptionGroup("inner", [KeyError(2)])])
    except ExceptionGroup as group:
        await echo(1)
        return group.message, repr(group.exceptions), repr(group.subgroup(KeyError))


class Managed:
    def __init__(self, name, swallow=False, enter=None, leave=None):
        self.name, self.swallow, self.enter, self.leave = name, swallow, enter, leave

    def __enter__(self):
        log("enter", self.name)
        if self.enter:
            raise self.enter
        return self

    def __exit__(self, kind, error, trace):
        log("exit", self.name, repr(error))
        if self.leave:
            raise self.leave
        return self.swallow


class AsyncManaged(Managed):
    @fiber
    async def __aenter__(self):
        log("aenter", await echo(self.name))
        if self.enter:
            raise self.enter
        return self

    @fiber
    async def __aexit__(self, kind, error, trace):
        log("aexit", await echo(self.name), repr(error))
        if self.leave:
            raise self.leave
        return self.swallow


@fiber
async def case_with():
    with Managed("a") as a, Managed("b", swallow=True) as b:
        log(await echo(a.name + b.name))
        await fail("swallowed")
    with Managed("c"):
        return await echo("returned")


@fiber
async def case_with_lets_errors_through():
    with Managed("a"):
        with Managed("b"):
            await echo(1)
            await fail(2)


@fiber
async def case_with_failing_enter_and_exit():
    try:
        with Managed("a"), Managed("b", enter=KeyError("enter")):
            await echo("never")
    except KeyError as error:
        log(repr(error))
    with Managed("c", leave=ValueError("exit")):
        await echo(1)
        await fail("hidden")


@fiber
async def case_with_in_a_loop():
    out = []
    for n in range(4):
        with Managed(n, swallow=n == 2) as m:
            if n == 1:
                continue
            if n == 2:
                await fail(n)
            if n == 3:
                break
            out.append(await echo(m.name))
    return out


@fiber
async def case_await_in_with_items():
    items = [0]
    with await echo(Managed("a")) as items[await echo(0)], Managed(await echo("b")):
        log(items[0].name)
    return await echo("end")


@fiber
async def case_with_of_no_manager():
    try:
        with await echo(5):
            log("never")
        return None
    except TypeError as error:
        log(str(error).split(" (")[0])
    try:
        with 5:
            await echo("never")
    except TypeError as error:
        return str(error).split(" (")[0]


@fiber
async def case_async_with():
    async with AsyncManaged("a") as a:
        log(await echo(a.name))
    async with AsyncManaged("b", swallow=True), AsyncManaged("c"):
        await fail("swallowed")
    async with AsyncManaged("d"):
        return "returned"


@fiber
async def case_async_with_lets_errors_through():
    async with AsyncManaged("a") as (x):
        await echo(x.name)
        await fail("out")


@fiber
async def case_async_with_failing_exit():
    try:
        async with AsyncManaged("a", leave=ValueError("exit")):
            await fail("inside")
    except ValueError as error:
        log(repr(error), repr(error.__context__))
    async with AsyncManaged("b", enter=KeyError("enter")):
        log("never")


@fiber
async def case_async_with_in_loop():
    out = []
    for n in range(3):
        async with AsyncManaged(n):
            if n == 1:
                continue
            if n == 2:
                break
            out.append(await echo(n))
    return out


@fiber
async def case_standard_managers():
    with contextlib.suppress(Boom):
        await fail(1)
    with contextlib.nullcontext(await echo(5)) as n:
        return n + await echo(1)


@fiber
async def case_exit_stack():
    with contextlib.ExitStack() as stack:
        stack.enter_context(Managed("a"))
        await echo(1)
    return "left"


class Custom(Exception):
    def __init__(self, code, *, hint):
        log("init", code)
        super().__init__(f"custom {code}")
        self.code, self.hint = code, hint


class Slotted(ValueError):
    __slots__ = ("extra",)


@fiber
async def case_custom_exceptions():
    error = Custom(7, hint="h")
    error.add_note("a note")
    error.me = error
    slotted = Slotted("s")
    slotted.extra = 1
    await echo(1)
    assert error.me is error
    error.me = None
    try:
        raise error from slotted
    except Custom as caught:
        await echo(2)
        return caught is error, caught.code, caught.hint, caught.__notes__, str(caught), caught.__cause__.extra


@fiber
async def case_built_in_exceptions():
    errors = [
        OSError(2, "no such file", "name"),
        FileNotFoundError(2, "x"),
        KeyError("k"),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "why"),
        StopIteration(5),
        SystemExit(3),
        ImportError("m", name="n", path="p"),
        AttributeError("a", name="attr"),
        SyntaxError("s", ("file", 1, 2, "text")),
    ]
    await echo(0)
    return [(type(e).__name__, e.args, str(e)) for e in errors], errors[0].filename, errors[6].name, errors[4].value


@fiber
async def case_exception_of_a_callee():
    try:
        await raising(3)
    except Boom as error:
        await echo("caught")
        log([frame.name for frame in traceback.extract_tb(error.__traceback__) if "corpus" in frame.filename])
        raise


@fiber
async def raising(n):
    try:
        await echo(n)
        if n:
            await raising(n - 1)
        else:
            await fail("deep")
    finally:
        log("left", n)


@fiber
async def case_suppressed_context():
    try:
        await fail(1)
    except Boom:
        await echo(2)
        raise ValueError("clean") from None


@fiber
async def case_a_stored_exception_is_raised_later():
    stored = None
    try:
        await fail("stored")
    except Boom as error:
        stored = error
    await echo(1)
    try:
        raise stored
    finally:
        await echo(2)


@fiber
async def case_nested_handlers_restore_the_outer_one():
    try:
        raise ValueError("outer")
    except ValueError:
        try:
            raise KeyError("inner")
        except KeyError:
            await echo(1)
        await echo(2)
        raise


@fiber
async def case_finally_restores_what_is_handled():
    try:
        raise ValueError("outer")
    except ValueError:
        try:
            await echo(1)
        finally:
            await echo(2)
            log(repr(sys.exc_info()[1]))
        return repr(sys.exc_info()[1])


@fiber
async def case_return_value_and_exception_in_inner_finally():
    for n in range(2):
        try:
            try:
                if n == 0:
                    await fail("x")
                return "result"
            finally:
                try:
                    await echo("a")
                    if n == 0:
                        continue
                finally:
                    await echo("b")
        finally:
            log("outermost", await echo(n))
    return "never"


@fiber
async def case_raise_class_in_try_star_finally():
    try:
        try:
            await echo(1)
        except* KeyError:
            pass
        finally:
            await fail("late")
    except Boom as error:
        return repr(error)
