"""Train with several processes, one device each: split batches and keep the processes synchronised.

Every process draws the whole batch (from identically seeded generators), encodes its part, gathers
the embeddings of the others with gradients, and computes the loss of the whole batch. All
objectives and monitors therefore have the same values as with one process, and all processes hold
the same weights after each update.
"""

import datetime
import functools
import logging
import logging.handlers
import math
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from trueneg.errors import UserError
from trueneg.losses.execution import gathered
from trueneg.runtime.processes import end_with, without_main_script

PATIENCE = 600.0  # seconds that a process waits for the others in a collective operation
ACTIVATION = "act"  # attribute of timm's BatchNormAct2d, which normalises, drops and activates
GRACE = 2.0  # seconds for the other processes to report their own failures

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Processes:
    """The processes of a training job and the rank of this one; by default a single process, for
    which the methods do nothing.

    Attributes:
        rank: rank of this process, from 0.
        count: number of processes.
    """

    rank: int = 0
    count: int = 1

    @property
    def patience(self) -> float:
        """Seconds that this process may keep the others waiting; without others, any number.

        Example:
            >>> Processes().patience, Processes(0, 2).patience
            (inf, 300.0)
        """
        return math.inf if self.count == 1 else PATIENCE / 2

    def part(self, batch: Tensor) -> Tensor:
        """Return this process's equal share of a batch that is the same on all processes; B must be
        divisible by ``count``.

        Example:
            >>> Processes(1, 2).part(torch.arange(8))
            tensor([4, 5, 6, 7])
        """
        return batch.chunk(self.count)[self.rank]

    def whole(self, part: Tensor) -> Tensor:
        """Gather the :meth:`part` of every process into the whole batch, in its original order,
        with gradients.

        If every process computes the loss of the whole batch, :meth:`average_gradients` gives the
        single-process gradient.
        """
        return part if self.count == 1 else gathered(part)[0].flatten(0, 1)

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum of the values of all processes, without gradients."""
        if self.count > 1:
            value = value.detach().clone()
            distributed.all_reduce(value)
        return value

    def same(self, value: Any) -> Any:
        """Broadcast the first process's value to all processes."""
        if self.count == 1:
            return value
        shared = [value]
        distributed.broadcast_object_list(shared, src=0)
        return shared[0]

    @torch.no_grad()
    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace the gradients with their mean over all processes, using one all-reduce."""
        if self.count == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        flat /= self.count
        for gradient, mean in zip(
            gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True
        ):
            gradient.copy_(mean.view_as(gradient))

    def share_state(self, training: Any) -> None:
        """Copy the first process's training state (see
        :class:`~trueneg.runtime.checkpoint.Checkpoint`) to all processes.
        """
        if self.count > 1:
            state = self.same(training.state() if self.rank == 0 else None)
            if self.rank > 0:
                training.load_state(*state)


ALONE = Processes()
Work = Callable[[torch.device, Processes], None]


def run_distributed(work: Work, device_type: str, count: int, patience: float = PATIENCE) -> None:
    """Run `work` in several communicating processes; this process handles their log records, and
    they exit when it exits.

    Args:
        work: picklable function.
        device_type: ``"cpu"`` or ``"cuda"``; each process uses the visible device with the index of
            its rank.
        count: number of processes.
        patience: seconds that a process waits for the others in a collective operation.

    Raises:
        UserError: if a process raised one, or was killed.
        RuntimeError: if a process raised another error; the message contains its traceback.
    """
    context = multiprocessing.get_context("spawn")
    records = context.Queue()
    user_errors = context.SimpleQueue()
    # A logger can stand in for a handler: it handles the records as if they had been logged in this
    # process.
    logger: Any = logging.getLogger("trueneg")  # a logger handles records, as a handler does
    listener = logging.handlers.QueueListener(records, logger)
    with tempfile.TemporaryDirectory(prefix="trueneg-") as folder:
        arguments = (
            count,
            work,
            device_type == "cuda",
            patience,
            f"file://{folder}/meeting",
            records,
            user_errors,
        )
        with without_main_script():
            workers: Any = multiprocessing.start_processes(
                _work, arguments, count, join=False, daemon=True
            )
        log.info(f"{count} processes share each batch")
        listener.start()
        try:
            while not workers.join(grace_period=GRACE):
                pass
        except (ProcessRaisedException, ProcessExitedException) as error:
            # the other processes' errors may only be consequences of this one
            if not user_errors.empty():
                raise user_errors.get() from None
            name = f"worker {error.error_index + 1}/{count}"
            if isinstance(error, ProcessRaisedException) or error.signal_name is None:
                raise RuntimeError(f"{name} failed: {error.msg}") from None
            raise UserError(
                f"{name} of this training job was killed by {error.signal_name}, and the other"
                " workers were stopped. If it ran out of memory, raise training.mem_mb. Run the"
                " same command again: the job resumes from its checkpoint."
            ) from None
        finally:
            listener.stop()


def _work(
    rank: int,
    count: int,
    work: Work,
    cuda: bool,
    patience: float,
    meeting: str,
    records: Any,
    user_errors: Any,
) -> None:
    """Run one worker process, which sends its log records and user errors to the process that
    started it.
    """
    end_with(os.getppid(), "the process that started this worker")
    logger = logging.getLogger("trueneg")
    logger.setLevel(logging.INFO if rank == 0 else logging.WARNING)
    logger.addHandler(logging.handlers.QueueHandler(records))
    device = torch.device("cpu")
    backend = "gloo"
    if cuda:
        device = torch.device("cuda", rank)
        backend = "nccl"
        torch.cuda.set_device(device)
    timeout = datetime.timedelta(seconds=patience)
    distributed.init_process_group(
        backend, init_method=meeting, rank=rank, world_size=count, timeout=timeout
    )
    try:
        work(device, Processes(rank, count))
    except UserError as error:
        user_errors.put(error)
        raise
    distributed.destroy_process_group()


def synchronise_norms(network: nn.Module) -> None:
    """Synchronise the batch normalisation layers of a network across processes, which must have
    equal numbers of samples.

    torch's SyncBatchNorm works only on GPUs.

    Raises:
        UserError: if a layer does more than normalise, and is not timm's ``BatchNormAct2d``.
    """
    plain = nn.modules.batchnorm._BatchNorm
    for layer in network.modules():
        if isinstance(layer, plain):
            if type(layer).forward is not plain.forward and not hasattr(layer, ACTIVATION):
                raise UserError(
                    f"training.devices is more than 1, but the network contains"
                    f" {type(layer).__name__}, whose statistics cannot be synchronised across"
                    " devices; set training.devices to 1, or choose another encoder."
                )
            replaced: Any = layer  # for this layer only
            replaced.forward = functools.partial(_synchronised_norm, layer)


def _synchronised_norm(layer: Any, batch: Tensor) -> Tensor:
    """Normalise a (B, C, …) batch with the statistics of all processes; timm's layers then drop
    and activate.
    """
    if not layer.training:
        return type(layer).forward(layer, batch)
    dimensions = [0, *range(2, batch.dim())]
    values = batch.float() if batch.dtype in (torch.float16, torch.bfloat16) else batch
    variance, mean = torch.var_mean(values, dimensions, correction=0)
    means, variances = gathered(torch.stack([mean, variance]))[0].unbind(1)
    mean = means.mean(0)
    variance = (variances + (means - mean).square()).mean(0)
    if layer.track_running_stats:
        count = batch.numel() // batch.shape[1] * len(means)
        with torch.no_grad():
            layer.num_batches_tracked += 1
            layer.running_mean.lerp_(mean.to(layer.running_mean.dtype), layer.momentum)
            layer.running_var.lerp_(
                (variance * count / (count - 1)).to(layer.running_var.dtype), layer.momentum
            )
    shape = (1, -1, *(1 for _ in dimensions[1:]))
    scale = torch.rsqrt(variance + layer.eps) * layer.weight
    normalised = (values - mean.view(shape)) * scale.view(shape) + layer.bias.view(shape)
    normalised = normalised.to(batch.dtype)
    return layer.act(layer.drop(normalised)) if hasattr(layer, ACTIVATION) else normalised
