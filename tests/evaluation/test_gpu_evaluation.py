"""Every evaluation task runs on a simulated GPU with all operands on the device; the measured
values are random.
"""

import copy
import importlib
import pkgutil

import numpy as np
import pandas as pd
import pytest
import torch

from tests.pretended_gpu import GPU, pretended_gpu, without_driver
from tests.textures import FINDINGS, LSE_NL, settings_of, texture_boxes, texture_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.chexpert_8x200 import LABELS, Benchmark
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.evaluation import images, pairs
from trueneg.evaluation.features import extract_features
from trueneg.evaluation.images import EncodedRun
from trueneg.evaluation.pairs import EmbeddedPairs
from trueneg.models.image_encoders import build_encoder
from trueneg.specs import tasks
from trueneg.training.augment import Augmentation
from trueneg.training.image_text import ImageText

pytestmark = pytest.mark.filterwarnings(
    "ignore:User provided device_type of 'cuda'", "ignore:CUDA is not available"
)
PROMPTS = {"stripes": {"negative": "No stripes.", "positive": "Seen left stripes."}}
SHORT = {"fractions": [1.0], "epochs": 1}
REQUIRED = {  # settings without a default, and fewer epochs
    "zero_shot": {"prompts": PROMPTS},
    "linear_probe": SHORT,
    "augmented_linear_probe": SHORT,
    "fine_tuning": SHORT,
    "chexpert_8x200": {"path": "nowhere", "lists": "nowhere"},
}
SLOW = (
    "augmented_linear_probe",
    "chexpert_8x200",
    "fine_tuning",
    "grounding",
    "precision",
    "zero_shot",
)


def modules(package):
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return [pytest.param(name, marks=pytest.mark.long if name in SLOW else ()) for name in names]


@pytest.fixture(scope="module")
def network():
    """Networks with region similarities, which some tasks need."""
    source = texture_source(patients=80)
    training = ImageText(
        settings_of(similarity=LSE_NL), 0, source, split_pairs(source, 0), torch.device("cpu")
    )
    return training.networks


@pytest.mark.parametrize("task", modules(pairs))
def test_a_task_of_pairs_runs_on_the_gpu(monkeypatch, network, task):
    source = texture_source(patients=80)
    texts = pd.DataFrame(
        {"sentence": [f"Seen {FINDINGS[place]}." for place in range(8)], "label": LABELS}
    )
    labels = np.tile(range(8), 3)
    benchmark = Benchmark(
        source.images[:24], np.arange(24) >= 16, labels, LABELS, np.array(["p"] * 24), texts
    )
    settings = {
        name: model(**REQUIRED.get(name, {})).model_dump() for name, model in tasks.PAIRS.items()
    }
    without_driver(monkeypatch)
    with pretended_gpu(readable=True):
        networks = copy.deepcopy(network)
        run = EmbeddedPairs(
            "abc", networks, source, split_pairs(source, 0), GPU, texture_boxes(source), benchmark
        )
        assert list(importlib.import_module(f"{pairs.__name__}.{task}").measure([run], settings))
    assert {value.device.type for value in run.networks.model.parameters()} == {"cuda"}


@pytest.mark.parametrize("task", modules(images))
def test_a_task_of_images_runs_on_the_gpu(monkeypatch, task):
    source = load_source("digits")
    subset = make_subset(source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
    settings = {name: model().model_dump() for name, model in tasks.IMAGES.items()}
    for task_settings in (settings["linear_probe"], settings["augmented_linear_probe"]):
        task_settings |= {"epochs": 1, "label_fractions": [1.0]}
    without_driver(monkeypatch)
    with pretended_gpu(readable=True):
        encoder = build_encoder("small_resnet", width=4, in_channels=1).to(
            GPU, memory_format=torch.channels_last
        )
        augmentation = Augmentation([0.5], [0.5]).to(GPU)
        features = extract_features(
            encoder, augmentation.normalise, torch.from_numpy(source.images)
        )
        run = EncodedRun(
            "abc",
            subset,
            source,
            features,
            torch.from_numpy(source.labels).to(GPU),
            encoder,
            augmentation,
        )
        assert features.device.type == "cuda"
        assert list(
            importlib.import_module(f"{images.__name__}.{task}").measure([run, run], settings)
        )
