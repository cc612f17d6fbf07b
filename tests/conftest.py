"""Settings for all tests: hypothesis never fails a test for being slow, and repeats its examples in CI.

Ctrl-C means what it does at a terminal, also where the tests run in the background, which has it ignored.
"""

import os
import signal

from hypothesis import settings

settings.register_profile("treeopt", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("treeopt")
signal.signal(signal.SIGINT, signal.default_int_handler)
