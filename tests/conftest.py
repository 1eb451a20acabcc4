"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# Hypothesis would refuse an example that takes 0.2 s, and on a busy machine any may: no test asserts a time.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
