"""What is seen of a loop while it runs -> facts for the manifest: its models, its optimizers, how much a step is fed."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..machine import model_facts
from .loop import OPTIMIZER, StepRule

if TYPE_CHECKING:
    from torch.nn import Module


@dataclass
class Seen:
    """What has been seen of the loop. Batches and steps are those of the recording that goes on."""

    models: dict[int, dict[str, Any]] = field(default_factory=dict)  # facts of each, by its id
    all_steps: int = 0
    batches: int = 0  # of the step that goes on
    batches_of: Counter[int] = field(default_factory=Counter)  # steps by how many batches they took
    batch_sizes: set[int | None] = field(default_factory=set)
    loader_workers: int | None = None
    with_gradients: bool = False  # a module was called in a way that could learn
    foreign_profiles: int = 0

    @property
    def samples_per_step(self) -> int | None:
        """Where DataLoaders of one batch size feed it, and most steps take as many batches; an evaluation may lie between."""
        size = next(iter(self.batch_sizes)) if len(self.batch_sizes) == 1 else None
        if not size or not self.batches_of:
            return None
        [(batches, steps)] = self.batches_of.most_common(1)
        return size * batches if batches and 2 * steps > self.batches_of.total() else None

    def step_ended(self, fed: bool) -> None:
        """`fed`: whether its batches were seen."""
        self.all_steps += 1
        if fed:
            self.batches_of[self.batches] += 1
        self.batches = 0

    def forget_batches(self) -> None:
        """What comes from now on counts."""
        self.batches = 0
        self.batches_of.clear()
        self.batch_sizes.clear()

    def note_model(self, module: "Module") -> None:
        import torch

        self.with_gradients = self.with_gradients or torch.is_grad_enabled()
        if id(module) not in self.models:
            self.models[id(module)] = {"name": type(module).__name__, **model_facts(module)}

    def note_batch(self, iterator: Any) -> None:
        """`iterator`: of a DataLoader, which has just given a batch."""
        self.batches += 1
        self.batch_sizes.add(getattr(getattr(iterator, "_index_sampler", None), "batch_size", None))
        self.loader_workers = getattr(iterator, "_num_workers", None)

    def facts(self, rule: StepRule, first_recorded: int) -> dict[str, Any]:
        """How the loop was understood, for whoever doubts it. `first_recorded`: steps before the first recorded one."""
        models = list(self.models.values())
        facts: dict[str, Any] = {
            "step_ends_on": f"optimizer {rule.closing}" if rule.ends_on == OPTIMIZER else rule.ends_on,
            "optimizers": ", ".join(f"{one} ({count} steps so far)" for one, count in rule.steps_of.items()) or None,
            "models": ", ".join(dict.fromkeys(model["name"] for model in models)) or None,
            "first_recorded_step": first_recorded,
        }
        if models:
            facts["parameters"] = sum(model["parameters"] for model in models)
            facts["parameter_dtypes"] = ", ".join(sorted({model["parameter_dtypes"] for model in models}))
        return facts
