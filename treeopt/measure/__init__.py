"""Measuring: what the model writes, how well heads guess it, what a step costs and what a tree gains."""
