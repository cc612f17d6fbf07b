"""The model room: backbone, heads, key/value cache and every torch file.

Only this room and `train` import transformers.
"""
