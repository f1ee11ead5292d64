"""The porter: a process that holds the objects of an engine.

Workers make objects and may die; the engine's process may have few descriptors and is busy. So the porter is given the
descriptors. What it keeps exists as long as it lives. Meanwhile it saves objects as blobs, straight from shared memory,
and moves those to disk that memory is too dear for. It never runs user code. If it dies, what it kept is lost, and its
engine notices at once; if the engine dies, so does the porter.

- `messages`: what the two say to each other.
- `client`: the engine's side, driven by its selector.
- `process`: the porter itself: one loop, which decides, and a few threads, which copy and wait for the disk (`crew`).
- `starting`: how it comes to life.
- `spilling`: the file that objects are moved to.
"""
