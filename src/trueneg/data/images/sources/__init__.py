"""Sources of images, one module each, found by being here: the name of the module is what ``dataset.source`` names.

A module has ``load(path, *, resolution, download)``, which gives an :class:`~trueneg.data.images.image_source.ImageSource`, and,
if it reads files of the user's, ``user_files(settings)``, which lists them.
"""
