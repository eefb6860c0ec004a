"""Training on pairs with any objective: a text with an image, or two texts.

A step embeds the anchors and the columns of a batch, each with its side
(:mod:`trueneg.training.sides`), and compares them; the columns are the positives and the hard
negatives.
"""

import contextlib
import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from trueneg.data.pairs.training_split import PairBatch
from trueneg.data.samples import Subset
from trueneg.losses.cross_modal import DIRECTIONS
from trueneg.models.pairs import PairModel
from trueneg.models.towers.tower import Embedded
from trueneg.randomness import seed_for
from trueneg.specs.sections import RunSettings
from trueneg.training.frozen import Frozen
from trueneg.training.guides import build_guide
from trueneg.training.guides.base import GuideBatch, Rated, rate_pairs
from trueneg.training.loop import TrainingRun
from trueneg.training.masked_words import MaskedWords
from trueneg.training.monitors import PairMonitors
from trueneg.training.networks import build_networks
from trueneg.training.pair_criterion import PairCriterion

OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


class SideInputs(NamedTuple):
    """What this process encodes of a batch."""

    anchors: Any
    columns: Any


class PairTraining(TrainingRun):
    """Training on pairs; subclasses say which data, whose settings say which sides
    (:func:`~trueneg.training.sides.sides_of`).

    Attributes:
        SHARES: functions of the data and a batch that return which columns are negatives of a known
            kind, by the name of their share in an epoch's row.
    """

    SAMPLES = "pairs"
    PER_PICK = 1
    SHARES: ClassVar[Mapping[str, Callable[[Any, PairBatch], Tensor]]]
    remedy = "raise training.warmup_updates"
    masked_words: MaskedWords | None = None

    @staticmethod
    @abstractmethod
    def read_data(
        settings: RunSettings, source: Any, subset: Subset, device: torch.device, frozen: Frozen
    ) -> Any:
        """Return the training split, after a check for leakage."""

    @classmethod
    def initial_weights(
        cls, settings: RunSettings, source: Any, subset: Subset, frozen: Frozen
    ) -> dict[str, Tensor]:
        data = cls.read_data(settings, source, subset, torch.device("cpu"), frozen)
        return build_networks(settings, data, frozen).tensors()

    def set_up(self, settings: RunSettings, source: Any, subset: Subset) -> int:
        similarity = settings["similarity"]
        objective = settings["objective"]
        self.data = self.read_data(settings, source, subset, self.device, self.frozen)
        self.networks = build_networks(settings, self.data, self.frozen)
        self.model = self.networks.model.to(self.device)
        self.network = nn.ModuleDict({"model": self.model})
        # drawn last, so all objectives of a seed share the other weights
        if objective.get("mask_share") is not None:
            self.masked_words = MaskedWords(self.networks.anchors, objective, self.processes)
            self.network["masked"] = self.masked_words.head.to(self.device)
        for side in dict.fromkeys(self.networks.sides):
            side.prepare(self.data, self.device)
        self.directions = DIRECTIONS[objective.get("directions", "both")]
        self.guide = build_guide(self.objective_model, objective, self)
        aggregation = similarity.get("aggregation", "global")
        self.criterion = PairCriterion(
            self.objective_model, objective, self.data, aggregation, self.guide
        )
        self.loss = self.criterion.loss.to(self.device)
        self.each_part = similarity.get("combined") == "losses"
        learned = nn.ModuleList([self.network, self.loss])
        self.optimizer = optimizer_of(learned, settings["training"])
        self.monitors = PairMonitors(
            self.data.groups, self.criterion.compares, self.criterion.marks
        )
        return self.data.per_epoch(self.training.get("unit", ""))

    def batches(self, count: int) -> Generator[tuple[PairBatch, SideInputs], None, None]:
        """Yield each whole batch, and this process's share of its inputs."""
        size = self.batch_size
        epoch = self.data.epoch(self.training.get("unit", ""), self.generator("pairs"))
        places = [slice(start, start + size) for start in range(0, count * size, size)]
        batches = [epoch.part(place, self.device) for place in places]
        self.shares = {
            name: share_of_negatives(
                (is_of_kind(self.data, pairs), ~self.data.is_missing(pairs)) for pairs in batches
            )
            for name, is_of_kind in self.SHARES.items()
        }
        if self.update == count:  # killed between the last update and the end of an epoch
            return
        with contextlib.ExitStack() as opened:
            inputs = []
            for side, rows in zip(self.networks.sides, epoch, strict=True):
                of_side = side.batches([rows[place] for place in places], self)
                inputs.append(opened.enter_context(contextlib.closing(of_side)))
            for pairs, *of_sides in zip(batches[self.update :], *inputs, strict=True):
                yield pairs, SideInputs(*of_sides)

    def backward(self, pairs: PairBatch, inputs: SideInputs) -> tuple[Any, ...]:
        # Dropout and resampling can only use torch's global RNG, so each step restores its state.
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            anchors, columns = self._embed(inputs, self.model)
            parts = list(self.model.region_similarity.parts(anchors, columns).values())
            scores = torch.stack(parts).mean(0)
            compared = self.data.compared(pairs)
            rated_by = functools.partial(self._rated_by, inputs, scores)
            rated = self.rated(GuideBatch(compared.samples, compared.texts, rated_by))
            torch.manual_seed(seed_for(self.seed, f"objective/{self.epoch}/{self.update}"))
            if self.criterion.on_embeddings:
                terms = self.criterion.of_embeddings(anchors, columns.pooled, pairs)
            else:
                index, _ = compared.samples
                similarities = parts if self.each_part else [scores]
                scale = self.model.logit_scale()
                scale = scale.where(scale > 0, math.nan)  # underflowed: the training has diverged
                terms = self.criterion.of_similarities(similarities, scale, pairs, index, rated)
            terms.loss.backward()
            masked_loss = torch.zeros((), device=self.device)
            if self.masked_words is not None:
                draws = self.generator(f"masked words/{self.update}")
                masked_loss = self.masked_words.backward(inputs.anchors, self.batch_size, draws)
        return terms, masked_loss, scores.detach().diagonal(), pairs.anchors

    def _embed(self, inputs: SideInputs, model: PairModel) -> tuple[Tensor, Embedded]:
        """Embed this process's share of a batch, and return the embeddings of the whole batch:
        anchors (B, D), and columns.
        """
        self.seed_dropout()
        # This order decides which draws of dropout each side gets.
        if self.networks.columns.modality == "image":
            columns = self.networks.columns.embed(model, inputs.columns)
            anchors = self.networks.anchors.embed(model, inputs.anchors)
        else:
            anchors = self.networks.anchors.embed(model, inputs.anchors)
            columns = self.networks.columns.embed(model, inputs.columns)
        count = len(anchors.pooled)
        pooled = self._whole_columns(columns.pooled, count)
        regions = None if columns.regions is None else self._whole_columns(columns.regions, count)
        return self.processes.whole(anchors.pooled.float()), Embedded(pooled, regions)

    def _whole_columns(self, own: Tensor, count: int) -> Tensor:
        """Return the columns of all processes, given those of this process's anchors, which are
        ordered by anchor.
        """
        by_anchor = self.processes.whole(own.float().unflatten(0, (count, -1)))
        return by_anchor.transpose(0, 1).flatten(0, 1)

    def _rated_by(self, inputs: SideInputs, scores: Tensor, network: Any = None) -> Rated:
        """Return the similarities according to a copy of the network; None: the scores of the
        network being trained.
        """
        if network is None:
            return rate_pairs(scores)
        model = network.get_submodule("model")
        return rate_pairs(model.region_similarity(*self._embed(inputs, model)))

    def measured(self) -> dict[str, float]:
        """Return the logit scale, the shares of known kinds of negatives, and any threshold.

        The shares are measured before any are left out (``own_report``, ``same_text``).
        """
        row = {"logit_scale": self.model.logit_scale().item()}
        row |= {name: share.item() for name, share in self.shares.items()}
        return row if self.guide is None else row | self.guide.measured()

    def weights(self) -> dict[str, Tensor]:
        """Return the tensors, on the CPU, that :func:`trueneg.training.networks.read_networks`
        restores.
        """
        return self.networks.tensors()


def share_of_negatives(batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the mean share of the negatives that are marked.

    Args:
        batches: of each, a (B, K) mask that also marks the B positives on the diagonal, and which
            of the columns are used, (K,) bool.
    """
    # sums instead of a choice of columns, whose number a GPU would have to report
    shares = [
        ((mask & is_used).sum() - len(mask)) / (len(mask) * (is_used.sum() - 1))
        for mask, is_used in batches
    ]
    return torch.stack(shares).mean()


def optimizer_of(network: nn.Module, training: Mapping[str, Any]) -> torch.optim.Optimizer:
    """Return the optimizer of a network's trained parameters."""
    # No weight decay on biases, norms and the logit scale: decay would pull the scale to 1.
    learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
    groups = [
        {
            "params": [parameter for parameter in learned if parameter.ndim > 1],
            "weight_decay": training["weight_decay"],
        },
        {
            "params": [parameter for parameter in learned if parameter.ndim <= 1],
            "weight_decay": 0.0,
        },
    ]
    return OPTIMIZERS[training["optimizer"]](groups, lr=training["learning_rate"], fused=True)
