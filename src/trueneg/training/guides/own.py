"""The networks being trained as their own guide."""

from trueneg.training.guides.base import Guide, GuideBatch, Rated


class OwnGuide(Guide):
    """Similarities from the networks being trained, without gradient."""

    def rate(self, batch: GuideBatch) -> Rated:
        return batch.rated()
