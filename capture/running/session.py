"""What a program's loop calls -> bundles: when a step ends, when a recording begins, and what is told about it."""

import os
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..assemble import About
from ..budget import Budget
from ..bundle import DETAIL_FOLDER
from ..errors import CaptureError
from ..machine import model_facts
from ..recorder import Recorder, now
from ..staging import Staging, discard, is_free, prepared
from ..window import Plan, require_torch
from .live_objects import lives
from .loop import OPTIMIZER as ON_OPTIMIZER
from .loop import StepOn, StepRule
from .requests import Requests
from .termination import Terminated, Termination
from .watch import BACKWARD, DATA_LOADING, EVALUATION, FORWARD, OPTIMIZER, Watch

if TYPE_CHECKING:
    from torch.nn import Module

LEARN_STEPS = 2  # whole ones that are only watched: what is called in them is what is watched later
DETAIL_STEPS = 5
FOREIGN_PROFILER = (
    "The program runs a PyTorch profiler of its own, and two at once empty each other, so longpole left it alone: take it out"
    " to let longpole record, or keep it and pass on_trace_ready=longpole.capture.bundle_handler(FOLDER) to it."
)


class Stop(SystemExit):
    """Ends the program once all is captured, as sys.exit() would: with status 0."""


@dataclass(frozen=True)
class Options:
    """What `longpole run` was asked for. `steps`: None for as many as the budget holds, at most `usual_steps`."""

    folder: Path
    title: str
    steps: int | None = None
    wait: int = 5
    warmup: int = 3
    after: int = 5
    usual_steps: int = 20
    shapes: bool = False
    stacks: bool = False
    memory: bool = False
    detail: bool = False
    step_on: StepOn = "auto"
    stop_after: bool = False
    samples_per_step: int | None = None
    force: bool = False

    @property
    def plan(self) -> Plan:
        """Of the first pass; CaptureError when it cannot be recorded."""
        steps = self.steps or self.usual_steps
        return Plan(steps, self.wait, self.warmup, self.shapes, self.stacks, self.memory, self.after)

    @property
    def detail_plan(self) -> Plan:
        """Of the second pass: everything that slows steps down, for a few of them."""
        return Plan(min(DETAIL_STEPS, self.plan.steps), 1, self.warmup, shapes=True, stacks=True, memory=True)


@dataclass
class Seen:
    """What has been seen of the loop. Batches and steps are those of the recording that goes on."""

    models: dict[int, dict[str, Any]] = field(default_factory=dict)  # facts of each, by its id
    all_steps: int = 0
    batches: int = 0  # of the step that goes on
    batches_of: Counter[int] = field(default_factory=Counter)  # steps by how many batches they took
    batch_sizes: set[int | None] = field(default_factory=set)
    loader_workers: int | None = None
    foreign_profiles: int = 0

    @property
    def samples_per_step(self) -> int | None:
        """Where DataLoaders of one batch size feed it, and most steps take as many batches; an evaluation may lie between."""
        size = next(iter(self.batch_sizes)) if len(self.batch_sizes) == 1 else None
        if not size or not self.batches_of:
            return None
        [(batches, steps)] = self.batches_of.most_common(1)
        return size * batches if batches and 2 * steps > self.batches_of.total() else None

    def step_ended(self) -> None:
        self.all_steps += 1
        self.batches_of[self.batches] += 1
        self.batches = 0

    def forget_batches(self) -> None:
        """What comes from now on counts."""
        self.batches = 0
        self.batches_of.clear()
        self.batch_sizes.clear()


class Session:
    """The observer of a Watch. None of its methods raises anything of ours into the program, but Stop where that is asked for."""

    def __init__(self, options: Options, requests: Requests) -> None:
        """CaptureError when nothing can be recorded into that folder, or not like that."""
        require_torch()
        self._plan = options.plan
        self.options = options
        self.bundles: list[Path] = []
        self.problems: list[str] = []
        self.rule = StepRule(options.step_on, _has_optimizer)
        self.seen = Seen()
        self._requests = requests
        self._watch = Watch(self)
        self._termination = Termination(lambda: self.leave(Terminated()))
        self._recorder: Recorder | None = None
        self._folder = options.folder
        self._staging: Staging | None = prepared(options.folder, force=options.force)
        self._detail = False  # what goes on is the second pass
        self._ends: object = None  # what ends the steps, as far as was known at the last one
        self._pending = False  # a step is over; it ends where the next call begins
        self._learned = 0
        self._foreign_profiler = False
        self._watching = False
        self._marking = False

    def start(self) -> None:
        """Begin to watch."""
        self._watching = True
        self._watch.start()
        self._requests.start()

    def leave(self, failure: BaseException | None) -> None:
        """The program is over, or what was watched of it: write what there is, and leave everything as it was."""
        if not self._watching:
            return
        if self._recorder is not None:
            if failure is None and self._pending:  # the last step ended with the program
                self.seen.step_ended()
                self._recorder.step()
            self._recorder.leave(None if isinstance(failure, SystemExit) else failure)
            self._conclude(self._recorder)
        self._stop_watching()

    def outcome(self) -> list[str]:
        """Sentences on what went wrong, and why there is no bundle if there is none."""
        if self.bundles or self.problems:
            return self.problems
        return [self._nothing_because()]

    def _nothing_because(self) -> str:
        if self.seen.foreign_profiles:
            return FOREIGN_PROFILER
        if not self.seen.all_steps:
            return (
                "Nothing was recorded: no optimizer stepped, nothing went backward and no module with parameters was called, or"
                " not in this process and thread. --step-on says what ends a step; record() marks a loop by hand."
            )
        if self._requests.more and self._learned > LEARN_STEPS:
            return "Nothing was recorded: the program ended before a recording was asked for."
        return (
            f"Nothing was recorded: the loop ended after {self.seen.all_steps} steps; a recording begins after"
            f" {LEARN_STEPS + 1} that are watched."
        )

    # What Watch tells

    @property
    def trains(self) -> bool:
        return self.rule.trains

    def began(self, kind: str, subject: object) -> None:
        if kind == DATA_LOADING:
            self._pending = self.rule.asked_for_batch() or self._pending
        if self._pending:
            self._pending = False
            self.end_step()

    def ended(self, kind: str, subject: Any) -> None:
        ends = False
        if kind == OPTIMIZER:
            ends = self.rule.optimizer_stepped(Known(subject))
        elif kind == BACKWARD:
            ends = self.rule.went_backward()
        elif kind in (FORWARD, EVALUATION):
            ends = self.rule.called_module()
            self._note_model(subject)
        elif kind == DATA_LOADING:
            self.rule.got_batch()
            self._note_batch(subject)
        self._pending = self._pending or ends

    def marked(self, kind: str) -> AbstractContextManager[object]:
        return self._recorder.phase(kind) if self._recorder else nullcontext()

    def profiler_began(self) -> None:
        self._foreign_profiler = True
        self.seen.foreign_profiles += 1
        self._start_over(FOREIGN_PROFILER)

    def profiler_ended(self) -> None:
        self._foreign_profiler = False

    # Steps

    def end_step(self) -> None:
        """A step is over and the next begins."""
        if not self._watching:
            return
        self.seen.step_ended()
        closing = (self.rule.ends_on, self.rule.closing if self.rule.ends_on == ON_OPTIMIZER else None)
        if self._ends != closing:
            self._ends, self._learned = closing, 0
            self.seen.all_steps = self.rule.ended or self.seen.all_steps
            self._start_over("The program began to end its steps with something else.")
        if self._recorder is None:
            self._learn()
            return
        self._recorder.step()
        self._mark()
        if self._recorder.over:
            self._recorder.leave(None)
            self._conclude(self._recorder)
            self._go_on()

    def _learn(self) -> None:
        """Watch some steps, then begin when a recording is wanted."""
        self._learned += 1
        if self._learned == LEARN_STEPS + 1:  # the first began before anybody watched for its end
            self._watch.narrow()
        if self._learned > LEARN_STEPS and not self._foreign_profiler and self._requests.wanted():
            self._begin(self._plan, self._folder)

    def _begin(self, plan: Plan, folder: Path) -> None:
        """Record from here on."""
        self.rule.fix()
        self.seen.forget_batches()
        alone = int(os.environ.get("WORLD_SIZE", "1")) == 1  # ranks must all record as many steps
        budget = Budget() if alone and (self.options.steps is None or self._detail) else None
        try:
            staging = self._staging or prepared(folder, force=self.options.force)
            self._staging = staging
            self._recorder = Recorder(plan, self._about, staging, budget)
        except CaptureError as problem:
            self.problems.append(str(problem))
            self._stop_watching()
            return
        self._termination.arm()

    def _mark(self) -> None:
        """Losses and environments are told of while a profiler runs, and only then."""
        profiling = self._recorder is not None and self._recorder.profiling
        if profiling and not self._marking:
            self._watch.mark_losses_and_environments()
        elif self._marking and not profiling:
            self._watch.unmark_losses_and_environments()
        self._marking = profiling

    def _start_over(self, reason: str) -> None:
        """What goes on is of no use: give it up, and learn anew."""
        self._learned = 0
        if self._recorder is None:
            return
        recorder, self._recorder = self._recorder, None
        recorder.give_up(CaptureError(reason))
        self._mark()
        self._termination.disarm()
        self._watch.widen()

    def _conclude(self, recorder: Recorder) -> None:
        """A recording is over: note what came of it."""
        self._recorder, self._staging = None, None
        self._mark()
        self._termination.disarm()
        if recorder.failure is None:
            self.bundles.append(self._folder / DETAIL_FOLDER if self._detail else self._folder)
        else:
            self.problems.append(str(recorder.failure))

    def _go_on(self) -> None:
        """To the second pass, to the next recording, or to nothing."""
        failed = bool(self.problems)
        if self.options.detail and not self._detail and not failed:
            self._detail = True
            self._begin(self.options.detail_plan, self._folder / DETAIL_FOLDER)
            return
        self._detail = False
        self._requests.served()
        if self._requests.more and not failed:
            self._folder = next_folder(self.options.folder)
            return
        self._stop_watching()
        if self.options.stop_after:
            raise Stop(0)

    def _stop_watching(self) -> None:
        self._watching = False
        self._watch.stop()
        self._requests.stop()
        self._termination.disarm()
        if self._staging is not None:
            discard(self._staging)

    # What is told about it

    def _note_model(self, module: "Module") -> None:
        if id(module) not in self.seen.models:
            self.seen.models[id(module)] = {"name": type(module).__name__, **model_facts(module)}

    def _note_batch(self, iterator: Any) -> None:
        self.seen.batches += 1
        self.seen.batch_sizes.add(getattr(getattr(iterator, "_index_sampler", None), "batch_size", None))
        self.seen.loader_workers = getattr(iterator, "_num_workers", None)
        if self._recorder is not None:
            self._recorder.loader_workers = self.seen.loader_workers

    def _about(self) -> About:
        samples = self.options.samples_per_step or self.seen.samples_per_step
        mode = "training" if self.trains else "inference"
        title = f"{self.options.title}, detail" if self._detail else self.options.title
        return About(title, now(), mode, samples, self._facts())

    def _facts(self) -> dict[str, Any]:
        """How the loop was understood, for whoever doubts it."""
        models = list(self.seen.models.values())
        facts: dict[str, Any] = {
            "step_ends_on": self.rule.ends_on,
            "step_on_asked": self.options.step_on,
            "optimizers": ", ".join(f"{one} ({count} steps)" for one, count in self.rule.steps_of.items()) or None,
            "models": ", ".join(dict.fromkeys(model["name"] for model in models)) or None,
            "first_recorded_step": self.seen.all_steps - (self._recorder.recorded_steps if self._recorder else 0),
        }
        if models:
            facts["parameters"] = sum(model["parameters"] for model in models)
            facts["parameter_dtypes"] = ", ".join(sorted({model["parameter_dtypes"] for model in models}))
        if self.rule.closing is not None:
            facts["step_ends_on"] = f"optimizer {self.rule.closing}"
        if self.options.detail and not self._detail:
            facts[DETAIL_FOLDER] = DETAIL_FOLDER
        return facts


class Known:
    """An object that is compared by being the same one, and goes by the name of its class."""

    def __init__(self, subject: object) -> None:
        self.subject = subject

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and other.subject is self.subject

    def __hash__(self) -> int:
        return id(self.subject)

    def __str__(self) -> str:
        return type(self.subject).__name__


def _has_optimizer() -> bool:
    from torch.optim import Optimizer

    return lives((Optimizer,))


def next_folder(folder: Path) -> Path:
    """The first of FOLDER-2, FOLDER-3, … that holds nothing, or only what other ranks of this launch write."""
    number = 2
    while not is_free(folder.with_name(f"{folder.name}-{number}")):
        number += 1
    return folder.with_name(f"{folder.name}-{number}")
