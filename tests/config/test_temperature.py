"""A run's temperature is that of its objective, or else that of the section for all objectives."""

import pytest

from tests.config.mistakes import mistakes, with_key
from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.specs.temperature import temperature_of

SCALE = {"logit_scale": 20, "learned_logit_scale": True, "maximum_logit_scale": 50}


@pytest.mark.parametrize("own", [{}, {"temperature": None}])
def test_views_have_the_temperature_of_the_training(own):
    settings = {"training": {"temperature": 0.5}, "objective": {"name": "cl"} | own}
    assert temperature_of(settings) == (0.5, False, 0)


def test_an_objectives_own_temperature_takes_precedence():
    settings = {"training": {"temperature": 0.5}, "objective": {"temperature": 0.1}}
    assert temperature_of(settings).initial == 0.1
    assert temperature_of(settings).logit_scale == pytest.approx(10)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, (0.05, True, 0.02)),
        ({"logit_scale": None, "learned_logit_scale": None}, (0.05, True, 0.02)),
        ({"logit_scale": 10}, (0.1, True, 0.02)),
        ({"learned_logit_scale": False}, (0.05, False, 0.02)),
        ({"logit_scale": 10, "learned_logit_scale": False}, (0.1, False, 0.02)),
    ],
)
def test_the_temperature_of_pairs_is_the_inverse_of_the_logit_scale(own, expected):
    settings = {"similarity": SCALE, "training": {"epochs": 1}, "objective": {"name": "cl"} | own}
    assert temperature_of(settings) == pytest.approx(expected)


def test_a_logit_scale_at_its_maximum_stays_there():
    """49 is not the inverse of its inverse in double precision."""
    settings = {"similarity": SCALE | {"logit_scale": 49, "maximum_logit_scale": 49}}
    temperature = temperature_of(settings)
    assert temperature.logit_scale == temperature.maximum_logit_scale == pytest.approx(49)


def test_a_swept_temperature_that_an_objective_does_not_use_is_refused():
    """Its runs would be equal, under several labels."""
    study = with_key(tiny_study(sweeps="one at a time"), "training.temperature", [0.1, 0.3])
    assert not mistakes(mine=study)
    (sentence,) = mistakes(mine=with_key(study, "objectives.CL.temperature", 0.2))
    assert sentence.startswith("mine.training.temperature is a list")
    assert "objectives.CL.temperature is set" in sentence
    assert "give the list to each objective" in sentence


def test_a_temperature_of_an_objective_without_one_is_refused():
    study = with_key(tiny_world(), "objectives.ReCo", {"name": "reco"})
    assert not mistakes(mine=study, words=tiny_words())
    (sentence,) = mistakes(
        mine=with_key(study, "objectives.ReCo.logit_scale", 5), words=tiny_words()
    )
    assert sentence.startswith("mine.objectives.ReCo.logit_scale is set")
    assert "ReCo has no temperature; remove it" in sentence
    study |= {"sweeps": "one at a time"}
    sentences = mistakes(
        mine=with_key(study, "similarity.logit_scale", [5, 20]), words=tiny_words()
    )
    assert any(
        "similarity.logit_scale is a list, but ReCo has no temperature" in each
        for each in sentences
    )
