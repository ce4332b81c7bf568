"""Which lines a program is at, as numbers: most stacks come again and again.

A stack is looked up by its code objects and how far each has come, which is at hand; lines are counted out, and the
recorder's own frames left out, for new ones only.
"""

import os
import sys
from types import CodeType, FrameType

from ..record import SourceLine
from .main_module import MainModule

_DEPTH_MAX = 32
_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_BOTTOM = MainModule.run.__code__
"""Below that, a program's stack is not its own."""


class Stacks:
    """All stacks so far. places: each by its number, innermost line first; the first one is of nowhere."""

    def __init__(self) -> None:
        self.places: list[tuple[SourceLine, ...]] = [()]
        self._numbers: dict[tuple[SourceLine, ...], int] = {(): 0}
        self._known: dict[tuple[object, ...], int] = {}
        self._codes: dict[int, CodeType] = {}
        """The code objects in the keys: they are kept, so that what they go by is never another one's."""

    def present(self) -> int:
        """Return the number of the stack that the caller's caller was called from."""
        key: list[object] = []
        frame: FrameType | None = sys._getframe(3)
        while frame is not None:
            code = frame.f_code
            if code is _BOTTOM:
                break
            key += (id(code), frame.f_lasti)
            frame = frame.f_back
        known = tuple(key)
        number = self._known.get(known)
        if number is None:
            number = self._known[known] = self._find(sys._getframe(3))
        return number

    def _find(self, frame: FrameType | None) -> int:
        places: list[SourceLine] = []
        while frame is not None and frame.f_code is not _BOTTOM:
            code = frame.f_code
            self._codes[id(code)] = code
            if len(places) < _DEPTH_MAX and not code.co_filename.startswith(_HERE):
                places.append(SourceLine(code.co_filename, frame.f_lineno or 0, code.co_name))
            frame = frame.f_back
        stack = tuple(places)
        number = self._numbers.setdefault(stack, len(self.places))
        if number == len(self.places):
            self.places.append(stack)
        return number
