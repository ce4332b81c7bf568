"""Attribute points: make accesses to shared attributes scheduling points.

Real threads race on plain attributes, but simulated tasks switch only at world calls. Inside an `attribute_points`
block a property replaces each attribute. The property passes a scheduling point, then accesses the attribute without a
further switch. Other threads pass no scheduling point.

    label                      next operation
    attribute C.name.get       a read
    attribute C.name.use       a read of a container, which the reader may change next
    attribute C.name.set       an assignment, except the first to a new object: no other task has the object yet

`x.n += 1` is a read and an assignment.
"""

from _thread import get_ident  # identifies the kernel's thread; simulated code has no threads
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MemberDescriptorType
from typing import Any

from .kernel import Kernel
from .shared_attributes import SharedAttribute

STEPS_TIMES = 8
"""Factor by which attribute points multiply the largest number of scheduling points of a run. Measured: 2.0 to 6.0."""
_NOTHING = object()


@contextmanager
def attribute_points(kernel: Kernel, attributes: Sequence[SharedAttribute]) -> Iterator[None]:
    """Inside a block, make each access to these attributes a scheduling point. Blocks do not nest."""
    originals = [vars(attribute.owner).get(attribute.name, _NOTHING) for attribute in attributes]
    assert not any(isinstance(original, _AttributePoint) for original in originals), "one block at a time"
    try:
        for attribute, original in zip(attributes, originals, strict=True):
            make = _make_slot_point if isinstance(original, MemberDescriptorType) else _make_dict_point
            setattr(attribute.owner, attribute.name, make(kernel, attribute, original))
        yield
    finally:
        for attribute, original in zip(attributes, originals, strict=True):
            if original is _NOTHING:
                delattr(attribute.owner, attribute.name)
            else:
                setattr(attribute.owner, attribute.name, original)


class _AttributePoint(property):
    """Replaces one attribute. `__getattribute__` would also run for methods and for attributes that cannot race."""


def _point_labels(attribute: SharedAttribute) -> tuple[str, str]:
    label = f"attribute {attribute.owner.__name__}.{attribute.name}"
    return f"{label}.{'use' if attribute.is_container else 'get'}", f"{label}.set"


def _make_slot_point(kernel: Kernel, attribute: SharedAttribute, slot: Any) -> _AttributePoint:
    reading, writing = _point_labels(attribute)
    thread = get_ident()
    get, put, drop = slot.__get__, slot.__set__, slot.__delete__

    def read(instance: Any) -> Any:
        if get_ident() == thread:
            # `Kernel.scheduling_point`, inlined because a run spends most of its time here.
            fuel = kernel.fuel = kernel.fuel - 1
            if fuel < 0:
                kernel.reschedule(reading)
        return get(instance)

    def write(instance: Any, value: Any) -> None:
        try:
            get(instance)
        except AttributeError:
            pass
        else:
            if get_ident() == thread:
                kernel.scheduling_point(writing)
        put(instance, value)

    def delete(instance: Any) -> None:
        if get_ident() == thread:
            kernel.scheduling_point(writing)
        drop(instance)

    return _AttributePoint(read, write, delete)


def _make_dict_point(kernel: Kernel, attribute: SharedAttribute, default: Any) -> _AttributePoint:
    """Make the property for an attribute without a slot. default: the value in the class."""
    reading, writing = _point_labels(attribute)
    thread = get_ident()
    name = attribute.name

    def read(instance: Any) -> Any:
        if get_ident() == thread:
            fuel = kernel.fuel = kernel.fuel - 1
            if fuel < 0:
                kernel.reschedule(reading)
        try:
            return instance.__dict__[name]
        except KeyError:
            if default is _NOTHING:
                raise AttributeError(name, name=name, obj=instance) from None
            return default

    def write(instance: Any, value: Any) -> None:
        if name in instance.__dict__ and get_ident() == thread:
            kernel.scheduling_point(writing)
        instance.__dict__[name] = value

    def delete(instance: Any) -> None:
        if get_ident() == thread:
            kernel.scheduling_point(writing)
        del instance.__dict__[name]

    return _AttributePoint(read, write, delete)
