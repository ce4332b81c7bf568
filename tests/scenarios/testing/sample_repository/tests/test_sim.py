import sim


def test_prices_are_the_same_every_day():
    assert sim.price(1) == sim.price(1)
