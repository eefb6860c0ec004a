"""What a configuration may say of an objective is what its loss, or the training, takes."""

import pytest

from trueneg.losses.build import parameters
from trueneg.specs.objectives import OF_PAIRS, OF_TWO_VIEWS
from trueneg.training.image_text_objectives import IN_LIBRARY

OF_TRAINING = {
    *{"name", "temperature", "logit_scale", "directions", "bound_gradient", "switched_off_by"},
    *{"by", "mode", "masked_words_weight", "mask_share"},
}


@pytest.mark.parametrize("objective", [*OF_TWO_VIEWS, *OF_PAIRS], ids=lambda objective: objective.__name__)
def test_the_settings_of_an_objective_are_parameters_of_its_loss(objective):
    (name,) = objective.model_fields["name"].annotation.__args__
    assert set(objective.model_fields) - OF_TRAINING <= set(parameters(IN_LIBRARY.get(name, name)))
