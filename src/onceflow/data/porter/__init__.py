"""The porter: a process that works for an engine on objects it is lent.

Copying and waiting for the disk must not slow down the user's process. So the porter gets the descriptors: it saves
objects as blobs, straight from shared memory, and spills objects to disk when the memory budget is exceeded. It never
runs user code. If it dies, its engine notices at once, and has what it had lent; if the engine dies, so does the
porter.

- `messages`: the messages between engine and porter
- `client`: the engine's side, driven by its selector
- `process`: the porter's loop
- `threads`: threads that copy and wait for the disk
- `spill_file`: the file that holds objects evicted from memory
- `startup`: the first message, which the fork server has to understand
"""
