"""The processes that train together, as `torchrun` tells each of them."""

import os


def world_size() -> int:
    """Processes that train together, as `torchrun` says."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Whether this process writes files and prints: the first of those that `torchrun` started, or the only one."""
    return world_size() == 1 or os.environ.get("RANK") == "0"


def part() -> None:
    """Wait for the others, then leave their group: a process that just ends may be aborted, or abort them."""
    if world_size() > 1:
        from torch import distributed

        if distributed.is_initialized():
            distributed.barrier()
            distributed.destroy_process_group()
