"""The settings of an objective are parameters of its loss or of the training."""

import inspect

import pytest

from trueneg.losses import LearnedThresholds
from trueneg.losses.build import build, parameters
from trueneg.losses.targets import RULES
from trueneg.specs.objectives import OF_PAIRS, OF_TWO_VIEWS
from trueneg.specs.settings import models_within, tag_of

OF_TRAINING = {
    *{
        "name",
        "temperature",
        "logit_scale",
        "learned_logit_scale",
        "directions",
        "bound_gradient",
        "switched_off_by",
    },
    *{"scope", "hardness"},  # `build` takes them for every estimator
    *{"by", "mode", "masked_words_weight", "mask_share", "decoupled", "targets", "guide"},
}
OTHER_DEFAULTS = {("PairBayesian", "form")}  # as docs/losses.md says


@pytest.mark.parametrize(
    "objective", [*OF_TWO_VIEWS, *OF_PAIRS], ids=lambda objective: objective.__name__
)
def test_the_settings_of_an_objective_are_parameters_of_its_loss_with_the_same_defaults(objective):
    settings = {
        key: field
        for key, field in objective.model_fields.items()
        if key not in OF_TRAINING | objective.OF_TRAINING
    }
    for name in objective.model_fields["name"].annotation.__args__:
        taken = parameters(objective.LOSS or name)
        assert set(settings) <= set(taken)
        different = {
            key
            for key, field in settings.items()
            if not field.is_required() and field.default != taken[key]
        }
        assert {(objective.__name__, key) for key in different} <= OTHER_DEFAULTS


@pytest.mark.parametrize("objective", OF_PAIRS, ids=lambda objective: objective.__name__)
def test_the_default_scope_and_hardness_leave_an_estimator_as_it_is(objective):
    fields = objective.model_fields
    if "scope" not in fields:
        return
    name = tag_of(objective)[1][0]
    required = {
        key: 0.1
        for key, default in parameters(name).items()
        if default is inspect.Parameter.empty and key != "samples"
    }
    described = {"name": name, **required}
    defaults = {key: fields[key].default for key in ("scope", "hardness") if key in fields}
    plain, same = (build(each, samples=3) for each in (described, described | defaults))
    assert repr(same.estimator) == repr(plain.estimator)
    other = build(described | defaults | {"scope": "hard"}, samples=3).estimator
    assert other.scope == "hard"


def test_the_settings_of_learned_thresholds_have_the_defaults_of_their_class():
    thresholds = inspect.signature(LearnedThresholds).parameters
    for objectives in (OF_TWO_VIEWS, OF_PAIRS):
        (glofnd,) = (model for model in objectives if tag_of(model)[1] == ("glofnd",))
        defaults = {
            key: glofnd.model_fields[key].default for key in ("share", "threshold_rate", "start")
        }
        expected = {
            "share": thresholds["share"].default,
            "threshold_rate": thresholds["learning_rate"].default,
        }
        assert defaults == expected | {"start": 0.35}  # 70 of 200 epochs


TARGETS = {
    name: model
    for objective in (*OF_TWO_VIEWS, *OF_PAIRS)
    if "targets" in objective.model_fields
    for model in models_within(objective.model_fields["targets"].annotation)
    for name in tag_of(model)[1]
}


@pytest.mark.parametrize("name", TARGETS)
def test_the_settings_of_targets_are_parameters_of_their_rule_with_the_same_defaults(name):
    settings = {
        key: field.default for key, field in TARGETS[name].model_fields.items() if key != "name"
    }
    accepted = {
        key: parameter.default
        for key, parameter in inspect.signature(RULES[name]).parameters.items()
    }
    # the rule alone has no limit
    assert settings == accepted | ({"top_k": 10} if name == "fnc" else {})


def of_pairs(name):
    (model,) = (model for model in OF_PAIRS if name in tag_of(model)[1])
    return model


@pytest.mark.parametrize(
    ("settings", "change", "fact"),
    [
        ({"name": "cl", "guide": {"name": "ema"}}, {"guide": None}, "guide is not used"),
        (
            {"name": "cl", "targets": {"name": "fnc"}},
            {"guide": {"name": "ema"}},
            r"guide is missing; targets\.name fnc",
        ),
        ({"name": "guided"}, {"guide": {"name": "words"}}, "guide is missing; guided"),
        (
            {"name": "cl", "switched_off_by": 0.1, "decoupled": True},
            {"decoupled": False},
            "computes its own loss",
        ),
        (
            {"name": "same_sentence", "mode": ["left out", "positives"], "decoupled": True},
            {"mode": "left out"},
            "computes its own",
        ),
        (
            {"name": "same_sentence", "own_report": ["left out", "negatives"]},
            {"own_report": "negatives"},
            "already leaves out.*own_report",
        ),
        (
            {"name": "same_sentence", "same_text": ["exclude", "positives"]},
            {"same_text": "exclude"},
            "same_text is positives.*same_sentence.*keep or exclude",
        ),
        (
            {"name": "reco", "same_text": "positives"},
            {"same_text": "exclude"},
            "same_text is positives.*reco.*keep or exclude",
        ),
        (
            {"name": "oc", "same_text": "positives"},
            {"same_text": "keep"},
            "same_text is positives.*oc.*keep or exclude",
        ),
        (
            {"name": "supcon", "same_text": "positives"},
            {"same_text": "keep"},
            "same_text is positives.*supcon.*keep or exclude",
        ),
        (
            {"name": "supcon", "guide": {"name": "labels"}},
            {"guide": None},
            "guide is set, but supcon.*remove guide",
        ),
        (
            {"name": "supcon", "targets": {"name": "half_uniform"}},
            {"targets": None},
            "targets is set, but supcon.*remove targets",
        ),
        (
            {
                "name": "cl",
                "same_text": "positives",
                "decoupled": True,
                "targets": {"name": "half_uniform"},
            },
            {"same_text": "exclude"},
            "same_text is positives.*remove targets and decoupled",
        ),
        (
            {"name": "cl", "same_text": "positives", "switched_off_by": 0.0},
            {"switched_off_by": None},
            "same_text is positives.*remove switched_off_by",
        ),
        (
            {"name": "sigmoid", "decoupled": True},
            {"decoupled": False},
            "softmax; remove targets and decoupled",
        ),
        (
            {"name": "sigmoid", "targets": {"name": "half_uniform"}},
            {"targets": None},
            "softmax; remove targets",
        ),
        ({"name": "sigmoid", "guide": {"name": "words"}}, {"guide": None}, "guide is not used"),
        (
            {"name": "sigmoid", "same_text": "positives"},
            {"same_text": "exclude"},
            "same_text is positives.*sigmoid",
        ),
        (
            {"name": "resample", "by": ["text", "guide"]},
            {"guide": {"name": "self"}},
            "by is.*guide",
        ),
        (
            {"name": "resample", "by": "text", "guide": {"name": "self"}},
            {"by": "guide"},
            "by is 'text'",
        ),
        (
            {"name": "quantile", "share": 0.1, "shuffled": True, "nearest": True},
            {"nearest": False},
            "shuffled and .nearest.*at most one",
        ),
        (
            {"name": "bcl", "class_probability": 0.1, "form": "released", "beta": [0.5, 2]},
            {"beta": [0.5, 1]},
            "beta",
        ),
        (
            {"name": "dcl", "class_probability": "language model", "a": [0.1, 0.2]},
            {"k": [0.2, 0.35]},
            r"a \[0.1, 0.2\] and k None",
        ),
        (
            {"name": "bcl", "class_probability": ["length", 0.1], "a": 0.2, "k": 0.35},
            {"class_probability": ["length", "permuted"]},
            "class_probability is 0.1.*'constant mean'",
        ),
        (
            {"name": "hcl", "class_probability": "true", "a": 0.2, "k": 0.35},
            {"a": None, "k": None},
            "class_probability is 'true'",
        ),
        (
            {"name": "dcl", "class_probability": {"true_share": 0.5}, "a": 0.2, "k": 0.35},
            {"a": None, "k": None},
            "class_probability is true_share=0.5, which",
        ),
    ],
)
def test_settings_that_exclude_each_other_are_rejected(settings, change, fact):
    model = of_pairs(settings["name"])
    with pytest.raises(ValueError, match=fact):
        model.model_validate(settings)
    assert model.model_validate(settings | change)


BY_FREQUENCY = {"name": "dcl", "class_probability": [0.1, "true"]}
ADJUSTED = {"name": "bcl", "class_probability": 0.1, "alpha": {"schedule": "adjusted"}}


@pytest.mark.parametrize(
    ("registered", "settings", "needs"),
    [
        (OF_PAIRS, {"name": "clip"}, []),
        (OF_PAIRS, {"name": "reco"}, []),
        (OF_PAIRS, {"name": "same_sentence"}, []),
        (OF_PAIRS, {"name": "remove"}, [(".by", "a language model")]),
        (OF_PAIRS, {"name": "guided", "guide": {"name": "words"}}, []),
        (
            OF_PAIRS,
            {"name": "dcl", "class_probability": ["language model", "permuted", 0.1]},
            [(".class_probability", "a language model")],
        ),
        (OF_PAIRS, {"name": "oracle", "shuffled": True}, [("", "known matches")]),
        (
            OF_PAIRS,
            {"name": "oracle", "targets": {"name": "fnc"}, "guide": {"name": "labels"}},
            [("", "known matches"), (".guide", "labels")],
        ),
        (
            OF_PAIRS,
            {"name": "remove", "by": ["labels", "text"]},
            [(".by", "labels"), (".by", "a language model")],
        ),
        (
            OF_PAIRS,
            {"name": "cl", "switched_off_by": {"true_share": 0.5}},
            [(".switched_off_by", "known class probabilities")],
        ),
        (OF_PAIRS, BY_FREQUENCY, [(".class_probability", "known class probabilities")]),
        (OF_TWO_VIEWS, BY_FREQUENCY, [(".class_probability", "known class probabilities")]),
        (OF_TWO_VIEWS, {"name": "dcl", "class_probability": "low"}, []),
        (OF_TWO_VIEWS, {"name": "oracle"}, [("", "known matches")]),
        (OF_TWO_VIEWS, {"name": "supcon"}, [("", "labels")]),
        (OF_PAIRS, {"name": "supcon"}, [("", "labels")]),
        (OF_PAIRS, {"name": "adnce", "shuffled": True}, []),
        (OF_TWO_VIEWS, {"name": "sigmoid"}, []),
        (
            OF_PAIRS,
            {"name": "sigmoid", "positives": ["own", "labels"]},
            [(".positives", "known matches")],
        ),
        (OF_TWO_VIEWS, {"name": "guided", "guide": {"name": "labels"}}, [(".guide", "labels")]),
        (OF_TWO_VIEWS, ADJUSTED, [(".alpha", "labels")]),
        (
            OF_TWO_VIEWS,
            ADJUSTED | {"alpha": [0.7, {"schedule": "adjusted"}]},
            [(".alpha", "labels")],
        ),
    ],
)
def test_objectives_declare_the_labels_and_the_truth_that_they_use(registered, settings, needs):
    (model,) = (model for model in registered if settings["name"] in tag_of(model)[1])
    objective = model.model_validate(settings)
    assert set(objective.needs()) == set(needs)
    assert objective.uses_labels == any(need != "a language model" for _, need in needs)


@pytest.mark.parametrize(
    ("settings", "is_control"),
    [
        ({"name": "dcl", "class_probability": "permuted"}, True),
        ({"name": "dcl", "class_probability": "language model"}, False),
        ({"name": "dcl", "class_probability": 0.1}, False),
        ({"name": "adnce", "shuffled": True}, True),
        ({"name": "adnce"}, False),
        ({"name": "cl", "switched_off_by": 0.1}, True),
        ({"name": "cl", "targets": {"name": "half_uniform"}}, True),
        ({"name": "cl", "targets": {"name": "softmax"}, "guide": {"name": "words"}}, False),
        (
            {
                "name": "cl",
                "targets": {"name": "softmax"},
                "guide": {"name": "words", "permuted": True},
            },
            True,
        ),
    ],
)
def test_random_or_uniform_values_in_place_of_estimates_are_controls(settings, is_control):
    (model,) = (model for model in OF_PAIRS if settings["name"] in tag_of(model)[1])
    assert model.model_validate(settings).is_control == is_control


@pytest.mark.parametrize("targets", ["softmax", "wcl_one_head"])
def test_targets_of_views_do_not_combine_with_removal_by_sample(targets):
    (removed,) = (model for model in OF_TWO_VIEWS if tag_of(model) == ("name", ("remove",)))
    settings = {"name": "remove", "targets": {"name": targets}}
    with pytest.raises(ValueError, match=rf"targets\.name is {targets}.*remove"):
        removed.model_validate(settings | {"guide": {"name": "self"}})
    assert removed.model_validate(settings | {"guide": {"name": "labels"}})
