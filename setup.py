"""Finds the packages, and builds the core in C where it can be built.

The repository root is itself one of the packages, which no setting of pyproject.toml can say. Without a compiler
the core is left out, and the code in Python does all of its work.
"""

from setuptools import Extension, find_packages, setup
from setuptools.command.build_py import build_py

NATIVE = "store/formats/native"
FOLDERS = ("sim", "store", "faults", "scenarios", "reports")


class Modules(build_py):  # type: ignore[misc]
    """Builds every module of the packages but this file, which stands in the root package's folder."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return package, module and file of each."""
        found: list[tuple[str, str, str]] = super().find_package_modules(package, package_dir)
        return [one for one in found if one[:2] != ("tornlog", "setup")]


setup(
    packages=["tornlog"]
    + [f"tornlog.{name}" for name in find_packages(include=[*FOLDERS, *(f"{one}.*" for one in FOLDERS)])],
    ext_modules=[
        Extension(
            "tornlog.store.formats.native._records",
            sources=[f"{NATIVE}/{name}.c" for name in ("records", "scan", "entries", "pulls", "puts", "crc32")],
            depends=[f"{NATIVE}/{name}.h" for name in ("tables", "crc32")],
            extra_compile_args=["-fvisibility=hidden"],  # its names are nobody else's business
            py_limited_api=True,  # one build for Python 3.11 and all later ones
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    cmdclass={"build_py": Modules},
)
