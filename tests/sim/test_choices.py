import json

from tornlog.sim.choices import Choices, Decision, decisions_from_record


def draw_samples(choices: Choices) -> list[object]:
    disk, plan = choices.stream("disk"), choices.stream("plan")
    return [
        disk.randbelow(8, "sectors kept"),
        plan.chance(0.25, "sync fails"),
        disk.randint(-3, 3, "clock step"),
        disk.choice(["old", "new", "garbage"], "torn as"),
        plan.chance(0.75, "stall"),
    ]


def test_equal_seeds_give_equal_draws_and_other_seeds_other_draws() -> None:
    assert draw_samples(Choices("7")) == draw_samples(Choices("7"))
    assert len({str(draw_samples(Choices(str(seed)))) for seed in range(20)}) > 10


def test_a_stream_is_the_same_object_for_the_same_name() -> None:
    choices = Choices("7")
    assert choices.stream("disk") is choices.stream("disk")
    assert choices.stream("disk") is not choices.stream("plan")


def test_draws_of_one_stream_do_not_depend_on_other_streams() -> None:
    alone, together = Choices("7"), Choices("7")
    alone_draws = [alone.stream("disk").randbelow(1000, "x") for _ in range(10)]
    together_draws = []
    for _ in range(10):
        together.stream("plan").randbelow(1000, "y")
        together_draws.append(together.stream("disk").randbelow(1000, "x"))
    assert together_draws == alone_draws


def test_draws_cover_their_bounds_and_do_not_exceed_them() -> None:
    stream = Choices("7").stream("disk")
    assert {stream.randbelow(3, "x") for _ in range(200)} == {0, 1, 2}
    assert {stream.randint(-1, 1, "x") for _ in range(200)} == {-1, 0, 1}
    assert {stream.choice("ab", "x") for _ in range(200)} == {"a", "b"}
    assert 40 < sum(stream.chance(0.25, "x") for _ in range(400)) < 160


def test_draws_do_not_change_between_versions_of_python() -> None:
    stream = Choices("7").stream("disk")
    assert [stream.randbelow(1000, "x") for _ in range(6)] == [422, 501, 443, 713, 876, 563]


def test_a_replay_of_decisions_stored_as_json_repeats_every_draw() -> None:
    choices = Choices("7")
    drawn = draw_samples(choices)
    replayed = Choices.for_replay(decisions_from_record(json.loads(json.dumps(choices.to_record()))))
    assert draw_samples(replayed) == drawn
    assert replayed.to_record() == choices.to_record()
    assert replayed.unused_decisions() == []


def test_each_nonzero_draw_is_recorded_with_label_number_options_and_value() -> None:
    choices = Choices("7")
    stream = choices.stream("disk")
    drawn = [stream.randbelow(3, "sectors kept") for _ in range(20)]
    fails = [stream.chance(0.5, "sync fails") for _ in range(20)]
    kept = [["sectors kept", nth, 3, value] for nth, value in enumerate(drawn, 1) if value]
    failed = [["sync fails", nth, 2, 1] for nth, value in enumerate(fails, 1) if value]
    assert choices.to_record() == {"disk": kept + failed}
    assert 0 < len(failed) < 20
    assert decisions_from_record(choices.to_record()) == choices.decisions()


def test_recorded_streams_are_sorted_by_name_and_omit_streams_without_decisions() -> None:
    choices = Choices("7")
    for name in ("b", "idle", "a"):
        stream = choices.stream(name)
        while name != "idle" and not stream.randbelow(2, "x"):
            pass
    assert list(choices.to_record()) == ["a", "b"]


def test_a_draw_without_alternatives_is_not_recorded() -> None:
    stream = Choices("7").stream("disk")
    assert stream.randbelow(1, "x") == 0
    assert stream.randint(5, 5, "x") == 5
    assert stream.chance(0.0, "x") is False
    assert stream.chance(1.0, "x") is True
    assert stream.draw_count == 0


def test_a_replay_draws_the_default_where_no_decision_is_recorded() -> None:
    stream = Choices.for_replay([]).stream("disk")
    assert stream.randbelow(8, "torn") == 0
    assert stream.randint(3, 5, "ms") == 3
    assert stream.chance(0.999, "fails") is False
    assert stream.chance(1.0, "always") is True
    assert stream.choice("ab", "which") == "a"
    assert stream.record_draw(4, "fate", proposed=3) == 0
    assert stream.record_draw(1, "no fate", proposed=0) == 0


def test_a_replayed_decision_is_matched_by_stream_label_and_number() -> None:
    decision = Decision("disk", "torn", 2, 8, 5)
    replayed = Choices.for_replay([decision])
    other, stream = replayed.stream("other"), replayed.stream("disk")
    assert other.randbelow(8, "torn") == other.randbelow(8, "torn") == 0
    assert [stream.randbelow(8, label) for label in ("new", "torn", "new", "torn", "torn")] == [0, 0, 0, 5, 0]
    assert replayed.decisions() == [decision]
    assert replayed.unused_decisions() == []


def test_replayed_decisions_without_a_matching_draw_are_reported_as_unmet() -> None:
    met = Decision("disk", "torn", 1, 8, 3)
    never_asked = Decision("disk", "torn", 2, 8, 3)
    too_large = Decision("disk", "kept", 1, 4, 3)
    of_nobody = Decision("a stream of yore", "kept", 1, 4, 3)
    replayed = Choices.for_replay([met, never_asked, too_large, of_nobody])
    stream = replayed.stream("disk")

    assert stream.randbelow(8, "torn") == 3
    assert stream.randbelow(3, "kept") == 0
    assert replayed.unused_decisions() == [of_nobody, never_asked, too_large]
    assert str(never_asked) == "disk: torn #2: 3 of 8"


def test_a_replayed_decision_with_a_different_number_of_options_is_reported_as_changed() -> None:
    decision = Decision("disk", "torn", 1, 8, 3)
    replayed = Choices.for_replay([decision])
    assert replayed.stream("disk").randbelow(5, "torn") == 3
    assert replayed.unused_decisions() == []
    assert replayed.changed_draws() == [(decision, 5)]
    assert replayed.decisions() == [Decision("disk", "torn", 1, 5, 3)]


def test_a_replayed_decision_overrides_the_proposed_value() -> None:
    stream = Choices.for_replay([Decision("disk", "fate", 1, 4, 2)]).stream("disk")
    assert [stream.record_draw(4, "fate", proposed=1) for _ in range(2)] == [2, 0]


def test_raw_draws_are_not_recorded_but_decisions_made_from_them_are() -> None:
    stream = Choices("7").stream("policy")
    assert 0.0 <= stream.raw_random() < 1.0
    assert stream.draw_count == 0
    assert stream.record_draw(4, "fate", proposed=3) == 3
    assert stream.decisions() == [Decision("policy", "fate", 1, 4, 3)]


def test_draws_within_a_topic_use_the_same_stream_with_separate_labels() -> None:
    plain, divided = Choices("7").stream("users"), Choices("7").stream("users")
    about = divided.with_subject("m1")
    drawn = [plain.randbelow(100, "x"), plain.chance(0.5, "y"), plain.choice("abcd", "z")]

    assert [about.randbelow(100, "x"), about.chance(0.5, "y"), about.choice("abcd", "z")] == drawn
    assert about.raw_random() == plain.raw_random()
    assert about.record_draw(4, "fate", proposed=1) == 1
    labels = [f"m1 {label}" for label, value in zip("xyz", drawn, strict=True) if value not in (0, "a")]
    assert [decision.label for decision in divided.decisions()] == [*labels, "m1 fate"]
    assert about.decisions() == divided.decisions()
    assert about.draw_count == divided.draw_count == 4


def test_omitting_one_topic_does_not_change_the_draws_of_another() -> None:
    first = Choices("7")
    for topic in ("m0", "m1"):
        about = first.stream("users").with_subject(topic)
        drawn = [about.randbelow(100, "bytes") for _ in range(3)]
    replayed = Choices.for_replay(first.decisions())
    again = replayed.stream("users").with_subject("m1")
    assert [again.randbelow(100, "bytes") for _ in range(3)] == drawn
    assert {decision.label for decision in replayed.unused_decisions()} == {"m0 bytes"}


def test_the_list_of_draws_includes_draws_of_0() -> None:
    choices = Choices("1")
    stream, about = choices.stream("b"), choices.stream("a").with_subject("m1")
    stream.record_draw(3, "fate", 0)
    stream.record_draw(3, "fate", 2)
    about.record_draw(2, "taken", 0)

    assert list(choices.draws()) == [
        Decision("a", "m1 taken", 1, 2, 0),
        Decision("b", "fate", 1, 3, 0),
        Decision("b", "fate", 2, 3, 2),
    ]
    assert list(about.draws()) == [Decision("a", "m1 taken", 1, 2, 0)]
    assert choices.decisions() == [draw for draw in choices.draws() if draw.value]
