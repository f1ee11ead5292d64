"""Data plane: moves bytes between processes of a host.

An **object** is the bytes of one large value. It is written once by the worker that made it (`arena`), into a
**segment**: shared memory that is sealed, so that it cannot be changed through the descriptor that others are sent. A
**place** says where in which segment an object is (`places`); a process that has the segment's descriptor maps it,
read-only and without a copy (`mapping`).

The engine keeps the list of objects, and which process may reuse their memory (`objects`). Its **porter** saves
them and moves them to disk (`porter`).

- `packets`: messages and descriptors between two processes
- `memory`: shared memory
- `regions`: which parts of a segment are free
- `arena`: the segments of a worker, for the objects that it makes
- `places`: where an object's bytes are
- `mapping`: the reader's side of segments
- `objects`: the objects that an engine knows
- `porter`: the process that saves objects, and spills them to disk
- `background`: work that is done later, to save time for others
"""
