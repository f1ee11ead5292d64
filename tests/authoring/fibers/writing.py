"""Modules that a test writes."""

from __future__ import annotations

import importlib.util
import linecache
import sys
import textwrap
from pathlib import Path
from types import ModuleType

HEAD = "from onceflow.authoring.fibers import Fiber, Op, fiber\n"


def write(path: Path, source: str) -> ModuleType:
    """A module with this source, which may be written and imported again and again. Its first line is an import."""
    path.write_text(HEAD + textwrap.dedent(source).lstrip("\n"), "utf-8")
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    code = compile(path.read_text("utf-8"), str(path), "exec", dont_inherit=True)  # never from a cache of bytecode
    exec(code, vars(module))
    return module
