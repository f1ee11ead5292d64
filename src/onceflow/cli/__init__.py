"""The `onceflow` command.

- `main`: the root of the command
- `session`: what every verb has: `--home`, `--json`, `--quiet`, `--debug`, an engine
- `exits`: exit codes, and errors as one line
- `types`: types of arguments: statuses, ages, sizes
- `targets`: from `module:workflow` and `--arg name=value` to a node
- `run_selection`: from an id, a name, a prefix or filters to runs
- `completion`: completion in the shell
- `demo`: `onceflow demo`
- `run`: `run`, `rerun`, `check`
- `show`: `ls`, `show`, `why`, `output`
- `run_past`: what `show` prints of the past of a run
- `grouped_tasks`: tasks of one kind as one line
- `fiber_positions`: where fibers are paused
- `watch`: `watch`
- `logs`: `logs`
- `stats`: `stats`
- `actions`: `resume`, `retry`, `pause`, `cancel`
- `send`: `send`
- `limit`: `limit`
- `set_result`: `set-result`
- `delete`: `delete`, `prune`
- `queues`: `queue`
- `schedules`: `schedule`
- `serve`: `serve`, `engines`, `submit`
- `deploy_check`: `deploy-check`
- `doctor`: `doctor`
"""
