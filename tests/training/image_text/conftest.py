"""Textures with their sentences, and runs that are trained on them."""

import pytest
import torch

from tests.text.models import saved
from tests.textures import settings_of, texture_source
from tests.training.image_text.batches import CPU, OBJECTIVES
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.pairs.training_split import PairData
from trueneg.training.image_text import ImageText


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return texture_source(patients=48, language_model=saved(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def subset(source):
    return split_pairs(source, 0)


@pytest.fixture
def started(source, subset):
    def start(objective="cl", seed=0, source=source, subset=subset, **sections):
        given = OBJECTIVES[objective] if isinstance(objective, str) else objective
        return ImageText(settings_of(given, **sections), seed, source, subset, CPU)

    return start


@pytest.fixture
def parts(source, subset):
    """The training data and the pairs of one batch."""
    data = PairData(source, subset, CPU)
    drawn = data.epoch("image", torch.Generator().manual_seed(0))
    return data, drawn.part(slice(24), CPU)
