"""A text study is valid or rejected with one sentence; it has the towers before training as an
objective.
"""

import pytest

from tests.config.mistakes import mistakes, with_key
from tests.studies import tiny_texts, tiny_words, tiny_world
from trueneg.config.reading import load_configuration
from trueneg.config.runs import all_runs, datasets, variants
from trueneg.store.identity import run_id

LABELS = {"train": 4, "validation_unseen": 2, "test_unseen": 2}
TABLE = tiny_texts()["dataset"]
GIVEN = {"positives": "given", "positive_column": "answer"}
OTHER = {"name": "sentence_transformers", "model": "other", "train": "none"}
WORDS = tiny_words(reports=TABLE)
TIMM, CLIP = (
    {"name": "timm", "model": "test_vit"},
    {"name": "open_clip", "model": "RN50-quickgelu", "weights": "openai"},
)


def intents(dataset=None, objective=None, **changes):
    """Return a text study with changed settings of its data set, and with one more objective."""
    study = tiny_texts(**changes)
    extra = {} if objective is None else {"X": objective}
    return study | {
        "dataset": study["dataset"] | (dataset or {}),
        "objectives": study["objectives"] | extra,
    }


def loaded(**studies):
    return load_configuration(studies, "study.yaml").studies["intents"]


def untrained_of(study):
    return [
        name
        for name, objective in study.objectives.items()
        if objective.name in ("untrained", "released")
    ]


@pytest.mark.parametrize(
    "dataset",
    [
        {},
        GIVEN,
        GIVEN | {"negative_columns": ["wrong"]},
        {"negative_columns": ["wrong"]},
        {"labels": LABELS},
        {"text": "words"},
        {"label_column": [["concept", "name"], "kind"], "group_column": ["concept"]},
    ],
)
def test_valid_data_are_accepted(dataset):
    words = WORDS | {
        "reports": (
            TABLE
            | {
                key: value
                for key, value in dataset.items()
                if key in ("positive_column", "negative_columns")
            }
        )
    }
    assert mistakes(words=words, intents=intents(dataset)) == []
    assert len(datasets(loaded(words=words, intents=intents(dataset)))) == 1


@pytest.mark.parametrize(
    ("study", "facts"),
    [
        (
            intents(objective={"name": "cl", "own_report": "left out"}),
            ["objectives.X.own_report is left out", "same_text"],
        ),
        (
            intents(GIVEN | {"negative_columns": ["wrong"]}, {"name": "reco"}),
            ["objectives.X compares only pairs", "dataset.negative_columns"],
        ),
        (
            intents(objective={"name": "guided", "guide": {"name": "encoder", "encoder": TIMM}}),
            ["objectives.X.guide.encoder", "images", "text_encoder"],
        ),
        (
            intents(objective={"name": "dcl", "class_probability": "permuted"}),
            ["objectives.X.class_probability needs a language model", "text_table", "dataset.text"],
        ),
        (
            intents(objective={"name": "remove", "by": "text"}),
            ["objectives.X.by needs a language model", "dataset.text"],
        ),
        (
            intents(objective={"name": "biovil"}),
            ["objectives.X.name is 'biovil'", "'cl', 'untrained'"],
        ),
        (intents({"text": "nothing"}), ["dataset.text refers to 'nothing'", "words"]),
        (intents({"text": "words", "corpus": "a"}), ["dataset.corpus refers to 'a'", "text_table"]),
        (
            intents({"text": "words", "label_column": "topic"}),
            ["dataset.label_column is 'topic'", "words.reports", "'label'"],
        ),
        (
            intents({"text": "words", **GIVEN}),
            ["dataset.positive_column is 'answer'", "words.reports", "None"],
        ),
        (
            intents({"text": "words", "path": "b.csv"}),
            ["dataset.path is 'b.csv'", "words.reports", "'data/texts.csv'"],
        ),
        (
            intents({"text": "words", "labels": LABELS}),
            ["dataset.labels is {'train': 4", "words.reports.labels is None"],
        ),
        (
            intents({"text": "phantom"}),
            ["dataset.source is 'text_table'", "phantom.reports.source is 'phantom'"],
        ),
        (
            intents({"positives": "dropout"}),
            [
                "dataset.positives is dropout",
                "neither a head nor a trained tower",
                "set projection.dropout",
            ],
        ),
        (
            intents({"positives": "dropout"}, projection={"dropout": [0.1, 0.0]}),
            ["dataset.positives is dropout", "set projection.dropout"],
        ),
        (
            intents({"positives": "dropout"}, projection={"name": "linear", "dropout": 0.5}),
            ["dataset.positives is dropout", "of a residual or mlp head"],
        ),
        (
            intents(projection={"name": ["residual", "none"]}),
            ["projection.name is none", "train: none", "nothing is trained"],
        ),
        (intents({"positives": "given"}), ["dataset.positives is given", ".positive_column"]),
        (
            intents({"positive_column": "answer"}),
            ["dataset.positives is same_label", ".positive_column"],
        ),
        (
            intents({"test_path": "test.csv", "split_column": "split"}),
            ["dataset.test_path", ".split_column", "remove one"],
        ),
        (
            intents({"labels": LABELS | {"imbalance": 10}}),
            ["dataset.labels.imbalance", "set .texts"],
        ),
        (
            intents({"labels": LABELS | {"texts": 100, "fraction": 0.5}}),
            ["dataset.labels.fraction", ".texts", "use .imbalance"],
        ),
        (intents({"label_column": None}), ["dataset.label_column is missing", "same_label"]),
        (
            intents(GIVEN | {"label_column": None, "labels": LABELS}),
            ["dataset.label_column is missing", ".labels"],
        ),
        (
            intents({"labels": LABELS | {"per_run": 5}}),
            ["dataset.labels.per_run is 5", "at most the 4 labels of .train"],
        ),
        (
            intents({"labels": LABELS | {"per_run": [2, 5]}}),
            ["dataset.labels.per_run is 5", "at most the 4 labels of .train"],
        ),
        (
            intents({"labels": LABELS | {"validation_unseen": 1}}),
            ["dataset.labels.validation_unseen is 1", "0, or at least 2"],
        ),
        (
            intents({"labels": LABELS | {"test_unseen": 1}}),
            ["dataset.labels.test_unseen is 1", "0, or at least 2"],
        ),
        (intents({"labels": LABELS | {"train": 1}}), ["dataset.labels.train is 1", "2"]),
        (
            with_key(intents(), "primary.task", "similarity"),
            ["primary.task 'similarity' needs rated pairs", "text_table"],
        ),
        (with_key(intents(), "primary.labels", "unseen"), ["primary.labels is 'unseen'", "seen"]),
        (
            with_key(intents(), "primary.task", "clustering"),
            ["primary.metric is 'accuracy'", "V-measure"],
        ),
        (
            intents(text_encoder={"name": "small"}),
            ["text_encoder.name is 'small'", "'sentence_transformers'"],
        ),
        (
            intents(text_encoder={"name": "vectors", "path": "a.npy", "train": "all"}),
            ["text_encoder.train is 'all'", "'none'"],
        ),
        (
            intents(similarity={"aggregation": "lse"}),
            ["similarity.aggregation is not a known key", "logit_scale"],
        ),
        (intents(figures={"overlays": {}}), ["figures.overlays is not a known key", "none"]),
    ],
)
def test_a_mistake_is_one_sentence_with_the_key_what_it_is_and_what_is_expected(study, facts):
    (sentence,) = mistakes(words=WORDS, phantom=tiny_words(), intents=study)
    assert sentence.startswith(f"intents.{facts[0]}")
    assert all(fact in sentence for fact in facts)


@pytest.mark.parametrize("positives", [["given", "same_label"], "given"])
def test_hard_negatives_are_mined_among_positives_of_one_kind(positives):
    study = intents(GIVEN | {"positives": positives}, {"name": "cl", "hard_negatives": {}})
    found = [line for line in mistakes(words=WORDS, intents=study) if "hard_negatives" in line]
    if positives == "given":
        assert not found
    else:
        (sentence,) = found
        assert sentence.startswith("intents.objectives.X.hard_negatives is set")
        assert "dataset.positives is given, same_label" in sentence
        assert "set one value" in sentence


def test_a_primary_contrast_without_an_oracle_says_so():
    study = intents()
    del study["primary"]["oracle"]
    (sentence,) = mistakes(intents=study)
    assert sentence.startswith(
        "intents.primary.oracle is missing; expected an objective whose name is oracle, or none"
    )
    assert mistakes(intents=with_key(study, "primary.oracle", None)) == []


def test_without_labels_there_is_neither_an_oracle_nor_a_class_frequency():
    primary = {
        "task": "retrieval",
        "metric": "R",
        "k": 1,
        "labels": "seen",
        "treatment": "CL",
        "baseline": "Hardness",
    }
    unlabelled = intents(GIVEN | {"label_column": None}, primary=primary)
    unlabelled["objectives"]["Hardness"] = {"name": "hcl", "class_probability": 0}
    needs = {"objectives.DCL.class_probability", "objectives.Oracle"}
    assert {
        sentence.split(" needs ")[0].removeprefix("intents.")
        for sentence in mistakes(intents=unlabelled)
    } == needs
    del unlabelled["objectives"]["DCL"], unlabelled["objectives"]["Oracle"]
    assert mistakes(intents=unlabelled) == []


def test_labels_drawn_for_each_run_need_no_likelihoods_of_their_own():
    """The sets of labels decide which texts a language model may see; which of them a run draws
    does not.
    """
    drawn = intents({"text": "words", "labels": LABELS | {"per_run": 3, "fraction": 0.5}})
    assert mistakes(words=tiny_words(reports=TABLE | {"labels": LABELS}), intents=drawn) == []
    (sentence,) = mistakes(
        words=tiny_words(reports=TABLE | {"labels": LABELS | {"seed": 1}}), intents=drawn
    )
    assert "'seed': 0" in sentence
    assert "'seed': 1" in sentence


@pytest.mark.parametrize("changes", [{}, {"positive_encoder": OTHER}])
def test_another_tower_without_training_embeds_anchors_and_positives(changes):
    mine = {"name": "vectors", "path": "mine.npy"}
    study = loaded(
        intents=intents(objective={"name": "untrained", "text_encoder": mine}, **changes)
    )
    settings = study.sections_of(study.objectives["X"])
    assert settings["text_encoder"].path == "mine.npy"
    assert "positive_encoder" not in settings
    assert study.compared == ["X"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["untrained"]),
        ({"objective": {"name": "untrained"}}, ["X"]),
        ({"positive_encoder": tiny_texts()["text_encoder"] | {"train": "all"}}, ["untrained"]),
        ({"positive_encoder": OTHER}, []),
        ({"positive_encoder": tiny_texts()["text_encoder"] | {"revision": "a"}}, []),
        ({"text_encoder": CLIP, "positive_encoder": CLIP | {"weights": "cc12m"}}, []),
        (
            {
                "text_encoder": {"name": "vectors", "path": "a.npy"},
                "positive_encoder": {"name": "vectors", "path": "b.npy"},
            },
            [],
        ),
    ],
)
def test_the_towers_before_training_are_the_first_baseline_if_they_share_a_space(changes, expected):
    study = loaded(intents=intents(**changes))
    assert untrained_of(study) == expected
    assert study.first_baseline == (expected[0] if expected else None)


def test_training_settings_do_not_change_the_runs_of_the_towers_before_training():
    def ids(**changes):
        study = loaded(intents=intents(**changes))
        return {
            run_id(run, "checksum")
            for run in all_runs("intents", study)
            if run.objective == "untrained"
        }

    changed = {"projection": {"name": "mlp", "dimensions": 8}, "similarity": {"logit_scale": 5}}
    assert len(ids()) == 2
    assert ids() == ids(training=tiny_texts()["training"] | {"updates": 7}, **changed)
    assert not ids() & ids(text_encoder=OTHER)


@pytest.mark.parametrize(
    ("encoder", "text_encoder", "is_added"),
    [
        (CLIP, CLIP, True),
        (CLIP, CLIP | {"weights": "cc12m"}, False),
        (CLIP | {"weights": "none"}, CLIP | {"weights": "none"}, False),
        (TIMM, OTHER, False),
    ],
)
def test_a_study_of_images_and_texts_has_it_if_its_towers_are_of_one_model(
    encoder, text_encoder, is_added
):
    studies = {
        "words": tiny_words(),
        "intents": tiny_world(encoder=encoder, text_encoder=text_encoder, figures={}),
    }
    study = loaded(**studies)
    assert untrained_of(study) == (["untrained"] if is_added else [])
    assert study.first_baseline == ("untrained" if is_added else None)
    if is_added:
        assert study.objectives["untrained"].name == "released"
        assert study.sections_of(study.objectives["untrained"])["projection"].name == "released"


def test_a_list_of_numbers_of_labels_or_of_fractions_makes_data_sets_of_the_same_texts():
    labels = LABELS | {"per_run": [2, 3], "fraction": [0.5, 1.0]}
    (sentence,) = mistakes(intents=intents({"labels": labels}))
    assert sentence.startswith(
        "intents.primary.dataset is missing; expected one of the data sets:"
        " labels.per_run=2,labels.fraction=0.5,"
    )
    primary = tiny_texts()["primary"] | {"dataset": "labels.per_run=2,labels.fraction=0.5"}
    study = loaded(intents=intents({"labels": labels}, primary=primary))
    made = [settings.model_dump(mode="json") for settings in datasets(study).values()]
    assert [(one["labels"]["per_run"], one["labels"]["fraction"]) for one in made] == [
        (2, 0.5),
        (2, 1.0),
        (3, 0.5),
        (3, 1.0),
    ]
    assert len({study.data_key(one) for one in made}) == 1
    assert list(variants(study)["CL"]) == ["CL"]


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [({}, "exclude"), (GIVEN, "known"), (GIVEN | {"negative_columns": ["wrong"]}, "known")],
)
def test_given_pairs_of_an_anchor_are_not_its_negatives_by_default(dataset, expected):
    study = loaded(intents=intents(dataset, {"name": "cl", "same_text": "keep"}))
    runs = {run.objective: run.settings["objective"] for run in all_runs("intents", study)}
    assert runs["CL"]["same_text"] == expected
    assert runs["X"]["same_text"] == "keep"


def test_the_identity_of_a_run_has_its_labels_but_neither_paths_nor_rated_pairs():
    def ids(dataset, **changes):
        study = loaded(words=tiny_words(reports=TABLE), intents=intents(dataset, **changes))
        return {run_id(run, "checksum") for run in all_runs("intents", study)}

    same = [
        {"path": "elsewhere.csv"},
        {"test_path": "test.csv"},
        {"rated": {"path": "rated.csv"}},
        {"text": "words"},
    ]
    others = [
        {"labels": LABELS},
        {"labels": LABELS | {"seed": 1}},
        {"labels": LABELS | {"per_run": 2}},
        {"validation": 0.2},
    ]
    first = ids({})
    assert len(first) == 8
    assert [ids(dataset) == first for dataset in same] == [True] * len(same)
    different = [
        first,
        *map(ids, others),
        ids(GIVEN),
        ids({}, text_encoder=OTHER),
        ids({}, positive_encoder=OTHER),
    ]
    assert len(set().union(*different)) == sum(map(len, different))
