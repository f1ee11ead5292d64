"""Tasks that are declared, called or bound in a way that cannot work."""

from __future__ import annotations

from onceflow.errors.base import OnceflowError


class InvalidOption(OnceflowError, TypeError):
    """Raised when a task or workflow is declared with an option that does not exist, has the wrong kind of value, or
    contradicts another one. `name` is its name."""

    def __init__(self, name: str, problem: str, *, kind: str = "task") -> None:
        self.name = name
        super().__init__(f"{kind} {name!r}: {problem}")


class WrongArguments(OnceflowError, TypeError):
    """Raised at bind when the arguments do not fit. `task` is its name and `signature` what it takes."""

    def __init__(self, task: str, signature: str, problem: str) -> None:
        self.task = task
        self.signature = signature
        super().__init__(f"{task}.bind(): {problem}; it takes {task}{signature}")


class UnpicklableArgument(OnceflowError, TypeError):
    """Raised when an argument cannot be turned into bytes (or back), so that no worker could ever receive it.

    `task` is the task's name and `path` says where in its arguments the value stands, as in `rows[3].connection`.
    """

    def __init__(self, task: str, path: str, reason: str) -> None:
        self.task = task
        self.path = path
        super().__init__(
            f"{task}.bind(): the argument {path} cannot be sent to a worker: {reason}. Pass what is needed to make it "
            "(a path, a URL, settings) and make it inside the task."
        )


class UnpicklableTask(OnceflowError, TypeError):
    """Raised when a task that cannot be imported (a lambda, a local function, one of the script itself) refers to
    something that cannot be turned into bytes, so that no run could outlive this process. `task` is its name."""

    def __init__(self, task: str, reason: str) -> None:
        self.task = task
        super().__init__(
            f"task {task!r} cannot be stored: {reason}. Define it in a module that can be imported, or make what it "
            "refers to inside its function."
        )


class NoValueYet(OnceflowError, TypeError):
    """Raised when a node is used as if it were its task's output. The output exists only while a run goes on."""


class NoAttributeYet(OnceflowError, AttributeError):
    """Raised when an attribute of a node is read as if the node were its task's output."""


class NoSuchPart(OnceflowError, IndexError):
    """Raised when a node is indexed with a part that its task does not return (see `num_returns`)."""


class NotANode(OnceflowError, TypeError):
    """Raised where a node is needed, as `.bind(...)` gives it, and something else was given."""


class MissingPackage(OnceflowError, ImportError):
    """Raised when something needs a package that is not installed. `package` is its name, `extra` the extra of onceflow
    that brings it."""

    def __init__(self, package: str, purpose: str, extra: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{purpose} needs {package}, which is not installed: pip install 'onceflow[{extra}]'")
