"""Functions and methods that are replaced for a while."""

import types

import pytest

from longpole.capture.running.replaced import Replaced

pytest.importorskip("torch", reason="torch is needed to ask whether it compiles")


class Base:
    def __call__(self, number: int) -> int:
        """Adds one."""
        return number + 1


class Derived(Base):
    pass


class Overriding(Base):
    def __call__(self, number: int) -> int:
        return number + 10


def doubled(original, args, kwargs):
    return 2 * original(*args, **kwargs)


def test_a_method_is_replaced_for_all_instances_and_put_back():
    one, replaced = Base(), Replaced()
    replaced.wrap(Base, "__call__", doubled)
    assert (one(1), Derived()(1), Overriding()(1)) == (4, 4, 11)
    assert Base.__call__.__doc__ == "Adds one."
    replaced.undo()
    assert (one(1), Derived()(1)) == (2, 2)


def test_what_a_class_inherits_is_not_its_own_afterwards():
    replaced = Replaced()
    replaced.wrap(Derived, "__call__", doubled)
    assert (Derived()(1), Base()(1)) == (4, 2)
    replaced.undo()
    assert "__call__" not in vars(Derived)


def test_what_was_replaced_twice_comes_back_in_the_right_order():
    replaced, before = Replaced(), vars(Base)["__call__"]
    replaced.wrap(Base, "__call__", doubled)
    replaced.wrap(Base, "__call__", doubled)
    assert Base()(1) == 8
    replaced.undo()
    assert vars(Base)["__call__"] is before


def test_what_somebody_else_replaced_meanwhile_stays_theirs():
    module = types.ModuleType("theirs")
    module.work = lambda: 1
    replaced = Replaced()
    replaced.wrap(module, "work", doubled)
    ours = module.work
    module.work = lambda: ours() + 100
    replaced.undo()
    assert module.work() == 102


def test_an_exception_passes_unchanged():
    def failing(original, args, kwargs):
        return original(*args, **kwargs)

    replaced = Replaced()
    replaced.wrap(Base, "__call__", failing)
    try:
        with pytest.raises(TypeError):
            Base()("text")
    finally:
        replaced.undo()
