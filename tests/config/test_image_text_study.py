"""An image–text study is valid or rejected with sentences; it expands into runs like an image
study.
"""

import pytest

from tests.config.mistakes import mistakes, with_key
from tests.studies import tiny_study, tiny_words, tiny_world
from tests.textures import SETTINGS
from trueneg.config.reading import load_configuration
from trueneg.config.runs import all_runs, datasets, negative_counts, variants
from trueneg.data.pairs import chexpert_labels, open_i
from trueneg.data.phantom import radiographs
from trueneg.errors import UserError
from trueneg.evaluation.pairs.zero_shot import PROMPTS
from trueneg.specs.kinds.images import ImageStudy
from trueneg.specs.pairs.base import PairSettings
from trueneg.store.identity import run_id

OPEN_I = {"source": "open_i", "text": "words", "path": "folder"}


def study_of(**changes):
    return load_configuration(
        {"words": tiny_words(), "world": tiny_world(**{"sweeps": "one at a time"} | changes)},
        "study.yaml",
    ).studies["world"]


def rejected(words=None, **changes):
    """The sentences that reject a study without figures, without its name; empty if it is valid."""
    sentences = mistakes(words=words or tiny_words(), world=tiny_world(figures={}, **changes))
    return [sentence.removeprefix("world.") for sentence in sentences]


def runs_of(study, objective):
    return [run for run in all_runs("world", study) if run.objective == objective]


def ids_of(study, objective):
    return {run_id(run, "checksum") for run in runs_of(study, objective)}


def test_runs_have_the_settings_that_training_reads():
    run = all_runs("world", study_of())[0]
    for section, values in SETTINGS.items():
        assert values.keys() <= run.settings[section].keys() | {"device", "threads"}, section


@pytest.mark.parametrize(
    ("path", "value", "start", "expected"),
    [
        (
            "dataset.text",
            "word",
            "dataset.text refers to 'word'",
            "likelihood studies in the given files: words",
        ),
        ("dataset.corpus", "a", "dataset.corpus refers to 'a'", "data sets: phantom"),
        (
            "dataset.corpus",
            "seed={seed}",
            "dataset.corpus refers to 'seed=1'",
            "data sets: phantom",
        ),
        (
            "dataset.source",
            "mimic",
            "dataset.source is 'mimic'",
            "'flickr8k', 'image_table', 'mimic_cxr', 'open_i', 'phantom'",
        ),
        ("dataset.resolution", 16, "dataset.resolution is 16", "greater than or equal to 32"),
        (
            "objectives.CL.name",
            "clip2",
            "objectives.CL.name is 'clip2'",
            "one of 'adnce', 'bcl', 'biovil', 'clip'",
        ),
        (
            "objectives.DCL-LM.class_probability",
            "model",
            "objectives.DCL-LM.class_probability is 'model'",
            "'language model'",
        ),
        (
            "objectives.DCL-LM.class_probability",
            {"true_share": 1.5},
            "objectives.DCL-LM.class_probability.true_share",
            "less than 1",
        ),
        ("objectives.CL.beta", 1, "objectives.CL.beta", "is not a known key"),
        (
            "similarity.aggregation",
            "lse+nl",
            "similarity.lse_sharpness must be set",
            "if aggregation contains lse",
        ),
        ("training.epochs", None, "training must set", "exactly one of epochs and updates"),
        ("primary.oracle", "CL", "primary.oracle is 'CL'", "an objective whose name is oracle"),
        ("primary.task", "linear probe", "primary.fraction is missing", "one of: 1."),
        ("primary.labels", "truth", "primary.labels is 'truth'", "one of: nothing."),
        ("primary.metric", "R", "primary.metric is 'R'", "AUC, AUC positive prompt, ACC"),
        ("primary.metric", "acc", "primary.metric is 'acc'", "AUC, AUC positive prompt, ACC"),
        ("primary.metric", "ACC", "primary is zero-shot, ACC", "a measurement with a known chance"),
        (
            "primary.group",
            "fracture",
            "primary.group is 'fracture'",
            "one of: nothing, cardiomegaly, edema,",
        ),
        (
            "conditions",
            ["batch_size"],
            "conditions contains batch_size",
            "training.batch_size is 16; expected a list",
        ),
        (
            "figures.overlays.objectives",
            ["DCL"],
            "figures.overlays.objectives refers to 'DCL'",
            "expected one of",
        ),
    ],
)
def test_an_error_names_the_key_the_value_found_and_the_value_expected(
    path, value, start, expected
):
    sentences = mistakes(words=tiny_words(), world=with_key(tiny_world(), path, value))
    assert any(
        sentence.startswith(f"world.{start}") and expected in sentence for sentence in sentences
    )


@pytest.mark.parametrize(
    ("direction", "k", "is_valid"), [("text to image", 10, True), (None, None, False)]
)
def test_samples_are_covered_where_retrieval_has_a_direction(direction, k, is_valid):
    primary = {"task": "retrieval sentence", "labels": "report", "metric": "R"}
    primary |= {"direction": direction, "k": k, "over": "runs and samples"}
    world = tiny_world(evaluation={"retrieval": {"ks": [10]}})
    world["primary"] |= primary
    found = mistakes(words=tiny_words(), world=world)
    assert len(found) == 1 - is_valid
    assert all("primary.over" in mistake and "direction" in mistake for mistake in found)


@pytest.mark.parametrize(
    ("name", "studies"),
    [("tiny", {"tiny": tiny_study()}), ("world", {"words": tiny_words(), "world": tiny_world()})],
)
def test_a_study_whose_data_know_the_false_negatives_names_an_oracle_or_says_that_it_has_none(
    name, studies
):
    primary = studies[name]["primary"]
    assert (
        mistakes(**studies | {name: studies[name] | {"primary": primary | {"oracle": None}}}) == []
    )
    del primary["oracle"]
    (sentence,) = mistakes(**studies)
    assert sentence.startswith(
        f"{name}.primary.oracle is missing; expected an objective whose name is oracle, or none: "
    )


def test_reports_of_another_source_are_rejected():
    (sentence,) = rejected(tiny_words(reports={"source": "open_i"}))
    assert sentence.startswith("dataset.source is 'phantom'")
    assert "'open_i'" in sentence


def test_settings_that_need_boxes_are_rejected_without_boxes():
    words = tiny_words(reports={"source": "open_i"})
    sentences = mistakes(words=words, world=tiny_world(dataset=OPEN_I))
    assert any(
        sentence.startswith("world.figures.overlays needs boxes, which open_i")
        for sentence in sentences
    )
    assert rejected(words, dataset=OPEN_I) == []


def test_a_corpus_must_be_named_if_there_are_several():
    sentences = rejected(tiny_words(reports={"source": "phantom", "correlation": [0.0, 0.5]}))
    assert sentences == [
        "dataset.corpus is missing; expected one of the data sets: correlation=0, correlation=0.5."
    ]


def test_sweeps_make_variants_and_conditions_make_data_sets():
    objectives = tiny_world()["objectives"] | {
        "DCL": {"name": "dcl", "class_probability": [0.05, 0.1]}
    }
    training = tiny_world()["training"] | {"batch_size": [16, 32]}
    primary = tiny_world()["primary"] | {"dataset": "batch_size=16"}
    study = study_of(
        objectives=objectives, training=training, conditions=["batch_size"], primary=primary
    )
    assert list(datasets(study)) == ["batch_size=16", "batch_size=32"]
    assert list(variants(study)["DCL"]) == [
        "DCL,class_probability=0.05",
        "DCL,class_probability=0.1",
    ]
    assert negative_counts(study) == {"batch_size=16": 15, "batch_size=32": 31}
    assert (
        len(
            {
                study.data_key(settings.model_dump(mode="json"))
                for settings in datasets(study).values()
            }
        )
        == 1
    )


CLIP = {"name": "open_clip", "model": "RN50-quickgelu", "weights": "openai"}
CLIP_ZS = {"name": "released", "encoder": CLIP, "text_encoder": CLIP}


def study_with(**changes):
    """A study with a released CLIP as well; objectives in `changes` are added or replaced."""
    objectives = tiny_world()["objectives"] | {"CLIP": CLIP_ZS} | changes.pop("objectives", {})
    world = {"dataset": tiny_world()["dataset"] | {"resolution": 64}, "encoder": {"name": "small"}}
    return study_of(**(world | changes), objectives=objectives)


def test_training_settings_do_not_change_the_runs_of_released_networks():
    study = study_with()
    first, _ = runs_of(study, "CLIP")
    assert (first.settings["encoder"]["name"], first.settings["text_encoder"]["weights"]) == (
        "open_clip",
        "openai",
    )
    assert first.settings["projection"]["name"] == "released"
    assert first.settings["objective"] == {
        "name": "released",
        "encoder": None,
        "text_encoder": None,
        "aggregation": None,
    }
    assert len({run_id(run, "checksum") for run in all_runs("world", study)}) == 8
    other = study_with(
        training=tiny_world()["training"]
        | {
            "epochs": 7,
            "learning_rate": [1e-3, 1e-2],
            "batch_size": [16, 32],
        },
        conditions=["batch_size"],
        primary=tiny_world()["primary"] | {"dataset": "batch_size=16"},
        projection={"dimensions": [8, 16]},
        encoder={"name": "resnet18"},
        figures={},
    )
    assert (len(variants(other)["CLIP"]), len(variants(other)["CL"])) == (1, 3)
    assert {run.dataset for run in runs_of(other, "CLIP")} == {"batch_size=16", "batch_size=32"}
    assert ids_of(other, "CLIP") == ids_of(study, "CLIP")


def test_other_released_weights_or_another_crop_change_the_run():
    ids, other = ids_of(study_with(), "CLIP"), CLIP | {"weights": "cc12m"}
    weights = CLIP_ZS | {"encoder": other, "text_encoder": other}
    assert not ids & ids_of(study_with(objectives={"CLIP": weights}), "CLIP")
    assert not ids & ids_of(study_with(augmentation={"crop": 0.75}), "CLIP")
    assert not ids & ids_of(
        study_with(similarity={"aggregation": "lse", "lse_sharpness": 5.0}), "CLIP"
    )
    assert ids == ids_of(study_with(similarity={"logit_scale": 7.0}), "CLIP")


SMALL, BERT, CC12M = (
    {"name": "small"},
    {"name": "pretrained", "model": "biovil"},
    CLIP | {"weights": "cc12m"},
)
BIOVIL = {"name": "biovil", "weights": "image.safetensors"}
CXR_BERT = {"name": "pretrained", "model": "cxr-bert", "projection": "text.safetensors"}


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        (
            {"objectives": {"CLIP": CLIP_ZS | {"encoder": SMALL}}},
            ["CLIP", "encoder is (name='small'", "weights='openai'"],
        ),
        (
            {"objectives": {"CLIP": CLIP_ZS | {"text_encoder": BERT}}},
            ["CLIP", "name='pretrained' model='biovil'"],
        ),
        ({"objectives": {"CLIP": CLIP_ZS | {"text_encoder": CC12M}}}, ["CLIP", "weights='cc12m'"]),
        (
            {
                "objectives": {
                    "CLIP": (
                        CLIP_ZS
                        | dict.fromkeys(("encoder", "text_encoder"), CLIP | {"weights": "none"})
                    )
                }
            },
            ["CLIP", "model='RN50-quickgelu' weights='none'", "pretrained weights"],
        ),
        (
            {"objectives": {"CLIP": CLIP_ZS | {"logit_scale": 5}}},
            ["CLIP.logit_scale is not a known key"],
        ),
        (
            {"objectives": {"CLIP": CLIP_ZS | {"encoder": {"name": "vit"}}}},
            ["CLIP.encoder.name is 'vit'; expected one of"],
        ),
        (
            {
                "objectives": {
                    "CLIP": (
                        CLIP_ZS
                        | {
                            "encoder": BIOVIL,
                            "text_encoder": CXR_BERT | {"projection": None},
                        }
                    )
                }
            },
            ["CLIP uses released projections", "text_encoder.projection"],
        ),
        (
            {"projection": {"name": ["linear", "released"]}},
            ["CL uses released projections, but encoder is"],
        ),
        (
            {"text_encoder": CLIP, "objectives": {"BioViL": {"name": "biovil"}}},
            ["BioViL masks words", "BERT", "'open_clip'"],
        ),
    ],
)
def test_incompatible_networks_are_rejected(changes, facts):
    with pytest.raises(UserError) as error:
        study_with(**changes)
    assert all(fact in str(error.value) for fact in (f"world.objectives.{facts[0]}", *facts[1:]))


def test_other_networks_can_be_released_with_both_projections():
    """In a study with another similarity, theirs can be the cosine of the pooled image."""
    biovil = {
        "name": "released",
        "encoder": BIOVIL,
        "text_encoder": CXR_BERT,
        "aggregation": "global",
    }
    study = study_with(
        objectives={"BioViL": biovil}, similarity={"aggregation": "lse", "lse_sharpness": 5.0}
    )
    settings = {run.objective: run.settings for run in all_runs("world", study)}
    assert settings["BioViL"]["projection"]["name"] == "released"
    assert (settings["BioViL"]["encoder"], settings["CL"]["encoder"]["name"]) == (BIOVIL, "small")
    aggregations = [
        settings[name]["similarity"]["aggregation"] for name in ("BioViL", "CLIP", "CL")
    ]
    assert aggregations == ["global", "lse", "lse"]


def test_networks_without_training_keep_the_features_of_images():
    random = {
        "name": "untrained",
        "encoder": {"name": "resnet50"},
        "text_encoder": {"name": "small"},
    }
    study = study_with(objectives={"Untrained": {"name": "untrained"}, "Random": random})
    settings = {run.objective: run.settings for run in all_runs("world", study)}
    assert settings["Untrained"]["encoder"] == settings["CL"]["encoder"]
    assert settings["Random"]["encoder"] == {"name": "resnet50", "weights": None}
    assert {settings[name]["projection"]["name"] for name in ("Untrained", "Random")} == {"none"}


def test_training_can_start_from_released_projections():
    study = study_with(encoder=CLIP, text_encoder=CLIP, projection={"name": "released"})
    trained, released = (runs_of(study, name)[0] for name in ("CL", "CLIP"))
    assert trained.settings["projection"] == released.settings["projection"]
    assert run_id(trained, "checksum") != run_id(released, "checksum")


def test_the_ids_of_runs_are_those_of_earlier_versions():
    """Changed ids would force users to retrain every finished run."""
    ids = [run_id(run, "checksum") for run in all_runs("world", study_of())]
    assert ids == [
        "a7c14b6d481b",
        "bdab15f560cb",
        "34323aba21ee",
        "a8b814c000c3",
        "19d8148cb288",
        "05a2fcc4a662",
    ]


def test_technical_settings_and_stated_defaults_do_not_change_the_id():
    training, ids = tiny_world()["training"], ids_of(study_of(), "CL")
    assert ids_of(study_of(training=training | {"threads": 2, "weight_decay": 0.01}), "CL") == ids
    assert not ids_of(study_of(training=training | {"weight_decay": 0.1}), "CL") & ids
    assert (
        not ids_of(study_of(text_encoder=tiny_world()["text_encoder"] | {"dropout": 0.2}), "CL")
        & ids
    )


CAPTIONS = tiny_words(reports={"source": "flickr8k", "path": "data/flickr8k"})
CAPTIONED = {"source": "flickr8k", "text": "words", "resolution": 32}
BY_RECALL = {
    "task": "retrieval sentence",
    "labels": "report",
    "metric": "R",
    "direction": "text to image",
    "k": 10,
}
CHEXPERT = {"chexpert_8x200": {"path": "data/chexpert", "lists": "data/convirt"}}
BY_TRUTH = {
    "CL": {"name": "cl", "switched_off_by": "true"},
    "DCL": {"name": "dcl", "class_probability": "true"},
    "DCL-LM": {"name": "hcl", "class_probability": ["language model", {"true_share": 0.5}]},
}
BY_LABELS = {
    "CL": {"name": "cl"},
    "Oracle": {"name": "oracle"},
    "DCL-LM": {"name": "remove", "by": "labels"},
}


@pytest.mark.parametrize(
    ("changes", "starts"),
    [
        ({}, []),
        (
            {"primary": {}},
            ["primary.task 'zero-shot' needs labels with prompts, which flickr8k does not have"],
        ),
        (
            {
                "primary": BY_RECALL | {"labels": "truth"},
                "evaluation": {"fine_tuning": {}, **CHEXPERT},
            },
            [
                "primary.labels is 'truth'; expected one of: report.",
                "evaluation.chexpert_8x200 needs greyscale images, which flickr8k does not have",
                "evaluation.fine_tuning needs labels, which flickr8k does not have",
            ],
        ),
        (
            {"objectives": BY_LABELS, "primary": BY_RECALL | {"oracle": "Oracle"}},
            [
                "objectives.Oracle needs known matches, which flickr8k does not have",
                "objectives.DCL-LM.by needs labels, which flickr8k does not have",
            ],
        ),
        (
            {
                "objectives": {
                    "CL": {"name": "cl"},
                    "DCL-LM": {"name": "guided", "guide": {"name": "labels"}},
                }
            },
            ["objectives.DCL-LM.guide needs labels, which flickr8k does not have"],
        ),
        (
            {"objectives": BY_TRUTH},
            [
                (
                    "objectives.CL.switched_off_by needs known class probabilities, which flickr8k"
                    " does not have"
                ),
                (
                    "objectives.DCL.class_probability needs known class probabilities, which"
                    " flickr8k does not have"
                ),
                (
                    "objectives.DCL-LM.class_probability needs known class probabilities, which"
                    " flickr8k does not have"
                ),
            ],
        ),
    ],
)
def test_settings_that_need_labels_or_truth_are_rejected_without_them(changes, starts):
    objectives = {
        "CL": {"name": "cl"},
        "DCL-LM": {"name": "dcl", "class_probability": "language model"},
    }
    changes = {"objectives": objectives, "primary": BY_RECALL, **changes, "dataset": CAPTIONED}
    changes["primary"] = {"treatment": "DCL-LM", "baseline": "CL", **changes["primary"]}
    sentences = rejected(CAPTIONS, **changes, sweeps="one at a time")
    assert len(sentences) == len(starts)
    assert all(
        sentence.startswith(start) for sentence, start in zip(sentences, starts, strict=True)
    )


@pytest.mark.parametrize(
    ("stated", "recorded"),
    [
        ({}, {"keep"}),
        ({"same_text": "exclude"}, {"exclude"}),
        ({"same_text": ["positives", "keep"]}, {"positives", "keep"}),
    ],
)
def test_runs_record_what_happens_to_pairs_with_the_same_text(stated, recorded):
    study = study_of(
        objectives=tiny_world()["objectives"] | {"CL": {"name": "cl", **stated}}, figures={}
    )
    runs = [run for run in all_runs("world", study) if run.objective.partition(",")[0] == "CL"]
    assert {run.settings["objective"]["same_text"] for run in runs} == recorded
    earlier, ids = ids_of(study_of(), "CL"), {run_id(run, "checksum") for run in runs}
    # the records of earlier runs lack the setting
    assert len(earlier & ids) == len(earlier) * ("keep" in recorded)
    assert len(ids) == len(earlier) * len(recorded)
    assert (
        "same_text"
        not in all_runs("tiny", ImageStudy.model_validate(tiny_study()))[0].settings["objective"]
    )


SWEEP = {
    "CL": {"name": "cl"},
    "DCL": {"name": "dcl", "class_probability": [0.05, 0.1]},
    "Oracle": {"name": "oracle"},
}
COMPARED = {"treatment": "DCL", "baseline": "CL", "oracle": "Oracle"}
BY_PRECISION = COMPARED | {"task": "chexpert 8x200", "metric": "Prec"}


def test_a_trained_language_model_is_not_causal():
    causal = tiny_words(scoring={"variant": "causal", "device": "cpu"})
    (sentence,) = mistakes(words=causal)
    assert sentence.startswith("words.language_models.BERT.train is true, but scoring.variant is")
    causal["language_models"] = {"GPT-2": {"model": "gpt2", "train": False}}
    assert not mistakes(words=causal)


def test_a_language_model_with_its_own_code_does_not_embed():
    own = {"model": "mine", "train": False, "trust_remote_code": True}
    objectives = tiny_world()["objectives"] | {"Remove": {"name": "remove"}}
    models = tiny_words()["language_models"] | {"Mine": own}
    (sentence,) = rejected(
        tiny_words(language_models=models, eta={"language_model": "Mine"}), objectives=objectives
    )
    assert sentence.startswith("objectives.Remove.by is text, but words.language_models.Mine.trust")
    assert not rejected(tiny_words(language_models=models), objectives=objectives)


def test_a_causal_language_model_does_not_embed():
    objectives = tiny_world()["objectives"] | {"Remove": {"name": "remove"}}
    models = {"GPT-2": {"model": "gpt2", "train": False}}
    causal = tiny_words(scoring={"variant": "causal", "device": "cpu"}, language_models=models)
    (sentence,) = rejected(causal, objectives=objectives)
    assert sentence.startswith("objectives.Remove.by is text, but words.scoring.variant is causal;")
    assert not rejected(objectives=objectives)


@pytest.mark.parametrize(
    ("settings", "facts"),
    [
        ({"targets": {"name": "softmax"}}, ("targets.name is softmax", "remove targets")),
        ({"guide": {"name": "self"}}, ("guide is set", "remove guide")),
        (
            {"targets": {"name": "fnc"}, "guide": {"name": "self"}},
            ("targets.name is fnc", "remove targets and guide"),
        ),
    ],
)
def test_learned_thresholds_take_no_guide_and_no_targets_that_need_one(settings, facts):
    glofnd = {"name": "glofnd", "targets": {"name": "half_uniform"}}
    objectives = tiny_world()["objectives"]
    (sentence,) = rejected(objectives=objectives | {"GloFND": glofnd | settings})
    assert all(fact in sentence for fact in ("objectives.GloFND.", "glofnd", *facts))
    assert not rejected(objectives=objectives | {"GloFND": glofnd})


def tuned_by(primary, **changes):
    """A study whose objectives are all tuned."""
    scales = {"logit_scale": [5, 10]}
    names = {"CL": "cl", "DCL": "dcl", "Oracle": "oracle"}
    objectives = {key: {"name": name, **scales} for key, name in names.items()}
    objectives["DCL"]["class_probability"] = 0.1
    return {"objectives": objectives, "primary": primary, "tuning": {"seeds": [90]}} | changes


def test_variants_are_selected_by_a_measurement_of_the_validation_split_alone():
    (sentence,) = rejected(**tuned_by(BY_PRECISION, evaluation=CHEXPERT))
    assert sentence.startswith("primary.task is 'chexpert 8x200'")
    assert all(fact in sentence for fact in ("validation", "tuning.by", "zero-shot"))
    by = {"task": "zero-shot", "metric": "AUC"}
    tuning = {"seeds": [90], "by": by}
    assert rejected(**tuned_by(BY_PRECISION, evaluation=CHEXPERT, tuning=tuning)) == []
    assert rejected(**tuned_by(COMPARED | by)) == []
    shown = {"objectives": SWEEP, "evaluation": CHEXPERT, "primary": BY_PRECISION}
    assert rejected(**shown, sweeps="one at a time") == []


def test_several_values_need_tuning_unless_they_are_compared_one_at_a_time():
    primary = COMPARED | {"task": "zero-shot", "metric": "AUC"}
    (sentence,) = rejected(objectives=SWEEP, primary=primary)
    assert sentence.startswith("objectives: ")
    assert all(fact in sentence for fact in ("DCL", "tuning", "sweeps", "one at a time"))
    assert "Oracle" not in sentence
    assert rejected(objectives=SWEEP, primary=primary, sweeps="one at a time") == []
    single = SWEEP | {"DCL": {"name": "dcl", "class_probability": [0.1]}}
    assert rejected(objectives=single, primary=primary) == []
    by_size = {
        "training": tiny_world()["training"] | {"batch_size": [16, 32]},
        "conditions": ["batch_size"],
        "primary": primary | {"dataset": "batch_size=16"},
    }
    assert rejected(objectives=single, **by_size) == []


def test_boxes_of_the_test_split_alone_select_no_variant():
    words = tiny_words(reports={"source": "mimic_cxr", "path": "reports"})
    dataset = {"source": "mimic_cxr", "text": "words", "path": "images", "ms_cxr": "boxes"}
    primary = {"treatment": "DCL", "baseline": "CL", "task": "grounding", "metric": "CNR signed"}
    tuned = tuned_by(primary, dataset=dataset)
    del tuned["objectives"]["Oracle"]
    (sentence,) = rejected(words, **tuned)
    assert sentence.startswith("primary.task is 'grounding'")
    objectives = {"CL": {"name": "cl"}, "DCL": {"name": "reco"}}
    assert rejected(words, dataset=dataset, objectives=objectives, primary=primary) == []


def test_the_mean_recall_of_both_directions_can_be_the_primary_measurement():
    primary = {"task": "retrieval report", "labels": "report", "metric": "R"}
    assert (
        rejected(evaluation={"retrieval": {"ks": [10]}}, primary=tiny_world()["primary"] | primary)
        == []
    )


@pytest.mark.parametrize(
    "primary",
    [
        {"task": "retrieval report", "labels": "report", "metric": "MedR"},  # smaller is better
        {
            "task": "region retrieval",
            "labels": "pair",
            "metric": "R",
            "direction": "text to image",
            "k": 10,
        },
        {"task": "precision", "metric": "Prec"},
        {"task": "grounding", "metric": "mIoU"},
        {"task": "grounding", "metric": "CNR"},  # an absolute value
    ],
    ids=lambda primary: " ".join(map(str, primary.values())),
)
def test_a_primary_measurement_has_a_chance_level_and_is_better_if_higher(primary):
    evaluation = {"region_retrieval": {}, "precision": {}}
    (sentence,) = rejected(evaluation=evaluation, primary=tiny_world()["primary"] | primary)
    assert f"{primary['task']}, {primary['metric']}" in sentence
    assert "chance level" in sentence
    assert "retrieval report, R with a direction and a k" in sentence


@pytest.mark.parametrize(
    ("contrast", "facts"),
    [
        ({"treatment": "CL"}, ["contrasts.0.treatment", "contrasts.0.baseline", "both 'CL'"]),
        ({"treatment": "DCLX"}, ["contrasts.0.treatment", "'DCLX'"]),
        ({"family": "primary"}, ["contrasts.0.family", "'primary'"]),
        ({"minus": {"treatment": "X", "baseline": "CL"}}, ["contrasts.0.minus.treatment", "'X'"]),
    ],
)
def test_contrasts_need_two_known_objectives_and_a_family_of_their_own(contrast, facts):
    (sentence,) = rejected(contrasts=[{"treatment": "Oracle", "baseline": "CL", **contrast}])
    assert all(fact in sentence for fact in facts)


def test_labels_of_own_images_need_prompts_that_name_them():
    words = tiny_words(reports={"source": "image_table", "path": "images", "table": "table.csv"})
    dataset = {"source": "image_table", "text": "words", "label_columns": ["mass"]}
    objectives = {"CL": {"name": "cl"}, "ReCo": {"name": "reco"}}
    changes = {
        "dataset": dataset,
        "objectives": objectives,
        "primary": {"treatment": "ReCo", "baseline": "CL"},
    }
    prompts = {"mass": {"negative": "No mass.", "positive": "A mass."}}
    assert rejected(words, **changes, evaluation={"zero_shot": {"prompts": prompts}}) == []
    assert rejected(words, **changes)[0].startswith(
        "primary.task 'zero-shot' needs labels with prompts, which image_table"
    )
    (sentence,) = rejected(
        words, **changes, evaluation={"zero_shot": {"prompts": prompts | {"mas": prompts["mass"]}}}
    )
    assert (
        sentence
        == "evaluation.zero_shot.prompts refers to 'mas'; expected one of the labels: mass."
    )


@pytest.mark.parametrize("section", ["dataset", "reports"])
def test_hard_negative_captions_are_refused_with_a_remedy(section):
    place = {"source": "image_table", "path": "images", "table": "table.csv"}
    columns = {"negative_columns": ["wrong"]}
    reports = place | (columns if section == "reports" else {})
    dataset = {"source": "image_table", "text": "words"}
    sentences = rejected(
        tiny_words(reports=reports), dataset=dataset | (columns if section == "dataset" else {})
    )
    refused = [sentence for sentence in sentences if "negative_columns" in sentence]
    assert len(refused) == 1
    for fact in (f"{section}.negative_columns", "CrossModalLoss", "docs/losses.md", "remove it"):
        assert fact in refused[0]


HARD = {
    "dataset": {
        "source": "image_table",
        "text": "words",
        "negative_image_columns": ["wrong"],
    }
}


@pytest.mark.parametrize(
    ("objective", "facts"),
    [
        ({"name": "cl", "directions": "image"}, ["directions is image", "set text or both"]),
        ({"name": "reco"}, ["compares only pairs", "dataset.negative_image_columns"]),
    ],
)
def test_objectives_that_do_not_fit_hard_negatives_are_refused(objective, facts):
    reports = {"source": "image_table", "path": "images", "table": "table.csv"}
    words = tiny_words(reports=reports | {"split_sentences": False})
    sentences = rejected(words, **HARD, objectives={"CL": {"name": "cl"}, "X": objective})
    (refused,) = [sentence for sentence in sentences if sentence.startswith("objectives.X")]
    for fact in facts:
        assert fact in refused
    scoped = {"CL": {"name": "cl"}, "X": {"name": "oracle", "scope": "hard"}}
    assert not [each for each in rejected(words, **HARD, objectives=scoped) if "scope" in each]


def test_hard_negatives_are_those_of_whole_texts():
    words = tiny_words(reports={"source": "image_table", "path": "images", "table": "table.csv"})
    (refused,) = [each for each in rejected(words, **HARD) if "negative_image_columns" in each]
    assert "words.reports.split_sentences is true" in refused
    others = [each for each in rejected(tiny_words(), **HARD) if "come from 'phantom'" in each]
    assert len(others) == 1


def test_labels_of_the_configuration_are_those_of_the_sources():
    for names in (chexpert_labels.CHEX5, open_i.HEADINGS, radiographs.CHEX5, PROMPTS):
        assert set(PairSettings.label_names) == set(names)
