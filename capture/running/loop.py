"""What a program calls, one call after the other -> where its steps end, and whether it trains.

A step ends after the optimizer's step that closes it. Of several optimizers that is the one that steps least often, of
those that step equally often the one that came last; one that steps much less often than the others closes nothing. A program
that goes backward without any optimizer ends its steps with that; one that does neither is inference, and each call of its
outermost module is a step.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Literal

StepOn = Literal["auto", "module", "optimizer", "batch"]
STEP_ON: tuple[StepOn, ...] = ("auto", "module", "optimizer", "batch")
RARE = 16  # an optimizer that steps less often than every so many times does not close the steps of the others
ASK_AGAIN = 10  # times as many calls of modules as when it was last asked whether there is an optimizer
BACKWARDS = 3  # without any optimizer: until then one may still be made

OPTIMIZER, BACKWARD, MODULE, BATCH = "optimizer", "backward", "module", "batch"


@dataclass
class StepRule:
    """Told of every call that could end a step; each method says whether it ends one.

    `has_optimizer`: whether the program has made one; asked rarely, for it takes a while to find out.
    """

    step_on: StepOn = "auto"
    has_optimizer: Callable[[], bool] = lambda: False
    steps_of: dict[Hashable, int] = field(
        default_factory=dict
    )  # how often each optimizer has stepped, in the order of their first
    backwards: int = 0
    forwards: int = 0
    batches: int = 0  # delivered since the last step ended
    worked: bool = False  # something was learned since then
    alone: bool = False  # there is no optimizer
    fixed: Hashable | None = None  # the closing optimizer, once it has been decided on
    asked_at: int = 0  # forwards when has_optimizer was asked last
    decided: bool = False  # it is not asked any more: a recording goes on

    @property
    def closing(self) -> Hashable | None:
        """The optimizer whose step closes the program's steps."""
        if self.fixed is not None or not self.steps_of:
            return self.fixed
        most = max(self.steps_of.values())
        usual = {one: count for one, count in self.steps_of.items() if count * RARE >= most}
        fewest = min(usual.values())
        return [one for one, count in usual.items() if count == fewest][-1]

    @property
    def ends_on(self) -> str | None:
        """What ends the steps, as far as is known: OPTIMIZER, BACKWARD, MODULE or BATCH."""
        if self.step_on != "auto":
            return self.step_on
        if self.steps_of:
            return OPTIMIZER
        if self.backwards:
            return BACKWARD if self.alone else None
        return MODULE if self.alone else None

    @property
    def ended(self) -> int | None:
        """Steps that ended so far, by what ends them as far as that is known now; None where only whoever is told can count."""
        on = {OPTIMIZER: self.steps_of.get(self.closing), BACKWARD: self.backwards, MODULE: self.forwards}
        return on.get(self.ends_on or "")

    @property
    def trains(self) -> bool:
        """Whether it has learned anything so far."""
        return bool(self.steps_of or self.backwards)

    def fix(self) -> None:
        """Decide on what closes steps now; an optimizer that has not been seen opens the question again."""
        self.fixed, self.decided = self.closing, True

    def optimizer_stepped(self, optimizer: Hashable) -> bool:
        if optimizer not in self.steps_of:
            self.fixed, self.decided = None, False
        self.worked = True
        self.steps_of[optimizer] = self.steps_of.get(optimizer, 0) + 1
        return self.ends_on == OPTIMIZER and optimizer == self.closing

    def went_backward(self) -> bool:
        self.worked = True
        self.backwards += 1
        if self.backwards == 1:
            self.alone = False  # an optimizer may have been made since
        if self.step_on == "auto" and not self.steps_of and self.backwards == BACKWARDS:
            self.alone = not self.has_optimizer()
        return self.ends_on == BACKWARD

    def called_module(self) -> bool:
        self.forwards += 1
        if self.step_on == "auto" and not self.trains and not self.decided and self.forwards >= ASK_AGAIN * self.asked_at:
            self.asked_at = self.forwards
            self.alone = not self.has_optimizer()
        return self.ends_on == MODULE

    def asked_for_batch(self) -> bool:
        """Before the batch comes."""
        ends = self.ends_on == BATCH and self.batches > 0 and (self.worked or not self.trains)  # else it evaluates
        if ends:
            self.batches, self.worked = 0, False
        return ends

    def got_batch(self) -> None:
        self.batches += 1
