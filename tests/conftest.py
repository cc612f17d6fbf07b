"""Settings for all tests: hypothesis never fails a test for being slow, and repeats its examples in CI."""

import os

from hypothesis import settings

settings.register_profile("treeopt", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("treeopt")
