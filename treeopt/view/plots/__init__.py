"""Plots, each in two halves: an info (numbers in a table) and a drawing of it on Axes, which never saves."""
