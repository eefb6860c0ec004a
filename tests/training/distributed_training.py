"""Train the same runs on one process and on several, forked after torch is imported, and print the
results.

Run as ``python -m tests.training.distributed_training PROCESSES``.
"""

import json
import os
import sys
import tempfile

import torch
from torch import distributed

from tests import questions
from tests.textures import LSE_NL, texture_source, with_negatives
from tests.textures import settings_of as paired_settings
from tests.training.test_resume import scheduled_settings
from tests.training.test_simclr import settings_of
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.runtime.distributed import ALONE, Processes
from trueneg.training.image_text import ImageText
from trueneg.training.simclr import SimCLR

CPU = torch.device("cpu")
UPDATES = 6
NO_DROPOUT = {"text_encoder": {"dropout": 0.0}}
FNC = {"name": "fnc", "threshold": 0.3, "top_k": 5}
AVERAGE = {"name": "ema", "momentum": 0.5}
WHICH = {
    "guided by an average of views": {"name": "guided", "margin": -0.01, "guide": AVERAGE},
    "elimination": {"name": "remove", "threshold": 0.3, "top_k": 5, "guide": AVERAGE},
    "moving averages of views": {"name": "global", "rate": 0.4},
    "soft targets of views": {"name": "cl", "targets": FNC, "guide": {"name": "self"}},
    "sigmoid with a trained bias": {"name": "sigmoid", "positives": "labels"},
}
HARD = "images as hard negatives"
PAIRED = {
    "cl": ({"name": "cl", "directions": "text"}, NO_DROPOUT),
    "dcl of each sentence": (
        {"name": "dcl", "directions": "both", "class_probability": "language model"},
        NO_DROPOUT,
    ),
    "oracle on regions": (
        {"name": "oracle", "directions": "both"},
        NO_DROPOUT | {"similarity": LSE_NL},
    ),
    "reco": ({"name": "reco", "negative_weight": 0.6}, NO_DROPOUT),
    "guided by an average": (
        {"name": "guided", "directions": "both", "margin": -0.01, "guide": AVERAGE},
        NO_DROPOUT,
    ),
    "soft targets of pairs": (
        {"name": "cl", "directions": "both", "targets": FNC, "guide": {"name": "self"}},
        NO_DROPOUT,
    ),
    "sigmoid of pairs": (
        {"name": "sigmoid", "directions": "both", "positives": "labels"},
        NO_DROPOUT,
    ),
    "masked words": (
        {"name": "biovil", "masked_words_weight": 0.5, "mask_share": 0.15},
        NO_DROPOUT,
    ),
    HARD: ({"name": "oracle", "directions": "both"}, NO_DROPOUT),
}
TEXTS = {
    "oracle of texts with hard negatives": {"name": "oracle", "directions": "both"},
    "moving averages of texts": {"name": "global", "directions": "both", "rate": 0.4},
    "texts guided by an average": {
        "name": "guided",
        "directions": "both",
        "margin": -0.01,
        "guide": AVERAGE,
    },
}


def runs(processes=ALONE):
    """Return the runs by name."""
    source = load_source("digits")
    subset = make_subset(source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
    settings = {name: settings_of(name) for name in ("DCL-true", "Oracle")} | {
        "scheduled": scheduled_settings(1)
    }
    settings |= {
        name: {**settings_of(), "objective": objective} for name, objective in WHICH.items()
    }
    for name, own in settings.items():
        own["training"] |= {"updates": UPDATES, "epochs": None}
        yield name, SimCLR(own, 0, source, subset, CPU, processes)
    textures = texture_source(patients=48)
    for name, (objective, changes) in PAIRED.items():
        source = with_negatives(textures, 2) if name == HARD else textures
        subset = split_pairs(source, 0)
        training = {"updates": UPDATES, "epochs": None} | changes.get("training", {})
        yield (
            name,
            ImageText(
                paired_settings(objective, **(changes | {"training": training})),
                0,
                source,
                subset,
                CPU,
                processes,
            ),
        )
    source = questions.question_source(given=True, hard=1)
    for name, objective in TEXTS.items():
        yield (
            name,
            questions.started(
                source,
                questions.settings_of(objective, training={"updates": UPDATES}),
                processes=processes,
            ),
        )


def trained(processes=ALONE):
    """Return, for each run, losses and shares at the bound by epoch, the first gradients, and the
    final weights.
    """
    for name, run in runs(processes):
        processes.share_state(run)
        rows, gradients = [], []

        def after_update(run=run, gradients=gradients):
            if not gradients:
                parameters = [*run.network.parameters(), *run.loss.parameters()]
                learned = [parameter.grad for parameter in parameters if parameter.grad is not None]
                gradients.append(torch.cat([gradient.flatten() for gradient in learned]))

        while run.epoch < run.epochs:
            rows.append(run.train_epoch(after_update))
        state = [*run.network.state_dict().values(), *run.loss.state_dict().values()]
        numbers = [value for value in state if value.is_floating_point()]
        weights = torch.cat([value.flatten() for value in numbers])
        yield (
            name,
            [[row["loss"], row["share at bound common"]] for row in rows],
            gradients[0],
            weights,
        )


def work(rank, processes, folder):
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=processes
    )
    found = {}
    for name, rows, gradients, weights in trained(Processes(rank, processes)):
        others = [torch.empty_like(weights) for _ in range(processes)]
        distributed.all_gather(others, weights)
        same = all(torch.equal(weights, other) for other in others)
        found[name] = {
            "rows": rows,
            "gradients": gradients.tolist(),
            "weights": weights.tolist(),
            "same": same,
        }
    if rank == 0:
        print(json.dumps(found), flush=True)
    distributed.destroy_process_group()


def main(processes):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(processes):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    work(rank, processes, folder)
                    status = 0
                finally:
                    sys.stdout.flush()
                    os._exit(status)
            children.append(child)
        failed = [child for child in children if os.waitpid(child, 0)[1]]
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(int(sys.argv[1]))
