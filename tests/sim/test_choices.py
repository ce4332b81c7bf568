import json

import pytest

from tornlog.sim.choices import Choices, ReplayDivergedError


def draw_some(choices: Choices) -> list[object]:
    disk, plan = choices.stream("disk"), choices.stream("plan")
    return [
        disk.below(8, "sectors kept"),
        plan.chance(0.25, "sync fails"),
        disk.between(-3, 3, "clock step"),
        disk.pick(["old", "new", "garbage"], "torn as"),
        plan.chance(0.75, "stall"),
    ]


def test_the_same_seed_draws_the_same_and_another_seed_does_not() -> None:
    assert draw_some(Choices("7")) == draw_some(Choices("7"))
    assert len({str(draw_some(Choices(str(seed)))) for seed in range(20)}) > 10


def test_a_stream_is_the_same_object_for_the_same_name() -> None:
    choices = Choices("7")

    assert choices.stream("disk") is choices.stream("disk")
    assert choices.stream("disk") is not choices.stream("plan")


def test_streams_do_not_disturb_each_other() -> None:
    alone, together = Choices("7"), Choices("7")
    alone_draws = [alone.stream("disk").below(1000, "x") for _ in range(10)]
    together_draws = []
    for _ in range(10):
        together.stream("plan").below(1000, "y")
        together_draws.append(together.stream("disk").below(1000, "x"))

    assert together_draws == alone_draws


def test_draws_stay_within_their_bounds_and_reach_them() -> None:
    stream = Choices("7").stream("disk")

    assert {stream.below(3, "x") for _ in range(200)} == {0, 1, 2}
    assert {stream.between(-1, 1, "x") for _ in range(200)} == {-1, 0, 1}
    assert {stream.pick("ab", "x") for _ in range(200)} == {"a", "b"}
    assert 40 < sum(stream.chance(0.25, "x") for _ in range(400)) < 160


def test_draws_do_not_change_between_versions_of_python() -> None:
    stream = Choices("7").stream("disk")

    assert [stream.below(1000, "x") for _ in range(6)] == [422, 501, 443, 713, 876, 563]


def test_a_replay_after_a_journey_through_json_repeats_every_draw() -> None:
    choices = Choices("7")
    drawn = draw_some(choices)
    replayed = Choices.replaying(json.loads(json.dumps(choices.recorded())))

    assert draw_some(replayed) == drawn
    assert replayed.recorded() == choices.recorded()
    assert replayed.divergence is None


def test_the_record_has_label_options_and_value_of_each_draw() -> None:
    choices = Choices("7")
    kept = choices.stream("disk").below(8, "sectors kept")
    fails = choices.stream("disk").chance(0.5, "sync fails")

    assert choices.recorded() == {"disk": [["sectors kept", 8, kept], ["sync fails", 0.5, int(fails)]]}


def test_a_draw_without_alternatives_is_not_recorded() -> None:
    stream = Choices("7").stream("disk")

    assert stream.below(1, "x") == 0
    assert stream.between(5, 5, "x") == 5
    assert stream.chance(0.0, "x") is False
    assert stream.chance(1.0, "x") is True
    assert stream.recorded() == []


def test_a_replay_that_asks_for_something_else_names_stream_index_and_both_draws() -> None:
    replayed = Choices.replaying({"disk": [["torn", 8, 3], ["kept", 4, 1]]})
    stream = replayed.stream("disk")
    assert stream.below(8, "torn") == 3

    with pytest.raises(ReplayDivergedError) as caught:
        stream.below(5, "kept")

    assert str(caught.value) == "stream disk, entry 1: recorded ('kept', 4), found ('kept', 5)"
    assert replayed.divergence is caught.value


def test_a_replay_that_draws_past_the_record_diverges() -> None:
    replayed = Choices.replaying({"disk": []})

    with pytest.raises(ReplayDivergedError, match="entry 0: recorded the end, found \\('torn', 8\\)"):
        replayed.stream("disk").below(8, "torn")
    with pytest.raises(ReplayDivergedError):
        replayed.stream("unheard of").chance(0.5, "torn")


def test_unrecorded_draws_leave_no_record_and_a_replay_refuses_them() -> None:
    choices = Choices("7")

    assert 0.0 <= choices.stream("policy").unrecorded() < 1.0
    assert choices.recorded() == {"policy": []}
    with pytest.raises(ReplayDivergedError, match="unrecorded"):
        Choices.replaying(choices.recorded()).stream("policy").unrecorded()
