"""Attribute points: for as long as a block lasts, reading or assigning a shared attribute is a scheduling point.

Tasks switch at calls of the world, so what they do to plain attributes between two calls is never torn apart, as real
threads tear it. Within the block each attribute is a property of its class that passes a point and then does what was
asked for, in one step. Outside of it the classes are as they were, and cost what they cost. Other threads may use the
same classes meanwhile: their accesses pass no point.

    label                      what comes next
    attribute C.name.get       a read
    attribute C.name.use       a read of a container, which may be changed next
    attribute C.name.set       an assignment, but for an object's first: nobody else knows it yet

A check and an act on a table are two reads of the attribute that holds it, with a point in front of each; `x.n += 1` is
a read and an assignment.
"""

from _thread import get_ident  # names the thread of the tasks; simulated code still has no threads
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MemberDescriptorType
from typing import Any

from .kernel import Kernel
from .shared_attributes import SharedAttribute

STEPS_TIMES = 3
"""How many times the scheduling points a run of the store has with its attributes: 2.0 to 3.2, by scenario."""
_NOTHING = object()


@contextmanager
def attribute_points(kernel: Kernel, attributes: Sequence[SharedAttribute]) -> Iterator[None]:
    """Have a kernel's tasks pass points at these attributes. The classes are the process's: one block at a time."""
    originals = [vars(attribute.owner).get(attribute.name, _NOTHING) for attribute in attributes]
    assert not any(isinstance(original, _Point) for original in originals), "one block at a time"
    try:
        for attribute, original in zip(attributes, originals, strict=True):
            make = _slot_point if isinstance(original, MemberDescriptorType) else _dict_point
            setattr(attribute.owner, attribute.name, make(kernel, attribute, original))
        yield
    finally:
        for attribute, original in zip(attributes, originals, strict=True):
            if original is _NOTHING:
                delattr(attribute.owner, attribute.name)
            else:
                setattr(attribute.owner, attribute.name, original)


class _Point(property):
    """What stands in an attribute's place. Methods, and attributes that cannot race, are looked up as ever.

    That is why it is no `__getattribute__`, which would be called for them as well.
    """


def _labels(attribute: SharedAttribute) -> tuple[str, str]:
    """Return the labels of a read and of an assignment."""
    label = f"attribute {attribute.owner.__name__}.{attribute.name}"
    return f"{label}.{'use' if attribute.is_container else 'get'}", f"{label}.set"


def _slot_point(kernel: Kernel, attribute: SharedAttribute, slot: Any) -> _Point:
    reading, writing = _labels(attribute)
    thread = get_ident()
    get, put, drop = slot.__get__, slot.__set__, slot.__delete__

    def read(instance: Any) -> Any:
        if get_ident() == thread:
            # `Kernel.point`, written out: these are the hottest lines of such a run.
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
                kernel.point(writing)
        put(instance, value)

    def delete(instance: Any) -> None:
        if get_ident() == thread:
            kernel.point(writing)
        drop(instance)

    return _Point(read, write, delete)


def _dict_point(kernel: Kernel, attribute: SharedAttribute, default: Any) -> _Point:
    """default: the class's own value, which counts until an object has one."""
    reading, writing = _labels(attribute)
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
            kernel.point(writing)
        instance.__dict__[name] = value

    def delete(instance: Any) -> None:
        if get_ident() == thread:
            kernel.point(writing)
        del instance.__dict__[name]

    return _Point(read, write, delete)
