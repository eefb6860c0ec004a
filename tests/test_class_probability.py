"""η(x): bounded, monotone, and the same for arrays and tensors."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trueneg.class_probability import from_class_frequency, from_log_likelihood

PROPERTIES = settings(deadline=None, max_examples=50)


@PROPERTIES
@given(st.lists(st.integers(-3, 5), min_size=1, max_size=30))
def test_class_frequencies_are_shares_of_the_samples(labels):
    known = [label for label in labels if label >= 0]
    assume(known)
    shares = {label: known.count(label) / len(known) for label in known}
    mean = sum(shares[label] for label in known) / len(known)
    expected = [shares.get(label, mean) for label in labels]
    array, tensor = (
        from_class_frequency(np.array(labels)),
        from_class_frequency(torch.tensor(labels)),
    )
    assert array.tolist() == pytest.approx(expected)
    assert tensor.tolist() == pytest.approx(expected)
    assert (array.dtype, tensor.dtype) == (np.float64, torch.float64)


@pytest.mark.parametrize(
    "labels", [np.zeros(0), np.zeros((2, 2)), torch.zeros(0), torch.zeros(2, 2), []]
)
def test_labels_other_than_a_non_empty_vector_are_rejected(labels):
    with pytest.raises(ValueError, match="expected a non-empty vector"):
        from_class_frequency(labels)


@pytest.mark.parametrize(
    ("log_p", "expected"),
    [(0, 0.200), (-1, 0.141), (-2, 0.099), (-3, 0.070), (-5, 0.035), (-8, 0.012)],
)
def test_the_default_constants_give_the_values_of_the_paper(log_p, expected):
    assert float(from_log_likelihood(log_p)) == pytest.approx(expected, abs=5e-4)


@PROPERTIES
@given(
    st.lists(st.floats(allow_nan=False), min_size=1, max_size=10),
    st.floats(1e-3, 10),
    st.floats(0.01, 3),
    st.floats(0.01, 0.99),
)
def test_eta_follows_the_log_linear_model_within_its_bounds(log_p, a, k, maximum):
    eta = from_log_likelihood(np.array(log_p), a, k, maximum)
    assert ((eta > 0) & (eta <= maximum * (1 + 1e-12))).all()
    for value, found in zip(log_p, eta, strict=True):
        exponent = math.log(a) + k * value
        if -700 < exponent < math.log(maximum):
            assert found == pytest.approx(math.exp(exponent))
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-4)):
        tensor = from_log_likelihood(torch.tensor(log_p, dtype=dtype), a, k, maximum)
        assert tensor.dtype == dtype
        assert bool(((tensor > 0) & (tensor < 1)).all())
        within = np.abs(log_p) < 50
        np.testing.assert_allclose(tensor.numpy()[within], eta[within], rtol=tolerance)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"a": 0.0}, "a is 0.0"),
        ({"k": -1.0}, "k is -1.0"),
        ({"maximum": 1.0}, "maximum is 1.0"),
        ({"log_p": np.array([0.0, math.nan])}, "1 NaN among 2"),
        ({"log_p": torch.tensor([math.nan])}, "1 NaN among 1"),
    ],
)
def test_invalid_arguments_are_rejected(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        from_log_likelihood(**{"log_p": -1.0} | arguments)


def test_an_exponent_of_zero_gives_the_same_probability_to_all_texts():
    log_p = [-math.inf, -1e308, 0.0]
    assert from_log_likelihood(np.array(log_p), k=0.0).tolist() == pytest.approx([0.2] * 3)
    assert from_log_likelihood(torch.tensor(log_p), k=0.0).tolist() == pytest.approx([0.2] * 3)


def test_per_token_normalisation_divides_by_the_length():
    log_p, tokens = np.array([-6.0, -6.0, -1.0]), np.array([3, 12, 1])
    expected = 0.2 * np.exp(0.35 * log_p / tokens)
    np.testing.assert_allclose(from_log_likelihood(log_p, tokens=tokens), expected)
    tensor = from_log_likelihood(torch.tensor(log_p), tokens=torch.tensor(tokens))
    np.testing.assert_allclose(tensor.numpy(), expected)
    for none in (np.array([3, 0, 1]), torch.tensor([3, 0, 1])):
        with pytest.raises(ValueError, match="a text without tokens"):
            from_log_likelihood(
                torch.tensor(log_p) if isinstance(none, torch.Tensor) else log_p, tokens=none
            )
