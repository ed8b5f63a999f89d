"""What a program's loop calls -> bundles: when a step ends, when a recording begins, and what is told about it."""

import os
import sys
import traceback
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from ..assemble import About
from ..budget import Budget
from ..bundle import DETAIL_FOLDER
from ..errors import CaptureError
from ..recorder import Advice, Recorder, now, teller
from ..staging import Staging, discard, is_free, prepared
from ..window import Plan, require_torch
from .live_objects import lives
from .loop import BATCH as ON_BATCH
from .loop import OPTIMIZER as ON_OPTIMIZER
from .loop import StepRule
from .options import Options
from .requests import Requests
from .seen import Seen
from .watch import BACKWARD, DATA_LOADING, EVALUATION, FORWARD, OPTIMIZER, Watch

UNMARKED = nullcontext()
LEARNING, RESTING, FOLLOWING = "learning", "resting", "following"
LEARN_STEPS = 2  # whole ones that are only watched: what is called in them is what is watched later
FOUND = Advice(
    f"{LEARN_STEPS + 2} more are only watched before; --steps, --wait and --warmup ask for fewer.",
    "--steps asks for fewer.",
)
FOREIGN_PROFILER = (
    "The program runs a PyTorch profiler of its own, and two at once empty each other, so longpole left it alone: take it out"
    " to let longpole record, or keep it and pass on_trace_ready=longpole.capture.bundle_handler(FOLDER) to it."
)


class Stop(SystemExit):
    """Ends the program once all is captured, as sys.exit() would: with status 0."""


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
        self.tell = teller(sys.stderr)  # as it is now: the program may put something else in its place
        self._requests = requests
        self._process = os.getpid()
        self._watch = Watch(self)
        self._recorder: Recorder | None = None
        self._folder = options.folder
        self._staging: Staging | None = prepared(options.folder, force=options.force)
        self._detail = False  # what goes on is the second pass
        self._ends: object = None  # what ends the steps, as far as was known at the last one
        self._pending = False  # a step is over; it ends where the next call begins
        self._learned = 0
        self._foreign_profiler = False
        self._watching = False
        self._state = LEARNING
        self._failure: BaseException | None = None  # what ended the program
        self._cut_step = False  # the step that goes on began where a call begins, and ends where another one is over

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that is watched, and none that it has forked."""
        return os.getpid() == self._process

    def start(self) -> None:
        """Begin to watch."""
        self._watching = True
        self._watch.start()
        self._requests.start()

    def leave(self, failure: BaseException | None) -> None:
        """The program is over, or what was watched of it: write what there is, and leave everything as it was."""
        if not self._watching or not self.is_ours:
            return
        self._failure = failure
        if self._recorder is not None:
            if failure is None and self._pending:  # the last step ended with the program
                self.seen.step_ended(True)
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
        if self._failure is not None and not isinstance(self._failure, SystemExit):
            return f"Nothing was recorded: {type(self._failure).__name__} ended the program before a recording began."
        if self.options.step_on == ON_BATCH and not self.seen.all_steps:
            return "Nothing was recorded: no second batch came from a DataLoader, and --step-on batch waits for that."
        if not self.seen.all_steps:
            return (
                "Nothing was recorded: no optimizer stepped, nothing went backward and no module with parameters was called, or"
                " not in this process and thread. --step-on says what ends a step; record() marks a loop by hand."
            )
        if self._requests.more and self._learned > LEARN_STEPS:
            return "Nothing was recorded: the program ended before a recording was asked for."
        return (
            f"Nothing was recorded: the loop ended after {self.seen.all_steps} steps; a recording begins after"
            f" {LEARN_STEPS + 2} that are only watched."
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
            self.seen.note_model(subject)
        elif kind == DATA_LOADING:
            self.rule.got_batch()
            self.seen.note_batch(subject)
            if self._recorder is not None:
                self._recorder.loader_workers = self.seen.loader_workers
        if ends and self._state == RESTING and self.rule.ends_on != ON_BATCH:
            self.end_step()  # nobody tells where the next call begins
        else:
            self._pending = self._pending or ends

    def marked(self, kind: str) -> AbstractContextManager[object]:
        return self._recorder.phase(kind) if self._recorder else UNMARKED

    def profiler_began(self) -> None:
        self._foreign_profiler = True
        self.seen.foreign_profiles += 1
        self._start_over(FOREIGN_PROFILER)

    def profiler_ended(self) -> None:
        self._foreign_profiler = False

    def failed(self, failure: Exception) -> None:
        """Watching went wrong: stop it, keep the traceback for whoever repairs it, and leave the program alone."""
        told = "".join(traceback.format_exception(failure))
        recorder, self._recorder = self._recorder, None
        if recorder is not None and recorder.done:  # it is whole
            recorder.leave(None)
            self.bundles.append(self._folder)
        elif recorder is not None:
            recorder.give_up(CaptureError("Watching the program failed."))
        if recorder is not None:
            self._staging = None
        self.problems.append(f"Watching the program failed, and nothing more is recorded; the program itself goes on.\n{told}")
        self._stop_watching()

    # Steps

    def end_step(self) -> None:
        """A step is over and the next begins."""
        if not self._watching:
            return
        self.seen.step_ended(self._state == FOLLOWING)
        closing = (self.rule.ends_on, self.rule.closing if self.rule.ends_on == ON_OPTIMIZER else None)
        if self._ends != closing:
            self._ends, self._learned = closing, 0
            self.seen.all_steps = self.rule.ended or self.seen.all_steps
            self._start_over("The program began to end its steps with something else.")
        if self._recorder is None:
            self._learn()
        elif self._cut_step:
            self._cut_step = False
            self._recorder.restart_step()
        else:
            self._advance(self._recorder)

    def _advance(self, recorder: Recorder) -> None:
        recorder.step()
        self._attune()
        if recorder.over:
            recorder.leave(None)
            self._conclude(recorder)
            self._go_on()

    def _learn(self) -> None:
        """Watch some steps, then begin when a recording is wanted."""
        self._learned += 1
        if self._learned > LEARN_STEPS:  # the first began before anybody watched for its end
            if not self._foreign_profiler and self._requests.wanted():
                self._begin(self._plan, self._folder)
            self._attune()

    def _begin(self, plan: Plan, folder: Path) -> None:
        """Record from here on."""
        self.rule.fix()
        self.seen.forget_batches()
        alone = int(os.environ.get("WORLD_SIZE", "1")) == 1  # ranks must all record as many steps
        budget = Budget() if alone and (self.options.steps is None or self._detail) else None
        try:
            staging = self._staging or prepared(folder, force=self.options.force)
            self._staging = staging
            self._recorder = Recorder(plan, self._about, staging, budget, self.tell, FOUND)
        except CaptureError as problem:
            self.problems.append(str(problem))
            self._stop_watching()
            return

    def _attune(self) -> None:
        """Watch as closely as it takes now."""
        state = RESTING if self._recorder is None or not self._recorder.profiling else FOLLOWING
        if state == self._state or not self._watching:
            return
        self._state = state
        if state == RESTING:
            self._cut_step = self.rule.ends_on != ON_BATCH
            self._watch.rest(self.rule.ends_on)
        else:
            self._watch.follow()

    def _start_over(self, reason: str) -> None:
        """What goes on is of no use: give it up, and learn anew."""
        self._learned, self._state, self._cut_step = 0, LEARNING, False
        self._watch.learn()
        if self._recorder is None:
            return
        if self._recorder.done:  # it is whole, and only some steps behind it were still to be timed
            self._recorder.leave(None)
            self._conclude(self._recorder)
            self._go_on()
            return
        recorder, self._recorder, self._staging = self._recorder, None, None
        recorder.give_up(CaptureError(reason))

    def _conclude(self, recorder: Recorder) -> None:
        """A recording is over: note what came of it."""
        self._recorder, self._staging = None, None
        self._attune()
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
        if self._staging is not None:
            discard(self._staging)

    # What is told about it

    def _about(self) -> About:
        samples = self.options.samples_per_step or self.seen.samples_per_step
        mode = "training" if self.trains else None if self.seen.with_gradients else "inference"  # else the trace tells
        title = f"{self.options.title}, detail" if self._detail else self.options.title
        recorded = self._recorder.recorded_steps if self._recorder else 0
        command = {"command": self.options.command} if self.options.command else {}
        facts = {**command, "step_on_asked": self.options.step_on, **self.seen.facts(self.rule, self.seen.all_steps - recorded)}
        if self.options.detail and not self._detail:
            facts[DETAIL_FOLDER] = DETAIL_FOLDER
        return About(title, now(), mode, samples, facts)


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
