"""Which sampler a data loader is: by its name and settings, or from the live object."""

from fastacct.loaders.guide import LoaderGuide, loader_guide, loaders

__all__ = ["LoaderGuide", "loader_guide", "loaders"]
