"""How processes stand."""

from __future__ import annotations

from pathlib import Path


def state_of(pid: int) -> str:
    """The letter that the kernel gives for it: Z for a zombie. Raises if there is no such process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is not a zombie, which only waits for its parent to notice its end."""
    try:
        return state_of(pid) not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False
