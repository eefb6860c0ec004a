"""A simulated GPU for machines without one: its tensors have a shape, a type and a device, but no
values.

What runs on the CPU, such as drawing batches, runs as usual. Operations on the simulated device
fail as on a real one if an operand lies on the CPU, and always if they need values: ``.item()``,
``bool()``, ``nonzero``, boolean masks as indices, copies to the CPU. On a real device these work,
but wait for all its work. Indices on the CPU are not found, and autocast is off, because it needs a
driver.
"""

import contextlib
from collections.abc import Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

GPU = torch.device("cuda")
COPY, READ = torch.ops.aten._to_copy.default, torch.ops.aten._local_scalar_dense.default


@contextlib.contextmanager
def pretended_gpu(readable: bool = False) -> Iterator["_Device"]:
    """Let ``cuda`` be used in the block; ``readable`` may be changed within it.

    Args:
        readable: whether values may be copied to the CPU or read, which gives random numbers (for
            integers, 0).
    """
    # The first mode keeps torch from looking for a driver, the second decides where each operation
    # runs.
    with FakeTensorMode(allow_non_fake_inputs=True) as fake, _Device(fake, readable) as device:
        yield device


class _Device(TorchDispatchMode):
    def __init__(self, fake: FakeTensorMode, readable: bool):
        super().__init__()
        self._fake, self.readable = fake, readable

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = kwargs or {}
        # it skips the decomposition into basic operations
        if torch.is_inference_mode_enabled() and function.namespace == "aten":
            with self:
                if (result := function.decompose(*args, **given)) is not NotImplemented:
                    return result
        leaves = tree_leaves((args, given))
        if not any(
            isinstance(leaf, FakeTensor) or (isinstance(leaf, torch.device) and leaf.type == "cuda")
            for leaf in leaves
        ):
            with _disable_current_modes():  # all on the CPU
                return function(*args, **given)
        to_cpu = function is COPY and torch.device(given.get("device") or GPU).type == "cpu"
        if to_cpu and not self.readable:
            raise AssertionError("a tensor is copied from the GPU")
        if self.readable and (to_cpu or function is READ):
            with _disable_current_modes():
                values = _values(args[0].shape, given.get("dtype") or args[0].dtype)
                return values if to_cpu else values.item()
        with self._fake:
            if function is COPY and not isinstance(args[0], FakeTensor):
                args = (self._fake.from_tensor(args[0]), *args[1:])
            return function(*args, **given)


def without_driver(monkeypatch) -> None:
    """Replace what needs a driver: generators of the device, page-locked memory, and gradients,
    which become zeros.
    """
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: None)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: None)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(torch.Tensor, "backward", lambda loss: _give_gradients([loss]))
    monkeypatch.setattr(
        torch.autograd, "backward", lambda tensors, gradients: _give_gradients(tensors)
    )


def _give_gradients(tensors):
    """Set zeros as the gradients of all leaves that the tensors were computed from."""
    waiting, seen = [tensor.grad_fn for tensor in tensors], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
            if hasattr(node, "variable"):
                node.variable.grad = torch.zeros_like(node.variable)


def _values(shape, dtype):
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype)
    return torch.rand(shape).to(dtype)
