"""Which kind of run a plan is one of."""

from ...sim.choices import Choices
from ...sim.policies import Policy
from ...sim.trace import Trace
from ..claims.crash_points import CrashPoints
from ..claims.plan import Plan
from ..oracle.ledger import Ledger
from .broker.run import BrokerRun
from .cluster.run import ClusterRun
from .execution import Execution
from .store_run import Run


def run_of(
    plan: Plan,
    choices: Choices,
    policy: Policy | None = None,
    trace: Trace | None = None,
    *,
    crash_points: CrashPoints | None = None,
    step_limit: int | None = None,
    ledger: Ledger | None = None,
) -> Execution:
    """Return the run of a plan: of a store alone, of a cluster if it has slaves, of a broker if there is one."""
    kind: type[Execution] = Run
    if plan.broker.serves:
        kind = BrokerRun
    elif plan.cluster.slaves:
        kind = ClusterRun
    return kind(plan, choices, policy, trace, crash_points=crash_points, step_limit=step_limit, ledger=ledger)
