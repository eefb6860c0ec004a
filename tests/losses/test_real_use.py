"""What every loss and estimator does with the batches, devices and labels of real training
loops.
"""

import inspect
import math
import subprocess
import sys
import textwrap
from array import array

import pytest
import torch
from torch.nn import functional

from tests.losses.test_registry import REQUIRED, SHIPPED
from trueneg.class_probability import _precision, from_class_frequency, from_log_likelihood
from trueneg.losses import (
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    LearnedThresholds,
    OpenClipLoss,
    Oracle,
    Quantile,
    RelaxedContrastiveLoss,
    SupConLoss,
    Uncorrected,
    build,
)
from trueneg.losses.registry import ESTIMATORS, WHOLE_LOSSES

COUNT, DIMENSIONS = 8, 5
DEFAULTS = REQUIRED | {name: {"class_probability": 0.1} for name in ("dcl", "hcl", "bcl")}


def facts(estimator, device="cpu", anchors=COUNT):
    """Everything that an estimator may need, for B pairs."""
    known = {}
    if estimator.uses_class_probability:
        known["class_probability"] = torch.full((COUNT,), 0.1, device=device)
    if estimator.needs_labels:
        known["labels"] = torch.arange(COUNT, device=device) % 3
    if estimator.needs_similarity:
        known["negative_similarity"] = torch.eye(COUNT, device=device)
    if estimator.needs_positive_similarity:
        known["positive_similarity"] = torch.full((anchors,), 0.9, device=device)
    if estimator.needs_probability:
        known["sampling_probability"] = torch.full((COUNT,), 0.1, device=device)
    if estimator.keeps_average or estimator.keeps_threshold:
        known["index"] = torch.arange(COUNT, device=device)
    return known


def call(name, directions, device="cpu", **options):
    """A loss by its name, of two views (directions None) or of two modalities; its call, and the
    arguments.
    """
    settings = {"name": name, **DEFAULTS.get(name, {})}
    if name == "glofnd" and directions == "both":
        settings["directions"] = 2
    loss = build(settings, directions=directions, **options).to(device)
    generator = torch.Generator().manual_seed(0)
    z1, z2 = functional.normalize(
        torch.randn(2, COUNT, DIMENSIONS, generator=generator), dim=-1
    ).to(device)
    if name in WHOLE_LOSSES:
        return loss, (z1, z2), {}
    known = facts(loss.estimator, device)
    if directions is None:
        return loss, (z1, z2), known
    return loss, (z1 @ z2.T, torch.tensor(10.0, device=device)), known


KINDS = [
    (name, directions)
    for name in SHIPPED
    for directions in (None, "both")
    if directions is None or name in ESTIMATORS
]
kinds = pytest.mark.parametrize(("name", "directions"), KINDS)


@kinds
def test_every_loss_compiles_without_a_graph_break(name, directions):
    loss, inputs, known = call(name, directions)
    loss.eval()  # what is remembered of samples stays the same
    torch.compiler.reset()  # compiled variants of one method count towards a limit
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    values = []
    for each in (loss, compiled):
        torch.manual_seed(0)
        values.append(each(*inputs, **known))
    torch.testing.assert_close(*values)


@kinds
def test_every_loss_runs_on_a_device_without_autocast(name, directions):
    loss, inputs, known = call(name, directions, device="meta")
    assert not torch.amp.is_autocast_available("meta")
    value = loss(*inputs, **known)
    assert (value.device.type, value.shape) == ("meta", ())


def test_further_arguments_compile_without_a_graph_break():
    units = functional.normalize(torch.randn(2, COUNT, DIMENSIONS), dim=-1)
    targets, exclude = (
        torch.full((COUNT, COUNT), 1 / COUNT),
        torch.eye(COUNT, dtype=torch.bool).roll(1, 1),
    )
    eta = torch.full((COUNT,), 0.2)
    clip = OpenClipLoss(build({"name": "dcl"}, directions="both").estimator)
    top = CrossModalLoss(build({"name": "remove", "top_k": 2}, directions="text").estimator, "text")
    share = CrossModalLoss(Quantile(0.3), "both")
    calls = [
        (clip, (*units, torch.tensor(14.0)), {"class_probability": eta}),
        (share, (units[0] @ units[1].T, 14.0), {"exclude": exclude, "targets": (targets, targets)}),
        (
            top,
            (units[0] @ units[1].T, 14.0),
            {"exclude": exclude, "negative_similarity": units[0] @ units[0].T},
        ),
        (from_log_likelihood, (-torch.rand(COUNT),), {"tokens": torch.ones(COUNT)}),
    ]
    for function, inputs, known in calls:
        torch.compiler.reset()
        compiled = torch.compile(function, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(*inputs, **known), function(*inputs, **known))


def test_no_loss_computes_in_float64_off_the_cpu():
    """MPS has no float64, so a float64 tensor on the simulated device would be an error there."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Recorded(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for leaf in tree_leaves(result):
                if (
                    isinstance(leaf, torch.Tensor)
                    and leaf.device.type != "cpu"
                    and leaf.dtype == torch.float64
                ):
                    doubles.append(function)
            return result

    doubles: list = []
    for name, directions in KINDS:
        loss, inputs, known = call(name, directions, device="meta")
        with Recorded():
            loss(*inputs, **known)
    exclude = torch.eye(COUNT, dtype=torch.bool, device="meta").roll(1, 1)
    with Recorded():
        CrossModalLoss(Quantile(0.3))(torch.eye(COUNT, device="meta"), 10.0, exclude=exclude)
        from_log_likelihood(torch.zeros(COUNT, dtype=torch.int64, device="meta"))
    assert doubles == []
    assert from_class_frequency(torch.zeros(3, dtype=torch.int64)).dtype == torch.float64
    assert _precision(torch.zeros(3, device="meta")) == torch.float32


@pytest.mark.parametrize("views", [1, 2])
def test_thresholds_learn_nothing_from_a_batch_of_one(views):
    thresholds, usual = LearnedThresholds(10), LearnedThresholds(10)
    assert thresholds.update(torch.tensor([3]), torch.ones(views, views)).tolist() == [1.0]
    for state, untouched in zip(thresholds.buffers(), usual.buffers(), strict=True):
        assert state.equal(untouched)


def test_thresholds_take_a_sample_that_is_drawn_twice_as_further_views_of_it():
    """By the book: the share of a sample's rows above its threshold, over the columns of other
    samples only.
    """
    similarity = torch.rand(6, 6, generator=torch.Generator().manual_seed(0)) * 2 - 1
    samples = [4, 2, 4]  # of the rows of both views
    drawn = samples + samples
    thresholds = LearnedThresholds(5, share=0.3)
    thresholds.values.fill_(0.1)
    returned = thresholds.update(torch.tensor(samples), similarity)
    for sample in (2, 4):
        shares = []
        for row in range(6):
            if drawn[row] == sample:
                others = [
                    similarity[row, column] > 0.1 for column in range(6) if drawn[column] != sample
                ]
                shares.append(float(sum(others)) / len(others))
        gradient = 0.3 - sum(shares) / len(shares)
        # Adam's first step has the length of the learning rate
        expected = 0.1 - math.copysign(0.05, gradient)
        assert thresholds.values[sample].item() == pytest.approx(expected, abs=1e-5)
    assert returned.tolist() == [thresholds.values[sample].item() for sample in samples]
    assert thresholds.updates.tolist() == [0, 0, 1, 0, 1]


@pytest.mark.parametrize("unknown", [-1, -100, float("nan")])
@pytest.mark.parametrize("directions", [None, "text", "both"])
def test_an_unknown_label_is_not_a_class(unknown, directions):
    labels = torch.tensor([0.0, 1.0, unknown, unknown, 0.0, 2.0])
    apart = torch.tensor([0, 1, 7, 8, 0, 2])  # each unknown sample in a class of its own
    z1, z2 = torch.randn(2, len(labels), DIMENSIONS)
    values = []
    for classes in (labels, apart):
        if directions is None:
            values.append(ContrastiveLoss(Oracle(), 0.5)(z1, z2, labels=classes))
        else:
            values.append(CrossModalLoss(Oracle(), directions)(z1 @ z2.T, 1.0, labels=classes))
    torch.testing.assert_close(*values)
    # of few labels, some batches have none
    none = torch.full((len(labels),), unknown, dtype=torch.float32)
    for loss in (ContrastiveLoss(Oracle(), 0.5), SupConLoss(0.5)):
        value = loss(z1, z2, labels=none)
        torch.testing.assert_close(value, ContrastiveLoss(Uncorrected(), 0.5)(z1, z2))


@pytest.mark.parametrize("labels", [["a", "b", "a"], array("l", [0, 1, 0]), "aba"])
def test_labels_that_are_not_a_tensor_are_refused(labels):
    z1, z2 = torch.randn(2, 3, DIMENSIONS)
    with pytest.raises(
        ValueError, match=rf"labels is a {type(labels).__name__}; expected a tensor"
    ):
        ContrastiveLoss(Oracle(), 0.5)(z1, z2, labels=labels)


ARGUMENTS = ("class_probability", "extra_positives", "labels", "same_class", "exclude", "targets")


@pytest.mark.parametrize("argument", [*ARGUMENTS, "positive_similarity", "negative_similarity"])
def test_arguments_that_are_not_tensors_are_refused_by_name(argument):
    z1, z2 = torch.randn(2, 3, DIMENSIONS)
    for values in ([[0.0] * 3] * 3, array("d", [0.0] * 3)):
        for loss, inputs in (
            (ContrastiveLoss(Debiased()), (z1, z2)),
            (CrossModalLoss(Debiased()), (z1 @ z2.T, 1.0)),
        ):
            if argument in inspect.signature(loss.terms).parameters:
                with pytest.raises(ValueError, match=rf"{argument} (is a|has 3)"):
                    loss(*inputs, **{argument: values}, unused="ignore")


@pytest.mark.parametrize("length", [0.0, 1e-30, 1e-9])
@pytest.mark.parametrize("name", SHIPPED)
def test_the_gradient_of_a_row_of_zeros_is_bounded(name, length):
    loss, (z1, z2), known = call(name, None)
    z1, z2 = z1.clone(), z2.clone()
    z1[0] *= length
    z2[-1] *= length
    z1.requires_grad_(), z2.requires_grad_()
    loss(z1, z2, **known).backward()
    for z in (z1, z2):
        assert z.grad.isfinite().all()
        # 1 / temperature is 2, and the logit scale 14; sums over the batch
        assert z.grad.abs().max() < 100


def test_processes_with_batches_of_different_sizes_say_so_instead_of_waiting(tmp_path):
    program = """
        import sys, torch
        from torch import distributed
        from trueneg.losses import CrossModalLoss, Uncorrected, build
        rank = int(sys.argv[1])
        shared = "file://" + sys.argv[2]
        distributed.init_process_group("gloo", init_method=shared, rank=rank, world_size=2)
        gather = {"gather_distributed": True}
        two_towers = lambda u, v: CrossModalLoss(Uncorrected(), **gather).of_features(u, v, 1.0)
        built = [build({"name": name}, **gather) for name in ("cl", "reco")]
        for loss in (built[0], two_towers, built[1]):
            try:
                loss(*torch.randn(2, 16 - rank, 4))
            except ValueError as error:
                print(error, flush=True)
        distributed.destroy_process_group()
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    running = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, text=True
        )
        for rank in (0, 1)
    ]
    for rank, process in enumerate(running):
        lines = process.communicate(timeout=100)[0].splitlines()
        assert len(lines) == 3
        for line in lines:
            assert "expected the same on every process" in line
            assert f"{16 - rank}, 4) on process {rank}" in line
            assert f"{15 + rank}, 4) on process {1 - rank}" in line
            assert "drop_last=True" in line


def test_a_single_sample_has_no_negatives_and_a_loss_of_0_with_a_gradient():
    one = torch.ones(1, DIMENSIONS, requires_grad=True)
    similar = torch.ones(1, requires_grad=True)
    for name in SHIPPED:
        if name in WHOLE_LOSSES:
            continue
        loss, _, _ = call(name, None)
        known = {key: value[:1, ...] for key, value in facts(loss.estimator).items()}
        if "negative_similarity" in known:
            known["negative_similarity"] = torch.ones(1, 1)
        if "positive_similarity" in known:
            known["positive_similarity"] = torch.ones(1)
        if loss.estimator.combines:
            value = loss(one, one, **known)
            assert value.item() == 0, name
        else:  # the sigmoid's positive remains
            value = loss(one, one, **known)
            expected = functional.softplus(-(torch.ones(1) / 0.5 + loss.estimator.bias))
            torch.testing.assert_close(value[None], expected)
        (gradient,) = torch.autograd.grad(value, one)
        assert gradient.isfinite().all()
    pairs = CrossModalLoss(Debiased(0.1))(similar[None], 10.0)
    assert pairs.item() == 0
    assert torch.autograd.grad(pairs, similar)[0].item() == 0
    assert RelaxedContrastiveLoss()(one, one).item() == pytest.approx(0)
