"""Choice of the kind of run for a plan, and of its simulation."""

from ...faults.simulation.simulation import Simulation
from ...sim.choices import Choices
from ...sim.policies import Policy
from ...sim.trace import Trace
from ..claims.plan import Plan
from ..oracle.ledger import Ledger
from .cluster.run import ClusterRun
from .execution import Execution
from .policies import policy_of
from .store_run import Run


def run_of(plan: Plan, simulation: Simulation, *, ledger: Ledger | None = None) -> Execution:
    """Return the run of a plan: with a broker, with a cluster if it has slaves, or with a lone store."""
    kind: type[Execution] = Run
    if plan.broker.serves:
        from .broker.run import BrokerRun  # an extra: runs of stores and clusters work without it

        kind = BrokerRun
    elif plan.cluster.slaves:
        kind = ClusterRun
    return kind(plan, simulation, ledger=ledger)


def simulation_of(plan: Plan, choices: Choices, policy: Policy | None = None, trace: Trace | None = None) -> Simulation:
    """Return the simulation of a plan. policy: replaces the plan's own."""
    return Simulation(choices, policy or policy_of(plan, choices), trace=trace)
