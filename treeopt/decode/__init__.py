"""The decoding room: tree buffers, position-keyed noise, acceptance rules and the engine."""

from treeopt.decode.accept import GREEDY, Rule, Sampled, Typical
from treeopt.decode.engine import Answer, Engine, State
from treeopt.decode.noise import PositionNoise
from treeopt.decode.queue import Request, decode_queue

__all__ = [
    "GREEDY",
    "Answer",
    "Engine",
    "PositionNoise",
    "Request",
    "Rule",
    "Sampled",
    "State",
    "Typical",
    "decode_queue",
]
