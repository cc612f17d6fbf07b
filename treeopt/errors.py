"""The errors treeopt raises on purpose. `str(error)` is one line: what is wrong, where, and what to do."""


class TreeoptError(Exception):
    """Anything a user can put right. The command line prints it as one line and exits with 1."""


class InputError(TreeoptError):
    """A file or a value that came from the user is wrong."""


class MismatchError(TreeoptError):
    """Two artifacts do not belong together, such as ranks of one model and heads of another."""


class UnsupportedError(TreeoptError):
    """A model, a layer or a runtime cannot do what was asked."""
