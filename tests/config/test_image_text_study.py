"""An image–text study is read whole or refused in sentences; it expands into runs as an image study does."""

import copy

import pytest

from tests.studies import tiny_words, tiny_world
from tests.textures import SETTINGS
from trueneg.config.reading import load_configuration
from trueneg.config.runs import all_runs, candidates, datasets, negative_counts, pairs_key
from trueneg.errors import UserError
from trueneg.store.identity import run_id


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
        (
            "dataset.source",
            "mimic",
            "world.dataset.source is 'mimic', expected one of 'flickr30k', 'flickr8k', 'image_table', 'mimic_cxr', 'open_i', "
            "'phantom'.",
        ),
        (
            "objectives.CL.name",
            "clip2",
            "world.objectives.CL.name is 'clip2', expected one of 'bcl', 'biovil', 'clip'",
        ),
        ("objectives.DCL-LM.class_probability", "model", "world.objectives.DCL-LM.class_probability"),
        ("objectives.CL.beta", 1, "world.objectives.CL.beta is not a known key"),
        ("similarity.aggregation", "lse+nl", "world.similarity.lse_sharpness is needed where aggregation has lse"),
        ("similarity.learned_maps", True, "world.similarity.learned_maps is true, but only the aggregation nl has maps"),
        ("training.epochs", None, "world.training needs exactly one of epochs and updates"),
        ("primary.oracle", "CL", "world.primary.oracle is 'CL', expected an objective whose name is oracle."),
        ("primary.oracle", None, "world.primary.oracle is missing, expected an objective whose name is oracle: phantom knows"),
        ("primary.task", "linear probe", "world.primary.fraction is missing, expected one of: 1."),
        ("primary.labels", "truth", "world.primary.labels is 'truth', expected one of: nothing."),
        ("primary.metric", "R", "world.primary.metric is 'R', expected a metric with a known chance level: AUC,"),
        ("conditions", ["batch_size"], "world.conditions names batch_size, but training.batch_size is 16, expected a list"),
        ("figures.overlays.objectives", ["DCL"], "world.figures.overlays.objectives names 'DCL', expected one of"),
        ("dataset.resolution", 16, "world.dataset.resolution is 16, expected a number greater than or equal to 32."),
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


def test_what_needs_boxes_is_refused_where_there_are_none():
    words = tiny_words(reports={"source": "open_i"})
    dataset = {"source": "open_i", "text": "words", "path": "folder"}
    with pytest.raises(UserError, match=r"world\.figures\.overlays needs boxes, which open_i has not; leave it out\."):
        load_configuration({"words": words, "world": tiny_world(dataset=dataset)}, "study.yaml")
    figures = {"similarities": tiny_world()["figures"]["similarities"]}
    made = load_configuration({"words": words, "world": tiny_world(dataset=dataset, figures=figures)}, "study.yaml")
    assert list(datasets(made.studies["world"])) == ["open_i"]


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
    assert list(candidates(study)["DCL"]) == ["DCL,class_probability=0.05", "DCL,class_probability=0.1"]
    assert negative_counts(study) == {"batch_size=16": 15, "batch_size=32": 31}
    assert len({pairs_key(settings.model_dump(mode="json")) for settings in datasets(study).values()}) == 1


CLIP = {"name": "clip", "weights": "openai"}
CLIP_ZS = {"name": "released", "encoder": CLIP, "text_encoder": CLIP}


def study_with(**changes):
    """A study with a released CLIP besides; `changes` that are objectives replace or join the others."""
    objectives = tiny_world()["objectives"] | {"CLIP": CLIP_ZS} | changes.pop("objectives", {})
    world = {"dataset": tiny_world()["dataset"] | {"resolution": 64}, "encoder": {"name": "small"}}
    return study_of(**(world | changes), objectives=objectives)


def test_released_weights_stand_beside_the_trained_and_nothing_of_a_training_tells_them_apart():
    study = study_with()
    runs = [run for run in all_runs("world", study) if run.objective == "CLIP"]
    assert len(runs) == 2
    settings = runs[0].settings
    assert (settings["encoder"]["name"], settings["text_encoder"]["weights"]) == ("clip", "openai")
    assert settings["projection"]["name"] == "released"
    assert settings["objective"] == {"name": "released", "encoder": None, "text_encoder": None}
    assert len({run_id(run, "checksum") for run in all_runs("world", study)}) == 8
    training = tiny_world()["training"] | {"epochs": 7, "learning_rate": [1e-3, 1e-2], "batch_size": [16, 32]}
    primary = tiny_world()["primary"] | {"dataset": "batch_size=16"}
    other = study_with(
        training=training,
        conditions=["batch_size"],
        primary=primary,
        projection={"dimensions": [8, 16]},
        encoder={"name": "resnet18"},
        figures={},
    )
    assert list(candidates(other)["CLIP"]) == ["CLIP"]
    assert len(candidates(other)["CL"]) == 4
    again = [run for run in all_runs("other", other) if run.objective == "CLIP"]
    assert {run.dataset for run in again} == {"batch_size=16", "batch_size=32"}
    assert {run_id(run, "checksum") for run in again} == {run_id(run, "checksum") for run in runs}


def test_other_released_weights_or_another_crop_are_another_run():
    def identity(**changes):
        return next(run_id(run, "checksum") for run in all_runs("world", study_with(**changes)) if run.objective == "CLIP")

    other = CLIP | {"weights": "cc12m"}
    assert identity(objectives={"CLIP": CLIP_ZS | {"encoder": other, "text_encoder": other}}) != identity()
    assert identity(augmentation={"crop": 0.75}) != identity()
    assert identity(similarity={"logit_scale": 7.0}) == identity()
    assert identity(similarity={"aggregation": "lse", "lse_sharpness": 5.0}) != identity()


@pytest.mark.parametrize(
    ("objective", "sentence"),
    [
        ({"encoder": {"name": "small"}}, "encoder and text_encoder are {'name': 'small'} and {'name': 'clip'"),
        (
            {"text_encoder": {"name": "pretrained", "model": "biovil"}},
            "'pretrained', 'model': 'biovil'}; give both",
        ),
        (
            {"text_encoder": CLIP | {"weights": "cc12m"}},
            "'weights': 'cc12m'}; give both the name clip and the same model and weights",
        ),
        (
            {"encoder": {"name": "clip"}, "text_encoder": {"name": "clip"}},
            "'weights': None} and {'name': 'clip', 'model': 'RN50-quickgelu', 'weights': None}",
        ),
        ({"logit_scale": 5}, "world.objectives.CLIP.logit_scale is not a known key"),
        ({"encoder": {"name": "vit"}}, "world.objectives.CLIP.encoder.name is 'vit', expected one of"),
    ],
)
def test_released_weights_without_a_shared_space_are_refused(objective, sentence):
    with pytest.raises(UserError) as refused:
        study_with(objectives={"CLIP": CLIP_ZS | objective})
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"projection": {"name": ["linear", "released"]}}, "world.objectives.CL needs the released projections of images and"),
        ({"dataset": tiny_world()["dataset"]}, "CLIP has the encoder clip, which needs crops of 32 pixels, but those of"),
        (
            {"text_encoder": CLIP, "objectives": {"BioViL": {"name": "biovil"}}},
            "world.objectives.BioViL masks words, which needs a BERT, but text_encoder.name is 'clip'",
        ),
    ],
)
def test_networks_that_do_not_go_together_are_refused(changes, sentence):
    with pytest.raises(UserError) as refused:
        study_with(**changes)
    assert sentence in str(refused.value)


def test_the_same_encoders_may_be_trained_from_their_own_projections():
    study = study_with(encoder=CLIP, text_encoder=CLIP, projection={"name": "released"})
    trained, released = (next(run for run in all_runs("world", study) if run.objective == name) for name in ("CL", "CLIP"))
    assert trained.settings["projection"] == released.settings["projection"]
    assert run_id(trained, "checksum") != run_id(released, "checksum")


def test_the_ids_of_runs_are_those_that_earlier_versions_gave():
    """A run that is in somebody's store stays there: a change here trains everything anew."""
    given = {(run.objective, run.seed): run_id(run, "checksum") for run in all_runs("world", study_of())}
    assert given == {
        ("CL", 0): "a7c14b6d481b",
        ("CL", 1): "bdab15f560cb",
        ("DCL-LM", 0): "34323aba21ee",
        ("DCL-LM", 1): "a8b814c000c3",
        ("Oracle", 0): "19d8148cb288",
        ("Oracle", 1): "05a2fcc4a662",
    }


def test_what_is_technical_or_a_stated_default_leaves_a_run_what_it_is():
    def identity(**changes):
        return run_id(all_runs("world", study_of(**changes))[0], "checksum")

    training = tiny_world()["training"]
    assert identity(training=training | {"threads": 2, "chunks": 2, "weight_decay": 0.01}) == identity()
    assert identity(training=training | {"weight_decay": 0.1}) != identity()
    assert identity(text_encoder=tiny_world()["text_encoder"] | {"dropout": 0.2}) != identity()


CAPTIONED = {"dataset": {"source": "flickr8k", "text": "captions", "resolution": 32}}
CAPTIONS = {
    "kind": "likelihood",
    "title": "Captions",
    "reports": {"source": "flickr8k", "path": "data/flickr8k"},
    "language_models": {"BERT": {}},
}
BY_RECALL = {"task": "retrieval sentence", "labels": "report", "metric": "R", "direction": "text to image", "k": 10}


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        ({"primary": {**BY_RECALL, "treatment": "DCL-LM", "baseline": "CL"}}, []),
        (
            {"primary": {"treatment": "DCL-LM", "baseline": "CL"}},
            ["world.primary.task is 'zero-shot', which needs labels, and flickr8k has none; take a retrieval."],
        ),
        (
            {
                "objectives": {"CL": {"name": "cl"}, "Oracle": {"name": "oracle"}, "Remove": {"name": "remove", "by": "labels"}},
                "primary": {**BY_RECALL, "treatment": "Remove", "baseline": "CL", "oracle": "Oracle"},
            },
            [
                "world.objectives.Oracle is an oracle, but what is true of flickr8k's images is not known; leave it out.",
                "world.objectives.Remove.by is 'labels', but flickr8k has none; take text, or leave it out.",
            ],
        ),
    ],
)
def test_data_without_labels_or_truth_asks_for_neither(changes, sentences):
    objectives = {"CL": {"name": "cl"}, "DCL-LM": {"name": "dcl", "class_probability": "language model"}}
    study = tiny_world(**{"objectives": objectives, **CAPTIONED, "figures": {}, **changes})
    try:
        load_configuration({"captions": CAPTIONS, "world": study}, "study.yaml")
        said = []
    except UserError as refused:
        said = str(refused).splitlines()
    assert said == [f"study.yaml: {sentence}" for sentence in sentences]
