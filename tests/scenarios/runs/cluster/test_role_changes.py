"""Role changes of cluster runs: what a run reaches, and which logs remain."""

from collections import Counter

from tornlog.scenarios.campaigns.seeds import draw_plan_of_seed
from tornlog.scenarios.claims.catalogue.clusters import HANDOVER, ROLE_CHANGES
from tornlog.scenarios.claims.scenario import Scenario
from tornlog.scenarios.runs.cluster.node import ClusterNode
from tornlog.scenarios.runs.cluster.run import ClusterRun
from tornlog.scenarios.runs.run_of import simulation_of


def changed_roles(seed: int) -> tuple[ClusterRun, Counter[str]]:
    choices, plan = draw_plan_of_seed(Scenario("c", "c", HANDOVER.replace(**ROLE_CHANGES)), seed)
    run = ClusterRun(plan, simulation_of(plan, choices))
    outcome = run.execute()
    assert not outcome.violations
    return run, outcome.marks


def log_of(node: ClusterNode) -> bytes:
    """Return the files of a stopped store's log."""
    return b"".join(node.life.disk.content(segment.file.path) for segment in node.loaded.log.segments)


def test_a_former_master_that_returns_keeps_its_own_messages_and_reports_the_difference() -> None:
    run, marks = changed_roles(0)
    former, (new, other) = run._master, run._slaves

    assert not former.is_master
    assert marks["roles changed"] == marks["former master diverged"] == 1
    kept, log = log_of(former), log_of(new)
    assert b"of master 1" in kept
    assert b"of slave-1 1" not in kept
    assert b"of slave-1 1" in log
    assert not (b"of master" in log_of(other) and b"of slave-1" in log_of(other)), "one history only"


def test_a_slave_is_moved_when_the_first_bytes_of_the_former_master_arrive() -> None:
    marks: Counter[str] = Counter()
    for seed in range(3):
        marks += changed_roles(seed)[1]

    assert 1 <= marks["slave moved at first bytes"] <= marks["roles changed"] == 3
