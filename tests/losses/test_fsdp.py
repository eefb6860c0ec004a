"""Two processes that share the parameters of a model and its losses by FSDP2 train as one without
it.
"""

import multiprocessing

import pytest
import torch
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.nn.functional import normalize

from trueneg.losses import (
    CrossModalLoss,
    GlobalMass,
    LearnedThresholds,
    LogitScale,
    OpenClipLoss,
    Sigmoid,
)

PROCESSES, COUNT, SAMPLES, MAXIMUM = 2, 8, 12, 5.2
UNITS = ["model", "losses"]  # whether the losses are sharded with the model, or on their own
FULL = StateDictOptions(full_state_dict=True)
FROM_FIRST = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)


class Model(nn.Module):
    """Two towers, all losses with a parameter, and those that remember samples."""

    def __init__(self, seed=0, bias=-5.0):
        super().__init__()
        gathers = {"gather_distributed": distributed.is_initialized()}
        self.text = nn.Linear(16, 16, bias=False)
        self.scale = LogitScale(5.0, MAXIMUM)
        self.pairs = CrossModalLoss(Sigmoid(bias), **gathers)
        self.openclip = OpenClipLoss(Sigmoid(bias / 2), **gathers)
        self.averages = CrossModalLoss(GlobalMass(SAMPLES, 0.3), **gathers)
        thresholds = LearnedThresholds(SAMPLES, 0.2, learning_rate=0.3, directions=2)
        self.thresholds = CrossModalLoss(thresholds, **gathers)
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.text.weight, generator=generator)
        self.image = nn.Linear(16, 16, bias=False)
        self.image.load_state_dict(self.text.state_dict())
        self.double()

    def forward(self, texts, images, index):
        text, image = normalize(self.text(texts), dim=-1), normalize(self.image(images), dim=-1)
        scale = self.scale()
        value = self.pairs.of_features(text, image, scale).loss
        value = value + self.openclip(image, text, scale)
        for loss in (self.averages, self.thresholds):
            value = value + loss.of_features(text, image, scale, index=index).loss
        return value, scale.detach()


def batch(number):
    """Texts, images and numbers of samples; from the fourth batch on, images contradict their
    texts, so that the scale falls.
    """
    generator = torch.Generator().manual_seed(number)
    texts, noise = torch.randn(2, COUNT, 16, generator=generator, dtype=torch.float64)
    images = texts + 0.1 * noise
    index = torch.randperm(SAMPLES, generator=generator)[:COUNT]
    return texts, images if number < 3 else images.roll(1, 0), index


def trained(model, numbers, share=slice(None)):
    """Train, and return the scale of each batch."""
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    scales = []
    for number in numbers:
        optimizer.zero_grad()
        value, scale = model(*(each[share] for each in batch(number)))
        value.backward()
        optimizer.step()
        model.scale.limit()
        scales.append(scale.item())
    return scales


def sharded(model, unit):
    mesh = init_device_mesh("cpu", (PROCESSES,))
    if unit == "losses":
        for module in (model.scale, model.openclip, model.pairs):
            fully_shard(module, mesh=mesh)
        register_fsdp_forward_method(model.pairs, "of_features")
    fully_shard(model.text, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def whole_state(model):
    state = get_model_state_dict(model, options=FULL)
    return {name: value.clone() for name, value in state.items()}


def loaded(state, unit, options=FULL):
    """Return the whole state of another sharded model that has loaded a state."""
    model = sharded(Model(seed=1, bias=-1.0), unit)
    set_model_state_dict(model, dict(state), options=options)
    return whole_state(model)


def found_by(rank, folder, unit):
    """Train, save, load into another model, and go on with that."""
    share = slice(rank * COUNT // PROCESSES, (rank + 1) * COUNT // PROCESSES)
    model = sharded(Model(), unit)
    scales = trained(model, range(4), share)
    middle = whole_state(model)
    scalars = {name: value[0] if value.shape == (1,) else value for name, value in middle.items()}
    checkpoint.save(get_model_state_dict(model), checkpoint_id=folder / unit)
    other = sharded(Model(seed=1, bias=-1.0), unit)
    parts = get_model_state_dict(other)
    checkpoint.load(parts, checkpoint_id=folder / unit)
    set_model_state_dict(other, parts)
    again = {
        "whole": loaded(middle, unit),
        "from the first": loaded(middle if rank == 0 else {}, unit, FROM_FIRST),
        "scalars": loaded(scalars, unit),
        "scalars from the first": loaded(scalars if rank == 0 else {}, unit, FROM_FIRST),
        "parts": whole_state(other),
    }
    scales += trained(other, range(4, 8), share)
    return {
        "scales": scales,
        "sizes": [each.to_local().numel() for each in model.parameters() if each.shape == (1,)],
        "shown": repr(model.pairs.estimator),
        "middle": middle,
        "again": again,
        "last": whole_state(other),
    }


def work(rank, folder):
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=PROCESSES
    )
    torch.save({unit: found_by(rank, folder, unit) for unit in UNITS}, folder / f"{rank}.pt")
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fsdp")
    context = multiprocessing.get_context("spawn")
    children = [
        context.Process(target=work, args=(rank, folder), daemon=True) for rank in range(PROCESSES)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(200)
        assert child.exitcode == 0
    return [torch.load(folder / f"{rank}.pt") for rank in range(PROCESSES)]


@pytest.fixture(params=UNITS)
def found(request, results):
    """What each process found."""
    return [each[request.param] for each in results]


@pytest.fixture(scope="module")
def alone():
    model = Model()
    scales = trained(model, range(4))
    middle = {name: value.clone() for name, value in model.state_dict().items()}
    scales += trained(model, range(4, 8))
    return {"scales": scales, "middle": middle, "last": model.state_dict()}


def assert_equal(one, other, **tolerance):
    assert one.keys() == other.keys()
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], **tolerance, msg=name)


@pytest.mark.parametrize("when", ["middle", "last"])
def test_parameters_and_what_is_remembered_are_those_of_one_process(found, alone, when):
    """The last come from a model that loaded the state of the middle."""
    assert not torch.equal(alone["middle"]["text.weight"], alone["last"]["text.weight"])
    for each in found:
        assert_equal(each[when], alone[when], rtol=1e-9, atol=1e-12)


def test_the_scale_is_limited_and_falls_again_as_in_one_process(found, alone):
    assert max(alone["scales"]) == pytest.approx(MAXIMUM, rel=1e-12)
    assert alone["scales"][-1] < 0.9 * MAXIMUM
    for each in found:
        assert each["scales"] == pytest.approx(alone["scales"], rel=1e-9)


def test_a_saved_state_is_loaded(found):
    """Whole, in parts, and with scalars, as in checkpoints of CLIP."""
    for each in found:
        for state in each["again"].values():
            assert_equal(state, each["middle"], rtol=0, atol=0)


def test_the_parameters_of_the_losses_are_sharded_and_the_losses_shown(found):
    assert [each["sizes"] for each in found] == [[1, 1, 1], [0, 0, 0]]
    assert {each["shown"] for each in found} == {"Sigmoid(bias=-5, positives='own')"}
