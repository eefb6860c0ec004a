"""What all towers have in common: a vector per sample, regions where the network has them, and
which blocks are trained.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

from trueneg.errors import UserError

# parameters of a transformer that precede its layers
STEM = re.compile(r"embed|shared|relative|conv1|ln_pre|\bw[tp]e\b|\bcls_emb\b")


class Embedded(NamedTuple):
    """Vectors of B samples, not normalised: the output of a tower, or embeddings in the shared
    space.

    Attributes:
        pooled: (B, D), one vector per sample.
        regions: (B, D, h, w), one vector per region, comparable with ``pooled``; None: there are
            none, or they are not needed.
    """

    pooled: Tensor
    regions: Tensor | None = None


class Tower(nn.Module):
    """Base class of towers. A tower is built in evaluation mode, with all of its parameters
    trained.

    Attributes:
        dimensions: D, size of a sample's vector.
        grid: rows and columns of the regions; None: the network has no vectors of regions.
        maximum_tokens: maximum length of a text, including start and end tokens; None: images, or
            no limit.
    """

    dimensions: int
    grid: Any = None
    maximum_tokens: int | None = None

    def forward(self, batch: Any) -> Embedded:
        """Embed a batch: pixel values in [0, 1], (B, 1 or 3, H, W), or what :meth:`prepare` returns
        for texts.

        Image towers resize to the size that the network expects, repeat grey images in three
        channels, and normalise them.
        """
        raise NotImplementedError

    def prepare(self, raw: Any) -> Any:
        """Return a batch of texts as the network expects them, on the CPU; for text towers only."""
        raise NotImplementedError

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text before truncation; for text towers only."""
        raise NotImplementedError

    def blocks(self) -> Sequence[nn.Module]:
        """Return the blocks that the library itself lists, from the input to the output; empty if
        it lists none.

        The first is the stem or the embeddings; what belongs to no block follows the last one.
        """
        return ()

    def files(self) -> dict[str, bytes]:
        """Return the files, besides tensors, that are needed to rebuild the network, by relative
        path.
        """
        return {}

    def train(self, mode: bool = True) -> "Tower":
        """Set the mode; blocks that are not trained stay in evaluation mode, so dropout and batch
        norm do not change them.
        """
        super().train(mode)
        for module in self.modules():
            parameters = list(module.parameters())
            if parameters and not any(parameter.requires_grad for parameter in parameters):
                nn.Module.train(module, False)
        return self


def train_only(tower: Tower, train: Any, name: str) -> None:
    """Freeze the parts of a tower that a run does not train.

    Args:
        tower: the tower.
        train: ``"all"``, ``"none"``, or ``{"last": n}``: only the last n blocks and what follows
            them.
        name: the tower's name, for messages.

    Raises:
        UserError: if the library lists no blocks, or fewer.
    """
    if train == "none":
        tower.requires_grad_(False)
    elif isinstance(train, Mapping):
        blocks = tower.blocks()
        count = train["last"]
        if len(blocks) < count:
            if blocks:
                has = f"has {len(blocks)} blocks"
                expected = "all, none or fewer blocks"
            else:
                has = "is not divided into blocks by its library"
                expected = "all or none"
            raise UserError(
                f"{name}.train is last: {count}, but this network {has}; expected {expected}."
            )
        for block in blocks[: len(blocks) - count]:
            block.requires_grad_(False)


def transformer_blocks(network: nn.Module) -> Sequence[nn.Module]:
    """Return the embeddings and the layers of a transformer of open_clip or transformers; empty if
    it is none, or keeps the parts of a layer in several lists, as XLM does.
    """
    lists = [
        (name.rpartition(".")[0], module)
        for name, module in network.named_modules()
        if isinstance(module, nn.ModuleList)
    ]
    parent, layers = lists[0] if lists else ("", ())
    if any(
        place == parent and len(beside) == len(layers) and list(beside.parameters())
        for place, beside in lists[1:]
    ):
        return ()
    stem = nn.ParameterList(
        value for name, value in network.named_parameters() if STEM.search(name)
    )
    for module in network.modules():
        if hasattr(module, "rel_embeddings"):  # DeBERTa's encoder; others end with their LayerNorm
            for name, part in module.named_children():
                stem.extend(part.parameters() if name in ("LayerNorm", "conv") else ())
    return [stem, *layers] if layers else ()


def state_checksum(network: nn.Module) -> str:
    """Return the SHA-256 of a network's tensors and their names."""
    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        digest.update(name.encode() + str(tuple(value.shape)).encode())
        digest.update(value.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()


def as_embedded(features: Embedded | Tensor) -> Embedded:
    """Return an encoder's output, vectors (B, C) or feature maps (B, C, h, w), which are pooled by
    their mean.
    """
    if isinstance(features, Embedded):
        return features
    return Embedded(features) if features.dim() == 2 else Embedded(features.mean((2, 3)), features)
