"""A tiny CLIP with a ResNet by open_clip, with random weights, and its files."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file


def clip_config(image_size: int = 64) -> dict[str, Any]:
    """Return the configuration of the tiny CLIP."""
    return {
        "embed_dim": 24,
        "quick_gelu": True,
        "vision_cfg": {
            "image_size": image_size,
            "layers": [1, 1, 1, 1],
            "width": 4,
            "head_width": 32,
            "patch_size": None,
        },
        "text_cfg": {
            "context_length": 24,
            "vocab_size": 49408,
            "width": 16,
            "heads": 2,
            "layers": 2,
        },
    }


def tiny_clip(image_size: int = 64) -> Any:
    """Return the model in evaluation mode."""
    import open_clip

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = open_clip.CLIP(**clip_config(image_size))
        # Some norms and biases are initialised to 0, which would hide mistakes.
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point() and name != "logit_scale":
                tensor.add_(0.1 * torch.randn(tensor.shape))
            if name.endswith("running_var"):
                tensor.abs_()
    return network.eval()


def write_clip(folder: Path, network: Any) -> dict[str, str]:
    """Write the files of a CLIP, and return its settings ``model`` and ``weights``."""
    paths = {"model": folder / "tiny.json", "weights": folder / "tiny.safetensors"}
    paths["model"].write_text(json.dumps(clip_config(network.visual.image_size)))
    save_file(
        {name: value.contiguous() for name, value in network.state_dict().items()}, paths["weights"]
    )
    return {key: str(path) for key, path in paths.items()}
