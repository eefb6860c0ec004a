"""Estimate how long training the shipped studies takes on one GPU, with the cost model that orders
the runs; needs no data.

    python benchmarks/gpu_hours.py config/studies/*.yaml

Studies that train on a CPU are left out. Frozen towers are counted once per study. Evaluation is
not included.
"""

import sys

from trueneg.config.order import image_cost, image_count, relative_cost, text_cost
from trueneg.config.reading import read_configuration
from trueneg.config.runs import all_runs, features_key, frozen_towers
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.sections import RunSettings, Section

SUSTAINED = 1e14  # assumed sustained operations per second of a GPU


def features_cost(settings: RunSettings, made_of: Section) -> float:
    """Estimate the GFLOP of computing the vectors of a frozen tower, once for all runs that use it.
    The number of images or texts is taken for that of training images.
    """
    tower = {**made_of["tower"], "train": "all"}
    count = 0 if tower["name"] == "vectors" else image_count(settings["dataset"])
    if made_of["samples"] == "texts":
        return count * text_cost(tower)
    return count * (1 + (tower.get("views") or 0)) * image_cost({**settings, "encoder": tower})


def main() -> None:
    print(f"| file | study | runs | hours at {SUSTAINED / 1e12:.0f} TFLOP/s |")
    print("|---|---|--:|--:|")
    for path in sys.argv[1:]:
        for name, study in read_configuration([path]).studies.items():
            if isinstance(study, TrainedStudy) and study.training.device != "cpu":
                runs = all_runs(name, study)
                computed = [
                    (run.settings, made)
                    for run in runs
                    for made in frozen_towers(run.settings).values()
                ]
                once = {
                    features_key(made): features_cost(settings, made) for settings, made in computed
                }
                operations = sum(3e9 * relative_cost(run.settings) for run in runs) + 1e9 * sum(
                    once.values()
                )
                hours = operations / SUSTAINED / 3600
                print(f"| {path} | {name} | {len(runs)} | {hours:.0f} |")


if __name__ == "__main__":
    main()
