"""The settings of an objective are parameters of its loss or of the training."""

import inspect

import pytest

from trueneg.losses import LearnedThresholds
from trueneg.losses.build import parameters
from trueneg.specs.objectives import OF_PAIRS, OF_TWO_VIEWS
from trueneg.specs.settings import tag_of

OF_TRAINING = {
    *{"name", "temperature", "logit_scale", "learned_logit_scale", "directions", "bound_gradient", "switched_off_by"},
    *{"by", "mode", "masked_words_weight", "mask_share", "decoupled", "targets", "guide"},
}
# GloFND is guided removal with thresholds that the training loop keeps.
LEARNED = {key: parameter.default for key, parameter in inspect.signature(LearnedThresholds).parameters.items()}
LEARNED = {"share": LEARNED["share"], "threshold_rate": LEARNED["learning_rate"], "start": 0.35}  # of 200 epochs, 70 come before
OTHER_DEFAULTS = {("PairEstimatorBayesianPairs", "form")}  # as docs/losses.md says


@pytest.mark.parametrize("objective", [*OF_TWO_VIEWS, *OF_PAIRS], ids=lambda objective: objective.__name__)
def test_the_settings_of_an_objective_are_parameters_of_its_loss_with_the_same_defaults(objective):
    settings = {key: field for key, field in objective.model_fields.items() if key not in OF_TRAINING}
    for name in objective.model_fields["name"].annotation.__args__:
        taken = LEARNED if name == "glofnd" else parameters(objective.LOSS or name)
        assert set(settings) <= set(taken)
        different = {key for key, field in settings.items() if not field.is_required() and field.default != taken[key]}
        assert {(objective.__name__, key) for key in different} <= OTHER_DEFAULTS


@pytest.mark.parametrize("targets", ["softmax", "wcl_one_head"])
def test_targets_of_views_do_not_combine_with_removal_by_sample(targets):
    (removed,) = (model for model in OF_TWO_VIEWS if tag_of(model) == ("name", ("remove",)))
    settings = {"name": "remove", "targets": {"name": targets}}
    with pytest.raises(ValueError, match=rf"targets\.name is {targets}.*remove"):
        removed.model_validate(settings | {"guide": {"name": "self"}})
    assert removed.model_validate(settings | {"guide": {"name": "labels"}})
