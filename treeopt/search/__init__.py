"""Numbers only: from ranks to growth, from growth and latency to a choice. Nothing here loads torch."""
