"""Commands to a run by its name or id, wherever it is driven: by this engine, by another one, or by none.

- `api`: the methods of an engine that command runs
- `reach`: finds a run wherever it is driven, and has commands carried out there
- `inbox`: commands that other engines have left for runs that are driven here
- `cancel`: cancels a run
- `cancel_without_code`: the same for runs whose code cannot be loaded
- `pause`: pauses a run
- `limit`: how many chunks of a loop may be in flight
- `set_result`: the result of a failed task, given by hand
- `send_event`: puts events into mailboxes
- `rerun`: a new run that starts with what an earlier one saved
"""
