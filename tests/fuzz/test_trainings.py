"""A configuration that is accepted can be trained, or its training ends with a message in
sentences.
"""

import random

import pytest
import torch

from tests.fuzz.attempts import FAILED, attempted
from tests.fuzz.changes import changed, drawn_kinds, leaves
from tests.studies import tiny_study, tiny_words, tiny_world
from tests.textures import texture_source
from trueneg.config.reading import load_configuration
from trueneg.config.runs import all_runs, datasets, objectives
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import DRAWING, make_subset
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.errors import UserError
from trueneg.runtime.memory import catch_out_of_memory, smaller_batch
from trueneg.training.image_text import ImageText
from trueneg.training.simclr import SimCLR

UPDATES = 2


@pytest.fixture(scope="module")
def digits():
    return load_source("digits")


@pytest.fixture(scope="module")
def pairs():
    return texture_source(patients=60)


def trained(start, study, name):
    """Train up to six objectives of a study on its first data set, for two updates each, without
    the engine's files.
    """
    for objective in list(objectives(study))[:6]:
        run = next(run for run in all_runs(name, study) if run.objective == objective)
        training = dict(run.settings["training"]) | {"epochs": None, "updates": UPDATES}
        if "warmup_updates" in training:
            training["warmup_updates"] = min(training["warmup_updates"], 1)
        with catch_out_of_memory(objective, smaller_batch(training["batch_size"])):
            start(dict(run.settings) | {"training": training}, run.seed).train_epoch()


def train_images(study, source):
    settings = next(iter(datasets(study).values())).model_dump(mode="json")
    reading = {key: settings[key] for key in ("source", "path", "resolution", "download")}
    if reading != {"source": "digits", "path": None, "resolution": None, "download": False}:
        source = load_source(
            reading["source"], path=reading["path"], resolution=reading["resolution"]
        )
    drawn = make_subset(source, seed=study.seed_list[0], **{key: settings[key] for key in DRAWING})
    trained(
        lambda settings, seed: SimCLR(settings, seed, source, drawn, torch.device("cpu")),
        study,
        "tiny",
    )


def train_pairs(study, source):
    settings = next(iter(datasets(study).values()))
    drawn = split_pairs(source, study.seed_list[0], settings.validation, settings.test)
    trained(
        lambda settings, seed: ImageText(settings, seed, source, drawn, torch.device("cpu")),
        study,
        "world",
    )


def accepted(configuration, name, rounds, seed):
    """Yield the accepted ones among configurations with one changed value in a section that affects
    training.
    """
    draw = random.Random(seed)
    for place in leaves(configuration):
        if place[0] != name or place[1] in ("title", "evaluation", "primary", "figures"):
            continue
        for kind in drawn_kinds(draw, rounds, keys=False):
            try:
                study = load_configuration(
                    changed(configuration, place, kind, draw), "fuzz"
                ).studies[name]
            except UserError:
                continue
            yield f"{'.'.join(map(str, place))}, {kind}", study


@pytest.mark.long
@pytest.mark.parametrize("name", ["tiny", "world"])
def test_what_is_accepted_is_trained_or_refused_in_a_sentence(
    name, digits, pairs, exploration_seed
):
    configuration = (
        {"tiny": tiny_study()} if name == "tiny" else {"words": tiny_words(), "world": tiny_world()}
    )
    run, source = (train_images, digits) if name == "tiny" else (train_pairs, pairs)
    outcomes = {
        change: attempted(lambda study=study: run(study, source))
        for change, study in accepted(configuration, name, 16, exploration_seed)
    }
    assert [
        f"{change}: {outcome.text}"
        for change, outcome in outcomes.items()
        if outcome.kind == FAILED
    ] == []
    assert len(outcomes) > 10
