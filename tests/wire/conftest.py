"""Properties are tried without a time limit for each example: other work may slow the machine."""

import os

from hypothesis import settings

if os.environ.get("CI") != "true":  # there hypothesis has a profile of its own
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")
