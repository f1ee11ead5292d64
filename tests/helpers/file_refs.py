"""Refs of a user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onceflow import Ref
from onceflow.errors import RefLost


class FileRef(Ref[str]):
    """A file that is not saved unless somebody asks for it."""

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def _id(self) -> str:
        return self.path

    def get(self) -> str:
        try:
            return Path(self.path).read_text()
        except FileNotFoundError:
            raise RefLost(self, "the file was removed") from None

    def _checkpoint(self) -> Any:
        return self.path, self.get()

    @classmethod
    def _restore(cls, checkpoint: Any) -> FileRef:
        path, content = checkpoint
        Path(path).write_text(content)
        return cls(path)
