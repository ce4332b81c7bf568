"""Finds the packages: the repository root is itself one of them, which no setting of pyproject.toml can say."""

from setuptools import find_packages, setup

FOLDERS = ("sim", "store", "faults", "scenarios", "reports")

setup(
    packages=["tornlog"]
    + [f"tornlog.{name}" for name in find_packages(include=[*FOLDERS, *(f"{one}.*" for one in FOLDERS)])]
)
