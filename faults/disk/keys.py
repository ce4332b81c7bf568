"""Keys of images: sums that identify images. The cost of an update depends only on the change.

    key of an image    sum of the keys of its directories, symbolic links and files
    key of a file      factor of its path * key of its content
    key of a content   key of its length + sum of the digests of its pages; a page of zeros adds 0

All sums are modulo a prime of 127 bits. Two images have the same key if and only if they have the same digest
(`Image.digest`), except with a chance of about 2^-127. Each path has its own factor, because otherwise an exchange of
pages between two files would not change the sum. Failure files store the digest, whose cost depends on the whole image.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

from .content import Content, SparseBytes

PRIME = (1 << 127) - 1


@lru_cache(maxsize=1 << 17)
def key_of(text: str) -> int:
    """Return a number from 1 to PRIME - 1 that depends only on the text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest(), "little") % (PRIME - 1) + 1


def content_key(content: Content) -> int:
    pages = content if isinstance(content, SparseBytes) else SparseBytes.from_content(content)
    return (key_of(f"size {len(content)}") + pages.page_sum()) % PRIME


def path_factor(path: str) -> int:
    return key_of(f"file {path}")


def names_key(directories: Iterable[str], symlinks: Iterable[tuple[str, str]]) -> int:
    """Return the sum of the keys of directories and symbolic links."""
    links = sum(key_of(f"link {path}\0{text}") for path, text in symlinks)
    return (sum(key_of(f"directory {path}") for path in directories) + links) % PRIME
