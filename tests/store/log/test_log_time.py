"""Log time: it never decreases or stops, whatever the wall clock does."""

from tornlog.store.log.log_time import LogTime


class SetClock:
    """A clock that the test sets."""

    wall_ms = 1_000_000
    passed_ms = 0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ns(self) -> int:
        return self.passed_ms * 1_000_000

    def utc_offset_ms(self) -> int:
        return 0

    def pass_ms(self, ms: int) -> None:
        self.wall_ms += ms
        self.passed_ms += ms


def test_log_time_equals_a_wall_clock_without_steps() -> None:
    clock = SetClock()
    time = LogTime(clock)
    time.continue_after(clock.wall_ms)
    for _ in range(3):
        clock.pass_ms(700)
        assert time.now_ms() == time.next_ms() == clock.wall_ms


def test_log_time_runs_at_half_speed_until_the_wall_clock_has_caught_up() -> None:
    clock = SetClock()
    time = LogTime(clock)
    assert time.next_ms() == 1_000_000
    clock.wall_ms -= 500
    seen = []
    for _ in range(1_200):  # repeated calls do not lose fractions of a ms
        clock.pass_ms(1)
        seen.append(time.next_ms())
    assert seen == sorted(seen)
    assert (seen[0], seen[1], seen[999], seen[-1]) == (1_000_000, 1_000_001, 1_000_500, clock.wall_ms)


def test_log_time_may_step_back_by_half_of_the_time_elapsed_since_the_last_store() -> None:
    clock = SetClock()
    time = LogTime(clock)
    time.next_ms()
    clock.pass_ms(1_000)
    assert time.now_ms() == 1_001_000
    clock.wall_ms -= 3_600_000
    assert time.now_ms() == 1_000_500


def test_log_time_does_not_exceed_the_greatest_store_timestamp() -> None:
    clock = SetClock()
    time = LogTime(clock)
    time.continue_after((1 << 63) - 1)
    clock.pass_ms(10_000)
    assert time.next_ms() == (1 << 63) - 1
