from typing import Any, cast

from tornlog.scenarios.claims.catalogue import SCENARIOS
from tornlog.scenarios.claims.ranges import draw_plan
from tornlog.scenarios.workload.producer import Producer
from tornlog.sim.choices import Choices


def test_the_pause_before_a_retry_grows_after_many_retries() -> None:
    choices = Choices("0")
    plan = draw_plan(choices.stream("plan"), SCENARIOS["clean-shutdown"].ranges.replace(pauses={"chance": (0.0,)}))
    pauses: list[int] = []

    class Refusing:
        def draw(self, stream: Any, name: str) -> str:
            return name

        def put(self, draft: str) -> bool:
            return len(pauses) == 300

    producer = Producer(plan, choices.stream("producer"), ["one"])
    producer.insists = True
    producer.produce(cast(Any, Refusing()), pauses.append)
    assert pauses[:19] == [50] * 19
    assert pauses[19:39] == [100] * 20
    assert pauses[-1] == 500
    assert sorted(pauses) == pauses
