import pytest

from tornlog.faults.disk.fault_injector import CrashPoint, CrashTrigger


@pytest.mark.parametrize(
    "text", ["store /store/commitlog/0 #1", "sync directory / #12", "make directory /a/b c #3", "make directory mq #1"]
)
def test_a_crash_point_can_be_parsed_from_its_text(text: str) -> None:
    assert str(CrashPoint.parse(text)) == text


@pytest.mark.parametrize("text", ["", "store", "store /a", "store /a #0", "store #1", "Store /a #1 "])
def test_an_invalid_crash_point_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^crash point: expected KIND PATH #N, found "):
        CrashPoint.parse(text)


OPERATIONS = [("store", "/a"), ("msync", "/a"), ("store", "/b"), ("store", "/a"), ("store", "/a")]


def test_a_crash_point_selects_the_operation_by_kind_path_and_number() -> None:
    def met(point: CrashPoint) -> list[int]:
        trigger = CrashTrigger(point=point)
        return next(([number] for number, one in enumerate(OPERATIONS) if trigger.selects(number, *one)), [])

    assert met(CrashPoint("store", "/a", 1)) == [0]
    assert met(CrashPoint("store", "/a", 2)) == [3]
    assert met(CrashPoint("store", "/b", 1)) == [2]
    assert met(CrashPoint("msync", "/a", 2)) == []
    assert met(CrashPoint("msync", "/b", 1)) == []


def test_an_operation_number_is_converted_to_its_crash_point() -> None:
    for number, point in enumerate(["store /a #1", "msync /a #1", "store /b #1", "store /a #2", "store /a #3"]):
        trigger = CrashTrigger(operation=number)
        for other, one in enumerate(OPERATIONS):
            assert trigger.selected is None
            if trigger.selects(other, *one):
                break
        assert other == number
        assert str(trigger.selected) == point


def test_a_trigger_without_a_crash_point_counts_all_operations() -> None:
    trigger = CrashTrigger()
    assert not any(trigger.selects(number, *one) for number, one in enumerate(OPERATIONS))
    assert trigger.times == {("store", "/a"): 3, ("msync", "/a"): 1, ("store", "/b"): 1}
