"""Source lines of addresses: runs addr2line, or reads the table of a Go program.

addr2line is part of binutils, which every machine with a compiler has. It supports every version of DWARF, compressed
sections, separate debug files, inlined functions, and names of C++ and Rust.
"""

import re
import shutil
import subprocess
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from os.path import basename

from ..record import SourceLine
from .elf import ElfFile
from .go_lines import go_lines
from .stacks import StackFrame

TOOL = "addr2line"
_SECONDS_MAX = 120.0
_UNKNOWN = "??"
_PLACE = re.compile(r"(?P<file>.*):(?P<line>\d+|\?)(?: \(discriminator \d+\))?")
_C_LIBRARY = re.compile(r"(libc|libpthread|ld-linux[^/]*|ld-musl[^/]*|libc\.musl[^/]*)[-.].*")
_GO_RUNTIME = "/src/runtime/"


def is_addr2line_installed() -> bool:
    return shutil.which(TOOL) is not None


def source_lines(stacks: Sequence[Sequence[StackFrame]]) -> tuple[tuple[SourceLine, ...], ...]:
    """Convert stacks to source lines. Unknown lines and the C library are omitted.

    The files of the modules must still exist.
    """
    wanted = defaultdict[str, set[int]](set)
    own = [[frame for frame in stack if not _C_LIBRARY.fullmatch(basename(frame.module))] for stack in stacks]
    for stack in own:
        for frame in stack:
            wanted[frame.module].add(frame.address)
    known = {module: _lines_of_module(module, sorted(addresses)) for module, addresses in wanted.items()}
    return tuple(
        tuple(
            _without_runtime(
                [(frame.module, place) for frame in stack for place in known[frame.module].get(frame.address, ())]
            )
        )
        for stack in own
    )


def _without_runtime(found: list[tuple[str, SourceLine]]) -> list[SourceLine]:
    """Drop the outer frames of runtime code: Go's library, a C library without lines.

    found: source locations with their modules. Every Go stack begins in Go's runtime, so its path locates Go's library.
    """
    roots = tuple(one.file[: one.file.index(_GO_RUNTIME) + 5] for _, one in found if _GO_RUNTIME in one.file)
    own = [(module, one) for module, one in found if not one.file.startswith(roots)] or found
    own_module = next((module for module, one in own if one.line), "")
    while own and own[0][0] == own_module and not own[0][1].line:
        del own[0]
    return [one for _, one in own]


def _lines_of_module(module: str, addresses: Sequence[int]) -> dict[int, tuple[SourceLine, ...]]:
    with open(module, "rb") as content:
        file = ElfFile(content.read())
    go = go_lines(file)
    if go is None:
        functions = file.functions()
        starts = [start for start, _ in functions]
        found = _lines_by_addr2line(module, addresses)
        return {
            address: tuple(place for place in places if place.line or _is_in_function(address, starts, functions))
            for address, places in found.items()
        }
    return {address: go.places(address) for address in addresses}


def _is_in_function(address: int, starts: Sequence[int], functions: Sequence[tuple[int, int]]) -> bool:
    """Return whether a function covers an address. Outside of functions, addr2line returns the preceding function."""
    index = bisect_right(starts, address) - 1
    return index >= 0 and address < functions[index][1]


def _lines_by_addr2line(module: str, addresses: Sequence[int]) -> dict[int, tuple[SourceLine, ...]]:
    """Return the functions and lines that addr2line finds for addresses, innermost inlined function first."""
    lines = "".join(f"{address:#x}\n" for address in addresses)
    done = subprocess.run(
        [TOOL, "-a", "-i", "-f", "-C", "-e", module],
        input=lines,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_SECONDS_MAX,
        check=False,
    )
    found: dict[int, tuple[SourceLine, ...]] = {}
    answer, at = done.stdout.splitlines(), 0
    while at < len(answer):
        address, at = int(answer[at], 16), at + 1
        places = list[SourceLine]()
        while at + 1 < len(answer) and not answer[at].startswith("0x"):
            places += _parse_line(module, answer[at], answer[at + 1])
            at += 2
        found[address] = tuple(places)
    return found


def _parse_line(module: str, function: str, text: str) -> list[SourceLine]:
    """Return a list with the source location if it is known. The module's name replaces an unknown file."""
    matched = _PLACE.fullmatch(text)
    file, line = (matched["file"], matched["line"]) if matched else (_UNKNOWN, "0")
    if file == _UNKNOWN and function == _UNKNOWN:
        return []
    name = "" if function == _UNKNOWN else function
    return [SourceLine(module if file == _UNKNOWN else file, int(line) if line.isdigit() else 0, name)]
