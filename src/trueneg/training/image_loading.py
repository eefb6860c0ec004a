"""Batches of a source's images on a device: gathered from those held there, or read from the source ahead of their use."""

import itertools
import mmap
import time
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

# Memory and speed, not the result.
RESIDENT_BYTES = 1024**3  # training images of up to so many bytes lie on the device
COUNTED_AT_ONCE = 64  # images whose pixels are counted
AHEAD = 3  # batches that are read, or wait to be used, while one is in use


class LoadedBatch(NamedTuple):
    """A batch of B images.

    Attributes:
        images: uint8 (B, channels, H, W), on the device.
        waited: seconds that whoever asked for the batch waited for it.
    """

    images: Tensor
    waited: float


class TrainingImages:
    """The n training images of a source, wherever they lie: batches of them are the same, bit for bit.

    Up to :data:`RESIDENT_BYTES` they lie on the device as one tensor. More of them stay where the source has them, in a file
    mapped into memory (:func:`trueneg.data.pairs.pair_source.read_pairs`), and are read batch by batch.

    Args:
        images: uint8 (N, channels, H, W), of the whole source.
        chosen: (n,) which of them to train on; their order numbers them from 0.
        device: where batches are wanted.

    Attributes:
        size: height and width.
        resident: whether they lie on the device.
    """

    def __init__(self, images: np.ndarray, chosen: np.ndarray, device: torch.device):
        self._images, self._chosen, self._device = images, chosen, device
        self.size: tuple[int, int] = images.shape[2:]
        self.resident = len(chosen) * images[0].nbytes <= RESIDENT_BYTES
        self._pixels: Any = torch.from_numpy(images[chosen]).to(device) if self.resident else None

    def __len__(self) -> int:
        return len(self._chosen)

    def batches(self, numbers: Tensor, batch_size: int) -> Generator[LoadedBatch, None, None]:
        """One batch after another; to be closed (``contextlib.closing``) if not used to its end.

        Args:
            numbers: int64, on the CPU: of the images of all batches, in order.
            batch_size: how many are one batch.

        Raises:
            Exception: whatever reading images raised.
        """
        batches = [slice(start, start + batch_size) for start in range(0, len(numbers), batch_size)]
        if self.resident:
            there = numbers.to(self._device)
            return (LoadedBatch(self._pixels[there[batch]], 0.0) for batch in batches)
        return read_ahead(self._images, (self._chosen[numbers[batch].numpy()] for batch in batches), self._device)


def read_ahead(images: np.ndarray, batches: Iterable[np.ndarray], device: torch.device) -> Generator[LoadedBatch, None, None]:
    """Batches of images, each read by a thread of its own while earlier ones are in use.

    Copying out of a mapped file leaves Python's lock to others, so one thread reads beside the computation. It ends when the
    iterator ends or is closed: by ``contextlib.closing``, whatever ended the use of the batches.

    Args:
        images: uint8 (N, channels, H, W), a mapped file for example.
        batches: of each batch, which images.
        device: where batches are wanted; to a GPU they go through page-locked memory.

    Raises:
        Exception: whatever reading images raised, in its batch's turn.

    Example:
        >>> images = np.arange(3 * 4, dtype=np.uint8).reshape(3, 1, 2, 2)
        >>> [batch.images[:, 0, 0, 0].tolist() for batch in read_ahead(images, [[2, 0], [1]], torch.device("cpu"))]
        [[8, 0], [4]]
    """
    coming = iter(batches)
    with ThreadPoolExecutor(1, thread_name_prefix="images") as reader:

        def begin(count: int) -> None:
            being_read.extend(reader.submit(_read, images, some, device) for some in itertools.islice(coming, count))

        being_read: deque = deque()
        try:
            begin(AHEAD)
            while being_read:
                asked = time.perf_counter()
                pixels = being_read.popleft().result()
                begin(1)
                # The memory of a page-locked batch is not used again before its copy has ended: torch sees to that.
                yield LoadedBatch(pixels.to(device, non_blocking=True), time.perf_counter() - asked)
        finally:
            reader.shutdown(cancel_futures=True)


def _read(images: np.ndarray, numbers: np.ndarray, device: torch.device) -> Tensor:
    if isinstance(images.base, mmap.mmap):
        _announce(images, numbers)
    pixels = torch.from_numpy(images[numbers])
    if device.type != "cuda":
        return pixels
    # Every thread has a current device of its own; page-locking makes a context on it.
    with torch.cuda.device(device):
        return pixels.pin_memory()


def _announce(images: Any, numbers: np.ndarray) -> None:
    """Ask the system for all images of a batch at once: a disk answers many requests in hardly more time than one."""
    size, first = images[0].nbytes, images.offset % mmap.ALLOCATIONGRANULARITY  # numpy maps from such a boundary on
    for start in (first + size * np.asarray(numbers)).tolist():
        page = start - start % mmap.PAGESIZE
        images.base.madvise(mmap.MADV_WILLNEED, page, start + size - page)


def statistics_of(images: np.ndarray, chosen: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel of some uint8 images (n, channels, H, W), in [0, 1].

    Example:
        >>> statistics_of(np.array([0, 0, 255, 255], np.uint8).reshape(1, 1, 2, 2), np.array([0]))
        ([0.5], [0.5])
    """
    # From counts of the 256 values: exact in any order, so a few images at a time are in memory.
    counts = torch.zeros(images.shape[1], 256, dtype=torch.int64)
    for start in range(0, len(chosen), COUNTED_AT_ONCE):
        some = torch.from_numpy(images[chosen[start : start + COUNTED_AT_ONCE]])
        counts += torch.stack([torch.bincount(channel.flatten(), minlength=256) for channel in some.unbind(1)])
    values, means, deviations = np.arange(256) / 255, [], []
    for own in counts.numpy():
        means.append(float(np.average(values, weights=own)))
        deviations.append(float(np.sqrt(max(np.average((values - means[-1]) ** 2, weights=own), 1e-8))))
    return means, deviations
