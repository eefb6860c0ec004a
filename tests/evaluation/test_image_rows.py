"""The rows of an image study are those that its tasks declare."""

import pytest
import torch

from tests.declared import declared, written
from tests.studies import tiny_study
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import DRAWING, make_subset
from trueneg.evaluation.evaluate import rows_of
from trueneg.evaluation.images import EncodedRun
from trueneg.models.image_encoders import build_encoder
from trueneg.specs.kinds.images import ImageStudy
from trueneg.store.rows import to_table
from trueneg.training.augment import Augmentation


@pytest.mark.parametrize(
    ("rare", "pools", "validation"),
    [([5, 6, 7, 8, 9], ["all"], 0.1), ([], ["imbalanced", "all"], 0.1), ([], ["all"], 0)],
)
def test_the_rows_are_those_that_the_tasks_declare(rare, pools, validation):
    given = tiny_study()
    given["dataset"] |= {
        "rare_classes": rare,
        "fraction": 0.25 if rare else 1.0,
        "validation": validation,
    }
    given["evaluation"] |= {
        "knn": {"label_pools": pools},
        "augmented_linear_probe": {"epochs": 1, "label_fractions": [0.5]},
    }
    study = ImageStudy.model_validate(given)
    source = load_source("digits", resolution=None)
    subset = make_subset(source, seed=0, **{key: getattr(study.dataset, key) for key in DRAWING})
    features = torch.randn(len(source.labels), 4, generator=torch.Generator().manual_seed(0))
    encoder, augmentation = (
        build_encoder("small_resnet", in_channels=1, width=4),
        Augmentation([0.3], [0.4]),
    )
    run = EncodedRun(
        "abc", subset, source, features, torch.from_numpy(source.labels), encoder, augmentation
    )
    rows = to_table(rows_of("trueneg.evaluation.images", [run], study.evaluation.model_dump()))
    assert written(rows, study) == declared(study)
    assert set(rows["split"]) == {"validation", "test"} if validation else {"test"}
