"""The decoding room: tree buffers, position-keyed noise, acceptance rules and the engine."""

from treeopt.decode.engine import Answer, Engine, State
from treeopt.decode.noise import PositionNoise

__all__ = ["Answer", "Engine", "PositionNoise", "State"]
