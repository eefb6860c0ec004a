"""Load batches of a source's images onto a device, either from images kept there or by prefetching
from the source.
"""

import itertools
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

# These affect memory and speed, not the result.
RESIDENT_BYTES = 1024**3  # training images are kept on the device up to this size
COUNTED_AT_ONCE = 64  # images whose pixels are counted in one step
AHEAD = 3  # batches being read or waiting while another is in use


class TrainingImages:
    """The n training images of a source; batches are bit-identical wherever the images are stored.

    Up to :data:`RESIDENT_BYTES`, the images are kept on the device as one tensor. Larger sets stay
    in the source's memory-mapped file (:func:`trueneg.data.pairs.pair_source.read_pairs`) and are
    read batch by batch.

    Args:
        images: uint8 (N, channels, H, W), all images of the source.
        chosen: (n,) indices of the training images, which are numbered from 0 in this order.
        device: device of the batches.

    Attributes:
        size: height and width.
        resident: whether the images are kept on the device.
    """

    def __init__(self, images: ndarray, chosen: ndarray, device: torch.device):
        self._images = images
        self._chosen = chosen
        self._device = device
        self.size: tuple[int, int] = images.shape[2:]
        self.resident = len(chosen) * images[0].nbytes <= RESIDENT_BYTES
        if self.resident:
            self._pixels = torch.from_numpy(images[chosen]).to(device)

    def __len__(self) -> int:
        return len(self._chosen)

    def batches(self, numbers: Tensor, batch_size: int) -> Generator[Tensor, None, None]:
        """Yield batches on the device one at a time; close the generator (``contextlib.closing``)
        if it is not exhausted.

        Args:
            numbers: int64 indices of training images for all batches, in order; on the CPU.
            batch_size: number of images per batch.

        Raises:
            Exception: any exception raised while reading images.
        """
        batches = [slice(start, start + batch_size) for start in range(0, len(numbers), batch_size)]
        if self.resident:
            there = numbers.to(self._device)
            return (self._pixels[there[batch]] for batch in batches)
        read = (self._chosen[numbers[batch].numpy()] for batch in batches)
        return read_ahead(self._images, read, self._device)


def read_ahead(
    images: ndarray, batches: Iterable[ndarray], device: torch.device
) -> Generator[Tensor, None, None]:
    """Yield batches of images on the device, read in a separate thread while earlier batches are in
    use.

    Copying from a memory-mapped file releases the GIL, so one thread can read during computation.
    The thread ends when the iterator is exhausted or closed; use ``contextlib.closing`` to close it
    in every case.

    Args:
        images: uint8 (N, channels, H, W), for example a memory-mapped file.
        batches: image indices of each batch.
        device: device of the batches; copies to a GPU use page-locked memory.

    Raises:
        Exception: any exception raised while reading images, when its batch is requested.

    Example:
        >>> images = np.arange(3 * 4, dtype=np.uint8).reshape(3, 1, 2, 2)
        >>> [
        ...     batch[:, 0, 0, 0].tolist()
        ...     for batch in read_ahead(images, [[2, 0], [1]], torch.device("cpu"))
        ... ]
        [[8, 0], [4]]
    """
    with ThreadPoolExecutor(1, thread_name_prefix="images") as reader:
        coming = (reader.submit(_read, images, some, device) for some in batches)
        try:
            being_read = deque(itertools.islice(coming, AHEAD))
            while being_read:
                pixels = being_read.popleft().result()
                being_read.extend(itertools.islice(coming, 1))
                # torch ensures that the memory of a page-locked batch is not reused before its copy
                # has finished.
                yield pixels.to(device, non_blocking=True)
        finally:
            reader.shutdown(cancel_futures=True)


def _read(images: ndarray, numbers: ndarray, device: torch.device) -> Tensor:
    pixels = torch.from_numpy(images[numbers])
    if device.type != "cuda":
        return pixels
    # The current device is per thread, and page-locking creates a context on it.
    with torch.cuda.device(device):
        return pixels.pin_memory()


def statistics_of(images: ndarray, chosen: ndarray) -> tuple[list[float], list[float]]:
    """Return each channel's mean and standard deviation, in [0, 1], over selected uint8 images (n,
    channels, H, W).

    Example:
        >>> statistics_of(np.array([0, 0, 255, 255], np.uint8).reshape(1, 1, 2, 2), np.array([0]))
        ([0.5], [0.5])
    """
    # Computed from counts of the 256 values: exact in any order, so only a few images are in memory
    # at a time.
    counts = torch.zeros(images.shape[1], 256, dtype=torch.int64)
    for start in range(0, len(chosen), COUNTED_AT_ONCE):
        some = torch.from_numpy(images[chosen[start : start + COUNTED_AT_ONCE]])
        counts += torch.stack(
            [torch.bincount(channel.flatten(), minlength=256) for channel in some.unbind(1)]
        )
    values = np.broadcast_to(np.arange(256) / 255, counts.shape)
    means = np.average(values, axis=1, weights=counts)
    variances = np.average((values - means[:, None]) ** 2, axis=1, weights=counts)
    return means.tolist(), np.sqrt(variances.clip(min=1e-8)).tolist()
