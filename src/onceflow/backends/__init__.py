"""Backends: where attempts run. A backend is given plain jobs and reports their outcomes.

- `jobs`: attempts as jobs
- `pools`: the interface that an engine uses
- `local`: worker processes on this host
- `ray`: workers on a Ray cluster
"""
