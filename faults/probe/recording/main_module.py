"""The program as the module `__main__`, run and torn down as Python does it with a script or with `-m`.

It is not left to the garbage collector: that ends files in any order, those below a buffer before what is in the
buffer. Python itself empties the module name by name, and so files that were never closed are flushed.
"""

import builtins
import io
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType


class MainModule:
    """A script, or what `-m` names, with its arguments. Raises what finding or compiling it raises, once it runs."""

    def __init__(self, program: list[str]) -> None:
        self._program = program
        self._module = ModuleType("__main__")
        self._module.__dict__["__builtins__"] = builtins

    def run(self) -> None:
        """Run it to its last line."""
        sys.modules["__main__"] = self._module
        code = self._module_code() if self._program[0] == "-m" else self._script_code()
        exec(code, self._module.__dict__)

    def clear(self) -> None:
        """Empty the module as Python does in the end: first names with one underscore, then all others."""
        names = self._module.__dict__
        private = [name for name in names if name.startswith("_") and not name.startswith("__")]
        others = [name for name in names if name not in private and name != "__builtins__"]
        for name in (*private, *others):
            names[name] = None

    def _script_code(self) -> CodeType:
        path = self._program[0]
        sys.argv = list(self._program)
        self._module.__file__ = path
        with io.open_code(path) as file:
            return compile(file.read(), path, "exec")

    def _module_code(self) -> CodeType:
        name = self._program[1]
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{name}.__main__")
        if spec is None or spec.loader is None:
            raise ImportError(f"no module named {name} that could be run")
        code = _code_of(spec)
        sys.argv = [spec.origin or name, *self._program[2:]]
        self._module.__file__ = spec.origin
        self._module.__package__ = spec.parent
        self._module.__spec__ = spec
        return code


def _code_of(spec: ModuleSpec) -> CodeType:
    code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]  # of all that finders give
    if not isinstance(code, CodeType):
        raise ImportError(f"{spec.name}: no code that could be run")
    return code
