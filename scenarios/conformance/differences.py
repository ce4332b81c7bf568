"""Every difference between what is seen of one directory here and by the real store, each explained or not."""

from collections.abc import Iterator

from .deviations import EMPTY_QUEUE_FILE, GAP, ODD_FILE
from .log_differences import differences_of_log, has_gap
from .lookup_differences import differences_of_lookup, differences_of_times
from .opened import OpenedDirectory, StoreDifference
from .queue_differences import differences_of_progress, differences_of_queue
from .truth import faults_of


def differences(opened: OpenedDirectory) -> list[StoreDifference]:
    """Return all differences; first what is wrong here by our own log's word, which nothing explains."""
    ours, real = opened.ours, opened.real
    if ours.refusal or real.refusal:
        return list(_of_refusals(opened))
    found = [
        StoreDifference(f"{place}, by the log", str(got), str(expected), None)
        for place, expected, got in faults_of(ours, opened.config)
    ]
    found += differences_of_log(opened)
    for key in sorted(ours.queues.keys() | real.queues.keys()):
        found += differences_of_queue(opened, key)
    for topic, name in sorted(ours.lookups.keys() & real.lookups.keys()):
        found += differences_of_lookup(opened, topic, name)
    found += differences_of_times(opened)
    found += differences_of_progress(opened)
    return found


def _of_refusals(opened: OpenedDirectory) -> Iterator[StoreDifference]:
    ours, real = opened.ours, opened.real
    why = None
    if ours.refusal:  # that the real store refuses, too, does not make it right
        why = GAP if has_gap(opened) and "base offset" in ours.refusal else None
        if why is not None and real.refusal:
            return
    elif real.refusal == "load() returned false" and any(_odd_files(opened)):
        why = ODD_FILE
    elif real.refusal == "load() returned false" and opened.version == "rocketmq-5.3.3":
        why = EMPTY_QUEUE_FILE if any(_queues_without_a_last_entry(opened)) else None
    yield StoreDifference("opening", ours.refusal or "opens", real.refusal or "opens", why)


def _queues_without_a_last_entry(opened: OpenedDirectory) -> Iterator[str]:
    """Yield the directories of queues of several files of which the last is all zeros, be it after a cut."""
    last: dict[str, list[bytes]] = {}
    for path, content in sorted(opened.files.items()):
        if path.startswith("consumequeue/"):
            last.setdefault(path.rpartition("/")[0], []).append(content)
    for directory, contents in last.items():
        if len(contents) > 1 and not any(contents[-1]):
            yield directory


def _odd_files(opened: OpenedDirectory) -> Iterator[str]:
    """Yield files of log and queues that are not as long as the settings say."""
    for base, content in opened.log_files.items():
        if len(content) != opened.config.mapped_file_size_commit_log:
            yield f"commitlog/{base:020}"
    for path, content in opened.files.items():
        is_queue = path.startswith("consumequeue/")
        if is_queue and len(content) != opened.config.mapped_file_size_consume_queue:
            yield path
