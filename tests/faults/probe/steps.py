"""Steps of records as short texts, and stories: programs with their expected steps."""

from collections.abc import Sequence

from tornlog.faults.probe.record import ProgramRecord, Step

Recorded = tuple[ProgramRecord, list[str]]
"""A record, and its differences from the directory."""


def steps_of(found: Recorded) -> list[Step]:
    """Return the steps of a record without differences or unrecorded actions."""
    record, unlike = found
    assert (record.unseen, unlike) == ((), [])
    return list(record.steps)


def as_short_texts(steps: list[Step]) -> list[str]:
    """Return steps as short texts, without their tasks."""
    return [_in_short(step) for step in steps]


def _in_short(step: Step) -> str:
    data = step.data.decode("latin-1")
    text = data if len(data) <= 20 else f"{data[:3]}...{len(data)}"
    numbers = (f"#{step.file}", f"@{step.at}", f"+{step.size}")
    shown = (numbers[0] if step.file >= 0 else "", numbers[1] if step.at else "", numbers[2] if step.size else "")
    return " ".join(word for word in (step.kind, step.path, step.target, *shown, repr(text) if text else "") if word)


def stories(text: str, usual: Sequence[str] = ()) -> dict[str, tuple[str, list[str] | None]]:
    """Return code and expected steps by sentence.

    A story is a line `= sentence`, its code, and lines `> step | step`. `...` stands for the usual first steps, `any`
    alone for no expectation.
    """
    found: dict[str, tuple[str, list[str] | None]] = {}
    for block in text.strip().removeprefix("= ").split("\n= "):
        sentence, *lines = block.split("\n")
        code = [line for line in lines if not line.startswith("> ")]
        shown = [step for line in lines if line.startswith("> ") for step in line[2:].split(" | ")]
        assert shown, sentence
        steps = [*usual, *shown[1:]] if shown[0] == "..." else shown
        found[sentence] = "\n".join(code), None if shown == ["any"] else steps
    return found
