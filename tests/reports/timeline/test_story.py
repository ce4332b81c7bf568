import re
from collections.abc import Callable

import pytest

from tornlog.reports.timeline.recording.record import Cut, RunRecording
from tornlog.reports.timeline.recording.recorder import record_seed
from tornlog.reports.timeline.story import BAD, GOOD, Storyteller, cut_text, last_changes, shorten_paths, task_name_text
from tornlog.scenarios.campaigns.mutation_run import narrowed_scenario
from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.ranges import Ranges
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.mutants.known import mutant_named

Broken = Callable[[str], RunRecording]


def story_lines(run: RunRecording) -> list[tuple[str, str]]:
    lines = Storyteller(run).story(run.broken[0].puts[0])
    assert [line.at for line in lines] == sorted(line.at for line in lines)
    return [(line.tone, line.text) for line in lines]


def test_the_story_shows_that_the_file_of_the_message_lost_its_name(lost: RunRecording) -> None:
    story = story_lines(lost)
    texts = [text for _, text in story]
    assert any("puts the message into" in text for text in texts)
    assert any(text.startswith("the record is written: commitlog/…") for text in texts)
    assert ("bad", "commitlog is not synced from here on: the file's name is not durable") in story
    assert any(tone == GOOD and text.startswith("the record is durable") for tone, text in story)
    assert ("good", "answered PUT_OK, after the sync") in story
    assert any(tone == BAD and text.endswith("the file loses its name and disappears") for tone, text in story)
    assert story[-2] == ("bad", "the recovery of heal does not find the record, although the message was promised")
    assert story[-1][1].startswith("DUR: ")


def test_warming_a_page_does_not_count_as_writing_a_record() -> None:
    run = record_seed(SCENARIOS["segment-rollover-crash"], 64, mutant="no-dir-fsync-on-rollover")
    put = run.puts[run.broken[0].puts[0]]
    warm_up = next(
        one for one in run.operations if one.path == put.path and one.kind == "store" and one.begin > put.asked
    )
    assert (warm_up.start, warm_up.stop) == (0, 1)
    store = next(one for one in run.operations if (one.path, one.start, one.stop) == (put.path, put.start, put.stop))
    sync = next(one for one in run.operations if one.kind == "msync" and one.path == put.path and one.begin > store.end)

    lines = {line.text.partition(":")[0]: line.at for line in Storyteller(run).story(run.broken[0].puts[0])}
    assert lines["the record is written"] == store.begin
    assert lines["the record is durable"] == sync.end
    assert put.asked < store.begin < sync.end <= put.answered


def test_an_interrupted_write_is_shown_as_cut_off() -> None:
    runs = (record_seed(SCENARIOS["sync-flush-power-cut"], seed) for seed in range(100))
    cut_off = (
        [line.text for line in Storyteller(run).story(number)]
        for run in runs
        for number, put in enumerate(run.puts)
        for one in run.operations
        if (one.kind, one.ending) == ("store", "cut off") and (one.path, one.start) == (put.path, put.start)
    )
    story = next(cut_off)
    assert any(text.startswith("the machine crashes while the record is written: commitlog/…") for text in story)
    assert not any(text.startswith("the record is written") for text in story)


def test_with_a_transient_pool_a_record_counts_as_written_after_its_last_commit() -> None:
    ranges = Ranges(
        lives=(1,),
        endings=("stop",),
        memory={"transient_pool": (True,)},
        sync_flush=(False,),
        faults={"short_write_chance": (0.5,)},
    )
    in_pieces = 0
    for seed in range(12):
        run = record_seed(Scenario("short writes", "commits go on", ranges), seed)
        for number, put in enumerate(run.puts):
            at = [line.at for line in Storyteller(run).story(number) if line.text.startswith("the record is written")]
            pieces = [
                one
                for one in run.operations
                if one.kind == "pwrite" and one.path == put.path and one.start < put.stop and put.start < one.stop
            ]
            if pieces and at:
                in_pieces += len(pieces) > 1
                assert at == [pieces[-1].begin]
    assert in_pieces > 3


def test_the_story_shows_that_the_message_was_acknowledged_too_early(broken_by: Broken) -> None:
    story = story_lines(broken_by("ack-before-flush"))
    assert ("bad", "answered PUT_OK, before any sync covered it") in story
    assert story[-1][1].startswith("STATUS: ")
    assert not any(text.startswith("the record is durable") for _, text in story)


def test_the_story_shows_that_the_message_returned(came_back: RunRecording) -> None:
    story = story_lines(came_back)
    gone, back = (
        next(at for at, (_, text) in enumerate(story) if text.startswith("the recovery of ") and words in text)
        for words in ("does not find the record", "finds the record, although an earlier recovery did not")
    )
    assert gone < back
    assert story[back][0] == BAD
    assert story[back + 1] == ("bad", "PREFIX: a truncated record reappeared")


@pytest.mark.ci
def test_the_story_shows_that_part_of_the_message_was_lost_in_a_power_cut() -> None:
    ground, mutant = narrowed_scenario(mutant_named("hole-in-properties")), "hole-in-properties"
    runs = (record_seed(ground, seed, mutant=mutant) for seed in range(200))
    stories = (story_lines(run) for run in runs if run.broken)
    cuts = ([text for tone, text in story if tone == BAD and text.startswith("power cut")] for story in stories)
    taken = next(bad for bad in cuts if bad)
    assert len(taken) == 1
    assert re.fullmatch(r"power cut \(.*: [1-9]\d* of \d+ sectors lose the record's bytes", taken[0])


def test_the_story_shows_the_failed_sync_of_the_message() -> None:
    mutant = "fsync-retry-acks"
    ground = narrowed_scenario(mutant_named(mutant))
    runs = (record_seed(ground, seed, mutant=mutant) for seed in range(100))
    stories = (Storyteller(run).story(number) for run in runs if run.broken for number in range(len(run.puts)))
    begin = "a sync of the record fails: msync of commitlog"
    assert any(line.text.startswith(begin) for story in stories for line in story)


def test_the_story_of_a_surviving_message_has_no_line_marked_bad(held: RunRecording) -> None:
    told = 0
    for number, put in enumerate(held.puts):
        if put.status == "PUT_OK" and put.wait:
            story = Storyteller(held).story(number)
            assert BAD not in {line.tone for line in story}
            assert any(line.text == "answered PUT_OK, after the sync" for line in story)
            told += 1
    assert told > 3


def test_the_last_changes_of_a_file_are_its_writes_and_syncs(ended_at_its_crash: RunRecording) -> None:
    run = ended_at_its_crash
    path = run.broken[0].violation.file
    changes = last_changes(run.operations, path, 3)
    assert len(changes) == 3
    assert {one.path for one in changes} == {path}
    assert {one.kind for one in changes} <= {"store", "msync", "sync"}
    assert last_changes(run.operations, "/nowhere", 3) == []


def test_paths_and_task_names_are_shortened_without_ambiguity() -> None:
    assert shorten_paths("/store/commitlog/00000000000000002048") == "commitlog/…2048"
    assert shorten_paths("/store/commitlog/00000000000000000000") == "commitlog/…0"
    assert shorten_paths("/store/index/20200913122640031") == "index/20200913122640031"
    assert shorten_paths("/store") == "/store"
    assert shorten_paths("KEYS\1m0\2") == "KEYS·m0·"
    assert task_name_text("life-0/producer-1") == "producer-1"
    assert task_name_text("outside") == "outside"


def test_each_kind_of_crash_has_its_own_description() -> None:
    cut = Cut(0, "life-0", "ext4-ordered", "msync", "/store/checkpoint", "during")
    assert cut_text(cut) == "power cut (ext4-ordered), during msync checkpoint"
    assert cut_text(Cut(0, "life-0", "process-kill")) == "process kill"
    assert cut_text(Cut(0, "life-0", "changed while off")) == "changed while off"
    assert cut_text(Cut(0, "life-0")) == "the machine crashes"
