"""Print losses and gradients of one batch on several processes, which are forked after torch is
imported.

Run as ``python -m tests.losses.distributed_losses PROCESSES BACKEND``; every process has its share
of the batch.
"""

import contextlib
import itertools
import json
import os
import sys
import tempfile
import traceback

import torch
from torch import distributed

from trueneg.losses import (
    AdjustedInfoNCE,
    Bayesian,
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    GlobalMass,
    Guided,
    HardNegative,
    LearnedThresholds,
    Oracle,
    Quantile,
    RelaxedContrastiveLoss,
    Removed,
)
from trueneg.losses.adapters import RankingLoss
from trueneg.losses.targets import Attracted, HalfUniform

COUNT = 8
ESTIMATORS = {
    "dcl": Debiased(),
    "hcl": HardNegative(1.0),
    "bcl": Bayesian(0.8, 1.0),
    "adnce": AdjustedInfoNCE(0.4, 0.3),
    "oracle": Oracle(),
    "remove": Removed(0.5),
}
WHICH = {"guided": Guided(0.1), "quantile": Quantile(0.3), "top k": Removed(0.3, top_k=2)}


def whole_batch():
    generator = torch.Generator().manual_seed(0)
    first, second, extra = torch.randn(3, COUNT, 5, generator=generator, dtype=torch.float64)
    alike = torch.rand(COUNT, COUNT, generator=generator, dtype=torch.float64)
    return {
        "first": first,
        "second": first + second,
        "extra_positives": extra[:, None],
        "class_probability": 0.4 * torch.rand(COUNT, generator=generator, dtype=torch.float64),
        "labels": torch.arange(COUNT) % 3,
        "negative_similarity": (alike + alike.T) / 2,
    }


def losses(share, device):
    """Yield each loss of this process's anchors, with its gradients for this process's embeddings
    and η.
    """
    batch = {key: value[share].to(device) for key, value in whole_batch().items()}
    first, second = batch.pop("first").requires_grad_(), batch.pop("second").requires_grad_()
    eta = batch["class_probability"].requires_grad_()
    scale = torch.tensor(4.0, dtype=torch.float64, device=device, requires_grad=True)
    several = distributed.is_initialized()
    inputs = [first, second, eta, scale]
    for name, estimator in ESTIMATORS.items():
        for chunk_size in (None, 3):
            options = {"chunk_size": chunk_size, "gather_distributed": several}
            known = {**batch, "unused": "ignore"}
            two_view = ContrastiveLoss(estimator, 0.4, **options)(first, second, **known)
            paired = {key: value for key, value in known.items() if key != "extra_positives"}
            cross_modal = CrossModalLoss(estimator, "both", **options)
            unit = [torch.nn.functional.normalize(each, dim=-1) for each in (first, second)]
            of_features = cross_modal.of_features(*unit, scale, **paired).loss
            for kind, value in (("two views", two_view), ("two modalities", of_features)):
                yield f"{name}, {kind}, {chunk_size}", value, gradients(value, inputs)
    yield from of_which_negatives(share, first, second, scale, several, inputs)
    for chunk_size in (None, 3):
        options = {"chunk_size": chunk_size, "gather_distributed": several}
        for relaxed, margin in ((True, 0.0), (False, 0.0), (True, -0.4), (True, 0.3)):
            reco = RelaxedContrastiveLoss(0.6, relaxed, margin=margin, **options)(first, second)
            yield f"ReCo, relaxed: {relaxed}, {margin}, {chunk_size}", reco, gradients(reco, inputs)


def of_which_negatives(share, first, second, scale, several, inputs):
    """Yield losses with a guide, soft targets, excluded columns and one hard negative per text."""
    draws = torch.Generator().manual_seed(1)
    alike, soft = torch.rand(2, COUNT, 2 * COUNT, generator=draws, dtype=torch.float64)
    symmetric = (alike[:, :COUNT] + alike[:, :COUNT].T) / 2
    exclude = torch.rand(COUNT, COUNT, generator=draws) < 0.2
    exclude = torch.cat(
        (exclude | exclude.T, torch.rand(COUNT, COUNT, generator=draws) < 0.2), dim=1
    )
    wide, square = (
        soft / soft.sum(1, keepdim=True),
        soft[:, :COUNT] / soft[:, :COUNT].sum(1, keepdim=True),
    )
    positive, further = torch.rand(2, COUNT, 5, generator=draws, dtype=torch.float64)
    own, device = {"positive_similarity": positive[share, 0].to(first.device)}, first.device
    unit = [
        torch.nn.functional.normalize(each, dim=-1)
        for each in (first, torch.cat((second, further[share].to(device))))
    ]
    rules = [None, HalfUniform(), Attracted(0.6, top_k=2)]
    for number, (name, estimator) in enumerate(WHICH.items()):
        for chunk_size in (None, 3):
            options = {
                "chunk_size": chunk_size,
                "gather_distributed": several,
                "decoupled": bool(number % 2),
            }
            known = {**own, "negative_similarity": symmetric[share].to(device)}
            known["unused"] = "ignore"
            for given in ({"targets": square[share].to(device)}, {}):
                loss = ContrastiveLoss(estimator, 0.4, **options, target_rule=rules[number])
                value = loss(first, second, **known, **given)
                yield (
                    f"{name}, two views, {chunk_size}, {len(given)} targets",
                    value,
                    gradients(value, inputs),
                )
            known["negative_similarity"] = torch.cat((symmetric, alike[:, COUNT:]), dim=1)[
                share
            ].to(device)
            known |= {
                "exclude": exclude[share].to(device),
                "targets": (wide[share].to(device), square[share].to(device)),
            }
            value = (
                CrossModalLoss(estimator, "both", **options).of_features(*unit, scale, **known).loss
            )
            yield f"{name}, two modalities, {chunk_size}", value, gradients(value, inputs)
    yield from of_asymmetric(share, first, second, scale, several, inputs)
    for chunk_size in (None, 3):  # the classes of pairs, then of hard negatives
        loss = CrossModalLoss(Oracle(), "both", chunk_size=chunk_size, gather_distributed=several)
        labels = torch.cat((torch.arange(COUNT)[share] % 3, torch.arange(COUNT)[share] % 2)).to(
            device
        )
        value = loss.of_features(*unit, scale, labels=labels).loss
        yield f"oracle with hard negatives, {chunk_size}", value, gradients(value, inputs)
    yield from of_texts(share, first, second, further[share].to(device), several, inputs)
    yield from of_remembered(share, first, second, scale, several, inputs)


class Embedded(torch.nn.Module):
    """A model that returns the embedding stored in the features under a name."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, features):
        return {"sentence_embedding": features[self.name]}


def of_texts(share, first, second, further, several, inputs):
    """Anchors, positives and hard negatives with a guide; some texts are equal across processes,
    whose widths differ.
    """
    draws = torch.Generator().manual_seed(3)
    guides = torch.randn(3, COUNT, 5, generator=draws, dtype=torch.float64)
    lengths = torch.tensor([1, 2, 1, 2, 1, 3, 1, 4])
    features = []
    for column, embedding in enumerate((first, second, further)):
        mask = (torch.arange(4) < lengths[:, None])[share]
        ids = (torch.arange(COUNT)[:, None] + column).remainder(4).expand(-1, 4)[share]
        width = int(mask.sum(1).max())
        tokens = {
            "input_ids": ids[:, :width],
            "attention_mask": mask[:, :width],
            "guide": guides[column][share],
        }
        features.append(
            {name: each.to(embedding.device) for name, each in tokens.items()}
            | {"model": embedding}
        )
    labels = torch.cat((torch.arange(COUNT)[share] % 3, torch.arange(COUNT)[share] % 2)).to(
        first.device
    )
    estimators = (
        (Debiased(0.1), None),
        (Guided(0.1), None),
        (Guided(0.1), Embedded("guide")),
        (Oracle(), None),
    )
    group = (torch.arange(COUNT) // 3)[share].to(first.device)
    for (estimator, guide), contrast, size in itertools.product(
        estimators, ("documents", "joint", "symmetric"), (None, 3)
    ):
        options = {
            "unused": "ignore",
            "contrast": contrast,
            "mini_batch_size": size,
            "chunk_size": size,
            "gather_distributed": several,
        }
        for known in ({}, {"group": group}):
            loss = RankingLoss(Embedded("model"), estimator, 3.0, guide, **options)
            value = loss(features, labels, **known)
            name = f"texts, {estimator.name}, guide: {guide is not None}, {contrast}, {size}"
            yield f"{name}, {len(known)} facts", value, gradients(value, inputs)
    for negatives, size in itertools.product(("hard", "in_batch"), (None, 3)):
        options = {"negatives": negatives, "chunk_size": size, "gather_distributed": several}
        value = RankingLoss(Embedded("model"), Debiased(0.1), 3.0, **options)(features)
        yield f"texts, {negatives}, {size}", value, gradients(value, inputs)
    for size in (None, 3):
        yield f"wrapped network, {size}", *of_wrapped(features, size, several, inputs)


def of_wrapped(features, size, several, inputs):
    """Accumulate the gradients of two batches in a network, which DistributedDataParallel averages
    over the processes.

    Its projection is returned in place of the gradient for the scale.
    """
    torch.manual_seed(4)
    layers = torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3)
    network = torch.nn.Sequential(*layers).to(inputs[0].device, torch.float64)
    parameters = list(network.parameters())
    network = torch.nn.parallel.DistributedDataParallel(network) if several else network
    loss = RankingLoss(
        lambda column: {"sentence_embedding": network(column["model"])},
        Guided(0.1),
        3.0,
        gather_distributed=several,
        contrast="joint",
        mini_batch_size=size,
    )
    batches = [
        [{name: each.detach() for name, each in column.items()} for column in features]
        for _ in range(2)
    ]
    for column in batches[1]:
        column["model"] = column["model"].flip(1)
    with network.no_sync() if several else contextlib.nullcontext():
        first = loss(batches[0])
        first.backward()
    second = loss(batches[1])
    second.backward()
    gradient = torch.cat([parameter.grad.flatten() for parameter in parameters])
    return first + second, [
        *(torch.zeros_like(each) for each in inputs[:3]),
        gradient @ torch.randn(len(gradient)).to(gradient),
    ]


# of ten samples; one is drawn twice in each half of the batch, and one once in both
DRAWN = torch.tensor([0, 3, 1, 3, 2, 5, 5, 0])


def of_remembered(share, first, second, scale, several, inputs):
    """Methods that remember samples, by index.

    The state after three updates is returned in place of the gradient for the scale; all processes
    have the same.
    """
    makers = {
        "averages": lambda directions: GlobalMass(10, 0.3),
        "thresholds": lambda directions: LearnedThresholds(
            10, 0.2, learning_rate=0.3, directions=directions
        ),
    }
    for (name, make), chunk_size in itertools.product(makers.items(), (None, 3)):
        options = {"chunk_size": chunk_size, "gather_distributed": several}
        views = ContrastiveLoss(make(1), 0.4, **options)
        pairs = CrossModalLoss(make(2), "both", **options)
        of_kinds = {"two views": views, "two modalities": pairs}
        for kind, loss in of_kinds.items():
            loss = loss.to(first.device, torch.float64)
            for update in range(3):
                index = ((DRAWN + update) % 10)[share].to(first.device)
                turned = first.roll(update, dims=1)  # other embeddings
                if kind == "two views":
                    value = loss(turned, second, index=index)
                    continue
                unit = [torch.nn.functional.normalize(each, dim=-1) for each in (turned, second)]
                terms = loss.of_features(*unit, scale, index=index)
                value = terms.loss
            state = torch.cat([each.flatten() for each in loss.state_dict().values()])
            state = state.nan_to_num(neginf=-99.0)
            if several:
                everyone = [torch.empty_like(state) for _ in range(distributed.get_world_size())]
                distributed.all_gather(everyone, state)
                assert all(torch.equal(each, state) for each in everyone)
            gradient = gradients(value, inputs)
            yield f"{name}, {kind}, {chunk_size}", value, [*gradient[:3], state]


def of_asymmetric(share, first, second, scale, several, inputs):
    """With several processes, columns excluded for text i are also excluded for image i, without a
    transpose.
    """
    exclude = torch.rand(COUNT, COUNT, generator=torch.Generator().manual_seed(2)) < 0.3
    unit = [torch.nn.functional.normalize(each, dim=-1) for each in (first, second)]
    for chunk_size in (None, 3):
        options = {"chunk_size": chunk_size, "gather_distributed": several}
        if several and distributed.get_world_size() > 1:
            own = exclude[share].to(first.device)
            value = (
                CrossModalLoss(Debiased(0.1), "both", **options)
                .of_features(*unit, scale, exclude=own)
                .loss
            )
        else:  # the transpose serves images
            sides = {"text": exclude, "image": exclude.T.contiguous()}
            losses = [
                CrossModalLoss(Debiased(0.1), side, **options)
                .of_features(*unit, scale, exclude=own.to(first.device))
                .loss
                for side, own in sides.items()
            ]
            value = torch.stack(losses).mean()
        yield f"exclude, asymmetric, {chunk_size}", value, gradients(value, inputs)


def gradients(value, inputs):
    return torch.autograd.grad(value, inputs, retain_graph=True, materialize_grads=True)


def work(rank, processes, backend, folder):
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    distributed.init_process_group(
        backend, init_method=f"file://{folder}/meeting", rank=rank, world_size=processes
    )
    each = COUNT // processes
    found = {}
    for name, value, (first, second, eta, scale) in losses(
        slice(rank * each, (rank + 1) * each), device
    ):
        # the mean over processes, as in DistributedDataParallel
        mean = value.detach() / processes
        distributed.all_reduce(mean)
        distributed.all_reduce(scale)
        parts = []
        for gradient in (first, second, eta):
            rows = [torch.empty_like(gradient) for _ in range(processes)]
            distributed.all_gather(rows, gradient.contiguous())
            parts.append((torch.cat(rows) / processes).flatten().tolist())
        of_scale = (scale / processes).flatten().tolist()
        found[name] = [mean.item(), *parts[0], *parts[1], *parts[2], *of_scale]
    if rank == 0:
        print(json.dumps(found), flush=True)
    distributed.destroy_process_group()


def main(processes, backend):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(processes):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    work(rank, processes, backend, folder)
                    status = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    os._exit(status)
            children.append(child)
        failed = [child for child in children if os.waitpid(child, 0)[1]]
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
