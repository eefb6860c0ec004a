"""How fast this machine trains: assumed, or measured by ``trueneg check --pace`` and kept in the
results folder.
"""

import json
import pkgutil
import platform
import shutil
import time
from pathlib import Path
from typing import Any

from trueneg.cli.planned_data import PlannedData
from trueneg.config.order import relative_cost
from trueneg.config.runs import Run, RunSettings, towers_of
from trueneg.io.downloads import announced
from trueneg.io.files import write_text
from trueneg.runtime.memory import catch_out_of_memory, smaller_batch
from trueneg.specs.kinds import kind_of
from trueneg.specs.kinds.pairs import ImageTextStudy
from trueneg.store.identity import model_of
from trueneg.store.records import read_json

MEASURED_UPDATES = 3
SLOW_UPDATE = 2.0  # seconds; slower updates are not measured
OVERHEAD = 0.01  # seconds of an update besides the networks' operations
SUSTAINED = 1e14  # assumed sustained operations per second of a GPU
CORE = 5e10  # assumed for a core until it is measured
GPU_TOOLS = ("nvidia-smi", "rocm-smi")  # come with the drivers
UPDATES = "a measurement of a few updates on this machine"
ROUGH = "the speed of a ResNet-18 on this machine, roughly"
UNMEASURED = "`trueneg check --pace` measures this machine"
AGAIN = "Delete it; `trueneg check --pace` measures again."


class Pace:
    """The speed of this machine.

    Args:
        results: results folder, which may be shared by several machines.
        measures: measure what was not measured before, and keep it.
    """

    FILE = "pace.json"

    def __init__(self, results: Path, measures: bool = False):
        self._path = results / self.FILE
        self._measures = measures
        self._all: dict[str, Any] = (
            read_json(self._path, dict, AGAIN) if self._path.is_file() else {}
        )
        self._kept: dict[str, Any] = self._all.setdefault(platform.node(), {"updates": {}})
        if measures:
            import torch  # slow to import

            self.has_gpu = torch.cuda.is_available()
        else:
            self.has_gpu = any(map(shutil.which, GPU_TOOLS))

    @property
    def speed(self) -> float:
        """Operations per second of this machine's GPU, or of one of its cores, in the training of
        networks.
        """
        if self._measures and "speed" not in self._kept:
            self._keep("speed", _measured_speed(self.has_gpu))
        return self._kept.get("speed", SUSTAINED if self.has_gpu else CORE)

    @property
    def origin(self) -> str:
        """Where :attr:`speed` comes from."""
        return (
            ROUGH
            if "speed" in self._kept
            else f"an assumed {self.speed / 1e9:,.0f} GFLOP/s; {UNMEASURED}"
        )

    def of_update(self, run: Run, data: PlannedData) -> tuple[float, str]:
        """Return the seconds of an update, and where they come from.

        A few updates are measured if the images were decoded, the weights are on this machine,
        updates are fast, and there are no towers, whose libraries take long to import.
        """
        kind = speed_key(run.settings)
        rough = operations_per_update(run.settings) / self.speed + OVERHEAD
        measurable = data.checksum and rough < SLOW_UPDATE and not towers_of(run.settings)
        if self._measures and measurable and kind not in self._kept["updates"]:
            self._keep("updates", {**self._kept["updates"], kind: _measured_update(run, data)})
        if kind in self._kept["updates"]:
            return self._kept["updates"][kind], UPDATES
        return rough, self.origin

    def _keep(self, key: str, value: Any) -> None:
        self._kept[key] = value
        write_text(self._path, json.dumps(self._all, indent=1))


def speed_key(settings: RunSettings) -> str:
    """Return a key of the settings that determine a run's speed."""
    networks = [
        settings.get(section)
        for section in ("encoder", "text_encoder", "projection", "augmentation")
    ]
    data = [settings["dataset"].get(key) for key in ("source", "path", "resolution")]
    training = [
        settings["training"].get(key, 1) for key in ("batch_size", "threads", "device", "devices")
    ]
    return repr((networks, data, training))


def operations_per_update(settings: RunSettings) -> float:
    """Return the number of operations of an update; a backward pass costs about two forward
    passes.
    """
    return 3e9 * relative_cost(
        {**settings, "training": {**settings["training"], "updates": 1, "epochs": None}}
    )


def _measured_update(run: Run, data: PlannedData) -> float:
    import torch

    from trueneg.runtime.devices import choose_device

    torch.set_num_threads(run.settings["training"]["threads"])
    # needs no language model or features
    objective: Any = model_of({**run.settings, "objective": {"name": "cl"}}, "objective")
    out_of_memory = catch_out_of_memory(
        f"{run.study}, {run.objective}", smaller_batch(run.settings["training"]["batch_size"])
    )
    with announced([]), out_of_memory:
        for updates in (1, MEASURED_UPDATES):  # the first is slower
            training = {
                **run.settings["training"],
                "updates": updates,
                "epochs": None,
                "warmup_updates": 0,
            }
            settings = {
                **run.settings,
                "training": training,
                "objective": objective(name="cl").model_dump(),
            }
            device = choose_device(training["device"])
            training_class = pkgutil.resolve_name(kind_of(settings).TRAINING)
            started = training_class(settings, run.seed, data.source, data.subset, device)
            row = started.train_epoch()
    return float(row["seconds"]) / updates


def _measured_speed(has_gpu: bool) -> float:
    import torch
    from torchvision.models import resnet18

    device, count, side = ("cuda", 256, 112) if has_gpu else ("cpu", 8, 64)
    # another process may use the same core now
    clock = time.perf_counter if has_gpu else time.process_time
    network = resnet18().to(device)
    images = torch.zeros(count, 3, side, side, device=device)
    for _ in range(2):  # the first pass is slower
        began = clock()
        network(images).sum().backward()
        network.conv1.weight.grad.sum().item()  # waits for the GPU
    return 3e9 * ImageTextStudy.PER_PIXEL["resnet18"] * side**2 * count / (clock() - began)
