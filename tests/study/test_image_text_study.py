"""An image–text study is read whole or refused in sentences; it expands into runs as an image study does."""

import copy

import pytest

from tests.studies import tiny_words, tiny_world
from tests.textures import SETTINGS
from trueneg.errors import UserError
from trueneg.study.reading import load_configuration
from trueneg.study.runs import all_runs, candidates, datasets, negative_counts, pairs_key, run_id


def study_of(**changes):
    return load_configuration({"words": tiny_words(), "world": tiny_world(**changes)}, "study.yaml").studies["world"]


def changed(path, value):
    study = copy.deepcopy(tiny_world())
    *parents, last = path.split(".")
    place = study
    for key in parents:
        place = place.setdefault(key, {})
    place[last] = value
    return study


def test_the_settings_of_a_run_are_those_that_training_reads():
    run = all_runs("world", study_of())[0]
    for section, values in SETTINGS.items():
        assert values.keys() <= run.settings[section].keys() | {"device", "threads"}, section


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("dataset.text", "word", "world.dataset.text is 'word', expected a study of kind likelihood (words)"),
        ("dataset.corpus", "a", "world.dataset.corpus is 'a', expected one of the data sets: phantom."),
        ("dataset.source", "mimic", "world.dataset.source is 'mimic', expected 'phantom'."),
        ("objectives.CL.name", "clip2", "world.objectives.CL.name is 'clip2', expected one of 'cl', 'dcl', 'hcl'"),
        ("objectives.DCL-LM.class_probability", "model", "world.objectives.DCL-LM.class_probability"),
        ("objectives.CL.beta", 1, "world.objectives.CL.beta is not a known key"),
        ("similarity.aggregation", "lse+nl", "world.similarity.lse_sharpness is needed where aggregation has lse"),
        ("training.epochs", None, "world.training needs either epochs or updates"),
        ("primary.oracle", "CL", "world.primary.oracle is 'CL', expected an objective whose name is oracle."),
        ("primary.task", "linear probe", "world.primary.setting is '', expected one of: fraction=1."),
        ("primary.metric", "R@10", "world.primary.metric is 'R@10', expected one whose level of chance is known: AUC, CNR"),
        ("conditions", ["batch_size"], "world.conditions names batch_size, but training.batch_size is 16, expected a list"),
        ("figures.overlays.objectives", ["DCL"], "world.figures.overlays.objectives holds 'DCL', expected some of"),
        (
            "dataset.resolution",
            128,
            "world.encoder.width is 4, but above 64 pixels torch's convolutions of so few channels can crash",
        ),
        ("dataset.resolution", 16, "world.dataset.resolution is 16, expected a number of at least 32."),
    ],
)
def test_a_mistake_is_named_with_its_key_what_was_found_and_what_was_expected(path, value, sentence):
    with pytest.raises(UserError) as refused:
        load_configuration({"words": tiny_words(), "world": changed(path, value)}, "study.yaml")
    assert sentence in str(refused.value)


def test_reports_of_another_source_are_refused():
    words = tiny_words(reports={"source": "open_i"})
    with pytest.raises(UserError, match=r"world\.dataset.source is 'phantom', but the reports of words are of 'open_i'"):
        load_configuration({"words": words, "world": tiny_world()}, "study.yaml")


def test_a_corpus_must_be_named_where_there_are_several():
    words = tiny_words(reports={"source": "phantom", "correlation": [0.0, 0.5]})
    with pytest.raises(UserError, match=r"world\.dataset.corpus is missing, expected one of the data sets: correlation=0"):
        load_configuration({"words": words, "world": tiny_world()}, "study.yaml")


def test_sweeps_make_variants_and_conditions_make_data_sets():
    objectives = tiny_world()["objectives"] | {"DCL": {"name": "dcl", "class_probability": [0.05, 0.1]}}
    training = tiny_world()["training"] | {"batch_size": [16, 32]}
    primary = tiny_world()["primary"] | {"dataset": "batch_size=16"}
    study = study_of(objectives=objectives, training=training, conditions=["batch_size"], primary=primary)
    assert list(datasets(study)) == ["batch_size=16", "batch_size=32"]
    assert candidates(study)["DCL"] == ["DCL,class_probability=0.05", "DCL,class_probability=0.1"]
    assert negative_counts(study) == {"batch_size=16": 15, "batch_size=32": 31}
    assert len({pairs_key(settings.model_dump(mode="json")) for settings in datasets(study).values()}) == 1


def test_what_is_technical_or_a_stated_default_leaves_a_run_what_it_is():
    def identity(**changes):
        return run_id(all_runs("world", study_of(**changes))[0], "checksum")

    training = tiny_world()["training"]
    assert identity(training=training | {"threads": 2, "chunks": 2, "weight_decay": 0.01}) == identity()
    assert identity(training=training | {"weight_decay": 0.1}) != identity()
    assert identity(text_encoder=tiny_world()["text_encoder"] | {"dropout": 0.2}) != identity()
