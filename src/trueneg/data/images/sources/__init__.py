"""Image sources, one module each: ``dataset.source`` is the name of a module in this package.

A module defines ``load(path, *, resolution, download)``, which returns an
:class:`~trueneg.data.images.image_source.ImageSource`, and, if it reads files provided by the user,
``user_files(settings)``, which lists them.
"""
