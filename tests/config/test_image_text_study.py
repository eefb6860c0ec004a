"""An image–text study is valid or rejected with sentences; it expands into runs like an image study."""

import copy

import pytest

from tests.studies import tiny_words, tiny_world
from tests.textures import SETTINGS
from trueneg.config.reading import load_configuration
from trueneg.config.runs import all_runs, candidates, datasets, negative_counts, pairs_key
from trueneg.data.pairs import chexpert_labels, open_i
from trueneg.data.phantom import radiographs
from trueneg.errors import UserError
from trueneg.evaluation.pairs.zero_shot import PROMPTS
from trueneg.specs.pairs.base import PairSettings
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


def test_runs_have_the_settings_that_training_reads():
    run = all_runs("world", study_of())[0]
    for section, values in SETTINGS.items():
        assert values.keys() <= run.settings[section].keys() | {"device", "threads"}, section


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (
            "dataset.text",
            "word",
            "world.dataset.text refers to 'word'; expected one of the likelihood studies in the given files: words.",
        ),
        ("dataset.corpus", "a", "world.dataset.corpus refers to 'a'; expected one of the data sets: phantom."),
        ("dataset.corpus", "seed={seed}", "world.dataset.corpus refers to 'seed=1'; expected one of the data sets: phantom."),
        (
            "dataset.source",
            "mimic",
            "world.dataset.source is 'mimic'; expected one of 'flickr30k', 'flickr8k', 'image_table', 'mimic_cxr', 'open_i', "
            "'phantom'.",
        ),
        (
            "objectives.CL.name",
            "clip2",
            "world.objectives.CL.name is 'clip2'; expected one of 'bcl', 'biovil', 'clip'",
        ),
        ("objectives.DCL-LM.class_probability", "model", "world.objectives.DCL-LM.class_probability"),
        ("objectives.CL.beta", 1, "world.objectives.CL.beta is not a known key"),
        ("similarity.aggregation", "lse+nl", "world.similarity.lse_sharpness must be set if aggregation contains lse"),
        ("training.epochs", None, "world.training must set exactly one of epochs and updates"),
        ("primary.oracle", "CL", "world.primary.oracle is 'CL'; expected an objective whose name is oracle."),
        ("primary.oracle", None, "world.primary.oracle is missing; expected an objective whose name is oracle"),
        ("primary.task", "linear probe", "world.primary.fraction is missing; expected one of: 1."),
        ("primary.labels", "truth", "world.primary.labels is 'truth'; expected one of: nothing."),
        ("primary.metric", "R", "world.primary.metric is 'R'; expected one of: AUC, AUC positive prompt, ACC."),
        ("primary.metric", "acc", "world.primary.metric is 'acc'; expected one of: AUC, AUC positive prompt, ACC."),
        ("primary.metric", "ACC", "world.primary is zero-shot, ACC; expected a measurement with a known chance"),
        ("primary.group", "fracture", "world.primary.group is 'fracture'; expected one of: nothing, cardiomegaly, edema,"),
        ("conditions", ["batch_size"], "world.conditions contains batch_size, but training.batch_size is 16; expected a list"),
        ("figures.overlays.objectives", ["DCL"], "world.figures.overlays.objectives refers to 'DCL'; expected one of"),
        ("dataset.resolution", 16, "world.dataset.resolution is 16; expected a number greater than or equal to 32."),
    ],
)
def test_an_error_names_the_key_the_value_found_and_the_value_expected(path, value, sentence):
    with pytest.raises(UserError) as refused:
        load_configuration({"words": tiny_words(), "world": changed(path, value)}, "study.yaml")
    assert sentence in str(refused.value)


def test_reports_of_another_source_are_rejected():
    words = tiny_words(reports={"source": "open_i"})
    with pytest.raises(UserError, match=r"world\.dataset.source is 'phantom', but the reports of words come from 'open_i'"):
        load_configuration({"words": words, "world": tiny_world()}, "study.yaml")


def test_settings_that_need_boxes_are_rejected_without_boxes():
    words = tiny_words(reports={"source": "open_i"})
    dataset = {"source": "open_i", "text": "words", "path": "folder"}
    with pytest.raises(UserError, match=r"world\.figures\.overlays needs boxes, which open_i does not have"):
        load_configuration({"words": words, "world": tiny_world(dataset=dataset)}, "study.yaml")
    figures = {"similarities": tiny_world()["figures"]["similarities"]}
    made = load_configuration({"words": words, "world": tiny_world(dataset=dataset, figures=figures)}, "study.yaml")
    assert list(datasets(made.studies["world"])) == ["open_i"]


def test_a_corpus_must_be_named_if_there_are_several():
    words = tiny_words(reports={"source": "phantom", "correlation": [0.0, 0.5]})
    with pytest.raises(UserError, match=r"world\.dataset.corpus is missing; expected one of the data sets: correlation=0"):
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
    """A study with a released CLIP as well; objectives in `changes` are added or replaced."""
    objectives = tiny_world()["objectives"] | {"CLIP": CLIP_ZS} | changes.pop("objectives", {})
    world = {"dataset": tiny_world()["dataset"] | {"resolution": 64}, "encoder": {"name": "small"}}
    return study_of(**(world | changes), objectives=objectives)


def test_training_settings_do_not_change_the_runs_of_released_networks():
    study = study_with()
    runs = [run for run in all_runs("world", study) if run.objective == "CLIP"]
    assert len(runs) == 2
    settings = runs[0].settings
    assert (settings["encoder"]["name"], settings["text_encoder"]["weights"]) == ("clip", "openai")
    assert settings["projection"]["name"] == "released"
    assert settings["objective"] == {"name": "released", "encoder": None, "text_encoder": None, "aggregation": None}
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


def test_other_released_weights_or_another_crop_change_the_run():
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
        ({"encoder": {"name": "small"}}, "encoder is (name='small' width=16) and text_encoder is (name='clip'"),
        (
            {"text_encoder": {"name": "pretrained", "model": "biovil"}},
            "name='pretrained' model='biovil'",
        ),
        (
            {"text_encoder": CLIP | {"weights": "cc12m"}},
            "weights='cc12m'",
        ),
        (
            {"encoder": {"name": "clip"}, "text_encoder": {"name": "clip"}},
            "weights=None) and text_encoder is (name='clip' model='RN50-quickgelu' weights=None",
        ),
        ({"logit_scale": 5}, "world.objectives.CLIP.logit_scale is not a known key"),
        ({"encoder": {"name": "vit"}}, "world.objectives.CLIP.encoder.name is 'vit'; expected one of"),
    ],
)
def test_released_weights_without_a_shared_space_are_rejected(objective, sentence):
    with pytest.raises(UserError) as refused:
        study_with(objectives={"CLIP": CLIP_ZS | objective})
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"projection": {"name": ["linear", "released"]}}, "world.objectives.CL uses released projections, but encoder is"),
        ({"dataset": tiny_world()["dataset"]}, "world.objectives.CLIP: the encoder clip needs crops of at least 32 pixels, but"),
        (
            {"text_encoder": CLIP, "objectives": {"BioViL": {"name": "biovil"}}},
            "world.objectives.BioViL masks words, which needs a BERT, but text_encoder.name is 'clip'",
        ),
    ],
)
def test_incompatible_networks_are_rejected(changes, sentence):
    with pytest.raises(UserError) as refused:
        study_with(**changes)
    assert sentence in str(refused.value)


BIOVIL = {"name": "biovil", "weights": "image.safetensors"}
CXR_BERT = {"name": "pretrained", "model": "cxr-bert", "projection": "text.safetensors"}


def test_other_networks_can_be_released_with_both_projections():
    """Beside a study with another similarity: theirs is the cosine of the pooled image."""
    biovil = {"name": "released", "encoder": BIOVIL, "text_encoder": CXR_BERT, "aggregation": "global"}
    study = study_with(objectives={"BioViL": biovil}, similarity={"aggregation": "lse", "lse_sharpness": 5.0})
    settings = {run.objective: run.settings for run in all_runs("world", study)}
    assert settings["BioViL"]["projection"]["name"] == "released"
    assert (settings["BioViL"]["encoder"], settings["CL"]["encoder"]["name"]) == (BIOVIL, "small")
    aggregations = [settings[name]["similarity"]["aggregation"] for name in ("BioViL", "CLIP", "CL")]
    assert aggregations == ["global", "lse", "lse"]
    with pytest.raises(UserError, match=r"objectives\.BioViL uses released projections, but .*projection"):
        study_with(objectives={"BioViL": biovil | {"text_encoder": CXR_BERT | {"projection": None}}})


def test_networks_without_training_keep_the_features_of_images():
    random = {"name": "untrained", "encoder": {"name": "resnet50"}, "text_encoder": {"name": "small"}}
    study = study_with(objectives={"Untrained": {"name": "untrained"}, "Random": random})
    settings = {run.objective: run.settings for run in all_runs("world", study)}
    assert settings["Untrained"]["encoder"] == settings["CL"]["encoder"]
    assert settings["Random"]["encoder"] == {"name": "resnet50", "weights": None}
    assert {settings[name]["projection"]["name"] for name in ("Untrained", "Random")} == {"none"}


def test_training_can_start_from_released_projections():
    study = study_with(encoder=CLIP, text_encoder=CLIP, projection={"name": "released"})
    trained, released = (next(run for run in all_runs("world", study) if run.objective == name) for name in ("CL", "CLIP"))
    assert trained.settings["projection"] == released.settings["projection"]
    assert run_id(trained, "checksum") != run_id(released, "checksum")


def test_the_ids_of_runs_are_those_of_earlier_versions():
    """Changed ids would make every finished run of a user train again."""
    given = {(run.objective, run.seed): run_id(run, "checksum") for run in all_runs("world", study_of())}
    assert given == {
        ("CL", 0): "a7c14b6d481b",
        ("CL", 1): "bdab15f560cb",
        ("DCL-LM", 0): "34323aba21ee",
        ("DCL-LM", 1): "a8b814c000c3",
        ("Oracle", 0): "19d8148cb288",
        ("Oracle", 1): "05a2fcc4a662",
    }


def test_technical_settings_and_stated_defaults_do_not_change_the_id():
    def identity(**changes):
        return run_id(all_runs("world", study_of(**changes))[0], "checksum")

    training = tiny_world()["training"]
    assert identity(training=training | {"threads": 2, "weight_decay": 0.01}) == identity()
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
            ["world.primary.task 'zero-shot' needs labels with prompts, which flickr8k does not have; remove or change it."],
        ),
        (
            {
                "primary": {**BY_RECALL, "labels": "truth", "treatment": "DCL-LM", "baseline": "CL"},
                "evaluation": {"fine_tuning": {}, "chexpert_8x200": {"path": "data/chexpert", "lists": "data/convirt"}},
            },
            [
                "world.primary.labels is 'truth'; expected one of: report.",
                "world.evaluation.chexpert_8x200 needs greyscale images, which flickr8k does not have; remove or change it.",
                "world.evaluation.fine_tuning needs labels, which flickr8k does not have; remove or change it.",
            ],
        ),
        (
            {
                "objectives": {"CL": {"name": "cl"}, "Oracle": {"name": "oracle"}, "Remove": {"name": "remove", "by": "labels"}},
                "primary": {**BY_RECALL, "treatment": "Remove", "baseline": "CL", "oracle": "Oracle"},
            },
            [
                "world.objectives.Oracle needs known matches, which flickr8k does not have; remove or change it.",
                "world.objectives.Remove.by needs labels, which flickr8k does not have; remove or change it.",
            ],
        ),
    ],
)
def test_settings_that_need_labels_or_truth_are_rejected_without_them(changes, sentences):
    objectives = {"CL": {"name": "cl"}, "DCL-LM": {"name": "dcl", "class_probability": "language model"}}
    study = tiny_world(**{"objectives": objectives, **CAPTIONED, "figures": {}, **changes})
    try:
        load_configuration({"captions": CAPTIONS, "world": study}, "study.yaml")
        said = []
    except UserError as refused:
        said = str(refused).splitlines()
    assert said == [f"study.yaml: {sentence}" for sentence in sentences]


SWEEP = {"CL": {"name": "cl"}, "DCL": {"name": "dcl", "class_probability": [0.05, 0.1]}, "Oracle": {"name": "oracle"}}
OF_8X200 = {"chexpert_8x200": {"path": "data/chexpert", "lists": "data/convirt"}}
BY_PRECISION = {"task": "chexpert 8x200", "metric": "Prec"}
COMPARED = {"treatment": "DCL", "baseline": "CL", "oracle": "Oracle"}


def refused(words=None, **changes):
    """The sentences that refuse a study, without the name of the file; none: it is accepted."""
    try:
        load_configuration({"words": words or tiny_words(), "world": tiny_world(figures={}, **changes)}, "study.yaml")
    except UserError as error:
        return [sentence.removeprefix("study.yaml: world.") for sentence in str(error).splitlines()]
    return []


def test_a_causal_language_model_does_not_embed():
    objectives = tiny_world()["objectives"] | {"Remove": {"name": "remove"}}
    (said,) = refused(tiny_words(scoring={"variant": "causal", "device": "cpu"}), objectives=objectives)
    assert said.startswith("objectives.Remove.by is text, but words.scoring.variant is causal;")
    assert not refused(objectives=objectives)


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"targets": {"name": "softmax"}}, ("targets.name is softmax", "remove targets")),
        ({"guide": {"name": "self"}}, ("guide is set", "remove guide")),
        ({"targets": {"name": "fnc"}, "guide": {"name": "self"}}, ("targets.name is fnc", "remove targets and guide")),
    ],
)
def test_learned_thresholds_take_no_guide_and_no_targets_that_need_one(settings, facts):
    glofnd = {"name": "glofnd", "targets": {"name": "half_uniform"}}
    objectives = tiny_world()["objectives"]
    (said,) = refused(objectives=objectives | {"GloFND": glofnd | settings})
    assert all(fact in said for fact in ("objectives.GloFND.", "glofnd", *facts))
    assert not refused(objectives=objectives | {"GloFND": glofnd})


def test_variants_are_selected_by_a_measurement_of_the_validation_split_alone():
    (said,) = refused(objectives=SWEEP, evaluation=OF_8X200, primary=COMPARED | BY_PRECISION)
    assert said.startswith("primary.task is 'chexpert 8x200'")
    assert "validation" in said
    assert "DCL" in said
    assert "zero-shot" in said
    one = SWEEP | {"DCL": {"name": "dcl", "class_probability": 0.1}}
    assert refused(objectives=one, evaluation=OF_8X200, primary=COMPARED | BY_PRECISION) == []
    training = tiny_world()["training"] | {"batch_size": [16, 32]}
    by_size = {"training": training, "conditions": ["batch_size"]}
    primary = COMPARED | BY_PRECISION | {"dataset": "batch_size=16"}
    assert refused(objectives=one, evaluation=OF_8X200, primary=primary, **by_size) == []
    assert refused(objectives=SWEEP, primary=COMPARED) == []


def test_boxes_of_the_test_split_alone_select_no_variant():
    words = tiny_words(reports={"source": "mimic_cxr", "path": "reports"})
    dataset = {"source": "mimic_cxr", "text": "words", "path": "images", "ms_cxr": "boxes"}
    objectives = {"CL": {"name": "cl"}, "DCL": {"name": "dcl", "class_probability": [0.05, 0.1]}}
    primary = {"treatment": "DCL", "baseline": "CL", "task": "grounding", "metric": "CNR"}
    (said,) = refused(words, dataset=dataset, objectives=objectives, primary=primary)
    assert said.startswith("primary.task is 'grounding'")
    assert refused(words, dataset=dataset, objectives=objectives | {"DCL": {"name": "reco"}}, primary=primary) == []


@pytest.mark.parametrize(
    "primary",
    [
        {"task": "retrieval report", "labels": "report", "metric": "MedR"},  # smaller is better
        {"task": "retrieval report", "labels": "report", "metric": "R"},  # the mean over k has no chance level
        {"task": "region retrieval", "labels": "pair", "metric": "R", "direction": "text to image", "k": 10},
        {"task": "precision", "metric": "Prec"},
        {"task": "grounding", "metric": "mIoU"},
    ],
    ids=lambda primary: " ".join(map(str, primary.values())),
)
def test_a_primary_measurement_has_a_chance_level_and_is_better_if_higher(primary):
    evaluation = {"region_retrieval": {}, "precision": {}}
    (said,) = refused(evaluation=evaluation, primary=tiny_world()["primary"] | primary)
    assert f"{primary['task']}, {primary['metric']}" in said
    assert "chance level" in said
    assert "retrieval report, R with a direction and a k" in said


def test_a_contrast_has_two_objectives():
    (said,) = refused(contrasts=[{"treatment": "CL", "baseline": "CL"}])
    assert said.startswith("contrasts.0.treatment and contrasts.0.baseline are both 'CL'")


@pytest.mark.parametrize(
    ("contrast", "facts"),
    [
        ({"treatment": "DCLX", "baseline": "CL"}, ["contrasts.0", "'DCLX'"]),
        ({"treatment": "Oracle", "baseline": "CL", "family": "primary"}, ["contrasts.0.family", "'primary'"]),
        ({"treatment": "Oracle", "baseline": "CL", "minus": {"treatment": "X", "baseline": "CL"}}, ["contrasts.0.minus", "'X'"]),
    ],
)
def test_named_contrasts_of_unknown_objectives_or_foreign_families_are_refused(contrast, facts):
    (said,) = refused(contrasts=[contrast])
    assert all(fact in said for fact in facts)


def test_own_labels_need_prompts_that_name_them():
    words = tiny_words(reports={"source": "image_table", "path": "images", "table": "table.csv"})
    dataset = {"source": "image_table", "text": "words", "label_columns": ["mass"]}
    given = {"dataset": dataset, "objectives": {"CL": {"name": "cl"}, "ReCo": {"name": "reco"}}}
    given["primary"] = {"treatment": "ReCo", "baseline": "CL"}
    prompts = {"negative": "No mass.", "positive": "A mass."}
    assert refused(words, **given, evaluation={"zero_shot": {"prompts": {"mass": prompts}}}) == []
    assert refused(words, **given)[0].startswith("primary.task 'zero-shot' needs labels with prompts, which image_table does not")
    said = refused(words, **given, evaluation={"zero_shot": {"prompts": {"mass": prompts, "mas": prompts}}})
    assert said == ["evaluation.zero_shot.prompts refers to 'mas'; expected one of the labels: mass."]


def test_the_labels_that_the_configuration_knows_are_those_of_the_sources():
    for known in (chexpert_labels.CHEX5, open_i.HEADINGS, radiographs.CHEX5, PROMPTS):
        assert set(PairSettings.label_names) == set(known)
