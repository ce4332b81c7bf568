from tornlog.sim.choices import Choices
from tornlog.sim.kernel import Kernel
from tornlog.sim.policies.random_walk import RandomWalk


def test_waits_that_are_always_woken_in_time_do_not_pile_up_timers() -> None:
    kernel = Kernel(RandomWalk(Choices("1").stream("policy"), 4))
    machine = kernel.machine("m")
    ask, answer = machine.tasks.signal("ask"), machine.tasks.signal("answer")

    def serve() -> None:
        for _ in range(2000):
            assert ask.wait(60_000)
            answer.notify()

    def main() -> int:
        service = machine.tasks.spawn("service", serve)
        for _ in range(2000):
            ask.notify()
            assert answer.wait(60_000)
        service.join(60_000)
        return len(kernel._timers._heap)

    assert kernel.run(machine, main, time_limit_ns=1_000_000_000) <= 65
    assert kernel.now_ns == 0
