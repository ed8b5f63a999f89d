"""A running program -> what its loop calls, told to an observer while it happens.

Optimizers are seen through torch's own hooks. For calls of modules, `backward`, DataLoaders, losses and environments torch has
none that leave compiled code, copies and pickles of a model alone; there the functions themselves are wrapped for as long as
it takes, and put back.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

from ..window import is_own
from .live_objects import living
from .loop import BACKWARD as ON_BACKWARD
from .loop import BATCH as ON_BATCH
from .loop import MODULE as ON_MODULE
from .replaced import Replaced, is_traced

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

FORWARD, EVALUATION, LOSS, BACKWARD, OPTIMIZER = "forward", "evaluation", "loss", "backward", "optimizer"
DATA_LOADING, ENVIRONMENT = "data_loading", "environment"
LOSS_ENDINGS = ("Loss", "Criterion")  # names of classes that are losses, beside those of torch
LOSS_FUNCTIONS = ("cross_entropy", "kl_div")  # of torch.nn.functional, beside those that end in `_loss`


class Observer(Protocol):
    """Who is told. `began` comes before the call and outside any other; `ended` after it, whatever it is inside."""

    @property
    def trains(self) -> bool: ...

    def began(self, kind: str, subject: object) -> None: ...

    def ended(self, kind: str, subject: object) -> None: ...

    def marked(self, kind: str) -> AbstractContextManager[object]: ...

    def profiler_began(self) -> None: ...

    def profiler_ended(self) -> None: ...

    def failed(self, failure: Exception) -> None: ...


class Watch:
    """Tells of calls in one thread of this process: the first that steps an optimizer, or until then that calls anything."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.module_classes: set[type] = set()  # of modules that were called while no other was
        self._process = os.getpid()
        self._thread: int | None = None
        self._open: list[tuple[str, Any]] = []  # calls that have begun and not ended, and what marks them
        self._kinds: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()  # of modules that were called
        self._learning: WeakSet[Any] = WeakSet()  # those that were called with gradients; others are evaluated all along
        self._stepping: list[FrameType] = []  # those of `_open` that are an optimizer's: where torch calls it from
        self._foreign_profilers: WeakSet[Any] = WeakSet()
        self._always, self._calls = Replaced(), Replaced()
        self._hooks: list[Any] = []
        self._stepped = 0

    def start(self) -> None:
        """Begin to tell of everything: modules are seen wherever they are called, which costs each call a little."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        self._with_gradients = torch.is_grad_enabled
        self._always.wrap(torch.amp.GradScaler, "step", self._scaled)
        for owner, start, stop in (
            (torch.profiler.profile, "start", "stop"),
            (torch.autograd.profiler.profile, "__enter__", "__exit__"),
        ):
            self._always.wrap(owner, start, self._profiler_began)
            self._always.wrap(owner, stop, self._profiler_ended)
        self._hooks = [
            register_optimizer_step_pre_hook(self._optimizer_began),
            register_optimizer_step_post_hook(self._optimizer_ended),
        ]
        self.learn()

    def learn(self) -> None:
        """Tell of all calls, of modules of any class."""
        import torch

        self._see((torch.nn.Module,), True, True)

    def rest(self, ends_on: str | None) -> None:
        """Tell of what ends steps, and of no more: no profiler runs, and a step should take what it takes."""
        self._see(self.module_classes if ends_on == ON_MODULE else (), ends_on == ON_BACKWARD, ends_on == ON_BATCH)

    def follow(self) -> None:
        """Tell of all that is a phase: a profiler runs. Of modules these are the classes that were called outermost so far."""
        self._see(self.module_classes, True, True)
        for kind in outermost_environments():
            for name in ("step", "reset"):
                self._calls.wrap(kind, name, self._played)
        if not _anything_compiled():  # a compiled program that calls a loss would be compiled again
            from torch.nn import functional

            for name in vars(functional):
                if name in LOSS_FUNCTIONS or (name.endswith("_loss") and not name.startswith("_")):
                    self._calls.wrap(functional, name, self._lost)

    def _see(self, modules: Iterable[type], backward: bool, batches: bool) -> None:
        import torch
        from torch.utils.data import dataloader

        self._calls.undo()
        for kind in modules:
            self._calls.wrap(kind, "__call__", self._called)
        if backward:
            self._calls.wrap(torch.autograd, "backward", self._went_backward)
        if batches:
            self._calls.wrap(dataloader._BaseDataLoaderIter, "__next__", self._fetched)

    def stop(self) -> None:
        """Leave everything as it was."""
        self._calls.undo()
        self._always.undo()
        while self._hooks:
            self._hooks.pop().remove()
        self._leave_open(0)

    # What is called

    def _called(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        module = args[0]
        if not self._tells() or self._is_inside() or not (kind := self._safely(self._kind, module)):
            return original(*args, **kwargs)
        self._thread = threading.get_ident()
        self.module_classes.add(type(module))
        return self._call(kind, module, original, args, kwargs)

    def _went_backward(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._tells() or self._is_inside():
            return original(*args, **kwargs)
        self._thread = threading.get_ident()
        return self._call(BACKWARD, None, original, args, kwargs)

    def _fetched(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._plain(DATA_LOADING, original, args, kwargs)

    def _lost(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._plain(LOSS, original, args, kwargs)

    def _played(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._plain(ENVIRONMENT, original, args, kwargs)

    def _scaled(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """GradScaler.step: it may find an overflow and leave out the optimizer's step, which ends a step all the same."""
        if not self._tells() or self._is_inside():
            return original(*args, **kwargs)
        optimizer, stepped = (args[1] if len(args) > 1 else kwargs["optimizer"]), self._stepped
        if not self._open:
            self._safely(self.observer.began, OPTIMIZER, optimizer)
        with self.observer.marked(OPTIMIZER):
            result = original(*args, **kwargs)
        if self._stepped == stepped:
            self._safely(self.observer.ended, OPTIMIZER, optimizer)
        return result

    def _plain(self, kind: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not self._tells() or self._is_inside():
            return original(*args, **kwargs)
        return self._call(kind, args[0] if args else None, original, args, kwargs)

    def _optimizer_began(self, optimizer: "Optimizer", args: tuple, kwargs: dict) -> None:
        if not self._stepped and not self._open:
            self._thread = threading.get_ident()  # who steps an optimizer runs the loop; until then, who called anything first
        if is_traced() or not self._tells():
            return
        self._leave_failed()
        if not self._open:
            self._safely(self.observer.began, OPTIMIZER, optimizer)
        mark = self.observer.marked(OPTIMIZER)
        self._open.append((OPTIMIZER, mark))
        self._stepping.append(sys._getframe(1))
        mark.__enter__()

    def _optimizer_ended(self, optimizer: "Optimizer", args: tuple, kwargs: dict) -> None:
        if is_traced() or not self._tells():
            return
        places = [place for place, (kind, _) in enumerate(self._open) if kind == OPTIMIZER]
        if places:
            self._leave_open(places[-1])
        self._stepped += 1
        self._safely(self.observer.ended, OPTIMIZER, optimizer)

    def _profiler_began(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._tells() and not is_own(args[0]):
            self._foreign_profilers.add(args[0])
            self._safely(self.observer.profiler_began)
        return original(*args, **kwargs)

    def _profiler_ended(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return original(*args, **kwargs)
        finally:
            if self._tells() and args[0] in self._foreign_profilers:
                self._foreign_profilers.discard(args[0])
                self._safely(self.observer.profiler_ended)

    def _safely(self, action: Callable[..., Any], *args: object) -> Any:
        """What goes wrong on our side ends the watching, and not the program."""
        try:
            return action(*args)
        except Exception as failure:  # noqa: BLE001 - a bug of ours, or a class of the program's that answers in its own way
            self.observer.failed(failure)
            return None

    # Where it is called

    def _tells(self) -> bool:
        """Whether this is the process, not one of its workers, and the thread of the loop."""
        return os.getpid() == self._process and self._thread in (None, threading.get_ident())

    def _is_inside(self) -> bool:
        """Whether another call is going on; an optimizer's closure may hold them all."""
        self._leave_failed()
        return bool(self._open) and self._open[-1][0] != OPTIMIZER

    def _leave_failed(self) -> None:
        """End the marks of optimizers that have raised something: torch calls no hook then."""
        while self._open and self._open[-1][0] == OPTIMIZER and not _runs(self._stepping[-1]):
            self._leave_open(len(self._open) - 1)

    def _call(
        self, kind: str, subject: object, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if not self._open:
            self._safely(self.observer.began, kind, subject)
        place, mark = len(self._open), self.observer.marked(kind)
        self._open.append((kind, mark))
        mark.__enter__()
        try:
            result = original(*args, **kwargs)
        finally:
            self._leave_open(place)
        self._safely(self.observer.ended, kind, subject)
        return result

    def _leave_open(self, place: int) -> None:
        """End the marks of calls from that place on: also of those that raised something."""
        while len(self._open) > place:
            kind, mark = self._open.pop()
            if kind == OPTIMIZER:
                self._stepping.pop()
            mark.__exit__(None, None, None)

    def _kind(self, module: "Module") -> str | None:
        """What calling it is; None of modules without parameters, as metrics and transforms are."""
        kind = self._kinds.get(module, "")
        if kind == "":
            kind = LOSS if _is_loss(type(module)) else FORWARD if next(module.parameters(), None) is not None else None
            self._kinds[module] = kind
        if kind != FORWARD or self._with_gradients():
            self._learning.add(module)
        elif self.observer.trains and not module.training and module in self._learning:
            return EVALUATION
        return kind


def _runs(frame: FrameType) -> bool:
    """Whether a function has not returned yet, in this thread."""
    caller: FrameType | None = sys._getframe(1)
    while caller is not None and caller is not frame:
        caller = caller.f_back
    return caller is frame


def outermost_environments() -> set[type]:
    """Classes of the Gymnasium environments that live now and are inside no other."""
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is None:
        return set()
    found = living((gymnasium.Env, gymnasium.vector.VectorEnv))
    inner = {id(vars(one).get("env")) for one in found}
    return {type(one) for one in found if id(one) not in inner}


def _is_loss(kind: type) -> bool:
    from torch.nn.modules.loss import _Loss

    return issubclass(kind, _Loss) or kind.__name__.endswith(LOSS_ENDINGS)


def _anything_compiled() -> bool:
    if "torch._dynamo" not in sys.modules:
        return False
    from torch._dynamo.utils import counters

    return sum(counters["frames"].values()) > 0
