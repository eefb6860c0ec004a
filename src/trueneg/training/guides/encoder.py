"""Frozen towers of other libraries as the guide."""

import torch
from torch import Tensor

from trueneg.training.guides.features import FeatureGuide


class EncoderGuide(FeatureGuide):
    """The cosine of frozen towers' vectors of unaugmented images, of texts, or of both in one space.

    If permuted, each has the vector of another one, drawn at random; equal texts still share a vector.
    """

    def training_features(self) -> dict[str, Tensor]:
        frozen, data, features = self.run.frozen, self.run.data, dict[str, Tensor]()
        for section, stored in frozen.guide.items():
            if section == "encoder":
                rows = {"images": torch.arange(data.counts["images"])}
            else:
                rows = {"sentences": torch.tensor([frozen.rows[text] for text in data.source.sentences["sentence"]])}
            for key, chosen in data.of_training(rows).items():
                if self.settings.get("permuted"):
                    distinct, places = chosen.cpu().unique(return_inverse=True)
                    order = torch.randperm(len(distinct), generator=self.run.generator(f"permuted {section}"))
                    chosen = distinct[order][places]
                # Only the training rows are read; the first version is the sample itself, and the first vector that of all of it.
                features[key] = torch.from_numpy(stored.values[chosen.cpu().numpy(), 0, :, 0]).to(self.run.device)
        return features
