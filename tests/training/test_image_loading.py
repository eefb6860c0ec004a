"""Images read ahead from disk give the same batches and runs as resident images, and no thread is
left running.
"""

import contextlib
import signal
import threading
import time
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.textures import LSE_NL, settings_of, texture_source
from tests.training.interrupted import assert_same_weights, without_times
from trueneg.data import image_loading
from trueneg.data.image_loading import AHEAD, TrainingImages, read_ahead, statistics_of
from trueneg.data.pairs.pair_source import read_pairs, write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.evaluation import pair_features
from trueneg.evaluation.pair_features import embed_images
from trueneg.training.image_text import ImageText

CPU = torch.device("cpu")
RUNS = {
    "one pair an image": {"training": {"epochs": 2}},
    "regions": {"training": {"epochs": 2}, "similarity": LSE_NL},
    "one pair a study, the last epoch cut short": {
        "training": {"epochs": None, "updates": 7, "unit": "study"}
    },
}


class SlowDisk(np.ndarray):
    """Images that are slow to read; counts the batches, and optionally fails at one of them."""

    seconds, failing, begun = 0.0, None, 0

    def __getitem__(self, wanted):
        if isinstance(wanted, np.ndarray):
            self.begun += 1
            time.sleep(self.seconds)
            if self.begun == self.failing:
                raise OSError("the disk is gone")
            return np.asarray(self)[wanted]
        return super().__getitem__(wanted)


def slow_disk(images, seconds=0.0, failing=None):
    disk = images.view(SlowDisk)
    disk.seconds, disk.failing = seconds, failing
    return disk


def readers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("images")]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file of images and sentences."""
    path = tmp_path_factory.mktemp("source") / "pairs.npz"
    write_pairs(texture_source(patients=48), path)
    return path


@pytest.fixture
def started(path, monkeypatch):
    def start(*, resident, images=None, **sections):
        source = read_pairs(path)
        if images is not None:
            object.__setattr__(source, "images", images(source.images))
        monkeypatch.setattr(image_loading, "RESIDENT_BYTES", 1024**3 if resident else 0)
        training = ImageText(settings_of(**sections), 0, source, split_pairs(source, 0), CPU)
        assert training.data.images.resident == resident
        return training

    return start


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 3), st.integers(1, 9), st.integers(0, 2**31 - 1))
def test_batches_hold_the_requested_images_in_memory_or_on_disk(count, channels, batch_size, seed):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (50, channels, 3, 4), dtype=np.uint8)
    chosen, numbers = (
        generator.permutation(50)[:count],
        generator.integers(0, count, generator.integers(1, 60)),
    )
    expected = [
        images[chosen[numbers[start : start + batch_size]]]
        for start in range(0, len(numbers), batch_size)
    ]
    for budget in (images[chosen].nbytes, images[chosen].nbytes - 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(image_loading, "RESIDENT_BYTES", budget)
            held = TrainingImages(images, chosen, CPU)
        assert (held.resident, len(held), held.size) == (
            budget == images[chosen].nbytes,
            count,
            (3, 4),
        )
        batches = list(held.batches(torch.from_numpy(numbers), batch_size))
        assert len(batches) == len(expected)
        assert all(
            np.array_equal(batch, wanted) for batch, wanted in zip(batches, expected, strict=True)
        )
    assert not readers()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_batches_are_copied_correctly_to_a_busy_gpu():
    images = np.random.default_rng(0).integers(0, 256, (64, 1, 128, 128), dtype=np.uint8)
    device, parts = torch.device("cuda", 0), np.arange(64).reshape(16, 4)
    work, kept = torch.ones(2048, 2048, device=device), []
    for batch in read_ahead(images, parts, device):
        work = (work @ work) / 2048
        kept.append(batch)
    assert all(
        np.array_equal(found.cpu(), images[part]) for found, part in zip(kept, parts, strict=True)
    )


def test_a_fixed_number_of_batches_is_read_ahead():
    disk = slow_disk(np.arange(20, dtype=np.uint8).reshape(20, 1, 1, 1))
    with contextlib.closing(read_ahead(disk, np.arange(20)[:, None], CPU)) as batches:
        for number, batch in enumerate(batches):
            wanted, patience = min(number + 1 + AHEAD, 20), time.monotonic() + 120
            while disk.begun < wanted and time.monotonic() < patience:
                time.sleep(1e-3)
            time.sleep(5e-3)
            assert disk.begun == wanted
            assert batch.item() == number
            assert len(readers()) == 1
    assert not readers()


def test_a_read_error_is_raised_for_its_batch_and_leaves_no_thread():
    batches = read_ahead(
        slow_disk(np.zeros((9, 1, 1, 1), np.uint8), failing=3), np.arange(9)[:, None], CPU
    )
    next(batches), next(batches)
    with pytest.raises(OSError, match="the disk is gone"):
        next(batches)
    assert not readers()


@pytest.mark.parametrize("name", RUNS)
def test_reading_from_disk_gives_the_same_run_bit_for_bit(started, name):
    resident, mapped = (started(resident=resident, **RUNS[name]) for resident in (True, False))
    rows = [
        [training.train_epoch() for _ in range(training.epochs)] for training in (resident, mapped)
    ]
    assert_same_weights(resident, mapped)
    assert without_times(rows[0]) == without_times(rows[1])
    assert not readers()


@pytest.mark.parametrize("name", RUNS)
def test_an_interrupted_run_leaves_no_thread_and_resumes_from_disk_or_memory(started, name):
    whole = started(resident=True, **RUNS[name])
    expected = [whole.train_epoch() for _ in range(whole.epochs)]
    training, rows, done = started(resident=False, **RUNS[name]), [], 0

    def after_update():
        nonlocal done, state
        done, state = done + 1, training.state()
        if done in (1, 3, 4):
            signal.raise_signal(signal.SIGINT)

    state = training.state()
    while training.epoch < training.epochs:
        try:
            rows.append(training.train_epoch(after_update))
        except KeyboardInterrupt:
            assert not readers()
            training = started(resident=done == 3, **RUNS[name])
            training.load_state({key: value.clone() for key, value in state[0].items()}, state[1])
    assert done == whole.updates
    assert without_times(rows) == without_times(expected)
    assert_same_weights(whole, training)


def test_an_interrupt_while_waiting_for_images_stops_reading(started):
    training = started(resident=False, images=lambda images: slow_disk(images, seconds=0.5))
    disk = training.data.images._images
    disk.begun = 0
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            training.train_epoch()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert training.update == 0
    assert disk.begun <= 1  # other requested batches are cancelled
    assert not readers()


def test_a_read_error_is_raised_by_training(started):
    training, updates = started(resident=False), []  # channel statistics have been read already
    training.data.images._images = slow_disk(training.data.images._images, failing=2)
    with pytest.raises(OSError, match="the disk is gone"):
        training.train_epoch(lambda: updates.append(training.update))
    assert updates == [1]
    assert not readers()


def test_a_run_from_disk_keeps_only_a_few_batches_in_memory(tmp_path, monkeypatch):
    big = np.repeat(np.repeat(texture_source(patients=48).images, 10, axis=2), 10, axis=3)
    write_pairs(texture_source(patients=48, images=big), tmp_path / "pairs.npz")
    del big
    monkeypatch.setattr(image_loading, "RESIDENT_BYTES", 0)
    monkeypatch.setattr(image_loading, "AHEAD", 1)
    monkeypatch.setattr(image_loading, "COUNTED_AT_ONCE", 2)
    tracemalloc.start()
    try:
        source = read_pairs(tmp_path / "pairs.npz")
        sections = {"training": {"batch_size": 2, "epochs": 1}, "encoder": {"width": 16}}
        training = ImageText(settings_of(**sections), 0, source, split_pairs(source, 0), CPU)
        training.train_epoch()
        _, peak = tracemalloc.get_traced_memory()  # numpy's arrays among it
    finally:
        tracemalloc.stop()
    assert source.images.nbytes > 5e6
    assert peak < 0.5 * source.images.nbytes


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 90), st.sampled_from([1, 3]), st.integers(0, 2**31 - 1))
def test_channel_statistics_equal_numpy(count, channels, seed):
    generator = np.random.default_rng(seed)
    images = generator.integers(0, 256, (100, channels, 5, 4), dtype=np.uint8)
    chosen = generator.permutation(100)[:count]
    pixels = images[chosen] / 255
    means, deviations = statistics_of(images, chosen)
    np.testing.assert_allclose(means, pixels.mean((0, 2, 3)))
    np.testing.assert_allclose(deviations, pixels.std((0, 2, 3)))


def test_images_on_disk_are_embedded_in_blocks_and_equal_those_in_memory(
    path, started, monkeypatch
):
    monkeypatch.setattr(pair_features, "IMAGES_AT_ONCE", 7)
    networks = started(resident=True).networks
    networks.model.eval()
    mapped, held = read_pairs(path), texture_source(patients=48)
    indices = np.random.default_rng(0).permutation(len(held.images))[:40]
    ours, theirs = (
        embed_images(networks, source, indices, CPU, regions=True) for source in (mapped, held)
    )
    for found, expected in (
        (ours.features, theirs.features),
        *zip(ours.embeddings, theirs.embeddings, strict=True),
    ):
        assert torch.equal(found, expected)
    encoder, normalise = networks.model.image_encoder, networks.columns.augmentation.normalise
    with torch.no_grad():
        alone = [
            encoder(normalise(image)).mean((2, 3))
            for image in torch.from_numpy(held.images[indices]).split(1)
        ]
    torch.testing.assert_close(ours.features, torch.cat(alone))
    disk = slow_disk(held.images, failing=3)
    object.__setattr__(held, "images", disk)
    with pytest.raises(OSError, match="the disk is gone"):
        embed_images(networks, held, indices, CPU, regions=False)
    assert disk.begun <= 3 + AHEAD
    assert not readers()
