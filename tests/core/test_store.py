"""The number of factors of a pattern that are kept: two, as many as are asked for again, two."""

from __future__ import annotations

from dataclasses import dataclass

from ldiv.core.owners.store import DROPPED, Store


@dataclass(eq=False)
class Made:
    key: str
    value_hash: int
    nbytes: int = 10


class Asking:
    """Asks for factors by number, and makes those that are not there."""

    def __init__(self, limit: int = 10**6) -> None:
        self.store, self.made = Store(limit), 0

    def __call__(self, value_hash: int, key: str = "A") -> None:
        found = next(
            (e.thing for e in self.store._kept.values() if e.thing.value_hash == value_hash), None
        )
        if found is None:
            self.made += 1
            self.store.make_room(key, value_hash)
            self.here = len(self.store._kept)
            found = Made(key, value_hash)
        self.store.keep(found)

    def there_and_back(self, first: int, count: int) -> int:
        """Count the factors that a loop of `count` steps and its backward pass make."""
        before = self.made
        for i in range(first, first + count):
            self(i)
        for i in reversed(range(first, first + count)):
            self(i)
        return self.made - before

    @property
    def kept(self) -> int:
        return len(self.store._kept)


def test_a_loop_keeps_two_and_drops_one_before_the_next_is_made() -> None:
    ask = Asking()
    for i in range(100):
        ask(i)
        ask(i)
        assert ask.kept <= 2
        assert ask.here <= 1
    assert ask.made == 100


def test_a_backward_pass_finds_all_the_next_time() -> None:
    ask = Asking()
    found = [ask.there_and_back(1000 * k, 200) for k in range(5)]
    assert found == [398, 200, 200, 200, 200]
    for i in range(2000):
        ask(-1 - i)
    assert ask.kept == 2


def test_each_pattern_has_its_own_number() -> None:
    ask = Asking()
    ask.there_and_back(0, 50)
    ask.there_and_back(100, 50)
    for i in range(100):
        ask(1000 + i, "B")
    assert sum(e.thing.key == "B" for e in ask.store._kept.values()) == 2
    assert ask.there_and_back(200, 50) == 50


def test_the_bound_in_bytes_holds_for_all() -> None:
    ask = Asking(limit=200)
    for k in range(4):
        ask.there_and_back(1000 * k, 50)
        assert ask.store._nbytes <= 200
    ask.store.shrink(0)
    assert (ask.store._nbytes, ask.kept) == (0, 0)


def test_what_is_remembered_has_a_bound() -> None:
    ask = Asking()
    ask.store._dropped.update((-i, 0) for i in range(1, DROPPED + 1))
    for i in range(10):
        ask(i)
    assert len(ask.store._dropped) == DROPPED
