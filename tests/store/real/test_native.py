import pytest

from tornlog.store.formats import native
from tornlog.store.formats.columns import NativeCore
from tornlog.store.real.native import PURE_PYTHON, load_core
from tornlog.store.real.world import overlay_world, real_world


def test_a_real_world_has_the_compiled_core(c_core: NativeCore) -> None:
    assert load_core() is c_core
    assert real_world().core is c_core
    assert overlay_world().core is c_core


def test_an_environment_variable_disables_the_core(c_core: NativeCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PURE_PYTHON, "1")
    assert load_core() is None
    assert real_world().core is None


def test_a_core_with_another_interface_version_is_not_used(c_core: NativeCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "INTERFACE", native.INTERFACE + 1)
    assert load_core() is None
