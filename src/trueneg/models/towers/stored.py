"""Stored vectors in place of a frozen tower, with the interfaces of towers, encoders and
augmentations.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from trueneg.models.towers.tower import Embedded, Tower


class StoredTower(Tower):
    """Takes stored vectors apart; it has no weights.

    Args:
        dimensions: D.
        grid: rows and columns of the regions; None: there are none.
    """

    def __init__(self, dimensions: int, grid: Sequence[int] | None = None) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.grid = grid and tuple(grid)

    def forward(self, batch: Tensor) -> Embedded:
        """Return the vectors of samples and regions from (B, D, 1, R), as in stored features."""
        cells = batch.squeeze(2)
        has_regions = self.grid is not None and cells.shape[-1] > 1
        regions = cells[..., 1:].unflatten(2, self.grid) if has_regions else None
        return Embedded(cells[..., 0], regions)


class PooledTower(nn.Module):
    """A tower as the encoder of an image study: only the vectors of whole images.

    Args:
        tower: the tower.
    """

    def __init__(self, tower: Tower) -> None:
        super().__init__()
        self.tower = tower
        self.dimensions = tower.dimensions

    def forward(self, images: Tensor) -> Tensor:
        """Return (B, D)."""
        return self.tower(images).pooled


class StoredViews(nn.Module):
    """Chooses among the stored versions of each sample, in place of an augmentation.

    With a single version, that one is used. With several, training draws from the augmented ones,
    and evaluation uses the sample itself.

    Args:
        versions: V, number of stored versions.
    """

    def __init__(self, versions: int) -> None:
        super().__init__()
        self.versions = versions

    def draw(self, count: int, size: Sequence[int], generator: torch.Generator) -> Tensor:
        """Return the version of each of ``count`` samples, (count, 1), as float32 like the
        parameters of augmentations.
        """
        if self.versions == 1:
            return torch.zeros(count, 1)
        return torch.randint(1, self.versions, (count, 1), generator=generator).float()

    def draw_views(
        self, count: int, size: Sequence[int], generators: Sequence[torch.Generator]
    ) -> list[Tensor]:
        """Return two different versions of each sample."""
        first, second = generators
        versions = [self.draw(count, size, first)]
        shift = torch.randint(1, self.versions - 1, (count, 1), generator=second)
        return [*versions, 1 + (versions[0] - 1 + shift) % (self.versions - 1)]

    def forward(self, images: Tensor, parameters: Tensor) -> Tensor:
        """Return one version, (B, D, 1, R), of stored vectors (B, V, D, R)."""
        return images[
            torch.arange(len(images), device=images.device), parameters[:, 0].long()
        ].unsqueeze(2)

    def normalise(self, images: Tensor) -> Tensor:
        """Return the samples themselves, (B, D, 1, R)."""
        return images[:, 0].unsqueeze(2)

    def evaluated_size(self, size: Sequence[int]) -> tuple[int, int]:
        """Return the height and width of what a stored vector describes: the whole image."""
        return size[0], size[1]
