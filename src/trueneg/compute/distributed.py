"""One training on several processes, a device each: which part of a batch is ours, and what all of them must agree on.

Every process draws the whole batch (from the same generators), encodes its part, and gathers the embeddings of the others with
their gradients; the loss of the whole batch is then computed by each of them. So every objective and every monitor is what it is
on one process, and after each update all processes hold the same weights.
"""

import datetime
import functools
import logging
import logging.handlers
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.multiprocessing.spawn import ProcessExitedException, ProcessRaisedException

from trueneg.compute.processes import end_with, without_main_script
from trueneg.errors import UserError
from trueneg.losses.execution import gathered

PATIENCE = 600.0  # seconds that a process waits for the others in an exchange
GRACE = 2.0  # seconds that the other processes get to report why they failed, too

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Processes:
    """The processes of a training, and which of them this one is; alone by default, where nothing below does anything.

    Attributes:
        rank: ours, from 0.
        count: of all.
    """

    rank: int = 0
    count: int = 1

    def part(self, batch: Tensor, chunks: int = 1) -> Tensor:
        """Our part of a batch: of each of its chunks an equal share, so that a chunk is the same samples for any number of us.

        Args:
            batch: (B, …), the same on all processes.
            chunks: that the batch is encoded in; ``count · chunks`` divides B.

        Example:
            >>> Processes(1, 2).part(torch.arange(8), chunks=2)
            tensor([2, 3, 6, 7])
        """
        if self.count == 1:
            return batch
        share = len(batch) // (chunks * self.count)
        return batch.unflatten(0, (chunks, self.count, share))[:, self.rank].flatten(0, 1)

    def whole(self, part: Tensor, chunks: int = 1) -> Tensor:
        """The batch of which every process gives its :meth:`part`, in the batch's order, with gradients.

        What every process then derives from the whole batch, :meth:`average_gradients` makes the gradient of one process.
        """
        if self.count == 1:
            return part
        everyone = gathered(part)[0].unflatten(1, (chunks, len(part) // chunks))  # (processes, chunks, …)
        return everyone.transpose(0, 1).flatten(0, 2)

    def sum(self, value: Tensor) -> Tensor:
        """The sum of every process's value, without gradients."""
        if self.count > 1:
            value = value.detach().clone()
            distributed.all_reduce(value)
        return value

    def same(self, value: Any) -> Any:
        """The first process's value, for all."""
        if self.count == 1:
            return value
        shared = [value]
        distributed.broadcast_object_list(shared, src=0)
        return shared[0]

    @torch.no_grad()
    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """The mean of every process's gradients, for all, in one exchange."""
        if self.count == 1:
            return
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        flat /= self.count
        for gradient, own in zip(gradients, flat.split([gradient.numel() for gradient in gradients]), strict=True):
            gradient.copy_(own.view_as(gradient))

    def share_state(self, training: Any) -> None:
        """Bring the other processes' runs, :class:`~trueneg.compute.checkpoint.Resumable`, to where the first one's stands."""
        if self.count > 1:
            state = self.same(training.state() if self.rank == 0 else None)
            if self.rank > 0:
                training.load_state(*state)


ALONE = Processes()
Work = Callable[[torch.device, Processes], None]


def run_distributed(work: Work, device_type: str, count: int, patience: float = PATIENCE) -> None:
    """Call `work` in several processes that exchange tensors. They end with this one, however it ends, which logs for them.

    Args:
        work: can be pickled.
        device_type: ``"cpu"`` or ``"cuda"``; each process takes the visible device with its own number.
        count: of processes.
        patience: seconds that a process waits for the others in an exchange.

    Raises:
        UserError: that one of the processes raised; or if one was killed.
        RuntimeError: if one raised another error; with its traceback.
    """
    context = multiprocessing.get_context("spawn")
    records, user_errors = context.Queue(), context.SimpleQueue()
    listener = logging.handlers.QueueListener(records, _Relay())
    with tempfile.TemporaryDirectory(prefix="trueneg-") as folder:
        arguments = (count, work, device_type, patience, f"file://{folder}/meeting", records, user_errors)
        with without_main_script():
            workers: Any = multiprocessing.start_processes(_work, arguments, count, join=False, daemon=True)
        log.info("%d processes share each batch", count)
        listener.start()
        try:
            while not workers.join(grace_period=GRACE):
                pass
        except (ProcessRaisedException, ProcessExitedException) as error:
            if not user_errors.empty():  # other errors may only follow from the end of that process
                raise user_errors.get() from None
            name = f"worker {error.error_index + 1}/{count}"
            if isinstance(error, ProcessRaisedException) or error.signal_name is None:
                raise RuntimeError(f"{name} failed: {error.msg}") from None
            raise UserError(
                f"{name} of this training was ended by {error.signal_name}, so the others were ended too. "
                "If it ran out of memory, raise training.mem_mb. Start again: the training continues from its checkpoint."
            ) from None
        finally:
            listener.stop()


def _work(
    rank: int, count: int, work: Work, device_type: str, patience: float, meeting: str, records: Any, user_errors: Any
) -> None:
    """One process; its log records and user errors go to the one that started it."""
    end_with(os.getppid(), "the process that started this worker")
    logger = logging.getLogger("trueneg")
    logger.setLevel(logging.INFO if rank == 0 else logging.WARNING)
    logger.addHandler(logging.handlers.QueueHandler(records))
    device = torch.device(device_type, rank) if device_type == "cuda" else torch.device(device_type)
    if device_type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group(
        "nccl" if device_type == "cuda" else "gloo",
        init_method=meeting,
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=patience),
    )
    try:
        work(device, Processes(rank, count))
    except UserError as error:
        user_errors.put(error)
        raise
    distributed.destroy_process_group()


class _Relay(logging.Handler):
    """Handles records of other processes as if they were logged here."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger(record.name).handle(record)


def synchronise_norms(network: nn.Module) -> None:
    """Let every batch normalisation within a network see the samples of all processes, each of which has as many.

    torch's SyncBatchNorm works on GPUs only.
    """
    for layer in network.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.forward = functools.partial(_normalised_by_all, layer)  # type: ignore[method-assign]  # of this instance


def _normalised_by_all(layer: Any, batch: Tensor) -> Tensor:
    """Normalised (B, C, …)."""
    if not layer.training:
        return type(layer).forward(layer, batch)
    dimensions = [0, *range(2, batch.dim())]
    values = batch.float() if batch.dtype in (torch.float16, torch.bfloat16) else batch
    own_variance, own_mean = torch.var_mean(values, dimensions, correction=0)
    means, variances = gathered(torch.stack([own_mean, own_variance]))[0].unbind(1)
    mean = means.mean(0)
    variance = (variances + (means - mean).square()).mean(0)
    if layer.track_running_stats:
        count = batch.numel() // batch.shape[1] * len(means)
        with torch.no_grad():
            layer.num_batches_tracked += 1
            layer.running_mean.lerp_(mean.to(layer.running_mean.dtype), layer.momentum)
            layer.running_var.lerp_((variance * count / (count - 1)).to(layer.running_var.dtype), layer.momentum)
    shape = (1, -1, *(1 for _ in dimensions[1:]))
    scale = torch.rsqrt(variance + layer.eps) * layer.weight
    return ((values - mean.view(shape)) * scale.view(shape) + layer.bias.view(shape)).to(batch.dtype)
