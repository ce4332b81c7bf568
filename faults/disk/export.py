"""Images as real directories, so that the real store, or the real RocketMQ, can open what a crash left."""

import os
from pathlib import Path

from .image import FileImage, Image


def export(image: Image, root: str, directory: Path) -> None:
    """Write what the image has below root into an existing directory, with its times; what is above is left out."""
    below = root.rstrip("/") + "/"
    for path in image.directories:
        if path.startswith(below):
            (directory / path[len(below) :]).mkdir(parents=True, exist_ok=True)
    for path, file in image.files.items():
        if path.startswith(below):
            target = directory / path[len(below) :]
            target.write_bytes(file.content)
            os.utime(target, ns=(file.mtime_ms * 1_000_000, file.mtime_ms * 1_000_000))


def load(directory: Path, root: str) -> Image:
    """Read a real directory as an image in which it stands at root."""
    base = root.rstrip("/")
    parts = base.split("/")
    directories = ["/".join(parts[:count]) for count in range(2, len(parts) + 1)]
    files = {}
    for entry in sorted(directory.rglob("*")):
        path = f"{base}/{entry.relative_to(directory).as_posix()}"
        if entry.is_dir():
            directories.append(path)
        else:
            files[path] = FileImage(entry.read_bytes(), entry.stat().st_mtime_ns // 1_000_000)
    return Image(files, tuple(directories))
