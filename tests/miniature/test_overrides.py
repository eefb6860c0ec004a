"""A miniature differs from the shipped section in a short list of keys; a source without a fixture
is an error.
"""

import re

import pytest

from tests.miniature.fixtures import write_fixtures
from tests.miniature.harness import shipped
from tests.miniature.overrides import differences, miniatures
from trueneg.config.reading import load_configuration

# Paths and models, sizes of images and networks, lengths of training, and counts.
SHORT_LIST = [
    r"(dataset|reports)\.path",
    r"(objectives\.[^.]+\.(guide\.)?)?(text_)?encoder\.(name|model|weights|width|hidden|layers|heads|vocabulary|resolution|train|maximum_tokens)",
    r"language_models\.[^.]+\.(model|hidden|layers|vocabulary|epochs)",
    r"dataset\.labels\.(train|validation_unseen|test_unseen|per_run)",
    r"dataset\.(resolution|images_per_class|unlabelled)",
    r"reports\.reports",
    r"projection\.(hidden|dimensions)",
    r"training\.(epochs|updates|warmup_updates|batch_size|threads|seeds_per_job)",
    r"evaluation\.(linear_probe|augmented_linear_probe|fine_tuning)\.epochs",
    r"figures\.embedding\.images",
    r"processes",
    r"seeds",
]


@pytest.mark.parametrize("file", shipped())
def test_a_miniature_differs_only_in_listed_keys_and_shorter_sweeps(file):
    content = shipped()[file]
    small = miniatures(content, file)
    load_configuration(small, file)
    assert small.keys() == content.keys()
    for key in differences(content, small):
        name, _, setting = key.partition(".")
        before, after = content[name], small[name]
        for part in setting.split("."):
            before, after = before.get(part), after.get(part)
        if setting == "published":  # without the published numbers of conditions that are left out
            for whole, part in zip(before, after, strict=True):
                assert whole == part | {"settings": whole["settings"]}
                assert part["settings"].items() < whole["settings"].items()
            continue
        shorter = (
            isinstance(before, list)
            and isinstance(after, list)
            and [one for one in before if one in after] == after
        )
        assert shorter or any(re.fullmatch(listed, setting) for listed in SHORT_LIST), key


def test_values_of_a_sweep_that_a_label_names_are_kept():
    study = shipped()["config/studies/bcl_digits.yaml"]["bcl_digits"]
    study["training"]["batch_size"] = [16, 32, 64, 128]
    study["primary"]["dataset"] = "batch_size=128"
    assert miniatures({"study": study}, "a test")["study"]["training"]["batch_size"] == [16, 128]


def test_published_numbers_of_the_kept_conditions_are_kept():
    study = miniatures(shipped()["config/studies/bcl.yaml"], "a test")["bcl_cifar10"]
    assert study["training"]["batch_size"] == [16, 128]
    assert study["published"][0]["settings"] == {"batch_size=16": "N=30", "batch_size=128": "N=254"}


def test_a_source_without_a_fixture_is_named(tmp_path):
    with pytest.raises(LookupError, match=r"dataset\.source is 'parquet'.*cifar10"):
        write_fixtures(tmp_path, {"dataset": {"source": "parquet", "path": "data/own"}})
