"""Cached images: maintains an image of the page cache by applying changes.

A crash that keeps the page cache leaves this image. The namespace records changed names, and each inode its own changes
(`Touched`). So the cost of an image depends on the changes, not on the size of the disk.
"""

from collections import defaultdict

from .file_tree import FileTree
from .image import FileImage, Image
from .namespace import Namespace


class CachedImages:
    """The images of one disk's page cache. Invariant: `_image` plus the recorded changes is the page cache."""

    def __init__(self, names: Namespace, wall_start_ms: int) -> None:
        assert names.touched is not None, "only sparse disks note what changes"
        self._names = names
        self._touched = names.touched
        self._wall_start_ms = wall_start_ms
        self._image: Image | None = None
        self._paths: dict[int, set[str]] = defaultdict(set)
        """Names in the image, by file number."""
        self._file_at: dict[str, int] = {}
        self._files: dict[int, int] = {}
        """File numbers in the image, by Inode.identity."""

    def image(self) -> Image:
        """Return the current image of the page cache."""
        touched = self._touched
        if self._image is None or touched.is_all:
            self._image = self._whole()
        elif touched.names or touched.files or touched.inodes or touched.has_other_names:
            self._image = self._updated(self._image)
        touched.clear()
        return self._image

    def _whole(self) -> Image:
        entries = self._names.current
        self._paths.clear()
        self._file_at.clear()
        self._files.clear()
        tree = FileTree.of({path: found for path in entries.names if (found := self._found(path)) is not None})
        return Image.of_tree(tree, entries.directories - {"/"}, entries.symlink_texts())

    def _updated(self, image: Image) -> Image:
        touched, entries = self._touched, self._names.current
        files: dict[str, FileImage] = {}
        removed: list[str] = []
        # An emptied or truncated file has a new inode. The image omits inodes without a name.
        changed = {self._files.get(identity, -1) for identity in touched.inodes} | touched.files
        paths = touched.names.union(*(self._paths.get(file, ()) for file in changed))
        for path in paths:
            self._forget(path)
            found = self._found(path)
            if found is None:
                removed.append(path)
            else:
                files[path] = found
        tree = image.tree.changed(files, removed)
        if not touched.has_other_names:
            return image.with_files(tree)
        return Image.of_tree(tree, entries.directories - {"/"}, entries.symlink_texts())

    def _found(self, path: str) -> FileImage | None:
        """Return the file at a path, and record it. None for a symbolic link or a missing file."""
        entries = self._names.current
        file = entries.names.get(path)
        if file is None or file in entries.symlinks:
            return None
        inode = entries.files[file]
        self._file_at[path] = file
        self._paths[file].add(path)
        self._files[inode.identity] = file
        return inode.visible or inode.visible_file(self._wall_start_ms)

    def _forget(self, path: str) -> None:
        file = self._file_at.pop(path, None)
        if file is not None:
            self._paths[file].discard(path)
