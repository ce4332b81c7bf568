from tornlog.store.log.transient_pool import TransientStorePool
from tornlog.store.world import World


def test_the_most_recently_returned_buffer_is_reused_first(world: World) -> None:
    pool = TransientStorePool(world, 100, 2)
    assert (pool.available, pool.borrow_buffer()) == (0, None)

    pool.fill()
    first, second = pool.borrow_buffer(), pool.borrow_buffer()
    assert first is not None
    assert second is not None
    assert (len(first), bytes(second)) == (100, bytes(100))
    assert (pool.available, pool.borrow_buffer()) == (0, None)

    pool.give_back(first)
    pool.give_back(second)
    assert pool.available == 2
    assert pool.borrow_buffer() is second
    assert pool.borrow_buffer() is first


def test_a_drained_transient_pool_has_no_buffer(world: World) -> None:
    pool = TransientStorePool(world, 8, 3)
    pool.fill()
    pool.drain()
    assert (pool.available, pool.borrow_buffer()) == (0, None)
