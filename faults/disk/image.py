"""Disk image: the immutable tree of files that a machine mounts, and its decay.

Images share the contents of unchanged files. Stored data may decay while the machine is off (`decay_image`). Each kind
of decay happens at most once per file and call:

    bit rot              a bit of a sector is flipped
    zeroed sector        a sector is filled with zeros
    swapped pages        two pages of a file are exchanged
    latent sector error  a sector is unreadable; the image keeps the bytes for the judge

A running machine would notice decay only at the next read from the disk, so decay happens only while the machine is
off.

Sources: Bairavasundaram et al., "An Analysis of Data Corruption in the Storage Stack", FAST 2008, and "An Analysis of
Latent Sector Errors in Disk Drives", SIGMETRICS 2007; Prabhakaran et al., "IRON File Systems", SOSP 2005.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import compress
from operator import attrgetter, ne
from typing import NamedTuple

from ...sim.choices import Stream
from ..kinds import FaultKind
from .content import Content, SparseBytes
from .file_tree import FileTree
from .keys import PRIME, content_key, names_key, path_factor

_SECTOR_BYTES, _PAGE_BYTES = 512, 4096
_ANYWHERE_CHANCE = 0.25  # else decay affects nonzero bytes; unwritten zeros decay as well
_PIECE, _PIECE_PATH = attrgetter("piece"), attrgetter("piece_path")


class FileImage:
    """Immutable content of a file, and its modification time in wall-clock ms."""

    __slots__ = ("_content_key", "_digest", "held", "mtime_ms", "piece", "piece_path")

    def __init__(self, content: Content, mtime_ms: int) -> None:
        self.held = content
        self.mtime_ms = mtime_ms
        self._digest: bytes | None = None
        self.piece = b""
        """Digest piece of this file at `piece_path`, for the digest of an image."""
        self.piece_path = ""
        self._content_key: int | None = None

    @property
    def content(self) -> bytes:
        """Plain bytes, with the zeros of a sparse file."""
        return bytes(self.held)

    def digest(self) -> bytes:
        """Return the digest of the content, computed once."""
        if self._digest is None:
            held = self.held
            if isinstance(held, SparseBytes):
                self._digest = held.digest()
            else:
                self._digest = blake2b(held, digest_size=16).digest()
        return self._digest

    def digest_piece_at(self, path: str) -> bytes:
        """Return the file's part of the digest of an image. Only the last result is cached."""
        if self.piece_path != path:
            self.piece, self.piece_path = f"f {path}\0".encode() + self.digest(), path
        return self.piece

    @property
    def content_key(self) -> int:
        """The key of the content (`keys`), computed once."""
        if self._content_key is None:
            self._content_key = content_key(self.held)
        return self._content_key

    @content_key.setter
    def content_key(self, key: int) -> None:
        """Set the key that the caller has computed from its changes."""
        self._content_key = key

    def key_at(self, path: str) -> int:
        return path_factor(path) * self.content_key % PRIME

    def with_mtime(self, mtime_ms: int) -> "FileImage":
        """Return the same file with another modification time."""
        if mtime_ms == self.mtime_ms:
            return self
        twin = FileImage(self.held, mtime_ms)
        twin._digest, twin._content_key = self._digest, self._content_key
        return twin

    def __reduce__(self) -> tuple[type["FileImage"], tuple[Content, int]]:
        return FileImage, (self.held, self.mtime_ms)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileImage):
            return NotImplemented
        return self.held == other.held and self.mtime_ms == other.mtime_ms

    def __repr__(self) -> str:
        return f"FileImage({len(self.held)} bytes, mtime_ms={self.mtime_ms})"


class Image:
    """An immutable disk: files and symbolic links by absolute path, and all directories except `/`."""

    __slots__ = ("_digest", "_files", "_names_key", "_tree", "directories", "symlinks")

    def __init__(
        self, files: Mapping[str, FileImage], directories: tuple[str, ...], symlinks: Mapping[str, str] | None = None
    ) -> None:
        # Sorted, so that digests and random choices do not depend on the order of creation.
        paths = sorted(files)
        self._files: Mapping[str, FileImage] | None = (
            dict(files) if paths == list(files) else {path: files[path] for path in paths}
        )
        self._tree: FileTree[FileImage] | None = None
        self.directories = tuple(sorted(directories))
        self.symlinks: Mapping[str, str] = dict(sorted(symlinks.items())) if symlinks else {}
        self._digest: str | None = None
        self._names_key: int | None = None

    @classmethod
    def of_tree(cls, tree: FileTree[FileImage], directories: Iterable[str], symlinks: Mapping[str, str]) -> "Image":
        return cls({}, tuple(directories), symlinks).with_files(tree)

    @property
    def files(self) -> Mapping[str, FileImage]:
        """The files by path, sorted."""
        if self._files is None:
            assert self._tree is not None, "an image has its files or their tree"
            self._files = dict(sorted(self._tree.items()))
        return self._files

    @property
    def tree(self) -> FileTree[FileImage]:
        """The files as a tree, built on first use."""
        if self._tree is None:
            self._tree = FileTree.of(self.files)
        return self._tree

    @property
    def key(self) -> int:
        """The key of names and contents, without times (`keys`)."""
        if self._names_key is None:
            self._names_key = names_key(self.directories, self.symlinks.items())
        return (self.tree.key + self._names_key) % PRIME

    def with_files(self, tree: FileTree[FileImage]) -> "Image":
        """Return an image with the same directories and links, and other files."""
        twin = copy(self)
        twin._files, twin._tree, twin._digest = None, tree, None
        return twin

    def digest(self) -> str:
        """Return a digest of names and contents, without times. Recovery of images with equal digests is equal."""
        if self._digest is None:
            directories = map(directory_digest_piece, self.directories)
            files = self._file_pieces()
            symlinks = (symlink_digest_piece(path, text) for path, text in self.symlinks.items())
            self._digest = digest_of_pieces([*directories, *files, *symlinks])
        return self._digest

    def _file_pieces(self) -> Iterable[bytes]:
        """Return the digest pieces of the files, sorted by path.

        Optimised for the images after each operation of a large program, of which few files differ.
        """
        paths, files = self.files.keys(), self.files.values()
        for path, file in compress(self.files.items(), map(ne, map(_PIECE_PATH, files), paths)):
            file.digest_piece_at(path)
        if any(map(ne, map(_PIECE_PATH, files), paths)):  # a file with two names
            return [file.digest_piece_at(path) for path, file in self.files.items()]
        return map(_PIECE, files)

    def __repr__(self) -> str:
        return f"Image({len(self.files)} files, {len(self.directories)} directories)"


def directory_digest_piece(path: str) -> bytes:
    return f"d {path}\0".encode()


def symlink_digest_piece(path: str, text: str) -> bytes:
    """Return the digest piece of a symbolic link."""
    return f"l {path}\0{text}\0".encode()


def digest_of_pieces(pieces: Iterable[bytes]) -> str:
    """Return the digest of an image. pieces: of directories, then files, then links, each sorted by path."""
    return blake2b(b"".join(pieces), digest_size=16).hexdigest()


class DamagedRange(NamedTuple):
    """Bytes [start, end) of a file that a fault has changed since clients saw them."""

    path: str
    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class RotPlan:
    """Chances of decay per file, all off by default."""

    bit_rot_chance: float = 0.0
    zeroed_sector_chance: float = 0.0
    swapped_pages_chance: float = 0.0
    latent_sector_error_chance: float = 0.0

    @property
    def is_possible(self) -> bool:
        return self != RotPlan()


def decay_image(
    image: Image, stream: Stream, plan: RotPlan, injected: Counter[str]
) -> tuple[Image, list[DamagedRange]]:
    """Return a decayed image, or the same object without decay, and the damaged ranges.

    injected counts only changed bytes. A failed read counts an unreadable sector (bad_sectors of `Disk`).
    """
    if not plan.is_possible:
        return image, []
    damage: list[DamagedRange] = []
    files = dict(image.files)
    for path, file in image.files.items():
        plain = file.content
        content = bytearray(plain)
        rotting = _FileDecay(path, content, stream.with_subject(path), injected)
        rotting.decay(plan)
        if rotting.content != plain:
            files[path] = FileImage(bytes(rotting.content), file.mtime_ms)
        damage += rotting.damage
    return (Image(files, image.directories, image.symlinks) if files != image.files else image), damage


@dataclass(slots=True)
class _FileDecay:
    _path: str
    content: bytearray
    _stream: Stream
    _injected: Counter[str]
    damage: list[DamagedRange] = field(default_factory=list)

    def decay(self, plan: RotPlan) -> None:
        if not self.content:
            return
        chance = self._stream.chance
        if chance(plan.bit_rot_chance, FaultKind.BIT_ROT):
            start, end = self._draw_range(_SECTOR_BYTES, f"sector of {FaultKind.BIT_ROT}")
            bit = self._stream.randbelow((end - start) * 8, f"bit of {FaultKind.BIT_ROT}")
            self.content[start + bit // 8] ^= 1 << bit % 8
            self._record_damage(start, end, FaultKind.BIT_ROT)
            self._injected[FaultKind.BIT_ROT] += 1
        if chance(plan.zeroed_sector_chance, FaultKind.ZEROED_SECTOR):
            start, end = self._draw_range(_SECTOR_BYTES, FaultKind.ZEROED_SECTOR)
            if any(self.content[start:end]):
                self.content[start:end] = bytes(end - start)
                self._record_damage(start, end, FaultKind.ZEROED_SECTOR)
                self._injected[FaultKind.ZEROED_SECTOR] += 1
        if chance(plan.swapped_pages_chance, FaultKind.SWAPPED_PAGES):
            self._swap_two_pages()
        if chance(plan.latent_sector_error_chance, FaultKind.LATENT_SECTOR_ERROR):
            start, end = self._draw_range(_SECTOR_BYTES, FaultKind.LATENT_SECTOR_ERROR)
            self._record_damage(start, end, FaultKind.LATENT_SECTOR_ERROR)

    def _swap_two_pages(self) -> None:
        """Exchange two whole pages. A partial last page stays in place."""
        page_bytes = _PAGE_BYTES
        whole = len(self.content) // page_bytes
        if whole < 2:
            return
        first, _ = self._draw_range(page_bytes, f"first of {FaultKind.SWAPPED_PAGES}", whole * page_bytes)
        at = self._stream.randbelow(whole - 1, f"second of {FaultKind.SWAPPED_PAGES}") * page_bytes
        second = at if at < first else at + page_bytes
        assert first != second, "a page swapped with itself would be counted and change nothing"
        one, other = self.content[first : first + page_bytes], self.content[second : second + page_bytes]
        if one == other:
            return
        self.content[first : first + page_bytes], self.content[second : second + page_bytes] = other, one
        self._record_damage(first, first + page_bytes, FaultKind.SWAPPED_PAGES)
        self._record_damage(second, second + page_bytes, FaultKind.SWAPPED_PAGES)
        self._injected[FaultKind.SWAPPED_PAGES] += 1

    def _draw_range(self, unit_bytes: int, label: str, upto: int | None = None) -> tuple[int, int]:
        """Return a random aligned range of the file, usually with data."""
        size_bytes = len(self.content) if upto is None else upto
        starts = list(range(0, size_bytes, unit_bytes))
        filled = [at for at in starts if any(self.content[at : at + unit_bytes])]
        if filled and not self._stream.chance(_ANYWHERE_CHANCE, f"{label} anywhere"):
            starts = filled
        at = self._stream.choice(starts, label)
        return at, min(at + unit_bytes, size_bytes)

    def _record_damage(self, start: int, end: int, kind: str) -> None:
        self.damage.append(DamagedRange(self._path, start, end, kind))
