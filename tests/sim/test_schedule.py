import pytest

from tornlog.sim.schedule import ScheduleError, TaskSwitch, parse_schedule, parse_switch

LINES = [
    ("life-0/producer-1 @ store #3 -> life-0/flush", TaskSwitch("life-0/producer-1", "store", 3, "life-0/flush")),
    ("m/a#2 @ ~lock put #10 -> m/b#3", TaskSwitch("m/a#2", "~lock put", 10, "m/b#3")),
    ("outside @ ~start #1 -> m/main", TaskSwitch("outside", "~start", 1, "m/main")),
    (
        "life-0/retention operator @ cell flushed where.get #2 -> life-0/room operator",
        TaskSwitch("life-0/retention operator", "cell flushed where.get", 2, "life-0/room operator"),
    ),
]


@pytest.mark.parametrize(("line", "switch"), LINES)
def test_a_schedule_entry_survives_printing_and_parsing(line: str, switch: TaskSwitch) -> None:
    assert parse_switch(f"  {line}\n") == switch
    assert str(switch) == line


def test_only_a_switch_from_a_runnable_task_is_a_preemption() -> None:
    assert parse_switch("m/a @ store #1 -> m/b").is_preemption
    assert not parse_switch("m/a @ ~store #1 -> m/b").is_preemption


def test_parsing_a_schedule_ignores_empty_lines_and_comments() -> None:
    schedule = [switch for _, switch in LINES]
    text = "\n".join(map(str, schedule))
    assert parse_schedule(text) == schedule
    assert parse_schedule(f"# what went wrong\n\n{text}\n  # the end") == schedule
    assert parse_schedule("") == []


@pytest.mark.parametrize(
    "line",
    ["m/a @ store -> m/b", "m/a @ store #0 -> m/b", "m/a store #1 -> m/b", "m/a @ store #1", "@ store #1 -> m/b"],
)
def test_an_invalid_schedule_entry_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(ScheduleError, match=r"^line 2: expected TASK @ LABEL #N -> TASK, found "):
        parse_schedule(f"m/a @ store #1 -> m/b\n{line}\n")


def test_a_duplicate_schedule_entry_is_refused() -> None:
    with pytest.raises(ScheduleError, match="line 2: m/a @ store #1 is a duplicate"):
        parse_schedule("m/a @ store #1 -> m/b\nm/a @ store #1 -> m/c\n")
