"""Training on pairs with any objective, shared by image–text and text training."""

import functools
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from trueneg.data.pairs.training_split import PairIndices
from trueneg.losses.cross_modal import DIRECTIONS
from trueneg.models.region_similarity import ImageEmbeddings
from trueneg.randomness import seed_for
from trueneg.training.guides import build_guide
from trueneg.training.guides.base import Batch, Rated, rate_pairs
from trueneg.training.image_text_objectives import ImageTextObjective, data_checksum
from trueneg.training.loop import Settings, TrainingRun
from trueneg.training.monitors import ObjectiveTerms, PairMonitors

OPTIMIZERS = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}


class PairTraining(TrainingRun):
    """Training on pairs with any objective.

    A subclass embeds both sides of a batch with its ``model``, which has ``region_similarity`` and
    ``logit_scale``.
    """

    SAMPLES, PER_PICK = "pairs", 1
    remedy = "raise training.warmup_updates"
    data_checksum = staticmethod(data_checksum)
    model: Any

    def set_up_objective(self, settings: Settings, network: nn.Module) -> None:
        """Set everything that follows from ``data`` and the networks: guide, objective, optimizer
        and monitors.
        """
        similarity, objective = settings["similarity"], settings["objective"]
        self.network = network
        self.directions = DIRECTIONS[objective.get("directions", "both")]
        self.guide = build_guide(self.objective_model, objective, self)
        aggregation = similarity.get("aggregation", "global")
        self.objective = ImageTextObjective(
            self.objective_model, objective, self.data, aggregation, self.guide
        )
        self.loss = self.objective.loss.to(self.device)
        self.each_part = similarity.get("combined") == "losses"
        self.optimizer = optimizer_of(
            nn.ModuleList([self.network, self.loss]), settings["training"]
        )
        self.monitors = PairMonitors(
            self.data.groups, self.objective.compares, self.objective.marks
        )

    @abstractmethod
    def _embed(self, inputs: Any, model: Any) -> tuple[Tensor, ImageEmbeddings]:
        """Embed this process's share of a batch, and return the embeddings of the whole batch:
        texts (B, D), and images.
        """

    def backward(self, pairs: PairIndices, inputs: Any) -> tuple[Any, ...]:
        # Dropout and resampling can only use torch's global RNG, so each step restores its state.
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            texts, images = self._embed(inputs, self.model)
            parts = list(self.model.region_similarity.parts(texts, images).values())
            scores = torch.stack(parts).mean(0)
            rated = self.rated(
                Batch(pairs._asdict(), functools.partial(self._rated_by, inputs, scores))
            )
            torch.manual_seed(seed_for(self.seed, f"objective/{self.epoch}/{self.update}"))
            if self.objective.on_embeddings:
                terms = self.objective.of_embeddings(texts, images.pooled, pairs)
            else:
                terms = self._mean_terms(parts if self.each_part else [scores], pairs, rated)
            terms.loss.backward()
            masked = self._backward_masked_words(inputs)
        return terms, masked, scores.detach().diagonal(), pairs.sentences

    def _rated_by(self, inputs: Any, scores: Tensor, network: Any = None) -> Rated:
        """Return the similarities according to a copy of the network; None: the scores of the
        network being trained.
        """
        if network is None:
            return rate_pairs(scores)
        model = network.get_submodule("model")
        return rate_pairs(model.region_similarity(*self._embed(inputs, model)))

    def _mean_terms(
        self, similarities: Sequence[Tensor], pairs: PairIndices, rated: Rated
    ) -> ObjectiveTerms:
        """Return the mean of the objective's terms over several similarities of the same pairs."""
        scale = self.model.logit_scale()
        several = [
            self.objective.of_similarities(similarity, scale, pairs, rated)
            for similarity in similarities
        ]
        return ObjectiveTerms(
            *(torch.stack(values).mean(0) for values in zip(*several, strict=True))
        )

    def _backward_masked_words(self, inputs: Any) -> Tensor:
        """Add the gradients of a masked-word loss, if there is one, and return its contribution to
        the total loss.
        """
        return torch.zeros((), device=self.device)


def share_of_negatives(masks: Iterable[Tensor]) -> Tensor:
    """Return the mean share of the negatives that (B, B + H) masks mark, which also mark the B
    positives on the diagonal.
    """
    return torch.stack(
        [(mask.sum() - len(mask)) / (mask.numel() - len(mask)) for mask in masks]
    ).mean()


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
