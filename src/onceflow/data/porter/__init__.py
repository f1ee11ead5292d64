"""The porter: a process that works for an engine on objects it is lent.

Copying and waiting for the disk is nothing for the user's process. So the porter is given the descriptors: it saves
objects as blobs, straight from shared memory, and moves those to disk that memory is too dear for. It never runs user
code. If it dies, its engine notices at once, and has what it had lent; if the engine dies, so does the porter.

- `messages`: what engine and porter send each other
- `client`: the engine's side, driven by its selector
- `process`: one loop, which decides
- `threads`: threads that copy and wait for the disk
- `spill_file`: the file that holds objects evicted from memory
- `startup`: the first message, which the fork server has to understand
"""
