"""Tasks and workflows as types, for annotations. The decorators are in `onceflow`.

- `Task`, `AsyncTask`: what `@task` makes of a function.
- `Workflow`: what `@workflow` makes of one.
- `Graph`: what `onceflow.check` returns.
- `track(iterable)`: in a task, tells how far it has come.
"""

from onceflow.authoring.tasks import AsyncTask, Task
from onceflow.authoring.workflows import Workflow
from onceflow.core.model.graph import Graph
from onceflow.values.track import track

__all__ = ["AsyncTask", "Graph", "Task", "Workflow", "track"]
