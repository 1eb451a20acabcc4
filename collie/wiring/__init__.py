"""The one package that names every concrete class: which testbed, which store, which content.

A name is loaded with its room (`__init__.pyi`) when it is asked for: `collie status` needs no simulator and no search.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
