"""Generated programs: valid steps on a few files and directories, by seed."""

from collections.abc import Iterator
from random import Random

from tornlog.faults.probe.record import FILES, Step


class Program:
    """A generated program: valid steps on a few files and directories, with syncs and promises."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._names: dict[str, int] = {}
        self._sizes: list[int] = []
        self._directories = [FILES]
        self._unnamed: list[int] = []
        self._fresh = 0
        self.steps: list[Step] = []
        for _ in range(self._random.randrange(4, 40)):
            self.steps += self._next()
        self.steps.append(Step("acknowledge", "the end"))

    def _path(self) -> str:
        self._fresh += 1
        return f"{self._random.choice(self._directories)}/{self._fresh}"

    def _next(self) -> Iterator[Step]:
        random = self._random
        of_file = (
            "write",
            "write",
            "overwrite",
            "sync",
            "sync",
            "data",
            "range",
            "cut",
            "grow",
            "zero",
            "link",
            "rename",
        )
        of_names = ("replace", "unlink", "exchange", "acknowledge", "acknowledge", "directory", "directory sync")
        others = ("directory sync", "remove directory", "rename directory", "unnamed", "symlink", "all")
        kind = random.choice(("create", *((*of_file, *of_names, *others) if self._sizes else ())))
        files = [*self._names.values(), *self._unnamed]
        file = random.choice(files) if files else -1
        path = random.choice(sorted(self._names)) if self._names else ""
        match kind:
            case "create" | "unnamed":
                file = len(self._sizes)
                self._sizes.append(0)
                name = self._path() if kind == "create" else ""
                if name:
                    self._names[name] = file
                else:
                    self._unnamed.append(file)
                yield Step("create", name, file=file)
            case "acknowledge":
                yield Step("acknowledge", str(len(self.steps)))
            case "directory":
                path = self._path()
                self._directories.append(path)
                yield Step("make directory", path)
            case "directory sync":
                yield Step("sync directory", random.choice(self._directories))
            case "all":
                yield Step("sync all")
            case "symlink":
                yield Step("symlink", self._path(), "target")
            case "remove directory" | "rename directory" if len(self._directories) > 1:
                yield from self._change_directory(kind)
            case _ if file >= 0 and kind in of_file:
                yield from self._change_content(kind, file)
            case "link" if self._unnamed and random.random() < 0.7:
                file, target = self._unnamed.pop(), self._path()
                self._names[target] = file
                yield Step("link", "", target, file=file)
            case "link" | "rename" | "replace" | "unlink" | "exchange" if path:
                yield from self._change_name(kind, path)

    def _change_content(self, kind: str, file: int) -> Iterator[Step]:
        random, size = self._random, self._sizes[file]
        data = random.randbytes(random.choice((3, 700, 5000)))
        match kind:
            case "write":
                self._sizes[file] = size + len(data)
                yield Step("write", file=file, at=size, data=data)
            case "overwrite" if size:
                data = data[: random.randrange(size) + 1]
                yield Step(random.choice(("write", "store")), file=file, at=0, data=data[:600])
            case "sync":
                yield Step("sync", file=file)
            case "data":
                yield Step("sync", file=file, target="data")
            case "range" if size:
                yield Step("sync", file=file, target="data", at=random.randrange(size), size=random.randrange(size) + 1)
            case "cut" if size:
                self._sizes[file] = random.randrange(size)
                yield Step("truncate", file=file, at=self._sizes[file])
            case "grow":
                self._sizes[file] = size + 100
                yield random.choice(
                    (Step("truncate", file=file, at=size + 100), Step("allocate", file=file, at=size, size=100))
                )
            case "zero" if size:
                yield Step("zero range", file=file, at=random.randrange(size), size=50)

    def _change_name(self, kind: str, path: str) -> Iterator[Step]:
        others = [name for name in sorted(self._names) if self._names[name] != self._names[path]]
        match kind:
            case "link":
                target = self._path()
                self._names[target] = self._names[path]
                yield Step("link", path, target)
            case "rename":
                target = self._path()
                self._names[target] = self._names.pop(path)
                yield Step("rename", path, target)
            case "replace" if others:
                target = self._random.choice(others)
                self._names[target] = self._names.pop(path)
                yield Step("rename", path, target)
            case "exchange" if others:
                target = self._random.choice(others)
                self._names[target], self._names[path] = self._names[path], self._names[target]
                yield Step("exchange", path, target)
            case "unlink":
                del self._names[path]
                yield Step("unlink", path)

    def _change_directory(self, kind: str) -> Iterator[Step]:
        path = self._random.choice(self._directories[1:])
        below = [name for name in (*self._names, *self._directories) if name.startswith(f"{path}/")]
        if any(step.kind == "symlink" for step in self.steps):
            return  # links in the directory are not tracked here
        if kind == "remove directory" and not below:
            self._directories.remove(path)
            yield Step("remove directory", path)
        elif kind == "rename directory":
            target = f"{FILES}/{self._fresh}-moved"
            self._fresh += 1

            def moved(name: str) -> str:
                return f"{target}{name[len(path) :]}" if f"{name}/".startswith(f"{path}/") else name

            self._names = {moved(name): file for name, file in self._names.items()}
            self._directories = [moved(name) for name in self._directories]
            yield Step("rename", path, target)
