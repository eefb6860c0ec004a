"""Similarity between a sentence and an image, which is treated as a bag of regions: region scores
and their aggregation.

The log-sum-exp (LSE) and non-local (NL) aggregators are a RECONSTRUCTION. Sample-Specific Debiasing
(2023) takes its similarity from LSE+NL, whose equations are in Wang et al., Using Multiple Instance
Learning to Build Multimodal Representations (IPMI 2023, arXiv:2212.05561, PMC12456966). We could
read only the abstract and public summaries of that paper; the authors' earlier code,
mutual_info_img_txt, has neither aggregator.

Checked: LSE+NL combines a local and a global score, does not depend on the order of the regions,
and uses the correlation between regions (abstract and summaries); our NL attention is that of the
public code of dual-stream multiple-instance learning (Li et al., 2021), except that the code
applies learned linear maps to queries and values and divides by √128.

Not checked, because no equation was at hand: the mean form of LSE and its sharpness r; in NL, the
scale κ, the critical region as the query, and unit-length regions as queries and values; and the
mean of the two scores (with ``combined: losses``, the mean of one loss per score). r and κ
therefore have no default.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torchvision.ops import roi_align

from trueneg.models.towers.tower import Embedded


def heatmaps(texts: Tensor, regions: Tensor) -> Tensor:
    """Return the cosines between each text and the regions of its own image, which are used to
    measure grounding.

    Args:
        texts: (B, D).
        regions: (B, D, h, w).

    Returns:
        (B, h, w), in [−1, 1].

    Example:
        >>> heatmaps(torch.tensor([[2.0, 0.0]]), torch.tensor([[[[1.0, 3.0]], [[0.0, 4.0]]]]))
        tensor([[[1.0000, 0.6000]]])
    """
    return torch.einsum(
        "bd,bdhw->bhw", functional.normalize(texts, dim=1), functional.normalize(regions, dim=1)
    )


def log_sum_exp(scores: Tensor, sharpness: float) -> Tensor:
    r"""Compute a soft maximum over the last dimension: the mean form of log-sum-exp.

    .. math:: \frac{1}{r} \log \frac{1}{N} \sum_n e^{r h_n}

    The result lies between the mean (r → 0) and the maximum (r → ∞). Dividing by N keeps it within
    the range of the scores, as the losses' lower bound requires; the sum form is larger by log(N) /
    r.

    Args:
        scores: (…, N).
        sharpness: r, positive; we could not read the value of Wang et al. (2023).

    Returns:
        (…,).

    Example:
        >>> log_sum_exp(torch.tensor([0.5, 0.5]), sharpness=10.0)
        tensor(0.5000)
    """
    return (torch.logsumexp(scores * sharpness, dim=-1) - math.log(scores.shape[-1])) / sharpness


def non_local(texts: Tensor, scores: Tensor, regions: Tensor, attention_scale: float) -> Tensor:
    r"""Compute the cosine between a text and an average of regions, weighted by similarity to the
    region nearest to the text.

    .. math::

        m = \arg\max_n h_n, \quad A_n =
        \mathrm{softmax}_n\bigl(\kappa \langle r_n, r_m \rangle\bigr), \quad
              s = \cos\Bigl(\sum_n A_n r_n,\; y\Bigr)

    This is the aggregator of dual-stream multiple-instance learning (Li et al., 2021), with the
    critical region chosen by the text. The order of the regions does not matter unless two tie for
    the maximum. Only (I, T, N) weights and (I, T, D) averages are kept in memory, never an (I, T,
    N, D) tensor.

    Args:
        texts: y, (T, D).
        scores: h, (I, T, N).
        regions: r, (I, D, N), of unit length.
        attention_scale: κ. Large values select the critical region alone; 0 gives the mean of all
            regions.

    Returns:
        (I, T), in [−1, 1].
    """
    critical = scores.argmax(2)
    chosen = regions.gather(2, critical[:, None].expand(-1, regions.shape[1], -1))  # (I, D, T)
    attention = (attention_scale * (chosen.mT @ regions)).softmax(2)
    averages = attention @ regions.mT
    return functional.cosine_similarity(averages, texts, dim=2)


class RegionSimilarity(nn.Module):
    r"""Similarity s(text, image) between all texts and all images, from the pooled image, its
    regions, or both.

    ========  ======================================================================================
    part      score
    ========  ======================================================================================
    global    cosine with the pooled image
    lse       :func:`log_sum_exp` of the region scores (local)
    nl        :func:`non_local` average of the regions (global; uses relations between regions)
    ========  ======================================================================================

    LSE+NL is ``"lse+nl"``, a reconstruction (see the module docstring); its parts are averaged
    here. To train on the sum of their two losses instead, use :meth:`parts`. Regions are scaled to
    unit length before attention, so that its inner products are cosines; with κ = 1/√D, as in
    dual-stream multiple-instance learning, attention is then nearly uniform.

    Args:
        aggregation: parts joined by ``+``, such as ``"global"`` or ``"lse+nl"``.
        lse_sharpness: r of :func:`log_sum_exp`; required for ``lse``.
        attention_scale: κ of :func:`non_local`; required for ``nl``.

    Attributes:
        needs_regions: whether region embeddings of the images are required.

    Example:
        >>> images = Embedded(
        ...     pooled=torch.tensor([[1.0, 1.0]]),
        ...     regions=torch.tensor([[[[2.0, 0.0]], [[0.0, 2.0]]]]),
        ... )
        >>> similarity = RegionSimilarity("lse+nl", lse_sharpness=5.0, attention_scale=10.0)
        >>> similarity(torch.tensor([[3.0, 0.0]]), images)  # LSE 0.863, NL 1.000
        tensor([[0.9314]])
    """

    def __init__(
        self,
        aggregation: str,
        *,
        lse_sharpness: float | None = None,
        attention_scale: float | None = None,
    ) -> None:
        super().__init__()
        self.names = tuple(aggregation.split("+"))
        self.lse_sharpness = lse_sharpness or math.nan
        self.attention_scale = math.nan if attention_scale is None else attention_scale
        self.needs_regions = self.names != ("global",)

    def forward(self, anchors: Tensor, columns: Embedded) -> Tensor:
        """Return the mean of the parts, (B, K), in [−1, 1]; for the arguments see :meth:`parts`."""
        return torch.stack(list(self.parts(anchors, columns).values())).mean(0)

    def parts(self, anchors: Tensor, columns: Embedded) -> dict[str, Tensor]:
        """Compute the score of each part for all anchors and columns, in at least float32 even
        under autocast.

        Args:
            anchors: (B, D), texts, not normalised.
            columns: embeddings of K images or, without regions, texts.

        Returns:
            Part → (B, K), in [−1, 1].
        """
        with torch.autocast(anchors.device.type, enabled=False):
            anchors = functional.normalize(_precise(anchors), dim=1)
            scores = {}
            if "global" in self.names:
                units = functional.normalize(_precise(columns.pooled), dim=1)
                scores["global"] = anchors @ units.T
            if self.needs_regions:
                maps: Any = columns.regions
                regions = functional.normalize(_precise(maps).flatten(2), dim=1)  # (K, D, N)
                of_regions = anchors @ regions  # (K, B, N)
                if "lse" in self.names:
                    scores["lse"] = log_sum_exp(of_regions, self.lse_sharpness).T
                if "nl" in self.names:
                    scores["nl"] = non_local(anchors, of_regions, regions, self.attention_scale).T
        return {name: scores[name] for name in self.names}


def box_features(
    regions: Tensor,
    boxes: Sequence[Tensor],
    crop: tuple[int, int],
    *,
    output: int = 7,
    samples: int = 2,
) -> Tensor:
    """Compute one embedding per box: RoIAlign (He et al., 2017) of the region embeddings, averaged
    over its cells.

    With ``aligned=True``, the centre of the first region lies half a cell from the image's edge.
    Boxes are clipped to the crop and scaled by grid / crop in each direction. The papers specify
    neither the output size nor the averaging.

    Args:
        regions: (I, D, h, w).
        boxes: one tensor or array (n_i, 4) per image: corners (x0, y0, x1, y1) in pixels of the
            crop seen by the encoder.
        crop: (height, width) of the crop.
        output: number of RoIAlign cells along each side of a box.
        samples: number of sampling points along each side of a cell.

    Returns:
        (Σ n_i, D), in the order of the boxes.

    Example:
        >>> regions = torch.tensor([[[[1.0, 1.0, 5.0, 5.0]] * 4]])
        >>> box_features(
        ...     regions, [torch.tensor([[64.0, 0.0, 128.0, 128.0]])], crop=(128, 128), output=1
        ... )
        tensor([[5.]])
    """
    regions = _precise(regions)
    height, width = crop
    limits = regions.new_tensor([width, height, width, height])
    to_grid = regions.new_tensor([regions.shape[3] / width, regions.shape[2] / height]).repeat(2)
    clipped = [
        torch.as_tensor(corners).to(regions).reshape(-1, 4).clamp(min=0).minimum(limits)
        for corners in boxes
    ]
    aligned = roi_align(
        regions,
        [corners * to_grid for corners in clipped],
        output,
        sampling_ratio=samples,
        aligned=True,
    )
    return aligned.mean((2, 3))


def _precise(embeddings: Tensor) -> Tensor:
    return embeddings.float() if embeddings.itemsize < 4 else embeddings
