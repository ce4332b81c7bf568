"""How places and ends are called in a picture: short, and the same everywhere."""

import re

from ...scenarios.claims.machine import ROOT
from .recording.record import Cut

_ZEROS = re.compile(r"(?<![0-9])0{3,}(?=[0-9])")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_KINDS = {
    "process-kill": "process kill",
    "os-crash": "crash of the system",
    "nothing-lost": "crash, nothing lost",
}


def path_words(text: str) -> str:
    """Return a text with paths below the store's root as that has them, without the leading zeros of segments.

    What cannot be printed, such as the separators of properties, is a dot.
    """
    return _UNPRINTABLE.sub("·", _ZEROS.sub("…", text.replace(f"{ROOT}/", "")))


def task_words(name: str) -> str:
    """Return a task's name without its machine."""
    return name.partition("/")[2] or name


def cut_words(cut: Cut) -> str:
    """Return what a cut was, and what it came upon."""
    kind = _KINDS.get(cut.how) or (f"power cut ({cut.how})" if cut.how and " " not in cut.how else cut.how)
    place = f", {cut.when} {cut.operation} {path_words(cut.path)}" if cut.operation else ""
    return f"{kind or 'the machine dies'}{place}"
