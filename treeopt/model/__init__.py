"""The model room: backbone, heads, key/value cache and every torch file. The only rooms importing transformers are
this one and `train`."""
