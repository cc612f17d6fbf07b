"""The decoding room: tree buffers, position-keyed noise, acceptance rules and the engine."""

from treeopt.decode.engine import Answer, Engine, State
from treeopt.decode.noise import PositionNoise
from treeopt.decode.queue import Request, decode_queue

__all__ = ["Answer", "Engine", "PositionNoise", "Request", "State", "decode_queue"]
