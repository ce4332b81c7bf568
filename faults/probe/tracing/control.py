"""What is done to a run, beside recording it: a fault at one call, or an order of its threads' steps.

As text, for the process that stands beside the program: `{"kind", "nth", "seed"}`, each null if it is not used.
"""

import json
from typing import NamedTuple

from ...kinds import FaultKind


class CallFault(NamedTuple):
    """A fault at one call: the nth, from 1, of those that this kind can strike."""

    kind: FaultKind
    nth: int

    def __str__(self) -> str:
        return f"{self.kind} {self.nth}"


class RunControl(NamedTuple):
    """At most one of both. seed: of the order in which threads take their recorded steps."""

    fault: CallFault | None = None
    seed: int | None = None

    def __str__(self) -> str:
        return str(self.fault) if self.fault is not None else "" if self.seed is None else f"seed {self.seed}"

    def dumps(self) -> str:
        """Return it as text."""
        kind, nth = (None, None) if self.fault is None else (self.fault.kind.name, self.fault.nth)
        return json.dumps({"kind": kind, "nth": nth, "seed": self.seed})

    @classmethod
    def loads(cls, text: str) -> "RunControl":
        """Read what dumps wrote."""
        found = json.loads(text)
        fault = None if found["kind"] is None else CallFault(FaultKind[found["kind"]], found["nth"])
        return cls(fault, found["seed"])


AS_IT_IS = RunControl()
